#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/cudnn_graph.h"

namespace dif::cuda {

/// The fastest of `plans`, one or more that cuDNN has for an attention, on random operands and a GPU at its
/// limit of power; among those whose results are as near to the first's as two roundings of one value. They
/// take turns, so that a GPU that slows down does so for all. The first, unmeasured, where it is alone or
/// memory does not hold the operands a second time.
Result<std::unique_ptr<DnnGraph>> fastest_attention(CudaDevice& device, const AttentionShape& shape,
                                                    std::vector<std::unique_ptr<DnnGraph>> plans);

/// What a report says of it; empty where nothing was measured.
std::string reason_of(const PlanMeasurement& measured);

}  // namespace dif::cuda
