// REGATTA_PLUGIN_DIR names the directory of libregatta-cuda.so; without it, that of the build.
// These programs fail where there is no GPU: tests/gpu.sh runs them where there is one.
#include <cstdlib>
#include <filesystem>

#include "tests/gpu/gpu.h"
#include "trainer/cuda_plugin.h"

namespace regatta::tests {

std::unique_ptr<trainer::Device> make_gpu(const trainer::CudaOptions& options) {
  const char* const directory = std::getenv("REGATTA_PLUGIN_DIR");
  trainer::PluginPlace place;
  place.program = std::filesystem::read_symlink("/proc/self/exe");
  place.directory = directory != nullptr ? directory : REGATTA_BINARY_DIR "/trainer";
  return trainer::load_cuda_device(place, options);
}

bool gpu_is_emulated() { return false; }

}  // namespace regatta::tests
