// The steps of SMO over all rows in play: which variables move, and how far.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "simd.hpp"
#include "smo.hpp"

namespace mm {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double eps = std::numeric_limits<double>::epsilon();
constexpr std::int64_t likely_rows = 7;
constexpr std::int64_t queued = 64;  // groups chosen in one pass over many
constexpr double endless = 1e50;  // a variable this large is on its way to infinity: worth a look

// The largest of n numbers. In lanes of the compiler's own vectors: it does not vectorise a maximum
// of its own accord where NaN may occur.
template <class V, int bytes>
MM_INLINE V largest_of(Register<bytes>, const V* x, std::int64_t n) {
    V top = -std::numeric_limits<V>::infinity();
    std::int64_t k = 0;
#if defined(__GNUC__)
    constexpr std::int64_t lanes = bytes / sizeof(V);
    typedef V Vector __attribute__((vector_size(bytes)));
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

constexpr std::int64_t block = 256;

// The largest of many values, a block of them at a time, and the lowest index of those that differ
// from it by rounding only, so that the same steps are taken however the same data come.
template <class V>
struct Contest {
    static constexpr V lowest = -std::numeric_limits<V>::infinity();
    static constexpr V tie = sizeof(V) == 8 ? V(1e-10) : V(1e-6);
    V value = lowest, leader = lowest;  // the largest, and that of the winning block
    V beat = lowest;                    // what is more than a tie
    std::int64_t winner = -1;

    MM_INLINE void enter(std::int64_t start, V top) {
        value = top > value ? top : value;
        if (top > beat) {
            leader = top;
            beat = top + tie * (top < 0 ? -top : top);
            winner = start;
        }
    }

    // The index is -1 if all n values are -inf.
    template <class Value>
    MM_INLINE Best<V> decide(std::int64_t n, const Value& at) const {
        if (winner < 0) return {value, -1};
        const V slack = tie * (leader < 0 ? -leader : leader);
        const V enough = slack < -lowest ? leader - slack : leader;  // it may be infinite
        const std::int64_t last = std::min(n, winner + block) - 1;
        auto index = winner;
        while (index < last && !(at(index) >= enough)) ++index;
        return {value, index};
    }
};

// The best of value(k), k in [0, n).
template <class V, int bytes, class Value>
MM_INLINE Best<V> best_of(Register<bytes> size, std::int64_t n, const Value& value) {
    Contest<V> contest;
    for (std::int64_t start = 0; start < n; start += block) {
        const std::int64_t count = std::min(n - start, block);
        V values[block];
        for (std::int64_t t = 0; t < count; ++t) values[t] = value(start + t);
        contest.enter(start, largest_of(size, values, count));
    }
    return contest.decide(n, value);
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
            const auto highest = simd([&](auto size) MM_LAMBDA {
                return best_of<double>(size, n,
                                       [&](std::int64_t k) MM_LAMBDA { return up[k] - F(k); });
            });
            const auto lowest = simd([&](auto size) MM_LAMBDA {
                return best_of<double>(size, n,
                                       [&](std::int64_t k) MM_LAMBDA { return F(k) - down[k]; });
            });
            return std::pair(highest, lowest);
        });
    return extremes(g, high, low.value);
}

// The same from the best of those that may rise, and the largest K beta - down.
Smo::Choice Smo::extremes(std::int64_t g, Best<double> high, double low) const {
    if (high.index < 0 || low == -inf) return {-1, -1, -inf, inf};
    const auto [first, last] = slots_of(g);
    auto chosen = first + high.index;
    const auto wish = [&](std::int64_t slot) { return up_[slot] - F_[position_[slot]]; };
    if (high.value - wish(chosen) > 0.01 * (high.value + low))  // too small for ties
        while (wish(chosen = chosen + 1 < last ? chosen + 1 : first) < high.value) {
        }
    return {g, chosen, high.value, -low};
}

// K beta += da a + db b, and in the same pass what `extremes` and `nearby` need. A group on the
// positions of an earlier one finds K beta up to date.
template <class S>
void Smo::advance(const S* a, double by_a, const S* b, double by_b) {
    fall_.resize(position_.size());
    next_.clear();
    for (std::int64_t g = 0; g < static_cast<std::int64_t>(group_slots_.size()); ++g) {
        const auto [first, last] = slots_of(g);
        const double *up = up_.data() + first, *down = down_.data() + first;
        const auto at = first < last ? position_[first] : 0;
        double* F = F_.data() + at;
        float* fall = fall_.data() + first;
        const S *x = a + at, *y = b + at;
        const double da = first_on_[g] ? by_a : 0.0, db = first_on_[g] ? by_b : 0.0;
        const double shift = shift_[g];
        const auto n = last - first;
        Contest<double> rising;
        double lowest = -inf;
        const auto highest = simd([&](auto size) MM_LAMBDA {
            for (std::int64_t start = 0; start < n; start += block) {
                const auto count = std::min(n - start, block);
                double rises[block], falls[block];
                for (std::int64_t t = 0; t < count; ++t) {
                    const auto k = start + t;
                    const double f =
                        F[k] + (da * static_cast<double>(x[k]) + db * static_cast<double>(y[k]));
                    F[k] = f;
                    rises[t] = up[k] - f;
                    falls[t] = f - down[k];
                    fall[k] = static_cast<float>(falls[t] + shift);
                }
                rising.enter(start, largest_of(size, rises, count));
                const double top = largest_of(size, falls, count);
                lowest = top > lowest ? top : lowest;
            }
            return rising.decide(n, [&](std::int64_t k) MM_LAMBDA { return up[k] - F[k]; });
        });
        next_.push_back(extremes(g, highest, lowest));
    }
    ahead_ = true;
}

