#include "rows.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

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
    if constexpr (what == Measure::square) return (u - v) * (u - v);
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

// u.v of a sparse v by looking up a dense u; four sums, so that no addition waits for the last.
template <class P>
P sum_lookup(const P* u, const P* values, const std::int32_t* indices, std::int64_t count) {
    P lane[4] = {};
    std::int64_t k = 0;
    for (; k + 4 <= count; k += 4)
        for (int t = 0; t < 4; ++t) lane[t] += values[k + t] * u[indices[k + t]];
    for (; k < count; ++k) lane[0] += values[k] * u[indices[k]];
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

// Sum over the coordinates where either of two sparse rows is stored.
template <Measure what, class Nonzeros>
auto sum_merged(const Nonzeros& u, const Nonzeros& v) {
    using P = std::decay_t<decltype(*u.values)>;
    P total = 0;
    std::int64_t i = 0, j = 0;
    while (i < u.count && j < v.count) {
        const auto a = u.indices[i], b = v.indices[j];
        total += share<what>(a <= b ? u.values[i] : P(0), b <= a ? v.values[j] : P(0));
        i += a <= b;
        j += b <= a;
    }
    for (; i < u.count; ++i) total += share<what>(u.values[i], P(0));
    for (; j < v.count; ++j) total += share<what>(P(0), v.values[j]);
    return total;
}

template <class F>
auto with_measure(Measure what, F&& f) {
    switch (what) {
        case Measure::square: return f(std::integral_constant<Measure, Measure::square>{});
        case Measure::manhattan: return f(std::integral_constant<Measure, Measure::manhattan>{});
        case Measure::chi2: return f(std::integral_constant<Measure, Measure::chi2>{});
        case Measure::minimum: return f(std::integral_constant<Measure, Measure::minimum>{});
        default: return f(std::integral_constant<Measure, Measure::dot>{});
    }
}

// Beyond this width a table of all columns no longer fits the caches nor the promise about memory.
constexpr std::int64_t widest_table = 1 << 22;

}  // namespace

double mean_work(const Rows& rows) {
    return std::visit(
        []<class R>(const R& r) {
            if constexpr (IsDense<R>::value)
                return static_cast<double>(r.d);
            else
                return r.n > 0 ? 4.0 * static_cast<double>(r.offsets[r.n] - r.offsets[0]) /
                                     static_cast<double>(r.n)
                               : 0.0;
        },
        rows);
}

std::vector<std::int64_t> all_rows(const Rows& rows) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(height(rows)));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

std::vector<double> mean(const Rows& rows, std::span<const std::int64_t> chosen) {
    return std::visit(
        [&]<class R>(const R& r) {
            std::vector<double> total;
            if constexpr (IsDense<R>::value) {
                total.resize(static_cast<std::size_t>(r.d));
                for (const auto i : chosen) {
                    const auto* row = r.data + i * r.row_stride;
                    if (r.column_stride == 1)
                        for (std::int64_t k = 0; k < r.d; ++k) total[k] += row[k];
                    else
                        for (std::int64_t k = 0; k < r.d; ++k) total[k] += row[k * r.column_stride];
                }
                for (auto& t : total)
                    t /= static_cast<double>(std::max<std::size_t>(chosen.size(), 1));
            }
            return total;
        },
        rows);
}

