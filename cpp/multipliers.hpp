// What a point of the one QP is worth: the multipliers of the group sums that are best for it, and
// with them primal, dual, gap and KKT violation. Plain arrays; nothing here knows how they were
// found.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mm {

using Values = std::span<const double>;
using Numbers = std::span<const std::int64_t>;

struct Interval {
    double low, high;
    // The midpoint, the finite end of a half-line, 0 of the whole line.
    double middle() const;
};

// The one QP without its matrix. `group` is -1 for a variable without one, which has the
// multiplier 0. Two sums within `rounding` of each other, relative to their terms, are equal.
struct Constraints {
    Values s, l, u, D;  // per variable
    Numbers group;
    Values m;  // per group
    double rounding;
};

// Per group g the interval of lambda that minimises m_g lambda + sum over its k of
// phi_k(c_k - lambda), phi_k(r) = max over l_k <= t <= u_k of r t - 1/2 D_k t^2.
std::vector<Interval> best_multipliers(const Constraints& of, Values c, Values D);

// Whether beta lies in the box and the sums of its groups are m.
bool feasible(const Constraints& of, Values beta);

// Per group the largest gradient of what may rise and the least of what may fall; last, for the
// variables without a group.
struct Ends {
    double rise, fall;
};
std::vector<Ends> ends(const Constraints& of, Values beta, Values gradient);

// The variables with an error in K beta, beside rounding, with which their bound may be the wrong
// one for a KKT violation of tol, or nearly so.
std::vector<std::int64_t> doubtful(const Constraints& of, Values beta, Values kbeta, Values error,
                                   double tol);

// What is certified of beta: see certificate.py for the formula.
struct Worth {
    double primal, dual, gap, noise, violation;
    std::vector<double> lambda;
};

// `kbeta` per variable, which is off by at most `error` beside rounding, and by `likely` for that;
// the primal point is w times t.
Worth worth(const Constraints& of, Values beta, Values kbeta, Values error, double likely,
            double t);

}  // namespace mm
