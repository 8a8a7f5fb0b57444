#include "backends/opencl/row_sums.h"

#include "backends/opencl/kernels.h"

namespace dif::opencl {

namespace {

constexpr const char* kSum = R"(
float @name@(global const @S@_bits* x, int n@parameter@) {
  float sum = 0;
  int i = 0;
  for (int first = 0; first + 16 <= n; first += 4096) {
    float16 sums = 0;
    for (const int end = min(n - 15, first + 4096); i < end; i += 16) {
      const float16 v = load16_@S@(x + i, 16)@centre@;
      sums += @term@;
    }
    sum += sum16(sums);
  }
  for (; i < n; ++i) {
    const float v = load_@S@(x, i)@centre@;
    sum += @term@;
  }
  return sum;
}
)";

}  // namespace

std::string row_sums(DType dtype) {
  const std::string s = storage(dtype);
  return fill(kSum, {{"name", "row_sum"}, {"S", s}, {"parameter", ""}, {"centre", ""}, {"term", "v"}}) +
         fill(kSum, {{"name", "row_squares"},
                     {"S", s},
                     {"parameter", ", float mean"},
                     {"centre", " - mean"},
                     {"term", "v * v"}});
}

}  // namespace dif::opencl
