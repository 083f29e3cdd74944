// The deferred device catches what it says it catches.
#include "tests/trainer/device/deferred_device.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

constexpr std::uint64_t kSeeds[] = {0, 1, 2, 3};

struct Two {
  std::vector<float> host{1, 2};
  device::DeviceMemory memory;
  explicit Two(device::Device& device) : memory(device, 2, device::Dtype::Float32) {}
  [[nodiscard]] device::View view() const { return memory.view(); }
};

// Runs `enqueue` and expects it to be refused as a race between the two named operations.
template <typename Enqueue>
void expect_race(const std::string& one, const std::string& other, Enqueue enqueue) {
  try {
    enqueue();
    FAIL() << one << " and " << other << " were not refused";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Developer);
    EXPECT_NE(std::string(error.what()).find(one), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(other), std::string::npos) << error.what();
  }
}

TEST(DeferredDevice, RunsNothingBeforeTheHostWaits) {
  for (const std::uint64_t seed : kSeeds) {
    const auto device = make_deferred_device(1, seed);
    Two x(*device);
    EXPECT_TRUE(std::isnan(x.view().floats()[0])) << "new memory is poisoned";
    device->copy_to_device(0, x.view(), x.host.data());
    const device::Event event = device->record(0);
    EXPECT_TRUE(std::isnan(x.view().floats()[0]));
    device->wait_host(event);
    EXPECT_EQ(x.view().floats()[1], 2.0F);
    device->synchronize();
  }
}

// Host memory of the device: undefined when new, and gone at once when released, whatever copies
// still need of it.
TEST(DeferredDevice, PoisonsHostMemoryThatIsReleasedTooEarly) {
  const auto device = make_deferred_device(1);
  Two x(*device);
  auto* host = static_cast<float*>(device->allocate_host(8));
  EXPECT_TRUE(std::isnan(host[0]));
  host[0] = host[1] = 5;
  device->copy_to_device(0, x.view(), host);
  device->release_host(host);
  device->synchronize();
  EXPECT_TRUE(std::isnan(x.view().floats()[0])) << "released before it was copied";
  host = static_cast<float*>(device->allocate_host(8));
  host[0] = host[1] = 5;
  device->copy_to_device(0, x.view(), host);
  device->wait_host(device->record(0));
  device->release_host(host);
  EXPECT_EQ(x.view().floats()[1], 5.0F);
  device->synchronize();
}

// Everything that an epilogue touches counts.
TEST(DeferredDevice, RefusesRacesForEpilogues) {
  const auto touched = [](device::View device::Gemm::*view, bool forward) {
    const auto device = make_deferred_device(1);
    const device::Stream other = device->make_stream();
    std::vector<device::DeviceMemory> memory;
    for (int i = 0; i < 5; ++i) memory.emplace_back(*device, 64, device::Dtype::Float32);
    device::Gemm op;
    op.m = op.n = op.k = 8;
    op.a = memory[0].view();
    op.b = memory[1].view();
    op.c = memory[2].view();
    if (view != &device::Gemm::a_column_sums) op.activation = device::Activation::GeluErf;
    if (view == &device::Gemm::a_column_sums) {
      op.transpose_a = true;
      op.a_column_sums = memory[4].view().slice(0, 8);
    } else if (forward) {
      op.pre_activation = memory[3].view();
    } else {
      op.gelu_input = memory[3].view();
      op.c_column_sums = memory[4].view().slice(0, 8);
    }
    device->gemm(0, op);
    expect_race("gemm", "fill_zero", [&] { device->fill_zero(other, op.*view); });
    device->synchronize();
  };
  touched(&device::Gemm::pre_activation, true);
  touched(&device::Gemm::gelu_input, false);
  touched(&device::Gemm::c_column_sums, false);
  touched(&device::Gemm::a_column_sums, false);
}

