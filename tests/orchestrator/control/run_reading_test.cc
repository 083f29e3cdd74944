// What a look at a run's directory writes there, and what it makes of what others wrote.
#include "orchestrator/control/run_reading.h"

#include <gmock/gmock.h>

#include <span>

#include "tests/base/faulty_file_system.h"
#include "tests/orchestrator/support.h"
#include "tests/shared_data.h"

namespace regatta::orchestrator::control {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class RunReadingTest : public testing::Test {
 protected:
  RunReadingTest() {
    order_.directory = path_;
    order_.chunk_bytes = 65536;
  }
  RunReading read() {
    RunReading reading = read_run(files_, order_);
    EXPECT_FALSE(reading.unwritten) << reading.unwritten->what();
    return reading;
  }
  runs::SubmissionRecord submission() const {
    return runs::read_submission(base::posix_file_system(), path_).value();
  }

  tests::TemporaryDirectory folder_;
  base::FileSystem& files_ = base::posix_file_system();
  const runs::SubmissionRecord submitted_{"demo", 5, runs::Wanted::Run, "key", "digest", "local"};
  const base::Path path_ = trainer::contract::RunDirectory::create(
                               files_, folder_.path() / "demo", tests::run_file(),
                               {{runs::kSubmissionName, runs::submission_text(submitted_)}})
                               .path();
  ReadingOrder order_;
};

// The controller keeps neither in memory.
TEST_F(RunReadingTest, AWishLeavesKeyAndDigestOfASubmission) {
  order_.submission = {"demo", 5, runs::Wanted::Cancel, std::nullopt, "", "local"};
  EXPECT_TRUE(read().exists);
  runs::SubmissionRecord expected = submitted_;
  expected.wanted = runs::Wanted::Cancel;
  EXPECT_EQ(submission(), expected);
}

TEST_F(RunReadingTest, ASubmissionThatIsNotThereIsWrittenAnew) {
  std::filesystem::remove(path_ / runs::kSubmissionName);
  order_.submission = {"demo", 5, runs::Wanted::Cancel, std::nullopt, "", "local"};
  read();
  EXPECT_EQ(submission(), *order_.submission);
}

// What never began has no state to tell: without a store it would otherwise count as a launch.
TEST_F(RunReadingTest, NoStateIsWrittenOfWhatNeverBegan) {
  order_.state = runs::RecordedState{runs::RunState::Queued, "", std::nullopt, 0, -1, 0};
  read();
  EXPECT_EQ(runs::read_state(files_, path_), std::nullopt);
  for (const runs::RecordedState& state :
       {runs::RecordedState{runs::RunState::Queued, "", std::nullopt, 1, -1, 1},
        runs::RecordedState{runs::RunState::Cancelled, "", 7.0, 0, -1, 0},
        // Also what it says later: it was resumed.
        runs::RecordedState{runs::RunState::Queued, "", std::nullopt, 0, -1, 0}}) {
    order_.state = state;
    read();
    EXPECT_EQ(runs::read_state(files_, path_), state);
  }
}

TEST_F(RunReadingTest, OnlyLaunchesThatSaySomethingElseAreWritten) {
  runs::Launch launch;
  launch.number = 1;
  launch.token = "a1";
  order_.launches = {launch};
  read();
  const base::Path file = path_ / "launches/1.json";
  EXPECT_EQ(runs::read_launches(files_, path_), order_.launches);
  const auto written = std::filesystem::last_write_time(file);
  std::filesystem::last_write_time(file, written - std::chrono::hours(1));
  read();
  EXPECT_EQ(std::filesystem::last_write_time(file), written - std::chrono::hours(1));
  order_.launches[0].handle = "h1";
  read();
  EXPECT_EQ(runs::read_launches(files_, path_), order_.launches);
}

TEST_F(RunReadingTest, WhatAKilledControllerLeftIsSweptWhenAsked) {
  const base::Path left = path_ / "state.json.tmp-0123abcd";
  const base::Path others = path_ / "notes.json.tmp-0123abcd";
  tests::write_file(left, "{");
  tests::write_file(others, "{");
  read();
  EXPECT_TRUE(std::filesystem::exists(left));
  order_.sweep = true;
  read();
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(others)) << "it is somebody else's";
}

