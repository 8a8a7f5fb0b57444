#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "dif/dtype.h"
#include "ir/op_def.h"

/// Pieces of CUDA C++ that kernel texts are made of.
namespace dif::cuda {

/// What every text begins with:
///
///     bf16, f16                       16 bits in memory
///     float decode(T), int decode(int)
///     T encode<T>(v)                  the one rounding to T, to nearest even
///     load<V>(p, v), store<V>(p, v)   V elements of T at a pointer, 16 bytes at a time where there are as
///     many float warp_sum(v), float warp_max(v), float block_sum(v, scratch[32])      in an order that is
///     fixed
///
/// and the type Index, 64 bits.
std::string prelude();

/// The name of a type in the texts: float, int, bf16, f16. Pre: has_storage, or i32.
std::string type_name(DType dtype);
bool has_storage(DType dtype);  ///< f32, bf16 or f16
/// An unsigned type of that many bytes (1, 2, 4, 8, 16), for elements that are only moved.
std::string bits_type(std::int64_t bytes);

/// Replaces every @name@ of a text. Pre: each name stands in the list.
std::string fill(std::string_view text,
                 std::initializer_list<std::pair<std::string_view, std::string>> values);

/// Declines dtypes without arithmetic here: operand 0 decides.
Status computable(const ir::OpView& op);

inline std::int64_t ceil_div(std::int64_t n, std::int64_t by) {
  return (n + by - 1) / by;
}

}  // namespace dif::cuda
