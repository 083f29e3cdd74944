#include "trainer/cuda/plugin.h"

#include <cstdio>
#include <exception>

#include "base/error.h"

namespace {

void describe(regatta::base::Code code, const char* message,
              regatta::trainer::CudaPluginError* error) {
  error->code = static_cast<int>(code);
  std::snprintf(error->message, sizeof error->message, "%s", message);
}

}  // namespace

const char* regatta_cuda_plugin_version() { return regatta::trainer::kCudaPluginVersion; }

regatta::trainer::Device* regatta_make_cuda_device(const regatta::trainer::CudaOptions* options,
                                                   regatta::trainer::CudaPluginError* error) {
  try {
    return regatta::trainer::make_cuda_device(*options).release();
  } catch (const regatta::base::Error& failure) {
    describe(failure.code(), failure.what(), error);
  } catch (const std::exception& failure) {
    describe(regatta::base::Code::Developer, failure.what(), error);
  }
  return nullptr;
}
