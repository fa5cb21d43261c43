#include "tile.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "simd.hpp"

namespace mm {

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr std::int64_t lanes_at_most = 16;
static_assert(whole % (2 * lanes_at_most) == 0);  // passes take two registers at a time
// Entries are off by 2^-24 of their size: a curvature below this share of K_ii + K_jj is not known.
constexpr float least = 2.5e-7f;

constexpr std::int32_t ascending[lanes_at_most] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                   8, 9, 10, 11, 12, 13, 14, 15};

// The largest of the lanes: in halves, which costs the fewest steps.
template <class T, int bytes, class V>
MM_INLINE T largest(const V& values) {
    if constexpr (sizeof(V) <= 16) {
        T each[sizeof(V) / 4];
        write(each, values);
        T top = each[0];
        for (std::size_t t = 1; t < sizeof(V) / 4; ++t) top = each[t] > top ? each[t] : top;
        return top;
    } else {
        using Half =
            std::conditional_t<std::is_same_v<T, float>, typename Lanes<float, bytes / 2>::Values,
                               typename Lanes<float, bytes / 2>::Ints>;
        Half parts[2];
        std::memcpy(parts, &values, sizeof parts);
        return largest<T, bytes / 2>(parts[1] > parts[0] ? parts[1] : parts[0]);
    }
}

// The largest value, and of equals the lowest index.
template <int bytes, class F, class I>
MM_INLINE std::pair<float, std::int64_t> largest_lane(const F& values, const I& index) {
    const float top = largest<float, bytes>(values);
    const F all = F{} + top;
    const I last = I{} + std::numeric_limits<std::int32_t>::min();
    return {top, -std::int64_t{largest<std::int32_t, bytes>(values == all ? -index : last)}};
}

}  // namespace

void Tile::reserve(std::int64_t count) {
    if (count <= stride_) return;
    const auto wide = padded(std::max(count, stride_ + stride_ / 2));
    auto more = allocate<float>(wide * wide);
    for (std::int64_t a = 0; a < size(); ++a) std::copy_n(row(a), size(), more.get() + a * wide);
    K_ = std::move(more);
    stride_ = wide;
}

template <class S>
void Tile::grow(const Dense<S>& K, std::span<const std::int64_t> more) {
    const auto old = size();
    reserve(old + std::ssize(more));
    rows_.insert(rows_.end(), more.begin(), more.end());
    std::vector<std::int64_t> starts;  // of rows side by side
    for (std::int64_t b = 0; b < size(); ++b)
        if (b == 0 || rows_[b] != rows_[b - 1] + 1) starts.push_back(b);
    starts.push_back(size());
    const bool scattered = 8 * std::ssize(starts) > size();
    simd([&, rows = rows_.data(), count = size()]() MM_LAMBDA {
        for (auto a = old; a < count; ++a) {
            const S* from = K.data + rows[a] * K.row_stride;
            float* to = K_.get() + a * stride_;
            for (std::int64_t b = 0; scattered && b < count; ++b)
                to[b] = static_cast<float>(from[rows[b]]);
            for (std::size_t s = 0; !scattered && s + 1 < starts.size(); ++s) {
                const S* run = from + rows[starts[s]] - starts[s];
                for (auto b = starts[s]; b < starts[s + 1]; ++b) to[b] = static_cast<float>(run[b]);
            }
        }
    });
    constexpr std::int64_t block = 16;
    for (std::int64_t start = old; start < size(); start += block)  // as symmetric as K is
        for (std::int64_t b = 0; b < old; ++b)
            for (auto a = start; a < std::min(start + block, size()); ++a)
                K_[b * stride_ + a] = K_[a * stride_ + b];
    const auto end = padded(size());
    for (std::int64_t a = 0; a < size(); ++a)
        std::fill(K_.get() + a * stride_ + size(), K_.get() + a * stride_ + end, 0.0f);
}

template void Tile::grow(const Dense<float>&, std::span<const std::int64_t>);
template void Tile::grow(const Dense<double>&, std::span<const std::int64_t>);

void Tile::keep(std::span<const std::int64_t> some) {
    const auto count = std::ssize(some), end = padded(count);
    for (std::int64_t a = 0; a < count; ++a) {
        const float* from = row(some[a]);
        float* to = K_.get() + a * stride_;
        for (std::int64_t b = 0; b < count; ++b) to[b] = from[some[b]];
        std::fill(to + count, to + end, 0.0f);
        rows_[a] = rows_[some[a]];
    }
    rows_.resize(static_cast<std::size_t>(count));
}

