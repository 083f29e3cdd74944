// One warpgroup product of 64 × 64 × 16 beside the same product by mma.sync, for every form that
// the attention kernels use: the smallest thing that says whether descriptors, swizzle and
// fragments are what the hardware takes them for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace regatta::tests {

// Of the four products of a tile, 64 × 64 sums each: how many differ from the exact integers.
struct WgmmaCounts {
  std::int64_t sums = 0, mma_wrong = 0, wgmma_wrong = 0;
};
struct WgmmaForm {
  std::string name;  // "bfloat16, a shared K, b shared Outer"
  WgmmaCounts (*run)();
};
[[nodiscard]] const std::vector<WgmmaForm>& wgmma_forms();

// Compute capability 9.0, the only one with these instructions. Throws base::Error, as run() does,
// for whatever CUDA refuses.
[[nodiscard]] bool has_wgmma();

}  // namespace regatta::tests
