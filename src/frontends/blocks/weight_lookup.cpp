#include "frontends/blocks/weight_lookup.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "io/printable.h"
#include "ir/tensor_type.h"
#include "ops/cast/cast.op.h"
#include "ops/concat/concat.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/slice/slice.op.h"

namespace dif::frontends {

namespace {

constexpr std::size_t kMaxListed = 10;

bool is_weight_dtype(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

/// "2 tensors are missing: a; b" and the like, up to kMaxListed entries.
std::string list(std::string_view one, std::string_view many, const std::vector<std::string>& entries) {
  std::string text = fmt::format("{} {}: ", entries.size(), entries.size() == 1 ? one : many);
  const std::size_t shown = std::min(entries.size(), kMaxListed);
  text += fmt::format("{}", fmt::join(entries.begin(), entries.begin() + static_cast<long>(shown), ", "));
  if (shown < entries.size()) text += fmt::format(", and {} more", entries.size() - shown);
  return text;
}

/// The word of a tensor whose dtype or rank TensorRef cannot hold, or nothing.
const io::SafetensorsEntry* find_unusable(const io::Checkpoint& checkpoint, std::string_view name) {
  for (const io::SafetensorsFile& shard : checkpoint.shards())
    for (const io::SafetensorsEntry& entry : shard.unusable())
      if (entry.name == name) return &entry;
  return nullptr;
}

}  // namespace

WeightLookup::WeightLookup(ir::Builder& builder, ConstantSet& constants, const WeightSource& source)
    : builder_(builder), constants_(constants), source_(source) {}

ir::Value WeightLookup::declare(const std::string& name, const Shape& shape) {
  ir::TensorType type{DType::kF32, shape};
  const bool first_use = used_.insert(name).second;
  const io::TensorRef* tensor = source_.checkpoint().find(name);
  if (tensor != nullptr && is_weight_dtype(tensor->dtype)) type.dtype = tensor->dtype;
  if (!first_use) return builder_.constant(name, type);

  if (tensor == nullptr) {
    const io::SafetensorsEntry* unusable = find_unusable(source_.checkpoint(), name);
    if (unusable == nullptr)
      missing_.push_back(fmt::format("{} {}", name, shape));
    else
      wrong_dtype_.push_back(fmt::format("{} is {}", name, io::printable(unusable->dtype)));
  } else if (!is_weight_dtype(tensor->dtype)) {
    wrong_dtype_.push_back(fmt::format("{} is {}", name, tensor->dtype));
  } else if (tensor->shape != shape) {
    wrong_shape_.push_back(fmt::format("{} is {}, expected {}", name, tensor->shape, shape));
  } else {
    constants_.add_view(name, {type, tensor->data, tensor->file, tensor->file_offset});
  }
  return builder_.constant(name, type);
}

ir::Value WeightLookup::stored(std::string_view name, const Shape& shape) {
  const StoredTensor where = source_.locate(name);
  const Shape stored_shape = where.stored_shape(shape);
  ir::Value value = declare(where.name, stored_shape);
  if (!where.is_whole()) {
    const std::int64_t rows = stored_shape.dim(0) / where.parts;
    std::vector<ir::Value> pieces;
    for (const int part : where.order)
      pieces.push_back(ops::slice(builder_, value, 0, part * rows, (part + 1) * rows));
    value = pieces.size() == 1 ? pieces.front() : ops::concat(builder_, pieces, 0);
  }
  return where.kernel_1x1 ? ops::reshape(builder_, value, shape) : value;
}

ir::Value WeightLookup::get(std::string_view name, const Shape& shape, DType dtype) {
  const ir::Value value = stored(name, shape);
  return value.dtype() == dtype ? value : ops::cast(builder_, value, dtype);
}

Status WeightLookup::check(const std::function<bool(std::string_view)>& may_be_unused) const {
  std::vector<std::string> unexpected;
  const auto note = [&](const std::string& name) {
    if (!used_.contains(name) && !may_be_unused(name)) unexpected.push_back(io::printable(name));
  };
  for (const io::TensorRef* tensor : source_.checkpoint().tensors()) note(tensor->name);
  for (const io::SafetensorsFile& shard : source_.checkpoint().shards())
    for (const io::SafetensorsEntry& entry : shard.unusable()) note(entry.name);
  std::sort(unexpected.begin(), unexpected.end());

  std::vector<std::string> kinds;
  if (!missing_.empty()) kinds.push_back(list("tensor is missing", "tensors are missing", missing_));
  if (!unexpected.empty())
    kinds.push_back(list("tensor is not part of it", "tensors are not part of it", unexpected));
  if (!wrong_shape_.empty())
    kinds.push_back(list("tensor has another shape", "tensors have another shape", wrong_shape_));
  if (!wrong_dtype_.empty())
    kinds.push_back(list("tensor has a dtype other than f32, bf16 and f16",
                         "tensors have a dtype other than f32, bf16 and f16", wrong_dtype_));
  if (kinds.empty()) return ok();
  return invalid_input("{}: the weights do not fit the model that config.json describes: {}", source_.label(),
                       fmt::join(kinds, "; "));
}

}  // namespace dif::frontends
