#include "text/reference_unicode.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace dif::text {
namespace {

constexpr std::string_view kNewerLetters =
    R"(\x{1C89}-\x{1C8A}\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{105C0}-\x{105F3}\x{10D4A}-\x{10D65})"
    R"(\x{10D6F}-\x{10D85}\x{10EC2}-\x{10EC4}\x{1123F}-\x{11240}\x{11380}-\x{11389}\x{1138B}\x{1138E})"
    R"(\x{11390}-\x{113B5}\x{113B7}\x{113D1}\x{113D3}\x{11BC0}-\x{11BE0}\x{11F02}\x{11F04}-\x{11F10})"
    R"(\x{11F12}-\x{11F33}\x{1342F}\x{13441}-\x{13446}\x{13460}-\x{143FA}\x{16100}-\x{1611D})"
    R"(\x{16D40}-\x{16D6C}\x{18CFF}\x{1B132}\x{1B155}\x{1DF25}-\x{1DF2A}\x{1E030}-\x{1E06D})"
    R"(\x{1E4D0}-\x{1E4EB}\x{1E5D0}-\x{1E5ED}\x{1E5F0}\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";

constexpr std::string_view kNewerNumbers =
    R"(\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{11F50}-\x{11F59}\x{16130}-\x{16139})"
    R"(\x{16D70}-\x{16D79}\x{1CCF0}-\x{1CCF9}\x{1D2C0}-\x{1D2D3}\x{1E4F0}-\x{1E4F9}\x{1E5F1}-\x{1E5FA})";

constexpr std::string_view kNewerMarks =
    R"(\x{897}\x{CF3}\x{ECE}\x{10D69}-\x{10D6D}\x{10EFC}-\x{10EFF}\x{11241}\x{113B8}-\x{113C0}\x{113C2})"
    R"(\x{113C5}\x{113C7}-\x{113CA}\x{113CC}-\x{113D0}\x{113D2}\x{113E1}-\x{113E2}\x{11F00}-\x{11F01})"
    R"(\x{11F03}\x{11F34}-\x{11F3A}\x{11F3E}-\x{11F42}\x{11F5A}\x{13440}\x{13447}-\x{13455})"
    R"(\x{1611E}-\x{1612F}\x{1E08F}\x{1E4EC}-\x{1E4EF}\x{1E5EE}-\x{1E5EF})";

struct Range {
  char32_t first, last;
};

// Marks that came after Unicode 9, and U+11938, which is U+11935 U+11930 composed.
constexpr std::array kUnknownToNfc = {
    Range{0x7fd, 0x7fd},     Range{0x898, 0x89f},     Range{0x8ca, 0x8d3},     Range{0x9fe, 0x9fe},
    Range{0xc3c, 0xc3c},     Range{0xd3b, 0xd3c},     Range{0xeba, 0xeba},     Range{0x1715, 0x1715},
    Range{0x1abf, 0x1ace},   Range{0x1df6, 0x1dfa},   Range{0xa82c, 0xa82c},   Range{0x10d24, 0x10d27},
    Range{0x10eab, 0x10eac}, Range{0x10efd, 0x10eff}, Range{0x10f46, 0x10f50}, Range{0x10f82, 0x10f85},
    Range{0x11070, 0x11070}, Range{0x1133b, 0x1133b}, Range{0x1145e, 0x1145e}, Range{0x11839, 0x1183a},
    Range{0x11930, 0x11930}, Range{0x11938, 0x11938}, Range{0x1193d, 0x1193e}, Range{0x11943, 0x11943},
    Range{0x119e0, 0x119e0}, Range{0x11a34, 0x11a34}, Range{0x11a47, 0x11a47}, Range{0x11a99, 0x11a99},
    Range{0x11d42, 0x11d42}, Range{0x11d44, 0x11d45}, Range{0x11d97, 0x11d97}, Range{0x11f41, 0x11f42},
    Range{0x16ff0, 0x16ff1}, Range{0x1e08f, 0x1e08f}, Range{0x1e130, 0x1e136}, Range{0x1e2ae, 0x1e2ae},
    Range{0x1e2ec, 0x1e2ef}, Range{0x1e4ec, 0x1e4ef},
};

}  // namespace

std::string_view newer_members(std::string_view category) {
  if (category == "L") return kNewerLetters;
  if (category == "N") return kNewerNumbers;
  if (category == "M") return kNewerMarks;
  return {};
}

bool is_unknown_to_nfc(char32_t code_point) {
  const auto next = std::upper_bound(kUnknownToNfc.begin(), kUnknownToNfc.end(), code_point,
                                     [](char32_t c, const Range& range) { return c < range.first; });
  return next != kUnknownToNfc.begin() && code_point <= std::prev(next)->last;
}

}  // namespace dif::text
