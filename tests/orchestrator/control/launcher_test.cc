#include "orchestrator/control/launcher.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>

#include "base/text.h"
#include "orchestrator/runs/run_records.h"
#include "tests/orchestrator/support.h"

namespace regatta::tests {
namespace {

using namespace regatta::orchestrator;  // NOLINT: a test file about nothing else

// Holds every submission until it is told how it ends.
class SlowScheduler final : public runs::Scheduler {
 public:
  [[nodiscard]] std::string name() const override { return "slow"; }
  [[nodiscard]] int most_submissions() const override { return 3; }
  [[nodiscard]] std::string submit(const runs::LaunchRequest& request) override {
    std::unique_lock lock(mutex_);
    begun_.insert(request.token);
    changed_.notify_all();
    changed_.wait(lock, request.stop, [&] { return open_; });
    if (!open_) throw base::Error(base::Code::Retry, "given up");
    if (request.token == "refused") throw base::Error(base::Code::User, "no such partition");
    if (request.token == "ambiguous") throw base::Error(base::Code::Retry, "no answer");
    return "handle of " + request.token;
  }
  [[nodiscard]] runs::SchedulerFinding find(const std::string&, double) override {
    return {false, std::nullopt};
  }
  [[nodiscard]] std::optional<std::string> adopt(std::int64_t, const base::Path&) override {
    return std::nullopt;
  }
  [[nodiscard]] runs::ProcessReport poll(const std::string&) override { return {}; }
  void stop(const std::string&) override {}
  void kill(const std::string&) override {}

  [[nodiscard]] std::set<std::string> begun() {
    const std::scoped_lock lock(mutex_);
    return begun_;
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::set<std::string> begun_;
  bool open_ = false;
};

class LauncherTest : public ::testing::Test {
 protected:
  ~LauncherTest() override { std::filesystem::remove_all(directory_); }

  control::LaunchOrder order(int run, const std::string& token) {
    control::LaunchOrder order;
    order.run = runs::RunNumber{run};
    order.run_directory = directory_ / std::to_string(run);
    order.launch.number = 1;
    order.launch.token = token;
    std::filesystem::create_directories(order.run_directory);
    return order;
  }
  control::Launched wait_for(control::Launcher& launcher, int run) {
    std::optional<control::Launched> launched;
    EXPECT_TRUE(
        eventually([&] { return (launched = launcher.take(runs::RunNumber{run})).has_value(); }));
    return launched.value_or(control::Launched{});
  }

  base::Path directory_ = base::Path(::testing::TempDir()) / ("launcher-" + base::random_hex(4));
  base::FileSystem& files_ = base::posix_file_system();
  SlowScheduler scheduler_;
};

TEST_F(LauncherTest, SeveralAreUnderWayAndNobodyWaits) {
  control::Launcher launcher(files_, scheduler_);
  for (int run = 1; run <= 5; ++run) launcher.order(order(run, "t" + std::to_string(run)));
  EXPECT_TRUE(eventually([&] { return scheduler_.begun().size() == 3; }));
  EXPECT_TRUE(launcher.has(runs::RunNumber{5}));
  EXPECT_FALSE(launcher.has(runs::RunNumber{6}));
  EXPECT_FALSE(launcher.take(runs::RunNumber{1}));
  scheduler_.open();
  for (int run = 1; run <= 5; ++run) {
    const control::Launched launched = wait_for(launcher, run);
    EXPECT_EQ(launched.launch.handle, "handle of t" + std::to_string(run));
    EXPECT_FALSE(launched.error);
    EXPECT_FALSE(launcher.has(runs::RunNumber{run})) << "taken once";
    const std::vector<runs::Launch> written =
        runs::read_launches(files_, directory_ / std::to_string(run));
    ASSERT_EQ(written.size(), 1U);
    EXPECT_EQ(written[0].handle, launched.launch.handle);
  }
}

TEST_F(LauncherTest, ItsEndWaitsForNoSubmission) {
  const auto launcher = std::make_unique<control::Launcher>(files_, scheduler_);
  for (int run = 1; run <= 5; ++run) launcher->order(order(run, "t" + std::to_string(run)));
  EXPECT_TRUE(eventually([&] { return scheduler_.begun().size() == 3; }));
}

TEST_F(LauncherTest, SixteenAreUnderWayAtMost) {
  control::Launcher launcher(files_, scheduler_);
  int run = 0;
  for (; launcher.places() > 0 && run < 100; ++run) launcher.order(order(run, std::to_string(run)));
  EXPECT_EQ(run, 16);
  scheduler_.open();
  EXPECT_TRUE(eventually([&] { return launcher.places() > 0; }))
      << "those that are done leave room";
}

TEST_F(LauncherTest, ErrorsComeWithTheOutcome) {
  control::Launcher launcher(files_, scheduler_);
  scheduler_.open();
  launcher.order(order(1, "refused"));
  launcher.order(order(2, "ambiguous"));
  const control::Launched refused = wait_for(launcher, 1);
  ASSERT_TRUE(refused.error);
  EXPECT_STREQ(refused.error->what(), "no such partition");
  EXPECT_TRUE(refused.launch.over);
  const control::Launched ambiguous = wait_for(launcher, 2);
  ASSERT_TRUE(ambiguous.error);
  EXPECT_EQ(ambiguous.error->code(), base::Code::Retry);
  EXPECT_FALSE(ambiguous.launch.over) << "its token decides";
}

}  // namespace
}  // namespace regatta::tests
