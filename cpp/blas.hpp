// SciPy's BLAS, reached through the function pointers of scipy.linalg.cython_blas (bindings.cpp
// fills them in once). Every call is made on one tile by one thread.
#pragma once

#include <cstdint>

namespace mm::blas {

using Gemm = void (*)(char*, char*, int*, int*, int*, double*, double*, int*, double*, int*,
                      double*, double*, int*);

inline Gemm dgemm = nullptr;

// C (m x n) += A (m x k) B (k x n), all row-major and dense.
inline void add_ab(std::int64_t m, std::int64_t n, std::int64_t k, const double* a, const double* b,
                   double* c) {
    char plain = 'N';
    int mm = static_cast<int>(m), nn = static_cast<int>(n), kk = static_cast<int>(k);
    double one = 1;
    dgemm(&plain, &plain, &nn, &mm, &kk, &one, const_cast<double*>(b), &nn, const_cast<double*>(a),
          &kk, &one, c, &nn);
}

}  // namespace mm::blas
