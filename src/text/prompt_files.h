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

/// .safetensors of a conditioner's inputs: `input_ids` and `attention_mask`, i32 [1, n].
Status write_flux2_inputs(const std::filesystem::path& path, const EncodedPrompt& prompt);

/// The same and `position_ids`, i32 [1, n] (mask_positions).
Status write_krea2_inputs(const std::filesystem::path& path, const EncodedPrompt& prompt);

}  // namespace dif::text
