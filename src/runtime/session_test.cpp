#include "runtime/session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/float_convert.h"
#include "ops/add/add.op.h"
#include "ops/cast/cast.op.h"
#include "ops/gather_rows/gather_rows.op.h"
#include "ops/mul/mul.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/silu/silu.op.h"
#include "ops/sqrt/sqrt.op.h"
#include "plan/plan.h"
#include "runtime/test_programs.h"

namespace dif::runtime {
namespace {

using namespace test;
using Floats = std::vector<float>;

const ir::TensorType kFour = f32({4});

/// y = x * factor, again and again; with three operations the arena has two places of that type.
ir::Program multiplied(const ir::TensorType& type, float factor, int operations = 3) {
  ir::Builder b("multiplied");
  ir::Value x = b.input("x", type);
  for (int i = 0; i < operations; ++i) x = ops::mul_scalar(b, x, factor);
  b.output("y", x);
  return finish(b);
}

// --- one run ----------------------------------------------------------------------------------------------

TEST(Session, FoldsWhatDependsOnConstantsAloneAndNoLongerReadsThem) {
  ir::Builder b("fold");
  const ir::Value x = b.input("x", kFour);
  const ir::Value w = b.constant("w", {DType::kBF16, {4}});
  b.output("y", ops::add(b, x, ops::mul_scalar(b, ops::cast(b, w, DType::kF32), 2.0f)));
  std::vector<std::uint16_t> weights = {f32_to_bf16(1), f32_to_bf16(2), f32_to_bf16(3), f32_to_bf16(4)};
  const auto prepared = prepare(open("reference"), finish(b), {constant(weights)});
  weights.assign(4, 0);

  Floats input = {10, 20, 30, 40}, output(4);
  const Status status = prepared->run({{bound(kFour, input)}}, {{bound(kFour, output)}});
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(output, (Floats{12, 24, 36, 48}));

  const auto report = prepared->report();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->resident_bytes, 16U) << "the folded product and nothing else";
  const auto details = nlohmann::json::parse(report->details);
  int folded = 0;
  for (const auto& operation : details.at("operations")) folded += operation.value("folded", false) ? 1 : 0;
  EXPECT_EQ(folded, 2);
}

TEST(Session, OutputsMayBeViewsConstantsAndOneValueTwice) {
  ir::Builder b("outputs");
  const ir::Value x = b.input("x", kFour);
  const ir::Value w = b.constant("w", kFour);
  const ir::Value twice = ops::mul_scalar(b, x, 2.0f);
  b.output("view", ops::reshape(b, twice, {2, 2}));
  b.output("root", twice);
  b.output("constant", w);
  b.output("again", twice);
  b.output("view of the input", ops::reshape(b, x, {1, 4}));
  const Floats weights = {5, 6, 7, 8};
  const auto prepared = prepare(open("reference"), finish(b), {constant(weights)});
  Floats input = {1, 2, 3, 4}, view(4), root(4), same(4), again(4), copy(4);
  const Status status = prepared->run({{bound(kFour, input)}},
                                      {{bound(f32({2, 2}), view), bound(kFour, root), bound(kFour, same),
                                        bound(kFour, again), bound(f32({1, 4}), copy)}});
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(view, (Floats{2, 4, 6, 8}));
  EXPECT_EQ(root, view);
  EXPECT_EQ(again, view);
  EXPECT_EQ(same, weights);
  EXPECT_EQ(copy, input);
}

TEST(Session, AnOutputMayBeWrittenOverAnyInput) {
  ir::Builder b("swap");
  const ir::Value x = b.input("x", kFour);
  const ir::Value y = b.input("y", kFour);
  b.output("sum", ops::add(b, x, y));
  b.output("old x", x);
  b.output("old y", ops::reshape(b, y, {4, 1}));
  const auto prepared = prepare(open("reference"), finish(b));
  Floats first = {1, 2, 3, 4}, second = {10, 20, 30, 40}, third(4);
  const Status status =
      prepared->run({{bound(kFour, first), bound(kFour, second)}},
                    {{bound(kFour, first), bound(kFour, second), bound(f32({4, 1}), third)}});
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(first, (Floats{11, 22, 33, 44}));
  EXPECT_EQ(second, (Floats{1, 2, 3, 4}));
  EXPECT_EQ(third, (Floats{10, 20, 30, 40}));
}

TEST(Session, UnalignedConstantsInputsAndOutputsWork) {
  ir::Builder b("unaligned");
  const ir::Value x = b.input("x", kFour);
  b.output("y", ops::add(b, x, b.constant("w", kFour)));
  const Floats weights = {1, 2, 3, 4}, input = {10, 20, 30, 40};
  Floats output(4);
  std::vector<std::byte> w(17), in(17), out(17);
  std::memcpy(w.data() + 1, weights.data(), 16);
  std::memcpy(in.data() + 1, input.data(), 16);
  const auto prepared = prepare(open("reference"), finish(b), {{w.data() + 1, 16}});
  const Status status = prepared->run({{Binding::of(kFour, std::span(in).subspan(1))}},
                                      {{Binding::of(kFour, std::span(out).subspan(1))}});
  ASSERT_TRUE(status) << status.error().message;
  std::memcpy(output.data(), out.data() + 1, 16);
  EXPECT_EQ(output, (Floats{11, 22, 33, 44}));
}

TEST(Session, TracesOneEventPerOperationThatIsNoView) {
  std::vector<std::string> seen;
  ContextOptions options;
  options.trace = [&](const dif_trace_event& event) {
    seen.push_back(fmt::format("{} {} {}", event.operation, event.op_name, event.kernel));
  };
  ir::Builder b("trace");
  const ir::Value x = b.input("x", kFour);
  b.output("y", ops::silu(b, ops::reshape(b, ops::mul_scalar(b, x, 2), {2, 2})));
  const auto prepared = prepare(open("reference", options), finish(b));
  Floats input(4), output(4);
  ASSERT_TRUE(prepared->run({{bound(kFour, input)}}, {{bound(f32({2, 2}), output)}}));
  EXPECT_EQ(seen, (std::vector<std::string>{"0 mul_scalar reference", "2 silu reference"}));
}

TEST(Session, TwoContextsServeTwoThreads) {
  const auto work = [](float factor) {
    ir::Builder b("thread");
    ir::Value x = b.input("x", kFour);
    for (int i = 0; i < 4; ++i) x = ops::mul_scalar(b, x, factor);
    b.output("y", x);
    const auto prepared = prepare(open("reference"), finish(b));
    for (int i = 0; i < 200; ++i) {
      Floats input = {1, 2, 3, 4}, output(4);
      ASSERT_TRUE(prepared->run({{bound(kFour, input)}}, {{bound(kFour, output)}}));
      ASSERT_EQ(output[3], 4 * factor * factor * factor * factor);
    }
  };
  std::thread other(work, 3.0f);
  work(2.0f);
  other.join();
}

// --- several programs -------------------------------------------------------------------------------------

TEST(Session, ValuesPassTensorsFromProgramToProgram) {
  const auto context = open("reference");
  ir::Builder first("first"), second("second");
  first.output("y", ops::mul_scalar(first, first.input("x", kFour), 2));
  second.output("z", ops::mul_scalar(second, second.input("y", kFour), 5));
  const auto a = prepare(context, finish(first));
  const auto c = prepare(context, finish(second));
  auto value = DeviceValue::create(context, kFour);
  ASSERT_TRUE(value);
  Floats input = {1, 2, 3, 4}, output(4), read(4);
  ASSERT_TRUE(a->run({{bound(kFour, input)}}, {{Binding::of(*value)}}));
  ASSERT_TRUE(c->run({{Binding::of(*value)}}, {{bound(kFour, output)}}));
  EXPECT_EQ(output, (Floats{10, 20, 30, 40}));
  ASSERT_TRUE(value->read(std::as_writable_bytes(std::span(read))));
  EXPECT_EQ(read, (Floats{2, 4, 6, 8}));
  expect_error(value->write(std::as_bytes(std::span(read).first(3))), ErrorCode::kInvalidInput,
               "12 bytes are written to a value of 16 bytes");
}

TEST(Session, ProgramsOfOneContextTakeTurnsWithOneArena) {
  const ir::TensorType wide = f32({1024, 256});
  ContextOptions options;
  options.memory_cap_bytes = 3 << 20;  // each program needs two buffers of 1 MiB
  const auto context = open("reference", options);
  const auto doubles = prepare(context, multiplied(wide, 2));
  const auto triples = prepare(context, multiplied(wide, 3));
  Floats input(1024 * 256, 1.0f), output(1024 * 256);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(doubles->run({{bound(wide, input)}}, {{bound(wide, output)}}));
    EXPECT_EQ(output.back(), 8);
    ASSERT_TRUE(triples->run({{bound(wide, input)}}, {{bound(wide, output)}}));
    EXPECT_EQ(output.back(), 27);
  }
}

