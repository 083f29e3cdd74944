// Runs that begin with a checkpoint of another run, or with a model elsewhere.
#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/pins.h"
#include "orchestrator/control/checkpoint_choice.h"
#include "orchestrator/runs/run_start.h"
#include "tests/checkpoint/samples.h"
#include "tests/orchestrator/control/controller_fixture.h"
#include "tests/shared_data.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;

class StartTest : public ControllerFixture {
 protected:
  StartTest() : ControllerFixture(9) { parent_ = submit(); }

  base::Path checkpoints() { return directory(parent_).checkpoints_path(); }
  std::string save(std::int64_t step, std::optional<double> value = 0.25,
                   const std::string& metric = "mlm_accuracy") {
    return save_in(checkpoints(), step, value, metric);
  }
  static std::string save_in(const base::Path& checkpoints, std::int64_t step,
                             std::optional<double> value = 0.25,
                             const std::string& metric = "mlm_accuracy") {
    tests::SampleCheckpoint sample(step, "00c0ffee00c0ffee");
    sample.contents.manifest.metric = metric;
    sample.contents.manifest.value = value;
    return checkpoint::CheckpointStore(base::posix_file_system(), checkpoints)
        .write(sample.contents, tests::always)
        .name;
  }
  static std::string file(const std::string& from, const std::string& more = "") {
    return "name: fine\nsteps: 10\ndata: {path: /nowhere}\nfrom: " + from + "\n" + more;
  }
  std::string begin(const std::string& from, const std::optional<std::string>& key = {}) {
    return controller_->submit(file(from), key).run.id;
  }
  std::string begin_with_parent(const std::string& which = "") {
    return begin("{run: '" + parent_ + which + "'}");
  }
  trainer::contract::StartConfig start_of(const std::string& id) {
    return trainer::contract::parse_run_config(directory(id).run_json(), "run.json").from.value();
  }
  // Reasons, by checkpoint.
  std::map<std::string, std::string> pins() {
    std::map<std::string, std::string> reasons;
    for (const auto& [name, pin] :
         checkpoint::read_pins(base::posix_file_system(), checkpoints())) {
      reasons[name] = pin.reason;
    }
    return reasons;
  }
  void expect_refused(const std::string& body, base::Code code, const std::string& key,
                      const std::string& why) {
    const std::size_t runs = store_->ids().size();
    std::string told;
    for (const bool dry : {true, false}) {
      try {
        if (dry) {
          (void)controller_->preview(body, {});
          continue;  // it tells what it finds as a check
        }
        (void)controller_->submit(body, std::nullopt);
        ADD_FAILURE() << body;
      } catch (const base::Error& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        EXPECT_EQ(error.key(), key) << error.what();
        EXPECT_THAT(error.what(), HasSubstr(why));
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      }
    }
    EXPECT_EQ(store_->ids().size(), runs);
    EXPECT_TRUE(pins().empty());
  }

  std::string parent_;
};

TEST_F(StartTest, ARunIsItsNewestCheckpointOrTheOneThatIsMeant) {
  const std::string first = save(10, 0.5), second = save(20, 0.75), third = save(30, 0.25);
  const std::map<std::string, std::string> meant{
      {"", third},       {"@newest", third}, {"@latest", third},
      {"@best", second}, {"@10", first},     {"@" + second, second},
  };
  for (const auto& [which, name] : meant) {
    const std::string id = begin_with_parent(which);
    EXPECT_EQ(start_of(id).path, (checkpoints() / name).string()) << which;
    EXPECT_TRUE(start_of(id).run.empty()) << "whoever trains needs no controller";
    EXPECT_EQ(run(id).forked_from, parent_);
    EXPECT_EQ(run(id).forked_checkpoint, name);
    EXPECT_TRUE(std::filesystem::is_empty(directory(id).checkpoints_path())) << "no copy";
  }
  EXPECT_EQ(start_of(begin(parent_)).path, (checkpoints() / third).string()) << "a text alone";
  const std::string longer =
      "name: fine\nsteps: 99\ndata: {path: /nowhere}\nfrom: {run: demo, optimizer: true}\n";
  const std::string id = controller_->submit(longer, std::nullopt).run.id;
  EXPECT_EQ(start_of(id).optimizer, true) << "by its name";
}

