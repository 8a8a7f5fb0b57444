#include "opt/image_stages.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/checked_math.h"
#include "base/error.h"
#include "ops/add/add.op.h"
#include "ops/add_scalar/add_scalar.op.h"
#include "ops/cast/cast.op.h"
#include "ops/conv2d/conv2d.op.h"
#include "ops/group_norm/group_norm.op.h"
#include "ops/mul/mul.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/silu/silu.op.h"
#include "ops/slice/slice.op.h"
#include "ops/sub/sub.op.h"
#include "ops/transpose/transpose.op.h"
#include "ops/upsample_nearest/upsample_nearest.op.h"
#include "opt/editor.h"

namespace dif::opt {

using ir::OpId;
using ir::ValueId;

namespace {

constexpr const ir::OpDef* kElementwise[] = {&ops::kAdd,  &ops::kSub,       &ops::kMul, &ops::kAddScalar,
                                             &ops::kCast, &ops::kMulScalar, &ops::kSilu};

bool is_elementwise(const ir::Op& op) {
  return std::ranges::find(kElementwise, op.def) != std::end(kElementwise);
}

bool is_norm(const ir::Op& op) {
  return op.def == &ops::kGroupNorm;
}

/// Whether the operation's first operand and its result are images whose layout an attribute names.
bool names_layout(const ir::Op& op) {
  return op.def == &ops::kConv2d || op.def == &ops::kUpsampleNearest || is_norm(op);
}

int named_row_axis(const ir::OpView& op) {
  return op.flag("channels_last") ? 1 : 2;
}

}  // namespace

Rows SlabProgram::moved(const Rows& rows, std::int64_t height, std::int64_t first) const {
  const std::int64_t by = first * height / outputs.front().height;
  return {rows.begin + by, rows.end + by};
}

Result<ImageStages> ImageStages::find(const ir::Program& program) {
  ImageStages found(program);
  found.find_constants();
  found.find_row_axes();
  DIF_TRY(found.number_stages());
  DIF_TRY(found.fill_stages());
  return found;
}

void ImageStages::find_constants() {
  for (const ir::ValueInfo& value : program_->values)
    constant_.push_back(value.kind == ir::ValueKind::kConstant);
  for (const ir::Op& op : program_->ops)
    for (const ValueId result : op.results)
      constant_[result] =
          !op.operands.empty() && std::ranges::all_of(op.operands, [&](ValueId v) { return constant_[v]; });
}

/// From operations that name their layout to those between them, in both directions.
void ImageStages::find_row_axes() {
  row_axes_.assign(program_->values.size(), -1);
  const auto share = [&](const ir::Op& op) {
    const ir::TensorType& type = program_->type(op.results[0]);
    if (type.rank() != 4 || constant_[op.results[0]]) return;
    int& result = row_axes_[op.results[0]];
    if (names_layout(op)) {
      const OpId id = program_->values[op.results[0]].producer;
      result = row_axes_[op.operands[0]] = named_row_axis(program_->view(id));
    } else if (op.def == &ops::kTranspose) {
      const auto& perm = std::get<ir::Integers>(op.attrs[0]);
      int& operand = row_axes_[op.operands[0]];
      for (int axis = 0; axis < 4; ++axis)
        if (operand >= 0 && perm[static_cast<std::size_t>(axis)] == operand) result = axis;
      if (operand < 0 && result >= 0) operand = static_cast<int>(perm[static_cast<std::size_t>(result)]);
    } else if (is_elementwise(op)) {
      for (const ValueId operand : op.operands) {
        if (program_->type(operand).shape != type.shape || constant_[operand]) continue;
        if (result < 0) result = row_axes_[operand];
        if (row_axes_[operand] < 0) row_axes_[operand] = result;
      }
    }
  };
  for (const ir::Op& op : program_->ops) share(op);
  for (auto op = program_->ops.rbegin(); op != program_->ops.rend(); ++op) share(*op);
}

std::int64_t ImageStages::height(ValueId image) const {
  return program_->type(image).dim(row_axes_[image]);
}

/// Whether rows of the result depend on rows nearby of images alone, or on a norm's statistics.
bool ImageStages::is_local(const ir::Op& op) const {
  const ValueId result = op.results[0];
  const int axis = row_axes_[result];
  if (axis < 0 || program_->type(result).dim(0) != 1) return false;
  const ir::OpView view = program_->view(program_->values[result].producer);
  if (names_layout(op)) {
    const bool others_constant =
        std::all_of(op.operands.begin() + 1, op.operands.end(), [&](ValueId v) { return constant_[v]; });
    if (constant_[op.operands[0]] || !others_constant || axis != named_row_axis(view)) return false;
    return op.def != &ops::kConv2d || view.i64s("strides")[0] == 1;
  }
  if (op.def == &ops::kTranspose) {
    const auto& perm = view.i64s("perm");
    return perm[0] == 0 && perm[static_cast<std::size_t>(axis)] == row_axes_[op.operands[0]];
  }
  return is_elementwise(op) && std::ranges::all_of(op.operands, [&](ValueId operand) {
           const ir::TensorType& type = program_->type(operand);
           const int own = axis - (4 - type.rank());
           if (constant_[operand]) return own < 0 || type.dim(own) == 1;
           return type.shape == view.out().shape && row_axes_[operand] == axis;
         });
}

/// A value's stage follows from how many norms lie between it and the end.
Status ImageStages::number_stages() {
  const ir::Program& program = *program_;
  std::vector<bool> whole(program.values.size());  // needed by an operation that is not local
  std::vector<int> norms_behind(program.values.size(), -1);
  for (const ir::Output& output : program.outputs) norms_behind[output.value] = 0;
  std::vector<bool> in_tail(program.ops.size());
  for (OpId id = static_cast<OpId>(program.ops.size()); id-- > 0;) {
    const ir::Op& op = program.ops[id];
    const ValueId result = op.results[0];
    if (constant_[result]) continue;
    const bool early = whole[result] || !is_local(op);
    in_tail[id] = !early;
    for (const ValueId operand : op.operands) {
      if (early) whole[operand] = true;
      if (!early && !constant_[operand])
        norms_behind[operand] =
            std::max(norms_behind[operand], norms_behind[result] + static_cast<int>(is_norm(op)));
    }
  }
  int most = 0;
  for (OpId id = 0; id < program.ops.size(); ++id)
    if (in_tail[id])
      for (const ValueId operand : program.ops[id].operands) most = std::max(most, norms_behind[operand]);
  if (most == 0)
    return fail(ErrorCode::kDeclined,
                "program {} has no group_norm behind its last operation that needs "
                "whole images",
                program.name);
  made_in_.assign(program.values.size(), -1);
  stages_.resize(static_cast<std::size_t>(most));
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const ValueId result = program.ops[id].results[0];
    if (!in_tail[id] || norms_behind[result] < 0) continue;
    made_in_[result] = most - 1 - norms_behind[result];
    if (made_in_[result] >= 0) stages_[static_cast<std::size_t>(made_in_[result])].ops.push_back(id);
  }
  return ok();
}

