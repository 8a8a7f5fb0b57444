// Products, convolutions and attention of the OpenCL plug-in, through the interface of plug-ins, with tensors
// that stay on the device. `share` is the part of oneDNN's rate: for products at the same shape, for the rest
// at 1024^3; both are measured by turns, and the fastest calls count, since a shared machine only ever adds
// time.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>

#include "bench/ceiling.h"
#include "ir/builder.h"
#include "ops/attention/attention.op.h"
#include "ops/conv2d/conv2d.op.h"
#include "ops/linear/linear.op.h"
#include "runtime/session.h"

namespace dif::bench {
namespace {

/// A program of one operation with its tensors on the device.
class DeviceRun {
 public:
  using Build = std::function<ir::Value(ir::Builder&, const std::vector<ir::Value>&)>;

  static Result<std::unique_ptr<DeviceRun>> make(const std::vector<Shape>& inputs, const Shape& weights,
                                                 const Build& build) {
    auto run = std::unique_ptr<DeviceRun>(new DeviceRun());
    DIF_ASSIGN(auto library, runtime::BackendLibrary::load_by_name("opencl"));
    DIF_ASSIGN(auto context, runtime::Context::create(std::move(library), {}));
    ir::Builder b("one operation");
    std::vector<ir::Value> operands;
    for (const Shape& shape : inputs) {
      const ir::TensorType type = {DType::kF32, shape};
      operands.push_back(b.input("x" + std::to_string(operands.size()), type));
      DIF_ASSIGN(auto value, runtime::DeviceValue::create(context, type));
      const std::vector<float> numbers = random_numbers(shape);
      DIF_TRY(value.write(std::as_bytes(std::span(numbers))));
      run->inputs_.push_back(std::move(value));
    }
    run->weights_ = random_numbers(weights);
    std::vector<runtime::ConstantBinding> constants;
    if (weights.rank() != 0) {
      operands.push_back(b.constant("w", {DType::kF32, weights}));
      constants.push_back({run->weights_.data(), run->weights_.size() * sizeof(float)});
    }
    b.output("y", build(b, operands));
    DIF_ASSIGN(const ir::Program program, b.finish());
    run->flops_ = ir::flops(program);
    DIF_ASSIGN(auto output, runtime::DeviceValue::create(context, program.type(program.outputs[0].value)));
    run->outputs_.push_back(std::move(output));
    DIF_ASSIGN(run->prepared_, runtime::PreparedProgram::prepare(context, program, constants));
    return run;
  }

  Status run() {
    std::vector<runtime::Binding> ins, outs;
    for (const auto& value : inputs_) ins.push_back(runtime::Binding::of(value));
    for (const auto& value : outputs_) outs.push_back(runtime::Binding::of(value));
    return prepared_->run(ins, outs);
  }
  double flops() const { return flops_; }

 private:
  static std::vector<float> random_numbers(const Shape& shape) {
    std::mt19937 random(1);
    std::vector<float> numbers(static_cast<std::size_t>(shape.numel()));
    for (float& number : numbers) number = static_cast<float>(random() % 2001) / 1000 - 1;
    return numbers;
  }

  std::vector<float> weights_;
  std::vector<runtime::DeviceValue> inputs_, outputs_;
  std::unique_ptr<runtime::PreparedProgram> prepared_;
  double flops_ = 0;
};

struct Product {
  std::int64_t m, k, n;
};

/// `peer` is the product whose oneDNN rate is the measure.
void time_by_turns(benchmark::State& state, Result<std::unique_ptr<DeviceRun>> made, const Product& peer) {
  if (!made) return state.SkipWithError(made.error().message.c_str());
  DeviceRun& run = **made;
  constexpr int kTurns = 3;
  for (auto _ : state) {
    double seconds = 1e30, best = 0;
    for (int turn = 0; turn < kTurns; ++turn) {
      seconds = std::min(seconds, fastest([&] {
                           if (const Status status = run.run(); !status)
                             state.SkipWithError(status.error().message.c_str());
                         }));
      best = std::max(best, onednn_flops(DType::kF32, peer.m, peer.k, peer.n));
    }
    state.SetIterationTime(seconds);
    state.counters["GFLOP/s"] = run.flops() / seconds / 1e9;
    state.counters["oneDNN"] = best / 1e9;
    state.counters["share"] = run.flops() / seconds / best;
  }
}

void add(const std::string& name, const std::vector<Shape>& inputs, const Shape& weights, const Product& peer,
         const DeviceRun::Build& build) {
  benchmark::RegisterBenchmark(
      name.c_str(),
      [=](benchmark::State& state) { time_by_turns(state, DeviceRun::make(inputs, weights, build), peer); })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

void add_all() {
  constexpr Product kSquare = {1024, 1024, 1024};
  for (const Product& p : {kSquare, Product{1152, 192, 1728}, Product{1152, 768, 192}, Product{2, 192, 1152}})
    add(fmt::format("linear/{}x{}->{}", p.m, p.k, p.n), {{p.m, p.k}}, {p.n, p.k}, p,
        [](ir::Builder& b, const std::vector<ir::Value>& x) { return ops::linear(b, x[0], x[1]); });
  for (const std::int64_t size : {16, 64, 128})
    add(fmt::format("conv2d/64x{0}x{0}->64/3x3", size), {{1, 64, size, size}}, {64, 64, 3, 3}, kSquare,
        [](ir::Builder& b, const std::vector<ir::Value>& x) {
          return ops::conv2d(b, x[0], x[1], std::nullopt, {.pads = {1, 1, 1, 1}});
        });
  for (const Shape& heads : {Shape{2, 576, 6, 32}, Shape{1, 1024, 8, 128}})
    add("attention/" + heads.to_string(), {heads, heads, heads}, {}, kSquare,
        [](ir::Builder& b, const std::vector<ir::Value>& x) {
          return ops::attention(b, x[0], x[1], x[2], std::nullopt, false, 0.125f);
        });
}

}  // namespace
}  // namespace dif::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  dif::bench::add_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
