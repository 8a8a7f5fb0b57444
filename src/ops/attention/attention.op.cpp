#include "ops/attention/attention.op.h"

#include <cmath>

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kAttention = {
    .name = "attention",
    .operands = {{"q"}, {"k"}, {"v"}, {"key_mask", ir::Arity::kOptional}},
    .attrs = {{"causal", false}, {"scale", 1.0f}},
    .verify = [](const ir::OpView& op) -> Status {
      const ir::TensorType &q = op.in(0), &k = op.in(1), &v = op.in(2);
      if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4)
        return op.broken("C1", "q is {}, k is {}, v is {}: needed is rank 4", q, k, v);
      if (q.dim(0) != k.dim(0) || k.dim(0) != v.dim(0) || k.dim(1) != v.dim(1) || k.dim(2) != v.dim(2))
        return op.broken("C1", "q is {}, k is {}, v is {}: batches, keys or key heads differ", q.shape,
                         k.shape, v.shape);
      if (q.dim(3) != k.dim(3)) return op.broken("C2", "heads of q are {} wide, of k {}", q.dim(3), k.dim(3));
      if (k.dim(2) < 1 || q.dim(2) % k.dim(2) != 0)
        return op.broken("C3", "{} key heads do not divide {} query heads", k.dim(2), q.dim(2));
      if (!is_float(q.dtype) || k.dtype != q.dtype || v.dtype != q.dtype)
        return op.broken("C4", "q is {}, k is {}, v is {}: needed is one of f32, bf16, f16", q.dtype, k.dtype,
                         v.dtype);
      if (op.has(3) && op.in(3) != ir::TensorType{DType::kBool, Shape{k.dim(0), k.dim(1)}})
        return op.broken("C5", "key_mask is {}, needed is bool[{}, {}]", op.in(3), k.dim(0), k.dim(1));
      if (op.flag("causal") && q.dim(1) != k.dim(1))
        return op.broken("C6", "causal with {} queries and {} keys", q.dim(1), k.dim(1));
      if (!std::isfinite(op.f32("scale"))) return op.broken("C7", "scale is {}", op.f32("scale"));
      return ok();
    },
    .infer = [](const ir::OpView& op) -> ir::Types {
      ir::TensorType result = op.in(0);
      result.shape.set_dim(3, op.in(2).dim(3));
      return {result};
    },
    .flops =
        [](const ir::OpView& op) {
          const double rows = static_cast<double>(op.in(0).dim(0)) * static_cast<double>(op.in(0).dim(1)) *
                              static_cast<double>(op.in(0).dim(2));
          return 2.0 * rows * static_cast<double>(op.in(1).dim(1)) *
                 static_cast<double>(op.in(1).dim(3) + op.in(2).dim(3));
        },
};

Value attention(Builder& b, Value q, Value k, Value v, std::optional<Value> key_mask, bool causal,
                float scale) {
  std::vector<Value> operands = {q, k, v};
  if (key_mask) operands.push_back(*key_mask);
  return b.emit(kAttention, operands, {causal, scale});
}

}  // namespace dif::ops
