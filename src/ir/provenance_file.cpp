#include "ir/provenance_file.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "io/json.h"
#include "ir/program_file.h"

namespace dif::ir {

namespace {

constexpr std::string_view kSchema = "diffusion-compiler";
constexpr std::string_view kKind = "difir-provenance";
constexpr std::int64_t kVersion = 1;

bool is_empty(const Provenance& provenance) {
  return provenance.creator.empty() && provenance.op_modules.empty() && provenance.boundaries.empty();
}

void expect(io::ConfigReader& reader, std::string_view key, std::string_view expected) {
  const std::string found = reader.string(key);
  if (found != expected) reader.problem(key, expected, found);
}

}  // namespace

std::filesystem::path provenance_path(const std::filesystem::path& program_path) {
  std::filesystem::path path = program_path;
  path += ".provenance.json";
  return path;
}

Status read_provenance(const std::filesystem::path& program_path, Program& program) {
  const std::filesystem::path path = provenance_path(program_path);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return ok();
  DIF_ASSIGN(const io::JsonDocument document, io::JsonDocument::read(path));
  io::ConfigReader reader(document);
  expect(reader, "schema", kSchema);
  expect(reader, "kind", kKind);
  (void)reader.integer("version", {kVersion, kVersion});
  expect(reader, "fingerprint", fingerprint(program));
  Provenance provenance;
  provenance.creator = reader.string("creator");
  provenance.op_modules = reader.strings("modules");
  if (!provenance.op_modules.empty() && provenance.op_modules.size() != program.ops.size())
    reader.problem("modules", fmt::format("{} entries, one per operation", program.ops.size()),
                   fmt::format("{}", provenance.op_modules.size()));
  const auto n_values = static_cast<std::int64_t>(program.values.size());
  for (io::ConfigReader& boundary : reader.objects("boundaries"))
    provenance.boundaries.push_back(
        {boundary.string("name"), static_cast<ValueId>(boundary.integer("value", {0, n_values - 1}))});
  DIF_TRY(reader.finish());
  program.provenance = std::move(provenance);
  return ok();
}

Status write_provenance(const std::filesystem::path& program_path, const Program& program) {
  const std::filesystem::path path = provenance_path(program_path);
  if (is_empty(program.provenance)) {
    std::error_code error;
    std::filesystem::remove(path, error);
    if (error)
      return fail(ErrorCode::kIo, "{}: cannot remove the sidecar of an older program: {}", path.string(),
                  error.message());
    return ok();
  }
  nlohmann::ordered_json document;
  document["schema"] = kSchema;
  document["kind"] = kKind;
  document["version"] = kVersion;
  document["fingerprint"] = fingerprint(program);
  document["creator"] = program.provenance.creator;
  document["modules"] = program.provenance.op_modules;
  document["boundaries"] = nlohmann::ordered_json::array();
  for (const Provenance::Boundary& boundary : program.provenance.boundaries)
    document["boundaries"].push_back({{"name", boundary.name}, {"value", boundary.value}});
  return io::write_json(path, document);
}

}  // namespace dif::ir
