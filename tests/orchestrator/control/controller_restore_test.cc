// A store that is put back, lost, or whose runs directory was moved: what users were told of their
// runs stays true, and nothing that had ended begins again.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "orchestrator/api/api.h"
#include "orchestrator/api/health.h"
#include "orchestrator/runs/record_fields.h"
#include "orchestrator/runs/record_json.h"
#include "orchestrator/store/backup.h"
#include "tests/orchestrator/control/controller_fixture.h"
#include "trainer/contract/exit_code.h"

namespace regatta::orchestrator {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using tests::JournalAuthor;

class RestoreTest : public ControllerFixture {
 protected:
  RestoreTest() : ControllerFixture(100) {}

  base::Path runs() const { return folder_.path() / "runs"; }
  base::Path backup() const { return folder_.path() / "backup.sqlite"; }
  std::string handle() const { return "h" + std::to_string(scheduler_.launches.size()); }
  void pass(double seconds) {
    clock_.now += seconds;
    ticks();
  }
  void end(int code) {
    scheduler_.end(handle(), code);
    ticks(4);
  }
  // Begins, writes a journal of some steps and an evaluation, and ends.
  std::string trained(int code) {
    const std::string id = submit();
    ticks();
    train(id, code);
    return id;
  }
  void train(const std::string& id, int code) {
    clock_.now += 2;
    JournalAuthor journal(directory(id), clock_.utc_seconds());
    journal.start(0.5);
    for (int step = 1; step < 5; ++step) journal.step(1.0 + step, step);
    journal.evaluation(6, 4, 0.25);
    journal.checkpoint(7, 4);
    clock_.now += 8;
    journal.end(8, code);
    end(code);
  }
  // Five launches that left no journal.
  std::string failed_for_good() {
    const std::string id = submit();
    ticks();
    for (int i = 0; i < 5; ++i) {
      end(22);
      pass(100);
    }
    EXPECT_EQ(state(id), runs::RunState::Failed);
    return id;
  }
  std::string made_by_hand(const std::string& name, int code) {
    const auto made = trainer::contract::RunDirectory::create(base::posix_file_system(),
                                                              runs() / name, tests::run_file());
    JournalAuthor journal(made, clock_.utc_seconds());
    journal.start(0.5);
    journal.step(2, 1);
    journal.end(3, code);
    pass(11);
    pass(11);
    return name;
  }
  void put_back() {
    close();
    restored_ = store::restore(backup(), folder_.path() / "state", base::posix_file_system(),
                               folder_.path() / "runs");
    open();
    ticks(4);
  }

  template <typename Record>
  static Json of(const std::vector<Record>& records) {
    Json list = Json::array();
    for (const Record& record : records) runs::write_fields(record, &list.emplace_back());
    return list;
  }
  // All that anybody can ask about a run.
  Json told(const std::string& id) {
    api::Api api(*controller_, base::posix_file_system(), clock_, api::ApiOptions{folder_.path()});
    Json all;
    for (const char* const what : {"", "/explain", "/metrics", "/history", "/time_to_accuracy"}) {
      api::Request request;
      request.method = "GET";
      request.path = "/api/v1/runs/" + id + what;
      const api::Response response = api.handle(request);
      EXPECT_EQ(response.status, 200) << response.body;
      all[what] = Json::parse(response.body);
      all[what].erase("cursor");  // of the store
    }
    all["launches"] = of(store_->launches(run(id).number));
    Json attempts = Json::array();
    for (runs::Attempt attempt : store_->attempts(run(id).number)) {
      attempts.push_back({attempt.number, attempt.execution, attempt.offset, attempt.start_utc,
                          attempt.last_seconds, attempt.training_seconds, attempt.process,
                          attempt.exit_code.value_or(-1), attempt.reason, attempt.judged});
    }
    all["attempts"] = attempts;
    return all;
  }
  // Of runs that are over.
  std::vector<std::string> various() {
    std::vector<std::string> ids{trained(0), trained(20), failed_for_good(),
                                 made_by_hand("good", 0), made_by_hand("bad", 20)};
    const std::string resumed = trained(static_cast<int>(trainer::contract::ExitCode::Stopped));
    EXPECT_TRUE(controller_->resume(resumed));
    ticks(4);
    train(resumed, 0);
    ids.push_back(resumed);
    scheduler_.refuse_for_now = true;
    const std::string cancelled = submit();
    ticks();
    controller_->cancel(cancelled);
    ticks(4);
    scheduler_.refuse_for_now = false;
    ids.push_back(cancelled);
    const std::string archived = trained(0);
    (void)controller_->archive(archived, control::DryRun::No);
    ids.push_back(archived);
    for (const std::string& id : ids) EXPECT_TRUE(runs::is_over(state(id))) << id;
    return ids;
  }
  std::map<std::string, Json> told_of(const std::vector<std::string>& ids) {
    std::map<std::string, Json> all;
    for (const std::string& id : ids) all[id] = told(id);
    return all;
  }
  void expect_told(const std::map<std::string, Json>& before) {
    for (const auto& [id, all] : before) {
      ASSERT_TRUE(store_->run(id)) << id;
      EXPECT_EQ(Json::diff(all, told(id)), Json::array()) << id << "\n" << all.dump(1);
    }
  }

