// Softmax cross-entropy of rows, logits [M, V] of s bytes an element, rows `stride` ≥ V apart:
//
//   loss = log Σ_j e^(x_j − most) − (x_label − most), most = max_j x_j
//   x_j becomes (e^(x_j − most) / Σ − [j = label])·scale, in place
//
// A block of 512 threads has one row, and where rows are whole 16 bytes and at most 32,768 elements
// apart it holds the row in registers, −∞ in what lies between rows: eight groups of eight
// neighbouring logits a thread, all loads under way before the first is used. So a row is read once
// and written once, 2·s bytes a logit (s to evaluate), and largest, sum and gradient are three
// passes over registers with two barriers between. Other rows take the long form: the same passes
// over memory, one logit a thread in turn, of which the second and third mostly hit the
// second-level cache (132·4 rows of 61 KB are 32 of its 50 MB).
//
// The prediction is right if the label's logit is the largest and none before it is as large:
// looked up only in rows where the first holds. A row labelled −1 becomes zeros unread. Losses go
// to scratch, and one block adds them in a fixed order.
//
// With labels smoothed by e, [j = label] becomes q_j = (1 − e)·[j = label] + e/V, and x_label
// becomes Σ_j q_j·x_j: a fourth pass over registers, or memory, with a barrier of its own.
//
// Answers, logits [T, 2]: the same softmax over the tokens of a sample, for each of two columns. A
// block of 256 threads has one sample and both of its columns, in the long form: 3 KB of at most
// 512 tokens stay in the first-level cache. Squared errors: a thread has one sample. Neither has a
// floor that matters.
//
// Floor on H200 for [4992, 30592] bfloat16: 611 MB = 153 µs at 4.0 TB/s; two exponentials for each
// of 153 M logits take 82 µs of the special function units (16 a clock and multiprocessor), which
// overlap with it.
// Not measured.
//
// Rejected: keeping the exponentials instead of computing them again (rounded to 16 bits they would
// lose the gradient's accuracy, in float32 they double the registers); the row in shared memory (61
// KB a block allows three blocks, but costs two more passes of loads); an online maximum (saves a
// pass over registers only, and costs a second exponential for each group).
#include <algorithm>
#include <cmath>

#include "trainer/cuda/kernels/gelu.cuh"
#include "trainer/cuda/kernels/kernels.h"
#include "trainer/cuda/kernels/launch.cuh"
#include "trainer/cuda/kernels/norm_row.cuh"
#include "trainer/cuda/kernels/numeric.cuh"

namespace regatta::trainer::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;

// The whole block's largest; `partial` as for block_sum.
__device__ float block_max(float x, float* partial) {
  x = warp_max(x);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  float most = partial[0];
  for (int i = 1; i < static_cast<int>(blockDim.x) / 32; ++i) most = fmaxf(most, partial[i]);
  return most;
}

// Where a row of logits is: `classes` of them, then what belongs to none, up to `stride`.
template <typename T>
struct Row {
  T* data = nullptr;
  int classes = 0, stride = 0;

  // Zeros from element `first` on; every thread of the block calls it.
  __device__ void clear(int first) const {
    for (int j = first + static_cast<int>(threadIdx.x); j < stride;
         j += static_cast<int>(blockDim.x)) {
      data[j] = from_float<T>(0.0F);
    }
  }
};

// A thread's share of a row: `groups` times eight logits in registers, or, with 0, every
// blockDim.x-th in memory.
template <typename T, int groups>
struct RowShare {
  Row<T> row;
  Raw8<T> held[groups];

  __device__ explicit RowShare(const Row<T>& of) : row(of), held{} {
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      if (first_of(g) < row.stride) held[g] = load_raw(row.data + first_of(g));
    }
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      if (first_of(g) + 8 > row.classes) mask(&held[g], row.classes - first_of(g));
    }
  }
  __device__ static int first_of(int g) {
    return (g * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * 8;
  }
  // Logits that no sum or maximum notices, and whose gradient is 0, from element `count` on.
  __device__ static void mask(Raw8<T>* group, int count) {
    union {
      Raw8<T> raw;
      T v[8];
    } both = {*group};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i >= count) both.v[i] = from_float<T>(-INFINITY);
    }
    *group = both.raw;
  }
  // body(class, logit) for all of them, and for what follows the last class.
  template <typename Body>
  __device__ void each(Body body) const {
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      if (first_of(g) >= row.stride) continue;
      const Eight x = unpack<T>(held[g]);
#pragma unroll
      for (int i = 0; i < 8; ++i) body(first_of(g) + i, x.v[i]);
    }
  }
  // Every logit becomes body(class, logit).
  template <typename Body>
  __device__ void replace(Body body) {
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      if (first_of(g) >= row.stride) continue;
      Eight x = unpack<T>(held[g]);
#pragma unroll
      for (int i = 0; i < 8; ++i) x.v[i] = body(first_of(g) + i, x.v[i]);
      store8(row.data + first_of(g), x);
    }
  }
};
template <typename T>
struct RowShare<T, 0> {
  Row<T> row;

