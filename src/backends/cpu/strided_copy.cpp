#include "backends/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/strided_copy.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

template <class T>
HWY_INLINE void transpose_elements(const std::byte* x, std::int64_t x_stride, std::byte* y,
                                   std::int64_t y_stride, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      std::memcpy(y + (j * y_stride + i) * static_cast<std::int64_t>(sizeof(T)),
                  x + (i * x_stride + j) * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
}

/// Squares of `side` by `square`, and the elements beside them one by one.
template <class T, class Move, class Square>
HWY_INLINE void transpose_squares(std::int64_t side, Square square, const std::byte* x, std::int64_t x_stride,
                                  std::byte* y, std::int64_t y_stride, std::int64_t rows,
                                  std::int64_t columns) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  const auto* const from = reinterpret_cast<const Move*>(x);
  auto* const to = reinterpret_cast<Move*>(y);
  const std::int64_t full_rows = rows / side * side, full_columns = columns / side * side;
  // Whole cache lines at a time on the side whose lines compete for the same places in the cache.
  const bool along_x = (x_stride & -x_stride) >= (y_stride & -y_stride);
  const std::int64_t outer = along_x ? full_rows : full_columns, inner = along_x ? full_columns : full_rows;
  for (std::int64_t o = 0; o < outer; o += side)
    for (std::int64_t n = 0; n < inner; n += side) {
      const std::int64_t i = along_x ? o : n, j = along_x ? n : o;
      square(from + i * x_stride + j, x_stride, to + j * y_stride + i, y_stride);
    }
  transpose_elements<T>(x + kSize * full_columns, x_stride, y + kSize * full_columns * y_stride, y_stride,
                        full_rows, columns - full_columns);
  transpose_elements<T>(x + kSize * full_rows * x_stride, x_stride, y + kSize * full_rows, y_stride,
                        rows - full_rows, columns);
}

/// y[j * y_stride + i] = x[i * x_stride + j] for i < rows, j < columns.
static void transpose_tile(std::int64_t element_bytes, const std::byte* x, std::int64_t x_stride,
                           std::byte* y, std::int64_t y_stride, std::int64_t rows, std::int64_t columns) {
  switch (element_bytes) {
    case 1:
      return transpose_elements<std::uint8_t>(x, x_stride, y, y_stride, rows, columns);
    case 2:
      return transpose_squares<std::uint16_t, std::uint16_t>(8, transpose8, x, x_stride, y, y_stride, rows,
                                                             columns);
    case 4:  // moved as f32, which changes no bit: only loads, shuffles and stores
      return transpose_squares<std::uint32_t, float>(4, transpose4<float, float>, x, x_stride, y, y_stride,
                                                     rows, columns);
    default:
      return transpose_elements<std::uint64_t>(x, x_stride, y, y_stride, rows, columns);
  }
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(transpose_tile);

namespace {

/// Bytes of one block of copies, and rows or columns of one tile of a transposition.
constexpr std::int64_t kBlockBytes = 64 << 10, kTile = 32;

}  // namespace

StridedCopy::StridedCopy(const Shape& x, const std::vector<std::int64_t>& perm, std::size_t element_bytes)
    : element_bytes_(static_cast<std::int64_t>(element_bytes)), count_(x.numel()) {
  std::vector<std::int64_t> x_strides(perm.size());
  std::int64_t stride = 1;
  for (std::size_t i = perm.size(); i-- > 0;) {
    x_strides[i] = stride;
    stride *= x.dim(static_cast<int>(i));
  }
  std::vector<Axis> axes;  // of y, slowest first
  for (const std::int64_t axis : perm) {
    const std::int64_t size = x.dim(static_cast<int>(axis));
    if (size == 1) continue;
    const std::int64_t x_stride = x_strides[static_cast<std::size_t>(axis)];
    if (!axes.empty() && axes.back().x == x_stride * size) {
      axes.back().size *= size;
      axes.back().x = x_stride;
    } else {
      axes.push_back({size, x_stride, 0});
    }
  }
  stride = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    axes[i].y = stride;
    stride *= axes[i].size;
  }
  if (axes.empty() || axes.back().x == 1) {
    if (!axes.empty()) {
      run_ = axes.back().size;
      axes.pop_back();
    }
  } else {
    run_ = 0;
    rows_ = axes.back();
    axes.pop_back();
    const auto dense = std::ranges::find_if(axes, [](const Axis& axis) { return axis.x == 1; });
    if (dense != axes.end()) {
      columns_ = *dense;
      axes.erase(dense);
    } else {
      columns_ = {1, 1, 1};  // every axis of x that is dense has one element
    }
  }
  outer_ = std::move(axes);
}

