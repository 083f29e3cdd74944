#include "trainer/contract/run_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"

namespace regatta::trainer {
namespace {

constexpr const char* kRun = "{\"name\": \"demo\"}\n";

TEST(AttemptName, RoundTripsAndRefuses) {
  const contract::AttemptName name{3, "0123456789abcdef"};
  EXPECT_EQ(name.text(), "3-0123456789abcdef");
  const auto back = contract::parse_attempt_name(name.text());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->number, 3);
  EXPECT_EQ(back->execution, name.execution);
  for (const char* bad :
       {"", "3", "3-", "-0123456789abcdef", "0-0123456789abcdef", "03-0123456789abcdef",
        "-1-0123456789abcdef", "3-0123456789abcde", "3-0123456789abcdef0", "3-0123456789ABCDEF",
        "3-0123456789abcdeg", "x-0123456789abcdef", "4294967296-0123456789abcdef",
        "3 -0123456789abcdef", "3--123456789abcdef", "3-../../../etc/pass"}) {
    EXPECT_FALSE(contract::parse_attempt_name(bad).has_value()) << bad;
  }
}

class RunDirectoryTest : public testing::Test {
 protected:
  base::FileSystem& files_ = base::posix_file_system();
  tests::TemporaryDirectory parent_;
  base::Path path_ = parent_.path() / "demo";
};

TEST_F(RunDirectoryTest, CreatesTheLayout) {
  const contract::RunDirectory made = contract::RunDirectory::create(files_, path_, kRun);
  EXPECT_EQ(made.path(), path_);
  EXPECT_EQ(made.run_json(), kRun);
  EXPECT_TRUE(made.attempts().empty());
  EXPECT_EQ(made.newest_epoch(), 0);
  EXPECT_EQ(files_.list(path_),
            (std::vector<std::string>{"attempts", "checkpoints", "epoch", "run.json"}));
  EXPECT_EQ(files_.list(parent_.path()), std::vector<std::string>{"demo"})
      << "no temporary is left";
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  ASSERT_EQ(::stat((path_ / "run.json").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_EQ(contract::RunDirectory::open(files_, path_).run_json(), kRun);
}

TEST_F(RunDirectoryTest, ASlashAtTheEndChangesNothing) {
  EXPECT_EQ(contract::RunDirectory::create(files_, parent_.path() / "demo/", kRun).path(), path_);
}

TEST_F(RunDirectoryTest, DoesNotReplaceAnything) {
  (void)contract::RunDirectory::create(files_, path_, kRun);
  const auto code_of = [&](const base::Path& path) {
    try {
      (void)contract::RunDirectory::create(files_, path, "other");
    } catch (const base::Error& error) {
      return error.code();
    }
    return base::Code::Developer;
  };
  EXPECT_EQ(code_of(path_), base::Code::Conflict);
  EXPECT_EQ(contract::RunDirectory::open(files_, path_).run_json(), kRun);
  files_.create_directory(parent_.path() / "empty");
  EXPECT_EQ(code_of(parent_.path() / "empty"), base::Code::Conflict);
  std::filesystem::create_symlink(parent_.path() / "nowhere", parent_.path() / "dangling");
  EXPECT_EQ(code_of(parent_.path() / "dangling"), base::Code::Conflict);
  EXPECT_EQ(code_of(parent_.path() / "no" / "parent"), base::Code::NotFound);
}

TEST_F(RunDirectoryTest, OpenNeedsRunJson) {
  for (const char* name : {"absent", "empty"}) {
    const base::Path path = parent_.path() / name;
    if (std::string(name) == "empty") files_.create_directory(path);
    try {
      (void)contract::RunDirectory::open(files_, path);
      ADD_FAILURE() << name;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::NotFound) << name;
    }
  }
}

TEST_F(RunDirectoryTest, IsCompleteOrAbsentUnderEveryFault) {
  for (const tests::Fault fault : {tests::Fault::Once, tests::Fault::ForEver}) {
    for (int n = 1;; ++n) {
      ASSERT_LT(n, 200);
      tests::FaultyFileSystem faulty;
      faulty.fail_at(n, fault);
      bool failed = false;
      try {
        (void)contract::RunDirectory::create(faulty, path_, kRun);
      } catch (const base::Error&) {
        failed = true;
      }
      if (files_.exists(path_)) {
        EXPECT_EQ(contract::RunDirectory::open(files_, path_).run_json(), kRun) << n;
        EXPECT_EQ(files_.list(path_).size(), 4U);
      } else {
        EXPECT_TRUE(failed) << n;
      }
      for (const std::string& name : files_.list(parent_.path())) {
        if (fault == tests::Fault::Once) {
          EXPECT_EQ(name, "demo") << n;
        }
        files_.remove_tree(parent_.path() / name);
      }
      if (!failed) break;
    }
  }
}

TEST_F(RunDirectoryTest, SurvivesACrashOnceMade) {
  for (const tests::Crash crash : {tests::Crash::LoseBytes, tests::Crash::LoseEverything}) {
    tests::FaultyFileSystem faulty;
    contract::RunDirectory made = contract::RunDirectory::create(faulty, path_, kRun);
    const contract::AttemptName attempt = made.create_attempt();
    const std::int64_t epoch = made.take_epoch();
    faulty.crash(crash);
    const contract::RunDirectory found = contract::RunDirectory::open(files_, path_);
    EXPECT_EQ(found.run_json(), kRun);
    EXPECT_EQ(found.newest_epoch(), epoch);
    ASSERT_EQ(found.attempts().size(), 1U);
    EXPECT_EQ(found.attempts()[0].execution, attempt.execution);
    EXPECT_TRUE(files_.exists(found.attempt_path(attempt) / "logs"));
    files_.remove_tree(path_);
  }
}

TEST_F(RunDirectoryTest, AttemptsAreNumberedAndSorted) {
  contract::RunDirectory run = contract::RunDirectory::create(files_, path_, kRun);
  for (int number = 1; number <= 11; ++number) {
    const contract::AttemptName attempt = run.create_attempt();
    EXPECT_EQ(attempt.number, number);
    EXPECT_EQ(run.journal_path(attempt), path_ / "attempts" / attempt.text() / "journal.jsonl");
    EXPECT_TRUE(files_.exists(run.attempt_path(attempt) / "logs"));
  }
  files_.create_directory(path_ / "attempts" / "notes");
  const std::vector<contract::AttemptName> attempts = run.attempts();
  ASSERT_EQ(attempts.size(), 11U);
  EXPECT_EQ(attempts[1].number, 2) << "by number, not by letters";
  EXPECT_EQ(attempts[10].number, 11);
}

TEST_F(RunDirectoryTest, EpochsGrowAndFence) {
  contract::RunDirectory run = contract::RunDirectory::create(files_, path_, kRun);
  const contract::Fence first(run, run.take_epoch());
  EXPECT_EQ(first.epoch(), 1);
  EXPECT_TRUE(first.holds());
  const contract::Fence second(run, run.take_epoch());
  EXPECT_EQ(second.epoch(), 2);
  EXPECT_FALSE(first.holds());
  EXPECT_TRUE(second.holds());
  // Strange names are no epochs, and ten comes after nine.
  for (const char* name : {"x", "-3", "007", "99 ", "1e9", "99999999999999999999"}) {
    files_.open(path_ / "epoch" / name, base::FileSystem::Open::CreateNew);
  }
  EXPECT_EQ(run.newest_epoch(), 2);
  for (int i = 3; i <= 12; ++i) EXPECT_EQ(run.take_epoch(), i);
}

TEST_F(RunDirectoryTest, RacingAttemptsShareNoEpochAndNoExecution) {
  (void)contract::RunDirectory::create(files_, path_, kRun);
  constexpr int kThreads = 8;
  constexpr int kRounds = 15;
  std::mutex mutex;
  std::set<std::int64_t> epochs;
  std::set<std::string> executions;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        contract::RunDirectory run = contract::RunDirectory::open(files_, path_);
        for (int round = 0; round < kRounds; ++round) {
          const contract::AttemptName attempt = run.create_attempt();
          const std::int64_t epoch = run.take_epoch();
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(executions.insert(attempt.execution).second);
          EXPECT_TRUE(epochs.insert(epoch).second) << epoch;
        }
      });
    }
  }
  EXPECT_EQ(epochs.size(), std::size_t{kThreads * kRounds});
  EXPECT_EQ(*epochs.rbegin(), kThreads * kRounds) << "no number is skipped";
  const contract::RunDirectory run = contract::RunDirectory::open(files_, path_);
  EXPECT_EQ(run.attempts().size(), std::size_t{kThreads * kRounds});
  int holding = 0;
  for (const std::int64_t epoch : epochs) holding += contract::Fence(run, epoch).holds() ? 1 : 0;
  EXPECT_EQ(holding, 1);
}

TEST_F(RunDirectoryTest, OneOfManyCreatorsWins) {
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> made{0};
    std::atomic<int> refused{0};
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 6; ++i) {
        threads.emplace_back([&, i] {
          try {
            (void)contract::RunDirectory::create(files_, path_, std::to_string(i));
            ++made;
          } catch (const base::Error& error) {
            EXPECT_EQ(error.code(), base::Code::Conflict) << error.what();
            ++refused;
          }
        });
      }
    }
    EXPECT_EQ(made, 1);
    EXPECT_EQ(refused, 5);
    EXPECT_EQ(files_.list(parent_.path()).size(), 1U);
    EXPECT_EQ(contract::RunDirectory::open(files_, path_).run_json().size(), 1U);
    files_.remove_tree(path_);
  }
}

}  // namespace
}  // namespace regatta::trainer
