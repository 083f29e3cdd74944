// Hopper's warpgroup products (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"; sm_90a
// only): D [64, 64] float32 += A [64, 16]·B [16, 64], A and B of 16 bits. A warpgroup is four warps
// of which the first has a number divisible by 4; all its threads issue every product, and read the
// sums only after wait<N>(). B lies in shared memory, A there or in registers.
//
// Fragments; warp w of the warpgroup, lane = 4·g + q:
//   D: d[j][i] is row 16·w + 8·(i / 2) + g, column 8·j + 2·q + i mod 2.
//   A: the 16 rows of warp w as mma.sync has them (ptx.cuh): so d[2k], d[2k + 1], rounded and
//      packed, are the A of columns 16·k … 16·k + 15.
//
// Operands in shared memory are tiles of 128-byte rows (64 elements), swizzled by tile_offset<64>
// (shared_tile.cuh) and aligned to 1024 bytes: piece ^ row mod 8 is then what the hardware's
// 128-byte swizzle does, address bits 4…6 xor bits 7…9. Such a tile serves both ways:
//   * Major::K: rows are A's rows (B's columns), the 64 elements are k. A product takes 32 bytes of
//     each of 64 rows; the next 16 of k begin 32 bytes on. Bits 7…9 stay those of the row, since
//     offsets below 128 from an aligned start carry into none of them.
//   * Major::Outer (PTX: "MN-major", "transposed"): rows are k, the 64 elements are A's rows (B's
//     columns). A product takes 16 whole rows; the next 16 of k begin 2048 bytes on.
// The descriptor's fields, the same for both:
//   bits 0–13   start address / 16
//   bits 16–29  leading byte offset / 16. K: not used when swizzled, 1 by convention. Outer: from
//   64
//               elements to the next 64; there are only 64, so not used either.
//   bits 32–45  stride byte offset / 16, 1024 / 16: from eight 128-byte rows to the next eight (of
//               the outer index for K, of k for Outer).
//   bits 49–51  base offset 0: the pattern begins at an address divisible by 1024.
//   bits 62–63  1: swizzle of 128 bytes.
//
// Order: what threads wrote (st.shared, cp.async after its wait) reaches these reads by
// share_writes() in the writing thread and then a barrier. fence(…) names all registers that were
// touched since they were last in a product (sums and A); products follow; commit() closes a group;
// wait<N>(…) leaves the N latest groups open and names the sums that are now whole. Registers in an
// open group must be neither read nor written, memory in it not written. The naming matters: to the
// compiler a sum is ready when the product is issued, so that reads could move up past the wait.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "trainer/cuda/kernels/numeric.cuh"
#include "trainer/cuda/kernels/ptx.cuh"

// Where these instructions exist; a kernel made of them must be empty elsewhere.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(REGATTA_CUDA_EMULATION)
#define REGATTA_HAS_WGMMA 1
#endif

namespace regatta::trainer::cuda::wgmma {

constexpr int kThreads = 128;  // of a warpgroup
constexpr int kSide = 64;      // rows and columns of D, elements in a row of a tile
constexpr int kDepth = 16;     // of one product

using Descriptor = std::uint64_t;
enum class Major { K, Outer };

// Bytes from one product's part of a tile to that of the next 16 of k.
template <Major kMajor>
constexpr int kDepthBytes = (kMajor == Major::K ? 2 : 2 * kSide) * kDepth;

}  // namespace regatta::trainer::cuda::wgmma

#if defined(REGATTA_CUDA_EMULATION)
#include "wgmma_emulation.h"
#else

namespace regatta::trainer::cuda::wgmma {

// A shared address as descriptors hold it: 18 bits, of which the lowest four are 0.
__device__ inline std::uint32_t address_bits(ptx::SharedAddress address) {
  return address & 0x3FFFFU;
}

__device__ inline void share_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int kCount>
__device__ inline void pin(float (&x)[kCount][4]) {
#pragma unroll
  for (int i = 0; i < 4 * kCount; ++i) asm volatile("" : "+f"(x[i / 4][i % 4])::"memory");
}
template <int kCount>
__device__ inline void pin(std::uint32_t (&x)[kCount][4]) {
#pragma unroll
  for (int i = 0; i < 4 * kCount; ++i) asm volatile("" : "+r"(x[i / 4][i % 4])::"memory");
}
template <typename... Registers>
__device__ inline void fence(Registers&... touched) {
  (pin(touched), ...);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
template <int kOpenGroups, typename... Registers>
__device__ inline void wait(Registers&... whole) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kOpenGroups) : "memory");
  (pin(whole), ...);
}

