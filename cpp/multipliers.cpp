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

// A sum that loses no digits (Kahan), and the size of its terms.
struct Sum {
    double value = 0, lost = 0, size = 0;

    void add(double x) {
        const double term = x - lost, next = value + term;
        lost = std::isfinite(next) ? (next - value) - term : 0.0;
        value = next;
        size += std::abs(x);
    }
    double minus(double m, double rounding) const {
        const double over = value - m;
        return std::abs(over) <= rounding * (size + std::abs(m)) ? 0.0 : over;
    }
};

class Group {
 public:
    Group(double m, double rounding, std::size_t size) : m_(m), rounding_(rounding) {
        falls_.reserve(size);
        points_.reserve(size);
    }

    void add(double c, double D, double l, double u) {
        const bool curved = D > 0;
        falls_.push_back({c, D, l, u, curved ? c - D * u : c, curved ? c - D * l : c});
        const auto& fall = falls_.back();
        if (std::isfinite(fall.begin)) points_.push_back(fall.begin);
        if (curved && std::isfinite(fall.end)) points_.push_back(fall.end);
    }

    // inf{lambda : sum of t(lambda) <= m}: bisection over the break points, of which each half is
    // looked at no more, as are the falls that are over, or have not begun, in the other.
    double lower_end() {
        auto first = points_.begin(), last = points_.end();
        while (first < last) {
            const auto middle = first + (last - first) / 2;
            std::nth_element(first, middle, last);
            if (const double over = excess(*middle, false); over > 0) {
                left_ = *middle;
                first = middle + 1;
            } else {
                right_ = *middle;
                beyond_ = over;
                last = middle;
            }
            settle();
        }
        const bool leftmost = left_ == -inf, rightmost = right_ == inf;
        const double anchor = !leftmost ? left_ : !rightmost ? right_ : 0.0;
        const double over = excess(anchor, leftmost);
        double slope = 0;
        for (const auto& f : falls_)
            if (f.D > 0 && f.begin <= left_ && f.end >= right_) slope += 1 / f.D;
        if (slope > 0) return std::clamp(anchor + over / slope, left_, right_);
        pinned_ = over > 0 && beyond_ < 0;
        return over > 0 ? right_ : -inf;
    }

    // Whether the sum falls past m at once, there where lower_end() is.
    bool pinned() const { return pinned_; }

 private:
    // sum of t - m just right of lambda, or just left of it; 0 where that is rounding.
    double excess(double lambda, bool from_left) const {
        Sum sum = settled_;
        for (const auto& f : falls_) sum.add(f.at(lambda, from_left));
        return sum.minus(m_, rounding_);
    }

    // Between left_ and right_ these falls are at l or at u.
    void settle() {
        std::erase_if(falls_, [&](const Fall& f) {
            if (f.end > left_ && f.begin < right_) return false;
            settled_.add(f.end <= left_ ? f.l : f.u);
            return true;
        });
    }

    double m_, rounding_, left_ = -inf, right_ = inf;
    double beyond_ = 0;  // excess just right of right_
    bool pinned_ = false;
    Sum settled_;
    std::vector<Fall> falls_;
    std::vector<double> points_;
};

// The variables sorted by group, and where each group begins and ends among them.
struct Members {
    std::vector<std::int64_t> order, starts;

    Members(Numbers group, std::size_t groups) : starts(groups + 1, 0) {
        for (const auto g : group)
            if (g >= 0) ++starts[g + 1];
        for (std::size_t g = 0; g < groups; ++g) starts[g + 1] += starts[g];
        order.resize(static_cast<std::size_t>(starts.back()));
        auto next = starts;
        for (std::int64_t k = 0; k < std::ssize(group); ++k)
            if (group[k] >= 0) order[next[group[k]]++] = k;
    }
    Numbers of(std::size_t g) const {
        return Numbers(order).subspan(starts[g], starts[g + 1] - starts[g]);
    }
};

// The t in [l, u] that attains phi(r); where every t does, beta.
double response(double r, double D, double l, double u, double beta) {
    if (D > 0) return std::clamp(r / D, l, u);
    return r > 0 ? u : r < 0 ? l : beta;
}

}  // namespace

double Interval::middle() const {
    const double a = std::isfinite(low) ? low : high, b = std::isfinite(high) ? high : low;
    return std::isfinite(a) ? a + 0.5 * (b - a) : 0.0;
}

std::vector<Interval> best_multipliers(const Constraints& of, Values c, Values D) {
    std::vector<Interval> found;
    const Members members(of.group, of.m.size());
    for (std::size_t g = 0; g < of.m.size(); ++g) {
        const auto own = members.of(g);
        Group falling(of.m[g], of.rounding, own.size());
        Group mirrored(-of.m[g], of.rounding, own.size());
        // Without a bound and without D, lambda keeps c - lambda off that side.
        double least = -inf, most = inf;
        for (const auto k : own) {
            const bool no_top = D[k] == 0 && of.u[k] == inf,
                       no_floor = D[k] == 0 && of.l[k] == -inf;
            if (no_top) least = std::max(least, c[k]);
            if (no_floor) most = std::min(most, c[k]);
            // Between least and most, such a variable rests at its finite end.
            const double top = no_top ? (no_floor ? 0.0 : of.l[k]) : of.u[k];
            const double floor = no_floor ? top : of.l[k];
            falling.add(c[k], D[k], floor, top);
            mirrored.add(-c[k], D[k], -top, -floor);
        }
        const double low = falling.lower_end();
        const double high = falling.pinned() ? low : -mirrored.lower_end();
        found.push_back(
            {std::max(std::min(low, most), least), std::min(std::max(high, least), most)});
    }
    return found;
}

