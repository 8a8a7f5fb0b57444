#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace dif {

/// The dimensions of a tensor, slowest first. Rank 0 is a scalar. Dimensions are never negative in a verified
/// program; zero-element tensors are legal.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  /// Pre: dims.size() <= kMaxRank (readers of files check before they call).
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  /// Dimension `axis`; negative counts from the end. Pre: -rank <= axis < rank.
  std::int64_t dim(int axis) const;
  void set_dim(int axis, std::int64_t value);
  std::span<const std::int64_t> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }

  /// Number of elements. Pre: the product fits (see checked_numel).
  std::int64_t numel() const;
  /// Number of elements; nothing when a dimension is negative or the product exceeds 2^63 - 1.
  std::optional<std::int64_t> checked_numel() const;

  /// "[2, 4096, 128]"
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace dif
