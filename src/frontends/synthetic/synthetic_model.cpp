#include "frontends/synthetic/synthetic_model.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/float_convert.h"
#include "base/format.h"
#include "base/parallel.h"
#include "frontends/family.h"
#include "frontends/flux2/klein_presets.h"
#include "frontends/model.h"
#include "frontends/synthetic/random_tensor.h"
#include "io/atomic_folder.h"
#include "io/file.h"
#include "io/json.h"
#include "io/printable.h"
#include "io/safetensors_shards.h"

namespace dif::frontends {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kBlockElements = 128 << 10;
/// Headers, configurations and the rounding of file systems, beside the weights.
constexpr std::uint64_t kRoomForTheRest = 16 << 20;
constexpr std::uint64_t kMaxTokenizerFile = 256 << 20;
constexpr std::string_view kIndex = "model_index.json";

double gigabytes(std::uint64_t bytes) {
  return static_cast<double>(bytes) / 1e9;
}

std::uint64_t bytes_of(const SyntheticTensor& tensor) {
  return static_cast<std::uint64_t>(tensor.shape.numel()) * dtype_size(tensor.dtype);
}

/// A part is named by a key of model_index.json, which may say anything.
bool is_plain_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

Result<std::string> read_json_text(const fs::path& path) {
  DIF_ASSIGN(std::string text, io::read_text_file(path, io::JsonLimits{}.max_bytes));
  DIF_TRY(io::JsonDocument::parse(text, path.string()));
  return text;
}

/// Writes the elements block by block.
class TensorProducer {
 public:
  TensorProducer(const SyntheticTensor& tensor, std::string_view part, const SyntheticWriteOptions& options,
                 std::uint64_t& written)
      : tensor_(tensor),
        random_(options.seed, fmt::format("{}/{}", part, tensor.name), tensor.centre, tensor.spread),
        options_(options),
        written_(written) {}

  Status operator()(io::AtomicFile& file) {
    const auto count = static_cast<std::uint64_t>(tensor_.shape.numel());
    const std::uint64_t n_blocks = (count + kBlockElements - 1) / kBlockElements;
    // Any block can be made by itself: as many at a time as there are processors, written in their order.
    const std::size_t at_a_time = std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::vector<std::byte>> blocks(at_a_time);
    for (std::uint64_t first = 0; first < n_blocks; first += at_a_time) {
      const std::size_t n = std::min<std::uint64_t>(at_a_time, n_blocks - first);
      parallel_for(n, n, [&](std::size_t i) {
        const std::uint64_t at = (first + i) * kBlockElements;
        blocks[i] = block(at, std::min<std::uint64_t>(kBlockElements, count - at));
      });
      for (std::size_t i = 0; i < n; ++i) {
        DIF_TRY(file.write(blocks[i]));
        written_ += blocks[i].size();
        if (options_.progress) DIF_TRY(options_.progress(written_));
      }
    }
    return ok();
  }

 private:
  std::vector<std::byte> block(std::uint64_t first, std::uint64_t n) const {
    std::vector<std::byte> bytes(n * dtype_size(tensor_.dtype));
    if (tensor_.dtype != DType::kBF16 && tensor_.dtype != DType::kF32) return bytes;
    std::vector<float> values(n);
    random_.fill(first, values);
    if (tensor_.dtype == DType::kF32) {
      std::ranges::copy(std::as_bytes(std::span(values)), bytes.begin());
    } else {
      std::vector<std::uint16_t> rounded(n);
      std::ranges::transform(values, rounded.begin(), f32_to_bf16);
      std::ranges::copy(std::as_bytes(std::span(rounded)), bytes.begin());
    }
    return bytes;
  }

  const SyntheticTensor& tensor_;
  RandomTensor random_;
  const SyntheticWriteOptions& options_;
  std::uint64_t& written_;
};

Status check_room(const SyntheticModel& model, const fs::path& folder) {
  std::error_code error;
  const fs::path whole = fs::absolute(folder, error);
  const fs::path parent = (whole.has_filename() ? whole : whole.parent_path()).parent_path();
  const fs::space_info space = fs::space(parent, error);
  if (error) return ok();  // the parent is not there: making the folder says so
  const std::uint64_t needed = saturating_add(model.bytes(), kRoomForTheRest);
  if (space.available >= needed) return ok();
  return fail(
      ErrorCode::kIo,
      "{} needs {:.2f} GB, {} has {:.2f} GB free; free some space, choose another place or make a smaller "
      "model (fewer blocks or encoder layers)",
      folder.string(), gigabytes(needed), parent.string(), gigabytes(space.available));
}

Status copy_tokenizer(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (!fs::exists(from / "tokenizer.json", error))
    return fail(ErrorCode::kNotFound, "{}: no tokenizer.json in it; name a folder that has one",
                from.string());
  fs::create_directories(to, error);
  if (error) return fail(ErrorCode::kIo, "cannot make folder {}: {}", to.string(), error.message());
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(from, error), end; !error && entry != end; entry.increment(error))
    if (entry->is_regular_file(error)) files.push_back(entry->path());
  if (error) return fail(ErrorCode::kIo, "{}: the folder cannot be read: {}", from.string(), error.message());
  for (const fs::path& file : files) {
    DIF_ASSIGN(const std::string content, io::read_text_file(file, kMaxTokenizerFile));
    DIF_TRY(io::write_atomically(to / file.filename(), content));
  }
  return ok();
}

