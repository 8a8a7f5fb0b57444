#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "dif/status.h"

namespace dif::io {

/// Reads a whole small file (also a pipe or /dev/stdin) that must not be longer than `max_bytes`.
/// Errors: kNotFound; kIo; kInvalidInput (a folder, or longer than allowed).
Result<std::vector<std::byte>> read_file(const std::filesystem::path& path, std::uint64_t max_bytes);
/// The same as text; no check of its encoding.
Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes);

/// Flushes the entries of a folder to disk: best effort, because not every file system lets a folder be
/// flushed.
void flush_folder(const std::filesystem::path& folder);

/// The error for a failed open of `path` for reading: kNotFound or kIo, with the reason and what to do.
Error open_error(const std::filesystem::path& path, int error_number);

}  // namespace dif::io
