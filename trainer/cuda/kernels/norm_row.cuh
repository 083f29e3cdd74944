// Eight features of one row at a time: unpacked late, so that prefetched 16-bit rows cost half the
// registers, and multiplied by the row's dropout mask.
#pragma once

#include <cstdint>

#include "trainer/cuda/kernels/numeric.cuh"
#include "trainer/cuda/kernels/philox.cuh"

namespace regatta::trainer::cuda {

inline bool is_aligned(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

// Eight elements as they lie in memory, aligned to 16 bytes there.
template <typename T>
struct Raw8 {
  uint4 bits[sizeof(T) / 2];
};
template <typename T>
__device__ inline Raw8<T> load_raw(const T* from) {
  Raw8<T> raw;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T)) / 2; ++i) {
    raw.bits[i] = reinterpret_cast<const uint4*>(from)[i];
  }
  return raw;
}
template <typename T>
__device__ inline Eight unpack(const Raw8<T>& raw) {
  union {
    Raw8<T> raw;
    T v[8];
  } both = {raw};
  Eight result;
#pragma unroll
  for (int i = 0; i < 8; ++i) result.v[i] = to_float(both.v[i]);
  return result;
}
// A bfloat16 is the upper half of its float: said with words, so that no halves are kept apart.
template <>
__device__ inline Eight unpack<bf16>(const Raw8<bf16>& raw) {
  const std::uint32_t words[4] = {raw.bits[0].x, raw.bits[0].y, raw.bits[0].z, raw.bits[0].w};
  Eight result;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    result.v[2 * i] = __uint_as_float(words[i] << 16U);
    result.v[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000U);
  }
  return result;
}

// What a later load8 of the stored values gives.
template <typename T>
__device__ inline Eight rounded(const Eight& x) {
  Eight result;
#pragma unroll
  for (int i = 0; i < 8; ++i) result.v[i] = to_float(from_float<T>(x.v[i]));
  return result;
}

__device__ inline float sum_of(const Eight& x) {
  return ((x.v[0] + x.v[1]) + (x.v[2] + x.v[3])) + ((x.v[4] + x.v[5]) + (x.v[6] + x.v[7]));
}

// The dropout mask of one token's row: one philox call for eight features.
struct RowMask {
  DropoutParameters dropout;
  std::uint32_t first_block = 0, ordinal = 0, step = 0;

  __device__ void apply(Eight* x, int feature) const {
    const Draws draws = philox(dropout.seed, first_block + static_cast<std::uint32_t>(feature) / 8,
                               ordinal, step, dropout.site);
    // Both halves of a word are compared in its upper half: draw ≥ t iff draw·2^16 ≥ t·2^16.
    const std::uint32_t threshold = dropout.threshold << 16U;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t word = draws.word[i];
      const bool keep_low = (word << 16U) >= threshold;
      const bool keep_high = (word & 0xFFFF0000U) >= threshold;
      x->v[2 * i] = keep_low ? x->v[2 * i] * dropout.scale : 0.0F;
      x->v[2 * i + 1] = keep_high ? x->v[2 * i + 1] * dropout.scale : 0.0F;
    }
  }
};

// Dropout of [T, hidden] as kernels take it.
struct TokenMask {
  DropoutParameters dropout;
  const std::int32_t* ordinal = nullptr;
  const std::int32_t* position = nullptr;
  const std::int32_t* step = nullptr;

  __device__ RowMask row(std::int64_t token, int hidden) const {
    const auto blocks = static_cast<std::uint32_t>(hidden) / 8;
    return {dropout, static_cast<std::uint32_t>(position[token]) * blocks,
            static_cast<std::uint32_t>(ordinal[token]), static_cast<std::uint32_t>(*step)};
  }
};
inline TokenMask mask_of(const device::Dropout& dropout, const device::TokenIdentity& tokens) {
  if (dropout.threshold == 0) return {};
  return {parameters_of(dropout), tokens.ordinal.ints(), tokens.position.ints(),
          tokens.step.ints()};
}

}  // namespace regatta::trainer::cuda
