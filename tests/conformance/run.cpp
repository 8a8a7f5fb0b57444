#include "tests/conformance/run.h"

#include "base/error.h"

namespace dif::conformance {

namespace {

std::vector<runtime::Binding> bind(std::vector<io::HostTensor>& tensors) {
  std::vector<runtime::Binding> bindings;
  for (io::HostTensor& tensor : tensors)
    bindings.push_back(runtime::Binding::of({tensor.dtype, tensor.shape}, tensor.data));
  return bindings;
}

/// Outputs start as 0xcd, so that an element that no kernel writes does not look like a zero.
std::vector<io::HostTensor> blank_outputs(const ir::Program& program) {
  std::vector<io::HostTensor> outputs;
  for (const ir::Output& output : program.outputs) {
    const ir::TensorType& type = program.type(output.value);
    outputs.emplace_back(type.dtype, type.shape, std::vector<std::byte>(type.bytes(), std::byte{0xcd}));
  }
  return outputs;
}

}  // namespace

Result<std::shared_ptr<runtime::Context>> open_backend(const std::string& name, unsigned threads) {
  DIF_ASSIGN(auto library, runtime::BackendLibrary::load_by_name(name));
  return runtime::Context::create(std::move(library), {.threads = threads});
}

Result<RunResult> run_program(const std::shared_ptr<runtime::Context>& context, const ir::Program& program,
                              const std::vector<io::HostTensor>& inputs,
                              const std::vector<io::HostTensor>& constants) {
  std::vector<runtime::ConstantBinding> constant_bindings;
  for (const io::HostTensor& constant : constants)
    constant_bindings.push_back({constant.data.data(), constant.data.size()});
  DIF_ASSIGN(auto prepared, runtime::PreparedProgram::prepare(context, program, constant_bindings));
  DIF_ASSIGN(const runtime::PreparedReport report, prepared->report());
  RunResult result = {blank_outputs(program), report.details};
  std::vector<io::HostTensor> bound = inputs, again = blank_outputs(program);
  DIF_TRY(prepared->run(bind(bound), bind(result.outputs)));
  DIF_TRY(prepared->run(bind(bound), bind(again)));
  for (std::size_t i = 0; i < again.size(); ++i)
    if (again[i].data != result.outputs[i].data)
      return fail(ErrorCode::kAnswerNo, "output {} of a second run differs from the first",
                  program.outputs[i].name);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (bound[i].data != inputs[i].data) return fail(ErrorCode::kAnswerNo, "the run changed input {}", i);
  return result;
}

}  // namespace dif::conformance
