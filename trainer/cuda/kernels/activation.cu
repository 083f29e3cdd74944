// Element-wise operations and column sums. x, y [n] activations of type T, s = sizeof(T).
//
//   gelu_forward, tanh_forward     y = f(x)              2·s bytes an element
//   gelu_backward                  dx = dy·gelu'(x)      3·s
//   tanh_backward                  dx = dy·(1 − y²)      3·s
//   add                            y += x                3·s
//   convert                        to = from             s of each type
//   add_column_sums                sum[c] += Σ_r x[r, c] s, see column_sums.cuh
//
// A thread takes two groups of eight neighbouring elements, one block's width apart: two 16-byte
// loads of a 16-bit operand in flight, and whole 512-byte lines a warp. What is left of n / 8, and
// views that do not begin at 16 bytes (slices for tests; none on a model's path), go one by one.
// Floor on H200 for [32768, 4096] bfloat16: GELU 537 MB = 0.13 ms at 4.0 TB/s, its gradient 805 MB
// = 0.20 ms. GELU costs some 20 instructions an element, of the 30 that fit into the time its 4
// bytes take: close enough to both limits that a product's epilogue, which has the value in a
// register already, is the better place for it. Not measured.
//
// Rejected: erff and tanhf for 16-bit types (twice the instructions, for bits that rounding drops);
// tanh.approx for them (its relative error, 5e-4, is as large as float16's rounding); a grid-stride
// loop (no work to share between iterations).
#include "trainer/cuda/kernels/column_sums.cuh"
#include "trainer/cuda/kernels/gelu.cuh"
#include "trainer/cuda/kernels/kernels.h"
#include "trainer/cuda/kernels/launch.cuh"
#include "trainer/cuda/kernels/norm_row.cuh"
#include "trainer/cuda/kernels/numeric.cuh"

namespace regatta::trainer::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kGroups = 2;  // of eight elements, a thread

struct Same {
  __device__ static float of(float x) { return x; }
};
struct Tanh {
  __device__ static float of(float x) { return tanhf(x); }
};
template <bool tanh_form, bool exact>
struct Gelu {
  __device__ static float of(float x) { return gelu<tanh_form, exact>(x); }
};
struct Sum {
  __device__ static float of(float x, float y) { return x + y; }
};
struct TanhGradient {
  __device__ static float of(float y, float dy) { return dy * (1.0F - y * y); }
};
template <bool tanh_form, bool exact>
struct GeluGradient {
  __device__ static float of(float x, float dy) { return dy * gelu_slope<tanh_form, exact>(x); }
};

// to may be from.
template <typename Function, typename To, typename From>
__global__ void __launch_bounds__(kThreads)
    map_kernel(const From* from, To* to, std::int64_t groups, std::int64_t size) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (kThreads * kGroups) + threadIdx.x;
  Raw8<From> raw[kGroups] = {};
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const std::int64_t i = first + g * kThreads;
    if (i < groups) raw[g] = load_raw(from + 8 * i);
  }
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const std::int64_t i = first + g * kThreads;
    Eight v = unpack<From>(raw[g]);
#pragma unroll
    for (int e = 0; e < 8; ++e) v.v[e] = Function::of(v.v[e]);
    if (i < groups) store8(to + 8 * i, v);
  }
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = 8 * groups + std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < size;
       i += stride) {
    to[i] = from_float<To>(Function::of(to_float(from[i])));
  }
}

// to may be a or b.
template <typename Function, typename T>
__global__ void __launch_bounds__(kThreads)
    join_kernel(const T* a, const T* b, T* to, std::int64_t groups, std::int64_t size) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (kThreads * kGroups) + threadIdx.x;
  Raw8<T> raw_a[kGroups] = {};
  Raw8<T> raw_b[kGroups] = {};
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const std::int64_t i = first + g * kThreads;
    if (i < groups) {
      raw_a[g] = load_raw(a + 8 * i);
      raw_b[g] = load_raw(b + 8 * i);
    }
  }
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const std::int64_t i = first + g * kThreads;
    Eight v = unpack<T>(raw_a[g]);
    const Eight w = unpack<T>(raw_b[g]);
