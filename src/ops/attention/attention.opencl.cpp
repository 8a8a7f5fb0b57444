#include "backends/opencl/kernels.h"
#include "backends/opencl/tile_text.h"
#include "base/checked_math.h"

namespace dif::opencl {

namespace {

constexpr Groups kFlat = {64, 1, 1};
constexpr Groups kOne = {1, 1, 1};
/// Queries of one work-item, and keys that it looks at together.
constexpr Tile kTile = {6, 2};

/// q, k and v in f32, each head by itself: q [B Hq, Sq, D], keys transposed in blocks of 32
/// [B Hkv, ceil(Sk / 32), D, 32], values [B Hkv, 32 ceil(Sk / 32), Dv rounded up to 16]; zeros beyond Sk and
/// Dv.
constexpr const char* kGather = R"(
kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void gather_queries(@q_buffers@int queries, int heads, int depth) {
  VIEW(const @S@_bits, x);
  VIEW(float, y);
  const int d = get_global_id(0), query = get_global_id(1), batch_head = get_global_id(2);
  if (d >= depth) return;
  const int batch = batch_head / heads, head = batch_head % heads;
  y[((long)batch_head * queries + query) * depth + d] =
      load_@S@(x, (((long)batch * queries + query) * heads + head) * depth + d);
}

kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void gather_keys(@q_buffers@int keys, int heads, int depth) {
  VIEW(const @S@_bits, x);
  VIEW(float, y);
  const int d = get_global_id(0), first = get_global_id(1) * @keys@, batch_head = get_global_id(2);
  if (d >= depth) return;
  const int batch = batch_head / heads, head = batch_head % heads;
  y += (((long)batch_head * get_global_size(1) + get_global_id(1)) * depth + d) * @keys@;
  for (int j = 0; j < @keys@; ++j)
    y[j] = first + j < keys ? load_@S@(x, (((long)batch * keys + first + j) * heads + head) * depth + d) : 0.0f;
}

kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void gather_values(@q_buffers@int keys, int heads, int depth, int padded_depth) {
  VIEW(const @S@_bits, x);
  VIEW(float, y);
  const int d = get_global_id(0), key = get_global_id(1), batch_head = get_global_id(2);
  if (d >= padded_depth) return;
  const int batch = batch_head / heads, head = batch_head % heads;
  y[((long)batch_head * get_global_size(1) + key) * padded_depth + d] =
      key < keys && d < depth ? load_@S@(x, (((long)batch * keys + key) * heads + head) * depth + d) : 0.0f;
}
)";

/// Streams over blocks of keys with a running maximum and sum, so that nothing grows with Sq * Sk.
constexpr const char* kAttend = R"(
kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void attend(@buffers@int queries, int keys, int key_blocks, int heads, int key_heads, int depth, int value_depth,
            int padded_depth, int masked, int causal, float scale) {
  VIEW(const float, q);
  VIEW(const float, k);
  VIEW(const float, v);
  VIEW(const uchar, mask);
  VIEW(float, sums);
  VIEW(@S@_bits, y);
  const int first = get_global_id(0) * @rows@, head = get_global_id(1), batch = get_global_id(2);
  const int batch_head = batch * heads + head, key_head = batch * key_heads + head / (heads / key_heads);
  q += (long)batch_head * queries * depth;
  k += (long)key_head * key_blocks * depth * @keys@;
  v += (long)key_head * key_blocks * @keys@ * padded_depth;
  sums += ((long)batch_head * get_global_size(0) + get_global_id(0)) * @rows@ * padded_depth;
  mask += (long)batch * keys;
  for (int i = 0; i < @rows@ * padded_depth; ++i) sums[i] = 0;
  float most[@rows@], total[@rows@], rescale[@rows@], p[@rows@ * @keys@];
  for (int r = 0; r < @rows@; ++r) {
    most[r] = -INFINITY;
    total[r] = 0;
  }
@queries@  const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const int limit = causal ? min(keys, first + @rows@) : keys;
  for (int k0 = 0; k0 < limit; k0 += @keys@, k += depth * @keys@, v += @keys@ * padded_depth) {
@start@    for (int d = 0; d < depth; ++d) {
@score@    }
@save@    if (masked || causal || k0 + @keys@ > keys) {
      int seen[@keys@];
      for (int j = 0; j < @keys@; ++j) seen[j] = k0 + j < keys && (!masked || mask[k0 + j] != 0) ? -1 : 0;
      for (int r = 0; r < @rows@; ++r) {
        for (int j = 0; j < @keys@; j += 16) {
          int16 allowed = vload16(0, seen + j);
          if (causal) allowed &= k0 + j + lane <= first + r;
          const float16 s = vload16(0, p + r * @keys@ + j);
          vstore16(select((float16)(-INFINITY), s, allowed), 0, p + r * @keys@ + j);
        }
      }
    }
    for (int r = 0; r < @rows@; ++r) {
      float16 largest = -INFINITY, sum = 0;
      for (int j = 0; j < @keys@; j += 16) largest = fmax(largest, vload16(0, p + r * @keys@ + j));
      const float before = most[r];
      most[r] = fmax(before, max16(largest));
      const float base = most[r] == -INFINITY ? 0.0f : most[r];
      for (int j = 0; j < @keys@; j += 16) {
        const float16 e = exp(vload16(0, p + r * @keys@ + j) - base);
        sum += e;
        vstore16(e, 0, p + r * @keys@ + j);
      }
      rescale[r] = exp(before - base);
      total[r] = total[r] * rescale[r] + sum16(sum);
    }
    for (int d = 0; d < padded_depth; d += 16) {
@start_mix@      for (int j = 0; j < @keys@; ++j) {
@mix@      }
@save_mix@    }
  }
  for (int r = 0; r < @rows@ && first + r < queries; ++r) {
    const long at = (((long)batch * queries + first + r) * heads + head) * value_depth;
    for (int d = 0; d < value_depth; ++d)
      store_@S@(y, at + d, total[r] == 0.0f ? 0.0f : sums[r * padded_depth + d] / total[r]);
  }
}
)";

