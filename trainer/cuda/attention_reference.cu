// Attention of any head size d and of float32, bfloat16 or float16, slow and obvious: what float32
// runs use, what head sizes without tensor core kernels use, and what those kernels are compared
// with. One head of one sample of length L < 4096 (trainer/device.h has the layouts):
//   s = q·kᵀ/√d;  lse_i = log Σ_j e^s_ij;  p = e^(s − lse);  out = (p∘mask)·v
//   D_i = dout_i·out_i;  ds = p∘((dout·vᵀ)∘mask − D)
//   dv = (p∘mask)ᵀ·dout;  dq = ds·k/√d;  dk = dsᵀ·q/√d
// All arithmetic is float32, with expf and logf rather than their fast forms, sums over features
// and over keys (or queries) run upwards, and no product leaves the block that made it: scores are
// computed again wherever they are needed. Masks are those of trainer/contract/random_site.h, drawn
// anew for every element: eight times the draws that are needed, but nothing to go wrong.
//
// Mapping: a block of 16 × 16 threads owns 32 rows of one head of one sample and 64 features of
// their result: rows are queries for out and dq, and keys for dk and dv. It walks over the
// "columns" (keys; or queries) 32 at a time; thread (y, x) computes the 2 × 2 scores of rows y, y +
// 16 and columns x, x + 16 from chunks of 32 features in shared memory, then adds their products to
// the 2 × 4 elements of rows y, y + 16 and features x, x + 16, … that it keeps in registers. Heads
// of more than 64 features are split over blocks, which all compute the scores. The grid covers
// samples × tiles of the longest sample; blocks behind the end of their sample leave at once.
//
// FLOP 4·L²·d forward and 14·L²·d backward (dq computes scores and dp once more than dk and dv do).
// Shared memory sets the pace: two loads for two multiply-adds per thread, so at best a quarter of
// the 67 TFLOP/s that H200 has in float32. Not measured.
#include <cmath>

#include "trainer/cuda/kernels.h"
#include "trainer/cuda/launch.cuh"
#include "trainer/cuda/numeric.cuh"
#include "trainer/cuda/philox.cuh"

