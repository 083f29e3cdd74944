// From which host memory micro-batches are copied, on a device that takes a known time for each.
#include "trainer/model/host_copies.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include "trainer/cpu/cpu_device.h"
#include "trainer/device/forwarding_device.h"
#include "trainer/model/input_feed.h"

namespace regatta::trainer {
namespace {

constexpr std::chrono::milliseconds kShort(1), kLong(4);

// A device beside the host, that knows which memory is pinned.
class CopyingDevice : public device::ForwardingDevice {
 public:
  CopyingDevice(device::Device& inner, std::chrono::milliseconds pinned,
                std::chrono::milliseconds ordinary)
      : ForwardingDevice(inner), pinned_(pinned), ordinary_(ordinary) {}

  [[nodiscard]] bool is_on_host() const override { return false; }
  [[nodiscard]] void* allocate_host(std::int64_t bytes) override {
    void* memory = ForwardingDevice::allocate_host(bytes);
    host_[memory] = bytes;
    return memory;
  }
  void release_host(void* memory) override {
    host_.erase(memory);
    ForwardingDevice::release_host(memory);
  }
  void copy_to_device(device::Stream stream, device::View to, const void* from) override {
    const bool is_pinned = this->is_pinned(from);
    (is_pinned ? from_pinned : from_ordinary) += 1;
    std::this_thread::sleep_for(is_pinned ? pinned_ : ordinary_);
    ForwardingDevice::copy_to_device(stream, to, from);
  }

  int from_pinned = 0, from_ordinary = 0;

 private:
  [[nodiscard]] bool is_pinned(const void* memory) const {
    for (const auto& [begin, bytes] : host_) {
      const auto* first = static_cast<const char*>(begin);
      const auto* at = static_cast<const char*>(memory);
      if (at >= first && at < first + bytes) return true;
    }
    return false;
  }

  std::chrono::milliseconds pinned_, ordinary_;
  std::map<void*, std::int64_t> host_;
};

samples::PackedBatch one_sample() {
  samples::Sample sample;
  sample.ids = {2, 7, 8, 3};
  sample.types = {0, 0, 0, 0};
  sample.masked_positions = {1};
  sample.masked_labels = {9};
  return samples::collate({sample}, {0});
}

class HostCopiesTest : public ::testing::Test {
 protected:
  // Uploads so often, and reads the ids back.
  static std::vector<std::int32_t> upload(model::InputFeed* feed, device::Device* device,
                                          int times) {
    const samples::PackedBatch batch = one_sample();
    const model::BatchRoom room = model::room_for(batch, {1, 0.15, 0});
    for (int i = 0; i < times; ++i) feed->upload(batch, {}, room);
    std::vector<std::int32_t> ids(batch.ids.size());
    device->copy_to_host(model::kCompute, ids.data(), feed->ids());
    device->synchronize();
    return ids;
  }

  std::unique_ptr<device::Device> inner_ = cpu::make_cpu_device(1);
};

TEST_F(HostCopiesTest, PinnedMemoryIsUsedWhereItIsFaster) {
  CopyingDevice device(*inner_, kShort, kLong);
  model::InputFeed feed(device);
  EXPECT_FALSE(feed.host_copies());
  EXPECT_EQ(upload(&feed, &device, 3), one_sample().ids);
  ASSERT_TRUE(feed.host_copies());
  EXPECT_TRUE(feed.host_copies()->use_pinned());
  EXPECT_EQ(device.from_pinned, 9 + 3);
  EXPECT_EQ(device.from_ordinary, 9);
  EXPECT_GE(feed.host_copies()->pinned_seconds, 0.001);
  EXPECT_GE(feed.host_copies()->ordinary_seconds, 0.004);
  upload(&feed, &device, 2);
  EXPECT_EQ(device.from_ordinary, 9) << "tried once";
}

TEST_F(HostCopiesTest, OrdinaryMemoryIsUsedWhereItIsFaster) {
  CopyingDevice device(*inner_, kLong, kShort);
  model::InputFeed feed(device);
  EXPECT_EQ(upload(&feed, &device, 3), one_sample().ids);
  EXPECT_FALSE(feed.host_copies()->use_pinned());
  EXPECT_EQ(device.from_pinned, 9);
  EXPECT_EQ(device.from_ordinary, 9 + 3);
}

TEST_F(HostCopiesTest, NothingIsTriedOnTheHost) {
  model::InputFeed feed(*inner_);
  EXPECT_EQ(upload(&feed, inner_.get(), 1), one_sample().ids);
  EXPECT_FALSE(feed.host_copies());
}

TEST(HostCopies, PinnedStaysUnlessOtherMemoryIsFasterByAWholeGain) {
  EXPECT_TRUE((model::HostCopies{1.0, 1.0}.use_pinned()));
  EXPECT_TRUE((model::HostCopies{1.0, 0.951}.use_pinned()));
  EXPECT_FALSE((model::HostCopies{1.0, 0.949}.use_pinned()));
  EXPECT_EQ((model::HostCopies{12e-6, 31e-6}.text()),
            "micro-batches are copied from pinned memory: 12 µs each, 31 µs from ordinary");
  EXPECT_EQ((model::HostCopies{31e-6, 12e-6}.text()),
            "micro-batches are copied from ordinary memory: 12 µs each, 31 µs from pinned");
}

}  // namespace
}  // namespace regatta::trainer
