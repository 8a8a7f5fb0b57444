#include "io/printable.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace dif::io {

namespace {

/// Bytes of the valid UTF-8 sequence at the start of `text`; 0 when there is none. Table 3-7 of the Unicode
/// standard.
std::size_t sequence_bytes(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const auto continues = [&](std::size_t i, std::uint8_t low = 0x80, std::uint8_t high = 0xbf) {
    return i < text.size() && at(i) >= low && at(i) <= high;
  };
  const std::uint8_t lead = at(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const std::uint8_t low = lead == 0xe0 ? 0xa0 : 0x80;
    const std::uint8_t high = lead == 0xed ? 0x9f : 0xbf;
    return continues(1, low, high) && continues(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const std::uint8_t low = lead == 0xf0 ? 0x90 : 0x80;
    const std::uint8_t high = lead == 0xf4 ? 0x8f : 0xbf;
    return continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::size_t first_invalid_utf8(std::string_view text) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    const std::size_t bytes = sequence_bytes(text.substr(offset));
    if (bytes == 0) return offset;
    offset += bytes;
  }
  return offset;
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  std::size_t offset = 0;
  while (offset < text.size()) {
    if (offset >= max_bytes) return out + "...";
    const std::size_t bytes = sequence_bytes(text.substr(offset));
    const auto lead = static_cast<std::uint8_t>(text[offset]);
    // C1 controls (U+0080 to U+009F, lead byte C2) can drive a terminal as well.
    const bool control = lead < 0x20 || lead == 0x7f ||
                         (lead == 0xc2 && bytes == 2 && static_cast<std::uint8_t>(text[offset + 1]) < 0xa0);
    if (bytes == 0 || control) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", lead);
      for (std::size_t i = 1; i < bytes; ++i)
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint8_t>(text[offset + i]));
      offset += bytes == 0 ? 1 : bytes;
    } else {
      out += text.substr(offset, bytes);
      offset += bytes;
    }
  }
  return out;
}

}  // namespace dif::io
