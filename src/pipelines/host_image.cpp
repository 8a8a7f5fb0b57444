#include "pipelines/host_image.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/checked_math.h"
#include "base/parallel.h"
#include "io/host_tensor.h"

namespace dif {

namespace {

constexpr std::size_t kMostThreads = 16;
/// Positions that stay in the cache while all channels are read.
constexpr std::int64_t kPositions = 256;

/// Eight elements, and their sums: what compilers make vector instructions of.
constexpr std::int64_t kLanes = 8;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));

float decode(std::uint16_t bf16) {
  return std::bit_cast<float>(std::uint32_t{bf16} << 16);
}
float decode(float value) {
  return value;
}

Doubles load(const std::uint16_t* x) {
  using Shorts = std::uint16_t __attribute__((vector_size(kLanes * sizeof(std::uint16_t))));
  using Words = std::uint32_t __attribute__((vector_size(kLanes * sizeof(std::uint32_t))));
  Shorts bits;
  std::memcpy(&bits, x, sizeof(bits));
  const Words words = __builtin_convertvector(bits, Words) << 16;
  Floats floats;
  std::memcpy(&floats, &words, sizeof(floats));
  return __builtin_convertvector(floats, Doubles);
}
Doubles load(const float* x) {
  Floats floats;
  std::memcpy(&floats, x, sizeof(floats));
  return __builtin_convertvector(floats, Doubles);
}

/// Sums of each channel of a row [width, channels].
template <class T>
void add_channels_last(const T* row, std::int64_t width, std::int64_t channels, double* values,
                       double* squares) {
  for (std::int64_t first = 0; first < width; first += kPositions) {
    const std::int64_t n = std::min(kPositions, width - first);
    const T* const x = row + first * channels;
    std::int64_t c = 0;
    for (; c + kLanes <= channels; c += kLanes) {
      Doubles value = {}, square = {};
      for (std::int64_t i = 0; i < n; ++i) {
        const Doubles v = load(x + i * channels + c);
        value += v;
        square += v * v;
      }
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        values[c + lane] += value[lane];
        squares[c + lane] += square[lane];
      }
    }
    for (; c < channels; ++c)
      for (std::int64_t i = 0; i < n; ++i) {
        const double v = decode(x[i * channels + c]);
        values[c] += v;
        squares[c] += v * v;
      }
  }
}

#ifdef __x86_64__
/// The same bits from wider vectors: products of two elements are exact in f64, and each channel has its own
/// sum.
[[gnu::target("avx512f"), gnu::flatten]] void add_channels_last_wide(const std::uint16_t* row,
                                                                     std::int64_t width,
                                                                     std::int64_t channels, double* values,
                                                                     double* squares) {
  add_channels_last(row, width, channels, values, squares);
}
[[gnu::target("avx512f"), gnu::flatten]] void add_channels_last_wide(const float* row, std::int64_t width,
                                                                     std::int64_t channels, double* values,
                                                                     double* squares) {
  add_channels_last(row, width, channels, values, squares);
}
#endif

template <class T>
void add_channels(const T* row, std::int64_t width, std::int64_t channels, double* values, double* squares) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return add_channels_last_wide(row, width, channels, values, squares);
#endif
  add_channels_last(row, width, channels, values, squares);
}

/// Sums of a row of one channel.
template <class T>
void add_plane(const T* row, std::int64_t width, double& values, double& squares) {
  Doubles value = {}, square = {};
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    const Doubles v = load(row + i);
    value += v;
    square += v * v;
  }
  for (; i < width; ++i) {
    const double v = decode(row[i]);
    values += v;
    squares += v * v;
  }
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    values += value[lane];
    squares += square[lane];
  }
}

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t block_alignment(std::size_t bytes) {
  return bytes < kHugePage ? 64 : kHugePage;
}

std::size_t block_bytes(std::size_t bytes) {
  return align_up(std::max<std::size_t>(bytes, 1), block_alignment(bytes));
}

}  // namespace

