#include "io/tensor_file.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "io/atomic_file.h"
#include "io/checkpoint.h"
#include "io/printable.h"

namespace dif::io {

namespace {

constexpr std::string_view kMagic(
    "\x89"
    "DIFT\r\x1a\n",
    8);
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kFixedBytes = 16;

bool has_odd_bool(DType dtype, std::span<const std::byte> data) {
  return dtype == DType::kBool &&
         std::any_of(data.begin(), data.end(), [](std::byte b) { return b > std::byte{1}; });
}

std::optional<std::uint64_t> data_bytes(DType dtype, const Shape& shape) {
  const auto elements = shape.checked_numel();
  if (!elements) return std::nullopt;
  return checked_mul<std::uint64_t>(static_cast<std::uint64_t>(*elements), dtype_size(dtype));
}

template <class T>
T load(std::span<const std::byte> file, std::size_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

Result<MappedOperand> map_named(const std::filesystem::path& path, std::string_view name) {
  DIF_ASSIGN(Checkpoint opened, open_checkpoint(path));
  const auto checkpoint = std::make_shared<const Checkpoint>(std::move(opened));
  DIF_ASSIGN(const TensorRef* tensor, checkpoint->require(name));
  return MappedOperand{checkpoint, *tensor};
}

}  // namespace

Result<TensorFileView> parse_tensor_file(std::span<const std::byte> file, std::string_view source) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic.substr(0, std::min(kMagic.size(), text.size()))))
    return invalid_input("{} is not a tensor file (.diftensor): it does not start with the mark of one",
                         source);
  const auto truncated = [&](std::uint64_t expected) {
    return invalid_input("{} is truncated: {} bytes, expected {}; write it again", source, file.size(),
                         expected);
  };
  if (file.size() < kFixedBytes + sizeof(Digest)) return truncated(kFixedBytes + sizeof(Digest));
  if (const auto version = load<std::uint32_t>(file, 8); version != kVersion)
    return invalid_input("{} has version {}, this program reads {}", source, version, kVersion);
  const auto dtype_number = load<std::uint8_t>(file, 12), rank = load<std::uint8_t>(file, 13);
  if (dtype_number >= kDTypeCount)
    return invalid_input("{} has dtype number {}, expected 0 to {}", source, dtype_number, kDTypeCount - 1);
  if (rank > Shape::kMaxRank)
    return invalid_input("{} has rank {}, expected 0 to {}", source, rank, Shape::kMaxRank);
  if (const auto reserved = load<std::uint16_t>(file, 14); reserved != 0)
    return invalid_input("{} has {} in bytes 14 and 15, expected 0", source, reserved);

  TensorFileView view;
  view.dtype = static_cast<DType>(dtype_number);
  const std::size_t data_at = kFixedBytes + 8 * static_cast<std::size_t>(rank);
  if (file.size() < data_at + sizeof(Digest)) return truncated(data_at + sizeof(Digest));
  std::vector<std::int64_t> dims(rank);
  if (rank != 0) std::memcpy(dims.data(), file.data() + kFixedBytes, 8 * dims.size());
  view.shape = Shape(std::span<const std::int64_t>(dims));
  const auto bytes = data_bytes(view.dtype, view.shape);
  if (!bytes)
    return invalid_input("{} has the shape {}, which is negative or too large", source,
                         view.shape.to_string());
  const std::uint64_t found = file.size() - data_at - sizeof(Digest);
  if (found < *bytes)
    return invalid_input("{} is truncated: {} bytes of {} {}, expected {}; write it again", source, found,
                         dtype_name(view.dtype), view.shape.to_string(), *bytes);
  if (found > *bytes)
    return invalid_input("{} has {} bytes too many for {} {}; write it again", source, found - *bytes,
                         dtype_name(view.dtype), view.shape.to_string());
  view.data = file.subspan(data_at, *bytes);
  const auto sealed = load<Digest>(file, data_at + *bytes);
  view.digest = sha256(file.first(data_at + *bytes));
  if (view.digest != sealed)
    return invalid_input("{} is damaged: its SHA-256 is {}, expected {}; write it again", source,
                         hex(view.digest), hex(sealed));
  if (has_odd_bool(view.dtype, view.data))
    return invalid_input("{} holds a bool other than 0 and 1; write it again", source);
  return view;
}

