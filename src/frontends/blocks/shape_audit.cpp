#include "frontends/blocks/shape_audit.h"

#include "base/error.h"
#include "base/format.h"
#include "io/json.h"

namespace dif::frontends {

std::string ShapeAudit::describe(std::string_view tensor) const {
  const std::string name = weights_.locate(tensor).name;
  const io::TensorRef* found = weights_.checkpoint().find(name);
  return found == nullptr ? fmt::format("{} has no {}", weights_.label(), name)
                          : fmt::format("{} in {} is {}", name, weights_.label(), found->shape);
}

std::int64_t ShapeAudit::derived(std::string_view key, std::optional<std::int64_t> claimed,
                                 std::string_view tensor, std::int64_t stored) {
  if (claimed && *claimed != stored)
    problems_.push_back(
        fmt::format("{} = {}, but {}, which makes it {}", key, *claimed, describe(tensor), stored));
  return stored;
}

std::int64_t ShapeAudit::dimension(std::string_view key, std::optional<std::int64_t> claimed,
                                   std::string_view tensor, int axis) {
  const std::optional<Shape> shape = weights_.shape(tensor);
  if (shape && axis < shape->rank()) return derived(key, claimed, tensor, shape->dim(axis));
  if (!claimed)
    problems_.push_back(fmt::format("nothing says {}: there is no such file, and {}", key, describe(tensor)));
  return claimed.value_or(0);
}

std::int64_t ShapeAudit::blocks(std::string_view key, std::optional<std::int64_t> claimed,
                                std::initializer_list<std::string_view> numbered_names) {
  const std::int64_t stored = weights_.count(numbered_names);
  if (claimed && *claimed != stored)
    problems_.push_back(fmt::format("{} = {}, but {} holds {} of them ({})", key, *claimed, weights_.label(),
                                    stored, weights_.locate(*numbered_names.begin()).name));
  return stored;
}

bool ShapeAudit::part(std::string_view key, std::optional<bool> claimed, std::string_view tensor) {
  const bool stored = weights_.has(tensor);
  if (claimed && *claimed != stored)
    problems_.push_back(fmt::format("{} = {}, but {} {} {}", key, *claimed, weights_.label(),
                                    stored ? "holds" : "lacks", weights_.locate(tensor).name));
  return stored;
}

Status ShapeAudit::finish() const {
  if (problems_.empty()) return ok();
  return tl::unexpected(io::problem_list(config_, problems_));
}

}  // namespace dif::frontends
