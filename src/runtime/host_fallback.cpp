#include "runtime/host_fallback.h"

#include <utility>

#include "runtime/device.h"

namespace dif::runtime {

namespace {

class OnHost final : public Kernel {
 public:
  OnHost(Device& device, const ir::OpView& op) : device_(device), host_(0), op_(op) {}

  Status choose(std::span<const KernelEntry> host_kernels) {
    // Constants may lie on the device: the host's kernel sees them in each run, as any operand.
    const std::vector<BufferView> no_constants(op_.n_ins());
    const KernelRequest request = {&op_, &host_, no_constants};
    std::string reasons;
    for (const KernelEntry& entry : host_kernels) {
      if (entry.op != &op_.def()) continue;
      auto kernel = entry.make(request);
      if (kernel) {
        kernel_ = std::move(*kernel);
        return ok();
      }
      if (kernel.error().code != ErrorCode::kDeclined) return tl::unexpected<Error>(kernel.error());
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : ", ", entry.name, kernel.error().message);
    }
    return declined("the host has no kernel{}{}", reasons.empty() ? "" : ": ", reasons);
  }

  Status run(const KernelArgs& args) override {
    std::vector<DeviceBuffer> buffers;
    std::vector<TensorView> ins, outs;
    const auto on_host = [&](const TensorView& tensor) -> Result<TensorView> {
      DIF_ASSIGN(DeviceBuffer buffer, DeviceBuffer::create(host_, tensor.type->bytes()));
      buffers.push_back(std::move(buffer));
      return TensorView{buffers.back().view(), tensor.type};
    };
    for (const TensorView& operand : args.in) {
      DIF_ASSIGN(TensorView view, on_host(operand));
      DIF_TRY(device_.download(view.buffer.pointer(), operand.buffer, operand.type->bytes()));
      ins.push_back(view);
    }
    for (const TensorView& result : args.out) {
      DIF_ASSIGN(TensorView view, on_host(result));
      outs.push_back(view);
    }
    DIF_ASSIGN(const DeviceBuffer workspace, DeviceBuffer::create(host_, kernel_->workspace_bytes()));
    DIF_TRY(kernel_->run({ins, outs, workspace.view()}));
    for (std::size_t i = 0; i < outs.size(); ++i)
      DIF_TRY(device_.upload(args.out[i].buffer, outs[i].buffer.pointer(), outs[i].type->bytes()));
    return ok();
  }

  bool runs_on_host() const override { return true; }

 private:
  Device& device_;
  HostDevice host_;
  const ir::OpView& op_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_on_host(const KernelRequest& request,
                                             std::span<const KernelEntry> host_kernels) {
  auto kernel = std::make_unique<OnHost>(*request.device, *request.op);
  DIF_TRY(kernel->choose(host_kernels));
  return kernel;
}

}  // namespace dif::runtime
