// `regatta fork`: a run that continues another one's checkpoint.
#include <gmock/gmock.h>

#include "base/error.h"
#include "orchestrator/runs/run_records.h"
#include "tests/checkpoint/samples.h"
#include "tests/orchestrator/control/controller_fixture.h"
#include "tests/shared_data.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;

class ForkTest : public ControllerFixture {
 protected:
  ForkTest() : ControllerFixture(4) { parent_ = submit(); }

  std::string save(std::int64_t step, const std::string& execution = "00c0ffee00c0ffee") {
    const tests::SampleCheckpoint sample(step, execution);
    return checkpoint::CheckpointStore(base::posix_file_system(),
                                       directory(parent_).checkpoints_path())
        .write(sample.contents, tests::always)
        .name;
  }
  checkpoint::CheckpointStore checkpoints_of(const std::string& id) {
    return {base::posix_file_system(), directory(id).checkpoints_path()};
  }
  std::string fork(const control::ForkRequest& request = {},
                   const std::optional<std::string>& key = {}) {
    return controller_->fork(parent_, request, key, "uid 7").run.id;
  }
  // key: of the body that is at fault.
  void expect_refused(base::Code code, const std::string& why, const control::ForkRequest& request,
                      const std::string& key = "checkpoint") {
    const std::size_t runs = store_->ids().size();
    try {
      (void)fork(request);
      FAIL() << why;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(why));
      EXPECT_EQ(error.key(), key) << error.what();
    }
    EXPECT_EQ(store_->ids().size(), runs);
    std::size_t directories = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / "runs")) {
      directories += entry.is_directory() ? 1 : 0;
    }
    EXPECT_EQ(directories, runs) << "nothing is left of it";
  }

  std::string parent_;
};

TEST_F(ForkTest, HasACopyOfTheNewestCheckpointAndSaysWhoseItIs) {
  save(10);
  const std::string newest = save(20);
  const std::string id = fork();
  EXPECT_NE(id, parent_);
  EXPECT_EQ(run(id).name, "demo");
  EXPECT_EQ(run(id).forked_from, parent_);
  EXPECT_EQ(run(id).forked_checkpoint, newest);
  EXPECT_EQ(run(id).owner, "uid 7");
  ASSERT_EQ(checkpoints_of(id).list().size(), 1U);
  EXPECT_EQ(checkpoints_of(id).verify(newest), std::nullopt);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Starting);
  EXPECT_EQ(scheduler_.launches.back().run_directory, directory(id).path());
  const auto events = store_->events_after({{"run.submitted"}, id, {}, {}}, 0, 9).events;
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].words, "continues " + newest + " of " + parent_);
}

TEST_F(ForkTest, OutlivesItsParent) {
  const std::string name = save(20);
  const std::string id = fork();
  controller_->cancel(parent_);
  ticks(4);
  (void)controller_->remove(parent_, {});
  EXPECT_EQ(checkpoints_of(id).verify(name), std::nullopt);
  lose_the_store();
  ticks(4);
  EXPECT_EQ(run(id).forked_from, parent_) << "its directory says so";
  EXPECT_EQ(run(id).forked_checkpoint, name);
  EXPECT_FALSE(runs::is_over(state(id)));
}

TEST_F(ForkTest, TakesTheCheckpointThatIsMeant) {
  const std::string first = save(10);
  save(20);
  for (const std::string& asked : {std::string("10"), first}) {
    const std::string id = fork({asked, "", ""});
    EXPECT_EQ(run(id).forked_checkpoint, first);
    EXPECT_EQ(checkpoints_of(id).list().at(0).step, 10);
  }
}

TEST_F(ForkTest, TheLatestIsTheNewestThatNobodyFoundDamaged) {
  const std::string good = save(10), newest = save(20);
  const base::Path file = directory(parent_).checkpoints_path() / newest / checkpoint::kModelFile;
  const std::string bytes = tests::file_text(file);
  std::string flipped = bytes;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  tests::write_file(file, flipped);
  expect_refused(base::Code::User, "is damaged", {}, "");
  EXPECT_EQ(run(fork()).forked_checkpoint, good) << "the refusal is remembered";
  tests::write_file(file, bytes);
  EXPECT_EQ(run(fork({"20", "", ""})).forked_checkpoint, newest) << "the bytes decide";
}

