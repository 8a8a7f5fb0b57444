#include "backends/cuda/matmul_choice.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/source.h"
#include "backends/cuda/trial_operands.h"
#include "io/digest.h"

namespace dif::cuda {

namespace {

/// Products of fewer operations take as long as their launch.
constexpr double kLeastFlop = 4e9;
constexpr std::uint32_t kRounds = 3, kRunsOfRound = 2;
/// Less is noise.
constexpr float kLeastGain = 0.01f;

/// A GPU that has multiplied for so long is at its limit of power and has lowered its clock, as it is within
/// a step; what is fastest in a burst need not be so then. Those that are close in a burst are measured
/// again.
constexpr float kHotMicroseconds = 30e3f;
constexpr std::uint32_t kHotRounds = 2;
constexpr float kClose = 1.05f;
constexpr std::size_t kMostFinalists = 3;
/// Of smaller products a step has too few.
constexpr double kLeastHotFlop = 5e10;

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 4096;

constexpr const char* kText = R"(
extern "C" __global__ void __launch_bounds__(256)
compare(const @bits@* x, const @bits@* y, Index count, unsigned long long* found) {
  bool same = true;
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < count; i += (Index)gridDim.x * 256) same &= x[i] == y[i];
  if (!same) atomicMin(found, 0ull);
}
)";

/// What is kept of a choice.
struct Kept {
  cublasLtMatmulAlgo_t algorithm = {};
  std::uint32_t rank = 0, candidates = 0;  ///< 0 candidates: unmeasured
  float microseconds = 0, first_microseconds = 0;
};

std::int64_t extent(std::int64_t batches, std::int64_t batch, std::int64_t rows, std::int64_t row,
                    std::int64_t width) {
  return (batches - 1) * batch + (rows - 1) * row + width;
}

double flop_of(const MatmulShape& shape) {
  return 2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.columns) *
         static_cast<double>(shape.depth) * static_cast<double>(shape.batches);
}

class Measurement {
 public:
  Measurement(CudaDevice& device, const MatmulShape& shape, const RunMatmul& run)
      : device_(device), shape_(shape), run_(run) {}

  /// `asked`: the one way to measure; null: in bursts, and large products hot.
  Result<Kept> best(std::span<const cublasLtMatmulHeuristicResult_t> found,
                    const runtime::LinearChoice* asked) {
    DIF_TRY(fill_operands());
    std::vector<std::size_t> which = {0};
    DIF_TRY(once(found[0], first_->view()));
    for (std::size_t i = 1; i < found.size(); ++i) {
      DIF_ASSIGN(const bool equal, gives_the_bits_of_the_first(found[i]));
      if (equal) which.push_back(i);
    }
    const auto n_same = static_cast<std::uint32_t>(which.size());
    Runs runs = {0, kRounds, kRunsOfRound};
    if (asked != nullptr)
      runs = {asked->warmups, asked->sessions == 0 ? kRounds : asked->sessions,
              asked->iterations == 0 ? kRunsOfRound : asked->iterations};
    DIF_ASSIGN(std::vector<float> times, time(found, which, runs));
    if (asked == nullptr && flop_of(shape_) >= kLeastHotFlop) {
      const float fastest = *std::ranges::min_element(times);
      which = finalists(which, times);
      const auto hot = static_cast<std::uint32_t>(kHotMicroseconds / std::max(fastest, 1.0f)) + 1;
      if (which.size() > 1) {
        DIF_ASSIGN(times, time(found, which, {hot / 4, kHotRounds, hot}));
      }
    }
    const auto fastest = static_cast<std::size_t>(std::ranges::min_element(times) - times.begin());
    const std::size_t chosen = times[fastest] < (1 - kLeastGain) * times[0] ? fastest : 0;
    return Kept{found[which[chosen]].algo, static_cast<std::uint32_t>(which[chosen]), n_same, times[chosen],
                times[0]};
  }

 private:
  struct Runs {
    std::uint32_t warmups, rounds, runs_of_round;
  };

  /// The first, with which all are compared, and the fastest of those that come close to the fastest.
  static std::vector<std::size_t> finalists(const std::vector<std::size_t>& which,
                                            const std::vector<float>& times) {
    const float fastest = *std::ranges::min_element(times);
    std::vector<std::size_t> close;
    for (std::size_t i = 1; i < which.size(); ++i)
      if (times[i] <= kClose * fastest) close.push_back(i);
    std::ranges::sort(close, {}, [&](std::size_t i) { return times[i]; });
    close.resize(std::min(close.size(), kMostFinalists - 1));
    std::vector<std::size_t> chosen = {which[0]};
    for (const std::size_t i : close) chosen.push_back(which[i]);
    return chosen;
  }

