#include <algorithm>
#include <array>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/channel_layout.h"
#include "backends/cpu/convert.h"
#include "backends/cpu/cpu_features.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/weight_cache.h"
#include "base/checked_math.h"
#include "ops/conv2d/conv2d.op.h"

namespace dif::cpu {

namespace {

using dnnl::memory;
using runtime::KernelArgs;
using Tag = memory::format_tag;

constexpr std::size_t kAlignment = 64;
/// Bytes of blocked input and output that one call may have: it bounds the workspace, and between the change
/// of layout and the convolution they stay in the cache.
constexpr std::int64_t kBandBytes = 8 << 20;

/// A layout of activations that block_channels makes; width 0 means that all channels are innermost.
struct Layout {
  Tag tag;
  std::int64_t width;
};

constexpr Layout kPlanar = {Tag::nchw, 1}, kBlocked16 = {Tag::nChw16c, 16}, kBlocked8 = {Tag::nChw8c, 8},
                 kInnermost = {Tag::nhwc, 0};
/// Input and output, fastest first (AVX-512, AVX2, anything).
constexpr std::array<std::array<Layout, 2>, 6> kLayouts = {{{kBlocked16, kBlocked16},
                                                            {kPlanar, kBlocked16},
                                                            {kBlocked8, kBlocked8},
                                                            {kPlanar, kBlocked8},
                                                            {kInnermost, kInnermost},
                                                            {kPlanar, kPlanar}}};

struct Geometry : ops::Conv2dSizes {
  explicit Geometry(const ir::OpView& op)
      : Conv2dSizes(ops::conv2d_sizes(op)),
        stride_h(op.i64s("strides")[0]),
        stride_w(op.i64s("strides")[1]),
        top(op.i64s("pads")[0]),
        left(op.i64s("pads")[1]),
        bottom(op.i64s("pads")[2]),
        right(op.i64s("pads")[3]) {}

  std::int64_t stride_h, stride_w, top, left, bottom, right;
};

/// Output rows that one call computes, and the input rows and padding that it needs for them.
struct Band {
  std::int64_t out_first = 0, out_rows = 0, in_first = 0, in_rows = 0, top = 0, bottom = 0;

  bool same_shape(const Band& b) const {
    return out_rows == b.out_rows && in_rows == b.in_rows && top == b.top && bottom == b.bottom;
  }
};

Band band_of(const Geometry& g, std::int64_t first, std::int64_t rows) {
  Band band;
  band.out_first = first;
  band.out_rows = rows;
  const std::int64_t begin = first * g.stride_h - g.top;
  const std::int64_t end = (first + rows - 1) * g.stride_h - g.top + g.kh;
  band.in_first = std::clamp<std::int64_t>(begin, 0, g.h);
  band.in_rows = std::clamp<std::int64_t>(end, 0, g.h) - band.in_first;
  band.top = band.in_first - begin;
  band.bottom = end - band.in_first - band.in_rows;
  return band;
}

/// Convolution in `compute` over tensors of dtype `storage`, band by band of the image.
class Conv2d final : public runtime::Kernel {
 public:
  Conv2d(const ir::OpView& op, DType compute)
      : g_(op), storage_(op.in(0).dtype), compute_(compute), has_bias_(op.has(2)) {}

  Status prepare(const KernelRequest& request) {
    cut_into_bands();
    DIF_TRY(onednn_has_room());
    std::string error;
    for (const auto& [in, out] : kLayouts) {
      if (g_.channels_last && in.width != 0) continue;  // a band of rows is dense as it lies there
      if (try_layout(in, out, &error)) break;
    }
    if (calls_.empty()) return runtime::declined("oneDNN has no fast convolution for it: {}", error);
    if (request.constants[1]) {
      DIF_TRY(onednn_making("packing weights", [&] { keep_packed(request); }));
    }
    bias_.resize(static_cast<std::size_t>(has_bias_ ? g_.co : 0));
    if (has_bias_ && request.constants[2]) {
      convert(storage_, request.constants[2].pointer(), DType::kF32, bias_.data(), g_.co);
      bias_constant_ = true;
    }
    lay_out_workspace();
    return ok();
  }

  std::uint64_t workspace_bytes() const override { return workspace_bytes_; }
  std::uint64_t prepacked_bytes() const override { return packed_.new_bytes + bias_.size() * sizeof(float); }
  bool reads_constant(std::size_t operand) const override {
    return !(operand == 1 && packed_.kept) && !(operand == 2 && bias_constant_);
  }

  Status run(const KernelArgs& args) override {
    std::byte* const workspace = args.workspace.pointer();
    if (has_bias_ && !bias_constant_)
      convert(storage_, args.in[2].data<std::byte>(), DType::kF32, bias_.data(), g_.co);
    return onednn_guarded("a convolution", [&] {
      std::byte* weights = packed_.kept ? packed_.buffer->data() : nullptr;
      if (!packed_.kept) {
        weights = workspace + weights_at_;
        pack(args.in[1].data<std::byte>(), weights);
      }
      for (std::int64_t image = 0; image < g_.images; ++image)
        for (const Band& band : bands_) run_band(args, workspace, weights, image, band);
    });
  }

