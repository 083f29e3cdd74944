// x[t] = word[ids[t]] + position[p] + type[types[t]]; y = dropout(LayerNorm(x)·gamma + beta), and
// the gradients. Activations (tables, x, y, dy) of s bytes an element, gradients float32.
//
//   forward     gathers the word's row (position and type rows stay in cache), writes x, y:
//               3·s bytes an element of [T, h]. Mapping: norm_forward.cuh.
//   backward    reads dy, x, writes dx over dy: 3·s (norm_backward.cuh), then dx once for each
//   table:
//               3·s, and 8 bytes for every element of a word's row that occurs.
//
// The sums of dx over the tokens of one word, position or type have a fixed order without atomics:
//
//   words      tokens sorted by id are cut into chunks of 64 places. A block walks a chunk and adds
//              every id that lies wholly inside it to its row. An id that crosses a border
//              (padding, "the", [MASK]: thousands of places) leaves one partial row in each chunk,
//              the `tail` where it begins and a `head` in the chunks after, and a second launch,
//              whose block for chunk c acts only if an id's tail is there, adds them in order of
//              chunks.
//   positions  a block has one position and a share of the samples; with several shares their
//              partial rows are added by column_sums.cuh. Samples are walked with `cumulative`, so
//              tokens of no sample take no part.
//   types      column_sums.cuh with a class for every row: a warp skips rows of other types, so all
//              types together read dx once.
//
// Floor on H200 for T = 32,768, h = 1,024, bfloat16: forward 201 MB = 50 µs; backward 403 MB and
// some 80 MB of word gradients = 120 µs at 4.0 TB/s. Once a step, against 24 layers of some 0.5 ms
// each. Not measured.
//
// Rejected: float atomics (order, and [MASK] alone would serialise 4,000 adds); one block an id (a
// walk of 4,000 rows outlasts everything else); sorting on the device (the loader's counting sort
// is free); keeping dx in float32 for the tables (its rounding is that of every activation
// gradient).
#include <algorithm>

#include "trainer/cuda/kernels/column_sums.cuh"
#include "trainer/cuda/kernels/kernels.h"
#include "trainer/cuda/kernels/norm_backward.cuh"
#include "trainer/cuda/kernels/norm_forward.cuh"

namespace regatta::trainer::cuda {
namespace {

// The three tables' sum; y is dropped out at the end.
template <typename T, bool drops>
struct TableSource {
  const T* word = nullptr;
  const T* position = nullptr;
  const T* type = nullptr;
  const std::int32_t* ids = nullptr;
  const std::int32_t* places = nullptr;
  const std::int32_t* types = nullptr;
  TokenMask mask;
  int hidden = 0;

  struct Row {
    struct Fetched {
      Raw8<T> word, position, type;
    };
    const T* word;
    const T* position;
    const T* type;
    RowMask mask;

