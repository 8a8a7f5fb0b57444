#include "runtime/abi_adapter.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include "ir/program_file.h"
#include "ops/add/add.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "runtime/abi_codes.h"
#include "runtime/finite.h"
#include "runtime/test_programs.h"

namespace dif::runtime {
namespace {

using namespace test;

/// A backend of this test: `add` of four floats; prepare can be made to fail.
const char* g_sentence = nullptr;

Status add_four(const ir::OpView&, const KernelArgs& args) {
  if (g_sentence != nullptr) return fail(ErrorCode::kUnavailable, "{}", g_sentence);
  for (int i = 0; i < 4; ++i)
    args.out[0].data<float>()[i] = args.in[0].data<float>()[i] + args.in[1].data<float>()[i];
  return ok();
}

constexpr BackendDefinition kTestBackend = {
    .name = "test",
    .create_device = [](const DeviceOptions& options) -> Result<std::unique_ptr<Device>> {
      if (options.device != 0) return fail(ErrorCode::kUnavailable, "there is no device {}", options.device);
      if (options.log) options.log(DIF_LOG_INFO, "opened");
      return std::unique_ptr<Device>(new HostDevice(options.cap_bytes));
    },
    .kernels = []() -> std::span<const KernelEntry> {
      static const KernelEntry kKernels[] = {{&ops::kAdd, "add_four", function_kernel<add_four>}};
      return kKernels;
    },
    .probe = [] { return std::string(R"({"backend":"test"})"); },
};

const dif_backend_api& api() {
  return *backend_api<kTestBackend>(DIF_ABI_MAJOR);
}

/// A caller in C: every structure filled in by hand, larger than ours as a newer host would have them.
struct Newer {
  dif_tensor tensor;
  std::uint64_t member_of_the_future = ~0ULL;
};

struct CAbi : testing::Test {
  CAbi() {
    dif_context_options options = {};
    options.struct_size = sizeof(options);
    EXPECT_EQ(api().context_create(&options, &context, &error), DIF_OK) << text;
    ir::Builder b("sum");
    b.output("z", ops::add(b, b.input("x", f32({4})), b.constant("w", f32({4}))));
    program = ir::encode(finish(b));
  }
  ~CAbi() override {
    if (prepared != nullptr) api().prepared_destroy(prepared);
    if (context != nullptr) api().context_destroy(context);
    g_sentence = nullptr;
  }

  static dif_tensor_type four() { return to_abi(f32({4})); }

  dif_constant constant() {
    dif_constant result = {};
    result.struct_size = sizeof(result);
    result.fd = -1;
    result.name = "w";
    result.type = four();
    result.data = weights;
    result.bytes = sizeof(weights);
    return result;
  }

  dif_code prepare(const dif_constant& bound, std::uint32_t count = 1,
                   const dif_execution_options* execution = nullptr) {
    dif_prepare_options options = {};
    options.struct_size = sizeof(options);
    options.program = program.data();
    options.program_bytes = program.size();
    options.constants = &bound;
    options.n_constants = count;
    options.execution = execution;
    return api().prepare(context, &options, &prepared, &error);
  }

  static dif_tensor tensor(float* data) {
    dif_tensor result = {};
    result.struct_size = sizeof(Newer);
    result.type = four();
    result.data = data;
    result.bytes = 16;
    return result;
  }

  dif_run_options run_options() {
    dif_run_options options = {};
    options.struct_size = sizeof(options);
    options.inputs = &in.tensor;
    options.n_inputs = 1;
    options.outputs = &out.tensor;
    options.n_outputs = 1;
    return options;
  }

  void expect(dif_code code, dif_code expected, const char* part) {
    EXPECT_EQ(code, expected) << text;
    EXPECT_NE(std::strstr(text, part), nullptr) << text;
  }

