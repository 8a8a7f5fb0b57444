#include "backends/cuda/kernels.h"
#include "ops/layer_norm/layer_norm.op.h"

namespace dif::cuda {

static std::string emit_layer_norm(RowText& text, const RowStep& step, const std::string& p) {
  const std::string x = text.pull(step, 0, p);
  const std::string column = fmt::format("({}) % {}", p, step.op->in(0).dim(-1));
  std::string after;
  if (step.op->has(1)) after += fmt::format(" * decode({}[k])", text.load_at(step, 1, column));
  if (step.op->has(2)) after += fmt::format(" + decode({}[k])", text.load_at(step, 2, column));
  const std::string y = text.declare(step), known = text.fresh("s");
  text.line(fmt::format("const float* const {} = {};", known, text.statistics(step, p)));
  text.line(
      fmt::format("#pragma unroll\nfor (int k = 0; k < {0}; ++k) {1}[k] = encode<{2}>((decode({3}[k]) - "
                  "{4}[0]) * {4}[1]{5});",
                  text.vector(), y, type_name(step.op->out().dtype), x, known, after));
  return y;
}

const RowOperation kLayerNormRows = {&ops::kLayerNorm, emit_layer_norm, nullptr, RowOperation::kMoments};

}  // namespace dif::cuda
