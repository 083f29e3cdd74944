// `regatta rm` and `regatta archive`: what is over is removed whole or not at all, and what is kept
// of an archived run.
#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <list>
#include <thread>

#include "base/descriptor_file_system.h"
#include "base/error.h"
#include "checkpoint/found_damage.h"
#include "checkpoint/pins.h"
#include "checkpoint/store.h"
#include "orchestrator/control/run_removal.h"
#include "tests/checkpoint/samples.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;
using tests::JournalAuthor;
using Names = std::vector<std::string>;

class RemoveTest : public ControllerFixture {
 protected:
  RemoveTest() : ControllerFixture(3) {}

  // A run that has ended so, after a step.
  std::string ended(int code = 20) {
    const std::string id = submit();
    ticks();
    JournalAuthor journal(directory(id), clock_.utc_seconds());
    journal.start(0.1);
    journal.step(1, 1);
    journal.evaluation(1.5, 1, 0.25);
    journal.checkpoint(2, 1);
    journal.end(3, code);
    ticks();
    scheduler_.end("h" + std::to_string(scheduler_.launches.size()), code);
    ticks(4);
    EXPECT_TRUE(runs::is_over(state(id)));
    return id;
  }
  base::Path runs() const { return folder_.path() / "runs"; }
  // In the runs directory, but for the lease.
  Names names() const {
    Names found;
    for (const auto& each : std::filesystem::directory_iterator(runs())) {
      if (each.is_directory() || each.is_symlink()) found.push_back(each.path().filename());
    }
    return found;
  }
  // Rows of all tables but node_events.
  std::int64_t rows() {
    store::Database database(folder_.path() / "state" / "store.sqlite",
                             store::Database::Access::ReadOnly);
    std::int64_t sum = 0;
    for (const std::string table : {"runs", "launches", "attempts", "steps", "evaluations",
                                    "checkpoints", "warnings", "timelines", "rank_shares"}) {
      store::Statement ask = database.prepare("SELECT count(*) FROM " + table);
      EXPECT_TRUE(ask.step());
      sum += ask.integer(0);
    }
    return sum;
  }
  std::string write_checkpoint(const std::string& id, std::int64_t step, double value = 0.25) {
    tests::SampleCheckpoint sample(step, "aaaa");
    sample.contents.manifest.metric = "mlm_accuracy";
    sample.contents.manifest.value = value;
    checkpoint::CheckpointStore store(base::posix_file_system(), runs() / id / "checkpoints");
    return store.write(sample.contents, tests::always).name;
  }
  void expect_refused(const std::string& id, const std::string& why,
                      base::Code code = base::Code::Conflict, control::RemoveOptions options = {}) {
    for (const bool dry_run : {true, false}) {
      options.dry_run = dry_run;
      try {
        (void)controller_->remove(id, options);
        ADD_FAILURE() << "removed, not refused: " << why;
      } catch (const base::Error& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        EXPECT_THAT(error.what(), HasSubstr(why));
        EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
      }
    }
  }
};

TEST_F(RemoveTest, TakesTheDirectoryAndAllRows) {
  const std::string id = ended();
  tests::write_file(runs() / id / "launches" / "1.log", std::string(1000, 'x'));
  (void)write_checkpoint(id, 5);
  ASSERT_GT(rows(), 5);
  const control::Removal dry = controller_->remove(id, {true, false});
  EXPECT_EQ(names(), Names{id}) << "a dry run changes nothing";
  EXPECT_GE(dry.use.logs, 1000U);
  EXPECT_GT(dry.use.checkpoints, 0U);
  EXPECT_GT(dry.use.journal, 0U);
  EXPECT_EQ(dry.use.exports, 0U);
  std::uint64_t bytes = 0;
  for (const auto& each : std::filesystem::recursive_directory_iterator(runs() / id)) {
    if (each.is_regular_file()) bytes += each.file_size();
  }
  EXPECT_EQ(dry.use.bytes(), bytes);
  const control::Removal removal = controller_->remove(id, {});
  EXPECT_EQ(removal.use.bytes(), bytes);
  EXPECT_EQ(removal.left, "");
  EXPECT_EQ(names(), Names{});
  EXPECT_EQ(rows(), 0);
  expect_refused(id, "no run", base::Code::NotFound);
  ticks(10);
  EXPECT_EQ(rows(), 0);
  // Nothing of it is taken for the next one's.
  const std::string next = ended(0);
  EXPECT_EQ(state(next), runs::RunState::Succeeded);
  EXPECT_EQ(run(next).summary.step, 1);
}

