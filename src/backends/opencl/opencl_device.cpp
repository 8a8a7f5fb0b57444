#include "backends/opencl/opencl_device.h"

#include <algorithm>
#include <utility>

namespace dif::opencl {

using runtime::BufferView;

namespace {

/// The largest work-group of our kernels.
constexpr std::uint64_t kWorkGroup = 64;

cl_mem memory_of(BufferView view) {
  return static_cast<cl_mem>(view.base);
}

}  // namespace

// --- kernels
// ------------------------------------------------------------------------------------------------

ClKernel::~ClKernel() {
  if (handle_ != nullptr) device_->api_.clReleaseKernel(handle_);
}

Status ClKernel::launch(Groups groups, std::span<const Argument> arguments) const {
  if (groups.x == 0 || groups.y == 0 || groups.z == 0) return ok();
  cl_uint index = 0;
  const auto set = [&](std::size_t size, const void* value) {
    return checked("clSetKernelArg", device_->api_.clSetKernelArg(handle_, index++, size, value));
  };
  for (const Argument& argument : arguments) {
    if (const auto* view = std::get_if<BufferView>(&argument)) {
      const cl_mem memory = memory_of(*view);
      const cl_ulong offset = view->offset;
      DIF_TRY(set(sizeof(memory), &memory));
      DIF_TRY(set(sizeof(offset), &offset));
    } else {
      DIF_TRY(std::visit([&](const auto& value) { return set(sizeof(value), &value); }, argument));
    }
  }
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  const std::size_t local[3] = {size(local_.x), size(local_.y), size(local_.z)};
  const std::size_t global[3] = {size(groups.x) * local[0], size(groups.y) * local[1],
                                 size(groups.z) * local[2]};
  cl_event event = nullptr;
  DIF_TRY(checked("clEnqueueNDRangeKernel",
                  device_->api_.clEnqueueNDRangeKernel(device_->queue_, handle_, 3, nullptr, global, local, 0,
                                                       nullptr, device_->measuring_ ? &event : nullptr)));
  ++device_->counters_.launches;
  if (event != nullptr) device_->events_.push_back(event);
  return ok();
}

// --- device
// -------------------------------------------------------------------------------------------------

Result<std::unique_ptr<runtime::Device>> OpenClDevice::create(const runtime::DeviceOptions& options) {
  DIF_ASSIGN(const OpenClApi* api, OpenClApi::load());
  DIF_ASSIGN(std::vector<DeviceFacts> devices, find_devices(*api));
  if (options.device < 0 || static_cast<std::size_t>(options.device) >= devices.size())
    return fail(ErrorCode::kUnavailable, "there is no OpenCL device {}; there {} {}, numbered from 0",
                options.device, devices.size() == 1 ? "is" : "are", devices.size());
  DeviceFacts& facts = devices[static_cast<std::size_t>(options.device)];
  if (!facts.compiles)
    return fail(ErrorCode::kUnavailable, "OpenCL device {} ({}) has no compiler or is big-endian",
                options.device, facts.name);
  if (facts.largest_work_group < kWorkGroup)
    return fail(ErrorCode::kUnavailable, "OpenCL device {} ({}) has work-groups of {} items, {} are needed",
                options.device, facts.name, facts.largest_work_group, kWorkGroup);
  auto device = std::unique_ptr<OpenClDevice>(new OpenClDevice(*api, std::move(facts), options));
  DIF_TRY(device->open());
  return std::unique_ptr<runtime::Device>(std::move(device));
}

OpenClDevice::OpenClDevice(const OpenClApi& api, DeviceFacts facts, const runtime::DeviceOptions& options)
    : api_(api),
      facts_(std::move(facts)),
      cap_bytes_(options.cap_bytes),
      log_(options.log),
      cache_(options.cache_folder, [this](std::string_view sentence) {
        if (log_) log_(DIF_LOG_WARNING, std::string(sentence));
      }) {}

Status OpenClDevice::open() {
  cl_int code = CL_SUCCESS;
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(facts_.platform), 0};
  context_ = api_.clCreateContext(properties, 1, &facts_.id, nullptr, nullptr, &code);
  DIF_TRY(checked("clCreateContext", code));
  queue_ = api_.clCreateCommandQueue(context_, facts_.id, CL_QUEUE_PROFILING_ENABLE, &code);
  return checked("clCreateCommandQueue", code);
}

