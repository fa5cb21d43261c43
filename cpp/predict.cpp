#include "predict.hpp"

#include <algorithm>
#include <numeric>

#include "blas.hpp"
#include "simd.hpp"

namespace mm {

namespace {

constexpr std::int64_t tile_rows = 64, tile_columns = 512;

// Calls use(first row of z, rows, first column, columns, values) for every tile; tasks are bands of
// rows, so that all tiles of one band come in order from one thread.
template <class Use>
void for_tiles(const Basis<double>& basis, const Rows& z, std::int64_t first, std::int64_t count,
               Pool& pool, const Use& use, bool upper_only = false) {
    const auto bands = (count + tile_rows - 1) / tile_rows;
    pool.run(bands, [&](std::int64_t band, int) {
        thread_local Workspace<double> workspace;
        thread_local std::vector<double> values;
        thread_local Block<double> block;
        const auto top = band * tile_rows, height = std::min(tile_rows, count - top);
        std::vector<std::int64_t> ids(static_cast<std::size_t>(height));
        std::iota(ids.begin(), ids.end(), first + top);
        block.fill(z, ids, basis.centre(), basis.program().uses_distance());
        values.resize(static_cast<std::size_t>(tile_rows * tile_columns));
        for (std::int64_t left = 0; left < basis.size(); left += tile_columns) {
            const auto width = std::min(tile_columns, basis.size() - left);
            if (upper_only && left + width <= top) continue;
            basis.tile(block, left, width, values.data(), workspace);
            use(top, height, left, width, values.data());
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

void symmetric_matrix(const Basis<double>& basis, const Rows& z, double* out, Pool& pool) {
    const auto n = basis.size();
    const auto use = [&](auto top, auto height, auto left, auto width, const double* values) {
        for (std::int64_t r = 0; r < height; ++r)
            for (auto j = std::max(left, top + r); j < left + width; ++j) {
                const double value = values[r * width + j - left];
                out[(top + r) * n + j] = value;
                out[j * n + top + r] = value;
            }
    };
    for_tiles(basis, z, 0, n, pool, use, true);
}

void combine(const Basis<double>& basis, const Rows& z, std::int64_t first, std::int64_t count,
             const double* coef, std::int64_t q, double* out, Pool& pool) {
    for_tiles(basis, z, first, count, pool,
              [&](auto top, auto height, auto left, auto width, const double* values) {
                  blas::add_ab(height, q, width, values, coef + left * q, out + top * q);
              });
}

}  // namespace mm
