#include "frontends/blocks/weight_source.h"

#include <fmt/format.h>

namespace dif::frontends {

namespace {
/// No model comes near it; it bounds the search for numbered blocks.
constexpr std::int64_t kMaxBlocks = 1024;
}  // namespace

std::string with_number(std::string_view pattern, std::int64_t number) {
  const std::size_t at = pattern.find('#');
  if (at == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), number, pattern.substr(at + 1));
}

Shape StoredTensor::stored_shape(const Shape& wanted) const {
  std::vector<std::int64_t> dims(wanted.dims().begin(), wanted.dims().end());
  if (!is_whole()) dims.at(0) = dims.at(0) / static_cast<std::int64_t>(order.size()) * parts;
  if (kernel_1x1) dims.insert(dims.end(), {1, 1});
  return Shape(dims);
}

std::optional<Shape> StoredTensor::wanted_shape(const Shape& stored) const {
  std::vector<std::int64_t> dims(stored.dims().begin(), stored.dims().end());
  if (kernel_1x1) {
    if (dims.size() < 2 || dims.back() != 1 || dims.at(dims.size() - 2) != 1) return std::nullopt;
    dims.resize(dims.size() - 2);
  }
  if (!is_whole()) {
    if (dims.empty() || dims.front() % parts != 0) return std::nullopt;
    dims.front() = dims.front() / parts * static_cast<std::int64_t>(order.size());
  }
  return Shape(dims);
}

bool WeightSource::has(std::string_view name) const {
  return checkpoint_->find(locate(name).name) != nullptr;
}

std::optional<Shape> WeightSource::shape(std::string_view name) const {
  const StoredTensor stored = locate(name);
  const io::TensorRef* tensor = checkpoint_->find(stored.name);
  return tensor == nullptr ? std::nullopt : stored.wanted_shape(tensor->shape);
}

std::int64_t WeightSource::count(std::initializer_list<std::string_view> numbered_names) const {
  std::int64_t found = 0;
  for (const std::string_view pattern : numbered_names)
    for (std::int64_t i = found; i < kMaxBlocks; ++i)
      if (has(with_number(pattern, i))) found = i + 1;
  return found;
}

}  // namespace dif::frontends
