// Kernels of the CPU plug-in one by one, at the shapes of the bundled model and of FLUX.2 klein. The fastest
// call counts, since a shared machine only ever adds time. `share` is the part of what the machine can do at
// best: for products oneDNN's rate at the same shape, for attention its rate at 1024^3, for the rest a copy
// of as many bytes; from 8 MiB on both come out of memory.
#include <benchmark/benchmark.h>

#include <map>

#include "backends/cpu/cpu_features.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/row_group.h"
#include "backends/cpu/testing.h"
#include "base/check.h"
#include "bench/ceiling.h"
#include "ir/builder.h"
#include "ops/add/add.op.h"
#include "ops/attention/attention.op.h"
#include "ops/cast/cast.op.h"
#include "ops/concat/concat.op.h"
#include "ops/conv2d/conv2d.op.h"
#include "ops/gather_rows/gather_rows.op.h"
#include "ops/group_norm/group_norm.op.h"
#include "ops/layer_norm/layer_norm.op.h"
#include "ops/linear/linear.op.h"
#include "ops/mul/mul.op.h"
#include "ops/rms_norm/rms_norm.op.h"
#include "ops/rotary/rotary.op.h"
#include "ops/silu/silu.op.h"
#include "ops/slice/slice.op.h"
#include "ops/transpose/transpose.op.h"
#include "ops/upsample_nearest/upsample_nearest.op.h"
#include "plan/fusion.h"
#include "plan/lifetimes.h"

namespace dif::bench {
namespace {

using cpu::testing::HostTensor;
using cpu::testing::KernelRun;
using cpu::testing::random_tensor;

using Instance = std::function<std::unique_ptr<KernelRun>()>;
enum class Bound { kProduct, kConvolution, kAttention, kMemory };
constexpr const char* kBoundNames[] = {"product", "convolution", "attention", "memory"};

template <class... Tensors>
std::vector<HostTensor> operands(Tensors... tensors) {
  std::vector<HostTensor> list;
  (list.push_back(std::move(tensors)), ...);
  return list;
}

double best_rate(const KernelRun& run, Bound bound) {
  const DType dtype = run.view().in(0).dtype;
  const DType product = dtype == DType::kBF16 && cpu::multiplies_bf16() ? DType::kBF16 : DType::kF32;
  if (bound == Bound::kProduct) {
    const std::int64_t n = run.view().in(1).dim(0), k = run.view().in(1).dim(1);
    return onednn_flops(product, run.view().out().numel() / n, k, n);
  }
  static std::map<DType, double> square;
  if (!square.contains(product)) square[product] = onednn_flops(product, 1024, 1024, 1024);
  return square[product];
}

/// The fastest call, where calls go through the runs in turn.
template <class Run>
double fastest_in_turn(benchmark::State& state, const std::vector<std::unique_ptr<Run>>& runs) {
  std::size_t turn = 0;
  return fastest([&] {
    if (!runs[turn]->run()) state.SkipWithError("the kernel failed");
    turn = (turn + 1) % runs.size();
  });
}

double bytes_of(const KernelRun& run) {
  double bytes = static_cast<double>(run.y().bytes());
  for (const HostTensor& operand : run.operands()) bytes += static_cast<double>(operand.bytes());
  return bytes;
}

double share_of_copy(benchmark::State& state, double bytes, double seconds) {
  state.counters["from_memory"] = bytes >= static_cast<double>(kFromMemoryBytes);
  return bytes / seconds / copy_bandwidth(static_cast<std::int64_t>(bytes / 2));
}

void time_kernel(benchmark::State& state, const Instance& instance, runtime::MakeKernel make, Bound bound) {
  std::vector<std::unique_ptr<KernelRun>> runs;
  runs.push_back(instance());
  state.SetLabel(kBoundNames[static_cast<int>(bound)]);
  const double bytes = bytes_of(*runs[0]);
  if (bound == Bound::kMemory)
    while (runs.size() < sets_in_turn(static_cast<std::int64_t>(bytes))) runs.push_back(instance());
  for (const auto& run : runs)
    if (const Status made = run->make(make); !made) return state.SkipWithError(made.error().message.c_str());
  for (auto _ : state) {
    const double seconds = fastest_in_turn(state, runs);
    state.SetIterationTime(seconds);
    state.counters["GB/s"] = bytes / seconds / 1e9;
    if (bound == Bound::kMemory) {
      state.counters["share"] = share_of_copy(state, bytes, seconds);
    } else {
      const ir::OpView& op = runs[0]->view();
      const double flops = op.def().flops(op);
      state.counters["GFLOP/s"] = flops / seconds / 1e9;
      state.counters["share"] = flops / seconds / best_rate(*runs[0], bound);
    }
  }
}

void add(const std::string& name, Instance instance, runtime::MakeKernel make, Bound bound = Bound::kMemory) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) { time_kernel(state, instance, make, bound); })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

