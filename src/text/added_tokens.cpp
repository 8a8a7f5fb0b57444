#include "text/added_tokens.h"

#include <utf8proc.h>

#include "base/check.h"
#include "base/error.h"
#include "text/utf8.h"

namespace dif::text {
namespace {

std::uint64_t edge(std::uint32_t node, char byte) {
  return (std::uint64_t{node} << 8) | static_cast<unsigned char>(byte);
}

/// What \w means in a Unicode-aware pattern (UTS 18): letters, marks, decimal and letter numbers, connectors,
/// joiners, and the alphabetic symbols, which are circled and squared letters.
bool is_word(char32_t c) {
  if (c == 0x200c || c == 0x200d) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
             (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
  }
}

bool word_before(std::string_view text, std::size_t at) {
  if (at == 0) return false;
  std::size_t begin = previous_boundary(text, at);
  return is_word(next_code_point(text, begin));
}

bool word_after(std::string_view text, std::size_t at) {
  return at < text.size() && is_word(next_code_point(text, at));
}

std::size_t skip_space_back(std::string_view text, std::size_t at, std::size_t limit) {
  while (at > limit) {
    const std::size_t begin = previous_boundary(text, at);
    std::size_t end = begin;
    if (!is_white_space(next_code_point(text, end))) break;
    at = begin;
  }
  return at;
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    std::size_t end = at;
    if (!is_white_space(next_code_point(text, end))) break;
    at = end;
  }
  return at;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(const std::vector<AddedToken>& tokens)
    : tokens_(tokens), token_at_(1, -1) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    DIF_CHECK(!content.empty() && content.size() <= kMaxContentBytes);
    starts_[static_cast<unsigned char>(content.front())] = true;
    std::uint32_t node = 0;
    for (const char byte : content) {
      const auto [found, added] =
          edges_.emplace(edge(node, byte), static_cast<std::uint32_t>(token_at_.size()));
      if (added) token_at_.push_back(-1);
      node = found->second;
    }
    DIF_CHECK(token_at_[node] == -1);
    token_at_[node] = static_cast<std::int32_t>(i);
  }
}

const AddedToken* AddedTokenFinder::match_at(std::string_view text, std::size_t at) const {
  std::int32_t best = -1;
  std::uint32_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const auto found = edges_.find(edge(node, text[i]));
    if (found == edges_.end()) break;
    node = found->second;
    if (token_at_[node] >= 0) best = token_at_[node];
  }
  return best < 0 ? nullptr : &tokens_[static_cast<std::size_t>(best)];
}

Status AddedTokenFinder::split(std::string_view text,
                               const std::function<Status(const Piece&)>& visit) const {
  std::size_t done = 0;
  std::size_t space_end =
      0;  // of the white space last taken along; a match that ends before it ends inside it
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* token = starts_[static_cast<unsigned char>(text[at])] ? match_at(text, at) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + token->content.size();
    at = end;
    if (token->single_word && (word_before(text, begin) || word_after(text, end))) continue;
    if (token->lstrip) begin = skip_space_back(text, begin, done);
    if (token->rstrip) {
      if (end >= space_end) space_end = skip_space(text, end);
      end = space_end;
    }
    if (begin > done) DIF_TRY(visit({std::nullopt, text.substr(done, begin - done)}));
    DIF_TRY(visit({token->id, text.substr(begin, end - begin)}));
    done = end;  // the next match may start before it, in the white space that was taken along
  }
  if (done < text.size()) return visit({std::nullopt, text.substr(done)});
  return ok();
}

}  // namespace dif::text
