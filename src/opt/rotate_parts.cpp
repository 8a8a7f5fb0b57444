#include <fmt/format.h>

#include "ops/concat/concat.op.h"
#include "ops/rotary/rotary.op.h"
#include "ops/slice/slice.op.h"
#include "opt/names.h"
#include "opt/pass.h"

namespace dif::opt {

namespace {

using ir::OpId;
using ir::ValueId;

/// The axis of a rotary's operand that counts positions.
constexpr std::int64_t kPositions = 1;

/// The concatenation of positions that `rotary` alone reads, or null.
const ir::Op* joined(const Editor& editor, const ir::Op& rotary) {
  const ir::Op* concat = editor.producer(rotary.operands[0]);
  const bool fits = concat != nullptr && concat->def == &ops::kConcat &&
                    std::get<std::int64_t>(concat->attrs[0]) == kPositions &&
                    editor.has_one_reader(rotary.operands[0]) && !editor.is_constant(rotary.results[0]);
  return fits && editor.is_constant(rotary.operands[1]) && editor.is_constant(rotary.operands[2]) ? concat
                                                                                                  : nullptr;
}

Status rotate_parts(Editor& editor, Decisions& decisions) {
  for (const OpId id : editor.order()) {
    if (!editor.is_alive(id) || editor.op(id).def != &ops::kRotary) continue;
    const ir::Op rotary = editor.op(id);
    const ir::Op* const found = joined(editor, rotary);
    if (found == nullptr) continue;
    const ir::Op concat = *found;
    decisions.push_back({"", subject_of(editor.program(), id), "rotated in parts",
                         fmt::format("its operand is {} parts put together", concat.operands.size())});
    std::vector<ValueId> parts;
    std::int64_t first = 0;
    for (const ValueId part : concat.operands) {
      const std::int64_t end = first + editor.type(part).dim(kPositions);
      std::vector<ValueId> operands = {part};
      for (const std::size_t angles : {1, 2}) {
        DIF_ASSIGN(const ValueId rows,
                   editor.emit(id, ops::kSlice, {rotary.operands[angles]}, {std::int64_t{0}, first, end}));
        operands.push_back(rows);
      }
      DIF_ASSIGN(const ValueId rotated, editor.emit(id, ops::kRotary, std::move(operands), rotary.attrs));
      parts.push_back(rotated);
      first = end;
    }
    DIF_ASSIGN(const ValueId whole, editor.emit(id, ops::kConcat, std::move(parts), concat.attrs));
    editor.replace(rotary.results[0], whole);
  }
  return ok();
}

}  // namespace

const Pass kRotateParts = {
    .name = "rotate_parts",
    .summary = "Rotate the parts of a joint sequence each for itself, next to where they come from.",
    .function = rotate_parts,
};

}  // namespace dif::opt
