#include <array>

#include "ops/add/add.op.h"
#include "ops/cast/cast.op.h"
#include "ops/concat/concat.op.h"
#include "ops/conv2d/conv2d.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/slice/slice.op.h"
#include "ops/upsample_nearest/upsample_nearest.op.h"
#include "opt/cost.h"
#include "opt/names.h"
#include "opt/pass.h"

namespace dif::opt {

namespace {

using ir::OpId;
using ir::ValueId;

/// The 2x upsampling in front of a 3x3 convolution that keeps the size, both with channels last; null where
/// it is none, or where others read the large image too.
const ir::Op* upsampling_of(const Editor& editor, const ir::OpView& conv, const ir::Op& op) {
  const ops::Conv2dSizes s = ops::conv2d_sizes(conv);
  const bool fits = s.channels_last && s.groups == 1 && s.kh == 3 && s.kw == 3 &&
                    conv.i64s("strides") == std::vector<std::int64_t>{1, 1} &&
                    conv.i64s("pads") == std::vector<std::int64_t>{1, 1, 1, 1};
  const ir::Op* up = editor.producer(op.operands[0]);
  if (!fits || up == nullptr || up->def != &ops::kUpsampleNearest) return nullptr;
  const bool doubles = up->attrs[0] == ir::Attr(std::int64_t{2}) && up->attrs[1] == ir::Attr(true);
  return doubles && editor.has_one_reader(op.operands[0]) && editor.is_constant(op.operands[1]) ? up
                                                                                                : nullptr;
}

/// Whether what is not multiplied any more weighs more than putting four images together in two steps.
bool pays(const ir::OpView& conv) {
  const double bytes =
      static_cast<double>(conv.out().bytes()) * 4 - static_cast<double>(conv.in(0).bytes()) * 2;
  return ir::flops(conv) * 5 / 9 > kFlopsPerByte * bytes;
}

/// Each pixel of the small image is 2 x 2 pixels of the large one. Of the nine that a pixel of the result
/// reads, those that are one pixel of the small image have their weights added: per row, the first and the
/// sum of the others, or the sum of the first two and the last; columns alike. So four convolutions with 2 x
/// 2 weights give the four pixels of the result.
class Folding {
 public:
  Folding(Editor& editor, OpId conv) : editor_(editor), id_(conv), op_(editor.op(conv)) {}

  Status run(ValueId small) {
    const DType dtype = editor_.type(op_.operands[1]).dtype;
    ValueId filters = op_.operands[1];
    if (dtype != DType::kF32) {
      DIF_ASSIGN(filters, emit(ops::kCast, {filters}, {DType::kF32}));
    }
    DIF_ASSIGN(const Pair rows, sums(filters, 1));
    std::vector<ValueId> lines;
    for (std::size_t row = 0; row < 2; ++row) {
      DIF_ASSIGN(const Pair columns, sums(rows[row], 2));
      std::vector<ValueId> pixels;
      for (std::size_t column = 0; column < 2; ++column) {
        ValueId filter = columns[column];
        if (dtype != DType::kF32) {
          DIF_ASSIGN(filter, emit(ops::kCast, {filter}, {dtype}));
        }
        DIF_ASSIGN(const ValueId pixel, convolve(small, filter, row, column));
        pixels.push_back(pixel);
      }
      DIF_ASSIGN(const ValueId line, emit(ops::kConcat, std::move(pixels), {std::int64_t{4}}));
      lines.push_back(line);
    }
    DIF_ASSIGN(const ValueId all, emit(ops::kConcat, std::move(lines), {std::int64_t{2}}));
    const auto dims = editor_.type(op_.results[0]).shape.dims();
    DIF_ASSIGN(const ValueId large,
               emit(ops::kReshape, {all}, {std::vector<std::int64_t>(dims.begin(), dims.end())}));
    editor_.replace(op_.results[0], large);
    return ok();
  }

 private:
  using Pair = std::array<ValueId, 2>;

  Result<ValueId> emit(const ir::OpDef& def, std::vector<ValueId> operands, std::vector<ir::Attr> attrs) {
    return editor_.emit(id_, def, std::move(operands), std::move(attrs), id_);
  }

  /// Three weights along `axis` as two: for the first and for the second pixel.
  Result<Pair> sums(ValueId filters, std::int64_t axis) {
    std::vector<ValueId> w;
    for (std::int64_t i = 0; i < 3; ++i) {
      DIF_ASSIGN(const ValueId one, emit(ops::kSlice, {filters}, {axis, i, i + 1}));
      w.push_back(one);
    }
    DIF_ASSIGN(const ValueId last_two, emit(ops::kAdd, {w[1], w[2]}, {}));
    DIF_ASSIGN(const ValueId first_two, emit(ops::kAdd, {w[0], w[1]}, {}));
    DIF_ASSIGN(const ValueId first, emit(ops::kConcat, {w[0], last_two}, {axis}));
    DIF_ASSIGN(const ValueId second, emit(ops::kConcat, {first_two, w[2]}, {axis}));
    return Pair{first, second};
  }

  /// One pixel of each four, [N, H, 1, W, 1, C].
  Result<ValueId> convolve(ValueId small, ValueId filter, std::size_t row, std::size_t column) {
    std::vector<ValueId> operands = {small, filter};
    if (op_.operands.size() > 2) operands.push_back(op_.operands[2]);
    const auto before = [](std::size_t pixel) { return static_cast<std::int64_t>(1 - pixel); };
    const auto after = [](std::size_t pixel) { return static_cast<std::int64_t>(pixel); };
    DIF_ASSIGN(const ValueId image,
               emit(ops::kConv2d, std::move(operands),
                    {std::vector<std::int64_t>{1, 1},
                     std::vector<std::int64_t>{before(row), before(column), after(row), after(column)},
                     std::int64_t{1}, true}));
    const Shape shape = editor_.type(image).shape;
    return emit(ops::kReshape, {image},
                {std::vector<std::int64_t>{shape.dim(0), shape.dim(1), 1, shape.dim(2), 1, shape.dim(3)}});
  }

  Editor& editor_;
  const OpId id_;
  const ir::Op op_;
};

Status fold_all(Editor& editor, Decisions& decisions) {
  for (const OpId id : editor.order()) {
    if (!editor.is_alive(id) || editor.op(id).def != &ops::kConv2d) continue;
    const ir::OpView conv = editor.view(id);
    const ir::Op* up = upsampling_of(editor, conv, editor.op(id));
    if (up == nullptr || editor.type(up->operands[0]).numel() == 0 || !pays(conv)) continue;
    decisions.push_back({"", subject_of(editor.program(), id), "folded",
                         "four 2 x 2 convolutions of the small image with summed weights"});
    DIF_TRY(Folding(editor, id).run(up->operands[0]));
  }
  return ok();
}

}  // namespace

const Pass kFoldUpsample = {
    .name = "fold_upsample",
    .summary = "Convolve the small image with summed weights where a 3x3 convolution reads it upsampled.",
    .exact = false,
    .function = fold_all,
};

}  // namespace dif::opt
