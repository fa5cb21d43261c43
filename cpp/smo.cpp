#include "smo.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "simd.hpp"

namespace mm {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double eps = std::numeric_limits<double>::epsilon();
constexpr std::int64_t late = 8;  // so many working sets are few rows: found by measurement

}  // namespace

Smo::Smo(Source source, Quadratic problem, std::vector<double> beta, std::span<const double> kbeta,
         double tolerance, bool shrinking, bool single_rows, std::int64_t cache_bytes,
         std::int64_t working_set)
    : tol(tolerance),
      problem_(std::move(problem)),
      beta_(std::move(beta)),
      shrinking_(shrinking),
      working_set_(working_set),
      cache_(single_rows
                 ? std::variant<RowCache<float>, RowCache<double>>(
                       std::in_place_type<RowCache<float>>, std::move(source), cache_bytes)
                 : std::variant<RowCache<float>, RowCache<double>>(
                       std::in_place_type<RowCache<double>>, std::move(source), cache_bytes)),
      all_F_(kbeta.begin(), kbeta.end()),
      unsummed_(kbeta.empty() ? 0 : -1) {
    const auto& p = problem_;
    all_F_.resize(p.diagonal.size() * static_cast<std::size_t>(p.blocks), 0.0);
    for (std::int64_t k = 0; k < static_cast<std::int64_t>(p.s.size()); ++k)
        if (p.l[k] < p.u[k]) order_.push_back(k);
    const auto before = [&](auto a, auto b) {
        return std::tuple(p.group[a], p.row[a], block_of(a), a) <
               std::tuple(p.group[b], p.row[b], block_of(b), b);
    };
    if (!std::ranges::is_sorted(order_, before)) std::ranges::sort(order_, before);
    lay_out(std::vector<char>(p.diagonal.size(), 1));
    std::visit([&](auto& cache) { cache.reset(row_at_); }, cache_);
    until_shrink_ = std::min<std::int64_t>(active(), 1000);
}

// Slots and positions of the rows in play, from order_ and all_F_.
void Smo::lay_out(const std::vector<char>& in_play) {
    std::vector<std::int64_t> position_of(in_play.size(), -1);
    row_at_.clear();
    position_.clear();
    variables_.clear();
    curvature_.clear();
    group_slots_.clear();
    queue_.clear();
    chosen_.clear();
    group_ = -1;
    first_on_.clear();
    aligned_ = fused_ = uniform_ = problem_.blocks == 1;
    const auto count = static_cast<std::int64_t>(order_.size());
    for (std::int64_t a = 0, b; a < count; a = b) {
        const auto group = problem_.group[order_[a]], row = problem_.row[order_[a]];
        const auto block = block_of(order_[a]);
        for (b = a + 1; b < count && problem_.group[order_[b]] == group &&
                        problem_.row[order_[b]] == row && block_of(order_[b]) == block;)
            ++b;
        const auto slot = static_cast<std::int64_t>(position_.size());
        const auto groups = std::max<std::int64_t>(group, 0);
        while (static_cast<std::int64_t>(group_slots_.size()) <= groups) {
            group_slots_.push_back({slot, slot});
            first_on_.push_back(1);
        }
        if (!in_play[row]) continue;
        const bool is_new = position_of[row] < 0;
        if (slot == group_slots_.back().first) first_on_.back() = is_new;
        fused_ = fused_ && is_new == static_cast<bool>(first_on_.back());
        if (is_new) {
            position_of[row] = active();
            row_at_.push_back(row);
        }
        if (slot > group_slots_.back().first && position_of[row] != position_.back() + 1)
            aligned_ = false;
        position_.push_back(position_of[row]);
        variables_.push_back({a, b});
        curvature_.push_back(problem_.diagonal[row] + problem_.D[order_[a]]);
        uniform_ = uniform_ && curvature_.back() == curvature_.front();
        group_slots_.back().last = slot + 1;
    }
    fused_ = fused_ && aligned_;
    shift_.assign(group_slots_.size(), 0.0);
    if (problem_.blocks > 1)
        for (std::size_t slot = 0; slot < position_.size(); ++slot)
            position_[slot] += active() * block_of(order_[variables_[slot].first]);
    F_.resize(row_at_.size() * static_cast<std::size_t>(problem_.blocks));
    gather();
    up_.resize(position_.size());
    down_.resize(position_.size());
    set_all_candidates();
    all_in_play_ = std::ranges::all_of(in_play, [](char c) { return c != 0; });
    if (all_in_play_) aside_.clear();
}

