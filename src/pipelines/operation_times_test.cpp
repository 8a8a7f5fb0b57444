#include "pipelines/operation_times.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ir/builder.h"
#include "ops/add/add.op.h"
#include "ops/gather_rows/gather_rows.op.h"
#include "ops/linear/linear.op.h"
#include "ops/mul/mul.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/silu/silu.op.h"
#include "ops/slice/slice.op.h"

namespace dif {
namespace {

using ir::OpId;
using ir::Value;

constexpr std::uint64_t kRowBytes = 64 * sizeof(float);

/// 0 linear, 1 and 2 its halves, 3 silu, 4 mul, 5 a view, 6 add, 7 gather_rows
ir::Program swiglu() {
  ir::Builder b("swiglu");
  const Value x = b.input("x", {DType::kF32, {2, 64}});
  const Value w = b.constant("w", {DType::kF32, {128, 64}});
  const Value wide = ops::linear(b, x, w);
  const Value gate = ops::slice(b, wide, 1, 0, 64), up = ops::slice(b, wide, 1, 64, 128);
  const Value product = ops::mul(b, ops::silu(b, gate), up);
  const Value flat = ops::reshape(b, product, {128});
  b.output("y", ops::add(b, flat, flat));
  const Value ids = b.input("ids", {DType::kI32, {1}});
  b.output("row", ops::gather_rows(b, w, ids));
  auto program = b.finish();
  EXPECT_TRUE(program) << program.error().message;
  return std::move(*program);
}

dif_trace_event event_of(OpId op, const char* name, std::uint64_t nanoseconds) {
  return {sizeof(dif_trace_event), op, name, "kernel", nanoseconds};
}

TEST(StepWork, OfOneOperationIsWhatItReadsAndWrites) {
  const ir::Program program = swiglu();
  const StepWork work = step_work(program, std::vector<OpId>{0});
  EXPECT_EQ(work.flops, 2.0 * 2 * 64 * 128);
  EXPECT_EQ(work.bytes, 2 * kRowBytes + 128 * kRowBytes + 4 * kRowBytes);
}

TEST(StepWork, OfAGroupLeavesOutWhatStaysInside) {
  const ir::Program program = swiglu();
  const StepWork work = step_work(program, std::vector<OpId>{1, 2, 3, 4});
  EXPECT_EQ(work.bytes, 4 * kRowBytes + 2 * kRowBytes);  // two halves in, the product out
  EXPECT_EQ(work.flops, ir::flops(program.view(1)) + ir::flops(program.view(2)) + ir::flops(program.view(3)) +
                            ir::flops(program.view(4)));
}

TEST(StepWork, WhatIsReadThroughAViewIsWritten) {
  const ir::Program program = swiglu();
  const StepWork work = step_work(program, std::vector<OpId>{3, 4});
  EXPECT_EQ(work.bytes, 2 * 2 * kRowBytes + 2 * kRowBytes);
  EXPECT_EQ(step_work(program, std::vector<OpId>{6}).bytes, 2 * kRowBytes + 2 * kRowBytes);  // flat once
}

TEST(StepWork, GatheringRowsReadsNoOtherRows) {
  const StepWork work = step_work(swiglu(), std::vector<OpId>{7});
  EXPECT_EQ(work.bytes, 2 * kRowBytes + sizeof(std::int32_t));
}

TEST(OperationTimes, AreMediansOverTheRunsAndTheSlowestComesFirst) {
  OperationTimes times;
  times.record(event_of(0, "linear", 1000));
  times.record(event_of(1, "slice+slice+silu+mul", 5000));
  times.record(event_of(0, "linear", 90000));
  times.record(event_of(0, "linear", 3000));
  times.record(event_of(99, "unknown", 1));
  const ir::Program program = swiglu();
  runtime::PreparedReport report;
  report.details =
      R"({"groups":[{"operations":[1,2,3,4],"kernel":"rows"},{"operations":[6,1000],"kernel":"rows"},7]})";
  const auto found = times.of(program, report);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].ops, (std::vector<OpId>{1, 2, 3, 4}));
  EXPECT_DOUBLE_EQ(found[0].seconds, 5e-6);
  EXPECT_EQ(found[0].work.bytes, 6 * kRowBytes);
  EXPECT_EQ(found[1].ops, (std::vector<OpId>{0}));
  EXPECT_EQ(found[1].runs, 3U);
  EXPECT_DOUBLE_EQ(found[1].seconds, 3e-6);
  EXPECT_EQ(operation_times_json(found)[0]["bytes"], 6 * kRowBytes);
}

TEST(OperationTimes, AReportThatIsNoneMakesEveryOperationStandAlone) {
  OperationTimes times;
  times.record(event_of(1, nullptr, 5));
  for (const char* details :
       {"", "{", "[1]", R"({"groups":{}})", R"({"groups":[{"operations":["x"],"kernel":"k"}]})"}) {
    runtime::PreparedReport report;
    report.details = details;
    const auto found = times.of(swiglu(), report);
    ASSERT_EQ(found.size(), 1U) << details;
    EXPECT_EQ(found[0].ops, (std::vector<OpId>{1})) << details;
    EXPECT_EQ(found[0].name, "?");
  }
}

TEST(OperationTimes, StepsOfOneKindAreAddedUp) {
  std::vector<OperationTime> times(3);
  for (OperationTime& time : times)
    time = {.ops = {0},
            .name = "linear",
            .kernel = "library",
            .runs = 2,
            .seconds = 1e-3,
            .work = {.flops = 4e9, .bytes = 2'000'000}};
  times[2].name = "silu";
  times[2].work = {.flops = 1e6, .bytes = 4'000'000};
  const std::string text = operation_kinds_text(times);
  EXPECT_NE(text.find("       4.000  66.7%      4       1000.0     4000      2.0  library"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("       2.000  33.3%      2       1000.0        -      4.0  library"),
            std::string::npos)
      << text;
}

TEST(ProgramTraces, KeepProgramsApart) {
  ProgramTraces traces;
  traces.record(event_of(0, "early", 1));  // of no program: dropped
  traces.begin("a");
  traces.record(event_of(0, "linear", 10));
  traces.begin("b");
  traces.record(event_of(0, "linear", 20));
  traces.begin("a");
  traces.record(event_of(0, "linear", 30));
  EXPECT_DOUBLE_EQ(traces.of("a").of(swiglu(), {})[0].seconds, 20e-9);
  EXPECT_DOUBLE_EQ(traces.of("b").of(swiglu(), {})[0].seconds, 20e-9);
}

}  // namespace
}  // namespace dif
