#include "backends/opencl/kernels.h"
#include "backends/opencl/tile_text.h"
#include "base/checked_math.h"

namespace dif::opencl {

namespace {

constexpr Tile kTile = {6, 2};
/// Rows of one work-group: that many tiles take turns with a piece of the weights that fits the first cache.
constexpr std::int64_t kTilesOfGroup = 8;
constexpr std::int64_t kRowsOfGroup = kTilesOfGroup * kTile.rows;
constexpr int kDepthOfPiece = 256;

constexpr Groups kFlat = {64, 1, 1};
constexpr Groups kOne = {1, 1, 1};

/// w [O, I] becomes panels of 32 columns of its transpose, [ceil(O / 32), I, 32], zeros beyond O.
constexpr const char* kPack = R"(
kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void pack(@pack_buffers@int depth, int columns) {
  VIEW(const @S@_bits, w);
  VIEW(@S@_bits, packed);
  const int k = get_global_id(0), first = get_global_id(1) * @columns@;
  if (k >= depth) return;
  packed += (long)first * depth + k * @columns@;
  for (int j = 0; j < @columns@; ++j)
    packed[j] = first + j < columns ? w[(long)(first + j) * depth + k] : (@S@_bits)0;
}
)";

constexpr const char* kWiden = R"(
kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void widen(@widen_buffers@int count) {
  VIEW(const @S@_bits, x);
  VIEW(float, y);
  const int i = get_global_id(0) * 16;
  if (i < count) store16_f32(y + i, count - i, load16_@S@(x + i, count - i));
}
)";

constexpr const char* kMultiply = R"(
kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply(@buffers@int rows, int columns, int depth, int biased) {
  VIEW(const float, x);
  VIEW(const @S@_bits, packed);
  VIEW(const @S@_bits, bias);
  VIEW(@S@_bits, y);
  const int first_row = get_global_id(1) * @group_rows@, first = get_global_id(0) * @columns@;
  const int n_tiles = min(@group_tiles@, (rows - first_row + @tile_rows@ - 1) / @tile_rows@);
  packed += (long)first * depth;
  float16 sums[@group_tiles@ * @tile_sums@];
  for (int i = 0; i < n_tiles * @tile_sums@; ++i) sums[i] = 0;
  for (int k0 = 0; k0 < depth; k0 += @piece@) {
    const int end = min(depth, k0 + @piece@);
    for (int tile = 0; tile < n_tiles; ++tile) {
      const int row = first_row + tile * @tile_rows@;
      float16* kept = sums + tile * @tile_sums@;
@load@    for (int k = k0; k < end; ++k) {
@multiply@      }
@save@    }
  }
  for (int r = 0; r < @group_rows@ && first_row + r < rows; ++r) {
    for (int v = 0; v < @vectors@; ++v) {
      const int column = first + 16 * v;
      const int count = columns - column;
      float16 sum = sums[r * @vectors@ + v];
      if (biased) sum += load16_@S@(bias + column, count);
      store16_@S@(y + (long)(first_row + r) * columns + column, count, sum);
    }
  }
}
)";

std::string text(DType dtype) {
  const std::string s = storage(dtype);
  const auto number = [](std::int64_t n) { return fmt::format("{}", n); };
  const std::string multiply = multiply_add(
      kTile, "x@r@[k]", fmt::format("load16_{}(packed + k * {} + 16 * @v@, 16)", s, kTile.columns()));
  return prelude() +
         fill(kPack, {{"pack_buffers", buffer_parameters({"w", "packed"})},
                      {"S", s},
                      {"columns", number(kTile.columns())}}) +
         fill(kWiden, {{"widen_buffers", buffer_parameters({"x", "y"})}, {"S", s}}) +
         fill(kMultiply,
              {{"buffers", buffer_parameters({"x", "packed", "bias", "y"})},
               {"S", s},
               {"group_rows", number(kRowsOfGroup)},
               {"group_tiles", number(kTilesOfGroup)},
               {"tile_rows", number(kTile.rows)},
               {"tile_sums", number(kTile.rows * kTile.vectors)},
               {"columns", number(kTile.columns())},
               {"vectors", number(kTile.vectors)},
               {"piece", number(kDepthOfPiece)},
               {"load",
                each_row(kTile,
                         "      global const float* x@r@ = x + (long)min(row + @r@, rows - 1) * depth;\n") +
                    each_sum(kTile,
                             fmt::format("      float16 s@r@_@v@ = kept[@r@ * {} + @v@];\n", kTile.vectors))},
               {"multiply", multiply},
               {"save",
                each_sum(kTile, fmt::format("      kept[@r@ * {} + @v@] = s@r@_@v@;\n", kTile.vectors))}});
}