// The loop still has it, and what it wanted to write is not written.
TEST_F(RemoveTest, BeforeTheLoopHasLetGoOfIt) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  scheduler_.end("h1", 20);
  while (!runs::is_over(state(id))) controller_->tick();
  journal.step(1, 1);
  journal.step(2, 2);
  const runs::Attempt attempt = store_->attempts(run(id).number).at(0);
  const orchestrator::runs::Run gone = run(id);
  (void)controller_->remove(id, {});
  store_->put_launch(gone.number, {});
  store_->append(gone, attempt, {});
  (void)store_->add_attempt(gone.number, 2, "feed");
  store_->update_run(gone);
  EXPECT_EQ(rows(), 0);
  ticks(10);
  EXPECT_EQ(rows(), 0);
  EXPECT_EQ(names(), Names{});
  const std::string next = submit();
  EXPECT_NE(run(next).number, gone.number);
}

TEST_F(RemoveTest, OnlyWhatIsOverAndOfNoUseToOthers) {
  const std::string running = submit();
  ticks();
  expect_refused(running, "is not over; `regatta cancel " + running + "`");
  const std::string waited = ended();
  const std::string waiting = controller_->submit(tests::run_file(), std::nullopt, {waited}).run.id;
  ticks();
  expect_refused(waited, "is waited for by " + waiting);
  controller_->cancel(waiting);
  ticks(4);
  (void)controller_->remove(waited, {});

  const std::string pinned = ended();
  const std::string name = write_checkpoint(pinned, 5);
  const base::Path checkpoints = runs() / pinned / "checkpoints";
  checkpoint::pin(base::posix_file_system(), checkpoints, name, {"for the paper", 1});
  expect_refused(pinned, "has pinned checkpoints: " + name);
  {
    const checkpoint::ReadingMark mark(base::posix_file_system(), checkpoints, name, "test",
                                       clock_.utc_seconds());
    expect_refused(pinned, "is being read: " + name, base::Code::Conflict, {false, true});
  }
  (void)controller_->remove(pinned, {false, true});
  EXPECT_THAT(names(), UnorderedElementsAre(running, waiting));
}

TEST_F(RemoveTest, ByHandOnlyWithItsEnd) {
  const auto made = trainer::contract::RunDirectory::create(base::posix_file_system(),
                                                            runs() / "mine", tests::run_file());
  JournalAuthor journal(made, clock_.utc_seconds());
  trainer::contract::StartRecord record;
  record.host = "elsewhere";
  journal.start(0.1, 0, 77, record);
  clock_.now += 11;
  ticks(4);
  clock_.now += 700;
  ticks(4);
  ASSERT_EQ(state("mine"), runs::RunState::Stopped);
  expect_refused("mine", "does not say that its process has ended");
  journal.end(1, 24);
  clock_.now += 70;
  ticks(40);
  for (int i = 0; i < 10; ++i) {  // looks at runs that are over
    clock_.now += 10;
    ticks();
  }
  EXPECT_EQ(controller_->remove("mine", {}).left, "");
  EXPECT_EQ(names(), Names{});
}

TEST_F(RemoveTest, OfAnotherSchedulerIsLeftToIt) {
  const std::string id = ended();
  close();
  scheduler_.called = "other";
  open();
  ticks(4);
  expect_refused(id, "belongs to scheduler");
}

