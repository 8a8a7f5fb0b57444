#pragma once

#include "io/host_tensor.h"

namespace dif::conformance {

/// The largest max|x| / sqrt(var + eps) over runs of `run` elements, at least 1: by how much the rounding of
/// the mean can grow in a layer_norm or group_norm of x.
double normalisation_scale(const io::HostTensor& x, std::int64_t run, float eps);

}  // namespace dif::conformance