  Status fill_operands() {
    const std::int64_t x = extent(shape_.batches, shape_.x_batch, shape_.rows, shape_.x_row, shape_.depth);
    const std::int64_t w =
        shape_.w_by_depth
            ? extent(shape_.batches, shape_.w_batch, shape_.depth, shape_.w_row, shape_.columns)
            : extent(shape_.batches, shape_.w_batch, shape_.columns, shape_.w_row, shape_.depth);
    y_elements_ = extent(shape_.batches, shape_.y_batch, shape_.rows, shape_.y_row, shape_.columns);
    struct Operand {
      std::optional<Scratch>& scratch;
      DType dtype;
      std::int64_t count;
      std::int32_t seed;
    };
    // Between the rows of a result lies what is the same in both.
    for (const Operand& operand :
         {Operand{x_, shape_.x, x, 1}, Operand{w_, shape_.x, w, 2},
          Operand{bias_, shape_.y, shape_.columns, 3}, Operand{first_, shape_.y, y_elements_, 4},
          Operand{y_, shape_.y, y_elements_, 4}}) {
      const std::uint64_t bytes = static_cast<std::uint64_t>(operand.count) * dtype_size(operand.dtype);
      DIF_ASSIGN(Scratch made, Scratch::create(device_, bytes));
      operand.scratch.emplace(std::move(made));
      DIF_TRY(fill_randomly(device_, operand.scratch->view(), operand.dtype, operand.count, operand.seed));
    }
    DIF_ASSIGN(Scratch made, Scratch::create(device_, kMatmulWorkspace));
    workspace_.emplace(std::move(made));
    const auto element = static_cast<std::int64_t>(dtype_size(shape_.y));
    DIF_ASSIGN(compare_,
               device_.kernel(prelude() + fill(kText, {{"bits", bits_type(element)}}), "compare", kThreads));
    DIF_ASSIGN(differs_, device_.report_word());
    return ok();
  }

  static std::int64_t blocks(std::int64_t count) { return std::min(ceil_div(count, kThreads), kMostBlocks); }

  Status once(const cublasLtMatmulHeuristicResult_t& candidate, runtime::BufferView y) {
    const std::array<runtime::BufferView, 5> memory = {x_->view(), w_->view(), y, bias_->view(),
                                                       workspace_->view()};
    return run_(candidate.algo, candidate.workspaceSize, memory);
  }

  Result<bool> gives_the_bits_of_the_first(const cublasLtMatmulHeuristicResult_t& candidate) {
    if (!once(candidate, y_->view())) return false;
    DIF_TRY(
        compare_.launch({blocks(y_elements_)}, {first_->view(), y_->view(), y_elements_, differs_.view()}));
    DIF_TRY(device_.synchronize());
    return differs_.take() == ReportWord::kNothing;
  }

  /// Microseconds of each of `which`.
  Result<std::vector<float>> time(std::span<const cublasLtMatmulHeuristicResult_t> found,
                                  const std::vector<std::size_t>& which, const Runs& runs) {
    std::vector<float> times(which.size());
    for (const std::size_t i : which)
      for (std::uint32_t run = 0; run < runs.warmups; ++run) DIF_TRY(once(found[i], y_->view()));
    device_.measure_kernels(true);
    for (std::uint32_t round = 0; round < runs.rounds; ++round)
      for (const std::size_t i : which) {
        DIF_TRY(device_.mark_time());
        for (std::uint32_t run = 0; run < runs.runs_of_round; ++run) DIF_TRY(once(found[i], y_->view()));
      }
    DIF_TRY(device_.mark_time());
    DIF_TRY(device_.synchronize());
    DIF_ASSIGN(const std::vector<std::uint64_t> spans, device_.times_between_marks());
    for (std::size_t i = 0; i < spans.size(); ++i)
      times[i % times.size()] +=
          static_cast<float>(spans[i]) / (1e3f * static_cast<float>(runs.rounds * runs.runs_of_round));
    return times;
  }

