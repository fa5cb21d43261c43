#include "family.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "face.hpp"
#include "multipliers.hpp"
#include "sums.hpp"

namespace mm {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr std::int64_t small = 640;  // rows of which a tile of all of them fits the caches
constexpr double aim_at = 0.8;       // of tol, for a tile: float falls short of it at times
constexpr double closer = 0.1;       // a round lowers the violation of its tile to this share
constexpr std::int64_t tries = 4;    // rounds without gain before a member is given up
constexpr double turn = 4e-9;        // seconds, times rows squared: as long as a tile is worth
constexpr double least_turn = 1e-4;  // seconds, where tiles are shared

}  // namespace

Family::Family(Rows square, std::shared_ptr<const Chains> chains, std::vector<double> diagonal,
               std::vector<Member> members, std::span<const double> beta,
               std::span<const double> kbeta, std::vector<char> skip, Limits limits)
    : square_(std::move(square)),
      chains_given_(std::move(chains)),
      data_(*chains_given_),
      diagonal_(std::move(diagonal)),
      members_(std::move(members)),
      skip_(std::move(skip)),
      limits_(limits) {
    const auto count = std::ssize(data_.first) - 1;
    chains_.resize(static_cast<std::size_t>(count));
    for (std::int64_t c = 0; c < count; ++c) {
        if (beta.empty()) continue;
        const auto b = beta.subspan(data_.first[c], data_.first[c + 1] - data_.first[c]),
                   k = kbeta.subspan(c * rows(), rows());
        chains_[c].beta.assign(b.begin(), b.end());
        chains_[c].kbeta.assign(k.begin(), k.end());
    }
    const auto cells = static_cast<std::size_t>(count * length());
    held_at_.push_back(0);
    for (const auto fold : data_.fold)
        held_at_.push_back(held_at_.back() + data_.first_held[fold + 1] - data_.first_held[fold]);
    beta_ = allocate<double>(length() * (variables() + rows_held()));
    held_ = beta_.get() + length() * variables();
    same_.resize(cells);
    apart_.resize(static_cast<std::size_t>(count));
    multipliers_.resize(cells * static_cast<std::size_t>(data_.groups));
    violations_.resize(cells, inf);
    duals_.resize(cells);
    gaps_.resize(cells, inf);
    steps_.resize(cells);
    progress_.resize(static_cast<std::size_t>(count));
    order_.resize(static_cast<std::size_t>(count));
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::stable_sort(order_, {}, [&](std::int64_t c) { return data_.patch[c]; });
    lay_patches(!kbeta.empty());
}

// The rows of each patch: those of its chains, or all.
void Family::lay_patches(bool all) {
    const auto n = rows();
    std::vector<char> here(static_cast<std::size_t>(n));
    for (std::size_t a = 0, b = 0; a < order_.size(); a = b) {
        const auto name = data_.patch[order_[a]];
        while (std::ssize(patches_) <= name) patches_.emplace_back();
        auto& patch = patches_[name];
        std::ranges::fill(here, all ? 1 : 0);
        for (b = a; b < order_.size() && data_.patch[order_[b]] == name; ++b)
            for (auto k = data_.first[order_[b]]; k < data_.first[order_[b] + 1]; ++k)
                here[data_.row[k]] = 1;
        patch.users = static_cast<std::int64_t>(b - a);
        for (std::int64_t row = 0; row < n; ++row)
            if (here[row]) {
                if (patch.rows.empty() || patch.rows.back() + 1 != row)
                    patch.runs.push_back({row, std::ssize(patch.rows), 0});
                patch.rows.push_back(row);
                ++patch.runs.back().length;
            }
        // Rows of other patches are held too: what K beta is there comes later, for all chains.
        for (auto c = a; c < b; ++c) apart_[order_[c]] = std::ssize(patch.rows) < n;
    }
}

// What it will have found. The first to touch new memory pays for it: here all threads do.
void Family::clear(std::int64_t index) {
    const auto first = data_.first[index], last = data_.first[index + 1];
    std::fill_n(beta_.get() + first * length(), (last - first) * length(), 0.0);
    for (std::int64_t q = 0; q < length(); ++q)
        std::fill(held_ + q * rows_held() + held_at_[index],
                  held_ + q * rows_held() + held_at_[index + 1], 0.0);
}

