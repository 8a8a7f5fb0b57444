#include <algorithm>
#include <atomic>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/convert.h"
#include "backends/cpu/cpu_features.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/weight_cache.h"
#include "base/checked_math.h"

namespace dif::cpu {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using runtime::BufferView;
using runtime::KernelArgs;

constexpr std::size_t kAlignment = 64;
/// Rows of x and columns of y that one call takes where oneDNN would split sums by the number of threads.
constexpr std::int64_t kSerialRows = 96, kSerialColumns = 256;
/// Rows of a weight matrix that are packed at a time, where they are not kept.
constexpr std::int64_t kPanelRows = 512;

memory::data_type onednn_type(DType dtype) {
  return dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

/// y [M, N] = x [M, K] . transpose(w [N, K]) + bias [N], computed in `compute` over tensors of dtype
/// `storage`.
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
    DIF_TRY(onednn_making("making a matrix product", [&] { make_primitives(); }));
    if (needs_packing() && request.constants[1])
      DIF_TRY(onednn_making("packing weights", [&] { keep_packed(request); }));
    if (needs_packing() && !packed_.kept && !serial_)
      DIF_TRY(onednn_making("making matrix products", [&] { make_panels(); }));
    if (has_bias_ && request.constants[2]) {
      bias_.resize(static_cast<std::size_t>(n_));
      convert(storage_, request.constants[2].pointer(), DType::kF32, bias_.data(), n_);
    }
    lay_out_workspace();
    return ok();
  }

  std::uint64_t workspace_bytes() const override { return workspace_bytes_; }
  std::uint64_t prepacked_bytes() const override { return packed_.new_bytes + bias_.size() * sizeof(float); }
  bool reads_constant(std::size_t operand) const override {
    return !(operand == 1 && packed_.kept) && !(operand == 2 && !bias_.empty());
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
    std::byte* const scratch = workspace + scratch_at_;
    if (packed_.kept) {
      w = packed_.buffer->data();
    } else if (needs_packing() && serial_) {
      DIF_TRY(onednn_making("packing weights", [&] { pack(w, 0, n_, weights_, workspace + weights_at_); }));
      w = workspace + weights_at_;
    }
    if (panels_) {
      DIF_TRY(onednn_guarded("a matrix product",
                             [&] { execute_in_panels(x, w, bias, y, workspace + weights_at_, scratch); }));
    } else if (serial_) {
      DIF_TRY(execute_in_blocks(x, w, bias, y, scratch));
    } else {
      DIF_TRY(onednn_guarded("a matrix product", [&] { execute(products_[0], x, w, bias, y, scratch); }));
    }
    if (storage_ != compute_) convert(compute_, y, storage_, args.out[0].data<std::byte>(), m_ * n_);
    return ok();
  }

 private:
  /// A primitive for some rows of x and some columns of y.
  struct Product {
    std::int64_t rows = 0, columns = 0;
    memory::desc x, w, bias, y;
    dnnl::matmul primitive;
    std::size_t scratch_bytes = 0;
  };

  Product make_product(std::int64_t rows, std::int64_t columns, Tag weights, std::string* implementation) {
    const auto type = onednn_type(compute_);
    Product p;
    p.rows = rows;
    p.columns = columns;
    p.x = memory::desc({rows, k_}, type, Tag::ab);
    p.w = memory::desc({k_, columns}, type, weights);
    p.y = memory::desc({rows, columns}, type, memory::dims{n_, 1});
    if (has_bias_) p.bias = memory::desc({1, columns}, memory::data_type::f32, Tag::ab);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::desc what =
        has_bias_ ? dnnl::matmul::desc(p.x, p.w, p.bias, p.y) : dnnl::matmul::desc(p.x, p.w, p.y);
    const dnnl::matmul::primitive_desc how(what, attributes, onednn_engine());
    p.primitive = dnnl::matmul(how);
    p.scratch_bytes = how.scratchpad_desc().get_size();
    p.w = how.weights_desc();
    if (implementation != nullptr) *implementation = how.impl_info_str();
    return p;
  }

  void make_primitives() {
    std::string implementation;
    products_.push_back(make_product(m_, n_, Tag::any, &implementation));
    weights_ = products_[0].w;
    // Outside its brgemm kernels oneDNN may split the sum over K by the number of threads. There each call is
    // given to one thread, and the result is cut into blocks by shape.
    serial_ = implementation.rfind("brg", 0) != 0;
    if (!serial_) return;
    products_.clear();
    weights_ = plain_weights(n_);
    const OneThread one_thread;
    for (const std::int64_t rows : {std::min(m_, kSerialRows), m_ % kSerialRows})
      for (const std::int64_t columns : {std::min(n_, kSerialColumns), n_ % kSerialColumns})
        if (rows != 0 && columns != 0) products_.push_back(make_product(rows, columns, Tag::ba, nullptr));
  }

  memory::desc plain_weights(std::int64_t rows) const {
    return memory::desc({k_, rows}, onednn_type(compute_), Tag::ba);
  }

  bool needs_packing() const { return storage_ != compute_ || weights_ != plain_weights(n_); }

  /// Packs constant weights for as long as this kernel lives, if the cache has room for them.
  void keep_packed(const KernelRequest& request) {
    const std::string layout = layout_name(std::as_bytes(std::span(&weights_.data, 1)), storage_);
    packed_ = pack_constant(request, 1, layout, weights_.get_size(), [&](std::byte* to) {
      pack(request.constants[1].pointer(), 0, n_, weights_, to);
    });
  }

  /// Products of some columns of y each, whose weights are packed in every run.
  void make_panels() {
    products_.clear();
    panels_ = true;
    for (const std::int64_t columns : {std::min(n_, kPanelRows), n_ % kPanelRows})
      if (columns != 0 && (products_.empty() || columns != products_[0].columns))
        products_.push_back(make_product(m_, columns, Tag::any, nullptr));
  }

