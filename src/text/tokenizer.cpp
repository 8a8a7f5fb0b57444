#include "text/tokenizer.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "io/file.h"
#include "io/printable.h"
#include "text/byte_alphabet.h"
#include "text/normalize.h"
#include "text/split_pattern.h"
#include "text/utf8.h"

namespace dif::text {
namespace {

constexpr std::size_t kMaxAddedTokens = 65'536;
constexpr std::size_t kMaxAddedTokenBytes = std::size_t{1} << 20;  // of all contents together
constexpr std::size_t kMaxTemplateBytes = std::size_t{1} << 20;
constexpr io::JsonLimits kJsonLimits{.max_bytes = std::uint64_t{128} << 20, .max_depth = 32};

/// Words up to this length are remembered while one text is encoded.
constexpr std::size_t kCachedWordBytes = 64;
constexpr std::size_t kCachedWords = 65'536;

using AddedById = std::map<TokenId, AddedToken>;

/// `what` names the list in messages.
Status check_added_tokens(const std::vector<AddedToken>& tokens, std::string_view what) {
  if (tokens.size() > kMaxAddedTokens) {
    return invalid_input("{} has {} entries; the limit is {}", what, tokens.size(), kMaxAddedTokens);
  }
  std::size_t bytes = 0;
  std::set<TokenId> ids;
  for (const AddedToken& token : tokens) {
    if (token.id < 0 || token.id > kMaxTokenId) {
      return invalid_input("{}: id {} is not from 0 to {}", what, token.id, kMaxTokenId);
    }
    if (token.content.empty()) return invalid_input("{}: the token of id {} is empty", what, token.id);
    if (token.content.size() > AddedTokenFinder::kMaxContentBytes) {
      return invalid_input("{}: the token of id {} has {} bytes; the limit is {}", what, token.id,
                           token.content.size(), AddedTokenFinder::kMaxContentBytes);
    }
    DIF_TRY(check_utf8(token.content, fmt::format("{}: the token of id {}", what, token.id)));
    if (!ids.insert(token.id).second) return invalid_input("{}: id {} appears twice", what, token.id);
    bytes += token.content.size();
  }
  if (bytes > kMaxAddedTokenBytes) {
    return invalid_input("{} has {} bytes of text; the limit is {}", what, bytes, kMaxAddedTokenBytes);
  }
  return ok();
}

/// The tokens of both files, each id and each text once and in agreement with the vocabulary.
Result<AddedById> join_added_tokens(const Bpe& bpe, const std::vector<AddedToken>& tokens,
                                    const std::vector<AddedToken>& more) {
  DIF_TRY(check_added_tokens(tokens, "added_tokens"));
  DIF_TRY(check_added_tokens(more, "added_tokens_decoder"));
  AddedById by_id;
  for (const auto* list : {&tokens, &more}) {
    for (const AddedToken& token : *list) {
      const auto [entry, added] = by_id.emplace(token.id, token);
      if (!added && entry->second.content != token.content) {
        return invalid_input("id {} is added token \"{}\" in added_tokens and \"{}\" in added_tokens_decoder",
                             token.id, io::printable(entry->second.content), io::printable(token.content));
      }
    }
  }
  std::map<std::string_view, TokenId> by_content;
  for (const auto& [id, token] : by_id) {
    const auto [entry, added] = by_content.emplace(token.content, id);
    if (!added) {
      return invalid_input("added token \"{}\" has the ids {} and {}", io::printable(token.content),
                           entry->second, id);
    }
    const auto symbols = bpe.symbols_of(id);
    if (symbols && *symbols != token.content) {
      return invalid_input("id {} is added token \"{}\" and \"{}\" of the vocabulary", id,
                           io::printable(token.content), io::printable(*symbols));
    }
    const auto other = bpe.find(token.content);
    if (other && *other != id) {
      return invalid_input("added token \"{}\" has id {}, and id {} in the vocabulary",
                           io::printable(token.content), id, *other);
    }
  }
  return by_id;
}

Result<AddedTokenFinder> normalized_finder(const AddedById& tokens, bool use_nfc) {
  std::vector<AddedToken> wanted;
  std::map<std::string, TokenId> seen;
  for (const auto& [id, token] : tokens) {
    if (!token.normalized) continue;
    wanted.push_back(token);
    std::string& content = wanted.back().content;
    if (use_nfc) content = nfc(content);
    const auto [entry, added] = seen.emplace(content, id);
    if (!added) {
      return invalid_input("added tokens {} and {} have the same normalised text \"{}\"", entry->second, id,
                           io::printable(content));
    }
    if (content.size() > AddedTokenFinder::kMaxContentBytes) {
      return invalid_input("added token {} has {} bytes when normalised; the limit is {}", id, content.size(),
                           AddedTokenFinder::kMaxContentBytes);
    }
  }
  return AddedTokenFinder(wanted);
}

AddedTokenFinder verbatim_finder(const AddedById& tokens) {
  std::vector<AddedToken> wanted;
  for (const auto& [id, token] : tokens) {
    if (!token.normalized) wanted.push_back(token);
  }
  return AddedTokenFinder(wanted);
}

/// Puts the file's name in front of an error that was found in what the file says.
template <class T>
Result<T> named(Result<T> result, std::string_view source) {
  if (!result && !result.error().message.starts_with(source)) {
    result.error().message = fmt::format("{}: {}", source, result.error().message);
  }
  return result;
}

}  // namespace

struct Tokenizer::Parts {
  Bpe bpe;
  bool nfc = false;
  std::vector<SplitPattern> patterns;
  AddedById added;
  std::map<std::string_view, TokenId> added_ids;  // keys point into `added`
  AddedTokenFinder verbatim, normalized;
  std::optional<TokenId> pad_id;
  std::string chat_template;
  TokenId id_limit = 0;
};

Result<Tokenizer> Tokenizer::build(TokenizerSpec spec, TokenizerConfig config) {
  DIF_ASSIGN(Bpe bpe, Bpe::build(std::move(spec.bpe)));
  DIF_ASSIGN(AddedById added, join_added_tokens(bpe, spec.added_tokens, config.added_tokens));
  DIF_ASSIGN(AddedTokenFinder normalized, normalized_finder(added, spec.nfc));
  AddedTokenFinder verbatim = verbatim_finder(added);
  auto parts = std::make_shared<Parts>(Parts{.bpe = std::move(bpe),
                                             .nfc = spec.nfc,
                                             .added = std::move(added),
                                             .verbatim = std::move(verbatim),
                                             .normalized = std::move(normalized),
                                             .chat_template = std::move(config.chat_template)});
  for (const std::string& source : spec.split_patterns) {
    DIF_ASSIGN(SplitPattern pattern, SplitPattern::compile(source));
    parts->patterns.push_back(std::move(pattern));
  }
  for (const auto& [id, token] : parts->added) parts->added_ids.emplace(token.content, id);
  parts->id_limit = parts->bpe.id_limit();
  if (!parts->added.empty()) parts->id_limit = std::max(parts->id_limit, parts->added.rbegin()->first + 1);
  Tokenizer tokenizer(parts);
  if (config.pad_token) {
    parts->pad_id = tokenizer.find(*config.pad_token);
    if (!parts->pad_id) {
      return invalid_input("pad_token \"{}\" is not a token of this tokenizer",
                           io::printable(*config.pad_token));
    }
  }
  return tokenizer;
}

/// The state of one call of encode.
class Tokenizer::Encoder {
 public:
  explicit Encoder(const Parts& parts) : parts_(parts) {
    for (const SplitPattern& pattern : parts.patterns) scratch_.push_back(pattern.make_scratch());
  }