TEST(Session, UnderACapTheLastProgramGivesItsArenaBack) {
  ContextOptions options;
  options.memory_cap_bytes = 3 << 20;
  const auto context = open("reference", options);
  const auto room = [&] { return bool(DeviceValue::create(context, f32({2048, 256}))); };
  auto prepared = prepare(context, multiplied(f32({1024, 256}), 2));
  EXPECT_FALSE(room()) << "2 MiB beside an arena of 2 MiB";
  prepared.reset();
  EXPECT_TRUE(room());
}

TEST(Session, OneArenaServesAChainAndIsAsLargeAsPredicted) {
  const auto context = open("reference");
  std::vector<std::unique_ptr<PreparedProgram>> chain;
  std::uint64_t predicted = 0, measured = 0, peak = 0;
  for (const std::int64_t rows : {100, 400, 10}) {
    const ir::TensorType type = f32({rows, 256});
    chain.push_back(prepare(context, multiplied(type, 2, 4)));
    Floats input(static_cast<std::size_t>(rows * 256), 1), output(input.size());
    ASSERT_TRUE(chain.back()->run({{bound(type, input)}}, {{bound(type, output)}}));
    const auto report = chain.back()->report();
    ASSERT_TRUE(report);
    predicted = std::max(predicted, report->arena_bytes);
    measured = report->context_arena_bytes;
    peak = report->context_peak_bytes;
    EXPECT_EQ(measured, predicted);
  }
  EXPECT_EQ(measured, 2U * 400 * 256 * 4);
  EXPECT_EQ(peak, measured) << "nothing else was allocated, and the small arena was given back first";
}

