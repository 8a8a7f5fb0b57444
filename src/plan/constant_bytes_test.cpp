#include "plan/constant_bytes.h"

#include <gtest/gtest.h>

#include "tests/support/program_parser.h"

namespace dif::plan {
namespace {

using Runs = std::vector<ConstantBytes>;

ir::Program program() {
  auto program = test::parse_program(R"(program rearranged
inputs
  %0 = x : f32[1, 4]
constants
  %1 = a : f32[6, 4]
  %2 = b : f32[2, 4]
operations
  %3 = slice(%a) {axis = 0, start = 2, end = 4} : f32[2, 4]
  %4 = concat(%3, %b) {axis = 0} : f32[4, 4]
  %5 = concat(%3, %b) {axis = 1} : f32[2, 8]
  %6 = reshape(%4) {shape = [16]} : f32[16]
  %7 = slice(%a) {axis = 1, start = 1, end = 3} : f32[6, 2]
  %8 = slice(%a) {axis = 0, start = 0, end = 2} : f32[2, 4]
  %9 = concat(%8, %3) {axis = 0} : f32[4, 4]
  %10 = mul(%a, %a) : f32[6, 4]
  %11 = slice(%10) {axis = 0, start = 0, end = 1} : f32[1, 4]
  %12 = add(%x, %11) : f32[1, 4]
outputs
  y = %12
)");
  EXPECT_TRUE(program) << program.error().message;
  return program ? std::move(*program) : ir::Program();
}

TEST(ConstantBytes, AreTheRunsThatSlicesAndConcatenationsTake) {
  const ir::Program p = program();
  EXPECT_EQ(constant_bytes(p, 1), (Runs{{1, 0, 96}}));
  EXPECT_EQ(constant_bytes(p, 3), (Runs{{1, 32, 32}}));
  EXPECT_EQ(constant_bytes(p, 4), (Runs{{1, 32, 32}, {2, 0, 32}}));
  EXPECT_EQ(constant_bytes(p, 5), (Runs{{1, 32, 16}, {2, 0, 16}, {1, 48, 16}, {2, 16, 16}}));
  EXPECT_EQ(constant_bytes(p, 6), constant_bytes(p, 4)) << "a view";
  EXPECT_EQ(constant_bytes(p, 7)->size(), 6U) << "a run of each row";
  EXPECT_EQ(constant_bytes(p, 7)->at(2), (ConstantBytes{1, 36, 8}));
  EXPECT_EQ(constant_bytes(p, 9), (Runs{{1, 0, 64}})) << "runs that continue each other are one";
}

TEST(ConstantBytes, ThereAreNoneOfWhatIsComputed) {
  const ir::Program p = program();
  EXPECT_FALSE(constant_bytes(p, 0)) << "an input";
  EXPECT_FALSE(constant_bytes(p, 10));
  EXPECT_FALSE(constant_bytes(p, 11)) << "a part of what is computed";
}

}  // namespace
}  // namespace dif::plan
