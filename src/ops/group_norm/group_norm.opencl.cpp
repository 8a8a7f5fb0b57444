#include "backends/opencl/kernels.h"
#include "backends/opencl/row_sums.h"

namespace dif::opencl {

namespace {

constexpr Groups kLocal = {1, 1, 1};

constexpr const char* kText = R"(
kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void group_norm(@buffers@int groups, int group_channels, int positions, float eps) {
  VIEW(const @S@_bits, x);
  VIEW(const @S@_bits, w);
  VIEW(const @S@_bits, bias);
  VIEW(@S@_bits, y);
  const int group = get_global_id(0), size = group_channels * positions;
  x += (long)group * size;
  y += (long)group * size;
  const float mean = row_sum(x, size) / (float)size;
  const float scale = 1.0f / sqrt(row_squares(x, size, mean) / (float)size + eps);
  for (int c = 0; c < group_channels; ++c, x += positions, y += positions) {
    const int channel = group % groups * group_channels + c;
    const float factor = load_@S@(w, channel), shift = load_@S@(bias, channel);
    for (int i = 0; i < positions; i += 16) {
      const int count = positions - i;
      store16_@S@(y + i, count, (load16_@S@(x + i, count) - mean) * scale * factor + shift);
    }
  }
}
)";

class GroupNorm final : public runtime::Kernel {
 public:
  GroupNorm(ClKernel kernel, const ir::OpView& op) : kernel_(std::move(kernel)), op_(op) {}

  Status run(const runtime::KernelArgs& args) override {
    const ir::TensorType& x = op_.in(0);
    if (x.numel() == 0) return ok();
    const std::int64_t groups = op_.i64("groups"), channels = x.dim(1);
    const std::int64_t positions = x.numel() / x.dim(0) / channels;
    const auto integer = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    return kernel_.launch({x.dim(0) * groups, 1, 1},
                          {args.in[0].buffer, args.in[1].buffer, args.in[2].buffer, args.out[0].buffer,
                           integer(groups), integer(channels / groups), integer(positions), op_.f32("eps")});
  }

 private:
  ClKernel kernel_;
  const ir::OpView& op_;
};

}  // namespace

MakeResult make_group_norm(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  DIF_TRY(computable(op));
  const DType dtype = op.in(0).dtype;
  const std::string text =
      prelude() + row_sums(dtype) +
      fill(kText, {{"buffers", buffer_parameters({"x", "w", "bias", "y"})}, {"S", storage(dtype)}});
  DIF_ASSIGN(ClKernel kernel, device_of(request.device).kernel(text, "group_norm", kLocal));
  return std::make_unique<GroupNorm>(std::move(kernel), op);
}

}  // namespace dif::opencl
