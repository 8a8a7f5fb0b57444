#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "backends/reference/kernels.h"
#include "ops/add/add.op.h"
#include "ops/add_scalar/add_scalar.op.h"
#include "ops/cast/cast.op.h"
#include "ops/concat/concat.op.h"
#include "ops/layer_norm/layer_norm.op.h"
#include "ops/linear/linear.op.h"
#include "ops/mul/mul.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/rms_norm/rms_norm.op.h"
#include "ops/rotary/rotary.op.h"
#include "ops/silu/silu.op.h"
#include "ops/slice/slice.op.h"
#include "ops/sqrt/sqrt.op.h"
#include "runtime/executor.h"
#include "runtime/test_programs.h"

/// Groups in the executor, run by an interpreter: it takes one row after the other through the operations of
/// the group, with the reference backend's kernels, so that whatever a group promises about its rows is put
/// to the test.
namespace dif::runtime {
namespace {

using namespace test;

/// Copies what row `row` of a result of shape `shape` reads of an operand that broadcasts to it.
std::vector<std::byte> broadcast_row(const std::byte* data, const ir::TensorType& operand, const Shape& shape,
                                     std::int64_t row, std::int64_t rows) {
  const std::int64_t elements = shape.numel() / rows;
  const auto size = static_cast<std::int64_t>(dtype_size(operand.dtype));
  std::vector<std::byte> result(static_cast<std::size_t>(elements * size));
  for (std::int64_t i = 0; i < elements; ++i) {
    std::int64_t position = row * elements + i, offset = 0, stride = 1;
    for (int axis = shape.rank() - 1, own = operand.rank() - 1; own >= 0; --axis, --own) {
      const std::int64_t index = position % shape.dim(axis);
      position /= shape.dim(axis);
      if (operand.dim(own) != 1) offset += index * stride;
      stride *= operand.dim(own);
    }
    std::memcpy(result.data() + i * size, data + offset * size, static_cast<std::size_t>(size));
  }
  return result;
}

class Interpreter : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> make(const GroupRequest& request) {
    auto kernel = std::make_unique<Interpreter>();
    kernel->rows_ = request.rows;
    for (const GroupOp& op : request.ops) kernel->ops_.push_back(op);
    return kernel;
  }

  Status run(const KernelArgs& args) override {
    for (std::int64_t row = 0; row < rows_; ++row) DIF_TRY(run_row(args, row));
    return ok();
  }

 private:
  Status run_row(const KernelArgs& args, std::int64_t row) {
    std::vector<std::vector<std::byte>> results;
    for (const GroupOp& op : ops_) {
      std::vector<std::vector<std::byte>> operands;
      std::vector<ir::TensorType> types;
      for (std::size_t i = 0; i < op.operands.size(); ++i) {
        const GroupOperand& from = op.operands[i];
        const ir::TensorType& type = op.op->in(i);
        types.push_back(row_type(*op.op, i));
        if (from.inside) {
          operands.push_back(results[from.index]);
          EXPECT_EQ(operands.back().size(), types.back().bytes());
        } else {
          operands.push_back(outside(*op.op, i, args.in[from.index], row));
        }
        EXPECT_EQ(type.dtype, types.back().dtype);
      }
      const ir::OpView view = row_view(*op.op, types);
      std::vector<std::byte> result(view.out().bytes());
      std::vector<TensorView> ins;
      for (std::size_t i = 0; i < operands.size(); ++i) ins.push_back({{operands[i].data(), 0}, &types[i]});
      const std::vector<TensorView> outs = {{{result.data(), 0}, &view.out()}};
      DIF_TRY(single(view, {ins, outs, {}}));
      if (op.output != kNoOutput)
        std::memcpy(args.out[op.output].data<std::byte>() + row * static_cast<std::int64_t>(result.size()),
                    result.data(), result.size());
      results.push_back(std::move(result));
    }
    return ok();
  }

  /// Operand i of the operation that works on one row. A row of a value is what its leading dimensions count.
  ir::TensorType row_type(const ir::OpView& op, std::size_t i) const {
    ir::TensorType type = op.in(i);
    switch (op.def().row_rule) {
      case ir::RowRule::kElementwise:
        return {type.dtype, {op.out().numel() / rows_}};
      case ir::RowRule::kHeads:
        if (i == 0) return {type.dtype, {1, 1, type.dim(2), type.dim(3)}};
        return {type.dtype, {1, type.dim(1)}};
      case ir::RowRule::kLastAxis:
        if (i != 0) return type;
        [[fallthrough]];
      default:
        return {type.dtype, {type.numel() / rows_ / type.dim(-1), type.dim(-1)}};
    }
  }

  std::vector<std::byte> outside(const ir::OpView& op, std::size_t i, const TensorView& from,
                                 std::int64_t row) const {
    const std::byte* data = from.data<std::byte>();
    const ir::TensorType& type = op.in(i);
    const auto bytes = static_cast<std::int64_t>(row_type(op, i).bytes());
    switch (op.def().row_rule) {
      case ir::RowRule::kElementwise:
        return broadcast_row(data, type, op.out().shape, row, rows_);
      case ir::RowRule::kHeads:
        if (i != 0) data += row % op.in(0).dim(1) * bytes;
        if (i == 0) data += row * bytes;
        break;
      case ir::RowRule::kLastAxis:
        if (i == 0) data += row * bytes;
        break;
      default:
        data += row * bytes;
    }
    return {data, data + bytes};
  }

