// SMO over a small square of K, in float. The square and what it works on fit the caches of a core,
// and a step costs two passes over them. Float carries, float64 decides: the caller sums up the
// exact gradient afterwards and comes back with it where rounding has left a violation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory.hpp"
#include "point.hpp"
#include "rows.hpp"

namespace mm {

// Entries of K between some of its rows, in float.
class Tile {
 public:
    std::int64_t size() const { return std::ssize(rows_); }
    std::int64_t stride() const { return stride_; }
    const float* row(std::int64_t k) const { return K_.get() + k * stride_; }
    std::span<const std::int64_t> rows() const { return rows_; }

    // Add rows of K; one may stand there more than once.
    template <class S>
    void grow(const Dense<S>& K, std::span<const std::int64_t> more);
    // Keep only these, ascending.
    void keep(std::span<const std::int64_t> some);

 private:
    void reserve(std::int64_t count);

    std::vector<std::int64_t> rows_;
    std::int64_t stride_ = 0;
    Large<float> K_;
};

// The variables that live on the rows of a tile, padded; l = u where there is none.
struct TileProblem {
    std::span<double> beta;
    std::span<const double> l, u, curvature;  // of a variable alone: K_ii + D
    std::span<const double> D, r;             // s - K beta - D beta
    std::span<const double> part;             // the group of each; 0 where there is none
    std::int64_t groups = 0;                  // 0: variables move alone
};

// What solving takes, kept from one time to the next.
class TileSolver {
 public:
    struct Outcome {
        std::int64_t steps = 0;
        bool unbounded = false;
    };
    // Moves `beta` until no pair of a group violates by more than `tol`, or for so many steps.
    Outcome solve(const Tile& tile, TileProblem& p, double tol, std::int64_t steps);

 private:
    struct Peak {
        float value;
        std::int64_t index;
    };
    void lay_out(const Tile& tile, const TileProblem& p);
    void mark_all(const TileProblem& p, std::int64_t group, double shift);
    void mark(const TileProblem& p, std::int64_t k, double r);
    void advance(const float* a, float by_a, const float* b, float by_b);
    std::int64_t partner(const float* row, std::int64_t i, std::int64_t group, float high) const;
    bool pair_step(const Tile& tile, TileProblem& p, double tol, Outcome& outcome);
    bool single_step(const Tile& tile, TileProblem& p, double tol, Outcome& outcome);

    std::int64_t size_ = 0, parts_ = 1;  // padded to whole registers; groups, or one for all
    std::vector<float> rise_, fall_;     // per part: r of what may rise, of what may fall
    std::vector<float> curvature_;       // K_ii + D
    std::vector<Peak> high_, low_;       // per part
    double unit_ = 1;                    // of r, here
};

}  // namespace mm