#pragma unroll
    for (int e = 0; e < 8; ++e) v.v[e] = Function::of(v.v[e], w.v[e]);
    if (i < groups) store8(to + 8 * i, v);
  }
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = 8 * groups + std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < size;
       i += stride) {
    to[i] = from_float<T>(Function::of(to_float(a[i]), to_float(b[i])));
  }
}

// Whole groups of eight in a view of `size` elements, none if some operand is not aligned.
struct Extent {
  std::int64_t groups = 0, size = 0;

  Extent(std::int64_t count, bool aligned) : groups(aligned ? count / 8 : 0), size(count) {}
  [[nodiscard]] dim3 grid() const {
    const std::int64_t rest = size - 8 * groups;
    return dim3(static_cast<unsigned>(
        std::max(ceil_div(groups, kThreads * kGroups), ceil_div(rest, kThreads * kGroups))));
  }
};

template <typename Function, typename To, typename From>
void map(const KernelLaunch& at, const device::View& from, const device::View& to) {
  const Extent extent(to.size, is_aligned(from.data) && is_aligned(to.data));
  launch(map_kernel<Function, To, From>, extent.grid(), dim3(kThreads), 0, at.stream,
         data_of<From>(from), data_of<To>(to), extent.groups, extent.size);
}

template <typename Function, typename T>
void join(const KernelLaunch& at, const device::View& a, const device::View& b,
          const device::View& to) {
  const Extent extent(to.size, is_aligned(a.data) && is_aligned(b.data) && is_aligned(to.data));
  launch(join_kernel<Function, T>, extent.grid(), dim3(kThreads), 0, at.stream, data_of<T>(a),
         data_of<T>(b), data_of<T>(to), extent.groups, extent.size);
}

}  // namespace

void gelu_forward(const KernelLaunch& at, device::View x, device::View y, bool tanh_form) {
  with_type(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (tanh_form) {
      map<Gelu<true, kExact<T>>, T, T>(at, x, y);
    } else {
      map<Gelu<false, kExact<T>>, T, T>(at, x, y);
    }
  });
}

void gelu_backward(const KernelLaunch& at, device::View x, device::View dy, device::View dx,
                   bool tanh_form) {
  with_type(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (tanh_form) {
      join<GeluGradient<true, kExact<T>>, T>(at, x, dy, dx);
    } else {
      join<GeluGradient<false, kExact<T>>, T>(at, x, dy, dx);
    }
  });
}

void tanh_forward(const KernelLaunch& at, device::View x, device::View y) {
  with_type(x.dtype, [&](auto zero) { map<Tanh, decltype(zero), decltype(zero)>(at, x, y); });
}

void tanh_backward(const KernelLaunch& at, device::View y, device::View dy, device::View dx) {
  with_type(y.dtype, [&](auto zero) { join<TanhGradient, decltype(zero)>(at, y, dy, dx); });
}

void add(const KernelLaunch& at, device::View x, device::View y) {
  with_type(x.dtype, [&](auto zero) { join<Sum, decltype(zero)>(at, x, y, y); });
}

void convert(const KernelLaunch& at, device::View to, device::View from) {
  with_type(from.dtype, [&](auto source) {
    with_type(to.dtype,
              [&](auto target) { map<Same, decltype(target), decltype(source)>(at, from, to); });
  });
}

void add_column_sums(const KernelLaunch& at, device::View x, std::int64_t columns,
                     device::View sum) {
  with_type(x.dtype, [&](auto zero) {
    add_class_sums(at, data_of<decltype(zero)>(x), x.size / columns, columns, nullptr, 1,
                   sum.floats());
  });
}

}  // namespace regatta::trainer::cuda
