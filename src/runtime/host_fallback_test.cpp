#include "runtime/host_fallback.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/program_file.h"
#include "ops/add/add.op.h"
#include "ops/silu/silu.op.h"
#include "runtime/abi_adapter.h"
#include "runtime/abi_codes.h"
#include "runtime/test_programs.h"

namespace dif::runtime {
namespace {

using namespace test;

const ir::TensorType kFour = f32({4});

/// A device whose memory the host cannot address: its handles are numbers.
class FarDevice final : public Device {
 public:
  bool addresses_host_memory() const override { return false; }
  Result<BufferView> allocate(std::uint64_t bytes) override {
    memory_[++last_].resize(bytes);
    return BufferView{reinterpret_cast<void*>(last_), 0};
  }
  void release(BufferView buffer) override { memory_.erase(key(buffer)); }
  Status upload(BufferView to, const void* from, std::uint64_t bytes) override {
    if (bytes != 0) std::memcpy(at(to), from, bytes);
    return ok();
  }
  Status download(void* to, BufferView from, std::uint64_t bytes) override {
    ++downloads;
    if (bytes != 0) std::memcpy(to, at(from), bytes);
    return ok();
  }
  Status copy(BufferView to, BufferView from, std::uint64_t bytes) override {
    if (bytes != 0) std::memmove(at(to), at(from), bytes);
    return ok();
  }
  std::byte* at(BufferView view) { return memory_.at(key(view)).data() + view.offset; }

  static inline int downloads = 0;

 private:
  static std::uintptr_t key(BufferView view) { return reinterpret_cast<std::uintptr_t>(view.base); }
  std::map<std::uintptr_t, std::vector<std::byte>> memory_;
  std::uintptr_t last_ = 0;
};

Result<std::unique_ptr<Kernel>> decline(const KernelRequest&) {
  return declined("this device only has memory");
}

Status add_on_host(const ir::OpView&, const KernelArgs& args) {
  for (int i = 0; i < 4; ++i)
    args.out[0].data<float>()[i] = args.in[0].data<float>()[i] + args.in[1].data<float>()[i];
  return ok();
}

std::span<const KernelEntry> host_kernels() {
  static const KernelEntry kList[] = {{&ops::kAdd, "far", decline},
                                      {&ops::kAdd, "plain", function_kernel<add_on_host>}};
  return kList;
}

constexpr BackendDefinition kFar = {
    .name = "far",
    .create_device = [](const DeviceOptions& options) -> Result<std::unique_ptr<Device>> {
      DIF_TRY(expect_only_device(options));
      return std::unique_ptr<Device>(new FarDevice());
    },
    .kernels = []() -> std::span<const KernelEntry> {
      static const KernelEntry kList[] = {{&ops::kAdd, "decliner", decline}};
      return kList;
    },
    .probe = [] { return std::string("{}"); },
    .host_fallback = host_fallback<host_kernels>,
};

struct Far : testing::Test {
  ~Far() override {
    if (prepared != nullptr) api.prepared_destroy(prepared);
    if (context != nullptr) api.context_destroy(context);
  }
  void open(std::uint32_t flags) {
    dif_context_options options = {};
    options.struct_size = sizeof(options);
    options.flags = flags;
    options.user = &logged;
    options.log = [](void* user, std::int32_t level, const char* sentence) {
      if (level == DIF_LOG_WARNING) *static_cast<std::string*>(user) += sentence;
    };
    ASSERT_EQ(api.context_create(&options, &context, &error), DIF_OK) << text;
  }
  dif_code prepare(const ir::Program& program) {
    bytes = ir::encode(program);
    dif_prepare_options options = {};
    options.struct_size = sizeof(options);
    options.program = bytes.data();
    options.program_bytes = bytes.size();
    return api.prepare(context, &options, &prepared, &error);
  }
  static ir::Program sum() {
    ir::Builder b("sum");
    const ir::Value x = b.input("x", kFour);
    b.output("z", ops::add(b, x, x));
    return finish(b);
  }

  const dif_backend_api& api = *backend_api<kFar>(DIF_ABI_MAJOR);
  char text[512] = {};
  dif_error error = {sizeof(error), text, sizeof(text), DIF_NO_OPERATION};
  std::string logged;
  std::vector<std::byte> bytes;
  dif_context* context = nullptr;
  dif_prepared* prepared = nullptr;
};

TEST_F(Far, RefusesWhatTheDeviceDeclinesAndSaysWhatWouldHelp) {
  open(0);
  EXPECT_EQ(prepare(sum()), DIF_ERROR_UNAVAILABLE);
  EXPECT_NE(std::string(text).find("operation 0 (add): decliner: this device only has memory"),
            std::string::npos)
      << text;
  EXPECT_NE(std::string(text).find("--allow-host-fallback"), std::string::npos) << text;
}

TEST_F(Far, RunsItOnTheHostWhereThatIsAllowedAndCountsIt) {
  open(DIF_CONTEXT_ALLOW_HOST_FALLBACK);
  ASSERT_EQ(prepare(sum()), DIF_OK) << text;
  EXPECT_EQ(logged, "program sum: 1 operations run on the host, with copies to and from the device");
  dif_report report = {};
  report.struct_size = sizeof(report);
  ASSERT_EQ(api.report(prepared, &report, &error), DIF_OK);
  EXPECT_EQ(report.n_host_operations, 1U);
  const auto operation = nlohmann::json::parse(report.details).at("operations").at(0);
  EXPECT_EQ(operation.at("kernel"), "host_fallback");
  EXPECT_EQ(operation.at("declined").at(0), "decliner: this device only has memory");

  float x[4] = {1, 2, 3, 4}, z[4] = {};
  dif_tensor in = {}, out = {};
  in.struct_size = out.struct_size = sizeof(dif_tensor);
  in.type = out.type = to_abi(kFour);
  in.bytes = out.bytes = sizeof(x);
  in.data = x;
  out.data = z;
  dif_run_options options = {};
  options.struct_size = sizeof(options);
  options.inputs = &in;
  options.n_inputs = 1;
  options.outputs = &out;
  options.n_outputs = 1;
  FarDevice::downloads = 0;
  ASSERT_EQ(api.run(prepared, &options, &error), DIF_OK) << text;
  EXPECT_EQ(z[3], 8);
  EXPECT_EQ(FarDevice::downloads, 3) << "both operands, and the result of the run";
}

TEST_F(Far, WhatTheHostDoesNotHaveEitherIsRefused) {
  open(DIF_CONTEXT_ALLOW_HOST_FALLBACK);
  ir::Builder b("other");
  b.output("y", ops::silu(b, b.input("x", kFour)));
  EXPECT_EQ(prepare(finish(b)), DIF_ERROR_UNAVAILABLE);
  EXPECT_NE(std::string(text).find("operation 0 (silu): no kernel"), std::string::npos) << text;
}

TEST_F(Far, HasOneDevice) {
  dif_context_options options = {};
  options.struct_size = sizeof(options);
  options.device = 1;
  EXPECT_EQ(api.context_create(&options, &context, &error), DIF_ERROR_UNAVAILABLE);
  EXPECT_STREQ(text, "there is no device 1; the only one is 0");
}

}  // namespace
}  // namespace dif::runtime