/// "f32/2x576x192"
std::string name_of(DType dtype, const Shape& shape) {
  return fmt::format("{}/{}", dtype, fmt::join(shape.dims(), "x"));
}

void add_products() {
  const std::pair<Shape, std::int64_t> shapes[] = {
      {{2, 576, 192}, 192}, {{2, 576, 192}, 1728}, {{2, 576, 768}, 192}, {{2, 64, 192}, 1152},
      {{2, 512, 576}, 192}, {{512, 64}, 128},      {{512, 64}, 96},      {{512, 96}, 64},
      {{2, 192}, 1152},     {{1024, 3072}, 3072},  {{1, 3072}, 18432}};
  for (const auto& [x, n] : shapes)
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      const auto make = dtype == DType::kF16 || (dtype == DType::kBF16 && !cpu::multiplies_bf16())
                            ? cpu::make_upcast_linear
                            : cpu::make_onednn_linear;
      add(
          fmt::format("linear/{}->{}", name_of(dtype, x), n),
          [=, x = x, n = n] {
            return std::make_unique<KernelRun>(
                ops::kLinear, std::vector<ir::Attr>{},
                operands(random_tensor(dtype, x, 1), random_tensor(dtype, {n, x.dim(-1)}, 2)),
                std::vector<std::size_t>{1});
          },
          make, Bound::kProduct);
    }
}

void add_convolutions() {
  struct Case {
    std::int64_t ci, co, size, kernel;
  };
  for (const auto& [ci, co, size, kernel] : {Case{8, 64, 16, 3},
                                             {64, 64, 16, 3},
                                             {64, 64, 32, 3},
                                             {64, 48, 64, 3},
                                             {64, 48, 64, 1},
                                             {48, 32, 128, 3},
                                             {32, 32, 128, 3},
                                             {32, 3, 128, 3},
                                             {512, 512, 64, 3},
                                             {512, 512, 128, 3},
                                             {256, 256, 256, 3},
                                             {128, 128, 512, 3},
                                             {128, 3, 512, 3}})
    for (const DType dtype : {DType::kF32, DType::kBF16})
      add(
          fmt::format("conv2d/{}->{}/{}x{}", name_of(dtype, {1, ci, size, size}), co, kernel, kernel),
          [=, ci = ci, co = co, size = size, kernel = kernel] {
            const std::int64_t pad = kernel / 2;
            return std::make_unique<KernelRun>(
                ops::kConv2d,
                std::vector<ir::Attr>{std::vector<std::int64_t>{1, 1},
                                      std::vector<std::int64_t>{pad, pad, pad, pad}, std::int64_t{1}, false},
                operands(random_tensor(dtype, {1, ci, size, size}, 1),
                         random_tensor(dtype, {co, ci, kernel, kernel}, 2), random_tensor(dtype, {co}, 3)),
                std::vector<std::size_t>{1, 2});
          },
          co <= 4                                            ? cpu::make_few_channel_conv2d
          : dtype == DType::kBF16 && !cpu::multiplies_bf16() ? cpu::make_upcast_conv2d
                                                             : cpu::make_onednn_conv2d,
          Bound::kConvolution);
}