  store::Restored restored_;
};

TEST_F(RestoreTest, ALostStoreIsRebuiltAsItWas) {
  const auto before = told_of(various());
  const std::size_t launches = scheduler_.launches.size();
  scheduler_.reports.clear();  // they ended long ago
  clock_.now += 5000;
  lose_the_store();
  for (int i = 0; i < 5; ++i) pass(50);
  expect_told(before);
  EXPECT_EQ(scheduler_.launches.size(), launches);
}

// The controller that found it was killed before it had read its journal.
TEST_F(RestoreTest, WhatWasFoundAndNotYetReadIsNoStoppedRun) {
  const auto made = trainer::contract::RunDirectory::create(base::posix_file_system(),
                                                            runs() / "mine", tests::run_file());
  JournalAuthor journal(made, clock_.utc_seconds());
  journal.start(0.5);
  journal.step(2, 1);
  close();
  open();
  ASSERT_TRUE(store_->launches(run("mine").number).empty()) << "it is not read yet";
  close();
  open();
  ticks(4);
  EXPECT_EQ(state("mine"), runs::RunState::Running);
}

TEST_F(RestoreTest, AMovedRunsDirectoryIsReadAtItsNewPlace) {
  const std::vector<std::string> ids = various();
  const std::string open_run = submit();
  ticks(4);
  scheduler_.refuse_for_now = true;
  const std::string queued = submit();
  ticks();
  const auto before = told_of(ids);
  const std::size_t launches = scheduler_.launches.size();
  close();
  const base::Path moved = folder_.path() / "moved";
  std::filesystem::rename(runs(), moved);
  store_ = std::make_unique<store::Store>(folder_.path() / "state");
  control::ControllerOptions options;
  options.runs_directory = moved;
  options.parallel = 100;
  controller_ = std::make_unique<control::Controller>(base::posix_file_system(), clock_, *store_,
                                                      scheduler_, options);
  controller_->adopt();
  ticks(4);
  EXPECT_FALSE(std::filesystem::exists(runs())) << "nobody looks at the old place";
  EXPECT_EQ(scheduler_.launches.size(), launches);
  const std::string old_place = runs().string() + "/", new_place = moved.string() + "/";
  for (const auto& [id, all] : before) {
    std::string text = all.dump();
    for (std::size_t at = 0; (at = text.find(old_place, at)) != std::string::npos;) {
      text.replace(at, old_place.size(), new_place);
    }
    EXPECT_EQ(Json::diff(Json::parse(text), told(id)), Json::array()) << id;
  }
  EXPECT_EQ(run(open_run).directory, (moved / open_run).string());
  // They go on there.
  scheduler_.refuse_for_now = false;
  pass(1000);
  ASSERT_EQ(scheduler_.launches.size(), launches + 1);
  EXPECT_EQ(scheduler_.launches.back().run_directory, moved / queued);
  const std::string stopped = ids[1];
  EXPECT_TRUE(controller_->resume(stopped));
  ticks(4);
  EXPECT_EQ(scheduler_.launches.back().run_directory, moved / stopped);
  EXPECT_TRUE(std::filesystem::exists(moved / stopped / "launches" / "2.json"));
}

// `serve --runs` that names another one by mistake: it has runs, but none of the store's.
TEST_F(RestoreTest, AnotherRunsDirectoryIsRefused) {
  const std::string ended = trained(0);
  const std::string runs_on = submit();
  ticks(4);
  scheduler_.refuse_for_now = true;
  const std::string queued = submit();
  close();
  const base::Path other = folder_.path() / "other";
  std::filesystem::create_directory(other);
  (void)trainer::contract::RunDirectory::create(base::posix_file_system(), other / "foreign",
                                                tests::run_file());
  control::ControllerOptions options;
  options.runs_directory = other;
  const auto serve = [&] {
    store::Store store(folder_.path() / "state");
    const control::Controller controller(base::posix_file_system(), clock_, store, scheduler_,
                                         options);
  };
  try {
    serve();
    ADD_FAILURE() << "it begins with another runs directory";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Operator);
    EXPECT_THAT(
        error.what(),
        HasSubstr(other.string() + " has none of the store's runs, of which 2 have not ended"));
    EXPECT_THAT(error.what(), HasSubstr("--runs"));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
  }
  // One of them is enough: the others may have been removed by hand.
  std::filesystem::copy(runs() / ended, other / ended, std::filesystem::copy_options::recursive);
  EXPECT_NO_THROW(serve());
  open();
  ticks(4);
  EXPECT_EQ(state(runs_on), runs::RunState::Starting) << "nothing was given up";
  EXPECT_EQ(state(queued), runs::RunState::Queued);
}

