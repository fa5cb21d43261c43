#include "family.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
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
        patch.place.assign(here.size(), -1);
        patch.users = static_cast<std::int64_t>(b - a);
        for (std::int64_t row = 0; row < n; ++row)
            if (here[row]) {
                if (patch.rows.empty() || patch.rows.back() + 1 != row)
                    patch.runs.push_back({row, std::ssize(patch.rows), 0});
                patch.place[row] = std::ssize(patch.rows);
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
        chain.shares = std::exchange(on[patch.place[data_.row[k]]], k) < 0;
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
        chain.place[v] = k < 0 ? v : patch.place[data_.row[k]];
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
    std::vector<double> multipliers;
    for (std::int64_t g = 0; g < data_.groups; ++g) {
        const double high = chain.high[g], low = chain.low[g];
        multipliers.push_back(std::isinf(high) ? low : std::isinf(low) ? high : 0.5 * (high + low));
    }
    settle_multipliers(index, multipliers);
    record(index, multipliers, chain.violation, value(point(chain), chain.r.data(), multipliers),
           chain.steps);
    chain.going = false;
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
}

// Note down where the chain stands as the solution of its next member.
void Family::record(std::int64_t index, std::span<const double> multipliers, double violation,
                    const Value& value, std::int64_t steps) {
    auto& chain = chains_[index];
    const auto q = chain.next++, cell = index * length() + q;
    for (std::int64_t v = 0; v < std::ssize(chain.beta); ++v)
        if (chain.own[v] >= 0) beta_[chain.own[v] * length() + q] = chain.beta[v];
    std::ranges::copy(multipliers, multipliers_.begin() + cell * data_.groups);
    violations_[cell] = violation;
    duals_[cell] = value.dual;
    gaps_[cell] = value.gap;
    steps_[cell] = static_cast<double>(steps);
    if (!apart_[index]) {  // K beta is there for all rows
        auto out = held_ + q * rows_held() + held_at_[index];
        const auto fold = data_.fold[index];
        for (auto h = data_.first_held[fold]; h < data_.first_held[fold + 1]; ++h)
            *out++ = chain.kbeta[data_.held[h]];
    }
    ++done_;
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

void Family::close(std::int64_t index) {
    auto& chain = chains_[index];
    const double off = 2 * drift(index);
    for (std::int64_t q = 0; q < length(); ++q) violations_[index * length() + q] += off;
    Chain ended;  // without its memory
    ended.next = chain.next;
    chain = std::move(ended);
    auto& patch = patches_[data_.patch[index]];
    if (--patch.users == 0) patch.tile = Tile();
}

void Family::work(std::int64_t index, double deadline) {
    auto& chain = chains_[index];
    while (chain.next < length() && now() < deadline) {
        const auto cell = index * length() + chain.next;
        if (!chain.open) open(index);
        if (!chain.going) {
            if (!skip_.empty() && skip_[cell]) {
                ++chain.next;
                ++done_;
            } else if (!begin(index)) {
                repeat(index);
            }
        }
        if (chain.going && !round(index)) finish(index);
        if (chain.next == length()) close(index);
    }
}

bool Family::run(double seconds, int threads) {
    Pool pool(threads);
    const double deadline = now() + seconds;
    std::mutex mutex;
    std::vector<char> taken(static_cast<std::size_t>(chains()));
    // Few chains take turns, that none is left alone with one thread at the end.
    const bool in_turns = threads > 1 && chains() < 8 * threads;
    const auto length_of_turn = [&](std::int64_t c) {
        const auto size = std::ssize(patches_[data_.patch[c]].rows);
        return size <= small ? least_turn : turn * static_cast<double>(rows() * rows());
    };
    std::vector<std::int64_t> at_work(static_cast<std::size_t>(threads), -1);  // on which patch
    // Chains of the patch at hand first, then those of one that no other thread has in its cache.
    const auto next = [&](int worker) {
        std::lock_guard lock(mutex);
        std::int64_t found = -1, best = 0, begun = 0;
        for (const auto c : order_) {
            if (progress_[c] == length()) continue;
            if (in_turns && ++begun > threads + 1) break;  // each may have a tile of its own
            if (taken[c]) continue;
            const auto patch = data_.patch[c];
            const std::int64_t rank = in_turns                   ? length() - progress_[c]
                                      : at_work[worker] == patch ? 3
                                      : std::ranges::count(at_work, patch) == 0 ? 2
                                                                                : 1;
            if (rank > best) {
                best = rank;
                found = c;
            }
            if (!in_turns && best == 3) break;
        }
        if (found >= 0) {
            taken[found] = 1;
            at_work[worker] = data_.patch[found];
        }
        return found;
    };
    pool.run(threads, 64 * count() * rows(), [&](std::int64_t, int worker) {
        while (now() < deadline) {
            const auto c = next(worker);
            if (c < 0) return;
            work(c, in_turns ? std::min(deadline, now() + length_of_turn(c)) : deadline);
            std::lock_guard lock(mutex);
            progress_[c] = chains_[c].next;
            taken[c] = 0;
        }
    });
    if (done_ < count()) return false;
    hold_all(pool);
    return true;
}

void Family::put_down(int threads) {
    Pool pool(threads);
    for (std::int64_t c = 0; c < chains(); ++c) {
        if (!chains_[c].open && chains_[c].next == 0) clear(c);
        if (!chains_[c].open) continue;
        const double off = 2 * drift(c);
        for (std::int64_t q = 0; q < chains_[c].next; ++q) violations_[c * length() + q] += off;
    }
    hold_all(pool);
}

}  // namespace mm
