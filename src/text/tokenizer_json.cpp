#include "text/tokenizer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse_number.h"
#include "io/printable.h"

namespace dif::text {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxSplitPatterns = 16;
constexpr std::size_t kMaxTokenBytes = 16 * 1024;

/// The pattern that a ByteLevel pre-tokenizer with use_regex brings along (GPT-2).
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// One JSON value with the path that leads to it, for messages.
class Node {
 public:
  Node(const json& value, std::string path, std::string_view source)
      : value_(&value), path_(std::move(path)), source_(source) {}

  const json& value() const { return *value_; }
  const std::string& path() const { return path_; }
  std::string_view source() const { return source_; }
  bool is_null() const { return value_->is_null(); }

  /// A member; null when it is missing or this is no object.
  Node operator[](const std::string& key) const {
    static const json kNull;
    const bool there = value_->is_object() && value_->contains(key);
    return {there ? value_->at(key) : kNull, path_.empty() ? key : path_ + "." + key, source_};
  }
  Node element(std::size_t i) const { return {value_->at(i), fmt::format("{}[{}]", path_, i), source_}; }

  tl::unexpected<Error> wrong(std::string_view expected) const {
    return invalid_input("{}: {}: expected {}, found {}", source_, path_.empty() ? "document" : path_,
                         expected, description());
  }

  Result<std::string> text() const {
    if (!value_->is_string()) return wrong("a string");
    return value_->get<std::string>();
  }
  Result<bool> boolean_or(bool otherwise) const {
    if (is_null()) return otherwise;
    if (!value_->is_boolean()) return wrong("true or false");
    return value_->get<bool>();
  }
  Result<TokenId> id() const {
    if (value_->is_number_integer() &&
        (!value_->is_number_unsigned() || value_->get<std::uint64_t>() <= kMaxTokenId)) {
      const auto id = value_->get<std::int64_t>();
      if (id >= 0 && id <= kMaxTokenId) return static_cast<TokenId>(id);
    }
    return wrong(fmt::format("an id from 0 to {}", kMaxTokenId));
  }
  /// Fails unless this is null or equals `only`.
  template <class T>
  Status require_or_null(const T& only) const {
    if (is_null() || *value_ == json(only)) return ok();
    return wrong(fmt::format("{} or nothing, all that is supported", json(only).dump()));
  }

 private:
  std::string description() const {
    if (value_->is_object()) return fmt::format("an object of {} entries", value_->size());
    if (value_->is_array()) return fmt::format("a list of {} entries", value_->size());
    if (value_->is_null()) return "nothing";
    if (value_->is_string())
      return fmt::format("\"{}\"", io::printable(value_->get_ref<const std::string&>(), 80));
    return value_->dump();
  }

