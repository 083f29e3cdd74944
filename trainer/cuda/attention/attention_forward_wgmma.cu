// Attention, forward, with Hopper's warpgroup products (wgmma.cuh): bfloat16 and float16, heads of
// 64, samples of any length. Formula, lazy scaling and roundings are those of attention_forward.cu.
//
// A block is (128 queries, head): two warpgroups with 64 queries each. K and V come in stages of 64
// rows, two of them in shared memory, by cp.async; the barrier behind which one stage is there is
// also that behind which the other may be refilled. For each stage: s = q·kᵀ, both sides from
// shared memory (Major::K), masks drawn meanwhile; rows of s are queries, so that p, packed, is a
// left side in registers: out += p·v, v read where its rows are k (Major::Outer).
//
// Shared memory: queries 16 KiB, two stages 32 KiB: 48 KiB whatever the length. 118 registers,
// no spills, ptxas serialises no product: two blocks a multiprocessor, 16 warps. Cycles of a
// multiprocessor for 64 × 64 scores, d = 64: products 8 · 32 = 256; shared memory, KiB at 128 bytes
// a cycle: q, k 8 each, v 8: 192; e^x 256 (16 a cycle); issue, with dropout, 16 instructions a
// score and lane less 2.5 for products and fragments, 430, so that with dropout issue is the bound
// as it is for mma.sync. Not measured.
#include <cmath>
#include <cstdint>

#include "trainer/cuda/attention/attention_gradient.cuh"
#include "trainer/cuda/attention/attention_wgmma.h"
#include "trainer/cuda/kernels/launch.cuh"
#include "trainer/cuda/kernels/wgmma.cuh"

namespace regatta::trainer::cuda {
namespace {

constexpr int kHead = wgmma::kSide;
constexpr int kRows = 128;  // queries of a block
constexpr int kStageRows = 64;
constexpr int kThreads = 256;
constexpr int kSquareBytes = kStageRows * kHead * 2;
constexpr int kStages = kRows / kStageRows * kSquareBytes;  // where they begin: behind the queries
constexpr int kStageBytes = 2 * kSquareBytes;               // K, then V
constexpr int kSharedBytes = kStages + 2 * kStageBytes;

template <typename T>
struct ForwardWork {
  const T* qkv;
  T* out;
  float* lse;
  const std::int32_t* ordinal;  // read only with dropout on, like step
  const std::int32_t* step;
  const std::int32_t* count;  // of tiles
  const AttentionTile* tiles;
  int tokens, heads;
  float scale;  // log₂e/√d
  AttentionDropout dropout;
};

#if defined(REGATTA_HAS_WGMMA)

constexpr float kSlack = 8.0F;  // of a score above its reference, in units of log 2
constexpr float kLogOf2 = 0.6931471805599453F;

// A warpgroup's 64 queries and what it has gathered for them.
template <typename T>
class GroupQueries {
 public:
  // `row`: the warp's first query in its sample.
  __device__ GroupQueries(wgmma::Descriptor queries, int head, int row)
      : queries_(queries), head_(head), row_(row) {
#pragma unroll
    for (int i = 0; i < 32; ++i) out_[i / 4][i % 4] = 0;
  }

  // Takes the keys of a stage, of which `count` exist; the first is `key` of the sample.
  __device__ void take(ptx::SharedAddress stage, int key, int count, const SampleDraws& draws,
                       const ForwardWork<T>& work) {
    float s[8][4];
    wgmma::fence(s);
    wgmma::multiply_64<T, wgmma::Major::K, wgmma::Major::K>(s, queries_, wgmma::descriptor(stage),
                                                            false);
    wgmma::commit();
    const std::uint32_t keep = keep_of_square(work.dropout, draws, key);
    wgmma::wait<0>(s);
    if (count < kStageRows) mask(count, s);
    raise_references(work.scale, s);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      float& x = s[i / 4][i % 4];
      x = ptx::exp2_fast(fmaf(x, work.scale, -reference_[i % 4 / 2]));
      sum_[i % 4 / 2] += x;
    }
    std::uint32_t p[4][4];
#pragma unroll
    for (int i = 0; i < 32; i += 2) {
      const int j = i / 4;
      const int c = i % 4;
      p[j / 2][j % 2 * 2 + c / 2] =
          ptx::pack<T>(gradient::is_kept(keep, j / 4, j % 4, c) ? s[j][c] : 0.0F,
                       gradient::is_kept(keep, j / 4, j % 4, c + 1) ? s[j][c + 1] : 0.0F);
    }
    wgmma::fence(p, out_);
    wgmma::multiply_64<T, wgmma::Major::Outer>(out_, p, wgmma::descriptor(stage + kSquareBytes),
                                               true);
    wgmma::commit();
    wgmma::wait<0>(out_);
  }

