#include "ir/program_file.h"

#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "difir_generated.h"
#include "io/atomic_file.h"
#include "io/printable.h"
#include "io/sealed_envelope.h"
#include "ir/provenance_file.h"
#include "ir/verifier.h"

namespace dif::ir {

namespace {

constexpr std::uint32_t kFileVersion = 1;
constexpr std::uint64_t kMaxBytes = 256ULL << 20;
constexpr std::size_t kMaxTables = 1 << 22;

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// --- encode -----------------------------------------------------------------------------------------------

struct EncodedAttr {
  schema::AttributeValue kind;
  Offset<void> value;
};

struct AttrWriter {
  FlatBufferBuilder& out;

  EncodedAttr operator()(std::int64_t value) const {
    return {schema::AttributeValue::Integer, schema::CreateInteger(out, value).Union()};
  }
  EncodedAttr operator()(float value) const {
    return {schema::AttributeValue::Number, schema::CreateNumber(out, value).Union()};
  }
  EncodedAttr operator()(bool value) const {
    return {schema::AttributeValue::Flag, schema::CreateFlag(out, value).Union()};
  }
  EncodedAttr operator()(DType value) const {
    const schema::ElementType type(static_cast<std::uint8_t>(value));
    return {schema::AttributeValue::Type, schema::CreateType(out, &type).Union()};
  }
  EncodedAttr operator()(const std::vector<std::int64_t>& value) const {
    return {schema::AttributeValue::Integers,
            schema::CreateIntegers(out, out.CreateVector(value.data(), value.size())).Union()};
  }
};

/// Names of operations and attributes are stored once, whatever their number.
Offset<flatbuffers::String> write_shared(FlatBufferBuilder& out, std::string_view name) {
  return out.CreateSharedString(name.data(), name.size());
}

Offset<flatbuffers::String> write_text(FlatBufferBuilder& out, const std::string& text) {
  return out.CreateString(text.data(), text.size());
}

Offset<schema::Value> write_value(FlatBufferBuilder& out, const ValueInfo& value) {
  const schema::ElementType type(static_cast<std::uint8_t>(value.type.dtype));
  const auto dims = value.type.shape.dims();
  const auto name = value.name.empty() ? 0 : write_text(out, value.name);
  const auto dim_list = out.CreateVector(dims.data(), dims.size());
  return schema::CreateValue(out, static_cast<schema::ValueKind>(value.kind), &type, dim_list, name);
}

Offset<schema::Operation> write_op(FlatBufferBuilder& out, const Op& op) {
  std::vector<Offset<schema::Attribute>> attrs;
  for (std::size_t i = 0; i < op.attrs.size(); ++i) {
    if (!op.def->attrs[i].is_written(op.attrs[i])) continue;
    const auto name = write_shared(out, op.def->attrs[i].name);
    const EncodedAttr attr = std::visit(AttrWriter{out}, op.attrs[i]);
    attrs.push_back(schema::CreateAttribute(out, name, attr.kind, attr.value));
  }
  const auto name = write_shared(out, op.def->name);
  const auto operands = out.CreateVector(op.operands);
  const auto results = out.CreateVector(op.results);
  return schema::CreateOperation(out, name, operands, results, out.CreateVector(attrs));
}

// --- decode -----------------------------------------------------------------------------------------------

/// FlatBuffers may point to one table or vector from many places; the canonical form never does (but for
/// names of operations and attributes, which are not copied). So what is copied must add up to less than the
/// file.
constexpr std::size_t kLeastTableBytes = 12;

class Budget {
 public:
  explicit Budget(std::size_t bytes) : left_(bytes) {}
  Status take(std::size_t bytes) {
    if (bytes > left_) return invalid_input("parts of the program overlap");
    left_ -= bytes;
    return ok();
  }

