#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>

#include "dif/dtype.h"
#include "dif/shape.h"
#include "io/host_tensor.h"
#include "ir/tensor_type.h"

namespace dif::conformance {

/// A seeded source of shapes and numbers. The same seed gives the same instance on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// lo .. hi, both included.
  std::int64_t between(std::int64_t lo, std::int64_t hi);
  bool one_in(int n) { return between(1, n) == 1; }
  double uniform(double lo, double hi);
  double normal();
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[between(0, static_cast<std::int64_t>(choices.size()) - 1)];
  }

  /// A dimension 1 .. most; half of the time one at which kernels break: 1, around vector and tile widths.
  std::int64_t size(std::int64_t most);
  /// A shape of at most `most` elements; one in 24 has none.
  Shape shape(int least_rank, int most_rank, std::int64_t most);

  /// Normally distributed numbers times `scale` plus `mean`, rounded to a floating dtype.
  io::HostTensor normal(const ir::TensorType& type, double scale = 1, double mean = 0);
  io::HostTensor uniform(const ir::TensorType& type, double lo, double hi);
  /// normal(), with a few infinities, NaN, signed zeros, denormals and the largest number strewn in.
  io::HostTensor special(const ir::TensorType& type);
  io::HostTensor integers(const Shape& shape, std::int32_t lo, std::int32_t hi);  ///< i32
  io::HostTensor flags(const Shape& shape);                                       ///< bool
  /// Any bit patterns of any dtype (0 and 1 for bool).
  io::HostTensor bits(const ir::TensorType& type);

 private:
  std::uint64_t next();

  std::mt19937_64 engine_;
};

}  // namespace dif::conformance