 private:
  /// A primitive for one shape of band.
  struct Call {
    Band band;
    memory::desc in, out;
    dnnl::convolution_forward primitive;
    std::size_t scratch_bytes = 0;
  };

  void cut_into_bands() {
    const auto size = static_cast<std::int64_t>(dtype_size(compute_));
    const std::int64_t row_bytes = (g_.co * g_.wo + g_.stride_h * g_.ci * g_.w) * size;
    const std::int64_t rows = std::clamp<std::int64_t>(kBandBytes / row_bytes, 4, g_.ho);
    for (std::int64_t first = 0; first < g_.ho; first += rows)
      bands_.push_back(band_of(g_, first, std::min(rows, g_.ho - first)));
  }

  bool try_layout(const Layout& in, const Layout& out, std::string* error) {
    in_width_ = in.width == 0 ? g_.ci : in.width;
    out_width_ = out.width == 0 ? g_.co : out.width;
    weights_ = memory::desc();
    bool fast = true;
    const Status made = onednn_guarded("making a convolution", [&] {
      for (const Band& band : bands_)
        if (fast && find_call(band) == nullptr) fast = make_call(band, in.tag, out.tag, error);
    });
    if (!made) *error = made.error().message;
    if (!made || !fast) calls_.clear();
    return made && fast;
  }

  /// False when oneDNN has only a slow implementation, or one whose sums may depend on the number of threads.
  bool make_call(const Band& band, Tag in, Tag out, std::string* error) {
    const auto type = compute_ == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
    Call call;
    call.band = band;
    call.in = memory::desc({1, g_.ci, band.in_rows, g_.w}, type, in);
    call.out = memory::desc({1, g_.co, band.out_rows, g_.wo}, type, out);
    const memory::desc w = weights_.is_zero() ? memory::desc(weight_dims(), type, Tag::any) : weights_;
    const memory::dims strides = {g_.stride_h, g_.stride_w}, begin = {band.top, g_.left},
                       end = {band.bottom, g_.right};
    constexpr auto kind = dnnl::prop_kind::forward_inference;
    constexpr auto algorithm = dnnl::algorithm::convolution_direct;
    using Desc = dnnl::convolution_forward::desc;
    const memory::desc bias({g_.co}, memory::data_type::f32, Tag::x);
    const Desc what = has_bias_ ? Desc(kind, algorithm, call.in, w, bias, call.out, strides, begin, end)
                                : Desc(kind, algorithm, call.in, w, call.out, strides, begin, end);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::convolution_forward::primitive_desc how(what, attributes, onednn_engine());
    const std::string implementation = how.impl_info_str();
    if (implementation.rfind("ref", 0) == 0 || implementation.find("gemm") != std::string::npos) {
      *error = "only " + implementation;
      return false;
    }
    call.primitive = dnnl::convolution_forward(how);
    call.scratch_bytes = how.scratchpad_desc().get_size();
    weights_ = how.weights_desc();
    calls_.push_back(std::move(call));
    return true;
  }

  const Call* find_call(const Band& band) const {
    const auto found =
        std::ranges::find_if(calls_, [&](const Call& call) { return call.band.same_shape(band); });
    return found == calls_.end() ? nullptr : &*found;
  }

  memory::dims weight_dims() const {
    if (g_.groups == 1) return {g_.co, g_.ci, g_.kh, g_.kw};
    return {g_.groups, g_.co / g_.groups, g_.ci / g_.groups, g_.kh, g_.kw};
  }

  /// Packs constant weights for as long as this kernel lives, if the cache has room for them.
  void keep_packed(const KernelRequest& request) {
    const std::string layout = layout_name(std::as_bytes(std::span(&weights_.data, 1)), storage_);
    packed_ = pack_constant(request, 1, layout, weights_.get_size(),
                            [&](std::byte* to) { pack(request.constants[1].pointer(), to); });
  }

  void pack(const std::byte* from, std::byte* to) {
    const std::int64_t count = g_.co * (g_.ci / g_.groups) * g_.kh * g_.kw;
    std::vector<float> upcast;
    if (storage_ != compute_) {
      upcast.resize(static_cast<std::size_t>(count));
      convert(storage_, from, DType::kF32, upcast.data(), count);
      from = reinterpret_cast<const std::byte*>(upcast.data());
    }
    const Tag first = g_.groups == 1 ? Tag::oihw : Tag::goihw, last = g_.groups == 1 ? Tag::ohwi : Tag::gohwi;
    const memory::desc plain(weight_dims(), weights_.data_type(), g_.channels_last ? last : first);
    memory source(plain, onednn_engine(), const_cast<std::byte*>(from)),
        target(weights_, onednn_engine(), to);
    dnnl::reorder(source, target).execute(onednn_stream(), source, target);
    onednn_stream().wait();
  }

  /// Whether the band lies in the caller's tensors as oneDNN reads or writes it. A stride may leave rows at
  /// the end of the image unread; then its channels lie further apart than those of the band.
  bool in_place(std::int64_t width) const {
    if (storage_ != compute_) return false;
    return g_.channels_last || (width == 1 && bands_.size() == 1 && bands_[0].in_rows == g_.h);
  }

