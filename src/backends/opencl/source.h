#pragma once

#include <cstdint>
#include <string>

#include "base/checked_math.h"
#include "base/error.h"
#include "dif/dtype.h"
#include "ir/op_def.h"
#include "runtime/kernel_text.h"

/// Pieces of OpenCL C that kernel texts are made of. A text depends on dtypes and on the form of an access,
/// never on sizes: those are parameters, so that few distinct programs are compiled.
namespace dif::opencl {

using runtime::fill;

/// What every program begins with: contraction off, and for each dtype S of f32, bf16, f16, i32
///
///     load_S(p, i), store_S(p, i, v)     element i of `global S_bits* p` as float (i32: int)
///     load16_S(p, count)                 elements 0 .. 15 as float16 (int16); zeros from `count` on
///     store16_S(p, count, v)             at most `count` of them
///     round_S(v), round16_S(v)           the rounding of a store, kept as float or float16
///
/// and VIEW(type, x) for parameters `global uchar* x_buffer, ulong x_offset`, which declares `global type*
/// x`. bf16 and f16 are 16-bit integers in memory. A store rounds once, to nearest even; NaN stays NaN.
std::string prelude();

/// "f32", "bf16", "f16", "i32": the S of the names above. Pre: one of the four.
std::string storage(DType dtype);
/// "uchar", "ushort", "uint", "ulong": elements that are only moved.
std::string bits_type(std::size_t element_bytes);

/// Declines types with more elements than the `int` indices of kernels can count.
Status countable(const ir::OpView& op);
/// The same, and dtypes without arithmetic here: operand 0 decides.
Status computable(const ir::OpView& op);

}  // namespace dif::opencl
