// Many problems over one stored square of K: the folds of a cross-validation, pairs of classes, a
// path along C. Those of a chain share their rows and differ in what multiplies bounds, diagonal
// and sums alone, so each starts where the one before it ended.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <variant>
#include <vector>

#include "parallel.hpp"
#include "point.hpp"
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
        std::span<const double> s, l, u, D;  // long, and somebody else's
        std::span<const std::int64_t> row, group;
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
        std::int64_t steps;    // of a member, beyond which it is given up
        bool abreast = false;  // the first member of all chains, then the second: time is short
    };

    // Chains start at their part of `beta`, whose K beta per row of the square is in `kbeta`; at
    // the point nearest to 0 where these are empty. Members of a chain that `skip` names are left
    // out.
    Family(Rows square, std::shared_ptr<const Chains> chains, std::vector<double> diagonal,
           std::vector<Member> members, std::span<const double> beta, std::span<const double> kbeta,
           std::vector<char> skip, Limits limits);

    Family(const Family&) = delete;
    Family& operator=(const Family&) = delete;

    // Work for about `seconds`; true when all members are solved or given up. Not after an
    // exception, nor after the end.
    bool run(double seconds, int threads);
    // Stop here for good: what is solved so far is judged and held like the rest would have been.
    void put_down(int threads);
    std::int64_t done() const { return done_; }  // members
    std::int64_t count() const { return std::ssize(chains_) * length(); }

    // All members of each variable; per member K beta of the rows held, one chain after the other;
    // per chain and member the multiplier of each group, ...
    double* beta() { return beta_.get(); }
    double* held() { return held_; }
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
    static constexpr double rounding = 1e-12;
    static constexpr std::int64_t patience =
        3000;  // steps before Newton's method is worth a thought

    // Calls f with the square.
    template <class F>
    void of_dense(const F& f) const {
        std::visit(
            [&](const auto& K) {
                if constexpr (requires { K.row_stride; }) f(K);
            },
            square_);
    }

    // Rows of the square on which some chains live, such as all folds of a pair of classes. Up to
    // some size these share a tile.
    struct Patch {
        struct Run {
            std::int64_t from, to, length;  // rows side by side, in the square and here
        };
        std::vector<std::int64_t> rows;  // of the square, ascending
        std::vector<Run> runs;
        Tile tile;
        std::once_flag made;
        std::atomic<std::int64_t> users{0};  // chains that have not ended

        std::int64_t place(std::int64_t row) const {  // of one of the rows
            return std::ranges::lower_bound(rows, row) - rows.begin();
        }
    };
    // Of a chain that shares its tile there is a variable on each row of the patch, and fixed ones
    // fill the last register.
    struct Chain {
        std::int64_t next = 0;  // member
        bool open = false, fresh = true, going = false;
        bool shares = false;                     // the tile of its patch, or has its own
        bool flat = true;                        // nothing is added to K
        std::vector<std::int64_t> own;           // which of all variables each is, or -1
        std::vector<std::int64_t> place, group;  // of each variable, in its patch
        std::vector<double> part;                // the group of each, 0 for none
        std::vector<double> s, D, l, u;          // of the member at hand
        std::vector<double> D_at_1, l_at_1, u_at_1, diagonal, curvature;  // K_ii, and with D
        std::vector<double> beta, kbeta, r;         // where it stands; K beta per row
        std::vector<double> gathered;               // K beta per variable, unless that is the same
        std::vector<double> beta_then, kbeta_then;  // where it was told to start
        std::vector<double> last;                   // beta of the member before it
        std::vector<double> high, low;              // per group, of r
        std::vector<double> to, by;                 // where it goes next
        std::vector<std::int64_t> moved;
        Tile tile;
        std::vector<std::int64_t> slots, variables;  // of each variable in its own tile, and back
        std::vector<double> wish;                    // to come to that tile
        struct {
            std::vector<double> beta, l, u, curvature, D, r, part;
        } in_tile;
        TileSolver solver;
        double violation = 0;
        std::int64_t steps = 0, idle = 0;  // of this member; rounds without gain
        std::int64_t since = 0, leap = 0;  // steps at which Newton's method was, and may be tried
        std::int64_t reserve = 1;          // towards Newton's method: it has gained little
        double gained = 0;                 // since Newton's method was tried last
        double box = 0, box_before = 0, sum = 0, scale = 0;  // what it was solved for last
        double off = 0;                                      // drift of K beta before a box shrank
    };

    std::int64_t rows() const { return std::ssize(diagonal_); }
    void lay_patches(bool all);
    void clear(std::int64_t index);
    void open(std::int64_t index);
    void close(std::int64_t index);
    Point point(const Chain& chain) const;
    Quadratic problem(std::int64_t index) const;
    bool begin(std::int64_t index);
    void fill(std::int64_t index, std::vector<double>& to);
    void settle(const Chain& chain, std::span<const double> sums, std::vector<double>& to) const;
    void add(std::int64_t index, std::span<const std::int64_t> variables,
             std::span<const double> by, std::vector<double>& kbeta) const;
    void move(std::int64_t index, std::span<const double> to);
    double advance(std::int64_t index, std::span<const double> to);
    void look(std::int64_t index);
    bool round(std::int64_t index);
    const Tile& at_hand(std::int64_t index, TileProblem& p);
    void admit(std::int64_t index);
    void fill_tile(std::int64_t index);
    std::int64_t price_of_leap(std::int64_t index) const;
    void leap(std::int64_t index);
    void settle_multipliers(std::int64_t index, std::span<double> multipliers) const;
    void finish(std::int64_t index);
    void repeat(std::int64_t index);
    void record(std::int64_t index, double steps);
    void record(std::int64_t index, std::span<const double> multipliers, double violation,
                const Value& value, double steps);
    void step_on(std::int64_t index);
    void judge_again(std::int64_t index);
    void go_back(std::int64_t index);
    void lay_aside(std::int64_t index);
    void work(std::int64_t index, std::int64_t last, double deadline);
    class Queue;
    struct Entry {
        std::int64_t row, chain, variable;
    };
    std::vector<Entry> entries(std::int64_t fold) const;
    void hold(const std::vector<Entry>& entries, std::int64_t fold, std::int64_t first,
              std::int64_t last);
    void hold_all(Pool& pool);
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
    bool held_all_ = false, ended_ = false;
    Large<double> beta_;  // and behind it:
    double* held_ = nullptr;
    std::vector<double> multipliers_, violations_, duals_, gaps_, steps_;
    std::atomic<std::int64_t> done_{0};
};

}  // namespace mm
