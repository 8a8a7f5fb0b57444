#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backends/cpu/cpu_features.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel.h"
#include "base/checked_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/transpose-inl.h"

// Keys stream past a group of queries that stay in the cache; the softmax is kept as a running maximum and
// sum (Milakov & Gimelshein 2018). Everything is transposed, with queries along the vector lanes:
//   S^T [keys, queries] = K . Q^T        O^T [width, queries] = V^T . P^T
// so that K and V are read as they lie, one element broadcast at a time, and the softmax runs down the lanes.
//
// Products of bf16 take two elements at a time: there an "element" of the buffers below is a word of two, of
// neighbouring columns of K and Q, and of neighbouring keys of V and P (probabilities are rounded to bf16).

#ifndef DIF_CPU_ATTENTION_ONCE_
#define DIF_CPU_ATTENTION_ONCE_
namespace dif::cpu {

/// Sizes and addresses of one run.
struct AttentionRun {
  DType dtype = DType::kF32;
  bool pairs = false;  ///< products of bf16 pairs
  std::int64_t batch = 0, n_queries = 0, n_keys = 0, heads = 0, key_heads = 0, depth = 0, width = 0;
  bool causal = false;
  float scale = 1;
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* y = nullptr;
  /// With a mask: the allowed keys of batch b, ascending, are allowed[b * n_keys ..], n_allowed[b] of them.
  const std::int32_t* allowed = nullptr;
  const std::int64_t* n_allowed = nullptr;
};

/// Cuts by shape: queries per task and the scratch memory of one task.
struct AttentionTiling {
  std::int64_t panel = 0;   ///< queries of one register panel
  std::int64_t panels = 0;  ///< panels of one task
  std::int64_t tasks = 0;
  std::size_t scratch_floats = 0;
};

}  // namespace dif::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

// Registers: kRows x kVectors sums, kVectors of one operand, one broadcast of the other.
#if HWY_TARGET <= HWY_AVX3
inline constexpr std::int64_t kRows = 8, kVectors = 3;
#elif HWY_TARGET <= HWY_AVX2
inline constexpr std::int64_t kRows = 4, kVectors = 3;
#else
inline constexpr std::int64_t kRows = 4, kVectors = 2;
#endif
inline constexpr std::int64_t kPanel = kVectors * static_cast<std::int64_t>(kLanes);
inline constexpr std::int64_t kKeys = 64;  ///< keys of one block

/// Rows of K and V in scratch memory: 16 floats more than a row, so that rows fall into different cache sets.
static std::int64_t row_stride(std::int64_t columns) {
  return static_cast<std::int64_t>(align_up(static_cast<std::size_t>(columns), 16)) + 16;
}

#if HWY_TARGET == HWY_AVX3
// Written in assembler because this instruction set of Highway does not include these instructions: the
// kernel is made only on processors that have them.

/// c + the products of the two bf16 of each word.
HWY_INLINE VF add_products(VF a, VF b, VF c) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(c.raw) : "v"(a.raw), "v"(b.raw));
  return c;
}

/// A word of each pair of lanes, `low` in its low half, rounded to bf16.
HWY_INLINE VF pair_up(F d, VF low, VF high) {
  alignas(64) static constexpr std::uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                           21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                           11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  (void)d;
  __m512i halves;  // the low ones first
  __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(halves) : "v"(low.raw), "v"(high.raw));
  return VF{_mm512_castsi512_ps(_mm512_permutexvar_epi16(_mm512_load_si512(kOrder), halves))};
}

inline constexpr bool kHasPairs = true;
#else
HWY_INLINE VF add_products(VF, VF, VF c) {
  return c;
}
HWY_INLINE VF pair_up(F, VF low, VF) {
  return low;
}
inline constexpr bool kHasPairs = false;
#endif

