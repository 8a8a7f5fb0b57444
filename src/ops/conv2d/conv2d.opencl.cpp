#include <algorithm>
#include <limits>

#include "backends/opencl/kernels.h"
#include "backends/opencl/tile_text.h"
#include "base/checked_math.h"
#include "ops/conv2d/conv2d.op.h"

namespace dif::opencl {

namespace {

constexpr Groups kFlat = {64, 1, 1};
constexpr Groups kPlane = {4, 16, 1};
constexpr Groups kOne = {1, 1, 1};
constexpr int kTileRows = 6;
/// A padded copy of more than this is made and used band by band.
constexpr std::int64_t kBandBytes = std::int64_t{64} << 20;

/// Filters become tiles of 6 channels of a group, [tiles, Ci / groups * Kh * Kw, 6] in f32, zeros beyond the
/// group's channels. A tap is an input channel and a place of the kernel.
constexpr const char* kPack = R"(
kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void pack(@pack_buffers@int taps, int places, int group_channels, int group_tiles) {
  VIEW(const @S@_bits, w);
  VIEW(float, packed);
  const int tap = get_global_id(0), tile = get_global_id(1);
  if (tap >= taps) return;
  const int first = tile % group_tiles * @rows@, channel = tile / group_tiles * group_channels + first;
  const int from = @last@ ? tap % places * (taps / places) + tap / places : tap;
  for (int r = 0; r < @rows@; ++r)
    packed[((long)tile * taps + tap) * @rows@ + r] =
        first + r < group_channels ? load_@S@(w, (long)(channel + r) * taps + from) : 0.0f;
}
)";

/// One image with its border of zeros, in f32: [Ci, padded rows, padded columns]; row 0 is row `first_row` of
/// the input (which may be above it).
constexpr const char* kPad = R"(
kernel __attribute__((reqd_work_group_size(4, 16, 1)))
void pad(@pad_buffers@int image, int channels, int height, int width, int first_row, int left,
         int padded_height, int padded_width) {
  VIEW(const @S@_bits, x);
  VIEW(float, padded);
  const int line = get_global_id(1);
  int j = get_global_id(0) * 16;
  if (line >= channels * padded_height) return;
  const int channel = line / padded_height, row = line % padded_height + first_row;
  padded += (long)line * padded_width;
  const bool inside = row >= 0 && row < height;
  if (@last@) {
    x += (((long)image * height + row) * width - left) * channels + channel;
    for (const int end = min(j + 16, padded_width); j < end; ++j)
      padded[j] = inside && j >= left && j < left + width ? load_@S@(x, (long)j * channels) : 0.0f;
    return;
  }
  x += ((long)image * channels + channel) * height * width + (long)row * width - left;
  if (inside && j >= left && j + 16 <= left + width && j + 16 <= padded_width) {
    store16_f32(padded + j, 16, load16_@S@(x + j, 16));
    return;
  }
  for (const int end = min(j + 16, padded_width); j < end; ++j)
    padded[j] = inside && j >= left && j < left + width ? load_@S@(x, j) : 0.0f;
}
)";

constexpr const char* kConvolve = R"(
kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void convolve(@buffers@int image, int channels, int kernel_height, int kernel_width, int padded_height,
              int padded_width, int row_step, int column_step, int group_channels, int group_tiles, int first_row,
              int height, int width, int biased) {
  VIEW(const float, padded);
  VIEW(const float, packed);
  VIEW(const @S@_bits, bias);
  VIEW(@S@_bits, y);
  const int tile = get_global_id(0), first = get_global_id(1) * @columns@, row = get_global_id(2);
  const int group = tile / group_tiles, first_channel = tile % group_tiles * @rows@;
  packed += (long)tile * channels * kernel_height * kernel_width * @rows@;
  padded += ((long)group * channels * padded_height + (long)row * row_step) * padded_width + first * column_step;
@start@  for (int c = 0; c < channels; ++c, padded += (long)padded_height * padded_width) {
    for (int kh = 0; kh < kernel_height; ++kh) {
      global const float* line = padded + kh * padded_width;
      for (int kw = 0; kw < kernel_width; ++kw, packed += @rows@) {
@multiply@      }
    }
  }
  float16 sums[@rows@ * @vectors@];
@save@  const int n_rows = min(@rows@, group_channels - first_channel);
  for (int r = 0; r < n_rows; ++r) {
    const int channel = group * group_channels + first_channel + r;
    const int n_channels = get_global_size(0) / group_tiles * group_channels;
    const float shift = biased ? load_@S@(bias, channel) : 0.0f;
    for (int v = 0; v < @vectors@; ++v) {
      const int column = first + 16 * v;
      const float16 sum = sums[r * @vectors@ + v] + shift;
      if (@last@) {
        float pixels[16];
        vstore16(sum, 0, pixels);
        for (int j = 0; j < 16 && column + j < width; ++j)
          store_@S@(y, (((long)image * height + first_row + row) * width + column + j) * n_channels + channel, pixels[j]);
      } else {
        store16_@S@(y + (((long)image * n_channels + channel) * height + first_row + row) * width + column,
                    width - column, sum);
      }
    }
  }
}
)";

