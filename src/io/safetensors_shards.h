#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "io/safetensors.h"

namespace dif::io {

/// The smallest number of consecutive groups of `tensor_bytes` such that no group is larger than `max_bytes`,
/// filled from the front; a tensor larger than that has a group of its own. Gives the index of each group's
/// first tensor.
std::vector<std::size_t> shard_starts(const std::vector<std::uint64_t>& tensor_bytes,
                                      std::uint64_t max_bytes);

/// Writes tensors into `folder` as transformers and diffusers do: STEM.safetensors when they fit into
/// `max_shard_bytes`, else STEM-00001-of-0000N.safetensors, filled in the order given, with
/// STEM.safetensors.index.json. Each file is written atomically, the index last. Errors: those of
/// write_safetensors.
Status write_safetensors_shards(const std::filesystem::path& folder, std::string_view stem,
                                const std::vector<TensorToWrite>& tensors, std::uint64_t max_shard_bytes,
                                const std::map<std::string, std::string>& metadata = {});

}  // namespace dif::io
