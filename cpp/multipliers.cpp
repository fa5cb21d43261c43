#include "multipliers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mm {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

// t(lambda), the maximiser of (c - lambda) t - 1/2 D t^2, falls from u to l: at once at c where
// D = 0, else linearly between `begin` and `end`.
struct Fall {
    double c, D, l, u, begin, end;

    double at(double lambda, bool from_left) const {
        // Decided by the break points themselves: (c - lambda) / D would round across its bound.
        if (lambda >= end && !(from_left && lambda == begin)) return l;
        if (lambda <= begin) return u;
        return std::clamp((c - lambda) / D, l, u);
    }
};

class Group {
 public:
    Group(double m, double rounding) : m_(m), rounding_(rounding) {}

    void add(double c, double D, double l, double u) {
        const bool curved = D > 0;
        falls_.push_back({c, D, l, u, curved ? c - D * u : c, curved ? c - D * l : c});
        const auto& fall = falls_.back();
        if (std::isfinite(fall.begin)) points_.push_back(fall.begin);
        if (curved && std::isfinite(fall.end)) points_.push_back(fall.end);
    }

    // inf{lambda : sum of t(lambda) <= m}: bisection over the sorted break points; each sum is
    // taken afresh, so nothing drifts as prefix sums would.
    double lower_end() {
        std::ranges::sort(points_);
        const auto first = std::ranges::partition_point(
            points_, [&](double lambda) { return excess(lambda, false) > 0; });
        const bool leftmost = first == points_.begin(), rightmost = first == points_.end();
        const double left = leftmost ? -inf : *(first - 1), right = rightmost ? inf : *first;
        const double anchor = !leftmost ? left : !rightmost ? right : 0.0;
        const double over = excess(anchor, leftmost);
        double slope = 0;
        for (const auto& f : falls_)
            if (f.D > 0 && f.begin <= left && f.end >= right) slope += 1 / f.D;
        if (slope > 0) return std::clamp(anchor + over / slope, left, right);
        return over > 0 ? right : -inf;
    }

 private:
    // sum of t - m just right of lambda, or just left of it; 0 where that is rounding.
    double excess(double lambda, bool from_left) const {
        double sum = 0, lost = 0, size = std::abs(m_);
        for (const auto& f : falls_) {  // Kahan's summation
            const double t = f.at(lambda, from_left);
            const double term = t - lost, next = sum + term;
            lost = std::isfinite(next) ? (next - sum) - term : 0.0;
            sum = next;
            size += std::abs(t);
        }
        const double over = sum - m_;
        return std::abs(over) <= rounding_ * size ? 0.0 : over;
    }

    double m_, rounding_;
    std::vector<Fall> falls_;
    std::vector<double> points_;
};

}  // namespace

std::vector<Interval> best_multipliers(std::span<const double> c, std::span<const double> D,
                                       std::span<const double> l, std::span<const double> u,
                                       std::span<const double> m,
                                       std::span<const std::int64_t> order,
                                       std::span<const std::int64_t> starts, double rounding) {
    std::vector<Interval> found;
    for (std::size_t g = 0; g < starts.size(); ++g) {
        const auto end = g + 1 < starts.size() ? starts[g + 1] : std::ssize(order);
        Group falling(m[g], rounding), mirrored(-m[g], rounding);
        // Without a bound and without D, lambda keeps c - lambda off that side.
        double least = -inf, most = inf;
        for (auto at = starts[g]; at < end; ++at) {
            const auto k = order[at];
            const bool no_top = D[k] == 0 && u[k] == inf, no_floor = D[k] == 0 && l[k] == -inf;
            if (no_top) least = std::max(least, c[k]);
            if (no_floor) most = std::min(most, c[k]);
            // Between least and most, such a variable rests at its finite end.
            const double top = no_top ? (no_floor ? 0.0 : l[k]) : u[k];
            const double floor = no_floor ? top : l[k];
            falling.add(c[k], D[k], floor, top);
            mirrored.add(-c[k], D[k], -top, -floor);
        }
        const double low = falling.lower_end(), high = -mirrored.lower_end();
        found.push_back(
            {std::max(std::min(low, most), least), std::min(std::max(high, least), most)});
    }
    return found;
}

}  // namespace mm
