#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "plan/plan_record.h"

/// Plans as files (docs/file-formats.md).
namespace dif::plan {

/// The sealed file of a record. Errors: InvalidInput (a record that parse_plan would refuse).
Result<std::vector<std::byte>> encode_plan(const PlanRecord& record);
Status write_plan(const std::filesystem::path& path, const PlanRecord& record);

/// Reads a plan. Errors: InvalidInput, naming `source`, for everything that encode_plan would not have
/// written byte for byte: a broken envelope or FlatBuffer, an operation in no step or in two, a value outside
/// the arena, sums that are wrong, a subject that does not exist.
Result<PlanRecord> parse_plan(std::span<const std::byte> file, std::string_view source);
/// Errors also: NotFound, Io.
Result<PlanRecord> read_plan(const std::filesystem::path& path);

/// Whether `record` is a plan of `program`. Errors: InvalidInput naming both files.
Status check_plan_of(const PlanRecord& record, std::string_view plan_source, const ir::Program& program,
                     std::string_view program_source);

}  // namespace dif::plan
