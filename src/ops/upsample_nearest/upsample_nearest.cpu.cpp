#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel.h"

namespace dif::cpu {

namespace {

/// y[j] = x[j / factor] for j < n * factor.
template <class T>
void repeat(const T* x, std::int64_t n, std::int64_t factor, T* y) {
  if (factor == 2) {  // a loop that the compiler turns into shuffles
    for (std::int64_t i = 0; i < n; ++i) y[2 * i] = y[2 * i + 1] = x[i];
    return;
  }
  for (std::int64_t i = 0; i < n; ++i, y += factor) std::fill_n(y, factor, x[i]);
}

template <class T>
class UpsampleNearest final : public runtime::Kernel {
 public:
  explicit UpsampleNearest(const ir::OpView& op)
      : factor_(op.i64("factor")),
        width_(op.in(0).dim(3)),
        rows_(op.in(0).dim(0) * op.in(0).dim(1) * op.in(0).dim(2)) {}

  Status run(const runtime::KernelArgs& args) override {
    const T* const x = args.in[0].data<T>();
    T* const y = args.out[0].data<T>();
    const std::int64_t out_width = width_ * factor_, out_size = out_width * factor_;
    const std::int64_t rows = std::max<std::int64_t>(1, kBlockElements / std::max<std::int64_t>(1, out_size));
    for_blocks(ceil_div(rows_, rows), [&](std::int64_t block) {
      for (std::int64_t row = block * rows, end = std::min(row + rows, rows_); row < end; ++row) {
        T* const out = y + row * out_size;
        repeat(x + row * width_, width_, factor_, out);
        for (std::int64_t i = 1; i < factor_; ++i)
          std::memcpy(out + i * out_width, out, static_cast<std::size_t>(out_width) * sizeof(T));
      }
    });
    return ok();
  }

 private:
  const std::int64_t factor_, width_, rows_;
};

/// Channels last: pixels are runs of bytes.
class UpsamplePixels final : public runtime::Kernel {
 public:
  explicit UpsamplePixels(const ir::OpView& op)
      : factor_(op.i64("factor")),
        width_(op.in(0).dim(2)),
        rows_(op.in(0).dim(0) * op.in(0).dim(1)),
        pixel_(static_cast<std::size_t>(op.in(0).dim(3)) * dtype_size(op.in(0).dtype)) {}

  Status run(const runtime::KernelArgs& args) override {
    const std::size_t in_bytes = static_cast<std::size_t>(width_) * pixel_,
                      out_bytes = in_bytes * static_cast<std::size_t>(factor_);
    for_blocks(rows_, [&](std::int64_t row) {
      const std::byte* x = args.in[0].data<std::byte>() + static_cast<std::size_t>(row) * in_bytes;
      std::byte* const first =
          args.out[0].data<std::byte>() + static_cast<std::size_t>(row * factor_) * out_bytes;
      std::byte* y = first;
      for (std::int64_t i = 0; i < width_; ++i, x += pixel_)
        for (std::int64_t k = 0; k < factor_; ++k, y += pixel_) std::memcpy(y, x, pixel_);
      for (std::int64_t k = 1; k < factor_; ++k, y += out_bytes) std::memcpy(y, first, out_bytes);
    });
    return ok();
  }

 private:
  const std::int64_t factor_, width_, rows_;
  const std::size_t pixel_;
};

}  // namespace

MakeResult make_upsample_nearest(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  if (op.out().numel() == 0) return runtime::declined("nothing to repeat");
  if (op.flag("channels_last")) return std::make_unique<UpsamplePixels>(op);
  switch (dtype_size(op.in(0).dtype)) {
    case 1:
      return std::make_unique<UpsampleNearest<std::uint8_t>>(op);
    case 2:
      return std::make_unique<UpsampleNearest<std::uint16_t>>(op);
    case 4:
      return std::make_unique<UpsampleNearest<std::uint32_t>>(op);
    default:
      return std::make_unique<UpsampleNearest<std::uint64_t>>(op);
  }
}

}  // namespace dif::cpu
