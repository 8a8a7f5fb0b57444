#pragma once

#include <filesystem>
#include <span>

#include "dif/status.h"
#include "text/prompt.h"

namespace dif::text {

/// The files that `diftokenize` writes, each in one piece or not at all. Errors: Io.

/// One line of JSON: [1, 2, 3]
Status write_ids(const std::filesystem::path& path, std::span<const TokenId> ids);

/// .diftensor, i32 [n].
Status write_id_tensor(const std::filesystem::path& path, std::span<const TokenId> ids);

/// .safetensors of a conditioner's inputs under the names and in the dtype of the reference pipeline:
/// `input_ids` and `attention_mask` of the prompt, `negative_input_ids` and `negative_attention_mask` of the
/// negative one, i64 [1, n].
Status write_flux2_inputs(const std::filesystem::path& path, const EncodedPrompt& prompt,
                          const EncodedPrompt& negative);

/// `input_ids`, `attention_mask` and `position_ids` (mask_positions), i32 [1, n].
Status write_krea2_inputs(const std::filesystem::path& path, const EncodedPrompt& prompt);

}  // namespace dif::text