Status ImageStages::fill_stages() {
  const ir::Program& program = *program_;
  const auto add = [](std::vector<ValueId>& list, ValueId value) {
    if (std::ranges::find(list, value) == list.end()) list.push_back(value);
  };
  const auto declined = [&](std::string_view why) {
    return fail(ErrorCode::kDeclined, "program {} is not cut into slabs: {}", program.name, why);
  };
  for (std::size_t s = 0; s < stages_.size(); ++s)
    for (const OpId id : stages_[s].ops) {
      const ir::Op& op = program.ops[id];
      if (is_norm(op)) stages_[s].norms.push_back(id);
      if (op.def == &ops::kUpsampleNearest) stages_[s].row_multiple *= program.view(id).i64("factor");
      for (const ValueId operand : op.operands) {
        if (constant_[operand] || made_in_[operand] == static_cast<int>(s)) continue;
        if (program.values[operand].kind == ir::ValueKind::kInput) return declined("it reads an input late");
        add(stages_[s].reads, operand);
        if (made_in_[operand] >= 0) add(stages_[static_cast<std::size_t>(made_in_[operand])].writes, operand);
      }
    }
  for (const ir::Output& output : program.outputs) {
    if (made_in_[output.value] < 0) return declined("it gives more than an image");
    add(stages_[static_cast<std::size_t>(made_in_[output.value])].writes, output.value);
  }
  for (Stage& stage : stages_) {
    if (stage.writes.empty()) return declined("a stage gives nothing");
    stage.height = height(stage.writes.front());
    for (const ValueId image : stage.writes)
      if (height(image) != stage.height) return declined("a stage gives images of several heights");
    for (const ValueId image : stage.reads)
      if (stage.height % height(image) != 0 || height(image) == 0 ||
          stage.row_multiple % (stage.height / height(image)) != 0)
        return declined("a stage reads an image of another height");
  }
  return ok();
}

std::vector<ValueId> ImageStages::images_before(std::size_t first) const {
  std::vector<ValueId> images;
  for (std::size_t s = first; s < stages_.size(); ++s)
    for (const ValueId image : stages_[s].reads)
      if (made_in_[image] < static_cast<int>(first) && std::ranges::find(images, image) == images.end())
        images.push_back(image);
  return images;
}

