#include "pipelines/decoder.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json.h"

namespace dif {

using runtime::Binding;
using runtime::PreparedProgram;
using runtime::PreparedReport;

namespace {

constexpr std::array<std::string_view, 4> kNames = {"auto", "whole", "slabs", "tiles"};

class WholeDecoder final : public Decoder {
 public:
  explicit WholeDecoder(std::string reason) : Decoder(DecodeWay::kWhole, std::move(reason)) {}

  Status prepare(const ir::Program& program, const PrepareProgram& prepare) {
    return add_part(program, 1, 0, prepare);
  }

  Status run(std::span<std::byte> latents, std::span<float> image, bool) override {
    const ir::Program& program = parts().front().program;
    const std::array inputs = {Binding::of(program.type(program.inputs.front()), latents)};
    const std::array outputs = {
        Binding::of(program.type(program.outputs.front().value), std::as_writable_bytes(image))};
    return run_part(0, inputs, outputs);
  }
};

}  // namespace

std::string_view decode_way_name(DecodeWay way) {
  return kNames[static_cast<std::size_t>(way)];
}

std::optional<DecodeWay> decode_way_from_name(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<DecodeWay>(found - kNames.begin());
}

Status Decoder::add_part(ir::Program program, std::int64_t runs, std::int64_t rows,
                         const PrepareProgram& prepare) {
  DIF_ASSIGN(auto prepared, prepare(program));
  DIF_ASSIGN(PreparedReport memory, prepared->report());
  parts_.push_back({std::move(program), runs, rows, std::move(memory)});
  prepared_.push_back(std::move(prepared));
  return ok();
}

Status Decoder::run_part(std::size_t part, std::span<const Binding> inputs, std::span<const Binding> outputs,
                         bool ahead) {
  const ir::Program& program = parts_[part].program;
  PreparedProgram& prepared = *prepared_[part];
  if (before_run_) before_run_(program);
  Status status = prepared.run(inputs, outputs, {looks_at_operations_, ahead});
  if (status || !looks_at_operations_) return status;
  Error error = std::move(status.error());
  error.message = fmt::format("program {}: {}", program.name, error.message);
  if (const auto op = prepared.failed_operation()) error.message += ", module " + module_of(program, *op);
  return tl::unexpected<Error>(std::move(error));
}

Status Decoder::find_nonfinite(std::span<std::byte> latents, std::span<float> image) {
  looks_at_operations_ = true;
  Status status = run(latents, image, false);
  looks_at_operations_ = false;
  return status;
}

std::string module_of(const ir::Program& program, ir::OpId op) {
  const auto& modules = program.provenance.op_modules;
  return op < modules.size() && !modules[op].empty() ? modules[op] : program.name;
}

namespace {

/// Adds numbers by their names, also of objects in it.
void add_numbers(nlohmann::json& sum, const nlohmann::json& more) {
  for (const auto& [name, value] : more.items())
    if (value.is_object())
      add_numbers(sum[name], value);
    else if (value.is_number())
      sum[name] = (sum.contains(name) ? sum[name].get<double>() : 0.0) + value.get<double>();
}

}  // namespace

PreparedReport memory_of(const std::vector<DecodePart>& parts) {
  PreparedReport all = parts.front().memory;
  if (parts.size() == 1) return all;
  nlohmann::json details = io::plugin_document(all.details), prepare;
  for (const DecodePart& part : parts) {
    const nlohmann::json of_part = io::plugin_document(part.memory.details);
    if (of_part.is_object() && of_part.contains("prepare")) add_numbers(prepare, of_part["prepare"]);
  }
  if (details.is_object() && !prepare.is_null()) {
    details["prepare"] = std::move(prepare);
    all.details = details.dump();
  }
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const PreparedReport& part = parts[i].memory;
    all.arena_bytes = std::max(all.arena_bytes, part.arena_bytes);
    all.workspace_bytes = std::max(all.workspace_bytes, part.workspace_bytes);
    all.resident_bytes += part.resident_bytes;
    all.streamed_bytes += part.streamed_bytes;
    all.prepacked_bytes += part.prepacked_bytes;
    all.pinned_host_bytes = std::max(all.pinned_host_bytes, part.pinned_host_bytes);
    all.host_operations += part.host_operations;
  }
  return all;
}

Result<std::unique_ptr<Decoder>> make_whole_decoder(const ir::Program& program, std::string reason,
                                                    const PrepareProgram& prepare) {
  auto decoder = std::make_unique<WholeDecoder>(std::move(reason));
  DIF_TRY(decoder->prepare(program, prepare));
  return decoder;
}

}  // namespace dif
