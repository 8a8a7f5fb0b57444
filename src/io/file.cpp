#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace dif::io {

Error open_error(const std::filesystem::path& path, int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return {ErrorCode::kNotFound, fmt::format("{}: no such file; check the path", path.native())};
    case EACCES:
    case EPERM:
      return {ErrorCode::kIo,
              fmt::format("{}: no permission to read it; check its owner and mode", path.native())};
    case EMFILE:
    case ENFILE:
      return {ErrorCode::kIo,
              fmt::format("{}: too many open files; raise the limit (ulimit -n)", path.native())};
    default:
      return {ErrorCode::kIo,
              fmt::format("{}: cannot be read: {}", path.native(), std::strerror(error_number))};
  }
}

void flush_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

namespace {

template <class Container>
Result<Container> read_all(const std::filesystem::path& path, std::uint64_t max_bytes) {
  int fd;
  do fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return tl::unexpected<Error>(open_error(path, errno));
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};

  struct stat info {};
  if (::fstat(fd, &info) != 0) return tl::unexpected<Error>(open_error(path, errno));
  if (S_ISDIR(info.st_mode)) return invalid_input("{} is a folder, expected a file", path.native());
  const auto too_long = [&] {
    return invalid_input("{} is longer than {} bytes, the most that this kind of file may have",
                         path.native(), max_bytes);
  };
  std::size_t expected = 4096;
  if (S_ISREG(info.st_mode)) {
    if (static_cast<std::uint64_t>(info.st_size) > max_bytes) return too_long();
    expected = static_cast<std::size_t>(info.st_size);
  }

  Container content;
  std::size_t used = 0;
  content.resize(expected + 1);  // one more, so that the end is seen without growing
  while (true) {
    const ssize_t got = ::read(fd, content.data() + used, content.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return tl::unexpected<Error>(open_error(path, errno));
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
    if (used > max_bytes) return too_long();
    if (used == content.size()) content.resize(std::max<std::size_t>(used * 2, 4096));
  }
  content.resize(used);
  return content;
}

}  // namespace

Result<std::vector<std::byte>> read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  return read_all<std::vector<std::byte>>(path, max_bytes);
}

Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  return read_all<std::string>(path, max_bytes);
}

}  // namespace dif::io
