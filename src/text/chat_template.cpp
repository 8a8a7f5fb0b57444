#include "text/chat_template.h"

#include <algorithm>

#include "base/error.h"

namespace dif::text {
namespace {

/// Appends every <...> without white space that stands in `text`.
void collect_tags(std::string_view text, std::vector<std::string>& tags) {
  for (std::size_t open = text.find('<'); open != std::string_view::npos; open = text.find('<', open + 1)) {
    const std::size_t close = text.find_first_of("> \n", open);
    if (close == std::string_view::npos || text[close] != '>') continue;
    std::string tag(text.substr(open, close + 1 - open));
    if (std::find(tags.begin(), tags.end(), tag) == tags.end()) tags.push_back(std::move(tag));
  }
}

}  // namespace

std::string ChatTemplate::apply(std::string_view prompt) const {
  std::string text;
  text.reserve(prefix.size() + prompt.size() + suffix.size());
  text += prefix;
  text += prompt;
  text += suffix;
  return text;
}

std::vector<std::string> control_tokens(const ChatTemplate& chat) {
  std::vector<std::string> tags;
  collect_tags(chat.prefix, tags);
  collect_tags(chat.suffix, tags);
  return tags;
}

Status check_control_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat) {
  std::string missing;
  for (const std::string& tag : control_tokens(chat)) {
    const auto id = tokenizer.find(tag);
    if (id && tokenizer.added_token(*id) != nullptr) continue;
    if (!missing.empty()) missing += ", ";
    missing += tag;
  }
  if (missing.empty()) return ok();
  return invalid_input(
      "the tokenizer has no added token {}, which the prompt template needs; use the tokenizer files of the "
      "model",
      missing);
}

std::string chat_template_warning(const Tokenizer& tokenizer, const ChatTemplate& chat) {
  if (tokenizer.chat_template().empty()) return {};
  for (const std::string& tag : control_tokens(chat)) {
    if (tag.starts_with("<|") && tokenizer.chat_template().find(tag) == std::string::npos) {
      return fmt::format(
          "the chat template of the tokenizer files does not use {}; the fixed template of the model "
          "family is used instead",
          tag);
    }
  }
  return {};
}

}  // namespace dif::text
