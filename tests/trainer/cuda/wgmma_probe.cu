// A block of one warpgroup brings two tiles of 64 × 64 to shared memory as the attention kernels do
// and multiplies the same 16 of k twice: by wgmma from there, and by mma.sync with fragments loaded
// straight from global memory, which knows of no tile, swizzle or descriptor. Elements are small
// integers, so every sum is exact in any order.
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "tests/trainer/cuda/wgmma_probe.h"
#include "trainer/cuda/handles.h"
#include "trainer/cuda/kernels/launch.cuh"
#include "trainer/cuda/kernels/numeric.cuh"
#include "trainer/cuda/kernels/shared_tile.cuh"
#include "trainer/cuda/kernels/wgmma.cuh"

namespace regatta::tests {
namespace {

using trainer::cuda::bf16;
using trainer::cuda::check;
using trainer::cuda::DevicePointer;
using trainer::cuda::fp16;
namespace ptx = trainer::cuda::ptx;
namespace wgmma = trainer::cuda::wgmma;
using wgmma::Major;

constexpr int kSide = wgmma::kSide;
constexpr int kElements = kSide * kSide;
constexpr int kSteps = kSide / wgmma::kDepth;  // products in a tile

#if defined(REGATTA_HAS_WGMMA)

// Where element (outer, k) of an operand is stored: outer counts a's rows or b's columns.
template <Major kMajor>
__device__ int place(int outer, int k) {
  return kMajor == Major::K ? outer * kSide + k : k * kSide + outer;
}
// Two neighbours in k, packed.
template <typename T, Major kMajor>
__device__ std::uint32_t pair(const T* matrix, int outer, int k) {
  return ptx::pack<T>(trainer::cuda::to_float(matrix[place<kMajor>(outer, k)]),
                      trainer::cuda::to_float(matrix[place<kMajor>(outer, k + 1)]));
}

template <typename T, Major kA, Major kB, bool kFromRegisters>
__device__ void probe_block(const T* a, const T* b, int step, float* by_wgmma, float* by_mma) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;  // row of d[j][0]
  const int two = lane % 4 * 2;
  const int k = step * wgmma::kDepth;
  const ptx::SharedAddress shared = ptx::shared_address(trainer::cuda::dynamic_shared());
  trainer::cuda::copy_tile<kSide>(shared, a, kSide, kSide, kSide);
  trainer::cuda::copy_tile<kSide>(shared + 2 * kElements, b, kSide, kSide, kSide);
  ptx::copy_commit();
  ptx::copy_wait<0>();
  wgmma::share_writes();
  __syncthreads();

  const std::uint32_t left[4] = {pair<T, kA>(a, first, k + two), pair<T, kA>(a, first + 8, k + two),
                                 pair<T, kA>(a, first, k + two + 8),
                                 pair<T, kA>(a, first + 8, k + two + 8)};
  std::uint32_t registers[1][4];
  float sum[8][4];
  for (int i = 0; i < 4; ++i) registers[0][i] = left[i];
  for (int i = 0; i < 32; ++i) sum[i / 4][i % 4] = -1;  // the product does not add to it
  const wgmma::Descriptor right =
      wgmma::advance(wgmma::descriptor(shared + 2 * kElements), step * wgmma::kDepthBytes<kB>);
  wgmma::fence(sum, registers);
  if constexpr (kFromRegisters) {
    wgmma::multiply<T, kB>(sum, registers[0], right, false);
  } else {
    wgmma::multiply<T, kA, kB>(
        sum, wgmma::advance(wgmma::descriptor(shared), step * wgmma::kDepthBytes<kA>), right,
        false);
  }
  wgmma::commit();
  wgmma::wait<0>(sum);

#pragma unroll
  for (int j = 0; j < 8; ++j) {
    float other[4] = {};
    const int column = 8 * j + lane / 4;
    ptx::mma<T>(other, left, pair<T, kB>(b, column, k + two), pair<T, kB>(b, column, k + two + 8));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = (first + i / 2 * 8) * kSide + 8 * j + two + i % 2;
      by_wgmma[at] = sum[j][i];
      by_mma[at] = other[i];
    }
  }
}

#endif

template <typename T, Major kA, Major kB, bool kFromRegisters>
__global__ void __launch_bounds__(wgmma::kThreads)
    probe_kernel(const T* a, const T* b, int step, float* by_wgmma, float* by_mma) {
#if defined(REGATTA_HAS_WGMMA)
  probe_block<T, kA, kB, kFromRegisters>(a, b, step, by_wgmma, by_mma);
#else
  __trap();  // has_wgmma() says whether to come here
#endif
}