std::size_t ImageMemoryPlan::take(std::size_t bytes) {
  std::ranges::sort(unused_);
  const auto found = std::ranges::lower_bound(unused_, bytes);
  if (found != unused_.end()) {
    const std::size_t block = *found;
    unused_.erase(found);
    return block;
  }
  if (!unused_.empty()) {
    held_bytes_ -= unused_.back();
    unused_.pop_back();
  }
  const std::size_t block = block_bytes(bytes);
  held_bytes_ += block;
  most_bytes_ = std::max(most_bytes_, held_bytes_);
  return block;
}

ImageMemory::Block ImageMemory::take(std::size_t bytes) {
  std::ranges::sort(unused_, {}, &Block::bytes);
  const auto found = std::ranges::lower_bound(unused_, bytes, {}, &Block::bytes);
  if (found != unused_.end()) {
    Block block = std::move(*found);
    unused_.erase(found);
    return block;
  }
  if (!unused_.empty()) unused_.pop_back();
  Block block;
  block.bytes = block_bytes(bytes);
  if (context_ != nullptr) {
    auto memory = runtime::HostMemory::create(context_, block.bytes);
    if (memory) {
      std::byte* const data = memory->data();
      block.data = {std::make_shared<runtime::HostMemory>(std::move(*memory)), data};
      return block;
    }
  }
  block.data = {static_cast<std::byte*>(std::aligned_alloc(block_alignment(bytes), block.bytes)), std::free};
  if (block.data == nullptr) throw std::bad_alloc();
  if (bytes < kHugePage) return block;
  madvise(block.data.get(), block.bytes, MADV_HUGEPAGE);
  parallel_for(block.bytes / kHugePage, kMostThreads, [&](std::size_t i) {
    for (std::size_t at = 0; at < kHugePage; at += 4096) block.data.get()[i * kHugePage + at] = std::byte();
  });
  return block;
}

namespace {

std::size_t row_bytes_of(const ir::TensorType& type, int row_axis) {
  return static_cast<std::size_t>(row_axis == 1 ? type.dim(2) * type.dim(3) : type.dim(3)) *
         dtype_size(type.dtype);
}

}  // namespace

std::size_t HostImage::bytes_with_margin(const ir::TensorType& type, int row_axis, std::int64_t margin) {
  const std::size_t around =
      row_axis == 1 ? 2 * static_cast<std::size_t>(margin) * row_bytes_of(type, row_axis) : 0;
  return static_cast<std::size_t>(type.bytes()) + around;
}

HostImage::HostImage(const ir::TensorType& type, int row_axis, std::int64_t margin, ImageMemory& memory)
    : type_(type),
      row_axis_(row_axis),
      margin_(row_axis == 1 ? margin : 0),
      memory_(&memory),
      block_(memory.take(bytes_with_margin(type, row_axis, margin))) {
  DIF_CHECK(type.rank() == 4 && type.dim(0) == 1 && (row_axis == 1 || row_axis == 2));
  std::memset(block_.data.get(), 0, margin_bytes());
  std::memset(data() + type_.bytes(), 0, margin_bytes());
}

HostImage& HostImage::operator=(HostImage&& other) noexcept {
  std::swap(type_, other.type_);
  std::swap(row_axis_, other.row_axis_);
  std::swap(margin_, other.margin_);
  std::swap(memory_, other.memory_);
  std::swap(block_, other.block_);
  return *this;
}

HostImage::~HostImage() {
  if (block_.data != nullptr) memory_->give(std::move(block_));
}

std::size_t HostImage::row_bytes() const {
  return row_bytes_of(type_, row_axis_);
}

std::span<std::byte> HostImage::where(const opt::Rows& rows) {
  if (planes() != 1 || rows.begin < -margin_ || rows.end > height() + margin_) return {};
  return {block_.data.get() + static_cast<std::size_t>(rows.begin + margin_) * row_bytes(),
          static_cast<std::size_t>(rows.count()) * row_bytes()};
}