// The controller was killed between the renaming and the rest; with its store, too.
TEST_F(RemoveTest, IsFinishedByTheNextController) {
  for (const bool store_is_lost : {false, true}) {
    const std::string id = ended();
    close();
    const base::Path away = control::move_run_away(base::posix_file_system(), runs() / id);
    EXPECT_EQ(control::id_of_removed(away.filename().string()), id);
    if (store_is_lost) std::filesystem::remove_all(folder_.path() / "state");
    open();
    ticks(4);
    EXPECT_EQ(names(), Names{}) << store_is_lost;
    EXPECT_EQ(rows(), 0) << store_is_lost;
  }
}

// With its machine the controller lost that the run had ended: it is no run that is missed.
TEST_F(RemoveTest, IsFinishedWhereTheStoreLostTheEndOfTheRun) {
  const std::string id = submit();
  ticks();
  ASSERT_FALSE(runs::is_over(state(id)));
  close();
  (void)control::move_run_away(base::posix_file_system(), runs() / id);
  open();
  ticks(4);
  EXPECT_EQ(names(), Names{});
  EXPECT_EQ(rows(), 0);
}

TEST_F(RemoveTest, ARunWithoutADirectoryIsForgotten) {
  const std::string id = ended();
  std::filesystem::remove_all(runs() / id);
  EXPECT_FALSE(controller_->remove(id, {}).had_directory);
  EXPECT_EQ(rows(), 0);
}

TEST_F(RemoveTest, FollowsNoLink) {
  const base::Path outside = folder_.path() / "outside";
  std::filesystem::create_directories(outside / "pins");
  tests::write_file(outside / "file", std::string(5000, 'x'));
  for (const std::string link : {"checkpoints", "launches/link", "exports", "deep"}) {
    const std::string id = ended();
    std::filesystem::remove_all(runs() / id / link);
    std::filesystem::create_directories((runs() / id / link).parent_path());
    std::filesystem::create_symlink(outside, runs() / id / link);
    EXPECT_LT(controller_->remove(id, {}).use.bytes(), 5000U);
    EXPECT_EQ(names(), Names{}) << link;
    EXPECT_TRUE(std::filesystem::exists(outside / "file")) << link;
  }
  const std::string id = ended();
  std::filesystem::rename(runs() / id, folder_.path() / "elsewhere");
  std::filesystem::create_symlink(folder_.path() / "elsewhere", runs() / id);
  expect_refused(id, "is a symbolic link");
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "elsewhere" / "run.json"));
}

// Fails as a file of another user does.
class Unremovable final : public base::DescriptorFileSystem {
 public:
  void rename(const base::Path& from, const base::Path& to) override {
    if (no_rename) throw base::Error(base::Code::Operator, "cannot rename: not permitted");
    DescriptorFileSystem::rename(from, to);
  }
  void remove_tree(const base::Path& path) override {
    throw base::Error(base::Code::Operator, "cannot remove " + path.string() + ": not permitted");
  }
  bool no_rename = true;

 private:
  [[nodiscard]] base::Place resolve(const base::Path& path) const override {
    return base::plain_place(path);
  }
};

// What the controller wants done beside its loop is done, or hangs, as the test says.
class RemoveElsewhere : public RemoveTest {
 protected:
  void open_with(base::FileSystem& files) {
    close();
    store_ = std::make_unique<store::Store>(folder_.path() / "state");
    control::ControllerOptions options;
    options.runs_directory = runs();
    options.beside = [this](const base::Path&, const std::function<void()>& work) {
      if (done_ == 0) {
        hung_.push_back(work);
      } else {
        --done_;
        work();
      }
      return true;
    };
    controller_ =
        std::make_unique<control::Controller>(files, clock_, *store_, scheduler_, options);
    ticks(4);
  }

  int done_ = 1000000;  // works that are answered
  std::list<std::function<void()>> hung_;
};

