// Attention as a textbook has it, by cuBLASLt's products and a softmax: any head size d, float32,
// bfloat16 or float16. It is what the fused kernels are compared with, what float32 runs use, and
// what head sizes without tensor core kernels use. One head of one sample of length L < 4096
// (trainer/device/device.h has the layouts):
//   s = q·kᵀ;  lse_i = log Σ_j e^(s_ij/√d);  p_ij = e^(s_ij/√d − lse_i);  out = (p∘mask)·v
//   dp = dout·vᵀ;  D_i = dout_i·out_i;  ds = p∘(dp∘mask − D)
//   dv = (p∘mask)ᵀ·dout;  dq = ds·k/√d;  dk = dsᵀ·q/√d
// Products read operands of the activation type and sum in float32; s, dp and results are float32
// until they leave, p∘mask and ds are rounded to the activation type. Float32 runs are float32 all
// through, with TF32 products elsewhere in the model or without: probabilities of 10 bits are no
// reference. Masks are those of trainer/contract/random_site.h.
//
// Lengths are known on the device only, so every (sample, head) is copied to matrices of S rows and
// d' columns, with zeros behind the sample's end and behind d. S is max_length rounded up to a
// multiple of 64, d' is d rounded up to 8, so the shapes of products depend on neither the lengths
// nor the number of the samples; nor do the algorithms that the library chooses for them, and a
// sample's bits are the same in any company with the same S. (With another S the library may choose
// another algorithm, and so another order of sums.)
//
// As many (sample, head)s as the scratch memory holds go through each step at once: a chunk. Where
// it does not even hold one, its queries go in parts of 8 or more, and dk and dv are accumulated
// over them; keys are always together. So heads may have 1,000 features at S = 4,096, and 8,000 at
// S = 512.
//
// FLOP 4·S²·d forward and 10·S²·d backward. Each score passes through memory four times forward,
// and nine times backward with its dp, p and ds, at 4 bytes in float32; partly that is the
// second-level cache (a chunk is 64 MiB, the cache of an H200 50 MB). A chunk is 6 launches forward
// and 10 backward; with d = 64 and S = 512 in float32 it has 42 and 22 pairs. Not measured.
#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include "trainer/cuda/batched_products.h"
#include "trainer/cuda/kernels/kernels.h"
#include "trainer/cuda/kernels/launch.cuh"
#include "trainer/cuda/kernels/numeric.cuh"
#include "trainer/cuda/kernels/philox.cuh"

