// Passes over the variables of a short problem, a register at a time. A search solves thousands of
// them: what is done once for each must cost no more than a few steps of SMO.
#pragma once

#include <cstdint>
#include <span>

namespace mm {

// Numbers of variables are multiples of this: registers are never cut short.
constexpr std::int64_t whole = 32;

constexpr std::int64_t padded(std::int64_t count) { return (count + whole - 1) / whole * whole; }

// The variables of a problem and where they stand, K beta of the row of each included. Those that
// fill the last register are fixed at 0.
struct Point {
    const double *s, *l, *u, *D, *beta, *kbeta;
    const double* part;  // the group of each; 0 where there is none
    std::int64_t count, groups;
    bool flat;  // D is 0
};

// r = s - K beta - D beta; whether all of it is finite.
bool errors(const Point& at, double* r);

// The largest r of what may rise and the least of what may fall, in a group.
struct Extremes {
    double high, low;
};
Extremes extremes(const Point& at, const double* r, std::int64_t group);

// The dual objective, and the duality gap with these multipliers.
struct Value {
    double dual, gap;
};
Value value(const Point& at, const double* r, std::span<const double> multipliers);

// The sum of a group and that of the sizes.
struct Balance {
    double sum, size;
};
Balance balance(const Point& at, std::int64_t group);

// Make l and u `box` times what they are at 1. What stands at a bound stays there, and `to` is
// where that is; whether nothing moves.
bool rebound(const double* l_at_1, const double* u_at_1, double box, const double* beta,
             std::int64_t count, double* l, double* u, double* to);

// Of how many variables `to` is beta times a factor, and of how many it is beta.
struct Stretch {
    std::int64_t grow, stay;
};
Stretch stretched(const double* beta, const double* to, double factor, std::int64_t count);

// Let beta be `to` where that is beta times this, up to rounding, and beta times this elsewhere.
void stretch(const double* to, double factor, std::int64_t count, double* beta);

}  // namespace mm
