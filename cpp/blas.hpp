// SciPy's BLAS, reached through the function pointers of scipy.linalg.cython_blas (bindings.cpp
// fills them in once). Every call is made on one tile by one thread.
#pragma once

#include <cstdint>

namespace mm::blas {

template <class T>
using Gemm = void (*)(char*, char*, int*, int*, int*, T*, T*, int*, T*, int*, T*, T*, int*);

inline Gemm<float> sgemm = nullptr;
inline Gemm<double> dgemm = nullptr;

inline void call(char* ta, char* tb, int* m, int* n, int* k, float* one, float* a, int* lda,
                 float* b, int* ldb, float* beta, float* c, int* ldc) {
    sgemm(ta, tb, m, n, k, one, a, lda, b, ldb, beta, c, ldc);
}
inline void call(char* ta, char* tb, int* m, int* n, int* k, double* one, double* a, int* lda,
                 double* b, int* ldb, double* beta, double* c, int* ldc) {
    dgemm(ta, tb, m, n, k, one, a, lda, b, ldb, beta, c, ldc);
}

// C (m x n) = A (m x k) B (n x k)^T, all row-major and dense.
template <class T>
void abt(std::int64_t m, std::int64_t n, std::int64_t k, const T* a, const T* b, T* c) {
    char trans = 'T', plain = 'N';
    int mm = static_cast<int>(m), nn = static_cast<int>(n), kk = static_cast<int>(k);
    int ld = kk > 0 ? kk : 1;
    T one = 1, zero = 0;
    call(&trans, &plain, &nn, &mm, &kk, &one, const_cast<T*>(b), &ld, const_cast<T*>(a), &ld, &zero,
         c, &nn);
}

// C (m x n) += A (m x k) B (k x n), all row-major and dense.
template <class T>
void add_ab(std::int64_t m, std::int64_t n, std::int64_t k, const T* a, const T* b, T* c) {
    char plain = 'N';
    int mm = static_cast<int>(m), nn = static_cast<int>(n), kk = static_cast<int>(k);
    T one = 1;
    call(&plain, &plain, &nn, &mm, &kk, &one, const_cast<T*>(b), &nn, const_cast<T*>(a), &kk, &one,
         c, &nn);
}

}  // namespace mm::blas
