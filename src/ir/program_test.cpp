#include "ir/program.h"

#include <gtest/gtest.h>

#include "tests/support/sample_program.h"

namespace dif::ir {

TEST(Program, CountsFlopsAndBytes) {
  const Program program = test::sample_program();
  // linear [5, 8] x [8, 8] with bias: 40 * (2 * 8 + 1); reads 80 + 128 + 16 bytes and writes 80.
  EXPECT_EQ(flops(program.view(0)), 680);
  EXPECT_EQ(bytes_moved(program.view(0)), 304u);
  // A view costs nothing, a movement no arithmetic.
  EXPECT_EQ(flops(program.view(1)), 0);
  EXPECT_EQ(bytes_moved(program.view(1)), 0u);
  EXPECT_EQ(flops(program.view(3)), 0);
  // attention: 2 heads, 5 queries, 5 keys, 4 + 4 wide.
  EXPECT_EQ(flops(program.view(2)), 2 * 2 * 5 * 5 * 8);
  EXPECT_EQ(flops(program.view(4)), 80);
  EXPECT_EQ(flops(program), 680 + 800 + 80);
}

TEST(Program, ExposesValuesAsFurtherOutputs) {
  Program program = test::sample_program();
  expose(program, {{"attn", 6}});
  ASSERT_EQ(program.outputs.size(), 3u);
  EXPECT_EQ(program.outputs[2].name, "attn");
  EXPECT_EQ(program.outputs[2].value, 6u);
}

TEST(OpView, ReadsAttributesByName) {
  const Program program = test::sample_program();
  const OpView attention = program.view(2);
  EXPECT_TRUE(attention.flag("causal"));
  EXPECT_EQ(attention.f32("scale"), 0.5f);
  EXPECT_TRUE(attention.has(3));
  EXPECT_FALSE(attention.has(4));
  EXPECT_EQ(program.view(5).dtype("dtype"), DType::kF32);
  EXPECT_EQ(program.view(1).i64s("shape"), (std::vector<std::int64_t>{1, 5, 2, 4}));
}

}  // namespace dif::ir