  void run_band(const KernelArgs& args, std::byte* workspace, std::byte* weights, std::int64_t image,
                const Band& band) {
    const Call& call = *find_call(band);
    const std::size_t size = dtype_size(storage_);
    // Channels last, a row of the image has all of them; else a row of the first plane.
    const std::int64_t x_row =
        g_.channels_last ? image * g_.h + band.in_first : image * g_.ci * g_.h + band.in_first;
    const std::int64_t y_row =
        g_.channels_last ? image * g_.ho + band.out_first : image * g_.co * g_.ho + band.out_first;
    const std::int64_t x_width = g_.w * (g_.channels_last ? g_.ci : 1),
                       y_width = g_.wo * (g_.channels_last ? g_.co : 1);
    std::byte* const x = args.in[0].data<std::byte>() + static_cast<std::size_t>(x_row * x_width) * size;
    std::byte* const y = args.out[0].data<std::byte>() + static_cast<std::size_t>(y_row * y_width) * size;
    std::byte* const in = in_place(in_width_) ? x : workspace + in_at_;
    std::byte* const out = in_place(out_width_) ? y : workspace + out_at_;
    if (in != x && g_.channels_last)
      convert(storage_, x, compute_, in, band.in_rows * x_width);
    else if (in != x)
      block_channels({g_.ci, band.in_rows * g_.w, g_.h * g_.w}, storage_, x, in_width_, compute_, in);
    dnnl::engine& engine = onednn_engine();
    std::unordered_map<int, memory> arguments = {
        {DNNL_ARG_SRC, memory(call.in, engine, in)},
        {DNNL_ARG_WEIGHTS, memory(weights_, engine, weights)},
        {DNNL_ARG_DST, memory(call.out, engine, out)},
        {DNNL_ARG_SCRATCHPAD,
         memory({{static_cast<memory::dim>(call.scratch_bytes)}, memory::data_type::u8, Tag::x}, engine,
                workspace + scratch_at_)}};
    if (has_bias_)
      arguments.emplace(DNNL_ARG_BIAS,
                        memory({{g_.co}, memory::data_type::f32, Tag::x}, engine, bias_.data()));
    call.primitive.execute(onednn_stream(), arguments);
    onednn_stream().wait();
    if (out != y && g_.channels_last)
      convert(compute_, out, storage_, y, band.out_rows * y_width);
    else if (out != y)
      unblock_channels({g_.co, band.out_rows * g_.wo, g_.ho * g_.wo}, compute_, out, out_width_, storage_, y);
  }

  void lay_out_workspace() {
    std::size_t in_bytes = 0, out_bytes = 0, scratch_bytes = 0;
    for (const Call& call : calls_) {
      in_bytes = std::max(in_bytes, call.in.get_size());
      out_bytes = std::max(out_bytes, call.out.get_size());
      scratch_bytes = std::max(scratch_bytes, call.scratch_bytes);
    }
    const auto take = [this](std::size_t bytes) {
      const std::uint64_t at = workspace_bytes_;
      workspace_bytes_ += align_up(bytes, kAlignment);
      return at;
    };
    in_at_ = take(in_place(in_width_) ? 0 : in_bytes);
    out_at_ = take(in_place(out_width_) ? 0 : out_bytes);
    weights_at_ = take(packed_.kept ? 0 : weights_.get_size());
    scratch_at_ = take(scratch_bytes);
  }

  const Geometry g_;
  const DType storage_, compute_;
  const bool has_bias_;

  std::vector<Band> bands_;
  std::vector<Call> calls_;
  std::int64_t in_width_ = 1, out_width_ = 1;
  memory::desc weights_;
  WeightCache::Packed packed_;
  bool bias_constant_ = false;
  std::vector<float> bias_;

  std::uint64_t workspace_bytes_ = 0, in_at_ = 0, out_at_ = 0, weights_at_ = 0, scratch_at_ = 0;
};

MakeResult make(const KernelRequest& request, DType compute) {
  const ir::OpView& op = *request.op;
  if (op.out().numel() == 0 || op.in(1).numel() == 0) return runtime::declined("nothing to convolve");
  auto kernel = std::make_unique<Conv2d>(op, compute);
  DIF_TRY(kernel->prepare(request));
  return kernel;
}

}  // namespace

MakeResult make_onednn_conv2d(const KernelRequest& request) {
  const DType dtype = request.op->in(0).dtype;
  if (dtype == DType::kF16) return runtime::declined("oneDNN has no f16 convolution");
  if (dtype == DType::kBF16 && !multiplies_bf16())
    return runtime::declined("oneDNN does not multiply bf16 here (needs avx512_bf16 or amx)");
  return make(request, dtype);
}

MakeResult make_upcast_conv2d(const KernelRequest& request) {
  if (request.op->in(0).dtype == DType::kF32) return runtime::declined("it is f32 already");
  return make(request, DType::kF32);
}

}  // namespace dif::cpu
