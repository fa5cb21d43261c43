#include "text.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <version>

namespace mm {

namespace {

constexpr std::size_t shown = 20;  // characters of a wrong token in a message

bool blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

bool number(std::string_view token, double& value) {
    if (token.size() > 1 && token[0] == '+' && token[1] != '-') token.remove_prefix(1);
    const char first = token.empty()                         ? 'x'
                       : token[0] == '-' && token.size() > 1 ? token[1]
                                                             : token[0];
    const bool digit = (first >= '0' && first <= '9') || first == '.';
    if (!digit) return false;  // nan and inf are no values here
#ifdef __cpp_lib_to_chars
    const auto end = token.data() + token.size();
    const auto [stop, error] = std::from_chars(token.data(), end, value);
    if (error == std::errc() && stop == end) return true;
    if (error != std::errc::result_out_of_range || stop != end) return false;
#endif
    // Beyond the range of double (0 or infinity), or a library without from_chars.
    const std::string copy(token);
    if (copy.find_first_of("xX") != std::string::npos) return false;
    char* rest = nullptr;
    value = std::strtod(copy.c_str(), &rest);
    return rest == copy.c_str() + copy.size() && std::isfinite(value);
}

// Walks over one line; knows where it is, for the message.
class Line {
 public:
    Line(std::string_view text, std::int64_t number) : text_(text), number_(number) {}

    // The next run of characters that are neither blank nor, where asked, a colon.
    std::string_view token(bool to_colon) {
        start_ = at_;
        while (at_ < text_.size() && !blank(text_[at_]) && !(to_colon && text_[at_] == ':')) ++at_;
        return text_.substr(start_, at_ - start_);
    }
    bool skip_blanks() {  // whether something follows
        while (at_ < text_.size() && blank(text_[at_])) ++at_;
        start_ = at_;
        return at_ < text_.size();
    }
    bool colon() {
        const bool found = at_ < text_.size() && text_[at_] == ':';
        at_ += found;
        return found;
    }
    [[noreturn]] void fail(const std::string& what, std::string_view token) const {
        std::string said;
        for (const char c : token.substr(0, shown)) said += c >= ' ' && c <= '~' ? c : '?';
        if (token.size() > shown) said += "...";
        throw std::invalid_argument("line " + std::to_string(number_) + ", column " +
                                    std::to_string(start_ + 1) + ": " + what + "; got '" + said +
                                    "'.");
    }

 private:
    std::string_view text_;
    std::int64_t number_;
    std::size_t at_ = 0, start_ = 0;
};

std::int64_t index_of(const Line& line, std::string_view token, std::int64_t least) {
    constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
    std::int64_t index = -1;
    const auto end = token.data() + token.size();
    const auto [stop, error] = std::from_chars(token.data(), end, index);
    if (error != std::errc() || stop != end || index < least || index > largest)
        line.fail(
            "an index must be a whole number from " + std::to_string(least) + " to 2147483647",
            token);
    return index;
}

void read_cells(Line& line, LibsvmText& out, bool zero_allowed) {
    std::int64_t last = zero_allowed ? -1 : 0;
    while (line.skip_blanks()) {
        const auto name = line.token(true);
        if (!line.colon()) line.fail("expected index:value", name);
        if (name == "qid") {
            line.token(false);
            continue;
        }
        const std::int64_t index = index_of(line, name, zero_allowed ? 0 : 1);
        if (index <= last) line.fail("indices must ascend", name);
        last = index;
        const auto cell = line.token(false);
        double value = 0.0;
        if (!number(cell, value)) line.fail("a value must be a finite number", cell);
        out.columns.push_back(static_cast<std::int32_t>(zero_allowed ? index : index - 1));
        out.values.push_back(value);
    }
}

}  // namespace

LibsvmText read_libsvm(std::string_view text, std::int64_t line, bool zero_allowed) {
    LibsvmText out;
    out.offsets.push_back(0);
    for (; !text.empty(); ++line) {
        const auto end = text.find('\n');
        auto row = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        row = row.substr(0, row.find('#'));
        Line walk(row, line);
        if (!walk.skip_blanks()) continue;
        const auto token = walk.token(false);
        double target = 0.0;
        if (!number(token, target))
            walk.fail("a line must begin with a finite number, the target", token);
        out.target.push_back(target);
        read_cells(walk, out, zero_allowed);
        out.offsets.push_back(static_cast<std::int64_t>(out.values.size()));
    }
    return out;
}

}  // namespace mm
