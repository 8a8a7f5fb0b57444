#include "ir/builder.h"

#include "base/check.h"
#include "ir/verifier.h"

namespace dif::ir {

TensorType Value::type() const {
  return valid() ? builder_->type(id_) : TensorType{};
}

std::int64_t Value::dim(int axis) const {
  const int n = rank();
  return axis >= -n && axis < n ? type().dim(axis) : 0;
}

Builder::Builder(std::string program_name) {
  program_.name = std::move(program_name);
}

const TensorType& Builder::type(ValueId id) const {
  return program_.values.at(id).type;
}

void Builder::fail(Error error) {
  if (error_) return;
  if (!module_.empty()) error.message += fmt::format(" (while building {})", module_);
  error_ = std::move(error);
}

Value Builder::input(std::string name, TensorType type) {
  if (Status status = verify_type(type, name); !status) fail(std::move(status.error()));
  const auto id = static_cast<ValueId>(program_.values.size());
  program_.values.push_back({std::move(type), ValueKind::kInput, std::move(name), kNoId});
  program_.inputs.push_back(id);
  return {this, id};
}

Value Builder::constant(std::string name, TensorType type) {
  for (const ValueId id : program_.constants) {
    const ValueInfo& known = program_.values[id];
    if (known.name != name) continue;
    if (known.type != type)
      fail(
          {ErrorCode::kInternal, fmt::format("constant {} is used as {} and as {}", name, known.type, type)});
    return {this, id};
  }
  if (Status status = verify_type(type, name); !status) fail(std::move(status.error()));
  const auto id = static_cast<ValueId>(program_.values.size());
  program_.values.push_back({std::move(type), ValueKind::kConstant, std::move(name), kNoId});
  program_.constants.push_back(id);
  return {this, id};
}

Value Builder::emit(const OpDef& def, std::span<const Value> operands, std::vector<Attr> attrs) {
  if (error_) return {};
  Op op;
  op.def = &def;
  op.attrs = std::move(attrs);
  std::vector<TensorType> types;
  for (const Value& operand : operands) {
    if (!operand.valid()) {
      fail({ErrorCode::kInternal, fmt::format("{} got a value that does not exist", def.name)});
      return {};
    }
    op.operands.push_back(operand.id());
    types.push_back(operand.type());
  }
  const OpView view(def, std::move(types), op.attrs);
  if (Status status = verify_op(view); !status) {
    fail(std::move(status.error()));
    return {};
  }
  Types results = def.infer(view);
  for (const TensorType& type : results)
    if (Status status = verify_type(type, def.name); !status) {
      fail(std::move(status.error()));
      return {};
    }
  const auto op_id = static_cast<OpId>(program_.ops.size());
  for (TensorType& type : results) {
    op.results.push_back(static_cast<ValueId>(program_.values.size()));
    program_.values.push_back({std::move(type), ValueKind::kResult, {}, op_id});
  }
  const ValueId first = op.results.front();
  program_.ops.push_back(std::move(op));
  program_.provenance.op_modules.push_back(module_);
  return {this, first};
}

void Builder::output(std::string name, Value value) {
  if (error_) return;
  DIF_CHECK(value.valid());
  program_.outputs.push_back({std::move(name), value.id()});
}

void Builder::boundary(std::string_view path, Value value) {
  if (error_) return;
  std::string name = module_;
  if (!name.empty() && !path.empty()) name += '.';
  name += path;
  program_.provenance.boundaries.push_back({std::move(name), value.id()});
}

Builder::Scope::Scope(Builder& builder, std::string_view path)
    : builder_(builder), length_(builder.module_.size()) {
  if (length_ != 0) builder.module_ += '.';
  builder.module_ += path;
}

Builder::Scope::~Scope() {
  builder_.module_.resize(length_);
}

Result<Program> Builder::finish() {
  if (error_) return tl::unexpected<Error>(*error_);
  DIF_TRY(verify(program_));
  return std::move(program_);
}

}  // namespace dif::ir
