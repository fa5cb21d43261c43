#include "gram.hpp"

#include <algorithm>
#include <utility>

#include "simd.hpp"
#include "sums.hpp"

namespace mm {

namespace {

constexpr std::int64_t cells = 128 * 128;                     // of a tile
constexpr double little = 1 << 27;                            // multiplications, about
constexpr std::int64_t modest = 32 << 20, modest_rows = 512;  // bytes, or rows if that is more

// Columns per task: enough tasks for many threads, and none too small to be worth handing out. No
// number depends on it.
std::int64_t strip_of(std::int64_t length) {
    constexpr std::int64_t least = 128, largest = 1024, tasks = 16;
    return std::clamp((length / tasks + least - 1) / least * least, least, largest);
}

// What it costs to touch new memory for an entry, in units of computing one: measured, 2.4 ns
// against 0.4 ns and 0.01 ns for every column. Entries of narrow rows are computed in less time
// than it takes to look them up.
double price_of(const Source& source) {
    if (!source.program) return 1.0;
    return 2.4 / (0.4 + 0.01 * mean_work(source.rows));
}

// Whether squares of these data, and a gamma of their scale, are well inside the range of float.
bool fits_single(const Rows& rows) {
    const auto norms = squared_norms(rows, all_rows(rows), {});
    const double largest = norms.empty() ? 0.0 : *std::ranges::max_element(norms);
    return largest == 0 || (largest > 1e-30 && largest < 1e30);
}

}  // namespace

template <class S>
RowCache<S>::RowCache(Source source, std::int64_t bytes)
    : source_(std::move(source)),
      bytes_(bytes),
      slot_(static_cast<std::size_t>(source_.size()), -1),
      pushed_out_(slot_.size(), 0) {
    source_.single_products = source_.single_products && fits_single(source_.rows);
    price_ = price_of(source_);
}

template <class S>
void RowCache<S>::reset(std::vector<std::int64_t> columns) {
    columns_ = std::move(columns);
    if (source_.program) {
        if (source_.single_products)
            single_.emplace(source_.rows, columns_, source_.program);
        else
            double_.emplace(source_.rows, columns_, source_.program);
    }
    std::ranges::fill(slot_, -1);
    std::ranges::fill(pushed_out_, 0);
    used_ = 0;
    oldest_ = newest_ = -1;
    prepared_ = whole_ = false;
    size_up();
    find_in_place();
    if (!source_.program && !in_place_) sources_ = sources(columns_);
}

template <class S>
void RowCache<S>::prepare(Pool& pool) {
    if (std::exchange(prepared_, true) || !source_.program || used_ > 0) return;
    const auto n = std::ssize(columns_);
    const double work = 0.5 * static_cast<double>(n * n) * (mean_work(source_.rows) + 24);
    if (work > little || n > capacity_) return;
    const double start = now();
    modest_ = std::max(modest_, n);
    for (const auto id : columns_) make_room(id);
    if (single_) fill_whole(*single_, single_rooms_, pool);
    if (double_) fill_whole(*double_, double_rooms_, pool);
    whole_ = true;
    counters.rows_computed += n;
    counters.seconds_kernel += now() - start;
}

// Bands of rows from the diagonal on, and their mirror image.
template <class S>
template <class P>
void RowCache<S>::fill_whole(const Basis<P>& basis, std::vector<Workspace<P>>& rooms, Pool& pool) {
    if (rooms.size() < static_cast<std::size_t>(pool.threads()))
        rooms.resize(static_cast<std::size_t>(pool.threads()));
    const auto n = basis.size(), width = basis.convenient(), band = cells / width;
    S* K = store_.get();
    pool.run((n + band - 1) / band, n * n / 2 * (basis.width() + 24),
             [&](std::int64_t index, int worker) {
                 auto& room = rooms[worker];
                 S* values = room.template room<S>(cells);
                 const auto top = index * band, height = std::min(band, n - top);
                 basis.fill(room.block, source_.rows, std::span(columns_).subspan(top, height));
                 for (auto left = top / width * width; left < n; left += width) {
                     const auto count = std::min(width, n - left);
                     basis.tile(room.block, left, count, values, room);
                     const auto skip =
                         std::max<std::int64_t>(top - left, 0);  // others' mirror image
                     for (std::int64_t r = 0; r < height; ++r)
                         std::copy_n(values + r * count + skip, count - skip,
                                     K + (top + r) * n + left + skip);
                     for (std::int64_t a = 0, b; a < height; a = b) {  // a line of the cache
                         b = std::min<std::int64_t>(a + 16, height);
                         for (auto j = std::max(left, top + height); j < left + count; ++j)
                             for (auto r = a; r < b; ++r)
                                 K[j * n + top + r] = values[r * count + j - left];
                     }
                 }
             });
}

template <class S>
auto RowCache<S>::sources(std::span<const std::int64_t> columns) const -> std::vector<Run> {
    std::vector<Run> runs;
    for (std::int64_t k = 0; k < std::ssize(columns); ++k) {
        const auto from = source_.at(columns[k]);
        if (!runs.empty() && from == runs.back().from + runs.back().count)
            ++runs.back().count;
        else
            runs.push_back({from, k, 1});
    }
    return runs;
}

template <class S>
void RowCache<S>::find_in_place() {
    in_place_ = nullptr;
    const auto* dense = std::get_if<Dense<S>>(&source_.rows);
    if (source_.program || !source_.chosen.empty() || !dense || dense->column_stride != 1) return;
    if (static_cast<std::int64_t>(columns_.size()) != dense->n) return;
    for (std::int64_t k = 0; k < dense->n; ++k)
        if (columns_[k] != k) return;
    in_place_ = dense->data;
    stride_ = dense->row_stride;
}

// How many rows of the present length fit; never more than exist. The store holds four rows at
// least and is otherwise the budget, or what all rows need: memory that no row is written to is not
// used.
template <class S>
void RowCache<S>::size_up() {
    const auto length = std::max<std::int64_t>(static_cast<std::int64_t>(columns_.size()), 1);
    const auto rows = std::max<std::int64_t>(source_.size(), 4);
    if (used_ == 0) {
        const auto wanted = std::min(bytes_ / static_cast<std::int64_t>(sizeof(S)), rows * length);
        const auto cells = std::max(wanted, 4 * length);
        if (cells > reserved_) {
            store_.reset();
            store_ = allocate<S>(cells);
            reserved_ = cells;
        }
    }
    capacity_ = std::min(reserved_ / length, rows);
    const auto some = modest / static_cast<std::int64_t>(sizeof(S)) / length;
    modest_ = precious() ? rows : std::max({modest_, modest_rows, some});
    owner_.resize(static_cast<std::size_t>(capacity_), -1);
    older_.resize(static_cast<std::size_t>(capacity_), -1);
    newer_.resize(static_cast<std::size_t>(capacity_), -1);
}

template <class S>
void RowCache<S>::keep(std::span<const std::int64_t> positions) {
    const auto before = std::ssize(columns_), after = std::ssize(positions);
    for (std::int64_t k = 0; k < after; ++k) columns_[k] = columns_[positions[k]];
    columns_.resize(static_cast<std::size_t>(after));
    std::vector<char> wanted(slot_.size(), 0);
    for (const auto id : columns_) wanted[id] = 1;
    // Rows of variables set aside go too. Targets never overtake sources.
    std::vector<std::int64_t> target(static_cast<std::size_t>(used_), -1);
    std::int64_t rows = 0;
    for (std::int64_t slot = 0; slot < used_; ++slot) {
        const auto id = owner_[slot];
        slot_[id] = wanted[id] ? rows : -1;
        if (!wanted[id]) continue;
        const S* from = store_.get() + slot * before;
        S* to = store_.get() + rows * after;
        for (std::int64_t k = 0; k < after; ++k) to[k] = from[positions[k]];
        target[slot] = rows++;
    }
    renumber(target, rows);
    if (single_) single_->keep(positions);
    if (double_) double_->keep(positions);
    in_place_ = nullptr;
    if (!source_.program) sources_ = sources(columns_);
    size_up();
}

// Slots have moved to these places, or are free now (-1); their order by age stays.
template <class S>
void RowCache<S>::renumber(std::span<const std::int64_t> target, std::int64_t used) {
    std::vector<std::int64_t> by_age;
    for (auto slot = oldest_; slot >= 0; slot = newer_[slot])
        if (target[slot] >= 0) by_age.push_back(target[slot]);
    for (std::int64_t slot = 0; slot < used_; ++slot)
        if (target[slot] >= 0) owner_[target[slot]] = owner_[slot];
    used_ = used;
    oldest_ = newest_ = -1;
    for (const auto slot : by_age) touch(slot);
}

template <class S>
void RowCache<S>::unlink(std::int64_t slot) {
    const auto older = older_[slot], newer = newer_[slot];
    (older >= 0 ? newer_[older] : oldest_) = newer;
    (newer >= 0 ? older_[newer] : newest_) = older;
}

template <class S>
void RowCache<S>::touch(std::int64_t slot) {
    older_[slot] = newest_;
    newer_[slot] = -1;
    (newest_ >= 0 ? newer_[newest_] : oldest_) = slot;
    newest_ = slot;
}

// A slot for this row, the oldest one if all are in use.
template <class S>
std::int64_t RowCache<S>::make_room(std::int64_t id) {
    auto slot = used_;
    if (used_ < capacity()) {
        ++used_;
    } else {
        slot = oldest_;
        unlink(slot);
        slot_[owner_[slot]] = -1;
        pushed_out_[owner_[slot]] = 1;
    }
    slot_[id] = slot;
    owner_[slot] = id;
    touch(slot);
    return slot;
}

template <class S>
const S* RowCache<S>::row(std::int64_t id) {
    if (!in_place_) {
        unlink(slot_[id]);
        touch(slot_[id]);
    }
    return stored(id);
}

template <class S>
const S* RowCache<S>::stored(std::int64_t id) const {
    if (in_place_) return in_place_ + id * stride_;
    return store_.get() + slot_[id] * static_cast<std::int64_t>(columns_.size());
}

template <class S>
void RowCache<S>::fetch(std::span<const std::int64_t> ids, Pool& pool) {
    std::vector<std::int64_t> missing;
    std::vector<S*> out;
    for (const auto id : ids)
        if (has(id)) {
            ++counters.rows_cached;
            row(id);  // young enough not to be evicted below
        } else {
            missing.push_back(id);
        }
    if (missing.empty()) return;
    for (const auto id : missing) {
        regrets_ += pushed_out_[id];
        if (static_cast<double>(regrets_) > price_ * static_cast<double>(modest_)) {
            modest_ *= 2;
            regrets_ = 0;
        }
        out.push_back(store_.get() + make_room(id) * static_cast<std::int64_t>(columns_.size()));
    }
    const double start = now();
    compute(missing, out, pool);
    counters.rows_computed += static_cast<std::int64_t>(missing.size());
    counters.seconds_kernel += now() - start;
}

template <class S>
void RowCache<S>::compute(std::span<const std::int64_t> ids, std::span<S* const> out, Pool& pool) {
    if (!source_.program) return look_up(ids, sources_, out);
    const auto copy = [&](auto top, auto height, auto first, auto count, const auto* values) {
        for (std::int64_t r = 0; r < height; ++r)
            std::copy_n(values + r * count, count, out[top + r] + first);
    };
    if (single_) tiles(*single_, single_rooms_, ids, pool, copy);
    if (double_) tiles(*double_, double_rooms_, ids, pool, copy);
}

template <class S>
void RowCache<S>::look_up(std::span<const std::int64_t> ids, std::span<const Run> sources,
                          std::span<S* const> out) const {
    const auto copy = [&](const auto& matrix) {
        const auto stride = matrix.column_stride;
        for (std::size_t r = 0; r < ids.size(); ++r) {
            const auto* row = matrix.data + source_.at(ids[r]) * matrix.row_stride;
            for (const auto& [from, to, count] : sources) {
                const auto* in = row + from * stride;
                for (std::int64_t k = 0; k < count; ++k)
                    out[r][to + k] = static_cast<S>(in[k * stride]);
            }
        }
    };
    if (const auto* single = std::get_if<Dense<float>>(&source_.rows)) copy(*single);
    if (const auto* twice = std::get_if<Dense<double>>(&source_.rows)) copy(*twice);
}

// Calls use(first row, rows, first column, columns, values) for every tile of these rows; all tiles
// of a column come in order from one thread.
template <class S>
template <class P, class Use>
void RowCache<S>::tiles(const Basis<P>& basis, std::vector<Workspace<P>>& rooms,
                        std::span<const std::int64_t> ids, Pool& pool, const Use& use) {
    if (rooms.size() < static_cast<std::size_t>(pool.threads()))
        rooms.resize(static_cast<std::size_t>(pool.threads()));
    const auto m = std::ssize(ids), length = basis.size();
    const auto width = basis.convenient(), strip = std::max(strip_of(length), width);
    const auto band = cells / width;
    std::vector<Block<P>> blocks(static_cast<std::size_t>((m + band - 1) / band));
    for (std::int64_t b = 0; b < std::ssize(blocks); ++b)
        basis.fill(blocks[b], source_.rows, ids.subspan(b * band, std::min(band, m - b * band)));
    pool.run((length + strip - 1) / strip, m * length * basis.width(),
             [&](std::int64_t index, int worker) {
                 auto& room = rooms[worker];
                 S* values = room.template room<S>(cells);
                 const auto end = std::min((index + 1) * strip, length);
                 for (auto first = index * strip; first < end; first += width)
                     for (std::int64_t b = 0; b < std::ssize(blocks); ++b) {
                         const auto count = std::min(width, end - first);
                         basis.tile(blocks[b], first, count, values, room);
                         use(b * band, blocks[b].rows.size(), first, count, values);
                     }
             });
}

// The rows of a square that are stored, and by symmetry what the others share with them.
template <class S>
void RowCache<S>::copy_found(std::span<const std::int64_t> found,
                             std::span<const std::int64_t> places,
                             std::span<const std::int64_t> positions, S* out, Pool& pool) const {
    constexpr std::int64_t some = 32;
    const auto n = std::ssize(positions), count = std::ssize(found);
    pool.run((count + some - 1) / some, 8 * count * n, [&](std::int64_t index, int) {
        const auto from = index * some, rows = std::min(some, count - from);
        for (const auto r : found.subspan(from, rows)) {
            const S* row = stored(columns_[positions[r]]);
            for (std::int64_t k = 0; k < n; ++k) out[r * n + k] = row[positions[k]];
        }
        for (const auto r : places)
            for (const auto k : found.subspan(from, rows)) out[r * n + k] = out[k * n + r];
    });
}

template <class S>
const S* RowCache<S>::square(std::span<const std::int64_t> positions, Pool& pool) {
    const double start = now();
    const auto n = std::ssize(positions);
    if (n * n > square_cells_) {
        square_ = allocate<S>(n * n);
        square_cells_ = n * n;
    }
    S* out = square_.get();
    std::vector<std::int64_t> missing, at, places, found;
    for (std::int64_t r = 0; r < n; ++r) {
        const auto id = columns_[positions[r]];
        if (has(id) && (whole_ || looks_up())) {
            found.push_back(r);
        } else {
            missing.push_back(id);
            at.push_back(positions[r]);
            places.push_back(r);
        }
    }
    copy_found(found, places, positions, out, pool);
    const bool whole = std::ssize(places) == n;
    const auto place = [&](auto top, auto height, auto first, auto count, const auto* values) {
        for (std::int64_t r = 0; r < height; ++r) {
            S* row = out + places[top + r] * n;
            const auto* from = values + r * count;
            if (whole)
                std::copy_n(from, count, row + first);
            else
                for (std::int64_t k = 0; k < count; ++k)
                    row[places[first + k]] = static_cast<S>(from[k]);
        }
    };
    if (missing.empty()) {
    } else if (single_) {
        tiles(single_->part(source_.rows, missing, at), single_rooms_, missing, pool, place);
    } else if (double_) {
        tiles(double_->part(source_.rows, missing, at), double_rooms_, missing, pool, place);
    } else {
        std::vector<S> row(missing.size());
        const auto from = sources(missing);
        for (std::int64_t r = 0; r < std::ssize(missing); ++r) {
            look_up({&missing[r], 1}, from, std::vector<S*>{row.data()});
            place(r, std::int64_t{1}, std::int64_t{0}, std::ssize(missing), row.data());
        }
    }
    counters.seconds_kernel += now() - start;
    return out;
}

namespace {

// F[k] += sum_r by_r rows_r[places_k].
template <class S>
void add_places(const std::vector<const S*>& rows, const double* by, double* F,
                std::span<const std::int64_t> places) {
    const auto m = std::ssize(rows), count = std::ssize(places);
    const auto* at = places.data();
    std::int64_t r = 0;
    for (; r + 4 <= m; r += 4) {
        const S *a = rows[r], *b = rows[r + 1], *c = rows[r + 2], *d = rows[r + 3];
        const double x = by[r], y = by[r + 1], z = by[r + 2], w = by[r + 3];
        for (std::int64_t p = 0; p < count; ++p)
            F[p] += (x * a[at[p]] + y * b[at[p]]) + (z * c[at[p]] + w * d[at[p]]);
    }
    for (; r < m; ++r)
        for (std::int64_t p = 0; p < count; ++p) F[p] += by[r] * rows[r][at[p]];
}

}  // namespace

std::vector<double> product(const Rows& matrix, std::span<const std::int64_t> of,
                            std::span<const std::int64_t> columns, std::span<const double> coef) {
    const auto n = height(matrix);
    std::vector<double> out(of.empty() ? static_cast<std::size_t>(n) : of.size(), 0.0);
    const auto add = [&]<class S>(const Dense<S>& K) {
        std::vector<const S*> rows;
        for (const auto j : columns)
            rows.push_back(K.data + (of.empty() ? j : of[j]) * K.row_stride);
        if (of.empty())
            add_rows(rows, coef.data(), out.data(), n);
        else
            add_places(rows, coef.data(), out.data(), of);
    };
    if (const auto* single = std::get_if<Dense<float>>(&matrix)) add(*single);
    if (const auto* twice = std::get_if<Dense<double>>(&matrix)) add(*twice);
    return out;
}

template <class S>
void RowCache<S>::accumulate(std::span<const Move> moves, double* F, Pool& pool) {
    std::vector<std::int64_t> present, missing, passing;
    std::vector<double> by_present, by_missing, by_passing;
    for (const auto& [id, by, again] : moves) {
        const bool stored = has(id), kept = again || !source_.program;
        (stored ? present : kept ? missing : passing).push_back(id);
        (stored ? by_present : kept ? by_missing : by_passing).push_back(by);
    }
    add(present, by_present, F, pool);  // first: computing others may push these out
    add(missing, by_missing, F, pool);
    if (passing.empty()) return;
    const double start = now();
    if (single_) sum_tiles(*single_, single_rooms_, passing, by_passing, F, pool);
    if (double_) sum_tiles(*double_, double_rooms_, passing, by_passing, F, pool);
    counters.rows_computed += std::ssize(passing);
    counters.seconds_kernel += now() - start;
}

// F += sum of by times rows that nobody keeps.
template <class S>
template <class P>
void RowCache<S>::sum_tiles(const Basis<P>& basis, std::vector<Workspace<P>>& rooms,
                            std::span<const std::int64_t> ids, std::span<const double> by,
                            double* F, Pool& pool) {
    tiles(basis, rooms, ids, pool,
          [&](auto top, auto height, auto first, auto count, const auto* values) {
              std::vector<decltype(values)> rows;
              for (std::int64_t r = 0; r < height; ++r) rows.push_back(values + r * count);
              add_rows(rows, by.data() + top, F + first, count);
          });
}

template <class S>
std::size_t RowCache<S>::sums(std::span<const Move> moves, std::size_t first,
                              std::span<const std::int64_t> columns, double* out, double deadline,
                              Pool& pool) {
    std::vector<std::int64_t> ids;
    std::vector<double> by;
    for (const auto& move : moves) {
        ids.push_back(move.id);
        by.push_back(move.by);
    }
    const double start = now();
    const auto in_steps = [&](const auto& some_more) {
        while (first < moves.size()) {
            const auto some = std::min<std::size_t>(moves.size() - first, 256);
            some_more(std::span(ids).subspan(first, some), std::span(by).subspan(first, some));
            first += some;
            if (now() > deadline) break;
        }
    };
    if (single_) {
        const Basis<float> basis(source_.rows, columns, source_.program);
        in_steps([&](auto i, auto b) { sum_tiles(basis, single_rooms_, i, b, out, pool); });
    } else if (double_) {
        const Basis<double> basis(source_.rows, columns, source_.program);
        in_steps([&](auto i, auto b) { sum_tiles(basis, double_rooms_, i, b, out, pool); });
    } else {
        std::vector<S> row(columns.size());
        const auto from = sources(columns);
        in_steps([&](auto i, auto b) {
            for (std::size_t r = 0; r < i.size(); ++r) {
                look_up(i.subspan(r, 1), from, std::vector<S*>{row.data()});
                add_rows(std::vector<const S*>{row.data()}, &b[r], out, std::ssize(columns));
            }
        });
    }
    counters.seconds_kernel += now() - start;
    return first;
}

template <class S>
void RowCache<S>::add(std::span<const std::int64_t> ids, std::span<const double> by, double* F,
                      Pool& pool) {
    const auto length = std::ssize(columns_), strip = strip_of(length);
    const auto most = std::max<std::int64_t>(capacity() / 2, 1);
    for (std::int64_t a = 0, b; a < std::ssize(ids); a = b) {
        b = std::min(a + most, std::ssize(ids));
        fetch(ids.subspan(a, b - a), pool);
        const double start = now();
        std::vector<const S*> rows;
        for (auto r = a; r < b; ++r) rows.push_back(row(ids[r]));
        pool.run((length + strip - 1) / strip, 8 * (b - a) * length, [&](std::int64_t index, int) {
            const auto first = index * strip;
            auto shifted = rows;
            for (auto& pointer : shifted) pointer += first;
            add_rows(shifted, by.data() + a, F + first, std::min(strip, length - first));
        });
        counters.seconds_update += now() - start;
    }
}

template class RowCache<float>;
template class RowCache<double>;

}  // namespace mm
