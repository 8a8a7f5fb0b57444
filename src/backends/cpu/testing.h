#pragma once

#include <omp.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "backends/cpu/host_buffer.h"
#include "backends/cpu/storage.h"
#include "base/checked_math.h"
#include "ir/op_def.h"
#include "runtime/kernel.h"

/// Runs one kernel on host memory, for the tests and benchmarks of this backend.
namespace dif::cpu::testing {

/// A tensor with its own bytes, aligned like an arena.
class HostTensor {
 public:
  explicit HostTensor(const ir::TensorType& type) : type_(type), buffer_(type.bytes()) {
    std::memset(buffer_.data(), 0, buffer_.bytes());
  }

  const ir::TensorType& type() const { return type_; }
  std::byte* data() const { return buffer_.data(); }
  std::size_t bytes() const { return buffer_.bytes(); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(buffer_.data());
  }

  float get(std::int64_t i) const {
    float value = 0;
    with_storage(type_.dtype, [&]<class T>(T) { value = to_f32(as<T>()[i]); });
    return value;
  }
  void set(std::int64_t i, float value) const {
    with_storage(type_.dtype, [&]<class T>(T) { round_to(value, as<T>()[i]); });
  }

  bool same_bytes(const HostTensor& other) const {
    return bytes() == other.bytes() && std::memcmp(data(), other.data(), bytes()) == 0;
  }

 private:
  ir::TensorType type_;
  HostBuffer buffer_;
};

/// Uniform in (-1, 1) times `scale`, plus `offset`: the same numbers for the same seed.
inline HostTensor random_tensor(DType dtype, const Shape& shape, unsigned seed, float scale = 1,
                                float offset = 0) {
  HostTensor tensor({dtype, shape});
  std::minstd_rand generator(seed + 1);
  const std::int64_t n = shape.numel();
  for (std::int64_t i = 0; i < n; ++i) {
    const double unit = static_cast<double>(generator()) / 1073741824.0 - 1.0;
    tensor.set(i, static_cast<float>(unit) * scale + offset);
  }
  return tensor;
}

/// An operation with its operands, and a kernel for it.
class KernelRun {
 public:
  /// Operands whose index is in `constants` are shown to make() already.
  KernelRun(const ir::OpDef& def, std::vector<ir::Attr> attrs, std::vector<HostTensor> operands,
            std::vector<std::size_t> constants = {})
      : operands_(std::move(operands)), view_(view_of(def, attrs, operands_)), y_(view_.out()) {
    constants_.resize(operands_.size());
    for (const std::size_t i : constants) constants_[i] = {operands_[i].data(), 0};
  }
  KernelRun(const KernelRun&) = delete;

  Status make(runtime::MakeKernel make, runtime::Device* device = nullptr) {
    DIF_ASSIGN(kernel_, make({&view_, device, constants_}));
    workspace_ = HostBuffer(kernel_->workspace_bytes());
    std::memset(workspace_.data(), 0xff, workspace_.bytes());  // NaN: contents are undefined
    return ok();
  }

  Status run() {
    std::vector<runtime::TensorView> in;
    for (const HostTensor& operand : operands_) in.push_back({{operand.data(), 0}, &operand.type()});
    const runtime::TensorView out = {{y_.data(), 0}, &y_.type()};
    return kernel_->run({in, {&out, 1}, {workspace_.data(), 0}});
  }

  const ir::OpView& view() const { return view_; }
  runtime::Kernel& kernel() { return *kernel_; }
  const std::vector<HostTensor>& operands() const { return operands_; }
  const HostTensor& y() const { return y_; }

 private:
  static ir::OpView view_of(const ir::OpDef& def, const std::vector<ir::Attr>& attrs,
                            const std::vector<HostTensor>& operands) {
    std::vector<ir::TensorType> types;
    for (const HostTensor& operand : operands) types.push_back(operand.type());
    const ir::OpView ins(def, types, attrs);
    const Status verified = def.verify(ins);
    if (!verified) throw std::invalid_argument(verified.error().message);
    return ir::OpView(def, types, attrs, def.infer(ins));
  }

  std::vector<HostTensor> operands_;
  ir::OpView view_;
  HostTensor y_;
  std::vector<runtime::BufferView> constants_;
  std::unique_ptr<runtime::Kernel> kernel_;
  HostBuffer workspace_;
};

/// |a - b| / |b| over all elements in f64; infinite where one of them is not finite.
inline double relative_error(const HostTensor& a, const HostTensor& b) {
  double difference = 0, size = 0;
  const std::int64_t n = b.type().numel();
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = a.get(i), y = b.get(i);
    difference += (x - y) * (x - y);
    size += y * y;
  }
  const double error = std::sqrt(difference) / std::max(std::sqrt(size), 1e-300);
  return std::isfinite(error) ? error : HUGE_VAL;
}

/// Threads of the parallel regions that this thread starts, while it lives.
class Threads {
 public:
  explicit Threads(int n) : before_(omp_get_max_threads()) { omp_set_num_threads(n); }
  ~Threads() { omp_set_num_threads(before_); }
  Threads(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace dif::cpu::testing
