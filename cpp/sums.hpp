// Sums of rows, in double.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "simd.hpp"

namespace mm {

// F[p] += sum_r by_r rows_r[p] for p < count: eight rows at a time over as many p as L1 holds.
template <class S>
void add_rows(const std::vector<const S*>& rows, const double* by, double* F, std::int64_t count) {
    constexpr std::int64_t block = 2048;
    const auto m = std::ssize(rows);
    simd([&]() MM_LAMBDA {
        for (std::int64_t start = 0; start < count; start += block) {
            const auto end = std::min(start + block, count);
            std::int64_t r = 0;
            for (; r + 8 <= m; r += 8) {
                const S *a = rows[r], *b = rows[r + 1], *c = rows[r + 2], *d = rows[r + 3];
                const S *e = rows[r + 4], *f = rows[r + 5], *g = rows[r + 6], *h = rows[r + 7];
                const double s = by[r], t = by[r + 1], u = by[r + 2], v = by[r + 3];
                const double w = by[r + 4], x = by[r + 5], y = by[r + 6], z = by[r + 7];
                for (std::int64_t p = start; p < end; ++p)
                    F[p] += ((s * a[p] + t * b[p]) + (u * c[p] + v * d[p])) +
                            ((w * e[p] + x * f[p]) + (y * g[p] + z * h[p]));
            }
            for (; r < m; ++r) {
                const S* a = rows[r];
                const double x = by[r];
                for (std::int64_t p = start; p < end; ++p) F[p] += x * a[p];
            }
        }
    });
}

}  // namespace mm
