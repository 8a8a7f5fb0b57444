#include <numeric>

#include "backends/cuda/kernels.h"
#include "ops/rotary/rotary.op.h"

namespace dif::cuda {

namespace {

/// One line for V elements; `formula` is about the arrays a, b, c and s.
void rotate(RowText& text, const RowStep& step, const std::string& y, const std::string& formula) {
  text.line(fmt::format("#pragma unroll\nfor (int k = 0; k < {}; ++k) {}[k] = encode<{}>({});", text.vector(),
                        y, type_name(step.op->out().dtype), formula));
}

/// Cosines or sines (operand 1 or 2) of the position of element p, from pair `pair` on.
std::string angles(RowText& text, const RowStep& step, std::size_t operand, const std::string& p,
                   const std::string& pair) {
  const Shape& x = step.op->in(0).shape;
  return text.load_at(step, operand,
                      fmt::format("({} / {} % {} * {} + {})", text.absolute(step, p), x.dim(2) * x.dim(3),
                                  x.dim(1), step.op->in(1).dim(1), pair));
}

/// Pairs side by side: V / 2 of them.
std::string emit_interleaved(RowText& text, const RowStep& step, const std::string& p) {
  const std::int64_t width = step.op->in(0).dim(3), half = step.op->in(1).dim(1);
  const std::string x = text.pull(step, 0, p), y = text.declare(step), d = text.fresh("d");
  text.line(fmt::format("const int {} = (int)(({}) % {});", d, p, width));
  text.open(fmt::format("if ({} < {})", d, 2 * half));
  // The angles of V elements are V / 2 numbers, side by side.
  const std::string at = text.fresh("t"), c = text.fresh("cos"), sine = text.fresh("sin");
  text.line(fmt::format("const Position {} = {} / {} % {} * {} + {} / 2;", at, text.absolute(step, p),
                        step.op->in(0).dim(2) * width, step.op->in(0).dim(1), half, d));
  for (const auto& [name, operand] : {std::pair(&c, 1), std::pair(&sine, 2)})
    text.line(fmt::format("alignas(16) float {0}[{1}];\nload<{1}>(in{2} + {3}, {0});", *name,
                          text.vector() / 2, step.operands[operand].index, at));
  text.line(fmt::format(
      "#pragma unroll\nfor (int k = 0; k < {0}; k += 2) {{ const float a = decode({1}[k]), b = decode({1}[k "
      "+ 1]), c = {2}[k / 2], s = {3}[k / 2]; {4}[k] = encode<{5}>(a * c - b * s); {4}[k + 1] = "
      "encode<{5}>(b * c + a * s); }}",
      text.vector(), x, c, sine, y, type_name(step.op->out().dtype)));
  text.close();
  text.open("else");
  text.line(fmt::format("#pragma unroll\nfor (int k = 0; k < {}; ++k) {}[k] = {}[k];", text.vector(), y, x));
  text.close();
  return y;
}

/// Pairs half a head apart.
std::string emit_halves(RowText& text, const RowStep& step, const std::string& p) {
  const std::int64_t width = step.op->in(0).dim(3), half = step.op->in(1).dim(1);
  const std::string x = text.pull(step, 0, p), y = text.declare(step), d = text.fresh("d");
  text.line(fmt::format("const int {} = (int)(({}) % {});", d, p, width));
  const auto part = [&](const std::string& head, const std::string& other, const std::string& pair,
                        const char* formula) {
    text.open(head);
    const std::string partner = text.pull(step, 0, fmt::format("({} {})", p, other));
    const std::string c = angles(text, step, 1, p, pair), s = angles(text, step, 2, p, pair);
    rotate(text, step, y, fmt::format(fmt::runtime(formula), x, partner, c, s));
    text.close();
  };
  part(fmt::format("if ({} < {})", d, half), fmt::format("+ {}", half), d,
       "decode({0}[k]) * {2}[k] - decode({1}[k]) * {3}[k]");
  part(fmt::format("else if ({} < {})", d, 2 * half), fmt::format("- {}", half),
       fmt::format("{} - {}", d, half), "decode({0}[k]) * {2}[k] + decode({1}[k]) * {3}[k]");
  text.open("else");
  text.line(fmt::format("#pragma unroll\nfor (int k = 0; k < {}; ++k) {}[k] = {}[k];", text.vector(), y, x));
  text.close();
  return y;
}

/// Pairs side by side, one element at a time.
std::string emit_interleaved_element(RowText& text, const RowStep& step, const std::string& p) {
  const std::int64_t width = step.op->in(0).dim(3), half = step.op->in(1).dim(1);
  const std::string x = text.pull(step, 0, p), y = text.declare(step), d = text.fresh("d");
  text.line(fmt::format("const int {} = (int)(({}) % {});", d, p, width));
  const auto part = [&](const std::string& head, const char* other, const char* formula) {
    text.open(head);
    const std::string partner = text.pull(step, 0, fmt::format("({} {})", p, other));
    const std::string pair = d + " / 2", c = angles(text, step, 1, p, pair),
                      s = angles(text, step, 2, p, pair);
    rotate(text, step, y, fmt::format(fmt::runtime(formula), x, partner, c, s));
    text.close();
  };
  part(fmt::format("if ({0} < {1} && {0} % 2 == 0)", d, 2 * half), "+ 1",
       "decode({0}[k]) * {2}[k] - decode({1}[k]) * {3}[k]");
  part(fmt::format("else if ({} < {})", d, 2 * half), "- 1",
       "decode({0}[k]) * {2}[k] + decode({1}[k]) * {3}[k]");
  text.open("else");
  text.line(fmt::format("{}[0] = {}[0];", y, x));
  text.close();
  return y;
}

std::string emit_rotary(RowText& text, const RowStep& step, const std::string& p) {
  if (!step.op->flag("interleaved")) return emit_halves(text, step, p);
  return text.vector() > 1 ? emit_interleaved(text, step, p) : emit_interleaved_element(text, step, p);
}

std::int64_t together(const ir::OpView& op) {
  const std::int64_t width = op.in(0).dim(3), half = op.in(1).dim(1);
  return std::gcd(width, op.flag("interleaved") ? 2 * half : half);
}

}  // namespace

const RowOperation kRotaryRows = {&ops::kRotary, emit_rotary, together};

}  // namespace dif::cuda