  static ir::OpView row_view(const ir::OpView& op, const std::vector<ir::TensorType>& types) {
    std::vector<ir::Attr> attrs(op.attrs().begin(), op.attrs().end());
    for (std::size_t i = 0; i < attrs.size(); ++i)
      if (op.def().attrs[i].name == "axis") attrs[i] = std::int64_t{1};
    const ir::OpView without(op.def(), types, attrs);
    EXPECT_TRUE(op.def().verify(without));
    return ir::OpView(op.def(), types, attrs, op.def().infer(without));
  }

  static Status single(const ir::OpView& view, const KernelArgs& args) {
    for (const KernelEntry& entry : reference::kernel_list()) {
      if (entry.op != &view.def()) continue;
      DIF_ASSIGN(const std::unique_ptr<Kernel> kernel, entry.make({&view, nullptr, {}}));
      return kernel->run(args);
    }
    return fail(ErrorCode::kUnavailable, "no kernel");
  }

  std::int64_t rows_ = 0;
  std::vector<GroupOp> ops_;
};

Result<std::unique_ptr<Kernel>> decline_groups(const GroupRequest& request) {
  return declined("{} operations are too many", request.ops.size());
}

constexpr GroupKernelEntry kInterpreter[] = {{"interpreter", Interpreter::make}};
constexpr GroupKernelEntry kDeclines[] = {{"small", decline_groups}};
constexpr GroupKernelEntry kDeclinesFirst[] = {{"small", decline_groups}, {"interpreter", Interpreter::make}};
constexpr plan::FusionRules kAll = {[](const ir::OpView&) { return ok(); }};

/// A program with inputs and constants of small numbers that differ everywhere.
struct Bench {
  ir::Program program;
  std::vector<std::vector<float>> tensors;  // inputs, then constants
  HostDevice device{0};
  SharedArena arena{device};

  explicit Bench(ir::Program p) : program(std::move(p)) {
    std::uint32_t state = 1;
    for (const auto* list : {&program.inputs, &program.constants})
      for (const ir::ValueId id : *list) {
        EXPECT_EQ(program.type(id).dtype, DType::kF32);
        tensors.emplace_back();
        for (std::int64_t i = 0; i < program.type(id).numel(); ++i) {
          state = state * 1664525U + 1013904223U;
          tensors.back().push_back(static_cast<float>(state >> 8) / 8388608.0f - 1.0f);
        }
      }
  }

  std::unique_ptr<Executor> prepare(std::span<const GroupKernelEntry> group_kernels) {
    std::vector<HostConstant> constants;
    for (std::size_t i = 0; i < program.constants.size(); ++i) {
      const auto& values = tensors[program.inputs.size() + i];
      constants.push_back({values.data(), values.size() * sizeof(float)});
    }
    auto executor = Executor::prepare(program, constants, device, arena,
                                      {reference::kernel_list(), true, {}, group_kernels, kAll});
    EXPECT_TRUE(executor) << executor.error().message;
    return executor ? std::move(*executor) : nullptr;
  }