OpenClDevice::~OpenClDevice() {
  measure_kernels(false);
  for (const auto& [source, program] : programs_) {
    keep_binary(source, program);
    api_.clReleaseProgram(program.handle);
  }
  if (queue_ != nullptr) api_.clReleaseCommandQueue(queue_);
  if (context_ != nullptr) api_.clReleaseContext(context_);
}

Result<BufferView> OpenClDevice::allocate(std::uint64_t bytes) {
  const std::uint64_t size = std::max<std::uint64_t>(bytes, 1);
  if (cap_bytes_ != 0 && (size > cap_bytes_ || held_bytes_ > cap_bytes_ - size))
    return fail(ErrorCode::kOutOfMemory,
                "{} bytes more would exceed the memory cap of {} bytes ({} are held)", bytes, cap_bytes_,
                held_bytes_);
  if (size > facts_.largest_buffer_bytes)
    return fail(ErrorCode::kOutOfMemory,
                "{} gives buffers of at most {} bytes, {} are needed; choose a smaller size", facts_.name,
                facts_.largest_buffer_bytes, bytes);
  cl_int code = CL_SUCCESS;
  const cl_mem memory = api_.clCreateBuffer(context_, CL_MEM_READ_WRITE, size, nullptr, &code);
  if (code != CL_SUCCESS)
    return fail(ErrorCode::kOutOfMemory, "{} has no {} bytes of memory left ({}); choose a smaller size",
                facts_.name, bytes, code_text(code));
  held_bytes_ += size;
  ++counters_.allocations;
  buffer_bytes_.emplace(memory, size);
  return BufferView{memory, 0};
}

void OpenClDevice::release(BufferView buffer) {
  const auto found = buffer_bytes_.find(buffer.base);
  held_bytes_ -= found->second;
  buffer_bytes_.erase(found);
  // Commands that still use it keep it alive.
  api_.clReleaseMemObject(memory_of(buffer));
}

Status OpenClDevice::upload(BufferView to, const void* from, std::uint64_t bytes) {
  if (bytes == 0) return ok();
  ++counters_.copies;
  return checked("clEnqueueWriteBuffer", api_.clEnqueueWriteBuffer(queue_, memory_of(to), CL_TRUE, to.offset,
                                                                   bytes, from, 0, nullptr, nullptr));
}

Status OpenClDevice::download(void* to, BufferView from, std::uint64_t bytes) {
  if (bytes == 0) return ok();
  ++counters_.copies;
  return checked("clEnqueueReadBuffer",
                 api_.clEnqueueReadBuffer(queue_, memory_of(from), CL_TRUE, from.offset, bytes, to, 0,
                                          nullptr, nullptr));
}

Status OpenClDevice::copy(BufferView to, BufferView from, std::uint64_t bytes) {
  if (bytes == 0 || (to.base == from.base && to.offset == from.offset)) return ok();
  ++counters_.copies;
  return checked("clEnqueueCopyBuffer",
                 api_.clEnqueueCopyBuffer(queue_, memory_of(from), memory_of(to), from.offset, to.offset,
                                          bytes, 0, nullptr, nullptr));
}

Status OpenClDevice::synchronize() {
  ++counters_.synchronizations;
  return checked("clFinish", api_.clFinish(queue_));
}

void OpenClDevice::measure_kernels(bool on) {
  measuring_ = on;
  for (cl_event event : std::exchange(events_, {})) api_.clReleaseEvent(event);
}

std::optional<std::uint64_t> OpenClDevice::measured_nanoseconds() {
  std::uint64_t total = 0;
  bool known = !events_.empty();  // what ran on the host left none
  for (cl_event event : std::exchange(events_, {})) {
    cl_ulong start = 0, end = 0;
    known &= api_.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof(start), &start,
                                          nullptr) == CL_SUCCESS &&
             api_.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(end), &end, nullptr) ==
                 CL_SUCCESS;
    api_.clReleaseEvent(event);
    total += end - start;
  }
  if (!known) return std::nullopt;
  return total;
}

