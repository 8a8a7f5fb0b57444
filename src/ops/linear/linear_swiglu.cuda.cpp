#include <algorithm>

#include "backends/cuda/kernels.h"
#include "backends/cuda/row_steps.h"
#include "backends/cuda/swiglu_text.h"
#include "ops/linear/linear.op.h"
#include "ops/mul/mul.op.h"
#include "ops/silu/silu.op.h"
#include "ops/slice/slice.op.h"
#include "plan/lifetimes.h"

namespace dif::cuda {

namespace {

using ir::OpId;
using ir::ValueId;

/// Who reads what, to find products whose results only a SwiGLU reads.
class Finder {
 public:
  explicit Finder(const ir::Program& program)
      : program_(program), constant_(plan::constant_values(program)), readers_(program.values.size()) {
    for (OpId id = 0; id < program.ops.size(); ++id)
      for (const ValueId operand : program.ops[id].operands) readers_[operand].push_back(id);
    for (const ir::Output& output : program.outputs) readers_[output.value].push_back(ir::kNoId);
  }

  /// The operations of the SwiGLU that ends at `mul`, ascending; empty where it is none.
  std::vector<OpId> ending_at(OpId mul) const {
    const ir::Op& op = program_.ops[mul];
    if (op.def != &ops::kMul || constant_[op.results[0]]) return {};
    for (const std::size_t bent : {0, 1}) {
      const OpId silu = producer(op.operands[bent], ops::kSilu);
      if (silu == ir::kNoId || op.operands[0] == op.operands[1]) continue;
      std::vector<OpId> found = {silu, mul};
      const OpId gate = add_half(program_.ops[silu].operands[0], found);
      const OpId up = add_half(op.operands[1 - bent], found);
      if (gate == ir::kNoId || up == ir::kNoId || !alike(gate, up, mul)) continue;
      std::ranges::sort(found);
      found.erase(std::unique(found.begin(), found.end()), found.end());
      if (only_the_last_is_read(found)) return found;
    }
    return {};
  }

 private:
  OpId producer(ValueId value, const ir::OpDef& def) const {
    const OpId id = program_.values[value].producer;
    return id != ir::kNoId && program_.ops[id].def == &def ? id : ir::kNoId;
  }

  /// The product that `value` is, or is columns of.
  OpId add_half(ValueId value, std::vector<OpId>& found) const {
    if (const OpId slice = producer(value, ops::kSlice); slice != ir::kNoId) {
      const ir::OpView view = program_.view(slice);
      if (view.i64("axis") != view.out().rank() - 1) return ir::kNoId;
      found.push_back(slice);
      value = program_.ops[slice].operands[0];
    }
    const OpId linear = producer(value, ops::kLinear);
    if (linear == ir::kNoId || program_.ops[linear].operands.size() != 2) return ir::kNoId;
    found.push_back(linear);
    return linear;
  }

  bool alike(OpId gate, OpId up, OpId mul) const {
    const ir::OpView view = program_.view(mul);
    return program_.ops[gate].operands[0] == program_.ops[up].operands[0] &&
           view.in(0).shape == view.in(1).shape;
  }

  bool only_the_last_is_read(const std::vector<OpId>& found) const {
    return std::all_of(found.begin(), found.end() - 1, [&](OpId id) {
      return std::ranges::all_of(readers_[program_.ops[id].results[0]],
                                 [&](OpId reader) { return std::ranges::binary_search(found, reader); });
    });
  }

  const ir::Program& program_;
  std::vector<bool> constant_;
  std::vector<std::vector<OpId>> readers_;  ///< per value; kNoId for an output
};

/// Rows of a weight that make one half of what SwiGLU reads.
struct Half {
  const runtime::GroupOp* linear = nullptr;
  std::int64_t first_row = 0;

  std::size_t input(std::size_t operand) const { return linear->operands[operand].index; }
};

Half half_of(const runtime::GroupRequest& request, const runtime::GroupOperand& operand) {
  const runtime::GroupOp* op = &request.ops[operand.index];
  if (&op->op->def() != &ops::kSlice) return {op, 0};
  return {&request.ops[op->operands[0].index], op->op->i64("start")};
}

struct Sizes {
  std::int64_t rows = 0, columns = 0, depth = 0;
  std::int64_t x_row = 0, y_row = 0;

  std::int64_t row_pairs() const { return ceil_div(rows, 2 * kSwigluRows); }
  std::int64_t column_tiles() const { return ceil_div(columns, kSwigluColumns); }
  std::int64_t tiles() const { return row_pairs() * column_tiles(); }
};

/// Pairs of blocks that run at one time.
std::int64_t clusters_of(const CudaDevice& device) {
  return std::max(device.facts().multiprocessors / 2, 1);
}

class LinearSwiglu final : public runtime::Kernel {
 public:
  LinearSwiglu(CudaDevice& device, CudaKernel kernel, const Sizes& sizes, const Half& gate, const Half& up)
      : device_(device),
        kernel_(kernel),
        sizes_(sizes),
        gate_(place(gate)),
        up_(place(up)),
        x_(gate.input(0)) {}