TEST_F(StartTest, TheBestIsByTheRunsMetricAndTheNewerAmongEquals) {
  const auto best = [&](const std::string& metric) {
    return control::choose_checkpoint(base::posix_file_system(), directory(parent_).path(),
                                      {parent_, metric, "best"})
        .name;
  };
  save(10, 2.0, "loss");
  const std::string low = save(20, 1.0, "loss");
  const std::string later = save(30, 1.0, "loss");
  save(40, 9.0, "f1");
  const std::string high = save(50, 9.5, "f1");
  save(60, std::nullopt, "f1");
  save(70, 99.0, "accuracy");
  EXPECT_NE(best("loss"), low);
  EXPECT_EQ(best("loss"), later);
  EXPECT_EQ(best("f1"), high);
  EXPECT_THROW((void)best("pearson"), base::Error);
}

TEST_F(StartTest, ItsCheckpointIsPinnedUntilItHasItsOwn) {
  const std::string name = save(10);
  const std::string id = begin_with_parent();
  ASSERT_EQ(pins().count(name), 1U);
  EXPECT_THAT(pins()[name], HasSubstr(id));
  ticks();
  scheduler_.end("h2", 22);  // it is started again
  clock_.now += 100;
  ticks();
  EXPECT_EQ(pins().count(name), 1U);
  tests::JournalAuthor journal(directory(id), 1000);
  journal.start(0);
  journal.step(1, 5);
  journal.checkpoint(2, 5);
  ticks();
  EXPECT_TRUE(pins().empty());
}

TEST_F(StartTest, APinThatWasThereStays) {
  const std::string name = save(10);
  checkpoint::pin(base::posix_file_system(), checkpoints(), name, {"mine", 5});
  const std::string id = begin_with_parent();
  EXPECT_EQ(pins()[name], "mine");
  ticks();
  tests::JournalAuthor journal(directory(id), 1000);
  journal.start(0);
  journal.checkpoint(2, 5);
  ticks();
  EXPECT_EQ(pins()[name], "mine");
}

TEST_F(StartTest, OfTwoThatBeginWithItTheLastOneLetsItGo) {
  const std::string name = save(10);
  const std::string first = begin_with_parent(), second = begin_with_parent();
  ticks();
  const auto finish = [&](const std::string& id) {
    tests::JournalAuthor journal(directory(id), 1000);
    journal.start(0);
    journal.checkpoint(2, 5);
    ticks();
  };
  finish(first);
  EXPECT_THAT(pins()[name], HasSubstr(second));
  finish(second);
  EXPECT_TRUE(pins().empty());
}

TEST_F(StartTest, APinOutlivesTheControllerAndTheStore) {
  const std::string name = save(10);
  const std::string id = begin_with_parent();
  ticks();
  checkpoint::unpin(base::posix_file_system(), checkpoints(), name);
  lose_the_store();
  ticks(4);
  EXPECT_EQ(run(id).forked_checkpoint, name);
  EXPECT_THAT(pins()[name], HasSubstr(id)) << "each start of a controller looks again";
  tests::JournalAuthor journal(directory(id), 1000);
  journal.start(0);
  journal.checkpoint(2, 5);
  close();
  open();
  ticks(4);
  EXPECT_TRUE(pins().empty());
}

TEST_F(StartTest, AStoppedOneKeepsItsBeginningForAResumeAndLetsItGoWithItsRemoval) {
  const std::string name = save(10);
  const std::string id = begin_with_parent();
  ticks();
  scheduler_.end("h2", 24);
  ticks(4);
  ASSERT_EQ(state(id), runs::RunState::Stopped);
  EXPECT_EQ(pins().count(name), 1U);
  ASSERT_TRUE(controller_->resume(id));
  ticks(4);
  ASSERT_EQ(state(id), runs::RunState::Starting);
  EXPECT_EQ(start_of(id).path, (checkpoints() / name).string());
  scheduler_.end("h3", 24);
  ticks(4);
  ASSERT_EQ(state(id), runs::RunState::Stopped);
  (void)controller_->remove(id, {});
  EXPECT_TRUE(pins().empty());
}