void add_attention() {
  struct Case {
    std::int64_t batch, n, heads, key_heads, depth;
    bool causal = false;
  };
  for (const Case& c : {Case{2, 576, 6, 6, 32},
                        {1, 512, 4, 2, 32, true},
                        {1, 256, 1, 1, 64},
                        {1, 1024, 8, 8, 128},
                        {2, 4608, 24, 24, 128},
                        {1, 16384, 1, 1, 512}})
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      if (dtype == DType::kBF16 && c.n > 4000) continue;
      add(
          fmt::format("attention/{}/{}q{}kv{}", name_of(dtype, {c.batch, c.n, c.heads, c.depth}), c.heads,
                      c.key_heads, c.causal ? "/causal" : ""),
          [=] {
            return std::make_unique<KernelRun>(
                ops::kAttention, std::vector<ir::Attr>{c.causal, 0.125f},
                operands(random_tensor(dtype, {c.batch, c.n, c.heads, c.depth}, 1),
                         random_tensor(dtype, {c.batch, c.n, c.key_heads, c.depth}, 2),
                         random_tensor(dtype, {c.batch, c.n, c.key_heads, c.depth}, 3)));
          },
          dtype == DType::kBF16 && cpu::multiplies_bf16() ? cpu::make_bf16_attention : cpu::make_attention,
          Bound::kAttention);
    }
}

/// An operation that moves bytes: operands of one dtype and the given shapes.
void add_light(const std::string& name, const ir::OpDef& def, std::vector<ir::Attr> attrs,
               std::vector<Shape> shapes, runtime::MakeKernel make, bool bf16 = true) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    if (dtype == DType::kBF16 && !bf16) continue;
    add(
        fmt::format("{}/{}", name, name_of(dtype, shapes[0])),
        [=, &def] {
          std::vector<HostTensor> list;
          for (const Shape& shape : shapes)
            list.push_back(random_tensor(dtype, shape, static_cast<unsigned>(list.size())));
          return std::make_unique<KernelRun>(def, attrs, std::move(list));
        },
        make);
  }
}

void add_light_kernels() {
  const std::int64_t one = 1;
  add_light("add/same", ops::kAdd, {}, {{2, 576, 192}, {2, 576, 192}}, cpu::make_add);
  add_light("add/same", ops::kAdd, {}, {{32, 1024, 1024}, {32, 1024, 1024}}, cpu::make_add);
  add_light("mul/rows", ops::kMul, {}, {{2, 576, 192}, {2, one, 192}}, cpu::make_mul);
  add_light("mul/channels", ops::kMul, {}, {{1, 32, 128, 128}, {32, one, one}}, cpu::make_mul);
  add_light("silu", ops::kSilu, {}, {{2, 576, 576}}, cpu::make_silu);
  add_light("silu", ops::kSilu, {}, {{1, 32, 128, 128}}, cpu::make_silu);
  add_light("cast/to_f16", ops::kCast, {DType::kF16}, {{2, 576, 576}}, cpu::make_cast);
  add_light("rms_norm/heads", ops::kRmsNorm, {1e-6f}, {{2, 576, 6, 32}, {32}}, cpu::make_rms_norm);
  add_light("rms_norm", ops::kRmsNorm, {1e-6f}, {{512, 4096}, {4096}}, cpu::make_rms_norm);
  add_light("layer_norm", ops::kLayerNorm, {1e-6f}, {{2, 576, 192}}, cpu::make_layer_norm);
  add_light("layer_norm", ops::kLayerNorm, {1e-6f}, {{4608, 3072}}, cpu::make_layer_norm);
  add_light("group_norm/16", ops::kGroupNorm, {1e-6f, std::int64_t{16}, false},
            {{1, 32, 128, 128}, {32}, {32}}, cpu::make_group_norm);
  add_light("group_norm/32", ops::kGroupNorm, {1e-6f, std::int64_t{32}, false},
            {{1, 128, 512, 512}, {128}, {128}}, cpu::make_group_norm);
  for (const bool interleaved : {true, false})
    add_light(interleaved ? "rotary/pairs" : "rotary/halves", ops::kRotary, {interleaved},
              {{2, 576, 6, 32}, {576, 16}, {576, 16}}, cpu::make_rotary, false);
  add_light("upsample_nearest/2", ops::kUpsampleNearest, {std::int64_t{2}, false}, {{1, 48, 64, 64}},
            cpu::make_upsample_nearest);
  add_light("slice/columns", ops::kSlice, {one, std::int64_t{192}, std::int64_t{384}}, {{1152, 576}},
            cpu::make_slice);
  add_light("concat/columns", ops::kConcat, {one}, {{1152, 192}, {1152, 576}}, cpu::make_concat);
  add_light("transpose/plane", ops::kTranspose, {std::vector<std::int64_t>{0, 2, 1}}, {{1, 64, 4096}},
            cpu::make_transpose);
  add_light("transpose/heads", ops::kTranspose, {std::vector<std::int64_t>{0, 2, 1, 3}}, {{2, 576, 6, 32}},
            cpu::make_transpose);
}

