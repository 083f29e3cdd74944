// Warpgroup products on the emulated device: each form against plain loops, and misuse found.
#include "trainer/cuda/kernels/wgmma.cuh"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/trainer/cuda/attention_problem.h"
#include "tests/trainer/cuda/emulation/block.h"
#include "trainer/cuda/kernels/launch.cuh"
#include "trainer/cuda/kernels/shared_tile.cuh"

namespace regatta::tests {
namespace {

using trainer::cuda::bf16;
using trainer::cuda::fp16;
using trainer::cuda::launch;
using trainer::device::Dtype;
namespace ptx = trainer::cuda::ptx;
namespace wgmma = trainer::cuda::wgmma;
using wgmma::Major;

constexpr int kTileBytes = 64 * 64 * 2;
enum class Misuse {
  None,
  ReadsEarly,
  WritesSumEarly,
  OverwritesOperand,
  ForgetsToShare,
  ForgetsFence,
  ForgetsBarrier,
  WarpsDiffer,
  WrongStride,
  ForgetsWait,
};

// Matrices [64, 64] as tiles, `a` and `b` one per warpgroup, d [64, 64] starts as what is in it.
template <typename T>
struct Problem {
  const T* a = nullptr;
  const T* b = nullptr;
  float* d = nullptr;
  bool adds = true;
  Misuse misuse = Misuse::None;
};

// The A fragments of 64 columns from a row-major matrix in global memory.
template <typename T>
void load_fragments(const T* a, std::uint32_t (&fragments)[4][4]) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int row = thread / 32 * 16 + thread % 32 / 4;
  for (int k = 0; k < 4; ++k) {
    for (int i = 0; i < 4; ++i) {
      const T* from = a + (row + i % 2 * 8) * 64 + 16 * k + i / 2 * 8 + thread % 4 * 2;
      fragments[k][i] =
          ptx::pack<T>(trainer::cuda::to_float(from[0]), trainer::cuda::to_float(from[1]));
    }
  }
}

template <typename T, Major kA, Major kB, bool kFromRegisters>
__global__ void product_kernel(Problem<T> problem) {
  const int group = static_cast<int>(threadIdx.x) / wgmma::kThreads;
  const int thread = static_cast<int>(threadIdx.x) % wgmma::kThreads;
  const int groups = static_cast<int>(blockDim.x) / wgmma::kThreads;
  const Misuse misuse = problem.misuse;
  const ptx::SharedAddress shared = ptx::shared_address(trainer::cuda::dynamic_shared());
  trainer::cuda::copy_tile<64>(shared, problem.a, 64, 64 * groups, 64 * groups);
  trainer::cuda::copy_tile<64>(shared + groups * kTileBytes, problem.b, 64, 64 * groups,
                               64 * groups);
  ptx::copy_commit();
  ptx::copy_wait<0>();
  if (misuse != Misuse::ForgetsToShare) wgmma::share_writes();
  if (misuse != Misuse::ForgetsBarrier) __syncthreads();
  wgmma::Descriptor a = wgmma::descriptor(shared + group * kTileBytes);
  const wgmma::Descriptor b = wgmma::descriptor(shared + (groups + group) * kTileBytes);
  if (misuse == Misuse::WrongStride) a ^= wgmma::Descriptor{16} << 32;
  if (misuse == Misuse::WarpsDiffer && thread / 32 == 2) a = b;

  float sum[8][4];
  float* d = problem.d + group * 64 * 64;
  const auto place = [thread](int j, int i) {
    return (thread / 32 * 16 + i / 2 * 8 + thread % 32 / 4) * 64 + 8 * j + thread % 4 * 2 + i % 2;
  };
  for (int i = 0; i < 32; ++i) sum[i / 4][i % 4] = d[place(i / 4, i % 4)];
  std::uint32_t left[4][4];
  load_fragments(problem.a + group * 64 * 64, left);
  if (misuse != Misuse::ForgetsFence) wgmma::fence(sum, left);
  if constexpr (kFromRegisters) {
    wgmma::multiply_64<T, kB>(sum, left, b, problem.adds);
  } else {
    wgmma::multiply_64<T, kA, kB>(sum, a, b, problem.adds);
  }
  wgmma::commit();
  if (misuse == Misuse::WritesSumEarly && thread == 77) sum[0][0] = 1;
  if (misuse == Misuse::OverwritesOperand && thread == 127) {
    trainer::cuda::dynamic_shared()[(groups + group) * kTileBytes] ^= 1U;
  }
  if (misuse == Misuse::ReadsEarly) d[place(0, 0)] = sum[0][0];
  if (misuse == Misuse::ForgetsWait) return;
  wgmma::wait<0>(sum);
  if (misuse == Misuse::ReadsEarly) return;
  for (int i = 0; i < 32; ++i) d[place(i / 4, i % 4)] = sum[i / 4][i % 4];
}

// Small integers, so that every product and sum is exact in any order.
template <typename T>
struct Matrices {
  std::vector<T> a, b;
  std::vector<float> d;
  explicit Matrices(int groups) {
    std::mt19937 generator(7);
    const auto number = [&generator] { return static_cast<float>(generator() % 17) - 8; };
    for (int i = 0; i < groups * 64 * 64; ++i) {
      a.push_back(trainer::cuda::from_float<T>(number()));
      b.push_back(trainer::cuda::from_float<T>(number()));
      d.push_back(number());
    }
  }
};

template <typename T, Major kA, Major kB, bool kFromRegisters>
std::vector<float> run(Matrices<T>& at, bool adds, Misuse misuse = Misuse::None) {
  const auto groups = static_cast<unsigned>(at.a.size() / (64 * 64));
  std::vector<float> d = at.d;
  launch(product_kernel<T, kA, kB, kFromRegisters>, dim3(1), dim3(128 * groups),
         groups * 2 * kTileBytes, nullptr,
         Problem<T>{at.a.data(), at.b.data(), d.data(), adds, misuse});
  return d;
}

template <typename T, Major kA, Major kB, bool kFromRegisters>
void expect_product() {
  Matrices<T> at(2);
  for (const bool adds : {false, true}) {
    std::vector<float> expected = at.d;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::size_t start = i / 4096 * 4096;
      const std::size_t row = i % 4096 / 64;
      const std::size_t column = i % 64;
      if (!adds) expected[i] = 0;
      for (std::size_t k = 0; k < 64; ++k) {
        const std::size_t left = kA == Major::K ? row * 64 + k : k * 64 + row;
        const std::size_t right = kB == Major::K ? column * 64 + k : k * 64 + column;
        expected[i] += trainer::cuda::to_float(at.a[start + left]) *
                       trainer::cuda::to_float(at.b[start + right]);
      }
    }
    EXPECT_EQ((run<T, kA, kB, kFromRegisters>(at, adds)), expected);
  }
}

