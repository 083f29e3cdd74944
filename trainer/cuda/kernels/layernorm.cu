// z = dropout(x) + residual; y = LayerNorm(z)·gamma + beta (Ba et al., 2016), and its gradients.
// x, residual, z, y [R, h] activations of s bytes an element; mean, rstd [R]; masks are drawn again
// in backward, so they cost no memory. Mapping: norm_forward.cuh, norm_backward.cuh.
//
//   forward    reads x, residual, writes z, y        4·s bytes an element (2·s for y alone)
//   backward   reads dy, z, writes dresidual, dx     4·s (3·s without dropout)
//
// Floor on H200 for [32768, 1024] bfloat16: 268 MB either way = 67 µs at 4.0 TB/s, 84 µs at the 80
// % aimed for. Dropout costs one philox call (some 70 instructions) for eight elements, LayerNorm
// some 100 for the same eight: together a little over a third of the issue slots that the floor
// time has. The partial sums of backward, 2·132 blocks · 3·h floats = 3.2 MB, stay in the
// second-level cache. Not measured.
//
// Statistics are those of the rounded z. With those of the float32 sum, backward would compute
// x̂ = (z − mean)·rstd from a z that does not have that mean, and dz would not be orthogonal to it.
//
// dbias adds dx before it is rounded.
//
// Rejected: Welford (two passes over registers are cheaper and more accurate); a stored mask (1 bit
// an element saves fewer instructions than its memory costs design); in backward a warp for a whole
// row, as forward has it (96 registers of sums a lane at h = 1024 leave eight warps a
// multiprocessor).
#include "trainer/cuda/kernels/kernels.h"
#include "trainer/cuda/kernels/norm_backward.cuh"
#include "trainer/cuda/kernels/norm_forward.cuh"

namespace regatta::trainer::cuda {
namespace {

// dropout(x) + residual.
template <typename T, bool drops>
struct ResidualSource {
  const T* x = nullptr;
  const T* residual = nullptr;  // may be null
  TokenMask mask;
  int hidden = 0;

  struct Row {
    struct Fetched {
      Raw8<T> x, residual;
    };
    const T* x;
    const T* residual;
    RowMask mask;

    __device__ Fetched fetch(int feature) const {
      Fetched fetched = {};
      fetched.x = load_raw(x + feature);
      if (residual != nullptr) fetched.residual = load_raw(residual + feature);
      return fetched;
    }
    __device__ Eight make(const Fetched& fetched, int feature) const {
      Eight z = unpack<T>(fetched.x);
      if constexpr (drops) mask.apply(&z, feature);
      const Eight more = unpack<T>(fetched.residual);
#pragma unroll
      for (int i = 0; i < 8; ++i) z.v[i] += more.v[i];
      return z;
    }
    __device__ void finish(Eight* /*y*/, int /*feature*/) const {}
  };
  __device__ Row row(std::int64_t r) const {
    Row result = {x + r * hidden, residual == nullptr ? nullptr : residual + r * hidden, {}};
    if constexpr (drops) result.mask = mask.row(r, hidden);
    return result;
  }
};

template <typename T, bool drops>
void forward(const KernelLaunch& at, const device::LayerNormForward& op) {
  NormForward<T> norm;
  norm.gamma = op.gamma.floats();
  norm.beta = op.beta.floats();
  norm.epsilon = op.epsilon;
  norm.hidden = static_cast<int>(op.gamma.size);
  norm.rows = op.x.size / op.gamma.size;
  norm.z = data_of<T>(op.z);
  norm.keeps_z = drops || op.residual.size != 0 || op.z.data != op.x.data;
  norm.mean = op.mean.floats();
  norm.rstd = op.rstd.floats();
  norm.y = data_of<T>(op.y);
  ResidualSource<T, drops> source;
  source.x = data_of<T>(op.x);
  if (op.residual.size != 0) source.residual = data_of<T>(op.residual);
  source.mask = mask_of(op.dropout, op.tokens);
  source.hidden = norm.hidden;
  norm_forward(at, source, norm);
}

}  // namespace

void layer_norm_forward(const KernelLaunch& at, const device::LayerNormForward& op) {
  with_type(op.x.dtype, [&](auto zero) {
    if (op.dropout.threshold != 0) {
      forward<decltype(zero), true>(at, op);
    } else {
      forward<decltype(zero), false>(at, op);
    }
  });
}

void layer_norm_backward(const KernelLaunch& at, const device::LayerNormBackward& op) {
  PartialTargets targets;
  targets.to[0] = op.dgamma.floats();
  targets.to[1] = op.dbeta.floats();
  targets.to[2] = op.dbias.floats();
  targets.width = op.gamma.size;
  targets.count = op.dbias.size != 0 ? 3 : 2;
  with_type(op.dy.dtype, [&](auto zero) {
    using T = decltype(zero);
    NormBackward<T> norm;
    norm.dy = data_of<T>(op.dy);
    norm.z = data_of<T>(op.z);
    norm.mean = op.mean.floats();
    norm.rstd = op.rstd.floats();
    norm.gamma = op.gamma.floats();
    norm.mask = mask_of(op.dropout, op.tokens);
    norm.hidden = static_cast<int>(op.gamma.size);
    norm.rows = op.z.size / op.gamma.size;
    norm.dz = data_of<T>(op.dresidual);
    norm.dx = op.dx.data != op.dresidual.data ? data_of<T>(op.dx) : nullptr;
    if (op.dropout.threshold != 0) {
      norm_backward<T, MaskPlace::OnOutput>(at, norm, targets);
    } else {
      norm_backward<T, MaskPlace::None>(at, norm, targets);
    }
  });
}

}  // namespace regatta::trainer::cuda