/// Weights are packed once when they are constant, else into the workspace of each run; so are activations
/// that are not f32.
class Linear final : public runtime::Kernel {
 public:
  explicit Linear(const ir::OpView& op)
      : dtype_(op.out().dtype),
        depth_(op.in(1).dim(1)),
        columns_(op.in(1).dim(0)),
        rows_(depth_ == 0 ? (columns_ == 0 ? 0 : op.out().numel() / columns_) : op.in(0).numel() / depth_),
        biased_(op.has(2)) {}

  Status prepare(const KernelRequest& request) {
    OpenClDevice& device = device_of(request.device);
    const std::string source = text(dtype_);
    DIF_ASSIGN(pack_, device.kernel(source, "pack", kFlat));
    DIF_ASSIGN(widen_, device.kernel(source, "widen", kFlat));
    DIF_ASSIGN(multiply_, device.kernel(source, "multiply", kOne));
    weights_are_constant_ = static_cast<bool>(request.constants[1]);
    if (!weights_are_constant_ || request.plan_only) return ok();
    DIF_ASSIGN(packed_, runtime::DeviceBuffer::create(device, packed_bytes()));
    return pack(request.constants[1], packed_.view());
  }

  Status run(const runtime::KernelArgs& args) override {
    runtime::BufferView x = args.in[0].buffer, packed = packed_.view();
    if (dtype_ != DType::kF32) {
      DIF_TRY(widen_.launch({ceil_div(rows_ * depth_, 16 * kFlat.x), 1, 1},
                            {x, args.workspace, static_cast<std::int32_t>(rows_ * depth_)}));
      x = args.workspace;
    }
    if (!packed) {
      packed = {args.workspace.base, args.workspace.offset + widened_bytes()};
      DIF_TRY(pack(args.in[1].buffer, packed));
    }
    return multiply_.launch(
        {panels(), ceil_div(rows_, kRowsOfGroup), 1},
        {x, packed, args.in[biased_ ? 2 : 0].buffer, args.out[0].buffer, static_cast<std::int32_t>(rows_),
         static_cast<std::int32_t>(columns_), static_cast<std::int32_t>(depth_), std::int32_t{biased_}});
  }

  std::uint64_t workspace_bytes() const override {
    return widened_bytes() + (weights_are_constant_ ? 0 : packed_bytes());
  }
  std::uint64_t prepacked_bytes() const override { return weights_are_constant_ ? packed_bytes() : 0; }
  bool reads_constant(std::size_t operand) const override { return operand != 1 || !weights_are_constant_; }

 private:
  std::int64_t panels() const { return ceil_div(columns_, kTile.columns()); }
  std::uint64_t packed_bytes() const {
    return static_cast<std::uint64_t>(panels() * kTile.columns() * depth_) * dtype_size(dtype_);
  }
  std::uint64_t widened_bytes() const {
    const auto bytes = static_cast<std::uint64_t>(rows_ * depth_) * sizeof(float);
    return dtype_ == DType::kF32 ? 0 : align_up(bytes, 64);
  }
  Status pack(runtime::BufferView from, runtime::BufferView to) {
    return pack_.launch({ceil_div(depth_, kFlat.x), panels(), 1},
                        {from, to, static_cast<std::int32_t>(depth_), static_cast<std::int32_t>(columns_)});
  }

  const DType dtype_;
  const std::int64_t depth_, columns_, rows_;
  const bool biased_;
  ClKernel pack_, widen_, multiply_;
  bool weights_are_constant_ = false;
  runtime::DeviceBuffer packed_;
};

}  // namespace

MakeResult make_linear(const KernelRequest& request) {
  DIF_TRY(computable(*request.op));
  auto kernel = std::make_unique<Linear>(*request.op);
  DIF_TRY(kernel->prepare(request));
  return kernel;
}

}  // namespace dif::opencl