// Different for all that an operand's layout could mix up: rows, columns and tiles.
int value_of(int outer, int k, int matrix) {
  return (outer * 37 + k * 11 + outer * k + 5 * matrix) % 17 - 8;
}

void store(float value, bf16* to) { *to = __float2bfloat16_rn(value); }
void store(float value, fp16* to) { *to = __float2half_rn(value); }

template <typename T>
std::vector<T> matrix_of(Major major, int matrix) {
  std::vector<T> elements(kElements);
  for (int outer = 0; outer < kSide; ++outer) {
    for (int k = 0; k < kSide; ++k) {
      const int at = major == Major::K ? outer * kSide + k : k * kSide + outer;
      store(static_cast<float>(value_of(outer, k, matrix)),
            &elements[static_cast<std::size_t>(at)]);
    }
  }
  return elements;
}

std::int64_t wrong_sums(const std::vector<float>& sums, int step) {
  std::int64_t wrong = 0;
  for (int row = 0; row < kSide; ++row) {
    for (int column = 0; column < kSide; ++column) {
      int exact = 0;
      for (int k = step * wgmma::kDepth; k < (step + 1) * wgmma::kDepth; ++k) {
        exact += value_of(row, k, 0) * value_of(column, k, 1);
      }
      if (sums[static_cast<std::size_t>(row * kSide + column)] != static_cast<float>(exact))
        ++wrong;
    }
  }
  return wrong;
}

template <typename T, Major kA, Major kB, bool kFromRegisters>
WgmmaCounts probe() {
  constexpr std::size_t kTileBytes = kElements * sizeof(T);
  constexpr std::size_t kSumBytes = kElements * sizeof(float);
  const std::vector<T> a = matrix_of<T>(kA, 0);
  const std::vector<T> b = matrix_of<T>(kB, 1);
  const DevicePointer tiles(2 * kTileBytes);
  const DevicePointer sums(2 * kSumBytes);
  T* const left = static_cast<T*>(tiles.get());
  T* const right = left + kElements;
  float* const both = static_cast<float*>(sums.get());
  check(cudaMemcpy(left, a.data(), kTileBytes, cudaMemcpyHostToDevice), "copying");
  check(cudaMemcpy(right, b.data(), kTileBytes, cudaMemcpyHostToDevice), "copying");
  WgmmaCounts counts;
  for (int step = 0; step < kSteps; ++step) {
    check(cudaMemset(both, 0xFF, 2 * kSumBytes), "clearing memory");
    trainer::cuda::launch(probe_kernel<T, kA, kB, kFromRegisters>, dim3(1), dim3(wgmma::kThreads),
                          2 * kTileBytes, nullptr, left, right, step, both, both + kElements);
    std::vector<float> by_wgmma(kElements);
    std::vector<float> by_mma(kElements);
    check(cudaMemcpy(by_wgmma.data(), both, kSumBytes, cudaMemcpyDeviceToHost), "copying");
    check(cudaMemcpy(by_mma.data(), both + kElements, kSumBytes, cudaMemcpyDeviceToHost),
          "copying");
    counts.sums += kElements;
    counts.wgmma_wrong += wrong_sums(by_wgmma, step);
    counts.mma_wrong += wrong_sums(by_mma, step);
  }
  return counts;
}

template <typename T>
void add_forms(const std::string& type, std::vector<WgmmaForm>* forms) {
  const auto add = [&](const char* operands, WgmmaCounts (*run)()) {
    forms->push_back({type + ", " + operands, run});
  };
  add("a shared K, b shared K", probe<T, Major::K, Major::K, false>);
  add("a shared K, b shared Outer", probe<T, Major::K, Major::Outer, false>);
  add("a shared Outer, b shared K", probe<T, Major::Outer, Major::K, false>);
  add("a shared Outer, b shared Outer", probe<T, Major::Outer, Major::Outer, false>);
  add("a registers, b shared K", probe<T, Major::K, Major::K, true>);
  add("a registers, b shared Outer", probe<T, Major::K, Major::Outer, true>);
}

}  // namespace

const std::vector<WgmmaForm>& wgmma_forms() {
  static const std::vector<WgmmaForm> forms = [] {
    std::vector<WgmmaForm> all;
    add_forms<bf16>("bfloat16", &all);
    add_forms<fp16>("float16", &all);
    return all;
  }();
  return forms;
}

bool has_wgmma() {
  int major = 0;
  int minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "asking the GPU");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), "asking the GPU");
  return major == 9 && minor == 0;
}

}  // namespace regatta::tests
