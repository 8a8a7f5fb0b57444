#pragma once

#include <string_view>

namespace dif::text {

/// Unicode versions. The tokenizer that models were trained with (Hugging Face `tokenizers`) has Unicode 16
/// categories in its patterns and Unicode 9 tables in its NFC; PCRE2 10.42 has Unicode 14, utf8proc 2.8 has
/// Unicode 15. These tables are the differences, so that ids agree for every code point
/// (scripts/oracle/tokenizer_battery.py, `sweep`). With a newer PCRE2 the first is redundant and harmless.

/// The code points of a general category `L`, `N` or `M` that came after Unicode 14, as ranges that can stand
/// in a PCRE2 set; empty for every other category.
std::string_view newer_members(std::string_view category);

/// True for the code points that the reference's NFC does not know: they start a new sequence of marks and
/// are neither decomposed nor composed.
bool is_unknown_to_nfc(char32_t code_point);

}  // namespace dif::text
