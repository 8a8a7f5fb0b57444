#pragma once

#include <string_view>
#include <vector>

#include "dif/status.h"
#include "opt/decision.h"
#include "opt/editor.h"
#include "opt/rule.h"

namespace dif::opt {

/// A rewrite of a program that keeps what it means: rules, or a function where an analysis is needed. One
/// pass, one file NAME.cpp, and beside it NAME.txt with programs before and after.
struct Pass {
  std::string_view name;
  std::string_view summary;  ///< one sentence
  /// The rewritten program gives the same bytes when every operation is computed as it is defined (the
  /// reference backend). Another backend may sum in another order where a shape changed.
  bool exact = true;
  std::vector<Rule> rules;
  Status (*function)(Editor& editor, Decisions& decisions) = nullptr;  ///< runs after the rules
};

extern const Pass kDeadCode;
extern const Pass kCommonSubexpressions;
extern const Pass kSimplify;
extern const Pass kHoistStep;
extern const Pass kDeadRows;
extern const Pass kParallelLinears;
extern const Pass kSplitLinears;
extern const Pass kChannelsLast;
extern const Pass kFoldUpsample;
extern const Pass kRotateParts;
extern const Pass kLayout;

/// Every pass, by name.
std::vector<const Pass*> all_passes();

}  // namespace dif::opt
