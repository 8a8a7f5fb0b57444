#include "backends/cuda/strided_copy.h"

#include <limits>

#include "runtime/axes.h"

namespace dif::cuda {

namespace {

constexpr int kThreads = 256;
/// A shape of 8 axes; an operation may see one more.
constexpr std::size_t kAxes = 9;
constexpr std::int64_t kTile = 32;

/// One unit a thread. Axes come innermost first; `axes` of them are in use.
constexpr const char* kCopy = R"(
extern "C" __global__ void __launch_bounds__(256)
copy(const @type@* x, @type@* y, Index count, int axes@parameters@) {
  Index left = (Index)blockIdx.x * 256 + threadIdx.x;
  if (left >= count) return;
  Index from = 0, to = 0;
  int at;
@steps@  y[to] = x[from];
}
)";

constexpr const char* kStep = R"(  if (axes > @a@) {
    if (left <= 0x7fffffff) {
      at = (unsigned)left % (unsigned)n@a@;
      left = (unsigned)left / (unsigned)n@a@;
    } else {
      at = (int)(left % n@a@);
      left /= n@a@;
    }
    from += at * x@a@;
    to += at * y@a@;
  }
)";

/// A tile of 32 x 32: axis 0 is innermost in y, axis 1 in x.
constexpr const char* kTranspose = R"(
extern "C" __global__ void __launch_bounds__(256)
transpose(const @type@* x, @type@* y, int axes@parameters@) {
  __shared__ @type@ tile[32][33];
  Index left = blockIdx.z, from = 0, to = 0;
  int at;
@steps@  const int i = threadIdx.x % 32, first0 = blockIdx.y * 32, first1 = blockIdx.x * 32;
  for (int j = threadIdx.x / 32; j < 32; j += 8)
    if (first1 + i < n1 && first0 + j < n0) tile[j][i] = x[from + (first0 + j) * x0 + (first1 + i) * x1];
  __syncthreads();
  for (int j = threadIdx.x / 32; j < 32; j += 8)
    if (first0 + i < n0 && first1 + j < n1) y[to + (first0 + i) * y0 + (first1 + j) * y1] = tile[i][j];
}
)";

std::string text(const char* kernel, std::int64_t unit, std::size_t first_axis) {
  std::string parameters, steps;
  for (std::size_t a = 0; a < kAxes; ++a) {
    parameters += fmt::format(", int n{0}, Index x{0}, Index y{0}", a);
    if (a >= first_axis) steps += fill(kStep, {{"a", fmt::format("{}", a)}});
  }
  return prelude() + fill(kernel, {{"type", bits_type(unit)}, {"parameters", parameters}, {"steps", steps}});
}

/// Elements, or units of up to 16 bytes, side by side on both sides.
std::int64_t unit_bytes(const CopyPiece& piece, const runtime::Axes& axes, std::int64_t element) {
  std::int64_t unit = element;
  const auto fits = [&](std::int64_t bytes) {
    if (bytes > 16 || axes.inner_stride(0) != 1 || axes.inner_stride(1) != 1) return false;
    const std::int64_t elements = bytes / element;
    if (axes.inner() % elements != 0 || piece.from % elements != 0 || piece.to % elements != 0) return false;
    for (std::size_t a = 0; a + 1 < axes.sizes.size(); ++a)
      if (axes.strides[0][a] % elements != 0 || axes.strides[1][a] % elements != 0) return false;
    return true;
  };
  while (fits(unit * 2)) unit *= 2;
  return unit;
}

class StridedCopy final : public runtime::Kernel {
 public:
  Status add(const KernelRequest& request, const CopyPiece& piece) {
    const runtime::Axes axes = runtime::collapse(piece.shape, {piece.from_strides, piece.to_strides});
    for (const std::int64_t size : axes.sizes)
      if (size > std::numeric_limits<std::int32_t>::max())
        if (axes.inner_stride(0) != 1 || axes.inner_stride(1) != 1)
          return runtime::declined("an axis of {} elements", size);
    const auto element = static_cast<std::int64_t>(dtype_size(request.op->out().dtype));
    if (is_transpose(axes)) return add_transpose(request, piece, axes, element);
    const std::int64_t unit = unit_bytes(piece, axes, element), elements = unit / element;
    Part part = {piece.operand, {}, {}, {}, piece.from * element, piece.to * element};
    DIF_ASSIGN(part.kernel, device_of(request.device).kernel(text(kCopy, unit, 0), "copy", kThreads));
    const std::int64_t count = axes.rows() * (axes.inner() / elements);
    part.settings.emplace_back(count);
    add_axes(part, axes, elements);
    part.blocks = {ceil_div(count, kThreads)};
    parts_.push_back(std::move(part));
    return ok();
  }

