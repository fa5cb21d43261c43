// A kernel as a flat postfix program over the measures of two rows; evaluated tile by tile.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

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

    bool uses(Measure what) const;
    bool uses_distance() const;  // needs squared norms beside the dot products
    bool stationary() const;     // a function of u - v alone: rows may be centred
};

// Dense rows on the left of a tile: m rows of d numbers and their squared norms.
template <class P>
struct Block {
    std::vector<P> data, norms;
    std::int64_t m = 0;

    void fill(const Rows& rows, std::span<const std::int64_t> chosen,
              std::span<const double> centre, bool with_norms);
};

template <class P>
struct Workspace {
    std::vector<P> measures[4];
    std::vector<std::vector<P>> stack;
};

// The functions k(x_j, .) of chosen rows x_j, ready to be evaluated in tiles.
template <class P>
class Basis {
 public:
    Basis(const Rows& rows, std::span<const std::int64_t> chosen,
          std::shared_ptr<const Program> program);

    std::int64_t size() const { return packed_.size(); }
    std::int64_t width() const { return packed_.width(); }
    std::span<const double> centre() const { return centre_; }
    const Program& program() const { return *program_; }

    void keep(std::span<const std::int64_t> positions);

    // out (m x count) = k(a_r, x_j) for j in first .. first + count.
    void tile(const Block<P>& a, std::int64_t first, std::int64_t count, P* out,
              Workspace<P>& workspace) const;

 private:
    std::shared_ptr<const Program> program_;
    std::vector<double> centre_;
    Packed<P> packed_;
    std::vector<P> norms_;
};

// k(x_i, x_i) in float64.
std::vector<double> diagonal(const Rows& rows, const Program& program);

// max over rows of ||x - mean||^2: decides how precise the products must be.
double squared_radius(const Rows& rows);

}  // namespace mm
