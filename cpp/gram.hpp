// Rows of the Gram matrix on demand, in a cache with a byte budget, over the columns still in play.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernel.hpp"
#include "memory.hpp"
#include "parallel.hpp"
#include "rows.hpp"

namespace mm {

// Where kernel values come from: a program over rows, or rows that are the Gram matrix itself.
struct Source {
    Rows rows;
    std::shared_ptr<const Program> program;  // null: precomputed
    bool single_products = false;            // float products are precise enough
    std::vector<std::int64_t> chosen = {};   // these rows and columns of a precomputed matrix alone

    std::int64_t size() const {
        return chosen.empty() ? height(rows) : static_cast<std::int64_t>(chosen.size());
    }
    std::int64_t at(std::int64_t k) const { return chosen.empty() ? k : chosen[k]; }
};

// K[of][:, columns] coef for a precomputed matrix, symmetric and with its rows side by side; an
// empty `of` is all rows.
std::vector<double> product(const Rows& matrix, std::span<const std::int64_t> of,
                            std::span<const std::int64_t> columns, std::span<const double> coef);

struct Counters {
    std::int64_t rows_computed = 0, rows_cached = 0, rounds = 0;
    double seconds = 0, seconds_kernel = 0, seconds_update = 0;
};

// Least recently used rows, each of type S over the current columns. Shrinking the columns compacts
// every cached row where it lies, so the same bytes hold more rows. The budget is used as far as it
// helps: new memory is touched only when rows that were pushed out have been wanted often enough.
template <class S>
class RowCache {
 public:
    RowCache(Source source, std::int64_t bytes);

    // Start again with these columns (row numbers of the Gram); forgets every row.
    void reset(std::vector<std::int64_t> columns);
    // Keep only the columns at these ascending positions, and what is cached of them.
    void keep(std::span<const std::int64_t> positions);

    std::int64_t capacity() const { return std::min(capacity_, modest_); }
    bool has(std::int64_t id) const { return in_place_ || slot_[id] >= 0; }
    std::span<const std::int64_t> columns() const { return columns_; }

    // Compute every row at once, each pair of entries once, where that is little work.
    void prepare(Pool& pool);
    // Make these rows present (at most capacity() / 2 of them), computing the missing in one block.
    void fetch(std::span<const std::int64_t> ids, Pool& pool);
    // The row of a present id; valid until the next fetch, reset or keep.
    const S* row(std::int64_t id);

    // K of the rows at these positions with one another, row by row; valid until the next call.
    const S* square(std::span<const std::int64_t> positions, Pool& pool);
    // F[p] += sum over moves of by K(id, column p). Rows that are missing are computed, and kept
    // if they are wanted again.
    struct Move {
        std::int64_t id;
        double by;
        bool again;
    };
    void accumulate(std::span<const Move> moves, double* F, Pool& pool);
    // out[c] += sum over moves of by K(id, columns[c]), whatever columns are in play: from the
    // `first` move on and until the deadline; returns the first that is left.
    std::size_t sums(std::span<const Move> moves, std::size_t first,
                     std::span<const std::int64_t> columns, double* out, double deadline,
                     Pool& pool);
    // Whether a row is worth its memory even if it is wanted only now and then, and whether new
    // memory costs less than the entries that it holds.
    bool looks_up() const { return price_ < 1.5; }
    bool precious() const { return price_ < 1; }

    Counters counters;

 private:
    struct Run {
        std::int64_t from, to, count;  // columns side by side, in the matrix and in a row
    };
    std::int64_t make_room(std::int64_t id);
    void touch(std::int64_t slot);
    void unlink(std::int64_t slot);
    void compute(std::span<const std::int64_t> ids, std::span<S* const> out, Pool& pool);
    void look_up(std::span<const std::int64_t> ids, std::span<const Run> sources,
                 std::span<S* const> out) const;
    void add(std::span<const std::int64_t> ids, std::span<const double> by, double* F, Pool& pool);
    const S* stored(std::int64_t id) const;
    void copy_found(std::span<const std::int64_t> found, std::span<const std::int64_t> places,
                    std::span<const std::int64_t> positions, S* out, Pool& pool) const;
    template <class P, class Use>
    void tiles(const Basis<P>& basis, std::vector<Workspace<P>>& rooms,
               std::span<const std::int64_t> ids, Pool& pool, const Use& use);
    template <class P>
    void fill_whole(const Basis<P>& basis, std::vector<Workspace<P>>& rooms, Pool& pool);
    template <class P>
    void sum_tiles(const Basis<P>& basis, std::vector<Workspace<P>>& rooms,
                   std::span<const std::int64_t> ids, std::span<const double> by, double* F,
                   Pool& pool);
    void renumber(std::span<const std::int64_t> target, std::int64_t used);
    void size_up();
    void find_in_place();
    std::vector<Run> sources(std::span<const std::int64_t> columns) const;

    Source source_;
    std::int64_t bytes_, reserved_ = 0, capacity_ = 0, used_ = 0;
    // Rows to make do with, and rows computed again since it was set: when those have cost as much
    // as twice the memory would, it is taken, so that neither costs more than twice what it must.
    std::int64_t modest_ = 0, regrets_ = 0;
    double price_ = 1;
    bool prepared_ = false, whole_ = false;  // every row is there
    std::vector<std::int64_t> columns_;
    std::vector<Run> sources_;  // where a precomputed matrix has these columns
    std::optional<Basis<float>> single_;
    std::optional<Basis<double>> double_;
    std::vector<Workspace<float>> single_rooms_;  // one per thread
    std::vector<Workspace<double>> double_rooms_;
    Large<S> store_, square_;
    std::int64_t square_cells_ = 0;
    const S* in_place_ = nullptr;     // a precomputed matrix that can be read where it lies
    std::int64_t stride_ = 0;         // of its rows
    std::vector<std::int64_t> slot_;  // per row of the Gram: its slot or -1
    std::vector<char> pushed_out_;    // per row of the Gram
    std::vector<std::int64_t> owner_, older_, newer_;  // per slot; slots form a list by age
    std::int64_t oldest_ = -1, newest_ = -1;
};

}  // namespace mm
