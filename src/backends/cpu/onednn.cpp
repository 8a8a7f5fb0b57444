#include "backends/cpu/onednn.h"

#include <oneapi/dnnl/dnnl.hpp>

namespace dif::cpu {

// Never destroyed: primitives in static objects elsewhere may outlive any order of destruction.
dnnl::engine& onednn_engine() {
  static auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::stream& onednn_stream() {
  static auto* stream = new dnnl::stream(onednn_engine());
  return *stream;
}

}  // namespace dif::cpu
