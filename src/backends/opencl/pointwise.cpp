#include "backends/opencl/pointwise.h"

#include <algorithm>
#include <optional>

#include "ops/common/checks.h"
#include "runtime/axes.h"

namespace dif::opencl {

namespace {

/// Axes outside the rows that a text can step through: all that a tensor can have.
constexpr std::size_t kOuterAxes = 7;
constexpr std::int64_t kVector = 16;

/// The loops of a chain and how its operands lie in them.
Axes axes_of(const Chain& chain) {
  std::vector<std::vector<std::int64_t>> strides;
  for (const ChainOperand& operand : chain.operands) strides.push_back(operand.strides);
  strides.push_back(dense_strides(chain.shape));
  return collapse(chain.shape, strides);
}

DType dtype_of(const Chain& chain, std::size_t value) {
  return value < chain.operands.size() ? chain.operands[value].dtype
                                       : chain.steps[value - chain.operands.size()].op->out().dtype;
}

class ChainText {
 public:
  ChainText(const Chain& chain, const Axes& axes) : chain_(chain), axes_(axes) {}

  std::string text() const {
    std::string parameters, views, steps;
    const auto buffer = [&](std::string_view name, DType dtype, bool constant) {
      parameters += fmt::format("global uchar* {0}_buffer, ulong {0}_offset, ", name);
      views += fmt::format("  VIEW({}{}_bits, {});\n", constant ? "const " : "", storage(dtype), name);
    };
    for (std::size_t i = 0; i < chain_.operands.size(); ++i)
      buffer(fmt::format("x{}", i), chain_.operands[i].dtype, true);
    for (std::size_t i = 0; i < chain_.results.size(); ++i)
      buffer(fmt::format("y{}", i), dtype_of(chain_, chain_.results[i]), false);
    for (std::size_t i = 0; i < chain_.steps.size(); ++i)
      if (operation(i).number != nullptr) parameters += fmt::format("float p{}, ", i);
    if (!flat()) walk(parameters, steps);
    return prelude() + fill(R"(
kernel __attribute__((reqd_work_group_size(@width@, @height@, 1)))
void chain(@parameters@int inner, int rows) {
  const int row = get_global_id(1), i = get_global_id(0) * 16, count = inner - i;
  if (row >= rows || count <= 0) return;
@views@@steps@@body@}
)",
                            {{"width", fmt::format("{}", local(flat()).x)},
                             {"height", fmt::format("{}", local(flat()).y)},
                             {"parameters", parameters},
                             {"views", views},
                             {"steps", steps},
                             {"body", body()}});
  }

  static Groups local(bool flat) { return flat ? Groups{64, 1, 1} : Groups{4, 16, 1}; }
  bool flat() const { return axes_.sizes.size() == 1; }

 private:
  const ElementOperation& operation(std::size_t step) const {
    return *element_operation(chain_.steps[step].op->def());
  }

  /// Moves every buffer to its row. Axes come innermost first; `axes` of them are in use.
  void walk(std::string& parameters, std::string& steps) const {
    parameters += "int axes, ";
    steps += "  int left = row, at;\n";
    for (std::size_t a = 0; a < kOuterAxes; ++a) {
      parameters += fmt::format("int n{}, ", a);
      steps += fmt::format("  if (axes > {0}) {{\n    at = left % n{0};\n    left /= n{0};\n", a);
      for (std::size_t i = 0; i < chain_.operands.size(); ++i) {
        parameters += fmt::format("int x{}_s{}, ", i, a);
        steps += fmt::format("    x{0} += at * x{0}_s{1};\n", i, a);
      }
      steps += "  }\n";
    }
    for (std::size_t i = 0; i < chain_.results.size(); ++i)
      steps += fmt::format("  y{} += (long)row * inner;\n", i);
  }

  bool is_read_again(std::size_t value) const {
    for (const ChainStep& step : chain_.steps)
      for (const std::size_t operand : step.operands)
        if (operand == value) return true;
    return false;
  }

