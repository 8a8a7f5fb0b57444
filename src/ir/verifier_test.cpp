#include "ir/verifier.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "ir/builder.h"
#include "ops/linear/linear.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"

namespace dif::ir {

namespace {

/// y = 2 * linear(x, w): value 0 is x, 1 is w, 2 and 3 are results.
Program small_program() {
  Builder b("small");
  const Value x = b.input("x", {DType::kF32, {2, 3}});
  const Value w = b.constant("w", {DType::kF32, {4, 3}});
  b.output("y", ops::mul_scalar(b, ops::linear(b, x, w), 2.0f));
  auto program = b.finish();
  DIF_CHECK(program.has_value());
  return std::move(*program);
}

testing::AssertionResult refused(const Program& program, std::string_view part) {
  const Status status = verify(program);
  if (status) return testing::AssertionFailure() << "accepted";
  if (status.error().code == ErrorCode::kInvalidInput &&
      status.error().message.find(part) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "another reason: " << status.error().message;
}

}  // namespace

TEST(Verifier, AcceptsASmallProgram) {
  EXPECT_TRUE(verify(small_program()).has_value());
}

TEST(Verifier, RejectsAnOperandThatDoesNotExist) {
  Program program = small_program();
  program.ops[1].operands[0] = 99;
  EXPECT_TRUE(refused(program, "operation 1 (mul_scalar) reads %99 before it is defined"));
}

TEST(Verifier, RejectsUseBeforeDefinition) {
  Program program = small_program();
  std::swap(program.ops[0], program.ops[1]);
  program.values[2].producer = 1;
  program.values[3].producer = 0;
  EXPECT_TRUE(refused(program, "operation 0 (mul_scalar) reads %2 before it is defined"));
}

TEST(Verifier, RejectsAnOperationThatReadsItsOwnResult) {
  Program program = small_program();
  program.ops[1].operands[0] = 3;
  EXPECT_TRUE(refused(program, "reads %3 before it is defined"));
}

TEST(Verifier, RejectsAResultThatTwoOperationsClaim) {
  Program program = small_program();
  program.ops[1].results[0] = 2;
  EXPECT_TRUE(refused(program, "operation 1 (mul_scalar) does not own its result %2"));
  program.values[2].producer = 1;
  EXPECT_TRUE(refused(program, "operation 0 (linear) does not own its result %2"));
}

TEST(Verifier, RejectsAResultThatIsAnInput) {
  Program program = small_program();
  program.ops[1].results[0] = 0;
  program.values[0].producer = 1;
  EXPECT_TRUE(refused(program, "value %0 is not one input"));
}

TEST(Verifier, RejectsAResultOutsideTheValues) {
  Program program = small_program();
  program.ops[1].results[0] = kNoId;
  EXPECT_TRUE(refused(program, "does not own its result"));
}

TEST(Verifier, RejectsAValueThatNothingDefines) {
  Program program = small_program();
  program.values.push_back({{DType::kF32, {1}}, ValueKind::kResult, {}, 0});
  EXPECT_TRUE(refused(program, "value %4 is never defined"));
}

TEST(Verifier, RejectsAnotherStoredType) {
  Program program = small_program();
  program.values[3].type.shape = {4, 2};
  EXPECT_TRUE(refused(program, "result %3 is stored as f32[4, 2], inferred f32[2, 4]"));
}

TEST(Verifier, RejectsAnotherNumberOfResults) {
  Program program = small_program();
  program.ops[1].results.clear();
  program.outputs[0].value = 2;
  EXPECT_TRUE(refused(program, "has 0 results, 1 expected"));
}

TEST(Verifier, NamesTheOperationOfABrokenConstraint) {
  Program program = small_program();
  program.values[1].type.shape = {4, 5};
  EXPECT_TRUE(refused(program, "linear C2: "));
  EXPECT_TRUE(refused(program, "(operation 0)"));
}

TEST(Verifier, RejectsTooFewAndTooManyOperands) {
  Program program = small_program();
  program.ops[0].operands.pop_back();
  EXPECT_TRUE(refused(program, "linear: 1 operands, at least 2 are needed"));
  program.ops[0].operands = {0, 1, 1, 1};
  EXPECT_TRUE(refused(program, "linear: 4 operands, at most 3 are allowed"));
}

TEST(Verifier, RejectsOtherAttributes) {
  Program program = small_program();
  program.ops[1].attrs = {std::int64_t{2}};
  EXPECT_TRUE(refused(program, "attribute value has another type"));
  program.ops[1].attrs.clear();
  EXPECT_TRUE(refused(program, "0 attributes, 1 expected"));
}

TEST(Verifier, RejectsAnOperationWithoutADefinition) {
  Program program = small_program();
  program.ops[1].def = nullptr;
  EXPECT_TRUE(refused(program, "operation 1 has no definition"));
}

TEST(Verifier, RejectsInputsThatAreMissingTwiceOrDangling) {
  Program missing = small_program(), twice = small_program(), dangling = small_program();
  missing.inputs.clear();
  EXPECT_TRUE(refused(missing, "input x is missing from the input list"));
  twice.inputs.push_back(0);
  EXPECT_TRUE(refused(twice, "value %0 is not one input"));
  dangling.inputs.push_back(17);
  EXPECT_TRUE(refused(dangling, "names value %17, which does not exist"));
}

TEST(Verifier, RejectsConstantsInTheInputList) {
  Program program = small_program();
  program.inputs.push_back(1);
  EXPECT_TRUE(refused(program, "value %1 is not one input"));
}

TEST(Verifier, RejectsNamesThatAreMissingOrNotUnique) {
  Program unnamed = small_program(), twice = small_program();
  unnamed.values[1].name.clear();
  EXPECT_TRUE(refused(unnamed, "constant %1 has no name"));
  twice.values.push_back({{DType::kF32, {1}}, ValueKind::kConstant, "w", kNoId});
  twice.constants.push_back(4);
  EXPECT_TRUE(refused(twice, "two constants are named w"));
}

TEST(Verifier, RejectsNamesThatCannotBePrinted) {
  for (const std::string& name :
       {std::string("a\nb"), std::string("a\0b", 3), std::string("\xff"), std::string(2000, 'a')}) {
    Program program = small_program();
    program.values[1].name = name;
    EXPECT_TRUE(refused(program, "constant %1"));
    program = small_program();
    program.outputs[0].name = name;
    EXPECT_TRUE(refused(program, "an output"));
    program = small_program();
    program.name = name;
    EXPECT_TRUE(refused(program, "the program"));
  }
}

TEST(Verifier, RejectsANameOnAResult) {
  Program program = small_program();
  program.values[2].name = "hidden";
  EXPECT_TRUE(refused(program, "does not own its result %2"));
}

TEST(Verifier, RejectsOutputsThatAreMissingDanglingOrNotUnique) {
  Program none = small_program(), dangling = small_program(), twice = small_program(),
          unnamed = small_program();
  none.outputs.clear();
  EXPECT_TRUE(refused(none, "no outputs"));
  dangling.outputs[0].value = 4;
  EXPECT_TRUE(refused(dangling, "output y names value %4, which does not exist"));
  twice.outputs.push_back({"y", 2});
  EXPECT_TRUE(refused(twice, "unique"));
  unnamed.outputs[0].name.clear();
  EXPECT_TRUE(refused(unnamed, "present"));
}

TEST(Verifier, RejectsTypesThatNoMemoryHolds) {
  const std::int64_t big = std::int64_t{1} << 40;
  for (const Shape& shape :
       {Shape{-1}, Shape{big + 1}, Shape{big, big}, Shape{big, 1 << 20}, Shape{0, big, big}}) {
    EXPECT_FALSE(verify_type({DType::kF32, shape}, "x").has_value()) << shape.to_string();
    Program program = small_program();
    program.values[0].type.shape = shape;
    EXPECT_TRUE(refused(program, "impossible type"));
  }
  EXPECT_TRUE(verify_type({DType::kF32, {big}}, "x").has_value());
  EXPECT_TRUE(verify_type({DType::kF32, {0, big}}, "x").has_value());
}

TEST(Verifier, AcceptsAnInputThatIsAnOutput) {
  Program program = small_program();
  program.outputs.push_back({"same", 0});
  EXPECT_TRUE(verify(program).has_value());
}

}  // namespace dif::ir
