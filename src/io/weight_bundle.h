#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dif/status.h"
#include "io/checkpoint.h"
#include "io/digest.h"
#include "io/tensor_ref.h"

namespace dif::io {

/// A file that holds weights of a bundle.
struct BundleShard {
  std::string path;  ///< relative to the folder of the bundle, '/' between parts; may start with ".."
  std::uint64_t size = 0;
  Digest sha256{};

  friend bool operator==(const BundleShard&, const BundleShard&) = default;
};

/// Where one constant of the program is.
struct BundleTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::uint32_t shard = 0;  ///< index into shards
  std::uint64_t offset = 0, bytes = 0;

  friend bool operator==(const BundleTensor&, const BundleTensor&) = default;
};

/// What a .difbind says: which bytes of which files are the constants of one program. No tensor data.
struct BundleRecord {
  std::string program;  ///< fingerprint of the program, 64 hexadecimal characters
  std::vector<BundleShard> shards;
  std::vector<BundleTensor> tensors;  ///< by name, no name twice

  friend bool operator==(const BundleRecord&, const BundleRecord&) = default;
};

/// One constant for a new bundle: `tensor` (of a checkpoint) under the name that the program uses.
struct BundleBinding {
  std::string name;
  const TensorRef* tensor = nullptr;
};

/// Describes `bindings`, whose tensors lie in the shards of `checkpoint`, for a bundle that will be written
/// to `bundle_path`. Digests all shards that are used. Errors: kInvalidInput (a name twice, a tensor of
/// another file).
Result<BundleRecord> make_bundle_record(std::string program, const Checkpoint& checkpoint,
                                        std::span<const BundleBinding> bindings,
                                        const std::filesystem::path& bundle_path);

/// The sealed file of a record. Errors: kInvalidInput (a record that parse_weight_bundle would refuse).
Result<std::vector<std::byte>> encode_weight_bundle(const BundleRecord& record);
Status write_weight_bundle(const std::filesystem::path& path, const BundleRecord& record);

/// Reads a bundle without its shards. Errors: kInvalidInput for everything that encode_weight_bundle would
/// not have written byte for byte: a broken envelope or FlatBuffer, names out of order or twice, a shard
/// index or a range that does not exist, a size that does not match shape and dtype, an absolute path.
Result<BundleRecord> parse_weight_bundle(std::span<const std::byte> file, std::string_view source);
Result<BundleRecord> read_weight_bundle(const std::filesystem::path& path);

/// A bundle with its shards mapped.
class WeightBundle {
 public:
  const std::filesystem::path& path() const { return path_; }
  const BundleRecord& record() const { return record_; }
  const std::vector<TensorRef>& tensors() const { return tensors_; }
  const TensorRef* find(std::string_view name) const;
  Result<const TensorRef*> require(std::string_view name) const;
  const std::vector<std::unique_ptr<MappedFile>>& shards() const { return shards_; }
  /// Recomputes the digest of every shard. Errors: kInvalidInput naming the shards that changed.
  Status verify_shards() const;
  Status check() const;

 private:
  friend Result<WeightBundle> open_weight_bundle(const std::filesystem::path&, const struct BundleOptions&);
  WeightBundle() = default;

  std::filesystem::path path_;
  BundleRecord record_;
  std::vector<std::unique_ptr<MappedFile>> shards_;
  std::vector<TensorRef> tensors_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

struct BundleOptions {
  /// Where a shard that is not beside the bundle is looked for: by its path, then by its file name. May be
  /// empty.
  std::filesystem::path weights_folder = {};
  /// Recompute the digest of every shard (sizes are always checked).
  bool verify_shards = false;
};

Result<WeightBundle> open_weight_bundle(const std::filesystem::path& path, const BundleOptions& options = {});

}  // namespace dif::io