  Status run(const runtime::KernelArgs& args) override {
    CUtensorMap x, gate, up, y;
    DIF_TRY(map(x, args.in[x_].buffer, 0, sizes_.rows, sizes_.depth, sizes_.x_row, kSwigluRows));
    DIF_TRY(map(gate, args.in[gate_.input].buffer, gate_.offset, sizes_.columns, sizes_.depth, sizes_.depth,
                kSwigluColumns));
    DIF_TRY(map(up, args.in[up_.input].buffer, up_.offset, sizes_.columns, sizes_.depth, sizes_.depth,
                kSwigluColumns));
    DIF_TRY(map(y, args.out[0].buffer, 0, sizes_.rows, sizes_.columns, sizes_.y_row, 64));
    return kernel_.launch({2 * std::min(clusters_of(device_), sizes_.tiles())},
                          {&x, &gate, &up, &y, static_cast<std::int32_t>(sizes_.row_pairs()),
                           static_cast<std::int32_t>(sizes_.column_tiles()),
                           static_cast<std::int32_t>(ceil_div(sizes_.depth, kSwigluDepth))});
  }

 private:
  /// Of weights: which input of the group, and the byte where they begin.
  struct Place {
    std::size_t input = 0;
    std::uint64_t offset = 0;
  };
  Place place(const Half& half) const {
    return {half.input(1), static_cast<std::uint64_t>(half.first_row * sizes_.depth) * 2};
  }

  /// Describes rows of bf16 to the copy engine, in boxes of 64 columns.
  Status map(CUtensorMap& result, runtime::BufferView buffer, std::uint64_t offset, std::int64_t rows,
             std::int64_t columns, std::int64_t step, std::uint32_t box_rows) const {
    const cuuint64_t extents[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
    const cuuint64_t steps[] = {static_cast<cuuint64_t>(step) * 2};
    const cuuint32_t box[] = {64, box_rows}, each[] = {1, 1};
    return device_.driver().checked(
        "cuTensorMapEncodeTiled",
        device_.driver().cuTensorMapEncodeTiled(
            &result, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, buffer.pointer() + offset, extents, steps, box,
            each, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  }

  CudaDevice& device_;
  CudaKernel kernel_;
  const Sizes sizes_;
  const Place gate_, up_;
  const std::size_t x_;
};

/// Rows that follow each other evenly are one matrix, whatever their batches.
Result<Sizes> sizes_of(const runtime::GroupRequest& request, const Half& gate) {
  const ir::TensorType &x = gate.linear->op->in(0), &y = request.ops.back().op->out();
  Sizes sizes;
  sizes.columns = y.dim(-1);
  sizes.depth = x.dim(-1);
  sizes.rows = sizes.columns == 0 ? 0 : y.numel() / sizes.columns;
  if (sizes.rows == 0 || sizes.columns == 0 || sizes.depth == 0)
    return runtime::declined("it has no elements");
  const std::int64_t rows = x.rank() > 1 ? x.dim(-2) : 1;
  const auto row_of = [&](std::span<const plan::Pitch> pitches, std::size_t i,
                          std::int64_t width) -> Result<std::int64_t> {
    const plan::Pitch pitch = i < pitches.size() ? pitches[i] : plan::Pitch();
    const RowSteps steps = row_steps(pitch, rows, width);
    const bool by_row = pitch.dense() || pitch.run == width || pitch.run == rows * width;
    if (!by_row || (sizes.rows != rows && steps.batch != rows * steps.row))
      return runtime::declined("its rows do not follow each other evenly");
    if (steps.row % 8 != 0)
      return runtime::declined("rows of {} elements are no multiples of 16 bytes", width);
    return steps.row;
  };
  DIF_ASSIGN(sizes.x_row, row_of(request.in_pitches, gate.input(0), sizes.depth));
  DIF_ASSIGN(sizes.y_row, row_of(request.out_pitches, 0, sizes.columns));
  if (sizes.depth % 8 != 0)
    return runtime::declined("rows of {} elements are no multiples of 16 bytes", sizes.depth);
  if (std::max({sizes.rows, sizes.columns, sizes.depth}) > INT32_MAX / 256)
    return runtime::declined("{} rows, {} columns, {} deep", sizes.rows, sizes.columns, sizes.depth);
  return sizes;
}

}  // namespace

std::vector<std::vector<OpId>> find_linear_swiglus(const ir::Program& program) {
  const Finder finder(program);
  std::vector<std::vector<OpId>> all;
  for (OpId id = 0; id < program.ops.size(); ++id)
    if (std::vector<OpId> found = finder.ending_at(id); !found.empty()) all.push_back(std::move(found));
  return all;
}

MakeResult make_linear_swiglu(const runtime::GroupRequest& request) {
  CudaDevice& device = device_of(request.device);
  if (device.facts().capability != 90)
    return runtime::declined("it is written for compute capability 9.0 alone");
  // Alone it is a few percent faster than the kernels in its place; within a step that is not measured.
  if (const runtime::KernelChoices* const choices = device.choices();
      choices == nullptr || choices->linear == nullptr)
    return runtime::declined("it runs where the caller asks for it (--fuse-linear-swiglu)");
  const runtime::GroupOp& mul = request.ops.back();
  if (mul.op->out().dtype != DType::kBF16)
    return runtime::declined("it computes in bf16, not {}", mul.op->out().dtype);
  const bool first = mul.operands[0].inside && &request.ops[mul.operands[0].index].op->def() == &ops::kSilu;
  const runtime::GroupOp& silu = request.ops[mul.operands[first ? 0 : 1].index];
  const Half gate = half_of(request, silu.operands[0]);
  const Half up = half_of(request, mul.operands[first ? 1 : 0]);
  DIF_ASSIGN(const Sizes sizes, sizes_of(request, gate));
  DIF_ASSIGN(const CudaKernel kernel,
             device.kernel(swiglu_text(), "multiply_swiglu", kSwigluThreads, kSwigluShared));
  return std::make_unique<LinearSwiglu>(device, kernel, sizes, gate, up);
}

}  // namespace dif::cuda