void Family::open(std::int64_t index) {
    auto& chain = chains_[index];
    auto& patch = patches_[data_.patch[index]];
    const auto first = data_.first[index], last = data_.first[index + 1];
    clear(index);
    std::vector<std::int64_t> on(patch.rows.size(), -1);  // each row: its variable
    chain.shares = std::ssize(patch.rows) <= small;
    for (auto k = first; chain.shares && k < last; ++k)
        chain.shares = std::exchange(on[patch.place(data_.row[k])], k) < 0;
    if (chain.shares) {
        std::call_once(patch.made,
                       [&] { of_dense([&](const auto& K) { patch.tile.grow(K, patch.rows); }); });
        chain.own = std::move(on);
    } else {
        chain.own.resize(static_cast<std::size_t>(last - first));
        std::iota(chain.own.begin(), chain.own.end(), first);
    }
    const auto some = std::ssize(chain.own);
    const auto count = static_cast<std::size_t>(padded(some));
    chain.own.resize(count, -1);
    chain.place.assign(count, 0);
    chain.group.assign(count, -1);
    for (auto* each : {&chain.s, &chain.D_at_1, &chain.l_at_1, &chain.u_at_1, &chain.diagonal,
                       &chain.curvature, &chain.r, &chain.wish, &chain.part})
        each->assign(count, 0.0);
    chain.l.assign(count, inf);
    chain.u.assign(count, -inf);
    for (std::int64_t v = 0; v < some; ++v) {
        const auto k = chain.own[v];
        chain.place[v] = k < 0 ? v : patch.place(data_.row[k]);
        if (k < 0) continue;
        chain.group[v] = data_.group[k];
        chain.part[v] = static_cast<double>(std::max<std::int64_t>(data_.group[k], 0));
        chain.s[v] = data_.s[k];
        chain.D_at_1[v] = data_.D[k];
        chain.flat = chain.flat && data_.D[k] == 0;
        chain.l_at_1[v] = data_.l[k];
        chain.u_at_1[v] = data_.u[k];
        chain.diagonal[v] = diagonal_[data_.row[k]];
    }
    chain.D = chain.D_at_1;
    chain.curvature = chain.diagonal;
    const auto given = std::exchange(chain.beta, std::vector<double>(count, 0.0));
    for (std::int64_t v = 0; !given.empty() && v < some; ++v)
        if (chain.own[v] >= 0) chain.beta[v] = given[chain.own[v] - first];
    chain.kbeta.resize(static_cast<std::size_t>(padded(std::ssize(patch.rows))), 0.0);
    if (!chain.shares) chain.gathered.assign(count, 0.0);
    chain.beta_then = chain.beta;
    chain.kbeta_then = chain.kbeta;
    chain.slots.assign(count, -1);
    chain.open = true;
}

Point Family::point(const Chain& chain) const {
    return {chain.s.data(),    chain.l.data(),
            chain.u.data(),    chain.D.data(),
            chain.beta.data(), chain.shares ? chain.kbeta.data() : chain.gathered.data(),
            chain.part.data(), std::ssize(chain.beta),
            data_.groups,      chain.flat};
}

Quadratic Family::problem(std::int64_t index) const {
    const auto& chain = chains_[index];
    const auto g = data_.groups;
    Quadratic q{chain.s,
                chain.l,
                chain.u,
                chain.D,
                {},
                chain.group,
                {data_.m.begin() + index * g, data_.m.begin() + (index + 1) * g},
                {}};
    for (const auto place : chain.place) q.row.push_back(patches_[data_.patch[index]].rows[place]);
    for (auto& m : q.m) m *= members_[chain.next].sum;
    return q;
}

// K beta += sum over these variables of by times their rows.
void Family::add(std::int64_t index, std::span<const std::int64_t> variables,
                 std::span<const double> by, std::vector<double>& kbeta) const {
    const auto& patch = patches_[data_.patch[index]];
    const auto& place = chains_[index].place;
    of_dense([&]<class S>(const Dense<S>& K) {
        std::vector<const S*> rows(variables.size());
        for (const auto& [from, to, length] : patch.runs) {
            for (std::size_t r = 0; r < rows.size(); ++r)
                rows[r] = K.data + patch.rows[place[variables[r]]] * K.row_stride + from;
            add_rows(rows, by.data(), kbeta.data() + to, length);
        }
    });
}

void Family::move(std::int64_t index, std::span<const double> to) {
    auto& chain = chains_[index];
    chain.moved.clear();
    chain.by.clear();
    for (std::int64_t v = 0; v < std::ssize(to); ++v)
        if (to[v] != chain.beta[v]) {
            chain.moved.push_back(v);
            chain.by.push_back(to[v] - chain.beta[v]);
            chain.beta[v] = to[v];
        }
    add(index, chain.moved, chain.by, chain.kbeta);
}

