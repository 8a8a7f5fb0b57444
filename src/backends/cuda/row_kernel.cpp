#include "backends/cuda/kernels.h"
#include "ops/common/checks.h"

namespace dif::cuda {

namespace {

class RowKernel final : public runtime::Kernel {
 public:
  RowKernel(CudaKernel kernel, std::int64_t blocks) : kernel_(kernel), blocks_(blocks) {}

  Status run(const runtime::KernelArgs& args) override {
    std::vector<Argument> arguments;
    for (const runtime::TensorView& operand : args.in) arguments.emplace_back(operand.buffer);
    for (const runtime::TensorView& result : args.out) arguments.emplace_back(result.buffer);
    return kernel_.launch({blocks_}, arguments);
  }

 private:
  CudaKernel kernel_;
  std::int64_t blocks_;
};

/// The kernel of an operation without elements.
class NothingToDo final : public runtime::Kernel {
 public:
  Status run(const runtime::KernelArgs&) override { return ok(); }
};

}  // namespace

MakeResult make_row_group(const runtime::GroupRequest& request) {
  RowText rows(request);
  DIF_TRY(rows.check());
  const std::string text = rows.text();
  DIF_ASSIGN(const CudaKernel kernel,
             device_of(request.device).kernel(text, "rows", rows.threads(), rows.shared_bytes()));
  return std::make_unique<RowKernel>(kernel, rows.blocks());
}

MakeResult make_rows(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  if (op.out().numel() == 0) return std::make_unique<NothingToDo>();
  runtime::GroupOp only = {&op, {}, 0};
  for (std::uint32_t i = 0; i < op.n_ins(); ++i) only.operands.push_back({false, i});
  // Without statistics rows do not matter; with them a row is one vector.
  const bool by_vector = row_operation(op.def())->statistics != RowOperation::kNone;
  return make_row_group({{&only, 1},
                         by_vector ? op.in(0).numel() / op.in(0).dim(-1) : 1,
                         request.constants,
                         1,
                         request.device,
                         request.plan_only,
                         request.in_pitches,
                         request.out_pitches});
}

Status accept_in_group(const ir::OpView& op) {
  if (row_operation(op.def()) == nullptr) return runtime::declined("{} has no text for rows", op.def().name);
  for (std::size_t i = 0; i < op.n_ins(); ++i)
    if (!ops::is_number(op.in(i).dtype)) return runtime::declined("no arithmetic on {}", op.in(i).dtype);
  return ok();
}

}  // namespace dif::cuda