  __device__ explicit RowShare(const Row<T>& of) : row(of) {}
  template <typename Body>
  __device__ void each(Body body) const {
    for (auto j = static_cast<int>(threadIdx.x); j < row.classes;
         j += static_cast<int>(blockDim.x)) {
      body(j, to_float(row.data[j]));
    }
  }
  template <typename Body>
  __device__ void replace(Body body) {
    for (auto j = static_cast<int>(threadIdx.x); j < row.classes;
         j += static_cast<int>(blockDim.x)) {
      row.data[j] = from_float<T>(body(j, to_float(row.data[j])));
    }
    row.clear(row.classes);
  }
};

// A thread's share of one column of a sample's [classes, 2] logits.
template <typename T>
struct ColumnShare {
  T* data = nullptr;  // of the column's first token
  int classes = 0;

  template <typename Body>
  __device__ void each(Body body) const {
    for (auto j = static_cast<int>(threadIdx.x); j < classes; j += static_cast<int>(blockDim.x)) {
      body(j, to_float(data[2 * j]));
    }
  }
  template <typename Body>
  __device__ void replace(Body body) {
    for (auto j = static_cast<int>(threadIdx.x); j < classes; j += static_cast<int>(blockDim.x)) {
      data[2 * j] = from_float<T>(body(j, to_float(data[2 * j])));
    }
  }
};

struct RowResult {
  float loss = 0, correct = 0, labelled = 0;
};

// One softmax: how many classes, which is right, the logit of that, and smoothing.
struct Softmax {
  int classes = 0, label = 0;
  float of_label = 0, smoothing = 0;
};
// Shared memory of one, each written once.
struct Partials {
  float most[kWarps], sum[kWarps], ties[kWarps], above[kWarps];
};

// The loss of a block's softmax; every thread of the block calls it and gets the result. The share
// becomes the gradient by `scale`; with a null `scale`, it stays.
template <typename T, typename Share>
__device__ RowResult loss_of(Share& share, const Softmax& of, const float* scale, float by,
                             Partials& partials) {
  float most = -INFINITY;
  share.each([&](int, float x) { most = fmaxf(most, x); });
  most = block_max(most, partials.most);
  float sum = 0;
  share.each([&](int, float x) { sum += exponential<kExact<T>>(x - most); });
  sum = block_sum(sum, partials.sum);
  float earlier = 0;
  if (of.of_label == most) {  // the whole block
    share.each([&](int j, float x) { earlier += j < of.label && x == most ? 1.0F : 0.0F; });
    earlier = block_sum(earlier, partials.ties);
  }
  const float each = of.smoothing / static_cast<float>(of.classes);
  float expected = of.of_label - most;
  if (of.smoothing != 0.0F) {  // the whole block
    float above = 0;
    share.each([&](int j, float x) { above += j < of.classes ? x - most : 0.0F; });
    above = block_sum(above, partials.above);
    expected = (1.0F - of.smoothing) * expected + each * above;
  }
  const RowResult result = {logf(sum) - expected,
                            of.of_label == most && earlier == 0.0F ? 1.0F : 0.0F, 1.0F};
  if (scale == nullptr) return result;
  const float factor = *scale * by / sum;
  const float others = *scale * by * each;
  const float label = *scale * by * (1.0F - of.smoothing) + others;
  share.replace([&](int j, float x) {
    const float target = j == of.label ? label : (j < of.classes ? others : 0.0F);
    return exponential<kExact<T>>(x - most) * factor - target;
  });
  return result;
}

template <typename T>
struct Rows {
  T* logits = nullptr;
  const std::int32_t* labels = nullptr;
  int classes = 0, stride = 0;
  float smoothing = 0;
  const float* scale = nullptr;  // null to evaluate
  RowResult* results = nullptr;
};

