// Tiles of 16-bit rows in shared memory, swizzled: piece p (16 bytes) of a row is stored at another
// place of the same row, such that the eight rows that one phase of ldmatrix reads at equal p, and
// the eight pieces that one phase of a copy writes, lie in eight different groups of four banks
// (there are 32 banks of 4 bytes; tests/trainer/cuda/attention_tiles_test.cc counts them).
// Rows of 128 bytes and more: p xor (row mod 8). Rows of 64 bytes lie two to a 128-byte line, so
// that p xor (row / 2 mod 4) and the half of the line give the eight groups.
#pragma once

#include <cuda_runtime.h>

#include "trainer/cuda/kernels/ptx.cuh"

namespace regatta::trainer::cuda {

// Bytes from the tile's start, which is aligned to 128, to piece `piece` of row `row`.
template <int kColumns>
__host__ __device__ constexpr int tile_offset(int row, int piece) {
  static_assert(kColumns == 32 || kColumns == 64 || kColumns == 128);
  constexpr int kPieces = kColumns / 8;
  return (row * kPieces + (piece ^ (kPieces == 4 ? row / 2 % 4 : row % 8))) * 16;
}

// `threads` threads, of which this is number `thread`, copy `rows` rows (a multiple of 16) of
// kColumns elements from `from` (row stride in elements), zeros from row `valid` on. Commits
// nothing. `from` itself is valid memory even when no row is.
template <int kColumns, typename T>
__device__ inline void copy_tile(ptx::SharedAddress to, const T* from, std::int64_t stride,
                                 int rows, int valid, int thread, int threads) {
  constexpr int kPieces = kColumns / 8;
  for (int i = thread; i < rows * kPieces; i += threads) {
    const int row = i / kPieces;
    const int piece = i % kPieces;
    const bool inside = row < valid;
    ptx::copy16(to + tile_offset<kColumns>(row, piece),
                inside ? from + row * stride + piece * 8 : from, inside);
  }
}
// The same by all threads of the block.
template <int kColumns, typename T>
__device__ inline void copy_tile(ptx::SharedAddress to, const T* from, std::int64_t stride,
                                 int rows, int valid) {
  copy_tile<kColumns>(to, from, stride, rows, valid, static_cast<int>(threadIdx.x),
                      static_cast<int>(blockDim.x));
}

}  // namespace regatta::trainer::cuda