TEST_F(RestoreTest, WhatTheBackupKnowsIsAsItWas) {
  const auto before = told_of(various());
  (void)store::back_up(folder_.path() / "state", backup());
  const std::size_t launches = scheduler_.launches.size();
  put_back();
  EXPECT_EQ(restored_.dropped, 0) << "nothing has changed";
  expect_told(before);
  EXPECT_EQ(scheduler_.launches.size(), launches);
}

// A directory whose file system is not mounted.
TEST_F(RestoreTest, ARunsDirectoryWithoutItsRunsIsNotInOrder) {
  const auto status = [this] {
    return api::health_json(*controller_, 0, base::posix_file_system(), nullptr).dump();
  };
  EXPECT_THAT(status(), testing::HasSubstr("\"ok\"")) << "there are no runs yet";
  (void)trained(0);
  EXPECT_THAT(status(), testing::HasSubstr("\"ok\""));
  const base::Path runs = folder_.path() / "runs", away = folder_.path() / "away";
  std::filesystem::create_directory(away);
  std::vector<base::Path> directories;
  for (const auto& each : std::filesystem::directory_iterator(runs)) {
    if (each.is_directory()) directories.push_back(each.path());
  }
  for (const base::Path& each : directories) {
    std::filesystem::rename(each, away / each.filename());
  }
  EXPECT_THAT(status(), testing::HasSubstr("has none of the newest 1 run"));
}

TEST_F(RestoreTest, ADirectoryThatCannotBeTakenOverIsNotInOrder) {
  const auto health = [this] {
    return api::health_json(*controller_, 0, base::posix_file_system(), nullptr);
  };
  const std::string good = trained(0), bad = trained(0), worse = trained(0);
  const std::string first = std::min(bad, worse), second = std::max(bad, worse);
  const auto submission_of = [this](const std::string& id) {
    return runs() / id / runs::kSubmissionName;
  };
  const std::string kept = base::posix_file_system().read(submission_of(second), 65536);
  close();
  tests::write_file(runs() / first / "run.json", R"({"steps": "many"})");
  tests::write_file(submission_of(second), "{");
  std::filesystem::remove_all(folder_.path() / "state");
  open();
  ticks(4);
  ASSERT_TRUE(store_->run(good));
  Json told = health();
  EXPECT_EQ(told["status"], "degraded");
  EXPECT_EQ(told["checks"][2]["good"], false);
  EXPECT_THAT(std::string(told["checks"][2]["detail"]),
              testing::AllOf(HasSubstr("2 run directories cannot be taken in"),
                             HasSubstr("the first: " + first + ": "), HasSubstr("steps"),
                             testing::Not(HasSubstr(second))));
  std::filesystem::remove_all(runs() / first);
  pass(11);
  told = health();
  EXPECT_EQ(told["status"], "degraded");
  EXPECT_THAT(
      std::string(told["checks"][2]["detail"]),
      testing::AllOf(HasSubstr("1 run directory cannot be taken in"),
                     HasSubstr(second + ": submission.json is damaged: it holds no JSON object")));
  tests::write_file(submission_of(second), kept);
  pass(11);
  EXPECT_EQ(health()["status"], "ok") << health().dump(1);
  EXPECT_EQ(state(second), runs::RunState::Succeeded);
}

// Of a run that somebody started by hand and that goes on: what people wrote on it is nowhere else.
TEST_F(RestoreTest, LabelsOfARunStartedByHandAreKept) {
  const auto made = trainer::contract::RunDirectory::create(base::posix_file_system(),
                                                            runs() / "mine", tests::run_file());
  JournalAuthor journal(made, clock_.utc_seconds());
  scheduler_.reports["p1234"] = {runs::ProcessState::Running, std::nullopt, std::nullopt};
  journal.start(0.5);
  journal.step(2, 1);
  pass(11);
  pass(11);
  ASSERT_EQ(state("mine"), runs::RunState::Running);
  controller_->label("mine", {{}, {"best"}, {}, "of Monday"});
  (void)store::back_up(folder_.path() / "state", backup());
  journal.step(3, 2);
  put_back();
  EXPECT_EQ(restored_.dropped, 1);
  EXPECT_THAT(run("mine").tags, testing::ElementsAre("best"));
  EXPECT_EQ(run("mine").note, "of Monday");
  store::RunFilter best;
  best.tags = {"best"};
  EXPECT_EQ(store_->list(best).rows.size(), 1U);
  EXPECT_EQ(state("mine"), runs::RunState::Running);
  EXPECT_EQ(store_->attempts(run("mine").number).size(), 1U);
  EXPECT_EQ(store_->steps(run("mine").number, 0, 100).size(), 2U) << "its journal was read anew";
}

