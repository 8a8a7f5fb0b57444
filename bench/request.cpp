#include "bench/request.h"

#include "base/error.h"
#include "io/json.h"

namespace dif::bench {

Result<Request> parse_request(const frontends::Model& model, const std::string& line) {
  DIF_ASSIGN(const io::JsonDocument document, io::JsonDocument::parse(line, "the request"));
  io::ConfigReader reader(document);
  const frontends::GenerationDefaults defaults = model.defaults();
  Request request;
  request.settings = {.prompt = reader.string_or("prompt", "a red apple"),
                      .width = reader.integer_or("width", defaults.width),
                      .height = reader.integer_or("height", defaults.height),
                      .steps = reader.integer_or("steps", defaults.steps),
                      .guidance = static_cast<float>(reader.number_or("guidance", defaults.guidance)),
                      .text_tokens = reader.integer_or("text_tokens", defaults.text_tokens)};
  request.seed = static_cast<std::uint64_t>(reader.integer_or("seed", 42, {0, UINT32_MAX}));
  const std::string dtype = reader.string_or("dtype", "f32");
  request.settings.dtype = dtype == "bf16" ? DType::kBF16 : DType::kF32;
  if (dtype != "bf16" && dtype != "f32") reader.problem("dtype", "f32 or bf16", dtype);
  request.out = reader.string_or("out", "");
  DIF_TRY(reader.finish());
  return request;
}

}  // namespace dif::bench
