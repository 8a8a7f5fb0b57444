#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "frontends/model.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "io/tensor_file.h"
#include "opt/pipeline.h"
#include "pipelines/text_to_image.h"
#include "runtime/backend_library.h"
#include "runtime/session.h"
#include "tests/support/paths.h"
#include "text/prompt.h"

namespace dif::test {

/// The value of a Result, or the end of the test program's current test by an exception that gtest reports.
template <class T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}
inline void value_of(Status status) {
  if (!status) throw std::runtime_error(status.error().message);
}

/// DIF_TEST_BACKEND, or the CPU backend.
inline std::shared_ptr<runtime::Context> test_context(unsigned threads = 0) {
  const char* name = std::getenv("DIF_TEST_BACKEND");
  auto library = value_of(runtime::BackendLibrary::load_by_name(name == nullptr ? "cpu" : name));
  runtime::ContextOptions options;
  options.threads = threads;
  return value_of(runtime::Context::create(std::move(library), options));
}

/// ||a - b|| / ||b||; infinite when a holds NaN or the sizes differ.
inline double relative_l2(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  const double result = std::sqrt(difference) / std::sqrt(norm);
  return std::isnan(result) ? INFINITY : result;
}

/// One program of a chain on a context, with further values made outputs, after the passes.
class StageRunner {
 public:
  StageRunner(std::shared_ptr<runtime::Context> context, const frontends::Stage& stage,
              const std::vector<ir::Output>& exposed = {},
              const opt::Pipeline& passes = opt::default_pipeline())
      : program_(stage.program) {
    ir::expose(program_, exposed);
    value_of(opt::run(program_, passes));
    std::vector<runtime::ConstantBinding> constants;
    for (const auto& ref : value_of(stage.constants.bind(program_)))
      constants.push_back({ref.data, ref.type.bytes(), -1, 0});
    prepared_ = value_of(runtime::PreparedProgram::prepare(std::move(context), program_, constants));
  }

  /// Inputs by bytes in program order -> outputs by name.
  std::map<std::string, io::HostTensor> run(std::vector<std::vector<std::byte>> inputs) {
    std::vector<runtime::Binding> ins, outs;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      ins.push_back(runtime::Binding::of(program_.type(program_.inputs[i]), inputs[i]));
    std::map<std::string, io::HostTensor> results;
    for (const ir::Output& output : program_.outputs) {
      const ir::TensorType& type = program_.type(output.value);
      results.emplace(output.name,
                      io::HostTensor(type.dtype, type.shape, std::vector<std::byte>(type.bytes())));
    }
    for (const ir::Output& output : program_.outputs)
      outs.push_back(runtime::Binding::of(program_.type(output.value), results.at(output.name).data));
    value_of(prepared_->run(ins, outs));
    return results;
  }

  const ir::Program& program() const { return program_; }
  runtime::PreparedProgram& prepared() { return *prepared_; }

 private:
  ir::Program program_;
  std::unique_ptr<runtime::PreparedProgram> prepared_;
};

template <class T>
std::vector<std::byte> bytes_of(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}
inline std::vector<std::byte> bytes_of(const io::HostTensor& tensor) {
  return tensor.data;
}

inline io::HostTensor tensor_of(const io::SafetensorsFile& file, const std::string& name) {
  return value_of(io::copy_tensor(*value_of(file.require(name))));
}

}  // namespace dif::test