  char text[256] = {};
  dif_error error = {sizeof(error), text, sizeof(text), DIF_NO_OPERATION};
  dif_context* context = nullptr;
  dif_prepared* prepared = nullptr;
  std::vector<std::byte> program;
  float weights[4] = {1, 2, 3, 4}, x[4] = {10, 20, 30, 40}, z[4] = {};
  Newer in = {tensor(x)}, out = {tensor(z)};
};

TEST(BackendApi, HasEveryFunctionAndOnlyForItsMajorVersion) {
  EXPECT_EQ(backend_api<kTestBackend>(DIF_ABI_MAJOR + 1), nullptr);
  EXPECT_EQ(backend_api<kTestBackend>(0), nullptr);
  EXPECT_EQ(api().struct_size, sizeof(dif_backend_api));
  EXPECT_EQ(api().prefers, 0U);
  EXPECT_STREQ(api().name, "test");
  const char* json = nullptr;
  EXPECT_EQ(api().probe(&json, nullptr), DIF_OK);
  EXPECT_STREQ(json, R"({"backend":"test"})");
}

constexpr BackendDefinition kOtherBackend = {
    .name = "other",
    .create_device = kTestBackend.create_device,
    .kernels = kTestBackend.kernels,
    .probe = [] { return std::string(R"({"backend":"other"})"); },
    .prefers = [] { return std::uint32_t{DIF_PREFERS_CHANNELS_LAST}; },
};

TEST(BackendApi, ABackendSaysWhatItPrefersOnThisMachine) {
  EXPECT_EQ(backend_api<kOtherBackend>(DIF_ABI_MAJOR)->prefers, std::uint32_t{DIF_PREFERS_CHANNELS_LAST});
}

TEST(BackendApi, BackendsOfOneProcessKeepTheirDocumentsApart) {
  const char *first = nullptr, *second = nullptr;
  EXPECT_EQ(api().probe(&first, nullptr), DIF_OK);
  EXPECT_EQ(backend_api<kOtherBackend>(DIF_ABI_MAJOR)->probe(&second, nullptr), DIF_OK);
  EXPECT_STREQ(first, R"({"backend":"test"})");
  EXPECT_STREQ(second, R"({"backend":"other"})");
}

TEST_F(CAbi, RunsAProgramForAHostWithLargerStructures) {
  ASSERT_EQ(prepare(constant()), DIF_OK) << text;
  const dif_run_options options = run_options();
  ASSERT_EQ(api().run(prepared, &options, &error), DIF_OK) << text;
  EXPECT_EQ(z[3], 44);
}

TEST_F(CAbi, ReadsArraysInStepsOfTheHostsStructureSize) {
  ir::Builder b("two");
  const ir::Value first = b.input("x", f32({4})), second = b.input("y", f32({4}));
  b.output("x + y", ops::add(b, first, second));
  b.output("y", second);
  program = ir::encode(finish(b));
  ASSERT_EQ(prepare({}, 0), DIF_OK) << text;
  float y[4] = {1, 1, 1, 1}, copy[4] = {};
  const Newer ins[] = {{tensor(x)}, {tensor(y)}};
  Newer outs[] = {{tensor(z)}, {tensor(copy)}};
  dif_run_options options = run_options();
  options.inputs = &ins[0].tensor;
  options.outputs = &outs[0].tensor;
  options.n_inputs = options.n_outputs = 2;
  ASSERT_EQ(api().run(prepared, &options, &error), DIF_OK) << text;
  EXPECT_EQ(z[0], 11);
  EXPECT_EQ(copy[3], 1);
}

TEST_F(CAbi, RefusesStructuresThatAreTooShort) {
  dif_context_options short_options = {};
  short_options.struct_size = 8;
  dif_context* other = nullptr;
  expect(api().context_create(&short_options, &other, &error), DIF_ERROR_INVALID,
         "dif_context_options has 8 bytes");
  EXPECT_EQ(other, nullptr);
  short_options.struct_size = offsetof(dif_context_options, weight_cache_mib);
  EXPECT_EQ(api().context_create(&short_options, &other, nullptr), DIF_OK) << "a host of version 1.0";
  api().context_destroy(other);

  dif_constant bound = constant();
  bound.struct_size -= 1;
  expect(prepare(bound), DIF_ERROR_INVALID, "dif_constant has");
  ASSERT_EQ(prepare(constant()), DIF_OK) << text;
  in.tensor.struct_size = 16;
  dif_run_options options = run_options();
  expect(api().run(prepared, &options, &error), DIF_ERROR_INVALID, "dif_tensor has 16 bytes");
  options.struct_size = 4;
  expect(api().run(prepared, &options, &error), DIF_ERROR_INVALID, "dif_run_options has 4 bytes");
  dif_report report = {};
  expect(api().report(prepared, &report, &error), DIF_ERROR_INVALID, "dif_report has 0 bytes");
}

TEST_F(CAbi, RefusesConstantsThatAreNotTheProgramsOwn) {
  dif_constant bound = constant();
  bound.name = "v";
  expect(prepare(bound), DIF_ERROR_INVALID, "constant 0 is named v, the program calls it w");
  bound.name = nullptr;
  expect(prepare(bound), DIF_ERROR_INVALID, "named nothing");
  bound = constant();
  bound.type.dims[0] = 5;
  expect(prepare(bound), DIF_ERROR_INVALID, "constant w is f32[5], the program wants f32[4]");
  bound = constant();
  bound.bytes = 15;
  expect(prepare(bound), DIF_ERROR_INVALID, "15 bytes");
  bound = constant();
  bound.data = nullptr;
  expect(prepare(bound), DIF_ERROR_INVALID, "constant w");
  expect(prepare(constant(), 0), DIF_ERROR_INVALID, "0 constants are bound, the program has 1");
  EXPECT_EQ(prepared, nullptr);
}

TEST_F(CAbi, RefusesBytesThatAreNoProgram) {
  program.resize(program.size() / 2);
  EXPECT_EQ(prepare(constant()), DIF_ERROR_INVALID);
  program.clear();
  EXPECT_EQ(prepare(constant()), DIF_ERROR_INVALID);
  EXPECT_NE(text[0], '\0');
}

TEST_F(CAbi, RefusesUnknownFlagsAndMissingArrays) {
  ASSERT_EQ(prepare(constant()), DIF_OK) << text;
  dif_run_options options = run_options();
  options.flags = 12;
  expect(api().run(prepared, &options, &error), DIF_ERROR_INVALID, "run flags 0xc are unknown");
  options = run_options();
  options.inputs = nullptr;
  expect(api().run(prepared, &options, &error), DIF_ERROR_INVALID, "none are there");
  dif_loop_options loop = {};
  loop.struct_size = sizeof(loop);
  loop.flags = 1;
  expect(api().run_loop(prepared, &loop, &error), DIF_ERROR_INVALID, "loop flags 0x1 are unknown");
}

TEST_F(CAbi, ADeviceThatComputesInHostMemoryHasNoneOfItsOwn) {
  void* memory = nullptr;
  expect(api().host_allocate(context, 4096, &memory, &error), DIF_ERROR_UNAVAILABLE, "no host memory");
  ASSERT_EQ(prepare(constant()), DIF_OK) << text;
  dif_run_options options = run_options();
  options.flags = DIF_RUN_AHEAD;
  EXPECT_EQ(api().run(prepared, &options, &error), DIF_OK) << text;
  EXPECT_EQ(z[3], 44);
}

TEST_F(CAbi, RefusesContextFlagsThatItDoesNotKnow) {
  dif_context_options options = {};
  options.struct_size = sizeof(options);
  options.flags = 8;
  dif_context* other = nullptr;
  expect(api().context_create(&options, &other, &error), DIF_ERROR_INVALID, "context flags 0x8 are unknown");
  EXPECT_EQ(other, nullptr);
}

TEST_F(CAbi, RefusesChoicesThatItDoesNotUnderstand) {
  dif_linear_choice linears[2] = {{sizeof(dif_linear_choice), 0, 0, 0, 0, 0},
                                  {sizeof(dif_linear_choice), 0, DIF_LINEAR_MEASURED, 0, 0, 0}};
  dif_execution_options good = {};
  good.struct_size = sizeof(good);
  const auto refuse = [&](auto change, const char* sentence) {
    dif_execution_options execution = good;
    change(execution);
    expect(prepare(constant(), 1, &execution), DIF_ERROR_INVALID, sentence);
  };
  refuse([](auto& e) { e.struct_size = 8; }, "dif_execution_options has 8 bytes");
  refuse([](auto& e) { e.flags = 4; }, "execution flags 0x4 are unknown");
  refuse([](auto& e) { e.attention = 9; }, "attention heuristic 9 is unknown");
  refuse([](auto& e) { e.n_linears = 1; },
         "choices of 1 products and 0 constants are announced, none are there");
  refuse([&](auto& e) { e.linears = linears, e.n_linears = 2; }, "operation 0 is chosen for twice");
  refuse([&](auto& e) { e.linears = linears, e.n_linears = 1; }, "operation 0 is add, not linear");
  linears[0].struct_size = 4;
  refuse([&](auto& e) { e.linears = linears, e.n_linears = 1; }, "dif_linear_choice has 4 bytes");
  EXPECT_EQ(prepare(constant(), 1, &good), DIF_OK) << text;
}

TEST_F(CAbi, RefusesImpossibleTypes) {
  dif_value* value = nullptr;
  dif_tensor_type type = four();
  type.dtype = 99;
  expect(api().value_create(context, &type, &value, &error), DIF_ERROR_INVALID, "dtype 99 is unknown");
  type = four();
  type.rank = 9;
  expect(api().value_create(context, &type, &value, &error), DIF_ERROR_INVALID, "rank 9");
  type = four();
  type.dims[0] = -1;
  expect(api().value_create(context, &type, &value, &error), DIF_ERROR_INVALID, "impossible");
  type.rank = 2;
  type.dims[0] = type.dims[1] = std::numeric_limits<std::int64_t>::max() / 2;
  expect(api().value_create(context, &type, &value, &error), DIF_ERROR_INVALID, "impossible");
  EXPECT_EQ(value, nullptr);
}

TEST_F(CAbi, CutsSentencesAtACharacterBoundary) {
  ASSERT_EQ(prepare(constant()), DIF_OK) << text;
  g_sentence = "wärmer";
  const dif_run_options options = run_options();
  error.text_size = 3;  // room for "w" and half of the next character
  EXPECT_EQ(api().run(prepared, &options, &error), DIF_ERROR_UNAVAILABLE);
  EXPECT_STREQ(text, "w");
  EXPECT_EQ(error.operation, 0U);
  error.text_size = 4;
  EXPECT_EQ(api().run(prepared, &options, &error), DIF_ERROR_UNAVAILABLE);
  EXPECT_STREQ(text, "wä");
  EXPECT_EQ(api().run(prepared, &options, nullptr), DIF_ERROR_UNAVAILABLE)
      << "an error structure is optional";
}

TEST_F(CAbi, PassesOptionsAndLogToTheDevice) {
  std::string logged;
  dif_context_options options = {};
  options.struct_size = sizeof(options);
  options.user = &logged;
  options.log = [](void* user, std::int32_t, const char* sentence) {
    *static_cast<std::string*>(user) = sentence;
  };
  dif_context* other = nullptr;
  ASSERT_EQ(api().context_create(&options, &other, &error), DIF_OK);
  EXPECT_EQ(logged, "opened");
  api().context_destroy(other);
  options.device = 3;
  expect(api().context_create(&options, &other, &error), DIF_ERROR_UNAVAILABLE, "there is no device 3");
}

TEST_F(CAbi, ServesAHostOfVersionOneZero) {
  const dif_constant bound = constant();
  dif_prepare_options options = {};
  options.struct_size = offsetof(dif_prepare_options, flags);
  options.program = program.data();
  options.program_bytes = program.size();
  options.constants = &bound;
  options.n_constants = 1;
  options.flags = ~0U;  // beyond the structure of that host
  ASSERT_EQ(api().prepare(context, &options, &prepared, &error), DIF_OK) << text;
  dif_report report = {};
  report.struct_size = offsetof(dif_report, context_arena_bytes);
  report.context_arena_bytes = 77;
  ASSERT_EQ(api().report(prepared, &report, &error), DIF_OK) << text;
  EXPECT_EQ(report.arena_bytes, 64U);
  EXPECT_EQ(report.context_arena_bytes, 77U) << "beyond the structure of that host";
}

TEST_F(CAbi, PlansWithoutReadingConstantsAndThenRefusesToRun) {
  dif_constant bound = constant();
  bound.data = nullptr;
  dif_prepare_options options = {};
  options.struct_size = sizeof(options);
  options.program = program.data();
  options.program_bytes = program.size();
  options.constants = &bound;
  options.n_constants = 1;
  options.flags = 2;
  expect(api().prepare(context, &options, &prepared, &error), DIF_ERROR_INVALID,
         "prepare flags 0x2 are unknown");
  options.flags = 0;
  expect(api().prepare(context, &options, &prepared, &error), DIF_ERROR_INVALID, "constant w has 16 bytes");
  options.flags = DIF_PREPARE_PLAN_ONLY;
  ASSERT_EQ(api().prepare(context, &options, &prepared, &error), DIF_OK) << text;
  dif_run_options run = run_options();
  expect(api().run(prepared, &run, &error), DIF_ERROR_INVALID, "program sum was planned, not prepared");
}

TEST_F(CAbi, SaysWhichConstantsAreNoLongerRead) {
  ir::Builder b("unused");
  b.constant("unused", f32({4}));
  b.output("z", ops::add(b, b.input("x", f32({4})), b.constant("w", f32({4}))));
  program = ir::encode(finish(b));
  std::vector<std::uint32_t> released;
  dif_constant bound[2] = {constant(), constant()};
  bound[0].name = "unused";
  dif_prepare_options options = {};
  options.struct_size = sizeof(options);
  options.program = program.data();
  options.program_bytes = program.size();
  options.constants = bound;
  options.n_constants = 2;
  options.user = &released;
  options.release = [](void* user, std::uint32_t i) {
    static_cast<std::vector<std::uint32_t>*>(user)->push_back(i);
  };
  ASSERT_EQ(api().prepare(context, &options, &prepared, &error), DIF_OK) << text;
  EXPECT_EQ(released, std::vector<std::uint32_t>{0});
}

// --- steps ahead -----------------------------------------------------------------------------------------

std::vector<std::string> g_happened;

Status add_and_note(const ir::OpView& op, const KernelArgs& args) {
  g_happened.emplace_back("run");
  return add_four(op, args);
}

/// A device that says it is done later than it is.
class AheadDevice final : public HostDevice {
 public:
  using HostDevice::HostDevice;