/// c[r][panel] = (first ? 0 : c[r][panel] * factor[panel]) + sum over i < n of a[r * row + i * step] *
/// b[i][panel]. With pairs and `first`, the sums are multiplied by *factor.
template <std::int64_t rows, bool first, bool pairs>
HWY_INLINE void multiply_rows(const float* HWY_RESTRICT a, std::int64_t row, std::int64_t step,
                              std::int64_t n, const float* HWY_RESTRICT b, const float* HWY_RESTRICT factor,
                              float* HWY_RESTRICT c) {
  const F d;
  VF sums[rows][kVectors];
#pragma GCC unroll 8
  for (std::int64_t v = 0; v < kVectors; ++v) {
    const std::int64_t at = v * static_cast<std::int64_t>(kLanes);
    const VF scale = first ? hn::Zero(d) : hn::Load(d, factor + at);
#pragma GCC unroll 8
    for (std::int64_t r = 0; r < rows; ++r)
      sums[r][v] = first ? hn::Zero(d) : hn::Mul(hn::Load(d, c + r * kPanel + at), scale);
  }
  for (std::int64_t i = 0; i < n; ++i, a += step, b += kPanel) {
    VF columns[kVectors];
#pragma GCC unroll 8
    for (std::int64_t v = 0; v < kVectors; ++v)
      columns[v] = hn::Load(d, b + v * static_cast<std::int64_t>(kLanes));
#pragma GCC unroll 8
    for (std::int64_t r = 0; r < rows; ++r) {
      const VF x = hn::Set(d, a[r * row]);
#pragma GCC unroll 8
      for (std::int64_t v = 0; v < kVectors; ++v)
        sums[r][v] = pairs ? add_products(x, columns[v], sums[r][v]) : hn::MulAdd(x, columns[v], sums[r][v]);
    }
  }
  const VF last = pairs && first && factor != nullptr ? hn::Set(d, *factor) : hn::Set(d, 1.0f);
#pragma GCC unroll 8
  for (std::int64_t r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (std::int64_t v = 0; v < kVectors; ++v)
      hn::Store(pairs && first ? hn::Mul(sums[r][v], last) : sums[r][v], d,
                c + r * kPanel + v * static_cast<std::int64_t>(kLanes));
}

template <bool first, bool pairs>
HWY_NOINLINE void multiply(std::int64_t n_rows, const float* a, std::int64_t row, std::int64_t step,
                           std::int64_t n, const float* b, const float* factor, float* c) {
  std::int64_t r = 0;
  for (; r + kRows <= n_rows; r += kRows)
    multiply_rows<kRows, first, pairs>(a + r * row, row, step, n, b, factor, c + r * kPanel);
  for (; r < n_rows; ++r)
    multiply_rows<1, first, pairs>(a + r * row, row, step, n, b, factor, c + r * kPanel);
}

/// One task: one head, `panels` panels of queries.
template <class T, bool pairs>
class AttentionTask {
 public:
  AttentionTask(const AttentionRun& run, const AttentionTiling& tiling, std::int64_t task, float* scratch)
      : run_(run),
        depth_(pairs ? run.depth / 2 : run.depth),
        depth_stride_(row_stride(depth_)),
        width_stride_(row_stride(run.width)) {
    const std::int64_t group = tiling.panel * tiling.panels;
    const std::int64_t groups = ceil_div(run.n_queries, group);
    batch_ = task / groups / run.heads;
    head_ = task / groups % run.heads;
    // Late queries see more keys when causal: they are the first tasks, so that none starts last.
    const std::int64_t g = run.causal ? groups - 1 - task % groups : task % groups;
    first_query_ = g * group;
    n_queries_ = std::min(group, run.n_queries - first_query_);
    n_panels_ = ceil_div(n_queries_, kPanel);
    const auto take = [&scratch](std::int64_t floats) {
      float* const p = scratch;
      scratch += align_up(static_cast<std::size_t>(floats), 16);
      return p;
    };
    queries_ = take(tiling.panels * depth_ * kPanel);
    sums_ = take(tiling.panels * run.width * kPanel);
    max_ = take(tiling.panels * kPanel);
    total_ = take(tiling.panels * kPanel);
    scores_ = take(kKeys * kPanel);
    factor_ = take(kPanel);
    keys_ = take(kKeys * depth_stride_);
    values_ = take(kKeys * width_stride_);
  }

  static std::size_t scratch_floats(std::int64_t depth, std::int64_t width, std::int64_t panels) {
    std::size_t floats = 0;
    const auto take = [&floats](std::int64_t n) { floats += align_up(static_cast<std::size_t>(n), 16); };
    take(panels * depth * kPanel);
    take(panels * width * kPanel);
    take(panels * kPanel);
    take(panels * kPanel);
    take(kKeys * kPanel);
    take(kPanel);
    take(kKeys * row_stride(depth));
    take(kKeys * row_stride(width));
    return floats;
  }

  void run() {
    load_queries();
    const std::int64_t n_allowed = run_.n_allowed != nullptr ? run_.n_allowed[batch_] : run_.n_keys;
    const std::int64_t last_query = first_query_ + n_queries_ - 1;
    bool first = true;
    for (std::int64_t begin = 0; begin < n_allowed; begin += kKeys) {
      if (run_.causal && key(begin) > last_query) break;
      const std::int64_t n = std::min(kKeys, n_allowed - begin);
      load_keys(begin, n);
      load_values(begin, n);
      for (std::int64_t p = 0; p < n_panels_; ++p) add_keys(p, begin, n, first);
      first = false;
    }
    if (first) std::fill_n(sums_, n_panels_ * run_.width * kPanel, 0.0f);
    store_result();
  }

 private:
  std::int64_t key(std::int64_t i) const {
    return run_.allowed != nullptr ? run_.allowed[batch_ * run_.n_keys + i] : i;
  }

  /// What scores are multiplied by: scale and log2(e), so that the softmax is in powers of two.
  float score_factor() const {
    return static_cast<float>(static_cast<double>(run_.scale) * 1.4426950408889634);
  }

  /// Q^T of each panel, times score_factor() unless they are pairs.
  void load_queries() {
    const F d;
    using Element = std::conditional_t<pairs, float, T>;  // a word is moved like an f32
    const std::int64_t stride = run_.heads * depth_;
    const Element* const q = static_cast<const Element*>(run_.q) +
                             ((batch_ * run_.n_queries + first_query_) * run_.heads + head_) * depth_;
    for (std::int64_t p = 0; p < n_panels_; ++p) {
      float* const panel = queries_ + p * depth_ * kPanel;
      const std::int64_t n = std::min(kPanel, n_queries_ - p * kPanel);
      const Element* const rows = q + p * kPanel * stride;
      std::int64_t j = 0;
      for (; j + 4 <= n; j += 4) {
        std::int64_t c = 0;
        for (; c + 4 <= depth_; c += 4)
          transpose4(rows + j * stride + c, stride, panel + c * kPanel + j, kPanel);
        for (; c < depth_; ++c)
          for (std::int64_t i = j; i < j + 4; ++i) panel[c * kPanel + i] = to_f32(rows[i * stride + c]);
      }
      for (; j < kPanel; ++j)
        for (std::int64_t c = 0; c < depth_; ++c)
          panel[c * kPanel + j] = j < n ? to_f32(rows[j * stride + c]) : 0.0f;
      for (std::int64_t i = 0; !pairs && i < depth_ * kPanel; i += static_cast<std::int64_t>(kLanes))
        hn::Store(hn::Mul(hn::Load(d, panel + i), hn::Set(d, score_factor())), d, panel + i);
    }
    for (std::int64_t i = 0; i < n_panels_ * kPanel; i += static_cast<std::int64_t>(kLanes)) {
      hn::Store(hn::Set(d, -std::numeric_limits<float>::infinity()), d, max_ + i);
      hn::Store(hn::Zero(d), d, total_ + i);
    }
  }

  /// Row of K or V of the i-th allowed key.
  const T* key_row(const void* from, std::int64_t columns, std::int64_t i) const {
    const std::int64_t key_head = head_ / (run_.heads / run_.key_heads);
    return static_cast<const T*>(from) +
           ((batch_ * run_.n_keys + key(i)) * run_.key_heads + key_head) * columns;
  }

  static void copy_row(const T* from, std::int64_t columns, float* to) {
    map(
        static_cast<std::size_t>(columns), to, [](VF v) { return v; }, from);
  }

  void load_keys(std::int64_t begin, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; ++i) {
      const T* const row = key_row(run_.k, run_.depth, begin + i);
      if constexpr (pairs) {
        std::memcpy(keys_ + i * depth_stride_, row, static_cast<std::size_t>(run_.depth) * sizeof(T));
      } else {
        copy_row(row, run_.depth, keys_ + i * depth_stride_);
      }
    }
  }

  void load_values(std::int64_t begin, std::int64_t n) const {
    if constexpr (pairs) {
      const auto both = [](VF low, VF high) {  // bf16 widened to f32 are the high halves of words
        const hn::RebindToUnsigned<F> d32;
        return hn::BitCast(F(), hn::Or(hn::ShiftRight<16>(hn::BitCast(d32, low)), hn::BitCast(d32, high)));
      };
      for (std::int64_t i = 0; i < n; i += 2) {
        float* const words = values_ + i / 2 * width_stride_;
        const T* const low = key_row(run_.v, run_.width, begin + i);
        if (i + 1 < n) {
          map(static_cast<std::size_t>(run_.width), words, both, low,
              key_row(run_.v, run_.width, begin + i + 1));
        } else {
          map(
              static_cast<std::size_t>(run_.width), words, [&](VF v) { return both(v, hn::Zero(F())); }, low);
        }
      }
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        copy_row(key_row(run_.v, run_.width, begin + i), run_.width, values_ + i * width_stride_);
    }
  }

  /// Streams keys begin .. begin+n-1 past panel p.
  void add_keys(std::int64_t p, std::int64_t begin, std::int64_t n, bool first) {
    const std::int64_t query = first_query_ + p * kPanel;
    float* const sums = sums_ + p * run_.width * kPanel;
    if (run_.causal && key(begin) >= query + kPanel) {
      if (first) std::fill_n(sums, run_.width * kPanel, 0.0f);
      return;
    }
    const float factor = score_factor();
    multiply<true, pairs>(n, keys_, depth_stride_, 1, depth_, queries_ + p * depth_ * kPanel, &factor,
                          scores_);
    if (run_.causal && key(begin + n - 1) > query) mask_scores(begin, n, query);
    softmax(n, max_ + p * kPanel, total_ + p * kPanel);
    const std::int64_t n_words = pairs ? ceil_div(n, 2) : n;
    if (first) {
      multiply<true, pairs>(run_.width, values_, 1, width_stride_, n_words, scores_, nullptr, sums);
    } else {
      multiply<false, pairs>(run_.width, values_, 1, width_stride_, n_words, scores_, factor_, sums);
    }
  }

  /// Minus infinity where a key lies after the query.
  void mask_scores(std::int64_t begin, std::int64_t n, std::int64_t query) {
    const F d;
    const hn::RebindToSigned<F> di;
    const VF minus_infinity = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (std::int64_t i = 0; i < n; ++i) {
      const auto after = hn::Set(di, static_cast<std::int32_t>(key(begin + i) - query));
      for (std::int64_t at = 0; at < kPanel; at += static_cast<std::int64_t>(kLanes)) {
        float* const s = scores_ + i * kPanel + at;
        const auto hidden = hn::RebindMask(d, hn::Gt(after, hn::Iota(di, static_cast<std::int32_t>(at))));
        hn::Store(hn::IfThenElse(hidden, minus_infinity, hn::Load(d, s)), d, s);
      }
    }
  }

  /// Turns scores into 2^(score - maximum), pairs into words, and sets factor_ to what rescales earlier sums.
  void softmax(std::int64_t n, float* HWY_RESTRICT maximum, float* HWY_RESTRICT total) {
    const F d;
    const VF minus_infinity = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (std::int64_t at = 0; at < kPanel; at += static_cast<std::int64_t>(kLanes)) {
      float* const s = scores_ + at;
      VF m0 = hn::Load(d, maximum + at), m1 = m0;
      const VF before = m0;
      std::int64_t i = 0;
      for (; i + 2 <= n; i += 2) {
        m0 = hn::Max(m0, hn::Load(d, s + i * kPanel));
        m1 = hn::Max(m1, hn::Load(d, s + (i + 1) * kPanel));
      }
      if (i < n) m0 = hn::Max(m0, hn::Load(d, s + i * kPanel));
      const VF m = hn::Max(m0, m1);
      // A query that has not seen any key has the maximum -inf; -inf - -inf would be NaN.
      const VF base = hn::IfThenZeroElse(hn::Eq(m, minus_infinity), m);
      const VF factor = exp2_nonpositive(d, hn::Sub(before, base));
      VF t0 = hn::Zero(d), t1 = t0;
      for (i = 0; i + 2 <= n; i += 2) {
        const VF p0 = exp2_nonpositive(d, hn::Sub(hn::Load(d, s + i * kPanel), base));
        const VF p1 = exp2_nonpositive(d, hn::Sub(hn::Load(d, s + (i + 1) * kPanel), base));
        if constexpr (pairs) {
          hn::Store(pair_up(d, p0, p1), d, s + i / 2 * kPanel);
        } else {
          hn::Store(p0, d, s + i * kPanel);
          hn::Store(p1, d, s + (i + 1) * kPanel);
        }
        t0 = hn::Add(t0, p0);
        t1 = hn::Add(t1, p1);
      }
      if (i < n) {
        const VF p0 = exp2_nonpositive(d, hn::Sub(hn::Load(d, s + i * kPanel), base));
        if constexpr (pairs) {
          hn::Store(pair_up(d, p0, hn::Zero(d)), d, s + i / 2 * kPanel);
        } else {
          hn::Store(p0, d, s + i * kPanel);
        }
        t0 = hn::Add(t0, p0);
      }
      hn::Store(m, d, maximum + at);
      hn::Store(factor, d, factor_ + at);
      hn::Store(hn::MulAdd(hn::Load(d, total + at), factor, hn::Add(t0, t1)), d, total + at);
    }
  }

  /// y = O / total, zeros where no key was allowed.
  void store_result() {
    const F d;
    const std::int64_t stride = run_.heads * run_.width;
    T* const y = static_cast<T*>(run_.y) +
                 ((batch_ * run_.n_queries + first_query_) * run_.heads + head_) * run_.width;
    for (std::int64_t p = 0; p < n_panels_; ++p) {
      float* const sums = sums_ + p * run_.width * kPanel;
      for (std::int64_t at = 0; at < kPanel; at += static_cast<std::int64_t>(kLanes)) {
        const VF total = hn::Load(d, total_ + p * kPanel + at);
        const VF inverse = hn::IfThenZeroElse(hn::Eq(total, hn::Zero(d)), hn::Div(hn::Set(d, 1.0f), total));
        for (std::int64_t c = 0; c < run_.width; ++c)
          hn::Store(hn::Mul(hn::Load(d, sums + c * kPanel + at), inverse), d, sums + c * kPanel + at);
      }
      const std::int64_t n = std::min(kPanel, n_queries_ - p * kPanel);
      T* const rows = y + p * kPanel * stride;
      std::int64_t j = 0;
      for (; j + 4 <= n; j += 4) {
        std::int64_t c = 0;
        for (; c + 4 <= run_.width; c += 4)
          transpose4(sums + c * kPanel + j, kPanel, rows + j * stride + c, stride);
        for (; c < run_.width; ++c)
          for (std::int64_t i = j; i < j + 4; ++i) round_to(sums[c * kPanel + i], rows[i * stride + c]);
      }
      for (; j < n; ++j)
        for (std::int64_t c = 0; c < run_.width; ++c) round_to(sums[c * kPanel + j], rows[j * stride + c]);
    }
  }

  const AttentionRun& run_;
  const std::int64_t depth_;  ///< elements of a query or key, pairs counted once
  const std::int64_t depth_stride_, width_stride_;
  std::int64_t batch_, head_, first_query_, n_queries_, n_panels_;
  float *queries_, *sums_, *max_, *total_, *scores_, *factor_, *keys_, *values_;
};

