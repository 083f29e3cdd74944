// Sum of squares, limits of norms, AdamW and LAMB over a flat float32 arena of n elements; formulas
// in trainer/cpu/optimizer.cc and trainer/device/device.h. Weights, gradient and both moments are
// read once:
//   sum of squares   4n bytes:                                 0.34 ms for BERT-large on H200
//   limit of a norm  8n bytes, or none where it holds:          0.67 ms
//   AdamW           28n bytes (+2n with a 16-bit copy):        2.4 ms (2.5 ms)
//   LAMB            40n bytes (+2n): moments 24n, step 16n:    3.4 ms (3.5 ms)
// with n = 336 M and 4.0 TB/s; not measured. Other published figures: 1.65 ms for LAMB sharded over
// 8 A100s, whose memory is less than half as fast. LAMB's second pass
// computes u again from w, m and v: as many bytes as storing and reading it, and no array for it.
// In parts, with state sharded over R ranks, n is the R-th part.
//
// Mapping: one block of 256 threads per chunk of at most 16,384 elements of one tensor
// (optimizer_table.h), 4 neighbouring elements (16 bytes) per thread and access; 1,024 threads
// a multiprocessor (at most 62 registers) with four such loads each keep 64 KB in flight, thrice
// what hides H200's latency. Where the four arrays start at 16-byte boundaries and a chunk does
// not, its first and last elements go one by one. Rejected: one block per tensor (BERT's tensors
// differ by 10⁵ in size), atomics for the norms (not deterministic), a table as a kernel argument
// (4 KB: many launches for 400 tensors).
//
// Sums: 4 squares in float32, everything above in float64: threads in index order, a tree over the
// block, blocks in order. Blocks depend on sizes alone.
#include "trainer/cuda/kernels/block_sum.cuh"
#include "trainer/cuda/kernels/launch.cuh"
#include "trainer/cuda/kernels/numeric.cuh"
#include "trainer/cuda/optimizer_table.h"

namespace regatta::trainer::cuda {
namespace {

constexpr int kWide = 4;  // elements of a 16-byte access

__device__ inline bool is_finite(float x) { return fabsf(x) <= 3.402823466e38F; }

// ---------------------------------------------------------------- sum of squares

// Block b sums elements b·share … (b+1)·share. `head`: elements before the first 16-byte boundary.
__global__ void sum_of_squares_kernel(const float* x, std::int64_t size, std::int64_t share,
                                      int head, double* sums) {
  __shared__ double partial[kThreads];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * share;
  const std::int64_t wide = (size - head) / kWide;
  const std::int64_t end = begin + share < wide ? begin + share : wide;
  const float4* from = reinterpret_cast<const float4*>(x + head);
  double sum = 0;
#pragma unroll 4
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const float4 v = from[i];
    sum += static_cast<double>((v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w));
  }
  if (blockIdx.x == 0) {
    const std::int64_t tail = head + wide * kWide + threadIdx.x;
    if (static_cast<int>(threadIdx.x) < head) {
      sum += static_cast<double>(x[threadIdx.x]) * x[threadIdx.x];
    }
    if (tail < size) sum += static_cast<double>(x[tail]) * x[tail];
  }
  const double total = block_sum(sum, partial);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

__global__ void total_kernel(const double* sums, int count, float* result) {
  __shared__ double partial[kThreads];
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) sum += sums[i];
  const double total = block_sum(sum, partial);
  if (threadIdx.x == 0) result[0] = static_cast<float>(total);
}

// ---------------------------------------------------------------- limit of a norm

// Blocks and `head` as above. Every block decides for itself: two floats from the cache.
__global__ void limit_norm_kernel(float* x, std::int64_t size, std::int64_t share, int head,
                                  const float* squared_norm, const float* limit) {
  const float norm = sqrtf(squared_norm[0]);
  const float most = limit[0];
  if (!is_finite(norm) || !(norm > 0 && norm > most)) return;
  const float factor = most / norm;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * share;
  const std::int64_t wide = (size - head) / kWide;
  const std::int64_t end = begin + share < wide ? begin + share : wide;
  float4* groups = reinterpret_cast<float4*>(x + head);
#pragma unroll 4
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    float4 v = groups[i];
    v.x *= factor, v.y *= factor, v.z *= factor, v.w *= factor;
    groups[i] = v;
  }
  if (blockIdx.x == 0) {
    const std::int64_t tail = head + wide * kWide + threadIdx.x;
    if (static_cast<int>(threadIdx.x) < head) x[threadIdx.x] *= factor;
    if (tail < size) x[tail] *= factor;
  }
}

