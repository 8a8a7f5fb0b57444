#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dif/status.h"
#include "ir/program.h"
#include "pipelines/decoder.h"

namespace dif {

/// Which part of a decode runs whole, and how many rows at a time the rest.
struct SlabLayout {
  std::size_t first_stage = 0;     ///< of opt::ImageStages: from here on in slabs
  std::vector<std::int64_t> rows;  ///< per stage from there on

  friend bool operator==(const SlabLayout&, const SlabLayout&) = default;
};

/// As much in one piece as fits into `bytes` with its inputs and outputs, by the planner's arithmetic alone:
/// a backend that joins operations needs less. Nothing is smaller than the first part in one piece and slabs
/// of the fewest rows. Errors: Declined (the program is not cut into slabs: says why).
Result<SlabLayout> choose_slabs(const ir::Program& program, std::uint64_t bytes);

/// What a decode in slabs takes by the planner's arithmetic.
struct SlabBytes {
  std::uint64_t images = 0;  ///< in host memory, the most at one time
  std::uint64_t run = 0;     ///< arena and rows of the program that needs most
};

/// Errors: Declined.
Result<SlabBytes> slab_bytes(const ir::Program& program, const SlabLayout& layout);

/// A decode in which images between group norms are in host memory and go through the device some rows at a
/// time. The statistics of the norms are those of whole images, summed on the host in f64, so the picture is
/// the whole decode's but for rounding. Errors of its run: NonFinite names the module whose norm met the
/// values.
Result<std::unique_ptr<Decoder>> make_slab_decoder(const ir::Program& program, const SlabLayout& layout,
                                                   std::string reason, const PrepareProgram& prepare);

/// The same with the largest layout that can be prepared, `bytes` and less. Errors: Declined; OutOfMemory
/// when even the smallest does not fit.
Result<std::unique_ptr<Decoder>> make_slab_decoder(const ir::Program& program, std::uint64_t bytes,
                                                   const std::string& reason, const PrepareProgram& prepare);

/// What a run of a program takes by the planner's arithmetic: the values that live at one time, inputs and
/// outputs.
std::uint64_t run_bytes(const ir::Program& program);

}  // namespace dif
