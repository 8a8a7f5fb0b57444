/// Every case of the NAME.txt files. A file holds cases:
///
///     == what the case shows
///     program before, as ir::to_text prints it
///     -- becomes
///     program after
///
/// or `-- stays` with nothing after it. Each case is also run, before and after, on the reference backend:
/// the outputs of an exact pass have the same bytes, those of another are as close as f32 rounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <ostream>
#include <stdexcept>

#include "ir/printer.h"
#include "ir/program_file.h"
#include "opt/pass_texts_test.h"
#include "opt/pipeline.h"
#include "tests/conformance/random.h"
#include "tests/conformance/run.h"
#include "tests/support/program_parser.h"

namespace dif::opt {

namespace {

struct Case {
  const Pass* pass = nullptr;
  std::string title, before, after;
  bool stays = false;
};

std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << one.pass->name << ": " << one.title;
}

const Pass* pass_named(std::string_view name) {
  const auto all = all_passes();
  const auto found = std::ranges::find(all, name, &Pass::name);
  return found == all.end() ? nullptr : *found;
}

std::vector<Case> cases_of(std::string_view pass, std::string_view text) {
  std::vector<Case> cases;
  bool after = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string line(text.substr(0, end));
    text.remove_prefix(end);
    if (line.starts_with("== ")) {
      cases.push_back({pass_named(pass), line.substr(3, line.size() - 4)});
      after = false;
    } else if (line == "-- becomes\n") {
      after = true;
    } else if (line == "-- stays\n") {
      cases.back().stays = true;
    } else if (!cases.empty()) {
      (after ? cases.back().after : cases.back().before) += line;
    }
  }
  return cases;
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const PassTextFile& file : pass_text_files())
    for (Case& one : cases_of(file.pass, file.text)) all.push_back(std::move(one));
  return all;
}

ir::Program parsed(const std::string& text) {
  auto program = test::parse_program(text);
  if (!program) throw std::runtime_error(program.error().message + " in\n" + text);
  return std::move(*program);
}

std::vector<io::HostTensor> outputs_of(const ir::Program& program,
                                       std::map<std::string, io::HostTensor>& bound) {
  const auto tensors = [&](const std::vector<ir::ValueId>& ids) {
    std::vector<io::HostTensor> result;
    for (const ir::ValueId id : ids) result.push_back(bound.at(program.values[id].name));
    return result;
  };
  auto context = conformance::open_backend("reference");
  if (!context) throw std::runtime_error(context.error().message);
  auto run = conformance::run_program(*context, program, tensors(program.inputs), tensors(program.constants));
  if (!run) throw std::runtime_error(run.error().message);
  return run->outputs;
}

std::map<std::string, io::HostTensor> random_tensors(const ir::Program& program) {
  conformance::Random random(7);
  std::map<std::string, io::HostTensor> result;
  for (const ir::ValueInfo& value : program.values) {
    if (value.kind == ir::ValueKind::kResult) continue;
    if (value.type.dtype == DType::kI32)
      result.emplace(value.name, random.integers(value.type.shape, 0, 1));
    else if (value.type.dtype == DType::kBool)
      result.emplace(value.name, random.flags(value.type.shape));
    else
      result.emplace(value.name, random.normal(value.type));
  }
  return result;
}

class PassText : public ::testing::TestWithParam<Case> {};

}  // namespace

TEST_P(PassText, IsWhatThePassMakes) {
  const Case& one = GetParam();
  ASSERT_NE(one.pass, nullptr) << "a .txt file is named after a pass";
  const ir::Program before = parsed(one.before);
  ir::Program after = before;
  const auto reports = run(after, {one.pass});
  ASSERT_TRUE(reports) << reports.error().message;
  if (one.stays) {
    EXPECT_EQ(ir::to_text(after), ir::to_text(before));
    EXPECT_FALSE(reports->front().changed);
    EXPECT_EQ(ir::fingerprint(after), ir::fingerprint(before));
    return;
  }
  EXPECT_EQ(ir::to_text(after), ir::to_text(parsed(one.after)));
  EXPECT_TRUE(reports->front().changed);
  EXPECT_FALSE(reports->front().decisions.empty()) << "what changes a program is recorded";
}

TEST_P(PassText, KeepsEveryOutputOnTheReferenceBackend) {
  const Case& one = GetParam();
  ASSERT_NE(one.pass, nullptr);
  const ir::Program before = parsed(one.before);
  ir::Program after = before;
  ASSERT_TRUE(run(after, {one.pass}));
  auto bound = random_tensors(before);
  const auto expected = outputs_of(before, bound), found = outputs_of(after, bound);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (one.pass->exact) {
      EXPECT_EQ(found[i].data, expected[i].data) << "output " << before.outputs[i].name;
      continue;
    }
    const std::vector<float> x = found[i].to_f32(), y = expected[i].to_f32();
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t k = 0; k < x.size(); ++k) EXPECT_NEAR(x[k], y[k], 1e-5f * (1 + std::abs(y[k]))) << k;
  }
}

TEST_P(PassText, IsLeftAloneByASecondRun) {
  const Case& one = GetParam();
  ASSERT_NE(one.pass, nullptr);
  ir::Program program = parsed(one.before);
  ASSERT_TRUE(run(program, {one.pass}));
  const auto again = run(program, {one.pass});
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->front().changed) << ir::to_text(program);
}

INSTANTIATE_TEST_SUITE_P(Files, PassText, ::testing::ValuesIn(all_cases()), [](const auto& info) {
  std::string name =
      fmt::format("{}_{}", info.param.pass == nullptr ? "unknown" : info.param.pass->name, info.param.title);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(PassTexts, EveryPassHasAProgramThatItChangesAndOneThatStays) {
  for (const Pass* pass : all_passes()) {
    const auto cases = all_cases();
    const auto of_pass = [&](bool stays) {
      return std::ranges::count_if(cases, [&](const Case& c) { return c.pass == pass && c.stays == stays; });
    };
    EXPECT_GE(of_pass(false), 1) << pass->name;
    EXPECT_GE(of_pass(true), 1) << pass->name;
  }
}

}  // namespace dif::opt
