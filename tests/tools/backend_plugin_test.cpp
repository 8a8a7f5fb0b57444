/// Backends that are not ours: the example of examples/backend-plugin, and plug-ins that must be refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "ir/builder.h"
#include "ops/add/add.op.h"
#include "ops/add_scalar/add_scalar.op.h"
#include "ops/mul/mul.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/silu/silu.op.h"
#include "ops/sqrt/sqrt.op.h"
#include "runtime/session.h"
#include "tests/support/paths.h"

namespace dif::runtime {
namespace {

using Floats = std::vector<float>;

const ir::TensorType kFour = {DType::kF32, {2, 2}};

std::filesystem::path plugin(const std::string& name) {
  return test::bin_dir() / "examples" / ("libdif_" + name + ".so");
}

std::shared_ptr<Context> open(const std::shared_ptr<const BackendLibrary>& library,
                              ContextOptions options = {}) {
  auto context = Context::create(library, std::move(options));
  EXPECT_TRUE(context) << context.error().message;
  return context ? *context : nullptr;
}

std::shared_ptr<Context> open_example(ContextOptions options = {}) {
  auto library = BackendLibrary::load(plugin("pointwise"));
  EXPECT_TRUE(library) << library.error().message;
  return library ? open(*library, std::move(options)) : nullptr;
}

ir::Program finish(ir::Builder& b) {
  auto program = b.finish();
  EXPECT_TRUE(program) << program.error().message;
  return std::move(*program);
}

/// Every operation of the example: silu((x + w) * 3 + 0.5) * x
ir::Program every_operation() {
  ir::Builder b("every operation");
  const ir::Value x = b.input("x", kFour), w = b.constant("w", kFour);
  const ir::Value sum = ops::add_scalar(b, ops::mul_scalar(b, ops::add(b, x, w), 3), 0.5f);
  b.output("y", ops::mul(b, ops::silu(b, sum), x));
  return finish(b);
}

Binding host(const ir::TensorType& type, Floats& values) {
  return Binding::of(type, std::as_writable_bytes(std::span(values)));
}

Result<Floats> run(const std::shared_ptr<Context>& context, const ir::Program& program, Floats input,
                   const RunOptions& options = {}) {
  const Floats w = {1, -2, 3, -4};
  std::vector<ConstantBinding> constants(program.constants.size(), {w.data(), 16});
  DIF_ASSIGN(const auto prepared, PreparedProgram::prepare(context, program, constants));
  Floats output(4);
  DIF_TRY(prepared->run(std::vector{host(kFour, input)}, std::vector{host(kFour, output)}, options));
  return output;
}

template <class AnyResult>
void expect_error(const AnyResult& result, ErrorCode code, const std::string& part) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
}

TEST(ExampleBackend, AgreesWithTheReferenceOnEveryOperationItHas) {
  auto reference = BackendLibrary::load_by_name("reference");
  ASSERT_TRUE(reference) << reference.error().message;
  const Floats input = {0.25f, -1.5f, 3, 7};
  const auto expected = run(open(*reference), every_operation(), input);
  const auto found = run(open_example(), every_operation(), input);
  ASSERT_TRUE(expected && found) << (found ? "" : found.error().message);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR((*found)[i], (*expected)[i], 1e-5) << i;
  EXPECT_NEAR((*found)[3], 9.5 * 7, 0.01) << "(7 - 4) * 3 + 0.5, and 7";
}

TEST(ExampleBackend, IsNotAskedToRunAheadForItHasNoHostMemory) {
  const Floats input = {0.25f, -1.5f, 3, 7};
  const auto plain = run(open_example(), every_operation(), input);
  const auto ahead = run(open_example(), every_operation(), input, {.ahead = true});
  ASSERT_TRUE(plain && ahead) << (ahead ? "" : ahead.error().message);
  EXPECT_EQ(*ahead, *plain);
}

TEST(ExampleBackend, SaysWhatItCannotRun) {
  ir::Builder b("other");
  b.output("y", ops::sqrt(b, ops::silu(b, b.input("x", kFour))));
  const auto declined = run(open_example(), finish(b), Floats(4));
  expect_error(declined, ErrorCode::kUnavailable,
               "backend pointwise: operation 1 is sqrt; this backend has add");

  ir::Builder wide("broadcast");
  const ir::Value row = wide.constant("row", {DType::kF32, {2}});
  wide.output("y", ops::add(wide, wide.input("x", kFour), row));
  expect_error(
      PreparedProgram::prepare(open_example(), finish(wide), std::vector{ConstantBinding{"12345678", 8}}),
      ErrorCode::kUnavailable, "nothing is broadcast");

  ir::Builder half("bf16");
  half.output("y", ops::silu(half, half.input("x", {DType::kBF16, {4}})));
  expect_error(PreparedProgram::prepare(open_example(), finish(half), {}), ErrorCode::kUnavailable,
               "neither f32 nor i32");
}

TEST(ExampleBackend, RunsLoopsWithCarriesAndStepEvents) {
  ir::Builder b("halve");
  const ir::Value x = b.input("x", kFour);
  b.input("step", {DType::kI32, {1}});
  b.output("x", ops::mul_scalar(b, x, 0.5f));
  auto prepared = PreparedProgram::prepare(open_example(), finish(b), {});
  ASSERT_TRUE(prepared) << prepared.error().message;
  Floats input = {64, 128, 256, 512}, output(4), seen;
  std::vector<std::byte> step(4);
  LoopOptions loop;
  loop.n_steps = 3;
  loop.step_input = 1;
  loop.carries = {{0, 0}};
  loop.wants_state = true;
  loop.on_step = [&](const StepEvent& event) {
    float first = 0;
    std::memcpy(&first, event.state.data(), sizeof(first));
    seen.push_back(first);
    return event.step == 9 ? AfterStep::kStop : AfterStep::kContinue;
  };
  const std::vector<Binding> ins = {host(kFour, input), Binding::of({DType::kI32, {1}}, step)},
                             outs = {host(kFour, output)};
  ASSERT_TRUE((*prepared)->run_loop(ins, outs, loop));
  EXPECT_EQ(output, (Floats{8, 16, 32, 64}));
  EXPECT_EQ(seen, (Floats{32, 16, 8}));
  loop.first_step = 8;
  expect_error((*prepared)->run_loop(ins, outs, loop), ErrorCode::kCancelled, "stopped after step 9");
}

TEST(ExampleBackend, KeepsTensorsBetweenPrograms) {
  const auto context = open_example();
  auto value = DeviceValue::create(context, kFour);
  ASSERT_TRUE(value) << value.error().message;
  Floats numbers = {1, 2, 3, 4}, output(4);
  ASSERT_TRUE(value->write(std::as_bytes(std::span(numbers))));
  ir::Builder b("double");
  b.output("y", ops::mul_scalar(b, b.input("x", kFour), 2));
  const auto prepared = PreparedProgram::prepare(context, finish(b), {});
  ASSERT_TRUE(prepared);
  ASSERT_TRUE((*prepared)->run(std::vector{Binding::of(*value)}, std::vector{host(kFour, output)}));
  EXPECT_EQ(output, (Floats{2, 4, 6, 8}));
  ASSERT_TRUE((*prepared)->run(std::vector{Binding::of(*value)}, std::vector{Binding::of(*value)}));
  ASSERT_TRUE(value->read(std::as_writable_bytes(std::span(numbers))));
  EXPECT_EQ(numbers, output);
}

TEST(ExampleBackend, HonoursCapCancelTraceAndChecks) {
  ContextOptions options;
  options.memory_cap_bytes = 64;
  expect_error(run(open_example(options), every_operation(), Floats(4)), ErrorCode::kOutOfMemory,
               "the cap of 64 bytes");
  bool stop = true;
  int events = 0;
  options.memory_cap_bytes = 0;
  options.cancelled = [&] { return stop; };
  options.trace = [&](const dif_trace_event& event) {
    events += std::strcmp(event.kernel, "pointwise") == 0;
  };
  expect_error(run(open_example(options), every_operation(), Floats(4)), ErrorCode::kCancelled, "stopped");
  stop = false;
  EXPECT_TRUE(run(open_example(options), every_operation(), Floats(4)));
  EXPECT_EQ(events, 5);
  const float inf = std::numeric_limits<float>::infinity();
  expect_error(run(open_example(), every_operation(), {1, inf, 1, 1}, {.check_operations = true}),
               ErrorCode::kNonFinite, "operation 0 (add)");
}

TEST(ExampleBackend, ReleasesConstantsAtPrepare) {
  const ir::Program program = every_operation();
  Floats w = {1, 1, 1, 1}, x = {1, 1, 1, 1}, before(4), after(4);
  const auto prepared =
      PreparedProgram::prepare(open_example(), program, std::vector{ConstantBinding{w.data(), 16}});
  ASSERT_TRUE(prepared);
  ASSERT_TRUE((*prepared)->run(std::vector{host(kFour, x)}, std::vector{host(kFour, before)}));
  w.assign(4, 1000);
  ASSERT_TRUE((*prepared)->run(std::vector{host(kFour, x)}, std::vector{host(kFour, after)}));
  EXPECT_EQ(after, before);
}

TEST(ExampleBackend, RefusesFlagsThatItDoesNotKnow) {
  auto library = BackendLibrary::load(plugin("pointwise"));
  ASSERT_TRUE(library) << library.error().message;
  dif_context_options options = {};
  options.struct_size = sizeof(options);
  dif_context* context = nullptr;
  char text[200] = {};
  dif_error error = {sizeof(error), text, sizeof(text), DIF_NO_OPERATION};
  options.flags = 8;
  EXPECT_EQ((*library)->api().context_create(&options, &context, &error), DIF_ERROR_INVALID);
  EXPECT_STREQ(text, "context flags 0x8 are unknown");
  options.flags = DIF_CONTEXT_ALLOW_HOST_FALLBACK;
  EXPECT_EQ((*library)->api().context_create(&options, &context, &error), DIF_OK) << text;
  (*library)->api().context_destroy(context);
}

// --- plug-ins that must be refused ------------------------------------------------------------------------

/// Loads the broken plug-in as `broken` says.
auto load_broken(const char* broken) {
  setenv("DIF_TEST_BROKEN", broken, 1);
  auto library = BackendLibrary::load(plugin("test_broken"));
  unsetenv("DIF_TEST_BROKEN");
  return library;
}

TEST(BrokenPlugin, MissingFile) {
  expect_error(BackendLibrary::load("/nowhere/libdif_x.so"), ErrorCode::kUnavailable,
               "there is no such backend file");
}

TEST(BrokenPlugin, FileThatIsNoLibrary) {
  const test::ScratchDir scratch;
  std::ofstream(scratch / "text.so") << "not a library";
  expect_error(BackendLibrary::load(scratch / "text.so"), ErrorCode::kUnavailable, "not a usable backend");
  expect_error(BackendLibrary::load(scratch.path()), ErrorCode::kUnavailable, "not a usable backend");
}

TEST(BrokenPlugin, LibraryWithoutTheEntryFunction) {
  expect_error(BackendLibrary::load(test::bin_dir() / "libdif.so"), ErrorCode::kUnavailable,
               "does not export dif_backend_entry");
}

TEST(BrokenPlugin, OtherMajorVersion) {
  expect_error(load_broken("major version"), ErrorCode::kUnavailable,
               "it has ABI version 2, this program has 1");
  expect_error(load_broken("no table"), ErrorCode::kUnavailable, "does not support ABI version 1");
}

TEST(BrokenPlugin, IncompleteTable) {
  for (const char* broken : {"short table", "empty table", "missing function", "no name"})
    expect_error(load_broken(broken), ErrorCode::kUnavailable, "not a usable backend");
}

TEST(BrokenPlugin, ErrorsWithoutASentenceAndMissingHandlesAreStillErrors) {
  auto library = load_broken("");
  ASSERT_TRUE(library) << library.error().message;
  EXPECT_EQ((*library)->version(), "0");
  expect_error(Context::create(*library, {}), ErrorCode::kUnavailable, "backend broken created no context");
}

TEST(BackendNames, AreNamesAndNotPaths) {
  expect_error(BackendLibrary::load_by_name("../dif"), ErrorCode::kInvalidInput, "is not a backend name");
  expect_error(BackendLibrary::load_by_name(""), ErrorCode::kInvalidInput, "is not a backend name");
  expect_error(BackendLibrary::load_by_name("abacus"), ErrorCode::kUnavailable, "available: ");
  expect_error(BackendLibrary::load_by_name("abacus"), ErrorCode::kUnavailable, "reference");
}

TEST(BackendNames, AFolderOfPluginsCanBeNamed) {
  setenv("DIF_BACKEND_DIR", plugin("pointwise").parent_path().c_str(), 1);
  const auto library = BackendLibrary::load_by_name("pointwise");
  const std::vector<std::string> names = available_backends();
  unsetenv("DIF_BACKEND_DIR");
  ASSERT_TRUE(library) << library.error().message;
  EXPECT_NE(std::find(names.begin(), names.end(), "pointwise"), names.end());
  EXPECT_NE(std::find(names.begin(), names.end(), "reference"), names.end());
  EXPECT_EQ((*library)->probe()->find(R"({"backend":"pointwise")"), 0U);
}

}  // namespace
}  // namespace dif::runtime
