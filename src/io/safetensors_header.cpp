#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "io/json.h"
#include "io/json_events.h"
#include "io/printable.h"
#include "io/safetensors.h"
#include "io/safetensors_dtypes.h"

namespace dif::io {

namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the package's limit
constexpr int kMaxDepth = 127;                          // the package's JSON reader stops there

constexpr std::array<SafetensorsDType, 22> kDTypes = {{{"BOOL", 8, DType::kBool},
                                                       {"F4", 4, std::nullopt},
                                                       {"F6_E2M3", 6, std::nullopt},
                                                       {"F6_E3M2", 6, std::nullopt},
                                                       {"U8", 8, DType::kU8},
                                                       {"I8", 8, DType::kI8},
                                                       {"F8_E5M2", 8, DType::kF8E5M2},
                                                       {"F8_E4M3", 8, DType::kF8E4M3},
                                                       {"F8_E8M0", 8, std::nullopt},
                                                       {"F8_E4M3FNUZ", 8, std::nullopt},
                                                       {"F8_E5M2FNUZ", 8, std::nullopt},
                                                       {"I16", 16, DType::kI16},
                                                       {"U16", 16, DType::kU16},
                                                       {"F16", 16, DType::kF16},
                                                       {"BF16", 16, DType::kBF16},
                                                       {"I32", 32, DType::kI32},
                                                       {"U32", 32, DType::kU32},
                                                       {"F32", 32, DType::kF32},
                                                       {"C64", 64, std::nullopt},
                                                       {"F64", 64, DType::kF64},
                                                       {"I64", 64, DType::kI64},
                                                       {"U64", 64, DType::kU64}}};

/// Turns the events of the header's JSON into entries and metadata:
///     { "__metadata__": {string: string} | null,
///       NAME: {"dtype": string, "shape": [unsigned...], "data_offsets": [unsigned, unsigned]}, ... }
/// Fields that the format does not know are passed over, as the package does.
class HeaderEvents final : public JsonEvents {
 public:
  HeaderEvents() : JsonEvents(kMaxDepth) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool null() override {
    if (skipping() || (depth() == 1 && in_metadata_)) return true;
    return wrong("null");
  }
  bool boolean(bool value) override { return skipping() || wrong(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) override { return skipping() || wrong(fmt::format("{}", value)); }
  bool number_float(double, const std::string& text) override {
    return skipping() || wrong(printable(text, 40));
  }
  bool number_unsigned(std::uint64_t value) override {
    if (skipping()) return true;
    if (depth() != 3) return wrong(fmt::format("{}", value));
    if (field_ == Field::kShape) {
      header_.entries.back().shape.push_back(value);
      return true;
    }
    if (offsets_ == 2) return refuse(where() + "data_offsets has more than two numbers");
    (offsets_++ == 0 ? header_.entries.back().begin : header_.entries.back().end) = value;
    return true;
  }
  bool string(std::string& value) override {
    if (skipping()) return true;
    if (in_metadata_ && depth() == 2) {
      if (!header_.metadata.emplace(metadata_key_, std::move(value)).second)
        return refuse(fmt::format("__metadata__ has the key \"{}\" twice", printable(metadata_key_)));
      return true;
    }
    if (!in_metadata_ && depth() == 2 && field_ == Field::kDType) {
      header_.entries.back().dtype = std::move(value);
      return true;
    }
    return wrong(fmt::format("\"{}\"", printable(value, 40)));
  }

  bool key(std::string& name) override {
    if (depth() == 1) return start_entry(name);
    if (depth() != 2) return true;
    if (in_metadata_) {
      metadata_key_ = std::move(name);
      return true;
    }
    field_ = name == "dtype"          ? Field::kDType
             : name == "shape"        ? Field::kShape
             : name == "data_offsets" ? Field::kOffsets
                                      : Field::kOther;
    if (field_ == Field::kOther) return true;
    bool& seen = seen_[static_cast<std::size_t>(field_)];
    if (std::exchange(seen, true)) return refuse(fmt::format("{}{} is there twice", where(), name));
    return true;
  }

  bool start_object(std::size_t) override {
    const bool expected = depth() == 0 || depth() == 1 || skipping();
    return expected ? enter() : wrong("an object");
  }
  bool start_array(std::size_t) override {
    if (depth() == 0) return refuse("the header is an array, expected an object");
    const bool expected = skipping() || (!in_metadata_ && depth() == 2 &&
                                         (field_ == Field::kShape || field_ == Field::kOffsets));
    return expected ? enter() : wrong("an array");
  }
  bool end_array() override {
    leave();
    if (!in_metadata_ && depth() == 2 && field_ == Field::kOffsets && offsets_ != 2)
      return refuse(fmt::format("{}data_offsets has {} numbers, expected 2", where(), offsets_));
    return true;
  }
  bool end_object() override {
    leave();
    if (depth() != 1 || in_metadata_) return true;
    for (const auto& [field, name] :
         {std::pair{Field::kDType, "dtype"}, {Field::kShape, "shape"}, {Field::kOffsets, "data_offsets"}})
      if (!seen_[static_cast<std::size_t>(field)])
        return refuse(fmt::format("{}{} is missing", where(), name));
    return true;
  }

 private:
  enum class Field { kDType, kShape, kOffsets, kOther };

  /// Inside a field that the format does not know.
  bool skipping() const { return depth() >= 2 && !in_metadata_ && field_ == Field::kOther; }

  std::string where() const {
    if (header_.entries.empty()) return "";
    return fmt::format("tensor \"{}\": ", printable(header_.entries.back().name));
  }

  bool wrong(const std::string& found) {
    if (depth() == 0) return refuse(fmt::format("the header is {}, expected an object", found));
    if (in_metadata_ && depth() == 1)
      return refuse(fmt::format("__metadata__ is {}, expected an object", found));
    if (in_metadata_)
      return refuse(
          fmt::format("__metadata__ key \"{}\" is {}, expected a string", printable(metadata_key_), found));
    if (depth() == 1) return refuse(fmt::format("{}is {}, expected an object", where(), found));
    if (field_ == Field::kDType)
      return refuse(fmt::format("{}dtype is {}, expected a string", where(), found));
    const char* field = field_ == Field::kShape ? "shape" : "data_offsets";
    if (depth() == 2) return refuse(fmt::format("{}{} is {}, expected an array", where(), field, found));
    return refuse(
        fmt::format("{}{} holds {}, expected non-negative integers below 2^64", where(), field, found));
  }

  bool start_entry(std::string& name) {
    in_metadata_ = name == "__metadata__";
    if (in_metadata_) return !std::exchange(metadata_seen_, true) || refuse("__metadata__ is there twice");
    header_.entries.emplace_back().name = std::move(name);
    seen_ = {};
    offsets_ = 0;
    field_ = Field::kDType;
    return true;
  }

  SafetensorsHeader header_;
  bool in_metadata_ = false;
  bool metadata_seen_ = false;
  std::string metadata_key_;
  Field field_ = Field::kDType;
  std::array<bool, 3> seen_{};
  int offsets_ = 0;
};

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  return printable(fmt::format("[{}]", fmt::join(shape, ", ")));
}

/// What is wrong with one entry by itself, or nothing.
std::string entry_problem(const SafetensorsEntry& entry) {
  const auto name = [&] { return printable(entry.name); };
  const SafetensorsDType* dtype = find_safetensors_dtype(entry.dtype);
  if (dtype == nullptr)
    return fmt::format("tensor \"{}\" has the unknown dtype \"{}\"", name(), printable(entry.dtype, 40));
  if (entry.end < entry.begin)
    return fmt::format("tensor \"{}\" ends at {} before its start at {}", name(), entry.end, entry.begin);
  std::uint64_t elements = 1;
  for (const std::uint64_t dim : entry.shape) {
    const auto product = checked_mul(elements, dim);
    if (!product)
      return fmt::format("tensor \"{}\" has a shape of more than 2^64 elements: {}", name(),
                         shape_text(entry.shape));
    elements = *product;
  }
  const auto bits = checked_mul(elements, dtype->bits);
  if (!bits)
    return fmt::format("tensor \"{}\" of {} {} has more than 2^64 bits", name(), entry.dtype,
                       shape_text(entry.shape));
  if (*bits % 8 != 0)
    return fmt::format("tensor \"{}\" of {} {} does not end at a whole byte", name(), entry.dtype,
                       shape_text(entry.shape));
  if (*bits / 8 != entry.end - entry.begin)
    return fmt::format("tensor \"{}\" of {} {} has {} bytes, expected {}", name(), entry.dtype,
                       shape_text(entry.shape), entry.end - entry.begin, *bits / 8);
  return {};
}

std::vector<std::string> range_problems(const std::vector<SafetensorsEntry>& entries,
                                        std::uint64_t data_bytes) {
  std::vector<std::string> problems;
  std::uint64_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin < covered)
      problems.push_back(
          fmt::format("tensor \"{}\" (bytes {} to {}) overlaps the one before it, which ends at {}",
                      printable(entry.name), entry.begin, entry.end, covered));
    if (entry.begin > covered)
      problems.push_back(fmt::format("bytes {} to {} before tensor \"{}\" belong to no tensor", covered,
                                     entry.begin, printable(entry.name)));
    covered = std::max(covered, entry.end);
  }
  if (problems.empty()) return problems;
  for (const SafetensorsEntry& entry : entries)
    if (entry.end > data_bytes)
      problems.push_back(
          fmt::format("tensor \"{}\" (bytes {} to {}) lies past the end of the data, which has {} bytes",
                      printable(entry.name), entry.begin, entry.end, data_bytes));
  return problems;
}

