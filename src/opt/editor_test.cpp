#include "opt/editor.h"

#include <gtest/gtest.h>

#include "ir/printer.h"
#include "ir/program_file.h"
#include "ir/verifier.h"
#include "ops/reshape/reshape.op.h"
#include "ops/silu/silu.op.h"
#include "tests/support/sample_program.h"

namespace dif::opt {

namespace {

using ir::ValueId;

/// The value of the sample program that its boundary is about, and the operation that makes it.
constexpr ValueId kSeen = 6;

}  // namespace

TEST(Editor, WithoutAChangeTheProgramIsAsItWas) {
  ir::Program program = test::sample_program();
  const std::string before = ir::to_text(program);
  Editor editor(program);
  editor.finish();
  EXPECT_EQ(editor.changes(), 0U);
  EXPECT_EQ(ir::to_text(program), before);
}

TEST(Editor, ReplacedValuesTakeTheirBoundariesAndModulesAlong) {
  ir::Program program = test::sample_program();
  Editor editor(program);
  const ir::OpId attention = program.values[kSeen].producer;
  const ValueId operand = editor.op(attention).operands[0];
  const auto made = editor.emit(attention, ops::kSilu, {operand}, {});
  ASSERT_TRUE(made) << made.error().message;
  editor.replace(kSeen, *made);
  EXPECT_FALSE(editor.is_alive(attention)) << "nobody reads it any more";
  editor.finish();
  ASSERT_TRUE(ir::verify(program));
  ASSERT_EQ(program.provenance.boundaries.size(), 1U);
  const ir::OpId made_by = program.values[program.provenance.boundaries[0].value].producer;
  EXPECT_EQ(program.ops[made_by].def, &ops::kSilu);
  ASSERT_EQ(program.provenance.op_modules.size(), program.ops.size());
  EXPECT_EQ(program.provenance.op_modules[made_by], "blocks.0.attn");
}

TEST(Editor, ABoundaryGoesWithTheValueThatItIsAbout) {
  ir::Program program = test::sample_program();
  std::erase_if(program.outputs, [](const ir::Output&) { return true; });
  program.outputs.push_back({"y", 5});
  Editor editor(program);
  editor.remove_dead();
  editor.finish();
  ASSERT_TRUE(ir::verify(program));
  EXPECT_EQ(program.ops.size(), 2U);
  EXPECT_TRUE(program.provenance.boundaries.empty());
  EXPECT_EQ(program.provenance.op_modules.size(), 2U);
}

TEST(Editor, AnIllegalOperationIsAnErrorAndNoOperation) {
  ir::Program program = test::sample_program();
  Editor editor(program);
  const auto made = editor.emit(editor.order().front(), ops::kReshape, {0}, {ir::Integers{7}});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInternal);
  EXPECT_NE(made.error().message.find("reshape C1"), std::string::npos) << made.error().message;
  EXPECT_EQ(editor.changes(), 0U);
}

TEST(Editor, OneReaderMeansOneOperandOfOneOperationAndNoOutput) {
  ir::Program program = test::sample_program();
  Editor editor(program);
  EXPECT_TRUE(editor.has_one_reader(4)) << "read by the reshape alone";
  EXPECT_FALSE(editor.has_one_reader(5)) << "three operands of one attention";
  EXPECT_FALSE(editor.has_one_reader(8)) << "an output too";
}

}  // namespace dif::opt
