#include "trainer/ranks/delayed_communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace regatta::trainer {
namespace {

// Time passes when somebody sleeps, or the test says so.
class TestClock final : public base::Clock {
 public:
  [[nodiscard]] double monotonic_seconds() const override { return now; }
  [[nodiscard]] double utc_seconds() const override { return now; }
  void sleep(std::chrono::duration<double> duration) override { now += duration.count(); }
  double now = 1000;
};

// One rank that writes down its calls; each collective takes `seconds` of its own.
struct Inner {
  double seconds = 0;
  std::vector<std::string> calls{};
};
class RecordingCommunicator final : public ranks::Communicator {
 public:
  RecordingCommunicator(TestClock& clock, Inner& inner) : clock_(clock), inner_(inner) {}
  [[nodiscard]] int rank() const override { return 5; }
  [[nodiscard]] int ranks() const override { return 8; }
  [[nodiscard]] int part() const override { return 1; }
  [[nodiscard]] int parts() const override { return 4; }
  [[nodiscard]] ranks::Pending all_reduce_sum(device::Stream, device::View x) override {
    return begin("sum", x);
  }
  [[nodiscard]] ranks::Pending reduce_scatter_sum(device::Stream, device::View x) override {
    return begin("scatter", x);
  }
  [[nodiscard]] ranks::Pending all_gather(device::Stream, device::View x) override {
    return begin("gather", x);
  }
  [[nodiscard]] ranks::Pending broadcast(device::Stream, device::View x, int root) override {
    return begin("broadcast " + std::to_string(root), x);
  }
  [[nodiscard]] ranks::Pending send(device::Stream, device::View x, int to) override {
    return begin("send " + std::to_string(to), x);
  }
  [[nodiscard]] ranks::Pending receive(device::Stream, device::View x, int from) override {
    return begin("receive " + std::to_string(from), x);
  }
  void finish(device::Stream, ranks::Pending pending) override {
    inner_.calls.push_back("finish " + std::to_string(pending));
    clock_.now = std::max(clock_.now, done_at(pending));
  }
  [[nodiscard]] double done_at(ranks::Pending pending) override {
    return done_.at(static_cast<std::size_t>(pending - kFirst));
  }
  void abandon() noexcept override { inner_.calls.push_back("abandon"); }
  [[nodiscard]] ranks::HostCollectives& host() override { return host_; }
  [[nodiscard]] std::unique_ptr<ranks::HostCollectives> open_channel() override {
    inner_.calls.push_back("open");
    return std::make_unique<ranks::SingleHost>();
  }
  // Of nobody, of one rank, or as this one.
  [[nodiscard]] std::unique_ptr<ranks::Communicator> open_group(
      const std::vector<int>& members) override {
    inner_.calls.push_back("group of " + std::to_string(members.size()));
    if (members.empty()) return nullptr;
    if (members.size() == 1) return std::make_unique<ranks::SingleCommunicator>();
    return std::make_unique<RecordingCommunicator>(clock_, inner_);
  }
  static constexpr ranks::Pending kFirst = 70;

 private:
  [[nodiscard]] ranks::Pending begin(const std::string& what, device::View x) {
    inner_.calls.push_back(what + ": " + std::to_string(x.size));
    done_.push_back(clock_.now + inner_.seconds);
    return kFirst + static_cast<ranks::Pending>(done_.size()) - 1;
  }
  TestClock& clock_;
  Inner& inner_;
  ranks::SingleHost host_;
  std::vector<double> done_;
};

class DelayedCommunicator : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<ranks::Communicator> make(const ranks::LinkModel& link) {
    return ranks::make_delayed_communicator(std::make_unique<RecordingCommunicator>(clock_, inner_),
                                            clock_, link);
  }
  // Of `count` float32: the link is simulated, so nobody reads them.
  static device::View view(std::int64_t count) { return {nullptr, count, device::Dtype::Float32}; }

  TestClock clock_;
  Inner inner_;
  const ranks::LinkModel link_{0.5, 100};  // 25 float32 take 1.5 s
};

