#include "output_files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/atomic_file.h"

namespace dif::tools {

namespace fs = std::filesystem;

namespace {

bool is_regular_or_new(const fs::path& path) {
  std::error_code error;
  return !(fs::exists(path, error) && fs::is_other(path, error));
}

/// One text for all ways to write the same path, links followed.
std::string identity_of(const fs::path& path) {
  std::error_code error;
  const fs::path found = fs::weakly_canonical(fs::absolute(path, error), error);
  return (error ? path : found).lexically_normal().string();
}

Status cannot_be_traced(const std::string& path, const char* reason) {
  return fail(ErrorCode::kIo,
              "{} (DIF_TRACE_FILE) cannot be written: {}; let the variable name another file, or unset it",
              path, reason);
}

}  // namespace

Status check_outputs(const std::vector<OutputFile>& outputs) {
  std::map<std::string, const OutputFile*> seen;
  for (const OutputFile& output : outputs) {
    if (output.path.empty() || !is_regular_or_new(output.path)) continue;
    const auto [first, is_new] = seen.emplace(identity_of(output.path), &output);
    if (!is_new)
      return invalid_input("{} and {} would both be written to {}: give each a name of its own",
                           first->second->option, output.option, output.path);
  }
  for (const OutputFile& output : outputs)
    if (output.probe && !output.path.empty() && is_regular_or_new(output.path))
      DIF_TRY(io::AtomicFile::create(output.path));
  return ok();
}

std::string trace_file() {
  const char* const path = std::getenv("DIF_TRACE_FILE");
  return path == nullptr ? "" : path;
}

Status check_trace_file() {
  const std::string path = trace_file();
  std::error_code error;
  if (path.empty()) return ok();
  if (fs::is_directory(path, error)) return cannot_be_traced(path, "it is a folder");
  if (fs::exists(path, error))
    return access(path.c_str(), W_OK) == 0 ? ok() : cannot_be_traced(path, std::strerror(errno));
  const fs::path folder = fs::absolute(path, error).parent_path();
  return access(folder.c_str(), W_OK | X_OK) == 0
             ? ok()
             : cannot_be_traced(path, fmt::format("{}: {}", folder.string(), std::strerror(errno)).c_str());
}

Status append_to_trace_file(const nlohmann::ordered_json& document) {
  const std::string path = trace_file();
  if (path.empty()) return ok();
  errno = 0;
  std::ofstream file(path, std::ios::app);
  file << document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n'
       << std::flush;
  return file ? ok() : cannot_be_traced(path, errno == 0 ? "the write failed" : std::strerror(errno));
}

}  // namespace dif::tools
