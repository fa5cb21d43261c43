#include "kernel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "simd.hpp"

namespace mm {

namespace {

Measure measure_of(Op op) {
    switch (op) {
        case Op::laplacian: return Measure::manhattan;
        case Op::chi2: return Measure::chi2;
        case Op::intersection: return Measure::minimum;
        default: return Measure::dot;
    }
}

bool is_leaf(Op op) { return op < Op::add; }

template <class P>
MM_INLINE P power(P base, int exponent) {
    P result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result *= base;
        base *= base;
    }
    return result;
}

// ||u - v||^2 from the dot product. In float64 a distance below the rounding error of its own
// formula is 0, so that coinciding rows have exactly equal kernel values.
template <class P>
MM_INLINE P squared_distance(P norm_u, P norm_v, P dot) {
    const P sum = norm_u + norm_v;
    const P q = sum - 2 * dot;
    const P noise = sizeof(P) == 8 ? 8 * std::numeric_limits<P>::epsilon() * sum : P(0);
    return q > noise ? q : P(0);
}

template <class P>
MM_INLINE P hyperbolic_tangent(P x) {
    const P e = exp_negative(-2 * (x < 0 ? -x : x));
    const P t = (1 - e) / (1 + e);
    return x < 0 ? -t : t;
}

template <class P>
MM_INLINE P matern(P r, int twice_nu) {  // r = distance / length_scale
    if (twice_nu == 1) return exp_negative(-r);
    const P root = std::sqrt(static_cast<P>(twice_nu)) * r;
    const P polynomial = twice_nu == 3 ? 1 + root : 1 + root + root * root / 3;
    return polynomial * exp_negative(-root);
}

// One row of a tile: x[j] is the measure of u with v_j; nu, nv their squared norms.
template <class P>
MM_INLINE void leaf(const Instruction& in, const P* x, P nu, const P* nv, std::int64_t count,
                    P* out) {
    const P a = static_cast<P>(in.a), b = static_cast<P>(in.b);
    switch (in.op) {
        case Op::rbf:
            for (std::int64_t j = 0; j < count; ++j)
                out[j] = exp_negative(-a * squared_distance(nu, nv[j], x[j]));
            break;
        case Op::matern: {
            const P inverse = 1 / b;
            const int twice_nu = static_cast<int>(std::lround(2 * in.a));
            for (std::int64_t j = 0; j < count; ++j)
                out[j] = matern(std::sqrt(squared_distance(nu, nv[j], x[j])) * inverse, twice_nu);
            break;
        }
        case Op::poly: {
            const int degree = static_cast<int>(in.c);
            for (std::int64_t j = 0; j < count; ++j) out[j] = power(a * x[j] + b, degree);
            break;
        }
        case Op::sigmoid:
            for (std::int64_t j = 0; j < count; ++j) out[j] = hyperbolic_tangent(a * x[j] + b);
            break;
        case Op::laplacian:
        case Op::chi2:
            for (std::int64_t j = 0; j < count; ++j)
                out[j] = exp_negative(-a * (x[j] > 0 ? x[j] : P(0)));
            break;
        default: std::copy_n(x, count, out);  // linear, intersection
    }
}

// The top of the stack combined with the entry below it, or changed alone.
template <class P>
MM_INLINE void combine(const Instruction& in, P* below, P* top, std::int64_t count) {
    const P a = static_cast<P>(in.a);
    switch (in.op) {
        case Op::add:
            for (std::int64_t j = 0; j < count; ++j) below[j] += top[j];
            break;
        case Op::mul:
            for (std::int64_t j = 0; j < count; ++j) below[j] *= top[j];
            break;
        case Op::scale:
            for (std::int64_t j = 0; j < count; ++j) top[j] *= a;
            break;
        default:
            for (std::int64_t j = 0; j < count; ++j) top[j] = power(top[j], static_cast<int>(in.a));
    }
}

template <class P>
void run_leaf(const Instruction& in, const P* x, const Block<P>& a, const P* nv, std::int64_t count,
              P* out) {
    simd([&]() MM_LAMBDA {
        for (std::int64_t r = 0; r < a.m; ++r)
            leaf(in, x + r * count, a.norms.empty() ? P(0) : a.norms[r], nv, count,
                 out + r * count);
    });
}

}  // namespace

bool Program::uses(Measure what) const {
    return std::ranges::any_of(
        code, [&](const auto& in) { return is_leaf(in.op) && measure_of(in.op) == what; });
}

bool Program::uses_distance() const {
    return std::ranges::any_of(
        code, [](const auto& in) { return in.op == Op::rbf || in.op == Op::matern; });
}

