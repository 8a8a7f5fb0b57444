#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "text/bpe.h"
#include "text/tokenizer_json.h"

namespace dif::text {

/// Texts longer than this are refused.
inline constexpr std::size_t kMaxTextBytes = std::size_t{16} << 20;

/// A byte-level BPE tokenizer as its files describe it (models.md, section 5): added tokens are cut out
/// first, the rest is brought to NFC, split into words by the file's patterns, and each word's bytes are
/// merged. Immutable and cheap to copy; safe to share between threads.
class Tokenizer {
 public:
  /// Checks everything that the two readers leave open. Added tokens of `config` that `spec` lacks are added;
  /// where both have one, the flags of `spec` hold. Errors: InvalidInput when an id or a text is given to two
  /// tokens, an added token is empty or too long, a pattern or the BPE model is unusable, or the pad token
  /// does not exist.
  static Result<Tokenizer> build(TokenizerSpec spec, TokenizerConfig config);

  /// The ids of `text`. Nothing is added, cut or padded. The texts of added tokens, such as <|im_end|>,
  /// become those tokens wherever they stand. NUL is a character like any other. Errors: InvalidInput when
  /// the text is not UTF-8 (with the offset of the first bad byte) or longer than kMaxTextBytes, or a pattern
  /// of a hostile file backtracks without end.
  Result<std::vector<TokenId>> encode(std::string_view text) const;

  /// The bytes that the ids stand for; not UTF-8 where the ids cut a character apart.
  /// Errors: InvalidInput naming the first id that is no token.
  Result<std::string> decode(std::span<const TokenId> ids) const;

  /// The token with exactly this text, an added one or one of the vocabulary; nothing when there is none.
  std::optional<TokenId> find(std::string_view text) const;
  /// The added token with this id; nullptr when there is none. Valid as long as a copy of this tokenizer.
  const AddedToken* added_token(TokenId id) const;

  /// One more than the largest id: the embedding table needs at least this many rows.
  TokenId id_limit() const;
  /// pad_token of tokenizer_config.json; nothing when no file names one.
  std::optional<TokenId> pad_id() const;
  /// The chat template of the files (Jinja, never evaluated); empty when there is none.
  const std::string& chat_template() const;

 private:
  struct Parts;
  class Encoder;
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;
};

/// Reads tokenizer.json of `folder` and, when they exist, tokenizer_config.json and chat_template.jinja.
/// Errors: NotFound, Io, InvalidInput; the message names the file.
Result<Tokenizer> load_tokenizer(const std::filesystem::path& folder);

/// Reads a tokenizer.json and, when `config` is not empty, the tokenizer_config.json that belongs to it.
Result<Tokenizer> load_tokenizer_files(const std::filesystem::path& tokenizer_json,
                                       const std::filesystem::path& config = {});

}  // namespace dif::text