std::string text(DType dtype) {
  const std::string s = storage(dtype);
  const auto number = [](int n) { return fmt::format("{}", n); };
  const Tile mixed = {kTile.rows, 1};
  return prelude() +
         fill(kGather,
              {{"q_buffers", buffer_parameters({"x", "y"})}, {"S", s}, {"keys", number(kTile.columns())}}) +
         fill(kAttend,
              {{"buffers", buffer_parameters({"q", "k", "v", "mask", "sums", "y"})},
               {"S", s},
               {"rows", number(kTile.rows)},
               {"keys", number(kTile.columns())},
               {"queries",
                each_row(kTile,
                         "  global const float* q@r@ = q + (long)min(first + @r@, queries - 1) * depth;\n")},
               {"start", each_sum(kTile, "    float16 s@r@_@v@ = 0;\n")},
               {"score", multiply_add(kTile, "q@r@[d]",
                                      fmt::format("vload16(0, k + d * {} + 16 * @v@)", kTile.columns()))},
               {"save",
                each_sum(kTile, fmt::format("    vstore16(s@r@_@v@ * scale, 0, p + @r@ * {} + 16 * @v@);\n",
                                            kTile.columns()))},
               {"start_mix",
                each_sum(
                    mixed,
                    "      float16 s@r@_@v@ = vload16(0, sums + @r@ * padded_depth + d) * rescale[@r@];\n")},
               {"mix", multiply_add(mixed, fmt::format("p[@r@ * {} + j]", kTile.columns()),
                                    "vload16(0, v + j * padded_depth + d)")},
               {"save_mix",
                each_sum(mixed, "      vstore16(s@r@_@v@, 0, sums + @r@ * padded_depth + d);\n")}});
}

class Attention final : public runtime::Kernel {
 public:
  explicit Attention(const ir::OpView& op)
      : op_(op),
        batches_(op.in(0).dim(0)),
        queries_(op.in(0).dim(1)),
        heads_(op.in(0).dim(2)),
        depth_(op.in(0).dim(3)),
        keys_(op.in(1).dim(1)),
        key_heads_(op.in(1).dim(2)),
        value_depth_(op.in(2).dim(3)),
        padded_depth_(ceil_div(value_depth_, 16) * 16),
        key_blocks_(ceil_div(keys_, kTile.columns())),
        query_tiles_(ceil_div(queries_, kTile.rows)) {}

