// Memory, streams and repeated work: what every operation relies on.
#include <algorithm>
#include <cstring>
#include <limits>

#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

using trainer::device::DeviceMemory;
using trainer::device::Dtype;
using trainer::device::Event;
using trainer::device::Stream;
using trainer::device::View;

TEST_P(DeviceOps, CopiesAndFillsMoveWholeViews) {
  const std::vector<float> values = at().rounded(Numbers(6).floats(100000));
  const View from = at().activations(values);
  const View to = at().activation_output(100000);
  device().copy(0, to, from);
  expect_same(at().read(to), values, "copy");
  device().fill_zero(0, to.slice(10, 70000));
  std::vector<float> expected = values;
  std::fill(expected.begin() + 10, expected.begin() + 70010, 0.0F);
  expect_same(at().read(to), expected, "fill");
  device().copy(0, to.slice(0, 0), from.slice(5, 0));
  expect_same(at().read(to), expected, "empty copy");
}

// The order that a model's step uses: work on one stream, its copy out on another, the host last.
TEST_P(DeviceOps, EventsOrderStreamsAndTheHost) {
  const Stream copies = device().make_stream();
  const std::vector<float> values = Numbers(8).floats(5000);
  const View x = at().floats(values);
  const View y = at().floats(values);
  device().add(0, x, y);
  const Event added = device().record(0);
  device().wait(copies, added);
  std::vector<float> host(values.size());
  device().copy_to_host(copies, host.data(), y);
  const Event copied = device().record(copies);
  device().wait(0, copied);
  device().fill_zero(0, y);
  device().wait_host(copied);
  for (std::size_t i = 0; i < host.size(); ++i) ASSERT_EQ(host[i], 2 * values[i]);
  EXPECT_GT(copied, added);
  expect_same(at().read(y), std::vector<float>(values.size()), "cleared afterwards");
}

TEST_P(DeviceOps, MemoryIsAlignedAndItsPeakIsKept) {
  const std::int64_t before = device().peak_bytes();
  {
    const DeviceMemory a(device(), 1000, Dtype::Float32);
    DeviceMemory b(device(), 3, Dtype::Byte);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.view().data) % 256, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.view().data) % 256, 0U);
    const DeviceMemory moved(std::move(b));
    EXPECT_EQ(moved.view().size, 3);
    EXPECT_EQ(b.view().data, nullptr);  // NOLINT: a moved-from memory is empty
  }
  device().synchronize();
  EXPECT_GE(device().peak_bytes(), before + 4003);
  const std::int64_t peak = device().peak_bytes();
  { const DeviceMemory small(device(), 1, Dtype::Float32); }
  EXPECT_EQ(device().peak_bytes(), peak);
}

// What every step does with its results: host memory of the device, copied to and from, which is no
// device memory.
TEST_P(DeviceOps, HostMemoryTakesCopies) {
  const std::int64_t before = device().peak_bytes();
  for (const std::int64_t count : {1, 3, 5000}) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
    void* up = device().allocate_host(static_cast<std::int64_t>(bytes));
    void* down = device().allocate_host(static_cast<std::int64_t>(bytes));
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(up) % 64, 0U);
    const std::vector<float> values = Numbers(3).floats(count);
    std::memcpy(up, values.data(), bytes);
    {
      const DeviceMemory memory(device(), count, Dtype::Float32);
      device().copy_to_device(0, memory.view(), up);
      device().copy_to_host(0, down, memory.view());
      device().wait_host(device().record(0));
    }
    EXPECT_EQ(std::memcmp(down, values.data(), bytes), 0) << count;
    device().release_host(up);
    device().release_host(down);
  }
  device().synchronize();
  EXPECT_LE(device().peak_bytes(), before + 2 * 4 * (1 + 3 + 5000) + 4096);
  device().release_host(nullptr);
}

// A call with a key that was seen may replay what was enqueued then; memory that has changed since
// must be read as it is now.
TEST_P(DeviceOps, RepeatedWorkReadsWhatLiesInDeviceMemoryNow) {
  const std::int64_t count = 333;
  Numbers numbers(11);
  const View x = at().activation_output(count);
  const View sum = at().activation_output(count);
  const View activated = at().activation_output(count);
  const auto work = [&] {
    device().add(0, x, sum);
    device().gelu_forward(0, sum, activated, true);
    device().copy(0, x, activated);
  };
  for (int round = 0; round < 5; ++round) {
    const View fresh_x = at().activations(numbers.floats(count));
    const View fresh_sum = at().activations(numbers.floats(count));
    device().copy(0, x, fresh_x);
    device().copy(0, sum, fresh_sum);
    device().repeat(0, 7, work);
    device().add(0, fresh_x, fresh_sum);
    device().gelu_forward(0, fresh_sum, fresh_x, true);
    expect_same(at().read(activated), at().read(fresh_x), "round " + std::to_string(round));
    expect_same(at().read(x), at().read(fresh_x), "x of round " + std::to_string(round));
    if (round == 3) device().forget_repeats();
  }
}

// Keys are told apart, and work between repetitions stays in order with them.
TEST_P(DeviceOps, RepeatedWorkIsFoundByItsKey) {
  const View one = at().activations({1, 1, 1, 1});
  const View sum = at().activations({0, 0, 0, 0});
  const View two = at().activations({2, 2, 2, 2});
  const auto adds = [&](const View& what) {
    return [this, what, sum] { device().add(0, what, sum); };
  };
  float expected = 0;
  for (int round = 0; round < 4; ++round) {
    device().repeat(0, 1, adds(one));
    device().repeat(0, 2, adds(two));
    device().add(0, two, sum);
    device().repeat(0, 1, adds(one));
    expected += 6;
    expect_same(at().read(sum), std::vector<float>(4, expected), "sum");
  }
  device().synchronize();
  device().forget_repeats();
}

// Every operation whose steps lie in device memory can be repeated: the dropout's step number, the
// lengths of samples, the labels and the loss scale.
TEST_P(DeviceOps, RepeatedLossFollowsLabelsAndScale) {
  Numbers numbers(12);
  const std::vector<float> logits = at().rounded(numbers.floats(5 * 9));
  trainer::device::CrossEntropy op;
  op.logits = at().activation_output(5 * 9);
  op.labels = at().ints({0, 0, 0, 0, 0});
  op.classes = 9;
  op.scale = at().floats({0});
  op.sums = at().floats({0, 0, 0});
  for (int round = 0; round < 4; ++round) {
    std::vector<std::int32_t> labels = numbers.below(5, 9);
    labels[static_cast<std::size_t>(round)] = -1;
    const float scale = 1.0F / static_cast<float>(1 << round);
    device().copy(0, op.logits, at().activations(logits));
    device().copy(0, op.labels, at().ints(labels));
    device().copy(0, op.scale, at().floats({scale}));
    device().fill_zero(0, op.sums);
    device().repeat(0, 3, [&] { device().cross_entropy(0, op); });
    const auto exact = reference::cross_entropy<double>(as<double>(logits), labels, scale);
    const auto naive = reference::cross_entropy<float>(logits, labels, scale, at().precision());
    expect_close(at(), op.logits, exact.gradient, naive.gradient, "gradient");
    EXPECT_EQ(at().read(op.sums)[1], static_cast<float>(exact.correct));
    EXPECT_EQ(at().read(op.sums)[2], 4.0F);
  }
  device().forget_repeats();
}

}  // namespace
}  // namespace regatta::tests
