#include "family.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "parallel.hpp"
#include "simd.hpp"

namespace mm {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double rounding = 1e-12;
constexpr std::int64_t patience = 200;  // steps per variable, and 20000, before giving up

// Move beta by as much as `missing` within these bounds: all variables of `which` alike, as far as
// each has room. Returns what is still missing.
double spread(std::vector<std::int64_t>& which, double missing, std::span<double> beta,
              std::span<const double> l, std::span<const double> u) {
    while (!which.empty() && missing != 0) {
        const double each = missing / static_cast<double>(which.size());
        double moved = 0;
        std::erase_if(which, [&](std::int64_t k) {
            const double to = std::clamp(beta[k] + each, l[k], u[k]), by = to - beta[k];
            beta[k] = to;
            moved += by;
            return to == (each > 0 ? u[k] : l[k]);  // no more room
        });
        missing -= moved;
        if (std::abs(missing) <= std::abs(each) * rounding || moved == 0) break;
    }
    return missing;
}

}  // namespace

Family::Family(Rows square, Members members, std::int64_t length, std::span<const double> beta,
               std::span<const double> kbeta, double tol, std::int64_t working_set)
    : square_(std::move(square)),
      members_(std::move(members)),
      length_(length),
      working_set_(working_set),
      tol_(tol) {
    const auto count = members_.count;
    chains_.resize(static_cast<std::size_t>((count + length - 1) / length));
    for (std::int64_t c = 0; c < std::ssize(chains_); ++c) {
        const auto b = beta.subspan(c * variables(), variables()),
                   k = kbeta.subspan(c * rows(), rows());
        chains_[c].beta.assign(b.begin(), b.end());
        chains_[c].kbeta.assign(k.begin(), k.end());
    }
    beta_.resize(static_cast<std::size_t>(count * variables()));
    kbeta_.resize(static_cast<std::size_t>(count * rows()));
    multipliers_.resize(static_cast<std::size_t>(count * members_.groups));
    violations_.assign(static_cast<std::size_t>(count), inf);
}

// kbeta += K by.
void Family::move(std::vector<double>& kbeta, std::span<const double> by) const {
    std::visit(
        [&](const auto& K) {
            if constexpr (requires { K.row_stride; }) {
                for (std::int64_t r = 0; r < std::ssize(by); ++r) {
                    if (by[r] == 0) continue;
                    const auto* row = K.data + r * K.row_stride;
                    const double much = by[r];
                    double* out = kbeta.data();
                    const auto n = std::ssize(kbeta);
                    simd([&]() MM_LAMBDA {
                        for (std::int64_t c = 0; c < n; ++c)
                            out[c] += much * static_cast<double>(row[c]);
                    });
                }
            }
        },
        square_);
}

// The feasible point near where the chain stands: into the box, then what the sums of the groups
// lack goes to the free variables alike, and only then to others. Solutions differ in few places.
void Family::begin(Chain& chain, std::int64_t member) {
    const auto n = variables(), g = members_.groups;
    const auto part = [&](const std::vector<double>& all, std::int64_t size) {
        const auto first = all.begin() + member * size;
        return std::vector<double>(first, first + size);
    };
    Quadratic q{members_.s,   part(members_.l, n), part(members_.u, n), part(members_.D, n),
                members_.row, members_.group,      part(members_.m, g), members_.diagonal};
    auto beta = chain.beta;
    for (std::int64_t k = 0; k < n; ++k) beta[k] = std::clamp(beta[k], q.l[k], q.u[k]);
    for (std::int64_t group = 0; group < g; ++group) {
        std::vector<std::int64_t> free, bound, zero;
        double missing = q.m[group], size = std::abs(missing);
        for (std::int64_t k = 0; k < n; ++k) {
            if (q.group[k] != group || q.l[k] == q.u[k]) continue;
            missing -= beta[k];
            size += std::abs(beta[k]);
            const bool inside = q.l[k] < beta[k] && beta[k] < q.u[k];
            (inside ? free : beta[k] != 0 ? bound : zero).push_back(k);
        }
        for (auto* which : {&free, &bound, &zero})
            if (std::abs(missing) > rounding * size)
                missing = spread(*which, missing, beta, q.l, q.u);
    }
    std::vector<double> by(static_cast<std::size_t>(rows()), 0.0);
    for (std::int64_t k = 0; k < n; ++k) by[q.row[k]] += beta[k] - chain.beta[k];
    move(chain.kbeta, by);
    std::visit(
        [&](const auto& K) {
            if constexpr (requires { K.row_stride; })
                chain.work = std::make_unique<Smo>(
                    Source{K, nullptr}, std::move(q), std::move(beta), chain.kbeta, tol_, false,
                    sizeof(*K.data) == 4, 0, working_set_, /*fixed_too=*/true);
        },
        square_);
}

void Family::finish(Chain& chain, std::int64_t member) {
    auto& work = *chain.work;
    work.rebalance();
    chain.beta.assign(work.beta().begin(), work.beta().end());
    chain.kbeta = work.kbeta();
    chain.iterations += work.iterations();
    std::ranges::copy(chain.beta, beta_.begin() + member * variables());
    std::ranges::copy(chain.kbeta, kbeta_.begin() + member * rows());
    const auto bounds = work.bounds();
    for (std::int64_t g = 0; g < members_.groups; ++g) {
        const auto [high, low] = bounds[g];
        multipliers_[member * members_.groups + g] = std::isinf(high)  ? low
                                                     : std::isinf(low) ? high
                                                                       : 0.5 * (high + low);
    }
    violations_[member] = work.violation();
    chain.work.reset();
    chain.steps = 0;
    ++chain.next;
}

void Family::work(std::int64_t index, double deadline) {
    auto& chain = chains_[index];
    const auto most = 20000 + patience * variables();
    while (chain.next < length_ && now() < deadline) {
        const auto member = index * length_ + chain.next;
        if (member >= members_.count) {
            chain.next = length_;
            return;
        }
        if (!chain.work) begin(chain, member);
        const auto outcome = chain.work->step(most, deadline - now(), 1);
        if (outcome == Outcome::running && chain.work->iterations() < most) return;
        const auto steps = chain.work->iterations();
        const bool progress = std::exchange(chain.steps, steps) < steps;
        if (outcome != Outcome::unbounded && steps < most && progress &&
            chain.work->violation() > tol_) {
            const auto sums = chain.work->kbeta();  // of stored rows: nothing has drifted
            chain.work->refresh(sums);
            continue;
        }
        finish(chain, member);
    }
}

bool Family::run(double seconds, int threads) {
    Pool pool(threads);
    const double deadline = now() + seconds;
    pool.run(std::ssize(chains_), 64 * members_.count * variables() * rows(),
             [&](std::int64_t index, int) { work(index, deadline); });
    return std::ranges::all_of(chains_, [&](const Chain& chain) { return chain.next >= length_; });
}

std::int64_t Family::iterations() const {
    std::int64_t sum = 0;
    for (const auto& chain : chains_) sum += chain.iterations;
    return sum;
}

}  // namespace mm
