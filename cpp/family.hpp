// Many problems over one stored square of K: the folds of a cross-validation, pairs of classes, a
// path along C. Those of a chain share their rows and differ in what multiplies bounds, diagonal
// and sums alone, so each starts where the one before it ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "smo.hpp"
#include "tile.hpp"

namespace mm {

class Family {
 public:
    // The variables of all chains follow one another, those of chain c from first[c] to first[c+1].
    // Its fold says of which rows K beta is wanted: those of fold f are in `held` from
    // first_held[f] to first_held[f+1].
    struct Chains {
        std::vector<std::int64_t> first;
        std::vector<double> s, l, u, D;
        std::vector<std::int64_t> row, group;
        std::vector<double> m;  // per chain and group
        std::int64_t groups = 0;
        std::vector<std::int64_t> fold, first_held, held;
        std::vector<std::int64_t> patch;  // per chain, from 0 on: those of one live on its rows
    };
    // What a member of every chain multiplies.
    struct Member {
        double box = 1, diagonal = 1, sum = 1;
    };
    struct Limits {
        double tol;
        std::int64_t steps;  // of a member, beyond which it is given up
    };

    // Chains start at their part of `beta`, whose K beta per row of the square is in `kbeta`; at
    // the point nearest to 0 where these are empty. Members of a chain that `skip` names are left
    // out.
    Family(Rows square, std::shared_ptr<const Chains> chains, std::vector<double> diagonal,
           std::vector<Member> members, std::span<const double> beta,
           std::span<const double> kbeta, std::vector<char> skip, Limits limits);

    Family(const Family&) = delete;
    Family& operator=(const Family&) = delete;

    // Work for about `seconds`; true when all members are solved or given up.
    bool run(double seconds, int threads);
    std::int64_t done() const { return done_; }  // members
    std::int64_t count() const { return std::ssize(chains_) * length(); }

    // All members of each variable; per member K beta of the rows held, one chain after the other;
    // per chain and member the multiplier of each group, ...
    double* beta() { return beta_.get(); }
    double* held() { return held_.get(); }
    std::int64_t variables() const { return std::ssize(data_.s); }
    std::int64_t rows_held() const { return held_at_.back(); }
    const std::vector<double>& multipliers() const { return multipliers_; }
    // ... the violation, above tol where it was given up, infinite where it was skipped, ...
    const std::vector<double>& violations() const { return violations_; }
    // ... and the dual objective and the gap to it.
    const std::vector<double>& duals() const { return duals_; }
    const std::vector<double>& gaps() const { return gaps_; }
    const std::vector<double>& steps() const { return steps_; }
    // Per fold and member, on how many rows any chain has a coefficient.
    std::vector<double> supports() const;
    std::int64_t length() const { return std::ssize(members_); }
    std::int64_t chains() const { return std::ssize(chains_); }

 private:
    // Rows of the square on which some chains live, such as all folds of a pair of classes. Up to
    // some size these share a tile.
    struct Patch {
        struct Run {
            std::int64_t from, to, length;  // rows side by side, in the square and here
        };
        std::vector<std::int64_t> rows;   // of the square, ascending
        std::vector<std::int64_t> place;  // of each row of the square among these, or -1
        std::vector<Run> runs;
        Tile tile;
        std::once_flag made;
        std::atomic<std::int64_t> users{0};  // chains that have not ended
    };
    struct Chain {
        std::int64_t next = 0;                           // member
        bool going = false;                              // at it
        std::vector<std::int64_t> place;                 // of each variable, in its patch
        bool shares = false;                             // the tile of its patch, or has its own
        Tile tile;
        std::vector<std::int64_t> slots, variables;      // of each variable in its own tile, back
        std::vector<double> beta, kbeta, l, u, r, wish;  // where it stands; K beta per row
        std::vector<double> beta_then, kbeta_then;       // where it was told to start
        std::vector<double> last;                        // beta of the member before it
        std::vector<double> high, low;                   // per group, of r
        TileProblem problem;
        TileSolver solver;
        std::int64_t steps = 0, leap = 0, idle = 0;  // of this member; idle: rounds without gain
        std::int64_t reserve = 1;             // towards Newton's method: it has gained little
        double gained = 0;                    // since Newton's method was tried last
        double box = 0, box_before = 0, sum = 0, scale = 0;  // what it was solved for last
    };

    std::int64_t rows() const { return std::ssize(diagonal_); }
    void lay_patches(bool all);
    void open(std::int64_t index);
    void close(std::int64_t index);
    double diagonal(std::int64_t index, std::int64_t k) const {  // what is added to K
        return data_.D[data_.first[index] + k] * members_[chains_[index].next].diagonal;
    }
    Quadratic problem(std::int64_t index) const;
    bool begin(std::int64_t index);
    void fill(std::int64_t index, std::vector<double>& to);
    void stretch(std::int64_t index, double factor, std::span<double> to);
    void add(std::int64_t index, std::span<const std::int64_t> variables,
             std::span<const double> by, std::vector<double>& kbeta) const;
    void move(std::int64_t index, std::span<const double> to);
    double advance(std::int64_t index, const std::vector<double>& to);
    double look(std::int64_t index);
    bool round(std::int64_t index);
    void admit(std::int64_t index);
    std::int64_t steps_to_leap(std::int64_t index) const;
    void leap(std::int64_t index);
    void settle_multipliers(const Chain& chain, std::int64_t index,
                            std::vector<double>& multipliers) const;
    double gap(const Chain& chain, std::int64_t index, std::span<const double> multipliers) const;
    void finish(std::int64_t index);
    void record(std::int64_t index, std::span<const double> multipliers, double violation,
                double dual, double gap, std::int64_t steps);
    void work(std::int64_t index, double deadline);
    struct Entry {
        std::int64_t row, chain, variable;
    };
    std::vector<Entry> entries(std::int64_t fold) const;
    void hold(const std::vector<Entry>& entries, std::int64_t fold, std::int64_t first,
              std::int64_t last);
    double drift(std::int64_t index) const;

    KeptMemory kept_;  // tiles come and go
    Rows square_;
    std::shared_ptr<const Chains> chains_given_;
    const Chains& data_;
    std::vector<double> diagonal_;  // per row of the square
    std::vector<Member> members_;
    std::vector<char> skip_;
    Limits limits_;
    std::deque<Patch> patches_;
    // Of the work, where chains of a patch follow one another; and members done when last put down.
    std::vector<std::int64_t> order_, progress_;
    std::vector<Chain> chains_;
    std::vector<std::int64_t> held_at_;  // per chain: its first of the rows held
    std::vector<char> same_, apart_;     // as the member before it; on a part of the square
    bool held_all_ = false;
    Large<double> beta_, held_;
    std::vector<double> multipliers_, violations_, duals_, gaps_, steps_;
    std::atomic<std::int64_t> done_{0};
};

}  // namespace mm
