#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "text/tokenizer.h"

namespace dif::text {

/// The fixed text around a prompt. A family's template is known (models.md, sections 1.3, 2.3 and 3.3); the
/// Jinja of the tokenizer files is never evaluated.
struct ChatTemplate {
  std::string_view prefix;
  std::string_view suffix;

  std::string apply(std::string_view prompt) const;
};

/// FLUX.2 klein: one user turn, then an assistant turn whose thought is empty.
inline constexpr ChatTemplate kQwen3EmptyThought{
    .prefix = "<|im_start|>user\n",
    .suffix = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
};

/// Krea 2: a system turn that asks for a description; its rows are dropped after encoding.
inline constexpr ChatTemplate kQwen3VlDescribe{
    .prefix =
        "<|im_start|>system\n"
        "Describe the image by detailing the color, shape, size, texture, quantity, text, spatial "
        "relationships "
        "of the objects and background:<|im_end|>\n<|im_start|>user\n",
    .suffix = "<|im_end|>\n<|im_start|>assistant\n",
};

/// MiniMax-H3: the prompt and nothing else.
inline constexpr ChatTemplate kVerbatim{};

/// The tokens such as <|im_start|> or <think> that a template relies on, each once, in order.
std::vector<std::string> control_tokens(const ChatTemplate& chat);

/// Fails (InvalidInput, naming them) when a control token of `chat` is not a single token of `tokenizer`: the
/// files belong to another model.
Status check_control_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat);

/// A sentence for the user when the files have a chat template that does not contain every turn marker of
/// `chat`, and so was probably written for another one; empty otherwise.
std::string chat_template_warning(const Tokenizer& tokenizer, const ChatTemplate& chat);

}  // namespace dif::text