namespace regatta::trainer::cuda {
namespace {

constexpr int kWarps = 8;            // a block; each has a row
constexpr int kLengthStep = 64;      // what S is a multiple of
constexpr int kSmallestStep = 8;     // what d' and parts of queries are multiples of
constexpr int kMostPairs = 1 << 15;  // of a chunk: the library puts batches on a grid's short side

struct Problem {
  int tokens = 0, samples = 0, heads = 0;
  int size = 0;     // d
  int columns = 0;  // d'
  int length = 0;   // S
  float scale = 1;  // 1/√d
  const std::int32_t* cumulative = nullptr;
  const std::int32_t* ordinal = nullptr;  // read only with dropout on, like step
  const std::int32_t* step = nullptr;
  DropoutParameters dropout;
};

// What goes through the steps at once: (sample, head) pairs, numbered sample · heads + head, and of
// each the queries [query, query + rows).
struct Chunk {
  int pair = 0, pairs = 0;
  int query = 0, rows = 0;
};

struct Pair {
  int first = 0, length = 0;  // the sample's first token, and L
  int head = 0;
};
__device__ Pair pair_of(const Problem& problem, int number) {
  const int sample = number / problem.heads;
  const int first = problem.cumulative[sample];
  return {first, problem.cumulative[sample + 1] - first, number % problem.heads};
}

// Where the warp's row is among matrices of `rows` rows: false behind the last one.
struct WarpRow {
  std::int64_t row = 0;  // of all matrices together
  int pair = 0, row_of_pair = 0;
  int lane = 0;
};
__device__ bool find_row(const Chunk& chunk, int rows, WarpRow* at) {
  const std::int64_t warp =
      static_cast<std::int64_t>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (warp >= static_cast<std::int64_t>(chunk.pairs) * rows) return false;
  at->row = warp;
  at->pair = chunk.pair + static_cast<int>(warp / rows);
  at->row_of_pair = static_cast<int>(warp % rows);
  at->lane = static_cast<int>(threadIdx.x) % 32;
  return true;
}

// Tokens [begin, begin + rows) of a sample.
struct Span {
  int begin = 0, rows = 0;
};
// One matrix [rows, d'] of every pair, and the tensor [T, …] that has its elements: (0, 0) of head
// 0 of token 0 is at `tensor`, tokens are `stride` elements apart, heads d.
template <typename Tensor, typename Padded>
struct Copy {
  Tensor* tensor = nullptr;
  std::int64_t stride = 0;
  Padded* padded = nullptr;
  Span span;
  float factor = 1;  // of what is copied back
};
template <typename T>
using CopyIn = Copy<const T, T>;
template <typename T>
using CopyOut = Copy<T, const float>;

// One copy, or a second in the grid's second row.
template <typename T>
__global__ void gather_kernel(Problem problem, Chunk chunk, CopyIn<T> a, CopyIn<T> b) {
  const CopyIn<T> copy = blockIdx.y == 0 ? a : b;
  WarpRow at;
  if (!find_row(chunk, copy.span.rows, &at)) return;
  const Pair pair = pair_of(problem, at.pair);
  const int token = copy.span.begin + at.row_of_pair;  // of the sample
  const T* from = copy.tensor + (pair.first + token) * copy.stride + pair.head * problem.size;
  T* to = copy.padded + at.row * problem.columns;
  for (int c = at.lane; c < problem.columns; c += 32) {
    to[c] = token < pair.length && c < problem.size ? from[c] : from_float<T>(0.0F);
  }
}

template <typename T>
__global__ void scatter_kernel(Problem problem, Chunk chunk, CopyOut<T> a, CopyOut<T> b) {
  const CopyOut<T> copy = blockIdx.y == 0 ? a : b;
  WarpRow at;
  if (!find_row(chunk, copy.span.rows, &at)) return;
  const Pair pair = pair_of(problem, at.pair);
  const int token = copy.span.begin + at.row_of_pair;
  if (token >= pair.length) return;
  const float* from = copy.padded + at.row * problem.columns;
  T* to = copy.tensor + (pair.first + token) * copy.stride + pair.head * problem.size;
  for (int c = at.lane; c < problem.size; c += 32) to[c] = from_float<T>(from[c] * copy.factor);
}

// What dropout multiplies the probabilities of keys [key, key + 8) with; key is a multiple of 8.
__device__ Eight factors_of(const Problem& problem, const Pair& pair, int query, int key) {
  Eight factors = {{1, 1, 1, 1, 1, 1, 1, 1}};
  const DropoutParameters& dropout = problem.dropout;
  if (dropout.threshold == 0) return factors;
  const std::uint32_t block =
      (static_cast<std::uint32_t>(pair.head) * 4096U + static_cast<std::uint32_t>(query)) * 512U +
      static_cast<std::uint32_t>(key) / 8U;
  const Draws draws =
      philox(dropout.seed, block, static_cast<std::uint32_t>(problem.ordinal[pair.first]),
             static_cast<std::uint32_t>(*problem.step), dropout.site);
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    factors.v[e] = draws.draw(e) >= dropout.threshold ? dropout.scale : 0.0F;
  }
  return factors;
}

// A warp a query, eight keys a lane at a time, which share a draw. `weights` takes p∘mask and may
// be `scores` itself: a lane reads what it replaces.
template <typename T>
__global__ void softmax_kernel(Problem problem, Chunk chunk, const float* scores, T* weights,
                               float* lse) {
  WarpRow at;
  if (!find_row(chunk, chunk.rows, &at)) return;
  const Pair pair = pair_of(problem, at.pair);
  const int query = chunk.query + at.row_of_pair;
  const int length = query < pair.length ? pair.length : 0;  // keys that count
  const float* from = scores + at.row * problem.length;
  T* to = weights + at.row * problem.length;
  float most = -INFINITY;
  for (int key = 8 * at.lane; key < length; key += 256) {
    const Eight s = load8(from + key);
    for (int e = 0; e < 8 && key + e < length; ++e) most = fmaxf(most, s.v[e] * problem.scale);
  }
  most = warp_max(most);
  float total = 0;
  for (int key = 8 * at.lane; key < length; key += 256) {
    const Eight s = load8(from + key);
    for (int e = 0; e < 8 && key + e < length; ++e) total += expf(s.v[e] * problem.scale - most);
  }
  total = warp_sum(total);
  for (int key = 8 * at.lane; key < problem.length; key += 256) {
    Eight p = {};
    if (key < length) {
      const Eight s = load8(from + key);
      const Eight factors = factors_of(problem, pair, query, key);
      for (int e = 0; e < 8 && key + e < length; ++e) {
        p.v[e] = expf(s.v[e] * problem.scale - most) / total * factors.v[e];
      }
    }
    store8(to + key, p);
  }
  if (at.lane == 0 && length > 0) {
    lse[static_cast<std::int64_t>(pair.head) * problem.tokens + pair.first + query] =
        most + logf(total);
  }
}

// The same mapping. `weights` takes p∘mask and `dscores` ds; they may be `scores` and `dp`.
template <typename T>
__global__ void softmax_gradient_kernel(Problem problem, Chunk chunk, const T* out, const T* dout,
                                        const float* lse, const float* scores, const float* dp,
                                        T* weights, T* dscores) {
  WarpRow at;
  if (!find_row(chunk, chunk.rows, &at)) return;
  const Pair pair = pair_of(problem, at.pair);
  const int query = chunk.query + at.row_of_pair;
  const int length = query < pair.length ? pair.length : 0;
  const std::int64_t token = pair.first + query;
  float inner = 0;  // D
  float row_lse = 0;
  if (length > 0) {
    const std::int64_t first = (token * problem.heads + pair.head) * problem.size;
    for (int c = at.lane; c < problem.size; c += 32) {
      inner += to_float(out[first + c]) * to_float(dout[first + c]);
    }
    row_lse = lse[static_cast<std::int64_t>(pair.head) * problem.tokens + token];
  }
  inner = warp_sum(inner);
  for (int key = 8 * at.lane; key < problem.length; key += 256) {
    const std::int64_t place = at.row * problem.length + key;
    Eight p = {};
    Eight ds = {};
    if (key < length) {
      const Eight s = load8(scores + place);
      const Eight g = load8(dp + place);
      const Eight factors = factors_of(problem, pair, query, key);
      for (int e = 0; e < 8 && key + e < length; ++e) {
        const float probability = expf(s.v[e] * problem.scale - row_lse);
        p.v[e] = probability * factors.v[e];
        ds.v[e] = probability * (g.v[e] * factors.v[e] - inner);
      }
    }
    store8(weights + place, p);
    store8(dscores + place, ds);
  }
}

// Zeros for the tokens of no sample: rows of x [T, columns], and columns of lse [H, T] if given.
// One warp per token.
template <typename T>
__global__ void zero_padding_kernel(Problem problem, T* x, std::int64_t columns, float* lse) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int token = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32);
  if (token < problem.cumulative[problem.samples] || token >= problem.tokens) return;
  for (std::int64_t c = lane; c < columns; c += 32) x[token * columns + c] = from_float<T>(0.0F);
  if (lse == nullptr) return;
  for (int head = lane; head < problem.heads; head += 32) {
    lse[static_cast<std::int64_t>(head) * problem.tokens + token] = 0.0F;
  }
}

