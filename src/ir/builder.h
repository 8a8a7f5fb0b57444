#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"

namespace dif::ir {

class Builder;

/// A handle to a value of the program under construction. After the first error every handle is a poison: it
/// has the type f32[] and dimensions 0, so that a frontend need not check after each operation.
class Value {
 public:
  Value() = default;
  Value(const Builder* builder, ValueId id) : builder_(builder), id_(id) {}

  ValueId id() const { return id_; }
  bool valid() const { return builder_ != nullptr && id_ != kNoId; }
  TensorType type() const;
  Shape shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  int rank() const { return type().rank(); }
  /// Dimension `axis`; 0 for an axis that a poison does not have.
  std::int64_t dim(int axis) const;

 private:
  const Builder* builder_ = nullptr;
  ValueId id_ = kNoId;
};

/// Emits operations one by one with shape inference. The first broken constraint is kept and returned by
/// finish() with the module it happened in. The functions of src/ops/*/*.op.h are what frontends call.
class Builder {
 public:
  explicit Builder(std::string program_name);

  Value input(std::string name, TensorType type);
  /// A named constant, bound at prepare. The same name again gives the same value (types must agree).
  Value constant(std::string name, TensorType type);
  Value emit(const OpDef& def, std::span<const Value> operands, std::vector<Attr> attrs = {});
  Value emit(const OpDef& def, std::initializer_list<Value> operands, std::vector<Attr> attrs = {}) {
    return emit(def, std::span(operands.begin(), operands.size()), std::move(attrs));
  }
  void output(std::string name, Value value);

  /// Records that `value` is the result of module `path` (below the current scope) in the reference
  /// framework.
  void boundary(std::string_view path, Value value);
  /// Keeps the first error; later ones are dropped.
  void fail(Error error);

  /// While it lives, operations belong to module `path` below the enclosing one.
  class Scope {
   public:
    Scope(Builder& builder, std::string_view path);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Builder& builder_;
    std::size_t length_;
  };

  const TensorType& type(ValueId id) const;
  Program& program() { return program_; }
  /// The verified program, or the first error.
  Result<Program> finish();

 private:
  friend class Scope;

  Program program_;
  std::string module_;
  std::optional<Error> error_;
};

}  // namespace dif::ir
