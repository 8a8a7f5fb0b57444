#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/checked_math.h"
#include "base/error.h"
#include "difbind_generated.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/json.h"
#include "io/printable.h"
#include "io/sealed_envelope.h"
#include "io/weight_bundle.h"

namespace dif::io {

namespace {

constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kMaxBundleBytes = 256ULL << 20;
// A bound for the verifier: far more tables than any model needs.
constexpr std::size_t kMaxTables = 10'000'000;

std::vector<std::byte> encode_payload(const BundleRecord& record) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<fbs::BundleShard>> shards;
  for (const BundleShard& shard : record.shards)
    shards.push_back(fbs::CreateBundleShard(builder, builder.CreateString(shard.path), shard.size,
                                            builder.CreateVector(shard.sha256.data(), shard.sha256.size())));
  std::vector<flatbuffers::Offset<fbs::BundleTensor>> tensors;
  for (const BundleTensor& tensor : record.tensors) {
    const auto dims = tensor.shape.dims();
    tensors.push_back(fbs::CreateBundleTensor(
        builder, builder.CreateString(tensor.name), static_cast<std::uint8_t>(tensor.dtype),
        builder.CreateVector(dims.data(), dims.size()), tensor.shard, tensor.offset, tensor.bytes));
  }
  builder.Finish(fbs::CreateBundle(builder, builder.CreateString(record.program),
                                   builder.CreateVector(shards), builder.CreateVector(tensors)));
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {begin, begin + builder.GetSize()};
}

bool is_relative_file(std::string_view text) {
  if (text.empty() || text.find('\0') != std::string_view::npos) return false;
  const std::filesystem::path path(text);
  return path.is_relative() && path.has_filename() && path.filename() != "." && path.filename() != ".." &&
         path.lexically_normal() == path;
}

/// Everything about a record that does not depend on the shards' content.
Status check_record(const BundleRecord& record, std::string_view source) {
  std::vector<std::string> problems;
  const auto problem = [&](std::string text) { problems.push_back(std::move(text)); };
  if (!digest_from_hex(record.program))
    problem(fmt::format("the program fingerprint is \"{}\", expected 64 hexadecimal characters",
                        printable(record.program)));
  for (std::size_t i = 0; i < record.shards.size(); ++i) {
    const std::string& path = record.shards[i].path;
    if (!is_relative_file(path))
      problem(fmt::format("shard path \"{}\" is not a plain relative path", printable(path)));
    else if (first_invalid_utf8(path) != path.size())
      problem(fmt::format("shard path \"{}\" is not UTF-8", printable(path)));
    if (i > 0 && record.shards[i - 1].path >= path)
      problem(fmt::format("shard \"{}\" is there twice or out of order", printable(path)));
  }
  std::vector<bool> used(record.shards.size());
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const BundleTensor& tensor = record.tensors[i];
    const std::string name = printable(tensor.name);
    if (first_invalid_utf8(tensor.name) != tensor.name.size())
      problem(fmt::format("tensor name \"{}\" is not UTF-8", name));
    if (i > 0 && record.tensors[i - 1].name >= tensor.name)
      problem(fmt::format("tensor \"{}\" is there twice or out of order", name));
    if (tensor.shard >= record.shards.size()) {
      problem(fmt::format("tensor \"{}\" is in shard {} of {}", name, tensor.shard, record.shards.size()));
      continue;
    }
    used[tensor.shard] = true;
    const auto elements = tensor.shape.checked_numel();
    const auto bytes =
        elements ? checked_mul<std::uint64_t>(static_cast<std::uint64_t>(*elements), dtype_size(tensor.dtype))
                 : std::nullopt;
    const auto end = checked_add(tensor.offset, tensor.bytes);
    if (!bytes || *bytes != tensor.bytes)
      problem(fmt::format("tensor \"{}\" of {} {} has {} bytes", name, dtype_name(tensor.dtype),
                          tensor.shape.to_string(), tensor.bytes));
    else if (!end || *end > record.shards[tensor.shard].size)
      problem(
          fmt::format("tensor \"{}\" (offset {}, {} bytes) lies past the end of shard {}, which has {} bytes",
                      name, tensor.offset, tensor.bytes, printable(record.shards[tensor.shard].path),
                      record.shards[tensor.shard].size));
  }
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i]) problem(fmt::format("no tensor is in shard \"{}\"", printable(record.shards[i].path)));
  if (problems.empty()) return ok();
  return tl::unexpected<Error>(problem_list(source, problems));
}

