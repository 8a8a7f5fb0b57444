#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels.h"

namespace dif::cpu {

/// z = x op y with broadcasting, after axes that need no distinction were merged: rows of `inner` elements,
/// along which an operand is either dense (step 1) or one element (step 0).
struct BroadcastPlan {
  std::int64_t rows = 1, inner = 1;
  int x_step = 0, y_step = 0;
  std::vector<std::int64_t> dims, x_strides, y_strides;  ///< of the axes that count rows, slowest first
};

BroadcastPlan plan_broadcast(const Shape& x, const Shape& y, const Shape& z);

/// n elements from `first` on of each of the rows row .. row+n_rows-1.
struct BroadcastBlock {
  const BroadcastPlan* plan = nullptr;
  DType dtype = DType::kF32;
  const void *x = nullptr, *y = nullptr;
  void* z = nullptr;
  std::int64_t row = 0, n_rows = 0, first = 0, n = 0;
  bool past_caches = false;  ///< the result is written past the caches
};

using BroadcastFunction = void (*)(const BroadcastBlock& block);

/// A kernel that calls `function` for blocks of the result.
MakeResult make_broadcast(const KernelRequest& request, BroadcastFunction function);

/// Offsets of x and y while rows are counted up.
class RowCounter {
 public:
  RowCounter(const BroadcastPlan& plan, std::int64_t row);
  void next();
  std::int64_t x() const { return x_; }
  std::int64_t y() const { return y_; }

 private:
  const BroadcastPlan& plan_;
  std::int64_t index_[Shape::kMaxRank] = {};
  std::int64_t x_ = 0, y_ = 0;
};

}  // namespace dif::cpu
