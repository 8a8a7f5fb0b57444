#include "backends/cuda/kernels.h"
#include "ops/rms_norm/rms_norm.op.h"

namespace dif::cuda {

static std::string emit_rms_norm(RowText& text, const RowStep& step, const std::string& p) {
  const std::string x = text.pull(step, 0, p);
  const bool weighted = step.op->has(1);
  const std::string w =
      weighted ? text.load_at(step, 1, fmt::format("({}) % {}", p, step.op->in(0).dim(-1))) : "";
  const std::string y = text.declare(step), known = text.fresh("s");
  text.line(fmt::format("const float {} = {}[1];", known, text.statistics(step, p)));
  text.line(fmt::format(
      "#pragma unroll\nfor (int k = 0; k < {}; ++k) {}[k] = encode<{}>(decode({}[k]) * {}{});", text.vector(),
      y, type_name(step.op->out().dtype), x, known, weighted ? fmt::format(" * decode({}[k])", w) : ""));
  return y;
}

const RowOperation kRmsNormRows = {&ops::kRmsNorm, emit_rms_norm, nullptr, RowOperation::kSquares};

}  // namespace dif::cuda
