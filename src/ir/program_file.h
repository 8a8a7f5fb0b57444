#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "dif/status.h"
#include "ir/program.h"

/// Programs as bytes (docs/difir.md).
namespace dif::ir {

/// The canonical bytes of a program: a FlatBuffer of schemas/difir.fbs without provenance. Equal programs
/// give equal bytes. Pre: verify(program) passes.
std::vector<std::byte> encode(const Program& program);

/// The program of such bytes, verified, without provenance. Bytes that encode() would not have written are
/// refused. Errors: InvalidInput.
Result<Program> decode(std::span<const std::byte> bytes);

/// What a program means, as 64 hexadecimal characters: SHA-256 over the stream of fields that docs/difir.md
/// describes. Two programs have one fingerprint exactly when their canonical bytes are equal.
std::string fingerprint(const Program& program);

/// Reads a .difir file, and its provenance from the sidecar when there is one. Errors: NotFound, Io,
/// InvalidInput (either file; the message names it).
Result<Program> read_program(const std::filesystem::path& path);

/// Writes `path`, and the sidecar beside it when the program has provenance; otherwise a sidecar of an older
/// program is removed. Pre: verify(program) passes. Errors: Io.
Status write_program(const std::filesystem::path& path, const Program& program);

}  // namespace dif::ir
