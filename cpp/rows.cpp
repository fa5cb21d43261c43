#include "rows.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "blas.hpp"
#include "simd.hpp"

namespace mm {

namespace {

template <class R>
struct IsDense : std::false_type {};
template <class T>
struct IsDense<Dense<T>> : std::true_type {};

template <class P>
MM_INLINE P absolute(P x) {
    return x < 0 ? -x : x;
}

// One coordinate's share of a measure.
template <Measure what, class P>
MM_INLINE P share(P u, P v) {
    if constexpr (what == Measure::dot) return u * v;
    if constexpr (what == Measure::manhattan) return absolute(u - v);
    if constexpr (what == Measure::minimum) return u < v ? u : v;
    if constexpr (what == Measure::chi2) {
        const P sum = u + v, difference = u - v;
        return sum > 0 ? difference * difference / sum : P(0);
    }
}

// Sum over coordinates in 16 lanes, so that the compiler may use vectors without reordering.
template <Measure what, class P>
MM_INLINE P sum_shares(const P* u, const P* v, std::int64_t d) {
    constexpr int lanes = 16;
    P lane[lanes] = {};
    std::int64_t k = 0;
    for (; k + lanes <= d; k += lanes)
        for (int t = 0; t < lanes; ++t) lane[t] += share<what>(u[k + t], v[k + t]);
    P total = 0;
    for (; k < d; ++k) total += share<what>(u[k], v[k]);
    for (int t = 0; t < lanes; ++t) total += lane[t];
    return total;
}

// A sparse v against a dense u: the share of v = 0 for all coordinates, corrected where v != 0.
template <Measure what, class P>
P sum_sparse(const P* u, P at_zero, const P* values, const std::int32_t* indices,
             std::int64_t count) {
    P total = at_zero;
    for (std::int64_t k = 0; k < count; ++k) {
        const P x = u[indices[k]];
        total += share<what>(x, values[k]);
        if constexpr (what != Measure::dot) total -= share<what>(x, P(0));
    }
    return total;
}

template <class F>
auto with_measure(Measure what, F&& f) {
    switch (what) {
        case Measure::manhattan: return f(std::integral_constant<Measure, Measure::manhattan>{});
        case Measure::chi2: return f(std::integral_constant<Measure, Measure::chi2>{});
        case Measure::minimum: return f(std::integral_constant<Measure, Measure::minimum>{});
        default: return f(std::integral_constant<Measure, Measure::dot>{});
    }
}

}  // namespace

std::vector<double> mean(const Rows& rows, std::span<const std::int64_t> chosen) {
    std::vector<double> total(width(rows), 0.0);
    std::visit(
        [&](const auto& r) {
            if constexpr (IsDense<std::decay_t<decltype(r)>>::value) {
                for (const auto i : chosen)
                    for (std::int64_t k = 0; k < r.d; ++k)
                        total[k] += r.data[i * r.row_stride + k * r.column_stride];
                for (auto& t : total)
                    t /= static_cast<double>(std::max<std::size_t>(chosen.size(), 1));
            }
        },
        rows);
    return total;
}

template <class P>
void scatter(const Rows& rows, std::int64_t i, std::span<const double> centre, P* out) {
    std::visit(
        [&](const auto& r) {
            if constexpr (IsDense<std::decay_t<decltype(r)>>::value) {
                const auto* row = r.data + i * r.row_stride;
                if (centre.empty())
                    for (std::int64_t k = 0; k < r.d; ++k)
                        out[k] = static_cast<P>(row[k * r.column_stride]);
                else
                    for (std::int64_t k = 0; k < r.d; ++k)
                        out[k] = static_cast<P>(static_cast<double>(row[k * r.column_stride]) -
                                                centre[k]);
            } else {
                for (std::int64_t k = 0; k < r.d; ++k)
                    out[k] = centre.empty() ? P(0) : static_cast<P>(-centre[k]);
                for (auto k = r.offsets[i]; k < r.offsets[i + 1]; ++k)
                    out[r.indices[k]] += static_cast<P>(r.values[k]);
            }
        },
        rows);
}
template void scatter(const Rows&, std::int64_t, std::span<const double>, float*);
template void scatter(const Rows&, std::int64_t, std::span<const double>, double*);

std::vector<double> squared_norms(const Rows& rows, std::span<const std::int64_t> chosen,
                                  std::span<const double> centre) {
    std::vector<double> norms(chosen.size()), row(width(rows));
    for (std::size_t k = 0; k < chosen.size(); ++k) {
        scatter(rows, chosen[k], centre, row.data());
        norms[k] = simd([&]() MM_LAMBDA {
            return sum_shares<Measure::dot>(row.data(), row.data(),
                                            static_cast<std::int64_t>(row.size()));
        });
    }
    return norms;
}

std::vector<double> self_measure(const Rows& rows, std::span<const std::int64_t> chosen,
                                 Measure measure) {
    std::vector<double> out(chosen.size()), row(width(rows));
    const auto d = static_cast<std::int64_t>(row.size());
    for (std::size_t k = 0; k < chosen.size(); ++k) {
        scatter(rows, chosen[k], {}, row.data());
        out[k] = with_measure(
            measure, [&](auto what) { return sum_shares<what.value>(row.data(), row.data(), d); });
    }
    return out;
}

template <class P>
Packed<P>::Packed(const Rows& rows, std::span<const std::int64_t> chosen,
                  std::span<const double> centre)
    : n_(static_cast<std::int64_t>(chosen.size())), d_(mm::width(rows)), sparse_(is_sparse(rows)) {
    std::visit(
        [&](const auto& r) {
            using R = std::decay_t<decltype(r)>;
            if constexpr (IsDense<R>::value) {
                if constexpr (std::is_same_v<R, Dense<P>>) {
                    bool as_is = n_ == r.n && centre.empty() && r.row_stride == r.d &&
                                 (r.column_stride == 1 || r.d == 1);
                    for (std::int64_t k = 0; as_is && k < n_; ++k) as_is = chosen[k] == k;
                    if (as_is) {
                        borrowed_ = r.data;
                        return;
                    }
                }
                values_.resize(static_cast<std::size_t>(n_ * d_));
                for (std::int64_t k = 0; k < n_; ++k)
                    scatter(rows, chosen[k], centre, values_.data() + k * d_);
            } else {
                offsets_.assign(1, 0);
                for (const auto i : chosen) {
                    for (auto k = r.offsets[i]; k < r.offsets[i + 1]; ++k) {
                        values_.push_back(static_cast<P>(r.values[k]));
                        indices_.push_back(static_cast<std::int32_t>(r.indices[k]));
                    }
                    offsets_.push_back(static_cast<std::int64_t>(values_.size()));
                }
            }
        },
        rows);
}

template <class P>
void Packed<P>::keep(std::span<const std::int64_t> positions) {
    const auto kept = static_cast<std::int64_t>(positions.size());
    if (borrowed_) {
        values_.resize(static_cast<std::size_t>(kept * d_));
        for (std::int64_t k = 0; k < kept; ++k)
            std::copy_n(borrowed_ + positions[k] * d_, d_, values_.data() + k * d_);
        borrowed_ = nullptr;
    } else if (!sparse_) {
        for (std::int64_t k = 0; k < kept; ++k)
            std::copy_n(values_.data() + positions[k] * d_, d_, values_.data() + k * d_);
    } else {
        std::int64_t end = 0;
        for (std::int64_t k = 0; k < kept; ++k) {
            const auto from = offsets_[positions[k]], to = offsets_[positions[k] + 1];
            std::copy(values_.begin() + from, values_.begin() + to, values_.begin() + end);
            std::copy(indices_.begin() + from, indices_.begin() + to, indices_.begin() + end);
            offsets_[k] = end;
            end += to - from;
        }
        offsets_[kept] = end;
    }
    n_ = kept;
}

template <class P>
void Packed<P>::measure(Measure what, const P* a, std::int64_t m, std::int64_t first,
                        std::int64_t count, P* out) const {
    const P* dense = (borrowed_ ? borrowed_ : values_.data());
    if (!sparse_ && what == Measure::dot) {
        blas::abt(m, count, d_, a, dense + first * d_, out);
        return;
    }
    with_measure(what, [&](auto tag) {
        constexpr Measure measured = tag.value;
        for (std::int64_t r = 0; r < m; ++r) {
            const P* u = a + r * d_;
            P* line = out + r * count;
            if (!sparse_) {
                simd([&]() MM_LAMBDA {
                    for (std::int64_t j = 0; j < count; ++j)
                        line[j] = sum_shares<measured>(u, dense + (first + j) * d_, d_);
                });
                continue;
            }
            P at_zero = 0;
            if constexpr (measured != Measure::dot)
                for (std::int64_t k = 0; k < d_; ++k) at_zero += share<measured>(u[k], P(0));
            for (std::int64_t j = 0; j < count; ++j) {
                const auto from = offsets_[first + j];
                line[j] =
                    sum_sparse<measured>(u, at_zero, values_.data() + from, indices_.data() + from,
                                         offsets_[first + j + 1] - from);
            }
        }
    });
}

template class Packed<float>;
template class Packed<double>;

}  // namespace mm
