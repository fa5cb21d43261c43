// LIBSVM's text: one line per sample, `target index:value index:value ...`, indices from 1.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace mm {

struct LibsvmText {
    std::vector<double> target;
    std::vector<std::int64_t> offsets;  // CSR; offsets[i] .. offsets[i + 1] of line i
    std::vector<std::int32_t> columns;  // from 0; where indices may be 0, as they are written
    std::vector<double> values;
};

// Empty lines and comments (from '#') count as lines but hold no sample; `qid:` is skipped. Throws
// std::invalid_argument that names line and column; `line` is the number of the first one.
LibsvmText read_libsvm(std::string_view text, std::int64_t line, bool zero_allowed);

}  // namespace mm