// ---------------------------------------------------------------- the host's side

int rounded_up(std::int64_t x, int step) { return static_cast<int>((x + step - 1) / step * step); }

Problem problem_of(const device::View& out, const device::View& lse, int heads,
                   const device::Dropout& dropout, const device::TokenIdentity& tokens) {
  Problem problem;
  problem.tokens = static_cast<int>(lse.size / heads);
  problem.samples = static_cast<int>(tokens.cumulative.size) - 1;
  problem.heads = heads;
  problem.size = static_cast<int>(out.size / lse.size);
  problem.columns = rounded_up(problem.size, kSmallestStep);
  problem.length = rounded_up(tokens.max_length, kLengthStep);
  problem.scale = 1.0F / std::sqrt(static_cast<float>(problem.size));
  problem.cumulative = tokens.cumulative.ints();
  problem.ordinal = tokens.ordinal.ints();
  problem.step = tokens.step.ints();
  problem.dropout = parameters_of(dropout);
  return problem;
}

unsigned blocks_of(std::int64_t rows) {
  return static_cast<unsigned>((rows + kWarps - 1) / kWarps);
}

// Matrices one after another in the scratch memory, each for all pairs of a chunk.
class Layout {
 public:
  explicit Layout(void* memory) : memory_(static_cast<unsigned char*>(memory)) {}
  template <typename T>
  T* take(int pairs, int rows, int columns) {
    T* const matrix = reinterpret_cast<T*>(memory_ + bytes_);
    const auto elements = static_cast<std::int64_t>(pairs) * rows * columns;
    bytes_ += (elements * static_cast<std::int64_t>(sizeof(T)) + 255) / 256 * 256;
    return matrix;
  }
  // For float32, `from` itself: every element is read before it is replaced.
  template <typename T>
  T* take_rounded(float* from, int pairs, int rows, int columns) {
    if constexpr (std::is_same_v<T, float>) {
      return from;
    } else {
      return take<T>(pairs, rows, columns);
    }
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  unsigned char* memory_;
  std::int64_t bytes_ = 0;
};

// q and dout, results and scores are those of the chunk's queries; k, v and their gradients whole.
template <typename T>
struct Matrices {
  T *query = nullptr, *key = nullptr, *value = nullptr, *dout = nullptr;
  T *weights = nullptr, *dscores = nullptr;  // p∘mask and ds, rounded
  float *scores = nullptr, *dp = nullptr;
  float *out = nullptr, *dkey = nullptr, *dvalue = nullptr;  // out is dq in backward
  std::int64_t bytes = 0;

