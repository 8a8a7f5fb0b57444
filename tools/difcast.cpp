#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "cli/command.h"
#include "io/tensor_file.h"
#include "tools.h"

namespace dif::tools {

namespace {

Result<Shape> reshaped(const io::HostTensor& tensor, const std::vector<std::int64_t>& dims) {
  if (dims.empty()) return tensor.shape;
  if (dims.size() > Shape::kMaxRank)
    return invalid_input("{} dimensions are given, at most {} are possible", dims.size(), Shape::kMaxRank);
  const Shape shape(dims);
  if (shape.checked_numel() != tensor.numel())
    return invalid_input("{} has {} elements, the shape {} does not", tensor.shape, tensor.numel(), shape);
  return shape;
}

std::int64_t count_nonfinite(const io::HostTensor& tensor) {
  return std::ranges::count_if(tensor.to_f32(), [](float value) { return !std::isfinite(value); });
}

int run(int argc, char** argv) {
  cli::Command command(
      "difcast", "Write a tensor in another floating format, and in another shape if dimensions are given.");
  std::string input, output, dtype_name;
  std::vector<std::int64_t> dims;
  command.add_option("INPUT", input, "FILE.diftensor or FILE.safetensors::NAME").required();
  command.add_option("OUTPUT", output, "FILE.diftensor").required();
  command.add_option("DTYPE", dtype_name, "f32, bf16 or f16")
      .required()
      .expect_one_of({"f32", "bf16", "f16"});
  command.add_option("DIM", dims, "dimensions of the result, slowest first");
  command.add_examples(
      "  difcast latents.diftensor half.diftensor bf16\n"
      "  difcast model.safetensors::weight w.diftensor f32 64 1024\n"
      "Conversions round to nearest even.\n");
  return cli::run_tool(command, argc, argv, [&]() -> Status {
    DIF_ASSIGN(const io::HostTensor tensor, io::read_tensor_operand(input));
    DIF_ASSIGN(const Shape shape, reshaped(tensor, dims));
    DIF_ASSIGN(io::HostTensor result, io::convert(tensor, *dtype_from_name(dtype_name)));
    result.shape = shape;
    if (const std::int64_t lost = count_nonfinite(result) - count_nonfinite(tensor); lost > 0)
      cli::print_warning(fmt::format("{} values are too large for {} and became infinite", lost, dtype_name));
    DIF_TRY(io::write_tensor_file(output, result));
    return cli::print_result(fmt::format("{} {}{}\n", output, result.dtype, result.shape));
  });
}

}  // namespace

const cli::Tool k_difcast = {"difcast", "Tensors", "write a tensor in another number format or shape", run};

}  // namespace dif::tools