// ---------------------------------------------------------------- AdamW and LAMB

struct Arena {
  float* w;
  const float* g;
  float* m;
  float* v;
  void* copy;  // of the 16-bit type, or null
};
struct Settings {
  const float* scalars;
  const float* squared_norm;
  float beta1, beta2, epsilon, weight_decay;
};
// What a block knows after reading the step's scalars; `apply` is false for a norm that is not
// finite.
struct Constants {
  bool apply;
  float factor, rate, correction1, correction2, decay;
};

__device__ Constants constants_of(const Settings& s, bool decays) {
  Constants c;
  const float squared = s.squared_norm[0];
  const float inverse = s.scalars[device::kInverseLossScale];
  c.apply = is_finite(squared);
  c.factor = inverse * limit_of(s.scalars, squared);
  c.rate = s.scalars[device::kLearningRate];
  c.correction1 = s.scalars[device::kBiasCorrection1];
  c.correction2 = s.scalars[device::kBiasCorrection2];
  c.decay = decays ? s.weight_decay : 0.0F;
  return c;
}

__device__ inline void moments(const Settings& s, const Constants& c, float g, float* m, float* v) {
  const float gradient = g * c.factor;
  *m = s.beta1 * *m + (1.0F - s.beta1) * gradient;
  *v = s.beta2 * *v + (1.0F - s.beta2) * (gradient * gradient);
}
__device__ inline float update_of(const Settings& s, const Constants& c, float m, float v,
                                  float w) {
  return (m / c.correction1) / (sqrtf(v / c.correction2) + s.epsilon) + c.decay * w;
}

// N elements of an array in registers.
template <int N>
struct Group {
  float v[N];
};
template <int N>
__device__ inline Group<N> load(const float* from) {
  Group<N> x;
  if constexpr (N == kWide) {
    const float4 raw = *reinterpret_cast<const float4*>(from);
    x.v[0] = raw.x, x.v[1] = raw.y, x.v[2] = raw.z, x.v[3] = raw.w;
  } else {
    x.v[0] = *from;
  }
  return x;
}
template <int N>
__device__ inline void store(float* to, const Group<N>& x) {
  if constexpr (N == kWide) {
    *reinterpret_cast<float4*>(to) = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
  } else {
    *to = x.v[0];
  }
}
// T float: there is no copy.
template <int N, typename T>
__device__ inline void store_copy(void* copy, std::int64_t i, const Group<N>& x) {
  if constexpr (sizeof(T) == 2) {
    T* to = static_cast<T*>(copy) + i;
    if constexpr (N == kWide) {
      union {
        uint2 bits;
        std::uint16_t half[kWide];
      } raw;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const T rounded = from_float<T>(x.v[j]);
        raw.half[j] = *reinterpret_cast<const std::uint16_t*>(&rounded);
      }
      *reinterpret_cast<uint2*>(to) = raw.bits;
    } else {
      *to = from_float<T>(x.v[0]);
    }
  }
}

// Calls body with an index and a width for every part of [begin, begin + size) that is this
// thread's: 16 bytes wide where `wide` says that all arrays start at such boundaries. `body` is a
// struct with a template member `part<N>(i)`: kernels are plain C++ to the emulated device, too.
template <typename Body>
__device__ inline void for_each_part(std::int64_t begin, std::int64_t size, bool wide, Body& body) {
  const std::int64_t end = begin + size;
  std::int64_t first = begin;
  std::int64_t last = begin;  // of the wide part
  if (wide) {
    first = (begin + kWide - 1) / kWide * kWide;
    last = end / kWide * kWide;
    if (last < first) first = last = begin;
  }
  for (std::int64_t i = first + std::int64_t{kWide} * threadIdx.x; i < last;
       i += std::int64_t{kWide} * kThreads) {
    body.template part<kWide>(i);
  }
  for (std::int64_t i = begin + threadIdx.x; i < first; i += kThreads) body.template part<1>(i);
  for (std::int64_t i = last + threadIdx.x; i < end; i += kThreads) body.template part<1>(i);
}

template <typename T>
struct AdamPart {
  const Arena& arena;
  const Settings& settings;
  const Constants& constants;

