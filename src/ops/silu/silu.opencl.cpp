#include "backends/opencl/pointwise.h"

namespace dif::opencl {

const ElementOperation kSilu = {[](const ir::OpView&, const ElementNames& names) {
  return fmt::format("{0} / (1.0f + exp(-{0}))", names.x[0]);
}};

}  // namespace dif::opencl