/// The record of a verified buffer. Only what does not fit the types of a record is refused here.
Result<BundleRecord> from_flatbuffer(const fbs::Bundle& bundle, std::string_view source) {
  BundleRecord record;
  record.program = bundle.program()->str();
  for (const fbs::BundleShard* shard : *bundle.shards()) {
    BundleShard& out = record.shards.emplace_back();
    out.path = shard->path()->str();
    out.size = shard->size();
    if (shard->sha256()->size() != out.sha256.size())
      return invalid_input("{}: the digest of shard \"{}\" has {} bytes, expected {}", source,
                           printable(out.path), shard->sha256()->size(), out.sha256.size());
    std::copy(shard->sha256()->begin(), shard->sha256()->end(), out.sha256.begin());
  }
  for (const fbs::BundleTensor* tensor : *bundle.tensors()) {
    BundleTensor& out = record.tensors.emplace_back();
    out.name = tensor->name()->str();
    if (tensor->dtype() >= kDTypeCount || tensor->shape()->size() > Shape::kMaxRank)
      return invalid_input("{}: tensor \"{}\" has dtype number {} and rank {}, expected at most {} and {}",
                           source, printable(out.name), tensor->dtype(), tensor->shape()->size(),
                           kDTypeCount - 1, Shape::kMaxRank);
    out.dtype = static_cast<DType>(tensor->dtype());
    // Copied as bytes: the verifier lets a vector of 8-byte numbers start at a multiple of 4.
    std::vector<std::int64_t> dims(tensor->shape()->size());
    if (!dims.empty()) std::memcpy(dims.data(), tensor->shape()->Data(), 8 * dims.size());
    out.shape = Shape(std::span<const std::int64_t>(dims));
    out.shard = tensor->shard();
    out.offset = tensor->offset();
    out.bytes = tensor->bytes();
  }
  return record;
}

}  // namespace

Result<BundleRecord> make_bundle_record(std::string program, const Checkpoint& checkpoint,
                                        std::span<const BundleBinding> bindings,
                                        const std::filesystem::path& bundle_path) {
  std::error_code error;
  const auto folder = std::filesystem::weakly_canonical(
      bundle_path.has_parent_path() ? bundle_path.parent_path() : std::filesystem::path("."), error);
  if (error) return fail(ErrorCode::kIo, "{}: {}", bundle_path.native(), error.message());

  // Only the shards that a binding needs, by their relative path.
  std::map<const MappedFile*, std::uint32_t> shard_of;
  std::vector<std::pair<std::string, const MappedFile*>> files;
  for (const SafetensorsFile& shard : checkpoint.shards()) {
    const MappedFile* file = &shard.file();
    const bool needed = std::any_of(bindings.begin(), bindings.end(), [&](const BundleBinding& binding) {
      return binding.tensor->file == file;
    });
    if (!needed) continue;
    const auto absolute = std::filesystem::absolute(file->path(), error);
    const auto parent = std::filesystem::weakly_canonical(absolute.parent_path(), error);
    files.emplace_back((parent / absolute.filename()).lexically_relative(folder).generic_string(), file);
  }
  std::sort(files.begin(), files.end());
  std::vector<const MappedFile*> to_digest;
  for (const auto& [path, file] : files) to_digest.push_back(file);
  DIF_ASSIGN(const std::vector<Digest> digests, digest_files(to_digest));

  BundleRecord record;
  record.program = std::move(program);
  for (std::size_t i = 0; i < files.size(); ++i) {
    shard_of[files[i].second] = static_cast<std::uint32_t>(i);
    record.shards.push_back({files[i].first, files[i].second->size(), digests[i]});
  }
  for (const BundleBinding& binding : bindings) {
    const auto at = shard_of.find(binding.tensor->file);
    if (at == shard_of.end())
      return invalid_input("{}: tensor \"{}\" is not in checkpoint {}", bundle_path.native(),
                           printable(binding.name), checkpoint.path().native());
    record.tensors.push_back({binding.name, binding.tensor->dtype, binding.tensor->shape, at->second,
                              binding.tensor->file_offset, binding.tensor->bytes});
  }
  std::sort(record.tensors.begin(), record.tensors.end(),
            [](const BundleTensor& a, const BundleTensor& b) { return a.name < b.name; });
  DIF_TRY(check_record(record, bundle_path.native()));
  return record;
}

Result<std::vector<std::byte>> encode_weight_bundle(const BundleRecord& record) {
  DIF_TRY(check_record(record, "weight bundle"));
  return seal(kBundleKind, kVersion, encode_payload(record));
}

Status write_weight_bundle(const std::filesystem::path& path, const BundleRecord& record) {
  DIF_TRY(check_record(record, path.native()));
  return write_atomically(path, seal(kBundleKind, kVersion, encode_payload(record)));
}

Result<BundleRecord> parse_weight_bundle(std::span<const std::byte> file, std::string_view source) {
  DIF_ASSIGN(const SealedPayload sealed, open_sealed(file, source, kBundleKind, {kVersion}));
  const auto* data = reinterpret_cast<const std::uint8_t*>(sealed.payload.data());
  flatbuffers::Verifier verifier(data, sealed.payload.size(), 16, kMaxTables);
  if (!fbs::VerifyBundleBuffer(verifier))
    return invalid_input("{} is not a weight bundle inside: its content is damaged; write it again", source);
  DIF_ASSIGN(const BundleRecord record, from_flatbuffer(*fbs::GetBundle(data), source));
  DIF_TRY(check_record(record, source));
  if (encode_payload(record) != sealed.payload)
    return invalid_input(
        "{} was not written by this program: its content is not in the one form; write it again", source);
  return record;
}

Result<BundleRecord> read_weight_bundle(const std::filesystem::path& path) {
  DIF_ASSIGN(const std::vector<std::byte> file, read_file(path, kMaxBundleBytes));
  return parse_weight_bundle(file, path.native());
}

}  // namespace dif::io
