#include "gram.hpp"

#include <algorithm>
#include <numeric>

#include "simd.hpp"

namespace mm {

namespace {

constexpr std::int64_t strip = 1024;  // columns per task

// Whether squares of these data, and a gamma of their scale, are well inside the range of float.
bool fits_single(const Rows& rows) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(height(rows)));
    std::iota(all.begin(), all.end(), 0);
    const auto norms = squared_norms(rows, all, {});
    const double largest = norms.empty() ? 0.0 : *std::ranges::max_element(norms);
    return largest == 0 || (largest > 1e-30 && largest < 1e30);
}

}  // namespace

template <class S>
RowCache<S>::RowCache(Source source, std::int64_t bytes)
    : source_(std::move(source)),
      bytes_(bytes),
      slot_(static_cast<std::size_t>(height(source_.rows)), -1) {
    source_.single_products = source_.single_products && fits_single(source_.rows);
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
    used_ = 0;
    oldest_ = newest_ = -1;
    size_up();
}

// How many rows of the present length fit; never more than exist. The store holds four rows at
// least and is otherwise the budget, or what all rows need: memory that no row is written to is not
// used.
template <class S>
void RowCache<S>::size_up() {
    const auto length = std::max<std::int64_t>(static_cast<std::int64_t>(columns_.size()), 1);
    const auto rows = std::max<std::int64_t>(height(source_.rows), 4);
    if (used_ == 0) {
        const auto wanted = std::min(bytes_ / static_cast<std::int64_t>(sizeof(S)), rows * length);
        const auto cells = std::max(wanted, 4 * length);
        if (cells > reserved_) {
            store_.reset();
            store_ = std::make_unique_for_overwrite<S[]>(static_cast<std::size_t>(cells));
            reserved_ = cells;
        }
    }
    capacity_ = std::min(reserved_ / length, rows);
    owner_.resize(static_cast<std::size_t>(capacity_), -1);
    older_.resize(static_cast<std::size_t>(capacity_), -1);
    newer_.resize(static_cast<std::size_t>(capacity_), -1);
}

template <class S>
void RowCache<S>::keep(std::span<const std::int64_t> positions) {
    const auto before = static_cast<std::int64_t>(columns_.size());
    const auto after = static_cast<std::int64_t>(positions.size());
    for (std::int64_t slot = 0; slot < used_; ++slot) {  // targets never overtake sources
        const S* from = store_.get() + slot * before;
        S* to = store_.get() + slot * after;
        for (std::int64_t k = 0; k < after; ++k) to[k] = from[positions[k]];
    }
    for (std::int64_t k = 0; k < after; ++k) columns_[k] = columns_[positions[k]];
    columns_.resize(static_cast<std::size_t>(after));
    if (single_) single_->keep(positions);
    if (double_) double_->keep(positions);
    size_up();
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

template <class S>
std::int64_t RowCache<S>::take_slot() {
    if (used_ < capacity_) return used_++;
    const auto slot = oldest_;
    unlink(slot);
    slot_[owner_[slot]] = -1;
    return slot;
}

template <class S>
const S* RowCache<S>::row(std::int64_t id) {
    const auto slot = slot_[id];
    unlink(slot);
    touch(slot);
    return store_.get() + slot * static_cast<std::int64_t>(columns_.size());
}

template <class S>
void RowCache<S>::fetch(std::span<const std::int64_t> ids, Pool& pool) {
    std::vector<std::int64_t> missing;
    std::vector<S*> out;
    for (const auto id : ids)
        if (slot_[id] >= 0) {
            ++counters.rows_cached;
            row(id);  // young enough not to be evicted below
        } else {
            missing.push_back(id);
        }
    if (missing.empty()) return;
    for (const auto id : missing) {
        const auto slot = take_slot();
        slot_[id] = slot;
        owner_[slot] = id;
        touch(slot);
        out.push_back(store_.get() + slot * static_cast<std::int64_t>(columns_.size()));
    }
    const double start = now();
    compute(missing, out, pool);
    counters.rows_computed += static_cast<std::int64_t>(missing.size());
    counters.seconds_kernel += now() - start;
}

template <class S>
void RowCache<S>::compute(std::span<const std::int64_t> ids, std::span<S* const> out, Pool& pool) {
    if (single_) return tiles(*single_, single_rooms_, ids, out, pool);
    if (double_) return tiles(*double_, double_rooms_, ids, out, pool);
    std::vector<S> whole(static_cast<std::size_t>(width(source_.rows)));
    for (std::size_t r = 0; r < ids.size(); ++r) {
        scatter(source_.rows, ids[r], {}, whole.data());
        for (std::size_t k = 0; k < columns_.size(); ++k) out[r][k] = whole[columns_[k]];
    }
}

template <class S>
template <class P>
void RowCache<S>::tiles(const Basis<P>& basis, std::vector<Workspace<P>>& rooms,
                        std::span<const std::int64_t> ids, std::span<S* const> out, Pool& pool) {
    if (rooms.size() < static_cast<std::size_t>(pool.threads()))
        rooms.resize(static_cast<std::size_t>(pool.threads()));
    auto& block = rooms[0].block;
    basis.fill(block, source_.rows, ids);
    const auto length = basis.size(), m = block.rows.size();
    // OpenBLAS has fast kernels for products of at most 1200 cells, so a strip is cut into such
    // tiles.
    const auto width = std::max<std::int64_t>(64, strip / m);
    const auto task = [&](std::int64_t index, int worker) {
        auto& room = rooms[worker];
        room.values.resize(static_cast<std::size_t>(m * width));
        const auto end = std::min((index + 1) * strip, length);
        for (auto first = index * strip; first < end; first += width) {
            const auto count = std::min(width, end - first);
            basis.tile(block, first, count, room.values.data(), room);
            for (std::int64_t r = 0; r < m; ++r)
                std::copy_n(room.values.data() + r * count, count, out[r] + first);
        }
    };
    pool.run((length + strip - 1) / strip, m * length * basis.width(), task);
}

template class RowCache<float>;
template class RowCache<double>;

}  // namespace mm
