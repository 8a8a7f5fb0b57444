#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "runtime/abi_codes.h"
#include "runtime/session.h"

/// What the tests of this room share: small programs, and bindings of vectors.
namespace dif::runtime::test {

inline ir::TensorType f32(std::initializer_list<std::int64_t> dims) {
  return {DType::kF32, Shape(dims)};
}

inline ir::Program finish(ir::Builder& b) {
  auto program = b.finish();
  EXPECT_TRUE(program) << program.error().message;
  return program ? std::move(*program) : ir::Program();
}

template <class T>
Binding bound(const ir::TensorType& type, std::vector<T>& values) {
  return Binding::of(type, std::as_writable_bytes(std::span(values)));
}

template <class T>
ConstantBinding constant(const std::vector<T>& values) {
  return {values.data(), values.size() * sizeof(T)};
}

inline std::shared_ptr<Context> open(const std::string& backend, ContextOptions options = {}) {
  auto library = BackendLibrary::load_by_name(backend);
  EXPECT_TRUE(library) << library.error().message;
  if (!library) return nullptr;
  auto context = Context::create(*library, std::move(options));
  EXPECT_TRUE(context) << context.error().message;
  return context ? *context : nullptr;
}

inline std::unique_ptr<PreparedProgram> prepare(const std::shared_ptr<Context>& context,
                                                const ir::Program& program,
                                                const std::vector<ConstantBinding>& constants = {}) {
  auto prepared = PreparedProgram::prepare(context, program, constants);
  EXPECT_TRUE(prepared) << prepared.error().message;
  return prepared ? std::move(*prepared) : nullptr;
}

/// Fails unless `status` is an error of that class whose sentence contains `part`.
template <class AnyResult>
void expect_error(const AnyResult& status, ErrorCode code, const std::string& part) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, code) << status.error().message;
  EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
}

/// The tensors of a run, through the C interface, of a program with inputs x and step and one output like x,
/// which a loop carries into x.
struct StepTensors {
  StepTensors(const ir::TensorType& type, void* x, void* y) {
    for (dif_tensor* tensor : {&ins[0], &ins[1], &out}) tensor->struct_size = sizeof(dif_tensor);
    ins[0].type = out.type = to_abi(type);
    ins[1].type = to_abi({DType::kI32, {1}});
    ins[0].data = x, ins[1].data = &step, out.data = y;
    ins[0].bytes = out.bytes = type.bytes(), ins[1].bytes = sizeof(step);
  }
  StepTensors(const StepTensors&) = delete;

  dif_run_options run() { return {sizeof(dif_run_options), 0, ins, 2, 1, &out}; }
  dif_loop_options loop(std::uint32_t n_steps) {
    dif_loop_options loop = {};
    loop.struct_size = sizeof(loop);
    loop.run = run();
    loop.n_steps = n_steps;
    loop.step_input = 1;
    loop.carries = &carry;
    loop.n_carries = 1;
    return loop;
  }

  std::int32_t step = 0;
  dif_tensor ins[2] = {}, out = {};
  dif_carry carry = {0, 0};
};

}  // namespace dif::runtime::test
