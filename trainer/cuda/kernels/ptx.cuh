// The few instructions that CUDA C++ has no name for, as the PTX ISA defines them (sm_80 and
// later). All but the copies are warp collectives: 32 lanes of a full warp, none of them diverged.
//
// Fragments of a 16×8×16 product, one warp; lane = 4·g + q (g "row group" 0…7, q "quad" 0…3); every
// 32-bit register holds two neighbouring 16-bit elements, the lower index in the lower half:
//   A (16×16, row-major)      a0: row g,   columns 2q, 2q+1      a1: row g+8, columns 2q, 2q+1
//                             a2: row g,   columns 2q+8, 2q+9    a3: row g+8, columns 2q+8, 2q+9
//   B (16×8, "column-major")  b0: rows 2q, 2q+1 of column g      b1: rows 2q+8, 2q+9 of column g
//   C (16×8, float32)         c0, c1: row g, columns 2q, 2q+1    c2, c3: row g+8, same columns
// So a C tile of 16×16 (two of 16×8), rounded to 16 bits and packed, is an A tile: pack(c0, c1) of
// the first is a0, pack(c2, c3) a1, and a2, a3 come from the second.
//
// ldmatrix: matrix i (8×8, 16 bytes a row) has its rows where lanes 8i … 8i+7 point; lane 4g + q
// receives row g, columns 2q and 2q+1 of it in register i, or, transposed, rows 2q and 2q+1 of
// column g. Lanes that point to nothing must still hold a valid address.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "trainer/cuda/kernels/numeric.cuh"

#if defined(REGATTA_CUDA_EMULATION)
#include "ptx_emulation.h"
#else

namespace regatta::trainer::cuda::ptx {

// A place in shared memory. `address + bytes` and flip() are the only arithmetic that is portable.
using SharedAddress = std::uint32_t;
__device__ inline SharedAddress shared_address(const void* pointer) {
  return static_cast<SharedAddress>(__cvta_generic_to_shared(pointer));
}
// The address with some of its ten lowest bits flipped (dynamic_shared() is aligned to 1024).
__device__ inline SharedAddress flip(SharedAddress address, std::uint32_t bits) {
  return address ^ bits;
}

// c += a·b
template <typename T>
__device__ inline void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                           std::uint32_t b1);
template <>
__device__ inline void mma<bf16>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                 std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ inline void mma<fp16>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                 std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void load_matrix(std::uint32_t (&r)[1], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
               : "=r"(r[0])
               : "r"(row)
               : "memory");
}
__device__ inline void load_matrix(std::uint32_t (&r)[2], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(row)
               : "memory");
}
__device__ inline void load_matrix(std::uint32_t (&r)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}
__device__ inline void load_matrix_transposed(std::uint32_t (&r)[1], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
               : "=r"(r[0])
               : "r"(row)
               : "memory");
}
__device__ inline void load_matrix_transposed(std::uint32_t (&r)[2], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(row)
               : "memory");
}
__device__ inline void load_matrix_transposed(std::uint32_t (&r)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

// Asynchronous copy of 16 bytes from global to shared memory, both aligned to 16; with `valid`
// false zeros are written and `from` (still a valid address) is not read. The bytes are there for
// the copying thread after copy_commit() and a copy_wait<N>() that leaves at most the N latest
// groups open, for other threads after a __syncthreads() behind that.
__device__ inline void copy16(SharedAddress to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void copy16(SharedAddress to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}
__device__ inline void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kOpenGroups>
__device__ inline void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOpenGroups) : "memory");
}

// 2^x within two units in the last place; 0 for results below the normal range.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two floats rounded to nearest even, `low` in the lower half.
template <typename T>
__device__ inline std::uint32_t pack(float low, float high);
template <>
__device__ inline std::uint32_t pack<bf16>(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
template <>
__device__ inline std::uint32_t pack<fp16>(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

}  // namespace regatta::trainer::cuda::ptx

#endif
