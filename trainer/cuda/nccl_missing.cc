// In the place of nccl_plugin.cc where NCCL's header was not found.
#include "trainer/cuda/plugin.h"

using namespace regatta::trainer;  // this file only

ranks::Communicator* regatta_make_nccl_communicator(device::Device*, nccl::NcclHost*,
                                                    const nccl::NcclOptions*,
                                                    device::PluginError* error) {
  return device::made_or_null(
      []() -> std::unique_ptr<ranks::Communicator> {
        throw regatta::base::Error(regatta::base::Code::Operator,
                                   "this libregatta-cuda.so was built without NCCL; install its "
                                   "header (libnccl-dev) and build again, or train on one GPU");
      },
      error);
}
