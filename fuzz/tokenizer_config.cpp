// A tokenizer_config.json of any bytes beside a small tokenizer.json; what is accepted must encode and
// decode.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/promise.h"
#include "io/json.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace {

dif::text::TokenizerSpec small_spec() {
  dif::text::TokenizerSpec spec;
  spec.split_patterns = {R"(\p{L}+|\p{N}|\s+|[^\s\p{L}\p{N}]+)"};
  for (int byte = 0; byte < 256; ++byte) {
    spec.bpe.vocab.emplace_back(dif::text::bytes_to_symbols(std::string(1, static_cast<char>(byte))), byte);
  }
  spec.added_tokens.push_back({.id = 256, .content = "<|im_end|>"});
  return spec;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using dif::fuzz::promise;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = dif::io::JsonDocument::parse(text, "input");
  if (!document) return 0;
  auto config = dif::text::read_tokenizer_config(*document);
  if (!config) return 0;
  static const dif::text::TokenizerSpec spec = small_spec();
  const auto tokenizer = dif::text::Tokenizer::build(spec, *std::move(config));
  if (!tokenizer) return 0;
  if (const auto pad = tokenizer->pad_id()) promise(*pad < tokenizer->id_limit(), "the pad token exists");
  const auto ids = tokenizer->encode("A red  apple,\r\n <|im_start|> <think>\u00e9 <|im_end|> 123");
  promise(ids.has_value(), "every UTF-8 text has ids");
  for (const auto id : *ids) promise(id < tokenizer->id_limit(), "ids stay below id_limit()");
  promise(tokenizer->decode(*ids).has_value(), "what encode() gives decode() takes");
  return 0;
}
