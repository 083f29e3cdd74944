// In the place of nccl_plugin.cc where NCCL's header was not found.
#include "trainer/cuda/plugin.h"

using namespace regatta::trainer;  // this file only

Communicator* regatta_make_nccl_communicator(Device*, NcclHost*, const NcclOptions*,
                                             PluginError* error) {
  return made_or_null(
      []() -> std::unique_ptr<Communicator> {
        throw regatta::base::Error(regatta::base::Code::Operator,
                                   "this libregatta-cuda.so was built without NCCL; install its "
                                   "header (libnccl-dev) and build again, or train on one GPU");
      },
      error);
}
