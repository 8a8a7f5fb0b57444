#include "text/prompt_files.h"

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/safetensors.h"
#include "io/tensor_file.h"

namespace dif::text {
namespace {

io::TensorToWrite row(std::string name, const std::vector<std::int32_t>& values) {
  return {.name = std::move(name),
          .dtype = DType::kI32,
          .shape = Shape{1, static_cast<std::int64_t>(values.size())},
          .data = std::as_bytes(std::span(values))};
}

}  // namespace

Status write_ids(const std::filesystem::path& path, std::span<const TokenId> ids) {
  std::string text = "[";
  for (std::size_t i = 0; i < ids.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", ids[i]);
  return io::write_atomically(path, text + "]\n");
}

Status write_id_tensor(const std::filesystem::path& path, std::span<const TokenId> ids) {
  return io::write_tensor_file(path, DType::kI32, Shape{static_cast<std::int64_t>(ids.size())},
                               std::as_bytes(ids));
}

Status write_flux2_inputs(const std::filesystem::path& path, const EncodedPrompt& prompt,
                          const EncodedPrompt& negative) {
  const auto wide = [](const std::vector<std::int32_t>& values) {
    return std::vector<std::int64_t>(values.begin(), values.end());
  };
  const std::pair<std::string, std::vector<std::int64_t>> rows[] = {
      {"input_ids", wide(prompt.ids)},
      {"attention_mask", wide(prompt.mask)},
      {"negative_input_ids", wide(negative.ids)},
      {"negative_attention_mask", wide(negative.mask)}};
  std::vector<io::TensorToWrite> tensors;
  for (const auto& [name, values] : rows)
    tensors.push_back({.name = name,
                       .dtype = DType::kI64,
                       .shape = Shape{1, static_cast<std::int64_t>(values.size())},
                       .data = std::as_bytes(std::span(values))});
  return io::write_safetensors(path, tensors);
}

Status write_krea2_inputs(const std::filesystem::path& path, const EncodedPrompt& prompt) {
  const std::vector<std::int32_t> positions = mask_positions(prompt.mask);
  return io::write_safetensors(path, {row("input_ids", prompt.ids), row("attention_mask", prompt.mask),
                                      row("position_ids", positions)});
}

}  // namespace dif::text