// Operands 0 to 31.
#define REGATTA_SUMS_4(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define REGATTA_SUMS                                                                             \
  REGATTA_SUMS_4(0), REGATTA_SUMS_4(1), REGATTA_SUMS_4(2), REGATTA_SUMS_4(3), REGATTA_SUMS_4(4), \
      REGATTA_SUMS_4(5), REGATTA_SUMS_4(6), REGATTA_SUMS_4(7)
#define REGATTA_SUM_NAMES                                                                       \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
#define REGATTA_FROM_SHARED(types)                                              \
  asm volatile(                                                                 \
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %34, 0;\n"                        \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." types " " REGATTA_SUM_NAMES \
      "%32, %33, adds, 1, 1, %35, %36;\n}"                                      \
      : REGATTA_SUMS                                                            \
      : "l"(a), "l"(b), "r"(adds ? 1 : 0), "n"(kA == Major::Outer ? 1 : 0),     \
        "n"(kB == Major::Outer ? 1 : 0)                                         \
      : "memory")
#define REGATTA_FROM_REGISTERS(types)                                           \
  asm volatile(                                                                 \
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %37, 0;\n"                        \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." types " " REGATTA_SUM_NAMES \
      "{%32, %33, %34, %35}, %36, adds, 1, 1, %38;\n}"                          \
      : REGATTA_SUMS                                                            \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds ? 1 : 0),  \
        "n"(kB == Major::Outer ? 1 : 0)                                         \
      : "memory")

// d += a·b, or d = a·b where it does not add.
template <typename T, Major kA, Major kB>
__device__ inline void multiply(float (&d)[8][4], Descriptor a, Descriptor b, bool adds) {
  if constexpr (std::is_same_v<T, bf16>) {
    REGATTA_FROM_SHARED("bf16.bf16");
  } else {
    REGATTA_FROM_SHARED("f16.f16");
  }
}
template <typename T, Major kB>
__device__ inline void multiply(float (&d)[8][4], const std::uint32_t (&a)[4], Descriptor b,
                                bool adds) {
  if constexpr (std::is_same_v<T, bf16>) {
    REGATTA_FROM_REGISTERS("bf16.bf16");
  } else {
    REGATTA_FROM_REGISTERS("f16.f16");
  }
}

#undef REGATTA_FROM_REGISTERS
#undef REGATTA_FROM_SHARED
#undef REGATTA_SUM_NAMES
#undef REGATTA_SUMS
#undef REGATTA_SUMS_4

// The opposite of ptx::load_matrix: four 8×8 matrices from registers to where the lanes point.
__device__ inline void store_matrix(ptx::SharedAddress row, const std::uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

}  // namespace regatta::trainer::cuda::wgmma

#endif

namespace regatta::trainer::cuda::wgmma {

// Of a tile that begins at an address divisible by 1024, at its first product's part.
__device__ inline Descriptor descriptor(ptx::SharedAddress tile) {
  constexpr Descriptor kLeading = Descriptor{1} << 16;
  constexpr Descriptor kStride = Descriptor{1024 / 16} << 32;
  constexpr Descriptor kSwizzle128 = Descriptor{1} << 62;
  return kSwizzle128 | kStride | kLeading | address_bits(tile) >> 4;
}
// `bytes` further: a multiple of 16 that does not leave shared memory.
__device__ inline Descriptor advance(Descriptor from, int bytes) {
  return from + static_cast<Descriptor>(bytes / 16);
}

// d (+)= a·b over 64 of k.
template <typename T, Major kA, Major kB>
__device__ inline void multiply_64(float (&d)[8][4], Descriptor a, Descriptor b, bool adds) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    multiply<T, kA, kB>(d, advance(a, k * kDepthBytes<kA>), advance(b, k * kDepthBytes<kB>),
                        adds || k > 0);
  }
}
template <typename T, Major kB>
__device__ inline void multiply_64(float (&d)[8][4], const std::uint32_t (&a)[4][4], Descriptor b,
                                   bool adds) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    multiply<T, kB>(d, a[k], advance(b, k * kDepthBytes<kB>), adds || k > 0);
  }
}

}  // namespace regatta::trainer::cuda::wgmma