// r = s - K beta - D beta, its extremes per group, and the violation.
void Family::look(std::int64_t index) {
    auto& chain = chains_[index];
    for (std::int64_t v = 0; v < std::ssize(chain.gathered); ++v)
        chain.gathered[v] = chain.kbeta[chain.place[v]];
    const auto at = point(chain);
    const auto parts = std::max<std::int64_t>(data_.groups, 1);
    const bool finite = errors(at, chain.r.data());
    chain.high.clear();
    chain.low.clear();
    chain.violation = finite ? 0 : inf;  // nothing may be called solved there
    for (std::int64_t part = 0; part < parts; ++part) {
        const auto [high, low] = extremes(at, chain.r.data(), part);
        chain.high.push_back(high);
        chain.low.push_back(low);
        chain.violation =
            std::max(chain.violation, data_.groups > 0 ? high - low : std::max(high, -low));
    }
}

// Solve over a tile, and bring K beta up to date with what has moved; false when the member is
// solved, or is to be given up.
bool Family::round(std::int64_t index) {
    auto& chain = chains_[index];
    look(index);
    const double worst = chain.violation;
    if (worst <= limits_.tol || !std::isfinite(worst)) return false;
    if (chain.steps >= limits_.steps || chain.idle >= tries) return false;
    if (chain.steps >= chain.leap) {
        chain.leap = chain.since + chain.reserve * price_of_leap(index);
        if (chain.steps >= chain.leap) {
            leap(index);
            return true;
        }
    }
    if (!chain.shares) admit(index);
    TileProblem p;
    const auto& tile = at_hand(index, p);
    const double aim =
        chain.shares ? aim_at * limits_.tol : std::max(aim_at * limits_.tol, closer * worst);
    const auto until = std::min({chain.leap, limits_.steps, chain.steps + 4 * tile.size()});
    const auto outcome = chain.solver.solve(tile, p, aim, until - chain.steps);
    if (!chain.shares) {
        chain.to = chain.beta;
        for (std::int64_t slot = 0; slot < tile.size(); ++slot)
            chain.to[chain.variables[slot]] = p.beta[slot];
    }
    chain.steps += outcome.steps;
    if (outcome.unbounded) chain.idle = tries;
    advance(index, chain.to);
    return true;
}

// Move, and see what it has gained: exact for a quadratic, up to rounding.
double Family::advance(std::int64_t index, std::span<const double> to) {
    auto& chain = chains_[index];
    move(index, to);
    double gain = 0, size = 0;
    for (std::size_t k = 0; k < chain.moved.size(); ++k) {
        const auto v = chain.moved[k];
        const double by = chain.by[k];
        const double r = chain.s[v] - chain.kbeta[chain.place[v]] - chain.D[v] * chain.beta[v];
        gain += 0.5 * by * (chain.r[v] + r);
        size += std::abs(by * chain.s[v]) + std::abs(by * r);
    }
    chain.idle = gain > 1e-15 * size ? 0 : chain.idle + 1;
    chain.gained += gain;
    return gain;
}

void Family::leap(std::int64_t index) {
    auto& chain = chains_[index];
    const auto q = problem(index);
    std::vector<double> gradient;
    for (const double r : chain.r) gradient.push_back(-r);
    auto to = chain.beta;
    bool better = false;
    of_dense([&](const auto& K) { better = minimise_on_face(K, q, gradient, to); });
    const double creeping = chain.gained;
    // Where it gains less than the steps before it, the free variables are not yet the right ones.
    chain.reserve = better && advance(index, to) > 0.1 * creeping
                        ? 1
                        : std::min<std::int64_t>(2 * chain.reserve, 4);
    chain.gained = 0;
    chain.since = chain.steps;
    chain.leap = chain.since + chain.reserve * patience;
}

// Work on a chain up to some member or time, on something at least.
void Family::work(std::int64_t index, std::int64_t last, double deadline) {
    auto& chain = chains_[index];
    do {
        const auto cell = index * length() + chain.next;
        if (!chain.open) open(index);
        if (!chain.going) {
            if (!skip_.empty() && skip_[cell]) {
                step_on(index);
            } else if (!begin(index)) {
                repeat(index);
            }
        }
        if (chain.going && !round(index)) finish(index);
        if (chain.next == length()) close(index);
    } while (chain.next < last && now() < deadline);
    if (chain.open && !chain.going && limits_.abreast) lay_aside(index);
}