TEST_F(RemoveElsewhere, WhatCannotBeRemovedIsWholeOrGone) {
  const std::string id = ended();
  Unremovable files;
  open_with(files);
  try {
    (void)controller_->remove(id, {});
    FAIL() << "it cannot be renamed";
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot rename"));
  }
  EXPECT_EQ(names(), Names{id});
  EXPECT_TRUE(runs::is_over(state(id)));
  files.no_rename = false;
  const control::Removal removal = controller_->remove(id, {});
  EXPECT_THAT(removal.left, HasSubstr("not permitted"));
  EXPECT_EQ(rows(), 0);
  ticks(4);
  ASSERT_EQ(names().size(), 1U);
  EXPECT_THAT(names().front(), HasSubstr(".removed-" + id));
  open_with(files);
  EXPECT_EQ(rows(), 0) << "it does not come back";
  open_with(base::posix_file_system());
  EXPECT_EQ(names(), Names{});
  close();
}

TEST_F(RemoveElsewhere, AHungMountCostsSecondsAndNothingElse) {
  const std::string id = ended();
  open_with(base::posix_file_system());
  for (const int answered : {0, 1}) {  // the look; the renaming
    done_ = answered;
    try {
      (void)controller_->remove(id, {});
      FAIL() << answered;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::Retry);
    }
    for (const auto& work : hung_) work();  // it answers when nobody waits any more
    hung_.clear();
    EXPECT_EQ(names(), Names{id}) << answered;
    EXPECT_TRUE(store_->run(id)) << answered;
  }
  done_ = 2;
  EXPECT_THAT(controller_->remove(id, {}).left, HasSubstr("still being removed"));
  EXPECT_EQ(rows(), 0);
  for (const auto& work : hung_) work();
  EXPECT_EQ(names(), Names{});
  close();
}

TEST_F(RemoveTest, AnArchiveKeepsTheBestTheNewestAndPinnedOnes) {
  const std::string id = ended();
  const Names all{write_checkpoint(id, 10, 0.1), write_checkpoint(id, 20, 0.9),
                  write_checkpoint(id, 30, 0.2), write_checkpoint(id, 40, 0.3),
                  write_checkpoint(id, 50, 0.4)};
  checkpoint::pin(base::posix_file_system(), runs() / id / "checkpoints", all[2], {"", 1});
  std::filesystem::create_directories(runs() / id / "exports" / all[4]);
  tests::write_file(runs() / id / "exports" / all[4] / "model", std::string(777, 'x'));
  const auto left = [&] {
    Names found;
    checkpoint::CheckpointStore store(base::posix_file_system(), runs() / id / "checkpoints");
    for (const auto& entry : store.list()) found.push_back(entry.name);
    return found;
  };
  const control::Archival dry = controller_->archive(id, control::DryRun::Yes);
  EXPECT_EQ(left().size(), 5U);
  EXPECT_FALSE(run(id).archived);
  EXPECT_EQ(dry.files.removed.size(), 2U);
  EXPECT_EQ(dry.files.exports, 777U);
  const control::Archival archival = controller_->archive(id, control::DryRun::No);
  EXPECT_EQ(left(), (Names{all[4], all[2], all[1]}));
  EXPECT_GT(archival.files.removed.at(0).bytes, 0U);
  EXPECT_FALSE(std::filesystem::exists(runs() / id / "exports"));
  EXPECT_TRUE(store_->steps(run(id).number, 0, 10).size() == 1) << "the curve stays";
  EXPECT_EQ(controller_->archive(id, control::DryRun::No).files.removed.size(), 0U) << "again";
  const std::string other = ended();
  const auto listed = [&](store::Archived archived, std::optional<runs::RunState> state = {}) {
    Names found;
    store::RunFilter filter;
    filter.archived = archived;
    if (state) filter.states = {*state};
    for (const store::RunRow& row : store_->list(filter).rows) found.push_back(row.run.id);
    return found;
  };
  for (const bool store_is_lost : {false, true}) {
    if (store_is_lost) lose_the_store();
    ticks(4);
    for (const std::optional<runs::RunState> with :
         {std::optional<runs::RunState>(), {runs::RunState::Failed}}) {
      EXPECT_EQ(listed(store::Archived::Hidden, with), Names{other}) << store_is_lost;
      EXPECT_EQ(listed(store::Archived::Only, with), Names{id}) << store_is_lost;
      EXPECT_EQ(listed(store::Archived::Also, with), (Names{other, id})) << store_is_lost;
    }
  }
  controller_->resume(id);
  ticks(4);
  EXPECT_EQ(state(id), runs::RunState::Starting);
  EXPECT_FALSE(run(id).archived);
  lose_the_store();
  EXPECT_FALSE(run(id).archived);
  EXPECT_THROW((void)controller_->archive(id, control::DryRun::No), base::Error)
      << "it is not over";
}

