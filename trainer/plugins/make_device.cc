#include "trainer/plugins/make_device.h"

#include "base/error.h"
#include "base/log.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/plugins/cuda_plugin.h"

namespace regatta::trainer::plugins {
namespace {

// A pass of every token bucket between the shortest and the longest micro-batch, forward and
// backward: about 11 buckets of 256 with balanced lengths, 50 without (simulated on Wikipedia's
// lengths).
constexpr int kMaxGraphs = 128;

cuda::CudaAttention cuda_attention(contract::AttentionKind kind) {
  switch (kind) {
    case contract::AttentionKind::Streamed:
      return cuda::CudaAttention::Streamed;
    case contract::AttentionKind::Resident:
      return cuda::CudaAttention::Resident;
    case contract::AttentionKind::Wgmma:
      return cuda::CudaAttention::Wgmma;
    case contract::AttentionKind::Grouped:
      return cuda::CudaAttention::Grouped;
    case contract::AttentionKind::Reference:
      return cuda::CudaAttention::Reference;
    case contract::AttentionKind::Automatic:
      break;
  }
  return cuda::CudaAttention::Automatic;
}

cuda::CudaOptions cuda_options(const DeviceRequest& request, const DevicePlace& place) {
  cuda::CudaOptions options;
  options.tf32 = request.precision == contract::Precision::Tf32;
  options.attention = cuda_attention(request.attention);
  options.gemm_cache_file = place.products_file;
  options.max_graphs = kMaxGraphs;
  options.index = request.local_rank;
  return options;
}

std::unique_ptr<device::Device> cuda_device(const DeviceRequest& request,
                                            const DevicePlace& place) {
  return load_cuda_device({place.program, place.plugin_directory}, cuda_options(request, place));
}

}  // namespace

std::int64_t workspace_bytes(contract::DeviceKind kind, contract::AttentionKind attention) {
  if (kind == contract::DeviceKind::Cpu) return 0;
  // 64 MiB a stream (trainer/cuda/README.md); grouped attention has three more streams.
  return (attention == contract::AttentionKind::Grouped ? 4 : 1) * (std::int64_t{64} << 20);
}

std::unique_ptr<device::Device> make_device(const DeviceRequest& request,
                                            const DevicePlace& place) {
  if (request.kind == contract::DeviceKind::Cuda) return cuda_device(request, place);
  if (request.kind == contract::DeviceKind::Auto) {
    try {
      return cuda_device(request, place);
    } catch (const base::Error& error) {
      base::log(base::LogLevel::Info, std::string("training on the CPU: ") + error.what());
    }
  }
  cpu::CpuOptions options;
  options.threads = request.threads;
  options.isa = place.instruction_set;
  if (request.determinism == contract::Determinism::Portable) {
    options.arithmetic = cpu::CpuArithmetic::Portable;
  }
  return cpu::make_cpu_device(options);
}

}  // namespace regatta::trainer::plugins
