#include <algorithm>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "backends/cpu/convert.h"
#include "backends/cpu/cpu_features.h"
#include "backends/cpu/host_buffer.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/parallel.h"
#include "base/checked_math.h"

namespace dif::cpu {

namespace {

using dnnl::memory;
using runtime::BufferView;
using runtime::KernelArgs;

constexpr std::size_t kAlignment = 64;
/// Rows of x that one call takes where oneDNN would split sums by the number of threads.
constexpr std::int64_t kSerialRows = 96;
/// Rows of a weight matrix that are upcast at a time.
constexpr std::int64_t kUpcastRows = 512;

memory::data_type onednn_type(DType dtype) {
  return dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

/// y [M, N] = x [M, K] . transpose(w [N, K]) + bias [N], computed in `compute` over tensors of dtype `storage`.
class Linear final : public runtime::Kernel {
 public:
  Linear(const ir::OpView& op, DType compute)
      : storage_(op.in(0).dtype),
        compute_(compute),
        k_(op.in(1).dim(1)),
        n_(op.in(1).dim(0)),
        m_(op.out().numel() / n_),
        has_bias_(op.has(2)) {}

  Status prepare(const KernelRequest& request) {
    DIF_TRY(onednn_guarded("making a matrix product", [&] { make_primitives(); }));
    if (request.constants[1]) {
      const std::byte* w = request.constants[1].pointer();
      DIF_TRY(onednn_guarded("packing weights", [&] {
        if (needs_packing()) {
          packed_ = HostBuffer(weights_.get_size());
          pack(w, packed_.data());
          weights_packed_ = true;
        }
      }));
    }
    if (has_bias_ && request.constants[2]) {
      bias_.resize(static_cast<std::size_t>(n_));
      convert(storage_, request.constants[2].pointer(), DType::kF32, bias_.data(), n_);
    }
    lay_out_workspace(static_cast<bool>(request.constants[1]));
    return ok();
  }

  std::uint64_t workspace_bytes() const override { return workspace_bytes_; }
  std::uint64_t prepacked_bytes() const override { return packed_.bytes() + bias_.size() * sizeof(float); }
  bool reads_constant(std::size_t operand) const override {
    return !(operand == 1 && weights_packed_) && !(operand == 2 && !bias_.empty());
  }

  Status run(const KernelArgs& args) override {
    std::byte* const workspace = args.workspace.pointer();
    std::byte* x = args.in[0].data<std::byte>();
    std::byte* y = args.out[0].data<std::byte>();
    std::byte* w = args.in[1].data<std::byte>();
    const float* bias = nullptr;
    if (storage_ != compute_) {
      convert(storage_, x, compute_, workspace + x_at_, m_ * k_);
      x = workspace + x_at_;
      y = workspace + y_at_;
    }
    if (has_bias_) bias = bias_of(args, workspace);
    DIF_TRY(onednn_guarded("a matrix product", [&] {
      if (weights_packed_) {
        w = packed_.data();
      } else if (needs_packing()) {
        pack(w, workspace + weights_at_);
        w = workspace + weights_at_;
      }
      execute(x, w, bias, y, workspace + scratch_at_);
    }));
    if (storage_ != compute_) convert(compute_, y, storage_, args.out[0].data<std::byte>(), m_ * n_);
    return ok();
  }

 private:
  /// A primitive over some rows of x.
  struct Product {
    std::int64_t rows = 0;
    memory::desc x, bias, y;
    dnnl::matmul primitive;
    std::size_t scratch_bytes = 0;
  };

  /// Fixes weights_ when it is still empty.
  Product make_product(std::int64_t rows, std::string* implementation) {
    const auto type = onednn_type(compute_);
    const auto ab = memory::format_tag::ab;
    Product p;
    p.rows = rows;
    p.x = memory::desc({rows, k_}, type, ab);
    p.y = memory::desc({rows, n_}, type, ab);
    if (has_bias_) p.bias = memory::desc({1, n_}, memory::data_type::f32, ab);
    const memory::desc w =
        weights_.is_zero() ? memory::desc({k_, n_}, type, memory::format_tag::any) : weights_;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::desc what =
        has_bias_ ? dnnl::matmul::desc(p.x, w, p.bias, p.y) : dnnl::matmul::desc(p.x, w, p.y);
    const dnnl::matmul::primitive_desc how(what, attributes, onednn_engine());
    p.primitive = dnnl::matmul(how);
    p.scratch_bytes = how.scratchpad_desc().get_size();
    if (weights_.is_zero()) weights_ = how.weights_desc();
    *implementation = how.impl_info_str();
    return p;
  }

  void make_primitives() {
    std::string implementation;
    products_.push_back(make_product(m_, &implementation));
    // Outside its brgemm kernels oneDNN may split the sum over K by the number of threads. There each call is
    // given to one thread, with rows in blocks fixed by shape.
    serial_ = implementation.rfind("brg", 0) != 0;
    if (!serial_) return;
    products_.clear();
    weights_ = memory::desc({k_, n_}, onednn_type(compute_), memory::format_tag::ba);
    const std::int64_t rows = std::min(m_, kSerialRows);
    products_.push_back(make_product(rows, &implementation));
    if (m_ % rows != 0) products_.push_back(make_product(m_ % rows, &implementation));
  }

  memory::desc plain_weights(std::int64_t rows) const {
    return memory::desc({k_, rows}, onednn_type(compute_), memory::format_tag::ba);
  }

  bool needs_packing() const { return storage_ != compute_ || weights_ != plain_weights(n_); }

  /// From [N, K] in the storage dtype to weights_, some rows at a time where the layout has blocks of rows.
  void pack(const std::byte* from, std::byte* to) {
    if (storage_ == compute_) {
      reorder(from, plain_weights(n_), to, weights_);
      return;
    }
    const std::size_t row_bytes = static_cast<std::size_t>(k_) * dtype_size(storage_);
    std::vector<float> rows(static_cast<std::size_t>(k_ * std::min(n_, kUpcastRows)));
    for (std::int64_t first = 0; first < n_; first += kUpcastRows) {
      const std::int64_t count = std::min(kUpcastRows, n_ - first);
      convert(storage_, from + static_cast<std::size_t>(first) * row_bytes, DType::kF32, rows.data(),
              count * k_);
      const memory::desc part = weights_.submemory_desc({k_, count}, {0, first});
      reorder(reinterpret_cast<const std::byte*>(rows.data()), plain_weights(count), to, part);
    }
  }

  static void reorder(const std::byte* from, const memory::desc& from_desc, std::byte* to,
                      const memory::desc& to_desc) {
    memory source(from_desc, onednn_engine(), const_cast<std::byte*>(from));
    memory target(to_desc, onednn_engine(), to);
    dnnl::reorder(source, target).execute(onednn_stream(), source, target);
    onednn_stream().wait();
  }

  const float* bias_of(const KernelArgs& args, std::byte* workspace) const {
    if (!bias_.empty()) return bias_.data();
    if (storage_ == DType::kF32) return args.in[2].data<float>();
    auto* bias = reinterpret_cast<float*>(workspace + bias_at_);
    convert(storage_, args.in[2].data<std::byte>(), DType::kF32, bias, n_);
    return bias;
  }

  void execute_rows(const Product& product, std::byte* x, std::byte* w, const float* bias, std::byte* y,
                    std::byte* scratch) const {
    dnnl::engine& engine = onednn_engine();
    std::unordered_map<int, memory> arguments = {
        {DNNL_ARG_SRC, memory(product.x, engine, x)},
        {DNNL_ARG_WEIGHTS, memory(weights_, engine, w)},
        {DNNL_ARG_DST, memory(product.y, engine, y)},
        {DNNL_ARG_SCRATCHPAD,
         memory({{static_cast<memory::dim>(product.scratch_bytes)}, memory::data_type::u8,
                 memory::format_tag::a},
                engine, scratch)}};
    if (bias != nullptr)
      arguments.emplace(DNNL_ARG_BIAS, memory(product.bias, engine, const_cast<float*>(bias)));
    product.primitive.execute(onednn_stream(), arguments);
  }

  void execute(std::byte* x, std::byte* w, const float* bias, std::byte* y, std::byte* scratch) const {
    if (!serial_) {
      execute_rows(products_[0], x, w, bias, y, scratch);
      onednn_stream().wait();
      return;
    }
    const std::int64_t rows = products_[0].rows;
    const std::size_t size = dtype_size(compute_);
    for_blocks_balanced(ceil_div(m_, rows), scratch_slots_, [&](std::int64_t block, int slot) {
      const std::int64_t first = block * rows;
      const Product& product = first + rows <= m_ ? products_[0] : products_[1];
      const auto at = [&](std::int64_t width) { return static_cast<std::size_t>(first * width) * size; };
      execute_rows(product, x + at(k_), w, bias, y + at(n_),
                   scratch + static_cast<std::size_t>(slot) * scratch_slot_bytes_);
    });
  }

  void lay_out_workspace(bool constant_weights) {
    const auto take = [this](std::uint64_t bytes) {
      const std::uint64_t at = workspace_bytes_;
      workspace_bytes_ += align_up(bytes, kAlignment);
      return at;
    };
    if (storage_ != compute_) {
      x_at_ = take(static_cast<std::uint64_t>(m_ * k_) * dtype_size(compute_));
      y_at_ = take(static_cast<std::uint64_t>(m_ * n_) * dtype_size(compute_));
    }
    if (!constant_weights && needs_packing()) weights_at_ = take(weights_.get_size());
    if (has_bias_ && bias_.empty() && storage_ != DType::kF32)
      bias_at_ = take(static_cast<std::uint64_t>(n_) * sizeof(float));
    for (const Product& product : products_)
      scratch_slot_bytes_ = std::max(scratch_slot_bytes_, align_up(product.scratch_bytes, kAlignment));
    scratch_slots_ = serial_ ? thread_count() : 1;
    scratch_at_ = take(scratch_slot_bytes_ * static_cast<std::uint64_t>(scratch_slots_));
  }

  const DType storage_, compute_;
  const std::int64_t k_, n_, m_;
  const bool has_bias_;

  std::vector<Product> products_;  ///< all rows, or a block of rows and the last block
  memory::desc weights_;
  bool serial_ = false;
  HostBuffer packed_;
  bool weights_packed_ = false;
  std::vector<float> bias_;  ///< empty when it is not constant

  std::uint64_t workspace_bytes_ = 0, x_at_ = 0, y_at_ = 0, weights_at_ = 0, bias_at_ = 0, scratch_at_ = 0;
  std::size_t scratch_slot_bytes_ = 0;
  int scratch_slots_ = 1;
};

MakeResult make(const KernelRequest& request, DType compute) {
  const ir::OpView& op = *request.op;
  if (op.out().numel() == 0 || op.in(1).dim(1) == 0) return runtime::declined("nothing to multiply");
  auto kernel = std::make_unique<Linear>(op, compute);
  DIF_TRY(kernel->prepare(request));
  return kernel;
}

}  // namespace

MakeResult make_onednn_linear(const KernelRequest& request) {
  const DType dtype = request.op->in(0).dtype;
  if (dtype == DType::kF16) return runtime::declined("oneDNN has no f16 product");
  if (dtype == DType::kBF16 && default_dtype() != DType::kBF16)
    return runtime::declined("this processor does not multiply bf16 (needs avx512_bf16 or amx)");
  return make(request, dtype);
}

MakeResult make_upcast_linear(const KernelRequest& request) {
  return make(request, DType::kF32);
}

}  // namespace dif::cpu
