#include "opt/rule.h"

#include <algorithm>

#include "base/check.h"
#include "opt/names.h"

namespace dif::opt {

using ir::OpId;
using ir::ValueId;

struct Term::Node {
  const ir::OpDef* def = nullptr;  ///< null: a variable or a chosen value
  const char* name = "";           ///< of the variable or of the operation's result; may be empty
  std::vector<Term> operands;
  bool any_operands = false;
  std::vector<ValueId> (*make_operands)(const Match&) = nullptr;
  ValueId (*choose)(const Match&) = nullptr;
  Attrs (*attrs)(const Match&) = nullptr;
  const char* like = "";
};

Term::Term(const char* variable) : node_(std::make_shared<Node>(Node{.name = variable})) {}

Term::Term(const ir::OpDef& def, std::vector<Term> operands)
    : node_(std::make_shared<Node>(Node{.def = &def, .operands = std::move(operands)})) {}

Term Term::of_any(const ir::OpDef& def) {
  return Term(std::make_shared<const Node>(Node{.def = &def, .any_operands = true}));
}

Term Term::of(const ir::OpDef& def, std::vector<ValueId> (*operands)(const Match&)) {
  return Term(std::make_shared<const Node>(Node{.def = &def, .make_operands = operands}));
}

Term Term::chosen(ValueId (*value)(const Match&)) {
  return Term(std::make_shared<const Node>(Node{.choose = value}));
}

Term Term::changed(const std::function<void(Node&)>& change) const {
  auto node = std::make_shared<Node>(*node_);
  change(*node);
  return Term(std::move(node));
}

Term Term::as(const char* name) const {
  return changed([&](Node& node) { node.name = name; });
}

Term Term::with(Attrs (*attrs)(const Match&)) const {
  return changed([&](Node& node) { node.attrs = attrs; });
}

Term Term::like(const char* name) const {
  return changed([&](Node& node) { node.like = name; });
}

ValueId Match::value(std::string_view name) const {
  const auto found = std::ranges::find(names_, name, [](const auto& entry) { return entry.first; });
  DIF_CHECK(found != names_.end());
  return found->second;
}

ir::OpView Match::view(std::string_view name) const {
  return editor_->view(editor_->program().values[value(name)].producer);
}

/// Finds the left side of a rule at a value.
class Matcher {
 public:
  explicit Matcher(Match& match) : match_(match) {}

  bool matches(const Term& term, ValueId value) {
    const Term::Node& node = *term.node_;
    if (node.def == nullptr) return bind(node.name, value);
    const ir::Op* op = match_.editor().producer(value);
    if (op == nullptr || op->def != node.def || op->results.front() != value) return false;
    if (!node.any_operands) {
      if (op->operands.size() != node.operands.size()) return false;
      for (std::size_t i = 0; i < op->operands.size(); ++i)
        if (!matches(node.operands[i], op->operands[i])) return false;
    }
    return *node.name == '\0' || bind(node.name, value);
  }

 private:
  bool bind(const char* name, ValueId value) {
    for (const auto& [known, bound] : match_.names_)
      if (known == name) return bound == value;
    match_.names_.emplace_back(name, value);
    return true;
  }

  Match& match_;
};

/// Makes the right side of a rule.
class Maker {
 public:
  Maker(Editor& editor, const Match& match, OpId root) : editor_(editor), match_(match), root_(root) {}

  Result<ValueId> make(const Term& term) {
    const Term::Node& node = *term.node_;
    if (node.choose != nullptr) return node.choose(match_);
    if (node.def == nullptr) return match_.value(node.name);
    std::vector<ValueId> operands;
    if (node.make_operands != nullptr) operands = node.make_operands(match_);
    for (const Term& operand : node.operands) {
      DIF_ASSIGN(const ValueId value, make(operand));
      operands.push_back(value);
    }
    Attrs attrs;
    if (node.attrs != nullptr)
      attrs = node.attrs(match_);
    else
      attrs = *node.like != '\0' ? match_.op(node.like).attrs : editor_.op(root_).attrs;
    return editor_.emit(root_, *node.def, std::move(operands), std::move(attrs));
  }

 private:
  Editor& editor_;
  const Match& match_;
  OpId root_;
};

namespace {

Result<bool> apply_at(Editor& editor, OpId root, const Rule& rule, Decisions& decisions) {
  const ValueId value = editor.op(root).results.front();
  Match match(editor);
  if (!Matcher(match).matches(rule.from, value)) return false;
  if (rule.when != nullptr && !rule.when(match)) return false;
  const std::string subject = subject_of(editor.program(), root);
  auto made = Maker(editor, match, root).make(rule.to);
  if (!made) return with_context(std::move(made.error()), "rule \"{}\"", rule.name);
  editor.replace(value, *made);
  decisions.push_back({"", subject, "rewritten", std::string(rule.name)});
  return true;
}

}  // namespace

Status apply(Editor& editor, const std::vector<Rule>& rules, Decisions& decisions) {
  // Rules shrink programs or move an operation one way, so this ends; the limit is for a pair of rules that
  // would undo each other, which no program may turn into a hang.
  const std::size_t limit = decisions.size() + 1000 + 50 * editor.program().ops.size();
  for (bool changed = true; changed;) {
    changed = false;
    for (const OpId root : editor.order()) {
      for (std::size_t i = 0; i < rules.size() && editor.is_alive(root); ++i) {
        DIF_ASSIGN(const bool applied, apply_at(editor, root, rules[i], decisions));
        changed = changed || applied;
      }
      if (decisions.size() > limit) return fail(ErrorCode::kInternal, "rewrite rules do not come to an end");
    }
  }
  return ok();
}

}  // namespace dif::opt
