// What a plug-in gets through the C interface: 4 bytes that say what the host lies about, then a program of
// any bytes. Prepared with constants that match it or do not, reported, run once. The backend plans and
// writes zeros.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "fuzz/program_mutation.h"
#include "fuzz/promise.h"
#include "ir/program_file.h"
#include "runtime/abi_adapter.h"
#include "runtime/abi_codes.h"

namespace {

using dif::fuzz::promise;

constexpr std::size_t kControlBytes = 4;
constexpr std::uint64_t kDeviceBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kBoundBytes = std::uint64_t{1} << 20;

constexpr dif::runtime::BackendDefinition kPlansOnly = {
    .name = "plans only",
    .create_device =
        [](const dif::runtime::DeviceOptions& options) -> dif::Result<std::unique_ptr<dif::runtime::Device>> {
      return std::unique_ptr<dif::runtime::Device>(new dif::runtime::HostDevice(options.cap_bytes));
    },
    .kernels = [] { return std::span<const dif::runtime::KernelEntry>(); },
    .probe = [] { return std::string("{}"); },
    .executes = false,
};

const dif_backend_api& api() {
  return *dif::runtime::backend_api<kPlansOnly>(DIF_ABI_MAJOR);
}

/// The lies of a host. kNone comes first: it is what most inputs should say.
enum class Lie : std::uint8_t {
  kNone,
  kCount,
  kNoArray,
  kSmallStruct,
  kNoName,
  kOtherName,
  kDType,
  kRank,
  kDimension,
  kBytes,
  kNoData,
  kProgramBytes,
  kEnd
};

struct Control {
  Lie lie = Lie::kNone;
  std::uint8_t which = 0;
  std::int64_t amount = 0;

  static Control read(std::span<const std::uint8_t> bytes) {
    return {static_cast<Lie>(bytes[0] % static_cast<std::uint8_t>(Lie::kEnd)), bytes[1],
            static_cast<std::int8_t>(bytes[2]) * (std::int64_t{1} << (bytes[3] % 56))};
  }
};

/// Whether host memory for these values is worth having.
bool is_small(const dif::ir::Program& program, const std::vector<dif::ir::ValueId>& ids) {
  std::uint64_t left = kBoundBytes;
  for (const auto id : ids) {
    const std::uint64_t bytes = program.type(id).bytes();
    if (bytes > left) return false;
    left -= bytes;
  }
  return true;
}

/// What a host hands over, filled in rightly.
struct Host {
  explicit Host(const dif::ir::Program& program) : memory(kBoundBytes) {
    for (const auto id : program.constants) {
      dif_constant constant = {};
      constant.struct_size = sizeof(constant);
      constant.fd = -1;
      constant.name = program.values[id].name.c_str();
      constant.type = dif::runtime::to_abi(program.type(id));
      constant.data = memory.data();
      constant.bytes = program.type(id).bytes();
      constants.push_back(constant);
    }
    for (const auto id : program.inputs) inputs.push_back(tensor(program.type(id)));
    for (const auto& output : program.outputs) outputs.push_back(tensor(program.type(output.value)));
  }

  dif_tensor tensor(const dif::ir::TensorType& type) {
    dif_tensor tensor = {};
    tensor.struct_size = sizeof(tensor);
    tensor.type = dif::runtime::to_abi(type);
    tensor.data = memory.data();
    tensor.bytes = type.bytes();
    return tensor;
  }

