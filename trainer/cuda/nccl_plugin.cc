// The plug-in's half that makes communicators, where NCCL's header was found.
#include "base/error.h"
#include "trainer/cuda/nccl_library.h"
#include "trainer/cuda/plugin.h"
#include "trainer/nccl/nccl_communicator.h"

using namespace regatta::trainer;  // this file only

ranks::Communicator* regatta_make_nccl_communicator(device::Device* device, nccl::NcclHost* host,
                                                    const nccl::NcclOptions* options,
                                                    device::PluginError* error) {
  return device::made_or_null(
      [&] {
        auto* streams = dynamic_cast<cuda::NativeStreams*>(device);
        regatta::base::check(streams != nullptr, "NCCL moves what lies on this plug-in's device");
        return nccl::make_nccl_communicator(cuda::make_nccl_table(*streams), std::move(*host),
                                            *options);
      },
      error);
}
