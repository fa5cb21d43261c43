// SciPy's BLAS and LAPACK, reached through the function pointers of scipy.linalg.cython_blas and
// cython_lapack (bindings.cpp fills them in once). Every call is made on one tile by one thread.
#pragma once

#include <cstdint>

namespace mm::blas {

using Gemm = void (*)(char*, char*, int*, int*, int*, double*, double*, int*, double*, int*,
                      double*, double*, int*);

using Potrf = void (*)(char*, int*, double*, int*, int*);
using Potrs = void (*)(char*, int*, int*, double*, int*, double*, int*, int*);

inline Gemm dgemm = nullptr;
inline Potrf dpotrf = nullptr;
inline Potrs dpotrs = nullptr;

// Factor a symmetric n x n matrix in place, of which half is read; false if it is not positive
// definite.
inline bool factor(std::int64_t n, double* a) {
    char half = 'L';
    int size = static_cast<int>(n), failed = 0;
    dpotrf(&half, &size, a, &size, &failed);
    return failed == 0;
}

// Solve for `count` right-hand sides that lie one after the other, in place.
inline void solve(std::int64_t n, const double* factor, std::int64_t count, double* b) {
    char half = 'L';
    int size = static_cast<int>(n), many = static_cast<int>(count), failed = 0;
    dpotrs(&half, &size, &many, const_cast<double*>(factor), &size, b, &size, &failed);
}

// C (m x n) += A (m x k) B (k x n), all row-major and dense.
inline void add_ab(std::int64_t m, std::int64_t n, std::int64_t k, const double* a, const double* b,
                   double* c) {
    char plain = 'N';
    int mm = static_cast<int>(m), nn = static_cast<int>(n), kk = static_cast<int>(k);
    double one = 1;
    dgemm(&plain, &plain, &nn, &mm, &kk, &one, const_cast<double*>(b), &nn, const_cast<double*>(a),
          &kk, &one, c, &nn);
}

// C (m x n) += A' B with A (k x m), B (k x n), all row-major and dense.
inline void add_atb(std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
                    const double* b, double* c) {
    char plain = 'N', turned = 'T';
    int mm = static_cast<int>(m), nn = static_cast<int>(n), kk = static_cast<int>(k);
    double one = 1;
    dgemm(&plain, &turned, &nn, &mm, &kk, &one, const_cast<double*>(b), &nn, const_cast<double*>(a),
          &mm, &one, c, &nn);
}

}  // namespace mm::blas
