#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dif/status.h"

namespace dif::text {

/// Index of a row of the embedding table.
using TokenId = std::int32_t;

/// Ids above this are refused: the largest published vocabularies have about 260 000 entries.
inline constexpr TokenId kMaxTokenId = (1 << 21) - 1;

/// The vocabulary and the merge list of a byte-level BPE model. Texts are in the byte-level alphabet.
struct BpeSpec {
  std::vector<std::pair<std::string, TokenId>> vocab;
  std::vector<std::pair<std::string, std::string>> merges;  ///< in order of rank
  bool ignore_merges = false;                               ///< a word that is in the vocabulary is one token
};

/// Byte-pair encoding over bytes (Sennrich et al. 2016): starting from single bytes, the adjacent pair of
/// lowest rank, leftmost first, is merged until none is left. Immutable; safe to share between threads.
class Bpe {
 public:
  /// Buffers of encode_word; keep one per thread.
  struct Scratch {
    std::vector<TokenId> ids;
    std::vector<std::int32_t> previous, next, ranks;
    std::vector<std::uint64_t> heap;
  };

  /// Checks the spec completely. Errors: InvalidInput when a token or id appears twice, an id is out of
  /// range, one of the 256 bytes has no token, or a merge names (or makes) a text that is not in the
  /// vocabulary.
  static Result<Bpe> build(BpeSpec spec);

  /// Appends the tokens of one word, given as bytes. Time is O(n log n) in the length of the word.
  /// Pre: word.size() < 2^31.
  void encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;

  /// The id of a vocabulary text; nothing when there is none.
  std::optional<TokenId> find(std::string_view symbols) const;
  /// The bytes that `id` stands for; nothing when the vocabulary has no such id.
  std::optional<std::string_view> bytes_of(TokenId id) const;
  /// The text of `id` in the alphabet; nothing when the vocabulary has no such id.
  std::optional<std::string_view> symbols_of(TokenId id) const;
  /// One more than the largest id.
  TokenId id_limit() const { return static_cast<TokenId>(tokens_.size()); }

 private:
  struct Token {
    std::string symbols;  // empty: no token has this id
    std::string bytes;
  };
  struct Merge {
    TokenId left, right, result;
    std::int32_t rank;
  };

  Status add_tokens(std::vector<std::pair<std::string, TokenId>> vocab);
  Status add_merges(const std::vector<std::pair<std::string, std::string>>& merges);
  /// Rank of the pair, or kNoMerge.
  std::int32_t rank_of(TokenId left, TokenId right) const;

  std::vector<Token> tokens_;                          // by id
  std::unordered_map<std::string_view, TokenId> ids_;  // keys point into tokens_
  std::array<TokenId, 256> byte_ids_{};
  std::vector<Merge> merges_;               // by (left, right)
  std::vector<std::uint32_t> first_merge_;  // [id_limit + 1]: where the merges of a left id start in merges_
  std::vector<TokenId> results_;            // by rank
  std::vector<std::int32_t> byte_ranks_;  // [256 * 256]: rank_of for two bytes, which most lookups are about
  bool ignore_merges_ = false;
};

}  // namespace dif::text
