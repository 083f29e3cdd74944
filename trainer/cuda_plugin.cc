#include "trainer/cuda_plugin.h"

#include <dlfcn.h>

#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "trainer/cuda/plugin.h"

namespace regatta::trainer {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw base::Error(base::Code::Operator, message);
}

std::string name_of(const base::Path& path) { return base::printable(path.string()); }

std::vector<base::Path> directories(const CudaPluginPlace& place) {
  if (!place.directory.empty()) return {place.directory};
  const base::Path here = place.program.parent_path();
  std::vector<base::Path> all = {here, here.parent_path() / "lib"};
  const base::Path installed = here.parent_path() / REGATTA_LIBRARY_DIRECTORY;
  if (installed != all.back()) all.push_back(installed);
  return all;
}

base::Path find_plugin(const CudaPluginPlace& place) {
  std::vector<std::string> looked;
  for (const base::Path& directory : directories(place)) {
    std::error_code error;
    const base::Path path = directory / kCudaPluginFile;
    if (std::filesystem::exists(path, error)) return path;
    looked.push_back(name_of(directory));
  }
  refuse("the CUDA device's " + std::string(kCudaPluginFile) + " is not in " +
         base::join(looked, ", ") +
         "; build and install it with the CMake preset cuda, name its directory in "
         "REGATTA_PLUGIN_DIR, or use device cpu");
}

void* load(const base::Path& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* reason = dlerror();
    refuse("cannot load " + name_of(path) + ": " +
           base::printable(reason == nullptr ? "no reason given" : reason) +
           "; CUDA's own libraries must be found (LD_LIBRARY_PATH or ldconfig)");
  }
  return library;
}

template <typename Function>
Function* entry(void* library, const char* name, const base::Path& path) {
  void* address = dlsym(library, name);
  if (address == nullptr) {
    refuse(name_of(path) + " is not a plug-in of this program (it has no " + name +
           "); install both from one build");
  }
  Function* function = nullptr;
  static_assert(sizeof function == sizeof address);
  std::memcpy(&function, &address, sizeof function);
  return function;
}

}  // namespace

std::unique_ptr<Device> load_cuda_device(const CudaPluginPlace& place, const CudaOptions& options) {
  const base::Path path = find_plugin(place);
  void* library = load(path);
  auto* version = entry<CudaVersionFunction>(library, kCudaVersionFunction, path);
  const std::string found = version();
  if (found != kCudaPluginVersion) {
    refuse(name_of(path) + " is \"" + base::printable(found) + "\", but this program needs \"" +
           kCudaPluginVersion + "\"; install both from one build");
  }
  auto* make = entry<CudaMakeFunction>(library, kCudaMakeFunction, path);
  CudaPluginError error;
  std::unique_ptr<Device> device(make(&options, &error));
  if (device == nullptr) throw base::Error(static_cast<base::Code>(error.code), error.message);
  return device;
}

}  // namespace regatta::trainer
