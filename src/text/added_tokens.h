#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dif/status.h"
#include "text/bpe.h"

namespace dif::text {

/// A text that is one token wherever it stands, such as <|im_start|>.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;  ///< only where no word character touches it
  bool lstrip = false;       ///< takes the white space before it along
  bool rstrip = false;       ///< takes the white space after it along
  bool normalized = false;   ///< looked for in the normalised text rather than in the text as written
  bool special = false;      ///< a control token rather than text
};

/// Finds added tokens in text: leftmost first, longest first. A match that its single_word flag rejects is
/// skipped as a whole, and white space that a match took along is not looked at again. Immutable.
class AddedTokenFinder {
 public:
  struct Piece {
    std::optional<TokenId> id;  ///< nothing: ordinary text
    std::string_view text;
  };

  /// Pre: contents are distinct, not empty, and no longer than kMaxContentBytes.
  explicit AddedTokenFinder(const std::vector<AddedToken>& tokens);

  /// Calls `visit` for the pieces of `text` in order, none of them empty; together they cover the text, and
  /// overlap only where a token starts in white space taken along. Stops at the first error and returns it.
  /// Pre: `text` is well-formed UTF-8.
  Status split(std::string_view text, const std::function<Status(const Piece&)>& visit) const;

  static constexpr std::size_t kMaxContentBytes = 512;

 private:
  /// The longest token that starts at `at`; nothing when none does.
  const AddedToken* match_at(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;
  std::array<bool, 256> starts_{};                          // first bytes of tokens
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // (node, byte) -> node; node 0 is the root
  std::vector<std::int32_t> token_at_;                      // by node: index into tokens_, or -1
};

}  // namespace dif::text