/// A program that is one group, with the kernel for it.
class GroupRun {
 public:
  explicit GroupRun(ir::Program program) : program_(std::move(program)) {
    const plan::Fusion fusion = plan::form_groups(program_, {.accepts = cpu::accepts_in_group});
    DIF_CHECK(fusion.groups.size() == 1);
    group_ = fusion.groups.front();
    roots_ = plan::view_roots(program_);
    for (ir::OpId id = 0; id < program_.ops.size(); ++id) views_.push_back(program_.view(id));
    for (const ir::ValueId id : group_.inputs)
      inputs_.push_back(random_tensor(program_.type(id).dtype, program_.type(id).shape,
                                      static_cast<unsigned>(inputs_.size())));
    for (const ir::ValueId id : group_.outputs) outputs_.emplace_back(program_.type(id));
  }

  Status make() {
    const auto position = [](const auto& list, std::uint32_t id) {
      return static_cast<std::uint32_t>(std::ranges::find(list, id) - list.begin());
    };
    std::vector<runtime::GroupOp> ops;
    for (const ir::OpId id : group_.ops) {
      runtime::GroupOp member = {&views_[id], {}, runtime::kNoOutput};
      for (const ir::ValueId operand : program_.ops[id].operands) {
        const ir::ValueId root = roots_[operand];
        const std::uint32_t producer = position(group_.ops, program_.values[root].producer);
        const bool inside = producer < group_.ops.size();
        member.operands.push_back({inside, inside ? producer : position(group_.inputs, root)});
      }
      const std::uint32_t output = position(group_.outputs, program_.ops[id].results.front());
      if (output < group_.outputs.size()) member.output = output;
      ops.push_back(std::move(member));
    }
    const std::vector<runtime::BufferView> constants(group_.inputs.size());
    DIF_ASSIGN(kernel_, cpu::make_row_group({ops, group_.rows, constants, group_.outputs.size(), nullptr}));
    workspace_ = cpu::HostBuffer(kernel_->workspace_bytes());
    return ok();
  }

  Status run() {
    std::vector<runtime::TensorView> in, out;
    for (const HostTensor& tensor : inputs_) in.push_back({{tensor.data(), 0}, &tensor.type()});
    for (const HostTensor& tensor : outputs_) out.push_back({{tensor.data(), 0}, &tensor.type()});
    return kernel_->run({in, out, {workspace_.data(), 0}});
  }

  double bytes() const {
    double total = 0;
    for (const auto* list : {&inputs_, &outputs_})
      for (const HostTensor& tensor : *list) total += static_cast<double>(tensor.bytes());
    return total;
  }

 private:
  ir::Program program_;
  plan::Group group_;
  std::vector<ir::ValueId> roots_;
  std::vector<ir::OpView> views_;
  std::vector<HostTensor> inputs_, outputs_;
  std::unique_ptr<runtime::Kernel> kernel_;
  cpu::HostBuffer workspace_;
};

