#include "family.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "blas.hpp"
#include "face.hpp"
#include "multipliers.hpp"
#include "parallel.hpp"
#include "simd.hpp"

namespace mm {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double rounding = 1e-12;
// Up to so many rows a square of their own, in the caches of a core, repays its copy.
constexpr std::int64_t compact = 1024;
constexpr std::int64_t patience = 500;          // steps before Newton's method is worth a thought
constexpr std::int64_t band = 128, block = 64;  // rows held, and others, of a product

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

// The feasible point near beta: what the sums of the groups lack goes to the free variables alike,
// and only then to others. Solutions differ in few places.
void settle(const Quadratic& q, std::vector<double>& beta) {
    const auto groups = std::ssize(q.m);
    std::vector<double> missing(q.m), size(q.m);
    for (auto& each : size) each = std::abs(each);
    for (std::int64_t k = 0; k < std::ssize(beta); ++k)
        if (q.group[k] >= 0 && q.l[k] < q.u[k]) {
            missing[q.group[k]] -= beta[k];
            size[q.group[k]] += std::abs(beta[k]);
        }
    for (std::int64_t group = 0; group < groups; ++group) {
        if (std::abs(missing[group]) <= rounding * size[group]) continue;
        std::vector<std::int64_t> free, bound, zero;
        for (std::int64_t k = 0; k < std::ssize(beta); ++k) {
            if (q.group[k] != group || q.l[k] == q.u[k]) continue;
            const bool inside = q.l[k] < beta[k] && beta[k] < q.u[k];
            (inside ? free : beta[k] != 0 ? bound : zero).push_back(k);
        }
        for (auto* which : {&free, &bound, &zero})
            if (std::abs(missing[group]) > rounding * size[group])
                missing[group] = spread(*which, missing[group], beta, q.l, q.u);
    }
}

// out += sum_r by_r K_r over the rows of a square.
template <class S>
void add_rows(const Dense<S>& K, std::span<const double> by, double* out) {
    const auto n = K.d;
    for (std::int64_t r = 0; r < std::ssize(by); ++r) {
        if (by[r] == 0) continue;
        const S* row = K.data + r * K.row_stride;
        const double much = by[r];
        simd([&]() MM_LAMBDA {
            for (std::int64_t c = 0; c < n; ++c) out[c] += much * static_cast<double>(row[c]);
        });
    }
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

Family::Family(Rows square, Chains chains, std::vector<Member> members,
               std::span<const double> beta, std::span<const double> kbeta, std::vector<char> skip,
               Limits limits)
    : square_(std::move(square)),
      data_(std::move(chains)),
      members_(std::move(members)),
      skip_(std::move(skip)),
      limits_(limits),
      compact_(kbeta.empty()) {
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
    beta_.resize(static_cast<std::size_t>(length()) * data_.s.size());
    held_at_.push_back(0);
    for (const auto fold : data_.fold)
        held_at_.push_back(held_at_.back() + data_.first_held[fold + 1] - data_.first_held[fold]);
    held_.resize(static_cast<std::size_t>(length() * rows_held()));
    same_.resize(cells);
    apart_.resize(static_cast<std::size_t>(count));
    multipliers_.resize(cells * static_cast<std::size_t>(data_.groups));
    violations_.resize(cells, inf);
    duals_.resize(cells);
    gaps_.resize(cells, inf);
    steps_.resize(cells);
}

// Lay out the rows of a chain: of a part of the square a copy, if it is small.
void Family::open(std::int64_t index) {
    auto& chain = chains_[index];
    const auto first = data_.first[index], last = data_.first[index + 1];
    chain.row.assign(data_.row.begin() + first, data_.row.begin() + last);
    chain.square = square_;
    std::vector<std::int64_t> own(chain.row);
    std::ranges::sort(own);
    own.erase(std::ranges::unique(own).begin(), own.end());
    if (compact_ && std::ssize(own) < rows() && std::ssize(own) <= compact) {
        chain.rows = std::move(own);
        apart_[index] = 1;
        std::vector<std::int64_t> place(static_cast<std::size_t>(rows()), -1);
        for (std::int64_t r = 0; r < std::ssize(chain.rows); ++r) place[chain.rows[r]] = r;
        for (auto& row : chain.row) row = place[row];
        for (const auto row : chain.rows) chain.diagonal.push_back(data_.diagonal[row]);
        of_dense(square_, [&](const auto& K) { gather(chain, K); });
    } else {
        chain.diagonal = data_.diagonal;
    }
    if (chain.beta.empty()) chain.beta.resize(chain.row.size());
    if (chain.kbeta.empty()) chain.kbeta.resize(static_cast<std::size_t>(rows_of(chain)));
    chain.beta_then = chain.beta;
    chain.kbeta_then = chain.kbeta;
}

// Runs of consecutive rows, as sorted classes have them, are copied as blocks.
template <class T>
void Family::gather(Chain& chain, const Dense<T>& K) {
    const auto n = std::ssize(chain.rows);
    chain.memory = allocate<char>(n * n * static_cast<std::int64_t>(sizeof(T)));
    T* out = reinterpret_cast<T*>(chain.memory.get());
    struct Run {
        std::int64_t from, to, length;
    };
    std::vector<Run> runs;
    for (std::int64_t r = 0; r < n; ++r)
        if (r > 0 && chain.rows[r] == chain.rows[r - 1] + 1)
            ++runs.back().length;
        else
            runs.push_back({chain.rows[r], r, 1});
    for (const auto row : chain.rows) {
        const T* from = K.data + row * K.row_stride;
        for (const auto& run : runs) std::copy_n(from + run.from, run.length, out + run.to);
        out += n;
    }
    chain.square = Dense<T>{reinterpret_cast<T*>(chain.memory.get()), n, n, n, 1};
}

Quadratic Family::problem(const Chain& chain, std::int64_t index, const Member& member) const {
    const auto first = data_.first[index], last = data_.first[index + 1], g = data_.groups;
    const auto part = [&](const std::vector<double>& all, double by) {
        std::vector<double> out(all.begin() + first, all.begin() + last);
        if (by != 1)
            for (auto& value : out) value *= by;
        return out;
    };
    Quadratic q{part(data_.s, 1),
                part(data_.l, member.box),
                part(data_.u, member.box),
                part(data_.D, member.diagonal),
                chain.row,
                {data_.group.begin() + first, data_.group.begin() + last},
                {data_.m.begin() + index * g, data_.m.begin() + (index + 1) * g},
                chain.diagonal};
    for (auto& m : q.m) m *= member.sum;
    return q;
}

// Prepare the next member; false where the last solution is that of this one too.
bool Family::begin(std::int64_t index) {
    auto& chain = chains_[index];
    auto q = problem(chain, index, members_[chain.next]);
    auto beta = chain.beta;
    const bool flat = std::ranges::all_of(q.D, [](double d) { return d == 0; });
    bool same = !chain.l.empty() && (flat || chain.scale == members_[chain.next].diagonal);
    for (std::int64_t k = 0; k < std::ssize(beta); ++k) {
        if (!chain.l.empty()) {  // what stands at a bound stays there
            const bool at_l = beta[k] == chain.l[k], at_u = beta[k] == chain.u[k];
            same = same && !(at_l && q.l[k] != chain.l[k]) && !(at_u && q.u[k] != chain.u[k]);
            if (at_l || at_u) beta[k] = at_l ? q.l[k] : q.u[k];
        }
        const double to = std::clamp(beta[k], q.l[k], q.u[k]);
        same = same && to == beta[k];
        beta[k] = to;
    }
    same = same && (chain.sum == members_[chain.next].sum ||
                    std::ranges::all_of(q.m, [](double m) { return m == 0; }));
    chain.l = q.l;
    chain.u = q.u;
    chain.scale = members_[chain.next].diagonal;
    chain.sum = members_[chain.next].sum;
    if (same) return false;
    settle(q, beta);
    std::vector<double> by(chain.kbeta.size(), 0.0);
    for (std::int64_t k = 0; k < std::ssize(beta); ++k) by[q.row[k]] += beta[k] - chain.beta[k];
    const auto n = std::ssize(chain.kbeta);
    if (std::ssize(data_.diagonal) == n) {  // rows that no variable of the chain lies on
        std::vector<char> met(chain.kbeta.size(), 0);
        for (const auto row : q.row) met[row] = 1;
        for (std::int64_t row = 0; row < n; ++row)
            if (!met[row]) {
                for (auto* each : {&q.s, &q.l, &q.u, &q.D}) each->push_back(0.0);
                q.row.push_back(row);
                q.group.push_back(q.m.empty() ? -1 : 0);
                beta.push_back(0.0);
            }
    }
    of_dense(chain.square, [&](const auto& K) {
        add_rows(K, by, chain.kbeta.data());
        chain.work = std::make_unique<Smo>(Source{K, nullptr}, std::move(q), std::move(beta),
                                           chain.kbeta, limits_.tol, false, sizeof(*K.data) == 4, 0,
                                           limits_.working_set, /*fixed_too=*/true);
    });
    chain.leap = steps_to_leap(index);
    return true;
}

// Pairs creep where C is large and the free variables have settled. Newton's method costs as much
// as so many of their steps.
std::int64_t Family::steps_to_leap(std::int64_t index) const {
    const auto& chain = chains_[index];
    const auto& work = *chain.work;
    std::int64_t free = 0;
    for (std::int64_t k = 0; k < std::ssize(chain.l); ++k)
        free += chain.l[k] < work.beta()[k] && work.beta()[k] < chain.u[k];
    const double price = static_cast<double>(free * free) * static_cast<double>(free) /
                         static_cast<double>(20 * rows_of(chain));
    const auto steps = std::max<std::int64_t>(patience, static_cast<std::int64_t>(price));
    return work.iterations() + chain.reserve * steps;
}

void Family::leap(std::int64_t index) {
    auto& chain = chains_[index];
    auto& work = *chain.work;
    const auto& member = members_[chain.next];
    std::vector<double> beta(work.beta().begin(), work.beta().end()), kbeta = work.kbeta();
    const auto q = problem(chain, index, member);
    const auto value = [&] {
        double sum = 0;
        for (std::size_t k = 0; k < chain.l.size(); ++k)
            sum += beta[k] * (q.s[k] - 0.5 * kbeta[q.row[k]] - 0.5 * q.D[k] * beta[k]);
        return sum;
    };
    const double before = value(), creeping = work.gained();
    bool better = false;
    of_dense(chain.square, [&](const auto& K) { better = minimise_on_face(K, q, beta, kbeta); });
    // Where it gains less than the steps before it, the free variables are not yet the right ones.
    chain.reserve = better && value() - before > 0.1 * creeping
                        ? 1
                        : std::min<std::int64_t>(2 * chain.reserve, 4);
    if (better) {
        work.assign(beta);
        work.refresh(kbeta);
    }
    chain.leap = steps_to_leap(index);
}

// Where all variables of a group are at bounds, or off them by rounding, an interval of multipliers
// is best: take its middle.
void Family::settle_multipliers(const Chain& chain, std::int64_t index,
                                std::vector<double>& multipliers) const {
    constexpr double hair = 1e-9;
    std::vector<char> pinned(multipliers.size(), 0);
    for (std::int64_t k = 0; k < std::ssize(chain.beta); ++k)
        if (const auto g = data_.group[data_.first[index] + k]; g >= 0) {
            const double slack = hair * (chain.u[k] - chain.l[k]);
            if (chain.beta[k] - chain.l[k] > slack && chain.u[k] - chain.beta[k] > slack)
                pinned[g] = 1;
        }
    if (std::ranges::all_of(pinned, [](char p) { return p != 0; })) return;
    const auto q = problem(chain, index, members_[chain.next]);
    std::vector<double> wish;
    for (std::int64_t k = 0; k < std::ssize(q.s); ++k)
        wish.push_back(q.s[k] - chain.kbeta[q.row[k]]);
    const Constraints of{q.s, q.l, q.u, q.D, q.group, q.m, 1e3 * rounding};
    const auto found = best_multipliers(of, wish, q.D);
    for (std::size_t g = 0; g < found.size(); ++g)
        if (!pinned[g]) multipliers[g] = found[g].middle();
}

// The duality gap of where a chain stands within the bounds of its next member.
double Family::gap(const Chain& chain, std::int64_t index,
                   std::span<const double> multipliers) const {
    double sum = 0;
    for (std::int64_t k = 0; k < std::ssize(chain.beta); ++k) {
        const auto all = data_.first[index] + k, g = data_.group[all];
        const double D = data_.D[all] * members_[chain.next].diagonal;
        const double r = data_.s[all] - chain.kbeta[chain.row[k]] - D * chain.beta[k] -
                         (g < 0 ? 0.0 : multipliers[g]);
        const double room = r > 0 ? chain.u[k] - chain.beta[k] : chain.beta[k] - chain.l[k];
        const double far = D > 0 ? std::min(room, std::abs(r) / D) : room;
        if (std::isfinite(far)) sum += std::abs(r) * far - 0.5 * D * far * far;
    }
    return sum;
}

void Family::finish(std::int64_t index) {
    auto& chain = chains_[index];
    auto& work = *chain.work;
    work.rebalance();
    chain.beta.assign(work.beta().begin(), work.beta().begin() + std::ssize(chain.beta));
    chain.kbeta = work.kbeta();
    const auto bounds = work.bounds();
    std::vector<double> multipliers;
    double violation = 0;
    for (const auto& [high, low] : bounds) {
        violation = std::max(violation, data_.groups > 0 ? high - low : std::max(high, -low));
        multipliers.push_back(std::isinf(high) ? low : std::isinf(low) ? high : 0.5 * (high + low));
    }
    multipliers.resize(static_cast<std::size_t>(data_.groups));
    const auto first = data_.first[index];
    settle_multipliers(chain, index, multipliers);
    double dual = 0;
    for (std::int64_t k = 0; k < std::ssize(chain.beta); ++k) {
        const double beta = chain.beta[k];
        if (beta == 0) continue;
        const double D = data_.D[first + k] * members_[chain.next].diagonal;
        dual += beta * (data_.s[first + k] - 0.5 * chain.kbeta[chain.row[k]] - 0.5 * D * beta);
    }
    record(index, multipliers, violation, dual, work.estimated_gap(), work.iterations());
    chain.work.reset();
    chain.steps = 0;
}

// Note down where the chain stands as the solution of its next member.
void Family::record(std::int64_t index, std::span<const double> multipliers, double violation,
                    double dual, double gap, std::int64_t steps) {
    auto& chain = chains_[index];
    const auto q = chain.next++, cell = index * length() + q;
    std::ranges::copy(chain.beta, beta_.begin() + q * variables() + data_.first[index]);
    std::ranges::copy(multipliers, multipliers_.begin() + cell * data_.groups);
    violations_[cell] = violation;
    duals_[cell] = dual;
    gaps_[cell] = gap;
    steps_[cell] = static_cast<double>(steps);
    if (chain.rows.empty()) {  // K beta is there for all rows
        auto out = held_.begin() + q * rows_held() + held_at_[index];
        const auto fold = data_.fold[index];
        for (auto h = data_.first_held[fold]; h < data_.first_held[fold + 1]; ++h)
            *out++ = chain.kbeta[data_.held[h]];
    }
    ++done_;
}

// K beta of some rows held, for all members of the chains of a fold that have squares of their own:
// a block of rows at a time, with the chains that have variables there.
void Family::hold(std::int64_t fold, std::int64_t first, std::int64_t last) {
    struct Entry {
        std::int64_t row, chain, variable;
    };
    std::vector<Entry> entries;
    for (std::int64_t c = 0; c < chains(); ++c)
        if (data_.fold[c] == fold && apart_[c])
            for (auto k = data_.first[c]; k < data_.first[c + 1]; ++k) {
                bool used = false;
                for (std::int64_t q = 0; q < length() && !used; ++q)
                    used = beta_[q * variables() + k] != 0;
                if (used) entries.push_back({data_.row[k], c, k});
            }
    std::ranges::stable_sort(entries, {}, &Entry::row);
    const auto m = length(), height = last - first;
    std::vector<double> tile(static_cast<std::size_t>(height * block)), coef, sums;
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
        coef.assign(static_cast<std::size_t>(width * count), 0.0);
        for (auto e = a; e < b; ++e)
            for (std::int64_t q = 0; q < m; ++q)
                if (const auto cell = entries[e].chain * m + q; !same_[cell])
                    coef[place[e - a] * count + column[cell]] +=
                        beta_[q * variables() + entries[e].variable];
        of_dense(square_, [&](const auto& K) {
            for (std::int64_t r = 0; r < height; ++r) {
                const auto* from = K.data + data_.held[first + r] * K.row_stride;
                for (std::int64_t j = 0; j < width; ++j) tile[r * width + j] = from[rows[j]];
            }
        });
        sums.assign(static_cast<std::size_t>(height * count), 0.0);
        blas::add_ab(height, count, width, tile.data(), coef.data(), sums.data());
        for (std::int64_t cell = 0; cell < std::ssize(column); ++cell) {
            if (column[cell] < 0) continue;
            double* out = held_.data() + cell % m * rows_held() + held_at_[cell / m] +
                          (first - data_.first_held[fold]);
            for (std::int64_t r = 0; r < height; ++r) out[r] += sums[r * count + column[cell]];
        }
    }
}

// How far K beta, summed up along the chain, has come off what a fresh product of all that moved
// since its start gives. K beta at the start may have shares of variables that are not here.
double Family::drift(const Chain& chain) const {
    std::vector<double> by(chain.kbeta.size(), 0.0), fresh(chain.kbeta_then);
    for (std::int64_t k = 0; k < std::ssize(chain.beta); ++k)
        by[chain.row[k]] += chain.beta[k] - chain.beta_then[k];
    of_dense(chain.square, [&](const auto& K) { add_rows(K, by, fresh.data()); });
    double worst = 0;
    for (std::size_t r = 0; r < by.size(); ++r)
        worst = std::max(worst, std::abs(fresh[r] - chain.kbeta[r]));
    return worst;
}

void Family::close(std::int64_t index) {
    auto& chain = chains_[index];
    const double off = 2 * drift(chain);
    for (std::int64_t q = 0; q < length(); ++q) violations_[index * length() + q] += off;
    Chain ended;  // without its memory
    ended.next = chain.next;
    chain = std::move(ended);
}

void Family::work(std::int64_t index, double deadline) {
    auto& chain = chains_[index];
    while (chain.next < length() && now() < deadline) {
        const auto cell = index * length() + chain.next;
        if (chain.row.empty()) open(index);
        if (!chain.work) {
            if (!skip_.empty() && skip_[cell]) {
                ++chain.next;
                ++done_;
            } else if (!begin(index)) {
                const auto g = data_.groups;
                const std::vector<double> before(multipliers_.begin() + (cell - 1) * g,
                                                 multipliers_.begin() + cell * g);
                same_[cell] = 1;
                record(index, before, violations_[cell - 1], duals_[cell - 1],
                       gap(chain, index, before), 0);
            }
        }
        if (chain.work) {
            const auto until = std::min(chain.leap, limits_.steps);
            const auto outcome =
                chain.work->step(until - chain.work->iterations(), deadline - now(), 1);
            const auto steps = chain.work->iterations();
            if (outcome == Outcome::running && steps < until) return;
            if (outcome == Outcome::running && steps < limits_.steps) {
                leap(index);
                continue;
            }
            const bool progress = std::exchange(chain.steps, steps) < steps;
            if (outcome != Outcome::unbounded && steps < limits_.steps && progress &&
                chain.work->violation() > limits_.tol) {
                const auto sums = chain.work->kbeta();  // of stored rows: nothing has drifted
                chain.work->refresh(sums);
                continue;
            }
            finish(index);
        }
        if (chain.next == length()) close(index);
    }
}

bool Family::run(double seconds, int threads) {
    Pool pool(threads);
    const double deadline = now() + seconds;
    pool.run(chains(), 64 * count() * rows(),
             [&](std::int64_t index, int) { work(index, deadline); });
    if (done_ < count()) return false;
    if (std::exchange(held_all_, true)) return true;
    struct Band {
        std::int64_t fold, first, last;
    };
    std::vector<Band> bands;
    for (std::int64_t f = 0; f + 1 < std::ssize(data_.first_held); ++f)
        for (auto first = data_.first_held[f]; first < data_.first_held[f + 1]; first += band)
            bands.push_back({f, first, std::min(first + band, data_.first_held[f + 1])});
    if (std::ranges::any_of(apart_, [](char apart) { return apart != 0; }))
        pool.run(std::ssize(bands), 64 * count() * rows(), [&](std::int64_t index, int) {
            hold(bands[index].fold, bands[index].first, bands[index].last);
        });
    return true;
}

}  // namespace mm