std::vector<std::string> repeated_names(const std::vector<SafetensorsEntry>& entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  std::vector<std::string> problems;
  for (std::size_t i = 1; i < names.size(); ++i)
    if (names[i] == names[i - 1] && (i == 1 || names[i] != names[i - 2]))
      problems.push_back(fmt::format("tensor \"{}\" is there more than once", printable(names[i])));
  return problems;
}

/// The length of the header, checked against the file.
Result<std::uint64_t> header_bytes(std::span<const std::byte> file, std::string_view source) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("version https://git-lfs"))
    return invalid_input("{} is a Git LFS pointer, not the file itself; fetch it (git lfs pull)", source);
  if (file.size() < kLengthBytes)
    return invalid_input("{} has {} bytes, too few for a safetensors file: download incomplete?", source,
                         file.size());
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, file.data(), kLengthBytes);
  if (bytes > kMaxHeaderBytes)
    return invalid_input("{} claims a header of {} bytes, expected at most {}; it is not a safetensors file",
                         source, bytes, kMaxHeaderBytes);
  if (bytes > file.size() - kLengthBytes)
    return invalid_input("{} has a header of {} bytes, found {}: download incomplete; fetch the file again",
                         source, bytes, file.size() - kLengthBytes);
  return bytes;
}

}  // namespace

