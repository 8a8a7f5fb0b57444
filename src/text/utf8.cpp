#include "text/utf8.h"

#include "base/error.h"
#include "io/printable.h"

namespace dif::text {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

}  // namespace

Status check_utf8(std::string_view text, std::string_view what) {
  const std::size_t offset = io::first_invalid_utf8(text);
  if (offset == text.size()) return ok();
  return invalid_input("{}: byte 0x{:02x} at offset {} is not UTF-8; save the text as UTF-8", what,
                       byte_at(text, offset), offset);
}

char32_t next_code_point(std::string_view text, std::size_t& offset) {
  const unsigned lead = byte_at(text, offset);
  if (lead < 0x80) {
    ++offset;
    return lead;
  }
  const int extra = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
  char32_t code_point = lead & (0x3fU >> extra);
  ++offset;
  for (int k = 0; k < extra; ++k) code_point = (code_point << 6) | (byte_at(text, offset++) & 0x3fU);
  return code_point;
}

std::size_t previous_boundary(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && (byte_at(text, begin) & 0xc0) == 0x80) --begin;
  return begin;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto put = [&](char32_t bits) { text.push_back(static_cast<char>(bits)); };
  if (code_point < 0x80) return put(code_point);
  if (code_point < 0x800) {
    put(0xc0 | (code_point >> 6));
  } else if (code_point < 0x10000) {
    put(0xe0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3f));
  } else {
    put(0xf0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3f));
    put(0x80 | ((code_point >> 6) & 0x3f));
  }
  put(0x80 | (code_point & 0x3f));
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

}  // namespace dif::text