  const json* value_;
  std::string path_;
  std::string_view source_;
};

/// The "type" of a component.
Result<std::string> type_of(const Node& node) {
  if (!node.value().is_object()) return node.wrong("an object with a type");
  return node["type"].text();
}

Status check_members(const Node& list) {
  if (!list.value().is_array() || list.value().size() > 64)
    return list.wrong("a list of at most 64 components");
  return ok();
}

Status read_normalizer(const Node& node, bool& nfc) {
  if (node.is_null()) return ok();
  DIF_ASSIGN(const std::string type, type_of(node));
  if (type == "NFC") {
    nfc = true;
    return ok();
  }
  if (type != "Sequence") return node["type"].wrong("NFC, the only normalizer supported");
  const Node members = node["normalizers"];
  DIF_TRY(check_members(members));
  for (std::size_t i = 0; i < members.value().size(); ++i) DIF_TRY(read_normalizer(members.element(i), nfc));
  return ok();
}

Status read_split(const Node& node, TokenizerSpec& spec) {
  DIF_TRY(node["behavior"].require_or_null("Isolated"));
  if (node["behavior"].is_null()) return node["behavior"].wrong("Isolated");
  DIF_TRY(node["invert"].require_or_null(false));
  const Node pattern = node["pattern"];
  if (!pattern.value().is_object() || !pattern.value().contains("Regex")) {
    return pattern.wrong("a regular expression, {\"Regex\": ...}");
  }
  DIF_ASSIGN(std::string source, pattern["Regex"].text());
  spec.split_patterns.push_back(std::move(source));
  return ok();
}

Status read_pre_tokenizer(const Node& node, TokenizerSpec& spec, bool& byte_level) {
  DIF_ASSIGN(const std::string type, type_of(node));
  // What follows ByteLevel would see its alphabet instead of text.
  if (byte_level) return node.wrong("nothing after the ByteLevel pre-tokenizer");
  if (spec.split_patterns.size() >= kMaxSplitPatterns) {
    return node.wrong(fmt::format("at most {} patterns", kMaxSplitPatterns));
  }
  if (type == "Split") return read_split(node, spec);
  if (type == "ByteLevel") {
    byte_level = true;
    if (node["add_prefix_space"].is_null()) return node["add_prefix_space"].wrong("false");
    DIF_TRY(node["add_prefix_space"].require_or_null(false));
    DIF_ASSIGN(const bool use_regex, node["use_regex"].boolean_or(true));
    if (use_regex) spec.split_patterns.emplace_back(kByteLevelPattern);
    return ok();
  }
  if (type != "Sequence") return node["type"].wrong("Split, ByteLevel or a Sequence of these pre-tokenizers");
  const Node members = node["pretokenizers"];
  DIF_TRY(check_members(members));
  for (std::size_t i = 0; i < members.value().size(); ++i) {
    DIF_TRY(read_pre_tokenizer(members.element(i), spec, byte_level));
  }
  return ok();
}

/// Post-processors and decoders: ByteLevel adds no token; every other kind may change the ids or the text.
Status require_byte_level(const Node& node) {
  if (node.is_null()) return ok();
  DIF_ASSIGN(const std::string type, type_of(node));
  if (type != "ByteLevel") return node["type"].wrong("ByteLevel or nothing, all that is supported");
  return ok();
}

/// A merge as ["a", "b"] or as "a b".
Result<std::pair<std::string, std::string>> read_merge(const Node& node) {
  const json& value = node.value();
  if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
    return std::pair(value[0].get<std::string>(), value[1].get<std::string>());
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return std::pair(text.substr(0, space), text.substr(space + 1));
    }
  }
  return node.wrong("two texts, [\"a\", \"b\"] or \"a b\"");
}

Status read_merges(const Node& node, BpeSpec& bpe) {
  if (!node.value().is_array()) return node.wrong("a list of merges");
  bpe.merges.reserve(node.value().size());
  for (std::size_t i = 0; i < node.value().size(); ++i) {
    const json& entry = node.value()[i];
    // The first line of a merges.txt, which some converters carried over.
    if (i == 0 && entry.is_string() && entry.get_ref<const std::string&>().starts_with("#version")) continue;
    DIF_ASSIGN(auto merge, read_merge(node.element(i)));
    bpe.merges.push_back(std::move(merge));
  }
  return ok();
}

Status read_model(const Node& node, BpeSpec& bpe) {
  if (!node.value().is_object()) return node.wrong("an object");
  // Old files have no type; then it can only be told by its merges.
  if (!node["type"].is_null() || node["merges"].is_null()) {
    DIF_ASSIGN(const std::string type, node["type"].text());
    if (type != "BPE") return node["type"].wrong("BPE, the only model supported");
  }
  if (!node["dropout"].is_null() && node["dropout"].value() != 0) return node["dropout"].wrong("null");
  DIF_TRY(node["continuing_subword_prefix"].require_or_null(""));
  DIF_TRY(node["end_of_word_suffix"].require_or_null(""));
  DIF_TRY(node["byte_fallback"].require_or_null(false));
  DIF_ASSIGN(bpe.ignore_merges, node["ignore_merges"].boolean_or(false));
  const Node vocab = node["vocab"];
  if (!vocab.value().is_object()) return vocab.wrong("an object of tokens and ids");
  bpe.vocab.reserve(vocab.value().size());
  for (const auto& [token, value] : vocab.value().items()) {
    if (token.size() > kMaxTokenBytes) {
      return invalid_input("{}: {}: a token of {} bytes; the limit is {}", vocab.source(), vocab.path(),
                           token.size(), kMaxTokenBytes);
    }
    const Node entry(value, vocab.path() + "." + io::printable(token, 40), vocab.source());
    DIF_ASSIGN(const TokenId id, entry.id());
    bpe.vocab.emplace_back(token, id);
  }
  return read_merges(node["merges"], bpe);
}