std::string text(DType dtype, const Tile& tile, bool strided, bool channels_last) {
  const std::string s = storage(dtype), last = channels_last ? "1" : "0";
  const auto number = [](int n) { return fmt::format("{}", n); };
  std::string column = "vload16(0, line + kw + 16 * @v@)";
  if (strided) {
    column = "(float16)(";
    for (int j = 0; j < 16; ++j)
      column += fmt::format("{}line[kw + (16 * @v@ + {}) * column_step]", j == 0 ? "" : ", ", j);
    column += ")";
  }
  return prelude() +
         fill(kPack, {{"pack_buffers", buffer_parameters({"w", "packed"})},
                      {"S", s},
                      {"last", last},
                      {"rows", number(tile.rows)}}) +
         fill(kPad, {{"pad_buffers", buffer_parameters({"x", "padded"})}, {"S", s}, {"last", last}}) +
         fill(kConvolve,
              {{"buffers", buffer_parameters({"padded", "packed", "bias", "y"})},
               {"S", s},
               {"last", last},
               {"rows", number(tile.rows)},
               {"vectors", number(tile.vectors)},
               {"columns", number(tile.columns())},
               {"start", each_sum(tile, "  float16 s@r@_@v@ = 0;\n")},
               {"multiply", multiply_add(tile, "packed[@r@]", column)},
               {"save", each_sum(tile, fmt::format("  sums[@r@ * {} + @v@] = s@r@_@v@;\n", tile.vectors))}});
}

class Convolution final : public runtime::Kernel {
 public:
  explicit Convolution(const ir::OpView& op)
      : dtype_(op.out().dtype),
        shape_(op.in(0).shape),
        s_(ops::conv2d_sizes(op)),
        row_step_(op.i64s("strides")[0]),
        column_step_(op.i64s("strides")[1]),
        top_(op.i64s("pads")[0]),
        left_(op.i64s("pads")[1]),
        biased_(op.has(2)),
        tile_{kTileRows, column_step_ == 1 && s_.wo > 16 ? 2 : 1} {}

  Status prepare(const KernelRequest& request) {
    DIF_TRY(plan_bands());
    OpenClDevice& device = device_of(request.device);
    const std::string source = text(dtype_, tile_, column_step_ != 1, s_.channels_last);
    DIF_ASSIGN(pack_, device.kernel(source, "pack", kFlat));
    DIF_ASSIGN(pad_, device.kernel(source, "pad", kPlane));
    DIF_ASSIGN(convolve_, device.kernel(source, "convolve", kOne));
    weights_are_constant_ = static_cast<bool>(request.constants[1]);
    if (!weights_are_constant_ || request.plan_only) return ok();
    DIF_ASSIGN(packed_, runtime::DeviceBuffer::create(device, packed_bytes()));
    return pack(request.constants[1], packed_.view());
  }

  Status run(const runtime::KernelArgs& args) override {
    if (args.out[0].type->numel() == 0) return ok();
    runtime::BufferView packed = packed_.view();
    if (!packed) {
      packed = {args.workspace.base, args.workspace.offset + band_bytes()};
      DIF_TRY(pack(args.in[1].buffer, packed));
    }
    for (std::int64_t image = 0; image < s_.images; ++image)
      for (std::int64_t row = 0; row < s_.ho; row += band_rows_)
        DIF_TRY(convolve_band(args, packed, image, row, std::min(band_rows_, s_.ho - row)));
    return ok();
  }

  std::uint64_t workspace_bytes() const override {
    return band_bytes() + (weights_are_constant_ ? 0 : packed_bytes());
  }
  std::uint64_t prepacked_bytes() const override { return weights_are_constant_ ? packed_bytes() : 0; }
  bool reads_constant(std::size_t operand) const override { return operand != 1 || !weights_are_constant_; }