void time_group(benchmark::State& state, const std::function<void(ir::Builder&)>& build) {
  std::vector<std::unique_ptr<GroupRun>> runs;
  do {
    ir::Builder b("group");
    build(b);
    auto program = b.finish();
    if (!program) return state.SkipWithError(program.error().message.c_str());
    runs.push_back(std::make_unique<GroupRun>(std::move(*program)));
    if (const Status made = runs.back()->make(); !made)
      return state.SkipWithError(made.error().message.c_str());
  } while (runs.size() < sets_in_turn(static_cast<std::int64_t>(runs[0]->bytes())));
  for (auto _ : state) {
    const double bytes = runs[0]->bytes(), seconds = fastest_in_turn(state, runs);
    state.SetIterationTime(seconds);
    state.counters["GB/s"] = bytes / seconds / 1e9;
    state.counters["share"] = share_of_copy(state, bytes, seconds);
  }
}

void add_group(const std::string& name, const std::function<void(ir::Builder&)>& build) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { time_group(state, build); })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

/// The groups of a transformer block, at the bundled model's width and at FLUX.2 klein's: there all rows, and
/// one alone, which stays in the first cache of one core.
void add_groups() {
  struct Size {
    std::int64_t batch, rows, hidden, mlp, heads;
  };
  for (const Size& s : {Size{2, 576, 192, 576, 6}, Size{1, 1, 3072, 3072, 24}, Size{1, 4608, 3072, 9216, 24}})
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Shape tokens = {s.batch, s.rows, s.hidden};
      const std::string size = name_of(dtype, tokens);
      add_group("group/add_mul_silu/" + size, [=](ir::Builder& b) {
        const ir::Value x = b.input("x", {dtype, tokens}), y = b.input("y", {dtype, tokens});
        b.output("z", ops::silu(b, ops::mul(b, ops::add(b, x, y), y)));
      });
      add_group("group/gate_norm_modulate/" + size, [=](ir::Builder& b) {
        const ir::Value x = b.input("x", {dtype, tokens}), y = b.input("y", {dtype, tokens});
        const ir::TensorType row = {dtype, {1, s.hidden}};
        const ir::Value gate = b.input("gate", row), scale = b.input("scale", row),
                        shift = b.input("shift", row);
        const ir::Value residual = ops::add(b, x, ops::mul(b, gate, y));
        b.output("residual", residual);
        b.output("modulated", ops::add(b, ops::mul(b, scale, ops::layer_norm(b, residual, 1e-6f)), shift));
      });
      add_group("group/swiglu/" + name_of(dtype, {s.batch, s.rows, 2 * s.mlp}), [=](ir::Builder& b) {
        const ir::Value x = b.input("x", {dtype, {s.batch, s.rows, 2 * s.mlp}});
        b.output("y", ops::mul(b, ops::silu(b, ops::slice(b, x, -1, 0, s.mlp)),
                               ops::slice(b, x, -1, s.mlp, 2 * s.mlp)));
      });
      add_group("group/norm_rotary/" + size, [=](ir::Builder& b) {
        const std::int64_t depth = s.hidden / s.heads;
        const ir::Value x = b.input("x", {dtype, {s.batch, s.rows, s.heads, depth}});
        const ir::Value w = b.input("w", {dtype, {depth}});
        const ir::Value cos = b.input("cos", {DType::kF32, {s.rows, depth / 2}});
        const ir::Value sin = b.input("sin", {DType::kF32, {s.rows, depth / 2}});
        b.output("y", ops::rotary(b, ops::rms_norm(b, x, w), cos, sin, true));
      });
    }
}

}  // namespace
}  // namespace dif::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("processor", dif::cpu::cpu_features().name);
  benchmark::AddCustomContext("instruction_set", dif::cpu::instruction_set());
  benchmark::AddCustomContext("threads", std::to_string(dif::cpu::thread_count()));
  dif::bench::add_products();
  dif::bench::add_convolutions();
  dif::bench::add_attention();
  dif::bench::add_light_kernels();
  dif::bench::add_groups();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
