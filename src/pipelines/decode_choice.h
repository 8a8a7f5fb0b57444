#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dif/status.h"
#include "frontends/model.h"
#include "opt/pipeline.h"
#include "pipelines/decoder.h"
#include "pipelines/generation_settings.h"
#include "pipelines/tile_decoder.h"

namespace dif {

/// Which way a request is decoded, decided before its first step: as asked, or whole where that fits beside
/// the denoiser, else in slabs.
class DecodeChoice {
 public:
  /// `built` is the decode as the frontend made it, `chain` after `passes`; both outlive the choice, as do
  /// model and settings. `memory_cap_bytes` 0: none.
  DecodeChoice(const frontends::Model& model, const GenerationSettings& settings, const ir::Program& built,
               const frontends::Chain& chain, opt::Pipeline passes, std::uint64_t memory_cap_bytes);

  /// Where the settings say how much host memory there is: whether the way fits into it, by the planner's
  /// arithmetic, which counts no weights and no scratch memory. Errors: OutOfMemory (says what would need
  /// less); Declined, InvalidInput as of make().
  Status fit_into_host_memory();
  /// Errors: OutOfMemory, Declined (slabs of a program that is not cut into them), InvalidInput (tiles).
  Result<std::unique_ptr<Decoder>> make(const PrepareProgram& prepare);
  /// The denoiser does not fit beside the decoder that was made: whether there is another try, slabs or
  /// smaller ones. Then make() gives those, once the decoder is gone.
  bool give_way(const Error& error);

 private:
  Result<std::unique_ptr<Decoder>> make_slabs(const PrepareProgram& prepare);
  Result<std::unique_ptr<Decoder>> make_tiles(const PrepareProgram& prepare);
  Result<ir::Program> slab_program() const;
  Result<ir::Program> tile_program(const TileSizes& sizes) const;
  Result<TileSizes> sizes_of_tiles() const;
  std::uint64_t default_slab_bytes(const ir::Program& program) const;
  /// What a request takes of host memory with a decode whose arena and images are of these sizes.
  std::uint64_t host_bytes(std::uint64_t arena_bytes, std::uint64_t image_bytes) const;
  Result<std::uint64_t> host_bytes_of_slabs() const;
  Result<std::uint64_t> host_bytes_of_tiles() const;
  bool slabs_save_memory() const;
  const char* smaller_way() const;

  const frontends::Model& model_;
  const GenerationSettings& settings_;
  const ir::Program& built_;
  const frontends::Chain& chain_;
  const opt::Pipeline passes_;
  const std::uint64_t memory_cap_bytes_;
  DecodeWay way_;
  std::string reason_;
  std::uint64_t slab_bytes_ = 0;  ///< 0: not chosen yet
};

/// A sentence for people: "decode whole: it fits", "decode in slabs: ...".
std::string decode_text(const Decoder& decoder);

}  // namespace dif
