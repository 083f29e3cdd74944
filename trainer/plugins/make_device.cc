#include "trainer/plugins/make_device.h"

#include "base/error.h"
#include "base/log.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/plugins/cuda_plugin.h"

namespace regatta::trainer {
namespace {

// A pass of every token bucket between the shortest and the longest micro-batch, forward and
// backward: about 11 buckets of 256 with balanced lengths, 50 without (facts: trainer.md F4).
constexpr int kMaxGraphs = 128;

CudaAttention cuda_attention(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::Streamed:
      return CudaAttention::Streamed;
    case AttentionKind::Resident:
      return CudaAttention::Resident;
    case AttentionKind::Wgmma:
      return CudaAttention::Wgmma;
    case AttentionKind::Grouped:
      return CudaAttention::Grouped;
    case AttentionKind::Reference:
      return CudaAttention::Reference;
    case AttentionKind::Automatic:
      break;
  }
  return CudaAttention::Automatic;
}

CudaOptions cuda_options(const DeviceRequest& request, const DevicePlace& place) {
  CudaOptions options;
  options.tf32 = request.precision == Precision::Tf32;
  options.attention = cuda_attention(request.attention);
  options.gemm_cache_file = place.products_file;
  options.max_graphs = kMaxGraphs;
  options.index = request.local_rank;
  return options;
}

std::unique_ptr<Device> cuda_device(const DeviceRequest& request, const DevicePlace& place) {
  return load_cuda_device({place.program, place.plugin_directory}, cuda_options(request, place));
}

}  // namespace

std::int64_t workspace_bytes(DeviceKind kind, AttentionKind attention) {
  if (kind == DeviceKind::Cpu) return 0;
  // 64 MiB a stream (trainer/cuda/README.md); grouped attention has three more streams.
  return (attention == AttentionKind::Grouped ? 4 : 1) * (std::int64_t{64} << 20);
}

std::unique_ptr<Device> make_device(const DeviceRequest& request, const DevicePlace& place) {
  if (request.kind == DeviceKind::Cuda) return cuda_device(request, place);
  if (request.kind == DeviceKind::Auto) {
    try {
      return cuda_device(request, place);
    } catch (const base::Error& error) {
      base::log(base::LogLevel::Info, std::string("training on the CPU: ") + error.what());
    }
  }
  return make_cpu_device(request.threads);
}

}  // namespace regatta::trainer
