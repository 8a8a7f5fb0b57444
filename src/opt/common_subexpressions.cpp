#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "ops/add/add.op.h"
#include "ops/mul/mul.op.h"
#include "opt/names.h"
#include "opt/pass.h"

namespace dif::opt {

namespace {

/// An attribute as numbers, so that -0 and 0 differ and NaN equals itself.
void append(std::vector<std::int64_t>& words, const ir::Attr& attr) {
  words.push_back(static_cast<std::int64_t>(attr.index()));
  if (const auto* list = std::get_if<ir::Integers>(&attr)) {
    words.push_back(static_cast<std::int64_t>(list->size()));
    words.insert(words.end(), list->begin(), list->end());
  } else if (const auto* number = std::get_if<float>(&attr)) {
    words.push_back(std::bit_cast<std::int32_t>(*number));
  } else if (const auto* integer = std::get_if<std::int64_t>(&attr)) {
    words.push_back(*integer);
  } else if (const auto* flag = std::get_if<bool>(&attr)) {
    words.push_back(*flag);
  } else {
    words.push_back(static_cast<std::int64_t>(std::get<DType>(attr)));
  }
}

using Key = std::tuple<const ir::OpDef*, std::vector<ir::ValueId>, std::vector<std::int64_t>>;

Key key_of(const ir::Op& op) {
  Key key{op.def, op.operands, {}};
  const bool commutes = op.def == &ops::kAdd || op.def == &ops::kMul;
  if (commutes) std::ranges::sort(std::get<1>(key));
  for (const ir::Attr& attr : op.attrs) append(std::get<2>(key), attr);
  return key;
}

Status share(Editor& editor, Decisions& decisions) {
  std::map<Key, ir::OpId> known;
  for (const ir::OpId id : editor.order()) {
    const auto [entry, is_new] = known.try_emplace(key_of(editor.op(id)), id);
    if (is_new) continue;
    const std::string subject = subject_of(editor.program(), id);
    const ir::OpId first = entry->second;
    for (std::size_t i = 0; i < editor.op(id).results.size(); ++i)
      editor.replace(editor.op(id).results[i], editor.op(first).results[i]);
    decisions.push_back({"", subject, "removed", "the same as " + subject_of(editor.program(), first)});
  }
  return ok();
}

}  // namespace

const Pass kCommonSubexpressions = {
    .name = "common_subexpressions",
    .summary = "Compute once what is computed twice from the same values.",
    .function = share,
};

}  // namespace dif::opt