void TileSolver::lay_out(const Tile& tile, const TileProblem& p) {
    size_ = padded(tile.size());
    parts_ = std::max<std::int64_t>(p.groups, 1);
    const auto size = static_cast<std::size_t>(size_);
    rise_.resize(size * static_cast<std::size_t>(parts_));
    fall_.resize(rise_.size());
    curvature_.resize(size);
    // Float is precise near 0, and squares are safe near 1.
    const Point at{nullptr, p.l.data(),    p.u.data(), p.D.data(), p.beta.data(),
                   nullptr, p.part.data(), size_,      p.groups,   false};
    std::vector<double> shift;
    double worst = 0;
    for (std::int64_t g = 0; g < parts_; ++g) {
        const auto [high, low] = extremes(at, p.r.data(), g);
        shift.push_back(p.groups > 0 && std::isfinite(high + low) ? 0.5 * (high + low) : 0.0);
        worst = std::max(worst, p.groups > 0 ? high - low : std::max(high, -low));
    }
    unit_ = worst > 0 && std::isfinite(worst) ? 1 / worst : 1;
    for (std::int64_t g = 0; g < parts_; ++g) mark_all(p, g, shift[g]);
    high_.assign(static_cast<std::size_t>(parts_), {-inf, -1});
    low_.assign(static_cast<std::size_t>(parts_), {inf, -1});
    advance(tile.row(0), 0, tile.row(0), 0);
}

// What mark does, for all variables.
void TileSolver::mark_all(const TileProblem& p, std::int64_t group, double shift) {
    simd([&, n = size_, unit = unit_, wanted = static_cast<double>(group)]() MM_LAMBDA {
        const double *beta = p.beta.data(), *l = p.l.data(), *u = p.u.data(), *r = p.r.data(),
                     *alone = p.curvature.data();
        const double* part = p.part.data();
        float *rise = rise_.data() + group * n, *fall = fall_.data() + group * n,
              *curvature = curvature_.data();
        for (std::int64_t k = 0; k < n; ++k) {
            const bool own = part[k] == wanted;
            const auto value = static_cast<float>(unit * (r[k] - shift));
            rise[k] = own && beta[k] < u[k] ? value : -inf;
            fall[k] = own && beta[k] > l[k] ? value : inf;
            curvature[k] = l[k] < u[k] ? static_cast<float>(alone[k]) : 1.0f;
        }
    });
}

void TileSolver::mark(const TileProblem& p, std::int64_t k, double r) {
    const auto value = static_cast<float>(r);
    const auto at = static_cast<std::int64_t>(p.part[k]) * size_ + k;
    rise_[at] = p.beta[k] < p.u[k] ? value : -inf;
    fall_[at] = p.beta[k] > p.l[k] ? value : inf;
}

// r -= by_a a + by_b b, and the extremes of each part. What the loop reads is copied into it: for
// all the compiler knows, its stores might change what a lambda has captured.
void TileSolver::advance(const float* a, float by_a, const float* b, float by_b) {
    for (std::int64_t g = 0; g < parts_; ++g) {
        float *rises = rise_.data() + g * size_, *falls = fall_.data() + g * size_;
        simd([&, n = size_]<int bytes>(Register<bytes>) MM_LAMBDA {
            using L = Lanes<float, bytes>;
            const float *x_at = a, *y_at = b;
            float *rise = rises, *fall = falls;
            const std::int64_t count = n;
            const auto move_x = typename L::Values{} + by_a, move_y = typename L::Values{} + by_b;
            typename L::Ints now, at_high, at_low;
            read(now, ascending);
            at_high = at_low = now;
            auto high = typename L::Values{} - inf, low = typename L::Values{} + inf;
            typename L::Values x, y, up, down;
            for (std::int64_t k = 0; k < count; k += L::count) {
                read(x, x_at + k);
                read(y, y_at + k);
                read(up, rise + k);
                read(down, fall + k);
                const auto by = move_x * x + move_y * y;
                up -= by;
                down -= by;
                write(rise + k, up);
                write(fall + k, down);
                at_high = up > high ? now : at_high;
                high = up > high ? up : high;
                at_low = down < low ? now : at_low;
                low = down < low ? down : low;
                now += static_cast<std::int32_t>(L::count);
            }
            const auto [top, i] = largest_lane<bytes>(high, at_high);
            const auto [bottom, j] = largest_lane<bytes>(-low, at_low);
            high_[g] = {top, i};
            low_[g] = {-bottom, j};
        });
    }
}

