// What is known of members that are solved.
#include <algorithm>
#include <cmath>
#include <utility>

#include "family.hpp"
#include "multipliers.hpp"

namespace mm {

namespace {

constexpr double little = 0.1;  // of tol: what rounding may put a violation off

}  // namespace

// Where all variables of a group are at bounds, or off them by rounding, an interval of multipliers
// is best: take its middle.
void Family::settle_multipliers(std::int64_t index, std::span<double> multipliers) const {
    constexpr double hair = 1e-9;
    const auto& chain = chains_[index];
    std::vector<char> pinned(multipliers.size());
    auto open = std::ssize(multipliers);  // groups not known to be pinned
    const auto pin = [&](std::int64_t g) { open -= !std::exchange(pinned[g], 1); };
    for (std::int64_t g = 0; g < std::ssize(multipliers); ++g)
        if (chain.high[g] < chain.low[g]) pin(g);
    for (std::int64_t v = 0; open > 0 && v < std::ssize(chain.beta); ++v)
        if (const auto g = chain.group[v]; g >= 0) {
            const double slack = hair * (chain.u[v] - chain.l[v]);
            if (chain.beta[v] - chain.l[v] > slack && chain.u[v] - chain.beta[v] > slack) pin(g);
        }
    if (open == 0) return;
    const auto q = problem(index);
    std::vector<double> wish;
    for (std::int64_t v = 0; v < std::ssize(q.s); ++v)
        wish.push_back(q.s[v] - chain.kbeta[chain.place[v]]);
    const Constraints of{q.s, q.l, q.u, q.D, q.group, q.m, 1e3 * rounding};
    const auto found = best_multipliers(of, wish, q.D);
    for (std::size_t g = 0; g < found.size(); ++g)
        if (!pinned[g]) multipliers[g] = found[g].middle();
}

// After a look at it, in which nothing is left to do.
void Family::finish(std::int64_t index) {
    auto& chain = chains_[index];
    record(index, static_cast<double>(chain.steps));
    step_on(index);
    chain.going = false;
}

void Family::step_on(std::int64_t index) {
    ++chains_[index].next;
    ++done_;
}

// The last solution is that of the next member too: of a wider box.
void Family::repeat(std::int64_t index) {
    const auto& chain = chains_[index];
    const auto cell = index * length() + chain.next, g = data_.groups;
    const std::vector<double> before(multipliers_.begin() + (cell - 1) * g,
                                     multipliers_.begin() + cell * g);
    same_[cell] = 1;
    record(index, before, violations_[cell - 1],
           {duals_[cell - 1], value(point(chain), chain.r.data(), before).gap}, 0);
    step_on(index);
}

// Note down where the chain stands, after a look at it, as the solution of its member.
void Family::record(std::int64_t index, double steps) {
    const auto& chain = chains_[index];
    std::vector<double> multipliers;
    for (std::int64_t g = 0; g < data_.groups; ++g) {
        const double high = chain.high[g], low = chain.low[g];
        const double one = std::isinf(high) ? low : high, other = std::isinf(low) ? high : low;
        multipliers.push_back(std::isinf(one) ? 0.0 : 0.5 * (one + other));
    }
    settle_multipliers(index, multipliers);
    record(index, multipliers, chain.violation, value(point(chain), chain.r.data(), multipliers),
           steps);
}

void Family::record(std::int64_t index, std::span<const double> multipliers, double violation,
                    const Value& value, double steps) {
    const auto& chain = chains_[index];
    const auto q = chain.next, cell = index * length() + q;
    for (std::int64_t v = 0; v < std::ssize(chain.beta); ++v)
        if (chain.own[v] >= 0) beta_[chain.own[v] * length() + q] = chain.beta[v];
    std::ranges::copy(multipliers, multipliers_.begin() + cell * data_.groups);
    violations_[cell] = violation;
    duals_[cell] = value.dual;
    gaps_[cell] = value.gap;
    steps_[cell] = steps;
    if (apart_[index]) return;  // else K beta is there for all rows
    auto out = held_ + q * rows_held() + held_at_[index];
    const auto fold = data_.fold[index];
    for (auto h = data_.first_held[fold]; h < data_.first_held[fold + 1]; ++h)
        *out++ = chain.kbeta[data_.held[h]];
}

// How far K beta, summed up along the chain, has come off what a fresh product of all that moved
// since its start gives. K beta at the start may have shares of variables that are not here.
double Family::drift(std::int64_t index) const {
    const auto& chain = chains_[index];
    std::vector<std::int64_t> moved;
    std::vector<double> by, fresh(chain.kbeta_then);
    for (std::int64_t k = 0; k < std::ssize(chain.beta); ++k)
        if (chain.beta[k] != chain.beta_then[k]) {
            moved.push_back(k);
            by.push_back(chain.beta[k] - chain.beta_then[k]);
        }
    add(index, moved, by, fresh);
    double worst = 0;
    for (std::size_t r = 0; r < fresh.size(); ++r)
        worst = std::max(worst, std::abs(fresh[r] - chain.kbeta[r]));
    return worst;
}

// Allow for what rounding has done to K beta along the chain. Where that is not little, because K
// and the largest C are large, each member is judged on a product of its own.
void Family::judge_again(std::int64_t index) {
    auto& chain = chains_[index];
    const double off = 2 * std::max(chain.off, drift(index));
    const auto last = chain.next;
    for (std::int64_t q = 0; q < last; ++q) {
        const auto cell = index * length() + q;
        if (off <= little * limits_.tol) {
            violations_[cell] += off;
        } else if (std::isfinite(violations_[cell])) {
            chain.next = q;
            go_back(index);
            record(index, steps_[cell]);
        }
    }
    chain.next = last;
}

// To the solution of a member as it was found, with a fresh product.
void Family::go_back(std::int64_t index) {
    auto& chain = chains_[index];
    const auto& member = members_[chain.next];
    const auto count = std::ssize(chain.beta);
    chain.kbeta = chain.kbeta_then;
    chain.beta = chain.beta_then;
    chain.to = chain.beta;
    for (std::int64_t v = 0; v < count; ++v) {
        if (chain.own[v] >= 0) chain.to[v] = beta_[chain.own[v] * length() + chain.next];
        chain.D[v] = chain.D_at_1[v] * member.diagonal;
    }
    move(index, chain.to);
    rebound(chain.l_at_1.data(), chain.u_at_1.data(), member.box, chain.beta.data(), count,
            chain.l.data(), chain.u.data(), chain.to.data());
    look(index);
}

void Family::close(std::int64_t index) {
    auto& chain = chains_[index];
    judge_again(index);
    Chain ended;  // without its memory
    ended.next = chain.next;
    chain = std::move(ended);
    auto& patch = patches_[data_.patch[index]];
    if (--patch.users == 0) patch.tile = Tile();
}

}  // namespace mm