template <typename T, int groups>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 2 ? 2 : 1)
    cross_entropy_kernel(Rows<T> op) {
  __shared__ Partials partials;
  const Row<T> row = {op.logits + std::int64_t{blockIdx.x} * op.stride, op.classes, op.stride};
  const std::int32_t label = op.labels[blockIdx.x];
  if (label < 0) {  // the whole block
    if (op.scale != nullptr) row.clear(0);
    if (threadIdx.x == 0) op.results[blockIdx.x] = {};
    return;
  }
  const float of_label = to_float(row.data[label]);
  RowShare<T, groups> share(row);
  const RowResult result =
      loss_of<T>(share, {op.classes, label, of_label, op.smoothing}, op.scale, 1.0F, partials);
  if (threadIdx.x == 0) op.results[blockIdx.x] = result;
}

template <typename T>
struct Answers {
  T* logits = nullptr;
  const std::int32_t* answers = nullptr;
  const std::int32_t* cumulative = nullptr;
  float smoothing = 0;
  const float* scale = nullptr;  // null to evaluate
  RowResult* results = nullptr;
};
constexpr int kAnswerThreads = 256;

// One block a sample.
template <typename T>
__global__ void __launch_bounds__(kAnswerThreads) span_cross_entropy_kernel(Answers<T> op) {
  __shared__ Partials partials[2];
  const std::int32_t first = op.cumulative[blockIdx.x];
  const int tokens = op.cumulative[blockIdx.x + 1] - first;
  T* logits = op.logits + 2 * std::int64_t{first};
  const std::int32_t* answer = op.answers + 2 * std::int64_t{blockIdx.x};
  if (answer[0] < 0 || answer[1] < 0) {  // the whole block
    if (op.scale != nullptr) Row<T>{logits, 2 * tokens, 2 * tokens}.clear(0);
    if (threadIdx.x == 0) op.results[blockIdx.x] = {};
    return;
  }
  RowResult result = {0.0F, 1.0F, 1.0F};
  for (int c = 0; c < 2; ++c) {
    ColumnShare<T> share = {logits + c, tokens};
    const float of_label = to_float(share.data[2 * answer[c]]);
    const RowResult column =
        loss_of<T>(share, {tokens, answer[c], of_label, op.smoothing}, op.scale, 0.5F, partials[c]);
    result.loss += 0.5F * column.loss;
    result.correct *= column.correct;
  }
  if (threadIdx.x == 0) op.results[blockIdx.x] = result;
}

// Zeros for the tokens of no sample, which lie from *used on. Any number of blocks.
template <typename T>
__global__ void clear_rest_kernel(T* logits, std::int64_t size, const std::int32_t* used) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i =
           2 * std::int64_t{*used} + std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < size; i += threads) {
    logits[i] = from_float<T>(0.0F);
  }
}

// One thread a sample; a null `scale` evaluates.
template <typename T>
__global__ void squared_error_kernel(T* logits, const float* values, std::int64_t samples,
                                     const float* scale, RowResult* results) {
  const std::int64_t s = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (s >= samples) return;
  const bool counts = values[s] == values[s];  // not NaN
  const float error = counts ? to_float(logits[s]) - values[s] : 0.0F;
  results[s] = {error * error, 0.0F, counts ? 1.0F : 0.0F};
  if (scale != nullptr) logits[s] = from_float<T>(counts ? error * (2.0F * *scale) : 0.0F);
}

constexpr int kSumThreads = 1024;
__global__ void __launch_bounds__(kSumThreads)
    add_results_kernel(const RowResult* results, std::int64_t rows, float* sums) {
  __shared__ float partial[3][32];
  RowResult total;
#pragma unroll 4
  for (std::int64_t r = threadIdx.x; r < rows; r += kSumThreads) {
    total.loss += results[r].loss;
    total.correct += results[r].correct;
    total.labelled += results[r].labelled;
  }
  total.loss = block_sum(total.loss, partial[0]);
  total.correct = block_sum(total.correct, partial[1]);
  total.labelled = block_sum(total.labelled, partial[2]);
  if (threadIdx.x == 0) {
    sums[0] += total.loss;
    sums[1] += total.correct;
    sums[2] += total.labelled;
  }
}

// Results that the scratch memory holds.
std::int64_t result_room(const KernelLaunch& at) {
  return at.scratch_bytes / static_cast<std::int64_t>(sizeof(RowResult));
}
void add_results(const KernelLaunch& at, const RowResult* results, std::int64_t count,
                 const device::View& sums) {
  launch(add_results_kernel, dim3(1), dim3(kSumThreads), 0, at.stream, results, count,
         sums.floats());
}

