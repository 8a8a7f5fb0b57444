#pragma once

#include <cstdint>
#include <span>

#include "backends/cpu/broadcast.h"
#include "backends/cpu/traffic.h"
#include "dif/dtype.h"

/// How an operation works inside a group: on a part of it, whose operands and results are in the cache of a
/// core. Each function is defined in the folder of its operation, with the arithmetic of its kernel.
namespace dif::cpu {

/// An operation of a group, prepared once.
struct RowOperation {
  DType dtype = DType::kF32;      ///< of the result, and of the operands unless it says otherwise
  std::int64_t width = 0;         ///< elements of one row of the result
  std::int64_t columns = 0;       ///< elements of the result's last dimension
  float value = 0;                ///< its scalar: eps, value
  BroadcastPlan broadcast;        ///< of an element-wise operation of two operands
  std::int64_t first_column = 0;  ///< slice: where it starts in the last dimension of its operand
  std::int64_t tokens = 0;        ///< rotary: S of [B, S, H, D]
  std::int64_t heads = 0;         ///< rotary: H
  std::int64_t half = 0;          ///< rotary: R / 2
  bool interleaved = false;       ///< rotary
};

struct RowOperand {
  const void* data = nullptr;  ///< of a dense operand: its first element of these; else of the tensor
  DType dtype = DType::kF32;
  bool dense = true;         ///< its rows are those of the result, else it is read by the operation's rule
  std::int64_t columns = 0;  ///< elements of its last dimension

  template <class T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
};

/// Elements first .. first + n - 1 of the result: whole rows, or any of them where the operation is
/// element-wise.
struct RowBlock {
  const RowOperation* operation = nullptr;
  std::span<const RowOperand> in;
  void* out = nullptr;  ///< overlaps no operand
  std::int64_t first = 0, n = 0;
  Traffic traffic;  ///< what is to be fetched, norms and rotations fetch

  template <class T>
  T* out_as() const {
    return static_cast<T*>(out);
  }
};

/// Rotated dimensions of a head that a rotary kernel holds.
inline constexpr std::int64_t kMostRotated = 1024;

using RowFunction = void (*)(const RowBlock& block);

RowFunction rows_of_add();
RowFunction rows_of_sub();
RowFunction rows_of_mul();
RowFunction rows_of_add_scalar();
RowFunction rows_of_mul_scalar();
RowFunction rows_of_silu();
RowFunction rows_of_sqrt();
RowFunction rows_of_cast();
RowFunction rows_of_rms_norm();
RowFunction rows_of_layer_norm();
RowFunction rows_of_rotary();
RowFunction rows_of_slice();
RowFunction rows_of_concat();

}  // namespace dif::cpu
