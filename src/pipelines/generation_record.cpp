#include "pipelines/generation_record.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "dif/dtype.h"
#include "io/json.h"
#include "io/printable.h"
#include "pipelines/decoder.h"

namespace dif {

namespace {

constexpr std::string_view kSchema = "diffusion-compiler-telemetry";
constexpr std::string_view kKind = "generation";
constexpr std::int64_t kVersion = 1;

constexpr std::size_t kMaxPromptBytes = 1U << 20;
constexpr std::size_t kMaxNameBytes = 4096;
constexpr std::size_t kMaxPrograms = 64;
constexpr std::int64_t kMaxSide = 1 << 16;
constexpr std::int64_t kMaxCount = 1000000;
constexpr double kMaxGuidance = 1e6;

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// Notes the first field that is out of its bounds.
class FieldCheck {
 public:
  explicit FieldCheck(std::string_view source) : source_(source) {}

  void text(std::string_view field, std::string_view value, std::size_t max_bytes) {
    if (value.size() > max_bytes) {
      wrong(field, fmt::format("{} bytes long", value.size()), fmt::format("at most {}", max_bytes));
    } else if (value.find('\0') != std::string_view::npos) {
      wrong(field, "a text with a NUL byte", "none");
    } else if (const auto at = io::first_invalid_utf8(value); at != value.size()) {
      wrong(field, fmt::format("not UTF-8 at byte {}", at), "UTF-8");
    }
  }
  void integer(std::string_view field, std::int64_t value, std::int64_t min, std::int64_t max) {
    if (value < min || value > max) {
      wrong(field, std::to_string(value), fmt::format("{} to {}", min, max));
    }
  }
  void dtype(std::string_view field, std::string_view value) {
    const auto known = dtype_from_name(value);
    if (!known || !is_floating(*known)) {
      wrong(field, fmt::format("\"{}\"", io::printable(value, 40)), "f32, bf16 or f16");
    }
  }
  void name(std::string_view field, std::string_view value) {
    text(field, value, kMaxNameBytes);
    if (value.empty()) wrong(field, "empty", "a name");
  }
  void digest(std::string_view field, std::string_view value, std::size_t min_digits) {
    if (value.size() < min_digits || value.size() > 64 || !is_hex(value)) {
      wrong(field, fmt::format("\"{}\"", io::printable(value, 80)), "64 lower-case hexadecimal digits");
    }
  }
  void wrong(std::string_view field, std::string_view found, std::string_view expected) {
    if (!status_) return;
    status_ = invalid_input("{}: {} is {}, expected {}", source_, field, found, expected);
  }
  Status finish() const { return status_; }

