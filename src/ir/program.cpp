#include "ir/program.h"

#include "base/check.h"

namespace dif::ir {

const OpDef* find_op(std::string_view name) {
  for (const OpDef* def : all_ops())
    if (def->name == name) return def;
  return nullptr;
}

const Attr& OpView::attr(std::string_view name) const {
  for (std::size_t i = 0; i < def_->attrs.size(); ++i)
    if (def_->attrs[i].name == name) return attrs_.at(i);
  DIF_CHECK(!"an operation reads only attributes that it declares");
  return attrs_.front();
}

OpView Program::view(OpId id) const {
  const Op& op = ops.at(id);
  std::vector<TensorType> ins, outs;
  for (const ValueId operand : op.operands) ins.push_back(type(operand));
  for (const ValueId result : op.results) outs.push_back(type(result));
  return OpView(*op.def, std::move(ins), op.attrs, std::move(outs));
}

double flops(const OpView& op) {
  if (op.def().flops != nullptr) return op.def().flops(op);
  if (op.def().is_view) return 0;
  double elements = 0;
  for (std::size_t i = 0; i < op.n_outs(); ++i) elements += static_cast<double>(op.out(i).numel());
  return elements;
}

std::uint64_t bytes_moved(const OpView& op) {
  if (op.def().is_view) return 0;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < op.n_ins(); ++i) total += op.in(i).bytes();
  for (std::size_t i = 0; i < op.n_outs(); ++i) total += op.out(i).bytes();
  return total;
}

double flops(const Program& program) {
  double total = 0;
  for (OpId id = 0; id < program.ops.size(); ++id) total += flops(program.view(id));
  return total;
}

void expose(Program& program, const std::vector<Output>& outputs) {
  program.outputs.insert(program.outputs.end(), outputs.begin(), outputs.end());
}

}  // namespace dif::ir
