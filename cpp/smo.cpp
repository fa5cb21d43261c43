#include "smo.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "simd.hpp"

namespace mm {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr std::int64_t likely_rows = 7;
constexpr std::int64_t queued = 64;  // groups chosen in one pass over many
constexpr double endless = 1e50;  // a variable this large is on its way to infinity: worth a look
constexpr double eps = std::numeric_limits<double>::epsilon();

template <class V>
struct Best {
    V value;
    std::int64_t index;
};

// The largest of n numbers. In lanes of the compiler's own vectors: it does not vectorise a maximum
// of its own accord where NaN may occur.
template <class V>
MM_INLINE V largest_of(const V* x, std::int64_t n) {
    V top = -std::numeric_limits<V>::infinity();
    std::int64_t k = 0;
#if defined(__GNUC__)
    constexpr std::int64_t lanes = 64 / sizeof(V);
    typedef V Vector __attribute__((vector_size(64)));
    if (n >= lanes) {
        Vector highest, next;
        std::memcpy(&highest, x, sizeof highest);
        for (k = lanes; k + lanes <= n; k += lanes) {
            std::memcpy(&next, x + k, sizeof next);
            highest = next > highest ? next : highest;
        }
        for (std::int64_t t = 0; t < lanes; ++t) top = highest[t] > top ? highest[t] : top;
    }
#endif
    for (; k < n; ++k) top = x[k] > top ? x[k] : top;
    return top;
}

// The largest value(k), k in [0, n), and the lowest index of those that differ from it by rounding
// only, so that the same steps are taken however the same data come; -1 if all are -inf.
template <class V, class Value>
MM_INLINE Best<V> best_of(std::int64_t n, const Value& value) {
    constexpr std::int64_t block = 256;
    constexpr V lowest = -std::numeric_limits<V>::infinity();
    constexpr V tie = sizeof(V) == 8 ? V(1e-10) : V(1e-6);
    Best<V> best{lowest, -1};
    V leader = lowest, beat = lowest;  // of the winning block, and what is more than a tie
    std::int64_t winner = -1;
    for (std::int64_t start = 0; start < n; start += block) {
        const std::int64_t count = std::min(n - start, block);
        V values[block];
        for (std::int64_t t = 0; t < count; ++t) values[t] = value(start + t);
        const V top = largest_of(values, count);
        best.value = top > best.value ? top : best.value;
        if (top > beat) {
            leader = top;
            beat = top + tie * (top < 0 ? -top : top);
            winner = start;
        }
    }
    if (winner < 0) return best;
    const V slack = tie * (leader < 0 ? -leader : leader);
    const V enough = slack < -lowest ? leader - slack : leader;  // it may be infinite
    const std::int64_t last = std::min(n, winner + block) - 1;
    for (best.index = winner; best.index < last && !(value(best.index) >= enough);) ++best.index;
    return best;
}

// Runs f with K beta per slot: F itself where slots lie on consecutive positions, else a lookup.
template <class F>
auto with_lookup(bool aligned, const double* values, const std::int64_t* position, F&& f) {
    if (aligned) {
        const double* shifted = values + *position;
        return f([shifted](std::int64_t k) MM_LAMBDA { return shifted[k]; },
                 [first = *position](std::int64_t k) MM_LAMBDA { return first + k; });
    }
    return f([=](std::int64_t k) MM_LAMBDA { return values[position[k]]; },
             [=](std::int64_t k) MM_LAMBDA { return position[k]; });
}

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
      all_F_(kbeta.begin(), kbeta.end()) {
    const auto& p = problem_;
    for (std::int64_t k = 0; k < static_cast<std::int64_t>(p.s.size()); ++k)
        if (p.l[k] < p.u[k]) order_.push_back(k);
    std::ranges::sort(order_, [&](auto a, auto b) {
        return std::tuple(p.group[a], p.row[a], block_of(a), a) <
               std::tuple(p.group[b], p.row[b], block_of(b), b);
    });
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
    aligned_ = problem_.blocks == 1;
    const auto count = static_cast<std::int64_t>(order_.size());
    for (std::int64_t a = 0, b; a < count; a = b) {
        const auto group = problem_.group[order_[a]], row = problem_.row[order_[a]];
        const auto block = block_of(order_[a]);
        for (b = a + 1; b < count && problem_.group[order_[b]] == group &&
                        problem_.row[order_[b]] == row && block_of(order_[b]) == block;)
            ++b;
        const auto slot = static_cast<std::int64_t>(position_.size());
        const auto groups = std::max<std::int64_t>(group, 0);
        while (static_cast<std::int64_t>(group_slots_.size()) <= groups)
            group_slots_.push_back({slot, slot});
        if (!in_play[row]) continue;
        if (position_of[row] < 0) {
            position_of[row] = active();
            row_at_.push_back(row);
        }
        if (slot > group_slots_.back().first && position_of[row] != position_.back() + 1)
            aligned_ = false;
        position_.push_back(position_of[row]);
        variables_.push_back({a, b});
        curvature_.push_back(problem_.diagonal[row] + problem_.D[order_[a]]);
        group_slots_.back().last = slot + 1;
    }
    if (problem_.blocks > 1)
        for (std::size_t slot = 0; slot < position_.size(); ++slot)
            position_[slot] += active() * block_of(order_[variables_[slot].first]);
    F_.resize(row_at_.size() * static_cast<std::size_t>(problem_.blocks));
    gather();
    up_.resize(position_.size());
    down_.resize(position_.size());
    for (std::int64_t slot = 0; slot < static_cast<std::int64_t>(position_.size()); ++slot)
        set_candidates(slot);
    all_in_play_ = std::ranges::all_of(in_play, [](char c) { return c != 0; });
}

// K beta of the rows in play, from that of all rows and back.
void Smo::gather() {
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
    up_[slot] = -inf;
    down_[slot] = inf;
    for (auto a = variables_[slot].first; a < variables_[slot].last; ++a) {
        const auto k = order_[a];
        if (beta_[k] < problem_.u[k]) up_[slot] = std::max(up_[slot], candidate(k));
        if (beta_[k] > problem_.l[k]) down_[slot] = std::min(down_[slot], candidate(k));
    }
}

std::int64_t Smo::best_variable(std::int64_t slot, bool up) const {
    const double wanted = up ? up_[slot] : down_[slot];
    for (auto a = variables_[slot].first; a < variables_[slot].last; ++a) {
        const auto k = order_[a];
        const bool movable = up ? beta_[k] < problem_.u[k] : beta_[k] > problem_.l[k];
        if (movable && candidate(k) == wanted) return k;
    }
    return -1;
}

// The variable of a group that most wants to rise, and the bound of those that may fall; up = -1
// where one of the two is missing.
Smo::Choice Smo::extremes(std::int64_t g) const {
    const auto [first, last] = slots_of(g);
    const Choice none{-1, -1, -inf, inf};
    if (first == last) return none;
    const double *up = up_.data() + first, *down = down_.data() + first;
    const auto n = last - first;
    const auto [high, low] =
        with_lookup(aligned_, F_.data(), position_.data() + first, [&](auto F, auto) {
            const auto highest = simd([&]() MM_LAMBDA {
                return best_of<double>(n, [&](std::int64_t k) MM_LAMBDA { return up[k] - F(k); });
            });
            const auto lowest = simd([&]() MM_LAMBDA {
                return best_of<double>(n, [&](std::int64_t k) MM_LAMBDA { return F(k) - down[k]; });
            });
            return std::pair(highest, lowest);
        });
    if (high.index < 0 || low.index < 0) return none;
    auto chosen = first + high.index;
    const auto wish = [&](std::int64_t slot) { return up_[slot] - F_[position_[slot]]; };
    if (high.value - wish(chosen) > 0.01 * (high.value + low.value))  // too small for ties
        while (wish(chosen = chosen + 1 < last ? chosen + 1 : first) < high.value) {
        }
    return {g, chosen, high.value, -low.value};
}

// The group in which the two lie furthest apart.
Smo::Choice Smo::most_violating() const {
    Choice chosen{-1, -1, -inf, inf};
    for (std::int64_t g = 0; g < static_cast<std::int64_t>(group_slots_.size()); ++g)
        if (const auto found = extremes(g); found.violation() > chosen.violation()) chosen = found;
    return chosen;
}

// Blocks come with many small groups (a sample each): a pass over all of them costs more than a
// step, so one pass chooses several, and each is worked on until its violation is halved.
Smo::Choice Smo::next_group() {
    if (group_ >= 0)
        if (const auto found = extremes(group_); found.violation() > std::max(tol, until_))
            return found;
    for (;;) {
        while (!queue_.empty()) {
            group_ = queue_.back().group;
            queue_.pop_back();
            const auto found = extremes(group_);
            until_ = 0.5 * found.violation();
            if (found.violation() > tol && found.violation() >= worth_) return found;
        }
        group_ = -1;
        const double worst = queue_groups();
        if (!(worst > tol)) return {-1, -1, -inf, inf};
        worth_ = 0.5 * worst;
    }
}

// Queue the most violating group of each stretch of groups; return the largest violation.
double Smo::queue_groups() {
    const auto count = static_cast<std::int64_t>(group_slots_.size());
    const double* F = F_.data();
    for (std::int64_t q = 0; q < queued; ++q) {
        Choice worst{-1, -1, -inf, inf};
        for (auto g = count * q / queued; g < count * (q + 1) / queued; ++g) {
            const auto [first, last] = slots_of(g);
            double high = -inf, low = inf;
            for (auto k = first; k < last; ++k) {
                const double f = F[position_[k]], rise = up_[k] - f, fall = down_[k] - f;
                high = rise > high ? rise : high;
                low = fall < low ? fall : low;
            }
            if (high - low > worst.violation()) worst = {g, -1, high, low};
        }
        if (worst.group >= 0) queue_.push_back(worst);
    }
    std::ranges::sort(queue_, [](const Choice& a, const Choice& b) {
        return std::tuple(a.violation(), b.group) < std::tuple(b.violation(), a.group);
    });
    return queue_.empty() ? -inf : queue_.back().violation();
}

// K of two slots, from the row of the first.
template <class S>
S Smo::entry(const S* row, std::int64_t i, std::int64_t j) const {
    if (problem_.blocks == 1) return row[position_[j]];
    const auto start = position_[i] - column(i), at = position_[j] - start;
    return at >= 0 && at < active() ? row[at] : S(0);
}

// Fan, Chen & Lin 2005, WSS2: the partner with the largest decrease (difference)^2 / curvature.
template <class S>
std::int64_t Smo::second_order(const S* row, const Choice& choice) const {
    const auto [first, last] = slots_of(choice.group);
    const double *down = down_.data() + first, *curvature = curvature_.data() + first;
    const double own = curvature_[choice.up], high = choice.high;
    // Scores in float, because division is what costs here; both scales keep them within its range.
    const double scale = 1.0 / (choice.high - choice.low);
    const S unit = static_cast<S>(own != 0 ? 1.0 / std::abs(own) : 1.0);
    // Below this share of K_ii + K_jj the curvature is rounding as soon as the difference is.
    constexpr double least = 1e-7;
    const auto search = [&](auto F, auto K) {
        return simd([&]() MM_LAMBDA {
            return best_of<float>(last - first, [&](std::int64_t k) MM_LAMBDA {
                const double difference = (high - down[k] + F(k)) * scale;
                const S sum = static_cast<S>(own + curvature[k]);
                const S flat = (sum < 0 ? -sum : sum) * static_cast<S>(least);
                const S eta = sum - 2 * K(k);
                const float d = static_cast<float>(difference);
                const float score = d * d / static_cast<float>((eta > flat ? eta : flat) * unit);
                return d > 0 ? score : -std::numeric_limits<float>::infinity();
            });
        });
    };
    const auto* position = position_.data() + first;
    Best<float> partner{};
    if (problem_.blocks == 1) {
        partner = with_lookup(aligned_, F_.data(), position, [&](auto F, auto at) {
            return search(F, [&](std::int64_t k) MM_LAMBDA { return row[at(k)]; });
        });
    } else {
        const auto start = position_[choice.up] - column(choice.up), n = active();
        const double* F = F_.data();
        partner = search([=](std::int64_t k) MM_LAMBDA { return F[position[k]]; },
                         [=](std::int64_t k) MM_LAMBDA {
                             const auto at = position[k] - start;
                             return at >= 0 && at < n ? row[at] : S(0);
                         });
    }
    return partner.index < 0 ? -1 : first + partner.index;
}

// The row of a slot. A missing one is computed in one block with rows that are likely wanted next:
// the strongest candidates of the same kind, one from each stretch of the group, or with blocks
// those of the groups in the queue.
template <class S>
const S* Smo::row_of(RowCache<S>& cache, std::int64_t slot, std::int64_t group, bool up,
                     Pool& pool) {
    const auto id = row_at_[column(slot)];
    if (cache.has(id)) {
        ++cache.counters.rows_cached;
        return cache.row(id);
    }
    std::vector<std::int64_t> block{id};
    const auto [first, last] = slots_of(group);
    const auto stretches =
        std::min<std::int64_t>({likely_rows, cache.capacity() / 4, (last - first) / 64});
    for (std::int64_t q = 0; q < stretches; ++q) {
        const auto from = first + (last - first) * q / stretches,
                   to = first + (last - first) * (q + 1) / stretches;
        const double* limit = (up ? up_ : down_).data() + from;
        const auto best =
            with_lookup(aligned_, F_.data(), position_.data() + from, [&](auto F, auto) {
                return simd([&]() MM_LAMBDA {
                    return best_of<double>(to - from, [&](std::int64_t k) MM_LAMBDA {
                        return up ? limit[k] - F(k) : F(k) - limit[k];
                    });
                });
            });
        if (best.index < 0) continue;
        const auto other = row_at_[column(from + best.index)];
        if (other != id && !cache.has(other)) block.push_back(other);
    }
    for (auto g = queue_.rbegin(); g != queue_.rend(); ++g) {
        const auto other = row_at_[column(slots_of(g->group).first)];
        if (static_cast<std::int64_t>(block.size()) > std::min(likely_rows, cache.capacity() / 4))
            break;
        if (std::ranges::find(block, other) == block.end() && !cache.has(other))
            block.push_back(other);
    }
    cache.fetch(block, pool);
    return cache.row(id);
}

template <class S>
void Smo::add_rows(const S* a, double da, const S* b, double db) {
    double* F = F_.data();
    const auto n = active();
    simd([&]() MM_LAMBDA {
        for (std::int64_t p = 0; p < n; ++p)
            F[p] += da * static_cast<double>(a[p]) + db * static_cast<double>(b[p]);
    });
}

template <class S>
void Smo::add_row(const S* a, double da, std::int64_t slot) {
    double* F = F_.data() + (position_[slot] - column(slot));
    const auto n = active();
    simd([&]() MM_LAMBDA {
        for (std::int64_t p = 0; p < n; ++p) F[p] += da * static_cast<double>(a[p]);
    });
}

// In a small group, variables that only rounding keeps off a bound would be its only free ones.
double Smo::snapped(std::int64_t k, double value) const {
    if (problem_.blocks == 1) return value;
    const double hair = 8 * eps * (problem_.u[k] - problem_.l[k]);
    if (hair == inf) return value;
    if (problem_.u[k] - value <= hair) return problem_.u[k];
    return value - problem_.l[k] <= hair ? problem_.l[k] : value;
}

// One step of SMO: move t from the variable that may fall to the one that should rise.
template <class S>
Outcome Smo::pair_step(RowCache<S>& cache, Pool& pool) {
    auto choice = problem_.blocks == 1 ? most_violating() : next_group();
    if (choice.up < 0 || choice.high - choice.low <= tol) return Outcome::converged;
    const auto i = choice.up;
    choice.high = up_[i] - F_[position_[i]];
    const S* row_i = row_of(cache, i, choice.group, true, pool);
    const double own = down_[i];
    if (variables_[i].last - variables_[i].first == 1)
        down_[i] = inf;  // no step from itself to itself
    const auto j = second_order(row_i, choice);
    down_[i] = own;
    if (j < 0) return Outcome::converged;
    const auto a = best_variable(i, true), b = best_variable(j, false);
    const double sum = curvature_[i] + curvature_[j];
    const double eta = sum - 2.0 * static_cast<double>(entry(row_i, i, j));
    const double rise = choice.high - (down_[j] - F_[position_[j]]);
    if (a == b || !(rise > 0)) return Outcome::stalled;  // nothing but rounding
    const double room_a = problem_.u[a] - beta_[a], room_b = beta_[b] - problem_.l[b];
    // Or concave, or NaN: the step ends at a bound.
    const bool flat = !(eta > 8 * eps * std::abs(sum));
    const double t = std::min({flat ? inf : rise / eta, room_a, room_b});
    if (t == inf) {
        ray_ = {a, b};
        return Outcome::unbounded;
    }
    const double old_a = beta_[a], old_b = beta_[b];
    beta_[a] = t == room_a ? problem_.u[a] : snapped(a, old_a + t);
    beta_[b] = t == room_b ? problem_.l[b] : snapped(b, old_b - t);
    const double da = beta_[a] - old_a, db = beta_[b] - old_b;
    if (da == 0 && db == 0) return Outcome::stalled;
    if (std::abs(beta_[a]) > endless || std::abs(beta_[b]) > endless) since_refresh_ = 1LL << 40;
    last_ = {a, b, choice.high, choice.high - rise, eta, t * (rise - 0.5 * eta * t)};
    count(1, last_.gain);
    const S* row_j = row_of(cache, j, choice.group, false, pool);
    row_i = cache.row(row_at_[column(i)]);
    if (problem_.blocks == 1) {
        add_rows(row_i, da, row_j, db);
    } else {
        add_row(row_i, da, i);
        add_row(row_j, db, j);
    }
    set_candidates(i);
    set_candidates(j);
    return Outcome::running;
}

// Without a group a variable moves alone, to its own optimum within its bounds.
template <class S>
Outcome Smo::single_step(RowCache<S>& cache, Pool& pool) {
    const auto n = static_cast<std::int64_t>(position_.size());
    const double *up = up_.data(), *down = down_.data(), *curvature = curvature_.data();
    const auto [worst, best] =
        with_lookup(aligned_, F_.data(), position_.data(), [&](auto F, auto) {
            const auto wish = [&](std::int64_t k) MM_LAMBDA {
                const double rise = up[k] - F(k), fall = F(k) - down[k];
                return rise > fall ? rise : fall;
            };
            const auto largest = simd([&]() MM_LAMBDA { return best_of<double>(n, wish); });
            const auto gain = simd([&]() MM_LAMBDA {
                return best_of<double>(n, [&](std::int64_t k) MM_LAMBDA {
                    const double v = wish(k), c = curvature[k] > 1e-300 ? curvature[k] : 1e-300;
                    return v > 0 ? v * (v / c) : -inf;
                });
            });
            return std::pair(largest, gain);
        });
    if (worst.index < 0 || worst.value <= tol) return Outcome::converged;
    const auto slot = best.index;
    const double F = F_[position_[slot]];
    const bool rising = up_[slot] - F > F - down_[slot];
    const auto k = best_variable(slot, rising);
    const double wish = rising ? up_[slot] - F : F - down_[slot];
    const double room = rising ? problem_.u[k] - beta_[k] : beta_[k] - problem_.l[k];
    const double t = std::min(curvature_[slot] > 0 ? wish / curvature_[slot] : inf, room);
    if (t == inf) {
        ray_ = {k, k};
        return Outcome::unbounded;
    }
    const double old = beta_[k];
    beta_[k] =
        rising ? (t == room ? problem_.u[k] : old + t) : (t == room ? problem_.l[k] : old - t);
    if (beta_[k] == old) return Outcome::stalled;
    last_ = {rising ? k : -1,
             rising ? -1 : k,
             wish,
             wish,
             curvature_[slot],
             t * (wish - 0.5 * curvature_[slot] * t)};
    count(1, last_.gain);
    const S* row = row_of(cache, slot, 0, rising, pool);
    if (problem_.blocks == 1)
        add_rows(row, beta_[k] - old, row, 0.0);
    else
        add_row(row, beta_[k] - old, slot);
    set_candidates(slot);
    return Outcome::running;
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
    auto computed = cache.counters.rows_computed;
    while (iterations_ < end) {
        if (shrinking_ && until_shrink_ <= 0) {
            shrink();
            until_shrink_ = std::min<std::int64_t>(active(), 1000);
        }
        const auto outcome = in_rounds()    ? round(cache, pool, end - iterations_)
                             : groups() > 0 ? pair_step(cache, pool)
                                            : single_step(cache, pool);
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
    std::vector<char> in_play(problem_.diagonal.size(), 0);
    scatter();
    for (const auto p : positions) in_play[row_at_[p]] = 1;
    lay_out(in_play);
    all_in_play_ = false;
    std::visit([&](auto& cache) { cache.keep(positions); }, cache_);
}

std::vector<Smo::Bounds> Smo::bounds(bool in_play) const {
    std::vector<Bounds> all(static_cast<std::size_t>(std::max<std::int64_t>(groups(), 1)));
    const auto q = problem_.blocks, n = active();
    auto F = all_F_;
    std::vector<char> counts(problem_.diagonal.size(), in_play ? 0 : 1);
    for (std::int64_t p = 0; p < n; ++p) {
        counts[row_at_[p]] = 1;
        for (std::int64_t b = 0; b < q; ++b) F[row_at_[p] * q + b] = F_[b * n + p];
    }
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
    double gap = 0;
    for (std::int64_t g = 0; g < static_cast<std::int64_t>(group_slots_.size()); ++g) {
        const auto [first, last] = slots_of(g);
        const auto [high, low] = reach(g);
        const double lambda = groups() > 0 && std::isfinite(high + low) ? (high + low) / 2 : 0.0;
        for (auto slot = first; slot < last; ++slot)
            for (auto a = variables_[slot].first; a < variables_[slot].last; ++a) {
                const auto k = order_[a];
                const double r = candidate(k) - F_[position_[slot]] - lambda;
                const double room = r > 0 ? problem_.u[k] - beta_[k] : beta_[k] - problem_.l[k];
                const double reach =
                    problem_.D[k] > 0 ? std::min(room, std::abs(r) / problem_.D[k]) : room;
                if (std::isfinite(reach))
                    gap += std::abs(r) * reach - 0.5 * problem_.D[k] * reach * reach;
            }
    }
    return gap;
}

void Smo::assign(std::vector<double> beta) {
    beta_ = std::move(beta);
    for (std::int64_t slot = 0; slot < static_cast<std::int64_t>(position_.size()); ++slot)
        set_candidates(slot);
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
            beta_[k] += static_cast<double>(missing[g]);
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
    for (std::int64_t slot = 0; slot < static_cast<std::int64_t>(position_.size()); ++slot)
        set_candidates(slot);
}

void Smo::refresh(std::span<const double> kbeta) {
    all_F_.assign(kbeta.begin(), kbeta.end());
    since_mark_ = since_refresh_ = 0;
    gained_ = marked_ = 0;
    gather();
    queue_.clear();
    group_ = -1;
    const double worst = violation(false);
    if (all_in_play_ || worst <= tol || violation(true) > std::max(0.5 * worst, tol)) return;
    lay_out(std::vector<char>(problem_.diagonal.size(), 1));
    std::visit([&](auto& cache) { cache.reset(row_at_); }, cache_);
    if (shrinking_) shrink();
}

void Smo::rescale(double factor) {
    for (auto& value : beta_) value *= factor;
    for (auto& value : F_) value *= factor;
    for (auto& value : all_F_) value *= factor;
    for (std::int64_t slot = 0; slot < static_cast<std::int64_t>(position_.size()); ++slot)
        set_candidates(slot);
}

Counters Smo::counters() const {
    return std::visit([](const auto& cache) { return cache.counters; }, cache_);
}

}  // namespace mm