// The chain to work on next: first_ is the first that is not done.
class Family::Queue {
 public:
    Queue(Family& family, int threads)
        : family_(family),
          threads_(threads),
          taken_(family.chains_.size()),
          at_work_(static_cast<std::size_t>(threads), -1) {
        level_ = std::ranges::min(family.progress_);
    }

    // Few chains take turns, that none is left alone with one thread at the end.
    bool in_turns() const { return threads_ > 1 && family_.chains() < 8 * threads_; }

    std::int64_t take(int worker) {
        std::lock_guard lock(mutex_);
        while (first_ < family_.chains() && ended(family_.order_[first_])) ++first_;
        const auto c = family_.limits_.abreast ? abreast()
                       : in_turns()            ? least_advanced()
                                               : nearby(worker);
        if (c >= 0) {
            taken_[c] = 1;
            at_work_[worker] = family_.data_.patch[c];
        }
        return c;
    }

    void give_back(std::int64_t c) {
        std::lock_guard lock(mutex_);
        family_.progress_[c] = family_.chains_[c].next;
        taken_[c] = 0;
    }

 private:
    bool ended(std::int64_t c) const { return family_.progress_[c] == family_.length(); }

    // The same member of all chains, then the next one. What was at work when its turn came
    // follows later.
    std::int64_t abreast() {
        for (;; ++level_, cursor_ = first_) {
            for (cursor_ = std::max(cursor_, first_); cursor_ < family_.chains(); ++cursor_) {
                const auto c = family_.order_[cursor_];
                if (!taken_[c] && family_.progress_[c] <= level_ && !ended(c)) return c;
            }
            if (level_ >= family_.length()) return -1;
        }
    }

    // At most one more than there are threads is begun: each may have a tile of its own.
    std::int64_t least_advanced() const {
        std::int64_t found = -1, begun = 0;
        for (auto k = first_; k < family_.chains() && begun <= threads_; ++k) {
            const auto c = family_.order_[k];
            if (ended(c)) continue;
            ++begun;
            if (!taken_[c] && (found < 0 || family_.progress_[c] < family_.progress_[found]))
                found = c;
        }
        return found;
    }

    // Of the patch at hand first, then of one that no other thread has in its cache.
    std::int64_t nearby(int worker) const {
        std::int64_t found = -1, best = 0;
        for (auto k = first_; k < family_.chains() && best < 3; ++k) {
            const auto c = family_.order_[k];
            if (taken_[c] || ended(c)) continue;
            const auto patch = family_.data_.patch[c];
            const std::int64_t rank = at_work_[worker] == patch                  ? 3
                                      : std::ranges::count(at_work_, patch) == 0 ? 2
                                                                                 : 1;
            if (rank > best) {
                best = rank;
                found = c;
            }
        }
        return found;
    }

    Family& family_;
    int threads_;
    std::mutex mutex_;
    std::vector<char> taken_;
    std::vector<std::int64_t> at_work_;  // of each thread: on which patch
    std::int64_t first_ = 0, level_ = 0, cursor_ = 0;
};

bool Family::run(double seconds, int threads) {
    if (std::exchange(ended_, true)) throw std::logic_error("work that has ended, or failed");
    Pool pool(threads);
    Queue queue(*this, pool.threads());
    const double deadline = now() + seconds;
    const auto turn_of = [&](std::int64_t c) {
        const auto size = std::ssize(patches_[data_.patch[c]].rows);
        return size <= small ? least_turn : turn * static_cast<double>(rows() * rows());
    };
    pool.run(pool.threads(), 64 * count() * rows(), [&](std::int64_t, int worker) {
        do {
            const auto c = queue.take(worker);
            if (c < 0) return;
            if (limits_.abreast)
                work(c, progress_[c] + 1, deadline);
            else
                work(c, length(),
                     queue.in_turns() ? std::min(deadline, now() + turn_of(c)) : deadline);
            queue.give_back(c);
        } while (now() < deadline);
    });
    if (done_ == count()) hold_all(pool);
    ended_ = done_ == count();
    return ended_;
}

void Family::put_down(int threads) {
    Pool pool(threads);
    for (std::int64_t c = 0; c < chains(); ++c) {
        if (!chains_[c].open && chains_[c].next == 0) clear(c);
        if (!chains_[c].open) continue;
        judge_again(c);
    }
    hold_all(pool);
    ended_ = true;
}

}  // namespace mm
