#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/row_operation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rotary/rotary.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/rows-inl.h"

#ifndef DIF_CPU_ROTARY_ONCE_
#define DIF_CPU_ROTARY_ONCE_
namespace dif::cpu {

/// Sizes and addresses of one run; `half` is R / 2.
struct RotaryRun {
  DType dtype = DType::kF32;
  std::int64_t tokens = 0, heads = 0, depth = 0, half = 0;
  bool interleaved = false;
  const void* x = nullptr;
  const float *cos = nullptr, *sin = nullptr;
  void* y = nullptr;
};

}  // namespace dif::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

// Of one token; `traffic` is its share.

template <class T>
void rotate_pairs(const RotaryRun& run, const float* cos, const float* sin, const Traffic& traffic,
                  const T* x, T* y) {
  const auto n = static_cast<std::size_t>(2 * run.half);
  // Each pair of lanes reads its cosine twice, and its sine with the sign of its product.
  HWY_ALIGN float cosines[kMostRotated], sines[kMostRotated];
  for (std::int64_t i = 0; i < run.half; ++i) {
    cosines[2 * i] = cosines[2 * i + 1] = cos[i];
    sines[2 * i] = -sin[i];
    sines[2 * i + 1] = sin[i];
  }
  const auto turned = [](VF v, VF c, VF s) {
    return hn::Add(hn::Mul(v, c), hn::Mul(hn::Reverse2(F(), v), s));
  };
  for (std::int64_t head = 0; head < run.heads; ++head)
    map_out(traffic.part(head, run.heads), n, y + head * run.depth, turned, x + head * run.depth,
            static_cast<const float*>(cosines), static_cast<const float*>(sines));
}

/// Two vectors have the first and the second elements of their pairs.
static void rotate_pairs(const RotaryRun& run, const float* cos, const float* sin, const Traffic& traffic,
                         const Bf16* x, Bf16* y) {
  const F d;
  const auto turned = [&](Two v, VF c, VF s) {
    return Two{hn::Sub(hn::Mul(v.a, c), hn::Mul(v.b, s)), hn::Add(hn::Mul(v.b, c), hn::Mul(v.a, s))};
  };
  const auto half = static_cast<std::size_t>(run.half);
  for (std::int64_t head = 0; head < run.heads; ++head, x += run.depth, y += run.depth) {
    const Traffic part = traffic.part(head, run.heads);
    fetch_lines(part.fetch, part.fetch_bytes);
    std::size_t i = 0;
    if (part.past_caches && reinterpret_cast<std::uintptr_t>(y) % 64 == 0)
      for (; i + kLanes <= half; i += kLanes)
        store_two<true>(d, turned(load_two(d, x + 2 * i), load(d, cos + i), load(d, sin + i)), y + 2 * i);
    for (; i + kLanes <= half; i += kLanes)
      store_two(d, turned(load_two(d, x + 2 * i), load(d, cos + i), load(d, sin + i)), y + 2 * i);
    if (i == half) continue;
    HWY_ALIGN Bf16 rest[2 * kLanes] = {};
    std::copy_n(x + 2 * i, 2 * (half - i), rest);
    store_two(d, turned(load_two(d, rest), load_n(d, cos + i, half - i), load_n(d, sin + i, half - i)), rest);
    std::copy_n(rest, 2 * (half - i), y + 2 * i);
  }
}

template <class T>
void rotate_halves(const RotaryRun& run, const float* cos, const float* sin, const Traffic& traffic,
                   const T* x, T* y) {
  const auto n = static_cast<std::size_t>(run.half);
  const auto first = [](VF a, VF b, VF c, VF s) { return hn::Sub(hn::Mul(a, c), hn::Mul(b, s)); };
  const auto second = [](VF a, VF b, VF c, VF s) { return hn::Add(hn::Mul(b, c), hn::Mul(a, s)); };
  for (std::int64_t head = 0; head < run.heads; ++head) {
    const T *const a = x + head * run.depth, *const b = a + run.half;
    map_out(traffic.part(2 * head, 2 * run.heads), n, y + head * run.depth, first, a, b, cos, sin);
    map_out(traffic.part(2 * head + 1, 2 * run.heads), n, y + head * run.depth + run.half, second, a, b, cos,
            sin);
  }
}

