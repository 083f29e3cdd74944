// EMULATED: clocks of host and GPU that a script plays, to the microsecond.
#include "trainer/nccl/done_times.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "base/error.h"

namespace regatta::tests {
namespace {

using trainer::nccl::DoneTimes;
using trainer::nccl::NativeEvent;
using trainer::nccl::NativeStream;
using trainer::nccl::OpaqueStream;
using trainer::ranks::Pending;

constexpr double kNever = 1e9;

// Reading the clock takes a microsecond. The GPU's clock is another, and runs fast. What is
// recorded on stream 1 is done when the test says; on the comparisons' stream some time after it
// came.
class EmulatedDoneTimes : public testing::Test {
 protected:
  class ScriptedClock final : public base::Clock {
   public:
    double monotonic_seconds() const override { return now += step; }
    double utc_seconds() const override { return 0; }
    void sleep(std::chrono::duration<double>) override {}
    mutable double now = 1000;
    double step = 1e-6;
  };
  struct ScriptedEvent {
    double done_at = 0;  // of the host's clock
  };

  EmulatedDoneTimes() {
    table_.stream_create = [] { return stream(2); };
    table_.stream_destroy = [](NativeStream) {};
    table_.stream_wait_event = [this](NativeStream, NativeEvent) { ++waits_; };
    table_.event_create = [this] {
      ++events_;
      return reinterpret_cast<NativeEvent>(new ScriptedEvent);
    };
    table_.event_destroy = [this](NativeEvent event) {
      --events_;
      delete reinterpret_cast<ScriptedEvent*>(event);
    };
    table_.event_record = [this](NativeEvent event, NativeStream on) {
      raw(event).done_at = on == stream(1) ? transfer_done_at_ : clock_.now + delay_;
    };
    table_.event_is_done = [this](NativeEvent event) { return clock_.now >= raw(event).done_at; };
    table_.event_elapsed_seconds = [](NativeEvent from, NativeEvent to) {
      return (raw(to).done_at - raw(from).done_at) * (1 + kDrift);
    };
  }
  static ScriptedEvent& raw(NativeEvent event) { return *reinterpret_cast<ScriptedEvent*>(event); }
  static NativeStream stream(std::uintptr_t number) {
    return reinterpret_cast<NativeStream>(number);
  }
  static constexpr double kDrift = 20e-6;

  ScriptedClock clock_;
  trainer::nccl::Table table_;
  double delay_ = 10e-6;
  double transfer_done_at_ = 0;
  int waits_ = 0;
  int events_ = 0;
};

TEST_F(EmulatedDoneTimes, AreOffByLessThanHalfTheGapAndTheDriftOfASecond) {
  DoneTimes times(table_, clock_);
  for (Pending number = 1; number <= 3600; ++number) {  // an hour: nothing adds up
    clock_.now += 1.01;
    transfer_done_at_ = clock_.now + 0.005;
    times.record(number, stream(1));
    clock_.now += 0.005;
    EXPECT_NEAR(times.at(number), transfer_done_at_, 7e-6 + kDrift * 0.01) << number;
  }
  EXPECT_LT(events_, 10) << "events are used again";
}

TEST_F(EmulatedDoneTimes, TheNarrowestOfSomeTriesCounts) {
  DoneTimes times(table_, clock_);
  clock_.now += 2;
  int tries = 0;
  const auto record = table_.event_record;
  table_.event_record = [&](NativeEvent event, NativeStream on) {
    record(event, on);
    // Done early, seen late, but for the second try.
    if (on == stream(2) && ++tries != 2) raw(event).done_at = clock_.now;
    if (on == stream(2) && tries != 2) clock_.now += 400e-6;
  };
  transfer_done_at_ = clock_.now + 0.1;
  times.record(1, stream(1));
  EXPECT_EQ(tries, 2) << "a good one ends the tries";
  clock_.now += 1;
  EXPECT_NEAR(times.at(1), transfer_done_at_, 10e-6);
}

TEST_F(EmulatedDoneTimes, ABusyGpuLeavesTheOlderComparison) {
  DoneTimes times(table_, clock_);
  clock_.now += 5;
  delay_ = kNever;
  transfer_done_at_ = clock_.now + 0.1;
  const double before = clock_.now;
  times.record(1, stream(1));
  EXPECT_LT(clock_.now - before, 3e-3) << "the training thread does not wait for it";
  clock_.now += 1;
  EXPECT_NEAR(times.at(1), transfer_done_at_, 7e-6 + kDrift * 5.2);
}

TEST_F(EmulatedDoneTimes, AGpuThatDoesNothingIsToldAtOnce) {
  delay_ = kNever;
  clock_.step = 1e-3;
  try {
    const DoneTimes times(table_, clock_);
    FAIL() << "no comparison, no times";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Retry) << error.what();
  }
  EXPECT_EQ(events_, 0);
}

TEST_F(EmulatedDoneTimes, WaitingForWhatIsOverIsNothing) {
  DoneTimes times(table_, clock_);
  transfer_done_at_ = clock_.now + 1;
  times.record(1, stream(1));
  times.record(2, stream(1));
  times.wait(stream(0), 1);
  times.wait(stream(0), 2);
  EXPECT_EQ(waits_, 2);
  clock_.now += 2;
  times.record(3, stream(1));  // learns that the first two are over
  times.wait(stream(0), 1);
  EXPECT_EQ(waits_, 2);
}

// Messages are recorded after collectives that have higher numbers.
TEST_F(EmulatedDoneTimes, NumbersComeInAnyOrder) {
  DoneTimes times(table_, clock_);
  for (const Pending number : {3, 1, 4, 2}) {
    transfer_done_at_ = clock_.now + static_cast<double>(number) * 0.01;
    times.record(number, stream(1));
  }
  clock_.now += 1;
  EXPECT_LT(times.at(2), times.at(3));
  EXPECT_LT(times.at(1), times.at(2));
  EXPECT_LT(times.at(3), times.at(4));
}

TEST_F(EmulatedDoneTimes, AreKeptForTheLastThousands) {
  DoneTimes times(table_, clock_);
  for (Pending number = 1; number <= DoneTimes::kKept; ++number) {
    transfer_done_at_ = clock_.now;
    times.record(number, stream(1));
  }
  EXPECT_LT(times.at(1), times.at(DoneTimes::kKept));
  times.record(DoneTimes::kKept + 1, stream(1));
  EXPECT_GT(times.at(DoneTimes::kKept + 1), 0);
  EXPECT_DEATH(static_cast<void>(times.at(1)), "the last 4096");
}

}  // namespace
}  // namespace regatta::tests
