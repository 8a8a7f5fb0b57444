#pragma once

#include "ir/program.h"

namespace dif::opt {

/// Where a processor is balanced: floating-point operations in the time of moving a byte. CPUs of today have
/// 5 to 20, GPUs ten times as many; the smaller figure asks more of a rewrite that copies.
inline constexpr double kFlopsPerByte = 10;

/// What an operation takes in a run, as floating-point operations: its own, and kFlopsPerByte for each byte
/// that it reads or writes. For comparing a program with a rewritten one, on any device; no prediction of a
/// time.
inline double cost(const ir::OpView& op) {
  return ir::flops(op) + kFlopsPerByte * static_cast<double>(ir::bytes_moved(op));
}

}  // namespace dif::opt
