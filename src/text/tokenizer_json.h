#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dif/status.h"
#include "io/json.h"
#include "text/added_tokens.h"
#include "text/bpe.h"

namespace dif::text {

/// What a tokenizer.json says, for the one kind that is supported: byte-level BPE after splitting by
/// patterns.
struct TokenizerSpec {
  BpeSpec bpe;
  bool nfc = false;                         ///< text is brought to NFC before it is split
  std::vector<std::string> split_patterns;  ///< applied one after the other
  std::vector<AddedToken> added_tokens;
};

/// What we use of a tokenizer_config.json.
struct TokenizerConfig {
  std::vector<AddedToken> added_tokens;
  std::optional<std::string> pad_token;
  std::string chat_template;  ///< Jinja as it stands, never evaluated; empty: none
};

/// Accepts NFC or no normalizer; Split (a regular expression, isolated matches) and ByteLevel pre-tokenizers;
/// a BPE model with merges as pairs or as strings; a ByteLevel or no post-processor and decoder. `truncation`
/// and `padding` are the caller's business and are not read. The content of the lists is checked by
/// Tokenizer::build. Errors: InvalidInput naming the key, what is supported and what was found.
Result<TokenizerSpec> read_tokenizer_json(const io::JsonDocument& document);

/// Errors: InvalidInput naming the key, what was expected and what was found.
Result<TokenizerConfig> read_tokenizer_config(const io::JsonDocument& document);

}  // namespace dif::text
