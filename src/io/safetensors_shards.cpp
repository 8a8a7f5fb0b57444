#include "io/safetensors_shards.h"

#include <nlohmann/json.hpp>

#include "base/checked_math.h"
#include "base/error.h"
#include "io/json.h"

namespace dif::io {

std::vector<std::size_t> shard_starts(const std::vector<std::uint64_t>& tensor_bytes,
                                      std::uint64_t max_bytes) {
  std::vector<std::size_t> starts;
  std::uint64_t filled = 0;
  for (std::size_t i = 0; i < tensor_bytes.size(); ++i) {
    filled = saturating_add(filled, tensor_bytes[i]);
    if (!starts.empty() && filled <= max_bytes) continue;
    starts.push_back(i);
    filled = tensor_bytes[i];
  }
  return starts;
}

Status write_safetensors_shards(const std::filesystem::path& folder, std::string_view stem,
                                const std::vector<TensorToWrite>& tensors, std::uint64_t max_shard_bytes,
                                const std::map<std::string, std::string>& metadata) {
  std::vector<std::uint64_t> bytes;
  std::uint64_t total = 0;
  for (const TensorToWrite& tensor : tensors) {
    const auto elements = static_cast<std::uint64_t>(tensor.shape.checked_numel().value_or(0));
    bytes.push_back(checked_mul(elements, std::uint64_t{dtype_size(tensor.dtype)}).value_or(UINT64_MAX));
    total = saturating_add(total, bytes.back());
  }
  const std::vector<std::size_t> starts = shard_starts(bytes, max_shard_bytes);
  if (starts.size() <= 1)
    return write_safetensors(folder / fmt::format("{}.safetensors", stem), tensors, metadata);

  nlohmann::ordered_json index = {{"metadata", {{"total_size", total}}}};
  std::map<std::string, std::string> weight_map;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t end = i + 1 < starts.size() ? starts[i + 1] : tensors.size();
    const std::vector<TensorToWrite> shard(tensors.begin() + static_cast<std::ptrdiff_t>(starts[i]),
                                           tensors.begin() + static_cast<std::ptrdiff_t>(end));
    const std::string name = fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, starts.size());
    for (const TensorToWrite& tensor : shard) weight_map[tensor.name] = name;
    DIF_TRY(write_safetensors(folder / name, shard, metadata));
  }
  index["weight_map"] = weight_map;
  return write_json(folder / fmt::format("{}.safetensors.index.json", stem), index);
}

}  // namespace dif::io