bool Program::stationary() const {
    return std::ranges::all_of(code, [](const auto& in) {
        return !is_leaf(in.op) || in.op == Op::rbf || in.op == Op::matern || in.op == Op::laplacian;
    });
}

template <class P>
void Block<P>::fill(const Rows& rows, std::span<const std::int64_t> chosen,
                    std::span<const double> centre, bool with_norms) {
    m = static_cast<std::int64_t>(chosen.size());
    const auto d = mm::width(rows);
    data.resize(static_cast<std::size_t>(m * d));
    for (std::int64_t r = 0; r < m; ++r) scatter(rows, chosen[r], centre, data.data() + r * d);
    norms.clear();
    if (with_norms)
        for (const double norm : squared_norms(rows, chosen, centre))
            norms.push_back(static_cast<P>(norm));
}

template <class P>
Basis<P>::Basis(const Rows& rows, std::span<const std::int64_t> chosen,
                std::shared_ptr<const Program> program)
    : program_(std::move(program)),
      centre_(program_->stationary() && !is_sparse(rows) ? mean(rows, chosen)
                                                         : std::vector<double>{}),
      packed_(rows, chosen, centre_) {
    if (program_->uses_distance())
        for (const double norm : squared_norms(rows, chosen, centre_))
            norms_.push_back(static_cast<P>(norm));
}

template <class P>
void Basis<P>::keep(std::span<const std::int64_t> positions) {
    packed_.keep(positions);
    if (norms_.empty()) return;
    for (std::size_t k = 0; k < positions.size(); ++k) norms_[k] = norms_[positions[k]];
    norms_.resize(positions.size());
}

template <class P>
void Basis<P>::tile(const Block<P>& a, std::int64_t first, std::int64_t count, P* out,
                    Workspace<P>& workspace) const {
    const auto cells = static_cast<std::size_t>(a.m * count);
    for (int what = 0; what < 4; ++what)
        if (program_->uses(static_cast<Measure>(what))) {
            auto& x = workspace.measures[what];
            if (x.size() < cells) x.resize(cells);
            packed_.measure(static_cast<Measure>(what), a.data.data(), a.m, first, count, x.data());
        }
    const P* norms = norms_.empty() ? nullptr : norms_.data() + first;
    // The first leaf is written straight into `out`; further ones need a stack above it.
    std::vector<P*> stack;
    for (const auto& in : program_->code) {
        if (!is_leaf(in.op)) {
            const bool binary = in.op == Op::add || in.op == Op::mul;
            P* top = stack.back();
            if (binary) stack.pop_back();
            simd([&]() MM_LAMBDA {
                combine(in, stack.back(), top, static_cast<std::int64_t>(cells));
            });
            continue;
        }
        P* target = out;
        if (!stack.empty()) {
            if (workspace.stack.size() < stack.size()) workspace.stack.emplace_back();
            auto& room = workspace.stack[stack.size() - 1];
            if (room.size() < cells) room.resize(cells);
            target = room.data();
        }
        const auto& x = workspace.measures[static_cast<int>(measure_of(in.op))];
        run_leaf(in, x.data(), a, norms, count, target);
        stack.push_back(target);
    }
}

std::vector<double> diagonal(const Rows& rows, const Program& program) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(height(rows)));
    std::iota(all.begin(), all.end(), 0);
    std::vector<std::vector<double>> stack;
    for (const auto& in : program.code) {
        if (!is_leaf(in.op)) {
            auto top = std::move(stack.back());
            const bool binary = in.op == Op::add || in.op == Op::mul;
            if (binary)
                stack.pop_back();
            else
                stack.back() = std::move(top);
            auto& below = stack.back();
            combine(in, below.data(), binary ? top.data() : below.data(),
                    static_cast<std::int64_t>(below.size()));
            continue;
        }
        if (in.op == Op::rbf || in.op == Op::matern || in.op == Op::laplacian ||
            in.op == Op::chi2) {
            stack.emplace_back(all.size(), 1.0);  // distance 0
            continue;
        }
        auto x = self_measure(rows, all, measure_of(in.op));
        leaf<double>(in, x.data(), 0.0, nullptr, static_cast<std::int64_t>(x.size()), x.data());
        stack.push_back(std::move(x));
    }
    return std::move(stack.back());
}

double squared_radius(const Rows& rows) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(height(rows)));
    std::iota(all.begin(), all.end(), 0);
    const auto centre = is_sparse(rows) ? std::vector<double>{} : mean(rows, all);
    const auto norms = squared_norms(rows, all, centre);
    return norms.empty() ? 0.0 : *std::ranges::max_element(norms);
}

template struct Block<float>;
template struct Block<double>;
template class Basis<float>;
template class Basis<double>;

}  // namespace mm
