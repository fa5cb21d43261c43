// Rows of the Gram matrix on demand, in a cache with a byte budget, over the columns still in play.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernel.hpp"
#include "parallel.hpp"
#include "rows.hpp"

namespace mm {

// Where kernel values come from: a program over rows, or rows that are the Gram matrix itself.
struct Source {
    Rows rows;
    std::shared_ptr<const Program> program;  // null: precomputed
    bool single_products = false;            // float products are precise enough
};

struct Counters {
    std::int64_t rows_computed = 0, rows_cached = 0;
    double seconds_kernel = 0;
};

// Least recently used rows, each of type S over the current columns. Shrinking the columns compacts
// every cached row where it lies, so the same bytes hold more rows.
template <class S>
class RowCache {
 public:
    RowCache(Source source, std::int64_t bytes);

    // Start again with these columns (row numbers of the Gram); forgets every row.
    void reset(std::vector<std::int64_t> columns);
    // Keep only the columns at these ascending positions, and what is cached of them.
    void keep(std::span<const std::int64_t> positions);

    std::int64_t capacity() const { return capacity_; }
    bool has(std::int64_t id) const { return slot_[id] >= 0; }
    std::span<const std::int64_t> columns() const { return columns_; }

    // Make these rows present (at most capacity() / 2 of them), computing the missing in one block.
    void fetch(std::span<const std::int64_t> ids, Pool& pool);
    // The row of a present id; valid until the next fetch, reset or keep.
    const S* row(std::int64_t id);

    Counters counters;

 private:
    std::int64_t take_slot();
    void touch(std::int64_t slot);
    void unlink(std::int64_t slot);
    void compute(std::span<const std::int64_t> ids, std::span<S* const> out, Pool& pool);
    template <class P>
    void tiles(const Basis<P>& basis, std::vector<Workspace<P>>& rooms,
               std::span<const std::int64_t> ids, std::span<S* const> out, Pool& pool);
    void size_up();

    Source source_;
    std::int64_t bytes_, reserved_ = 0, capacity_ = 0, used_ = 0;
    std::vector<std::int64_t> columns_;
    std::optional<Basis<float>> single_;
    std::optional<Basis<double>> double_;
    std::vector<Workspace<float>> single_rooms_;  // one per thread
    std::vector<Workspace<double>> double_rooms_;
    std::unique_ptr<S[]> store_;
    std::vector<std::int64_t> slot_;                   // per row of the Gram: its slot or -1
    std::vector<std::int64_t> owner_, older_, newer_;  // per slot; slots form a list by age
    std::int64_t oldest_ = -1, newest_ = -1;
};

}  // namespace mm
