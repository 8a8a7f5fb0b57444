// A tokenizer.json of any bytes; what is accepted must encode and give back a text with everything in it.

#include "text/tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/promise.h"
#include "io/json.h"
#include "text/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = dif::io::JsonDocument::parse(text, "input");
  if (!document) return 0;
  auto spec = dif::text::read_tokenizer_json(*document);
  if (!spec) return 0;
  const auto tokenizer = dif::text::Tokenizer::build(*std::move(spec), {});
  if (!tokenizer) return 0;
  const auto ids = tokenizer->encode("A red  apple,\r\n e\u0301 \U0001F469\u200D\U0001F680 <|im_end|> 123");
  if (!ids) return 0;
  for (const auto id : *ids) dif::fuzz::promise(id < tokenizer->id_limit(), "ids stay below id_limit()");
  dif::fuzz::promise(tokenizer->decode(*ids).has_value(), "what encode() gives decode() takes");
  return 0;
}
