// After whatever becomes of a launch, its row and its file say the same.
#include "orchestrator/control/launch_book.h"

#include <gmock/gmock.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "orchestrator/runs/run_records.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator {
namespace {

using testing::ElementsAre;
using tests::JournalAuthor;

class LaunchBookTest : public ControllerFixture {
 protected:
  LaunchBookTest() : ControllerFixture(100) {}

  std::vector<runs::Launch> files(const std::string& id) {
    return runs::read_launches(base::posix_file_system(), run(id).directory);
  }
  // Of so many launches; the newest of them.
  runs::Launch expect_equal(const std::string& id, std::size_t count) {
    const std::vector<runs::Launch> rows = store_->launches(run(id).number);
    EXPECT_EQ(rows.size(), count);
    EXPECT_TRUE(rows == files(id))
        << "the newest row is " << (rows.empty() ? "" : text(rows.back())) << ", the newest file "
        << (files(id).empty() ? "" : text(files(id).back()));
    return rows.empty() ? runs::Launch{} : rows.back();
  }
  static std::string text(const runs::Launch& launch) {
    return std::to_string(launch.number) + " token " + launch.token + " handle " + launch.handle +
           " nodes " + launch.nodes + (launch.over ? " over" : "") +
           (launch.replaced ? " replaced" : "") + (launch.ended_utc ? " with its end" : "");
  }
  std::string started() {
    const std::string id = submit();
    ticks();
    return id;
  }
  runs::ProcessReport& report(const std::string& handle) { return scheduler_.reports[handle]; }
};

TEST_F(LaunchBookTest, AStart) {
  const std::string id = started();
  EXPECT_EQ(expect_equal(id, 1).handle, "h1");
}

TEST_F(LaunchBookTest, AnEnd) {
  const std::string id = started();
  scheduler_.end("h1", 22);
  ticks();
  EXPECT_EQ(expect_equal(id, 1).exit_code, 22);
  clock_.now += 100;
  ticks();
  EXPECT_EQ(expect_equal(id, 2).handle, "h2");
}

TEST_F(LaunchBookTest, ACancellation) {
  const std::string id = started();
  controller_->cancel(id);
  ticks();
  expect_equal(id, 1);
  scheduler_.end("h1", 24);
  ticks();
  EXPECT_TRUE(expect_equal(id, 1).over);
}

TEST_F(LaunchBookTest, ARefusal) {
  scheduler_.refuse = true;
  const runs::Launch launch = expect_equal(started(), 1);
  EXPECT_TRUE(launch.over && launch.ended_utc) << text(launch);
}

TEST_F(LaunchBookTest, NodesThatBecomeKnown) {
  const std::string id = started();
  report("h1").nodes = "node[01-04]";
  report("h1").gpus = 32;
  ticks();
  const runs::Launch launch = expect_equal(id, 1);
  EXPECT_EQ(launch.nodes, "node[01-04]");
  EXPECT_EQ(launch.gpus, 32);
}

TEST_F(LaunchBookTest, AReplacement) {
  const std::string id = started();
  report("h1") = {};
  report("h1").state = runs::ProcessState::Waiting;
  report("h1").cause = runs::Cause::Stuck;
  ticks();
  EXPECT_TRUE(expect_equal(id, 1).replaced);
}

TEST_F(LaunchBookTest, AnAnswerThatWasLost) {
  scheduler_.lose_answers = true;
  scheduler_.answers = false;
  const std::string id = started();
  EXPECT_EQ(expect_equal(id, 1).handle, "");
  scheduler_.answers = true;
  ticks();
  EXPECT_EQ(expect_equal(id, 1).handle, "h1");
}

TEST_F(LaunchBookTest, AControllerThatDiesBeforeItHasTheHandle) {
  const std::string id = submit();
  scheduler_.die_after_submit = true;
  EXPECT_THROW(ticks(), tests::ControllerDies);
  scheduler_.die_after_submit = false;
  close();
  open();
  ticks();
  EXPECT_EQ(expect_equal(id, 1).handle, "h1");
}

// Of two launches the first one's end was never written down.
TEST_F(LaunchBookTest, AnAdoption) {
  const std::string id = started();
  scheduler_.end("h1", 22);
  ticks();
  clock_.now += 100;
  ticks();
  runs::Launch first = files(id).front();
  first.over = false;
  control::LaunchBook::write_file(base::posix_file_system(), run(id).directory, first);
  lose_the_store();
  ticks();
  EXPECT_EQ(expect_equal(id, 2).handle, "h2");
  EXPECT_TRUE(files(id).front().over);
}

// Whoever wrote its row was killed before the file.
TEST_F(LaunchBookTest, AnEndWhoseFileWasNotWritten) {
  const std::string id = started();
  const runs::Launch before = files(id).front();
  scheduler_.end("h1", 22);
  ticks();
  ASSERT_TRUE(expect_equal(id, 1).over);
  control::LaunchBook::write_file(base::posix_file_system(), run(id).directory, before);
  close();
  open();
  ticks();
  EXPECT_EQ(expect_equal(id, 2).handle, "h2") << "the next attempt";
  EXPECT_TRUE(files(id).front().over);
}

// Somebody trains on by hand in the directory of a run that was submitted.
TEST_F(LaunchBookTest, ASuccessor) {
  const std::string id = started();
  JournalAuthor own(directory(id), clock_.utc_seconds());
  own.start(0.1);
  ticks();
  report("p88").state = runs::ProcessState::Running;
  JournalAuthor other(directory(id), clock_.utc_seconds());
  other.start(1, 0, 88);
  scheduler_.end("h1", 23);
  ticks();
  EXPECT_EQ(expect_equal(id, 2).handle, "p88");
  // By whoever wrote its row and was killed before the file.
  std::filesystem::remove(base::Path(run(id).directory) / "launches" / "2.json");
  close();
  open();
  ticks();
  EXPECT_EQ(expect_equal(id, 2).handle, "p88");
  lose_the_store();
  ticks();
  EXPECT_EQ(expect_equal(id, 2).handle, "p88") << "the file is enough";
  other.end(2, 0);
  scheduler_.end("p88", 0);
  ticks();
  EXPECT_TRUE(expect_equal(id, 2).over);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
}

TEST_F(LaunchBookTest, AHandleThatCouldNotBeWrittenIsWrittenLater) {
  tests::FaultyFileSystem files;
  bool failed = false;
  files.set_before_each([&] {
    if (failed || scheduler_.launches.empty()) return;
    failed = true;
    files.fail_at(1, tests::Fault::Once);
  });
  control::ControllerOptions options;
  options.runs_directory = folder_.path() / "runs";
  controller_.reset();
  controller_ = std::make_unique<control::Controller>(files, clock_, *store_, scheduler_, options);
  controller_->adopt();
  const std::string id = started();
  EXPECT_TRUE(failed);
  EXPECT_EQ(expect_equal(id, 1).handle, "h1");
  close();
}

TEST_F(LaunchBookTest, TheDirectoryOfARunThatWasStartedByHandIsNotWritten) {
  const auto made = trainer::contract::RunDirectory::create(
      base::posix_file_system(), folder_.path() / "runs" / "mine", tests::run_file(), {});
  report("p88").state = runs::ProcessState::Running;
  JournalAuthor journal(made, clock_.utc_seconds());
  journal.start(0.1, 0, 88);
  lose_the_store();
  ticks();
  ASSERT_EQ(store_->launches(run("mine").number).size(), 1U);
  journal.end(2, 0);
  scheduler_.end("p88", 0);
  ticks();
  EXPECT_EQ(state("mine"), runs::RunState::Succeeded);
  EXPECT_THAT(files("mine"), testing::IsEmpty());
}

TEST_F(LaunchBookTest, WhatWasStartedByHandAndIsCancelledIsItsOwn) {
  const auto made = trainer::contract::RunDirectory::create(
      base::posix_file_system(), folder_.path() / "runs" / "mine", tests::run_file(), {});
  report("p88").state = runs::ProcessState::Running;
  JournalAuthor journal(made, clock_.utc_seconds());
  journal.start(0.1, 0, 88);
  lose_the_store();
  ticks();
  controller_->cancel("mine");
  ticks();
  EXPECT_EQ(expect_equal("mine", 1).handle, "p88");
}

// In the product's sources: what writes a launch to the store or to its file.
TEST(LaunchBook, IsTheOnlyOneThatWritesLaunches) {
  const std::regex write(R"((\.|->)(put|end)_launch\(|runs::write_launch\()");
  std::vector<std::string> writers;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           base::Path(REGATTA_SOURCE_DIR) / "orchestrator")) {
    const std::string extension = entry.path().extension();
    if (extension != ".cc" && extension != ".h") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    if (std::regex_search(text.str(), write)) writers.push_back(entry.path().filename());
  }
  EXPECT_THAT(writers, ElementsAre("launch_book.cc"));
}

}  // namespace
}  // namespace regatta::orchestrator
