#include "ops/conv2d/conv2d.op.h"

#include <algorithm>

#include "ops/common/checks.h"

namespace dif::ops {

namespace {

/// Size of one spatial axis of the result; nothing when the kernel does not fit.
std::optional<std::int64_t> out_size(std::int64_t in, std::int64_t kernel, std::int64_t stride,
                                     std::int64_t before, std::int64_t after) {
  const std::int64_t padded = saturating_add(in, saturating_add(before, after));
  if (kernel < 1 || kernel > padded) return std::nullopt;
  return (padded - kernel) / stride + 1;
}

int channel_axis(const ir::OpView& op) {
  return op.flag("channels_last") ? 3 : 1;
}

/// Of x, w and y alike.
int row_axis(const ir::OpView& op) {
  return op.flag("channels_last") ? 1 : 2;
}

std::optional<std::int64_t> out_rows(const ir::OpView& op) {
  const int axis = row_axis(op);
  return out_size(op.in(0).dim(axis), op.in(1).dim(axis), op.i64s("strides")[0], op.i64s("pads")[0],
                  op.i64s("pads")[2]);
}

std::optional<std::int64_t> out_columns(const ir::OpView& op) {
  const int axis = row_axis(op) + 1;
  return out_size(op.in(0).dim(axis), op.in(1).dim(axis), op.i64s("strides")[1], op.i64s("pads")[1],
                  op.i64s("pads")[3]);
}

bool all_within(const std::vector<std::int64_t>& numbers, std::size_t count, std::int64_t least) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // as dimensions: kernels may add and multiply them
  return numbers.size() == count &&
         std::ranges::all_of(numbers, [&](std::int64_t n) { return n >= least && n <= kMost; });
}

}  // namespace

const ir::OpDef kConv2d = {
    .name = "conv2d",
    .operands = {{"x"}, {"w"}, {"bias", ir::Arity::kOptional}},
    .attrs = {{"strides", std::vector<std::int64_t>{1, 1}},
              {"pads", std::vector<std::int64_t>{0, 0, 0, 0}},
              {"groups", std::int64_t{1}},
              {"channels_last", false, /*optional=*/true}},
    .verify = [](const ir::OpView& op) -> Status {
      const ir::TensorType &x = op.in(0), &w = op.in(1);
      const std::int64_t groups = op.i64("groups");
      if (x.rank() != 4 || w.rank() != 4) return op.broken("C1", "x is {}, w is {}: needed is rank 4", x, w);
      const int axis = channel_axis(op);
      const std::int64_t channels = x.dim(axis);
      if (groups < 1 || channels % groups != 0 || w.dim(0) % groups != 0 || w.dim(axis) != channels / groups)
        return op.broken("C2", "{} groups, x has {} channels, w is {}", groups, channels, w.shape);
      if (op.has(2) && op.in(2).shape != Shape{w.dim(0)})
        return op.broken("C3", "bias is {}, needed is [{}]", op.in(2).shape, w.dim(0));
      if (!all_within(op.i64s("strides"), 2, 1))
        return op.broken("C4", "strides are {}", list_text(op.i64s("strides")));
      if (!all_within(op.i64s("pads"), 4, 0))
        return op.broken("C4", "pads are {}", list_text(op.i64s("pads")));
      if (!out_rows(op) || !out_columns(op))
        return op.broken("C5", "kernel {} does not fit x {} with pads {}", w.shape, x.shape,
                         list_text(op.i64s("pads")));
      if (!is_float(x.dtype)) return op.broken("C6", "x is {}, needed is f32, bf16 or f16", x.dtype);
      for (std::size_t i = 1; i < op.n_ins(); ++i)
        if (op.in(i).dtype != x.dtype)
          return op.broken("C6", "{} is {}, x is {}", op.def().operands[i].name, op.in(i).dtype, x.dtype);
      return ok();
    },
    .infer = [](const ir::OpView& op) -> ir::Types {
      const std::int64_t images = op.in(0).dim(0), channels = op.in(1).dim(0);
      const Shape shape = op.flag("channels_last") ? Shape{images, *out_rows(op), *out_columns(op), channels}
                                                   : Shape{images, channels, *out_rows(op), *out_columns(op)};
      return {{op.in(0).dtype, shape}};
    },
    .flops =
        [](const ir::OpView& op) {
          const ir::TensorType& w = op.in(1);
          const double taps =
              static_cast<double>(w.dim(1)) * static_cast<double>(w.dim(2)) * static_cast<double>(w.dim(3));
          return elements(op.out()) * (2.0 * taps + (op.has(2) ? 1 : 0));
        },
};

Value conv2d(Builder& b, Value x, Value w, std::optional<Value> bias, const Conv2dOptions& options) {
  std::vector<Value> operands = {x, w};
  if (bias) operands.push_back(*bias);
  return b.emit(kConv2d, operands,
                {std::vector<std::int64_t>(options.strides.begin(), options.strides.end()),
                 std::vector<std::int64_t>(options.pads.begin(), options.pads.end()), options.groups,
                 options.channels_last});
}

Conv2dSizes conv2d_sizes(const ir::OpView& op) {
  const ir::TensorType &x = op.in(0), &w = op.in(1), &y = op.out();
  const int channels = channel_axis(op), rows = row_axis(op), columns = rows + 1;
  return {.images = x.dim(0),
          .ci = x.dim(channels),
          .h = x.dim(rows),
          .w = x.dim(columns),
          .co = y.dim(channels),
          .ho = y.dim(rows),
          .wo = y.dim(columns),
          .kh = w.dim(rows),
          .kw = w.dim(columns),
          .groups = op.i64("groups"),
          .channels_last = op.flag("channels_last")};
}

}  // namespace dif::ops
