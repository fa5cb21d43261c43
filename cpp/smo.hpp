// Sequential minimal optimisation of the one QP,
//
//     minimise 1/2 b'Kb + 1/2 sum_k D_k b_k^2 - s'b   s.t.  l <= b <= u,  sum over group g of b =
//     m_g,
//
// by pairs chosen with second-order information (Fan, Chen & Lin 2005, WSS2), or by single
// variables where there is no group. Labels, kernels and C are unknown here. Where variables have
// blocks, K counts only inside a block; the rows of K are those of the Gram for all of them.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <variant>
#include <vector>

#include "gram.hpp"

namespace mm {

template <class V>
struct Best {
    V value;
    std::int64_t index;
};

struct Quadratic {
    std::vector<double> s, l, u, D;        // per variable
    std::vector<std::int64_t> row, group;  // per variable; group -1 = none
    std::vector<double> m;                 // per group
    std::vector<double> diagonal;          // K_ii per row of the Gram
    std::vector<std::int64_t> block = {};  // per variable; empty: one block
    std::int64_t blocks = 1;
};

enum class Outcome {
    running,    // the allowance of this call is used up
    converged,  // no violating pair on the maintained gradient: a fresh one must confirm it
    stalled,    // steps no longer lower the objective: likewise
    slow,       // many steps since the last fresh gradient: it is time for one, or another method
    unbounded,  // a ray along which the objective falls without end
};

class Smo {
 public:
    // `kbeta` is K beta per row of the Gram, and within it per block; without it (one block only)
    // the first steps sum it up from rows of the cache. K beta is kept up to date for rows that a
    // variable can move.
    Smo(Source source, Quadratic problem, std::vector<double> beta, std::span<const double> kbeta,
        double tol, bool shrinking, bool single_rows, std::int64_t cache_bytes,
        std::int64_t working_set = 0);

    // At most `iterations` steps and about `seconds`.
    Outcome step(std::int64_t iterations, double seconds, int threads);
    // Bring K beta of the rows set aside up to date, in about `seconds`; true when it is. One block
    // only.
    bool catch_up(double seconds, int threads);
    // K beta per row of the Gram (and block) as it is maintained, in the precision of the cached
    // rows; not `current` between `assign` and `refresh`. Rows that no variable can move are only
    // as of the last refresh.
    std::vector<double> kbeta() const;
    bool current() const { return current_ && unsummed_ < 0; }
    // Move to another feasible point that differs only in variables strictly between their bounds;
    // `refresh` must follow.
    void assign(std::vector<double> beta);
    // Undo what rounding has done to the group sums; call before computing K beta for `refresh`.
    void rebalance();
    // Take K beta, computed afresh in float64, for all rows; variables set aside wrongly come back.
    void refresh(std::span<const double> kbeta);
    // Per group: the largest s - Kb - Db of what may rise, the smallest of what may fall.
    struct Bounds {
        double high = -std::numeric_limits<double>::infinity();
        double low = std::numeric_limits<double>::infinity();
    };
    std::vector<Bounds> bounds() const { return bounds(false); }
    // max over groups of (max over b < u) - (min over b > l) of s - Kb - Db, on all variables;
    // of full value only after `refresh`.
    double violation() const { return violation(false); }
    // The feasible set of a hard margin is a cone: move to the best multiple of beta.
    void rescale(double factor);

    // The duality gap as far as the maintained gradient shows it.
    double estimated_gap() const;
    // s'b - 1/2 b'Kb - 1/2 sum D b^2 as far as K beta is kept up to date, and its rounding error.
    std::pair<double, double> objective() const;
    // By how much the steps since the last refresh have lowered the objective.
    double gained() const { return gained_; }

    std::span<const double> beta() const { return beta_; }
    std::size_t rows() const { return all_F_.size(); }
    std::int64_t iterations() const { return iterations_; }
    std::int64_t active() const { return static_cast<std::int64_t>(row_at_.size()); }
    Counters counters() const;
    std::pair<std::int64_t, std::int64_t> ray() const { return ray_; }

    // The last step: `up` rose and `down` fell; -1 where one variable moved alone.
    struct Step {
        std::int64_t up = -1, down = -1;
        double high = 0, low = 0;  // s - Kb - Db at the two, before
        double eta = 0, gain = 0;  // curvature, and decrease of the objective
    };
    const Step& last_step() const { return last_; }
    double tol;

 private:
    struct Range {
        std::int64_t first, last;
    };
    // Rows that were set aside together, with their K beta in all_F_, and the variables that have
    // been in play since then, as they were.
    struct Aside {
        std::vector<std::int64_t> rows, variables;
        std::vector<double> was;
        std::size_t next = 0;  // of the rows that have changed: how far catching up has come
    };
    struct Choice {
        std::int64_t group = -1, up = -1;  // a slot
        double high, low;                  // bounds of s - Kb - Db over the group
        double violation() const { return high - low; }
    };

