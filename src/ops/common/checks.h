#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ir/op_def.h"

/// What the rules of several operations share. "Floating" in a header of src/ops means f32, bf16 or f16.
namespace dif::ops {

/// f32, bf16 or f16: the dtypes that operations compute on.
bool is_float(DType dtype);
/// A floating dtype or i32.
bool is_number(DType dtype);

/// The shape of an element-wise result: right-aligned, a dimension of 1 repeats. Nothing when they disagree.
std::optional<Shape> broadcast(const Shape& x, const Shape& y);

/// `axis` counted from the front when it counted from the end; unchanged when it is out of range, so that the
/// operation's constraint reports it.
std::int64_t from_front(std::int64_t axis, int rank);

/// Sum and product that stop at 2^63 - 1, which the verifier refuses as a dimension. Pre: a, b >= 0.
std::int64_t saturating_add(std::int64_t a, std::int64_t b);
std::int64_t saturating_mul(std::int64_t a, std::int64_t b);

/// Number of elements as a floating number, for counting operations.
double elements(const ir::TensorType& type);

/// "[1, 2, 3]" for messages, cut after a few numbers.
std::string list_text(std::span<const std::int64_t> numbers);

/// Rules of add, sub and mul: C1 (one dtype, floating or i32) and C2 (shapes broadcast).
Status verify_binary(const ir::OpView& op);
ir::Types infer_binary(const ir::OpView& op);
/// The result has the type of operand 0.
ir::Types infer_same(const ir::OpView& op);
/// Operations that only move bytes.
double no_flops(const ir::OpView& op);

}  // namespace dif::ops