template <typename T>
void run(const KernelLaunch& at, const device::CrossEntropy& op) {
  Rows<T> rows;
  rows.logits = data_of<T>(op.logits);
  rows.labels = op.labels.ints();
  rows.classes = static_cast<int>(op.classes);
  rows.stride = static_cast<int>(op.row_stride());
  rows.smoothing = op.label_smoothing;
  rows.scale = op.evaluate ? nullptr : op.scale.floats();
  rows.results = static_cast<RowResult*>(at.scratch);
  const std::int64_t room = result_room(at);
  const bool whole = rows.stride % 8 == 0 && is_aligned(op.logits.data);
  auto kernel = cross_entropy_kernel<T, 0>;
  if (whole && rows.stride <= 8 * kThreads * 8) kernel = cross_entropy_kernel<T, 8>;
  if (whole && rows.stride <= 8 * kThreads) kernel = cross_entropy_kernel<T, 1>;
  // A warp is enough for two classes; the block of a long row is full.
  const std::int64_t warps = (rows.stride + (whole ? 255 : 31)) / (whole ? 256 : 32);
  const auto threads = static_cast<unsigned>(32 * std::min<std::int64_t>(kWarps, warps));
  for (std::int64_t first = 0; first < op.labels.size; first += room) {
    const std::int64_t count = std::min(room, op.labels.size - first);
    launch(kernel, dim3(static_cast<unsigned>(count)), dim3(threads), 0, at.stream, rows);
    add_results(at, rows.results, count, op.sums);
    rows.logits += count * rows.stride;
    rows.labels += count;
  }
}

template <typename T>
void run(const KernelLaunch& at, const device::SpanCrossEntropy& op) {
  const std::int64_t samples = op.cumulative.size - 1;
  Answers<T> answers;
  answers.logits = data_of<T>(op.logits);
  answers.answers = op.answers.ints();
  answers.cumulative = op.cumulative.ints();
  answers.smoothing = op.label_smoothing;
  answers.scale = op.evaluate ? nullptr : op.scale.floats();
  answers.results = static_cast<RowResult*>(at.scratch);
  const std::int64_t room = result_room(at);
  for (std::int64_t first = 0; first < samples; first += room) {
    const std::int64_t count = std::min(room, samples - first);
    launch(span_cross_entropy_kernel<T>, dim3(static_cast<unsigned>(count)), dim3(kAnswerThreads),
           0, at.stream, answers);
    add_results(at, answers.results, count, op.sums);
    answers.answers += 2 * count;
    answers.cumulative += count;
  }
  if (op.evaluate) return;
  constexpr std::int64_t kMostBlocks = 64;
  const std::int64_t blocks =
      std::min(kMostBlocks, (op.logits.size + kAnswerThreads - 1) / kAnswerThreads);
  launch(clear_rest_kernel<T>, dim3(static_cast<unsigned>(blocks)), dim3(kAnswerThreads), 0,
         at.stream, data_of<T>(op.logits), op.logits.size, op.cumulative.ints() + samples);
}

template <typename T>
void run(const KernelLaunch& at, const device::SquaredError& op) {
  constexpr std::int64_t kSamples = 256;  // of a block
  const std::int64_t room = result_room(at);
  auto* results = static_cast<RowResult*>(at.scratch);
  for (std::int64_t first = 0; first < op.logits.size; first += room) {
    const std::int64_t count = std::min(room, op.logits.size - first);
    launch(squared_error_kernel<T>, dim3(static_cast<unsigned>((count + kSamples - 1) / kSamples)),
           dim3(kSamples), 0, at.stream, data_of<T>(op.logits) + first, op.values.floats() + first,
           count, op.evaluate ? nullptr : op.scale.floats(), results);
    add_results(at, results, count, op.sums);
  }
}

}  // namespace

void cross_entropy(const KernelLaunch& at, const device::CrossEntropy& op) {
  with_type(op.logits.dtype, [&](auto zero) { run<decltype(zero)>(at, op); });
}

void span_cross_entropy(const KernelLaunch& at, const device::SpanCrossEntropy& op) {
  with_type(op.logits.dtype, [&](auto zero) { run<decltype(zero)>(at, op); });
}

void squared_error(const KernelLaunch& at, const device::SquaredError& op) {
  with_type(op.logits.dtype, [&](auto zero) { run<decltype(zero)>(at, op); });
}

}  // namespace regatta::trainer::cuda