  std::string body() const {
    std::string text;
    const auto define = [&](std::size_t value, const std::string& expression) {
      text += fmt::format("  const {} v{} = {};\n",
                          dtype_of(chain_, value) == DType::kI32 ? "int16" : "float16", value, expression);
    };
    for (std::size_t i = 0; i < chain_.operands.size(); ++i) {
      const std::string s = storage(chain_.operands[i].dtype);
      define(i, axes_.inner_stride(i) == 1 ? fmt::format("load16_{}(x{} + i, count)", s, i)
                                           : fmt::format("load_{}(x{}, 0)", s, i));
    }
    for (std::size_t i = 0; i < chain_.steps.size(); ++i) {
      const ChainStep& step = chain_.steps[i];
      const std::size_t value = chain_.operands.size() + i;
      ElementNames names = {{}, fmt::format("p{}", i)};
      for (const std::size_t operand : step.operands) names.x.push_back(fmt::format("v{}", operand));
      const std::string expression = operation(i).expression(*step.op, names);
      define(value, is_read_again(value)
                        ? fmt::format("round16_{}({})", storage(step.op->out().dtype), expression)
                        : expression);
    }
    for (std::size_t i = 0; i < chain_.results.size(); ++i)
      text += fmt::format("  store16_{}(y{} + i, count, v{});\n",
                          storage(dtype_of(chain_, chain_.results[i])), i, chain_.results[i]);
    return text;
  }

  const Chain& chain_;
  const Axes& axes_;
};

class ChainKernel final : public runtime::Kernel {
 public:
  ChainKernel(ClKernel kernel, const Chain& chain, const Axes& axes, bool flat)
      : kernel_(std::move(kernel)),
        groups_{ceil_div(axes.inner(), kVector * ChainText::local(flat).x),
                ceil_div(axes.rows(), ChainText::local(flat).y), 1} {
    for (const ChainOperand& operand : chain.operands) inputs_.push_back(operand.input);
    for (const ChainStep& step : chain.steps)
      if (const auto number = element_operation(step.op->def())->number; number != nullptr)
        settings_.emplace_back(number(*step.op));
    const auto integer = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    if (!flat) {
      const std::size_t outer = axes.sizes.size() - 1;
      settings_.emplace_back(integer(static_cast<std::int64_t>(outer)));
      for (std::size_t a = 0; a < kOuterAxes; ++a) {
        const bool used = a < outer;
        settings_.emplace_back(used ? integer(axes.sizes[outer - 1 - a]) : 1);
        for (std::size_t i = 0; i < chain.operands.size(); ++i)
          settings_.emplace_back(used ? integer(axes.strides[i][outer - 1 - a]) : 0);
      }
    }
    settings_.emplace_back(integer(axes.inner()));
    settings_.emplace_back(integer(axes.rows()));
  }

  Status run(const runtime::KernelArgs& args) override {
    std::vector<Argument> arguments;
    for (const std::size_t input : inputs_) arguments.emplace_back(args.in[input].buffer);
    for (const runtime::TensorView& result : args.out) arguments.emplace_back(result.buffer);
    arguments.insert(arguments.end(), settings_.begin(), settings_.end());
    return kernel_.launch(groups_, arguments);
  }

