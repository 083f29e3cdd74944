// NCCL itself, on the one GPU of this machine: every collective of one rank is the identity, in the
// order of the device's stream.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "tests/gpu/gpu.h"
#include "trainer/plugins/cuda_plugin.h"

namespace regatta::tests {
namespace {

TEST(NcclOnOneGpu, CollectivesOfOneRankAreTheIdentity) {
  const char* const directory = std::getenv("REGATTA_PLUGIN_DIR");
  const trainer::plugins::PluginPlace place = {
      std::filesystem::read_symlink("/proc/self/exe"),
      directory != nullptr ? directory : REGATTA_BINARY_DIR "/trainer"};
  const auto device = make_gpu({});
  std::unique_ptr<trainer::ranks::Communicator> ranks;
  try {
    ranks = trainer::plugins::load_nccl_communicator(
        place, *device,
        {std::make_unique<trainer::ranks::SingleHost>(),
         [] { return std::make_unique<trainer::ranks::SingleHost>(); }},
        {});
  } catch (const base::Error& error) {
    if (error.code() == base::Code::Operator) GTEST_SKIP() << "needs NCCL: " << error.what();
    throw;
  }
  const trainer::device::DeviceMemory memory(*device, 1000, trainer::device::Dtype::Float32);
  const std::vector<float> values(1000, 3);
  device->copy_to_device(0, memory.view(), values.data());
  for (int round = 0; round < 3; ++round) {
    ranks->finish(0, ranks->all_reduce_sum(0, memory.view()));
    ranks->finish(0, ranks->reduce_scatter_sum(0, memory.view()));
    ranks->finish(0, ranks->all_gather(0, memory.view()));
  }
  const trainer::ranks::Pending last = ranks->broadcast(0, memory.view(), 0);
  ranks->finish(0, last);
  std::vector<float> back(1000);
  device->copy_to_host(0, back.data(), memory.view());
  device->synchronize();
  EXPECT_EQ(back, values);
  EXPECT_GT(ranks->done_at(last), 0);
}

}  // namespace
}  // namespace regatta::tests