  // Writes rows below `length`; out and lse belong to the sample's first.
  __device__ void finish(int length, float scale, T* out, std::int64_t hidden, float* lse) const {
    const int lane = gradient::lane_index();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float total = sum_[h];
      total += __shfl_xor_sync(kAllLanes, total, 1);
      total += __shfl_xor_sync(kAllLanes, total, 2);
      const int mine = row_ + h * 8 + lane / 4;
      const bool inside = mine < length;
      if (inside && lane % 4 == 0) lse[mine] = reference_[h] * kLogOf2 + logf(total);
      const float factor = scale / total;
#pragma unroll
      for (int c = 0; c < kHead / 32; ++c) {
        std::uint32_t word[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float(&pair)[4] = out_[4 * c + j];
          word[j] = ptx::pack<T>(pair[2 * h] * factor, pair[2 * h + 1] * factor);
        }
        transpose_quad(word);  // two columns of four tiles become eight of one
        if (inside) {
          *reinterpret_cast<uint4*>(out + mine * hidden + c * 32 + lane % 4 * 8) =
              make_uint4(word[0], word[1], word[2], word[3]);
        }
      }
    }
  }

 private:
  // Bits as in gradient::is_kept(keep, j / 4, j mod 4, c) for s[j][c]. Lane q of a quad draws for
  // keys 8·q and 32 + 8·q of both its rows; then each lane needs two bits of each of the quad's.
  [[nodiscard]] __device__ std::uint32_t keep_of_square(const AttentionDropout& dropout,
                                                        const SampleDraws& draws, int key) const {
    if (dropout.bar == 0) return kAllLanes;
    const int lane = gradient::lane_index();
    std::uint32_t mine = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t block = attention_draws_block(head_, row_ + 8 * (i % 2) + lane / 4,
                                                        key + 32 * (i / 2) + 8 * (lane % 4));
      mine |= gradient::kept_of_eight(draws(dropout, block), dropout.bar) << 8 * i;
    }
    std::uint32_t keep = 0;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const std::uint32_t bits = __shfl_sync(kAllLanes, mine, lane / 4 * 4 + n);
      keep |= (bits >> 2 * (lane % 4) & 0x03030303U) << 2 * n;
    }
    return keep;
  }
  // Keys from `count` on belong to nobody.
  __device__ static void mask(int count, float (&s)[8][4]) {
    const int column = gradient::lane_index() % 4 * 2;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (i / 4 * 8 + column + i % 2 >= count) s[i / 4][i % 4] = -INFINITY;
    }
  }
  // Moves the references of the warp's rows to their largest score if one is kSlack above its own.
  __device__ void raise_references(float scale, const float (&s)[8][4]) {
    float most[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int i = 0; i < 32; ++i) most[i % 4 / 2] = fmaxf(most[i % 4 / 2], s[i / 4][i % 4]);
    most[0] *= scale;
    most[1] *= scale;
    const bool above = most[0] > reference_[0] + kSlack || most[1] > reference_[1] + kSlack;
    if (__any_sync(kAllLanes, static_cast<int>(above)) == 0) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = most[h];
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
      // Finite from the first stage on: key 0 is always there.
      const float next = fmaxf(reference_[h], largest);
      const float factor = ptx::exp2_fast(reference_[h] - next);
      reference_[h] = next;
      sum_[h] *= factor;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        out_[j][2 * h] *= factor;
        out_[j][2 * h + 1] *= factor;
      }
    }
  }

  wgmma::Descriptor queries_;
  int head_, row_;
  float out_[8][4];
  float reference_[2] = {-INFINITY, -INFINITY};  // in units of log 2, of rows g and g + 8
  float sum_[2] = {0, 0};                        // of this lane's columns
};

// Zeros for the tile's tokens, which belong to no sample.
template <typename T>
__device__ void write_zeros(const ForwardWork<T>& work, const AttentionTile& tile, int head) {
  const int rows = min(kRows, tile.length - tile.row);
  const std::int64_t first = tile.begin + tile.row;
  const std::int64_t hidden = static_cast<std::int64_t>(work.heads) * kHead;
  T* out = work.out + first * hidden + head * kHead;
  for (int i = static_cast<int>(threadIdx.x); i < rows * (kHead / 8); i += kThreads) {
    *reinterpret_cast<uint4*>(out + i / (kHead / 8) * hidden + i % (kHead / 8) * 8) =
        make_uint4(0, 0, 0, 0);
  }
  for (int i = static_cast<int>(threadIdx.x); i < rows; i += kThreads) {
    work.lse[static_cast<std::int64_t>(head) * work.tokens + first + i] = 0;
  }
}