  /// Rows first .. first+n_rows-1 of [N, K] in the storage dtype to the layout `packed` of these rows, some
  /// at a time where they are upcast.
  void pack(const std::byte* from, std::int64_t first, std::int64_t n_rows, const memory::desc& packed,
            std::byte* to) const {
    const std::size_t row_bytes = static_cast<std::size_t>(k_) * dtype_size(storage_);
    from += static_cast<std::size_t>(first) * row_bytes;
    if (storage_ == compute_) {
      reorder(from, plain_weights(n_rows), to, packed);
      return;
    }
    std::vector<float> rows(static_cast<std::size_t>(k_ * std::min(n_rows, kPanelRows)));
    for (std::int64_t row = 0; row < n_rows; row += kPanelRows) {
      const std::int64_t count = std::min(kPanelRows, n_rows - row);
      convert(storage_, from + static_cast<std::size_t>(row) * row_bytes, DType::kF32, rows.data(),
              count * k_);
      const memory::desc part = packed.submemory_desc({k_, count}, {0, row});
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

  void execute(const Product& product, std::byte* x, std::byte* w, const float* bias, std::byte* y,
               std::byte* scratch) const {
    dnnl::engine& engine = onednn_engine();
    std::unordered_map<int, memory> arguments = {
        {DNNL_ARG_SRC, memory(product.x, engine, x)},
        {DNNL_ARG_WEIGHTS, memory(product.w, engine, w)},
        {DNNL_ARG_DST, memory(product.y, engine, y)},
        {DNNL_ARG_SCRATCHPAD,
         memory({{static_cast<memory::dim>(product.scratch_bytes)}, memory::data_type::u8, Tag::a}, engine,
                scratch)}};
    if (bias != nullptr)
      arguments.emplace(DNNL_ARG_BIAS, memory(product.bias, engine, const_cast<float*>(bias)));
    product.primitive.execute(onednn_stream(), arguments);
    onednn_stream().wait();
  }

  const Product& product_of(std::int64_t rows, std::int64_t columns) const {
    return *std::ranges::find_if(products_,
                                 [&](const Product& p) { return p.rows == rows && p.columns == columns; });
  }

  void execute_in_panels(std::byte* x, const std::byte* w, const float* bias, std::byte* y, std::byte* packed,
                         std::byte* scratch) const {
    for (std::int64_t first = 0; first < n_; first += kPanelRows) {
      const Product& product = product_of(m_, std::min(kPanelRows, n_ - first));
      pack(w, first, product.columns, product.w, packed);
      execute(product, x, packed, bias == nullptr ? bias : bias + first,
              y + first * static_cast<std::int64_t>(dtype_size(compute_)), scratch);
    }
  }

  /// Error: Internal, when oneDNN refuses one of the blocks.
  Status execute_in_blocks(std::byte* x, std::byte* w, const float* bias, std::byte* y,
                           std::byte* scratch) const {
    const std::int64_t row_blocks = ceil_div(m_, kSerialRows), column_blocks = ceil_div(n_, kSerialColumns);
    const auto size = static_cast<std::int64_t>(dtype_size(compute_));
    std::atomic<bool> failed = false;
    const auto block_of = [&](std::int64_t block, int slot) {
      const std::int64_t row = block / column_blocks * kSerialRows;
      const std::int64_t column = block % column_blocks * kSerialColumns;
      const Product& product =
          product_of(std::min(kSerialRows, m_ - row), std::min(kSerialColumns, n_ - column));
      const Status done = onednn_guarded("a block of a matrix product", [&] {
        execute(product, x + row * k_ * size, w + column * k_ * size, bias == nullptr ? bias : bias + column,
                y + (row * n_ + column) * size,
                scratch + static_cast<std::size_t>(slot) * scratch_slot_bytes_);
      });
      if (!done) failed = true;
    };
    if (row_blocks * column_blocks == 1) {
      const OneThread one_thread;
      block_of(0, 0);
    } else {
      for_blocks_balanced(row_blocks * column_blocks, scratch_slots_, block_of);
    }
    if (failed) return fail(ErrorCode::kInternal, "oneDNN refused a block of a matrix product");
    return ok();
  }

  void lay_out_workspace() {
    const auto take = [this](std::uint64_t bytes) {
      const std::uint64_t at = workspace_bytes_;
      workspace_bytes_ += align_up(bytes, kAlignment);
      return at;
    };
    if (storage_ != compute_) {
      x_at_ = take(static_cast<std::uint64_t>(m_ * k_) * dtype_size(compute_));
      y_at_ = take(static_cast<std::uint64_t>(m_ * n_) * dtype_size(compute_));
    }
    std::size_t weight_bytes = 0;
    if (needs_packing() && !packed_.kept && serial_) weight_bytes = weights_.get_size();
    if (panels_)
      for (const Product& product : products_) weight_bytes = std::max(weight_bytes, product.w.get_size());
    weights_at_ = take(weight_bytes);
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

  std::vector<Product> products_;  ///< one, or one per size of block or panel
  memory::desc weights_;
  bool serial_ = false, panels_ = false;
  WeightCache::Packed packed_;
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
  if (dtype == DType::kBF16 && !multiplies_bf16())
    return runtime::declined("oneDNN does not multiply bf16 here (needs avx512_bf16 or amx)");
  return make(request, dtype);
}

MakeResult make_upcast_linear(const KernelRequest& request) {
  if (request.op->in(0).dtype == DType::kF32) return runtime::declined("it is f32 already");
  return make(request, DType::kF32);
}

}  // namespace dif::cpu
