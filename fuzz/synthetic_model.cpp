// Configurations of any bytes for a checkpoint that is still to be made. The first byte says which document
// of the preset tiny the rest takes the place of.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "frontends/synthetic/synthetic_model.h"
#include "fuzz/promise.h"

namespace {

using namespace dif::frontends;
using dif::fuzz::promise;

constexpr std::array<const char*, 5> kDocuments = {"model_index.json", "transformer/config.json",
                                                   "text_encoder/config.json", "vae/config.json",
                                                   "scheduler/scheduler_config.json"};

void check(const SyntheticModel& model) {
  promise(model.parts.size() == 3, "a model has its parts");
  for (const SyntheticPart& part : model.parts) {
    promise(!part.tensors.empty() && part.bytes() > 0, "a part has tensors");
    for (const SyntheticTensor& tensor : part.tensors)
      promise(
          tensor.shape.checked_numel().has_value() && *tensor.shape.checked_numel() > 0 && tensor.spread > 0,
          "a tensor has elements and a spread");
  }
  promise(model.bytes() > 0, "a model has bytes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const ModelDocuments tiny = *preset_documents("tiny");
  ModelDocuments documents = tiny;
  documents[kDocuments[data[0] % kDocuments.size()]] =
      std::string(reinterpret_cast<const char*>(data + 1), size - 1);
  for (const bool changed : {false, true}) {
    ModelChanges changes;
    if (changed)
      changes = {.blocks = {{1, 1}}, .encoder_layers = 27, .small_encoder = true, .distilled = true};
    const auto model = describe_synthetic_model(documents, changes);
    if (model) check(*model);
    promise(model || !model.error().message.empty(), "a refusal says why");
  }
  return 0;
}
