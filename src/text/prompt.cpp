#include "text/prompt.h"

#include <algorithm>

#include "base/error.h"
#include "text/utf8.h"

namespace dif::text {

Result<PromptLayout> krea2_prompt(const Tokenizer& tokenizer, std::int64_t text_rows) {
  PromptLayout layout{.chat = kQwen3VlDescribe, .suffix_after_padding = true};
  DIF_ASSIGN(const std::vector<TokenId> prefix, tokenizer.encode(layout.chat.prefix));
  DIF_ASSIGN(const std::vector<TokenId> suffix, tokenizer.encode(layout.chat.suffix));
  layout.length =
      text_rows + static_cast<std::int64_t>(prefix.size()) - static_cast<std::int64_t>(suffix.size());
  return layout;
}

Result<EncodedPrompt> encode_prompt(const Tokenizer& tokenizer, std::string_view prompt,
                                    const PromptLayout& layout) {
  if (layout.length < 1 || layout.length > kMaxPromptLength) {
    return invalid_input("prompt length {}: expected 1 to {} tokens", layout.length, kMaxPromptLength);
  }
  DIF_TRY(check_utf8(prompt, "prompt"));
  DIF_TRY(check_control_tokens(tokenizer, layout.chat));
  const auto pad_id = tokenizer.pad_id();
  if (!pad_id)
    return invalid_input("tokenizer_config.json names no pad_token; prompts cannot be padded without one");

  const ChatTemplate body{layout.chat.prefix, layout.suffix_after_padding ? "" : layout.chat.suffix};
  const std::string_view tail = layout.suffix_after_padding ? layout.chat.suffix : "";
  DIF_ASSIGN(const std::vector<TokenId> body_ids, tokenizer.encode(body.apply(prompt)));
  DIF_ASSIGN(const std::vector<TokenId> tail_ids, tokenizer.encode(tail));

  const auto length = static_cast<std::size_t>(layout.length);
  const std::size_t kept = std::min(body_ids.size(), length);
  EncodedPrompt result;
  result.ids.assign(body_ids.begin(), body_ids.begin() + static_cast<std::ptrdiff_t>(kept));
  result.ids.resize(length, *pad_id);
  result.mask.assign(kept, 1);
  result.mask.resize(length, 0);
  result.ids.insert(result.ids.end(), tail_ids.begin(), tail_ids.end());
  result.mask.resize(result.ids.size(), 1);
  result.n_tokens = static_cast<std::int64_t>(body_ids.size() + tail_ids.size());
  result.n_kept = static_cast<std::int64_t>(kept + tail_ids.size());
  result.n_dropped = result.n_tokens - result.n_kept;
  return result;
}

std::vector<std::int32_t> mask_positions(const std::vector<std::int32_t>& mask) {
  std::vector<std::int32_t> positions;
  positions.reserve(mask.size());
  std::int32_t seen = 0;
  for (const std::int32_t visible : mask) {
    seen += visible;
    positions.push_back(std::max(seen - 1, 0));
  }
  return positions;
}

std::string truncation_warning(const EncodedPrompt& prompt, std::string_view what) {
  if (prompt.n_dropped == 0) return {};
  return fmt::format("{} has {} tokens with its template, {} fit: the last {} are not seen by the model",
                     what, prompt.n_tokens, prompt.n_kept, prompt.n_dropped);
}

}  // namespace dif::text