  Status prepare(const KernelRequest& request) {
    OpenClDevice& device = device_of(request.device);
    const std::string source = text(op_.out().dtype);
    DIF_ASSIGN(gather_queries_, device.kernel(source, "gather_queries", kFlat));
    DIF_ASSIGN(gather_keys_, device.kernel(source, "gather_keys", kFlat));
    DIF_ASSIGN(gather_values_, device.kernel(source, "gather_values", kFlat));
    DIF_ASSIGN(attend_, device.kernel(source, "attend", kOne));
    return ok();
  }

  Status run(const runtime::KernelArgs& args) override {
    if (op_.out().numel() == 0) return ok();
    std::uint64_t used = args.workspace.offset;
    const auto take = [&](std::uint64_t bytes) {
      const runtime::BufferView view = {args.workspace.base, used};
      used += bytes;
      return view;
    };
    const runtime::BufferView q = take(query_bytes()), k = take(key_bytes()), v = take(value_bytes()),
                              sums = take(sum_bytes());
    DIF_TRY(
        gather_queries_.launch({ceil_div(depth_, kFlat.x), queries_, batches_ * heads_},
                               {args.in[0].buffer, q, integer(queries_), integer(heads_), integer(depth_)}));
    DIF_TRY(
        gather_keys_.launch({ceil_div(depth_, kFlat.x), key_blocks_, batches_ * key_heads_},
                            {args.in[1].buffer, k, integer(keys_), integer(key_heads_), integer(depth_)}));
    DIF_TRY(gather_values_.launch(
        {ceil_div(padded_depth_, kFlat.x), key_blocks_ * kTile.columns(), batches_ * key_heads_},
        {args.in[2].buffer, v, integer(keys_), integer(key_heads_), integer(value_depth_),
         integer(padded_depth_)}));
    const bool masked = op_.has(3);
    return attend_.launch(
        {query_tiles_, heads_, batches_},
        {q, k, v, args.in[masked ? 3 : 0].buffer, sums, args.out[0].buffer, integer(queries_), integer(keys_),
         integer(key_blocks_), integer(heads_), integer(key_heads_), integer(depth_), integer(value_depth_),
         integer(padded_depth_), integer(masked ? 1 : 0), integer(op_.flag("causal") ? 1 : 0),
         op_.f32("scale")});
  }

  std::uint64_t workspace_bytes() const override {
    return query_bytes() + key_bytes() + value_bytes() + sum_bytes();
  }

 private:
  static std::int32_t integer(std::int64_t n) { return static_cast<std::int32_t>(n); }
  static std::uint64_t floats(std::int64_t n) {
    return align_up(static_cast<std::uint64_t>(n) * sizeof(float), 64);
  }
  std::uint64_t query_bytes() const { return floats(batches_ * heads_ * queries_ * depth_); }
  std::uint64_t key_bytes() const {
    return floats(batches_ * key_heads_ * key_blocks_ * kTile.columns() * depth_);
  }
  std::uint64_t value_bytes() const {
    return floats(batches_ * key_heads_ * key_blocks_ * kTile.columns() * padded_depth_);
  }
  std::uint64_t sum_bytes() const {
    return floats(batches_ * heads_ * query_tiles_ * kTile.rows * padded_depth_);
  }

  const ir::OpView& op_;
  const std::int64_t batches_, queries_, heads_, depth_, keys_, key_heads_, value_depth_, padded_depth_,
      key_blocks_, query_tiles_;
  ClKernel gather_queries_, gather_keys_, gather_values_, attend_;
};

}  // namespace

MakeResult make_attention(const KernelRequest& request) {
  DIF_TRY(computable(*request.op));
  auto kernel = std::make_unique<Attention>(*request.op);
  DIF_TRY(kernel->prepare(request));
  return kernel;
}

}  // namespace dif::opencl