static AttentionTiling attention_tiling(const AttentionRun& run) {
  // Queries and sums of a task stay in the cache of a core beside a block of keys and values.
  constexpr std::int64_t kCacheFloats = 96 << 10;
  AttentionTiling tiling;
  tiling.panel = kPanel;
  const std::int64_t n_panels = ceil_div(run.n_queries, kPanel), n_heads = run.batch * run.heads;
  tiling.panels = std::clamp<std::int64_t>(kCacheFloats / (kPanel * (run.depth + run.width)), 1, 4);
  // Enough tasks for the threads of a large machine, as long as there are queries.
  while (tiling.panels > 1 && n_heads * ceil_div(n_panels, tiling.panels) < 64) --tiling.panels;
  tiling.tasks = n_heads * ceil_div(n_panels, tiling.panels);
  tiling.scratch_floats = AttentionTask<float, false>::scratch_floats(run.depth, run.width, tiling.panels);
  return tiling;
}

static void attention_task(const AttentionRun& run, const AttentionTiling& tiling, std::int64_t task,
                           float* scratch) {
  if (run.pairs) {
    if constexpr (kHasPairs) AttentionTask<Bf16, true>(run, tiling, task, scratch).run();
    return;
  }
  with_storage(run.dtype, [&]<class T>(T) { AttentionTask<T, false>(run, tiling, task, scratch).run(); });
}

