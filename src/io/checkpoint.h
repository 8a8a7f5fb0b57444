#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dif/status.h"
#include "io/digest.h"
#include "io/safetensors.h"

namespace dif::io {

/// The `weight_map` and `total_size` of a *.safetensors.index.json.
struct SafetensorsIndex {
  std::vector<std::pair<std::string, std::string>> weight_map;  ///< tensor -> shard file, by tensor name
  std::optional<std::uint64_t> total_size;
};

/// Errors: kInvalidInput (not such a document; shard names that are absolute or leave the folder).
Result<SafetensorsIndex> parse_safetensors_index(std::string_view text, std::string_view source);

/// The tensors of a model part: one safetensors file, or shards with an index. Completely validated.
class Checkpoint {
 public:
  /// The file or index that was opened.
  const std::filesystem::path& path() const { return path_; }
  /// The files, by name; one for a single file.
  const std::vector<SafetensorsFile>& shards() const { return shards_; }

  std::size_t tensor_count() const { return order_.size(); }
  /// Tensors shard by shard, in file order.
  const std::vector<const TensorRef*>& tensors() const { return order_; }
  std::vector<std::string> names() const;
  const TensorRef* find(std::string_view name) const;
  /// find() with an error that names the checkpoint.
  Result<const TensorRef*> require(std::string_view name) const;
  /// Sum of all tensors' bytes.
  std::uint64_t total_bytes() const { return total_bytes_; }

  /// SHA-256 of each shard's content, in the order of shards(). Reads everything once, then remembers it.
  Result<std::vector<Digest>> shard_digests(const std::stop_token& stop = {}) const;
  /// Identity of the weights: the file's SHA-256, or for several shards SHA-256 over their digests in that
  /// order.
  Result<Digest> digest(const std::stop_token& stop = {}) const;

  /// MappedFile::check of every shard.
  Status check() const;

 private:
  friend Result<Checkpoint> open_checkpoint(const std::filesystem::path& path);
  Checkpoint() = default;
  void index_tensors();

  std::filesystem::path path_;
  std::vector<SafetensorsFile> shards_;
  std::vector<const TensorRef*> order_;
  std::unordered_map<std::string_view, const TensorRef*> by_name_;
  std::uint64_t total_bytes_ = 0;
  mutable std::vector<Digest> digests_;
};

/// Opens FILE.safetensors, FILE.safetensors.index.json, or the folder that holds
/// diffusion_pytorch_model*.safetensors or model*.safetensors with or without an index. Errors: kNotFound;
/// kIo; kInvalidInput: missing shard, tensor absent from its shard, tensor that no entry names, stale
/// total_size, shard path leaving the folder; all problems of one kind are listed at once (up to 10 and the
/// count).
Result<Checkpoint> open_checkpoint(const std::filesystem::path& path);

}  // namespace dif::io
