#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"
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

}  // namespace dif::runtime::test
