#include "frontends/constant_set.h"

#include "base/check.h"
#include "base/error.h"

namespace dif::frontends {

void ConstantSet::add_view(std::string name, ConstantRef ref) {
  tables_.erase(name);
  refs_.insert_or_assign(std::move(name), ref);
}

void ConstantSet::add_table(std::string name, const Shape& shape, const std::vector<float>& values) {
  DIF_CHECK(static_cast<std::size_t>(shape.numel()) == values.size());
  auto owned = std::make_shared<std::vector<float>>(values);
  refs_.insert_or_assign(name, ConstantRef{{DType::kF32, shape}, std::as_bytes(std::span(*owned)).data()});
  tables_.insert_or_assign(std::move(name), std::move(owned));
}

const ConstantRef* ConstantSet::find(std::string_view name) const {
  const auto found = refs_.find(name);
  return found == refs_.end() ? nullptr : &found->second;
}

bool ConstantSet::is_generated(std::string_view name) const {
  return tables_.contains(name);
}

Result<std::vector<ConstantRef>> ConstantSet::bind(const ir::Program& program) const {
  std::vector<ConstantRef> refs;
  refs.reserve(program.constants.size());
  for (const ir::ValueId id : program.constants) {
    const ir::ValueInfo& constant = program.values.at(id);
    const ConstantRef* ref = find(constant.name);
    if (ref == nullptr)
      return fail(ErrorCode::kNotFound, "program {} needs the constant {}, which nothing provides",
                  program.name, constant.name);
    if (ref->type != constant.type)
      return invalid_input("program {} needs the constant {} as {}, but it is {}", program.name,
                           constant.name, constant.type, ref->type);
    refs.push_back(*ref);
  }
  return refs;
}

}  // namespace dif::frontends
