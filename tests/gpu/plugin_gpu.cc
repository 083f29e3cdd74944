// REGATTA_PLUGIN_DIR names the directory of libregatta-cuda.so; without it, that of the build.
// REGATTA_CACHE_DIR names that of the products' timings; without it they last as long as the
// process, in a temporary one: every test makes a device of its own, and none should time again
// what another has. These programs fail where there is no GPU: tests/gpu.sh runs them where there
// is one.
#include <cstdlib>
#include <filesystem>

#include "tests/gpu/gpu.h"
#include "trainer/plugins/cuda_plugin.h"

namespace regatta::tests {
namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = std::filesystem::temp_directory_path() / "regatta-products-XXXXXX";
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;  // empty: there is no place for one
};

std::string products_file() {
  if (const char* directory = std::getenv("REGATTA_CACHE_DIR")) {
    return std::filesystem::path(directory) / "products.txt";
  }
  static const TemporaryDirectory mine;
  return mine.path().empty() ? std::string() : (mine.path() / "products.txt").string();
}

}  // namespace

std::unique_ptr<trainer::device::Device> make_gpu(const trainer::cuda::CudaOptions& options) {
  const char* const directory = std::getenv("REGATTA_PLUGIN_DIR");
  trainer::plugins::PluginPlace place;
  place.program = std::filesystem::read_symlink("/proc/self/exe");
  place.directory = directory != nullptr ? directory : REGATTA_BINARY_DIR "/trainer";
  trainer::cuda::CudaOptions timed = options;
  if (timed.tune_products && timed.gemm_cache_file.empty()) timed.gemm_cache_file = products_file();
  return trainer::plugins::load_cuda_device(place, timed);
}

bool gpu_is_emulated() { return false; }

}  // namespace regatta::tests