namespace regatta::trainer::cuda {
namespace {

constexpr int kTile = 32;      // rows and columns at a time, and features of a chunk
constexpr int kFeatures = 64;  // of the result, per block
constexpr int kSide = 16;      // threads in each direction

using Chunk = float[kTile][kTile + 1];  // one more, so that a column lies in 32 banks
using Staged = float[kTile][kFeatures];

struct Problem {
  int tokens = 0, samples = 0, heads = 0, size = 0;
  int tiles = 0;  // of kTile rows in the longest sample
  int parts = 0;  // of kFeatures in a head
  float scale = 1;
  const std::int32_t* cumulative = nullptr;
  const std::int32_t* ordinal = nullptr;  // read only with dropout on, like step
  const std::int32_t* step = nullptr;
  DropoutParameters dropout;
};

// What one block works on.
struct Place {
  int first = 0, length = 0;  // the sample
  int head = 0;
  int begin = 0;    // first row of the block, counted in the sample
  int rows = 0;     // at most kTile; none behind the end of the sample
  int feature = 0;  // first feature of its result
  int features = 0;
  std::uint32_t ordinal = 0, step = 0;
};

__device__ Place place_of(const Problem& problem) {
  Place at;
  const int block = static_cast<int>(blockIdx.x);
  const int part = static_cast<int>(blockIdx.y);
  const int sample = block / problem.tiles;
  at.first = problem.cumulative[sample];
  at.length = problem.cumulative[sample + 1] - at.first;
  at.head = part / problem.parts;
  at.begin = block % problem.tiles * kTile;
  at.rows = min(kTile, at.length - at.begin);
  at.feature = part % problem.parts * kFeatures;
  at.features = min(kFeatures, problem.size - at.feature);
  if (problem.dropout.threshold != 0 && at.rows > 0) {
    at.ordinal = static_cast<std::uint32_t>(problem.ordinal[at.first]);
    at.step = static_cast<std::uint32_t>(*problem.step);
  }
  return at;
}

// Rows of a matrix whose rows are `stride` elements apart.
template <typename T>
struct Rows {
  T* data = nullptr;
  std::int64_t stride = 0;
  __device__ T* row(int i) const { return data + i * stride; }
  __device__ Rows from(int i) const { return {row(i), stride}; }
};
// Query, key or value (0, 1, 2) of the block's head, from the first token of its sample on.
template <typename T>
__device__ Rows<T> qkv_rows(const Problem& problem, const Place& at, T* qkv, int which) {
  const std::int64_t hidden = static_cast<std::int64_t>(problem.heads) * problem.size;
  return {qkv + at.first * 3 * hidden + which * hidden + at.head * problem.size, 3 * hidden};
}
template <typename T>
__device__ Rows<T> out_rows(const Problem& problem, const Place& at, T* out) {
  const std::int64_t hidden = static_cast<std::int64_t>(problem.heads) * problem.size;
  return {out + at.first * hidden + at.head * problem.size, hidden};
}

__device__ int thread_x() { return static_cast<int>(threadIdx.x) % kSide; }
__device__ int thread_y() { return static_cast<int>(threadIdx.x) / kSide; }

// The first `rows` rows and `columns` columns, and zeros behind them. `from` may point behind its
// matrix if there are no rows or columns.
template <int Columns, int Stride, typename T>
__device__ void load(const Rows<const T>& from, int rows, int columns, float (&to)[kTile][Stride]) {
  for (int e = static_cast<int>(threadIdx.x); e < kTile * Columns; e += kSide * kSide) {
    const int i = e / Columns;
    const int c = e % Columns;
    to[i][c] = i < rows && c < columns ? to_float(from.row(i)[c]) : 0.0F;
  }
}

// product[u][v] = a_row · b_column of rows y + 16·u and columns x + 16·v, over `size` features.
template <typename T>
__device__ void multiply(const Rows<const T>& a, int a_rows, const Rows<const T>& b, int b_rows,
                         int size, Chunk& a_chunk, Chunk& b_chunk, float (&product)[2][2]) {
  const int x = thread_x();
  const int y = thread_y();
  product[0][0] = product[0][1] = product[1][0] = product[1][1] = 0.0F;
  for (int f = 0; f < size; f += kTile) {
    __syncthreads();  // everybody has read the chunks of before
    load<kTile>(Rows<const T>{a.data + f, a.stride}, a_rows, size - f, a_chunk);
    load<kTile>(Rows<const T>{b.data + f, b.stride}, b_rows, size - f, b_chunk);
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < kTile; ++k) {
      for (int u = 0; u < 2; ++u) {
        for (int v = 0; v < 2; ++v) {
          product[u][v] += a_chunk[y + kSide * u][k] * b_chunk[x + kSide * v][k];
        }
      }
    }
  }
}

// sum[u][w] += Σ_j weights[row][j] · values[j][feature] of rows y + 16·u, features x + 16·w. All
// threads have written their weights just before.
template <typename T>
__device__ void add_weighted(const Chunk& weights, const Rows<const T>& values, int rows,
                             int features, Staged& staged, float (&sum)[2][4]) {
  __syncthreads();
  load<kFeatures>(values, rows, features, staged);
  __syncthreads();
  for (int j = 0; j < kTile; ++j) {
    for (int u = 0; u < 2; ++u) {
      for (int w = 0; w < 4; ++w) {
        sum[u][w] += weights[thread_y() + kSide * u][j] * staged[j][thread_x() + kSide * w];
      }
    }
  }
}

template <typename T>
__device__ void store(const Place& at, const float (&sum)[2][4], const float (&factor)[2],
                      const Rows<T>& to) {
  for (int u = 0; u < 2; ++u) {
    for (int w = 0; w < 4; ++w) {
      const int i = thread_y() + kSide * u;
      const int c = thread_x() + kSide * w;
      if (i < at.rows && c < at.features) {
        to.row(i)[at.feature + c] = from_float<T>(sum[u][w] * factor[u]);
      }
    }
  }
}

// What dropout multiplies a probability with.
__device__ float factor_of(const Problem& problem, const Place& at, int query, int key) {
  if (problem.dropout.threshold == 0) return 1.0F;
  const std::uint32_t block =
      (static_cast<std::uint32_t>(at.head) * 4096U + static_cast<std::uint32_t>(query)) * 512U +
      static_cast<std::uint32_t>(key) / 8U;
  const Draws draws =
      philox(problem.dropout.seed, block, at.ordinal, at.step, problem.dropout.site);
  return draws.draw(key % 8) >= problem.dropout.threshold ? problem.dropout.scale : 0.0F;
}

// Over the 16 threads of equal y.
__device__ float row_max(float x) {
  for (int step = kSide / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}
__device__ float row_sum(float x) {
  for (int step = kSide / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

// The largest score so far is subtracted before exponentials; when it grows, sums shrink.
template <typename T>
__global__ void forward_kernel(Problem problem, const T* qkv, T* out, float* lse) {
  __shared__ Chunk a, b, weights;
  __shared__ Staged staged;
  const Place at = place_of(problem);
  if (at.rows <= 0) return;
  const Rows<const T> query = qkv_rows(problem, at, qkv, 0).from(at.begin);
  const Rows<const T> key = qkv_rows(problem, at, qkv, 1);
  const Rows<const T> value = qkv_rows(problem, at, qkv, 2);
  float most[2] = {-INFINITY, -INFINITY};
  float total[2] = {};
  float sum[2][4] = {};
  for (int begin = 0; begin < at.length; begin += kTile) {
    const int columns = min(kTile, at.length - begin);
    float s[2][2];
    multiply(query, at.rows, key.from(begin), columns, problem.size, a, b, s);
    for (int u = 0; u < 2; ++u) {
      float high = most[u];
      for (int v = 0; v < 2; ++v) {
        const bool exists = thread_x() + kSide * v < columns;
        s[u][v] = exists ? s[u][v] * problem.scale : -INFINITY;
        high = fmaxf(high, s[u][v]);
      }
      high = row_max(high);
      const float shrink = expf(most[u] - high);
      most[u] = high;
      const float e[2] = {expf(s[u][0] - high), expf(s[u][1] - high)};
      total[u] = total[u] * shrink + row_sum(e[0] + e[1]);
      for (float& element : sum[u]) element *= shrink;
      const int i = thread_y() + kSide * u;
      for (int v = 0; v < 2; ++v) {
        const int j = thread_x() + kSide * v;
        weights[i][j] = e[v] * factor_of(problem, at, at.begin + i, begin + j);
      }
    }
    add_weighted(weights, Rows<const T>{value.row(begin) + at.feature, value.stride}, columns,
                 at.features, staged, sum);
  }
  const float inverse[2] = {1.0F / total[0], 1.0F / total[1]};
  store(at, sum, inverse, out_rows(problem, at, out).from(at.begin));
  for (int u = 0; u < 2; ++u) {
    const int i = thread_y() + kSide * u;
    if (at.feature == 0 && thread_x() == 0 && i < at.rows) {
      lse[static_cast<std::int64_t>(at.head) * problem.tokens + at.first + at.begin + i] =
          most[u] + logf(total[u]);
    }
  }
}

// Inputs of backward, [T, …] as a whole.
template <typename T>
struct Gradients {
  const T* qkv = nullptr;
  const T* out = nullptr;
  const T* dout = nullptr;
  const float* lse = nullptr;
  T* dqkv = nullptr;
};

// lse and D of `count` queries from `begin` on; zeros behind them.
template <typename T>
__device__ void load_queries(const Problem& problem, const Place& at, const Gradients<T>& op,
                             int begin, int count, float (&lse)[kTile], float (&inner)[kTile]) {
  const Rows<const T> out = out_rows(problem, at, op.out).from(begin);
  const Rows<const T> dout = out_rows(problem, at, op.dout).from(begin);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncthreads();  // everybody has read those of before
  for (int i = static_cast<int>(threadIdx.x) / 32; i < kTile; i += kSide * kSide / 32) {
    float sum = 0;
    if (i < count) {
      for (int c = lane; c < problem.size; c += 32) {
        sum += to_float(out.row(i)[c]) * to_float(dout.row(i)[c]);
      }
    }
    sum = warp_sum(sum);
    if (lane == 0) {
      inner[i] = sum;
      lse[i] =
          i < count
              ? op.lse[static_cast<std::int64_t>(at.head) * problem.tokens + at.first + begin + i]
              : 0.0F;
    }
  }
  __syncthreads();
}

// Rows are queries.
template <typename T>
__global__ void query_gradient_kernel(Problem problem, Gradients<T> op) {
  __shared__ Chunk a, b, weights;
  __shared__ Staged staged;
  __shared__ float lse[kTile], inner[kTile];
  const Place at = place_of(problem);
  if (at.rows <= 0) return;
  const Rows<const T> query = qkv_rows(problem, at, op.qkv, 0).from(at.begin);
  const Rows<const T> key = qkv_rows(problem, at, op.qkv, 1);
  const Rows<const T> value = qkv_rows(problem, at, op.qkv, 2);
  const Rows<const T> dout = out_rows(problem, at, op.dout).from(at.begin);
  load_queries(problem, at, op, at.begin, at.rows, lse, inner);
  float sum[2][4] = {};
  for (int begin = 0; begin < at.length; begin += kTile) {
    const int columns = min(kTile, at.length - begin);
    float s[2][2];
    float dp[2][2];
    multiply(query, at.rows, key.from(begin), columns, problem.size, a, b, s);
    multiply(dout, at.rows, value.from(begin), columns, problem.size, a, b, dp);
    for (int u = 0; u < 2; ++u) {
      for (int v = 0; v < 2; ++v) {
        const int i = thread_y() + kSide * u;
        const int j = thread_x() + kSide * v;
        const bool exists = i < at.rows && j < columns;
        const float p = exists ? expf(s[u][v] * problem.scale - lse[i]) : 0.0F;
        const float factor = factor_of(problem, at, at.begin + i, begin + j);
        weights[i][j] = p * (dp[u][v] * factor - inner[i]);
      }
    }
    add_weighted(weights, Rows<const T>{key.row(begin) + at.feature, key.stride}, columns,
                 at.features, staged, sum);
  }
  const float factor[2] = {problem.scale, problem.scale};
  store(at, sum, factor, qkv_rows(problem, at, op.dqkv, 0).from(at.begin));
}

// Rows are keys.
template <typename T>
__global__ void key_value_gradient_kernel(Problem problem, Gradients<T> op) {
  __shared__ Chunk a, b, probabilities, weights;
  __shared__ Staged staged;
  __shared__ float lse[kTile], inner[kTile];
  const Place at = place_of(problem);
  if (at.rows <= 0) return;
  const Rows<const T> query = qkv_rows(problem, at, op.qkv, 0);
  const Rows<const T> key = qkv_rows(problem, at, op.qkv, 1).from(at.begin);
  const Rows<const T> value = qkv_rows(problem, at, op.qkv, 2).from(at.begin);
  const Rows<const T> dout = out_rows(problem, at, op.dout);
  float dkey[2][4] = {};
  float dvalue[2][4] = {};
  for (int begin = 0; begin < at.length; begin += kTile) {
    const int columns = min(kTile, at.length - begin);
    load_queries(problem, at, op, begin, columns, lse, inner);
    float s[2][2];
    float dp[2][2];
    multiply(key, at.rows, query.from(begin), columns, problem.size, a, b, s);
    multiply(value, at.rows, dout.from(begin), columns, problem.size, a, b, dp);
    for (int u = 0; u < 2; ++u) {
      for (int v = 0; v < 2; ++v) {
        const int i = thread_y() + kSide * u;
        const int j = thread_x() + kSide * v;
        const bool exists = i < at.rows && j < columns;
        const float p = exists ? expf(s[u][v] * problem.scale - lse[j]) : 0.0F;
        const float factor = factor_of(problem, at, begin + j, at.begin + i);
        probabilities[i][j] = p * factor;
        weights[i][j] = p * (dp[u][v] * factor - inner[j]);
      }
    }
    add_weighted(probabilities, Rows<const T>{dout.row(begin) + at.feature, dout.stride}, columns,
                 at.features, staged, dvalue);
    add_weighted(weights, Rows<const T>{query.row(begin) + at.feature, query.stride}, columns,
                 at.features, staged, dkey);
  }
  const float one[2] = {1, 1};
  const float factor[2] = {problem.scale, problem.scale};
  store(at, dkey, factor, qkv_rows(problem, at, op.dqkv, 1).from(at.begin));
  store(at, dvalue, one, qkv_rows(problem, at, op.dqkv, 2).from(at.begin));
}

// Zeros for the tokens of no sample: rows of x [T, columns], and columns of lse [H, T] if given.
// One warp per token.
template <typename T>
__global__ void zero_padding_kernel(Problem problem, T* x, std::int64_t columns, float* lse) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int token = static_cast<int>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  if (token < problem.cumulative[problem.samples] || token >= problem.tokens) return;
  for (std::int64_t c = lane; c < columns; c += 32) x[token * columns + c] = from_float<T>(0.0F);
  if (lse == nullptr) return;
  for (int head = lane; head < problem.heads; head += 32) {
    lse[static_cast<std::int64_t>(head) * problem.tokens + token] = 0.0F;
  }
}

Problem problem_of(const View& out, const View& lse, int heads, const Dropout& dropout,
                   const TokenIdentity& tokens) {
  Problem problem;
  problem.tokens = static_cast<int>(lse.size / heads);
  problem.samples = static_cast<int>(tokens.cumulative.size) - 1;
  problem.heads = heads;
  problem.size = static_cast<int>(out.size / lse.size);
  problem.tiles = static_cast<int>((tokens.max_length + kTile - 1) / kTile);
  problem.parts = (problem.size + kFeatures - 1) / kFeatures;
  problem.scale = 1.0F / std::sqrt(static_cast<float>(problem.size));
  problem.cumulative = tokens.cumulative.ints();
  problem.ordinal = tokens.ordinal.ints();
  problem.step = tokens.step.ints();
  problem.dropout = parameters_of(dropout);
  return problem;
}

dim3 grid_of(const Problem& problem) {
  return {static_cast<unsigned>(problem.samples * problem.tiles),
          static_cast<unsigned>(problem.heads * problem.parts)};
}

template <typename T>
void zero_padding(const Launch& at, const Problem& problem, const View& x, const View& lse) {
  constexpr int kWarps = 8;
  launch(zero_padding_kernel<T>,
         dim3(static_cast<unsigned>((problem.tokens + kWarps - 1) / kWarps)), dim3(32 * kWarps), 0,
         at.stream, problem, data_of<T>(x), x.size / problem.tokens, data_of<float>(lse));
}

}  // namespace

void attention_forward_reference(const Launch& at, const AttentionForward& op) {
  const Problem problem = problem_of(op.out, op.lse, op.heads, op.dropout, op.tokens);
  with_type(op.out.dtype, [&](auto type) {
    using T = decltype(type);
    launch(forward_kernel<T>, grid_of(problem), dim3(kSide * kSide), 0, at.stream, problem,
           data_of<T>(op.qkv), data_of<T>(op.out), op.lse.floats());
    zero_padding<T>(at, problem, op.out, op.lse);
  });
}

void attention_backward_reference(const Launch& at, const AttentionBackward& op) {
  const Problem problem = problem_of(op.out, op.lse, op.heads, op.dropout, op.tokens);
  with_type(op.out.dtype, [&](auto type) {
    using T = decltype(type);
    const Gradients<T> gradients{data_of<T>(op.qkv), data_of<T>(op.out), data_of<T>(op.dout),
                                 op.lse.floats(), data_of<T>(op.dqkv)};
    launch(query_gradient_kernel<T>, grid_of(problem), dim3(kSide * kSide), 0, at.stream, problem,
           gradients);
    launch(key_value_gradient_kernel<T>, grid_of(problem), dim3(kSide * kSide), 0, at.stream,
           problem, gradients);
    zero_padding<T>(at, problem, op.dqkv, {});
  });
}

}  // namespace regatta::trainer::cuda