Result<ir::Program> ImageStages::part_before(std::size_t first) const {
  ir::Program part = *program_;
  part.outputs.clear();
  for (const ValueId image : images_before(first))
    part.outputs.push_back({fmt::format("image.{}", image), image});
  Editor editor(part);
  editor.remove_dead();
  editor.drop_constants();
  editor.finish();
  return part;
}

namespace {

/// Builds the program of one slab: first the rows that each operation needs, from the outputs back, then the
/// operations.
class SlabBuilder {
 public:
  SlabBuilder(const ImageStages& stages, std::size_t stage, std::int64_t rows)
      : stages_(stages),
        program_(stages.program()),
        stage_(stages.stages()[stage]),
        rows_(rows),
        b_(fmt::format("{}.{}", program_.name, stage)),
        needed_(program_.values.size()),
        made_(program_.values.size()) {}

  Result<SlabProgram> run() {
    find_needs();
    add_inputs();
    for (const OpId id : stage_.ops)
      if (needed_[program_.ops[id].results[0]]) emit(id);
    for (const ValueId image : stage_.writes) {
      const Rows rows = {0, rows_};
      b_.output(fmt::format("image.{}", image), rows_of(image, rows));
      slab_.outputs.push_back({image, stages_.row_axis(image), stage_.height, rows});
    }
    DIF_ASSIGN(slab_.program, b_.finish());
    return std::move(slab_);
  }

 private:
  struct Made {
    ir::Value value;
    Rows rows;
  };

  /// The rows of the first operand that rows of the result depend on.
  Rows rows_before(OpId id, const Rows& rows) const {
    const ir::OpView op = program_.view(id);
    if (&op.def() == &ops::kUpsampleNearest) {
      const std::int64_t factor = op.i64("factor");
      const auto down = [&](std::int64_t n) { return n >= 0 ? n / factor : -ceil_div(-n, factor); };
      return {down(rows.begin), down(rows.end + factor - 1)};
    }
    if (&op.def() != &ops::kConv2d) return rows;
    const std::int64_t top = op.i64s("pads")[0];
    return {rows.begin - top, rows.end - top + ops::conv2d_sizes(op).kh - 1};
  }

  void find_needs() {
    for (const ValueId image : stage_.writes) needed_[image] = Rows{0, rows_};
    for (auto id = stage_.ops.rbegin(); id != stage_.ops.rend(); ++id) {
      const ir::Op& op = program_.ops[*id];
      if (!needed_[op.results[0]]) continue;
      const Rows rows = rows_before(*id, *needed_[op.results[0]]);
      for (const ValueId operand : op.operands) {
        if (stages_.is_constant(operand)) continue;
        std::optional<Rows>& needed = needed_[operand];
        needed = needed ? Rows{std::min(needed->begin, rows.begin), std::max(needed->end, rows.end)} : rows;
      }
    }
  }

  ir::TensorType type_of(ValueId image, std::int64_t rows) const {
    ir::TensorType type = program_.type(image);
    type.shape.set_dim(stages_.row_axis(image), rows);
    return type;
  }

  void add_inputs() {
    for (const ValueId image : stage_.reads) {
      if (!needed_[image]) continue;
      const Rows rows = *needed_[image];
      const int axis = stages_.row_axis(image);
      made_[image] = {b_.input(fmt::format("image.{}", image), type_of(image, rows.count())), rows};
      slab_.inputs.push_back({image, axis, program_.type(image).dim(axis), rows});
    }
    for (const OpId id : stage_.norms) {
      if (!needed_[program_.ops[id].results[0]]) continue;
      const ir::TensorType type = {DType::kF32, {ops::group_norm_sizes(program_.view(id)).channels}};
      slab_.norms.push_back(id);
      statistics_.push_back(
          {b_.input(fmt::format("mean.{}", id), type), b_.input(fmt::format("scale.{}", id), type)});
    }
    for (const OpId id : stage_.ops) {
      const ir::Op& op = program_.ops[id];
      if (op.def != &ops::kConv2d || !needed_[op.results[0]]) continue;
      const auto& pads = std::get<ir::Integers>(op.attrs[1]);
      if (pads[0] == 0 && pads[2] == 0) continue;
      const ValueId x = op.operands[0];
      const Rows rows = rows_before(id, *needed_[op.results[0]]);
      Shape shape = {1, 1, 1, 1};
      shape.set_dim(stages_.row_axis(x), rows.count());
      const ir::TensorType type = {program_.type(x).dtype, shape};
      masks_.push_back({id, b_.input(fmt::format("rows.{}", id), type)});
      slab_.masks.push_back({type, program_.type(x).dim(stages_.row_axis(x)), rows});
    }
  }

