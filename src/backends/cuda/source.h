#pragma once

#include <cstdint>
#include <string>

#include "base/checked_math.h"
#include "dif/dtype.h"
#include "ir/op_def.h"
#include "runtime/kernel_text.h"

/// Pieces of CUDA C++ that kernel texts are made of.
namespace dif::cuda {

using runtime::fill;

/// What every text begins with:
///
///     bf16, f16                       16 bits in memory
///     float decode(T), int decode(int)
///     T encode<T>(v)                  the one rounding to T, to nearest even
///     round_all<T>(v)                 the same for each of an array, as floats: two at a time, which takes a
///     fraction of the time of two alone
///     quick_exp(v), quick_reciprocal(v)   within 1e-5 of the value: for results that 16 bits round. What is
///     below the smallest normal number is 0
///     load<V>(p, v), store<V>(p, v)   V elements of T at a pointer, 16 bytes at a time where there are as
///     many float warp_sum(v), float warp_max(v), float block_sum(v, scratch[32])      in an order that is
///     fixed
///
/// and the type Index, 64 bits.
std::string prelude();

/// The name of a type in the texts: float, int, bf16, f16. Pre: is_float, or i32.
std::string type_name(DType dtype);
/// An unsigned type of that many bytes (1, 2, 4, 8, 16), for elements that are only moved.
std::string bits_type(std::int64_t bytes);

/// Declines dtypes without arithmetic here: operand 0 decides.
Status computable(const ir::OpView& op);

}  // namespace dif::cuda
