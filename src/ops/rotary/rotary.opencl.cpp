#include "backends/opencl/kernels.h"

namespace dif::opencl {

namespace {

constexpr Groups kLocal = {1, 16, 1};

constexpr const char* kText = R"(
kernel __attribute__((reqd_work_group_size(1, 16, 1)))
void rotary(@buffers@int rows, int positions, int heads, int width, int half_width, int interleaved) {
  const int row = get_global_id(1);
  if (row >= rows) return;
  VIEW(const @S@_bits, x);
  VIEW(const float, cosines);
  VIEW(const float, sines);
  VIEW(@S@_bits, y);
  const int position = row / heads % positions;
  x += (long)row * width;
  y += (long)row * width;
  cosines += position * half_width;
  sines += position * half_width;
  const int stride = interleaved ? 2 : 1, partner = interleaved ? 1 : half_width;
  for (int i = 0; i < half_width; ++i) {
    const float a = load_@S@(x, i * stride), b = load_@S@(x, i * stride + partner);
    const float c = cosines[i], s = sines[i];
    store_@S@(y, i * stride, a * c - b * s);
    store_@S@(y, i * stride + partner, b * c + a * s);
  }
  for (int i = 2 * half_width; i < width; ++i) y[i] = x[i];
}
)";

class Rotary final : public runtime::Kernel {
 public:
  Rotary(ClKernel kernel, const ir::OpView& op) : kernel_(std::move(kernel)), op_(op) {}

  Status run(const runtime::KernelArgs& args) override {
    const Shape& x = op_.in(0).shape;
    const std::int64_t rows = x.dim(0) * x.dim(1) * x.dim(2);
    const auto integer = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    return kernel_.launch({1, ceil_div(rows, kLocal.y), 1},
                          {args.in[0].buffer, args.in[1].buffer, args.in[2].buffer, args.out[0].buffer,
                           integer(rows), integer(x.dim(1)), integer(x.dim(2)), integer(x.dim(3)),
                           integer(op_.in(1).dim(1)), integer(op_.flag("interleaved") ? 1 : 0)});
  }

 private:
  ClKernel kernel_;
  const ir::OpView& op_;
};

}  // namespace

MakeResult make_rotary(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  DIF_TRY(computable(op));
  DIF_ASSIGN(
      ClKernel kernel,
      device_of(request.device)
          .kernel(prelude() + fill(kText, {{"buffers", buffer_parameters({"x", "cosines", "sines", "y"})},
                                           {"S", storage(op.in(0).dtype)}}),
                  "rotary", kLocal));
  return std::make_unique<Rotary>(std::move(kernel), op);
}

}  // namespace dif::opencl
