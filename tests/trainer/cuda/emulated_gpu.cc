// The GPU of tests/gpu/cuda_model_test.cc, played by the CPU.
#include "tests/gpu/gpu.h"
#include "tests/trainer/cuda/emulation/facts.h"

namespace regatta::tests {

std::unique_ptr<trainer::device::Device> make_gpu(const trainer::cuda::CudaOptions& options) {
  emulation::configure(emulation::facts_of(90));
  emulation::set_order(
      emulation::order_from_environment().value_or(emulation::parse_order("random:5")));
  trainer::cuda::CudaOptions untuned = options;
  untuned.tune_products = false;
  return trainer::cuda::make_cuda_device(untuned);
}

bool gpu_is_emulated() { return true; }

}  // namespace regatta::tests
