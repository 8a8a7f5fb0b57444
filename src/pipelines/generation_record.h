#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "io/png.h"

namespace dif {

/// Everything that one picture was made from: what `dif generate` writes into it, and what
/// `dif generate --from PICTURE.png` makes it again from.
struct GenerationRecord {
  struct Program {
    std::string name;         ///< encode, step, decode
    std::string fingerprint;  ///< SHA-256, hex, of the program as the frontend built it, before any pass

    friend bool operator==(const Program&, const Program&) = default;
  };

  std::string prompt;
  std::string negative_prompt;
  std::uint64_t seed = 0;  ///< of this picture: that of a batch's first picture plus batch_index
  std::int64_t steps = 0;
  double guidance = 1;
  std::int64_t width = 0;   ///< pixels
  std::int64_t height = 0;  ///< pixels
  bool padded = false;      ///< the middle of the next larger size that the model draws
  std::int64_t batch_index = 0;
  std::int64_t batch_count = 1;
  std::int64_t text_tokens = 512;

  std::string sampler = "euler";
  std::string rng = "torch-cpu";
  std::string dtype = "f32";  ///< arithmetic of encoder and denoiser; names of dif/dtype.h
  std::string vae_dtype = "f32";
  std::string state_dtype = "f32";  ///< latents between steps
  std::string noise_dtype = "f32";
  std::string passes = "default";  ///< what the programs went through: a text for opt::parse_pipeline
  std::string decode = "auto";     ///< a name for decode_way_from_name
  std::int64_t tile_size = 512;    ///< pixels, with "tiles"
  std::int64_t tile_overlap = 64;  ///< likewise
  std::int64_t slab_bytes = 0;     ///< what slabs were made for, with "slabs"; 0: not known
  std::string backend;             ///< plug-in's name; empty when not known
  std::string device;              ///< what the backend calls it; empty when not known

  std::string model_name;
  std::string
      model_digest;  ///< SHA-256, hex; empty when not known, its first digits when read from `parameters`
  std::vector<Program> programs;
  std::string version;  ///< of Diffusion Compiler

  friend bool operator==(const GenerationRecord&, const GenerationRecord&) = default;
};

/// Whether every field is within its bounds: UTF-8 without NUL, sizes, counts, dtype names, hex digests.
/// Errors: InvalidInput, naming `source` and the field.
Status validate(const GenerationRecord& record, std::string_view source);

/// The JSON document: schema, kind `generation`, version 1, provenance, request, numerics, model, programs.
/// Errors: InvalidInput from validate().
Result<std::string> generation_json(const GenerationRecord& record);
/// Reads such a document from an untrusted file. Unknown keys are ignored. Errors: InvalidInput, naming
/// `source`.
Result<GenerationRecord> parse_generation_json(std::string_view text, std::string source);

/// The text that AUTOMATIC1111's web UI keeps under the keyword `parameters` and that many programs read: the
/// prompt, "Negative prompt: ..." if there is one, and one line of "Key: value" pairs. A value that holds a
/// comma, a colon, a quote or a line break is a JSON string. For people and other programs: a prompt whose
/// own lines look like that reads back differently, so parse_generation_json comes first. Errors:
/// InvalidInput from validate().
Result<std::string> parameters_text(const GenerationRecord& record);
/// Reads such a text from any program. Steps, Seed, Size and CFG scale must be there; keys that we do not
/// know are ignored, and fields without a key keep their defaults. Errors: InvalidInput, naming `source`.
Result<GenerationRecord> parse_parameters_text(std::string_view text, std::string_view source);

inline constexpr std::string_view kGenerationKeyword = "diffusion-compiler";
inline constexpr std::string_view kParametersKeyword = "parameters";

/// The chunks of a picture: `parameters`, then `diffusion-compiler`. Errors: InvalidInput from validate().
Result<std::vector<io::PngText>> png_texts(const GenerationRecord& record);
/// The record in a picture's chunks: our own document if there is one, else `parameters`.
/// Errors: NotFound when neither is there; InvalidInput, also when the picture has two of a kind.
Result<GenerationRecord> find_generation_record(std::span<const io::PngText> texts, std::string_view source);

}  // namespace dif