  /// The bytes of all outputs, one after the other.
  std::vector<std::byte> run(Executor& executor, const RunHooks& hooks = {}) {
    std::vector<std::vector<std::byte>> outs;
    for (const ir::Output& output : program.outputs) outs.emplace_back(program.type(output.value).bytes());
    std::vector<BufferView> inputs, outputs;
    for (std::size_t i = 0; i < program.inputs.size(); ++i) inputs.push_back({tensors[i].data(), 0});
    for (auto& out : outs) outputs.push_back({out.data(), 0});
    const Status status = executor.run(inputs, outputs, hooks);
    EXPECT_TRUE(status) << status.error().message;
    std::vector<std::byte> all;
    for (const auto& out : outs) all.insert(all.end(), out.begin(), out.end());
    return all;
  }
};

/// Gate, residual, norm, modulation and SwiGLU around two products, in bf16 where the cast says so.
ir::Program block() {
  ir::Builder b("block");
  const ir::Value x = b.input("x", f32({2, 5, 8})), gate = b.input("gate", f32({1, 8}));
  const ir::Value scale = b.input("scale", f32({2, 1, 8})), shift = b.input("shift", f32({8}));
  const ir::Value w = b.constant("w", f32({8, 8})), up = b.constant("up", f32({12, 8}));
  ir::Value y = ops::add(b, x, ops::mul(b, gate, ops::linear(b, x, w)));
  const ir::Value residual = y;
  y = ops::layer_norm(b, y, 1e-6f);
  y = ops::add(b, ops::mul(b, ops::add_scalar(b, scale, 1), y), shift);
  y = ops::linear(b, y, up);
  y = ops::cast(b, y, DType::kBF16);
  const ir::Value opened = ops::silu(b, ops::slice(b, y, 2, 0, 6));
  y = ops::mul(b, opened, ops::slice(b, y, 2, 6, 12));
  y = ops::cast(b, y, DType::kF32);
  y = ops::concat(b, std::vector<ir::Value>{residual, y}, 2);
  b.output("y", y);
  return finish(b);
}

/// Heads out of a fused projection, normalised and rotated.
ir::Program heads() {
  ir::Builder b("heads");
  const ir::Value x = b.input("x", f32({2, 5, 24}));
  const ir::Value cos = b.input("cos", f32({5, 2})), sin = b.input("sin", f32({5, 2}));
  const ir::Value w = b.constant("w", f32({4}));
  for (int i = 0; i < 3; ++i) {
    ir::Value q = ops::reshape(b, ops::slice(b, x, 2, 8 * i, 8 * i + 8), {2, 5, 2, 4});
    q = ops::rotary(b, ops::rms_norm(b, q, w), cos, sin, i == 1);
    b.output(fmt::format("head{}", i), ops::reshape(b, q, {10, 8}));
  }
  return finish(b);
}

TEST(Groups, GiveTheBitsOfTheirOperations) {
  for (ir::Program (*make)() : {block, heads}) {
    Bench bench(make());
    const auto apart = bench.prepare({}), joined = bench.prepare(kInterpreter);
    ASSERT_GT(joined->plan().groups.size(), 1U) << bench.program.name;
    EXPECT_LT(joined->plan().unshared_bytes, apart->plan().unshared_bytes);
    EXPECT_EQ(bench.run(*joined), bench.run(*apart)) << bench.program.name;
  }
}

TEST(Groups, ThatEveryKernelDeclinesRunOperationByOperation) {
  Bench bench(block());
  const auto apart = bench.prepare({}), declined = bench.prepare(kDeclines);
  EXPECT_TRUE(declined->plan().groups.empty());
  EXPECT_EQ(declined->report().arena_bytes, apart->report().arena_bytes);
  EXPECT_EQ(bench.run(*declined), bench.run(*apart));
  const auto groups = nlohmann::json::parse(declined->report().details).at("groups");
  EXPECT_EQ(groups.at(0).at("operations"), nlohmann::json::array({1, 2, 3, 5, 6}));
  EXPECT_EQ(groups.at(0).at("declined"), nlohmann::json::array({"small: 5 operations are too many"}));
}

TEST(Groups, AreReportedWithTheirKernelAndWhyTheyEnd) {
  Bench bench(block());
  const auto details = nlohmann::json::parse(bench.prepare(kDeclinesFirst)->report().details);
  const auto& group = details.at("groups").at(0);
  EXPECT_EQ(group.at("kernel"), "interpreter");
  EXPECT_EQ(group.at("rows"), 10);
  EXPECT_EQ(group.at("declined"), nlohmann::json::array({"small: 5 operations are too many"}));
  const auto& operations = details.at("operations");
  const auto member = std::ranges::find_if(operations, [](const auto& op) { return op["operation"] == 3; });
  ASSERT_NE(member, operations.end());
  EXPECT_EQ(member->at("group"), 0);
  EXPECT_EQ(member->at("kernel"), "interpreter");
  EXPECT_EQ(details.at("group_ends").at(0).at("reason"),
            "operation 5 (mul) does not read add_scalar row by row");
}

TEST(Groups, AreTracedAsOneEventEach) {
  Bench bench(block());
  std::vector<std::string> seen;
  RunHooks hooks;
  hooks.trace = [&](const OpTrace& trace) { seen.push_back(fmt::format("{} {}", trace.op, trace.op_name)); };
  bench.run(*bench.prepare(kInterpreter), hooks);
  EXPECT_EQ(seen, (std::vector<std::string>{"0 linear", "4 add_scalar", "1 mul+add+layer_norm+mul+add",
                                            "7 linear", "8 cast+slice+silu+slice+mul+cast+concat"}));
}

TEST(Groups, AreTakenApartWhenOperationsAreChecked) {
  ir::Builder b("nan");
  const ir::Value x = b.input("x", f32({4, 8}));
  const ir::Value root = ops::sqrt(b, ops::add(b, x, x));
  b.output("y", ops::silu(b, ops::mul(b, root, x)));
  Bench bench(finish(b));
  for (float& value : bench.tensors[0]) value = 0.5f;
  const auto joined = bench.prepare(kInterpreter), apart = bench.prepare({});
  ASSERT_EQ(joined->plan().groups.size(), 1U);
  EXPECT_EQ(bench.run(*joined, {.check_operations = true}), bench.run(*apart));

  bench.tensors[0][17] = -1;
  std::vector<std::byte> y(4 * 8 * 4);
  const std::vector<BufferView> inputs = {{bench.tensors[0].data(), 0}}, outputs = {{y.data(), 0}};
  EXPECT_TRUE(joined->run(inputs, outputs, {})) << "without the check a run ends";
  expect_error(joined->run(inputs, outputs, {.check_operations = true}), ErrorCode::kNonFinite,
               "operation 1 (sqrt) is the first whose result holds NaN");
  EXPECT_EQ(joined->failed_operation(), 1U);
}

}  // namespace
}  // namespace dif::runtime