Result<MappedTensor> map_tensor_file(const std::filesystem::path& path) {
  DIF_ASSIGN(MappedFile file, MappedFile::open(path));
  DIF_ASSIGN(const TensorFileView view, parse_tensor_file(file.bytes(), path.native()));
  DIF_TRY(file.check());
  MappedTensor mapped;
  mapped.file = std::make_unique<MappedFile>(std::move(file));
  mapped.digest = view.digest;
  mapped.tensor = {.name = {},
                   .dtype = view.dtype,
                   .shape = view.shape,
                   .data = view.data.data(),
                   .bytes = view.data.size(),
                   .fd = mapped.file->fd(),
                   .file_offset = static_cast<std::uint64_t>(view.data.data() - mapped.file->bytes().data()),
                   .file = mapped.file.get()};
  return mapped;
}

Result<HostTensor> read_tensor_file(const std::filesystem::path& path) {
  DIF_ASSIGN(const MappedTensor mapped, map_tensor_file(path));
  return copy_tensor(mapped.tensor);
}

Result<HostTensor> copy_tensor(const TensorRef& tensor) {
  HostTensor copy(tensor.dtype, tensor.shape, {tensor.data, tensor.data + tensor.bytes});
  if (tensor.file != nullptr) DIF_TRY(tensor.file->check());
  return copy;
}

Status write_tensor_file(const std::filesystem::path& path, DType dtype, const Shape& shape,
                         std::span<const std::byte> data) {
  const auto bytes = data_bytes(dtype, shape);
  if (!bytes || *bytes != data.size())
    return invalid_input("cannot write {}: {} bytes do not fit {} {}", path.native(), data.size(),
                         dtype_name(dtype), shape.to_string());
  if (has_odd_bool(dtype, data))
    return invalid_input("cannot write {}: it would hold a bool other than 0 and 1", path.native());
  std::vector<std::byte> header(kFixedBytes + 8 * static_cast<std::size_t>(shape.rank()));
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  std::memcpy(header.data() + 8, &kVersion, sizeof kVersion);
  header[12] = static_cast<std::byte>(dtype);
  header[13] = static_cast<std::byte>(shape.rank());
  if (shape.rank() != 0)
    std::memcpy(header.data() + kFixedBytes, shape.dims().data(), shape.dims().size_bytes());
  Sha256 hash;
  hash.update(header);
  hash.update(data);
  const Digest digest = hash.finish();
  return write_atomically(path, [&](AtomicFile& file) -> Status {
    DIF_TRY(file.write(header));
    DIF_TRY(file.write(data));
    return file.write(std::as_bytes(std::span(digest)));
  });
}

Status write_tensor_file(const std::filesystem::path& path, const HostTensor& tensor) {
  return write_tensor_file(path, tensor.dtype, tensor.shape, tensor.data);
}

Result<MappedOperand> map_tensor_operand(std::string_view operand) {
  for (auto at = operand.find("::"); at != std::string_view::npos; at = operand.find("::", at + 1)) {
    const std::string_view file = operand.substr(0, at);
    if (file.ends_with(".safetensors") || file.ends_with(".index.json"))
      return map_named(std::filesystem::path(file), operand.substr(at + 2));
  }
  if (operand.ends_with(".safetensors") || operand.ends_with(".index.json"))
    return invalid_input("{} holds several tensors; name one as {}::NAME", operand, operand);
  if (operand.find("::") != std::string_view::npos && operand.find(".diftensor::") == std::string_view::npos)
    return invalid_input("{}: expected FILE.diftensor or FILE.safetensors::NAME", printable(operand, 300));
  DIF_ASSIGN(MappedTensor mapped, map_tensor_file(std::filesystem::path(operand)));
  const TensorRef tensor = mapped.tensor;
  return MappedOperand{std::shared_ptr<const MappedFile>(std::move(mapped.file)), tensor};
}

Result<HostTensor> read_tensor_operand(std::string_view operand) {
  DIF_ASSIGN(const MappedOperand mapped, map_tensor_operand(operand));
  return copy_tensor(mapped.tensor);
}

}  // namespace dif::io
