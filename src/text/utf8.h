#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "dif/status.h"

namespace dif::text {

/// InvalidInput naming `what`, the offset and the byte when `text` is not UTF-8.
Status check_utf8(std::string_view text, std::string_view what);

/// The code point that starts at `offset`, which moves past it. Pre: `text` is well-formed, offset at a
/// boundary.
char32_t next_code_point(std::string_view text, std::size_t& offset);

/// Offset where the code point that ends at `end` starts. Pre: `text` is well-formed, 0 < end at a boundary.
std::size_t previous_boundary(std::string_view text, std::size_t end);

void append_utf8(std::string& text, char32_t code_point);

/// The White_Space property of Unicode.
bool is_white_space(char32_t code_point);

}  // namespace dif::text
