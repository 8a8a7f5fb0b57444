#include "frontends/family.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "frontends/flux2/flux2_model.h"
#include "frontends/flux2/synthetic_klein.h"
#include "io/printable.h"

namespace dif::frontends {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kModelFolderLooksLike =
    "a model folder holds model_index.json and the folders transformer, text_encoder, vae, tokenizer and "
    "scheduler";

std::string supported_classes() {
  std::string list;
  for (const Family& family : all_families())
    list += fmt::format("{}{}", list.empty() ? "" : ", ", family.pipeline_class);
  return list;
}

Result<ModelFolder> read_folder(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    return fail(ErrorCode::kNotFound, "{}: there is no such model folder", path.string());
  if (!fs::is_directory(path, error))
    return invalid_input("{}: not a folder; {}", path.string(), kModelFolderLooksLike);
  const fs::path index = path / "model_index.json";
  if (!fs::exists(index, error))
    return fail(ErrorCode::kNotFound, "{}: no model_index.json in it; {}", path.string(),
                kModelFolderLooksLike);
  DIF_ASSIGN(io::JsonDocument document, io::JsonDocument::read(index));
  io::ConfigReader reader(document);
  std::string class_name = reader.string("_class_name");
  DIF_TRY(reader.finish());
  return ModelFolder{path, std::move(document), std::move(class_name), {}};
}

}  // namespace

std::span<const Family> all_families() {
  static const std::vector<Family> families = {
#include "frontends/families.def"
  };
  return families;
}

std::string ModelFolder::name() const {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(path, error);
  return (error ? path : whole).filename().string();
}

Result<GenerationDefaults> read_defaults(const ModelFolder& folder, GenerationDefaults defaults,
                                         std::int64_t size_multiple, bool supports_guidance) {
  const fs::path path = folder.path / "dif-defaults.json";
  std::error_code error;
  if (!fs::exists(path, error)) return defaults;
  DIF_ASSIGN(io::JsonDocument document, io::JsonDocument::read(path));
  io::ConfigReader config(document);
  defaults.width = config.integer_or("width", defaults.width, {1, kMaxPixels});
  defaults.height = config.integer_or("height", defaults.height, {1, kMaxPixels});
  defaults.steps = config.integer_or("steps", defaults.steps, {1, kMaxSteps});
  defaults.guidance = static_cast<float>(config.number_or("guidance", defaults.guidance));
  for (const std::string& key : config.keys())
    if (key != "width" && key != "height" && key != "steps" && key != "guidance")
      config.problem(key, "width, height, steps or guidance", "another key");
  const std::string multiple = fmt::format("a multiple of {}", size_multiple);
  if (defaults.width % size_multiple != 0) config.problem("width", multiple, std::to_string(defaults.width));
  if (defaults.height % size_multiple != 0)
    config.problem("height", multiple, std::to_string(defaults.height));
  if (!(defaults.guidance >= 0 && defaults.guidance <= kMaxGuidance))
    config.problem("guidance", fmt::format("a number from 0 to {}", kMaxGuidance),
                   fmt::format("{}", defaults.guidance));
  else if (!supports_guidance && defaults.guidance > 1)
    config.problem("guidance", "1 (the model is distilled)", fmt::format("{}", defaults.guidance));
  DIF_TRY(config.finish());
  return defaults;
}

Result<std::unique_ptr<Model>> open_model(const fs::path& path, const ModelFiles& files) {
  DIF_ASSIGN(ModelFolder folder, read_folder(path));
  folder.files = files;
  for (const Family& family : all_families())
    if (family.pipeline_class == folder.class_name) return family.open(std::move(folder), family);
  return invalid_input("{}: _class_name is {}, which is not supported; supported: {}",
                       (path / "model_index.json").string(), io::printable(folder.class_name),
                       supported_classes());
}

}  // namespace dif::frontends