/// Rows row .. row+n_rows-1 of the B * S tokens; x and y begin at the first of them.
template <class T>
HWY_INLINE void rotate_tokens(const RotaryRun& run, std::int64_t row, std::int64_t n_rows,
                              const Traffic& traffic, const T* x, T* y) {
  for (std::int64_t i = 0; i < n_rows; ++i, ++row, x += run.heads * run.depth, y += run.heads * run.depth) {
    const float* const cos = run.cos + row % run.tokens * run.half;
    const float* const sin = run.sin + row % run.tokens * run.half;
    if (run.interleaved) {
      rotate_pairs(run, cos, sin, traffic.part(i, n_rows), x, y);
    } else {
      rotate_halves(run, cos, sin, traffic.part(i, n_rows), x, y);
    }
    const std::int64_t rest = run.depth - 2 * run.half;
    for (std::int64_t head = 0; rest != 0 && head < run.heads; ++head)
      std::copy_n(x + head * run.depth + 2 * run.half, rest, y + head * run.depth + 2 * run.half);
  }
}

static void rotary_block(const RotaryRun& run, std::int64_t row, std::int64_t n_rows) {
  with_storage(run.dtype, [&]<class T>(T) {
    const std::int64_t first = row * run.heads * run.depth;
    rotate_tokens(run, row, n_rows, {}, static_cast<const T*>(run.x) + first, static_cast<T*>(run.y) + first);
  });
}

static void rotary_rows(const RowBlock& block) {
  with_storage(block.operation->dtype, [&]<class T>(T) {
    const RowOperation& o = *block.operation;
    RotaryRun run;
    run.tokens = o.tokens;
    run.heads = o.heads;
    run.depth = o.columns;
    run.half = o.half;
    run.interleaved = o.interleaved;
    run.cos = block.in[1].as<float>();
    run.sin = block.in[2].as<float>();
    const std::int64_t token = o.heads * o.columns;
    rotate_tokens(run, block.first / token, block.n / token, block.traffic, block.in[0].as<T>(),
                  block.out_as<T>());
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(rotary_block);
HWY_EXPORT(rotary_rows);

MakeResult make_rotary(const KernelRequest& request) {
  class Rotary final : public runtime::Kernel {
   public:
    explicit Rotary(const ir::OpView& op) {
      const ir::TensorType& x = op.in(0);
      run_ = {x.dtype, x.dim(1), x.dim(2), x.dim(3), op.in(1).dim(1), op.flag("interleaved")};
      rows_ = x.dim(0) * x.dim(1);
    }

    Status run(const runtime::KernelArgs& args) override {
      RotaryRun run = run_;
      run.x = args.in[0].data<void>();
      run.cos = args.in[1].data<float>();
      run.sin = args.in[2].data<float>();
      run.y = args.out[0].data<void>();
      const auto rotate = HWY_DYNAMIC_DISPATCH(rotary_block);
      const std::int64_t rows = std::max<std::int64_t>(1, kBlockElements / (run.heads * run.depth));
      for_blocks(ceil_div(rows_, rows), [&](std::int64_t block) {
        rotate(run, block * rows, std::min(rows, rows_ - block * rows));
      });
      return ok();
    }

   private:
    RotaryRun run_;
    std::int64_t rows_ = 0;
  };
  const ir::OpView& op = *request.op;
  if (op.in(0).numel() == 0) return runtime::declined("there is nothing to rotate");
  if (const std::int64_t rotated = 2 * op.in(1).dim(1); rotated > kMostRotated)
    return runtime::declined("{} rotated dimensions > {}", rotated, kMostRotated);
  return std::make_unique<Rotary>(op);
}

RowFunction rows_of_rotary() {
  return HWY_DYNAMIC_DISPATCH(rotary_rows);
}

}  // namespace dif::cpu
#endif
