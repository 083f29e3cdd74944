// The real regatta-train on checkpoints and data that are damaged, or not its own.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/store.h"
#include "tests/trainer/run/run_process.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

TEST_F(RunProcess, ADamagedCheckpointIsNamedAndSkipped) {
  const base::Path whole = make_run("intact", run_file(*dataset_, 40));
  ASSERT_EQ(run_to_end(whole), 0);
  const base::Path run = make_run("damaged", run_file(*dataset_, 30));
  ASSERT_EQ(run_to_end(run), 0);
  const auto names = base::posix_file_system().list(run / "checkpoints");
  ASSERT_GE(names.size(), 2U);
  {
    std::fstream file(run / "checkpoints" / names.back() / "model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-5, std::ios::end);
    file.put('\x55');
  }
  // The same run, allowed ten steps more: it must go on from the checkpoint before the damaged one.
  std::string text = base::posix_file_system().read(run / "run.json", 1U << 20U);
  const std::size_t at = text.find("\"steps\": 30");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 11, "\"steps\": 40");
  std::ofstream(run / "run.json") << text;
  ASSERT_EQ(resume_to_end(run), 0) << log_of(run);
  bool named = false;
  for (const contract::CheckpointRecord& record : records_of<contract::CheckpointRecord>(run)) {
    named = named || (record.status == "skipped" && record.name == names.back());
  }
  EXPECT_TRUE(named);
  EXPECT_EQ(records_of<contract::StartRecord>(run).back().first_step, 28);
}

void damage_checkpoints(const base::Path& run) {
  for (const auto& entry : std::filesystem::directory_iterator(run / "checkpoints")) {
    if (!checkpoint::parse_checkpoint_name(entry.path().filename().string())) continue;
    std::filesystem::resize_file(entry.path() / "model.safetensors", 1000);
  }
}

// Who lets a run that is over train on does not mean to train it again.
TEST_F(RunProcess, WhatHasEndedDoesNotBeginAgain) {
  const base::Path run = make_run("over", run_file(*dataset_, 30));
  ASSERT_EQ(run_to_end(run), 0);
  std::string text = base::posix_file_system().read(run / "run.json", 1U << 20U);
  std::ofstream(run / "run.json") << with(text, "\"steps\": 30", "\"steps\": 40");
  damage_checkpoints(run);
  EXPECT_EQ(resume_to_end(run), static_cast<int>(contract::ExitCode::User));
  const std::string why = records_of<contract::EndRecord>(run).back().message;
  EXPECT_NE(why.find("had ended at step 30"), std::string::npos) << why;
  EXPECT_NE(why.find("submit a new run"), std::string::npos) << why;
  EXPECT_TRUE(records_of<contract::WarningRecord>(run).empty());
}

// As a run has that was forked.
TEST_F(RunProcess, WhatBeginsWithCheckpointsGoesOnFromOne) {
  const base::Path parent = make_run("parent", run_file(*dataset_, 30));
  ASSERT_EQ(run_to_end(parent), 0);
  const base::Path run = directory_.path() / "forked";
  std::filesystem::create_directory(run);
  std::filesystem::copy(parent / "run.json", run);
  std::filesystem::copy(parent / "checkpoints", run / "checkpoints",
                        std::filesystem::copy_options::recursive);
  damage_checkpoints(run);
  for (int again = 0; again < 2; again++) {
    EXPECT_EQ(resume_to_end(run), static_cast<int>(contract::ExitCode::User));
  }
  const std::string why = records_of<contract::EndRecord>(run).back().message;
  EXPECT_NE(why.find("was to go on from one of them"), std::string::npos) << why;
}

// They are later than all that the run saves from now on: it keeps what it saves all the same.
TEST_F(RunProcess, DamagedCheckpointsTakeNoPlace) {
  std::string text = with(run_file(*dataset_, 100000), "every: 7", "every: 10");
  text = with(text, "keep_last: 3", "keep_last: 1");
  const base::Path run = make_run("damaged", text);
  ASSERT_EQ(run_to_end(run, {"--deadline-seconds", "2"}),
            static_cast<int>(contract::ExitCode::Continue));
  const std::int64_t damaged = records_of<contract::EndRecord>(run).back().step;
  damage_checkpoints(run);
  ASSERT_EQ(run_to_end(run, {"--deadline-utc", "1"}),
            static_cast<int>(contract::ExitCode::Continue));
  const contract::EndRecord end = records_of<contract::EndRecord>(run).back();
  ASSERT_LT(end.step, damaged);
  EXPECT_NE(log_of(run).find("training starts from step 0"), std::string::npos) << log_of(run);
  ASSERT_EQ(records_of<contract::WarningRecord>(run).size(), 1U);
  ASSERT_EQ(run_to_end(run, {"--deadline-utc", "1"}),
            static_cast<int>(contract::ExitCode::Continue));
  EXPECT_EQ(records_of<contract::StartRecord>(run).back().first_step, end.step);
}

TEST_F(RunProcess, ACheckpointOfAnotherModelIsRefused) {
  const base::Path run = make_run("other", run_file(*dataset_, 8));
  ASSERT_EQ(run_to_end(run), 0);
  std::string text = base::posix_file_system().read(run / "run.json", 1U << 20U);
  const std::size_t at = text.find("\"feed_forward\": 64");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 18, "\"feed_forward\": 72");
  std::ofstream(run / "run.json") << text;
  EXPECT_EQ(resume_to_end(run), static_cast<int>(contract::ExitCode::User));
  EXPECT_NE(records_of<contract::EndRecord>(run).back().message.find("another model"),
            std::string::npos)
      << records_of<contract::EndRecord>(run).back().message;
}

// It would be waited for, and no signal ends that.
TEST_F(RunProcess, APipeInADatasetIsRefused) {
  const base::Path copy = directory_.path() / "piped";
  std::filesystem::copy(*dataset_, copy);
  std::filesystem::remove(copy / "held_out.documents");
  ASSERT_EQ(::mkfifo((copy / "held_out.documents").c_str(), 0600), 0);
  const base::Path run = make_run("piped-run", run_file(copy, 5));
  EXPECT_EQ(run_to_end(run), static_cast<int>(contract::ExitCode::User));
  EXPECT_NE(log_of(run).find("held_out.documents is not a regular file"), std::string::npos)
      << log_of(run);
}

// Of a model that a run would begin with: what is wrong is found before anything is made.
TEST_F(RunProcess, ADryRunLooksAtTheModelToBeginWith) {
  struct Row {
    const char* name;
    std::string from;
    const char* says;
  };
  const Row rows[] = {
      {"a run of a controller", "{run: 'base@best'}", "is a run of a controller"},
      {"nothing", "/no/such/model", "no model at"},
      {"a dataset", dataset_->string(), "no config.json or run.json"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const base::Path run = make_run("dry", run_file(*dataset_, 5, "from: " + row.from + "\n"));
    base::Command command;
    command.arguments = {kTrainer, "run", "--dry-run", run.string() + ".yaml"};
    const base::Output output = base::run(command, kDeadline);
    EXPECT_EQ(output.exit.code, static_cast<int>(contract::ExitCode::User));
    EXPECT_NE(output.errors.find(row.says), std::string::npos) << output.errors;
    EXPECT_EQ(output.text, "");
  }
}

}  // namespace
}  // namespace regatta::tests
