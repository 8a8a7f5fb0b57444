#include "opt/absorb_linear_bias.h"

#include <gtest/gtest.h>

#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/support/program_parser.h"

namespace dif::opt {
namespace {

constexpr std::string_view kBefore = R"(program p

inputs
  %0 = x : f32[17, 4]
  %1 = v : f32[1, 6]

constants
  %2 = w : f32[6, 4]
  %3 = b : f32[6]
  %4 = m : f32[17, 6]

operations
  %5 = linear(%x, %w) : f32[17, 6]
  %6 = add(%b, %5) : f32[17, 6]
  %7 = silu(%6) : f32[17, 6]
  %8 = linear(%x, %w, %b) : f32[17, 6]
  %9 = linear(%x, %w) : f32[17, 6]
  %10 = silu(%9) : f32[17, 6]
  %11 = add(%9, %b) : f32[17, 6]
  %12 = linear(%x, %w) : f32[17, 6]
  %13 = add(%12, %m) : f32[17, 6]
  %14 = linear(%x, %w) : f32[17, 6]
  %15 = silu(%14) : f32[17, 6]
  %16 = linear(%x, %w) : f32[17, 6]
  %17 = add(%16, %v) : f32[17, 6]
  %18 = linear(%x, %w) : f32[17, 6]
  %19 = linear(%x, %w) : f32[17, 6]
  %20 = mul(%b, %b) : f32[6]
  %21 = add(%19, %20) : f32[17, 6]
  %22 = linear(%x, %w) : f32[17, 6]
  %23 = add(%22, %22) : f32[17, 6]
  %24 = reshape(%b) {shape = [1, 6]} : f32[1, 6]
  %25 = linear(%x, %w) : f32[17, 6]
  %26 = add(%25, %24) : f32[17, 6]

outputs
  a = %7
  b = %18
  c = %26
)";

ir::Program parsed(std::string_view text) {
  auto program = test::parse_program(text);
  EXPECT_TRUE(program) << program.error().message;
  return *program;
}

/// What the listing says of a result.
std::string line_of(const ir::Program& program, ir::ValueId value) {
  const std::string text = ir::to_text(program), start = "  %" + std::to_string(value) + " = ";
  const std::size_t begin = text.find(start) + start.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(AbsorbLinearBias, TakesTheAddIntoTheLinearAndKeepsAllNumbers) {
  ir::Program program = parsed(kBefore);
  const std::size_t n_ops = program.ops.size();
  const auto absorbed = absorb_linear_bias(program, 0);
  ASSERT_TRUE(absorbed) << absorbed.error().message;
  EXPECT_EQ(absorbed->add, 1U);
  EXPECT_EQ(program.values[absorbed->bias].name, "b");
  EXPECT_EQ(program.ops.size(), n_ops);
  EXPECT_TRUE(ir::verify(program));
  EXPECT_EQ(line_of(program, 5), "linear(%x, %w, %b) : f32[17, 6]");
  EXPECT_EQ(line_of(program, 6), "reshape(%5) {shape = [17, 6]} : f32[17, 6]");
  EXPECT_EQ(line_of(program, 7), "silu(%6) : f32[17, 6]");
}

TEST(AbsorbLinearBias, SeesAVectorThroughAView) {
  ir::Program program = parsed(kBefore);
  ASSERT_TRUE(absorb_linear_bias(program, 20));
  EXPECT_TRUE(ir::verify(program));
  EXPECT_EQ(line_of(program, 25), "linear(%x, %w, %b) : f32[17, 6]");
}

TEST(AbsorbLinearBias, SaysWhyNot) {
  ir::Program program = parsed(kBefore);
  const std::string before = ir::to_text(program);
  const auto refused = [&](ir::OpId op, const std::string& sentence) {
    const auto result = absorb_linear_bias(program, op);
    ASSERT_FALSE(result) << op;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(result.error().message.find(sentence), std::string::npos) << result.error().message;
  };
  refused(99, "program p has 22 operations, none with the number 99");
  refused(2, "operation 2 is silu, not linear");
  refused(3, "operation 3 has a bias already");
  refused(4, "its result is read 2 times, by operations 5 and 6");
  refused(7, "operation 8 adds f32[17, 6], needed is a vector of its columns, [6]");
  refused(9, "operation 10 reads its result, which is silu, not add");
  refused(11, "operation 12 adds f32[1, 6], needed is a vector of its columns, [6]");
  refused(13, "its result is output b");
  refused(14, "what operation 16 adds is made after it, by operation 15");
  refused(17, "its result is read 2 times, by operations 18 and 18");
  EXPECT_EQ(ir::to_text(program), before);
}

}  // namespace
}  // namespace dif::opt
