#include "predict.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "blas.hpp"
#include "simd.hpp"

namespace mm {

namespace {

constexpr std::int64_t tile_columns = 512;
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
template <class P, class Use>
void for_tiles(const Basis<P>& basis, const Rows& z, std::int64_t first, std::int64_t count,
               Pool& pool, const Use& use, bool upper_only = false) {
    const auto tile_rows = band_rows(z);
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
        room.values.resize(static_cast<std::size_t>(tile_rows * tile_columns));
        for (std::int64_t left = 0; left < basis.size(); left += tile_columns) {
            const auto width = std::min(tile_columns, basis.size() - left);
            if (upper_only && left + width <= first + top) continue;
            basis.tile(room.block, left, width, room.values.data(), room);
            use(top, height, left, width, room.values.data());
        }
    });
}

}  // namespace

void kernel_matrix(const Basis<double>& basis, const Rows& z, std::int64_t first,
                   std::int64_t count, double* out, Pool& pool) {
    for_tiles(basis, z, first, count, pool,
              [&](auto top, auto height, auto left, auto width, const double* values) {
                  for (std::int64_t r = 0; r < height; ++r)
                      std::copy_n(values + r * width, width, out + (top + r) * basis.size() + left);
              });
}

template <class P>
void symmetric_matrix(const Basis<P>& basis, const Rows& z, std::int64_t first, std::int64_t count,
                      P* out, Pool& pool) {
    const auto n = basis.size();
    const auto use = [&](auto band, auto height, auto left, auto width, const P* values) {
        const auto top = first + band;
        for (std::int64_t r = 0; r < height; ++r) {
            const auto from = std::max(left, top + r);
            if (from < left + width)
                std::copy_n(values + r * width + from - left, left + width - from,
                            out + (top + r) * n + from);
        }
        for (auto j = std::max(left, top); j < left + width; ++j)  // long runs of the mirror image
            for (std::int64_t r = 0; r < std::min(height, j - top); ++r)
                out[j * n + top + r] = values[r * width + j - left];
    };
    for_tiles(basis, z, first, count, pool, use, true);
}
template void symmetric_matrix(const Basis<float>&, const Rows&, std::int64_t, std::int64_t, float*,
                               Pool&);
template void symmetric_matrix(const Basis<double>&, const Rows&, std::int64_t, std::int64_t,
                               double*, Pool&);

void combine(const Basis<double>& basis, const Rows& z, std::int64_t first, std::int64_t count,
             const double* coef, std::int64_t q, double* out, Pool& pool) {
    for_tiles(basis, z, first, count, pool,
              [&](auto top, auto height, auto left, auto width, const double* values) {
                  blas::add_ab(height, q, width, values, coef + left * q, out + top * q);
              });
}

}  // namespace mm
