// Sums of kernel functions, f(z) = sum_j coef_j k(x_j, z), in float64: prediction, and the product
// of the Gram matrix with a vector.
#pragma once

#include "kernel.hpp"
#include "parallel.hpp"

namespace mm {

// out (count x basis.size()) = k(z_i, x_j) for rows first .. first + count of z.
void kernel_matrix(const Basis<double>& basis, const Rows& z, std::int64_t first,
                   std::int64_t count, double* out, Pool& pool);

// out (n x n) = k(x_i, x_j) over all rows of the basis, which z must be: each pair is computed once
// and written twice, so the matrix is symmetric to the bit.
template <class T, class P>
void symmetric_matrix(const Basis<P>& basis, const Rows& z, T* out, Pool& pool);

// out (count x q) += kernel_matrix coef, with coef (basis.size() x q), all row-major. Sums are
// double also where the kernel values, of type T, are float.
template <class T, class P>
void combine(const Basis<P>& basis, const Rows& z, std::int64_t first, std::int64_t count,
             const double* coef, std::int64_t q, double* out, Pool& pool);

// out (n) = K coef over the rows of the basis, which are the chosen ones of z; each pair once.
void symmetric_combine(const Basis<double>& basis, const Rows& z,
                       std::span<const std::int64_t> chosen, const double* coef, double* out,
                       Pool& pool);

}  // namespace mm
