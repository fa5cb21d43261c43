// A kernel as a flat postfix program over the measures of two rows; evaluated tile by tile.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "parallel.hpp"
#include "rows.hpp"

namespace mm {

enum class Op {
    linear,
    poly,
    rbf,
    laplacian,
    sigmoid,
    matern,
    chi2,
    intersection,
    add,
    mul,
    scale,
    pow
};

struct Instruction {
    Op op;
    double a, b, c;
};

struct Program {
    std::vector<Instruction> code;

    bool uses_distance() const;      // a function of ||u - v||^2, among others
    bool needs_nonnegative() const;  // compares histograms
    bool stationary() const;         // a function of u - v alone: rows may be centred
    double steepness() const;        // how much it answers to an error in ||u - v||^2
};

// Rows on the left of a tile and, where the basis has them, their squared norms.
template <class P>
struct Block {
    Packed<P> rows;
    std::vector<P> norms;
};

template <class T>
using Stack = std::vector<std::vector<T>>;

// What one thread needs while it makes tiles.
template <class P>
struct Workspace {
    std::vector<P> measured[measures];
    std::tuple<std::vector<float>, std::vector<double>> values;
    std::tuple<Stack<float>, Stack<double>> stacks;
    Spare<P> spare;
    Block<P> block;
    template <class T>
    T* room(std::int64_t cells) {
        auto& kept = std::get<std::vector<T>>(values);
        if (std::ssize(kept) < cells) kept.resize(static_cast<std::size_t>(cells));
        return kept.data();
    }
};

// The functions k(x_j, .) of chosen rows x_j, ready to be evaluated in tiles.
template <class P>
class Basis {
 public:
    Basis(const Rows& rows, std::span<const std::int64_t> chosen,
          std::shared_ptr<const Program> program);

    std::int64_t size() const { return packed_.size(); }
    std::int64_t width() const { return packed_.width(); }
    std::int64_t convenient() const { return packed_.convenient(); }  // columns of a tile
    const Program& program() const { return *program_; }

    void keep(std::span<const std::int64_t> positions);
    // The functions at these positions alone, which are those of the chosen rows.
    Basis part(const Rows& rows, std::span<const std::int64_t> chosen,
               std::span<const std::int64_t> positions) const;

    // Lay out these rows as this basis compares them.
    void fill(Block<P>& block, const Rows& rows, std::span<const std::int64_t> chosen) const;

    // out (block's rows x count) = k(a_r, x_j) for j in first .. first + count. What rows are
    // compared by has precision P; its function is computed in the precision of `out`.
    template <class T>
    void tile(const Block<P>& a, std::int64_t first, std::int64_t count, T* out,
              Workspace<P>& workspace) const;

 private:
    Basis() = default;
    std::shared_ptr<const Program> program_;
    bool used_[measures] = {};
    bool by_differences_ = false;  // distances are measured, not made of norms and dot products
    std::vector<double> centre_;
    Packed<P> packed_;
    std::vector<P> norms_;
};

// Whether every measure that the kernel is a function of is a dot product, or made of some.
bool of_dots(const Program& program);

// K of some rows from the dot products of all n, and from their squared norms; the diagonal is
// given.
struct Dots {
    Dots(const Program& program, const double* dots, std::int64_t n,
         std::span<const double> all_norms, std::span<const std::int64_t> rows,
         std::span<const double> diagonal);

    // out (rows x rows) = K, rounded to T.
    template <class T>
    void fill(T* out, Pool& pool) const;
    // out (rows x q) += K coef (rows x q).
    void combine(const double* coef, std::int64_t q, double* out, Pool& pool) const;

    const Program& program;
    const double* dots;
    std::int64_t n;
    std::span<const std::int64_t> rows;
    std::span<const double> diagonal;
    std::vector<double> norms;  // of these rows
    bool whole;                 // these are all rows in order
};

// k(x_i, x_i) in float64.
std::vector<double> diagonal(const Rows& rows, const Program& program);

// max over rows of ||x - mean||^2: decides how precise the products must be.
double squared_radius(const Rows& rows);

}  // namespace mm