// Fan, Chen & Lin 2005, WSS2: the largest (difference)^2 / curvature, compared without division.
// Every other register is a contest of its own: one would wait for itself.
std::int64_t TileSolver::partner(const float* row, std::int64_t i, std::int64_t group,
                                 float high) const {
    const auto n = size_;
    const float *fall = fall_.data() + group * n, *curvature = curvature_.data();
    const float own = curvature_[i], flat = 2 * least * std::abs(own);
    return simd([&]<int bytes>(Register<bytes>) MM_LAMBDA {
        using L = Lanes<float, bytes>;
        constexpr auto count = L::count;
        typename L::Ints now[2], at[2];
        typename L::Values best[2] = {}, over[2] = {best[0] + 1.0f, best[1] + 1.0f};
        const typename L::Values none{}, lowest = none + flat;
        read(now[0], ascending);
        now[1] = now[0] + static_cast<std::int32_t>(count);
        at[0] = at[1] = typename L::Ints{} - 1;
        for (std::int64_t k = 0; k < n; k += 2 * count)
            for (int half = 0; half < 2; ++half) {
                typename L::Values sum, entry, other;
                read(sum, curvature + k + half * count);
                read(entry, row + k + half * count);
                read(other, fall + k + half * count);
                const auto exact = (sum + own) - 2.0f * entry;
                const auto eta = exact > lowest ? exact : lowest;
                const auto apart = high - other, d = apart > none ? apart : none;
                const auto square = d * d;
                const auto mine = square * over[half], theirs = best[half] * eta;
                const auto better = mine > theirs;
                at[half] = better ? now[half] : at[half];
                over[half] = better ? eta : over[half];
                best[half] = better ? square : best[half];
                now[half] += static_cast<std::int32_t>(2 * count);
            }
        const auto [score, j] = largest_lane<bytes>(best[0] / over[0], at[0]);
        const auto [other, k] = largest_lane<bytes>(best[1] / over[1], at[1]);
        if (!(score > 0 || other > 0)) return std::int64_t{-1};
        return other > score || (other == score && k < j) ? k : j;
    });
}

// One step of SMO: move t from the variable that may fall to the one that should rise.
bool TileSolver::pair_step(const Tile& tile, TileProblem& p, double tol, Outcome& outcome) {
    std::int64_t g = 0;
    for (std::int64_t h = 1; h < parts_; ++h)
        if (high_[h].value - low_[h].value > high_[g].value - low_[g].value) g = h;
    const auto [high, i] = high_[g];
    if (!(high - low_[g].value > tol * unit_)) return false;
    const auto j = partner(tile.row(i), i, g, high);
    if (j < 0) return false;
    const float low = fall_[g * size_ + j];
    const double sum = static_cast<double>(curvature_[i]) + static_cast<double>(curvature_[j]);
    const double eta =
        std::max(sum - 2.0 * static_cast<double>(tile.row(i)[j]), std::abs(sum) * least);
    const double d = (static_cast<double>(high) - static_cast<double>(low)) / unit_;
    const double room_i = p.u[i] - p.beta[i], room_j = p.beta[j] - p.l[j];
    const double t = std::min({d / eta, room_i, room_j});
    if (!(t < HUGE_VAL)) {
        outcome.unbounded = true;
        return false;
    }
    const double old_i = p.beta[i], old_j = p.beta[j];
    p.beta[i] = t == room_i ? p.u[i] : old_i + t;
    p.beta[j] = t == room_j ? p.l[j] : old_j - t;
    const double by_i = p.beta[i] - old_i, by_j = p.beta[j] - old_j;
    if (by_i == 0 && by_j == 0) return false;
    mark(p, i, static_cast<double>(high) - unit_ * p.D[i] * by_i);
    mark(p, j, static_cast<double>(low) - unit_ * p.D[j] * by_j);
    advance(tile.row(i), static_cast<float>(unit_ * by_i), tile.row(j),
            static_cast<float>(unit_ * by_j));
    ++outcome.steps;
    return true;
}

// Without a group a variable moves alone, to its own optimum within its bounds.
bool TileSolver::single_step(const Tile& tile, TileProblem& p, double tol, Outcome& outcome) {
    const bool rising = high_[0].value > -low_[0].value;
    const auto [scaled, k] = rising ? high_[0] : low_[0];
    const double r = static_cast<double>(scaled) / unit_;
    if (!((rising ? r : -r) > tol)) return false;
    const double room = rising ? p.u[k] - p.beta[k] : p.l[k] - p.beta[k];
    const double wish =
        curvature_[k] > 0 ? r / static_cast<double>(curvature_[k]) : std::copysign(HUGE_VAL, r);
    const double t = std::abs(wish) < std::abs(room) ? wish : room;
    if (!(std::abs(t) < HUGE_VAL)) {
        outcome.unbounded = true;
        return false;
    }
    const double old = p.beta[k];
    p.beta[k] = t == room ? (rising ? p.u[k] : p.l[k]) : old + t;
    const double by = p.beta[k] - old;
    if (by == 0) return false;
    mark(p, k, unit_ * (r - p.D[k] * by));
    advance(tile.row(k), static_cast<float>(unit_ * by), tile.row(k), 0);
    ++outcome.steps;
    return true;
}

TileSolver::Outcome TileSolver::solve(const Tile& tile, TileProblem& p, double tol,
                                      std::int64_t steps) {
    Outcome outcome;
    if (tile.size() == 0) return outcome;
    lay_out(tile, p);
    while (outcome.steps < steps &&
           (p.groups > 0 ? pair_step(tile, p, tol, outcome) : single_step(tile, p, tol, outcome))) {
    }
    return outcome;
}

}  // namespace mm