  template <int N>
  __device__ inline void part(std::int64_t i) {
    Group<N> w = load<N>(arena.w + i);
    const Group<N> g = load<N>(arena.g + i);
    Group<N> m = load<N>(arena.m + i);
    Group<N> v = load<N>(arena.v + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      moments(settings, constants, g.v[j], &m.v[j], &v.v[j]);
      w.v[j] -= constants.rate * update_of(settings, constants, m.v[j], v.v[j], w.v[j]);
    }
    store<N>(arena.m + i, m);
    store<N>(arena.v + i, v);
    store<N>(arena.w + i, w);
    store_copy<N, T>(arena.copy, i, w);
  }
};

// Of weights that stay: a step of 0 could change a zero's sign, or make a weight NaN.
struct AdamMoments {
  const Arena& arena;
  const Settings& settings;
  const Constants& constants;

  template <int N>
  __device__ inline void part(std::int64_t i) {
    const Group<N> g = load<N>(arena.g + i);
    Group<N> m = load<N>(arena.m + i);
    Group<N> v = load<N>(arena.v + i);
#pragma unroll
    for (int j = 0; j < N; ++j) moments(settings, constants, g.v[j], &m.v[j], &v.v[j]);
    store<N>(arena.m + i, m);
    store<N>(arena.v + i, v);
  }
};

template <typename T>
__global__ void adamw_kernel(Arena arena, Settings settings, const OptimizerChunk* chunks,
                             bool wide) {
  const OptimizerChunk chunk = chunks[blockIdx.x];
  Constants constants = constants_of(settings, chunk.weight_decay != 0);
  if (!constants.apply) return;
  if (chunk.learning_rate == 0.0F) {  // the same for every thread
    AdamMoments body{arena, settings, constants};
    for_each_part(chunk.begin, chunk.size, wide, body);
    return;
  }
  constants.rate *= chunk.learning_rate;
  AdamPart<T> body{arena, settings, constants};
  for_each_part(chunk.begin, chunk.size, wide, body);
}

struct LambMoments {
  const Arena& arena;
  const Settings& settings;
  const Constants& constants;
  double weights;
  double updates;

  template <int N>
  __device__ inline void part(std::int64_t i) {
    const Group<N> w = load<N>(arena.w + i);
    const Group<N> g = load<N>(arena.g + i);
    Group<N> m = load<N>(arena.m + i);
    Group<N> v = load<N>(arena.v + i);
    float weight = 0;
    float update = 0;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      moments(settings, constants, g.v[j], &m.v[j], &v.v[j]);
      const float u = update_of(settings, constants, m.v[j], v.v[j], w.v[j]);
      weight += w.v[j] * w.v[j];
      update += u * u;
    }
    weights += static_cast<double>(weight);
    updates += static_cast<double>(update);
    store<N>(arena.m + i, m);
    store<N>(arena.v + i, v);
  }
};

// norms[2c], norms[2c + 1]: Σ w² and Σ u² of chunk c.
__global__ void lamb_moments_kernel(Arena arena, Settings settings, const OptimizerChunk* chunks,
                                    bool wide, double* norms) {
  __shared__ double partial[kThreads];
  const OptimizerChunk chunk = chunks[blockIdx.x];
  const Constants constants = constants_of(settings, chunk.weight_decay != 0);
  if (!constants.apply) return;  // the same for every thread
  LambMoments body{arena, settings, constants, 0, 0};
  for_each_part(chunk.begin, chunk.size, wide, body);
  const double weights = block_sum(body.weights, partial);
  __syncthreads();
  const double updates = block_sum(body.updates, partial);
  if (threadIdx.x == 0) {
    norms[2 * static_cast<std::int64_t>(blockIdx.x)] = weights;
    norms[2 * static_cast<std::int64_t>(blockIdx.x) + 1] = updates;
  }
}

// rate·‖w‖/‖u‖, or the rate alone.
__device__ inline float rate_of(const Constants& c, const OptimizerTensorChunks& tensor,
                                double weights, double updates) {
  const bool scaled = tensor.trust_ratio != 0 && weights > 0 && updates > 0;
  const double ratio = scaled ? sqrt(weights / updates) : 1.0;
  return static_cast<float>(static_cast<double>(c.rate) * ratio);
}

// Adds this thread's share of a tensor's norms. Block of kThreads.
__device__ inline void add_chunks(const OptimizerTensorChunks& tensor, const double* norms,
                                  double* weights, double* updates) {
  for (int i = static_cast<int>(threadIdx.x); i < tensor.count; i += kThreads) {
    const double* norm = norms + 2 * static_cast<std::int64_t>(tensor.first + i);
    *weights += norm[0];
    *updates += norm[1];
  }
}

