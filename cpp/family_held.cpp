// K beta of the rows that a fold holds out, and on how many rows its machines stand.
#include <algorithm>
#include <utility>

#include "family.hpp"
#include "panels.hpp"

namespace mm {

namespace {

constexpr std::int64_t band = 384, block = 128;  // rows held, and others, of a product

}  // namespace

// The variables of a fold on parts of the square that are not 0 in all members, by their rows.
std::vector<Family::Entry> Family::entries(std::int64_t fold) const {
    std::vector<Entry> found;
    for (std::int64_t c = 0; c < chains(); ++c)
        if (data_.fold[c] == fold && apart_[c])
            for (auto k = data_.first[c]; k < data_.first[c + 1]; ++k) {
                const double* own = beta_.get() + k * length();
                if (std::any_of(own, own + length(), [](double b) { return b != 0; }))
                    found.push_back({data_.row[k], c, k});
            }
    std::ranges::stable_sort(found, {}, &Entry::row);
    return found;
}

// K beta of some rows held, for all members of the chains of a fold that live on parts of the
// square: a block of rows at a time, with the chains that have variables there.
void Family::hold(const std::vector<Entry>& entries, std::int64_t fold, std::int64_t first,
                  std::int64_t last) {
    const auto m = length(), height = last - first;
    const auto stride = padded(height);
    std::vector<double> tile(static_cast<std::size_t>(stride * block)), coef, sums;
    std::vector<Patch::Run> runs;  // of rows held that lie side by side
    for (std::int64_t r = 0; r < height; ++r) {
        const auto row = data_.held[first + r];
        if (runs.empty() || runs.back().from + runs.back().length != row)
            runs.push_back({row, r, 0});
        ++runs.back().length;
    }
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
        coef.assign(static_cast<std::size_t>(count * width), 0.0);
        for (auto e = a; e < b; ++e)
            for (std::int64_t q = 0; q < m; ++q)
                if (const auto cell = entries[e].chain * m + q; !same_[cell])
                    coef[column[cell] * width + place[e - a]] += beta_[entries[e].variable * m + q];
        of_dense([&](const auto& K) {
            for (std::int64_t j = 0; j < width; ++j) {
                const auto* from = K.data + rows[j] * K.row_stride;
                for (const auto& [row, to, length] : runs)
                    std::copy_n(from + row, length, tile.data() + j * stride + to);
            }
        });
        sums.resize(static_cast<std::size_t>(count * height));
        multiply(coef.data(), count, width, tile.data(), stride, height, sums.data());
        for (std::int64_t cell = 0; cell < std::ssize(column); ++cell) {
            if (column[cell] < 0) continue;
            double* out = held_ + cell % m * rows_held() + held_at_[cell / m] +
                          (first - data_.first_held[fold]);
            const double* sum = sums.data() + column[cell] * height;
            for (std::int64_t r = 0; r < height; ++r) out[r] += sum[r];
        }
    }
}

std::vector<double> Family::supports() const {
    const auto folds = std::ssize(data_.first_held) - 1, m = length(), n = rows();
    std::vector<char> used(static_cast<std::size_t>(folds * n * m));
    for (std::int64_t c = 0; c < chains(); ++c)
        for (auto k = data_.first[c]; k < data_.first[c + 1]; ++k) {
            char* to = used.data() + (data_.fold[c] * n + data_.row[k]) * m;
            for (std::int64_t q = 0; q < m; ++q) to[q] |= beta_[k * m + q] != 0;
        }
    std::vector<double> counts(static_cast<std::size_t>(folds * m));
    for (std::int64_t cell = 0; cell < folds * n; ++cell)
        for (std::int64_t q = 0; q < m; ++q) counts[cell / n * m + q] += used[cell * m + q];
    return counts;
}

// K beta of the rows held of chains that live on parts of the square.
void Family::hold_all(Pool& pool) {
    if (std::exchange(held_all_, true)) return;
    if (std::ranges::none_of(apart_, [](char apart) { return apart != 0; })) return;
    struct Band {
        std::int64_t fold, first, last;
    };
    std::vector<Band> bands;
    const auto folds = std::ssize(data_.first_held) - 1;
    std::vector<std::vector<Entry>> used(static_cast<std::size_t>(folds));
    pool.run(folds, 64 * count() * rows(),
             [&](std::int64_t fold, int) { used[fold] = entries(fold); });
    const auto even = folds - folds % pool.threads();  // the rest in halves, that no thread waits
    for (std::int64_t f = 0; f < folds; ++f) {
        const auto end = data_.first_held[f + 1], height = f < even ? band : band / 2;
        for (auto first = data_.first_held[f]; first < end; first += height)
            bands.push_back({f, first, std::min(first + height, end)});
    }
    pool.run(std::ssize(bands), 64 * count() * rows(), [&](std::int64_t index, int) {
        const auto [fold, first, last] = bands[index];
        hold(used[fold], fold, first, last);
    });
}

}  // namespace mm
