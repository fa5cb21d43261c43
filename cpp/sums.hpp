// Sums of rows, in double.
#pragma once

#include <cstdint>
#include <vector>

#include "simd.hpp"

namespace mm {

// F[p] += sum_r by_r rows_r[p] for p < count.
template <class S>
void add_rows(const std::vector<const S*>& rows, const double* by, double* F, std::int64_t count) {
    const auto m = std::ssize(rows);
    simd([&]() MM_LAMBDA {
        std::int64_t r = 0;
        for (; r + 4 <= m; r += 4) {
            const S *a = rows[r], *b = rows[r + 1], *c = rows[r + 2], *d = rows[r + 3];
            const double x = by[r], y = by[r + 1], z = by[r + 2], w = by[r + 3];
            for (std::int64_t p = 0; p < count; ++p)
                F[p] += (x * a[p] + y * b[p]) + (z * c[p] + w * d[p]);
        }
        for (; r < m; ++r)
            for (std::int64_t p = 0; p < count; ++p) F[p] += by[r] * rows[r][p];
    });
}

}  // namespace mm
