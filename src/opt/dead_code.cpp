#include "opt/names.h"
#include "opt/pass.h"

namespace dif::opt {

namespace {

Status remove_unread(Editor& editor, Decisions& decisions) {
  const auto before = editor.order();
  editor.remove_dead();
  for (const ir::OpId id : before)
    if (!editor.is_alive(id))
      decisions.push_back({"", subject_of(editor.program(), id), "removed", "nobody reads its result"});
  for (const std::string& name : editor.drop_constants())
    decisions.push_back({"", name, "removed", "nobody reads the constant"});
  return ok();
}

}  // namespace

const Pass kDeadCode = {
    .name = "dead_code",
    .summary = "Remove operations and constants whose values nobody reads.",
    .function = remove_unread,
};

}  // namespace dif::opt