  Result<std::unique_ptr<FiniteProbe>> finite_probe() override {
    class Probe final : public FiniteProbe {
     public:
      Status submit(const TensorView& tensor) override {
        g_happened.emplace_back("look");
        finite_ = all_finite(tensor.type->dtype, std::as_bytes(std::span(tensor.data<float>(), 4)));
        return ok();
      }
      Result<bool> wait() override {
        g_happened.emplace_back("wait");
        return finite_;
      }

     private:
      bool finite_ = true;
    };
    return std::make_unique<Probe>();
  }
};

constexpr BackendDefinition kAheadBackend = {
    .name = "ahead",
    .create_device = [](const DeviceOptions& options) -> Result<std::unique_ptr<Device>> {
      return std::unique_ptr<Device>(new AheadDevice(options.cap_bytes));
    },
    .kernels = []() -> std::span<const KernelEntry> {
      static const KernelEntry kKernels[] = {{&ops::kAdd, "add_four", function_kernel<add_and_note>}};
      return kKernels;
    },
    .probe = [] { return std::string("{}"); },
};

/// x + w over steps, x carried.
struct Loop : testing::Test {
  Loop() : api(*backend_api<kAheadBackend>(DIF_ABI_MAJOR)) {
    g_happened.clear();
    dif_context_options options = {};
    options.struct_size = sizeof(options);
    EXPECT_EQ(api.context_create(&options, &context, &error), DIF_OK) << text;
    ir::Builder b("steps");
    const ir::Value x = b.input("x", f32({4}));
    b.input("step", {DType::kI32, {1}});
    b.output("y", ops::add(b, x, x));
    const auto bytes = ir::encode(finish(b));
    dif_prepare_options prepare = {};
    prepare.struct_size = sizeof(prepare);
    prepare.program = bytes.data();
    prepare.program_bytes = bytes.size();
    EXPECT_EQ(api.prepare(context, &prepare, &prepared, &error), DIF_OK) << text;
  }
  ~Loop() override {
    api.prepared_destroy(prepared);
    api.context_destroy(context);
  }

