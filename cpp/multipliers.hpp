// The multipliers of the group sums that are best for a given gradient.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mm {

struct Interval {
    double low, high;
};

// Per group g the interval of lambda that minimises m_g lambda + sum over its k of
// phi_k(c_k - lambda), phi_k(r) = max over l_k <= t <= u_k of r t - 1/2 D_k t^2. `order` lists the
// variables by group and `starts` says where each group begins. A sum within `rounding` of m_g,
// relative to its terms, counts as m_g.
std::vector<Interval> best_multipliers(std::span<const double> c, std::span<const double> D,
                                       std::span<const double> l, std::span<const double> u,
                                       std::span<const double> m,
                                       std::span<const std::int64_t> order,
                                       std::span<const std::int64_t> starts, double rounding);

}  // namespace mm
