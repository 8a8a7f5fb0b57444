#include "backends/opencl/device_list.h"

#include <nlohmann/json.hpp>

namespace dif::opencl {

namespace {

/// What the clGet...Info functions have in common; a question that a driver does not answer is an empty text.
template <class Ask>
std::string ask_text(Ask ask) {
  std::size_t size = 0;
  if (ask(std::size_t{0}, nullptr, &size) != CL_SUCCESS || size == 0) return "";
  std::string text(size, '\0');
  if (ask(size, text.data(), nullptr) != CL_SUCCESS) return "";
  text.resize(text.find_last_not_of(std::string("\0 ", 2)) + 1);  // ends in NUL, and often in spaces
  return text;
}

template <class T>
T ask_value(const OpenClApi& api, cl_device_id device, cl_device_info question) {
  T value = {};
  api.clGetDeviceInfo(device, question, sizeof(value), &value, nullptr);
  return value;
}

const char* kind_text(cl_device_type type) {
  if ((type & CL_DEVICE_TYPE_CPU) != 0) return "cpu";
  if ((type & CL_DEVICE_TYPE_GPU) != 0) return "gpu";
  return (type & CL_DEVICE_TYPE_ACCELERATOR) != 0 ? "accelerator" : "other";
}

DeviceFacts read_facts(const OpenClApi& api, cl_platform_id platform, cl_device_id device) {
  const auto platform_text = [&](cl_platform_info question) {
    return ask_text([&](std::size_t size, void* text, std::size_t* needed) {
      return api.clGetPlatformInfo(platform, question, size, text, needed);
    });
  };
  const auto text = [&](cl_device_info question) {
    return ask_text([&](std::size_t size, void* to, std::size_t* needed) {
      return api.clGetDeviceInfo(device, question, size, to, needed);
    });
  };
  const auto number = [&](cl_device_info question) { return ask_value<cl_ulong>(api, device, question); };
  DeviceFacts facts;
  facts.platform = platform;
  facts.id = device;
  facts.platform_name = platform_text(CL_PLATFORM_NAME);
  facts.platform_version = platform_text(CL_PLATFORM_VERSION);
  facts.name = text(CL_DEVICE_NAME);
  facts.vendor = text(CL_DEVICE_VENDOR);
  facts.version = text(CL_DEVICE_VERSION);
  facts.driver = text(CL_DRIVER_VERSION);
  facts.kind = kind_text(ask_value<cl_device_type>(api, device, CL_DEVICE_TYPE));
  facts.memory_bytes = number(CL_DEVICE_GLOBAL_MEM_SIZE);
  facts.largest_buffer_bytes = number(CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  facts.local_memory_bytes = number(CL_DEVICE_LOCAL_MEM_SIZE);
  facts.compute_units = ask_value<cl_uint>(api, device, CL_DEVICE_MAX_COMPUTE_UNITS);
  facts.largest_work_group = ask_value<std::size_t>(api, device, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  facts.f64 = ask_value<cl_device_fp_config>(api, device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  facts.rounds_divide_sqrt = (ask_value<cl_device_fp_config>(api, device, CL_DEVICE_SINGLE_FP_CONFIG) &
                              CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  facts.compiles = ask_value<cl_bool>(api, device, CL_DEVICE_COMPILER_AVAILABLE) == CL_TRUE &&
                   ask_value<cl_bool>(api, device, CL_DEVICE_ENDIAN_LITTLE) == CL_TRUE;
  return facts;
}

}  // namespace

Result<std::vector<DeviceFacts>> find_devices(const OpenClApi& api) {
  cl_uint n_platforms = 0;
  std::vector<DeviceFacts> devices;
  if (api.clGetPlatformIDs(0, nullptr, &n_platforms) == CL_SUCCESS && n_platforms != 0) {
    std::vector<cl_platform_id> platforms(n_platforms);
    DIF_TRY(checked("clGetPlatformIDs", api.clGetPlatformIDs(n_platforms, platforms.data(), nullptr)));
    for (cl_platform_id platform : platforms) {
      cl_uint n_devices = 0;
      if (api.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &n_devices) != CL_SUCCESS) continue;
      std::vector<cl_device_id> ids(n_devices);
      if (n_devices == 0 ||
          api.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, n_devices, ids.data(), nullptr) != CL_SUCCESS)
        continue;
      for (cl_device_id id : ids) devices.push_back(read_facts(api, platform, id));
    }
  }
  if (devices.empty())
    return fail(ErrorCode::kUnavailable,
                "{} knows {} OpenCL platforms and no device; install a driver (Debian, for the CPU: "
                "pocl-opencl-icd)",
                api.library, n_platforms);
  return devices;
}

std::string probe_json() {
  using nlohmann::ordered_json;
  ordered_json document = {{"backend", "opencl"}, {"devices", ordered_json::array()}};
  const auto api = OpenClApi::load();
  const auto devices =
      api ? find_devices(**api) : Result<std::vector<DeviceFacts>>(tl::unexpected<Error>(api.error()));
  if (api) document["loader"] = (*api)->library;
  if (!devices) {
    document["unavailable"] = devices.error().message;
  } else {
    for (const DeviceFacts& facts : *devices)
      document["devices"].push_back({{"name", facts.name},
                                     {"kind", facts.kind},
                                     {"vendor", facts.vendor},
                                     {"platform", facts.platform_name},
                                     {"platform_version", facts.platform_version},
                                     {"version", facts.version},
                                     {"driver", facts.driver},
                                     {"compute_units", facts.compute_units},
                                     {"memory_bytes", facts.memory_bytes},
                                     {"largest_buffer_bytes", facts.largest_buffer_bytes},
                                     {"local_memory_bytes", facts.local_memory_bytes},
                                     {"largest_work_group", facts.largest_work_group},
                                     {"f64", facts.f64},
                                     {"rounds_divide_sqrt", facts.rounds_divide_sqrt},
                                     {"compiles", facts.compiles}});
  }
  return document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace dif::opencl