void HostImage::read(const opt::Rows& rows, std::span<std::byte> to) const {
  const std::size_t row = row_bytes();
  const opt::Rows inside = {std::clamp<std::int64_t>(rows.begin, 0, height()),
                            std::clamp<std::int64_t>(rows.end, 0, height())};
  const auto before = static_cast<std::size_t>(inside.begin - rows.begin) * row,
             length = static_cast<std::size_t>(inside.count()) * row,
             after = static_cast<std::size_t>(rows.end - inside.end) * row;
  std::byte* next = to.data();
  for (std::int64_t plane = 0; plane < planes(); ++plane) {
    std::memset(next, 0, before);
    std::memcpy(next + before, data() + static_cast<std::size_t>(plane * height() + inside.begin) * row,
                length);
    std::memset(next + before + length, 0, after);
    next += before + length + after;
  }
}

void HostImage::write(const opt::Rows& rows, std::span<const std::byte> from) {
  const std::size_t row = row_bytes(), length = static_cast<std::size_t>(rows.count()) * row;
  for (std::int64_t plane = 0; plane < planes(); ++plane)
    std::memcpy(data() + static_cast<std::size_t>(plane * height() + rows.begin) * row,
                from.data() + static_cast<std::size_t>(plane) * length, length);
}

GroupSums::GroupSums(const HostImage& image, std::int64_t groups)
    : channels_(image.type().dim(image.channels_last() ? 3 : 1)),
      groups_(groups),
      elements_(image.type().numel() / groups),
      sums_(static_cast<std::size_t>(image.height() * groups)) {}

void GroupSums::add(const HostImage& image, const opt::Rows& rows) {
  parallel_for(static_cast<std::size_t>(rows.count()), kMostThreads,
               [&](std::size_t i) { add_row(image, rows.begin + static_cast<std::int64_t>(i)); });
}

void GroupSums::add_row(const HostImage& image, std::int64_t row) {
  const ir::TensorType& type = image.type();
  const std::int64_t width = type.dim(image.channels_last() ? 2 : 3);
  std::vector<double> values(static_cast<std::size_t>(channels_)), squares(values.size());
  std::vector<float> converted;
  const std::size_t row_bytes = image.row_bytes();
  const auto bytes_at = [&](std::int64_t plane) {
    return std::span<const std::byte>(
        image.data() + static_cast<std::size_t>(plane * image.height() + row) * row_bytes, row_bytes);
  };
  for (std::int64_t plane = 0; plane < image.planes(); ++plane) {
    const std::span<const std::byte> bytes = bytes_at(plane);
    const auto c = static_cast<std::size_t>(plane);
    const auto add = [&](const auto* x) {
      if (image.channels_last())
        add_channels(x, width, channels_, values.data(), squares.data());
      else
        add_plane(x, width, values[c], squares[c]);
    };
    if (type.dtype == DType::kBF16) {
      add(reinterpret_cast<const std::uint16_t*>(bytes.data()));
    } else if (type.dtype == DType::kF32) {
      add(reinterpret_cast<const float*>(bytes.data()));
    } else {
      converted.resize(row_bytes / dtype_size(type.dtype));
      io::convert_to_f32(type.dtype, bytes, converted);
      add(converted.data());
    }
  }
  const auto each = static_cast<std::size_t>(channels_ / groups_);
  Sum* const sums = sums_.data() + row * groups_;
  for (std::size_t g = 0; g < static_cast<std::size_t>(groups_); ++g) {
    sums[g] = {};
    for (std::size_t c = g * each; c < (g + 1) * each; ++c) {
      sums[g].values += values[c];
      sums[g].squares += squares[c];
    }
  }
}

bool GroupSums::all_finite() const {
  return std::ranges::all_of(sums_, [](const Sum& sum) { return std::isfinite(sum.squares); });
}

void GroupSums::finish(float eps, std::span<float> mean, std::span<float> scale) const {
  const auto groups = static_cast<std::size_t>(groups_), each = static_cast<std::size_t>(channels_) / groups;
  const auto n = static_cast<double>(elements_);
  for (std::size_t g = 0; g < groups; ++g) {
    Sum all;
    for (std::size_t i = g; i < sums_.size(); i += groups) {
      all.values += sums_[i].values;
      all.squares += sums_[i].squares;
    }
    const double middle = all.values / n;
    const double variance = std::max(0.0, all.squares / n - middle * middle);
    for (std::size_t c = g * each; c < (g + 1) * each; ++c) {
      mean[c] = static_cast<float>(middle);
      scale[c] = static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(eps)));
    }
  }
}

}  // namespace dif
