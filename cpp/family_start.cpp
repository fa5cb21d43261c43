// Where a member of a chain starts: the solution before it within the bounds of its own.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "family.hpp"

namespace mm {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

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

}  // namespace

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
    if (same && (skip_.empty() || !skip_[index * length() + chain.next - 1])) return false;
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
    if (!fresh && member.box < chain.box)  // K beta shrinks, and its error maybe with it
        chain.off = std::max(chain.off, drift(index));
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

}  // namespace mm