TEST_F(ForkTest, HasItsOwnNameAndRunFile) {
  save(20);
  const std::string id = fork({"latest", "demo-lamb", R"({"optimizer": {"name": "lamb"}})"});
  EXPECT_EQ(run(id).name, "demo-lamb");
  const auto config = trainer::contract::parse_run_config(directory(id).run_json(), "run.json");
  EXPECT_EQ(config.optimizer.kind, trainer::contract::OptimizerKind::Lamb);
  EXPECT_EQ(config.steps, 100) << "as its parent has it";
  EXPECT_EQ(run(parent_).config.find("lamb"), std::string::npos);
}

TEST_F(ForkTest, KeepsThePlanOfAsManyRanks) {
  save(20);
  tests::write_file(directory(parent_).path() / "plan.json", "a plan");
  EXPECT_EQ(tests::file_text(directory(fork()).path() / "plan.json"), "a plan");
  const std::string other = fork({"latest", "", R"({"ranks": 2})"});
  EXPECT_FALSE(std::filesystem::exists(directory(other).path() / "plan.json"));
}

TEST_F(ForkTest, AKeyMakesOneRun) {
  save(20);
  const std::string id = fork({}, "k1");
  save(30);
  EXPECT_EQ(fork({}, "k1"), id) << "whatever is the newest by now";
  lose_the_store();
  ticks();
  EXPECT_EQ(fork({}, "k1"), id) << "its directory has the key";
  for (const control::ForkRequest& other :
       {control::ForkRequest{"20", "", ""}, control::ForkRequest{"latest", "other", ""},
        control::ForkRequest{"latest", "", R"({"seed": 2})"}}) {
    try {
      (void)fork(other, "k1");
      FAIL() << other.checkpoint;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::Conflict);
      EXPECT_THAT(error.what(), HasSubstr("use a new key"));
    }
  }
}

TEST_F(ForkTest, AKeyIsOfOneParent) {
  save(20);
  (void)fork({}, "k1");
  const std::string other = submit();
  try {
    (void)controller_->fork(other, {}, "k1", "uid 7");
    FAIL() << "answered with a fork of another run";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Conflict) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("use a new key"));
  }
}

TEST_F(ForkTest, IsRefusedInOneLineAndLeavesNothing) {
  using base::Code;
  expect_refused(Code::NotFound, "has no checkpoint latest; `regatta ckpt ls demo-", {});
  const std::string name = save(20);
  expect_refused(Code::NotFound, "has no checkpoint 30", {"30", "", ""});
  expect_refused(Code::User, "would end at step 20, and its checkpoint is of step 20",
                 {"latest", "", R"({"steps": 20})"}, "changes.steps");
  expect_refused(Code::User, "model.layers cannot change",
                 {"latest", "", R"({"model": {"layers": 3}})"}, "changes.model.layers");
  expect_refused(Code::User, "name", {"latest", "a/b", ""}, "name");
  // Its steps had 32 samples each, as the checkpoint tells.
  expect_refused(
      Code::User, "batch began with 32, and batch.size is 16",
      {"latest", "", R"({"batch": {"size": 16, "growth": "square_root", "max_size": 64}})"},
      "changes.batch.size");
  save(20, "00000000000000aa");
  expect_refused(Code::User, "several checkpoints of step 20", {"20", "", ""});
  // A byte of it is another.
  const base::Path file = directory(parent_).checkpoints_path() / name / checkpoint::kModelFile;
  std::string bytes = tests::file_text(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  tests::write_file(file, bytes);
  expect_refused(Code::User, "is damaged", {name, "", ""}, "");
}

}  // namespace
}  // namespace regatta::orchestrator