TEST_F(DelayedCommunicator, TakesLatencyAndBytesByRate) {
  const struct {
    ranks::LinkModel link;
    std::int64_t count;
    double seconds;
  } cases[] = {
      {{0.5, 100}, 25, 1.5}, {{0.5, 100}, 0, 0.5}, {{0, 400}, 100, 1}, {{0, 1e9}, 250'000'000, 1}};
  for (const auto& c : cases) {
    EXPECT_DOUBLE_EQ(c.link.seconds(4.0 * static_cast<double>(c.count)), c.seconds);
    const auto delayed = make(c.link);
    const double start = clock_.now;
    const ranks::Pending sum = delayed->all_reduce_sum(0, view(c.count));
    EXPECT_EQ(clock_.now, start) << "beginning does not wait";
    delayed->finish(0, sum);
    EXPECT_DOUBLE_EQ(clock_.now, start + c.seconds);
    EXPECT_DOUBLE_EQ(delayed->done_at(sum), start + c.seconds);
  }
}

TEST_F(DelayedCommunicator, CarriesOneAfterTheOther) {
  const auto delayed = make(link_);
  const ranks::Pending first = delayed->all_reduce_sum(0, view(25));   // 1000 to 1001.5
  const ranks::Pending second = delayed->all_reduce_sum(0, view(50));  // to 1004
  clock_.now = 1003;
  const ranks::Pending third = delayed->all_reduce_sum(0, view(0));  // begun at 1003, free at 1004
  EXPECT_DOUBLE_EQ(delayed->done_at(first), 1001.5);
  EXPECT_DOUBLE_EQ(delayed->done_at(second), 1004);
  EXPECT_DOUBLE_EQ(delayed->done_at(third), 1004.5);
  delayed->finish(0, first);
  EXPECT_DOUBLE_EQ(clock_.now, 1003) << "over long ago";
  delayed->finish(0, third);
  EXPECT_DOUBLE_EQ(clock_.now, 1004.5);
  delayed->finish(0, second);
  EXPECT_DOUBLE_EQ(clock_.now, 1004.5);
  clock_.now = 2000;  // the link was idle: what begins now does not profit from that
  EXPECT_DOUBLE_EQ(delayed->done_at(delayed->all_reduce_sum(0, view(25))), 2001.5);
}

// As a step does: what is computed meanwhile hides the transfer but for the rest.
TEST_F(DelayedCommunicator, ComputingHidesTheTransfer) {
  const auto delayed = make(link_);
  const ranks::Pending sum = delayed->all_reduce_sum(0, view(25));
  clock_.now += 1.25;
  delayed->finish(0, sum);
  EXPECT_DOUBLE_EQ(clock_.now, 1001.5);
}

TEST_F(DelayedCommunicator, IsDoneAtTheLaterOfBoth) {
  inner_.seconds = 4;
  const auto delayed = make(link_);
  const ranks::Pending slow_inside = delayed->all_reduce_sum(0, view(25));
  EXPECT_DOUBLE_EQ(delayed->done_at(slow_inside), 1004);
  delayed->finish(0, slow_inside);
  EXPECT_DOUBLE_EQ(clock_.now, 1004);
  const ranks::Pending slow_link = delayed->all_reduce_sum(0, view(250));
  EXPECT_DOUBLE_EQ(delayed->done_at(slow_link), 1014.5);
}

