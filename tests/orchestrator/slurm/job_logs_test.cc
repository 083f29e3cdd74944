#include "orchestrator/slurm/job_logs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

const std::string kToken = "0123456789abcdef";

class JobLogsTest : public testing::Test {
 protected:
  JobLogsTest() {
    std::filesystem::create_directories(folder_.path() / "submit");
    files_.set_before_each([this] {
      std::unique_lock lock(mutex_);
      ++reads_;
      changed_.wait(lock, [this] { return !hung_; });
    });
  }
  ~JobLogsTest() override { hang(false); }

  // A file system that does not answer.
  void hang(bool on) {
    const std::scoped_lock lock(mutex_);
    hung_ = on;
    changed_.notify_all();
  }
  slurm::JobRow job(const std::string& state = "FAILED") const {
    slurm::JobRow row;
    row.id = "7";
    row.state = slurm::parse_job_state(state);
    row.work_directory = folder_.path().string();
    return row;
  }
  void write(const std::string& name, const std::string& text) const {
    tests::write_file(folder_.path() / "submit" / name, text);
  }

  tests::TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  tests::FaultyFileSystem files_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hung_ = false;
  std::atomic<int> reads_ = 0;
};

TEST_F(JobLogsTest, AreReadOnceForEachRow) {
  write(kToken + "-7.out", "regatta: run demo\nsaid\n");
  write(kToken + "-7-0.log", "old\n");
  write(kToken + "-7-1.log", "new\n");
  slurm::JobLogs logs(files_, clock_);
  std::optional<std::string> text;
  ASSERT_TRUE(tests::eventually([&] { return (text = logs.find(job(), kToken)).has_value(); }));
  EXPECT_EQ(*text, "regatta: run demo\nsaid\nnew\n");
  const int reads = reads_;
  write(kToken + "-7-1.log", "newer\n");
  EXPECT_EQ(logs.find(job(), kToken), text);
  EXPECT_EQ(reads_, reads);
  EXPECT_FALSE(logs.find(job("TIMEOUT"), kToken)) << "another row";
  ASSERT_TRUE(
      tests::eventually([&] { return (text = logs.find(job("TIMEOUT"), kToken)).has_value(); }));
  EXPECT_EQ(*text, "regatta: run demo\nsaid\nnewer\n");
  slurm::JobRow elsewhere = job();
  elsewhere.work_directory = std::nullopt;
  ASSERT_TRUE(
      tests::eventually([&] { return (text = logs.find(elsewhere, "another")).has_value(); }));
  EXPECT_EQ(*text, "");
}

TEST_F(JobLogsTest, NobodyWaitsForAFileSystemThatDoesNotAnswer) {
  hang(true);
  slurm::JobLogs logs(files_, clock_);
  for (double now = 0; now < slurm::JobLogs::kMostSeconds; now += 1) {
    clock_.now = now;
    EXPECT_FALSE(logs.find(job(), kToken)) << "no end is decided without the log";
  }
  clock_.now = slurm::JobLogs::kMostSeconds;
  EXPECT_EQ(logs.find(job(), kToken), "") << "the row alone decides";
  hang(false);
}

}  // namespace
}  // namespace regatta::orchestrator