TEST(Session, PlansWithoutConstantsWhatPrepareReports) {
  ir::Builder b("plan");
  const ir::Value x = b.input("x", kFour);
  const ir::Value w = b.constant("w", {DType::kBF16, {4}}), v = b.constant("v", kFour);
  b.output("y", ops::mul(b, ops::silu(b, ops::add(b, x, ops::cast(b, w, DType::kF32))), v));
  const ir::Program program = finish(b);
  const auto context = open("reference");
  const auto planned = PreparedProgram::plan(context, program);
  ASSERT_TRUE(planned) << planned.error().message;
  EXPECT_EQ(planned->context_peak_bytes, 0U) << "no memory was taken";

  const std::vector<std::uint16_t> weights(4);
  const Floats factors(4);
  const auto report = prepare(context, program, {constant(weights), constant(factors)})->report();
  ASSERT_TRUE(report);
  auto details = nlohmann::json::parse(report->details);
  EXPECT_EQ(details.erase("prepare"), 1U) << "preparing takes time, planning is not measured";
  EXPECT_EQ(nlohmann::json::parse(planned->details), details);
  EXPECT_EQ(planned->arena_bytes, report->arena_bytes);
  EXPECT_EQ(planned->resident_bytes, report->resident_bytes);
  EXPECT_EQ(planned->prepacked_bytes, report->prepacked_bytes);
}

