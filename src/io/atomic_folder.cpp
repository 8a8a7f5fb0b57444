#include "io/atomic_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "io/file.h"

namespace dif::io {

namespace fs = std::filesystem;

namespace {

std::atomic<unsigned> folder_number{0};

tl::unexpected<Error> folder_error(const fs::path& target, int error_number) {
  const char* const remedy =
      error_number == ENOENT   ? "its parent folder does not exist; create it first"
      : error_number == EACCES ? "no permission; check the owner and mode of its parent"
      : error_number == EROFS  ? "the file system is read-only; choose another place"
      : error_number == ENOSPC ? "the disk is full; free some space or choose another place"
                               : nullptr;
  if (remedy != nullptr) return fail(ErrorCode::kIo, "cannot make folder {}: {}", target.native(), remedy);
  return fail(ErrorCode::kIo, "cannot make folder {}: {}; choose another place", target.native(),
              std::strerror(error_number));
}

tl::unexpected<Error> occupied(const fs::path& target) {
  return invalid_input("{} is there already; remove it or choose another name", target.native());
}

/// "out/" and "out" are the same folder.
fs::path without_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

Result<AtomicFolder> AtomicFolder::create(const fs::path& target) {
  std::error_code error;
  AtomicFolder folder;
  folder.target_ = fs::absolute(without_slash(target), error);
  if (target.empty() || error || !folder.target_.has_filename())
    return invalid_input("cannot make a folder named \"{}\"; choose another name", target.native());
  const fs::file_status status = fs::symlink_status(folder.target_, error);
  if (fs::exists(status) && !(fs::is_directory(status) && fs::is_empty(folder.target_, error)))
    return occupied(target);
  do {
    folder.temporary_ =
        folder.target_.parent_path() / fmt::format(".{:.100}.{}-{}.tmp", folder.target_.filename().native(),
                                                   ::getpid(), folder_number.fetch_add(1));
    if (::mkdir(folder.temporary_.c_str(), 0777) == 0) return folder;
  } while (errno == EEXIST);
  const int mkdir_errno = errno;
  folder.temporary_.clear();
  return folder_error(target, mkdir_errno);
}

AtomicFolder::AtomicFolder(AtomicFolder&& other) noexcept
    : target_(std::move(other.target_)), temporary_(std::exchange(other.temporary_, {})) {}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

Status AtomicFolder::commit() {
  DIF_CHECK(!temporary_.empty());
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) return occupied(target_);
    return folder_error(target_, errno);
  }
  temporary_.clear();
  flush_folder(target_.parent_path());
  return ok();
}

}  // namespace dif::io
