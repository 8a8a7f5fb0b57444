#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "ir/tensor_type.h"

namespace dif::ir {

/// A list of integers. A type of its own because std::variant of gcc 12 takes a std::vector for one that can
/// always be copied, and destroys what is not there when memory runs out in the copy.
struct Integers : std::vector<std::int64_t> {
  using std::vector<std::int64_t>::vector;
  Integers(std::vector<std::int64_t> values) : vector(std::move(values)) {}
};

/// The value of one attribute. The alternative is fixed by the operation's AttrDef.
using Attr = std::variant<std::int64_t, float, bool, DType, Integers>;

struct AttrDef {
  std::string_view name;
  Attr fallback;  ///< what the builder fills in; also fixes the alternative
  /// In files, fingerprints and listings only where it is not the fallback: for what an operation learnt
  /// after programs were written without it. Such attributes are trailing.
  bool optional = false;

  bool is_written(const Attr& value) const { return !optional || value != fallback; }
};

class OpView;
using Types = std::vector<TensorType>;

/// How often an operand may stand.
enum class Arity { kOne, kOptional, kVariadic };

struct OperandDef {
  std::string_view name;
  Arity arity = Arity::kOne;  ///< optional operands are trailing; a variadic one is the only or last operand
};

/// How rows of the result come from the same rows of the operands: what a planner knows in order to let one
/// kernel execute several operations (plan/fusion.h). A row is what follows the first k dimensions.
enum class RowRule : std::uint8_t {
  kNone,         ///< an element may depend on anything
  kElementwise,  ///< an element depends on the elements at its place; operands broadcast as in add
  kLastAxis,     ///< vectors along the last axis of operand 0; other operands are read whole
  kHeads,        ///< [H, D] at each [B, S] of operand 0 [B, S, H, D]; other operands are [S, ...]
  kSlice,        ///< part of the axis that attribute `axis` names
  kConcat,       ///< operands side by side along the axis that attribute `axis` names
};

/// What an operation means: one per folder of src/ops, found by name. Everything that is not per-operation
/// knowledge (SSA order, arity, attribute alternatives) is checked by the verifier itself.
struct OpDef {
  std::string_view name;
  std::vector<OperandDef> operands;
  std::vector<AttrDef> attrs;
  /// Checks the labelled constraints of the header comment; called once arity and attributes are known good.
  Status (*verify)(const OpView& op) = nullptr;
  /// Result types. Pre: verify passed.
  Types (*infer)(const OpView& op) = nullptr;
  /// Floating-point operations, 2 per multiply-add; null counts one per result element (zero for a view).
  double (*flops)(const OpView& op) = nullptr;
  /// The result has the bytes of operand 0 under another shape: a planner may let them share storage.
  bool is_view = false;
  RowRule row_rule = RowRule::kNone;
};

/// Every operation, in the order of ops.def (defined in src/ops).
std::span<const OpDef* const> all_ops();
/// The operation of that name, or null.
const OpDef* find_op(std::string_view name);

/// One operation with the types of its operands and results: what verify, infer and kernels read.
class OpView {
 public:
  OpView(const OpDef& def, std::vector<TensorType> ins, std::span<const Attr> attrs,
         std::vector<TensorType> outs = {})
      : def_(&def), ins_(std::move(ins)), attrs_(attrs.begin(), attrs.end()), outs_(std::move(outs)) {}

  const OpDef& def() const { return *def_; }
  std::size_t n_ins() const { return ins_.size(); }
  std::size_t n_outs() const { return outs_.size(); }
  /// Operand types in the order of OpDef::operands. `has(i)` tells whether an optional one stands.
  const TensorType& in(std::size_t i) const { return ins_.at(i); }
  const TensorType& out(std::size_t i = 0) const { return outs_.at(i); }
  bool has(std::size_t i) const { return i < ins_.size(); }

  /// Attributes by name. Pre: the attribute exists with that alternative.
  std::int64_t i64(std::string_view name) const { return std::get<std::int64_t>(attr(name)); }
  float f32(std::string_view name) const { return std::get<float>(attr(name)); }
  bool flag(std::string_view name) const { return std::get<bool>(attr(name)); }
  DType dtype(std::string_view name) const { return std::get<DType>(attr(name)); }
  const std::vector<std::int64_t>& i64s(std::string_view name) const {
    return std::get<Integers>(attr(name));
  }
  std::span<const Attr> attrs() const { return attrs_; }

  /// A broken constraint: `return op.broken("C2", "w is {}, rows of x are {} wide", ...)`.
  template <class... Args>
  tl::unexpected<Error> broken(std::string_view label, fmt::format_string<Args...> format,
                               Args&&... args) const {
    return invalid_input("{} {}: {}", def_->name, label, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  const Attr& attr(std::string_view name) const;

  const OpDef* def_;
  std::vector<TensorType> ins_;
  std::vector<Attr> attrs_;
  std::vector<TensorType> outs_;
};

}  // namespace dif::ir