TEST_F(DelayedCommunicator, PassesEveryKindOn) {
  const auto delayed = make(link_);
  std::vector<ranks::Pending> pending;
  pending.push_back(delayed->all_reduce_sum(0, view(1)));
  pending.push_back(delayed->reduce_scatter_sum(0, view(2)));
  pending.push_back(delayed->all_gather(0, view(3)));
  pending.push_back(delayed->broadcast(0, view(4), 6));
  pending.push_back(delayed->send(0, view(5), 7));
  pending.push_back(delayed->receive(0, view(6), 2));
  double due = 1000;
  for (std::size_t i = 0; i < pending.size(); ++i) {
    const bool half = i == 1 || i == 2;  // the two halves of an all-reduce
    due += link_.seconds((half ? 2.0 : 4.0) * static_cast<double>(i + 1));
    EXPECT_DOUBLE_EQ(delayed->done_at(pending[i]), due) << i;
  }
  delayed->finish(0, pending[3]);
  const auto channel = delayed->open_channel();
  delayed->abandon();
  EXPECT_EQ(inner_.calls, (std::vector<std::string>{"sum: 1", "scatter: 2", "gather: 3",
                                                    "broadcast 6: 4", "send 7: 5", "receive 2: 6",
                                                    "finish 73", "open", "abandon"}));
  EXPECT_EQ(delayed->rank(), 5);
  EXPECT_EQ(delayed->ranks(), 8);
  EXPECT_EQ(delayed->part(), 1);
  EXPECT_EQ(delayed->parts(), 4);
}

TEST_F(DelayedCommunicator, HostCollectivesPassUndelayed) {
  const auto delayed = make(link_);
  static_cast<void>(delayed->all_reduce_sum(0, view(1000)));
  double value = 3;
  delayed->host().all_reduce_sum(&value, 1);
  delayed->open_channel()->barrier();
  EXPECT_EQ(clock_.now, 1000);
}

// Whatever the group, it is the same wire.
TEST_F(DelayedCommunicator, GroupsShareTheLink) {
  const auto delayed = make(link_);
  const auto group = delayed->open_group({5, 6});
  const ranks::Pending in_group = group->send(0, view(25), 1);         // 1000 to 1001.5
  const ranks::Pending in_all = delayed->all_reduce_sum(0, view(25));  // to 1003
  const ranks::Pending last = group->all_reduce_sum(0, view(50));      // to 1005.5
  delayed->finish(0, in_all);
  EXPECT_DOUBLE_EQ(clock_.now, 1003);
  EXPECT_DOUBLE_EQ(group->done_at(in_group), 1001.5);
  group->finish(0, last);
  EXPECT_DOUBLE_EQ(clock_.now, 1005.5);
}

TEST_F(DelayedCommunicator, ARankByItselfHasNothingOnTheLink) {
  const auto delayed = make(link_);
  EXPECT_EQ(delayed->open_group({}), nullptr);
  const auto alone = delayed->open_group({5});
  alone->finish(0, alone->all_reduce_sum(0, view(1000)));
  EXPECT_EQ(clock_.now, 1000);
  EXPECT_EQ(inner_.calls, (std::vector<std::string>{"group of 0", "group of 1"}));
}

// One rank's collectives are all number 0 inside: they must not be mistaken for one another.
TEST_F(DelayedCommunicator, DelaysOneRankToo) {
  const auto delayed = ranks::make_delayed_communicator(
      std::make_unique<ranks::SingleCommunicator>(), clock_, link_);
  const ranks::Pending first = delayed->all_reduce_sum(0, view(25));
  const ranks::Pending second = delayed->all_reduce_sum(0, view(25));
  delayed->finish(0, first);
  EXPECT_DOUBLE_EQ(clock_.now, 1001.5);
  delayed->finish(0, second);
  EXPECT_DOUBLE_EQ(clock_.now, 1003);
  delayed->finish(0, 0);
  EXPECT_DOUBLE_EQ(clock_.now, 1003);
}

TEST_F(DelayedCommunicator, KeepsTheLast4096Times) {
  const auto delayed = make(link_);
  const ranks::Pending held = delayed->all_reduce_sum(0, view(1));
  ranks::Pending last = held;
  for (int i = 0; i < 5000; ++i) {
    last = delayed->all_reduce_sum(0, view(1));
    delayed->finish(0, last);
  }
  EXPECT_GT(delayed->done_at(held), 0) << "not finished yet";
  delayed->finish(0, held);
  last = delayed->all_reduce_sum(0, view(1));
  EXPECT_EQ(delayed->done_at(held), 0);
  EXPECT_GT(delayed->done_at(last - 4095), 0);
}

}  // namespace
}  // namespace regatta::trainer
