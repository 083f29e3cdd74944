// What the backward attention kernels (attention_backward.cu) work on: one head of one sample.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "trainer/cuda/attention/attention_dropout.cuh"
#include "trainer/cuda/attention/attention_gradient.cuh"
#include "trainer/cuda/attention/attention_tiles.h"

namespace regatta::trainer::cuda::gradient {

constexpr int kThreads = 256;  // of the blocks that make dk and dv

// What all kernels take. T is the activations' type.
template <typename T>
struct Work {
  int tokens = 0, heads = 0;
  float scale = 1;                      // 1/√d
  float factor = 1;                     // log₂e/√d
  const std::int32_t* count = nullptr;  // of tiles
  const AttentionTile* tiles = nullptr;
  const std::int32_t* ordinal = nullptr;  // read only with dropout on, like step
  const std::int32_t* step = nullptr;
  AttentionDropout dropout;
  const T* qkv = nullptr;
  const T* out = nullptr;
  const T* dout = nullptr;
  const float* lse = nullptr;
  T* dqkv = nullptr;
  float* inner = nullptr;  // D [H, T], from the dq kernel to the other
};

// All but count, tiles and inner.
template <typename T>
Work<T> work_of(const device::AttentionBackward& op) {
  Work<T> work;
  work.tokens = static_cast<int>(op.lse.size / op.heads);
  work.heads = op.heads;
  work.scale = 1.0F / std::sqrt(static_cast<float>(op.out.size / op.lse.size));
  work.factor = work.scale * kLog2E;
  work.ordinal = op.tokens.ordinal.ints();
  work.step = op.tokens.step.ints();
  work.dropout = attention_dropout_of(op.dropout);
  work.qkv = data_of<const T>(op.qkv);
  work.out = data_of<const T>(op.out);
  work.dout = data_of<const T>(op.dout);
  work.lse = op.lse.floats();
  work.dqkv = data_of<T>(op.dqkv);
  return work;
}

// One head of one sample (or of the padding) and where its rows are.
template <typename T, int kHead>
struct Head {
  const Work<T>& work;
  AttentionTile tile;
  int head = 0;
  bool exists = false;

  __device__ explicit Head(const Work<T>& work_in) : work(work_in) {
    const int index = static_cast<int>(blockIdx.x) / work.heads;
    head = static_cast<int>(blockIdx.x) % work.heads;
    exists = index < *work.count;
    if (exists) tile = work.tiles[index];
  }
  [[nodiscard]] __device__ std::int64_t hidden() const {
    return static_cast<std::int64_t>(work.heads) * kHead;
  }
  [[nodiscard]] __device__ std::int64_t qkv_stride() const { return 3 * hidden(); }
  // Row of query, key or value (0, 1, 2).
  template <typename U>
  [[nodiscard]] __device__ U* qkv(U* base, int which, int row) const {
    return base + (tile.begin + row) * qkv_stride() + which * hidden() + head * kHead;
  }
  // Row of out or dout; rows are hidden() apart.
  [[nodiscard]] __device__ const T* out(const T* base, int row) const {
    return base + (tile.begin + row) * hidden() + head * kHead;
  }
  // Index of a row's lse or D.
  [[nodiscard]] __device__ std::int64_t statistic(int row) const {
    return static_cast<std::int64_t>(head) * work.tokens + tile.begin + row;
  }
  // Of query `row`, base 2; +∞ behind the sample's end.
  [[nodiscard]] __device__ float lse(int row) const {
    return row < tile.length ? work.lse[statistic(row)] * kLog2E : INFINITY;
  }
  [[nodiscard]] __device__ SampleDraws draws() const {
    if (work.dropout.bar == 0) return SampleDraws(work.dropout, 0, 0);
    return SampleDraws(work.dropout, static_cast<std::uint32_t>(work.ordinal[tile.begin]),
                       static_cast<std::uint32_t>(*work.step));
  }
};

// Zeros for this head in `rows` rows of the padding.
template <typename T, int kHead>
__device__ inline void zero_rows(const Work<T>& work, const Head<T, kHead>& at, int rows) {
  constexpr int kPieces = 3 * kHead / 8;
  const int count = min(rows, at.tile.length - at.tile.row);
  for (int i = static_cast<int>(threadIdx.x); i < count * kPieces;
       i += static_cast<int>(blockDim.x)) {
    const int piece = i % kPieces;
    T* to = at.qkv(work.dqkv, piece / (kHead / 8), at.tile.row + i / kPieces);
    *reinterpret_cast<uint4*>(to + piece % (kHead / 8) * 8) = make_uint4(0, 0, 0, 0);
  }
}

__device__ constexpr int up_to_step(int rows) { return (rows + kStep - 1) / kStep * kStep; }

}  // namespace regatta::trainer::cuda::gradient
