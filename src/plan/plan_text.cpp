#include "plan/plan_text.h"

namespace dif::plan {

std::string_view storage_name(Storage storage) {
  switch (storage) {
    case Storage::kInput:
      return "input";
    case Storage::kConstant:
      return "constant";
    case Storage::kFolded:
      return "folded";
    case Storage::kArena:
      return "arena";
    case Storage::kRegister:
      return "register";
  }
  return "?";
}

std::string assignments_text(const ir::Program& program, const Plan& plan) {
  const std::string_view unit = plan.groups.empty() ? "operations" : "steps";
  std::string text;
  for (ir::ValueId id = 0; id < plan.values.size(); ++id) {
    const Placement& place = plan.values[id];
    const ir::TensorType& type = program.type(id);
    if (place.root != id) {
      text += fmt::format("%{} looks at %{} : {}\n", id, place.root, type);
    } else if (place.host != ir::kNoId) {
      text += fmt::format("%{} inside %{}, arena {}{} : {}\n", id, place.host, place.offset,
                          place.pitch.dense()
                              ? ""
                              : fmt::format(", {} elements every {}", place.pitch.run, place.pitch.pitch),
                          type);
    } else if (place.storage == Storage::kArena) {
      text += fmt::format("%{} arena {} + {}, {} {} to {} : {}\n", id, place.offset, type.bytes(), unit,
                          place.life.first, place.life.last, type);
    } else {
      text += fmt::format("%{} {} : {}\n", id, storage_name(place.storage), type);
    }
  }
  return text;
}

}  // namespace dif::plan
