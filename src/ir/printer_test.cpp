#include "ir/printer.h"

#include <gtest/gtest.h>

#include "ir/program_file.h"
#include "tests/support/program_parser.h"
#include "tests/support/sample_program.h"

namespace dif::ir {

namespace {

constexpr std::string_view kListing = R"(program sample

inputs
  %0 = x : bf16[1, 5, 8]
  %1 = "key mask" : bool[1, 5]

constants
  %2 = blocks.0.w : bf16[8, 8]
  %3 = blocks.0.b : bf16[8]

operations
  # blocks.0
  %4 = linear(%x, %blocks.0.w, %blocks.0.b) : bf16[1, 5, 8]
  %5 = reshape(%4) {shape = [1, 5, 2, 4]} : bf16[1, 5, 2, 4]

  # blocks.0.attn
  %6 = attention(%5, %5, %5, %1) {causal = true, scale = 0.5} : bf16[1, 5, 2, 4]  # result of blocks.0.attn

  %7 = concat(%6, %6) {axis = 3} : bf16[1, 5, 2, 8]
  %8 = mul_scalar(%7) {value = 0.1} : bf16[1, 5, 2, 8]
  %9 = cast(%8) {dtype = f32} : f32[1, 5, 2, 8]

outputs
  y = %9
  wide = %8
)";

}  // namespace

TEST(Printer, ListsInputsConstantsOperationsByModuleAndOutputs) {
  EXPECT_EQ(to_text(test::sample_program()), kListing);
}

TEST(Printer, AddsCostsAndTotalsOnRequest) {
  const std::string text = to_text(test::sample_program(), {.modules = false, .costs = true});
  EXPECT_NE(text.find("%4 = linear(%x, %blocks.0.w, %blocks.0.b) : bf16[1, 5, 8]  # 680 FLOP, 304 B\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("%5 = reshape(%4) {shape = [1, 5, 2, 4]} : bf16[1, 5, 2, 4]  # 0 B\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n# 6 operations: 1.56 kFLOP, 1.75 kB moved; 2 constants: 144 B\n"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("# blocks"), std::string::npos) << text;
}

TEST(Printer, PrintsOneOperation) {
  EXPECT_EQ(op_text(test::sample_program(), 4), "%8 = mul_scalar(%7) {value = 0.1} : bf16[1, 5, 2, 8]");
}

TEST(Printer, NamesValuesByNumberWhereTheirNameIsNotUnique) {
  Program program = test::sample_program();
  program.values[2].name = program.values[0].name;
  EXPECT_EQ(op_text(program, 0), "%4 = linear(%0, %2, %blocks.0.b) : bf16[1, 5, 8]");
}

TEST(Printer, RoundsAmountsToThreeDigits) {
  EXPECT_EQ(amount_text(0, "B"), "0 B");
  EXPECT_EQ(amount_text(999, "B"), "999 B");
  EXPECT_EQ(amount_text(1000, "B"), "1.00 kB");
  EXPECT_EQ(amount_text(12345678, "FLOP"), "12.3 MFLOP");
  EXPECT_EQ(amount_text(99960000, "FLOP"), "100 MFLOP");
  EXPECT_EQ(amount_text(999.7e9, "FLOP"), "1.00 TFLOP");
}

TEST(ProgramParser, ReadsWhatThePrinterWrote) {
  const Program program = test::sample_program();
  for (const bool costs : {false, true}) {
    const auto parsed = test::parse_program(to_text(program, {.costs = costs}));
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_EQ(encode(*parsed), encode(program));
  }
}

TEST(ProgramParser, ReadsNamesThatAreNumbersOrNotUnique) {
  Program program = test::sample_program();
  program.values[0].name = std::string("4");
  program.values[1].name = "blocks.0.w";
  program.values[3].name = "a \"b\\ # = (";
  const auto parsed = test::parse_program(to_text(program));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message << "\n" << to_text(program);
  EXPECT_EQ(encode(*parsed), encode(program));
}

TEST(ProgramParser, NamesTheLineOfAMistake) {
  const auto parsed = test::parse_program("program p\n\ninputs\n  %0 = x : f32[2\n");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_NE(parsed.error().message.find("(line 4)"), std::string::npos) << parsed.error().message;
  EXPECT_FALSE(
      test::parse_program("program p\ninputs\n  %0 = x : f32[2]\noutputs\n  y = %0 %0\n").has_value());
  EXPECT_FALSE(test::parse_program("").has_value());
}

}  // namespace dif::ir
