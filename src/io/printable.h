#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dif::io {

/// A name from an untrusted file, fit for a message: control bytes and invalid UTF-8 as \xNN, cut with "..."
/// after `max_bytes`.
std::string printable(std::string_view text, std::size_t max_bytes = 120);

/// The byte offset of the first byte that is not part of valid UTF-8 (no surrogates, no overlong forms,
/// nothing over U+10FFFF); text.size() when all of it is valid.
std::size_t first_invalid_utf8(std::string_view text);

}  // namespace dif::io
