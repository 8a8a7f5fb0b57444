#include "backends/opencl/strided_copy.h"

#include "runtime/axes.h"

namespace dif::opencl {

namespace {

/// A shape of 8 axes that an operation sees with one more (upsample_nearest) never has more outer ones.
constexpr std::size_t kOuterAxes = 7;
constexpr Groups kLocal = {4, 16, 1};
constexpr std::int64_t kElements = 16;  ///< along a row, by one work-item

/// `even`: both sides step through a row by one element.
std::string text(std::size_t element_bytes, bool even) {
  std::string parameters, steps;
  for (std::size_t a = 0; a < kOuterAxes; ++a) {
    parameters += fmt::format("int n{0}, int x_s{0}, int y_s{0}, ", a);
    steps += fmt::format(
        "  if (axes > {0}) {{ at = left % n{0}; left /= n{0}; x += at * x_s{0}; y += at * y_s{0}; }}\n", a);
  }
  return fill(R"(#define VIEW(type, x) global type* x = (global type*)(x##_buffer + x##_offset)
kernel __attribute__((reqd_work_group_size(4, 16, 1)))
void copy(global uchar* x_buffer, ulong x_offset, global uchar* y_buffer, ulong y_offset, int x_first,
          int y_first, int x_step, int y_step, int axes, @parameters@int inner, int rows) {
  const int row = get_global_id(1);
  int i = get_global_id(0) * 16;
  if (row >= rows || i >= inner) return;
  VIEW(const @type@, x);
  VIEW(@type@, y);
  x += x_first;
  y += y_first;
  int left = row, at;
@steps@@vector@  for (const int end = min(i + 16, inner); i < end; ++i) y[@to@] = x[@from@];
}
)",
              {{"parameters", parameters},
               {"type", bits_type(element_bytes)},
               {"steps", steps},
               {"vector", even ? "  if (i + 16 <= inner) {\n    vstore16(vload16(0, x + i), 0, y + i);\n"
                                 "    return;\n  }\n"
                               : ""},
               {"to", even ? "i" : "i * y_step"},
               {"from", even ? "i" : "i * x_step"}});
}

class StridedCopy final : public runtime::Kernel {
 public:
  Status add(const KernelRequest& request, const CopyPiece& piece) {
    const Axes axes = collapse(piece.shape, {piece.from_strides, piece.to_strides});
    const std::size_t outer = axes.sizes.size() - 1;
    const bool even = axes.inner_stride(0) == 1 && axes.inner_stride(1) == 1;
    Part part = {piece.operand, {}, {}, {}};
    DIF_ASSIGN(
        part.kernel,
        device_of(request.device).kernel(text(dtype_size(request.op->out().dtype), even), "copy", kLocal));
    const auto set = [&](std::int64_t n) { part.settings.emplace_back(static_cast<std::int32_t>(n)); };
    set(piece.from);
    set(piece.to);
    set(axes.inner_stride(0));
    set(axes.inner_stride(1));
    set(static_cast<std::int64_t>(outer));
    for (std::size_t a = 0; a < kOuterAxes; ++a) {
      const bool used = a < outer;
      set(used ? axes.sizes[outer - 1 - a] : 1);
      for (std::size_t side = 0; side < 2; ++side) set(used ? axes.strides[side][outer - 1 - a] : 0);
    }
    set(axes.inner());
    set(axes.rows());
    part.groups = {ceil_div(axes.inner(), kElements * kLocal.x), ceil_div(axes.rows(), kLocal.y), 1};
    parts_.push_back(std::move(part));
    return ok();
  }

  Status run(const runtime::KernelArgs& args) override {
    for (const Part& part : parts_) {
      std::vector<Argument> arguments = {args.in[part.operand].buffer, args.out[0].buffer};
      arguments.insert(arguments.end(), part.settings.begin(), part.settings.end());
      DIF_TRY(part.kernel.launch(part.groups, arguments));
    }
    return ok();
  }

 private:
  struct Part {
    std::size_t operand = 0;
    ClKernel kernel;
    Groups groups;
    std::vector<Argument> settings;
  };
  std::vector<Part> parts_;
};

}  // namespace

MakeResult make_strided_copy(const KernelRequest& request, const std::vector<CopyPiece>& pieces) {
  DIF_TRY(countable(*request.op));
  auto kernel = std::make_unique<StridedCopy>();
  for (const CopyPiece& piece : pieces)
    if (piece.shape.numel() != 0) DIF_TRY(kernel->add(request, piece));
  return kernel;
}

}  // namespace dif::opencl