  ir::Value rows_of(ValueId image, const Rows& rows) {
    const Made& made = made_[image];
    if (made.rows == rows) return made.value;
    return b_.emit(
        ops::kSlice, {made.value},
        {std::int64_t{stages_.row_axis(image)}, rows.begin - made.rows.begin, rows.end - made.rows.begin});
  }

  /// A value that depends on constants alone, with what it depends on.
  ir::Value constant(ValueId id) {
    if (made_[id].value.valid()) return made_[id].value;
    const ir::ValueInfo& info = program_.values[id];
    if (info.kind == ir::ValueKind::kConstant) {
      made_[id].value = b_.constant(info.name, info.type);
    } else {
      const ir::Op& op = program_.ops[info.producer];
      std::vector<ir::Value> operands;
      for (const ValueId operand : op.operands) operands.push_back(constant(operand));
      const ir::Builder::Scope scope(b_, module_of(info.producer));
      made_[id].value = b_.emit(*op.def, operands, op.attrs);
    }
    return made_[id].value;
  }

  std::string module_of(OpId id) const {
    const auto& modules = program_.provenance.op_modules;
    return id < modules.size() ? modules[id] : "";
  }

  void emit(OpId id) {
    const ir::Op& op = program_.ops[id];
    const Rows rows = *needed_[op.results[0]];
    const Rows before = rows_before(id, rows);
    std::vector<ir::Value> operands;
    for (const ValueId operand : op.operands)
      operands.push_back(stages_.is_constant(operand) ? constant(operand) : rows_of(operand, before));
    const ir::Builder::Scope scope(b_, module_of(id));
    Made& made = made_[op.results[0]];
    made.rows = rows;
    if (is_norm(op)) {
      made.value = normalised(id, operands);
      return;
    }
    std::vector<ir::Attr> attrs = op.attrs;
    if (op.def == &ops::kConv2d) {
      const auto mask = std::ranges::find(masks_, id, &NamedMask::op);
      if (mask != masks_.end()) operands[0] = ops::mul(b_, operands[0], mask->value);
      auto& pads = std::get<ir::Integers>(attrs[1]);
      pads[0] = pads[2] = 0;
    }
    if (op.def == &ops::kUpsampleNearest) {
      const std::int64_t factor = program_.view(id).i64("factor");
      made.rows = {before.begin * factor, before.end * factor};
    }
    made.value = b_.emit(*op.def, operands, std::move(attrs));
  }

  /// (x - mean) * scale * w + bias in f32, rounded once to the dtype of x.
  ir::Value normalised(OpId id, const std::vector<ir::Value>& operands) {
    const auto in_f32 = [&](ir::Value x) {
      return x.dtype() == DType::kF32 ? x : ops::cast(b_, x, DType::kF32);
    };
    const Statistics& statistics =
        statistics_[static_cast<std::size_t>(std::ranges::find(slab_.norms, id) - slab_.norms.begin())];
    const std::int64_t channels = statistics.mean.dim(0);
    const auto per_channel = [&](ir::Value x) {
      return ops::group_norm_sizes(program_.view(id)).channels_last ? x
                                                                    : ops::reshape(b_, x, {channels, 1, 1});
    };
    const ir::Value factor = ops::mul(b_, statistics.scale, in_f32(operands[1]));
    const ir::Value centred = ops::sub(b_, in_f32(operands[0]), per_channel(statistics.mean));
    const ir::Value y =
        ops::add(b_, ops::mul(b_, centred, per_channel(factor)), per_channel(in_f32(operands[2])));
    return operands[0].dtype() == DType::kF32 ? y : ops::cast(b_, y, operands[0].dtype());
  }

  struct Statistics {
    ir::Value mean, scale;
  };
  struct NamedMask {
    OpId op;
    ir::Value value;
  };

  const ImageStages& stages_;
  const ir::Program& program_;
  const ImageStages::Stage& stage_;
  const std::int64_t rows_;
  ir::Builder b_;
  std::vector<std::optional<Rows>> needed_;  ///< per value of the program
  std::vector<Made> made_;                   ///< likewise
  std::vector<Statistics> statistics_;       ///< as slab_.norms
  std::vector<NamedMask> masks_;             ///< as slab_.masks
  SlabProgram slab_;
};

}  // namespace

Result<SlabProgram> ImageStages::slab(std::size_t stage, std::int64_t rows) const {
  return SlabBuilder(*this, stage, rows).run();
}

}  // namespace dif::opt