TEST_F(RunReadingTest, ADirectoryThatIsGoneIsNotThere) {
  std::filesystem::create_directory(folder_.path() / "other");
  order_.directory = folder_.path() / "other";
  EXPECT_FALSE(read().exists);
  EXPECT_FALSE(read().gone) << "what is to be there may be mounted later";
  order_.directory = folder_.path() / "gone";
  EXPECT_FALSE(read().exists);
  EXPECT_TRUE(read().gone);
  std::filesystem::remove_all(folder_.path() / "other");
  std::filesystem::remove_all(path_);
  EXPECT_THROW((void)read_run(files_, order_), base::Error) << "the file system may be away";
}

// Its writer had an error behind the rename, or was ended there: what was believed of the run would
// be another thing after a power failure.
TEST_F(RunReadingTest, WhatIsBelievedOfAFoundRunIsOnTheDisk) {
  tests::FaultyFileSystem disk;
  const auto rename_only = [&](const base::Path& path, const std::string& text) {
    disk.open(base::Path(path.string() + ".new"), base::FileSystem::Open::CreateNew)
        ->append(std::as_bytes(std::span(text)));
    disk.rename(path.string() + ".new", path);
  };
  (void)disk.create_directory(path_ / "launches");
  disk.sync_directory(path_);
  runs::RecordedState state;
  state.state = runs::RunState::Cancelled;
  runs::Launch launch;
  launch.number = 1;
  launch.token = "t";
  runs::write_state(files_, folder_.path(), state);
  runs::write_launch(files_, folder_.path(), launch);
  rename_only(path_ / "state.json", tests::file_text(folder_.path() / "state.json"));
  rename_only(path_ / "launches" / "1.json",
              tests::file_text(folder_.path() / "launches" / "1.json"));
  const std::optional<FoundRun> found = read_found(disk, path_);
  ASSERT_TRUE(found && found->state);
  ASSERT_EQ(found->launches.size(), 1U);
  disk.crash(tests::Crash::LoseEverything);
  EXPECT_TRUE(std::filesystem::exists(path_ / "state.json"));
  EXPECT_TRUE(std::filesystem::exists(path_ / "launches" / "1.json"));
}

// A run that is not damaged is read; of a damaged one it is said which file, and what helps.
TEST_F(RunReadingTest, ADamagedRecordOfAFoundRunIsNamed) {
  const std::optional<FoundRun> found = read_found(files_, path_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->submission, submitted_);
  EXPECT_THAT(found->launches, IsEmpty());
  tests::write_file(path_ / runs::kSubmissionName, R"({"id": "demo", "created_utc": "soün"})");
  try {
    (void)read_found(files_, path_);
    ADD_FAILURE() << "read";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_THAT(error.what(), testing::StartsWith("submission.json is damaged: its created_utc is "
                                                  "\"so\\u00fcn\"; mend it, or remove it"));
  }
  // What cannot be a file of the controller's is none.
  std::filesystem::remove(path_ / runs::kSubmissionName);
  std::filesystem::create_directory(path_ / runs::kSubmissionName);
  EXPECT_EQ(read_found(files_, path_)->submission, std::nullopt);
}

// A launcher frames what it says of the end of its ranks, behind what they said.
TEST_F(RunReadingTest, TheLastWordIsTheTrainersOrOneThatSaysSomething) {
  const base::Path log = folder_.path() / "launch.log";
  const std::string error = "regatta-train: the plug-in is not there";
  const std::string frame = std::string(74, '-') + "\n";
  const std::pair<std::string, std::string> rows[] = {
      {"", ""},
      {frame, ""},
      {"one\ntwo \r\n\n", "two"},
      {"progress 1 %\rprogress 2 %", "progress 2 %"},
      {error + "\n" + error + "\n" + frame + "mpirun detected\n  Exit code:    21\n" + frame,
       error},
      {frame + "mpirun was unable to start\n" + frame, "mpirun was unable to start"},
      {std::string(2000, 'x'), std::string(500, 'x')},
  };
  for (const auto& [text, last] : rows) {
    tests::write_file(log, text);
    EXPECT_EQ(runs::last_log_line(files_, log), last) << text;
  }
}

}  // namespace
}  // namespace regatta::orchestrator::control