// It needs its beginning no more, whatever became of its checkpoints.
TEST_F(StartTest, OneThatSucceededLetsItGoWithoutACheckpointOfItsOwn) {
  save(10);
  const std::string id = begin_with_parent();
  ticks();
  EXPECT_EQ(pins().size(), 1U);
  tests::JournalAuthor journal(directory(id), 1000);
  journal.start(0);
  journal.step(1, 10);
  journal.end(2, 0);
  scheduler_.end("h2", 0);
  ticks(4);
  ASSERT_EQ(state(id), runs::RunState::Succeeded) << run(id).error;
  EXPECT_TRUE(pins().empty());
}

TEST_F(StartTest, AStoppedOneKeepsWhatAnotherHasLetGo) {
  const std::string name = save(10);
  const std::string first = begin_with_parent(), second = begin_with_parent();
  ticks();
  const std::string handle = "h3";
  scheduler_.end(handle, 24);
  ticks(4);
  ASSERT_EQ(state(second), runs::RunState::Stopped);
  tests::JournalAuthor journal(directory(first), 1000);
  journal.start(0);
  journal.checkpoint(2, 5);
  ticks();
  EXPECT_EQ(pins().count(name), 1U) << "the second may be resumed";
}

TEST_F(StartTest, ARemovedOneLeavesThePinToAnother) {
  const std::string name = save(10);
  const std::string first = begin_with_parent(), second = begin_with_parent();
  ticks();
  scheduler_.end("h2", 24);
  ticks(4);
  ASSERT_EQ(state(first), runs::RunState::Stopped);
  (void)controller_->remove(first, {});
  ticks(4);
  EXPECT_EQ(pins().count(name), 1U) << "the second has no checkpoint of its own";
}

TEST_F(StartTest, IsExtendedLikeAnother) {
  const std::string name = save(10);
  const std::string id = begin_with_parent();
  ticks();
  tests::JournalAuthor journal(directory(id), 1000);
  journal.start(0);
  journal.step(1, 10);
  save_in(directory(id).checkpoints_path(), 10);
  journal.checkpoint(2, 10);
  journal.end(3, 0);
  scheduler_.end("h2", 0);
  ticks(4);
  ASSERT_EQ(state(id), runs::RunState::Succeeded) << run(id).error;
  EXPECT_TRUE(controller_->extend(id, R"({"steps": 40})"));
  ticks(4);
  EXPECT_EQ(start_of(id).path, (checkpoints() / name).string());
  EXPECT_THROW(controller_->change(id, R"({"from": {"path": "/other"}})"), base::Error);
}

TEST_F(StartTest, AKeyMakesOneRunWhateverIsTheNewestByThen) {
  save(10);
  const std::string id = begin(parent_, "k1");
  save(20);
  EXPECT_EQ(begin(parent_, "k1"), id);
  EXPECT_THROW((void)begin(parent_ + "@10", "k1"), base::Error);
}

TEST_F(StartTest, SaysSoInItsEvent) {
  const std::string name = save(10);
  const std::string id = begin_with_parent();
  const auto events = store_->events_after({{"run.submitted"}, id, {}, {}}, 0, 9).events;
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].words, "begins with " + name + " of " + parent_);
}

TEST_F(StartTest, RefusesWhatNothingCanBeginWith) {
  using base::Code;
  expect_refused(file("{run: nobody}"), Code::NotFound, "from.run", "no run 'nobody'");
  expect_refused(file("nobody"), Code::NotFound, "from.run", "no run 'nobody'");
  expect_refused(file(parent_), Code::NotFound, "from.run", "has no checkpoint newest");
  expect_refused(file(parent_ + "@best"), Code::NotFound, "from.run", "value of mlm_accuracy");
  const std::string name = save(10);
  expect_refused(file(parent_ + "@11"), Code::NotFound, "from.run", "has no checkpoint 11");
  expect_refused(file("'" + parent_ + "@'"), Code::User, "from.run", "behind the @");
  expect_refused(file("{run: '" + parent_ + "', path: /d}"), Code::User, "from.run", "two models");
  expect_refused(file("{optimizer: true}"), Code::User, "from", "names nothing");
  expect_refused(file("models/bert"), Code::User, "from.path", "is not absolute");
  expect_refused(file("{path: bert}"), Code::User, "from.path", "is not absolute");
  expect_refused(file("/no/such"), Code::NotFound, "from", "there is no model at /no/such");
  expect_refused(file(parent_, "model: {layers: 7}\n"), Code::User, "model.layers",
                 "is 7, and layers of");
  expect_refused(file("{path: " + checkpoints().string() + "/" + name + "0}"), Code::NotFound,
                 "from", "there is no checkpoint");
  std::filesystem::remove(checkpoints() / name / checkpoint::kManifestFile);
  expect_refused(file((checkpoints() / name).string()), Code::NotFound, "from", "not whole");
  expect_refused(file(directory(parent_).path().string()), Code::NotFound, "from",
                 "without a whole checkpoint");
}

