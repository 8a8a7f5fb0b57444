#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dif/shape.h"
#include "io/checkpoint.h"

namespace dif::frontends {

/// How a tensor of the reference framework is stored in a checkpoint: under which name, as which pieces of
/// axis 0, with or without the two trailing dimensions of a 1x1 convolution.
struct StoredTensor {
  std::string name;
  int parts = 1;                 ///< equal pieces of the stored axis 0 ...
  std::vector<int> order = {0};  ///< ... and the ones that make up the wanted tensor, one after another
  bool kernel_1x1 = false;       ///< stored as [O, I, 1, 1], wanted as [O, I]

  Shape stored_shape(const Shape& wanted) const;
  /// Nothing when a tensor of that shape cannot hold the wanted one.
  std::optional<Shape> wanted_shape(const Shape& stored) const;
  /// Every element of the stored tensor is wanted, where it is.
  bool is_whole() const { return parts == 1; }
};

/// The names under which a checkpoint stores what the graph code asks for by the reference framework's names.
class KeyLayout {
 public:
  virtual ~KeyLayout() = default;
  virtual StoredTensor locate(std::string_view name) const { return {std::string(name)}; }
};

/// A checkpoint read through a key layout. Both outlive it.
class WeightSource {
 public:
  WeightSource(const io::Checkpoint& checkpoint, const KeyLayout& layout)
      : checkpoint_(&checkpoint), layout_(&layout) {}

  const io::Checkpoint& checkpoint() const { return *checkpoint_; }
  /// The checkpoint's file, for messages.
  std::string label() const { return checkpoint_->path().string(); }
  StoredTensor locate(std::string_view name) const { return layout_->locate(name); }
  bool has(std::string_view name) const;
  /// The shape of tensor `name`, in the reference framework's layout.
  std::optional<Shape> shape(std::string_view name) const;
  /// 1 + the highest number that can stand for # so that one of the tensors exists; 0 when none does.
  std::int64_t count(std::initializer_list<std::string_view> numbered_names) const;

 private:
  const io::Checkpoint* checkpoint_;
  const KeyLayout* layout_;
};

/// `pattern` with its first # replaced by `number`.
std::string with_number(std::string_view pattern, std::int64_t number);

}  // namespace dif::frontends