  dif_code run(std::uint32_t n_steps, bool wants_state = false) {
    test::StepTensors tensors(f32({4}), x, y);
    dif_loop_options loop = tensors.loop(n_steps);
    loop.wants_state = wants_state ? 1 : 0;
    loop.on_step = [](void*, const dif_step_event* event) -> std::int32_t {
      g_happened.push_back(
          fmt::format("told {}{}", event->step, event->all_finite != 0 ? "" : " is not finite"));
      return event->all_finite == 0 ? 1 : 0;
    };
    return api.run_loop(prepared, &loop, &error);
  }

  const dif_backend_api& api;
  char text[256] = {};
  dif_error error = {sizeof(error), text, sizeof(text), DIF_NO_OPERATION};
  dif_context* context = nullptr;
  dif_prepared* prepared = nullptr;
  float x[4] = {1, 2, 3, 4}, y[4] = {};
};

TEST_F(Loop, SubmitsAStepBeforeItHearsOfTheOneBefore) {
  ASSERT_EQ(run(3), DIF_OK) << text;
  EXPECT_EQ(g_happened, (std::vector<std::string>{"run", "look", "run", "look", "wait", "told 0", "run",
                                                  "look", "wait", "told 1", "wait", "told 2"}));
  EXPECT_EQ(y[3], 32);
}

TEST_F(Loop, WaitsForEachStepWhereItsStateIsWanted) {
  ASSERT_EQ(run(2, true), DIF_OK) << text;
  EXPECT_EQ(g_happened, (std::vector<std::string>{"run", "told 0", "run", "told 1"}));
}

TEST_F(Loop, NamesTheStepWhoseResultIsNotFinite) {
  x[2] = std::numeric_limits<float>::max() / 2;
  EXPECT_EQ(run(5), DIF_ERROR_NON_FINITE);
  EXPECT_STREQ(text, "step 1: the result holds NaN or infinity");
  EXPECT_EQ(g_happened.back(), "told 1 is not finite");
}

TEST(AbiCodes, EveryErrorClassSurvivesTheInterface) {
  for (const ErrorCode code :
       {ErrorCode::kAnswerNo, ErrorCode::kNonFinite, ErrorCode::kInvalidInput, ErrorCode::kUnavailable,
        ErrorCode::kOutOfMemory, ErrorCode::kInternal, ErrorCode::kCancelled})
    EXPECT_EQ(from_abi(to_abi(code)), code);
  EXPECT_EQ(from_abi(12345), ErrorCode::kInternal) << "a code that we do not know is the plug-in's bug";
  EXPECT_EQ(from_abi(to_abi(ErrorCode::kDeclined)), ErrorCode::kUnavailable);
}

TEST(Finite, SeesNanAndInfinityInEveryFloatingFormat) {
  const auto bytes = [](const auto& value) { return std::as_bytes(std::span(&value, 1)); };
  const float inf = std::numeric_limits<float>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(all_finite(DType::kF32, bytes(inf)));
  EXPECT_FALSE(all_finite(DType::kF64, bytes(nan)));
  EXPECT_FALSE(all_finite(DType::kBF16, bytes(std::uint16_t{0xff80})));
  EXPECT_FALSE(all_finite(DType::kF16, bytes(std::uint16_t{0x7e00})));
  EXPECT_TRUE(all_finite(DType::kF16, bytes(std::uint16_t{0x7bff})));
  EXPECT_TRUE(all_finite(DType::kI32, bytes(std::int32_t{-1})));
  const float mixed[] = {1, -3, inf, 2};
  const FiniteSurvey survey = survey_finite(DType::kF32, std::as_bytes(std::span(mixed)));
  EXPECT_FALSE(survey.all_finite);
  EXPECT_FALSE(survey.has_nan);
  EXPECT_EQ(survey.largest_finite, 3);
  EXPECT_TRUE(survey_finite(DType::kF64, bytes(nan)).has_nan);
}

}  // namespace
}  // namespace dif::runtime
