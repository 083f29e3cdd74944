// Totals are counted once and known until what filters look at changes: after every kind of change
// each is compared with the number of rows that its list has.
#include "orchestrator/store/run_totals.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/store/store.h"
#include "tests/orchestrator/store/store_rows.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using store::RunFilter;

class RunTotalsTest : public testing::Test {
 protected:
  RunTotalsTest() : store_(folder_.path()) {}

  store::NewRun new_run(const std::string& id) {
    store::NewRun run;
    run.id = id;
    run.name = id.substr(0, id.find('-'));
    run.config = "{}";
    run.directory = folder_.path() / "runs" / id;
    run.created_utc = ++now_;
    run.owner = "uid 7";
    return run;
  }
  runs::Run run(const std::string& id) { return *store_.run(id); }

  static std::vector<std::pair<std::string, RunFilter>> filters() {
    std::vector<std::pair<std::string, RunFilter>> filters;
    const auto add = [&](const std::string& name, const std::function<void(RunFilter*)>& set) {
      RunFilter filter;
      filter.limit = 1000;
      filter.with_total = true;
      set(&filter);
      filters.emplace_back(name, filter);
    };
    add("all", [](RunFilter*) {});
    add("archived", [](RunFilter* f) { f->archived = store::Archived::Only; });
    add("also archived", [](RunFilter* f) { f->archived = store::Archived::Also; });
    add("queued", [](RunFilter* f) { f->states = {runs::RunState::Queued}; });
    add("failed", [](RunFilter* f) { f->states = {runs::RunState::Failed}; });
    add("name", [](RunFilter* f) { f->name_prefix = "be"; });
    add("owner", [](RunFilter* f) { f->owner = "uid 7"; });
    add("another owner", [](RunFilter* f) { f->owner = "uid 8"; });
    add("tag", [](RunFilter* f) { f->tags = {"good"}; });
    add("another tag", [](RunFilter* f) { f->tags = {"bad"}; });
    add("both tags", [](RunFilter* f) { f->tags = {"good", "bad"}; });
    add("node", [](RunFilter* f) { f->node = "n2"; });
    add("text", [](RunFilter* f) { f->text = "no memory"; });
    add("since", [](RunFilter* f) { f->since_utc = 3; });
    add("since earlier", [](RunFilter* f) { f->since_utc = 2; });
    add("until", [](RunFilter* f) { f->until_utc = 3; });
    return filters;
  }
  void expect_right(const std::string& after) {
    for (int time = 0; time < 2; ++time) {  // as it is counted, and as it is known
      for (const auto& [name, filter] : filters()) {
        const store::RunList list = store_.list(filter);
        EXPECT_EQ(list.total, list.rows.size()) << name << " after " << after;
        EXPECT_EQ(store_.snapshot().list(filter).total, list.rows.size()) << name << " " << after;
      }
    }
  }
  std::int64_t generation() {
    store::Database reader(folder_.path() / "store.sqlite", store::Database::Access::ReadOnly);
    store::Statement ask = reader.prepare("SELECT number FROM list_generation WHERE row = 1");
    return ask.step() ? ask.integer(0) : -1;
  }

  tests::TemporaryDirectory folder_;
  double now_ = 0;
  store::Store store_;
};

TEST_F(RunTotalsTest, AreThoseOfTheirListsAfterEveryChange) {
  expect_right("nothing");
  for (const char* const id : {"bert-1", "bert-2", "lamb-3", "lamb-4"}) store_.add_run(new_run(id));
  expect_right("submissions");

  runs::Run failed = run("bert-2");
  failed.state = runs::RunState::Failed;
  failed.error = "no memory";
  failed.ended_utc = 9;
  store_.update_run(failed);
  expect_right("a failure");
  failed.error = "no disk";
  store_.update_run(failed);
  expect_right("another error");

  store_.set_labels(run("bert-1").number, {{"good"}, ""});
  expect_right("a tag");
  store_.set_labels(run("bert-1").number, {{"bad"}, "a note"});
  expect_right("another tag");
  store_.set_labels(run("bert-1").number, {{}, ""});
  expect_right("no tag");

  runs::Launch launch;
  launch.number = 1;
  launch.nodes = "n[1-2]";
  launch.over = true;
  const runs::Run launched = run("lamb-3");
  store_.put_launch(launched.number, launch);
  store_.end_launch(launched, launch);
  expect_right("a launch on nodes");

  store_.set_archived(run("bert-2").number, true);
  expect_right("an archive");
  store_.set_archived(run("bert-2").number, false);
  expect_right("no archive");
  store_.remove_run(run("lamb-3"));
  expect_right("a removal");
}

// Or a cluster at work would count again and again.
TEST_F(RunTotalsTest, StayKnownWhileRunsOnlyTrain) {
  runs::Run training = *store_.run(store_.add_run(new_run("bert-1")));
  training.state = runs::RunState::Running;
  runs::Attempt attempt;
  attempt.row = store_.add_attempt(training.number, 1, "0123456789abcdef");
  attempt.started = true;
  store_.append(training, attempt, {});
  const std::int64_t before = generation();
  EXPECT_GT(before, 0);
  for (int step = 1; step <= 5; ++step) {
    training.summary.step = step;
    training.summary.value = 0.1 * step;
    store_.append(training, attempt, {step_record(step, step)});
  }
  store_.set_wanted(training.number, runs::Wanted::Cancel);
  EXPECT_EQ(generation(), before);
  EXPECT_EQ(run("bert-1").summary.step, 5);
}

TEST_F(RunTotalsTest, AreCountedOnceForEachFilterAndGeneration) {
  store_.add_run(new_run("bert-1"));
  store::Database reader(folder_.path() / "store.sqlite", store::Database::Access::ReadOnly);
  store::RunTotals totals;
  int counted = 0;
  const auto total = [&](const std::string& filter) {
    return totals.total(reader, filter, [&] { return 10 + ++counted; });
  };
  EXPECT_EQ(total("a"), 11);
  EXPECT_EQ(total("a"), 11);
  EXPECT_EQ(total("b"), 12);
  EXPECT_EQ(total("a"), 11);
  store_.add_run(new_run("bert-2"));
  EXPECT_EQ(total("a"), 13);
  EXPECT_EQ(total("b"), 14);
  // A count that a change overtook is not kept for what came after it.
  EXPECT_EQ(totals.total(reader, "c",
                         [&] {
                           store_.add_run(new_run("bert-3"));
                           return std::int64_t{1};
                         }),
            1);
  EXPECT_EQ(totals.total(reader, "c", [] { return std::int64_t{2}; }), 2);
}

}  // namespace
}  // namespace regatta::orchestrator
