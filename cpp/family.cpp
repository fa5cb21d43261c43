#include "family.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "face.hpp"
#include "multipliers.hpp"
#include "panels.hpp"
#include "parallel.hpp"
#include "sums.hpp"

namespace mm {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double rounding = 1e-12;
constexpr std::int64_t small = 640;      // rows of which a tile of all of them fits the caches
constexpr std::int64_t most = 1280;      // rows of a tile: 6.5 MB
constexpr std::int64_t some = 128;       // at most so many come to a tile in one round
constexpr double aim_at = 0.8;           // of tol, for a tile: float falls short of it at times
constexpr double closer = 0.1;           // a round lowers the violation of its tile to this share
constexpr std::int64_t tries = 4;        // rounds without gain before a member is given up
constexpr double turn = 4e-9;            // seconds, times rows squared: as long as a tile is worth
constexpr std::int64_t patience = 3000;  // steps before Newton's method is worth a thought
constexpr std::int64_t band = 384, block = 128;  // rows held, and others, of a product

// Move beta by as much as `missing` within these bounds: all variables of `which` alike, as far as
// each has room, up to a rest not worth it. Returns what is still missing.
double spread(std::vector<std::int64_t>& which, double missing, double rest, std::span<double> beta,
              std::span<const double> l, std::span<const double> u) {
    while (!which.empty() && std::abs(missing) > rest) {
        const double each = missing / static_cast<double>(which.size());
        double moved = 0;
        std::erase_if(which, [&](std::int64_t k) {
            const double to = std::clamp(beta[k] + each, l[k], u[k]), by = to - beta[k];
            beta[k] = to;
            moved += by;
            return to == (each > 0 ? u[k] : l[k]);  // no more room
        });
        missing -= moved;
        if (moved == 0) break;
    }
    return missing;
}

template <class F>
void of_dense(const Rows& square, const F& f) {
    std::visit(
        [&](const auto& K) {
            if constexpr (requires { K.row_stride; }) f(K);
        },
        square);
}

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
    beta_ = allocate<double>(length() * variables());
    std::fill_n(beta_.get(), length() * variables(), 0.0);
    held_ = allocate<double>(length() * rows_held());
    std::fill_n(held_.get(), length() * rows_held(), 0.0);
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

void Family::open(std::int64_t index) {
    auto& chain = chains_[index];
    auto& patch = patches_[data_.patch[index]];
    const auto first = data_.first[index], last = data_.first[index + 1];
    std::vector<std::int64_t> on(patch.rows.size(), -1);  // each row: its variable
    chain.shares = std::ssize(patch.rows) <= small;
    for (auto k = first; chain.shares && k < last; ++k)
        chain.shares = std::exchange(on[patch.place[data_.row[k]]], k) < 0;
    if (chain.shares) {
        std::call_once(patch.made, [&] {
            of_dense(square_, [&](const auto& K) { patch.tile.grow(K, patch.rows); });
        });
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

// The feasible point near it: what the sums of the groups lack goes to the free variables alike,
// and only then to others. Solutions differ in few places.
void Family::settle(const Chain& chain, std::span<const double> sums,
                    std::vector<double>& to) const {
    auto at = point(chain);
    at.beta = to.data();
    for (std::int64_t g = 0; g < std::ssize(sums); ++g) {
        const auto [sum, sizes] = balance(at, g);
        double missing = sums[g] - sum;
        const double size = sizes + std::abs(sums[g]);
        if (std::abs(missing) <= rounding * size) continue;
        std::vector<std::int64_t> free, bound, zero;
        for (std::int64_t v = 0; v < at.count; ++v) {
            if (chain.part[v] != static_cast<double>(g) || at.l[v] == at.u[v]) continue;
            const bool inside = at.l[v] < to[v] && to[v] < at.u[v];
            (inside ? free : to[v] != 0 ? bound : zero).push_back(v);
        }
        for (auto* which : {&free, &bound, &zero})
            missing = spread(*which, missing, rounding * size, to, chain.l, chain.u);
    }
}

// Prepare the next member; false where the last solution is that of this one too.
bool Family::begin(std::int64_t index) {
    auto& chain = chains_[index];
    const auto& member = members_[chain.next];
    const auto count = std::ssize(chain.beta), g = data_.groups;
    const bool fresh = std::exchange(chain.fresh, false);
    auto& to = chain.to;
    to.resize(chain.beta.size());
    bool same = rebound(chain.l_at_1.data(), chain.u_at_1.data(), member.box, chain.beta.data(),
                        count, chain.l.data(), chain.u.data(), to.data());
    std::vector<double> sums(data_.m.begin() + index * g, data_.m.begin() + (index + 1) * g);
    for (auto& sum : sums) sum *= member.sum;
    same =
        same && !fresh && (chain.flat || chain.scale == member.diagonal) &&
        (chain.sum == member.sum || std::ranges::all_of(sums, [](double sum) { return sum == 0; }));
    chain.sum = member.sum;
    if (std::exchange(chain.scale, member.diagonal) != member.diagonal && !chain.flat)
        for (std::int64_t v = 0; v < count; ++v) {
            chain.D[v] = chain.D_at_1[v] * member.diagonal;
            chain.curvature[v] = chain.diagonal[v] + chain.D[v];
        }
    if (same) return false;
    if (!chain.last.empty() && !chain.shares) {  // between breakpoints the path is a line
        const double on = (member.box - chain.box) / (chain.box - chain.box_before);
        for (std::int64_t v = 0; v < count && std::isfinite(on); ++v)
            if (chain.l[v] < to[v] && to[v] < chain.u[v])
                to[v] = std::clamp(to[v] + on * (chain.beta[v] - chain.last[v]), chain.l[v],
                                   chain.u[v]);
    }
    if (!fresh && !chain.shares) {
        chain.last = chain.beta;
        chain.box_before = chain.box;
    }
    settle(chain, sums, to);
    if (fresh) {
        fill(index, to);
    } else {
        // Where more variables grow with their bounds than stay, let all do: fewer are left to
        // move.
        const double factor = member.box / chain.box;
        const auto [grow, stay] = stretched(chain.beta.data(), to.data(), factor, count);
        if (grow > stay) {
            for (auto& sum : chain.kbeta) sum *= factor;
            stretch(to.data(), factor, count, chain.beta.data());
        }
    }
    move(index, to);
    chain.box = member.box;
    chain.going = true;
    chain.steps = chain.idle = chain.since = 0;
    chain.gained = 0;
    chain.leap = chain.reserve * patience;
    return true;
}

// Where C is small nearly all variables end at their bounds: start there, as far as the sums allow,
// if most of them would stay.
void Family::fill(std::int64_t index, std::vector<double>& to) {
    auto& chain = chains_[index];
    const auto count = std::ssize(to);
    const auto zero = [](double value) { return value == 0; };
    if (data_.groups != 1 || data_.m[index] != 0 || !std::ranges::all_of(to, zero) ||
        !std::ranges::all_of(chain.kbeta, zero))
        return;
    double room[2] = {0, 0};  // above and below
    for (std::int64_t k = 0; k < count; ++k) {
        room[0] += chain.u[k];
        room[1] -= chain.l[k];
    }
    const double least = std::min(room[0], room[1]);
    if (!(least < inf)) return;
    double left[2] = {least, least};
    auto full = to;
    for (std::int64_t k = 0; k < count; ++k) {
        const bool rises = chain.u[k] > -chain.l[k];
        const double by = std::min(rises ? chain.u[k] : -chain.l[k], left[rises ? 0 : 1]);
        left[rises ? 0 : 1] -= by;
        full[k] = rises ? by : -by;
    }
    auto kbeta = chain.kbeta;
    move(index, full);
    look(index);
    const double middle = 0.5 * (chain.high[0] + chain.low[0]);
    std::int64_t stay = 0, at_bounds = 0;
    for (std::int64_t k = 0; k < count; ++k) {
        if (full[k] == 0) continue;
        ++at_bounds;
        stay += (chain.r[k] - middle) * full[k] > 0;
    }
    if (2 * stay > at_bounds) {
        to = std::move(full);
    } else {
        chain.kbeta = std::move(kbeta);
        std::ranges::fill(chain.beta, 0.0);
    }
}

// K beta += sum over these variables of by times their rows.
void Family::add(std::int64_t index, std::span<const std::int64_t> variables,
                 std::span<const double> by, std::vector<double>& kbeta) const {
    const auto& patch = patches_[data_.patch[index]];
    const auto& place = chains_[index].place;
    of_dense(square_, [&]<class S>(const Dense<S>& K) {
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

// The tile to solve over, and what is known of its variables.
const Tile& Family::at_hand(std::int64_t index, TileProblem& p) {
    auto& chain = chains_[index];
    p.groups = data_.groups;
    if (chain.shares) {
        chain.to = chain.beta;
        p.beta = chain.to;
        p.l = chain.l;
        p.u = chain.u;
        p.curvature = chain.curvature;
        p.D = chain.D;
        p.r = chain.r;
        p.part = chain.part;
        return patches_[data_.patch[index]].tile;
    }
    auto& in = chain.in_tile;
    const auto gather = [&](const auto& from, auto& to, auto rest) {
        to.assign(static_cast<std::size_t>(padded(chain.tile.size())), rest);
        for (std::int64_t slot = 0; slot < std::ssize(chain.variables); ++slot)
            to[slot] = from[chain.variables[slot]];
    };
    gather(chain.beta, in.beta, 0.0);
    gather(chain.l, in.l, 0.0);
    gather(chain.u, in.u, 0.0);
    gather(chain.curvature, in.curvature, 1.0);
    gather(chain.D, in.D, 0.0);
    gather(chain.r, in.r, 0.0);
    gather(chain.part, in.part, 0.0);
    p.beta = in.beta;
    p.l = in.l;
    p.u = in.u;
    p.curvature = in.curvature;
    p.D = in.D;
    p.r = in.r;
    p.part = in.part;
    return chain.tile;
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

// Let the variables that most want to move come to the tile of a chain: as many that want to rise
// as want to fall, of each group together. Where it is full, those that want it least leave.
void Family::admit(std::int64_t index) {
    auto& chain = chains_[index];
    const auto count = std::ssize(chain.beta);
    std::vector<std::int64_t> rising, falling;
    std::int64_t wanted = 0;
    for (std::int64_t k = 0; k < count; ++k) {
        const auto g = static_cast<std::size_t>(chain.part[k]);
        const double middle = data_.groups > 0 ? 0.5 * (chain.high[g] + chain.low[g]) : 0.0;
        const double up = chain.beta[k] < chain.u[k] ? chain.r[k] - middle : -inf,
                     down = chain.beta[k] > chain.l[k] ? middle - chain.r[k] : -inf;
        chain.wish[k] = std::max(up, down);
        if (!(chain.wish[k] > 0)) continue;
        ++wanted;
        if (chain.slots[k] < 0) (up > down ? rising : falling).push_back(k);
    }
    const auto before = [&](std::int64_t a, std::int64_t b) {
        return chain.wish[a] != chain.wish[b] ? chain.wish[a] > chain.wish[b] : a < b;
    };
    std::vector<std::int64_t> more;
    for (auto* each : {&rising, &falling}) {
        const auto most_of_them = std::min<std::int64_t>(std::ssize(*each), some / 2);
        std::ranges::nth_element(*each, each->begin() + most_of_them, before);
        more.insert(more.end(), each->begin(), each->begin() + most_of_them);
    }
    std::ranges::sort(more);
    const auto size = std::ssize(chain.variables);
    auto stay = size;
    if (size + std::ssize(more) > most) stay = most / 2;
    if (2 * size > 3 * wanted + some / 2) stay = std::min(stay, wanted + wanted / 8 + some / 8);
    if (stay < size) {
        std::vector<std::int64_t> slots(static_cast<std::size_t>(size));
        std::iota(slots.begin(), slots.end(), 0);
        std::ranges::nth_element(slots, slots.begin() + stay, [&](std::int64_t a, std::int64_t b) {
            return before(chain.variables[a], chain.variables[b]);
        });
        slots.resize(static_cast<std::size_t>(stay));
        std::ranges::sort(slots);
        for (const auto k : chain.variables) chain.slots[k] = -1;
        for (std::int64_t slot = 0; slot < stay; ++slot) {
            chain.variables[slot] = chain.variables[slots[slot]];
            chain.slots[chain.variables[slot]] = slot;
        }
        chain.variables.resize(static_cast<std::size_t>(stay));
        if (chain.tile.size() > 0) chain.tile.keep(slots);
    }
    for (const auto k : more) {
        chain.slots[k] = std::ssize(chain.variables);
        chain.variables.push_back(k);
    }
    fill_tile(index);
}

// Rows of K for the variables that its tile does not have yet.
void Family::fill_tile(std::int64_t index) {
    auto& chain = chains_[index];
    std::vector<std::int64_t> rows;
    for (auto slot = chain.tile.size(); slot < std::ssize(chain.variables); ++slot)
        rows.push_back(patches_[data_.patch[index]].rows[chain.place[chain.variables[slot]]]);
    of_dense(square_, [&](const auto& K) { chain.tile.grow(K, rows); });
}

// Pairs creep where C is large and the free variables have settled. Newton's method costs as much
// as so many of their steps.
std::int64_t Family::price_of_leap(std::int64_t index) const {
    const auto& chain = chains_[index];
    std::int64_t free = 0;
    for (std::size_t v = 0; v < chain.l.size(); ++v)
        free += chain.l[v] < chain.beta[v] && chain.beta[v] < chain.u[v];
    const auto size = std::ssize(chain.shares ? chain.own : chain.variables);
    const double price = static_cast<double>(free * free) * static_cast<double>(free) /
                         static_cast<double>(15 * (size + some));
    return std::max<std::int64_t>(patience, static_cast<std::int64_t>(price));
}

void Family::leap(std::int64_t index) {
    auto& chain = chains_[index];
    const auto q = problem(index);
    std::vector<double> gradient;
    for (const double r : chain.r) gradient.push_back(-r);
    auto to = chain.beta;
    bool better = false;
    of_dense(square_, [&](const auto& K) { better = minimise_on_face(K, q, gradient, to); });
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
        auto out = held_.get() + q * rows_held() + held_at_[index];
        const auto fold = data_.fold[index];
        for (auto h = data_.first_held[fold]; h < data_.first_held[fold + 1]; ++h)
            *out++ = chain.kbeta[data_.held[h]];
    }
    ++done_;
}

// The variables of a fold on parts of the square that are not 0 in all members, by their rows.
std::vector<Family::Entry> Family::entries(std::int64_t fold) const {
    std::vector<Entry> found;
    for (std::int64_t c = 0; c < chains(); ++c)
        if (data_.fold[c] == fold && apart_[c])
            for (auto k = data_.first[c]; k < data_.first[c + 1]; ++k) {
                const double* own = beta_.get() + k * length();
                if (std::any_of(own, own + length(), [](double b) { return b != 0; }))
                    found.push_back({data_.row[k], c, k});
            }
    std::ranges::stable_sort(found, {}, &Entry::row);
    return found;
}

// K beta of some rows held, for all members of the chains of a fold that live on parts of the
// square: a block of rows at a time, with the chains that have variables there.
void Family::hold(const std::vector<Entry>& entries, std::int64_t fold, std::int64_t first,
                  std::int64_t last) {
    const auto m = length(), height = last - first;
    const auto stride = padded(height);
    std::vector<double> tile(static_cast<std::size_t>(stride * block)), coef, sums;
    std::vector<Patch::Run> runs;  // of rows held that lie side by side
    for (std::int64_t r = 0; r < height; ++r) {
        const auto row = data_.held[first + r];
        if (runs.empty() || runs.back().from + runs.back().length != row)
            runs.push_back({row, r, 0});
        ++runs.back().length;
    }
    std::vector<std::int64_t> column(static_cast<std::size_t>(chains() * m));
    for (std::size_t a = 0, b = 0; a < entries.size(); a = b) {
        std::vector<std::int64_t> rows, place;  // of the block, and where an entry's is among them
        for (b = a; b < entries.size(); ++b) {
            if (rows.empty() || rows.back() != entries[b].row) {
                if (std::ssize(rows) == block) break;
                rows.push_back(entries[b].row);
            }
            place.push_back(std::ssize(rows) - 1);
        }
        const auto width = std::ssize(rows);
        // One column for members that follow one another with the same solution.
        std::vector<std::int64_t> cells;
        std::ranges::fill(column, -1);
        for (auto e = a; e < b; ++e)
            if (column[entries[e].chain * m] < 0)
                for (auto cell = entries[e].chain * m; cell < (entries[e].chain + 1) * m; ++cell) {
                    if (!same_[cell]) cells.push_back(cell);
                    column[cell] = std::ssize(cells) - 1;
                }
        const auto count = std::ssize(cells);
        coef.assign(static_cast<std::size_t>(count * width), 0.0);
        for (auto e = a; e < b; ++e)
            for (std::int64_t q = 0; q < m; ++q)
                if (const auto cell = entries[e].chain * m + q; !same_[cell])
                    coef[column[cell] * width + place[e - a]] += beta_[entries[e].variable * m + q];
        of_dense(square_, [&](const auto& K) {
            for (std::int64_t j = 0; j < width; ++j) {
                const auto* from = K.data + rows[j] * K.row_stride;
                for (const auto& [row, to, length] : runs)
                    std::copy_n(from + row, length, tile.data() + j * stride + to);
            }
        });
        sums.resize(static_cast<std::size_t>(count * height));
        multiply(coef.data(), count, width, tile.data(), stride, height, sums.data());
        for (std::int64_t cell = 0; cell < std::ssize(column); ++cell) {
            if (column[cell] < 0) continue;
            double* out = held_.get() + cell % m * rows_held() + held_at_[cell / m] +
                          (first - data_.first_held[fold]);
            const double* sum = sums.data() + column[cell] * height;
            for (std::int64_t r = 0; r < height; ++r) out[r] += sum[r];
        }
    }
}

std::vector<double> Family::supports() const {
    const auto folds = std::ssize(data_.first_held) - 1, m = length(), n = rows();
    std::vector<char> used(static_cast<std::size_t>(folds * n * m));
    for (std::int64_t c = 0; c < chains(); ++c)
        for (auto k = data_.first[c]; k < data_.first[c + 1]; ++k) {
            char* to = used.data() + (data_.fold[c] * n + data_.row[k]) * m;
            for (std::int64_t q = 0; q < m; ++q) to[q] |= beta_[k * m + q] != 0;
        }
    std::vector<double> counts(static_cast<std::size_t>(folds * m));
    for (std::int64_t cell = 0; cell < folds * n; ++cell)
        for (std::int64_t q = 0; q < m; ++q) counts[cell / n * m + q] += used[cell * m + q];
    return counts;
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
    const double length_of_turn = std::max(1e-4, turn * static_cast<double>(rows() * rows()));
    std::vector<std::int64_t> at_work(static_cast<std::size_t>(threads), -1);  // on which patch
    // Chains of the patch at hand first, then those of one that no other thread has in its cache.
    const auto next = [&](int worker) {
        std::lock_guard lock(mutex);
        std::int64_t found = -1, best = 0, begun = 0;
        for (const auto c : order_) {
            if (progress_[c] == length()) continue;
            if (in_turns && ++begun > threads + 1) break;  // each has a tile of its own
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
            work(c, in_turns ? std::min(deadline, now() + length_of_turn) : deadline);
            std::lock_guard lock(mutex);
            progress_[c] = chains_[c].next;
            taken[c] = 0;
        }
    });
    if (done_ < count()) return false;
    hold_all(pool);
    return true;
}

// K beta of the rows held of chains that live on parts of the square.
void Family::hold_all(Pool& pool) {
    if (std::exchange(held_all_, true)) return;
    if (std::ranges::none_of(apart_, [](char apart) { return apart != 0; })) return;
    struct Band {
        std::int64_t fold, first, last;
    };
    std::vector<Band> bands;
    const auto folds = std::ssize(data_.first_held) - 1;
    std::vector<std::vector<Entry>> used(static_cast<std::size_t>(folds));
    pool.run(folds, 64 * count() * rows(),
             [&](std::int64_t fold, int) { used[fold] = entries(fold); });
    for (std::int64_t f = 0; f < folds; ++f)
        for (auto first = data_.first_held[f]; first < data_.first_held[f + 1]; first += band)
            bands.push_back({f, first, std::min(first + band, data_.first_held[f + 1])});
    pool.run(std::ssize(bands), 64 * count() * rows(), [&](std::int64_t index, int) {
        const auto [fold, first, last] = bands[index];
        hold(used[fold], fold, first, last);
    });
}

void Family::put_down(int threads) {
    Pool pool(threads);
    for (std::int64_t c = 0; c < chains(); ++c) {
        if (!chains_[c].open || chains_[c].next == 0) continue;
        const double off = 2 * drift(c);
        for (std::int64_t q = 0; q < chains_[c].next; ++q) violations_[c * length() + q] += off;
    }
    hold_all(pool);
}

}  // namespace mm
