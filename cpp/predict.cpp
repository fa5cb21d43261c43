#include "predict.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "blas.hpp"
#include "simd.hpp"

namespace mm {

namespace {

constexpr std::int64_t line = 8;              // doubles
constexpr std::int64_t aligned = 32;          // columns: tiles begin at multiples
constexpr std::int64_t band_bytes = 8 << 20;  // a thread's copy of the rows of one band

// Rows of a band: 64, or fewer of very wide ones (a divisor of 64: callers cut at multiples of it).
std::int64_t band_rows(const Rows& z) {
    std::int64_t rows = 64;
    while (rows > 8 && !is_sparse(z) && rows * width(z) * 8 > band_bytes) rows /= 2;
    return rows;
}

// Rows to predict on come unchecked, unlike those of a basis.
template <class P>
void check(const Block<P>& block, const Program& program) {
    if (program.needs_nonnegative() && block.rows.has_negative())
        throw std::invalid_argument(
            "Chi2 and HistogramIntersection need non-negative data; X has negative cells.");
}

// Calls use(first row of z, rows, first column, columns, values) for every tile; tasks are bands of
// rows, so that all tiles of one band come in order from one thread.
template <class T, class P, class Use>
void for_tiles(const Basis<P>& basis, const Rows& z, std::int64_t first, std::int64_t count,
               Pool& pool, const Use& use, bool upper_only = false) {
    const auto tile_rows = band_rows(z), tile_columns = 4 * basis.convenient();
    const auto bands = (count + tile_rows - 1) / tile_rows;
    std::vector<Workspace<P>> rooms(static_cast<std::size_t>(pool.threads()));
    const auto work = count * basis.size() * (basis.width() + 16);
    pool.run(bands, work, [&](std::int64_t band, int worker) {
        auto& room = rooms[worker];
        const auto top = band * tile_rows, height = std::min(tile_rows, count - top);
        std::vector<std::int64_t> ids(static_cast<std::size_t>(height));
        std::iota(ids.begin(), ids.end(), first + top);
        basis.fill(room.block, z, ids);
        check(room.block, basis.program());
        T* values = room.template room<T>(tile_rows * tile_columns);
        const auto start = upper_only ? (first + top) / aligned * aligned : 0;
        for (auto left = start; left < basis.size(); left += tile_columns) {
            const auto width = std::min(tile_columns, basis.size() - left);
            basis.tile(room.block, left, width, values, room);
            use(top, height, left, width, values);
        }
    });
}

}  // namespace

void kernel_matrix(const Basis<double>& basis, const Rows& z, std::int64_t first,
                   std::int64_t count, double* out, Pool& pool) {
    for_tiles<double>(basis, z, first, count, pool,
                      [&](auto top, auto height, auto left, auto width, const double* values) {
                          for (std::int64_t r = 0; r < height; ++r)
                              std::copy_n(values + r * width, width,
                                          out + (top + r) * basis.size() + left);
                      });
}

template <class T, class P>
void symmetric_matrix(const Basis<P>& basis, const Rows& z, T* out, Pool& pool) {
    const auto n = basis.size();
    const auto use = [&](auto top, auto height, auto left, auto width, const T* values) {
        for (std::int64_t r = 0; r < height; ++r) {
            const auto from = std::max(left, top + r);
            if (from < left + width)
                std::copy_n(values + r * width + from - left, left + width - from,
                            out + (top + r) * n + from);
        }
        const auto end = left + width;  // the mirror image, as many columns as a line of cache has
        for (auto first = std::max(left, top); first < end; first += line) {
            const auto last = std::min(first + line, end);
            for (std::int64_t r = 0; r < std::min(height, last - top); ++r)
                for (auto j = std::max(first, top + r + 1); j < last; ++j)
                    out[j * n + top + r] = values[r * width + j - left];
        }
    };
    for_tiles<T>(basis, z, 0, n, pool, use, true);
}
template void symmetric_matrix(const Basis<float>&, const Rows&, float*, Pool&);
template void symmetric_matrix(const Basis<double>&, const Rows&, float*, Pool&);
template void symmetric_matrix(const Basis<double>&, const Rows&, double*, Pool&);

namespace {

// The sum of count products, in eight lanes.
template <class P>
MM_INLINE double dot(const P* a, const double* b, std::int64_t count) {
    double lane[8] = {};
    std::int64_t k = 0;
    for (; k + 8 <= count; k += 8)
        for (int t = 0; t < 8; ++t) lane[t] += static_cast<double>(a[k + t]) * b[k + t];
    for (; k < count; ++k) lane[0] += static_cast<double>(a[k]) * b[k];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

// out (height x q) += values (height x width) coef (width x q).
template <class P>
void add_product(std::int64_t height, std::int64_t width, std::int64_t q, const P* values,
                 const double* coef, double* out) {
    if constexpr (sizeof(P) == 8)
        if (q > 1) return blas::add_ab(height, q, width, values, coef, out);
    simd([&]() MM_LAMBDA {
        for (std::int64_t r = 0; r < height; ++r) {
            if (q == 1) {
                out[r] += dot(values + r * width, coef, width);
                continue;
            }
            for (std::int64_t j = 0; j < width; ++j)
                for (std::int64_t c = 0; c < q; ++c)
                    out[r * q + c] += static_cast<double>(values[r * width + j]) * coef[j * q + c];
        }
    });
}

}  // namespace

template <class T, class P>
void combine(const Basis<P>& basis, const Rows& z, std::int64_t first, std::int64_t count,
             const double* coef, std::int64_t q, double* out, Pool& pool) {
    constexpr std::int64_t few = 16;
    const auto n = basis.size();
    std::vector<double> columns;  // of coef, where a product at a time is the fastest way
    if (sizeof(T) == 4 && q > 1 && q <= few)
        for (std::int64_t c = 0; c < q; ++c)
            for (std::int64_t j = 0; j < n; ++j) columns.push_back(coef[j * q + c]);
    for_tiles<T>(basis, z, first, count, pool,
                 [&](auto top, auto height, auto left, auto width, const T* values) {
                     if (columns.empty())
                         return add_product(height, width, q, values, coef + left * q,
                                            out + top * q);
                     simd([&]() MM_LAMBDA {
                         for (std::int64_t r = 0; r < height; ++r)
                             for (std::int64_t c = 0; c < q; ++c)
                                 out[(top + r) * q + c] +=
                                     dot(values + r * width, columns.data() + c * n + left, width);
                     });
                 });
}
template void combine<float>(const Basis<float>&, const Rows&, std::int64_t, std::int64_t,
                             const double*, std::int64_t, double*, Pool&);
template void combine<float>(const Basis<double>&, const Rows&, std::int64_t, std::int64_t,
                             const double*, std::int64_t, double*, Pool&);
template void combine<double>(const Basis<double>&, const Rows&, std::int64_t, std::int64_t,
                              const double*, std::int64_t, double*, Pool&);

// Rows are cut into stripes, each with sums of its own, which are added up in order at the end: the
// same bits with any number of threads.
void symmetric_combine(const Basis<double>& basis, const Rows& z,
                       std::span<const std::int64_t> chosen, const double* coef, double* out,
                       Pool& pool) {
    constexpr std::int64_t most = 64, band = 64;
    const auto columns = 4 * basis.convenient();
    const auto n = basis.size(), bands = (n + band - 1) / band;
    const auto stripes = std::min(bands, most);
    std::vector<std::vector<double>> sums(static_cast<std::size_t>(stripes));
    std::vector<Workspace<double>> rooms(static_cast<std::size_t>(pool.threads()));
    pool.run(stripes, n * n / 2 * (basis.width() + 16), [&](std::int64_t stripe, int worker) {
        auto& room = rooms[worker];
        auto& sum = sums[stripe];
        sum.resize(static_cast<std::size_t>(n), 0.0);
        double* values = room.room<double>(band * columns);
        for (auto b = stripe; b < bands; b += stripes) {
            const auto top = b * band, height = std::min(band, n - top);
            basis.fill(room.block, z, chosen.subspan(top, height));
            for (auto left = top; left < n; left += columns) {
                const auto width = std::min(columns, n - left);
                basis.tile(room.block, left, width, values, room);
                simd([&]() MM_LAMBDA {
                    for (std::int64_t r = 0; r < height; ++r) {
                        const auto i = top + r, skip = std::max<std::int64_t>(i - left, 0);
                        if (skip >= width) continue;
                        const double* row = values + r * width;
                        sum[i] += dot(row + skip, coef + left + skip, width - skip);
                        const auto from = i >= left ? skip + 1 : skip;  // the diagonal counts once
                        for (auto j = from; j < width; ++j) sum[left + j] += row[j] * coef[i];
                    }
                });
            }
        }
    });
    std::fill_n(out, n, 0.0);
    for (const auto& sum : sums)
        for (std::int64_t i = 0; i < n; ++i) out[i] += sum[i];
}

}  // namespace mm
