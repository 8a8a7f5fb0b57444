#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "ir/program.h"
#include "runtime/session.h"

namespace dif {

/// How latents become a picture.
enum class DecodeWay : std::uint8_t {
  kAuto,   ///< whole, or in slabs where that does not fit
  kWhole,  ///< one program
  kSlabs,  ///< rows at a time between group norms, whose statistics are those of the whole picture
  kTiles,  ///< overlapping squares that are blended: another picture
};

/// "auto", "whole", "slabs", "tiles"
std::string_view decode_way_name(DecodeWay way);
std::optional<DecodeWay> decode_way_from_name(std::string_view name);

struct DecodeOptions {
  DecodeWay way = DecodeWay::kAuto;
  std::int64_t tile_size = 512;    ///< pixels of a side
  std::int64_t tile_overlap = 64;  ///< pixels that neighbours share at the least
  std::uint64_t slab_bytes = 0;    ///< what slabs are made for; 0: chosen by the memory
};

/// One program of a decode, as it was prepared.
struct DecodePart {
  ir::Program program;
  std::int64_t runs = 1;  ///< for one picture
  std::int64_t rows = 0;  ///< of a slab; 0: not in slabs
  runtime::PreparedReport memory;
};

/// Prepares a program with the constants of the decode, or plans it.
using PrepareProgram =
    std::function<Result<std::unique_ptr<runtime::PreparedProgram>>(const ir::Program& program)>;

/// The decode of one size, prepared.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Latents f32 [1, S, C] to f32 [1, 3, height, width]. Errors: NonFinite, where the decoder looks and
  /// `allow_nonfinite` is not set.
  virtual Status run(std::span<std::byte> latents, std::span<float> image, bool allow_nonfinite) = 0;
  /// The same with a look at every operation. Errors: NonFinite, naming the part, the first operation whose
  /// result is not finite, and its module.
  Status find_nonfinite(std::span<std::byte> latents, std::span<float> image);
  /// Told which part runs, before each of its runs. Empty: nobody.
  void set_observer(std::function<void(const ir::Program& part)> before_run) {
    before_run_ = std::move(before_run);
  }
  /// Takes now what a run will take of host memory, so that none is missing after the last step. Errors:
  /// OutOfMemory.
  virtual Status reserve_host_memory() { return ok(); }
  /// Figures of the context as they are now.
  Result<runtime::PreparedReport> report() const { return prepared_.front()->report(); }

  DecodeWay way() const { return way_; }
  /// Why this way, in a few words.
  const std::string& reason() const { return reason_; }
  const std::vector<DecodePart>& parts() const { return parts_; }
  /// DecodeOptions::slab_bytes that gives the same slabs of the same program; 0: not in slabs.
  std::uint64_t slab_bytes() const { return slab_bytes_; }
  void set_slab_bytes(std::uint64_t bytes) { slab_bytes_ = bytes; }
  /// Of the images that are in host memory between the parts, the most at one time.
  std::uint64_t host_image_bytes() const { return host_image_bytes_; }

 protected:
  Decoder(DecodeWay way, std::string reason) : way_(way), reason_(std::move(reason)) {}
  /// Prepares one more part.
  Status add_part(ir::Program program, std::int64_t runs, std::int64_t rows, const PrepareProgram& prepare);
  /// Runs parts()[part]; `ahead` as in runtime::RunOptions.
  Status run_part(std::size_t part, std::span<const runtime::Binding> inputs,
                  std::span<const runtime::Binding> outputs, bool ahead = false);
  /// Of all parts. Pre: there is one.
  const std::shared_ptr<runtime::Context>& context() const { return prepared_.front()->context(); }
  void set_host_image_bytes(std::uint64_t bytes) { host_image_bytes_ = bytes; }

 private:
  DecodeWay way_;
  std::string reason_;
  std::vector<DecodePart> parts_;
  std::vector<std::unique_ptr<runtime::PreparedProgram>> prepared_;  ///< of each part
  std::function<void(const ir::Program&)> before_run_;
  bool looks_at_operations_ = false;
  std::uint64_t slab_bytes_ = 0, host_image_bytes_ = 0;
};

/// The module of the reference framework that an operation belongs to; where it has none, the program's name.
std::string module_of(const ir::Program& program, ir::OpId op);

/// What all parts of a decode take together: they share arena and workspace, the rest adds up, and so
/// do the seconds that preparing took. Other details are those of the first part.
runtime::PreparedReport memory_of(const std::vector<DecodePart>& parts);

/// `program` as it is.
Result<std::unique_ptr<Decoder>> make_whole_decoder(const ir::Program& program, std::string reason,
                                                    const PrepareProgram& prepare);

}  // namespace dif
