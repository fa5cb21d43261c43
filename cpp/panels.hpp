// Rows packed side by side, so that their dot products with others run at the speed of arithmetic:
// element k of all rows of a panel lies together. Every product is summed in the order of its
// elements, so it has the same bits in whatever block, and with whatever thread, it is computed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "memory.hpp"
#include "simd.hpp"

namespace mm {

namespace detail {

// out (height x width) = dot products of `height` rows of a with the first `width` of two vectors'
// worth of rows in a panel that holds `lanes` of them.
template <class P, int bytes, int height>
MM_INLINE void dots(const P* a, std::int64_t d, const P* panel, std::int64_t lanes, P* out,
                    std::int64_t stride, std::int64_t width) {
    constexpr int each = bytes / static_cast<int>(sizeof(P));
#if defined(__GNUC__)
    typedef P Vector __attribute__((vector_size(bytes)));
    Vector sum[height][2] = {};
    for (std::int64_t k = 0; k < d; ++k) {
        Vector left, right;
        std::memcpy(&left, panel + k * lanes, bytes);
        std::memcpy(&right, panel + k * lanes + each, bytes);
        for (int r = 0; r < height; ++r) {
            const P x = a[r * d + k];
            sum[r][0] += x * left;
            sum[r][1] += x * right;
        }
    }
#else
    P sum[height][2 * each] = {};
    for (std::int64_t k = 0; k < d; ++k)
        for (int r = 0; r < height; ++r)
            for (int t = 0; t < 2 * each; ++t) sum[r][t] += a[r * d + k] * panel[k * lanes + t];
#endif
    for (int r = 0; r < height; ++r)
        std::memcpy(out + r * stride, &sum[r], static_cast<std::size_t>(width) * sizeof(P));
}

// The same for up to `most` rows: so few sums fit the registers of an instruction set.
template <class P, int bytes, int most>
MM_INLINE void some_dots(std::int64_t height, const P* a, std::int64_t d, const P* panel,
                         std::int64_t lanes, P* out, std::int64_t stride, std::int64_t width) {
    if constexpr (most == 1) {
        dots<P, bytes, 1>(a, d, panel, lanes, out, stride, width);
    } else if (height == most) {
        dots<P, bytes, most>(a, d, panel, lanes, out, stride, width);
    } else {
        some_dots<P, bytes, most - 1>(height, a, d, panel, lanes, out, stride, width);
    }
}

// Calls f.template operator()<bytes, rows>(): the bytes of a register, and of how many rows the
// sums fit the registers of the best set of instructions.
template <class F>
void with_registers(const F& f) {
#if MM_DISPATCH
    if (isa() == Isa::avx512) return simd([&]() MM_LAMBDA { f.template operator()<64, 8>(); });
    if (isa() == Isa::avx2) return simd([&]() MM_LAMBDA { f.template operator()<32, 6>(); });
#endif
    f.template operator()<16, 4>();
}

}  // namespace detail

// out (m x count) = a (m x d) times b (d x count), whose rows are `stride` apart: a multiple of 16,
// and at least count.
template <class P>
void multiply(const P* a, std::int64_t m, std::int64_t d, const P* b, std::int64_t stride,
              std::int64_t count, P* out) {
    detail::with_registers([&]<int bytes, int most>() MM_LAMBDA {
        constexpr auto step = 2 * bytes / static_cast<std::int64_t>(sizeof(P));
        for (std::int64_t j = 0; j < count; j += step)
            for (std::int64_t r = 0; r < m; r += most)
                detail::some_dots<P, bytes, most>(std::min<std::int64_t>(most, m - r), a + r * d, d,
                                                  b + j, stride, out + r * count + j, count,
                                                  std::min(step, count - j));
    });
}

template <class P>
class Panels {
 public:
    static constexpr std::int64_t lanes = 128 / sizeof(P);  // rows of a panel

    std::int64_t size() const { return n_; }

    // Hold n rows of d numbers, which `row` writes one after the other: row(j, out).
    template <class Row>
    void fill(std::int64_t n, std::int64_t d, const Row& row) {
        n_ = n;
        d_ = d;
        const auto cells = (n + lanes - 1) / lanes * lanes * d;
        if (cells > reserved_) {
            values_ = allocate<P>(cells);
            reserved_ = cells;
        }
        auto rows = allocate<P>(lanes * d);
        for (std::int64_t first = 0; first < n; first += lanes) {
            const auto count = std::min(lanes, n - first);
            for (std::int64_t j = 0; j < count; ++j) row(first + j, rows.get() + j * d);
            std::fill(rows.get() + count * d, rows.get() + lanes * d, P(0));
            P* panel = values_.get() + first * d;
            for (std::int64_t k = 0; k < d; ++k)
                for (std::int64_t j = 0; j < lanes; ++j) panel[k * lanes + j] = rows[j * d + k];
        }
    }

    // Keep only the rows at these ascending positions.
    void keep(std::span<const std::int64_t> positions) {
        n_ = static_cast<std::int64_t>(positions.size());
        for (std::int64_t j = 0; j < n_; ++j)
            if (positions[j] != j)
                for (std::int64_t k = 0; k < d_; ++k) at(j, k) = at(positions[j], k);
    }

    // out (m x count) = dot products of the rows of a with rows first .. first + count, of which
    // the first begins a panel.
    void dots(const P* a, std::int64_t m, std::int64_t first, std::int64_t count, P* out) const {
        detail::with_registers([&]<int bytes, int most>()
                                   MM_LAMBDA { run<bytes, most>(a, m, first, count, out); });
    }

 private:
    P& at(std::int64_t j, std::int64_t k) {
        return values_[(j / lanes * d_ + k) * lanes + j % lanes];
    }

    template <int bytes, int most>
    MM_INLINE void run(const P* a, std::int64_t m, std::int64_t first, std::int64_t count,
                       P* out) const {
        constexpr auto step = 2 * bytes / static_cast<std::int64_t>(sizeof(P));
        for (std::int64_t j = 0; j < count; j += step) {
            const auto place = first + j;
            const P* panel = values_.get() + place / lanes * lanes * d_ + place % lanes;
            const auto width = std::min(step, count - j);
            for (std::int64_t r = 0; r < m; r += most)
                detail::some_dots<P, bytes, most>(std::min<std::int64_t>(most, m - r), a + r * d_,
                                                  d_, panel, lanes, out + r * count + j, count,
                                                  width);
        }
    }

    std::int64_t n_ = 0, d_ = 0, reserved_ = 0;
    Large<P> values_;
};

}  // namespace mm
