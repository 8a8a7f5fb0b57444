#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/printable.h"
#include "io/safetensors.h"

namespace dif::io {

namespace {

constexpr std::size_t kMaxHeaderBytes = 100'000'000;

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump();
}

Result<std::uint64_t> checked_bytes(const TensorToWrite& tensor, const std::filesystem::path& path) {
  const auto refuse = [&](std::string_view why) {
    return invalid_input("cannot write tensor \"{}\" to {}: {}", printable(tensor.name), path.native(), why);
  };
  if (tensor.name == "__metadata__") return refuse("this name belongs to the format");
  if (first_invalid_utf8(tensor.name) != tensor.name.size()) return refuse("its name is not UTF-8");
  const auto elements = tensor.shape.checked_numel();
  if (!elements) return refuse("its shape has a negative dimension or too many elements");
  const std::uint64_t bytes = static_cast<std::uint64_t>(*elements) * dtype_size(tensor.dtype);
  if (bytes / dtype_size(tensor.dtype) != static_cast<std::uint64_t>(*elements))
    return refuse("it is too large");
  if (!tensor.produce && tensor.data.size() != bytes)
    return refuse(fmt::format("it has {} bytes, its shape {} needs {}", tensor.data.size(),
                              tensor.shape.to_string(), bytes));
  return bytes;
}

}  // namespace

Status write_safetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors,
                         const std::map<std::string, std::string>& metadata) {
  std::vector<const TensorToWrite*> order;
  for (const TensorToWrite& tensor : tensors) order.push_back(&tensor);
  // Widest first, so that every tensor starts at a multiple of its element size.
  std::sort(order.begin(), order.end(), [](const TensorToWrite* a, const TensorToWrite* b) {
    const std::size_t wide_a = dtype_size(a->dtype), wide_b = dtype_size(b->dtype);
    return wide_a != wide_b ? wide_a > wide_b : a->name < b->name;
  });

  std::string header = "{";
  const auto separate = [&] {
    if (header.size() > 1) header += ',';
  };
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    bool first = true;
    for (const auto& [key, value] : metadata) {
      if (first_invalid_utf8(key) != key.size() || first_invalid_utf8(value) != value.size())
        return invalid_input("cannot write {}: metadata \"{}\" is not UTF-8", path.native(), printable(key));
      header += fmt::format("{}{}:{}", first ? "" : ",", json_string(key), json_string(value));
      first = false;
    }
    header += '}';
  }
  std::uint64_t offset = 0;
  std::vector<std::uint64_t> sizes;
  std::vector<std::string_view> names;
  for (const TensorToWrite* tensor : order) {
    DIF_ASSIGN(const std::uint64_t bytes, checked_bytes(*tensor, path));
    separate();
    header += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          json_string(tensor->name), safetensors_dtype_name(tensor->dtype),
                          fmt::join(tensor->shape.dims(), ","), offset, offset + bytes);
    offset += bytes;
    sizes.push_back(bytes);
    names.push_back(tensor->name);
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > kMaxHeaderBytes)
    return invalid_input("cannot write {}: its header would have {} bytes, the format allows {}",
                         path.native(), header.size(), kMaxHeaderBytes);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    return invalid_input("cannot write {}: tensor \"{}\" is given twice", path.native(), printable(*twice));

  return write_atomically(path, [&](AtomicFile& file) -> Status {
    const std::uint64_t length = header.size();
    DIF_TRY(file.write(std::as_bytes(std::span(&length, 1))));
    DIF_TRY(file.write(header));
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::uint64_t before = file.bytes_written();
      DIF_TRY(order[i]->produce ? order[i]->produce(file) : file.write(order[i]->data));
      if (file.bytes_written() - before != sizes[i])
        return fail(ErrorCode::kInternal, "tensor \"{}\" was written with {} bytes, expected {}",
                    printable(order[i]->name), file.bytes_written() - before, sizes[i]);
    }
    return ok();
  });
}

}  // namespace dif::io
