#include "backends/cuda/attention_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "backends/cuda/source.h"
#include "backends/cuda/trial_operands.h"

namespace dif::cuda {

namespace {

/// The GPU works for so long before plans are compared, and each of them in each round.
constexpr float kHotMicroseconds = 100e3f, kRoundMicroseconds = 25e3f;
constexpr std::uint32_t kRounds = 3;
/// Less is noise.
constexpr float kLeastGain = 0.01f;

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 1024;

/// Sums of (x - y)^2 and of y^2.
constexpr const char* kText = R"(
extern "C" __global__ void __launch_bounds__(256)
distance(const @T@* x, const @T@* y, Index count, double* sums) {
  __shared__ float scratch[32];
  float apart = 0, size = 0;
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < count; i += (Index)gridDim.x * 256) {
    const float b = decode(y[i]), d = decode(x[i]) - b;
    apart = fmaf(d, d, apart);
    size = fmaf(b, b, size);
  }
  apart = block_sum(apart, scratch);
  size = block_sum(size, scratch);
  if (threadIdx.x == 0) {
    atomicAdd(sums, (double)apart);
    atomicAdd(sums + 1, (double)size);
  }
}
)";

/// Half the distance of neighbours, relative to a value.
double rounding_of(DType dtype) {
  return dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
}

class Trial {
 public:
  Trial(CudaDevice& device, const AttentionShape& shape) : device_(device), shape_(shape) {}

  Status make_operands(const std::vector<std::unique_ptr<DnnGraph>>& plans) {
    const AttentionShape& s = shape_;
    const auto extent = [&](const RowSteps& steps, std::int64_t positions, std::int64_t row) {
      return (s.batches - 1) * steps.batch + (positions - 1) * steps.row + row;
    };
    y_elements_ = extent(s.y, s.queries, s.heads * s.value_width);
    DIF_TRY(make(q_, s.dtype, extent(s.q, s.queries, s.heads * s.width), 1));
    DIF_TRY(make(k_, s.dtype, extent(s.k, s.keys, s.key_heads * s.width), 2));
    DIF_TRY(make(v_, s.dtype, extent(s.v, s.keys, s.key_heads * s.value_width), 3));
    DIF_TRY(make(bias_, DType::kF32, s.batches * s.bias_row, 4));
    // Between the rows of a result lies what is the same in both.
    DIF_TRY(make(first_, s.dtype, y_elements_, 5));
    DIF_TRY(make(y_, s.dtype, y_elements_, 5));
    std::uint64_t most = 1;
    for (const auto& plan : plans) most = std::max(most, plan->workspace_bytes());
    DIF_TRY(reserve(workspace_, most));
    DIF_TRY(reserve(sums_, sizeof(Sums)));
    DIF_ASSIGN(distance_,
               device_.kernel(prelude() + fill(kText, {{"T", type_name(s.dtype)}}), "distance", kThreads));
    return ok();
  }

  Status run_first(DnnGraph& plan) { return run(plan, first_->view()); }

  Result<bool> agrees_with_the_first(DnnGraph& plan) {
    if (!run(plan, y_->view())) return false;
    Sums sums = {};
    DIF_TRY(device_.upload(sums_->view(), &sums, sizeof(sums)));
    DIF_TRY(distance_.launch({std::min(ceil_div(y_elements_, kThreads), kMostBlocks)},
                             {y_->view(), first_->view(), y_elements_, sums_->view()}));
    DIF_TRY(device_.download(&sums, sums_->view(), sizeof(sums)));
    return std::sqrt(sums[0]) <= rounding_of(shape_.dtype) * std::sqrt(sums[1]);
  }

  /// Microseconds of each plan.
  Result<std::vector<float>> time(const std::vector<DnnGraph*>& plans) {
    DIF_TRY(repeat(*plans[0], 1));
    DIF_ASSIGN(const auto once, time(plans, 1, [](std::size_t) { return 2U; }));
    const auto runs = [&](float microseconds, std::size_t plan) {
      return 1 + static_cast<std::uint32_t>(microseconds / std::max(once[plan], 1.0f));
    };
    DIF_TRY(repeat(*plans[0], runs(kHotMicroseconds, 0)));
    return time(plans, kRounds, [&](std::size_t plan) { return runs(kRoundMicroseconds, plan); });
  }

 private:
  using Sums = std::array<double, 2>;

