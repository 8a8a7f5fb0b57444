#include "text/normalize.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "text/reference_unicode.h"
#include "text/utf8.h"

namespace dif::text {
namespace {

/// Every code point below U+0300 is its own NFC and composes with nothing before it; 0xcc is the lead byte of
/// U+0300.
bool is_plainly_nfc(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0xcc; });
}

int combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

bool is_mark(utf8proc_int32_t code_point) {
  return combining_class(code_point) != 0;
}

/// Canonical ordering. utf8proc's own exchanges neighbours: minutes for a megabyte of unordered marks.
void order_marks(std::vector<utf8proc_int32_t>& code_points) {
  for (auto begin = code_points.begin(); begin != code_points.end();) {
    begin = std::find_if(begin, code_points.end(), is_mark);
    const auto end = std::find_if_not(begin, code_points.end(), is_mark);
    std::stable_sort(begin, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

/// Code points that neither compose nor let marks pass. U+11A7 is one before the first trailing consonant of
/// Hangul; utf8proc 2.8 takes it for one and swallows it.
bool stands_alone(char32_t code_point) {
  return is_unknown_to_nfc(code_point) || code_point == 0x11a7;
}

/// Appends the NFC of decomposed code points, and empties them.
void compose(std::vector<utf8proc_int32_t>& code_points, std::string& result) {
  order_marks(code_points);
  const auto count =
      utf8proc_normalize_utf32(code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  DIF_CHECK(count >= 0);
  code_points.resize(static_cast<std::size_t>(count));
  for (const auto c : code_points) append_utf8(result, static_cast<char32_t>(c));
  code_points.clear();
}

void append_decomposed(char32_t code_point, std::vector<utf8proc_int32_t>& code_points) {
  std::array<utf8proc_int32_t, 32> parts;
  const auto count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(code_point), parts.data(), static_cast<utf8proc_ssize_t>(parts.size()),
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), nullptr);
  DIF_CHECK(count > 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()));
  code_points.insert(code_points.end(), parts.begin(), parts.begin() + count);
}

}  // namespace

std::string nfc(std::string_view text) {
  if (is_plainly_nfc(text)) return std::string(text);
  std::string result;
  result.reserve(text.size());
  std::vector<utf8proc_int32_t> pending;
  pending.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (stands_alone(c)) {
      compose(pending, result);
      append_utf8(result, c);
    } else {
      append_decomposed(c, pending);
    }
  }
  compose(pending, result);
  return result;
}

}  // namespace dif::text