TEST(DeferredDevice, RefusesARaceForTheLossScale) {
  const auto device = make_deferred_device(1);
  const device::Stream other = device->make_stream();
  const device::DeviceMemory memory(*device, 8, device::Dtype::Float32);
  const device::DeviceMemory labels(*device, 2, device::Dtype::Int32);
  device::CrossEntropy op;
  op.logits = memory.view().slice(0, 4);
  op.labels = labels.view();
  op.classes = 2;
  op.scale = memory.view().slice(4, 1);
  op.sums = memory.view().slice(5, 3);
  device->fill_zero(0, labels.view());
  device->cross_entropy(0, op);
  expect_race("cross_entropy", "fill_zero", [&] { device->fill_zero(other, op.scale); });
  device->synchronize();
}

TEST(DeferredDevice, PoisonsWhatTheHostReadsTooEarly) {
  const auto device = make_deferred_device(1);
  Two x(*device);
  device->copy_to_device(0, x.view(), x.host.data());
  std::vector<float> out = {7, 7};
  device->copy_to_host(0, out.data(), x.view());
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_TRUE(std::isnan(out[1]));
  device->wait_host(device->record(0));
  EXPECT_EQ(out, x.host);
  device->copy_to_device(0, x.view(), x.host.data());
  EXPECT_TRUE(std::isnan(x.view().floats()[0])) << "device memory that will be overwritten, too";
  device->synchronize();
}

// Poison must never reach work that was enqueued before.
TEST(DeferredDevice, KeepsWhatEarlierWorkStillReads) {
  for (const std::uint64_t seed : kSeeds) {
    const auto device = make_deferred_device(1, seed);
    Two x(*device);
    std::vector<float> out(2);
    device->copy_to_device(0, x.view(), x.host.data());
    device->copy_to_host(0, out.data(), x.view());
    device->fill_zero(0, x.view());
    device->synchronize();
    EXPECT_EQ(out, x.host);
    EXPECT_EQ(x.view().floats()[0], 0.0F);
  }
}

TEST(DeferredDevice, ReadsHostMemoryAsLateAsItMay) {
  const auto device = make_deferred_device(1);
  Two x(*device);
  device->copy_to_device(0, x.view(), x.host.data());
  x.host = {5, 6};  // too early: a device may not have read it yet
  device->synchronize();
  EXPECT_EQ(x.view().floats()[0], 5.0F);
}

TEST(DeferredDevice, RunsOnlyWhatTheAwaitedEventNeeds) {
  const auto device = make_deferred_device(1, 0);
  const device::Stream side = device->make_stream();
  Two x(*device);
  Two y(*device);
  device->copy_to_device(0, x.view(), x.host.data());
  const device::Event first = device->record(0);
  device->copy_to_device(side, y.view(), y.host.data());
  device->fill_zero(0, x.view());
  device->wait_host(first);
  EXPECT_EQ(x.view().floats()[1], 2.0F) << "the fill came after the event";
  EXPECT_TRUE(std::isnan(y.view().floats()[1])) << "the other stream was not needed";
  device->synchronize();
  EXPECT_EQ(x.view().floats()[1], 0.0F);
  EXPECT_EQ(y.view().floats()[1], 2.0F);
}

TEST(DeferredDevice, FollowsEventsAcrossStreams) {
  for (const std::uint64_t seed : kSeeds) {
    const auto device = make_deferred_device(1, seed);
    const device::Stream side = device->make_stream();
    const device::Stream third = device->make_stream();
    Two x(*device);
    Two y(*device);
    device->copy_to_device(0, x.view(), x.host.data());
    device->wait(side, device->record(0));
    device->copy(side, y.view(), x.view());
    device->wait(third, device->record(side));
    device->add(third, x.view(), y.view());
    std::vector<float> out(2);
    device->copy_to_host(third, out.data(), y.view());
    device->wait_host(device->record(third));
    EXPECT_EQ(out, (std::vector<float>{2, 4}));
    device->synchronize();
  }
}