template <typename T>
__device__ inline void forward_block(const ForwardWork<T>& work) {
  const int head = static_cast<int>(blockIdx.x) % work.heads;
  const int index = static_cast<int>(blockIdx.x) / work.heads;
  if (index >= *work.count) return;
  const AttentionTile tile = work.tiles[index];
  if (tile.sample < 0) {
    write_zeros(work, tile, head);
    return;
  }
  const std::int64_t hidden = static_cast<std::int64_t>(work.heads) * kHead;
  const std::int64_t stride = 3 * hidden;
  const T* first = work.qkv + tile.begin * stride + head * kHead;
  const ptx::SharedAddress shared = ptx::shared_address(dynamic_shared());
  // Keys and values from `key` on; zeros behind the sample's end.
  const auto fetch = [&](ptx::SharedAddress to, int key) {
    const T* keys = first + key * stride + hidden;
    copy_tile<kHead>(to, keys, stride, kStageRows, tile.length - key);
    copy_tile<kHead>(to + kSquareBytes, keys + hidden, stride, kStageRows, tile.length - key);
    ptx::copy_commit();
  };
  copy_tile<kHead>(shared, first + tile.row * stride, stride, kRows, tile.length - tile.row);
  fetch(shared + kStages, 0);

  // Told by lane 0, so that the compiler knows it to be the same for a warp.
  const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / wgmma::kThreads, 0);
  const int warp = static_cast<int>(threadIdx.x) % wgmma::kThreads / 32;
  const bool drops = work.dropout.bar != 0;
  const SampleDraws draws(work.dropout,
                          drops ? static_cast<std::uint32_t>(work.ordinal[tile.begin]) : 0,
                          drops ? static_cast<std::uint32_t>(*work.step) : 0);
  const bool active = tile.row + wgmma::kSide * group < tile.length;
  GroupQueries<T> mine(wgmma::descriptor(shared + group * kSquareBytes), head,
                       tile.row + wgmma::kSide * group + 16 * warp);
  int other = kStageBytes;  // from `stage` to the other one
  ptx::SharedAddress stage = shared + kStages;
#pragma unroll 1
  for (int key = 0; key < tile.length; key += kStageRows) {
    // Every thread's copies are there, and no warpgroup reads the other stage any more.
    ptx::copy_wait<0>();
    wgmma::share_writes();
    __syncthreads();
    if (key + kStageRows < tile.length) fetch(stage + other, key + kStageRows);
    if (active) mine.take(stage, key, tile.length - key, draws, work);
    stage += other;
    other = -other;
  }
  if (active) {
    mine.finish(tile.length, work.dropout.scale, work.out + tile.begin * hidden + head * kHead,
                hidden, work.lse + static_cast<std::int64_t>(head) * work.tokens + tile.begin);
  }
}

#endif

template <typename T>
__global__ void __launch_bounds__(kThreads, 2) forward_wgmma_kernel(ForwardWork<T> work) {
#if defined(REGATTA_HAS_WGMMA)
  forward_block(work);
#else
  __trap();  // the host does not launch it here
#endif
}

template <typename T>
void launch_forward(const KernelLaunch& at, const device::AttentionForward& op,
                    const LengthClass& which) {
  const std::int64_t tokens = op.lse.size / op.heads;
  const TileList list = build_tiles(at, op.tokens.cumulative, tokens, kRows, which);
  ForwardWork<T> work{};
  work.qkv = data_of<const T>(op.qkv);
  work.out = data_of<T>(op.out);
  work.lse = op.lse.floats();
  work.ordinal = op.tokens.ordinal.ints();
  work.step = op.tokens.step.ints();
  work.count = list.count;
  work.tiles = list.tiles;
  work.tokens = static_cast<int>(tokens);
  work.heads = op.heads;
  work.scale = gradient::kLog2E / std::sqrt(static_cast<float>(kHead));
  work.dropout = attention_dropout_of(op.dropout);
  launch(forward_wgmma_kernel<T>, dim3(static_cast<unsigned>(list.bound * op.heads)),
         dim3(kThreads), kSharedBytes, at.stream, work);
}

}  // namespace

bool attention_forward_has_wgmma(const DeviceFacts& facts, device::Dtype dtype,
                                 std::int64_t head_size) {
  return facts.architecture == 90 && head_size == kHead && kSharedBytes <= facts.shared_bytes &&
         (dtype == device::Dtype::BFloat16 || dtype == device::Dtype::Float16);
}

void attention_forward_wgmma(const KernelLaunch& at, const device::AttentionForward& op,
                             const LengthClass& which) {
  base::check(attention_forward_has_wgmma(at.facts, op.out.dtype, op.out.size / op.lse.size),
              "wgmma kernels are for compute capability 9.0, 16-bit types and heads of 64");
  if (op.out.dtype == device::Dtype::BFloat16) {
    launch_forward<bf16>(at, op, which);
  } else {
    launch_forward<fp16>(at, op, which);
  }
}

}  // namespace regatta::trainer::cuda
