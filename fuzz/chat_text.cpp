// A prompt of any bytes for a tokenizer with Qwen's words, marks, and added tokens with every flag.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/promise.h"
#include "text/byte_alphabet.h"
#include "text/normalize.h"
#include "text/prompt.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using dif::text::Tokenizer;

Tokenizer make_tokenizer() {
  dif::text::TokenizerSpec spec;
  spec.nfc = true;
  spec.split_patterns = {
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
  for (int byte = 0; byte < 256; ++byte) {
    spec.bpe.vocab.emplace_back(dif::text::bytes_to_symbols(std::string(1, static_cast<char>(byte))), byte);
  }
  spec.bpe.merges = {{"a", "a"}, {"aa", "aa"}, {"b", "a"}, {"a", "b"}, {"\u0120", "a"}, {"\u00c3", "\u00a9"}};
  for (const auto& [left, right] : spec.bpe.merges) {
    spec.bpe.vocab.emplace_back(left + right, static_cast<dif::text::TokenId>(spec.bpe.vocab.size()));
  }
  for (const char* tag : {"<|im_start|>", "<|im_end|>", "<think>", "</think>"}) {
    spec.added_tokens.push_back({.id = 300 + static_cast<int>(spec.added_tokens.size()), .content = tag});
  }
  spec.added_tokens.push_back({.id = 310, .content = "<l>", .lstrip = true});
  spec.added_tokens.push_back({.id = 311, .content = "<r>", .rstrip = true});
  spec.added_tokens.push_back({.id = 312, .content = "<w", .single_word = true});
  spec.added_tokens.push_back({.id = 313, .content = "<n\u00e9", .normalized = true});
  spec.added_tokens.push_back(
      {.id = 314, .content = "<\n\n", .lstrip = true, .rstrip = true, .normalized = true});
  auto tokenizer = Tokenizer::build(std::move(spec), {.pad_token = "<|im_end|>"});
  dif::fuzz::promise(tokenizer.has_value(), "the tokenizer of this target is sound");
  return std::move(*tokenizer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using dif::fuzz::promise;
  static const Tokenizer tokenizer = make_tokenizer();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool is_utf8 = dif::text::check_utf8(text, "input").has_value();

  const auto ids = tokenizer.encode(text);
  promise(ids.has_value() == is_utf8, "every UTF-8 text has ids, and nothing else has");
  const auto prompt =
      dif::text::encode_prompt(tokenizer, text, {.chat = dif::text::kQwen3EmptyThought, .length = 24});
  promise(prompt.has_value() == is_utf8, "every UTF-8 text is a prompt, and nothing else is");
  if (!is_utf8) return 0;

  const auto decoded = tokenizer.decode(*ids);
  promise(decoded.has_value(), "what encode() gives decode() takes");
  if (text.find('<') == std::string_view::npos) {
    promise(*decoded == dif::text::nfc(text), "without added tokens decode() gives the text back in NFC");
  }
  promise(prompt->ids.size() == 24 && prompt->mask.size() == 24,
          "a prompt has the length that was asked for");
  promise(prompt->n_kept + prompt->n_dropped == prompt->n_tokens, "tokens are kept or dropped");
  for (std::size_t i = 0; i < 24; ++i) {
    promise(prompt->mask[i] == (static_cast<std::int64_t>(i) < prompt->n_kept ? 1 : 0),
            "the mask is a prefix");
  }
  return 0;
}