template <class P>
void scatter(const Rows& rows, std::int64_t i, std::span<const double> centre, P* out) {
    std::visit(
        [&]<class R>(const R& r) {
            if constexpr (IsDense<R>::value) {
                const auto copy = [&](std::int64_t stride) MM_LAMBDA {
                    const auto* row = r.data + i * r.row_stride;
                    if (centre.empty())
                        for (std::int64_t k = 0; k < r.d; ++k)
                            out[k] = static_cast<P>(row[k * stride]);
                    else
                        for (std::int64_t k = 0; k < r.d; ++k)
                            out[k] =
                                static_cast<P>(static_cast<double>(row[k * stride]) - centre[k]);
                };
                if (r.column_stride == 1)  // the compiler's vectors need to know
                    copy(1);
                else
                    copy(r.column_stride);
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

namespace {

// The numbers of one row that a sum over its coordinates needs: of a sparse row the stored ones.
void gather(const Rows& rows, std::int64_t i, std::span<const double> centre,
            std::vector<double>& cells) {
    std::visit(
        [&]<class R>(const R& r) {
            if constexpr (!IsDense<R>::value)
                if (centre.empty())
                    return cells.assign(r.values + r.offsets[i], r.values + r.offsets[i + 1]);
            cells.resize(static_cast<std::size_t>(r.d));
            scatter(rows, i, centre, cells.data());
        },
        rows);
}

template <Measure what>
std::vector<double> with_itself(const Rows& rows, std::span<const std::int64_t> chosen,
                                std::span<const double> centre) {
    std::vector<double> out(chosen.size()), cells;
    for (std::size_t k = 0; k < chosen.size(); ++k) {
        gather(rows, chosen[k], centre, cells);
        out[k] = simd([&]() MM_LAMBDA {
            return sum_shares<what>(cells.data(), cells.data(), std::ssize(cells));
        });
    }
    return out;
}

}  // namespace

std::vector<double> squared_norms(const Rows& rows, std::span<const std::int64_t> chosen,
                                  std::span<const double> centre) {
    return with_itself<Measure::dot>(rows, chosen, centre);
}

std::vector<double> self_measure(const Rows& rows, std::span<const std::int64_t> chosen,
                                 Measure measure) {
    return with_measure(measure,
                        [&](auto what) { return with_itself<what.value>(rows, chosen, {}); });
}

template <class P>
void Packed<P>::fill(const Rows& rows, std::span<const std::int64_t> chosen,
                     std::span<const double> centre, Wanted wanted) {
    n_ = static_cast<std::int64_t>(chosen.size());
    d_ = mm::width(rows);
    wanted_ = wanted;
    column_starts_.clear();
    sparse_ = is_sparse(rows) && centre.empty();  // a centred basis is dense: so are its partners
    borrowed_ = nullptr;
    if (!sparse_ && wanted.dots)
        panels_.fill(n_, d_,
                     [&](std::int64_t k, P* out) { scatter(rows, chosen[k], centre, out); });
    std::visit(
        [&]<class R>(const R& r) {
            if constexpr (!IsDense<R>::value)
                if (sparse_) return fill_sparse(r, chosen);
            if (!wanted.others) return;
            if constexpr (IsDense<R>::value)
                if (borrow(r, chosen, centre)) return;
            values_.resize(static_cast<std::size_t>(n_ * d_));
            for (std::int64_t k = 0; k < n_; ++k)
                scatter(rows, chosen[k], centre, values_.data() + k * d_);
        },
        rows);
    if (sparse_ && wanted.dots) index();
}

// Consecutive rows that lie as they are wanted need no copy.
template <class P>
template <class T>
bool Packed<P>::borrow(const Dense<T>& rows, std::span<const std::int64_t> chosen,
                       std::span<const double> centre) {
    if constexpr (std::is_same_v<T, P>) {
        bool as_is = n_ > 0 && centre.empty() && (rows.row_stride == rows.d || n_ == 1) &&
                     (rows.column_stride == 1 || rows.d == 1);
        for (std::int64_t k = 1; as_is && k < n_; ++k) as_is = chosen[k] == chosen[0] + k;
        if (as_is) borrowed_ = rows.data + chosen[0] * rows.row_stride;
    }
    return borrowed_ != nullptr;
}

template <class P>
template <class T, class I>
void Packed<P>::fill_sparse(const Csr<T, I>& rows, std::span<const std::int64_t> chosen) {
    offsets_.assign(1, 0);
    for (const auto i : chosen)
        offsets_.push_back(offsets_.back() + rows.offsets[i + 1] - rows.offsets[i]);
    values_.resize(static_cast<std::size_t>(offsets_.back()));
    indices_.resize(values_.size());
    for (std::int64_t k = 0; k < n_; ++k) {
        const auto from = rows.offsets[chosen[k]], to = offsets_[k];
        for (std::int64_t t = 0; t < offsets_[k + 1] - to; ++t) {
            values_[to + t] = static_cast<P>(rows.values[from + t]);
            indices_[to + t] = static_cast<std::int32_t>(rows.indices[from + t]);
        }
    }
}

template <class P>
bool Packed<P>::has_negative() const {
    const auto count = sparse_ ? offsets_.back() : n_ * d_;
    const P* cells = borrowed_ ? borrowed_ : values_.data();
    return std::any_of(cells, cells + count, [](P x) { return x < 0; });
}

template <class P>
void Packed<P>::keep(std::span<const std::int64_t> positions) {
    const auto kept = static_cast<std::int64_t>(positions.size());
    if (!sparse_ && wanted_.dots) panels_.keep(positions);
    if (!sparse_ && !wanted_.others) {
    } else if (borrowed_) {
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
        offsets_.resize(static_cast<std::size_t>(kept + 1));
    }
    n_ = kept;
    if (sparse_ && wanted_.dots) index();
}

// A stretch of rows after the other, each sorted by columns: the sums of a stretch fit a cache.
// Columns that most rows have go to panels instead.
template <class P>
void Packed<P>::index() {
    column_starts_.clear();
    const auto stretches = (n_ + stretch - 1) / stretch, count = offsets_[n_];
    // A table of many more columns than numbers costs more than it saves.
    if (stretches * (d_ + 1) > std::max(4 * count, std::int64_t{1} << 16)) return;
    set_apart();
    column_rows_.resize(static_cast<std::size_t>(count));
    column_values_.resize(column_rows_.size());
    column_starts_.assign(static_cast<std::size_t>(stretches * (d_ + 1)), 0);
    std::vector<std::int64_t> next;
    for (std::int64_t s = 0; s < stretches; ++s) {
        const auto first = s * stretch, last = std::min(first + stretch, n_);
        auto* starts = column_starts_.data() + s * (d_ + 1);
        for (auto t = offsets_[first]; t < offsets_[last]; ++t)
            starts[indices_[t] + 1] += place_of_column_[indices_[t]] < 0;
        starts[0] = offsets_[first];
        for (std::int64_t k = 0; k < d_; ++k) starts[k + 1] += starts[k];
        next.assign(starts, starts + d_);
        for (auto k = first; k < last; ++k)
            for (auto t = offsets_[k]; t < offsets_[k + 1]; ++t) {
                if (place_of_column_[indices_[t]] >= 0) continue;
                const auto place = next[indices_[t]]++;
                column_rows_[place] = static_cast<std::int32_t>(k - first);
                column_values_[place] = values_[t];
            }
    }
}

// Two rows both have a column of density p in p^2 of all cases; a multiplication in a panel costs
// about a twentieth of one that has to be looked up.
template <class P>
void Packed<P>::set_apart() {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(d_), 0);
    for (std::int64_t t = 0; t < offsets_[n_]; ++t) ++counts[indices_[t]];
    place_of_column_.assign(static_cast<std::size_t>(d_), -1);
    full_ = 0;
    for (std::int64_t k = 0; k < d_; ++k)
        if (counts[k] * 5 > n_) place_of_column_[k] = static_cast<std::int32_t>(full_++);
    panels_.fill(n_, full_, [&](std::int64_t k, P* out) { gather_full(nonzeros(k), out); });
}

// The numbers of a row in the columns that are full.
template <class P>
void Packed<P>::gather_full(const Nonzeros& row, P* out) const {
    std::fill_n(out, full_, P(0));
    for (std::int64_t t = 0; t < row.count; ++t)
        if (const auto place = place_of_column_[row.indices[t]]; place >= 0)
            out[place] = row.values[t];
}

// One row as d numbers: where it lies if it is dense, else spread out in `spare` for a while.
template <class P>
class Packed<P>::Unpacked {
 public:
    Unpacked(const Packed& packed, std::int64_t k, Spare<P>& spare) {
        if (!packed.sparse_) {
            data = packed.row(k);
            return;
        }
        spare.row.resize(std::max(spare.row.size(), static_cast<std::size_t>(packed.d_)));
        spread_ = packed.nonzeros(k);
        spare_ = spare.row.data();
        for (std::int64_t t = 0; t < spread_.count; ++t)
            spare_[spread_.indices[t]] = spread_.values[t];
        data = spare_;
    }
    Unpacked(const Unpacked&) = delete;
    Unpacked& operator=(const Unpacked&) = delete;
    ~Unpacked() {
        for (std::int64_t t = 0; t < spread_.count; ++t) spare_[spread_.indices[t]] = P(0);
    }

    const P* data;

 private:
    Nonzeros spread_{nullptr, nullptr, 0};
    P* spare_ = nullptr;
};

// A sparse row u with a table of its columns, for sums over the coordinates where u or v is stored:
// those of v, then what is left of u. Nothing is subtracted, so no digits cancel; no branch has to
// be guessed, so it is several times faster than merging.
template <class P>
template <Measure what>
class Packed<P>::Placed {
 public:
    Placed(const Nonzeros& u, std::int64_t d, Spare<P>& spare) : u_(u), spare_(spare) {
        spare.places.resize(std::max(spare.places.size(), static_cast<std::size_t>(d)));
        spare.values.assign(1, P(0));
        spare.alone.assign(1, P(0));
        for (std::int64_t t = 0; t < u.count; ++t) {
            spare.places[u.indices[t]] = static_cast<std::int32_t>(t + 1);
            spare.values.push_back(u.values[t]);
            spare.alone.push_back(share<what>(u.values[t], P(0)));
        }
        spare.rest.resize(spare.alone.size());
    }
    Placed(const Placed&) = delete;
    Placed& operator=(const Placed&) = delete;
    ~Placed() {
        for (std::int64_t t = 0; t < u_.count; ++t) spare_.places[u_.indices[t]] = 0;
    }

    P sum(const Nonzeros& v) const {
        P* rest = spare_.rest.data();
        std::ranges::copy(spare_.alone, rest);
        P lane[4] = {};
        for (std::int64_t k = 0; k < v.count; ++k) {
            const auto place = spare_.places[v.indices[k]];
            lane[k % 4] += share<what>(spare_.values[place], v.values[k]);
            rest[place] = P(0);
        }
        for (std::int64_t k = 0; k <= u_.count; ++k) lane[k % 4] += rest[k];
        return (lane[0] + lane[1]) + (lane[2] + lane[3]);
    }

 private:
    Nonzeros u_;
    Spare<P>& spare_;
};

template <class P>
void Packed<P>::measure(Measure what, const Packed& left, std::int64_t first, std::int64_t count,
                        P* out, Spare<P>& spare) const {
    if (what == Measure::dot && !sparse_) return dot_by_panels(left, first, count, out, spare);
    if (what == Measure::dot && !column_starts_.empty() && left.sparse_)
        return dot_by_columns(left, first, count, out, spare);
    if (what == Measure::dot && sparse_ && (!left.sparse_ || d_ <= widest_table))
        return dot_by_lookup(left, first, count, out, spare);
    with_measure(what, [&](auto tag) { pairwise<tag.value>(left, first, count, out, spare); });
}

template <class P>
void Packed<P>::dot_by_panels(const Packed& left, std::int64_t first, std::int64_t count, P* out,
                              Spare<P>& spare) const {
    if (!left.sparse_) return panels_.dots(left.row(0), left.n_, first, count, out);
    for (std::int64_t r = 0; r < left.n_; ++r) {
        const Unpacked u(left, r, spare);
        panels_.dots(u.data, 1, first, count, out + r * count);
    }
}

// Each column that u has is added for all rows that have it too: what is zero costs nothing.
template <class P>
void Packed<P>::dot_by_columns(const Packed& left, std::int64_t first, std::int64_t count, P* out,
                               Spare<P>& spare) const {
    if (full_ == 0) {
        std::fill_n(out, left.n_ * count, P(0));
    } else {
        spare.full.resize(static_cast<std::size_t>(left.n_ * full_));
        for (std::int64_t r = 0; r < left.n_; ++r)
            gather_full(left.nonzeros(r), spare.full.data() + r * full_);
        panels_.dots(spare.full.data(), left.n_, first, count, out);
    }
    for (auto s = first / stretch; s * stretch < first + count; ++s) {
        const auto top = s * stretch;
        const auto from = std::max(first, top) - top, to = std::min(first + count - top, stretch);
        const bool whole = from == 0 && to == std::min(stretch, n_ - top);
        const auto* starts = column_starts_.data() + s * (d_ + 1);
        for (std::int64_t r = 0; r < left.n_; ++r) {
            const auto u = left.nonzeros(r);
            P* sums = out + r * count + (top + from - first);
            for (std::int64_t t = 0; t < u.count; ++t) {
                const P x = u.values[t];
                for (auto p = starts[u.indices[t]]; p < starts[u.indices[t] + 1]; ++p) {
                    const std::int64_t row = column_rows_[p];
                    if (whole)
                        sums[row] += x * column_values_[p];
                    else if (row >= from && row < to)
                        sums[row - from] += x * column_values_[p];
                }
            }
        }
    }
}

template <class P>
void Packed<P>::dot_by_lookup(const Packed& left, std::int64_t first, std::int64_t count, P* out,
                              Spare<P>& spare) const {
    for (std::int64_t r = 0; r < left.n_; ++r) {
        const Unpacked u(left, r, spare);
        for (std::int64_t j = 0; j < count; ++j) {
            const auto v = nonzeros(first + j);
            out[r * count + j] = sum_lookup(u.data, v.values, v.indices, v.count);
        }
    }
}

template <class P>
template <Measure what>
void Packed<P>::pairwise(const Packed& left, std::int64_t first, std::int64_t count, P* out,
                         Spare<P>& spare) const {
    if (sparse_ && left.sparse_ && d_ <= widest_table) {
        for (std::int64_t r = 0; r < left.n_; ++r) {
            const Placed<what> u(left.nonzeros(r), d_, spare);
            for (std::int64_t j = 0; j < count; ++j)
                out[r * count + j] = u.sum(nonzeros(first + j));
        }
    } else if (sparse_ && left.sparse_) {
        for (std::int64_t r = 0; r < left.n_; ++r)
            for (std::int64_t j = 0; j < count; ++j)
                out[r * count + j] = sum_merged<what>(left.nonzeros(r), nonzeros(first + j));
    } else if (sparse_) {
        for (std::int64_t j = 0; j < count; ++j) {
            const Unpacked v(*this, first + j, spare);
            simd([&]() MM_LAMBDA {
                for (std::int64_t r = 0; r < left.n_; ++r)
                    out[r * count + j] = sum_shares<what>(left.row(r), v.data, d_);
            });
        }
    } else {
        for (std::int64_t r = 0; r < left.n_; ++r) {
            const Unpacked u(left, r, spare);
            simd([&]() MM_LAMBDA {
                for (std::int64_t j = 0; j < count; ++j)
                    out[r * count + j] = sum_shares<what>(u.data, row(first + j), d_);
            });
        }
    }
}

template class Packed<float>;
template class Packed<double>;

}  // namespace mm