  Matrices(const Problem& problem, const Chunk& chunk, bool backward, void* memory) {
    Layout layout(memory);
    const int columns = problem.columns;
    const int length = problem.length;
    query = layout.take<T>(chunk.pairs, chunk.rows, columns);
    key = layout.take<T>(chunk.pairs, length, columns);
    value = layout.take<T>(chunk.pairs, length, columns);
    scores = layout.take<float>(chunk.pairs, chunk.rows, length);
    weights = layout.take_rounded<T>(scores, chunk.pairs, chunk.rows, length);
    out = layout.take<float>(chunk.pairs, chunk.rows, columns);
    if (backward) {
      dout = layout.take<T>(chunk.pairs, chunk.rows, columns);
      dp = layout.take<float>(chunk.pairs, chunk.rows, length);
      dscores = layout.take_rounded<T>(dp, chunk.pairs, chunk.rows, length);
      dkey = layout.take<float>(chunk.pairs, length, columns);
      dvalue = layout.take<float>(chunk.pairs, length, columns);
    }
    bytes = layout.bytes();
  }
};

// The most that the scratch memory holds, from the first pair and query on.
template <typename T>
Chunk largest_chunk(const KernelLaunch& at, const Problem& problem, bool backward) {
  Chunk chunk{0, 1, 0, problem.length};
  const auto bytes = [&] { return Matrices<T>(problem, chunk, backward, at.scratch).bytes; };
  while (bytes() > at.scratch_bytes) {
    if (chunk.rows == kSmallestStep) {
      throw base::Error(base::Code::User,
                        "attention over " + std::to_string(problem.length) + " tokens with " +
                            std::to_string(problem.size) + " features a head needs " +
                            std::to_string(bytes() >> 20) + " MiB of scratch memory, of " +
                            std::to_string(at.scratch_bytes >> 20) +
                            "; use more heads or shorter samples");
    }
    chunk.rows = rounded_up(chunk.rows / 2, kSmallestStep);
  }
  if (chunk.rows == problem.length) {
    chunk.pairs = static_cast<int>(std::min<std::int64_t>(at.scratch_bytes / bytes(), kMostPairs));
  }
  return chunk;
}

// The steps that forward and backward share, each for all pairs of one chunk after the other. In
// the shapes of products, R is the number of a chunk's queries. `at` and `products` outlive this.
template <typename T>
class Steps {
 public:
  Steps(const KernelLaunch& at, BatchedProducts& products, const Problem& problem,
        device::Dtype dtype, bool backward)
      : at_(at),
        products_(products),
        problem_(problem),
        dtype_(dtype),
        usual_(largest_chunk<T>(at, problem, backward)),
        chunk_(usual_),
        matrices_(problem, usual_, backward, at.scratch) {}