  CudaDevice& device_;
  const MatmulShape& shape_;
  const RunMatmul& run_;
  std::int64_t y_elements_ = 0;
  std::optional<Scratch> x_, w_, bias_, first_, y_, workspace_;
  CudaKernel compare_;
  ReportWord differs_;
};

io::CacheKey key_of(CudaDevice& device, const MatmulShape& s, bool more_algorithms,
                    const std::string& library) {
  io::CacheKey key("cublaslt-algorithms", 3);
  key.add("library", library)
      .add("device", device.facts().name)
      .add("capability", static_cast<std::uint64_t>(device.facts().capability))
      .add("driver", static_cast<std::uint64_t>(device.driver().version))
      .add("x", dtype_name(s.x))
      .add("y", dtype_name(s.y));
  for (const std::int64_t number :
       {s.rows, s.columns, s.depth, s.batches, s.x_row, s.w_row, s.y_row, s.x_batch, s.w_batch, s.y_batch,
        std::int64_t{s.w_by_depth}, std::int64_t{s.biased}, std::int64_t{s.measured}})
    key.add("number", static_cast<std::uint64_t>(number));
  if (more_algorithms) key.add("more_algorithms", std::uint64_t{1});
  return key;
}

std::string reason_of(const Kept& kept) {
  if (kept.candidates == 0) return "";
  if (kept.rank == 0)
    return fmt::format("cuBLASLt's first of {} with the same bits, {:.1f} us; none was faster",
                       kept.candidates, kept.microseconds);
  return fmt::format(
      "number {} that cuBLASLt recommends, {:.1f} us; its first took {:.1f} us, with the same bits",
      kept.rank + 1, kept.microseconds, kept.first_microseconds);
}

/// What an earlier measurement says, if it can be trusted here.
std::optional<MatmulChoice> known(std::span<const std::byte> bytes, const CheckMatmul& check) {
  Kept kept;
  if (bytes.size() != sizeof(kept)) return {};
  std::memcpy(&kept, bytes.data(), sizeof(kept));
  MatmulChoice choice = {kept.algorithm, 0, reason_of(kept)};
  if (!check(choice.algorithm, choice.workspace_bytes)) return {};
  return choice;
}

Result<MatmulChoice> of_rank(const runtime::LinearChoice& asked, const FindMatmuls& find) {
  DIF_ASSIGN(const auto found, find());
  const std::uint32_t rank = *asked.rank;
  if (rank >= found.size())
    return invalid_input("cuBLASLt recommends {} algorithms, none with the rank {}", found.size(), rank);
  return MatmulChoice{found[rank].algo, found[rank].workspaceSize,
                      fmt::format("rank {} of {} that cuBLASLt recommends, as chosen", rank, found.size())};
}

}  // namespace

Result<MatmulChoice> choose_matmul(CudaDevice& device, const MatmulShape& shape, const MatmulWish& wish,
                                   const std::string& library, const FindMatmuls& find, const RunMatmul& run,
                                   const CheckMatmul& check) {
  if (wish.choice != nullptr && wish.choice->rank) return of_rank(*wish.choice, find);
  const bool asked = wish.choice != nullptr;
  const io::CacheKey key = key_of(device, shape, wish.more_algorithms, library);
  std::vector<std::byte>& mine = device.known_choices()[io::hex(key.digest())];
  if (auto choice = known(mine, check); choice && !asked) return *choice;
  if (const auto entry = device.cache().find(key); entry && !asked)
    if (auto choice = known(entry->bytes, check)) {
      mine.assign(entry->bytes.begin(), entry->bytes.end());
      return *choice;
    }
  DIF_ASSIGN(const auto found, find());
  const MatmulChoice first = {found[0].algo, found[0].workspaceSize, ""};
  Kept kept = {first.algorithm};
  if (found.size() > 1 && (flop_of(shape) >= kLeastFlop || asked)) {
    auto best = Measurement(device, shape, run).best(found, wish.choice);
    if (!best && best.error().code == ErrorCode::kOutOfMemory) return first;
    if (!best) return tl::unexpected<Error>(std::move(best.error()));
    kept = *best;
  }
  const auto bytes = std::as_bytes(std::span(&kept, 1));
  mine.assign(bytes.begin(), bytes.end());
  device.cache().store(key, bytes);
  auto choice = known(mine, check);
  return choice ? *choice : first;
}

}  // namespace dif::cuda
