// Many problems over one stored square of K: folds of a cross-validation, a path along C. They
// differ in bounds, sums and diagonal alone, so each starts from the solution of another.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "smo.hpp"

namespace mm {

class Family {
 public:
    // What all members share. Their bounds, diagonals and sums follow one another in l, u, D, m.
    struct Members {
        std::vector<double> s;
        std::vector<std::int64_t> row, group;
        std::vector<double> diagonal;
        std::vector<double> l, u, D, m;
        std::int64_t count = 0, groups = 0;
    };

    // Members come in chains of `length`: the first of a chain starts at its part of `beta`, whose
    // K beta per row is in `kbeta`, every other one where the one before it ended.
    Family(Rows square, Members members, std::int64_t length, std::span<const double> beta,
           std::span<const double> kbeta, double tol, std::int64_t working_set);

    Family(const Family&) = delete;
    Family& operator=(const Family&) = delete;

    // Work for about `seconds`; true when all members are solved or given up.
    bool run(double seconds, int threads);

    // Per member: its variables, K beta per row (also of rows that no variable can move), the
    // multiplier of each group, and the violation, above tol where it was given up.
    const std::vector<double>& beta() const { return beta_; }
    const std::vector<double>& kbeta() const { return kbeta_; }
    const std::vector<double>& multipliers() const { return multipliers_; }
    const std::vector<double>& violations() const { return violations_; }
    std::int64_t count() const { return members_.count; }
    std::int64_t iterations() const;

 private:
    struct Chain {
        std::int64_t next = 0;      // member within the chain
        std::unique_ptr<Smo> work;  // at it
        std::vector<double> beta, kbeta;
        std::int64_t steps = 0, iterations = 0;  // of this member at the last look; of all before
    };

    std::int64_t variables() const { return std::ssize(members_.s); }
    std::int64_t rows() const { return std::ssize(members_.diagonal); }
    void begin(Chain& chain, std::int64_t member);
    void finish(Chain& chain, std::int64_t member);
    void work(std::int64_t index, double deadline);
    void move(std::vector<double>& kbeta, std::span<const double> by) const;

    Rows square_;
    Members members_;
    std::int64_t length_, working_set_;
    double tol_;
    std::vector<Chain> chains_;
    std::vector<double> beta_, kbeta_, multipliers_, violations_;
};

}  // namespace mm
