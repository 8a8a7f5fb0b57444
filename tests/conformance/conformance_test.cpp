/// Every operation of ops.def on every backend that runs here, in every dtype of its cases, against the
/// reference backend, through the C interface of plug-ins.
///
///     dif_conformance_tests --gtest_filter=*attention*cpu*bf16*     DIF_CONFORMANCE_INSTANCES=2000 for more
///
/// A failure names the instance's seed; the same seed makes the same instance everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "tests/conformance/compare.h"
#include "tests/conformance/instance.h"
#include "tests/conformance/run.h"

namespace dif::conformance {

namespace {

const std::string kJudge = "reference";

std::uint64_t n_instances() {
  const char* wanted = std::getenv("DIF_CONFORMANCE_INSTANCES");
  return wanted == nullptr ? 60 : std::strtoull(wanted, nullptr, 10);
}

/// One context per backend for the whole run; an error where its device is missing.
const Result<std::shared_ptr<runtime::Context>>& backend(const std::string& name) {
  static std::map<std::string, Result<std::shared_ptr<runtime::Context>>> contexts;
  const auto found = contexts.find(name);
  return found != contexts.end() ? found->second : contexts.emplace(name, open_backend(name)).first->second;
}

/// The backends that compute: null only plans, others may lack their device.
const std::vector<std::string>& computing_backends() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const std::string& name : runtime::available_backends())
      if (name != "null" && backend(name)) result.push_back(name);
    return result;
  }();
  return names;
}

struct Case {
  const ir::OpDef* op = nullptr;
  const OpCases* cases = nullptr;
  std::string backend;
  DType dtype = DType::kF32;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << fmt::format("{} on {} in {}", c.op->name, c.backend, c.dtype);
}

std::vector<Case> every_case() {
  std::vector<Case> result;
  for (const auto& [op, cases] : all_cases())
    for (const std::string& name : computing_backends())
      for (const DType dtype : cases.dtypes) result.push_back({op, &cases, name, dtype});
  return result;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return fmt::format("{}_{}_{}", info.param.op->name, info.param.backend, dtype_name(info.param.dtype));
}

/// What an instance is, for the reader of a failure.
std::string description(const Instance& instance) {
  const ir::OpView op = instance.program.view(0);
  std::string text = std::string(op.def().name);
  for (std::size_t i = 0; i < op.n_ins(); ++i) text += fmt::format(" {}", op.in(i));
  for (std::size_t i = 0; i < op.attrs().size(); ++i)
    text += fmt::format(" {}={}", op.def().attrs[i].name, attr_text(op.attrs()[i]));
  return text + fmt::format(" -> {}", op.out());
}

}  // namespace

class OpConformance : public testing::TestWithParam<Case> {};

TEST_P(OpConformance, AgreesWithReference) {
  const auto& [op, cases, name, dtype] = GetParam();
  double worst = 0;
  for (std::uint64_t seed = 0; seed < n_instances(); ++seed) {
    Random random(seed);
    const Instance instance = cases->make(random, dtype);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, description(instance)));
    const auto want = run_program(*backend(kJudge), instance.program, instance.inputs, instance.constants);
    ASSERT_TRUE(want.has_value()) << want.error().message;
    const auto got = run_program(*backend(name), instance.program, instance.inputs, instance.constants);
    ASSERT_TRUE(got.has_value()) << got.error().message;
    const Difference difference =
        compare(got->outputs.at(0), want->outputs.at(0), cases->tolerance(dtype), instance.scale);
    worst = std::max(worst, difference.of_allowed);
    ASSERT_TRUE(difference.ok()) << difference.text << "\n" << got->details;
  }
  RecordProperty("worst", fmt::format("{:.3g}", worst));  // 1 = all of the tolerance
  if (std::getenv("DIF_CONFORMANCE_VERBOSE") != nullptr)
    fmt::print("{} {} {}: {:.3g} of the tolerance\n", op->name, name, dtype, worst);
}

INSTANTIATE_TEST_SUITE_P(, OpConformance, testing::ValuesIn(every_case()), case_name);

TEST(Conformance, TheBackendsThatThisProgramIsForAreThere) {
  for (const std::string name : {DIF_CONFORMANCE_BACKENDS})
    EXPECT_TRUE(std::ranges::count(computing_backends(), name) == 1) << name;
}

TEST(Conformance, CoversEveryOperation) {
  EXPECT_EQ(all_cases().size(), ir::all_ops().size());
}

}  // namespace dif::conformance

/// The operations' unit tests are linked in with their cases; dif_ops_tests runs those.
int main(int argc, char** argv) {
  testing::GTEST_FLAG(filter) = "*Conformance*";
  // Tests share the machine: a thread of a plug-in that waits for its work should sleep, not spin.
  setenv("OMP_WAIT_POLICY", "passive", 0);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