TEST_F(RemoveTest, AnArchiveDoesNotTrustANewestThatIsDamaged) {
  const std::string id = ended();
  const std::string good = write_checkpoint(id, 10);
  const std::string bad = write_checkpoint(id, 20);
  const base::Path file = runs() / id / "checkpoints" / bad / checkpoint::kModelFile;
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-1, std::ios::end);
  stream.put('\x7f');
  stream.close();
  EXPECT_TRUE(controller_->archive(id, control::DryRun::Yes).files.removed.empty())
      << "a dry run says the same";
  const auto found =
      checkpoint::read_found_damage(base::posix_file_system(), runs() / id / "checkpoints");
  EXPECT_EQ(found.count(bad), 1U);
  const control::Archival archival = controller_->archive(id, control::DryRun::No);
  EXPECT_TRUE(archival.files.removed.empty());
  EXPECT_TRUE(std::filesystem::exists(runs() / id / "checkpoints" / good));
}

// Errors of these, made at once; of one without, "".
using Requests = std::vector<std::function<void()>>;
Names errors_at_once(const Requests& requests) {
  Names errors(requests.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    threads.emplace_back([&error = errors[i], &request = requests[i]] {
      try {
        request();
      } catch (const base::Error& thrown) {
        error = thrown.what();
      }
    });
  }
  for (std::jthread& thread : threads) thread.join();
  return errors;
}

TEST_F(RemoveTest, EqualRequestsAtOnceAreAnsweredAlike) {
  for (int round = 0; round < 20; ++round) {
    const std::string id = ended();
    const std::string key = "key-" + std::to_string(round);
    const std::function<void()> archiving = [&] {
      EXPECT_EQ(controller_->archive(id, control::DryRun::No, "", "archive-" + key).run.id, id);
    };
    EXPECT_THAT(errors_at_once(Requests(4, archiving)), testing::Each("")) << "of round " << round;
    EXPECT_TRUE(run(id).archived);
    std::atomic<int> removed = 0;
    const std::function<void()> removing = [&] {
      const control::Removal removal = controller_->remove(id, {false, false, "", "remove-" + key});
      EXPECT_EQ(removal.run.id, id);
      if (removal.had_directory) ++removed;
    };
    EXPECT_THAT(errors_at_once(Requests(4, removing)), testing::Each("")) << "of round " << round;
    EXPECT_EQ(removed, 1) << "one of them has done it";
    EXPECT_FALSE(store_->run(id));
  }
}

TEST_F(RemoveTest, OfTwoRequestsAtOnceWithOneKeyOneIsRefused) {
  for (int round = 0; round < 10; ++round) {
    const std::string first = ended(), second = ended();
    const std::string key = "key-" + std::to_string(round);
    EXPECT_THAT(
        errors_at_once({[&] {
                          (void)controller_->remove(first, {false, false, "", key});
                        },
                        [&] { (void)controller_->archive(second, control::DryRun::No, "", key); }}),
        UnorderedElementsAre("", HasSubstr("use a new key")));
    EXPECT_EQ(store_->run(first).has_value(), run(second).archived) << "one of them is done";
  }
}

TEST(RemovedName, OnlyWhatARemovalMakes) {
  EXPECT_EQ(control::id_of_removed(".removed-demo-4f2a91-0123abcd"), "demo-4f2a91");
  for (const char* const name :
       {"demo", ".removed-", ".removed-demo", ".removed--0123abcd", ".removed-demo-0123abcg",
        ".removed-demo-0123abc", "removed-a-01234567"}) {
    EXPECT_EQ(control::id_of_removed(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace regatta::orchestrator