void StridedCopy::run(const std::byte* x, std::byte* y) const {
  if (count_ == 0) return;
  if (run_ != 0) {
    copy_runs(x, y);
  } else {
    transpose_planes(x, y);
  }
}

void StridedCopy::copy_runs(const std::byte* x, std::byte* y) const {
  const std::int64_t n_runs = count_ / run_, bytes = run_ * element_bytes_;
  if (outer_.empty()) return copy_rows(x, 0, y, 0, 1, bytes);
  // The innermost outer axis steps by a constant: those runs are copied by one loop.
  const Axis inner = outer_.back();
  const std::int64_t n_inner = inner.size, n_loops = n_runs / n_inner;
  const std::int64_t part = std::clamp<std::int64_t>(kBlockBytes / bytes, 1, n_inner);
  const std::int64_t parts = ceil_div(n_inner, part);
  const std::int64_t loops = parts > 1 ? 1 : std::max<std::int64_t>(1, kBlockBytes / (bytes * n_inner));
  for_blocks(ceil_div(n_loops, loops) * parts, [&](std::int64_t block) {
    const std::int64_t first = block % parts * part, end = std::min(first + part, n_inner);
    const std::int64_t first_loop = block / parts * loops, last_loop = std::min(first_loop + loops, n_loops);
    for (std::int64_t loop = first_loop; loop < last_loop; ++loop) {
      std::int64_t x_at = 0, y_at = 0, index = loop;
      for (std::size_t i = outer_.size() - 1; i-- > 0;) {
        x_at += index % outer_[i].size * outer_[i].x;
        y_at += index % outer_[i].size * outer_[i].y;
        index /= outer_[i].size;
      }
      for (std::int64_t i = first; i < end; ++i)
        std::memcpy(y + (y_at + i * inner.y) * element_bytes_, x + (x_at + i * inner.x) * element_bytes_,
                    static_cast<std::size_t>(bytes));
    }
  });
}

void StridedCopy::transpose_planes(const std::byte* x, std::byte* y) const {
  const auto transpose = HWY_DYNAMIC_DISPATCH(transpose_tile);
  const std::int64_t row_tiles = ceil_div(rows_.size, kTile), column_tiles = ceil_div(columns_.size, kTile);
  const std::int64_t tiles = count_ / (rows_.size * columns_.size) * row_tiles * column_tiles;
  const std::int64_t per_block = std::max<std::int64_t>(1, kBlockBytes / (kTile * kTile * element_bytes_));
  for_blocks(ceil_div(tiles, per_block), [&](std::int64_t block) {
    const std::int64_t last = std::min((block + 1) * per_block, tiles);
    for (std::int64_t tile = block * per_block; tile < last; ++tile) {
      const std::int64_t i = tile % row_tiles * kTile, j = tile / row_tiles % column_tiles * kTile;
      std::int64_t index = tile / (row_tiles * column_tiles), x_at = i * rows_.x + j,
                   y_at = i + j * columns_.y;
      for (std::size_t axis = outer_.size(); axis-- > 0;) {
        x_at += index % outer_[axis].size * outer_[axis].x;
        y_at += index % outer_[axis].size * outer_[axis].y;
        index /= outer_[axis].size;
      }
      transpose(element_bytes_, x + x_at * element_bytes_, rows_.x, y + y_at * element_bytes_, columns_.y,
                std::min(kTile, rows_.size - i), std::min(kTile, columns_.size - j));
    }
  });
}

void copy_rows(const std::byte* x, std::int64_t x_step, std::byte* y, std::int64_t y_step,
               std::int64_t n_rows, std::int64_t bytes) {
  if (bytes == 0) return;
  const std::int64_t rows = std::max<std::int64_t>(1, kBlockBytes / bytes);
  const std::int64_t part = rows > 1 ? bytes : kBlockBytes, parts = ceil_div(bytes, part);
  for_blocks(ceil_div(n_rows, rows) * parts, [&](std::int64_t block) {
    const std::int64_t first = block / parts * rows, last = std::min(first + rows, n_rows);
    const std::int64_t at = block % parts * part;
    for (std::int64_t i = first; i < last; ++i)
      std::memcpy(y + i * y_step + at, x + i * x_step + at,
                  static_cast<std::size_t>(std::min(part, bytes - at)));
  });
}

}  // namespace dif::cpu
#endif
