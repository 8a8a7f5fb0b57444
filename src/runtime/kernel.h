#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/op_def.h"
#include "plan/in_place.h"

namespace dif::runtime {

class Device;

/// Bytes of a device: a native handle (host: a pointer, CUDA: a device pointer, OpenCL: a cl_mem) and an
/// offset.
struct BufferView {
  void* base = nullptr;
  std::uint64_t offset = 0;

  /// Pre: the device addresses memory by pointer (host, CUDA).
  std::byte* pointer() const { return static_cast<std::byte*>(base) + offset; }
  explicit operator bool() const { return base != nullptr; }
  friend bool operator==(const BufferView&, const BufferView&) = default;
};

/// A tensor as a kernel sees it: row-major, aligned to 64 bytes unless it is bound by the caller of a run.
/// Dense, or with the pitch that the kernel was asked for.
struct TensorView {
  BufferView buffer;
  const ir::TensorType* type = nullptr;

  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(buffer.pointer());
  }
};

struct KernelArgs {
  std::span<const TensorView> in;  ///< in the order of the operands
  std::span<const TensorView>
      out;               ///< in the order of the results; never overlaps `in` except for a view operation
  BufferView workspace;  ///< workspace_bytes() bytes, undefined contents
};

/// One operation made ready to run many times. Kernels of one context run one after another.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual Status run(const KernelArgs& args) = 0;
  /// What only the device knew: asked after a run, once the device is done with it (an id outside its table).
  virtual Status finish() { return ok(); }
  /// Scratch bytes during one run; asked once after make.
  virtual std::uint64_t workspace_bytes() const { return 0; }
  /// Bytes of repacked weights that this kernel owns.
  virtual std::uint64_t prepacked_bytes() const { return 0; }
  /// Whether run() still reads constant operand i (false once it was repacked).
  virtual bool reads_constant(std::size_t operand) const {
    (void)operand;
    return true;
  }
  /// What its library was told to do where there was a choice, and why: for reports. Empty: there was none.
  virtual std::string choice() const { return {}; }
  /// Whether the operation leaves its device (runtime/host_fallback.h).
  virtual bool runs_on_host() const { return false; }
};

/// What a kernel may look at when it is made.
struct KernelRequest {
  const ir::OpView* op = nullptr;  ///< outlives the kernel
  Device* device = nullptr;
  /// Per operand: where its bytes are when it is a constant (folded constants included), else empty.
  std::span<const BufferView> constants;
  /// The constants hold no values yet: the kernel is asked what it would take, never run, and gone at once.
  bool plan_only = false;
  /// Per operand and result: how its elements lie. Empty, or not there: dense. Only what the backend's
  /// PitchRules allow is ever not.
  std::span<const plan::Pitch> in_pitches = {}, out_pitches = {};

  plan::Pitch in_pitch(std::size_t i) const { return i < in_pitches.size() ? in_pitches[i] : plan::Pitch(); }
  plan::Pitch out_pitch() const { return out_pitches.empty() ? plan::Pitch() : out_pitches[0]; }
};

using MakeKernel = Result<std::unique_ptr<Kernel>> (*)(const KernelRequest& request);

/// One line of a backend's kernel list. The list is ordered: for each operation the fastest kernel first; a
/// kernel that cannot serve a request returns declined(...), and the next one is asked.
struct KernelEntry {
  const ir::OpDef* op = nullptr;
  const char* name = "";  ///< what reports and --why print, e.g. "onednn_matmul"
  MakeKernel make = nullptr;
};

/// Why a kernel cannot serve, or why a group cannot hold an operation: `return declined("head_dim {} > 256",
/// d);`
template <class... Args>
tl::unexpected<Error> declined(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorCode::kDeclined, format, std::forward<Args>(args)...);
}

/// Where an operation of a group finds an operand.
struct GroupOperand {
  bool inside = false;      ///< the result of an earlier operation of the group, else an input of it
  std::uint32_t index = 0;  ///< into GroupRequest::ops, else into the kernel's `in`
};

inline constexpr std::uint32_t kNoOutput = UINT32_MAX;

/// One operation of a group. `op` has the types of operands and result as this operation sees them: views in
/// front of it are applied, which change the shape of a row and never its elements.
struct GroupOp {
  const ir::OpView* op = nullptr;      ///< outlives the kernel; its row rule is not kNone, its result one
  std::vector<GroupOperand> operands;  ///< in the order of the operation's operands
  std::uint32_t output = kNoOutput;    ///< index into the kernel's `out`; kNoOutput: read inside alone
};

/// What a group kernel may look at when it is made. Row r of a value is the elements / rows of it from r *
/// elements / rows on; row r of each result needs row r of the results inside (plan/fusion.h). Operands from
/// outside are dense tensors that the operation reads by its own rule, broadcast ones included. A group
/// kernel is a Kernel whose `in` and `out` are inputs and outputs of the group; each operation rounds to its
/// result's dtype, so that the bits are those of the single operations.
struct GroupRequest {
  std::span<const GroupOp> ops;  ///< in the order of execution
  std::int64_t rows = 0;
  /// Per input: where its bytes are when it is a constant (folded constants included), else empty.
  std::span<const BufferView> constants;
  std::size_t n_outputs = 0;
  Device* device = nullptr;
  bool plan_only = false;  ///< as in KernelRequest
  /// Per input and output of the group: as in KernelRequest.
  std::span<const plan::Pitch> in_pitches = {}, out_pitches = {};
};

using MakeGroupKernel = Result<std::unique_ptr<Kernel>> (*)(const GroupRequest& request);

/// One line of a backend's list of group kernels, ordered like the list of kernels. A group that every kernel
/// declines falls apart: its operations run one by one.
struct GroupKernelEntry {
  const char* name = "";
  MakeGroupKernel make = nullptr;
  bool takes_wholes = false;  ///< those of FusionRules::wholes and no others
};

/// A kernel that needs no preparation: `{&ops::kSilu, "reference", function_kernel<silu>}` with
/// `Status silu(const ir::OpView& op, const KernelArgs& args)`.
template <auto Function>
Result<std::unique_ptr<Kernel>> function_kernel(const KernelRequest& request) {
  class FunctionKernel final : public Kernel {
   public:
    explicit FunctionKernel(const ir::OpView* op) : op_(op) {}
    Status run(const KernelArgs& args) override { return Function(*op_, args); }

   private:
    const ir::OpView* op_;
  };
  return std::unique_ptr<Kernel>(new FunctionKernel(request.op));
}

}  // namespace dif::runtime