    __device__ Fetched fetch(int feature) const {
      return {load_raw(word + feature), load_raw(position + feature), load_raw(type + feature)};
    }
    __device__ Eight make(const Fetched& fetched, int /*feature*/) const {
      Eight x = unpack<T>(fetched.word);
      const Eight by_position = unpack<T>(fetched.position);
      const Eight by_type = unpack<T>(fetched.type);
#pragma unroll
      for (int i = 0; i < 8; ++i) x.v[i] = x.v[i] + by_position.v[i] + by_type.v[i];
      return x;
    }
    __device__ void finish(Eight* y, int feature) const {
      if constexpr (drops) mask.apply(y, feature);
    }
  };
  __device__ Row row(std::int64_t t) const {
    Row result = {word + std::int64_t{ids[t]} * hidden,
                  position + std::int64_t{places[t]} * hidden,
                  type + std::int64_t{types[t]} * hidden,
                  {}};
    if constexpr (drops) result.mask = mask.row(t, hidden);
    return result;
  }
};

template <typename T, bool drops>
void forward(const KernelLaunch& at, const device::EmbeddingForward& op) {
  NormForward<T> norm;
  norm.gamma = op.gamma.floats();
  norm.beta = op.beta.floats();
  norm.epsilon = op.epsilon;
  norm.hidden = static_cast<int>(op.gamma.size);
  norm.rows = op.ids.size;
  norm.z = data_of<T>(op.x);
  norm.mean = op.mean.floats();
  norm.rstd = op.rstd.floats();
  norm.y = data_of<T>(op.y);
  TableSource<T, drops> source;
  source.word = data_of<T>(op.word);
  source.position = data_of<T>(op.position);
  source.type = data_of<T>(op.type);
  source.ids = op.ids.ints();
  source.places = op.tokens.position.ints();
  source.types = op.types.ints();
  source.mask = mask_of(op.dropout, op.tokens);
  source.hidden = norm.hidden;
  norm_forward(at, source, norm);
}

// Features [first, first + width) of dx [T, hidden], and where word gradients go.
template <typename T>
struct WordSums {
  const T* dx = nullptr;
  const std::int32_t* ids = nullptr;
  const std::int32_t* sorted = nullptr;
  std::int64_t tokens = 0;
  int hidden = 0, first = 0, width = 0;
  float* dword = nullptr;
  float* crossing = nullptr;  // [chunks, 2, width]: head and tail of each chunk

  __device__ std::int32_t id_at(std::int64_t place) const { return ids[sorted[place]]; }
  __device__ float* row(std::int32_t id, int feature) const {
    return dword + std::int64_t{id} * hidden + first + feature;
  }
  __device__ float* head(std::int64_t chunk, int feature) const {
    return crossing + 2 * chunk * width + feature;
  }
  __device__ float* tail(std::int64_t chunk, int feature) const {
    return head(chunk, feature) + width;
  }
};

constexpr int kChunk = 64;
constexpr int kTileThreads = 256;  // of eight features each
constexpr std::int32_t kNoId = -1;

__device__ inline int tile_feature() {
  return static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * 8;
}

template <typename T>
__global__ void __launch_bounds__(kTileThreads) word_chunks_kernel(WordSums<T> op) {
  __shared__ std::int32_t token[kChunk];
  __shared__ std::int32_t id[kChunk + 2];  // with the neighbours on both sides
  const std::int64_t begin = std::int64_t{blockIdx.x} * kChunk;
  const auto count = static_cast<int>(min(std::int64_t{kChunk}, op.tokens - begin));
  for (int i = static_cast<int>(threadIdx.x); i < count + 2; i += static_cast<int>(blockDim.x)) {
    const std::int64_t place = begin + i - 1;
    id[i] = place >= 0 && place < op.tokens ? op.id_at(place) : kNoId;
    if (i >= 1 && i <= count) token[i - 1] = op.sorted[place];
  }
  __syncthreads();
  const int feature = tile_feature();
  if (feature >= op.width) return;
  constexpr int kAhead = 8;
  Eight sum = {};
  for (int start = 0; start < count; start += kAhead) {
    Raw8<T> raw[kAhead] = {};
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (start + k >= count) continue;
      raw[k] = load_raw(op.dx + std::int64_t{token[start + k]} * op.hidden + op.first + feature);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int i = start + k + 1;  // in `id`
      if (i > count) continue;
      accumulate(&sum, unpack<T>(raw[k]));
      if (i < count && id[i + 1] == id[i]) continue;
      if (id[i] == id[0]) {
        store8(op.head(blockIdx.x, feature), sum);
      } else if (id[i] == id[count + 1]) {
        store8(op.tail(blockIdx.x, feature), sum);
      } else {
        accumulate(&sum, load8(op.row(id[i], feature)));
        store8(op.row(id[i], feature), sum);
      }
      sum = {};
    }
  }
}

// Block c: the id whose tail is in chunk c, if there is one.
template <typename T>
__global__ void __launch_bounds__(kTileThreads)
    word_crossings_kernel(WordSums<T> op, std::int64_t chunks) {
  __shared__ float partial[32];
  const std::int64_t chunk = blockIdx.x;
  const std::int64_t begin = chunk * kChunk;
  const std::int64_t end = begin + kChunk;
  if (end >= op.tokens) return;  // the whole block, as below
  const std::int32_t id = op.id_at(end - 1);
  if (op.id_at(end) != id) return;
  if (begin > 0 && op.id_at(begin - 1) == id) return;
  float followers = 0;  // chunks that begin with this id; exact below 2^24
  for (std::int64_t c = chunk + 1 + threadIdx.x; c < chunks; c += blockDim.x) {
    followers += op.id_at(c * kChunk) == id ? 1.0F : 0.0F;
  }
  const auto last = chunk + static_cast<std::int64_t>(block_sum(followers, partial));
  const int feature = tile_feature();
  if (feature >= op.width) return;
  Eight sum = load8(op.tail(chunk, feature));
#pragma unroll 8
  for (std::int64_t c = chunk + 1; c <= last; ++c) accumulate(&sum, load8(op.head(c, feature)));
  accumulate(&sum, load8(op.row(id, feature)));
  store8(op.row(id, feature), sum);
}

struct Tiles {
  unsigned threads = 0, count = 0;

