#include "runtime/axes.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace dif::runtime {

std::int64_t Axes::rows() const {
  return std::accumulate(sizes.begin(), sizes.end() - 1, std::int64_t{1}, std::multiplies<>());
}

Axes collapse(const Shape& shape, const std::vector<std::vector<std::int64_t>>& strides) {
  Axes result;
  result.strides.resize(strides.size());
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const auto a = static_cast<std::size_t>(axis);
    const std::int64_t size = shape.dim(axis);
    if (size == 1) continue;
    bool joins = !result.sizes.empty();
    for (std::size_t k = 0; joins && k < strides.size(); ++k)
      joins = strides[k][a] == result.strides[k].back() * result.sizes.back();
    if (joins) {
      result.sizes.back() *= size;
      continue;
    }
    result.sizes.push_back(size);
    for (std::size_t k = 0; k < strides.size(); ++k) result.strides[k].push_back(strides[k][a]);
  }
  if (result.sizes.empty()) {
    result.sizes.push_back(1);
    for (auto& list : result.strides) list.push_back(1);
  }
  std::ranges::reverse(result.sizes);
  for (auto& list : result.strides) std::ranges::reverse(list);
  return result;
}

std::vector<std::int64_t> dense_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(static_cast<std::size_t>(shape.rank()));
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<std::size_t>(axis)] = step;
    step *= shape.dim(axis);
  }
  return strides;
}

std::vector<std::int64_t> broadcast_strides(const Shape& from, const Shape& to) {
  const std::vector<std::int64_t> dense = dense_strides(from);
  std::vector<std::int64_t> strides(static_cast<std::size_t>(to.rank()), 0);
  const std::size_t missing = strides.size() - dense.size();
  for (std::size_t axis = 0; axis < dense.size(); ++axis)
    if (from.dim(static_cast<int>(axis)) != 1) strides[missing + axis] = dense[axis];
  return strides;
}

}  // namespace dif::runtime