// rates[t] of tensor t. One block per tensor.
__global__ void lamb_rate_kernel(Settings settings, const OptimizerTensorChunks* tensors,
                                 const double* norms, float* rates) {
  __shared__ double partial[kThreads];
  const OptimizerTensorChunks tensor = tensors[blockIdx.x];
  const Constants constants = constants_of(settings, false);
  if (!constants.apply) return;
  double weights = 0;
  double updates = 0;
  add_chunks(tensor, norms, &weights, &updates);
  weights = block_sum(weights, partial);
  __syncthreads();
  updates = block_sum(updates, partial);
  if (threadIdx.x == 0) rates[blockIdx.x] = rate_of(constants, tensor, weights, updates);
}

// tensor_norms[2n], [2n + 1] += Σ w², Σ u² of all pieces of tensor n: by the block of the first
// piece, so that no two blocks add to one number. One block per piece.
__global__ void lamb_norms_kernel(Settings settings, const OptimizerTensorChunks* tensors,
                                  const double* norms, float* tensor_norms) {
  __shared__ double partial[kThreads];
  const OptimizerTensorChunks first = tensors[blockIdx.x];
  if (!constants_of(settings, false).apply || first.is_first == 0) return;  // for every thread
  double weights = 0;
  double updates = 0;
  add_chunks(first, norms, &weights, &updates);
  for (int piece = first.next; piece >= 0; piece = tensors[piece].next) {
    add_chunks(tensors[piece], norms, &weights, &updates);
  }
  weights = block_sum(weights, partial);
  __syncthreads();
  updates = block_sum(updates, partial);
  if (threadIdx.x == 0) {
    float* mine = tensor_norms + 2 * static_cast<std::int64_t>(first.number);
    mine[0] += static_cast<float>(weights);
    mine[1] += static_cast<float>(updates);
  }
}

// rates[t] by the norms of the whole tensor. One thread per piece.
__global__ void lamb_part_rate_kernel(Settings settings, const OptimizerTensorChunks* tensors,
                                      std::int64_t count, const float* tensor_norms, float* rates) {
  const std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (t >= count) return;
  const OptimizerTensorChunks tensor = tensors[t];
  const float* norms = tensor_norms + 2 * static_cast<std::int64_t>(tensor.number);
  rates[t] = rate_of(constants_of(settings, false), tensor, norms[0], norms[1]);
}

template <typename T>
struct LambStep {
  const Arena& arena;
  const Settings& settings;
  const Constants& constants;
  float rate;

  template <int N>
  __device__ inline void part(std::int64_t i) {
    Group<N> w = load<N>(arena.w + i);
    const Group<N> m = load<N>(arena.m + i);
    const Group<N> v = load<N>(arena.v + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      w.v[j] -= rate * update_of(settings, constants, m.v[j], v.v[j], w.v[j]);
    }
    store<N>(arena.w + i, w);
    store_copy<N, T>(arena.copy, i, w);
  }
};

template <typename T>
__global__ void lamb_step_kernel(Arena arena, Settings settings, const OptimizerChunk* chunks,
                                 bool wide, const float* rates) {
  const OptimizerChunk chunk = chunks[blockIdx.x];
  const Constants constants = constants_of(settings, chunk.weight_decay != 0);
  if (!constants.apply || chunk.learning_rate == 0.0F) return;
  LambStep<T> body{arena, settings, constants, rates[chunk.tensor] * chunk.learning_rate};
  for_each_part(chunk.begin, chunk.size, wide, body);
}

// How x is cut into blocks.
struct Shares {
  std::int64_t blocks = 1, share = 0;  // share: of 16-byte groups
  int head = 0;
};
Shares shares_of(const device::View& x) {
  const std::uintptr_t over = reinterpret_cast<std::uintptr_t>(x.data) % 16;
  std::int64_t head = over == 0 ? 0 : static_cast<std::int64_t>((16 - over) / sizeof(float));
  if (head > x.size) head = x.size;
  const std::int64_t wide = (x.size - head) / kWide;
  // At least 8 accesses a thread; whole rounds of the block.
  constexpr std::int64_t kRound = 8 * kThreads;
  const std::int64_t rounds = (wide + kRound - 1) / kRound;
  const std::int64_t share = (rounds + kMostBlocks - 1) / kMostBlocks * kRound;
  const std::int64_t blocks = wide == 0 ? 1 : (wide + share - 1) / share;
  return {blocks, share, static_cast<int>(head)};
}