 private:
  ClKernel kernel_;
  Groups groups_;
  std::vector<std::size_t> inputs_;
  std::vector<Argument> settings_;
};

Status element_wise(const ir::OpView& op) {
  DIF_TRY(countable(op));
  if (element_operation(op.def()) == nullptr)
    return runtime::declined("{} does not work on single elements", op.def().name);
  for (std::size_t i = 0; i < op.n_ins(); ++i)
    if (!ops::is_number(op.in(i).dtype)) return runtime::declined("no arithmetic on {}", op.in(i).dtype);
  return ok();
}

/// The loops that visit the elements of both shapes in order: axes are split where one of them is. Nothing
/// where they do not line up, as [4, 6] and [6, 4]. Pre: as many elements, and some.
std::optional<Shape> common_axes(const Shape& a, const Shape& b) {
  std::vector<std::int64_t> sizes;  // innermost first
  int i = a.rank() - 1, j = b.rank() - 1;
  std::int64_t left_a = 1, left_b = 1;
  while (true) {
    for (; left_a == 1 && i >= 0; --i) left_a = a.dim(i);
    for (; left_b == 1 && j >= 0; --j) left_b = b.dim(j);
    const std::int64_t size = std::min(left_a, left_b);
    if (size == 1) break;
    if (left_a % size != 0 || left_b % size != 0) return std::nullopt;
    sizes.push_back(size);
    left_a /= size;
    left_b /= size;
  }
  if (sizes.size() > static_cast<std::size_t>(Shape::kMaxRank)) return std::nullopt;
  std::ranges::reverse(sizes);
  return Shape(std::span<const std::int64_t>(sizes));
}

/// Strides along `shape`, whose axes are those of `from` or parts of them.
std::vector<std::int64_t> split_strides(const Shape& from, const std::vector<std::int64_t>& strides,
                                        const Shape& shape) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(shape.rank()));
  int axis = from.rank();
  std::int64_t left = 1, stride = 0;
  for (int part = shape.rank() - 1; part >= 0; --part) {
    while (left == 1) {
      left = from.dim(--axis);
      stride = strides[static_cast<std::size_t>(axis)];
    }
    result[static_cast<std::size_t>(part)] = stride;
    stride *= shape.dim(part);
    left /= shape.dim(part);
  }
  return result;
}

}  // namespace

MakeResult make_chain(const Chain& chain, runtime::Device* device) {
  const Axes axes = axes_of(chain);
  const ChainText text(chain, axes);
  DIF_ASSIGN(ClKernel kernel, device_of(device).kernel(text.text(), "chain", ChainText::local(text.flat())));
  return std::make_unique<ChainKernel>(std::move(kernel), chain, axes, text.flat());
}

MakeResult make_pointwise(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  DIF_TRY(element_wise(op));
  Chain chain;
  chain.shape = op.out().shape;
  ChainStep step = {&op, {}};
  for (std::size_t i = 0; i < op.n_ins(); ++i) {
    chain.operands.push_back({i, op.in(i).dtype, broadcast_strides(op.in(i).shape, chain.shape)});
    step.operands.push_back(i);
  }
  chain.results = {chain.operands.size()};
  chain.steps.push_back(std::move(step));
  return make_chain(chain, request.device);
}

Status accepts_in_group(const ir::OpView& op) {
  return element_wise(op);
}

MakeResult make_pointwise_group(const runtime::GroupRequest& request) {
  Chain chain;
  chain.shape = request.ops.front().op->out().shape;
  for (const runtime::GroupOp& member : request.ops) {
    const Shape& shape = member.op->out().shape;
    if (shape.numel() != chain.shape.numel())
      return runtime::declined("{} has {} elements, {} has {}", member.op->def().name, shape.numel(),
                               request.ops.front().op->def().name, chain.shape.numel());
    const auto common = common_axes(chain.shape, shape);
    if (!common) return runtime::declined("the axes of {} and {} do not line up", chain.shape, shape);
    chain.shape = *common;
  }
  for (const runtime::GroupOp& member : request.ops)
    for (std::size_t i = 0; i < member.operands.size(); ++i) {
      if (member.operands[i].inside) continue;
      const Shape& shape = member.op->out().shape;
      const ir::TensorType& operand = member.op->in(i);
      chain.operands.push_back({member.operands[i].index, operand.dtype,
                                split_strides(shape, broadcast_strides(operand.shape, shape), chain.shape)});
    }
  std::size_t next_operand = 0;
  for (const runtime::GroupOp& member : request.ops) {
    ChainStep step = {member.op, {}};
    for (const runtime::GroupOperand& operand : member.operands)
      step.operands.push_back(operand.inside ? chain.operands.size() + operand.index : next_operand++);
    chain.steps.push_back(std::move(step));
  }
  chain.results.resize(request.n_outputs);
  for (std::size_t i = 0; i < request.ops.size(); ++i)
    if (request.ops[i].output != runtime::kNoOutput)
      chain.results[request.ops[i].output] = chain.operands.size() + i;
  return make_chain(chain, request.device);
}

}  // namespace dif::opencl
