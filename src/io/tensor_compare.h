#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dif/dtype.h"
#include "dif/shape.h"
#include "dif/status.h"
#include "io/host_tensor.h"

namespace dif::io {

/// How far `actual` is from `reference`, in f64 over all elements. When either holds NaN or infinity the
/// other figures are taken over the elements where both are finite.
struct TensorComparison {
  std::int64_t elements = 0;
  std::int64_t differing = 0;            ///< elements whose values are not equal
  std::int64_t reference_nonfinite = 0;  ///< NaN or infinity
  std::int64_t actual_nonfinite = 0;
  double cosine = 1;  ///< of the angle between the two; 1 when both are zero, 0 when one is
  double rel_l2 = 0;  ///< |actual - reference| / |reference|; infinite when only the reference is zero
  double norm_ratio =
      1;               ///< |actual| / |reference|; 1 when both are zero, infinite when only the reference is
  double max_abs = 0;  ///< largest |actual - reference|
  std::vector<std::int64_t> worst;  ///< index of the first element with max_abs (of the reference's shape)
  double worst_reference = 0;       ///< the two values there
  double worst_actual = 0;

  bool all_finite() const { return reference_nonfinite == 0 && actual_nonfinite == 0; }
};

/// Compares values; dtypes may differ. With `flatten` only the number of elements must agree, otherwise the
/// shapes. Errors: InvalidInput.
Result<TensorComparison> compare_tensors(const HostTensor& reference, const HostTensor& actual,
                                         bool flatten = false);
/// The same for f32 elements of equal number.
TensorComparison compare_f32(std::span<const float> reference, std::span<const float> actual);

/// What a comparison must keep to; an absent bar is not applied. Values that are not finite never pass.
struct ComparisonBars {
  std::optional<double> min_cosine;
  std::optional<double> max_rel_l2;
  std::optional<double> min_norm_ratio;
  std::optional<double> max_norm_ratio;
  std::optional<double> max_abs;
};

/// One sentence for each bar that is broken; none: the comparison passes.
std::vector<std::string> broken_bars(const TensorComparison& comparison, const ComparisonBars& bars);

/// "cos 0.99999988, rel_l2 4.9e-07, norm_ratio 1.00000002, max_abs 3.1e-06 at [0, 12, 7] (0.5 is 0.5000031)"
std::string describe(const TensorComparison& comparison);

}  // namespace dif::io