  explicit Tiles(std::int64_t width)
      : threads(
            static_cast<unsigned>(std::min<std::int64_t>(kTileThreads, 32 * ceil_div(width, 256)))),
        count(static_cast<unsigned>(ceil_div(width, 8 * std::int64_t{threads}))) {}
};

template <typename T>
void add_word_gradients(const KernelLaunch& at, const device::EmbeddingBackward& op) {
  WordSums<T> sums;
  sums.dx = data_of<T>(op.dy);
  sums.ids = op.ids.ints();
  sums.sorted = op.sorted.ints();
  sums.tokens = op.ids.size;
  sums.hidden = static_cast<int>(op.gamma.size);
  sums.dword = op.dword.floats();
  sums.crossing = static_cast<float*>(at.scratch);
  const std::int64_t chunks = ceil_div(sums.tokens, kChunk);
  // All features at once, unless there are so many tokens that their partial rows need the room.
  const std::int64_t room = at.scratch_bytes / (2 * chunks * std::int64_t{sizeof(float)}) / 8 * 8;
  base::check(room > 0, "scratch holds the partial rows of eight features");
  for (std::int64_t first = 0; first < sums.hidden; first += sums.width) {
    sums.first = static_cast<int>(first);
    sums.width = static_cast<int>(std::min(room, sums.hidden - first));
    const Tiles tiles(sums.width);
    const dim3 grid(static_cast<unsigned>(chunks), tiles.count);
    launch(word_chunks_kernel<T>, grid, dim3(tiles.threads), 0, at.stream, sums);
    launch(word_crossings_kernel<T>, grid, dim3(tiles.threads), 0, at.stream, sums, chunks);
  }
}

// Block (p, feature tile, share): Σ dx over the share's samples that have a position p. One share
// adds to dposition itself; of several, each writes a partial row.
template <typename T>
__global__ void __launch_bounds__(kTileThreads)
    position_sums_kernel(const T* dx, const std::int32_t* cumulative, int samples, int per_share,
                         int hidden, float* dposition, float* partial) {
  const int feature = tile_feature();
  if (feature >= hidden) return;
  const auto position = static_cast<int>(blockIdx.x);
  const int begin = static_cast<int>(blockIdx.z) * per_share;
  const int end = min(begin + per_share, samples);
  constexpr int kAhead = 8;
  Eight sum = {};
  for (int start = begin; start < end; start += kAhead) {
    Raw8<T> raw[kAhead] = {};
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (start + k >= end) continue;
      const int token = cumulative[start + k] + position;
      if (token >= cumulative[start + k + 1]) continue;
      raw[k] = load_raw(dx + std::int64_t{token} * hidden + feature);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) accumulate(&sum, unpack<T>(raw[k]));
  }
  const std::int64_t place = std::int64_t{position} * hidden + feature;
  if (gridDim.z == 1) {
    accumulate(&sum, load8(dposition + place));
    store8(dposition + place, sum);
  } else {
    store8(partial + std::int64_t{blockIdx.z} * gridDim.x * hidden + place, sum);
  }
}

