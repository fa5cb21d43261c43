// Which variables of a chain are solved for at a time, where not all of them are.
#include <algorithm>
#include <limits>
#include <numeric>

#include "family.hpp"

namespace mm {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr std::int64_t most = 1280;  // rows of a tile: 6.5 MB
constexpr std::int64_t some = 128;   // at most so many come to a tile in one round

}  // namespace

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

// Without its own tile, where all chains together would hold more than the square.
void Family::lay_aside(std::int64_t index) {
    auto& chain = chains_[index];
    const auto side = std::min(most, std::ssize(chain.beta));
    if (chain.shares || chains() * side * side <= rows() * rows()) return;
    chain.tile = Tile();
    chain.variables.clear();
    std::ranges::fill(chain.slots, -1);
}

// Rows of K for the variables that its tile does not have yet.
void Family::fill_tile(std::int64_t index) {
    auto& chain = chains_[index];
    std::vector<std::int64_t> rows;
    for (auto slot = chain.tile.size(); slot < std::ssize(chain.variables); ++slot)
        rows.push_back(patches_[data_.patch[index]].rows[chain.place[chain.variables[slot]]]);
    of_dense([&](const auto& K) { chain.tile.grow(K, rows); });
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

}  // namespace mm