  Result<std::vector<TokenId>> run(std::string_view text) && {
    DIF_TRY(parts_.verbatim.split(text, [this](const AddedTokenFinder::Piece& piece) -> Status {
      if (piece.id) return push(*piece.id);
      return normalize(piece.text);
    }));
    return std::move(ids_);
  }

 private:
  Status push(TokenId id) {
    ids_.push_back(id);
    return ok();
  }

  Status normalize(std::string_view text) {
    if (parts_.nfc) text = texts_.emplace_back(nfc(text));
    return parts_.normalized.split(text, [this](const AddedTokenFinder::Piece& piece) -> Status {
      if (piece.id) return push(*piece.id);
      return split(piece.text);
    });
  }

  Status split(std::string_view text) {
    words_.assign(1, text);
    for (std::size_t i = 0; i < parts_.patterns.size(); ++i) {
      smaller_words_.clear();
      for (const std::string_view word : words_) {
        ends_.clear();
        DIF_TRY(parts_.patterns[i].split(word, scratch_[i], ends_));
        std::size_t begin = 0;
        for (const std::size_t end : ends_) {
          smaller_words_.push_back(word.substr(begin, end - begin));
          begin = end;
        }
      }
      words_.swap(smaller_words_);
    }
    for (const std::string_view word : words_) merge(word);
    return ok();
  }

