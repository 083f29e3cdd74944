// The way of an NCCL communicator through the plug-in; EMULATED but for the last test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/nccl/nccl_ranks.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/cuda_plugin.h"

namespace regatta::tests {
namespace {

using testing::HasSubstr;

trainer::NcclHost one_host() {
  return {std::make_unique<trainer::SingleHost>(),
          [] { return std::make_unique<trainer::SingleHost>(); }};
}

TEST(EmulatedNcclPlugin, GivesACommunicatorThatWorks) {
  const auto device = trainer::make_cpu_device(1);
  const trainer::PluginPlace place = {{}, EMULATED_PLUGIN_DIRECTORY};
  const auto ranks = trainer::load_nccl_communicator(place, *device, one_host(), {});
  EXPECT_EQ(ranks->ranks(), 1);
  ranks->host().barrier();
  EXPECT_EQ(ranks->open_channel()->ranks(), 1);
  ranks->abandon();
  thrown_message([&] { ranks->host().barrier(); }, base::Code::Retry);
}

TEST(EmulatedNcclPlugin, PassesErrorsOn) {
  const auto device = trainer::make_cpu_device(1);
  const trainer::PluginPlace place = {{}, EMULATED_PLUGIN_DIRECTORY};
  trainer::NcclOptions options;
  options.ranks_per_node = 2;
  const auto load = [&] {
    static_cast<void>(trainer::load_nccl_communicator(place, *device, one_host(), options));
  };
  EXPECT_THAT(thrown_message(load, base::Code::User), HasSubstr("1 ranks are not on nodes of 2"));
}

TEST(EmulatedNcclPlugin, SaysWhereItLooked) {
  const auto device = trainer::make_cpu_device(1);
  const auto load = [&] {
    static_cast<void>(
        trainer::load_nccl_communicator({{}, "/nowhere/at/all"}, *device, one_host(), {}));
  };
  EXPECT_THAT(thrown_message(load, base::Code::Operator), HasSubstr("is not in /nowhere/at/all"));
}

#if defined(REAL_PLUGIN)
// With a GPU and NCCL, one rank sums with itself. Without a GPU there is no device to ask for.
TEST(NcclPlugin, TheRealOneSumsOnOneGpu) {
  const trainer::PluginPlace place = {{}, base::Path(REAL_PLUGIN).parent_path()};
  std::unique_ptr<trainer::Device> device;
  try {
    device = trainer::load_cuda_device(place, {});
  } catch (const base::Error& error) {
    GTEST_SKIP() << "no GPU: " << error.what();
  }
  const auto ranks = trainer::load_nccl_communicator(place, *device, one_host(), {});
  const trainer::DeviceMemory memory(*device, 1000, trainer::Dtype::Float32);
  const std::vector<float> values(1000, 3);
  device->copy_to_device(0, memory.view(), values.data());
  for (int round = 0; round < 3; ++round) {
    ranks->finish(0, ranks->all_reduce_sum(0, memory.view()));
    ranks->finish(0, ranks->reduce_scatter_sum(0, memory.view()));
    ranks->finish(0, ranks->all_gather(0, memory.view()));
  }
  const trainer::Pending last = ranks->broadcast(0, memory.view(), 0);
  ranks->finish(0, last);
  std::vector<float> back(1000);
  device->copy_to_host(0, back.data(), memory.view());
  device->synchronize();
  EXPECT_EQ(back, values);
  EXPECT_GT(ranks->done_at(last), 0);
}
#endif

}  // namespace
}  // namespace regatta::tests
