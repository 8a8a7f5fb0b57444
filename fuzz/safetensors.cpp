// A safetensors file of any bytes: refused, or its ranges lie in the file and follow each other. Most
// mutations change the tensors of a valid file and write header and data again, half of them with one thing
// broken.

#include "io/safetensors.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/mutation.h"
#include "fuzz/promise.h"
#include "io/safetensors_dtypes.h"

namespace {

using dif::fuzz::Random;
using Tensors = std::vector<dif::io::SafetensorsEntry>;

constexpr std::uint64_t kMaxDataBytes = 4096;

std::string any_name(Random& random) {
  static const std::string kNames[] = {"",
                                       "w",
                                       "model.layers.0.self_attn.q_proj.weight",
                                       "__metadata__",
                                       "\u00e9",
                                       "a\"b\\c",
                                       "\xff",
                                       std::string("\0", 1)};
  return random.of(kNames);
}

std::string any_dtype(Random& random) {
  static const std::string kNames[] = {"BOOL", "U8",  "I8",  "F8_E4M3", "I16", "F16", "BF16",   "I32",
                                       "F32",  "F64", "I64", "U64",     "F4",  "C64", "F6_E2M3"};
  return random.of(kNames);
}

void change_tensors(Tensors& tensors, Random& random) {
  if (tensors.empty() || random.one_in(4)) {
    tensors.push_back({.name = any_name(random), .dtype = any_dtype(random), .shape = {random.below(4)}});
    return;
  }
  auto& tensor = random.of(tensors);
  switch (random.below(6)) {
    case 0:
      tensor.name = any_name(random);
      return;
    case 1:
      tensor.dtype = any_dtype(random);
      return;
    case 2:
      tensor.shape.push_back(random.below(4));
      return;
    case 3:
      if (!tensor.shape.empty()) tensor.shape.pop_back();
      return;
    case 4:
      if (!tensor.shape.empty()) random.of(tensor.shape) = random.below(9);
      return;
    default:
      std::swap(tensor, random.of(tensors));
      if (random.one_in(4)) tensors.pop_back();
  }
}

/// Gives each tensor the range after the one before it; returns the bytes of all, or nothing when a size does
/// not come out small and whole.
std::optional<std::uint64_t> lay_out(Tensors& tensors) {
  std::uint64_t end = 0;
  for (auto& tensor : tensors) {
    const auto* dtype = dif::io::find_safetensors_dtype(tensor.dtype);
    std::uint64_t bits = dtype == nullptr ? 8 : static_cast<std::uint64_t>(dtype->bits);
    for (const std::uint64_t dim : tensor.shape) {
      if (dim > kMaxDataBytes) return std::nullopt;
      bits *= dim;
      if (bits > 8 * kMaxDataBytes) return std::nullopt;
    }
    tensor.begin = end;
    end += bits / 8;
    tensor.end = end;
  }
  return end;
}

/// Breaks one thing that lay_out() made right.
void break_one(Tensors& tensors, Random& random) {
  if (tensors.empty()) return;
  auto& tensor = random.of(tensors);
  switch (random.below(5)) {
    case 0:
      tensor.begin = static_cast<std::uint64_t>(dif::fuzz::edge_number(random));
      return;
    case 1:
      tensor.end = static_cast<std::uint64_t>(dif::fuzz::edge_number(random));
      return;
    case 2:
      std::swap(tensor.begin, tensor.end);
      return;
    case 3:
      tensor.end += 1;
      return;
    default:
      tensor.shape.push_back(static_cast<std::uint64_t>(dif::fuzz::edge_number(random)));
  }
}

std::string quoted(const std::string& text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kDigits[static_cast<unsigned char>(c) >> 4];
      out += kDigits[c & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string numbers(const std::vector<std::uint64_t>& values) {
  std::string out = "[";
  for (const std::uint64_t value : values) out += (out.size() > 1 ? "," : "") + std::to_string(value);
  return out + "]";
}

std::string file_of(const Tensors& tensors, std::uint64_t data_bytes, std::uint64_t lie_about_header) {
  std::string header = "{";
  for (const auto& tensor : tensors) {
    if (header.size() > 1) header += ",";
    header += quoted(tensor.name) + R"(:{"dtype":)" + quoted(tensor.dtype) + R"(,"shape":)" +
              numbers(tensor.shape) + R"(,"data_offsets":)" + numbers({tensor.begin, tensor.end}) + "}";
  }
  header += "}";
  const std::uint64_t length = header.size() + lie_about_header;
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  return file + header + std::string(data_bytes, '\1');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto header = dif::io::parse_safetensors(std::as_bytes(std::span(data, size)), "input");
  if (!header) {
    dif::fuzz::promise(header.error().message.size() < 16384, "a refusal is a few sentences");
    return 0;
  }
  dif::fuzz::promise(header->data_offset <= size, "the data section starts inside the file");
  std::uint64_t end = 0;
  for (const auto& entry : header->entries) {
    dif::fuzz::promise(entry.begin == end && entry.begin <= entry.end,
                       "ranges cover the data without a hole");
    end = entry.end;
  }
  dif::fuzz::promise(end == size - header->data_offset, "ranges end where the file ends");
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  Random random(seed);
  const auto header = dif::io::parse_safetensors(std::as_bytes(std::span(data, size)), "input");
  if (!header || random.one_in(4)) return dif::fuzz::mutate_bytes(data, size, max_size, random);
  Tensors tensors = header->entries;
  for (std::size_t n = 1 + random.below(3); n > 0; --n) change_tensors(tensors, random);
  auto data_bytes = lay_out(tensors);
  if (!data_bytes) return dif::fuzz::mutate_bytes(data, size, max_size, random);
  std::uint64_t lie_about_header = 0;
  switch (random.below(8)) {
    case 0:
    case 1:
      break_one(tensors, random);
      break;
    case 2:
      *data_bytes += random.below(3);
      break;
    case 3:
      lie_about_header = static_cast<std::uint64_t>(dif::fuzz::edge_number(random));
      break;
    default:
      break;
  }
  return dif::fuzz::replace_or_mutate(file_of(tensors, *data_bytes, lie_about_header), data, size, max_size,
                                      random);
}
