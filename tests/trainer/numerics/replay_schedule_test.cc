// Which steps are computed twice, and by whom; digests of what they made.
#include <gtest/gtest.h>

#include <set>

#include "trainer/cpu/cpu_device.h"
#include "trainer/numerics/replay_check.h"

namespace regatta::trainer {
namespace {

TEST(ReplaySchedule, HasOneStepOfEachWindowAnywhereInIt) {
  for (const std::int64_t every : {1, 2, 7, 200}) {
    std::set<std::int64_t> places;
    for (std::int64_t window = 0; window < 2000; ++window) {
      std::int64_t found = 0;
      for (std::int64_t place = 0; place < every; ++place) {
        if (!numerics::is_replayed(5, every, window * every + 1 + place)) continue;
        ++found;
        places.insert(place);
      }
      ASSERT_EQ(found, 1) << every << " " << window;
    }
    EXPECT_EQ(std::ssize(places), every) << "a place is never drawn";
  }
}

TEST(ReplaySchedule, EveryOtherRankIsDrawn) {
  EXPECT_EQ(numerics::replay_distance(1, 10, 1), 0);
  for (const int ranks : {2, 3, 8}) {
    std::set<int> distances;
    for (std::int64_t step = 1; step <= 400; ++step) {
      distances.insert(numerics::replay_distance(1, step, ranks));
    }
    EXPECT_EQ(std::ssize(distances), ranks - 1);
    EXPECT_EQ(*distances.begin(), 1);
    EXPECT_EQ(*distances.rbegin(), ranks - 1);
  }
}

// Any bit of any tensor changes its digest and no other; gaps belong to no tensor.
TEST(TensorDigests, NoticeEachBit) {
  contract::TensorTable table;
  table.tensors = {{"a", {3}, 0, 3}, {"b", {64}, 64, 64}};
  table.arena_size = 128;
  const auto device = cpu::make_cpu_device(1);
  device::DeviceMemory memory(*device, 128, device::Dtype::Float32);
  device->fill_zero(0, memory.view());
  const auto digests = [&] { return numerics::tensor_digests(*device, memory.view(), table); };
  const numerics::TensorDigests before = digests();
  std::set<std::uint64_t> seen{before[0], before[1]};
  const auto flip = [&](std::int64_t element, unsigned bit) {
    reinterpret_cast<std::uint32_t*>(memory.view().data)[element] ^= 1U << bit;
  };
  for (std::int64_t element = 0; element < 128; ++element) {
    for (unsigned bit = 0; bit < 32; ++bit) {
      flip(element, bit);
      const numerics::TensorDigests now = digests();
      const bool in_a = element < 3, in_b = element >= 64;
      EXPECT_EQ(now[0] != before[0], in_a) << element << " " << bit;
      EXPECT_EQ(now[1] != before[1], in_b) << element << " " << bit;
      EXPECT_EQ(numerics::digest_of(now) != numerics::digest_of(before), in_a || in_b);
      if (in_a || in_b) {
        EXPECT_TRUE(seen.insert(now[in_a ? 0 : 1]).second);
      }
      flip(element, bit);
    }
  }
  EXPECT_EQ(digests(), before);
}

}  // namespace
}  // namespace regatta::trainer