 private:
  static std::int32_t integer(std::int64_t n) { return static_cast<std::int32_t>(n); }
  std::int64_t taps() const { return s_.group_ci() * s_.kh * s_.kw; }
  std::int64_t group_channels() const { return s_.group_co(); }
  std::int64_t group_tiles() const { return ceil_div(group_channels(), tile_.rows); }
  std::uint64_t packed_bytes() const {
    return static_cast<std::uint64_t>(s_.groups * group_tiles() * taps() * tile_.rows) * sizeof(float);
  }
  std::int64_t padded_rows(std::int64_t out_rows) const { return (out_rows - 1) * row_step_ + s_.kh; }
  std::uint64_t band_bytes() const {
    const auto elements = static_cast<std::uint64_t>(s_.ci * padded_rows(band_rows_) * padded_width_);
    return align_up(elements * sizeof(float), 64);
  }

  /// How wide a padded row is, and how many rows of the result are made from one padded copy.
  Status plan_bands() {
    const std::int64_t columns =
        ceil_div(std::max<std::int64_t>(s_.wo, 1), tile_.columns()) * tile_.columns();
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 2;
    const auto width = checked_mul(columns, column_step_);
    const auto height = checked_mul(std::max<std::int64_t>(s_.ho, 1), row_step_);
    if (!width || !height || *width + s_.kw > kMost || *height + s_.kh > kMost || top_ > kMost ||
        left_ > kMost)
      return runtime::declined("steps and borders of x {} are beyond 32-bit indices", shape_);
    padded_width_ = (columns - 1) * column_step_ + s_.kw;
    const std::int64_t row_bytes = std::max<std::int64_t>(s_.ci, 1) * padded_width_ * 4;
    const std::int64_t rows = std::max<std::int64_t>((kBandBytes / row_bytes - s_.kh) / row_step_ + 1, 1);
    band_rows_ = std::clamp<std::int64_t>(rows, 1, std::max<std::int64_t>(s_.ho, 1));
    if (saturating_add<std::uint64_t>(band_bytes(), packed_bytes()) / 4 > kMost)
      return runtime::declined("one row of x {} with {} taps is beyond 32-bit indices", shape_, taps());
    return ok();
  }

  Status convolve_band(const runtime::KernelArgs& args, runtime::BufferView packed, std::int64_t image,
                       std::int64_t row, std::int64_t rows) {
    const std::int64_t height = padded_rows(rows);
    DIF_TRY(pad_.launch(
        {ceil_div(padded_width_, 16 * kPlane.x), ceil_div(s_.ci * height, kPlane.y), 1},
        {args.in[0].buffer, args.workspace, integer(image), integer(s_.ci), integer(s_.h), integer(s_.w),
         integer(row * row_step_ - top_), integer(left_), integer(height), integer(padded_width_)}));
    return convolve_.launch(
        {s_.groups * group_tiles(), ceil_div(s_.wo, tile_.columns()), rows},
        {args.workspace, packed, args.in[biased_ ? 2 : 0].buffer, args.out[0].buffer, integer(image),
         integer(s_.group_ci()), integer(s_.kh), integer(s_.kw), integer(height), integer(padded_width_),
         integer(row_step_), integer(column_step_), integer(group_channels()), integer(group_tiles()),
         integer(row), integer(s_.ho), integer(s_.wo), std::int32_t{biased_}});
  }

  Status pack(runtime::BufferView from, runtime::BufferView to) {
    return pack_.launch({ceil_div(taps(), kFlat.x), s_.groups * group_tiles(), 1},
                        {from, to, integer(taps()), integer(s_.kh * s_.kw), integer(group_channels()),
                         integer(group_tiles())});
  }

  const DType dtype_;
  const Shape shape_;  ///< of x
  const ops::Conv2dSizes s_;
  const std::int64_t row_step_, column_step_, top_, left_;
  const bool biased_;
  const Tile tile_;
  std::int64_t padded_width_ = 0, band_rows_ = 1;
  ClKernel pack_, pad_, convolve_;
  bool weights_are_constant_ = false;
  runtime::DeviceBuffer packed_;
};

}  // namespace

MakeResult make_conv2d(const KernelRequest& request) {
  DIF_TRY(computable(*request.op));
  auto kernel = std::make_unique<Convolution>(*request.op);
  DIF_TRY(kernel->prepare(request));
  return kernel;
}

}  // namespace dif::opencl
