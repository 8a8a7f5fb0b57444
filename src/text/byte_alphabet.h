#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dif::text {

/// The byte-level alphabet (GPT-2): each byte stands as one printable character. '!'..'~', U+00A1..U+00AC and
/// U+00AE..U+00FF stand for themselves; the other 68 bytes, in order, are U+0100..U+0143.

/// The character of one byte.
char32_t byte_symbol(unsigned char byte);

/// The text in which each byte of `bytes` is its character.
std::string bytes_to_symbols(std::string_view bytes);

/// The bytes that a text of such characters stands for; nothing when a character is outside the alphabet.
/// Pre: `symbols` is well-formed UTF-8.
std::optional<std::string> symbols_to_bytes(std::string_view symbols);

}  // namespace dif::text