 private:
  std::string_view source_;
  Status status_;
};

std::uint64_t read_seed(io::ConfigReader& request) {
  const nlohmann::json* seed = request.find("seed");
  if (seed != nullptr && seed->is_number_unsigned()) return seed->get<std::uint64_t>();
  request.problem("seed", "an integer from 0 to 18446744073709551615",
                  seed == nullptr ? "nothing" : io::printable(seed->dump(), 40));
  return 0;
}

}  // namespace

Status validate(const GenerationRecord& record, std::string_view source) {
  FieldCheck check(source);
  check.text("prompt", record.prompt, kMaxPromptBytes);
  check.text("negative_prompt", record.negative_prompt, kMaxPromptBytes);
  check.integer("steps", record.steps, 1, kMaxCount);
  if (!std::isfinite(record.guidance) || std::abs(record.guidance) > kMaxGuidance) {
    check.wrong("guidance", fmt::format("{}", record.guidance),
                fmt::format("a number up to {}", kMaxGuidance));
  }
  check.integer("width", record.width, 1, kMaxSide);
  check.integer("height", record.height, 1, kMaxSide);
  check.integer("batch_count", record.batch_count, 1, kMaxCount);
  // A batch_count below 1 was noted above; it must not be subtracted from.
  check.integer("batch_index", record.batch_index, 0, std::max<std::int64_t>(record.batch_count, 1) - 1);
  check.integer("text_tokens", record.text_tokens, 1, kMaxCount);
  check.name("sampler", record.sampler);
  check.name("rng", record.rng);
  check.dtype("dtype", record.dtype);
  check.dtype("vae_dtype", record.vae_dtype);
  check.dtype("state_dtype", record.state_dtype);
  check.dtype("noise_dtype", record.noise_dtype);
  check.name("passes", record.passes);
  if (!decode_way_from_name(record.decode))
    check.wrong("decode", fmt::format("\"{}\"", io::printable(record.decode, 40)),
                "auto, whole, slabs or tiles");
  check.integer("tile_size", record.tile_size, 1, kMaxCount);
  check.integer("tile_overlap", record.tile_overlap, 0, kMaxCount);
  check.integer("slab_bytes", record.slab_bytes, 0, std::numeric_limits<std::int64_t>::max());
  check.text("backend", record.backend, kMaxNameBytes);
  check.text("device", record.device, kMaxNameBytes);
  check.text("model name", record.model_name, kMaxNameBytes);
  check.digest("model digest", record.model_digest, 0);
  check.text("version", record.version, kMaxNameBytes);
  check.integer("number of programs", static_cast<std::int64_t>(record.programs.size()), 0, kMaxPrograms);
  for (const auto& program : record.programs) {
    check.name("program name", program.name);
    check.digest("program fingerprint", program.fingerprint, 64);
  }
  return check.finish();
}

Result<std::string> generation_json(const GenerationRecord& record) {
  DIF_TRY(validate(record, "the picture's record"));
  nlohmann::ordered_json programs = nlohmann::ordered_json::array();
  for (const auto& program : record.programs) {
    programs.push_back({{"name", program.name}, {"fingerprint", program.fingerprint}});
  }
  nlohmann::ordered_json document = {
      {"schema", kSchema},
      {"kind", kKind},
      {"version", kVersion},
      {"provenance", {{"program", "diffusion-compiler"}, {"version", record.version}}},
      {"request",
       {{"prompt", record.prompt},
        {"negative_prompt", record.negative_prompt},
        {"seed", record.seed},
        {"steps", record.steps},
        {"guidance", record.guidance},
        {"width", record.width},
        {"height", record.height},
        {"batch_index", record.batch_index},
        {"batch_count", record.batch_count},
        {"text_tokens", record.text_tokens}}},
      {"numerics",
       {{"sampler", record.sampler},
        {"rng", record.rng},
        {"dtype", record.dtype},
        {"vae_dtype", record.vae_dtype},
        {"state_dtype", record.state_dtype},
        {"noise_dtype", record.noise_dtype},
        {"passes", record.passes},
        {"backend", record.backend},
        {"device", record.device}}},
      {"model", {{"name", record.model_name}, {"digest", record.model_digest}}},
      {"programs", std::move(programs)}};
  if (record.padded) document["request"]["fit"] = "pad";
  if (record.decode != "auto") document["numerics"]["decode"] = record.decode;
  if (record.decode == "tiles") {
    document["numerics"]["tile_size"] = record.tile_size;
    document["numerics"]["tile_overlap"] = record.tile_overlap;
  }
  if (record.decode == "slabs") document["numerics"]["slab_bytes"] = record.slab_bytes;
  return io::json_text(document);
}

Result<GenerationRecord> parse_generation_json(std::string_view text, std::string source) {
  io::JsonLimits limits;
  limits.max_bytes = 8U << 20;
  limits.max_depth = 16;
  DIF_ASSIGN(const io::JsonDocument document, io::JsonDocument::parse(text, std::move(source), limits));
  io::ConfigReader top(document);
  if (top.string("schema") != kSchema) top.problem("schema", kSchema, "another schema");
  if (top.string("kind") != kKind) top.problem("kind", kKind, "another kind");
  const std::int64_t version = top.integer("version");
  if (version != kVersion) top.problem("version", std::to_string(kVersion), std::to_string(version));
  DIF_TRY(top.finish());

  GenerationRecord record;
  auto request = top.object("request");
  record.prompt = request.string("prompt");
  record.negative_prompt = request.string("negative_prompt");
  record.seed = read_seed(request);
  record.steps = request.integer("steps");
  record.guidance = request.number("guidance");
  record.width = request.integer("width");
  record.height = request.integer("height");
  record.padded = request.string_or("fit", "") == "pad";
  record.batch_index = request.integer("batch_index");
  record.batch_count = request.integer("batch_count");
  record.text_tokens = request.integer("text_tokens");
  auto numerics = top.object("numerics");
  record.sampler = numerics.string("sampler");
  record.rng = numerics.string("rng");
  record.dtype = numerics.string("dtype");
  record.vae_dtype = numerics.string("vae_dtype");
  record.state_dtype = numerics.string("state_dtype");
  record.noise_dtype = numerics.string("noise_dtype");
  record.passes = numerics.string_or("passes", record.passes);
  record.decode = numerics.string_or("decode", record.decode);
  if (record.decode == "tiles") {
    record.tile_size = numerics.integer("tile_size");
    record.tile_overlap = numerics.integer("tile_overlap");
  }
  record.slab_bytes = numerics.integer_or("slab_bytes", record.slab_bytes);
  record.backend = numerics.string("backend");
  record.device = numerics.string("device");
  auto model = top.object("model");
  record.model_name = model.string("name");
  record.model_digest = model.string("digest");
  for (auto& program : top.objects("programs")) {
    record.programs.push_back({program.string("name"), program.string("fingerprint")});
  }
  record.version = top.object("provenance").string("version");
  DIF_TRY(top.finish());
  DIF_TRY(validate(record, document.source()));
  return record;
}

Result<std::vector<io::PngText>> png_texts(const GenerationRecord& record) {
  DIF_ASSIGN(std::string parameters, parameters_text(record));
  DIF_ASSIGN(std::string document, generation_json(record));
  return std::vector<io::PngText>{{std::string(kParametersKeyword), std::move(parameters)},
                                  {std::string(kGenerationKeyword), std::move(document)}};
}

Result<GenerationRecord> find_generation_record(std::span<const io::PngText> texts, std::string_view source) {
  for (const std::string_view keyword : {kGenerationKeyword, kParametersKeyword}) {
    const auto has_keyword = [&](const io::PngText& text) { return text.keyword == keyword; };
    const auto found = std::find_if(texts.begin(), texts.end(), has_keyword);
    if (found == texts.end()) continue;
    if (std::count_if(texts.begin(), texts.end(), has_keyword) > 1) {
      return invalid_input("{}: has two \"{}\" texts, so what it was made from is not clear", source,
                           keyword);
    }
    const std::string where = fmt::format("{}, text \"{}\"", source, keyword);
    return keyword == kGenerationKeyword ? parse_generation_json(found->text, where)
                                         : parse_parameters_text(found->text, where);
  }
  return fail(ErrorCode::kNotFound,
              "{}: holds no record of how it was made (no \"{}\" or \"{}\" text); pictures written with "
              "--no-metadata or by other programs cannot be repeated",
              source, kGenerationKeyword, kParametersKeyword);
}

}  // namespace dif
