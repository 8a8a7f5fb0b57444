#include "text/bpe.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "text/byte_alphabet.h"

namespace dif::text {
namespace {

constexpr std::int32_t kNoMerge = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kEnd = -1;
constexpr std::size_t kMaxMerges = std::size_t{1} << 22;

std::uint64_t heap_key(std::int32_t rank, std::int32_t position) {
  return (static_cast<std::uint64_t>(rank) << 32) | static_cast<std::uint32_t>(position);
}

}  // namespace

Result<Bpe> Bpe::build(BpeSpec spec) {
  Bpe bpe;
  bpe.ignore_merges_ = spec.ignore_merges;
  DIF_TRY(bpe.add_tokens(std::move(spec.vocab)));
  DIF_TRY(bpe.add_merges(spec.merges));
  return bpe;
}

Status Bpe::add_tokens(std::vector<std::pair<std::string, TokenId>> vocab) {
  if (vocab.empty()) return invalid_input("model.vocab is empty");
  TokenId last = 0;
  for (const auto& [symbols, id] : vocab) {
    if (id < 0 || id > kMaxTokenId) {
      return invalid_input("model.vocab: token {:?} has id {}; expected 0 to {}", symbols, id, kMaxTokenId);
    }
    if (symbols.empty()) return invalid_input("model.vocab: the token of id {} is empty", id);
    last = std::max(last, id);
  }
  tokens_.resize(static_cast<std::size_t>(last) + 1);
  ids_.reserve(vocab.size());
  for (auto& [symbols, id] : vocab) {
    Token& token = tokens_[static_cast<std::size_t>(id)];
    if (!token.symbols.empty()) {
      return invalid_input("model.vocab: id {} belongs to both {:?} and {:?}", id, token.symbols, symbols);
    }
    // A text outside the alphabet can only be the text of an added token; it stands for itself.
    token.bytes = symbols_to_bytes(symbols).value_or(symbols);
    token.symbols = std::move(symbols);
    if (!ids_.emplace(token.symbols, id).second) {
      return invalid_input("model.vocab: token {:?} appears twice", token.symbols);
    }
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string symbol = bytes_to_symbols(std::string(1, static_cast<char>(byte)));
    const auto id = find(symbol);
    if (!id)
      return invalid_input("model.vocab: no token {:?} for byte 0x{:02x}; it is not byte-level", symbol,
                           byte);
    byte_ids_[byte] = *id;
  }
  return ok();
}

Status Bpe::add_merges(const std::vector<std::pair<std::string, std::string>>& merges) {
  if (merges.size() > kMaxMerges) {
    return invalid_input("model.merges has {} entries; the limit is {}", merges.size(), kMaxMerges);
  }
  merges_.reserve(merges.size());
  results_.reserve(merges.size());
  for (const auto& [left, right] : merges) {
    const std::size_t rank = results_.size();
    const std::string joined = left + right;
    const auto left_id = find(left), right_id = find(right), result = find(joined);
    if (!left_id || !right_id || !result) {
      return invalid_input("model.merges[{}]: {:?} is not in model.vocab", rank,
                           !left_id    ? left
                           : !right_id ? right
                                       : joined);
    }
    merges_.push_back({*left_id, *right_id, *result, static_cast<std::int32_t>(rank)});
    results_.push_back(*result);
  }
  std::sort(merges_.begin(), merges_.end(), [](const Merge& a, const Merge& b) {
    return std::pair(a.left, a.right) < std::pair(b.left, b.right);
  });
  const auto same_pair = [](const Merge& a, const Merge& b) {
    return a.left == b.left && a.right == b.right;
  };
  const auto twice = std::adjacent_find(merges_.begin(), merges_.end(), same_pair);
  if (twice != merges_.end()) {
    return invalid_input("model.merges: the pair {:?} {:?} appears twice", *symbols_of(twice->left),
                         *symbols_of(twice->right));
  }
  first_merge_.assign(tokens_.size() + 1, 0);
  for (const Merge& merge : merges_) ++first_merge_[static_cast<std::size_t>(merge.left) + 1];
  for (std::size_t i = 1; i < first_merge_.size(); ++i) first_merge_[i] += first_merge_[i - 1];
  byte_ranks_.reserve(256 * 256);
  for (const TokenId left : byte_ids_) {
    for (const TokenId right : byte_ids_) byte_ranks_.push_back(rank_of(left, right));
  }
  return ok();
}

std::int32_t Bpe::rank_of(TokenId left, TokenId right) const {
  const auto begin = merges_.begin() + first_merge_[static_cast<std::size_t>(left)];
  const auto end = merges_.begin() + first_merge_[static_cast<std::size_t>(left) + 1];
  const auto found =
      std::lower_bound(begin, end, right, [](const Merge& m, TokenId id) { return m.right < id; });
  return found != end && found->right == right ? found->rank : kNoMerge;
}

void Bpe::encode_word(std::string_view word, Scratch& s, std::vector<TokenId>& out) const {
  DIF_CHECK(word.size() < std::numeric_limits<std::int32_t>::max());
  if (ignore_merges_) {
    if (const auto id = find(bytes_to_symbols(word))) return out.push_back(*id);
  }
  const auto n = static_cast<std::int32_t>(word.size());
  s.ids.resize(word.size());
  s.previous.resize(word.size());
  s.next.resize(word.size());
  s.ranks.assign(word.size(), kNoMerge);  // rank of the pair that starts at a position, as it is now
  s.heap.clear();
  for (std::int32_t i = 0; i < n; ++i) {
    s.ids[i] = byte_ids_[static_cast<unsigned char>(word[i])];
    s.previous[i] = i - 1;
    s.next[i] = i + 1 < n ? i + 1 : kEnd;
  }
  for (std::int32_t i = 0; i + 1 < n; ++i) {
    s.ranks[i] =
        byte_ranks_[static_cast<unsigned char>(word[i]) * 256 + static_cast<unsigned char>(word[i + 1])];
    if (s.ranks[i] != kNoMerge) s.heap.push_back(heap_key(s.ranks[i], i));
  }
  std::make_heap(s.heap.begin(), s.heap.end(), std::greater<>());

  const auto renew = [&](std::int32_t i) {
    s.ranks[i] = s.next[i] == kEnd ? kNoMerge : rank_of(s.ids[i], s.ids[s.next[i]]);
    if (s.ranks[i] == kNoMerge) return;
    s.heap.push_back(heap_key(s.ranks[i], i));
    std::push_heap(s.heap.begin(), s.heap.end(), std::greater<>());
  };
  while (!s.heap.empty()) {
    std::pop_heap(s.heap.begin(), s.heap.end(), std::greater<>());
    const auto rank = static_cast<std::int32_t>(s.heap.back() >> 32);
    const auto i = static_cast<std::int32_t>(s.heap.back() & 0xffffffffU);
    s.heap.pop_back();
    if (s.ranks[i] != rank) continue;  // a neighbour was merged since this entry was pushed
    const std::int32_t gone = s.next[i];
    s.ids[i] = results_[static_cast<std::size_t>(rank)];
    s.next[i] = s.next[gone];
    s.ranks[gone] = kNoMerge;
    if (s.next[i] != kEnd) s.previous[s.next[i]] = i;
    renew(i);
    if (s.previous[i] != kEnd) renew(s.previous[i]);
  }
  for (std::int32_t i = n > 0 ? 0 : kEnd; i != kEnd; i = s.next[i]) out.push_back(s.ids[i]);
}

std::optional<TokenId> Bpe::find(std::string_view symbols) const {
  const auto found = ids_.find(symbols);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string_view> Bpe::bytes_of(TokenId id) const {
  if (!symbols_of(id)) return std::nullopt;
  return tokens_[static_cast<std::size_t>(id)].bytes;
}

std::optional<std::string_view> Bpe::symbols_of(TokenId id) const {
  if (id < 0 || id >= id_limit() || tokens_[static_cast<std::size_t>(id)].symbols.empty())
    return std::nullopt;
  return tokens_[static_cast<std::size_t>(id)].symbols;
}

}  // namespace dif::text