// K beta of the rows in play, from that of all rows and back.
void Smo::gather() {
    ahead_ = false;
    const auto q = problem_.blocks, n = active();
    for (std::int64_t b = 0; b < q; ++b)
        for (std::int64_t p = 0; p < n; ++p) F_[b * n + p] = all_F_[row_at_[p] * q + b];
}

void Smo::scatter() {
    const auto q = problem_.blocks, n = active();
    for (std::int64_t b = 0; b < q; ++b)
        for (std::int64_t p = 0; p < n; ++p) all_F_[row_at_[p] * q + b] = F_[b * n + p];
}

double Smo::candidate(std::int64_t k) const { return problem_.s[k] - problem_.D[k] * beta_[k]; }

void Smo::set_candidates(std::int64_t slot) {
    ahead_ = false;
    up_[slot] = -inf;
    down_[slot] = inf;
    for (auto a = variables_[slot].first; a < variables_[slot].last; ++a) {
        const auto k = order_[a];
        if (beta_[k] < problem_.u[k]) up_[slot] = std::max(up_[slot], candidate(k));
        if (beta_[k] > problem_.l[k]) down_[slot] = std::min(down_[slot], candidate(k));
    }
}

void Smo::set_all_candidates() {
    for (std::int64_t slot = 0; slot < static_cast<std::int64_t>(position_.size()); ++slot)
        set_candidates(slot);
}

// Now and then: did the steps since the last look lower the objective by more than its rounding?
bool Smo::progressing() {
    if (since_mark_ < std::max<std::int64_t>(10000, 4 * positions())) return true;
    double scale = 0;
    for (const auto k : order_) scale += std::abs(problem_.s[k] * beta_[k]);
    const bool enough = gained_ - marked_ > eps * scale;
    since_mark_ = 0;
    marked_ = gained_;
    return enough;
}

// Rounds pay where a step over whole rows costs much more than one over a working set.
bool Smo::in_rounds() const {
    return working_set_ > 0 && problem_.blocks == 1 && active() >= 2 * working_set_;
}

void Smo::count(std::int64_t steps, double gain) {
    iterations_ += steps;
    since_mark_ += steps;
    since_refresh_ += steps;
    until_shrink_ -= steps;
    gained_ += gain;
}

template <class S>
Outcome Smo::loop(RowCache<S>& cache, std::int64_t iterations, double seconds, Pool& pool) {
    const double deadline = now() + seconds;
    const auto end = iterations_ + iterations;
    cache.prepare(pool);
    if (!begin(cache, deadline, pool)) return Outcome::running;
    auto computed = cache.counters.rows_computed;
    while (iterations_ < end) {
        if (shrinking_ && until_shrink_ <= 0) {
            shrink();
            until_shrink_ = std::min<std::int64_t>(active(), 1000);
        }
        const auto outcome = in_rounds()    ? round(cache, pool, end - iterations_)
                             : groups() > 0 ? pair_step(cache, pool)
                                            : single_step(cache, pool);
        if (outcome == Outcome::converged && !all_in_play_ && problem_.blocks == 1) {
            if (!reckon(cache, deadline, pool)) break;
            if (bring_back(cache, pool)) continue;
        }
        if (outcome != Outcome::running) return outcome;
        if (!progressing()) return Outcome::stalled;
        if (since_refresh_ >
            std::max<std::int64_t>(20000, 50 * static_cast<std::int64_t>(all_F_.size())))
            return Outcome::slow;
        // Short steps do not look at the clock each time, unless they had to compute a row.
        const bool long_step = active() > 1000 || cache.counters.rows_computed != computed;
        computed = cache.counters.rows_computed;
        if ((long_step || iterations_ % 16 == 0) && now() > deadline) break;
    }
    return Outcome::running;
}