// --- programs
// -----------------------------------------------------------------------------------------------

Result<ClKernel> OpenClDevice::kernel(const std::string& source, const char* name, Groups local) {
  auto found = programs_.find(source);
  if (found == programs_.end()) {
    DIF_ASSIGN(const Program program, build(source));
    found = programs_.emplace(source, program).first;
  }
  cl_int code = CL_SUCCESS;
  ClKernel kernel;
  kernel.handle_ = api_.clCreateKernel(found->second.handle, name, &code);
  DIF_TRY(checked("clCreateKernel", code));
  kernel.device_ = this;
  kernel.local_ = local;
  return kernel;
}

namespace {

const char* build_options(const DeviceFacts& facts) {
  return facts.rounds_divide_sqrt ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL1.2";
}

}  // namespace

/// Everything that a binary depends on.
io::CacheKey OpenClDevice::key(const std::string& source) const {
  io::CacheKey key("opencl-kernels", 1);
  key.add("platform", facts_.platform_name)
      .add("platform version", facts_.platform_version)
      .add("device", facts_.name)
      .add("device version", facts_.version)
      .add("driver", facts_.driver)
      .add("options", build_options(facts_))
      .add("source", source);
  return key;
}

Result<OpenClDevice::Program> OpenClDevice::build(const std::string& source) {
  if (const cl_program program = load_binary(source)) return Program{program, true};
  DIF_ASSIGN(const cl_program program, compile(source));
  return Program{program, false};
}

/// From disk; nullptr where there is none that this driver takes.
cl_program OpenClDevice::load_binary(const std::string& source) {
  const auto binary = cache_.find(key(source));
  if (!binary) return nullptr;
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary->bytes.data());
  const std::size_t size = binary->bytes.size();
  cl_int status = CL_SUCCESS, code = CL_SUCCESS;
  const cl_program program =
      api_.clCreateProgramWithBinary(context_, 1, &facts_.id, &size, &bytes, &status, &code);
  if (code != CL_SUCCESS) return nullptr;
  if (status == CL_SUCCESS &&
      api_.clBuildProgram(program, 1, &facts_.id, build_options(facts_), nullptr, nullptr) == CL_SUCCESS)
    return program;
  api_.clReleaseProgram(program);
  return nullptr;
}

Result<cl_program> OpenClDevice::compile(const std::string& source) {
  ++n_compiled_;
  const char* text = source.c_str();
  cl_int code = CL_SUCCESS;
  const cl_program program = api_.clCreateProgramWithSource(context_, 1, &text, nullptr, &code);
  DIF_TRY(checked("clCreateProgramWithSource", code));
  code = api_.clBuildProgram(program, 1, &facts_.id, build_options(facts_), nullptr, nullptr);
  if (code == CL_SUCCESS) return program;
  std::size_t size = 0;
  api_.clGetProgramBuildInfo(program, facts_.id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string messages(size, '\0');
  api_.clGetProgramBuildInfo(program, facts_.id, CL_PROGRAM_BUILD_LOG, size, messages.data(), nullptr);
  api_.clReleaseProgram(program);
  return fail(ErrorCode::kInternal, "{} does not compile a kernel of ours ({}): {}", facts_.name,
              code_text(code), messages.c_str());
}

/// Drivers such as PoCL finish the code of a kernel when it first runs, so binaries are taken at the end.
void OpenClDevice::keep_binary(const std::string& source, const Program& program) {
  if (program.on_disk || !cache_.is_on()) return;
  std::size_t size = 0;
  if (api_.clGetProgramInfo(program.handle, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, nullptr) !=
          CL_SUCCESS ||
      size == 0)
    return;
  std::vector<std::byte> binary(size);
  auto* bytes = reinterpret_cast<unsigned char*>(binary.data());
  if (api_.clGetProgramInfo(program.handle, CL_PROGRAM_BINARIES, sizeof(bytes), &bytes, nullptr) !=
      CL_SUCCESS)
    return;
  cache_.store(key(source), binary);
}

}  // namespace dif::opencl
