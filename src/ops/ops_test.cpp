#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ir/printer.h"
#include "ir/program_file.h"
#include "ir/verifier.h"
#include "tests/conformance/instance.h"
#include "tests/support/program_parser.h"

namespace dif::conformance {

namespace {

/// Numbers at which shape arithmetic breaks.
std::int64_t hostile_number(Random& random) {
  return random.pick<std::int64_t>({0, 1, 1, 2, 2, 3, 4, 6, 8, 64, -1, -2, 1LL << 20, 1LL << 31, 1LL << 40,
                                    1LL << 62, INT64_MAX, INT64_MIN});
}

/// A type that the verifier lets pass: what an operation may see of a hostile program.
ir::TensorType hostile_type(Random& random) {
  const DType dtype = random.one_in(2) ? DType::kF32 : static_cast<DType>(random.between(0, kDTypeCount - 1));
  for (;;) {
    std::vector<std::int64_t> dims(static_cast<std::size_t>(random.one_in(2) ? 4 : random.between(0, 8)));
    for (std::int64_t& dim : dims) dim = hostile_number(random);
    const ir::TensorType type = {dtype, Shape(dims)};
    if (ir::verify_type(type, "x")) return type;
  }
}

ir::Attr hostile_attr(Random& random, const ir::Attr& like) {
  if (random.one_in(3)) return like;
  if (std::holds_alternative<std::int64_t>(like)) return hostile_number(random);
  if (std::holds_alternative<float>(like))
    return random.pick({0.0f, -1.0f, 1e30f, 1e-40f, HUGE_VALF, std::nanf("")});
  if (std::holds_alternative<bool>(like)) return random.one_in(2);
  if (std::holds_alternative<DType>(like)) return static_cast<DType>(random.between(0, kDTypeCount - 1));
  std::vector<std::int64_t> list(static_cast<std::size_t>(random.between(0, 10)));
  for (std::int64_t& number : list) number = hostile_number(random);
  return list;
}

}  // namespace

TEST(Ops, HaveDistinctNamesAndAreFound) {
  std::set<std::string_view> names;
  for (const ir::OpDef* def : ir::all_ops()) {
    EXPECT_TRUE(names.insert(def->name).second) << def->name;
    EXPECT_EQ(ir::find_op(def->name), def);
    EXPECT_NE(def->verify, nullptr) << def->name;
    EXPECT_NE(def->infer, nullptr) << def->name;
  }
  EXPECT_EQ(ir::find_op("no_such_operation"), nullptr);
}

TEST(Ops, AreNamedAsTheirFolders) {
#define DIF_OP(Name, folder) EXPECT_NE(ir::find_op(#folder), nullptr) << #folder;
#include "ops/ops.def"
#undef DIF_OP
}

TEST(Ops, OptionalAndVariadicOperandsComeLast) {
  for (const ir::OpDef* def : ir::all_ops())
    for (std::size_t i = 0; i + 1 < def->operands.size(); ++i) {
      EXPECT_NE(def->operands[i].arity, ir::Arity::kVariadic) << def->name;
      if (def->operands[i].arity == ir::Arity::kOptional) {
        EXPECT_EQ(def->operands[i + 1].arity, ir::Arity::kOptional) << def->name;
      }
    }
}

TEST(Ops, EachHasDtypesAndValidInstances) {
  for (const auto& [def, cases] : all_cases()) {
    ASSERT_NE(def, nullptr);
    EXPECT_FALSE(cases.dtypes.empty()) << def->name;
    for (const DType dtype : cases.dtypes) {
      Random random(7);
      for (int i = 0; i < 20; ++i) {
        const Instance instance = cases.make(random, dtype);
        ASSERT_EQ(instance.program.ops.size(), 1u) << def->name;
        EXPECT_EQ(instance.program.ops[0].def, def) << def->name;
        EXPECT_EQ(instance.inputs.size(), instance.program.inputs.size()) << def->name;
        EXPECT_EQ(instance.constants.size(), instance.program.constants.size()) << def->name;
        EXPECT_TRUE(std::isfinite(ir::flops(instance.program))) << def->name;
      }
    }
  }
}

TEST(Ops, SurviveFilesAndListings) {
  for (const auto& [def, cases] : all_cases()) {
    Random random(3);
    for (int i = 0; i < 10; ++i) {
      const ir::Program program = cases.make(random, cases.dtypes.front()).program;
      const auto decoded = ir::decode(ir::encode(program));
      ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
      EXPECT_EQ(ir::fingerprint(*decoded), ir::fingerprint(program));
      const auto parsed = test::parse_program(ir::to_text(program));
      ASSERT_TRUE(parsed.has_value()) << parsed.error().message << "\n" << ir::to_text(program);
      EXPECT_EQ(ir::encode(*parsed), ir::encode(program)) << ir::to_text(program);
    }
  }
}

/// Whatever a file says, verify answers, and what verify accepts has a result type and a cost.
TEST(Ops, StandHostileShapesAndAttributes) {
  std::size_t n_accepted = 0;
  for (const ir::OpDef* def : ir::all_ops()) {
    Random random(11);
    for (int i = 0; i < 5000; ++i) {
      std::vector<ir::TensorType> operands;
      for (const ir::OperandDef& operand : def->operands)
        if (operand.arity == ir::Arity::kOne || random.one_in(2))
          operands.push_back(operands.empty() || random.one_in(3) ? hostile_type(random) : operands.back());
      std::vector<ir::Attr> attrs;
      for (const ir::AttrDef& attr : def->attrs) attrs.push_back(hostile_attr(random, attr.fallback));
      const ir::OpView seen(*def, operands, attrs);
      const Status status = ir::verify_op(seen);
      if (!status) {
        EXPECT_EQ(status.error().code, ErrorCode::kInvalidInput);
        EXPECT_LT(status.error().message.size(), 1000u);
        continue;
      }
      ++n_accepted;
      const ir::Types results = def->infer(seen);
      ASSERT_EQ(results.size(), 1u) << def->name;
      if (ir::verify_type(results[0], "y")) {
        EXPECT_TRUE(std::isfinite(ir::flops(ir::OpView(*def, operands, attrs, results)))) << def->name;
      }
    }
  }
  EXPECT_GT(n_accepted, 5000u);
}

}  // namespace dif::conformance
