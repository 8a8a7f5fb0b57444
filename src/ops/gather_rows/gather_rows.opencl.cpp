#include "backends/opencl/kernels.h"

namespace dif::opencl {

namespace {

constexpr Groups kLocal = {16, 4, 1};

std::string text(std::size_t unit) {
  return fill(R"(
kernel __attribute__((reqd_work_group_size(16, 4, 1)))
void gather(global uchar* table_buffer, ulong table_offset, global uchar* ids_buffer, ulong ids_offset,
            global uchar* y_buffer, ulong y_offset, int width, int count) {
  const int row = get_global_id(1), i = get_global_id(0);
  if (row >= count || i >= width) return;
  global const int* ids = (global const int*)(ids_buffer + ids_offset);
  global const @type@* table = (global const @type@*)(table_buffer + table_offset);
  global @type@* y = (global @type@*)(y_buffer + y_offset);
  y[(long)row * width + i] = table[(long)ids[row] * width + i];
}
)",
              {{"type", bits_type(unit)}});
}

/// The rows are copied in the largest units that divide them.
class GatherRows final : public runtime::Kernel {
 public:
  GatherRows(ClKernel kernel, OpenClDevice& device, const ir::OpView& op, std::int64_t width)
      : kernel_(std::move(kernel)),
        device_(device),
        rows_(op.in(0).dim(0)),
        ids_(static_cast<std::size_t>(op.in(1).numel())),
        width_(width) {}

  Status run(const runtime::KernelArgs& args) override {
    // An error must name the id, so the host looks at them first: they are few.
    DIF_TRY(device_.download(ids_.data(), args.in[1].buffer, ids_.size() * sizeof(std::int32_t)));
    for (std::size_t i = 0; i < ids_.size(); ++i)
      if (ids_[i] < 0 || ids_[i] >= rows_)
        return invalid_input("gather_rows: id {} at position {} is outside 0 .. {}", ids_[i], i, rows_ - 1);
    const auto count = static_cast<std::int64_t>(ids_.size());
    return kernel_.launch({ceil_div(width_, kLocal.x), ceil_div(count, kLocal.y), 1},
                          {args.in[0].buffer, args.in[1].buffer, args.out[0].buffer,
                           static_cast<std::int32_t>(width_), static_cast<std::int32_t>(count)});
  }

 private:
  ClKernel kernel_;
  OpenClDevice& device_;
  const std::int64_t rows_;
  std::vector<std::int32_t> ids_;
  const std::int64_t width_;
};

}  // namespace

MakeResult make_gather_rows(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  DIF_TRY(countable(op));
  const std::int64_t row_bytes =
      op.in(0).dim(0) == 0 ? 0 : static_cast<std::int64_t>(op.in(0).bytes()) / op.in(0).dim(0);
  std::size_t unit = 8;
  while (row_bytes % static_cast<std::int64_t>(unit) != 0) unit /= 2;
  OpenClDevice& device = device_of(request.device);
  DIF_ASSIGN(ClKernel kernel, device.kernel(text(unit), "gather", kLocal));
  return std::make_unique<GatherRows>(std::move(kernel), device, op,
                                      row_bytes / static_cast<std::int64_t>(unit));
}

}  // namespace dif::opencl
