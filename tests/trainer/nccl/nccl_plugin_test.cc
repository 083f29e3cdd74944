// The way of an NCCL communicator through the plug-in, EMULATED.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/nccl/nccl_ranks.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/cuda/plugin.h"
#include "trainer/plugins/cuda_plugin.h"

namespace regatta::tests {
namespace {

using testing::HasSubstr;

trainer::nccl::NcclHost one_host() {
  return {std::make_unique<trainer::ranks::SingleHost>(),
          [] { return std::make_unique<trainer::ranks::SingleHost>(); }};
}

TEST(EmulatedNcclPlugin, GivesACommunicatorThatWorks) {
  const auto device = trainer::cpu::make_cpu_device(1);
  const trainer::plugins::PluginPlace place = {{}, EMULATED_PLUGIN_DIRECTORY};
  const auto ranks = trainer::plugins::load_nccl_communicator(place, *device, one_host(), {});
  EXPECT_EQ(ranks->ranks(), 1);
  ranks->host().barrier();
  EXPECT_EQ(ranks->open_channel()->ranks(), 1);
  ranks->abandon();
  thrown_message([&] { ranks->host().barrier(); }, base::Code::Retry);
}

TEST(EmulatedNcclPlugin, PassesErrorsOn) {
  const auto device = trainer::cpu::make_cpu_device(1);
  const trainer::plugins::PluginPlace place = {{}, EMULATED_PLUGIN_DIRECTORY};
  trainer::nccl::NcclOptions options;
  options.ranks_per_node = 2;
  const auto load = [&] {
    static_cast<void>(
        trainer::plugins::load_nccl_communicator(place, *device, one_host(), options));
  };
  EXPECT_THAT(thrown_message(load, base::Code::User), HasSubstr("1 ranks are not on nodes of 2"));
}

TEST(EmulatedNcclPlugin, SaysWhereItLooked) {
  const auto device = trainer::cpu::make_cpu_device(1);
  const auto load = [&] {
    static_cast<void>(
        trainer::plugins::load_nccl_communicator({{}, "/nowhere/at/all"}, *device, one_host(), {}));
  };
  EXPECT_THAT(thrown_message(load, base::Code::Operator), HasSubstr("is not in /nowhere/at/all"));
}

// Linked into this test: what a plug-in has in its place that was built without NCCL's header.
TEST(NcclMissing, SaysWhatToInstall) {
  const auto device = trainer::cpu::make_cpu_device(1);
  trainer::nccl::NcclHost host = one_host();
  trainer::device::PluginError error;
  EXPECT_EQ(regatta_make_nccl_communicator(device.get(), &host, nullptr, &error), nullptr);
  const auto raise = [&] {
    static_cast<void>(
        trainer::device::owned_or_throw<trainer::ranks::Communicator>(nullptr, error));
  };
  EXPECT_THAT(thrown_message(raise, base::Code::Operator), HasSubstr("install its header"));
}

}  // namespace
}  // namespace regatta::tests
