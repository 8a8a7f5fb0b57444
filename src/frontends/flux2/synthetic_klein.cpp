#include "frontends/flux2/synthetic_klein.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "frontends/flux2/checkpoint_tensors.h"
#include "frontends/flux2/config.h"
#include "frontends/flux2/klein_presets.h"
#include "io/json.h"

namespace dif::frontends::flux2 {

using nlohmann::ordered_json;

namespace {

constexpr const char* kTransformer = "transformer/config.json";
constexpr const char* kTextEncoder = "text_encoder/config.json";
constexpr const char* kVae = "vae/config.json";
constexpr const char* kIndex = "model_index.json";

/// Runs `edit` on a document that is an object; the order of its keys stays.
template <class Edit>
Status edit_document(ModelDocuments& documents, const char* path, Edit&& edit) {
  const auto at = documents.find(path);
  if (at == documents.end())
    return fail(ErrorCode::kNotFound, "{} is missing: a FLUX.2 klein model has it", path);
  DIF_TRY(io::JsonDocument::parse(at->second, path));
  ordered_json document = ordered_json::parse(at->second, nullptr, false);
  if (!document.is_object()) return invalid_input("{}: expected a JSON object", path);
  edit(document);
  at->second = io::json_text(document);
  return ok();
}

Status use_small_encoder(ModelDocuments& documents, std::size_t taps) {
  DIF_ASSIGN(ModelDocuments tiny, klein_preset_documents("tiny"));
  documents[kTextEncoder] = tiny[kTextEncoder];
  documents.erase("text_encoder/generation_config.json");  // names the tokens of the encoder that was
  const auto hidden = ordered_json::parse(tiny[kTextEncoder])["hidden_size"].get<std::int64_t>();
  return edit_document(documents, kTransformer, [&](ordered_json& config) {
    config["joint_attention_dim"] = static_cast<std::int64_t>(taps) * hidden;
  });
}

Status apply(const ModelChanges& changes, ModelDocuments& documents, std::size_t taps) {
  if (changes.small_encoder) DIF_TRY(use_small_encoder(documents, taps));
  DIF_TRY(edit_document(documents, kTransformer, [&](ordered_json& config) {
    if (!changes.blocks) return;
    config["num_layers"] = changes.blocks->first;
    config["num_single_layers"] = changes.blocks->second;
  }));
  DIF_TRY(edit_document(documents, kTextEncoder, [&](ordered_json& config) {
    if (changes.encoder_layers) {
      config["num_hidden_layers"] = *changes.encoder_layers;
      config["max_window_layers"] = *changes.encoder_layers;
      config.erase("layer_types");  // one word per layer; absent, every layer attends to all positions
    }
    // transformers loads in this dtype when asked for none.
    config.erase("dtype");
    config["torch_dtype"] = changes.dtype == DType::kF32 ? "float32" : "bfloat16";
  }));
  return edit_document(documents, kIndex, [&](ordered_json& index) {
    if (changes.distilled) index["is_distilled"] = *changes.distilled;
  });
}

Result<io::JsonDocument> parse(const ModelDocuments& documents, const char* path) {
  const auto at = documents.find(path);
  if (at == documents.end())
    return fail(ErrorCode::kNotFound, "{} is missing: a FLUX.2 klein model has it", path);
  return io::JsonDocument::parse(at->second, path);
}

Result<bool> is_tied(const io::JsonDocument& document) {
  io::ConfigReader config(document);
  const bool tied = config.boolean_or("tie_word_embeddings", false);
  DIF_TRY(config.finish());
  return tied;
}

}  // namespace

Result<SyntheticModel> synthesise_klein(const Family& family, ModelDocuments documents,
                                        const ModelChanges& changes) {
  const std::vector<std::int64_t>& taps = family.facts.text_taps;
  if (changes.dtype != DType::kBF16 && changes.dtype != DType::kF32)
    return invalid_input("weights in {}: expected bf16 or f32", dtype_name(changes.dtype));
  DIF_TRY(apply(changes, documents, taps.size()));
  DIF_TRY(parse(documents, "scheduler/scheduler_config.json"));
  DIF_ASSIGN(const io::JsonDocument transformer_document, parse(documents, kTransformer));
  DIF_ASSIGN(const io::JsonDocument text_document, parse(documents, kTextEncoder));
  DIF_ASSIGN(const io::JsonDocument vae_document, parse(documents, kVae));
  DIF_ASSIGN(const TransformerConfig transformer, read_transformer_config(transformer_document));
  DIF_ASSIGN(const Qwen3Config text_encoder, read_qwen3_config(text_document, taps.back()));
  DIF_ASSIGN(const bool tied, is_tied(text_document));
  DIF_ASSIGN(const VaeConfig decoder, read_vae_config(vae_document));
  DIF_ASSIGN(const VaeEncoderConfig encoder, read_vae_encoder_config(vae_document));
  DIF_TRY(check_pairing(transformer, text_encoder, decoder, taps.size()));

  const DType dtype = changes.dtype;
  SyntheticModel model;
  model.parts = {{"text_encoder", "model", qwen3_tensors(text_encoder, tied, dtype)},
                 {"transformer", "diffusion_pytorch_model", transformer_tensors(transformer, dtype)},
                 {"vae", "diffusion_pytorch_model", vae_tensors(decoder, encoder, dtype)}};
  model.documents = std::move(documents);
  return model;
}

}  // namespace dif::frontends::flux2