Result<AddedToken> read_added_token(const Node& node, TokenId id) {
  AddedToken token;
  token.id = id;
  DIF_ASSIGN(token.content, node["content"].text());
  DIF_ASSIGN(token.special, node["special"].boolean_or(false));
  DIF_ASSIGN(token.single_word, node["single_word"].boolean_or(false));
  DIF_ASSIGN(token.lstrip, node["lstrip"].boolean_or(false));
  DIF_ASSIGN(token.rstrip, node["rstrip"].boolean_or(false));
  DIF_ASSIGN(token.normalized, node["normalized"].boolean_or(!token.special));
  return token;
}

Status read_added_tokens(const Node& list, std::vector<AddedToken>& tokens) {
  if (list.is_null()) return ok();
  if (!list.value().is_array()) return list.wrong("a list of added tokens");
  for (std::size_t i = 0; i < list.value().size(); ++i) {
    const Node node = list.element(i);
    if (!node.value().is_object()) return node.wrong("an object");
    DIF_ASSIGN(const TokenId id, node["id"].id());
    DIF_ASSIGN(AddedToken token, read_added_token(node, id));
    tokens.push_back(std::move(token));
  }
  return ok();
}

/// added_tokens_decoder: {"151643": {"content": ...}, ...}
Status read_added_tokens_decoder(const Node& object, std::vector<AddedToken>& tokens) {
  if (object.is_null()) return ok();
  if (!object.value().is_object()) return object.wrong("an object of ids and tokens");
  for (const auto& [key, value] : object.value().items()) {
    const Node node(value, object.path() + "." + io::printable(key, 40), object.source());
    const auto id = parse_number<TokenId>(key);
    if (!id || *id < 0 || *id > kMaxTokenId) {
      return object.wrong(
          fmt::format("keys that are ids from 0 to {}, not {:?}", kMaxTokenId, io::printable(key, 40)));
    }
    if (!value.is_object()) return node.wrong("an object");
    DIF_ASSIGN(AddedToken token, read_added_token(node, *id));
    tokens.push_back(std::move(token));
  }
  std::sort(tokens.begin(), tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return ok();
}

/// A token given as its text or as an object with its content.
Result<std::optional<std::string>> read_token_text(const Node& node) {
  if (node.is_null()) return std::optional<std::string>();
  DIF_ASSIGN(std::string text, node.value().is_object() ? node["content"].text() : node.text());
  if (text.empty()) return node.wrong("the text of a token");
  return std::optional(std::move(text));
}

/// chat_template: a text, or a list of {"name", "template"} of which one is named "default".
Result<std::string> read_chat_template(const Node& node) {
  if (node.is_null()) return std::string();
  if (!node.value().is_array()) return node.text();
  for (std::size_t i = 0; i < node.value().size(); ++i) {
    const Node entry = node.element(i);
    if (entry["name"].value() == "default") return entry["template"].text();
  }
  return std::string();
}

}  // namespace

Result<TokenizerSpec> read_tokenizer_json(const io::JsonDocument& document) {
  const Node root(document.value(), "", document.source());
  if (!root.value().is_object()) return root.wrong("an object with a model");
  TokenizerSpec spec;
  DIF_TRY(root["version"].require_or_null("1.0"));
  DIF_TRY(read_normalizer(root["normalizer"], spec.nfc));
  bool byte_level = false;
  DIF_TRY(read_pre_tokenizer(root["pre_tokenizer"], spec, byte_level));
  if (!byte_level) return root["pre_tokenizer"].wrong("a ByteLevel pre-tokenizer at the end");
  DIF_TRY(require_byte_level(root["post_processor"]));
  DIF_TRY(require_byte_level(root["decoder"]));
  DIF_TRY(read_model(root["model"], spec.bpe));
  DIF_TRY(read_added_tokens(root["added_tokens"], spec.added_tokens));
  return spec;
}

Result<TokenizerConfig> read_tokenizer_config(const io::JsonDocument& document) {
  const Node root(document.value(), "", document.source());
  if (!root.value().is_object()) return root.wrong("an object");
  DIF_TRY(root["add_bos_token"].require_or_null(false));
  DIF_TRY(root["add_eos_token"].require_or_null(false));
  DIF_TRY(root["add_prefix_space"].require_or_null(false));
  DIF_TRY(root["split_special_tokens"].require_or_null(false));
  TokenizerConfig config;
  DIF_TRY(read_added_tokens_decoder(root["added_tokens_decoder"], config.added_tokens));
  DIF_ASSIGN(config.pad_token, read_token_text(root["pad_token"]));
  DIF_ASSIGN(config.chat_template, read_chat_template(root["chat_template"]));
  return config;
}

}  // namespace dif::text
