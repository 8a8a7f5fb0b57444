#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dif/status.h"
#include "frontends/model.h"
#include "pipelines/generation_settings.h"
#include "text/prompt.h"
#include "text/tokenizer.h"

namespace dif {

/// The prompts of a request as ids of the model's tokenizer, which stays when the encoder is kept.
class PromptReader {
 public:
  /// `model` and `settings` outlive the result; `warn` is told what does not fit.
  PromptReader(const frontends::Model& model, const GenerationSettings& settings,
               std::function<void(const std::string& sentence)> warn)
      : model_(model), settings_(settings), warn_(std::move(warn)) {}

  /// The prompt, then the negative one when guided. Errors: InvalidInput (no UTF-8; too long, with
  /// strict_prompt; the tokenizer's files).
  Result<std::vector<text::EncodedPrompt>> read(bool guided);

 private:
  Result<text::EncodedPrompt> read_one(const text::PromptLayout& layout, std::string_view what,
                                       const std::string& prompt) const;

  const frontends::Model& model_;
  const GenerationSettings& settings_;
  const std::function<void(const std::string& sentence)> warn_;
  std::optional<text::Tokenizer> tokenizer_;
};

}  // namespace dif
