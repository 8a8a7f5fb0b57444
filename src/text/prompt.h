#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dif::text {

/// How a conditioner wants its prompt.
struct PromptLayout {
  ChatTemplate chat;
  std::int64_t length = 512;  ///< tokens after cutting (on the right) and padding (on the right)
  /// False: the template's suffix is cut and padded along with the prompt (FLUX.2).
  /// True: prefix and prompt are cut and padded to `length`, then the suffix follows whole (Krea 2).
  bool suffix_after_padding = false;
};

/// FLUX.2 klein.
inline constexpr PromptLayout kFlux2Prompt{.chat = kQwen3EmptyThought};

/// Krea 2: `text_rows` rows are left when the rows of the prefix are dropped (models.md, section 2.3: 541 =
/// 512 + 34 - 5 with Qwen's vocabulary). Errors: those of Tokenizer::encode.
Result<PromptLayout> krea2_prompt(const Tokenizer& tokenizer, std::int64_t text_rows = 512);

struct EncodedPrompt {
  std::vector<std::int32_t> ids;   ///< [length], or [length + tokens of the suffix]
  std::vector<std::int32_t> mask;  ///< same shape; 1: a token, 0: padding
  std::int64_t n_tokens = 0;       ///< before cutting, template included
  std::int64_t n_kept = 0;         ///< n_kept + n_dropped = n_tokens; n_kept is the sum of the mask
  std::int64_t n_dropped = 0;      ///< cut off on the right
};

inline constexpr std::int64_t kMaxPromptLength = std::int64_t{1} << 20;

/// Errors: InvalidInput when the prompt is not UTF-8 (offset within the prompt), the tokenizer files name no
/// pad token or lack one that the template needs, or the length is not from 1 to kMaxPromptLength.
Result<EncodedPrompt> encode_prompt(const Tokenizer& tokenizer, std::string_view prompt,
                                    const PromptLayout& layout);

/// Rotary positions of Krea 2, same shape as the mask: max(cumsum(mask) - 1, 0); padding consumes none.
std::vector<std::int32_t> mask_positions(const std::vector<std::int32_t>& mask);

/// A sentence for the user when tokens were cut off; empty otherwise. `what` is its first word.
std::string truncation_warning(const EncodedPrompt& prompt, std::string_view what = "the prompt");

}  // namespace dif::text
