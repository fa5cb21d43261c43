// Rows of a data matrix, dense or CSR, float or double, where the caller's memory already is. This
// file and rows.cpp are the only place that knows which of these a matrix is.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace mm {

template <class T>
struct Dense {
    const T* data;
    std::int64_t n, d, row_stride, column_stride;  // strides in elements
};

template <class T, class I>
struct Csr {
    const T* values;
    const I* indices;
    const I* offsets;
    std::int64_t n, d;
};

using Rows =
    std::variant<Dense<float>, Dense<double>, Csr<float, std::int32_t>, Csr<float, std::int64_t>,
                 Csr<double, std::int32_t>, Csr<double, std::int64_t>>;

inline std::int64_t height(const Rows& rows) {
    return std::visit([](const auto& r) { return r.n; }, rows);
}
inline std::int64_t width(const Rows& rows) {
    return std::visit([](const auto& r) { return r.d; }, rows);
}
inline bool is_sparse(const Rows& rows) { return rows.index() >= 2; }

// Mean of the given rows; zeros for sparse rows, which are never centred.
std::vector<double> mean(const Rows& rows, std::span<const std::int64_t> chosen);

// out[0..d) = row i minus centre, as P.
template <class P>
void scatter(const Rows& rows, std::int64_t i, std::span<const double> centre, P* out);

// Squared norms of the given rows after centring, in float64.
std::vector<double> squared_norms(const Rows& rows, std::span<const std::int64_t> chosen,
                                  std::span<const double> centre);

// What two rows are compared by: every kernel is a function of these numbers.
enum class Measure { dot, manhattan, chi2, minimum };

// The measure of every chosen row with itself.
std::vector<double> self_measure(const Rows& rows, std::span<const std::int64_t> chosen,
                                 Measure measure);

// Chosen rows laid out for tiles of measures: centred, in precision P, contiguous, and compacted in
// place when only some of them are kept. Borrows the caller's memory when it is already so.
template <class P>
class Packed {
 public:
    Packed(const Rows& rows, std::span<const std::int64_t> chosen, std::span<const double> centre);

    std::int64_t size() const { return n_; }
    std::int64_t width() const { return d_; }

    // Keep only the rows at these ascending positions.
    void keep(std::span<const std::int64_t> positions);

    // out (m x count) = measure of m dense rows `a` (m x d) with rows first .. first + count.
    void measure(Measure what, const P* a, std::int64_t m, std::int64_t first, std::int64_t count,
                 P* out) const;

 private:
    std::int64_t n_, d_;
    bool sparse_;
    const P* borrowed_ = nullptr;
    std::vector<P> values_;              // dense rows, or the nonzeros of sparse ones
    std::vector<std::int32_t> indices_;  // sparse only
    std::vector<std::int64_t> offsets_;  // sparse only
};

}  // namespace mm
