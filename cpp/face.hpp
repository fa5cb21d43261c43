// Newton's method on a face of the box: the variables strictly between their bounds move, the
// others stay. Where C is large and these have settled, pairs only creep.
#pragma once

#include <span>
#include <vector>

#include "rows.hpp"
#include "smo.hpp"

namespace mm {

// Moves beta, where the gradient per variable is this, to a better point of the same sums, at which
// some of the variables have met their bounds; false if none was found. Rows are those of K.
template <class S>
bool minimise_on_face(const Dense<S>& K, const Quadratic& q, std::span<const double> gradient,
                      std::vector<double>& beta);

}  // namespace mm
