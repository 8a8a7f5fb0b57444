#include "pipelines/prompt_reader.h"

#include <utility>

#include "base/error.h"

namespace dif {

Result<std::vector<text::EncodedPrompt>> PromptReader::read(bool guided) {
  if (!tokenizer_) {
    DIF_ASSIGN(tokenizer_, text::load_tokenizer(model_.tokenizer_folder()));
  }
  const text::PromptLayout layout = {model_.chat_template(), settings_.text_tokens};
  warn_(text::chat_template_warning(*tokenizer_, layout.chat));
  std::vector<text::EncodedPrompt> prompts(1);
  DIF_ASSIGN(prompts.front(), read_one(layout, "the prompt", settings_.prompt));
  if (guided) {
    DIF_ASSIGN(prompts.emplace_back(), read_one(layout, "the negative prompt", settings_.negative_prompt));
  }
  if (!settings_.keep_encoder) tokenizer_.reset();
  return prompts;
}

Result<text::EncodedPrompt> PromptReader::read_one(const text::PromptLayout& layout, std::string_view what,
                                                   const std::string& prompt) const {
  auto encoded = text::encode_prompt(*tokenizer_, prompt, layout);
  if (!encoded && &prompt == &settings_.prompt) return encoded;
  if (!encoded) return with_context(std::move(encoded.error()), "in {}", what);
  const std::string cut = text::truncation_warning(*encoded, what);
  if (settings_.strict_prompt && !cut.empty())
    return invalid_input("{}; shorten it, or leave --strict-prompt out", cut);
  warn_(cut);
  return encoded;
}

}  // namespace dif
