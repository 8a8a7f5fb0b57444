#include "runtime/shared_arena.h"

namespace dif::runtime {

Status SharedArena::reserve(std::uint64_t arena_bytes, std::uint64_t workspace_bytes) {
  if (arena_bytes > arena_.bytes()) {
    arena_ = DeviceBuffer();
    DIF_ASSIGN(arena_, DeviceBuffer::create(device_, arena_bytes));
  }
  if (workspace_bytes > workspace_.bytes()) {
    workspace_ = DeviceBuffer();
    DIF_ASSIGN(workspace_, DeviceBuffer::create(device_, workspace_bytes));
  }
  return ok();
}

Result<BufferView> SharedArena::run_memory(std::uint64_t bytes) {
  if (bytes > run_memory_.bytes()) {
    run_memory_ = DeviceBuffer();
    DIF_ASSIGN(run_memory_, DeviceBuffer::create(device_, bytes));
  }
  return run_memory_.view();
}

Result<std::byte*> SharedArena::pinned_run_memory(std::uint64_t bytes) {
  if (bytes > pinned_run_memory_.bytes()) {
    pinned_run_memory_ = PinnedBuffer();
    DIF_ASSIGN(pinned_run_memory_, PinnedBuffer::create(device_, bytes));
  }
  return pinned_run_memory_.data();
}

Result<Uploader*> SharedArena::uploader(const WeightOptions& options, std::uint64_t bytes) {
  const std::uint64_t useful = bytes / WeightOptions::kStagingBufferBytes + 1;
  const auto wanted =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(useful, 2, std::max(options.n_buffers, 2U)));
  if (lent_.valid()) lent_.wait();
  lent_ = {};
  if (uploader_ == nullptr || n_buffers_ < wanted) {
    uploader_.reset();
    UploaderOptions chosen;
    chosen.threads = options.threads;
    chosen.n_buffers = n_buffers_ = wanted;
    chosen.buffer_bytes = WeightOptions::kStagingBufferBytes;
    chosen.release_pages = options.release_pages;
    DIF_ASSIGN(uploader_, Uploader::create(device_, chosen));
  }
  return uploader_.get();
}

void SharedArena::plan(std::uint64_t arena_bytes, std::uint64_t workspace_bytes,
                       std::int64_t resident_bytes) {
  planned_arena_bytes_ = std::max(planned_arena_bytes_, arena_bytes);
  planned_workspace_bytes_ = std::max(planned_workspace_bytes_, workspace_bytes);
  planned_resident_bytes_ += static_cast<std::uint64_t>(resident_bytes);
}

Status SharedArena::plan_under_cap(std::uint64_t cap_bytes, std::uint64_t arena_bytes,
                                   std::uint64_t workspace_bytes, std::uint64_t resident_bytes) {
  const std::uint64_t resident = planned_resident_bytes_ + resident_bytes;
  const auto check = [&](std::uint64_t bytes, std::uint64_t held) -> Status {
    if (bytes <= cap_bytes && held <= cap_bytes - bytes) return ok();
    return fail(ErrorCode::kOutOfMemory,
                "{} bytes more would exceed the memory cap of {} bytes ({} are held)", bytes, cap_bytes,
                held);
  };
  if (arena_bytes > planned_arena_bytes_) {
    planned_arena_bytes_ = 0;  // as reserve() gives back the smaller one first
    DIF_TRY(check(arena_bytes, resident + planned_workspace_bytes_));
  }
  const std::uint64_t arena = std::max(arena_bytes, planned_arena_bytes_);
  DIF_TRY(check(std::max(workspace_bytes, planned_workspace_bytes_), resident + arena));
  plan(arena_bytes, workspace_bytes, static_cast<std::int64_t>(resident_bytes));
  return ok();
}

void SharedArena::leave(bool frees) {
  if (--n_programs_ != 0 || !frees) return;
  arena_ = DeviceBuffer();
  workspace_ = DeviceBuffer();
  run_memory_ = DeviceBuffer();
  planned_arena_bytes_ = planned_workspace_bytes_ = run_bytes_ = 0;
}

}  // namespace dif::runtime
