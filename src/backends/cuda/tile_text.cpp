#include "backends/cuda/tile_text.h"

namespace dif::cuda {

std::string tile_text() {
  return R"(
  __shared__ float a_tile[16][68], b_tile[16][68];
  const Index first_m = (Index)blockIdx.y * 64, first_n = (Index)blockIdx.x * 64;
  const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
  float sums[4][4] = {};
  for (Index k0 = 0; k0 < K; k0 += 16) {
    const int k = threadIdx.x % 16;
    for (int i = threadIdx.x / 16; i < 64; i += 16) {
      a_tile[k][i] = first_m + i < M && k0 + k < K ? a_at(first_m + i, k0 + k) : 0.0f;
      b_tile[k][i] = first_n + i < N && k0 + k < K ? b_at(first_n + i, k0 + k) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const float4 a = *(const float4*)&a_tile[j][row], b = *(const float4*)&b_tile[j][column];
      const float as[4] = {a.x, a.y, a.z, a.w}, bs[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int m = 0; m < 4; ++m)
#pragma unroll
        for (int n = 0; n < 4; ++n) sums[m][n] = fmaf(as[m], bs[n], sums[m][n]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int m = 0; m < 4; ++m)
#pragma unroll
    for (int n = 0; n < 4; ++n)
      if (first_m + row + m < M && first_n + column + n < N) put(first_m + row + m, first_n + column + n, sums[m][n]);
)";
}

}  // namespace dif::cuda