TEST_F(StartTest, ADryRunTellsOfTheModelAndPinsNothing) {
  const std::string name = save(10);
  const control::Preview good = controller_->preview(file(parent_), {});
  ASSERT_EQ(good.checks.size(), 4U);
  EXPECT_EQ(good.checks[1].name, "from");
  EXPECT_EQ(good.checks[1].good, true) << good.checks[1].detail;
  EXPECT_THAT(good.checks[1].detail, HasSubstr(name));
  const control::Preview bad = controller_->preview(file("/no/such"), {});
  EXPECT_EQ(bad.checks[1].good, false);
  EXPECT_THAT(bad.checks[1].detail, HasSubstr("check the path"));
  EXPECT_TRUE(pins().empty());
}

TEST_F(StartTest, ADatasetOfAnotherTaskIsRefused) {
  const base::Path data = folder_.path() / "data";
  std::filesystem::create_directory(data);
  tests::write_file(data / "task.json",
                    R"({"task": "classification", "labels": ["a", "b", "c"],
                        "vocabulary": {"pieces": 1000}, "training": {"samples": 3}})");
  const std::string body = "name: fine\ndata: {path: " + data.string() + "}\n";
  expect_refused(body, base::Code::User, "task", "set task: classification");
  expect_refused(body + "task: classification\nranks: 4\n", base::Code::User, "ranks", "has 3 to");
  const control::Preview preview = controller_->preview(body + "task: classification\n", {});
  EXPECT_EQ(preview.checks[0].detail,
            "classification, 3 labels, 3 examples to train on, 1000 pieces of vocabulary");
  EXPECT_THAT(preview.checks[1].detail, HasSubstr("parameters"));
  EXPECT_NO_THROW((void)controller_->submit(body + "task: classification\n", std::nullopt));
}

TEST(RunStart, IsReadOfTheRunFile) {
  EXPECT_EQ(runs::start_of("{}").task, "pretraining");
  EXPECT_FALSE(runs::start_of("{}").model);
  const runs::RunStart start =
      runs::start_of(R"({"task": "regression", "from": {"path": "/m", "optimizer": true}})");
  EXPECT_EQ(start.task, "regression");
  EXPECT_EQ(start.model->path, "/m");
  EXPECT_TRUE(start.model->optimizer);
  for (const char* const damaged :
       {"", "x", "[]", R"({"task": 7, "from": 7})", R"({"from": {}})"}) {
    EXPECT_EQ(runs::start_of(damaged).task, "pretraining") << damaged;
    EXPECT_FALSE(runs::start_of(damaged).model) << damaged;
  }
  runs::Run run;
  EXPECT_EQ(runs::origin_text(run), "");
  run.config = R"({"from": {"path": "/m", "optimizer": false}})";
  EXPECT_EQ(runs::origin_text(run), "begins with /m");
  EXPECT_TRUE(runs::start_checkpoint(run).empty()) << "it is nobody's here";
  run.forked_from = "a-1";
  run.forked_checkpoint = "step-1";
  EXPECT_EQ(runs::origin_text(run), "begins with step-1 of a-1");
  EXPECT_EQ(runs::start_checkpoint(run), "/m");
  run.config = "{}";
  EXPECT_EQ(runs::origin_text(run), "continues step-1 of a-1");
  EXPECT_TRUE(runs::start_checkpoint(run).empty()) << "a fork has a copy";
}

}  // namespace
}  // namespace regatta::orchestrator
