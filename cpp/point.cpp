#include "point.hpp"

#include <algorithm>
#include <limits>

#include "simd.hpp"

namespace mm {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double hair = 1e-15;  // relative: rounding of one product

// Conditions stand in choices between doubles, one for each: compilers take others to pieces.

template <class R>
MM_INLINE double total(const R& values) {
    double each[sizeof(R) / sizeof(double)], sum = 0;
    write(each, values);
    for (const double value : each) sum += value;
    return sum;
}

// Where `to` is this, up to rounding, one value, elsewhere the other.
template <class R>
MM_INLINE void choose_near(R& out, const R& to, const R& grown, const R& near, const R& far) {
    const R apart = to > grown ? to - grown : grown - to, size = grown > R{} ? grown : -grown;
    out = apart <= size * hair ? near : far;
}

}  // namespace

bool errors(const Point& at, double* r) {
    return simd([&]<int bytes>(Register<bytes>) MM_LAMBDA {
        using L = Lanes<double, bytes>;
        const Point p = at;
        double* out = r;
        typename L::Values s, kbeta, D, beta, off{};
        for (std::int64_t k = 0; k < p.count; k += L::count) {
            read(s, p.s + k);
            read(kbeta, p.kbeta + k);
            read(D, p.D + k);
            read(beta, p.beta + k);
            const auto error = s - kbeta - D * beta;
            write(out + k, error);
            off += error - error;  // NaN once a term is
        }
        return total(off) == 0;
    });
}

Extremes extremes(const Point& at, const double* r, std::int64_t group) {
    return simd([&]<int bytes>(Register<bytes>) MM_LAMBDA {
        using L = Lanes<double, bytes>;
        const Point p = at;
        const double* from = r;
        const auto lowest = typename L::Values{} - inf, highest = typename L::Values{} + inf;
        typename L::Values beta, l, u, error, high = lowest, low = highest;
        typename L::Values part;
        const auto wanted = typename L::Values{} + static_cast<double>(group);
        for (std::int64_t k = 0; k < p.count; k += L::count) {
            read(beta, p.beta + k);
            read(l, p.l + k);
            read(u, p.u + k);
            read(error, from + k);
            read(part, p.part + k);
            auto up = beta < u ? error : lowest, down = beta > l ? error : highest;
            if (p.groups > 1) {
                up = part == wanted ? up : lowest;
                down = part == wanted ? down : highest;
            }
            high = up > high ? up : high;
            low = down < low ? down : low;
        }
        double tops[L::count], bottoms[L::count];
        write(tops, high);
        write(bottoms, low);
        return Extremes{*std::max_element(tops, tops + L::count),
                        *std::min_element(bottoms, bottoms + L::count)};
    });
}

Value value(const Point& at, const double* r, std::span<const double> multipliers) {
    return simd([&]<int bytes>(Register<bytes>) MM_LAMBDA {
        using L = Lanes<double, bytes>;
        const Point p = at;
        const double* from = r;
        const auto zero = typename L::Values{}, endless = zero + inf;
        typename L::Values s, kbeta, D, beta, l, u, error, dual = zero, gap = zero;
        typename L::Values part;
        for (std::int64_t g = 0; g < std::max<std::int64_t>(p.groups, 1); ++g) {
            const double lambda = p.groups > 0 ? multipliers[g] : 0.0;
            const auto wanted = zero + static_cast<double>(g);
            for (std::int64_t k = 0; k < p.count; k += L::count) {
                read(s, p.s + k);
                read(kbeta, p.kbeta + k);
                read(D, p.D + k);
                read(beta, p.beta + k);
                read(l, p.l + k);
                read(u, p.u + k);
                read(error, from + k);
                read(part, p.part + k);
                error -= lambda;
                const auto size = error > zero ? error : -error;
                const auto room = error > zero ? u - beta : beta - l;
                auto far = room;
                if (!p.flat) {
                    const auto best = D > zero ? size / D : endless;
                    far = best < room ? best : room;
                }
                auto term = size * far - 0.5 * D * far * far;
                term = far < endless ? term : zero;
                gap += p.groups > 1 ? (part == wanted ? term : zero) : term;
                term = beta * (s - 0.5 * kbeta - 0.5 * D * beta);
                dual += p.groups > 1 ? (part == wanted ? term : zero) : term;
            }
        }
        return Value{total(dual), total(gap)};
    });
}

Balance balance(const Point& at, std::int64_t group) {
    return simd([&]<int bytes>(Register<bytes>) MM_LAMBDA {
        using L = Lanes<double, bytes>;
        const Point p = at;
        const auto zero = typename L::Values{};
        typename L::Values beta, sum = zero, size = zero;
        typename L::Values part;
        const auto wanted = zero + static_cast<double>(group);
        for (std::int64_t k = 0; k < p.count; k += L::count) {
            read(beta, p.beta + k);
            read(part, p.part + k);
            beta = part == wanted ? beta : zero;
            sum += beta;
            size += beta > zero ? beta : -beta;
        }
        return Balance{total(sum), total(size)};
    });
}

bool rebound(const double* l_at_1, const double* u_at_1, double box, const double* beta,
             std::int64_t count, double* l, double* u, double* to) {
    return simd([&]<int bytes>(Register<bytes>) MM_LAMBDA {
        using L = Lanes<double, bytes>;
        const double *l_from = l_at_1, *u_from = u_at_1, *beta_from = beta;
        double *l_out = l, *u_out = u, *out = to;
        const double times = box;
        const auto zero = typename L::Values{}, one = zero + 1.0;
        typename L::Values old, low, high, low_then, high_then;
        auto moved = zero;
        for (std::int64_t k = 0, n = count; k < n; k += L::count) {
            read(old, beta_from + k);
            read(low, l_from + k);
            read(high, u_from + k);
            read(low_then, l_out + k);
            read(high_then, u_out + k);
            low *= times;
            high *= times;
            const auto capped = high < old ? high : old;
            const auto inside = capped < low ? low : capped;
            const auto upper = old == high_then ? high : inside;
            const auto next = old == low_then ? low : upper;
            write(l_out + k, low);
            write(u_out + k, high);
            write(out + k, next);
            moved += next == old ? zero : one;
        }
        return total(moved) == 0;
    });
}

Stretch stretched(const double* beta, const double* to, double factor, std::int64_t count) {
    return simd([&]<int bytes>(Register<bytes>) MM_LAMBDA {
        using L = Lanes<double, bytes>;
        const double *from = beta, *there = to;
        const double by = factor;
        const auto zero = typename L::Values{}, one = zero + 1.0;
        typename L::Values old, next, grown;
        auto grow = zero, stay = zero, near = zero;
        for (std::int64_t k = 0, n = count; k < n; k += L::count) {
            read(old, from + k);
            read(next, there + k);
            grown = old * by;
            choose_near(near, next, grown, one, zero);
            grow += near;
            stay += next == old ? one : zero;
        }
        return Stretch{static_cast<std::int64_t>(total(grow)),
                       static_cast<std::int64_t>(total(stay))};
    });
}

void stretch(const double* to, double factor, std::int64_t count, double* beta) {
    simd([&]<int bytes>(Register<bytes>) MM_LAMBDA {
        using L = Lanes<double, bytes>;
        const double* there = to;
        double* out = beta;
        const double by = factor;
        typename L::Values next, grown, chosen;
        for (std::int64_t k = 0, n = count; k < n; k += L::count) {
            read(grown, out + k);
            read(next, there + k);
            grown *= by;
            choose_near(chosen, next, grown, next, grown);
            write(out + k, chosen);
        }
    });
}

}  // namespace mm