  Status reserve(std::optional<Scratch>& scratch, std::uint64_t bytes) {
    DIF_ASSIGN(Scratch made, Scratch::create(device_, bytes));
    scratch.emplace(std::move(made));
    return ok();
  }

  Status make(std::optional<Scratch>& scratch, DType dtype, std::int64_t count, std::int32_t seed) {
    if (count == 0) return ok();
    DIF_TRY(reserve(scratch, static_cast<std::uint64_t>(count) * dtype_size(dtype)));
    return fill_randomly(device_, scratch->view(), dtype, count, seed);
  }

  Status run(DnnGraph& plan, runtime::BufferView y) {
    const std::array tensors = {q_->view(), k_->view(), v_->view(), y,
                                bias_ ? bias_->view() : runtime::BufferView()};
    return plan.run(std::span(tensors).first(bias_ ? 5 : 4), workspace_->view());
  }

  Status repeat(DnnGraph& plan, std::uint32_t runs) {
    for (std::uint32_t i = 0; i < runs; ++i) DIF_TRY(run(plan, y_->view()));
    return ok();
  }

  template <class Runs>
  Result<std::vector<float>> time(const std::vector<DnnGraph*>& plans, std::uint32_t rounds, Runs runs) {
    std::vector<float> times(plans.size());
    device_.measure_kernels(true);
    for (std::uint32_t round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < plans.size(); ++i) {
        DIF_TRY(device_.mark_time());
        DIF_TRY(repeat(*plans[i], runs(i)));
      }
    DIF_TRY(device_.mark_time());
    DIF_TRY(device_.synchronize());
    DIF_ASSIGN(const std::vector<std::uint64_t> spans, device_.times_between_marks());
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const std::size_t plan = i % plans.size();
      times[plan] += static_cast<float>(spans[i]) / (1e3f * static_cast<float>(rounds * runs(plan)));
    }
    return times;
  }

  CudaDevice& device_;
  const AttentionShape& shape_;
  std::int64_t y_elements_ = 0;
  std::optional<Scratch> q_, k_, v_, bias_, first_, y_, workspace_, sums_;
  CudaKernel distance_;
};

Result<PlanMeasurement> measure(CudaDevice& device, const AttentionShape& shape,
                                const std::vector<std::unique_ptr<DnnGraph>>& plans) {
  Trial trial(device, shape);
  DIF_TRY(trial.make_operands(plans));
  DIF_TRY(trial.run_first(*plans[0]));
  std::vector<std::size_t> ranks = {0};
  std::vector<DnnGraph*> agreeing = {plans[0].get()};
  for (std::size_t i = 1; i < plans.size(); ++i) {
    DIF_ASSIGN(const bool agrees, trial.agrees_with_the_first(*plans[i]));
    if (!agrees) continue;
    ranks.push_back(i);
    agreeing.push_back(plans[i].get());
  }
  DIF_ASSIGN(const std::vector<float> times, trial.time(agreeing));
  const auto fastest = static_cast<std::size_t>(std::ranges::min_element(times) - times.begin());
  const std::size_t chosen = times[fastest] < (1 - kLeastGain) * times[0] ? fastest : 0;
  return PlanMeasurement{static_cast<std::uint32_t>(ranks[chosen]), static_cast<std::uint32_t>(plans.size()),
                         times[chosen], times[0]};
}

}  // namespace

Result<std::unique_ptr<DnnGraph>> fastest_attention(CudaDevice& device, const AttentionShape& shape,
                                                    std::vector<std::unique_ptr<DnnGraph>> plans) {
  if (plans.size() == 1) return std::move(plans[0]);
  auto measured = measure(device, shape, plans);
  if (!measured && measured.error().code == ErrorCode::kOutOfMemory) return std::move(plans[0]);
  if (!measured) return tl::unexpected<Error>(std::move(measured.error()));
  std::unique_ptr<DnnGraph> chosen = std::move(plans[measured->rank]);
  chosen->measured = *measured;
  return chosen;
}

std::string reason_of(const PlanMeasurement& measured) {
  if (measured.plans == 0) return "";
  if (measured.rank == 0)
    return fmt::format("cuDNN's first of {} plans, {:.1f} us; none was faster", measured.plans,
                       measured.microseconds);
  return fmt::format("number {} of {} plans of cuDNN, {:.1f} us; its first took {:.1f} us", measured.rank + 1,
                     measured.plans, measured.microseconds, measured.first_microseconds);
}

}  // namespace dif::cuda
