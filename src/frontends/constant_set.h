#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "io/mapped_file.h"
#include "ir/program.h"

namespace dif::frontends {

/// Where the bytes of one constant are. The memory belongs to a mapped checkpoint or to the ConstantSet
/// itself.
struct ConstantRef {
  ir::TensorType type;
  const std::byte* data = nullptr;
  const io::MappedFile* file = nullptr;  ///< that holds the bytes; null when generated
  std::uint64_t file_offset = 0;         ///< of `data` within that file
};

/// The constants of one program by name: views of checkpoint tensors, and tables that a frontend or pipeline
/// made (rotary tables, schedules), which the set owns.
class ConstantSet {
 public:
  void add_view(std::string name, ConstantRef ref);
  /// Copies `values` as an f32 tensor of `shape`. Pre: values.size() == numel.
  void add_table(std::string name, const Shape& shape, const std::vector<float>& values);

  const ConstantRef* find(std::string_view name) const;
  bool is_generated(std::string_view name) const;
  const std::map<std::string, ConstantRef, std::less<>>& all() const { return refs_; }

  /// The refs in the order of program.constants. Errors: NotFound, InvalidInput (type differs), naming the
  /// constant.
  Result<std::vector<ConstantRef>> bind(const ir::Program& program) const;

 private:
  std::map<std::string, ConstantRef, std::less<>> refs_;
  std::map<std::string, std::shared_ptr<std::vector<float>>, std::less<>> tables_;
};

}  // namespace dif::frontends