 private:
  std::size_t left_;
};

std::string_view text(const flatbuffers::String* string) {
  return string == nullptr ? std::string_view() : std::string_view(string->c_str(), string->size());
}

/// Copies byte by byte: the verifier of FlatBuffers lets 8-byte elements lie at multiples of 4.
template <class T>
Result<std::vector<T>> read_list(const flatbuffers::Vector<T>* list, Budget& budget) {
  static_assert(std::endian::native == std::endian::little);
  if (list == nullptr || list->size() == 0) return std::vector<T>();
  DIF_TRY(budget.take(list->size() * sizeof(T)));
  std::vector<T> values(list->size());
  std::memcpy(values.data(), list->Data(), values.size() * sizeof(T));
  return values;
}

Result<DType> read_dtype(const schema::ElementType* type) {
  if (type == nullptr || type->number() >= kDTypeCount)
    return invalid_input("there is an unknown element type");
  return static_cast<DType>(type->number());
}

Result<ValueInfo> read_value(const schema::Value& value, Budget& budget) {
  DIF_TRY(budget.take(kLeastTableBytes));
  ValueInfo result;
  if (value.kind() > schema::ValueKind::MAX) return invalid_input("there is an unknown kind of value");
  result.kind = static_cast<ValueKind>(value.kind());
  DIF_ASSIGN(result.type.dtype, read_dtype(value.element_type()));
  DIF_ASSIGN(const std::vector<std::int64_t> dims, read_list(value.dims(), budget));
  if (dims.size() > Shape::kMaxRank)
    return invalid_input("a value has {} dimensions, at most {} are allowed", dims.size(), Shape::kMaxRank);
  result.type.shape = Shape(dims);
  DIF_TRY(budget.take(text(value.name()).size()));
  result.name = text(value.name());
  return result;
}

Result<Attr> read_attr(const schema::Attribute& attr, Budget& budget) {
  if (const auto* value = attr.value_as_Integer()) return Attr(value->value());
  if (const auto* value = attr.value_as_Number()) return Attr(value->value());
  if (const auto* value = attr.value_as_Flag()) return Attr(value->value());
  if (const auto* value = attr.value_as_Type()) {
    DIF_ASSIGN(const DType dtype, read_dtype(value->value()));
    return Attr(dtype);
  }
  if (const auto* value = attr.value_as_Integers()) {
    DIF_ASSIGN(std::vector<std::int64_t> integers, read_list(value->value(), budget));
    return Attr(std::move(integers));
  }
  return invalid_input("attribute {} has an unknown type", io::printable(text(attr.name())));
}

/// Gives `op` the optional attributes that are not written before the one called `next` (at the end: none).
void fill_in_attrs(Op& op, std::string_view next) {
  const auto& defs = op.def->attrs;
  while (op.attrs.size() < defs.size() && defs[op.attrs.size()].optional &&
         defs[op.attrs.size()].name != next)
    op.attrs.push_back(defs[op.attrs.size()].fallback);
}

/// Attribute names are not compared here: encoding again writes the declared ones.
Result<Op> read_op(const schema::Operation& operation, Budget& budget) {
  DIF_TRY(budget.take(kLeastTableBytes));
  Op op;
  op.def = find_op(text(operation.name()));
  if (op.def == nullptr)
    return invalid_input("there is no operation {}; a newer version may have it",
                         io::printable(text(operation.name())));
  DIF_ASSIGN(op.operands, read_list(operation.operands(), budget));
  DIF_ASSIGN(op.results, read_list(operation.results(), budget));
  if (const auto* attrs = operation.attributes())
    for (const schema::Attribute* attr : *attrs) {
      DIF_TRY(budget.take(kLeastTableBytes));
      DIF_ASSIGN(Attr value, read_attr(*attr, budget));
      fill_in_attrs(op, text(attr->name()));
      op.attrs.push_back(std::move(value));
    }
  fill_in_attrs(op, {});
  return op;
}

/// Each result learns its producer; verify() finds results that two operations claim.
void set_producers(Program& program) {
  for (OpId id = 0; id < program.ops.size(); ++id)
    for (const ValueId result : program.ops[id].results)
      if (result < program.values.size()) program.values[result].producer = id;
}

Result<Program> read_fields(const schema::Program& root, std::size_t bytes) {
  Budget budget(bytes);
  Program program;
  DIF_TRY(budget.take(text(root.name()).size()));
  program.name = text(root.name());
  if (const auto* values = root.values())
    for (const schema::Value* value : *values) {
      DIF_ASSIGN(ValueInfo info, read_value(*value, budget));
      program.values.push_back(std::move(info));
    }
  if (const auto* operations = root.operations())
    for (const schema::Operation* operation : *operations) {
      DIF_ASSIGN(Op op, read_op(*operation, budget));
      program.ops.push_back(std::move(op));
    }
  DIF_ASSIGN(program.inputs, read_list(root.inputs(), budget));
  DIF_ASSIGN(program.constants, read_list(root.constants(), budget));
  if (const auto* outputs = root.outputs())
    for (const schema::Output* output : *outputs) {
      DIF_TRY(budget.take(kLeastTableBytes + text(output->name()).size()));
      program.outputs.push_back({std::string(text(output->name())), output->value()});
    }
  set_producers(program);
  return program;
}

}  // namespace

std::vector<std::byte> encode(const Program& program) {
  FlatBufferBuilder out;
  out.ForceDefaults(true);
  std::vector<Offset<schema::Value>> values;
  for (const ValueInfo& value : program.values) values.push_back(write_value(out, value));
  std::vector<Offset<schema::Operation>> operations;
  for (const Op& op : program.ops) operations.push_back(write_op(out, op));
  std::vector<Offset<schema::Output>> outputs;
  for (const Output& output : program.outputs)
    outputs.push_back(schema::CreateOutput(out, write_text(out, output.name), output.value));
  const auto name = write_text(out, program.name);
  const auto value_list = out.CreateVector(values);
  const auto operation_list = out.CreateVector(operations);
  const auto inputs = out.CreateVector(program.inputs);
  const auto constants = out.CreateVector(program.constants);
  const auto output_list = out.CreateVector(outputs);
  schema::FinishProgramBuffer(
      out, schema::CreateProgram(out, name, value_list, operation_list, inputs, constants, output_list));
  const auto* begin = reinterpret_cast<const std::byte*>(out.GetBufferPointer());
  return {begin, begin + out.GetSize()};
}

Result<Program> decode(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxBytes)
    return invalid_input("the program has {} bytes, at most {} are allowed", bytes.size(), kMaxBytes);
  std::vector<std::byte> aligned;
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::int64_t) != 0) {
    aligned.assign(bytes.begin(), bytes.end());
    bytes = aligned;
  }
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), 16,
                                 kMaxTables);
  if (!schema::VerifyProgramBuffer(verifier))
    return invalid_input("the bytes are not a program, or they are damaged");
  DIF_ASSIGN(Program program, read_fields(*schema::GetProgram(bytes.data()), bytes.size()));
  DIF_TRY(verify(program));
  if (!std::ranges::equal(encode(program), bytes))
    return invalid_input("the program is valid but not in canonical form; write it again with difc");
  return program;
}

Result<Program> read_program(const std::filesystem::path& path) {
  DIF_ASSIGN(const io::SealedPayload file,
             io::open_sealed_file(path, io::kProgramKind, {kFileVersion}, kMaxBytes));
  Result<Program> program = decode(file.payload);
  if (!program) {
    program.error().message = fmt::format("{}: {}", path.string(), program.error().message);
    return program;
  }
  DIF_TRY(read_provenance(path, *program));
  return program;
}

Status write_program(const std::filesystem::path& path, const Program& program) {
  DIF_TRY(io::write_atomically(path, io::seal(io::kProgramKind, kFileVersion, encode(program))));
  return write_provenance(path, program);
}

}  // namespace dif::ir
