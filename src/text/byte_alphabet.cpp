#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace dif::text {
namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

constexpr int kSymbolLimit = 0x144;

struct Tables {
  std::array<char32_t, 256> symbol{};
  std::array<int, kSymbolLimit> byte{};  // -1: not in the alphabet
};

constexpr Tables make_tables() {
  Tables tables;
  tables.byte.fill(-1);
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t symbol = stands_for_itself(byte) ? byte : next++;
    tables.symbol[byte] = symbol;
    tables.byte[symbol] = static_cast<int>(byte);
  }
  return tables;
}

constexpr Tables kTables = make_tables();
static_assert(kTables.symbol[0xad] == kSymbolLimit - 1);

}  // namespace

char32_t byte_symbol(unsigned char byte) {
  return kTables.symbol[byte];
}

std::string bytes_to_symbols(std::string_view bytes) {
  std::string symbols;
  symbols.reserve(bytes.size());
  for (const char byte : bytes) append_utf8(symbols, byte_symbol(static_cast<unsigned char>(byte)));
  return symbols;
}

std::optional<std::string> symbols_to_bytes(std::string_view symbols) {
  std::string bytes;
  bytes.reserve(symbols.size());
  for (std::size_t i = 0; i < symbols.size();) {
    const char32_t symbol = next_code_point(symbols, i);
    if (symbol >= kSymbolLimit || kTables.byte[symbol] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kTables.byte[symbol]));
  }
  return bytes;
}

}  // namespace dif::text
