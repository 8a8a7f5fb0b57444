#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/program.h"
#include "opt/decision.h"
#include "opt/editor.h"

/// Rewrite rules as data: a term on the left becomes a term on the right, when.
///
///     {.name = "transposes in a row are one",
///      .from = transpose(transpose("x").as("first")).as("second"),
///      .to = transpose("x").with([](const Match& m) { return Attrs{composed(m)}; })},
namespace dif::opt {

using Attrs = std::vector<ir::Attr>;

/// What the left side of a rule has found, by the names that the rule gives.
class Match {
 public:
  explicit Match(const Editor& editor) : editor_(&editor) {}

  const Editor& editor() const { return *editor_; }
  /// The value of a variable, or the result of a named operation. Pre: the left side has the name.
  ir::ValueId value(std::string_view name) const;
  const ir::TensorType& type(std::string_view name) const { return editor_->type(value(name)); }
  /// A named operation and its attributes.
  const ir::Op& op(std::string_view name) const { return *editor_->producer(value(name)); }
  ir::OpView view(std::string_view name) const;
  /// Whether one operation alone reads it.
  bool has_one_reader(std::string_view name) const { return editor_->has_one_reader(value(name)); }

 private:
  friend class Matcher;

  const Editor* editor_;
  std::vector<std::pair<std::string_view, ir::ValueId>> names_;
};

/// One side of a rule. Names are literals.
class Term {
 public:
  /// A variable: any value. The same name again stands for the same value.
  Term(const char* variable);
  /// An operation on terms.
  Term(const ir::OpDef& def, std::vector<Term> operands);

  /// Left: an operation on any operands. Right: on operands that are computed.
  static Term of_any(const ir::OpDef& def);
  static Term of(const ir::OpDef& def, std::vector<ir::ValueId> (*operands)(const Match&));
  /// Right: a value that is computed.
  static Term chosen(ir::ValueId (*value)(const Match&));

  /// Left: the name of the operation's result.
  Term as(const char* name) const;
  /// Right: the attributes that the operation gets; without it, those of the matched operation (the root).
  Term with(Attrs (*attrs)(const Match&)) const;
  /// Right: the attributes of a named operation.
  Term like(const char* name) const;

 private:
  friend class Matcher;
  friend class Maker;

  struct Node;
  explicit Term(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  Term changed(const std::function<void(Node&)>& change) const;

  std::shared_ptr<const Node> node_;
};

struct Rule {
  std::string_view name;  ///< says what it does: "transposes in a row are one"
  Term from;
  Term to;
  bool (*when)(const Match&) = nullptr;  ///< null: always
};

/// Applies the rules everywhere until none matches, and records what each did. Error: Internal.
Status apply(Editor& editor, const std::vector<Rule>& rules, Decisions& decisions);

}  // namespace dif::opt
