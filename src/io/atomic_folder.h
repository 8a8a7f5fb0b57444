#pragma once

#include <filesystem>

#include "dif/status.h"

namespace dif::io {

/// A folder that appears under its final name only when it is complete: files are written below path(), a
/// hidden folder beside the target; commit() renames it. Without commit() it is removed with everything in
/// it. A process that is killed leaves the hidden folder (".NAME.PID-N.tmp"), never one under the final name.
///
/// Every error names the target, the reason and what to do; its code is kIo, or kInvalidInput when the target
/// is there already (an empty folder may be).
class AtomicFolder {
 public:
  static Result<AtomicFolder> create(const std::filesystem::path& target);

  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) = delete;
  ~AtomicFolder();

  /// Where the files go before commit().
  const std::filesystem::path& path() const { return temporary_; }
  const std::filesystem::path& target() const { return target_; }

  /// Gives the folder its final name. Pre: called at most once; nothing is written below path() afterwards.
  Status commit();

 private:
  AtomicFolder() = default;

  std::filesystem::path target_;
  std::filesystem::path temporary_;  // absolute; empty after commit()
};

}  // namespace dif::io
