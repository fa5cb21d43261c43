// The blocked regime of SMO, for problems whose rows are long: a round chooses a working set,
// solves over it on its own square of K, which fits the cache of a core, and only then brings the
// gradient of everything up to date, with the rows of what has moved.

#include <algorithm>
#include <limits>
#include <numeric>

#include "smo.hpp"

namespace mm {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double closer = 0.03;         // a round lowers the violation of its set to this share
constexpr std::int64_t most = 2;        // in so many steps per slot at most
constexpr std::int64_t largest = 2048;  // working set

struct Wish {
    double size;
    std::int64_t slot;
    bool operator<(const Wish& other) const {  // the largest come first, of equals the lowest slot
        return size != other.size ? size > other.size : slot < other.slot;
    }
};

// Moves the first `count` in order to the front.
void put_first(std::vector<Wish>& wishes, std::int64_t count) {
    if (count < std::ssize(wishes))
        std::nth_element(wishes.begin(), wishes.begin() + count, wishes.end());
}

}  // namespace

// The slots that most want to rise and to fall, as many of each, and then those of the last round
// that are free: a round that forgets them undoes part of the last.
std::vector<std::int64_t> Smo::working_set(double& worst) {
    std::vector<Wish> rising, falling;
    for (std::int64_t g = 0; g < static_cast<std::int64_t>(group_slots_.size()); ++g) {
        const auto [high, low] = reach(g);
        const double size = groups() > 0 ? high - low : std::max(high, -low);
        worst = std::max(worst, size);
        if (!(size > tol)) continue;
        const double lambda = groups() > 0 ? 0.5 * (high + low) : 0.0;
        const auto [first, last] = slots_of(g);
        for (auto slot = first; slot < last; ++slot) {
            const double F = F_[position_[slot]] + lambda;
            if (up_[slot] - F > 0) rising.push_back({up_[slot] - F, slot});
            if (F - down_[slot] > 0) falling.push_back({F - down_[slot], slot});
        }
    }
    // Where the free variables fill their half, the set had better be larger: tiles beyond the
    // caches cost less than rounds that undo one another.
    if (std::ssize(chosen_) * 2 > working_set_) {
        const auto kept =
            std::ranges::count_if(chosen_, [&](std::int64_t slot) { return is_free(slot); });
        if (2 * kept > working_set_ && working_set_ < largest) working_set_ *= 2;
    }
    const auto size = working_set_;
    std::vector<char> taken(position_.size(), 0);
    std::vector<std::int64_t> set;
    for (const auto slot : chosen_)
        if (is_free(slot) && std::ssize(set) < size / 2) {
            taken[slot] = 1;
            set.push_back(slot);
        }
    const auto some = (size - std::ssize(set)) / 2;
    for (auto* wishes : {&rising, &falling}) {
        std::erase_if(*wishes, [&](const Wish& wish) { return taken[wish.slot]; });
        put_first(*wishes, some);
        for (std::int64_t k = 0; k < std::min<std::int64_t>(some, std::ssize(*wishes)); ++k)
            set.push_back((*wishes)[k].slot);
    }
    if (std::ssize(position_) > active()) {  // groups share rows: keep their slots side by side
        std::vector<char> wanted(static_cast<std::size_t>(active()), 0);
        for (const auto slot : set) wanted[position_[slot]] = 1;
        set.clear();
        for (std::int64_t slot = 0; slot < std::ssize(position_); ++slot)
            if (wanted[position_[slot]]) set.push_back(slot);
    }
    std::ranges::sort(set);
    return chosen_ = set;
}

// The same QP over the variables of these slots, the others held where they are.
Quadratic Smo::restricted(std::span<const std::int64_t> slots, std::vector<std::int64_t>& variables,
                          std::vector<std::int64_t>& positions) const {
    Quadratic part;
    part.m.assign(problem_.m.size(), 0.0);
    std::vector<std::int64_t> row_of(static_cast<std::size_t>(active()), -1);
    for (const auto slot : slots) {
        auto& row = row_of[position_[slot]];
        if (row < 0) {
            row = std::ssize(positions);
            positions.push_back(position_[slot]);
            part.diagonal.push_back(problem_.diagonal[row_at_[position_[slot]]]);
        }
        for (auto a = variables_[slot].first; a < variables_[slot].last; ++a) {
            const auto k = order_[a];
            variables.push_back(k);
            part.s.push_back(problem_.s[k]);
            part.l.push_back(problem_.l[k]);
            part.u.push_back(problem_.u[k]);
            part.D.push_back(problem_.D[k]);
            part.group.push_back(problem_.group[k]);
            part.row.push_back(row);
            if (problem_.group[k] >= 0) part.m[problem_.group[k]] += beta_[k];
        }
    }
    return part;
}

template <class S>
Outcome Smo::round(RowCache<S>& cache, Pool& pool, std::int64_t iterations) {
    double worst = 0;
    const auto slots = working_set(worst);
    ++cache.counters.rounds;
    if (!(worst > tol)) return Outcome::converged;
    std::vector<std::int64_t> variables, positions;
    auto part = restricted(slots, variables, positions);
    const auto n = std::ssize(positions);
    const S* square = cache.square(positions, pool);
    std::vector<double> beta, F;
    for (const auto k : variables) beta.push_back(beta_[k]);
    for (const auto p : positions) F.push_back(F_[p]);
    const auto row = part.row;
    Smo inner(Source{Dense<S>{square, n, n, n, 1}, nullptr}, std::move(part), beta, F,
              closer * worst, false, sizeof(S) == 4, 0);
    const auto outcome = inner.loop(std::get<RowCache<S>>(inner.cache_),
                                    std::min<std::int64_t>(iterations, most * n), inf, pool);
    if (outcome == Outcome::unbounded) {
        ray_ = {variables[inner.ray_.first], variables[inner.ray_.second]};
        return outcome;
    }
    if (inner.iterations_ == 0) return Outcome::stalled;
    std::vector<double> by(static_cast<std::size_t>(n), 0.0);
    for (std::size_t k = 0; k < variables.size(); ++k) {
        by[row[k]] += inner.beta_[k] - beta[k];
        beta_[variables[k]] = inner.beta_[k];
    }
    // A variable that has met its bound mostly stays there: its row is not worth the memory.
    std::vector<char> free(static_cast<std::size_t>(n), 0);
    for (const auto slot : slots) set_candidates(slot);
    for (std::size_t k = 0; k < variables.size(); ++k)
        free[row[k]] |=
            problem_.l[variables[k]] < inner.beta_[k] && inner.beta_[k] < problem_.u[variables[k]];
    std::vector<typename RowCache<S>::Move> moves;
    for (std::int64_t r = 0; r < n; ++r)
        if (by[r] != 0)
            moves.push_back({row_at_[positions[r]], by[r], free[r] != 0 || cache.looks_up()});
    cache.accumulate(moves, F_.data(), pool);
    count(inner.iterations_, inner.gained_);
    return Outcome::running;
}

template Outcome Smo::round(RowCache<float>&, Pool&, std::int64_t);
template Outcome Smo::round(RowCache<double>&, Pool&, std::int64_t);

}  // namespace mm