class Wgmma : public testing::TestWithParam<const char*> {
 protected:
  Wgmma() { emulation::set_order(emulation::parse_order(GetParam())); }
  ~Wgmma() override { emulation::set_order({}); }
};

TEST_P(Wgmma, FromSharedMemory) {
  expect_product<bf16, Major::K, Major::K, false>();
  expect_product<bf16, Major::K, Major::Outer, false>();
  expect_product<bf16, Major::Outer, Major::K, false>();
  expect_product<bf16, Major::Outer, Major::Outer, false>();
  expect_product<fp16, Major::K, Major::K, false>();
  expect_product<fp16, Major::Outer, Major::Outer, false>();
}

TEST_P(Wgmma, LeftSideFromRegisters) {
  expect_product<bf16, Major::K, Major::K, true>();
  expect_product<bf16, Major::K, Major::Outer, true>();
  expect_product<fp16, Major::K, Major::K, true>();
  expect_product<fp16, Major::K, Major::Outer, true>();
}
INSTANTIATE_TEST_SUITE_P(
    Orders, Wgmma, testing::Values("forward", "reverse", "random:5"), [](const auto& order) {
      return std::string(order.param).substr(0, std::string(order.param).find(':'));
    });

TEST(WgmmaDescriptor, HasTheFieldsOfTheInstructionSet) {
  struct Seen {
    static void kernel(wgmma::Descriptor* to) {
      to[0] = wgmma::descriptor(ptx::shared_address(trainer::cuda::dynamic_shared()) + 2048);
      to[1] = wgmma::advance(to[0], 32);
    }
  };
  std::array<wgmma::Descriptor, 2> seen{};
  launch(Seen::kernel, dim3(1), dim3(1), 4096, nullptr, seen.data());
  // Shared memory begins at 1024 here, as it does on sm_90.
  EXPECT_EQ(seen[0], 0x4000'0040'0001'00C0U);
  EXPECT_EQ(seen[1], 0x4000'0040'0001'00C2U);
}

TEST(WgmmaMisuse, SumsAreNotThereBeforeTheWait) {
  Matrices<bf16> at(1);
  const std::vector<float> d = run<bf16, Major::K, Major::K, false>(at, true, Misuse::ReadsEarly);
  EXPECT_NE(d[0], d[0]);
}

TEST(WgmmaMisuse, GivesWrongSums) {
  Matrices<bf16> at(2);
  const auto right = run<bf16, Major::K, Major::K, false>(at, true);
  for (const Misuse misuse : {Misuse::WrongStride, Misuse::ForgetsBarrier}) {
    EXPECT_NE((run<bf16, Major::K, Major::K, false>(at, true, misuse)), right);
  }
}

TEST(WgmmaMisuseDeathTest, IsFound) {
  struct Case {
    Misuse misuse;
    const char* words;
  };
  const Case cases[] = {
      {Misuse::WritesSumEarly, "sum of lane 13 was touched"},
      {Misuse::OverwritesOperand, "changed between issue and wait"},
      {Misuse::ForgetsToShare, "did not share"},
      {Misuse::ForgetsFence, "no wgmma.fence"},
      {Misuse::WarpsDiffer, "warps of a warpgroup with different wgmma"},
  };
  for (const Case& wrong : cases) {
    Matrices<bf16> at(1);
    EXPECT_DEATH((run<bf16, Major::K, Major::K, false>(at, true, wrong.misuse)), wrong.words)
        << wrong.words;
  }
  Matrices<bf16> at(1);
  EXPECT_DEATH(
      {
        (void)(run<bf16, Major::K, Major::K, false>(at, true, Misuse::ForgetsWait));
        (void)(run<bf16, Major::K, Major::K, false>(at, true));
      },
      "did not wait for its wgmma");
}

}  // namespace
}  // namespace regatta::tests
