#pragma once

#include <gtest/gtest.h>

#include <fstream>

#include "io/mapped_file.h"
#include "ops/add/add.op.h"
#include "ops/concat/concat.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/slice/slice.op.h"
#include "runtime/executor.h"
#include "runtime/test_lane_device.h"
#include "runtime/test_programs.h"
#include "tests/support/paths.h"

/// A program over many weights, and kernels that queue it on a device with a copy lane.
namespace dif::runtime::test {

inline constexpr std::int64_t kWidth = 1024;
inline constexpr std::uint64_t kBytes = kWidth * sizeof(float);
inline constexpr int kWeights = 12;

/// y = x + w0 + w1 + ...; every weight by a step of its own, w3 by a second one as well, one of two joined
/// ones, and one that has to be computed.
inline ir::Program sums() {
  ir::Builder b("sums");
  ir::Value y = b.input("x", f32({kWidth}));
  std::vector<ir::Value> weights;
  for (int i = 0; i < kWeights; ++i) weights.push_back(b.constant("w" + std::to_string(i), f32({kWidth})));
  for (const ir::Value& weight : weights) y = ops::add(b, y, weight);
  y = ops::add(b, y, weights[3]);
  const std::vector<ir::Value> halves = {ops::slice(b, weights[1], 0, kWidth / 2, kWidth),
                                         ops::slice(b, weights[2], 0, 0, kWidth / 2)};
  y = ops::add(b, y, ops::concat(b, halves, 0));
  y = ops::add(b, y, ops::mul_scalar(b, weights[4], 2));
  b.output("y", y);
  return finish(b);
}

class QueuedAdd final : public Kernel {
 public:
  explicit QueuedAdd(Device* device) : device_(static_cast<LaneDevice&>(*device)) {}
  Status run(const KernelArgs& args) override {
    const auto *a = args.in[0].data<float>(), *b = args.in[1].data<float>();
    auto* y = args.out[0].data<float>();
    device_.submit(Lane::kRun, [=] {
      for (std::int64_t i = 0; i < kWidth; ++i) y[i] = a[i] + b[i];
    });
    return ok();
  }

 private:
  LaneDevice& device_;
};

class QueuedDouble final : public Kernel {
 public:
  explicit QueuedDouble(Device* device) : device_(static_cast<LaneDevice&>(*device)) {}
  Status run(const KernelArgs& args) override {
    const auto* a = args.in[0].data<float>();
    auto* y = args.out[0].data<float>();
    device_.submit(Lane::kRun, [=] {
      for (std::int64_t i = 0; i < kWidth; ++i) y[i] = 2 * a[i];
    });
    return ok();
  }

 private:
  LaneDevice& device_;
};

template <class K>
Result<std::unique_ptr<Kernel>> make(const KernelRequest& request) {
  return std::make_unique<K>(request.device);
}

inline const KernelEntry kKernels[] = {{&ops::kAdd, "queued", make<QueuedAdd>},
                                       {&ops::kMulScalar, "queued", make<QueuedDouble>}};

/// The weights in a file, and what the program gives for x = 1.
class Weights : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<float> values(kWeights * kWidth);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 1013);
    const auto w = [&](int n, std::int64_t i) { return values[static_cast<std::size_t>(n * kWidth + i)]; };
    for (std::int64_t i = 0; i < kWidth; ++i) {
      float y = 1;
      for (int n = 0; n < kWeights; ++n) y += w(n, i);
      y += w(3, i);
      y += i < kWidth / 2 ? w(1, i + kWidth / 2) : w(2, i - kWidth / 2);
      expected.push_back(y + 2 * w(4, i));
    }
    const auto bytes = std::as_bytes(std::span(values));
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    auto mapped = io::MappedFile::open(path);
    ASSERT_TRUE(mapped);
    file.emplace(std::move(*mapped));
    for (int n = 0; n < kWeights; ++n) {
      const auto offset = static_cast<std::uint64_t>(n) * kBytes;
      constants.push_back({file->bytes().data() + offset, kBytes, n == 5 ? -1 : file->fd(), offset});
    }
  }

  /// Runs `times` times and looks at every result.
  Status run(LaneDevice& device, Executor& executor, int times, const RunHooks& hooks = {}) {
    DIF_ASSIGN(const DeviceBuffer x, DeviceBuffer::create(device, kBytes));
    DIF_ASSIGN(const DeviceBuffer y, DeviceBuffer::create(device, kBytes));
    const std::vector<float> ones(kWidth, 1);
    for (int i = 0; i < times; ++i) {
      DIF_TRY(device.upload(x.view(), ones.data(), kBytes));
      const std::vector<BufferView> inputs = {x.view()}, outputs = {y.view()};
      DIF_TRY(executor.run(inputs, outputs, hooks));
      std::vector<float> found(kWidth);
      DIF_TRY(device.download(found.data(), y.view(), kBytes));
      EXPECT_EQ(found, expected) << "run " << i;
    }
    return ok();
  }

  Result<std::unique_ptr<Executor>> prepare(LaneDevice& device, SharedArena& arena, WeightOptions options) {
    ExecutorOptions all = {kKernels, true, [this](std::uint32_t i) { released.push_back(i); }};
    all.weights = options;
    return Executor::prepare(sums(), constants, device, arena, all);
  }

  dif::test::ScratchDir folder;
  std::filesystem::path path = folder / "weights";
  std::optional<io::MappedFile> file;
  std::vector<HostConstant> constants;
  std::vector<float> expected;
  std::vector<std::uint32_t> released;
};

/// What a context holds beside the weights of `sums`, as decide_residency counts it, and room for `weights`.
inline std::uint64_t budget_for(std::uint64_t weights) {
  const plan::Plan plan = plan::make_plan(sums());
  return (48 << 20) + 2 * kBytes + plan.arena_bytes + weights * kBytes + 1;
}

}  // namespace dif::runtime::test
