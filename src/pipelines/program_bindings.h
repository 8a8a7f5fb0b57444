#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "io/host_tensor.h"
#include "io/tensor_file.h"
#include "io/weight_bundle.h"
#include "ir/program.h"
#include "runtime/session.h"

/// What a command line binds to a program: tensors as ID=FILE, constants by a sealed bundle.
namespace dif {

/// One ID=FILE. ID is the name of an input or output, or the number of its value ("7" or "%7"); a name wins.
struct TensorArgument {
  std::string id;
  std::string file;  ///< FILE.diftensor or FILE.safetensors::NAME
};

/// Errors: InvalidInput (no '=', an empty side). `option` is for the message.
Result<TensorArgument> parse_tensor_argument(std::string_view option, std::string_view text);

/// The value that `id` names: its number, or a boundary of the provenance (a module path), an input's, a
/// constant's or an output's name. Errors: InvalidInput.
Result<ir::ValueId> find_value(const ir::Program& program, std::string_view id);
/// Position in program.inputs or program.outputs. Errors: InvalidInput, listing what there is.
Result<std::size_t> find_input(const ir::Program& program, std::string_view id);
Result<std::size_t> find_output(const ir::Program& program, std::string_view id);

/// A tensor for each input, in the program's order. An integer tensor is brought to the input's integer type
/// when every element fits. Errors: InvalidInput naming the input (bound twice, missing, another type),
/// NotFound, Io.
Result<std::vector<io::HostTensor>> read_inputs(const ir::Program& program,
                                                const std::vector<TensorArgument>& arguments);

/// Inputs that stay in their files: what has the input's type is used where it is mapped, the rest is read as
/// read_inputs does.
class MappedInputs {
 public:
  /// Errors: those of read_inputs.
  static Result<MappedInputs> open(const ir::Program& program, const std::vector<TensorArgument>& arguments);

  /// In the program's order; valid while this lives.
  std::vector<runtime::Binding> bindings();
  std::uint64_t mapped_bytes() const;
  /// After the last use. Errors: Io (a file that shrank meanwhile).
  Status check() const;

 private:
  struct Input {
    ir::TensorType type;
    std::optional<io::MappedOperand> mapped;
    io::HostTensor read;  ///< where it is not mapped
  };
  std::vector<Input> inputs_;
};

/// Writes tensors to FILE.diftensor or FILE.safetensors::NAME; those of one safetensors file together.
/// Errors: InvalidInput (a target twice), Io.
struct TensorToStore {
  std::string file;
  const io::HostTensor* tensor = nullptr;
};
Status store_tensors(const std::vector<TensorToStore>& tensors);

/// Whether a bundle's record holds every constant of `program`, of its type. Errors: InvalidInput, all of
/// them in one sentence, naming `source`.
Status check_constants(const ir::Program& program, const io::BundleRecord& record, std::string_view source);

/// The record of the bundle at `from`, sealed anew for `program` and for a bundle at `to`: the same tensors,
/// shard paths relative to the new place. Errors: those of check_constants.
Result<io::BundleRecord> rebind_bundle(const io::BundleRecord& record, const std::filesystem::path& from,
                                       const ir::Program& program, const std::filesystem::path& to);

/// The program's constants in its order. Errors: InvalidInput (the bundle was sealed for another program, a
/// constant is missing or has another type), naming the bundle.
Result<std::vector<runtime::ConstantBinding>> bind_constants(const ir::Program& program,
                                                             const io::WeightBundle& bundle);

}  // namespace dif