Outcome Smo::step(std::int64_t iterations, double seconds, int threads) {
    Pool pool(threads);
    const double start = now();
    return std::visit(
        [&](auto& cache) {
            const auto outcome = loop(cache, iterations, seconds, pool);
            cache.counters.seconds += now() - start;
            return outcome;
        },
        cache_);
}

// A slot can be set aside when neither of its moves can belong to a violating pair.
bool Smo::settled(std::int64_t slot, double high, double low) const {
    const double F = F_[position_[slot]];
    return up_[slot] - F < low && down_[slot] - F > high;
}

void Smo::shrink() {
    std::vector<char> wanted(row_at_.size(), 0);
    std::vector<Bounds> found(group_slots_.size());
    double worst = 0;
    for (std::size_t g = 0; g < found.size(); ++g) {
        found[g] = reach(static_cast<std::int64_t>(g));
        worst = std::max(worst, found[g].high - found[g].low);
    }
    for (std::size_t g = 0; g < found.size(); ++g) {
        auto [high, low] = found[g];
        const auto [first, last] = group_slots_[g];
        // One group of many is set aside when it is solved with as much to spare as others violate.
        if (problem_.blocks > 1 && groups() > 0 && high - low < -worst) continue;
        if (groups() == 0) {  // lambda = 0: judge against the largest single violation
            const double largest = std::max({high, -low, 0.0});
            high = largest;
            low = -largest;
        }
        for (auto k = first; k < last; ++k)
            if (high <= low || !settled(k, high, low)) wanted[column(k)] = 1;
    }
    std::vector<std::int64_t> positions;
    for (std::size_t p = 0; p < wanted.size(); ++p)
        if (wanted[p]) positions.push_back(static_cast<std::int64_t>(p));
    if (positions.size() * 10 > wanted.size() * 9 || positions.size() < 2) return;
    // Who comes back has to catch up with all that has moved meanwhile: in rounds, whose cost lies
    // in new rows and not in long ones, that does not pay while many are left, or entries are dear.
    const bool dear = std::visit([](const auto& cache) { return cache.precious(); }, cache_);
    if (in_rounds() && (dear || std::ssize(positions) > late * working_set_)) return;
    keep_in_play(positions);
}

// Set all rows aside but those at these positions.
void Smo::keep_in_play(std::span<const std::int64_t> positions) {
    std::vector<char> in_play(problem_.diagonal.size(), 0);
    scatter();
    for (const auto p : positions) in_play[row_at_[p]] = 1;
    Aside leaving;
    for (const auto row : row_at_)
        if (!in_play[row]) leaving.rows.push_back(row);
    lay_out(in_play);
    all_in_play_ = false;
    for (const auto k : order_)
        if (problem_.blocks == 1 && in_play[problem_.row[k]]) {
            leaving.variables.push_back(k);
            leaving.was.push_back(beta_[k]);
        }
    aside_.push_back(std::move(leaving));
    std::visit([&](auto& cache) { cache.keep(positions); }, cache_);
}

// K beta of the point to start from; false if time runs out before that.
template <class S>
bool Smo::begin(RowCache<S>& cache, double deadline, Pool& pool) {
    if (unsummed_ < 0) return true;
    std::vector<double> by(problem_.diagonal.size(), 0.0);
    for (std::size_t k = 0; k < beta_.size(); ++k) by[problem_.row[k]] += beta_[k];
    std::vector<typename RowCache<S>::Move> moves;
    do {
        moves.clear();
        for (; unsummed_ < std::ssize(by) && moves.size() < 256; ++unsummed_)
            if (by[unsummed_] != 0) moves.push_back({unsummed_, by[unsummed_], false});
        cache.accumulate(moves, F_.data(), pool);
    } while (unsummed_ < std::ssize(by) && now() <= deadline);
    ahead_ = false;
    if (unsummed_ < std::ssize(by)) return false;
    unsummed_ = -1;
    return true;
}