static bool attention_has_pairs() {
  return kHasPairs;
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(attention_tiling);
HWY_EXPORT(attention_task);
HWY_EXPORT(attention_has_pairs);

namespace {

class Attention final : public runtime::Kernel {
 public:
  Attention(const ir::OpView& op, bool pairs) : has_mask_(op.has(3)) {
    const ir::TensorType &q = op.in(0), &k = op.in(1), &v = op.in(2);
    run_.dtype = q.dtype;
    run_.pairs = pairs;
    run_.batch = q.dim(0);
    run_.n_queries = q.dim(1);
    run_.heads = q.dim(2);
    run_.depth = q.dim(3);
    run_.n_keys = k.dim(1);
    run_.key_heads = k.dim(2);
    run_.width = v.dim(3);
    run_.causal = op.flag("causal");
    run_.scale = op.f32("scale");
    tiling_ = HWY_DYNAMIC_DISPATCH(attention_tiling)(run_);
    slots_ = static_cast<int>(std::min<std::int64_t>(thread_count(), tiling_.tasks));
    const auto batch = static_cast<std::size_t>(run_.batch);
    if (has_mask_) {
      counts_at_ = align_up(batch * static_cast<std::size_t>(run_.n_keys) * sizeof(std::int32_t), 64);
      scratch_at_ = counts_at_ + align_up(batch * sizeof(std::int64_t), 64);
    }
  }

  std::uint64_t workspace_bytes() const override {
    return scratch_at_ + static_cast<std::size_t>(slots_) * tiling_.scratch_floats * sizeof(float);
  }

  Status run(const runtime::KernelArgs& args) override {
    AttentionRun run = run_;
    run.q = args.in[0].data<void>();
    run.k = args.in[1].data<void>();
    run.v = args.in[2].data<void>();
    run.y = args.out[0].data<void>();
    std::byte* const workspace = args.workspace.pointer();
    if (has_mask_) {
      auto* const allowed = reinterpret_cast<std::int32_t*>(workspace);
      auto* const counts = reinterpret_cast<std::int64_t*>(workspace + counts_at_);
      list_allowed(args.in[3].data<std::uint8_t>(), allowed, counts);
      run.allowed = allowed;
      run.n_allowed = counts;
    }
    auto* const scratch = reinterpret_cast<float*>(workspace + scratch_at_);
    const auto task_of = HWY_DYNAMIC_DISPATCH(attention_task);
    for_blocks_balanced(tiling_.tasks, slots_, [&](std::int64_t task, int slot) {
      task_of(run, tiling_, task, scratch + static_cast<std::size_t>(slot) * tiling_.scratch_floats);
    });
    return ok();
  }

 private:
  /// Masked keys are left out altogether: they cost nothing, and padding does not change a bit.
  void list_allowed(const std::uint8_t* mask, std::int32_t* allowed, std::int64_t* counts) const {
    for (std::int64_t b = 0; b < run_.batch; ++b) {
      std::int64_t n = 0;
      for (std::int64_t i = 0; i < run_.n_keys; ++i)
        if (mask[b * run_.n_keys + i] != 0) allowed[b * run_.n_keys + n++] = static_cast<std::int32_t>(i);
      counts[b] = n;
    }
  }

  const bool has_mask_;
  AttentionRun run_;
  AttentionTiling tiling_;
  int slots_ = 1;
  std::size_t counts_at_ = 0, scratch_at_ = 0;
};

MakeResult make(const ir::OpView& op, bool pairs) {
  if (op.out().numel() == 0) return runtime::declined("there is no result to compute");
  if (op.in(1).dim(1) > std::numeric_limits<std::int32_t>::max())
    return runtime::declined("{} keys are more than 2^31 - 1", op.in(1).dim(1));
  return std::make_unique<Attention>(op, pairs);
}

}  // namespace

MakeResult make_bf16_attention(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  if (op.in(0).dtype != DType::kBF16) return runtime::declined("it is not bf16");
  if (!cpu_features().avx512_bf16 || !multiplies_bf16() || !HWY_DYNAMIC_DISPATCH(attention_has_pairs)())
    return runtime::declined("products of bf16 are not used here (they need avx512_bf16)");
  if (op.in(0).dim(3) % 2 != 0) return runtime::declined("head_dim {} is odd", op.in(0).dim(3));
  return make(op, true);
}

MakeResult make_attention(const KernelRequest& request) {
  return make(*request.op, false);
}

}  // namespace dif::cpu
#endif
