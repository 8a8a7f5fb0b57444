#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "backends/opencl/device_list.h"
#include "io/cache_store.h"
#include "runtime/abi_adapter.h"
#include "runtime/device.h"

namespace dif::opencl {

/// One parameter of a kernel. A buffer takes two: `global uchar* x_buffer, ulong x_offset`, in bytes.
using Argument = std::variant<runtime::BufferView, std::int32_t, std::int64_t, float>;

/// Work-groups along each of three axes.
struct Groups {
  std::int64_t x = 1, y = 1, z = 1;
};

class OpenClDevice;

/// A compiled kernel; empty after a move.
class ClKernel {
 public:
  ClKernel() = default;
  ClKernel(ClKernel&& other) noexcept { *this = std::move(other); }
  ClKernel& operator=(ClKernel&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    std::swap(local_, other.local_);
    return *this;
  }
  ~ClKernel();

  /// Submits the kernel; nothing happens where there is no group.
  Status launch(Groups groups, std::initializer_list<Argument> arguments) const {
    return launch(groups, std::span(arguments.begin(), arguments.size()));
  }
  Status launch(Groups groups, std::span<const Argument> arguments) const;

 private:
  friend class OpenClDevice;
  OpenClDevice* device_ = nullptr;
  cl_kernel handle_ = nullptr;
  Groups local_;  ///< work-items of a group
};

/// A device with one queue on which everything runs in order. Buffers are cl_mem handles; offsets are handed
/// to kernels as numbers, so that no sub-buffers are needed. The memory cap counts what is allocated here.
class OpenClDevice final : public runtime::Device {
 public:
  /// Errors: Unavailable (no loader, no such device, one without a compiler).
  static Result<std::unique_ptr<runtime::Device>> create(const runtime::DeviceOptions& options);
  ~OpenClDevice() override;

  bool addresses_host_memory() const override { return false; }
  Result<runtime::BufferView> allocate(std::uint64_t bytes) override;
  void release(runtime::BufferView buffer) override;
  Status upload(runtime::BufferView to, const void* from, std::uint64_t bytes) override;
  Status download(void* to, runtime::BufferView from, std::uint64_t bytes) override;
  Status copy(runtime::BufferView to, runtime::BufferView from, std::uint64_t bytes) override;
  Status synchronize() override;
  runtime::DeviceCounters counters() const override { return counters_; }
  void measure_kernels(bool on) override;
  std::optional<std::uint64_t> measured_nanoseconds() override;

  /// The kernel called `name` of a program text, compiled for this device with `local` work-items a group, as
  /// the text's reqd_work_group_size says. Programs are kept while the device lives, and on disk.
  Result<ClKernel> kernel(const std::string& source, const char* name, Groups local);

  std::uint64_t cap_bytes() const override { return cap_bytes_; }
  std::uint64_t held_bytes() const override { return held_bytes_; }
  const DeviceFacts& facts() const { return facts_; }
  /// Programs that were compiled from their text, not taken from disk.
  int n_compiled() const { return n_compiled_; }

 private:
  friend class ClKernel;
  struct Program {
    cl_program handle = nullptr;
    bool on_disk = false;
  };

  OpenClDevice(const OpenClApi& api, DeviceFacts facts, const runtime::DeviceOptions& options);
  Status open();
  io::CacheKey key(const std::string& source) const;
  Result<Program> build(const std::string& source);
  cl_program load_binary(const std::string& source);
  Result<cl_program> compile(const std::string& source);
  void keep_binary(const std::string& source, const Program& program);
  Status wait_and_forget(cl_event event);

  const OpenClApi& api_;
  DeviceFacts facts_;
  std::uint64_t cap_bytes_ = 0, held_bytes_ = 0;
  std::function<void(int level, const std::string& sentence)> log_;
  io::CacheStore cache_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::map<std::string, Program> programs_;      ///< by source
  std::map<void*, std::uint64_t> buffer_bytes_;  ///< by handle
  int n_compiled_ = 0;
  runtime::DeviceCounters counters_;
  bool measuring_ = false;
  std::vector<cl_event> events_;
};

/// The device of a request to this backend's kernels.
inline OpenClDevice& device_of(runtime::Device* device) {
  return static_cast<OpenClDevice&>(*device);
}

}  // namespace dif::opencl
