#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dif/backend_abi.h"
#include "dif/status.h"

namespace dif::runtime {

/// A loaded plug-in whose interface was checked. Stays loaded while anything made from it lives.
class BackendLibrary {
 public:
  /// Errors: Unavailable (no such file, does not load, no entry function, other major version, incomplete
  /// table).
  static Result<std::shared_ptr<const BackendLibrary>> load(const std::filesystem::path& file);
  /// libdif_NAME.so beside libdif.so, or in the folder that DIF_BACKEND_DIR names.
  static Result<std::shared_ptr<const BackendLibrary>> load_by_name(const std::string& name);

  ~BackendLibrary();
  BackendLibrary(const BackendLibrary&) = delete;
  BackendLibrary& operator=(const BackendLibrary&) = delete;

  const dif_backend_api& api() const { return *api_; }
  std::string name() const { return api_->name; }
  std::string version() const { return api_->version; }
  /// DIF_PREFERS_... bits.
  std::uint32_t prefers() const;
  const std::filesystem::path& file() const { return file_; }
  /// The plug-in's JSON document about devices and libraries.
  Result<std::string> probe() const;

 private:
  BackendLibrary(std::filesystem::path file, void* handle) : file_(std::move(file)), handle_(handle) {}

  std::filesystem::path file_;
  void* handle_ = nullptr;
  const dif_backend_api* api_ = nullptr;
};

/// Names of the plug-ins (libdif_NAME.so) that stand where load_by_name looks, sorted.
std::vector<std::string> available_backends();

/// Collects the sentence of a failed call: `ErrorText error; code = api.run(..., error.get()); return
/// error.status(code)`.
class ErrorText {
 public:
  ErrorText() : error_{sizeof(error_), text_, sizeof(text_), DIF_NO_OPERATION} {}
  dif_error* get() { return &error_; }
  Status status(dif_code code, const BackendLibrary& library) const;
  std::uint32_t operation() const { return error_.operation; }

 private:
  char text_[2048] = {};
  dif_error error_;
};

}  // namespace dif::runtime