template <typename T>
void add_position_gradients(const KernelLaunch& at, const device::EmbeddingBackward& op) {
  const std::int64_t hidden = op.gamma.size;
  const std::int64_t positions = op.tokens.max_length;
  const std::int64_t samples = op.tokens.cumulative.size - 1;
  if (positions == 0) return;
  const Tiles tiles(hidden);
  const std::int64_t share_bytes = positions * hidden * std::int64_t{sizeof(float)};
  std::int64_t shares = ceil_div(4 * at.facts.multiprocessors, positions * tiles.count);
  shares = std::min({shares, ceil_div(samples, 8), at.scratch_bytes / share_bytes});
  shares = std::max<std::int64_t>(shares, 1);
  const std::int64_t per_share = ceil_div(samples, shares);
  shares = ceil_div(samples, per_share);
  float* partial = static_cast<float*>(at.scratch);
  launch(position_sums_kernel<T>,
         dim3(static_cast<unsigned>(positions), tiles.count, static_cast<unsigned>(shares)),
         dim3(tiles.threads), 0, at.stream, data_of<T>(op.dy), op.tokens.cumulative.ints(),
         static_cast<int>(samples), static_cast<int>(per_share), static_cast<int>(hidden),
         op.dposition.floats(), partial);
  if (shares == 1) return;
  PartialTargets targets;
  targets.to[0] = op.dposition.floats();
  targets.width = positions * hidden;
  targets.count = 1;
  add_partials(at, partial, shares, targets);
}

template <typename T>
void backward(const KernelLaunch& at, const device::EmbeddingBackward& op) {
  NormBackward<T> norm;
  norm.dy = data_of<T>(op.dy);
  norm.z = data_of<T>(op.x);
  norm.mean = op.mean.floats();
  norm.rstd = op.rstd.floats();
  norm.gamma = op.gamma.floats();
  norm.mask = mask_of(op.dropout, op.tokens);
  norm.hidden = static_cast<int>(op.gamma.size);
  norm.rows = op.ids.size;
  norm.dz = data_of<T>(op.dy);
  PartialTargets targets;
  targets.to[0] = op.dgamma.floats();
  targets.to[1] = op.dbeta.floats();
  targets.width = op.gamma.size;
  targets.count = 2;
  if (op.dropout.threshold != 0) {
    norm_backward<T, MaskPlace::OnInput>(at, norm, targets);
  } else {
    norm_backward<T, MaskPlace::None>(at, norm, targets);
  }
  add_word_gradients<T>(at, op);
  add_position_gradients<T>(at, op);
  add_class_sums(at, data_of<T>(op.dy), op.ids.size, op.gamma.size, op.types.ints(),
                 op.dtype_rows.size / op.gamma.size, op.dtype_rows.floats());
}

}  // namespace

void embedding_forward(const KernelLaunch& at, const device::EmbeddingForward& op) {
  with_type(op.x.dtype, [&](auto zero) {
    if (op.dropout.threshold != 0) {
      forward<decltype(zero), true>(at, op);
    } else {
      forward<decltype(zero), false>(at, op);
    }
  });
}

void embedding_backward(const KernelLaunch& at, const device::EmbeddingBackward& op) {
  if (op.ids.size == 0) return;
  with_type(op.dy.dtype, [&](auto zero) { backward<decltype(zero)>(at, op); });
}

}  // namespace regatta::trainer::cuda
