#include "pipelines/program_bindings.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/parse_number.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "io/tensor_file.h"
#include "ir/program_file.h"

namespace dif {

namespace fs = std::filesystem;

using ir::Program;
using ir::ValueId;

namespace {

std::optional<ValueId> value_number(std::string_view id) {
  if (id.starts_with('%')) id.remove_prefix(1);
  return parse_number<ValueId>(id);
}

std::string list_inputs(const Program& program) {
  std::vector<std::string> texts;
  for (const ValueId id : program.inputs)
    texts.push_back(fmt::format("{} (%{}) {}", program.values[id].name, id, program.type(id)));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string list_outputs(const Program& program) {
  std::vector<std::string> texts;
  for (const ir::Output& output : program.outputs)
    texts.push_back(fmt::format("{} (%{}) {}", output.name, output.value, program.type(output.value)));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

// --- integers ---------------------------------------------------------------------------------------------

/// Calls body(T{}) with the C++ type of an integer dtype; false for other dtypes.
template <class Body>
bool with_integer(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kI8:
      return body(std::int8_t{}), true;
    case DType::kU8:
    case DType::kBool:
      return body(std::uint8_t{}), true;
    case DType::kI16:
      return body(std::int16_t{}), true;
    case DType::kU16:
      return body(std::uint16_t{}), true;
    case DType::kI32:
      return body(std::int32_t{}), true;
    case DType::kU32:
      return body(std::uint32_t{}), true;
    case DType::kI64:
      return body(std::int64_t{}), true;
    case DType::kU64:
      return body(std::uint64_t{}), true;
    default:
      return false;
  }
}

/// The same integers in another integer dtype; nothing when one does not fit or a dtype is no integer.
std::optional<io::HostTensor> fit_integers(const io::HostTensor& from, DType dtype) {
  io::HostTensor to(dtype, from.shape);
  bool fits = true;
  const bool integers = with_integer(from.dtype, [&]<class From>(From) {
    fits = with_integer(dtype,
                        [&]<class To>(To) {
                          const std::span source(reinterpret_cast<const From*>(from.data.data()),
                                                 from.data.size() / sizeof(From));
                          auto* target = reinterpret_cast<To*>(to.data.data());
                          for (const From value : source) {
                            fits &= std::in_range<To>(value) &&
                                    (dtype != DType::kBool || value == 0 || value == 1);
                            *target++ = static_cast<To>(value);
                          }
                        }) &&
           fits;
  });
  if (!integers || !fits) return std::nullopt;
  return to;
}

Result<io::HostTensor> fit_input(const ir::ValueInfo& input, io::HostTensor tensor, const std::string& file) {
  const ir::TensorType found = {tensor.dtype, tensor.shape};
  if (found == input.type) return tensor;
  if (found.shape == input.type.shape)
    if (auto fitted = fit_integers(tensor, input.type.dtype)) return std::move(*fitted);
  const bool cast_helps = is_floating(found.dtype) && is_floating(input.type.dtype);
  return invalid_input("input {}: {} is {}, the program wants {}{}", input.name, file, found, input.type,
                       cast_helps ? "; difcast converts it" : "");
}

}  // namespace

Result<TensorArgument> parse_tensor_argument(std::string_view option, std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size())
    return invalid_input("{} {}: expected ID=FILE, where FILE is x.diftensor or shard.safetensors::TENSOR",
                         option, text);
  return TensorArgument{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

Result<ValueId> find_value(const Program& program, std::string_view id) {
  for (const ir::Provenance::Boundary& boundary : program.provenance.boundaries)
    if (boundary.name == id) return boundary.value;
  for (const ir::Output& output : program.outputs)
    if (output.name == id) return output.value;
  for (ValueId value = 0; value < program.values.size(); ++value)
    if (program.values[value].name == id && !id.empty()) return value;
  const auto number = value_number(id);
  if (number && *number < program.values.size()) return *number;
  if (number)
    return invalid_input("program {} has no value %{}; the last one is %{}", program.name, *number,
                         program.values.size() - 1);
  return invalid_input("program {} has no value, boundary, input or output named {}", program.name, id);
}

Result<std::size_t> find_input(const Program& program, std::string_view id) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    if (program.values[program.inputs[i]].name == id) return i;
  const auto number = value_number(id);
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    if (number && program.inputs[i] == *number) return i;
  return invalid_input("program {} has no input {}; its inputs: {}", program.name, id, list_inputs(program));
}

Result<std::size_t> find_output(const Program& program, std::string_view id) {
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    if (program.outputs[i].name == id) return i;
  const auto number = value_number(id);
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    if (number && program.outputs[i].value == *number) return i;
  return invalid_input(
      "program {} has no output {}; its outputs: {}; difc expose-tensors makes any value an output",
      program.name, id, list_outputs(program));
}

namespace {

/// The file of each input, in the program's order.
Result<std::vector<std::string>> files_of_inputs(const Program& program,
                                                 const std::vector<TensorArgument>& arguments) {
  std::vector<std::string> files(program.inputs.size());
  for (const TensorArgument& argument : arguments) {
    DIF_ASSIGN(const std::size_t index, find_input(program, argument.id));
    if (!files[index].empty())
      return invalid_input("input {} is bound twice", program.values[program.inputs[index]].name);
    files[index] = argument.file;
  }
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const ir::ValueInfo& input = program.values[program.inputs[i]];
    if (files[i].empty()) missing.push_back(fmt::format("{} {}", input.name, input.type));
  }
  if (!missing.empty())
    return invalid_input("program {} needs --input ID=FILE for {}", program.name, fmt::join(missing, ", "));
  return files;
}

}  // namespace

Result<std::vector<io::HostTensor>> read_inputs(const Program& program,
                                                const std::vector<TensorArgument>& arguments) {
  DIF_ASSIGN(const std::vector<std::string> files, files_of_inputs(program, arguments));
  std::vector<io::HostTensor> tensors;
  for (std::size_t i = 0; i < files.size(); ++i) {
    DIF_ASSIGN(io::HostTensor read, io::read_tensor_operand(files[i]));
    DIF_ASSIGN(io::HostTensor tensor,
               fit_input(program.values[program.inputs[i]], std::move(read), files[i]));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Result<MappedInputs> MappedInputs::open(const Program& program,
                                        const std::vector<TensorArgument>& arguments) {
  DIF_ASSIGN(const std::vector<std::string> files, files_of_inputs(program, arguments));
  MappedInputs result;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const ir::ValueInfo& value = program.values[program.inputs[i]];
    Input& input = result.inputs_.emplace_back();
    input.type = value.type;
    DIF_ASSIGN(io::MappedOperand operand, io::map_tensor_operand(files[i]));
    if (ir::TensorType{operand.tensor.dtype, operand.tensor.shape} == value.type) {
      input.mapped = std::move(operand);
      continue;
    }
    DIF_ASSIGN(io::HostTensor read, io::copy_tensor(operand.tensor));
    DIF_ASSIGN(input.read, fit_input(value, std::move(read), files[i]));
  }
  return result;
}

std::vector<runtime::Binding> MappedInputs::bindings() {
  std::vector<runtime::Binding> result;
  for (Input& input : inputs_) {
    std::span<std::byte> bytes = input.read.data;
    // A run writes no input.
    if (input.mapped) bytes = {const_cast<std::byte*>(input.mapped->tensor.data), input.mapped->tensor.bytes};
    result.push_back(runtime::Binding::of(input.type, bytes));
  }
  return result;
}

std::uint64_t MappedInputs::mapped_bytes() const {
  std::uint64_t bytes = 0;
  for (const Input& input : inputs_) bytes += input.mapped ? input.mapped->tensor.bytes : 0;
  return bytes;
}

Status MappedInputs::check() const {
  for (const Input& input : inputs_)
    if (input.mapped) DIF_TRY(input.mapped->tensor.file->check());
  return ok();
}

Status store_tensors(const std::vector<TensorToStore>& tensors) {
  std::set<std::string> targets;
  std::map<std::string, std::vector<io::TensorToWrite>> archives;
  for (const TensorToStore& entry : tensors) {
    if (!targets.insert(entry.file).second)
      return invalid_input("two tensors would be written to {}", entry.file);
    const std::size_t separator = entry.file.find("::");
    if (separator == std::string::npos) continue;
    const io::HostTensor& tensor = *entry.tensor;
    archives[entry.file.substr(0, separator)].push_back(
        {entry.file.substr(separator + 2), tensor.dtype, tensor.shape, tensor.bytes()});
  }
  for (const TensorToStore& entry : tensors)
    if (entry.file.find("::") == std::string::npos) DIF_TRY(io::write_tensor_file(entry.file, *entry.tensor));
  for (const auto& [path, entries] : archives) DIF_TRY(io::write_safetensors(path, entries));
  return ok();
}

Status check_constants(const Program& program, const io::BundleRecord& record, std::string_view source) {
  std::vector<std::string> problems;
  for (const ValueId id : program.constants) {
    const ir::ValueInfo& value = program.values[id];
    const auto tensor = std::ranges::find(record.tensors, value.name, &io::BundleTensor::name);
    if (tensor == record.tensors.end()) {
      problems.push_back(fmt::format("constant {} is missing", value.name));
    } else if (const ir::TensorType found = {tensor->dtype, tensor->shape}; found != value.type) {
      problems.push_back(
          fmt::format("constant {} is {}, the program wants {}", value.name, found, value.type));
    }
  }
  if (problems.empty()) return ok();
  return tl::unexpected<Error>(io::problem_list(source, problems));
}

Result<io::BundleRecord> rebind_bundle(const io::BundleRecord& record, const fs::path& from,
                                       const Program& program, const fs::path& to) {
  DIF_TRY(check_constants(program, record, from.string()));
  const fs::path old_folder = fs::absolute(from).parent_path(), new_folder = fs::absolute(to).parent_path();
  io::BundleRecord result = record;
  result.program = ir::fingerprint(program);
  // The order of shards is that of their paths, which change.
  std::map<std::string, std::uint32_t> old_index;
  for (std::uint32_t i = 0; i < record.shards.size(); ++i) {
    const fs::path file = (old_folder / record.shards[i].path).lexically_normal();
    old_index[file.lexically_relative(new_folder.lexically_normal()).generic_string()] = i;
  }
  std::vector<std::uint32_t> new_index(record.shards.size());
  result.shards.clear();
  for (const auto& [path, index] : old_index) {
    new_index[index] = static_cast<std::uint32_t>(result.shards.size());
    result.shards.push_back({path, record.shards[index].size, record.shards[index].sha256});
  }
  for (io::BundleTensor& tensor : result.tensors) tensor.shard = new_index[tensor.shard];
  return result;
}

Result<std::vector<runtime::ConstantBinding>> bind_constants(const Program& program,
                                                             const io::WeightBundle& bundle) {
  const std::string fingerprint = ir::fingerprint(program);
  if (bundle.record().program != fingerprint)
    return invalid_input("{}: sealed for the program with fingerprint {}..., this one has {}...",
                         bundle.path().string(), bundle.record().program.substr(0, 12),
                         fingerprint.substr(0, 12));
  std::vector<runtime::ConstantBinding> constants;
  for (const ValueId id : program.constants) {
    const ir::ValueInfo& value = program.values[id];
    DIF_ASSIGN(const io::TensorRef* tensor, bundle.require(value.name));
    const ir::TensorType found = {tensor->dtype, tensor->shape};
    if (found != value.type)
      return invalid_input("{}: constant {} is {}, the program wants {}", bundle.path().string(), value.name,
                           found, value.type);
    constants.push_back({tensor->data, tensor->bytes, tensor->fd, tensor->file_offset});
  }
  return constants;
}

}  // namespace dif
