#include "pipelines/program_export.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "io/digest.h"
#include "io/safetensors.h"
#include "io/weight_bundle.h"
#include "ir/program_file.h"

namespace dif {

namespace fs = std::filesystem;

namespace {

using frontends::ConstantRef;
using frontends::Stage;

/// The generated constants of a stage in a checkpoint of their own; nothing when it has none.
Status write_tables(const Stage& stage, const fs::path& path) {
  std::vector<io::TensorToWrite> tables;
  for (const auto& [name, ref] : stage.constants.all())
    if (ref.file == nullptr)
      tables.push_back({name, ref.type.dtype, ref.type.shape, {ref.data, ref.type.bytes()}});
  return tables.empty() ? ok() : io::write_safetensors(path, tables);
}

/// Collects shards and tensors of one bundle.
class BundleWriter {
 public:
  explicit BundleWriter(const fs::path& bundle) : folder_(fs::absolute(bundle).parent_path()) {}

  Status add(const std::string& name, const ir::TensorType& type, const io::MappedFile& file,
             std::uint64_t offset) {
    auto [entry, is_new] = shards_.try_emplace(file.path().string(), record_.shards.size());
    if (is_new) {
      const fs::path relative = fs::absolute(file.path()).lexically_normal().lexically_relative(folder_);
      record_.shards.push_back({relative.generic_string(), file.size(), io::sha256(file.bytes())});
    }
    record_.tensors.push_back(
        {name, type.dtype, type.shape, static_cast<std::uint32_t>(entry->second), offset, type.bytes()});
    return ok();
  }

  /// The record with shards by path and tensors by name.
  io::BundleRecord finish(std::string program) {
    std::vector<std::uint32_t> order(record_.shards.size()), position(order.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, {}, [&](std::uint32_t shard) { return record_.shards[shard].path; });
    std::vector<io::BundleShard> shards;
    for (const std::uint32_t shard : order) {
      position[shard] = static_cast<std::uint32_t>(shards.size());
      shards.push_back(record_.shards[shard]);
    }
    record_.shards = std::move(shards);
    for (io::BundleTensor& tensor : record_.tensors) tensor.shard = position[tensor.shard];
    std::ranges::sort(record_.tensors, {}, &io::BundleTensor::name);
    record_.program = std::move(program);
    return std::move(record_);
  }

 private:
  fs::path folder_;
  io::BundleRecord record_;
  std::map<std::string, std::size_t> shards_;
};

}  // namespace

Status export_bundle(const Stage& stage, const fs::path& bundle_path) {
  const fs::path tables_path = fs::path(bundle_path).replace_extension(".tables.safetensors");
  DIF_TRY(write_tables(stage, tables_path));
  std::optional<io::SafetensorsFile> tables;
  DIF_ASSIGN(const auto refs, stage.constants.bind(stage.program));
  BundleWriter bundle(bundle_path);
  for (std::size_t i = 0; i < refs.size(); ++i) {
    const std::string& name = stage.program.values[stage.program.constants[i]].name;
    if (refs[i].file != nullptr) {
      DIF_TRY(bundle.add(name, refs[i].type, *refs[i].file, refs[i].file_offset));
      continue;
    }
    if (!tables) {
      DIF_ASSIGN(tables, io::open_safetensors(tables_path));
    }
    const io::TensorRef* table = tables->find(name);
    if (table == nullptr) return fail(ErrorCode::kIo, "{}: changed while it was read", tables_path.string());
    DIF_TRY(bundle.add(name, refs[i].type, *table->file, table->file_offset));
  }
  return io::write_weight_bundle(bundle_path, bundle.finish(ir::fingerprint(stage.program)));
}

Status export_chain(const frontends::Chain& chain, const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return fail(ErrorCode::kIo, "{}: the folder cannot be created: {}", folder.string(), error.message());
  for (const Stage* stage : {&chain.encode, &chain.step, &chain.decode}) {
    const std::string base = (folder / stage->program.name).string();
    DIF_TRY(ir::write_program(base + ".difir", stage->program));
    DIF_TRY(export_bundle(*stage, base + ".difbind"));
  }
  return ok();
}

}  // namespace dif
