// What a picture would cost at the speed of bare library calls: the shapes of all matrix products and
// attentions of a request's programs, as they come from the frontend, each timed alone.
//
//   chain_ceilings MODEL_DIR '{"width": 128, ...}'            (bench/request.h; threads: OMP_NUM_THREADS)
//
// JSON on stdout: for each shape how often it runs, its FLOP, the rate of a bare dnnl::matmul with packed
// weights and that of our kernel, measured one after the other. `gemm_flops_per_second` is the rate of the
// bare loop over all products of at least 16 rows, each shape as often as it runs; with it the floor of the
// picture is
//   (linear + convolution FLOP) / rate + attention FLOP / (rate / 2)
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "backends/cpu/cpu_features.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/testing.h"
#include "base/error.h"
#include "bench/ceiling.h"
#include "bench/request.h"
#include "ops/attention/attention.op.h"
#include "ops/linear/linear.op.h"
#include "pipelines/chain_builder.h"

namespace dif::bench {
namespace {

using cpu::testing::HostTensor;
using cpu::testing::KernelRun;
using cpu::testing::random_tensor;
using nlohmann::ordered_json;

/// Products of fewer rows are bound by the bandwidth of their weights, not by arithmetic.
constexpr std::int64_t kFewRows = 16;
/// Ours and the bare loop by turns, so that a busy moment of the machine does not hit one of them alone.
constexpr int kRounds = 2;
constexpr double kNever = std::numeric_limits<double>::infinity();

struct Product {
  std::int64_t m, k, n;
  auto operator<=>(const Product&) const = default;
};

struct Attention {
  std::vector<std::int64_t> q, kv;
  bool causal, masked;
  auto operator<=>(const Attention&) const = default;
};

/// How often each shape runs in one picture.
struct Work {
  std::map<Product, double> products;
  std::map<Attention, double> attentions;
  std::map<std::string, double> programs;  ///< FLOP of one run
  double linear_flops = 0, convolution_flops = 0, attention_flops = 0;
};

void count(const ir::Program& program, double times, Work& work) {
  work.programs[program.name] = ir::flops(program);
  for (ir::OpId id = 0; id < program.ops.size(); ++id) {
    const ir::OpView view = program.view(id);
    const double flops = times * ir::flops(view);
    if (view.def().name == "linear") {
      const std::int64_t n = view.in(1).dim(0), k = view.in(1).dim(1);
      work.products[{view.out().numel() / n, k, n}] += times;
      work.linear_flops += flops;
    } else if (view.def().name == "attention") {
      const auto dims = [&](std::size_t i) {
        const auto span = view.in(i).shape.dims();
        return std::vector<std::int64_t>(span.begin(), span.end());
      };
      work.attentions[{dims(0), dims(1), view.flag("causal"), view.has(3)}] += times;
      work.attention_flops += flops;
    } else if (view.def().name == "conv2d") {
      work.convolution_flops += flops;
    }
  }
}

Result<double> seconds_of(KernelRun& run, runtime::MakeKernel make) {
  DIF_TRY(run.make(make));
  Status status;
  const double seconds = fastest([&] {
    if (Status ran = run.run(); !ran) status = std::move(ran);
  });
  DIF_TRY(status);
  return seconds;
}

Result<double> our_seconds(const Product& p) {
  std::vector<HostTensor> operands;
  operands.push_back(random_tensor(DType::kF32, {p.m, p.k}, 1));
  operands.push_back(random_tensor(DType::kF32, {p.n, p.k}, 2));
  KernelRun run(ops::kLinear, {}, std::move(operands), {1});
  return seconds_of(run, cpu::make_onednn_linear);
}

Result<double> our_seconds(const Attention& a) {
  std::vector<HostTensor> operands;
  operands.push_back(random_tensor(DType::kF32, Shape(a.q), 1));
  operands.push_back(random_tensor(DType::kF32, Shape(a.kv), 2));
  operands.push_back(random_tensor(DType::kF32, Shape(a.kv), 3));
  if (a.masked) {
    operands.emplace_back(ir::TensorType{DType::kBool, {a.kv[0], a.kv[1]}});
    std::memset(operands.back().data(), 1, operands.back().bytes());
  }
  const float scale = 1 / std::sqrt(static_cast<float>(a.q.back()));
  KernelRun run(ops::kAttention, {a.causal, scale}, std::move(operands));
  return seconds_of(run, cpu::make_attention);
}

Result<ordered_json> measure(const Work& work) {
  ordered_json document = {{"processor", cpu::cpu_features().name}, {"threads", cpu::thread_count()}};
  double bare = 0, ours = 0, flops = 0;
  for (const auto& [p, times] : work.products) {
    const double each = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.k) * static_cast<double>(p.n);
    double our_time = kNever, bare_time = kNever;
    for (int round = 0; round < kRounds; ++round) {
      DIF_ASSIGN(const double found, our_seconds(p));
      our_time = std::min(our_time, found);
      bare_time = std::min(bare_time, each / onednn_flops(DType::kF32, p.m, p.k, p.n));
    }
    document["linear"].push_back({{"m", p.m},
                                  {"k", p.k},
                                  {"n", p.n},
                                  {"times", times},
                                  {"flops", each},
                                  {"bare_seconds", bare_time},
                                  {"our_seconds", our_time}});
    if (p.m < kFewRows) continue;
    bare += times * bare_time;
    ours += times * our_time;
    flops += times * each;
  }
  const double rate = flops / bare;
  double attention = 0;
  for (const auto& [a, times] : work.attentions) {
    DIF_ASSIGN(const double our_time, our_seconds(a));
    document["attention"].push_back({{"q", a.q},
                                     {"kv", a.kv},
                                     {"causal", a.causal},
                                     {"masked", a.masked},
                                     {"times", times},
                                     {"our_seconds", our_time}});
    attention += times * our_time;
  }
  document["flops"] = {{"linear", work.linear_flops},
                       {"convolution", work.convolution_flops},
                       {"attention", work.attention_flops}};
  document["program_flops"] = work.programs;
  document["gemm_flops_per_second"] = rate;
  document["our_gemm_share"] = bare / ours;
  document["attention_share"] = work.attention_flops / attention / rate;
  document["floor_seconds"] =
      (work.linear_flops + work.convolution_flops) / rate + work.attention_flops / (rate / 2);
  return document;
}

Status run(const std::string& folder, const std::string& line) {
  DIF_ASSIGN(const auto model, frontends::open_model(folder));
  DIF_ASSIGN(const Request request, parse_request(*model, line));
  DIF_ASSIGN(const frontends::Chain chain, build_chain(*model, request.settings));
  Work work;
  count(chain.encode.program, guidance_is_active(*model, request.settings.guidance) ? 2 : 1, work);
  count(chain.step.program, static_cast<double>(request.settings.steps), work);
  count(chain.decode.program, 1, work);
  DIF_ASSIGN(ordered_json document, measure(work));
  document["onednn"] = onednn_version();
  std::puts(document.dump(1).c_str());
  return ok();
}

}  // namespace
}  // namespace dif::bench

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const dif::Status status = dif::bench::run(argv[1], argv[2]);
  if (!status) std::fprintf(stderr, "error: %s\n", status.error().message.c_str());
  return status ? 0 : 1;
}