    void lay_out(const std::vector<char>& in_play);
    void set_candidates(std::int64_t slot);
    void set_all_candidates();
    double candidate(std::int64_t variable) const;
    double snapped(std::int64_t variable, double value) const;
    std::int64_t best_variable(std::int64_t slot, bool up) const;
    Choice extremes(std::int64_t group) const;
    Choice extremes(std::int64_t group, Best<double> highest, double lowest) const;
    template <class S>
    void advance(const S* a, double by_a, const S* b, double by_b);
    template <class S>
    std::int64_t nearby(const S* row, const Choice& choice);
    Choice most_violating() const;
    Choice next_group();
    double queue_groups();
    // Where a slot's row lies among the rows in play, and the block of a slot.
    std::int64_t column(std::int64_t slot) const {
        return problem_.blocks == 1 ? position_[slot] : position_[slot] % active();
    }
    std::int64_t block_of(std::int64_t variable) const {
        return problem_.blocks == 1 ? 0 : problem_.block[variable];
    }
    template <class S>
    S entry(const S* row, std::int64_t i, std::int64_t j) const;
    Range slots_of(std::int64_t group) const {
        return group_slots_[static_cast<std::size_t>(group)];
    }
    bool settled(std::int64_t slot, double high, double low) const;
    void shrink();
    void keep_in_play(std::span<const std::int64_t> positions);
    template <class S>
    bool begin(RowCache<S>& cache, double deadline, Pool& pool);
    template <class S>
    bool reckon(RowCache<S>& cache, double deadline, Pool& pool);
    template <class S>
    bool bring_back(RowCache<S>& cache, Pool& pool);
    template <class S>
    void put_all_in_play(RowCache<S>& cache);

    template <class S>
    Outcome loop(RowCache<S>& cache, std::int64_t iterations, double seconds, Pool& pool);
    template <class S>
    Outcome round(RowCache<S>& cache, Pool& pool, std::int64_t iterations);
    std::vector<std::int64_t> working_set(double& worst);
    Quadratic restricted(std::span<const std::int64_t> slots, std::vector<std::int64_t>& variables,
                         std::vector<std::int64_t>& positions) const;
    Bounds reach(std::int64_t group) const;
    bool in_rounds() const;
    bool is_free(std::int64_t slot) const {
        return up_[slot] > -std::numeric_limits<double>::infinity() &&
               down_[slot] < std::numeric_limits<double>::infinity();
    }
    void count(std::int64_t steps, double gain);
    template <class S>
    Outcome pair_step(RowCache<S>& cache, Pool& pool);
    template <class S>
    Outcome single_step(RowCache<S>& cache, Pool& pool);
    template <class S>
    std::int64_t second_order(const S* row, const Choice& choice);
    template <class S>
    const S* row_of(RowCache<S>& cache, std::int64_t slot, std::int64_t group, bool up, Pool& pool);
    template <class S>
    void add_rows(const S* a, double da, const S* b, double db);
    template <class S>
    void add_row(const S* a, double da, std::int64_t slot);
    void gather();
    void scatter();
    double violation(bool in_play) const;
    std::vector<Bounds> bounds(bool in_play) const;
    bool progressing();
    std::int64_t positions() const { return static_cast<std::int64_t>(F_.size()); }
    std::int64_t groups() const { return static_cast<std::int64_t>(problem_.m.size()); }

    Quadratic problem_;
    std::vector<double> beta_;
    bool shrinking_;
    std::int64_t working_set_;          // slots of a round; 0: single pairs only
    std::vector<std::int64_t> chosen_;  // the slots of the last round
    std::variant<RowCache<float>, RowCache<double>> cache_;

    // A slot holds the variables of one group on one row (two in regression): one candidate to go
    // up and one to go down. Slots are sorted by group, positions are the rows in play, once for
    // each block.
    std::vector<std::int64_t> order_;     // variables that can move, by (group, row, block)
    std::vector<std::int64_t> row_at_;    // row in play -> row of the Gram
    std::vector<double> F_;               // K beta per position: block after block
    std::vector<std::int64_t> position_;  // slot -> position
    std::vector<Range> variables_;        // slot -> range of order_
    std::vector<Range> group_slots_;      // group -> range of slots; a single one without groups
    std::vector<double> up_, down_;       // per slot: s - Db of its candidates, or -inf, +inf
    std::vector<double> curvature_;       // per slot: K_ii + D
    bool aligned_ = true;                 // a group's slots lie on consecutive positions
    std::vector<char> first_on_;          // per group: none before it lies on its positions
    bool fused_ = true;                   // aligned, and each group on new positions or old ones
    bool uniform_ = true;                 // one curvature for all slots

    // Where it can be fused, the pass that updates K beta also finds the next pair's first variable
    // per group, and leaves K beta - down + shift per slot for the search of the second.
    bool ahead_ = false;
    std::vector<Choice> next_;
    std::vector<double> shift_;  // per group: about its multiplier, so that float is precise there
    std::vector<float> fall_;

    // K beta per row of the Gram (and block), where set aside as of the last time it caught up.
    std::vector<double> all_F_;
    // With blocks: the group at work, until its violation is below `until_`; the groups to look at
    // next, the worst last, worth it while above `worth_`.
    std::int64_t group_ = -1;
    double until_ = 0, worth_ = 0;
    std::vector<Choice> queue_;
    bool all_in_play_ = true, current_ = true;
    std::int64_t unsummed_;  // the shares of rows from here on are missing in K beta; -1: none
    std::vector<Aside> aside_;
    std::int64_t brought_ = -1;  // the iteration at which all rows came back last
    std::int64_t iterations_ = 0, until_shrink_ = 0, since_mark_ = 0, since_refresh_ = 0;
    double gained_ = 0, marked_ = 0;
    std::pair<std::int64_t, std::int64_t> ray_{-1, -1};
    Step last_;
};

}  // namespace mm