  template <typename Body>
  void for_each_chunk(Body body) {
    const int pairs = problem_.samples * problem_.heads;
    for (chunk_.pair = 0; chunk_.pair < pairs; chunk_.pair += usual_.pairs) {
      chunk_.pairs = std::min(usual_.pairs, pairs - chunk_.pair);
      for (chunk_.query = 0; chunk_.query < problem_.length; chunk_.query += chunk_.rows) body();
    }
  }
  [[nodiscard]] const Matrices<T>& matrices() const { return matrices_; }
  [[nodiscard]] bool is_first() const { return chunk_.query == 0; }
  [[nodiscard]] bool is_last() const { return chunk_.query + chunk_.rows >= problem_.length; }

  [[nodiscard]] Span queries() const { return {chunk_.query, chunk_.rows}; }
  [[nodiscard]] Span keys() const { return {0, problem_.length}; }
  // One copy, or two with the same rows.
  void gather(const CopyIn<T>& a, const CopyIn<T>& b = {}) const {
    launch(gather_kernel<T>, rows_grid(a.span.rows, b.padded != nullptr), dim3(32 * kWarps), 0,
           at_.stream, problem_, chunk_, a, b);
  }
  void scatter(const CopyOut<T>& a, const CopyOut<T>& b = {}) const {
    launch(scatter_kernel<T>, rows_grid(a.span.rows, b.padded != nullptr), dim3(32 * kWarps), 0,
           at_.stream, problem_, chunk_, a, b);
  }
  // A kernel with a warp for every row of scores.
  template <typename... Parameters, typename... Arguments>
  void over_scores(void (*kernel)(Problem, Chunk, Parameters...), Arguments... arguments) const {
    launch(kernel, rows_grid(chunk_.rows), dim3(32 * kWarps), 0, at_.stream, problem_, chunk_,
           arguments...);
  }

  // scores[R, S] = a[R, d']·b[S, d']ᵀ
  void multiply(const T* a, const T* b, float* scores) const {
    BatchedProduct op = product(chunk_.rows, problem_.length, problem_.columns, a, b, scores);
    op.transpose_b = true;
    products_.run(at_, op);
  }
  // sum[R, d'] = weights[R, S]·values[S, d']
  void weigh(const T* weights, const T* values, float* sum) const {
    products_.run(at_,
                  product(chunk_.rows, problem_.columns, problem_.length, weights, values, sum));
  }
  // sum[S, d'] (+)= weights[R, S]ᵀ·values[R, d'], over all queries of a pair
  void weigh_transposed(const T* weights, const T* values, float* sum) const {
    BatchedProduct op =
        product(problem_.length, problem_.columns, chunk_.rows, weights, values, sum);
    op.transpose_a = true;
    op.accumulate = !is_first();
    products_.run(at_, op);
  }

 private:
  [[nodiscard]] dim3 rows_grid(int rows, bool two = false) const {
    return {blocks_of(static_cast<std::int64_t>(chunk_.pairs) * rows), two ? 2U : 1U};
  }
  [[nodiscard]] BatchedProduct product(std::int64_t m, std::int64_t n, std::int64_t k, const T* a,
                                       const T* b, float* c) const {
    const auto input = [&](const T* data, std::int64_t size) {
      return device::View{const_cast<T*>(data), chunk_.pairs * size, dtype_};
    };
    BatchedProduct op;
    op.m = m;
    op.n = n;
    op.k = k;
    op.a = input(a, m * k);
    op.b = input(b, k * n);
    op.c = {c, chunk_.pairs * m * n, device::Dtype::Float32};
    op.batch = chunk_.pairs;
    op.usual_batch = usual_.pairs;
    return op;
  }

