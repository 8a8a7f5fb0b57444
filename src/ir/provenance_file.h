#pragma once

#include <filesystem>

#include "dif/status.h"
#include "ir/program.h"

/// The sidecar of a .difir file: where its operations came from (docs/difir.md).
namespace dif::ir {

/// FILE.difir -> FILE.difir.provenance.json
std::filesystem::path provenance_path(const std::filesystem::path& program_path);

/// Reads the sidecar of `program_path` into program.provenance; without a sidecar the program keeps none.
/// Errors: InvalidInput (not such a document, or it belongs to a program with another fingerprint), Io.
Status read_provenance(const std::filesystem::path& program_path, Program& program);

/// Writes the sidecar; removes an old one when the program has no provenance. Errors: Io.
Status write_provenance(const std::filesystem::path& program_path, const Program& program);

}  // namespace dif::ir