bool feasible(const Constraints& of, Values beta) {
    std::vector<Sum> sums(of.m.size());
    for (std::size_t k = 0; k < beta.size(); ++k) {
        if (!(of.l[k] <= beta[k] && beta[k] <= of.u[k])) return false;
        if (of.group[k] >= 0) sums[of.group[k]].add(beta[k]);
    }
    for (std::size_t g = 0; g < sums.size(); ++g)
        if (sums[g].minus(of.m[g], of.rounding) != 0) return false;
    return true;
}

std::vector<Ends> ends(const Constraints& of, Values beta, Values gradient) {
    std::vector<Ends> found(of.m.size() + 1, {-inf, inf});
    for (std::size_t k = 0; k < beta.size(); ++k) {
        auto& [rise, fall] = of.group[k] < 0 ? found.back() : found[of.group[k]];
        if (beta[k] < of.u[k]) rise = std::max(rise, gradient[k]);
        if (beta[k] > of.l[k]) fall = std::min(fall, gradient[k]);
    }
    return found;
}

namespace {

// By how much the steepest feasible direction still improves, as LIBSVM measures it.
double violation(const Constraints& of, Values beta, Values gradient) {
    for (const double value : gradient)
        if (!std::isfinite(value)) return inf;
    const auto found = ends(of, beta, gradient);
    double worst = std::max({0.0, found.back().rise, -found.back().fall});
    for (std::size_t g = 0; g + 1 < found.size(); ++g)
        worst = std::max(worst, found[g].rise - found[g].fall);
    return worst;
}

}  // namespace

std::vector<std::int64_t> doubtful(const Constraints& of, Values beta, Values kbeta, Values error,
                                   double tol) {
    std::vector<double> gradient(beta.size());
    for (std::size_t k = 0; k < beta.size(); ++k)
        gradient[k] = of.s[k] - kbeta[k] - of.D[k] * beta[k];
    struct Band {
        double low, high, reach;
    };
    std::vector<Band> bands;
    for (const auto& [rise, fall] : ends(of, beta, gradient)) {
        const double low = std::min(rise, fall), high = std::max(rise, fall);
        // Where nothing may rise, or fall, the other end is all there is.
        bands.push_back({std::isfinite(low) ? low : high, std::isfinite(high) ? high : low,
                         std::isfinite(high - low) ? high - low + tol : tol});
    }
    bands.back() = {0, 0, tol};  // without a group lambda = 0
    std::vector<std::int64_t> found;
    for (std::size_t k = 0; k < beta.size(); ++k) {
        const auto& [low, high, reach] = of.group[k] < 0 ? bands.back() : bands[of.group[k]];
        const double band = reach + error[k];
        const bool rising = beta[k] < of.u[k] && gradient[k] > low - band;
        const bool falling = beta[k] > of.l[k] && gradient[k] < high + band;
        if (error[k] > 0 && (rising || falling)) found.push_back(static_cast<std::int64_t>(k));
    }
    return found;
}

Worth worth(const Constraints& of, Values beta, Values kbeta, Values error, double likely,
            double t) {
    const auto n = beta.size();
    std::vector<double> c(n), gradient(n);
    for (std::size_t k = 0; k < n; ++k) {
        c[k] = of.s[k] - t * kbeta[k];
        gradient[k] = of.s[k] - kbeta[k] - of.D[k] * beta[k];
    }
    Worth found{};
    found.violation = violation(of, beta, gradient);
    Sum primal, dual, gap, noise, norm;
    for (const auto& interval : best_multipliers(of, c, of.D)) {
        found.lambda.push_back(interval.middle());
        primal.add(of.m[found.lambda.size() - 1] * found.lambda.back());
    }
    for (std::size_t k = 0; k < n; ++k) {
        const double D = of.D[k], l = of.l[k], u = of.u[k];
        double r = of.group[k] < 0 ? c[k] : c[k] - found.lambda[of.group[k]];
        // Without an upper bound r <= 0 by the choice of t and lambda, up to rounding.
        if (D == 0 && u == inf) r = std::min(r, 0.0);
        if (D == 0 && l == -inf) r = std::max(r, 0.0);
        const double best = response(r, D, l, u, beta[k]), move = best - beta[k];
        primal.add(r * best - 0.5 * D * best * best);
        // phi(r) - r beta + 1/2 D beta^2, factored: exact zeros stay zero and nothing cancels.
        gap.add(std::max(move * (r - 0.5 * D * (best + beta[k])), 0.0));
        dual.add(beta[k] * (of.s[k] - 0.5 * kbeta[k] - 0.5 * D * beta[k]));
        norm.add(beta[k] * kbeta[k]);
        const double off = t * (likely + error[k]);
        const double reach = std::abs(r) <= off ? u - l : std::abs(move);
        if (std::isfinite(reach)) noise.add(off * reach);
    }
    found.primal = 0.5 * t * t * norm.value + primal.value;
    found.dual = dual.value;
    found.gap = 0.5 * (t - 1) * (t - 1) * std::max(norm.value, 0.0) + gap.value;
    found.noise = noise.value;
    return found;
}

}  // namespace mm
