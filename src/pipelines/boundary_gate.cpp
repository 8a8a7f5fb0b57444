#include "pipelines/boundary_gate.h"

#include <algorithm>

#include "base/error.h"
#include "io/tensor_file.h"
#include "pipelines/program_bindings.h"

namespace dif {

namespace {

using ir::TensorType;
using runtime::Binding;

std::string path_of(const io::SafetensorsFile& fixture) {
  return fixture.file().path().string();
}

/// Cosines or sines of each pair. diffusers has them twice, one for each number of an interleaved pair.
Result<io::HostTensor> one_of_each_pair(const io::HostTensor& twice, const std::string& source,
                                        const std::string& name) {
  const std::vector<float> values = twice.to_f32();
  std::vector<float> once(values.size() / 2);
  for (std::size_t i = 0; i < once.size(); ++i) {
    if (values[2 * i] != values[2 * i + 1])
      return invalid_input("{}: {}: the two numbers of pair {} differ; expected one angle for each pair",
                           source, name, i);
    once[i] = values[2 * i];
  }
  return io::HostTensor::f32({twice.shape.dim(0), twice.shape.dim(1) / 2}, once);
}

Result<io::HostTensor> read_input(const io::SafetensorsFile& fixture, const std::string& name,
                                  const TensorType& type) {
  DIF_ASSIGN(const io::TensorRef* const found, fixture.require(name));
  DIF_ASSIGN(io::HostTensor tensor, io::copy_tensor(*found));
  const bool is_rotary = name.starts_with("rotary_") && tensor.shape.rank() == 2;
  if (is_rotary && tensor.shape == Shape{type.shape.dim(0), 2 * type.shape.dim(1)}) {
    DIF_ASSIGN(tensor, one_of_each_pair(tensor, path_of(fixture), name));
  }
  if (tensor.shape != type.shape)
    return invalid_input("{}: {} is {}, expected {}", path_of(fixture), name, tensor.shape, type.shape);
  return io::convert(tensor, type.dtype);
}

/// The boundaries to expose beside the outputs: those that the fixture has, and the captures.
Result<std::vector<ir::Output>> exposed(const ir::Program& program, const io::SafetensorsFile& fixture,
                                        const std::vector<std::string>& captures) {
  const auto is_output = [&](const std::string& name) {
    return std::ranges::any_of(program.outputs,
                               [&](const ir::Output& output) { return output.name == name; });
  };
  std::vector<ir::Output> result;
  for (const ir::Provenance::Boundary& boundary : program.provenance.boundaries) {
    const bool wanted =
        fixture.find(boundary.name) != nullptr || std::ranges::count(captures, boundary.name) != 0;
    if (wanted && !is_output(boundary.name)) result.push_back({boundary.name, boundary.value});
  }
  for (const std::string& name : captures) {
    const bool found = is_output(name) || std::ranges::any_of(result, [&](const ir::Output& output) {
                         return output.name == name;
                       });
    if (!found) {
      DIF_TRY(find_value(program, name));  // says which names there are
      return invalid_input("{}: not a boundary of program {}", name, program.name);
    }
  }
  return result;
}

Result<std::unique_ptr<runtime::PreparedProgram>> prepare(const std::shared_ptr<runtime::Context>& context,
                                                          const ir::Program& program,
                                                          const frontends::ConstantSet& constants) {
  DIF_ASSIGN(const auto refs, constants.bind(program));
  std::vector<runtime::ConstantBinding> bindings;
  for (const frontends::ConstantRef& ref : refs)
    bindings.push_back(
        {ref.data, ref.type.bytes(), ref.file == nullptr ? -1 : ref.file->fd(), ref.file_offset});
  return runtime::PreparedProgram::prepare(context, program, bindings);
}

}  // namespace

bool GateResult::passed() const {
  return std::ranges::all_of(rows, [](const GateRow& row) { return row.broken.empty(); });
}

Result<GateResult> run_gate(const std::shared_ptr<runtime::Context>& context, const frontends::Stage& stage,
                            const io::SafetensorsFile& fixture, const std::vector<std::string>& captures,
                            const io::ComparisonBars& bars, const opt::Pipeline& passes) {
  ir::Program program = stage.program;
  for (const ir::Output& output : program.outputs) DIF_TRY(fixture.require(output.name));
  DIF_ASSIGN(const std::vector<ir::Output> more, exposed(program, fixture, captures));
  std::vector<io::HostTensor> inputs;
  for (const ir::ValueId input : program.inputs) {
    DIF_ASSIGN(io::HostTensor tensor, read_input(fixture, program.values[input].name, program.type(input)));
    inputs.push_back(std::move(tensor));
  }
  ir::expose(program, more);
  DIF_TRY(opt::run(program, passes));

  GateResult gate;
  std::vector<Binding> ins, outs;
  for (io::HostTensor& tensor : inputs) ins.push_back(Binding::of({tensor.dtype, tensor.shape}, tensor.data));
  for (const ir::Output& output : program.outputs) {
    const TensorType& type = program.type(output.value);
    gate.results.emplace_back(output.name, io::HostTensor(type.dtype, type.shape));
  }
  for (auto& [name, tensor] : gate.results)
    outs.push_back(Binding::of({tensor.dtype, tensor.shape}, tensor.data));
  DIF_ASSIGN(const auto prepared, prepare(context, program, stage.constants));
  DIF_TRY(prepared->run(ins, outs));

  for (const auto& [name, tensor] : gate.results) {
    const io::TensorRef* const expected = fixture.find(name);
    if (expected == nullptr) continue;
    DIF_ASSIGN(const io::HostTensor reference, io::copy_tensor(*expected));
    auto comparison = io::compare_tensors(reference, tensor);
    if (!comparison) return with_context(std::move(comparison.error()), "{}: {}", path_of(fixture), name);
    gate.rows.push_back({name, *comparison, io::broken_bars(*comparison, bars)});
  }
  return gate;
}

}  // namespace dif