// K beta of the rows set aside, by what has changed since; false if time runs out before that.
template <class S>
bool Smo::reckon(RowCache<S>& cache, double deadline, Pool& pool) {
    std::vector<double> by(problem_.diagonal.size(), 0.0);
    for (auto& [rows, variables, was, next] : aside_) {
        std::ranges::fill(by, 0.0);
        for (std::size_t k = 0; k < variables.size(); ++k)
            by[problem_.row[variables[k]]] += beta_[variables[k]] - was[k];
        std::vector<typename RowCache<S>::Move> moves;
        for (std::int64_t row = 0; row < std::ssize(by); ++row)
            if (by[row] != 0) moves.push_back({row, by[row], false});
        if (moves.empty()) continue;
        // Added up in the same order, however often the clock interrupts.
        std::vector<double> sums;
        for (const auto row : rows) sums.push_back(all_F_[row]);
        next = cache.sums(moves, next, rows, sums.data(), deadline, pool);
        for (std::size_t k = 0; k < rows.size(); ++k) all_F_[rows[k]] = sums[k];
        if (next < moves.size()) return false;
        next = 0;
        for (std::size_t k = 0; k < variables.size(); ++k) was[k] = beta_[variables[k]];
    }
    return true;
}

template <class S>
void Smo::put_all_in_play(RowCache<S>& cache) {
    lay_out(std::vector<char>(problem_.diagonal.size(), 1));
    cache.reset(row_at_);
    if (shrinking_) shrink();
}

// What is left violates nothing; should rows that were set aside do, all come back.
template <class S>
bool Smo::bring_back(RowCache<S>& cache, Pool& pool) {
    if (violation(false) <= tol || std::exchange(brought_, iterations_) == iterations_)
        return false;
    scatter();
    put_all_in_play(cache);
    cache.prepare(pool);
    return true;
}

bool Smo::catch_up(double seconds, int threads) {
    Pool pool(threads);
    const double start = now();
    return std::visit(
        [&](auto& cache) {
            const bool done = reckon(cache, start + seconds, pool);
            cache.counters.seconds += now() - start;
            return done;
        },
        cache_);
}

std::vector<double> Smo::kbeta() const {
    auto out = all_F_;
    const auto q = problem_.blocks, n = active();
    for (std::int64_t p = 0; p < n; ++p)
        for (std::int64_t b = 0; b < q; ++b) out[row_at_[p] * q + b] = F_[b * n + p];
    return out;
}

std::vector<Smo::Bounds> Smo::bounds(bool in_play) const {
    std::vector<Bounds> all(static_cast<std::size_t>(std::max<std::int64_t>(groups(), 1)));
    const auto q = problem_.blocks;
    const auto F = kbeta();
    std::vector<char> counts(problem_.diagonal.size(), in_play ? 0 : 1);
    for (const auto row : row_at_) counts[row] = 1;
    for (const auto k : order_) {
        const auto row = problem_.row[k];
        if (!counts[row]) continue;
        const double value = candidate(k) - F[row * q + block_of(k)];
        auto& b = all[std::max<std::int64_t>(problem_.group[k], 0)];
        if (!std::isfinite(value)) {  // nothing may be called solved here
            b = {inf, -inf};
            continue;
        }
        if (beta_[k] < problem_.u[k]) b.high = std::max(b.high, value);
        if (beta_[k] > problem_.l[k]) b.low = std::min(b.low, value);
    }
    return all;
}

double Smo::violation(bool in_play) const {
    double worst = 0;
    for (const auto& b : bounds(in_play))
        worst = std::max(worst, groups() > 0 ? b.high - b.low : std::max(b.high, -b.low));
    return worst;
}

// The bounds of s - Kb - Db over the slots of a group, of those in play.
Smo::Bounds Smo::reach(std::int64_t group) const {
    Bounds found;
    const auto [first, last] = slots_of(group);
    for (auto slot = first; slot < last; ++slot) {
        const double F = F_[position_[slot]];
        found.high = std::max(found.high, up_[slot] - F);
        found.low = std::min(found.low, down_[slot] - F);
    }
    return found;
}