  Status run(const runtime::KernelArgs& args) override {
    for (const Part& part : parts_) {
      runtime::BufferView x = args.in[part.operand].buffer, y = args.out[0].buffer;
      x.offset += static_cast<std::uint64_t>(part.from_bytes);
      y.offset += static_cast<std::uint64_t>(part.to_bytes);
      std::vector<Argument> arguments = {x, y};
      arguments.insert(arguments.end(), part.settings.begin(), part.settings.end());
      DIF_TRY(part.kernel.launch(part.blocks, arguments));
    }
    return ok();
  }

 private:
  struct Part {
    std::size_t operand = 0;
    CudaKernel kernel;
    Extent blocks;
    std::vector<Argument> settings;
    std::int64_t from_bytes = 0, to_bytes = 0;
  };

  /// Whether x steps evenly along another axis than y, and both are long enough for tiles.
  static bool is_transpose(const runtime::Axes& axes) {
    if (axes.sizes.size() < 2 || axes.inner_stride(1) != 1 || axes.inner_stride(0) == 1) return false;
    return axes.inner() >= kTile / 2 && even_axis(axes) < axes.sizes.size() &&
           axes.sizes[even_axis(axes)] >= kTile / 2 && axes.rows() / axes.sizes[even_axis(axes)] <= 65535 &&
           ceil_div(axes.inner(), kTile) <= 65535;
  }
  static std::size_t even_axis(const runtime::Axes& axes) {
    std::size_t a = 0;
    while (a < axes.sizes.size() && axes.strides[0][a] != 1) ++a;
    return a;
  }

  Status add_transpose(const KernelRequest& request, const CopyPiece& piece, runtime::Axes axes,
                       std::int64_t element) {
    // The even axis of x comes second from the inside.
    const std::size_t even = even_axis(axes), second = axes.sizes.size() - 2;
    const auto move = [&](std::vector<std::int64_t>& list) {
      const std::int64_t value = list[even];
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(even));
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(second), value);
    };
    move(axes.sizes);
    for (auto& list : axes.strides) move(list);
    Part part = {piece.operand, {}, {}, {}, piece.from * element, piece.to * element};
    DIF_ASSIGN(part.kernel,
               device_of(request.device).kernel(text(kTranspose, element, 2), "transpose", kThreads));
    add_axes(part, axes, 1);
    part.blocks = {ceil_div(axes.sizes[second], kTile), ceil_div(axes.inner(), kTile),
                   axes.rows() / axes.sizes[second]};
    parts_.push_back(std::move(part));
    return ok();
  }

  /// Sizes and strides, innermost first; the innermost axis counts units of `elements`.
  static void add_axes(Part& part, const runtime::Axes& axes, std::int64_t elements) {
    const std::size_t used = axes.sizes.size();
    part.settings.emplace_back(static_cast<std::int32_t>(used));
    for (std::size_t a = 0; a < kAxes; ++a) {
      const bool is_used = a < used;
      const std::size_t at = used - 1 - a;
      const bool inner = a == 0;
      part.settings.emplace_back(
          is_used ? static_cast<std::int32_t>(inner ? axes.inner() / elements : axes.sizes[at]) : 1);
      for (std::size_t side = 0; side < 2; ++side) {
        const std::int64_t stride = is_used ? axes.strides[side][at] : 0;
        part.settings.emplace_back(inner && elements > 1 ? std::int64_t{1} : stride / elements);
      }
    }
  }

  std::vector<Part> parts_;
};

}  // namespace

MakeResult make_strided_copy(const KernelRequest& request, const std::vector<CopyPiece>& pieces) {
  auto kernel = std::make_unique<StridedCopy>();
  for (const CopyPiece& piece : pieces)
    if (piece.shape.numel() != 0) DIF_TRY(kernel->add(request, piece));
  return kernel;
}

}  // namespace dif::cuda
