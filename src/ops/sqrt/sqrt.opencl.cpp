#include "backends/opencl/pointwise.h"

namespace dif::opencl {

const ElementOperation kSqrt = {
    [](const ir::OpView&, const ElementNames& names) { return fmt::format("sqrt({})", names.x[0]); }};

}  // namespace dif::opencl
