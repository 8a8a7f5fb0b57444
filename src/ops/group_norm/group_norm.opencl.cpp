#include "backends/opencl/kernels.h"
#include "backends/opencl/row_sums.h"
#include "ops/group_norm/group_norm.op.h"

namespace dif::opencl {

namespace {

constexpr Groups kLocal = {1, 1, 1};

constexpr const char* kHead = R"(
kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void group_norm(@buffers@int groups, int group_channels, int positions, float eps) {
  VIEW(const @S@_bits, x);
  VIEW(const @S@_bits, w);
  VIEW(const @S@_bits, bias);
  VIEW(@S@_bits, y);
)";

constexpr const char* kChannelsFirst = R"(
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

/// The same for channels last; sums begin anew at times, so that errors do not grow with the group.
constexpr const char* kChannelsLast = R"(
  const int group = get_global_id(0) % groups, channels = groups * group_channels;
  const long start = (long)(get_global_id(0) / groups) * positions * channels + group * group_channels;
  const float size = (float)group_channels * positions;
  float found[2] = {0, 0};
  for (int pass = 0; pass < 2; ++pass) {
    const float centre = pass == 0 ? 0 : found[0] / size;
    for (int first = 0; first < positions; first += 256) {
      const int end = min(positions, first + 256);
      float part = 0;
      for (int p = first; p < end; ++p)
        for (int c = 0; c < group_channels; ++c) {
          const float v = load_@S@(x, start + (long)p * channels + c) - centre;
          part += pass == 0 ? v : v * v;
        }
      found[pass] += part;
    }
  }
  const float mean = found[0] / size, scale = 1.0f / sqrt(found[1] / size + eps);
  for (int p = 0; p < positions; ++p)
    for (int c = 0; c < group_channels; ++c) {
      const long at = start + (long)p * channels + c;
      const int channel = group * group_channels + c;
      const float v = (load_@S@(x, at) - mean) * scale * load_@S@(w, channel) + load_@S@(bias, channel);
      store_@S@(y, at, v);
    }
}
)";

class GroupNorm final : public runtime::Kernel {
 public:
  GroupNorm(ClKernel kernel, const ir::OpView& op) : kernel_(std::move(kernel)), op_(op) {}

  Status run(const runtime::KernelArgs& args) override {
    if (op_.in(0).numel() == 0) return ok();
    const ops::GroupNormSizes sizes = ops::group_norm_sizes(op_);
    const auto integer = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    return kernel_.launch(
        {sizes.images * sizes.groups, 1, 1},
        {args.in[0].buffer, args.in[1].buffer, args.in[2].buffer, args.out[0].buffer, integer(sizes.groups),
         integer(sizes.group_channels()), integer(sizes.positions), op_.f32("eps")});
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
      fill(std::string(kHead) + (op.flag("channels_last") ? kChannelsLast : kChannelsFirst),
           {{"buffers", buffer_parameters({"x", "w", "bias", "y"})}, {"S", storage(dtype)}});
  DIF_ASSIGN(ClKernel kernel, device_of(request.device).kernel(text, "group_norm", kLocal));
  return std::make_unique<GroupNorm>(std::move(kernel), op);
}

}  // namespace dif::opencl