// Or the next resume would write the file of before over it.
TEST_F(RestoreTest, AChangeOfARunThatIsOverIsKept) {
  const std::string id = trained(static_cast<int>(trainer::contract::ExitCode::Stopped));
  ticks(4);
  ASSERT_TRUE(run(id).settled && run(id).drained);
  (void)store::back_up(folder_.path() / "state", backup());
  clock_.now += 10;
  ASSERT_TRUE(controller_->change(id, R"({"target": 0.55})"));
  ticks(4);
  const runs::Run changed = run(id);
  ASSERT_EQ(changed.summary.target, 0.55);
  put_back();
  EXPECT_EQ(restored_.dropped, 1);
  EXPECT_EQ(run(id).config, changed.config);
  EXPECT_EQ(run(id).changed_utc, changed.changed_utc);
  EXPECT_EQ(run(id).summary.target, 0.55);
  EXPECT_EQ(state(id), runs::RunState::Stopped);
  EXPECT_TRUE(controller_->resume(id));
  ticks(4);
  EXPECT_EQ(directory(id).run_json(), changed.config);
}

// What happened after the backup is not undone, and nothing that ended begins again.
TEST_F(RestoreTest, WhatCameAfterTheBackupCounts) {
  const std::string runs_on = submit();
  const std::string will_end = submit();
  ticks(4);
  ASSERT_EQ(scheduler_.launches.size(), 2U);
  const std::string stopped = trained(static_cast<int>(trainer::contract::ExitCode::Stopped));
  const std::string to_archive = trained(0);
  const std::string to_remove = trained(0);
  const std::string to_label = trained(0);
  scheduler_.refuse_for_now = true;
  const std::string to_fail = submit();
  ticks(4);
  const std::string to_cancel = submit();
  ASSERT_TRUE(store_->launches(run(to_cancel).number).empty());
  const std::string lost = submit();
  (void)store::back_up(folder_.path() / "state", backup());

  scheduler_.end("h2", 0);
  controller_->cancel(to_cancel);
  controller_->cancel(lost);
  ticks(4);
  (void)controller_->remove(lost, {});
  scheduler_.refuse_for_now = false;
  pass(1000);
  for (int i = 0; i < 5; ++i) {
    end(22);
    pass(100);
  }
  (void)controller_->archive(to_archive, control::DryRun::No);
  (void)controller_->remove(to_remove, {});
  controller_->label(to_label, {{}, {"best"}, {}, {}});
  EXPECT_TRUE(controller_->resume(stopped));
  ticks(4);
  const std::string newer = trained(0);
  const std::string key_run = controller_->submit(tests::run_file(), "key").run.id;
  ticks(4);
  ASSERT_EQ(state(to_fail), runs::RunState::Failed);
  ASSERT_EQ(state(to_cancel), runs::RunState::Cancelled);
  const std::vector<std::string> ended{will_end, to_cancel, to_fail, to_archive, newer};
  const auto before = told_of(ended);
  const std::size_t launches = scheduler_.launches.size();

  put_back();
  for (int i = 0; i < 10; ++i) pass(100);
  EXPECT_EQ(scheduler_.launches.size(), launches) << "something was started again";
  expect_told(before);
  EXPECT_EQ(state(runs_on), runs::RunState::Starting) << "its process is at work";
  EXPECT_EQ(state(stopped), runs::RunState::Starting) << "it was resumed";
  EXPECT_EQ(store_->launches(run(stopped).number).size(), 2U);
  EXPECT_TRUE(run(to_archive).archived);
  EXPECT_THAT(run(to_label).tags, testing::ElementsAre("best"));
  EXPECT_EQ(controller_->submit(tests::run_file(), "key").run.id, key_run);
  // History that has no directory any more is shown, and can be removed.
  EXPECT_EQ(state(to_remove), runs::RunState::Succeeded);
  EXPECT_FALSE(controller_->remove(to_remove, {}).had_directory);
  EXPECT_EQ(restored_.given_up, 1);
  EXPECT_EQ(state(lost), runs::RunState::Failed);
  EXPECT_EQ(run(lost).error, "its directory " + (runs() / lost).string() + " is gone");
  EXPECT_THAT(store_->events_after({}, 0, 1000).events,
              testing::Contains(testing::AllOf(testing::Field(&store::Event::run, lost),
                                               testing::Field(&store::Event::kind, "run.failed"))));
  EXPECT_FALSE(controller_->remove(lost, {}).had_directory);
  scheduler_.end("h1", 0);
  ticks(4);
  EXPECT_EQ(state(runs_on), runs::RunState::Succeeded);
}

}  // namespace
}  // namespace regatta::orchestrator
