// Files named like the CUDA plug-in that are not it; what each has is chosen by definitions.
#include <cstdio>

#include "base/error.h"
#include "trainer/cuda/plugin.h"

#if defined(BOGUS_VERSION)
const char* regatta_cuda_plugin_version() { return BOGUS_VERSION; }
#elif defined(BOGUS_VERSION_OF_THIS_BUILD)
const char* regatta_cuda_plugin_version() { return regatta::trainer::cuda::kCudaPluginVersion; }
#else
extern "C" int something_else() { return 1; }
#endif

#if defined(BOGUS_REFUSES)
regatta::trainer::device::Device* regatta_make_cuda_device(
    const regatta::trainer::cuda::CudaOptions* options,
    regatta::trainer::device::PluginError* error) {
  error->code = static_cast<int>(regatta::base::Code::Retry);
  std::snprintf(error->message, sizeof error->message, "no GPU %d today", options->index);
  return nullptr;
}
#endif

#if defined(BOGUS_NEEDS_MORE)
extern "C" int a_function_of_another_cublas();
extern "C" int needs_more() { return a_function_of_another_cublas(); }
#endif