bool is_aligned(const void* pointer, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

}  // namespace

void sum_of_squares(const KernelLaunch& at, device::View x, device::View result) {
  const Shares shares = shares_of(x);
  auto* sums = static_cast<double*>(at.scratch);
  launch(sum_of_squares_kernel, dim3(static_cast<unsigned>(shares.blocks)), dim3(kThreads), 0,
         at.stream, x.floats(), x.size, shares.share, shares.head, sums);
  launch(total_kernel, dim3(1), dim3(kThreads), 0, at.stream, sums, static_cast<int>(shares.blocks),
         result.floats());
}

void limit_norm(const KernelLaunch& at, device::View x, device::View squared_norm,
                device::View limit) {
  const Shares shares = shares_of(x);
  launch(limit_norm_kernel, dim3(static_cast<unsigned>(shares.blocks)), dim3(kThreads), 0,
         at.stream, x.floats(), x.size, shares.share, shares.head, squared_norm.floats(),
         limit.floats());
}

namespace {

// float32: there is no copy.
device::Dtype copy_type(const device::OptimizerUpdate& op) {
  return op.compute_copy.data == nullptr ? device::Dtype::Float32 : op.compute_copy.dtype;
}

struct Operands {
  Arena arena;
  Settings settings;
  bool wide = false;
};

// The moments, and the sums of each chunk in the scratch memory; then rates or norms of tensors;
// then the weights. In parts: the first and half of the second, or the other half and the third.
void update_lamb(const KernelLaunch& at, const device::OptimizerUpdate& op,
                 const OptimizerTableView& table, const Operands& by) {
  const std::int64_t norm_bytes = 2 * static_cast<std::int64_t>(sizeof(double)) * table.chunk_count;
  base::check(norm_bytes + 4 * table.tensor_count <= at.scratch_bytes,
              "LAMB's partial sums fit into the scratch memory");
  auto* norms = static_cast<double*>(at.scratch);
  auto* rates = reinterpret_cast<float*>(static_cast<unsigned char*>(at.scratch) + norm_bytes);
  const dim3 chunks(static_cast<unsigned>(table.chunk_count));
  const dim3 tensors(static_cast<unsigned>(table.tensor_count));
  const dim3 block(kThreads);
  if (op.part != device::UpdatePart::Weights) {
    launch(lamb_moments_kernel, chunks, block, 0, at.stream, by.arena, by.settings, table.chunks,
           by.wide, norms);
  }
  switch (op.part) {
    case device::UpdatePart::Whole:
      launch(lamb_rate_kernel, tensors, block, 0, at.stream, by.settings, table.tensors, norms,
             rates);
      break;
    case device::UpdatePart::Moments:
      launch(lamb_norms_kernel, tensors, block, 0, at.stream, by.settings, table.tensors, norms,
             op.tensor_norms.floats());
      return;
    case device::UpdatePart::Weights:
      launch(lamb_part_rate_kernel,
             dim3(static_cast<unsigned>((table.tensor_count + kThreads - 1) / kThreads)), block, 0,
             at.stream, by.settings, table.tensors, table.tensor_count, op.tensor_norms.floats(),
             rates);
      break;
  }
  with_type(copy_type(op), [&](auto type) {
    launch(lamb_step_kernel<decltype(type)>, chunks, block, 0, at.stream, by.arena, by.settings,
           table.chunks, by.wide, rates);
  });
}

}  // namespace

void update(const KernelLaunch& at, const device::OptimizerUpdate& op,
            const OptimizerTableView& table) {
  const Arena arena{op.parameters.floats(), op.gradients.floats(), op.first_moment.floats(),
                    op.second_moment.floats(), op.compute_copy.data};
  const Settings settings{op.scalars.floats(), op.squared_norm.floats(), op.beta1, op.beta2,
                          op.epsilon,          op.weight_decay};
  const bool wide = is_aligned(arena.w, 16) && is_aligned(arena.g, 16) && is_aligned(arena.m, 16) &&
                    is_aligned(arena.v, 16) && is_aligned(arena.copy, 8);
  if (op.lamb) {
    update_lamb(at, op, table, {arena, settings, wide});
    return;
  }
  with_type(copy_type(op), [&](auto type) {
    launch(adamw_kernel<decltype(type)>, dim3(static_cast<unsigned>(table.chunk_count)),
           dim3(kThreads), 0, at.stream, arena, settings, table.chunks, wide);
  });
}

}  // namespace regatta::trainer::cuda
