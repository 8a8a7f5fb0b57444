#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dif/dtype.h"
#include "dif/shape.h"
#include "dif/status.h"

/// Checkpoints of random numbers in the layout of a real one, so that speed and agreement can be measured at
/// any size without anybody's weights.
namespace dif::frontends {

/// The JSON files of a model folder by their path in it: "model_index.json", "transformer/config.json", ...
using ModelDocuments = std::map<std::string, std::string>;

/// What is changed in the documents before weights are made for them.
struct ModelChanges {
  std::optional<std::pair<std::int64_t, std::int64_t>> blocks;  ///< double-stream, single-stream
  std::optional<std::int64_t> encoder_layers;
  bool small_encoder = false;  ///< the text encoder of the tiny preset; the denoiser's text width follows
  std::optional<bool> distilled;
  DType dtype = DType::kBF16;  ///< of the weights: bf16 or f32
};

/// One tensor to be made. Integers are zeros, everything else RandomTensor(seed, "PART/NAME", centre,
/// spread).
struct SyntheticTensor {
  std::string name;
  Shape shape;
  DType dtype = DType::kBF16;
  double centre = 0;
  double spread = 1;
};

struct SyntheticPart {
  std::string folder;  ///< "transformer"
  std::string stem;    ///< of the files: "diffusion_pytorch_model"
  std::vector<SyntheticTensor> tensors;

  std::uint64_t bytes() const;
  std::uint64_t parameters() const;
};

/// A whole model: what its documents say, and the tensors that they call for.
struct SyntheticModel {
  ModelDocuments documents;
  std::vector<SyntheticPart> parts;

  std::uint64_t bytes() const;  ///< of all tensors
};

/// Names of the built-in configurations.
std::vector<std::string> synthetic_presets();
/// Errors: InvalidInput, naming the presets that there are.
Result<ModelDocuments> preset_documents(std::string_view preset);

/// The documents of a model folder; its weights need not be there. Errors: NotFound, InvalidInput (no
/// model_index.json, a part that leaves the folder, a file that is not JSON).
Result<ModelDocuments> read_model_documents(const std::filesystem::path& folder);

/// Changes the documents and lists the tensors that they call for. Weights are scaled so that activations
/// stay near 1: a matrix has a spread of 1/sqrt(its inputs), a norm's weights lie around 1, a bias around 0.
/// Errors: InvalidInput (a family that is not supported, a configuration that our reader would refuse,
/// changes that do not fit).
Result<SyntheticModel> describe_synthetic_model(ModelDocuments documents, const ModelChanges& changes);

struct SyntheticWriteOptions {
  std::uint64_t seed = 0;
  std::uint64_t max_shard_bytes = 5'000'000'000;
  std::filesystem::path tokenizer;  ///< folder whose files are copied
  /// Told the bytes of weights written so far; an error stops.
  std::function<Status(std::uint64_t)> progress = {};
};

/// Writes the folder in the diffusers layout, or nothing (io::AtomicFolder), with about 1 MiB of memory for
/// each processor, and opens it as a check. Errors: kIo (the disk has less room than is needed: says both,
/// before anything is written), InvalidInput (the target is there already, no tokenizer), whatever `progress`
/// returns.
Status write_synthetic_model(const SyntheticModel& model, const std::filesystem::path& folder,
                             const SyntheticWriteOptions& options);

}  // namespace dif::frontends