TEST(Session, APlanIsRefusedUnderTheCapThatPreparingMeets) {
  const ir::TensorType rows = {DType::kF32, {1024, 256}};
  const ir::Program program = multiplied(rows, 2);
  ContextOptions options;
  options.memory_cap_bytes = rows.bytes();
  const auto context = open("reference", options);
  const auto planned = PreparedProgram::plan(context, program);
  ASSERT_FALSE(planned);
  const auto prepared = PreparedProgram::prepare(context, program, {});
  ASSERT_FALSE(prepared);
  EXPECT_EQ(planned.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(planned.error().message, prepared.error().message);
  options.memory_cap_bytes = 4 * rows.bytes();
  EXPECT_TRUE(PreparedProgram::plan(open("reference", options), program));
}

// --- loops ------------------------------------------------------------------------------------------------

/// latents' = latents + table[step]
ir::Program step_program() {
  ir::Builder b("step");
  const ir::Value latents = b.input("latents", f32({1, 2}));
  const ir::Value step = b.input("step", {DType::kI32, {1}});
  const ir::Value table = b.constant("table", f32({4, 2}));
  b.output("latents", ops::add(b, latents, ops::gather_rows(b, table, step)));
  return finish(b);
}
const Floats kTable = {1, 10, 2, 20, 3, 30, 4, 40};

struct LoopRun {
  std::unique_ptr<PreparedProgram> prepared;
  Floats latents = {100, 1000}, result = {-1, -1};
  std::vector<std::int32_t> step = {-7};
  LoopOptions loop;

  explicit LoopRun(ContextOptions options = {})
      : prepared(prepare(open("reference", std::move(options)), step_program(), {constant(kTable)})) {
    loop.n_steps = 4;
    loop.step_input = 1;
    loop.carries = {{0, 0}};
  }
  Status run() {
    return prepared->run_loop({{bound(f32({1, 2}), latents), bound({DType::kI32, {1}}, step)}},
                              {{bound(f32({1, 2}), result)}}, loop);
  }
};

TEST(RunLoop, CarriesOutputsAndCountsSteps) {
  LoopRun run;
  const Status status = run.run();
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(run.result, (Floats{110, 1100}));
  EXPECT_EQ(run.latents, (Floats{100, 1000})) << "the caller's input stays as it was";
  EXPECT_EQ(run.step.front(), -7);
}

TEST(RunLoop, BeginsAtTheFirstStepAskedFor) {
  LoopRun run;
  run.loop.first_step = 2;
  run.loop.n_steps = 2;
  ASSERT_TRUE(run.run());
  EXPECT_EQ(run.result, (Floats{107, 1070}));
}

TEST(RunLoop, ShowsTheStateOfEachStepWhenWanted) {
  LoopRun run;
  std::vector<std::pair<std::uint32_t, float>> seen;
  run.loop.wants_state = true;
  run.loop.on_step = [&](const StepEvent& event) {
    EXPECT_EQ(event.state.size(), 8U);
    EXPECT_TRUE(event.all_finite);
    float first = 0;
    std::memcpy(&first, event.state.data(), sizeof(first));
    seen.emplace_back(event.step, first);
    return AfterStep::kContinue;
  };
  ASSERT_TRUE(run.run());
  EXPECT_EQ(seen, (std::vector<std::pair<std::uint32_t, float>>{{0, 101}, {1, 103}, {2, 106}, {3, 110}}));
}

TEST(RunLoop, StopsAfterAStepOnRequest) {
  LoopRun run;
  int steps = 0;
  run.loop.on_step = [&](const StepEvent& event) {
    EXPECT_TRUE(event.state.empty());
    return ++steps == 2 ? AfterStep::kStop : AfterStep::kContinue;
  };
  expect_error(run.run(), ErrorCode::kCancelled, "stopped after step 1");
  EXPECT_EQ(steps, 2);
}

TEST(RunLoop, StopsWithinAStepWhenCancelled) {
  bool stop = false;
  ContextOptions options;
  options.cancelled = [&] { return stop; };
  LoopRun run(options);
  run.loop.on_step = [&](const StepEvent& event) {
    stop = event.step == 1;
    return AfterStep::kContinue;
  };
  expect_error(run.run(), ErrorCode::kCancelled, "stopped on request");
  EXPECT_FALSE(run.prepared->failed_operation()) << "nothing failed";
}

TEST(RunLoop, TellsWhenACarriedValueIsNotFinite) {
  LoopRun run;
  run.latents[1] = std::numeric_limits<float>::infinity();
  run.loop.on_step = [](const StepEvent& event) {
    return event.all_finite ? AfterStep::kContinue : AfterStep::kStop;
  };
  expect_error(run.run(), ErrorCode::kNonFinite, "step 0");
}

TEST(RunLoop, RefusesLoopsThatMeanNothing) {
  {
    LoopRun run;
    run.loop.n_steps = 0;
    expect_error(run.run(), ErrorCode::kInvalidInput, "at least one step");
  }
  {
    LoopRun run;
    run.loop.first_step = INT32_MAX;
    run.loop.n_steps = 2;
    expect_error(run.run(), ErrorCode::kInvalidInput, "do not fit an i32");
  }
  {
    LoopRun run;
    run.loop.step_input = 0;
    expect_error(run.run(), ErrorCode::kInvalidInput, "must be an i32[1] input");
  }
  {
    LoopRun run;
    run.loop.carries = {{0, 1}};
    expect_error(run.run(), ErrorCode::kInvalidInput, "output 0 cannot be carried into input 1");
  }
  {
    LoopRun run;
    run.loop.carries = {{1, 0}};
    expect_error(run.run(), ErrorCode::kInvalidInput, "output 1 cannot be carried");
  }
  {
    LoopRun run;
    run.loop.carries = {{0, 0}, {0, 0}};
    expect_error(run.run(), ErrorCode::kInvalidInput, "two outputs are carried into input 0");
  }
}

TEST(RunLoop, RefusesToCarryIntoTheStepNumber) {
  ir::Builder b("counter");
  const ir::Value step = b.input("step", {DType::kI32, {1}});
  b.output("step", ops::add(b, step, step));
  const auto prepared = prepare(open("reference"), finish(b));
  std::vector<std::int32_t> in = {0}, out = {0};
  LoopOptions loop;
  loop.n_steps = 1;
  loop.carries = {{0, 0}};
  const ir::TensorType type = {DType::kI32, {1}};
  expect_error(prepared->run_loop({{bound(type, in)}}, {{bound(type, out)}}, loop), ErrorCode::kInvalidInput,
               "input 0 is the step number");
}

// --- failures ---------------------------------------------------------------------------------------------

TEST(Session, CheckOperationsNamesTheFirstOperationThatIsNotFinite) {
  ir::Builder b("nan");
  const ir::Value x = b.input("x", kFour);
  const ir::Value doubled = ops::mul_scalar(b, x, 2);
  b.output("y", ops::silu(b, ops::sqrt(b, doubled)));
  const auto prepared = prepare(open("reference"), finish(b));
  Floats input = {1, 4, -9, 16}, output(4);
  const std::vector<Binding> ins = {bound(kFour, input)}, outs = {bound(kFour, output)};
  ASSERT_TRUE(prepared->run(ins, outs)) << "without the check a run ends";
  EXPECT_TRUE(std::isnan(output[2]));
  const Status status = prepared->run(ins, outs, {.check_operations = true});
  expect_error(status, ErrorCode::kNonFinite, "operation 1 (sqrt)");
  expect_error(status, ErrorCode::kNonFinite, "NaN");
  expect_error(status, ErrorCode::kNonFinite, "largest finite input is 32");
  EXPECT_EQ(prepared->failed_operation(), 1U);
  input[2] = 9;
  EXPECT_TRUE(prepared->run(ins, outs, {.check_operations = true}));
  EXPECT_FALSE(prepared->failed_operation());
}

TEST(Session, NamesTheOperationThatFailedAndForgetsItInTheNextCall) {
  ir::Builder b("gather");
  const ir::TensorType id = {DType::kI32, {1}};
  const ir::Value ids = b.input("ids", id);
  b.output("y", ops::gather_rows(b, b.constant("table", f32({4, 2})), ids));
  const auto prepared = prepare(open("reference"), finish(b), {constant(kTable)});
  std::vector<std::int32_t> row = {9};
  Floats output(2);
  const std::vector<Binding> outs = {bound(f32({1, 2}), output)};
  expect_error(prepared->run({{bound(id, row)}}, outs), ErrorCode::kInvalidInput, "9");
  EXPECT_EQ(prepared->failed_operation(), 0U);
  expect_error(prepared->run({}, outs), ErrorCode::kInvalidInput, "0 inputs are bound, the program has 1");
  EXPECT_FALSE(prepared->failed_operation());
}

TEST(Session, CancelStopsARunAndLeavesTheProgramUsable) {
  bool stop = true;
  ContextOptions options;
  options.cancelled = [&] { return stop; };
  ir::Builder b("cancel");
  b.output("y", ops::mul_scalar(b, b.input("x", kFour), 2));
  const auto prepared = prepare(open("reference", options), finish(b));
  Floats input = {1, 2, 3, 4}, output(4);
  const std::vector<Binding> ins = {bound(kFour, input)}, outs = {bound(kFour, output)};
  expect_error(prepared->run(ins, outs), ErrorCode::kCancelled, "stopped");
  EXPECT_EQ(output, Floats(4)) << "nothing is written";
  stop = false;
  ASSERT_TRUE(prepared->run(ins, outs));
  EXPECT_EQ(output, (Floats{2, 4, 6, 8}));
}

TEST(Session, MemoryCapRefusesWhatDoesNotFit) {
  const ir::Program program = multiplied(f32({1024, 1024}), 2);
  ContextOptions options;
  options.memory_cap_bytes = 8 << 20;  // two buffers of 4 MiB, and what each allocation costs
  expect_error(PreparedProgram::prepare(open("reference", options), program, {}), ErrorCode::kOutOfMemory,
               "memory cap of 8388608 bytes");
  options.memory_cap_bytes = 9 << 20;
  EXPECT_TRUE(PreparedProgram::prepare(open("reference", options), program, {}));
  auto value = DeviceValue::create(open("reference", options), f32({1024, 4096}));
  expect_error(value, ErrorCode::kOutOfMemory, "memory cap");
}

TEST(Session, RefusesBindingsOfAnotherType) {
  ir::Builder b("types");
  b.output("y", ops::mul_scalar(b, b.input("x", kFour), 2));
  const auto context = open("reference");
  const auto prepared = prepare(context, finish(b));
  Floats four(4), five(5);
  const std::vector<Binding> ins = {bound(kFour, four)}, outs = {bound(kFour, four)};
  expect_error(prepared->run({{bound(f32({5}), five)}}, outs), ErrorCode::kInvalidInput,
               "input x is f32[5], the program wants f32[4]");
  expect_error(prepared->run({{bound({DType::kI32, {4}}, four)}}, outs), ErrorCode::kInvalidInput,
               "input x is i32[4]");
  expect_error(prepared->run(ins, {{bound(f32({2, 2}), four)}}), ErrorCode::kInvalidInput,
               "output y is f32[2, 2]");
  expect_error(prepared->run({{bound(kFour, five)}}, outs), ErrorCode::kInvalidInput,
               "20 bytes, f32[4] needs 16");
  expect_error(prepared->run(ins, {}), ErrorCode::kInvalidInput, "0 outputs are bound, the program has 1");
  expect_error(prepared->run({{Binding{kFour, {}, nullptr}}}, outs), ErrorCode::kInvalidInput,
               "either host memory or a value");

  auto foreign = DeviceValue::create(open("reference"), kFour);
  auto other = DeviceValue::create(context, f32({5}));
  ASSERT_TRUE(foreign && other);
  expect_error(prepared->run({{Binding::of(*foreign)}}, outs), ErrorCode::kInvalidInput, "another context");
  Binding lie = Binding::of(*other);
  lie.type = kFour;
  expect_error(prepared->run({{lie}}, outs), ErrorCode::kInvalidInput, "is a value of type f32[5]");
}

// --- the null backend -------------------------------------------------------------------------------------

TEST(NullBackend, PlansAndWritesZerosWithoutReadingConstants) {
  ir::Builder b("null");
  ir::Value x = ops::add(b, b.input("x", kFour), b.constant("w", kFour));
  for (int i = 0; i < 5; ++i) x = ops::silu(b, x);
  b.output("y", x);
  const ir::Program program = finish(b);
  const auto prepared = prepare(open("null"), program, {{reinterpret_cast<const void*>(64), 16}});
  Floats input(4, 1), output(4, 1);
  ASSERT_TRUE(prepared->run({{bound(kFour, input)}}, {{bound(kFour, output)}}));
  EXPECT_EQ(output, Floats(4));
  const auto report = prepared->report();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->arena_bytes, plan::make_plan(program).arena_bytes);
  EXPECT_EQ(report->arena_bytes, 2 * plan::kArenaAlignment);
  EXPECT_EQ(nlohmann::json::parse(report->details).at("executes"), false);
}

TEST(NullBackend, RunsALoopAndCanBeCancelled) {
  bool stop = false;
  ContextOptions options;
  options.cancelled = [&] { return stop; };
  const auto prepared = prepare(open("null", options), step_program(), {constant(kTable)});
  Floats latents(2), result(2, 1);
  std::vector<std::int32_t> step(1);
  LoopOptions loop;
  loop.n_steps = 3;
  loop.step_input = 1;
  int steps = 0;
  loop.on_step = [&](const StepEvent&) {
    ++steps;
    return AfterStep::kContinue;
  };
  const std::vector<Binding> ins = {bound(f32({1, 2}), latents), bound({DType::kI32, {1}}, step)},
                             outs = {bound(f32({1, 2}), result)};
  ASSERT_TRUE(prepared->run_loop(ins, outs, loop));
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(result, Floats(2));
  stop = true;
  expect_error(prepared->run_loop(ins, outs, loop), ErrorCode::kCancelled, "stopped");
}

}  // namespace
}  // namespace dif::runtime
