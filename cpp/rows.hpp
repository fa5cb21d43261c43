// Rows of a data matrix, dense or CSR, float or double, where the caller's memory already is. This
// file and rows.cpp are the only place that knows which of these a matrix is.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "panels.hpp"

namespace mm {

template <class T>
struct Dense {
    const T* data;
    std::int64_t n, d, row_stride, column_stride;  // strides in elements
};

// Indices ascend within a row and are below 2^31, also where they are stored in 64 bits.
template <class T, class I>
struct Csr {
    const T* values;
    const I* indices;
    const std::int64_t* offsets;
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
// About how many multiplications of dense rows a dot product of two of these costs.
double mean_work(const Rows& rows);
inline bool is_sparse(const Rows& rows) { return rows.index() >= 2; }

std::vector<std::int64_t> all_rows(const Rows& rows);  // their numbers, 0, 1, ...

// Mean of the given rows; empty for sparse rows, which are never centred.
std::vector<double> mean(const Rows& rows, std::span<const std::int64_t> chosen);

// out[0..d) = row i minus centre, as P.
template <class P>
void scatter(const Rows& rows, std::int64_t i, std::span<const double> centre, P* out);

// Squared norms of the given rows after centring, in float64.
std::vector<double> squared_norms(const Rows& rows, std::span<const std::int64_t> chosen,
                                  std::span<const double> centre);

// What two rows are compared by: every kernel is a function of these numbers. `square` is
// ||u - v||^2 from the differences, which keeps the digits that norms and dot products lose.
enum class Measure { dot, square, manhattan, chi2, minimum };
constexpr int measures = 5;

// The measure of every chosen row with itself.
std::vector<double> self_measure(const Rows& rows, std::span<const std::int64_t> chosen,
                                 Measure measure);

// Room for one sparse row by columns, made at first use; `row` and `places` are left all zeros.
template <class P>
struct Spare {
    std::vector<P> row, values, alone, rest, full;
    std::vector<std::int32_t> places;
};

// Which of a row's measures others will ask for.
struct Wanted {
    bool dots = false, others = true;
};

// Chosen rows laid out for tiles of measures: centred, in precision P, contiguous, and compacted in
// place when only some of them are kept. Borrows the caller's memory when it is already so. Rows
// that many others will be compared with are also laid out for dot products: dense ones in panels,
// sparse ones by columns.
template <class P>
class Packed {
 public:
    // Hold these rows instead, in the memory there is.
    void fill(const Rows& rows, std::span<const std::int64_t> chosen,
              std::span<const double> centre, Wanted wanted = {});

    static constexpr std::int64_t stretch = 1024;  // sparse rows sorted by columns together

    std::int64_t size() const { return n_; }
    std::int64_t width() const { return d_; }
    // How many of these rows to compare with others at a time.
    std::int64_t convenient() const { return column_starts_.empty() ? 128 : stretch; }
    bool has_negative() const;

    // Keep only the rows at these ascending positions.
    void keep(std::span<const std::int64_t> positions);
    Wanted wanted() const { return wanted_; }

    // out (left.size() x count) = measure of the rows of left with rows first .. first + count;
    // `first` is a multiple of 32.
    void measure(Measure what, const Packed& left, std::int64_t first, std::int64_t count, P* out,
                 Spare<P>& spare) const;

 private:
    struct Nonzeros {
        const P* values;
        const std::int32_t* indices;
        std::int64_t count;
    };
    class Unpacked;
    template <Measure what>
    class Placed;

    template <class T>
    bool borrow(const Dense<T>& rows, std::span<const std::int64_t> chosen,
                std::span<const double> centre);
    template <class T, class I>
    void fill_sparse(const Csr<T, I>& rows, std::span<const std::int64_t> chosen);

    const P* row(std::int64_t k) const { return (borrowed_ ? borrowed_ : values_.data()) + k * d_; }
    Nonzeros nonzeros(std::int64_t k) const {
        return {values_.data() + offsets_[k], indices_.data() + offsets_[k],
                offsets_[k + 1] - offsets_[k]};
    }
    void index();
    void dot_by_panels(const Packed& left, std::int64_t first, std::int64_t count, P* out,
                       Spare<P>& spare) const;
    void dot_by_columns(const Packed& left, std::int64_t first, std::int64_t count, P* out,
                        Spare<P>& spare) const;
    void set_apart();
    void gather_full(const Nonzeros& row, P* out) const;
    void dot_by_lookup(const Packed& left, std::int64_t first, std::int64_t count, P* out,
                       Spare<P>& spare) const;
    template <Measure what>
    void pairwise(const Packed& left, std::int64_t first, std::int64_t count, P* out,
                  Spare<P>& spare) const;

    std::int64_t n_ = 0, d_ = 0;
    bool sparse_ = false;
    const P* borrowed_ = nullptr;
    Wanted wanted_;
    Panels<P> panels_;                           // dense rows for dot products
    std::vector<P> values_;                      // dense rows, or the nonzeros of sparse ones
    std::vector<std::int32_t> indices_;          // sparse only
    std::vector<std::int64_t> offsets_;          // sparse only
    std::vector<std::int64_t> column_starts_;    // sparse and indexed only: the same by columns
    std::vector<std::int32_t> place_of_column_;  // in panels_, or -1: it is sorted by columns
    std::int64_t full_ = 0;                      // columns in panels_
    std::vector<std::int32_t> column_rows_;
    std::vector<P> column_values_;
};

}  // namespace mm
