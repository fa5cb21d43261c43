#include "kernel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "blas.hpp"
#include "simd.hpp"

namespace mm {

namespace {

bool is_radial(Op op) { return op == Op::rbf || op == Op::matern; }

Measure measure_of(Op op, bool by_differences) {
    switch (op) {
        case Op::rbf:
        case Op::matern: return by_differences ? Measure::square : Measure::dot;
        case Op::laplacian: return Measure::manhattan;
        case Op::chi2: return Measure::chi2;
        case Op::intersection: return Measure::minimum;
        default: return Measure::dot;
    }
}

bool is_leaf(Op op) { return op < Op::add; }
bool is_binary(Op op) { return op == Op::add || op == Op::mul; }

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

// Relatively accurate everywhere: 1 - e loses all digits of a small x, so there a rational function
// of x^2 takes over (Cephes, tanh.c; error 1e-16 up to 0.625).
template <class P>
MM_INLINE P hyperbolic_tangent(P x) {
    const P size = x < 0 ? -x : x, z = x * x;
    const P p = (P(-9.64399179425052238628e-1) * z - P(9.92877231001918586564e1)) * z -
                P(1.61468768441708447952e3);
    const P q = ((z + P(1.12811678491632931402e2)) * z + P(2.23548839060100448583e3)) * z +
                P(4.84406305325125486048e3);
    const P e = exp_negative(-2 * size);
    const P large = (1 - e) / (1 + e);
    return size < P(0.625) ? x + x * (z * (p / q)) : (x < 0 ? -large : large);
}

template <class P>
MM_INLINE P matern(P r, int twice_nu) {  // r = distance / length_scale
    if (twice_nu == 1) return exp_negative(-r);
    const P far = std::sqrt(static_cast<P>(twice_nu)) * r;
    const P root = far < P(1000) ? far : P(1000);  // exp is 0 there: infinity times it is not
    const P polynomial = twice_nu == 3 ? 1 + root : 1 + root + root * root / 3;
    return polynomial * exp_negative(-root);
}

// One row of a tile of a kernel in q(j) = ||u - v_j||^2, whose digits count; those of its
// exponential are relative to 1.
template <class T, class Distance>
MM_INLINE void radial(const Instruction& in, const Distance& q, std::int64_t count, T* out) {
    using P = decltype(q(0));
    const P a = static_cast<P>(in.a);
    if (in.op == Op::rbf) {
        for (std::int64_t j = 0; j < count; ++j) out[j] = exp_negative(static_cast<T>(-a * q(j)));
        return;
    }
    const P inverse = static_cast<P>(1 / in.b);
    const int twice_nu = static_cast<int>(std::lround(2 * in.a));
    for (std::int64_t j = 0; j < count; ++j)
        out[j] = matern(static_cast<T>(std::sqrt(q(j)) * inverse), twice_nu);
}

// One row of a tile: x[j] is the measure of u with v_j; nu, nv their squared norms, unless x is the
// squared distance itself.
template <class P, class T>
MM_INLINE void leaf(const Instruction& in, const P* x, P nu, const P* nv, std::int64_t count,
                    T* out) {
    const P a = static_cast<P>(in.a), b = static_cast<P>(in.b);
    switch (in.op) {
        case Op::rbf:
        case Op::matern:
            if (nv)
                radial(
                    in, [&](std::int64_t j) MM_LAMBDA { return squared_distance(nu, nv[j], x[j]); },
                    count, out);
            else
                radial(in, [&](std::int64_t j) MM_LAMBDA { return x[j]; }, count, out);
            break;
        case Op::poly: {
            const int degree = static_cast<int>(in.c);
            for (std::int64_t j = 0; j < count; ++j)
                out[j] = static_cast<T>(power(a * x[j] + b, degree));
            break;
        }
        case Op::sigmoid:
            for (std::int64_t j = 0; j < count; ++j)
                out[j] = static_cast<T>(hyperbolic_tangent(a * x[j] + b));
            break;
        case Op::laplacian:
        case Op::chi2:
            for (std::int64_t j = 0; j < count; ++j)
                out[j] = exp_negative(static_cast<T>(-a * (x[j] > 0 ? x[j] : P(0))));
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

template <class P, class T>
void run_leaf(const Instruction& in, const P* x, const Block<P>& a, const P* nv, std::int64_t count,
              T* out) {
    simd([&]() MM_LAMBDA {
        for (std::int64_t r = 0; r < a.rows.size(); ++r)
            leaf(in, x + r * count, nv ? a.norms[r] : P(0), nv, count, out + r * count);
    });
}

// Runs a program over `cells` numbers at a time; value(in, target) computes a leaf. The first leaf
// is written straight into `out`; further ones need a stack above it.
template <class T, class Leaf>
void run(std::span<const Instruction> code, std::size_t cells, Stack<T>& spare, T* out,
         const Leaf& value) {
    std::vector<T*> stack;
    for (const auto& in : code) {
        if (!is_leaf(in.op)) {
            T* top = stack.back();
            if (is_binary(in.op)) stack.pop_back();
            simd([&]() MM_LAMBDA {
                combine(in, stack.back(), top, static_cast<std::int64_t>(cells));
            });
            continue;
        }
        T* target = out;
        if (!stack.empty()) {
            if (spare.size() < stack.size()) spare.emplace_back();
            auto& room = spare[stack.size() - 1];
            if (room.size() < cells) room.resize(cells);
            target = room.data();
        }
        value(in, target);
        stack.push_back(target);
    }
}

// A bound on |dk / d||u - v||^2|. For nu = 1/2 there is none: near 0 the kernel answers to the
// distance itself, so that rounding of its square shows up as the root, 1e-8.
double leaf_steepness(const Instruction& in) {
    if (in.op == Op::rbf) return in.a;
    if (in.op != Op::matern) return 0.0;
    return in.a < 1 ? std::numeric_limits<double>::infinity() : 5.0 / (in.b * in.b);
}

// Norms and dot products give ||u - v||^2 within 8 eps R^2 for rows no longer than R; beyond 1e-11
// in the kernel, differences are worth their price (at most a few times a GEMM's). Rows far outside
// the basis decide nothing: from 2 R on the distance is half their length at least, so its relative
// error is small, and x exp(-x) is bounded. The basis alone decides, so a row is predicted alike in
// every batch. Written so that infinity times 0 asks for differences.
bool needs_differences(const Program& program, std::span<const double> norms) {
    constexpr double eps = std::numeric_limits<double>::epsilon();
    const double largest = norms.empty() ? 0.0 : *std::ranges::max_element(norms);
    return !(8 * eps * program.steepness() * largest <= 1e-11);
}

template <class P>
void check_finite(std::span<const P> norms) {
    for (const P norm : norms)
        if (!(norm <= std::numeric_limits<P>::max()))
            throw std::invalid_argument(
                "The kernel overflows on these data; scale the features first.");
}

}  // namespace

bool Program::uses_distance() const {
    return std::ranges::any_of(code, [](const auto& in) { return is_radial(in.op); });
}

bool Program::needs_nonnegative() const {
    return std::ranges::any_of(
        code, [](const auto& in) { return in.op == Op::chi2 || in.op == Op::intersection; });
}

bool Program::stationary() const {
    return std::ranges::all_of(code, [](const auto& in) {
        return !is_leaf(in.op) || is_radial(in.op) || in.op == Op::laplacian;
    });
}

double Program::steepness() const {
    std::vector<double> stack;
    for (const auto& in : code) {
        if (is_leaf(in.op)) stack.push_back(leaf_steepness(in));
        if (in.op == Op::pow) stack.back() *= in.a;
        if (is_binary(in.op)) {
            const double right = stack.back();
            stack.pop_back();
            stack.back() += right;
        }
    }
    return stack.back();
}

template <class P>
Basis<P>::Basis(const Rows& rows, std::span<const std::int64_t> chosen,
                std::shared_ptr<const Program> program)
    : program_(std::move(program)) {
    const bool distances = program_->uses_distance(), single = sizeof(P) == 4;
    // Centring shortens the norms that dot products cancel against, and what float rounds. In
    // double, differences are best taken of the data as they are.
    if (program_->stationary() && (distances || single)) centre_ = mean(rows, chosen);
    if (distances) {
        const auto norms = squared_norms(rows, chosen, centre_);
        by_differences_ = needs_differences(*program_, norms);
        if (!by_differences_)
            for (const double norm : norms) norms_.push_back(static_cast<P>(norm));
        check_finite<double>(norms);
    }
    if (by_differences_ && !single) centre_.clear();
    Wanted wanted{false, false};
    for (const auto& in : program_->code)
        if (is_leaf(in.op)) {
            const auto measure = measure_of(in.op, by_differences_);
            used_[static_cast<int>(measure)] = true;
            (measure == Measure::dot ? wanted.dots : wanted.others) = true;
        }
    packed_.fill(rows, chosen, centre_, wanted);
}

template <class P>
void Basis<P>::fill(Block<P>& block, const Rows& rows, std::span<const std::int64_t> chosen) const {
    block.rows.fill(rows, chosen, centre_);
    block.norms.clear();
    if (!program_->uses_distance() || by_differences_) return;
    for (const double norm : squared_norms(rows, chosen, centre_))
        block.norms.push_back(static_cast<P>(norm));
    check_finite<P>(block.norms);
}

template <class P>
void Basis<P>::keep(std::span<const std::int64_t> positions) {
    packed_.keep(positions);
    if (norms_.empty()) return;
    for (std::size_t k = 0; k < positions.size(); ++k) norms_[k] = norms_[positions[k]];
    norms_.resize(positions.size());
}

template <class P>
Basis<P> Basis<P>::part(const Rows& rows, std::span<const std::int64_t> chosen,
                        std::span<const std::int64_t> positions) const {
    Basis<P> some;
    some.program_ = program_;
    std::ranges::copy(used_, some.used_);
    some.by_differences_ = by_differences_;
    some.centre_ = centre_;
    some.packed_.fill(rows, chosen, centre_, packed_.wanted());
    if (!norms_.empty())
        for (const auto k : positions) some.norms_.push_back(norms_[k]);
    return some;
}

template <class P>
template <class T>
void Basis<P>::tile(const Block<P>& a, std::int64_t first, std::int64_t count, T* out,
                    Workspace<P>& workspace) const {
    const auto cells = static_cast<std::size_t>(a.rows.size() * count);
    for (int what = 0; what < measures; ++what)
        if (used_[what]) {
            auto& x = workspace.measured[what];
            if (x.size() < cells) x.resize(cells);
            packed_.measure(static_cast<Measure>(what), a.rows, first, count, x.data(),
                            workspace.spare);
        }
    const P* norms = norms_.empty() ? nullptr : norms_.data() + first;
    run(program_->code, cells, std::get<Stack<T>>(workspace.stacks), out,
        [&](const Instruction& in, T* target) {
            const auto what = static_cast<int>(measure_of(in.op, by_differences_));
            run_leaf(in, workspace.measured[what].data(), a, norms, count, target);
        });
}

bool of_dots(const Program& program) {
    return std::ranges::all_of(program.code, [](const auto& in) {
        return !is_leaf(in.op) || measure_of(in.op, false) == Measure::dot;
    });
}

namespace {

// K of a part of a row from its dot products, whose functions are computed in the precision of T.
template <class T>
struct RowOfDots {
    const Dots& from;
    std::vector<double> x;
    Stack<T> spare;

    explicit RowOfDots(const Dots& dots) : from(dots), x(dots.rows.size()) {}

    void fill(std::int64_t r, std::int64_t first, std::int64_t count, T* out) {
        const double* products = from.dots + from.rows[r] * from.n + first;
        if (!from.whole) {
            products -= first;
            for (std::int64_t j = 0; j < count; ++j) x[j] = products[from.rows[first + j]];
            products = x.data();
        }
        const double* norms = from.norms.data() + first;
        run(from.program.code, static_cast<std::size_t>(count), spare, out,
            [&](const Instruction& in, T* target) {
                simd([&]() MM_LAMBDA { leaf(in, products, from.norms[r], norms, count, target); });
            });
        if (first <= r && r < first + count) out[r - first] = static_cast<T>(from.diagonal[r]);
    }
};

}  // namespace

Dots::Dots(const Program& program_, const double* dots_, std::int64_t n_,
           std::span<const double> all_norms, std::span<const std::int64_t> rows_,
           std::span<const double> diagonal_)
    : program(program_), dots(dots_), n(n_), rows(rows_), diagonal(diagonal_) {
    whole = std::ssize(rows) == n;
    for (std::int64_t k = 0; k < std::ssize(rows); ++k) {
        norms.push_back(all_norms[rows[k]]);
        whole = whole && rows[k] == k;
    }
}

template <class T>
void Dots::fill(T* out, Pool& pool) const {
    constexpr std::int64_t some = 16;  // rows of a task
    const auto count = std::ssize(rows);
    pool.run((count + some - 1) / some, 16 * count * count, [&](std::int64_t index, int) {
        RowOfDots<T> row(*this);
        for (auto r = index * some; r < std::min((index + 1) * some, count); ++r)
            row.fill(r, 0, count, out + r * count);
    });
}

// Rows without a coefficient cost nothing.
void Dots::combine(const double* coef, std::int64_t q, double* out, Pool& pool) const {
    constexpr std::int64_t strip = 512, some = 64;
    const auto count = std::ssize(rows);
    std::vector<std::int64_t> used;
    std::vector<double> by;
    for (std::int64_t r = 0; r < count; ++r) {
        const double* from = coef + r * q;
        if (std::all_of(from, from + q, [](double c) { return c == 0; })) continue;
        used.push_back(r);
        by.insert(by.end(), from, from + q);
    }
    pool.run((count + strip - 1) / strip, (16 + q) * count * std::ssize(used),
             [&](std::int64_t index, int) {
                 RowOfDots<double> row(*this);
                 const auto first = index * strip, width = std::min(strip, count - first);
                 std::vector<double> values(static_cast<std::size_t>(some * width));
                 for (std::int64_t a = 0; a < std::ssize(used); a += some) {
                     const auto height = std::min(some, std::ssize(used) - a);
                     for (std::int64_t r = 0; r < height; ++r)
                         row.fill(used[a + r], first, width, values.data() + r * width);
                     blas::add_atb(width, q, height, values.data(), by.data() + a * q,
                                   out + first * q);
                 }
             });
}

template void Dots::fill(float*, Pool&) const;
template void Dots::fill(double*, Pool&) const;

std::vector<double> diagonal(const Rows& rows, const Program& program) {
    const auto all = all_rows(rows);
    std::vector<double> out(all.size());
    Stack<double> spare;
    run(program.code, out.size(), spare, out.data(), [&](const Instruction& in, double* target) {
        if (is_radial(in.op) || in.op == Op::laplacian || in.op == Op::chi2) {
            std::fill_n(target, out.size(), 1.0);  // distance 0
            return;
        }
        const auto x = self_measure(rows, all, measure_of(in.op, false));
        leaf<double>(in, x.data(), 0.0, nullptr, std::ssize(x), target);
    });
    return out;
}

double squared_radius(const Rows& rows) {
    const auto all = all_rows(rows);
    const auto norms = squared_norms(rows, all, mean(rows, all));
    return norms.empty() ? 0.0 : *std::ranges::max_element(norms);
}

template class Basis<float>;
template class Basis<double>;
template void Basis<float>::tile(const Block<float>&, std::int64_t, std::int64_t, float*,
                                 Workspace<float>&) const;
template void Basis<float>::tile(const Block<float>&, std::int64_t, std::int64_t, double*,
                                 Workspace<float>&) const;
template void Basis<double>::tile(const Block<double>&, std::int64_t, std::int64_t, float*,
                                  Workspace<double>&) const;
template void Basis<double>::tile(const Block<double>&, std::int64_t, std::int64_t, double*,
                                  Workspace<double>&) const;

}  // namespace mm