  const KernelLaunch& at_;
  BatchedProducts& products_;
  const Problem problem_;
  const device::Dtype dtype_;
  const Chunk usual_;
  Chunk chunk_;
  const Matrices<T> matrices_;
};

template <typename T>
void forward(const KernelLaunch& at, BatchedProducts& products, const Problem& problem,
             const device::AttentionForward& op) {
  Steps<T> steps(at, products, problem, op.out.dtype, false);
  const Matrices<T>& my = steps.matrices();
  const std::int64_t h = static_cast<std::int64_t>(problem.heads) * problem.size;
  const T* qkv = data_of<T>(op.qkv);
  steps.for_each_chunk([&] {
    if (steps.is_first()) {
      steps.gather({qkv + h, 3 * h, my.key, steps.keys()},
                   {qkv + 2 * h, 3 * h, my.value, steps.keys()});
    }
    steps.gather({qkv, 3 * h, my.query, steps.queries()});
    steps.multiply(my.query, my.key, my.scores);
    steps.over_scores(softmax_kernel<T>, my.scores, my.weights, op.lse.floats());
    steps.weigh(my.weights, my.value, my.out);
    steps.scatter({data_of<T>(op.out), h, my.out, steps.queries()});
  });
}

template <typename T>
void backward(const KernelLaunch& at, BatchedProducts& products, const Problem& problem,
              const device::AttentionBackward& op) {
  Steps<T> steps(at, products, problem, op.out.dtype, true);
  const Matrices<T>& my = steps.matrices();
  const std::int64_t h = static_cast<std::int64_t>(problem.heads) * problem.size;
  const T* qkv = data_of<T>(op.qkv);
  const T* dout = data_of<T>(op.dout);
  T* dqkv = data_of<T>(op.dqkv);
  steps.for_each_chunk([&] {
    if (steps.is_first()) {
      steps.gather({qkv + h, 3 * h, my.key, steps.keys()},
                   {qkv + 2 * h, 3 * h, my.value, steps.keys()});
    }
    steps.gather({qkv, 3 * h, my.query, steps.queries()}, {dout, h, my.dout, steps.queries()});
    steps.multiply(my.query, my.key, my.scores);
    steps.multiply(my.dout, my.value, my.dp);
    steps.over_scores(softmax_gradient_kernel<T>, data_of<T>(op.out), dout, op.lse.floats(),
                      my.scores, my.dp, my.weights, my.dscores);
    steps.weigh_transposed(my.weights, my.dout, my.dvalue);
    steps.weigh_transposed(my.dscores, my.query, my.dkey);
    steps.weigh(my.dscores, my.key, my.out);
    steps.scatter({dqkv, 3 * h, my.out, steps.queries(), problem.scale});
    if (steps.is_last()) {
      steps.scatter({dqkv + h, 3 * h, my.dkey, steps.keys(), problem.scale},
                    {dqkv + 2 * h, 3 * h, my.dvalue, steps.keys()});
    }
  });
}

template <typename T>
void zero_padding(const KernelLaunch& at, const Problem& problem, const device::View& x,
                  const device::View& lse) {
  launch(zero_padding_kernel<T>, dim3(blocks_of(problem.tokens)), dim3(32 * kWarps), 0, at.stream,
         problem, data_of<T>(x), x.size / problem.tokens, data_of<float>(lse));
}

}  // namespace

void attention_forward_reference(const KernelLaunch& at, BatchedProducts& products,
                                 const device::AttentionForward& op) {
  const Problem problem = problem_of(op.out, op.lse, op.heads, op.dropout, op.tokens);
  with_type(op.out.dtype, [&](auto type) {
    using T = decltype(type);
    if (problem.length > 0) forward<T>(at, products, problem, op);
    zero_padding<T>(at, problem, op.out, op.lse);
  });
}

void attention_backward_reference(const KernelLaunch& at, BatchedProducts& products,
                                  const device::AttentionBackward& op) {
  const Problem problem = problem_of(op.out, op.lse, op.heads, op.dropout, op.tokens);
  with_type(op.out.dtype, [&](auto type) {
    using T = decltype(type);
    if (problem.length > 0) backward<T>(at, products, problem, op);
    zero_padding<T>(at, problem, op.dqkv, {});
  });
}

}  // namespace regatta::trainer::cuda