const SafetensorsDType* find_safetensors_dtype(std::string_view name) {
  const auto at =
      std::find_if(kDTypes.begin(), kDTypes.end(), [&](const auto& row) { return row.name == name; });
  return at == kDTypes.end() ? nullptr : &*at;
}

std::string_view safetensors_dtype_name(DType dtype) {
  const auto at =
      std::find_if(kDTypes.begin(), kDTypes.end(), [&](const auto& row) { return row.dtype == dtype; });
  DIF_CHECK(at != kDTypes.end());
  return at->name;
}

Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file, std::string_view source) {
  DIF_ASSIGN(const std::uint64_t json_bytes, header_bytes(file, source));
  HeaderEvents events;
  const std::string_view json(reinterpret_cast<const char*>(file.data()) + kLengthBytes, json_bytes);
  if (Status parsed = parse_json_events(json, source, events); !parsed)
    return with_context(std::move(parsed.error()), "in the safetensors header");
  SafetensorsHeader header = events.take();
  header.data_offset = kLengthBytes + json_bytes;

  std::vector<std::string> problems = repeated_names(header.entries);
  for (const SafetensorsEntry& entry : header.entries)
    if (std::string problem = entry_problem(entry); !problem.empty()) problems.push_back(std::move(problem));
  if (!problems.empty()) return tl::unexpected<Error>(problem_list(source, problems));

  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  const std::uint64_t data_bytes = file.size() - header.data_offset;
  problems = range_problems(header.entries, data_bytes);
  if (!problems.empty()) return tl::unexpected<Error>(problem_list(source, problems));
  const std::uint64_t expected = header.entries.empty() ? 0 : header.entries.back().end;
  if (data_bytes < expected)
    return invalid_input(
        "{} has {} bytes of tensor data, expected {} (tensor \"{}\" ends there): download incomplete; "
        "fetch the file again",
        source, data_bytes, expected, printable(header.entries.back().name));
  if (data_bytes > expected)
    return invalid_input("{} has {} bytes after its last tensor, expected none; fetch the file again", source,
                         data_bytes - expected);
  return header;
}

}  // namespace dif::io