double Smo::estimated_gap() const {
    const auto F = kbeta();
    const auto reach = bounds(false);
    double gap = 0;
    for (const auto k : order_) {
        const auto [high, low] = reach[std::max<std::int64_t>(problem_.group[k], 0)];
        const double lambda = groups() > 0 && std::isfinite(high + low) ? (high + low) / 2 : 0.0;
        const double r = candidate(k) - F[problem_.row[k] * problem_.blocks + block_of(k)] - lambda;
        const double room = r > 0 ? problem_.u[k] - beta_[k] : beta_[k] - problem_.l[k];
        const double far = problem_.D[k] > 0 ? std::min(room, std::abs(r) / problem_.D[k]) : room;
        if (std::isfinite(far)) gap += std::abs(r) * far - 0.5 * problem_.D[k] * far * far;
    }
    return gap;
}

std::pair<double, double> Smo::objective() const {
    const auto F = kbeta();
    double value = 0, size = 0;
    for (std::size_t k = 0; k < beta_.size(); ++k) {
        const auto& p = problem_;
        const double Kb = F[p.row[k] * p.blocks + block_of(static_cast<std::int64_t>(k))];
        value += beta_[k] * (p.s[k] - 0.5 * Kb - 0.5 * p.D[k] * beta_[k]);
        size += std::abs(p.s[k] * beta_[k]) + std::abs(beta_[k] * Kb);
    }
    return {value, 4 * eps * size};
}

void Smo::assign(std::vector<double> beta) {
    beta_ = std::move(beta);
    current_ = false;
    set_all_candidates();
}

void Smo::rebalance() {
    std::vector<long double> missing(problem_.m.begin(), problem_.m.end());
    std::vector<std::int64_t> roomiest(missing.size(), -1);
    const auto room = [&](std::int64_t k) {
        return std::min(problem_.u[k] - beta_[k], beta_[k] - problem_.l[k]);
    };
    for (std::int64_t k = 0; k < static_cast<std::int64_t>(beta_.size()); ++k)
        if (const auto g = problem_.group[k]; g >= 0) {
            missing[g] -= beta_[k];
            if (roomiest[g] < 0 || room(k) > room(roomiest[g])) roomiest[g] = k;
        }
    for (std::size_t g = 0; g < missing.size(); ++g)
        if (const auto k = roomiest[g]; k >= 0 && room(k) > std::abs(missing[g])) {
            beta_[k] += static_cast<double>(missing[g]);  // too little to show in K beta
            missing[g] = 0;
        }
    // In a small group no variable may have that room: those a hair off their bounds go back.
    for (const auto k : order_)
        if (const auto g = problem_.group[k];
            problem_.blocks > 1 && g >= 0 && missing[g] != 0 && room(k) > 0) {
            const double old = beta_[k], off = static_cast<double>(missing[g]);
            const double end = off > 0 ? problem_.u[k] : problem_.l[k];
            beta_[k] = std::abs(end - old) <= std::abs(off) ? end : old + off;
            missing[g] -= static_cast<long double>(beta_[k]) - old;
        }
    set_all_candidates();
}

void Smo::refresh(std::span<const double> kbeta) {
    all_F_.assign(kbeta.begin(), kbeta.end());
    since_mark_ = since_refresh_ = 0;
    gained_ = marked_ = 0;
    gather();
    current_ = true;
    unsummed_ = -1;
    for (auto& [rows, variables, was, next] : aside_) {
        for (std::size_t k = 0; k < variables.size(); ++k) was[k] = beta_[variables[k]];
        next = 0;
    }
    queue_.clear();
    group_ = -1;
    const double worst = violation(false);
    if (all_in_play_ || worst <= tol || violation(true) > std::max(0.5 * worst, tol)) return;
    std::visit([&](auto& cache) { put_all_in_play(cache); }, cache_);
}

void Smo::rescale(double factor) {
    for (auto& value : beta_) value *= factor;
    for (auto& value : F_) value *= factor;
    for (auto& value : all_F_) value *= factor;
    for (auto& some : aside_)
        for (auto& value : some.was) value *= factor;
    set_all_candidates();
}

Counters Smo::counters() const {
    return std::visit([](const auto& cache) { return cache.counters; }, cache_);
}

}  // namespace mm