Status write_part(const SyntheticPart& part, const fs::path& folder, const SyntheticWriteOptions& options,
                  std::uint64_t& written) {
  std::vector<io::TensorToWrite> tensors;
  for (const SyntheticTensor& tensor : part.tensors)
    tensors.push_back({.name = tensor.name,
                       .dtype = tensor.dtype,
                       .shape = tensor.shape,
                       .produce = TensorProducer(tensor, part.folder, options, written)});
  // transformers refuses a file whose metadata does not say this.
  return io::write_safetensors_shards(folder / part.folder, part.stem, tensors, options.max_shard_bytes,
                                      {{"format", "pt"}});
}

}  // namespace

std::uint64_t SyntheticPart::bytes() const {
  std::uint64_t total = 0;
  for (const SyntheticTensor& tensor : tensors) total = saturating_add(total, bytes_of(tensor));
  return total;
}

std::uint64_t SyntheticPart::parameters() const {
  std::uint64_t total = 0;
  for (const SyntheticTensor& tensor : tensors)
    if (tensor.dtype == DType::kBF16 || tensor.dtype == DType::kF32)
      total += static_cast<std::uint64_t>(tensor.shape.numel());
  return total;
}

std::uint64_t SyntheticModel::bytes() const {
  std::uint64_t total = 0;
  for (const SyntheticPart& part : parts) total = saturating_add(total, part.bytes());
  return total;
}

std::vector<std::string> synthetic_presets() {
  return flux2::klein_presets();
}

Result<ModelDocuments> preset_documents(std::string_view preset) {
  return flux2::klein_preset_documents(preset);
}

Result<ModelDocuments> read_model_documents(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / kIndex, error))
    return fail(ErrorCode::kNotFound,
                "{}: no model_index.json in it; name a model folder in the diffusers layout",
                folder.string());
  ModelDocuments documents;
  DIF_ASSIGN(documents[std::string(kIndex)], read_json_text(folder / kIndex));
  const auto index = nlohmann::json::parse(documents[std::string(kIndex)], nullptr, false);
  if (!index.is_object()) return invalid_input("{}: expected a JSON object", (folder / kIndex).string());
  for (const auto& [part, value] : index.items()) {
    if (!value.is_array()) continue;
    if (!is_plain_name(part))
      return invalid_input("{}: \"{}\" cannot be the name of a part", (folder / kIndex).string(),
                           io::printable(part, 40));
    for (const char* name : {"config.json", "scheduler_config.json", "generation_config.json"})
      if (fs::exists(folder / part / name, error)) {
        DIF_ASSIGN(documents[fmt::format("{}/{}", part, name)], read_json_text(folder / part / name));
      }
  }
  if (fs::exists(folder / "dif-defaults.json", error)) {
    DIF_ASSIGN(documents["dif-defaults.json"], read_json_text(folder / "dif-defaults.json"));
  }
  return documents;
}

Result<SyntheticModel> describe_synthetic_model(ModelDocuments documents, const ModelChanges& changes) {
  DIF_ASSIGN(const io::JsonDocument index,
             io::JsonDocument::parse(documents[std::string(kIndex)], std::string(kIndex)));
  io::ConfigReader reader(index);
  const std::string class_name = reader.string("_class_name");
  DIF_TRY(reader.finish());
  for (const Family& family : all_families())
    if (family.pipeline_class == class_name) return family.synthesise(family, std::move(documents), changes);
  return invalid_input("model_index.json: _class_name is {}, which is not supported",
                       io::printable(class_name));
}

Status write_synthetic_model(const SyntheticModel& model, const fs::path& target,
                             const SyntheticWriteOptions& options) {
  DIF_TRY(check_room(model, target));
  DIF_ASSIGN(io::AtomicFolder folder, io::AtomicFolder::create(target));
  DIF_TRY(copy_tokenizer(options.tokenizer, folder.path() / "tokenizer"));
  for (const auto& [path, text] : model.documents) {
    std::error_code error;
    fs::create_directories((folder.path() / path).parent_path(), error);
    DIF_TRY(io::write_atomically(folder.path() / path, text));
  }
  std::uint64_t written = 0;
  for (const SyntheticPart& part : model.parts) DIF_TRY(write_part(part, folder.path(), options, written));
  if (auto opened = open_model(folder.path()); !opened)
    return with_context(std::move(opened.error()), "in the model that was made");
  return folder.commit();
}

}  // namespace dif::frontends
