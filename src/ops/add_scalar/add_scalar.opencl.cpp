#include "backends/opencl/pointwise.h"

namespace dif::opencl {

const ElementOperation kAddScalar = {[](const ir::OpView&, const ElementNames& names) {
                                       return fmt::format("{} + {}", names.x[0], names.number);
                                     },
                                     [](const ir::OpView& op) { return op.f32("value"); }};

}  // namespace dif::opencl