  std::vector<std::byte> memory;
  std::vector<dif_constant> constants;
  std::vector<dif_tensor> inputs, outputs;
};

/// Tells the lie; false when there is nothing to lie about.
bool tell(const Control& control, Host& host, dif_prepare_options& options) {
  switch (control.lie) {
    case Lie::kCount:
      if (control.amount == 0) return false;
      // Fewer than there are: more would be the host's crime, which no plug-in can see.
      if (host.constants.empty()) return false;
      options.n_constants = static_cast<std::uint32_t>(control.which % host.constants.size());
      return true;
    case Lie::kNoArray:
      options.constants = nullptr;
      return !host.constants.empty();
    case Lie::kProgramBytes:
      options.program_bytes -= std::min<std::uint64_t>(options.program_bytes, 1U + control.which);
      return true;
    default:
      break;
  }
  if (host.constants.empty()) return false;
  dif_constant& constant = host.constants[control.which % host.constants.size()];
  const dif_tensor_type before = constant.type;
  switch (control.lie) {
    case Lie::kSmallStruct:
      host.constants[0].struct_size = static_cast<std::uint32_t>(control.which % sizeof(dif_constant));
      return true;
    case Lie::kNoName:
      constant.name = nullptr;
      return true;
    case Lie::kOtherName:
      constant.name = "another name \xff";
      return true;
    case Lie::kDType:
      constant.type.dtype += static_cast<std::uint32_t>(control.amount);
      return constant.type.dtype != before.dtype;
    case Lie::kRank:
      constant.type.rank += static_cast<std::uint32_t>(control.amount);
      return constant.type.rank != before.rank;
    case Lie::kDimension:
      if (before.rank == 0 || control.amount == 0) return false;
      constant.type.dims[control.which % before.rank] = control.amount;
      return std::memcmp(&constant.type, &before, sizeof(before)) != 0;
    case Lie::kBytes:
      constant.bytes += static_cast<std::uint64_t>(control.amount);
      return control.amount != 0;
    case Lie::kNoData:
      constant.data = nullptr;
      return constant.bytes != 0;
    default:
      return false;
  }
}

void check_run(dif_prepared* prepared, Host& host, dif_error& error) {
  dif_run_options options = {};
  options.struct_size = sizeof(options);
  options.flags = DIF_RUN_CHECK_OPERATIONS;
  options.inputs = host.inputs.data();
  options.n_inputs = static_cast<std::uint32_t>(host.inputs.size());
  options.outputs = host.outputs.data();
  options.n_outputs = static_cast<std::uint32_t>(host.outputs.size());
  const dif_code code = api().run(prepared, &options, &error);
  promise(code == DIF_OK || code == DIF_ERROR_MEMORY, "what is prepared runs");
  if (!host.inputs.empty()) {
    host.inputs[0].bytes += 1;
    promise(api().run(prepared, &options, &error) == DIF_ERROR_INVALID, "an input of other bytes is refused");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kControlBytes) return 0;
  const Control control = Control::read(std::span(data, kControlBytes));
  const std::span bytes = std::as_bytes(std::span(data, size)).subspan(kControlBytes);
  const auto program = dif::ir::decode(bytes);
  std::vector<dif::ir::ValueId> values;
  if (program) {
    values = program->constants;
    values.insert(values.end(), program->inputs.begin(), program->inputs.end());
    for (const auto& output : program->outputs) values.push_back(output.value);
  }
  if (program && !is_small(*program, values)) return 0;

  dif_context_options context_options = {};
  context_options.struct_size = sizeof(context_options);
  context_options.memory_cap_bytes = kDeviceBytes;
  std::array<char, 256> text = {};
  dif_error error = {sizeof(error), text.data(), text.size(), DIF_NO_OPERATION};
  dif_context* context = nullptr;
  promise(api().context_create(&context_options, &context, &error) == DIF_OK, "the context opens");

  const dif::ir::Program none;  // the host keeps names of the program that it is given
  const dif::ir::Program& given = program ? *program : none;
  Host host(given);
  dif_prepare_options options = {};
  options.struct_size = sizeof(options);
  options.program = bytes.data();
  options.program_bytes = bytes.size();
  options.n_constants = static_cast<std::uint32_t>(host.constants.size());
  options.constants = host.constants.data();
  const bool is_lie = tell(control, host, options);

  dif_prepared* prepared = nullptr;
  const dif_code code = api().prepare(context, &options, &prepared, &error);
  promise((code == DIF_OK) == (prepared != nullptr), "a program comes with success alone");
  promise(code != DIF_ERROR_INTERNAL, "nothing that a host says is our bug");
  if (!program || is_lie) promise(code == DIF_ERROR_INVALID, "a bad program and a lie are refused");
  if (code != DIF_OK) promise(text[0] != '\0', "a refusal has a sentence");
  if (prepared != nullptr) {
    dif_report report = {};
    report.struct_size = sizeof(report);
    promise(api().report(prepared, &report, &error) == DIF_OK, "what is prepared reports");
    promise(report.arena_bytes <= kDeviceBytes, "the plan keeps to the device");
    check_run(prepared, host, error);
    api().prepared_destroy(prepared);
  }
  api().context_destroy(context);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  dif::fuzz::Random random(seed);
  if (size < kControlBytes || max_size < kControlBytes || random.one_in(8))
    return dif::fuzz::mutate_bytes(data, size, max_size, random);
  if (random.one_in(2))
    for (std::size_t i = 0; i < kControlBytes; ++i) data[i] = static_cast<std::uint8_t>(random.bits());
  const std::span bytes = std::as_bytes(std::span(data, size)).subspan(kControlBytes);
  auto program = dif::ir::decode(bytes);
  if (!program) return dif::fuzz::mutate_bytes(data, size, max_size, random);
  dif::fuzz::ProgramMutation(*program, random).run();
  return kControlBytes + dif::fuzz::replace_or_mutate(dif::ir::encode(*program), data + kControlBytes,
                                                      size - kControlBytes, max_size - kControlBytes, random);
}