  void merge(std::string_view word) {
    if (word.size() > kCachedWordBytes) return parts_.bpe.encode_word(word, bpe_scratch_, ids_);
    if (const auto found = cache_.find(word); found != cache_.end()) {
      const auto [begin, count] = found->second;
      const std::size_t end = ids_.size();
      ids_.resize(end + count);
      std::copy_n(ids_.begin() + static_cast<std::ptrdiff_t>(begin), count,
                  ids_.begin() + static_cast<std::ptrdiff_t>(end));
      return;
    }
    const std::size_t begin = ids_.size();
    parts_.bpe.encode_word(word, bpe_scratch_, ids_);
    if (cache_.size() < kCachedWords) cache_.emplace(word, std::pair(begin, ids_.size() - begin));
  }

  const Parts& parts_;
  std::vector<TokenId> ids_;
  std::deque<std::string> texts_;  // what the words point into
  std::vector<std::string_view> words_, smaller_words_;
  std::vector<std::size_t> ends_;
  std::vector<SplitPattern::Scratch> scratch_;
  Bpe::Scratch bpe_scratch_;
  std::unordered_map<std::string_view, std::pair<std::size_t, std::size_t>> cache_;  // word -> range of ids_
};

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text) const {
  if (text.size() > kMaxTextBytes) {
    return invalid_input("text of {} bytes; the limit is {} bytes", text.size(), kMaxTextBytes);
  }
  DIF_TRY(check_utf8(text, "text"));
  return Encoder(*parts_).run(text);
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (const AddedToken* token = added_token(ids[i])) {
      text += token->content;
    } else if (const auto bytes = parts_->bpe.bytes_of(ids[i])) {
      text += *bytes;
    } else {
      return invalid_input("id {} at position {} is no token; ids are from 0 to {}", ids[i], i,
                           id_limit() - 1);
    }
  }
  return text;
}

std::optional<TokenId> Tokenizer::find(std::string_view text) const {
  const auto found = parts_->added_ids.find(text);
  if (found != parts_->added_ids.end()) return found->second;
  return parts_->bpe.find(bytes_to_symbols(text));
}

const AddedToken* Tokenizer::added_token(TokenId id) const {
  const auto found = parts_->added.find(id);
  return found == parts_->added.end() ? nullptr : &found->second;
}

TokenId Tokenizer::id_limit() const {
  return parts_->id_limit;
}

std::optional<TokenId> Tokenizer::pad_id() const {
  return parts_->pad_id;
}

const std::string& Tokenizer::chat_template() const {
  return parts_->chat_template;
}

namespace {

Result<Tokenizer> load(const std::filesystem::path& tokenizer_json, const std::filesystem::path& config_json,
                       const std::filesystem::path& chat_template) {
  DIF_ASSIGN(const io::JsonDocument document, io::JsonDocument::read(tokenizer_json, kJsonLimits));
  DIF_ASSIGN(TokenizerSpec spec, read_tokenizer_json(document));
  TokenizerConfig config;
  if (!config_json.empty()) {
    DIF_ASSIGN(const io::JsonDocument config_document, io::JsonDocument::read(config_json, kJsonLimits));
    DIF_ASSIGN(config, read_tokenizer_config(config_document));
  }
  if (!chat_template.empty()) {
    DIF_ASSIGN(config.chat_template, io::read_text_file(chat_template, kMaxTemplateBytes));
    DIF_TRY(check_utf8(config.chat_template, chat_template.string()));
  }
  return named(Tokenizer::build(std::move(spec), std::move(config)), tokenizer_json.string());
}

std::filesystem::path if_exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? path : std::filesystem::path();
}

}  // namespace

Result<Tokenizer> load_tokenizer(const std::filesystem::path& folder) {
  return load(folder / "tokenizer.json", if_exists(folder / "tokenizer_config.json"),
              if_exists(folder / "chat_template.jinja"));
}

Result<Tokenizer> load_tokenizer_files(const std::filesystem::path& tokenizer_json,
                                       const std::filesystem::path& config) {
  return load(tokenizer_json, config, {});
}

}  // namespace dif::text