TEST(DeferredDevice, RefusesRacesBetweenStreams) {
  for (const std::uint64_t seed : kSeeds) {
    const auto device = make_deferred_device(1, seed);
    const device::Stream side = device->make_stream();
    Two x(*device);
    Two y(*device);
    device->copy_to_device(0, x.view(), x.host.data());
    expect_race("copy_to_device on stream 0", "copy on stream 1",
                [&] { device->copy(side, y.view(), x.view()); });
    device->wait(side, device->record(0));
    device->copy(side, y.view(), x.view());  // ordered now
    device->copy(side, y.view(), x.view());
    expect_race("fill_zero on stream 0", "copy on stream 1",
                [&] { device->fill_zero(0, x.view()); });  // while the side stream reads it
    expect_race("fill_zero on stream 0", "copy on stream 1",
                [&] { device->fill_zero(0, y.view().slice(1, 1)); });
    device->synchronize();
    device->fill_zero(0, x.view());  // the host waited: everything is ordered
    device->synchronize();
  }
}

// An event orders what came before it, not what its stream does afterwards.
TEST(DeferredDevice, AnEventDoesNotOrderWhatFollowsIt) {
  const auto device = make_deferred_device(1);
  const device::Stream side = device->make_stream();
  Two x(*device);
  device->copy_to_device(0, x.view(), x.host.data());
  const device::Event early = device->record(0);
  device->fill_zero(0, x.view());
  device->wait(side, early);
  std::vector<float> out(2);
  expect_race("fill_zero on stream 0", "copy_to_host on stream 1",
              [&] { device->copy_to_host(side, out.data(), x.view()); });
  device->synchronize();
}

TEST(DeferredDevice, ReadersNeedNoOrder) {
  const auto device = make_deferred_device(1);
  const device::Stream side = device->make_stream();
  Two x(*device);
  device->copy_to_device(0, x.view(), x.host.data());
  device->wait_host(device->record(0));
  std::vector<float> one(2), two(2);
  device->copy_to_host(0, one.data(), x.view());
  device->copy_to_host(side, two.data(), x.view());
  device->synchronize();
  EXPECT_EQ(one, two);
}

TEST(DeferredDevice, RefusesTwoStreamsWritingOneHostBuffer) {
  const auto device = make_deferred_device(1);
  const device::Stream side = device->make_stream();
  Two x(*device);
  std::vector<float> out(2);
  device->fill_zero(0, x.view());
  device->wait(side, device->record(0));
  device->copy_to_host(0, out.data(), x.view());
  expect_race("copy_to_host on stream 0", "copy_to_host on stream 1",
              [&] { device->copy_to_host(side, out.data(), x.view()); });
  device->synchronize();
}

TEST(DeferredDevice, KeepsReleasedMemoryUntilItIsSynchronised) {
  const auto device = make_deferred_device(1);
  std::vector<float> out(2);
  {
    Two x(*device);
    device->fill_zero(0, x.view());
    device->copy_to_host(0, out.data(), x.view());
  }
  device->wait_host(device->record(0));
  EXPECT_EQ(out, (std::vector<float>{0, 0}));
  device->synchronize();
}

TEST(DeferredDeviceDeathTest, MisuseAbortsInWords) {
  EXPECT_DEATH(make_deferred_device(1)->wait_host(1), "recorded before it is waited for");
  EXPECT_DEATH(make_deferred_device(1)->wait(0, 7), "recorded before it is waited for");
  EXPECT_DEATH((void)make_deferred_device(1)->record(1), "a stream comes from make_stream");
  EXPECT_DEATH(
      {
        const auto device = make_deferred_device(1);
        void* memory = device->allocate(8);
        device->release(memory);
        device->synchronize();
        device->release(memory);
      },
      "and once");
}

}  // namespace
}  // namespace regatta::tests