// `second_order` on what `advance` left: half the memory, and no conversions.
template <class S>
std::int64_t Smo::nearby(const S* row, const Choice& choice) {
    const auto [first, last] = slots_of(choice.group);
    const double own = curvature_[choice.up], shift = shift_[choice.group];
    const auto scale = static_cast<float>(1.0 / (choice.high - choice.low));
    const auto high = static_cast<float>(choice.high - shift);
    const S unit = static_cast<S>(own != 0 ? 1.0 / std::abs(own) : 1.0);
    constexpr double least = 1e-7;
    const float* fall = fall_.data() + first;
    const double* curvature = curvature_.data() + first;
    const S* K = row + position_[first];
    const S same = static_cast<S>(own + own);
    const auto search = [&](auto sum_of) {
        return simd([&](auto size) MM_LAMBDA {
            return best_of<float>(size, last - first, [&](std::int64_t k) MM_LAMBDA {
                const S sum = sum_of(k);
                const S flat = (sum < 0 ? -sum : sum) * static_cast<S>(least);
                const S eta = sum - 2 * K[k];
                const float d = (high + fall[k]) * scale;
                const float score = d * d / static_cast<float>((eta > flat ? eta : flat) * unit);
                return d > 0 ? score : -std::numeric_limits<float>::infinity();
            });
        });
    };
    const float mine = fall_[choice.up];
    if (variables_[choice.up].last - variables_[choice.up].first == 1)
        fall_[choice.up] = -std::numeric_limits<float>::infinity();  // no step from it to itself
    const auto found =
        uniform_
            ? search([same](std::int64_t) MM_LAMBDA { return same; })
            : search([=](std::int64_t k) MM_LAMBDA { return static_cast<S>(own + curvature[k]); });
    fall_[choice.up] = mine;
    return found.index < 0 ? -1 : first + found.index;
}

// The group in which the two lie furthest apart.
Smo::Choice Smo::most_violating() const {
    Choice chosen{-1, -1, -inf, inf};
    if (ahead_) {
        for (const auto& found : next_)
            if (found.violation() > chosen.violation()) chosen = found;
        return chosen;
    }
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
std::int64_t Smo::second_order(const S* row, const Choice& choice) {
    const auto [first, last] = slots_of(choice.group);
    const double *down = down_.data() + first, *curvature = curvature_.data() + first;
    const double own = curvature_[choice.up], high = choice.high;
    // Scores in float, because division is what costs here; both scales keep them within its range.
    const double scale = 1.0 / (choice.high - choice.low);
    const S unit = static_cast<S>(own != 0 ? 1.0 / std::abs(own) : 1.0);
    // Below this share of K_ii + K_jj the curvature is rounding as soon as the difference is.
    constexpr double least = 1e-7;
    const auto search = [&](auto F, auto K) {
        return simd([&](auto size) MM_LAMBDA {
            return best_of<float>(size, last - first, [&](std::int64_t k) MM_LAMBDA {
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
    const double mine = down_[choice.up];
    if (variables_[choice.up].last - variables_[choice.up].first == 1)
        down_[choice.up] = inf;  // no step from it to itself
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
    down_[choice.up] = mine;
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
                return simd([&](auto size) MM_LAMBDA {
                    return best_of<double>(size, to - from, [&](std::int64_t k) MM_LAMBDA {
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
    if (fused_ && !ahead_) {
        const std::vector<S> nothing(static_cast<std::size_t>(active()), S(0));
        advance(nothing.data(), 0.0, nothing.data(), 0.0);
        for (std::size_t g = 0; g < shift_.size(); ++g)  // near the multiplier float is precise
            shift_[g] = next_[g].up < 0 ? 0.0 : 0.5 * (next_[g].high + next_[g].low);
        advance(nothing.data(), 0.0, nothing.data(), 0.0);
    }
    auto choice = problem_.blocks == 1 ? most_violating() : next_group();
    if (choice.up < 0 || choice.high - choice.low <= tol) return Outcome::converged;
    const auto i = choice.up;
    choice.high = up_[i] - F_[position_[i]];
    const S* row_i = row_of(cache, i, choice.group, true, pool);
    const auto j = fused_ ? nearby(row_i, choice) : second_order(row_i, choice);
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
    set_candidates(i);
    set_candidates(j);
    const bool timed = active() > 1000;  // the clock itself costs as much as a short row
    const double start = timed ? now() : 0.0;
    if (fused_) {
        for (std::size_t g = 0; g < shift_.size(); ++g)
            if (next_[g].up >= 0) shift_[g] = 0.5 * (next_[g].high + next_[g].low);
        advance(row_i, da, row_j, db);
    } else if (problem_.blocks == 1) {
        add_rows(row_i, da, row_j, db);
    } else {
        add_row(row_i, da, i);
        add_row(row_j, db, j);
    }
    if (timed) cache.counters.seconds_update += now() - start;
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
            const auto largest =
                simd([&](auto size) MM_LAMBDA { return best_of<double>(size, n, wish); });
            const auto gain = simd([&](auto size) MM_LAMBDA {
                return best_of<double>(size, n, [&](std::int64_t k) MM_LAMBDA {
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

template Outcome Smo::pair_step(RowCache<float>&, Pool&);
template Outcome Smo::pair_step(RowCache<double>&, Pool&);
template Outcome Smo::single_step(RowCache<float>&, Pool&);
template Outcome Smo::single_step(RowCache<double>&, Pool&);

}  // namespace mm
