#include "backends/cuda/swiglu_text.h"

#include <fmt/format.h>

#include "backends/cuda/kernels.h"
#include "backends/cuda/source.h"

namespace dif::cuda {

namespace {

/// What the instructions are called here.
constexpr const char* kInstructions = R"(
struct alignas(64) TensorMap { unsigned long long words[16]; };

inline unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

inline void make_barrier(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
inline void expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Nothing that the thread wrote is to be seen there: a wider fence at every step costs as much as the products.
inline void arrive_in(unsigned barrier, unsigned block) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(barrier), "r"(block)
      : "memory");
}
inline void wait(unsigned barrier, unsigned parity) {
  unsigned done;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
  } while (!done);
}
inline void meet_cluster() { asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory"); }
inline void meet_warpgroup(unsigned group) {
  asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
}

inline void fetch(unsigned to, const TensorMap& map, int column, int row, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier) : "memory");
}
inline void fetch_for_both(unsigned to, const TensorMap& map, int column, int row, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier), "h"((unsigned short)3) : "memory");
}
inline void put(const TensorMap& map, int column, int row, unsigned from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(column),
               "r"(row), "r"(from) : "memory");
}

// Rows of 128 bytes, swizzled in groups of 8 rows.
inline unsigned long long description(unsigned address) {
  return (unsigned long long)((address & 0x3ffff) >> 4) | 1ull << 16 | (1024ull >> 4) << 32 | 1ull << 62;
}
// 64 rows of a times 256 rows of b, 16 deep.
inline void multiply(float (&sums)[128], unsigned long long a, unsigned long long b, int adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {@places@}, %128, %129, p, 1, 1, 0, 0;\n}"
      : @sums@
      : "l"(a), "l"(b), "r"(adds));
}
)";

constexpr const char* kKernel = R"(
constexpr int kRows = 128, kColumns = 128, kDepth = 64, kStages = 4, kBand = @band@;
constexpr unsigned kTile = 128 * kDepth * 2, kStage = 3 * kTile, kStaging = kStages * kStage;
constexpr unsigned kBarriers = kStaging + kRows * kColumns * 2;

inline unsigned pack(float low, float high) {
  unsigned result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}
inline float low_of(unsigned v) { return __uint_as_float(v << 16); }
inline float high_of(unsigned v) { return __uint_as_float(v & 0xffff0000u); }
inline float silu(float x) { return @silu@; }
// Of two elements, each rounded as by the operations one after the other.
inline unsigned swiglu(unsigned gate, unsigned up) {
  const unsigned bent = pack(silu(low_of(gate)), silu(high_of(gate)));
  return pack(low_of(bent) * low_of(up), high_of(bent) * high_of(up));
}

extern "C" __global__ void __launch_bounds__(384, 1) __cluster_dims__(2, 1, 1)
multiply_swiglu(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap gate_map,
                const __grid_constant__ TensorMap up_map, const __grid_constant__ TensorMap y_map, int row_pairs,
                int columns, int steps) {
  extern __shared__ unsigned char memory[];
  const unsigned base = (shared_address(memory) + 1023) & ~1023u;
  const unsigned full = base + kBarriers, empty = full + 8 * kStages;
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      make_barrier(full + 8 * s, 1);
      make_barrier(empty + 8 * s, 16);  // warps that multiply, of both blocks
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  meet_cluster();

  const int tiles = row_pairs * columns, clusters = (int)gridDim.x / 2;
  unsigned stage = 0, phase = 0;
  const auto next = [&] {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  };
  // Bands of rows, so that what runs at one time shares operands in the second-level cache.
  const auto place = [&](int tile, int& row, int& column) {
    const int first = tile / (kBand * columns) * kBand, height = min(kBand, row_pairs - first);
    const int within = tile % (kBand * columns);
    row = ((first + within % height) * 2 + (int)rank) * kRows;
    column = within / height * kColumns;
  };

  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) {
      for (int tile = (int)blockIdx.x / 2; tile < tiles; tile += clusters) {
        int row, column;
        place(tile, row, column);
        for (int step = 0; step < steps; ++step) {
          const unsigned to = base + stage * kStage, barrier = full + 8 * stage;
          wait(empty + 8 * stage, phase ^ 1);
          expect(barrier, kStage);
          fetch(to, x_map, step * kDepth, row, barrier);
          // One block fetches the gates and the other what they multiply, each for both.
          fetch_for_both(to + kTile + rank * kTile, rank == 0 ? gate_map : up_map, step * kDepth, column, barrier);
          next();
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    const unsigned group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const unsigned staging = base + kStaging + group * kTile;
    // Of a thread: two neighbours in two rows of each of 32 groups of 8 columns, the gates' first.
    float sums[128];
    const auto begin = [&](int adds) {
      const unsigned from = base + stage * kStage;
      wait(full + 8 * stage, phase);
      const unsigned long long a = description(from + group * (kTile / 2)), b = description(from + kTile);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int k = 0; k < kDepth / 16; ++k) multiply(sums, a + 2 * k, b + 2 * k, k > 0 ? 1 : adds);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    };
    const auto release = [&](unsigned s) {
      if (lane < 2) arrive_in(empty + 8 * s, lane);
    };
    for (int tile = (int)blockIdx.x / 2; tile < tiles; tile += clusters) {
      begin(0);
      unsigned before = stage;
      next();
      for (int step = 1; step < steps; ++step) {
        begin(1);
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        release(before);
        before = stage;
        next();
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      release(before);

      // What was staged before must have been read.
      if (threadIdx.x % 128 == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      meet_warpgroup(group);
      const unsigned height = warp * 16 + lane % 16;
#pragma unroll
      for (int j = 0; j < 16; j += 2) {
        unsigned v[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float *gate = sums + 4 * j + 2 * i, *up = gate + 64;
          v[i] = swiglu(pack(gate[0], gate[1]), pack(up[0], up[1]));
        }
        const unsigned unit = (j + lane / 16) % 8;
        const unsigned to = staging + j / 8 * (kTile / 2) + height * 128 + ((unit ^ (height % 8)) * 16);
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v[0]),
                     "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
      }
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      meet_warpgroup(group);
      if (threadIdx.x % 128 == 0) {
        int row, column;
        place(tile, row, column);
        put(y_map, column, row + 64 * (int)group, staging);
        put(y_map, column + 64, row + 64 * (int)group, staging + kTile / 2);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      }
    }
    if (threadIdx.x % 128 == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
  meet_cluster();  // neither block goes while the other one may still write into it
}
)";

/// Pairs of tiles in a band.
constexpr int kBand = 9;

}  // namespace

std::string swiglu_text() {
  std::string places, sums;
  for (int i = 0; i < 128; ++i) {
    places += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
    sums += fmt::format("{}\"+f\"(sums[{}])", i == 0 ? "" : ", ", i);
  }
  return prelude() + fill(kInstructions, {{"places", places}, {"sums", sums}}) +
         fill(kKernel, {{"band", std::to_string(kBand)}, {"silu", silu_text(DType::kBF16, "x")}});
}

}  // namespace dif::cuda
