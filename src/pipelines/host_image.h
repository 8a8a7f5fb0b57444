#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ir/tensor_type.h"
#include "opt/image_stages.h"
#include "runtime/session.h"

namespace dif {

/// Memory of images that comes again: the system hands out and clears fresh pages more slowly than a device
/// fills them.
class ImageMemory {
 public:
  struct Block {
    std::shared_ptr<std::byte> data;
    std::size_t bytes = 0;
  };

  /// New blocks are HostMemory of this context from now on, where it has some.
  void set_context(std::shared_ptr<runtime::Context> context) { context_ = std::move(context); }
  /// The smallest block that holds `bytes`, or a new one, in the place of one that is too small.
  Block take(std::size_t bytes);
  void give(Block block) { unused_.push_back(std::move(block)); }

 private:
  std::vector<Block> unused_;
  std::shared_ptr<runtime::Context> context_;
};

/// The sizes of the blocks of an ImageMemory that is asked for the same, without any memory.
class ImageMemoryPlan {
 public:
  /// The size of the block.
  std::size_t take(std::size_t bytes);
  void give(std::size_t block_bytes) { unused_.push_back(block_bytes); }
  std::size_t most_bytes() const { return most_bytes_; }  ///< at one time

 private:
  std::vector<std::size_t> unused_;
  std::size_t held_bytes_ = 0, most_bytes_ = 0;
};

/// An image of one picture, [1, H, W, C] or [1, C, H, W], in host memory. Where its rows lie together
/// (channels last) it has a margin of rows of zeros above and below.
class HostImage {
 public:
  /// Its bytes are what they are, but for the margin. `memory` outlives it.
  HostImage(const ir::TensorType& type, int row_axis, std::int64_t margin, ImageMemory& memory);
  /// What it takes of the memory.
  static std::size_t bytes_with_margin(const ir::TensorType& type, int row_axis, std::int64_t margin);
  HostImage(HostImage&&) = default;
  HostImage& operator=(HostImage&& other) noexcept;
  ~HostImage();

  const ir::TensorType& type() const { return type_; }
  std::int64_t height() const { return type_.dim(row_axis_); }
  bool channels_last() const { return row_axis_ == 1; }
  std::span<std::byte> bytes() { return {data(), static_cast<std::size_t>(type_.bytes())}; }

  /// The rows where they lie; nothing when they lie apart, or some of them beyond the margin.
  std::span<std::byte> where(const opt::Rows& rows);
  /// Copies rows, of which those outside the image are zeros. Pre: `to` has their bytes.
  void read(const opt::Rows& rows, std::span<std::byte> to) const;
  void write(const opt::Rows& rows, std::span<const std::byte> from);

 private:
  friend class GroupSums;
  std::size_t row_bytes() const;  ///< of one row of one plane
  std::int64_t planes() const { return channels_last() ? 1 : type_.dim(1); }
  std::size_t margin_bytes() const { return static_cast<std::size_t>(margin_) * row_bytes(); }
  std::byte* data() const { return block_.data.get() + margin_bytes(); }

  ir::TensorType type_;
  int row_axis_ = 1;
  std::int64_t margin_ = 0;
  ImageMemory* memory_ = nullptr;
  ImageMemory::Block block_;
};

/// The statistics of a group norm over an image that comes row by row. Each row has sums of its own, in f64,
/// which are added in the order of rows: how many rows come at a time changes no bit.
class GroupSums {
 public:
  GroupSums(const HostImage& image, std::int64_t groups);

  /// Pre: `rows` of `image` are written.
  void add(const HostImage& image, const opt::Rows& rows);
  /// Whether every element so far was finite.
  bool all_finite() const;
  /// Mean, and 1 / sqrt(variance + eps), of the group of each channel. Pre: every row was added.
  void finish(float eps, std::span<float> mean, std::span<float> scale) const;

 private:
  struct Sum {
    double values = 0, squares = 0;
  };
  void add_row(const HostImage& image, std::int64_t row);

  std::int64_t channels_, groups_, elements_;  ///< elements of one group
  std::vector<Sum> sums_;                      ///< [H, groups]
};

}  // namespace dif
