#include "face.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "blas.hpp"
#include "memory.hpp"
#include "simd.hpp"

namespace mm {

namespace {

constexpr std::int64_t largest = 2000;  // free variables: 32 MB
constexpr int rounds = 8;
constexpr double least = 1.0 / 128;  // of a step
constexpr double ridge = 1e-11;      // of the largest diagonal entry: K may be singular

// The free variables, their part of the quadratic and of the sums, and the direction to go.
struct Face {
    std::vector<std::int64_t> free, group;  // groups numbered among those that are met
    Large<double> H;
    std::int64_t room = 0;  // for so many variables
    std::vector<double> diagonal, gradient, step;
    std::int64_t groups = 0;

    std::int64_t size() const { return std::ssize(free); }
};

// Those of the candidates that are free at beta; the gradient of each lies at its place among them.
Face face_of(const Quadratic& q, std::span<const std::int64_t> candidates,
             std::span<const double> gradient, std::span<const double> beta) {
    Face face;
    std::vector<std::int64_t> name(q.m.size(), -1);
    for (std::size_t a = 0; a < candidates.size(); ++a) {
        const auto k = candidates[a], g = q.group[k];
        if (!(q.l[k] < beta[k] && beta[k] < q.u[k])) continue;
        face.free.push_back(k);
        face.gradient.push_back(gradient[a]);
        if (g >= 0 && name[g] < 0) name[g] = face.groups++;
        face.group.push_back(g < 0 ? -1 : name[g]);
    }
    return face;
}

template <class S>
void fill(Face& face, const Dense<S>& K, const Quadratic& q) {
    const auto n = face.size();
    if (face.room < n) {
        face.H = allocate<double>(n * n);
        face.room = n;
    }
    face.diagonal.resize(static_cast<std::size_t>(n));
    double top = 0;
    for (std::int64_t a = 0; a < n; ++a) {
        const S* row = K.data + q.row[face.free[a]] * K.row_stride;
        double* out = face.H.get() + a * n;
        for (std::int64_t b = 0; b < n; ++b) out[b] = row[q.row[face.free[b]]];
        out[a] += q.D[face.free[a]];
        face.diagonal[a] = out[a];
        top = std::max(top, std::abs(out[a]));
    }
    for (std::int64_t a = 0; a < n; ++a) face.H[a * n + a] += ridge * top;
}

// Newton's direction that keeps every sum; false where there is none downhill.
bool aim(Face& face) {
    const auto n = face.size(), g = face.groups;
    if (!blas::factor(n, face.H.get())) return false;
    std::vector<double> sides(static_cast<std::size_t>(n * (g + 1)), 0.0);
    for (std::int64_t a = 0; a < n; ++a) {
        sides[a] = -face.gradient[a];
        if (face.group[a] >= 0) sides[(face.group[a] + 1) * n + a] = 1.0;
    }
    blas::solve(n, face.H.get(), g + 1, sides.data());
    // Groups do not interact through the sums but through H: a small system for the multipliers.
    std::vector<double> A(static_cast<std::size_t>(g * g), 0.0),
        c(static_cast<std::size_t>(g), 0.0);
    for (std::int64_t a = 0; a < n; ++a) {
        const auto own = face.group[a];
        if (own < 0) continue;
        c[own] += sides[a];
        for (std::int64_t j = 0; j < g; ++j) A[own * g + j] += sides[(j + 1) * n + a];
    }
    if (g > 0) {
        if (!blas::factor(g, A.data())) return false;
        blas::solve(g, A.data(), 1, c.data());
    }
    face.step.assign(static_cast<std::size_t>(n), 0.0);
    double slope = 0;
    for (std::int64_t a = 0; a < n; ++a) {
        face.step[a] = sides[a];
        for (std::int64_t j = 0; j < g; ++j) face.step[a] -= c[j] * sides[(j + 1) * n + a];
        slope += face.step[a] * face.gradient[a];
    }
    return std::isfinite(slope) && slope < 0;
}

// beta + t step, clipped; what the sums lack then goes to those still inside, as far as they have
// room. False if that is not far enough.
bool go(const Face& face, const Quadratic& q, std::span<const double> beta, double t,
        std::vector<double>& to) {
    const auto n = face.size();
    to.resize(static_cast<std::size_t>(n));
    std::vector<double> missing(static_cast<std::size_t>(face.groups), 0.0), size(missing);
    for (std::int64_t a = 0; a < n; ++a) {
        const auto k = face.free[a];
        to[a] = std::clamp(beta[k] + t * face.step[a], q.l[k], q.u[k]);
        if (face.group[a] >= 0) {
            missing[face.group[a]] -= to[a] - beta[k];
            size[face.group[a]] += std::abs(to[a]) + std::abs(beta[k]);
        }
    }
    for (std::int64_t g = 0; g < face.groups; ++g)
        for (int pass = 0; std::abs(missing[g]) > 1e-15 * size[g]; ++pass) {
            std::int64_t inside = 0;
            for (std::int64_t a = 0; a < n; ++a)
                inside +=
                    face.group[a] == g && q.l[face.free[a]] < to[a] && to[a] < q.u[face.free[a]];
            if (inside == 0 || pass > 20) return std::abs(missing[g]) <= 1e-12 * size[g];
            const double each = missing[g] / static_cast<double>(inside);
            for (std::int64_t a = 0; a < n; ++a) {
                const auto k = face.free[a];
                if (face.group[a] != g || !(q.l[k] < to[a] && to[a] < q.u[k])) continue;
                const double next = std::clamp(to[a] + each, q.l[k], q.u[k]);
                missing[g] -= next - to[a];
                to[a] = next;
            }
        }
    return true;
}

// H by, from the triangle that factoring has left alone and the diagonal.
void multiply(const Face& face, std::span<const double> by, std::vector<double>& out) {
    const auto n = face.size();
    out.assign(static_cast<std::size_t>(n), 0.0);
    for (std::int64_t a = 0; a < n; ++a) {
        const double* row = face.H.get() + a * n;
        double* sums = out.data();
        const double *x = by.data(), much = by[a];
        double own = face.diagonal[a] * much;
        simd([&]() MM_LAMBDA {
            for (std::int64_t b = 0; b < a; ++b) sums[b] += much * row[b];
        });
        for (std::int64_t b = 0; b < a; ++b) own += row[b] * x[b];
        out[a] += own;
    }
}

// The best of beta + t step for t = 1, 1/2, ...; false if none is better.
bool search(Face& face, const Quadratic& q, std::span<const double> beta, std::vector<double>& to,
            bool& whole) {
    std::vector<double> by, moved;
    for (double t = 1; t >= least; t *= 0.5) {
        if (!go(face, q, beta, t, to)) continue;
        by = to;
        for (std::int64_t a = 0; a < face.size(); ++a) by[a] -= beta[face.free[a]];
        multiply(face, by, moved);
        double change = 0;
        for (std::int64_t a = 0; a < face.size(); ++a)
            change += by[a] * (face.gradient[a] + 0.5 * moved[a]);
        if (!(change < 0)) continue;
        for (std::int64_t a = 0; a < face.size(); ++a) face.gradient[a] += moved[a];
        whole = t == 1;
        return true;
    }
    return false;
}

}  // namespace

template <class S>
bool minimise_on_face(const Dense<S>& K, const Quadratic& q, std::span<const double> gradient,
                      std::vector<double>& beta) {
    std::vector<std::int64_t> all(q.s.size());
    std::iota(all.begin(), all.end(), 0);
    auto face = face_of(q, all, gradient, beta);
    if (face.size() > largest) return false;
    bool better = false;
    std::vector<double> to;
    for (int round = 0; round < rounds && face.size() >= 2; ++round) {
        fill(face, K, q);
        bool whole = false;
        if (!aim(face) || !search(face, q, beta, to, whole)) break;
        better = true;
        for (std::int64_t a = 0; a < face.size(); ++a) beta[face.free[a]] = to[a];
        auto rest = face_of(q, face.free, face.gradient, beta);
        if (whole && rest.size() == face.size()) break;  // the face has its minimum
        rest.H = std::move(face.H);                      // its memory
        rest.room = face.room;
        face = std::move(rest);
    }
    return better;
}

template bool minimise_on_face(const Dense<float>&, const Quadratic&, std::span<const double>,
                               std::vector<double>&);
template bool minimise_on_face(const Dense<double>&, const Quadratic&, std::span<const double>,
                               std::vector<double>&);

}  // namespace mm
