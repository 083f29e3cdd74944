// Runs that try the cut of their gradient, over a link on which the default is known to be wrong:
// every sum costs a latency, and hardly anything else.
#include <set>

#include "tests/trainer/run/run_process.h"
#include "topology/plan/plan_store.h"
#include "trainer/step/plan_learning.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

constexpr double kLatency = 0.005;  // seconds of a sum
constexpr int kSteps = 500;
const std::string kTopology(32, 'a');  // that a plan was made for
// A machine that is busy with something else may hide even such a link for a while.
constexpr int kAttempts = 3;

class PlanTrialProcess : public RunProcess {
 protected:
  // Some fifteen buckets, where one would do.
  static std::string text(int ranks, const std::string& more) {
    std::string text =
        on_ranks(ranks, kSteps, "buckets: {bytes: 8192}\nwatchdog: {seconds: 100}\n");
    text = with(text, "every: 20, samples: 16", "every: 1000, samples: 16");
    return with(text, "every: 7", "every: 1000") + more;
  }
  base::Path make(const std::string& name, const std::string& text) {
    const base::Path path = directory_.path() / "runs" / name;
    base::posix_file_system().create_directory(path.parent_path());
    (void)contract::RunDirectory::create(base::posix_file_system(), path,
                                         contract::to_json(contract::parse_run_config(text, name)));
    return path;
  }
  static pid_t begin(const base::Path& run, int ranks, double latency, int sums = 0) {
    const std::string count = std::to_string(ranks);
    base::Command command;
    command.arguments = {"mpirun",
                         "--allow-run-as-root",
                         "--oversubscribe",
                         "--bind-to",
                         "none",
                         "-np",
                         count,
                         SLOW_LINK_RUN,
                         run.string(),
                         count,
                         std::to_string(latency),
                         "1e12",
                         std::to_string(sums)};
    command.output_path = run.string() + ".log";
    return base::spawn(command);
  }
  int train(const base::Path& run, int ranks, double latency) {
    return finish(begin(run, ranks, latency));
  }
  // Until a trial is over, then stopped in order: the rest would only take its time.
  std::optional<contract::TrialRecord> trial_of(const base::Path& run, int ranks) {
    const std::size_t before = records_of<contract::TrialRecord>(run).size();
    const pid_t process = begin(run, ranks, kLatency);
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(kDeadline);
    std::vector<contract::TrialRecord> trials;
    while (trials.size() <= before && base::process_start_ticks(process) &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      trials = records_of<contract::TrialRecord>(run);
    }
    const auto starts = records_of<contract::StartRecord>(run);
    if (trials.size() > before) ::kill(static_cast<pid_t>(starts.back().process), SIGTERM);
    EXPECT_EQ(finish(process), static_cast<int>(contract::ExitCode::Stopped)) << log_of(run);
    if (trials.size() <= before) return std::nullopt;
    return trials.back();
  }
  // The first of some runs whose trial ends with `winner`; the last of them otherwise.
  struct Tried {
    base::Path run;
    contract::TrialRecord trial;
  };
  Tried tried(
      const std::string& name, const std::string& text, int ranks, const std::string& winner,
      const std::function<void(const base::Path&)>& prepare = [](const base::Path&) {}) {
    Tried tried;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      tried.run = make(name + std::to_string(attempt), text);
      prepare(tried.run);
      const auto trial = trial_of(tried.run, ranks);
      if (!trial) break;
      tried.trial = *trial;
      if (trial->winner == winner) break;
      base::posix_file_system().remove_tree(plans());
    }
    return tried;
  }
  // In the journal, lists of buckets are of the start record's, later of the winner's.
  static void expect_buckets_as_told(const base::Path& run, const contract::TrialRecord& trial) {
    const std::size_t first = records_of<contract::StartRecord>(run).front().bucket_bytes.size();
    std::set<std::size_t> before, after;
    for (const contract::StepRecord& step : records_of<contract::StepRecord>(run)) {
      (step.step <= trial.step ? before : after).insert(step.bucket_launched.size());
    }
    EXPECT_EQ(before, (std::set<std::size_t>{0, first}));
    EXPECT_EQ(after, (std::set<std::size_t>{trial.bucket_bytes.size()}));
  }
  base::Path plans() { return directory_.path() / "runs" / topology::plan::kPlansFolder; }
};

TEST_F(PlanTrialProcess, TheWinnerIsKeptAndTheNextRunStartsFromIt) {
  const std::string free = text(2, "determinism: fast\n");
  const auto [run, found] = tried("first", free, 2, "coarser");
  EXPECT_EQ(found.cuts, (std::vector<std::string>{"default", "coarser", "finer"}));
  ASSERT_EQ(found.winner, "coarser") << found.why;
  EXPECT_LT(found.cut_seconds[1], found.cut_seconds[0]);
  EXPECT_LE(found.steps, step::PlanTrial::kMostSteps);
  EXPECT_EQ(found.bucket_bytes.size(), static_cast<std::size_t>(found.cut_buckets[1]));

  ASSERT_EQ(train(run, 2, 0), 0) << log_of(run);
  EXPECT_EQ(records_of<contract::TrialRecord>(run).size(), 1U) << "it was known";
  const contract::StartRecord again = records_of<contract::StartRecord>(run).back();
  EXPECT_GE(again.first_step, found.step);
  EXPECT_GE(kSteps - again.first_step, step::PlanLearning::kLeastStepsLeft)
      << "there was time for one";
  EXPECT_EQ(again.bucket_bytes, found.bucket_bytes);
  expect_buckets_as_told(run, found);

  const base::Path fixed = make("fixed", text(2, "determinism: run\n"));
  ASSERT_EQ(train(fixed, 2, 0), 0) << log_of(fixed);
  EXPECT_TRUE(records_of<contract::TrialRecord>(fixed).empty());
  EXPECT_EQ(records_of<contract::StartRecord>(fixed)[0].bucket_bytes.size(),
            static_cast<std::size_t>(found.cut_buckets[0]))
      << "nothing is remembered, either";
  EXPECT_TRUE(final_weights(run) == final_weights(fixed)) << "a trial changes no bit";

  const base::Path next = make("next", free + "seed: 2\n");
  const auto trial = trial_of(next, 2);
  ASSERT_TRUE(trial) << log_of(next);
  EXPECT_EQ(records_of<contract::StartRecord>(next)[0].bucket_bytes, found.bucket_bytes);
  EXPECT_EQ(trial->cuts.front(), "remembered");
  EXPECT_EQ(base::posix_file_system().list(plans()).size(), 1U);
}

// One bucket by plan.json is right here; on another number of ranks all begins anew.
TEST_F(PlanTrialProcess, OnFourRanksAPlanIsTriedAndAnotherLayoutTriesAgain) {
  const auto plan_one_bucket = [](const base::Path& run) {
    contract::RunConfig config =
        contract::parse_run_config(base::posix_file_system().read(run / "run.json", 1U << 20U), "");
    config.model.vocabulary = static_cast<int>(data::Dataset::open(*dataset_).vocabulary().size());
    topology::plan::Plan plan = topology::plan::default_plan(
        static_cast<int>(contract::make_tensor_table(config.model).tensors.size()));
    plan.ranks = 4;
    plan.topology = kTopology;
    std::ofstream(run / "plan.json") << topology::plan::to_json(plan);
  };
  const auto [run, found] =
      tried("planned", text(4, "determinism: fast\n"), 4, "plan", plan_one_bucket);
  EXPECT_EQ(found.cuts, (std::vector<std::string>{"default", "plan", "finer"}));
  ASSERT_EQ(found.winner, "plan") << found.why;
  EXPECT_GT(found.gain, 0.2) << found.why;
  EXPECT_EQ(found.bucket_bytes.size(), 1U);
  const auto stored = topology::plan::list_stored_plans(base::posix_file_system(), plans());
  ASSERT_EQ(stored.size(), 1U);
  EXPECT_EQ(stored[0].key.topology, kTopology);
  EXPECT_EQ(stored[0].plan.cut, found.winner);

  const auto other = trial_of(run, 2);
  ASSERT_TRUE(other) << log_of(run);
  EXPECT_EQ(other->cuts.front(), "default") << "nothing was known of two ranks";
  EXPECT_GT(other->step, found.step);
  EXPECT_EQ(base::posix_file_system().list(plans()).size(), 2U) << "one for each layout";
}

TEST_F(PlanTrialProcess, KilledInItsTrialARunBeginsItAgain) {
  const std::string often = with(text(2, ""), "every: 1000, keep_last", "every: 10, keep_last");
  const base::Path undisturbed = make("undisturbed", often + "determinism: run\n");
  ASSERT_EQ(train(undisturbed, 2, 0), 0) << log_of(undisturbed);
  const auto buckets =
      static_cast<int>(records_of<contract::StartRecord>(undisturbed)[0].bucket_bytes.size());
  ASSERT_GE(buckets, 8);
  const base::Path run = make("killed", often + "determinism: fast\n");
  // As many sums as 25 steps of the default have; of the least trial's 29 steps, no more.
  EXPECT_NE(finish(begin(run, 2, 0, 25 * buckets)), 0) << "rank 1 killed itself";
  const auto steps = records_of<contract::StepRecord>(run);
  ASSERT_FALSE(steps.empty()) << log_of(run);
  EXPECT_GT(steps.back().step, step::PlanTrial::kWarmupSteps + 2) << "rounds had begun";
  EXPECT_TRUE(records_of<contract::TrialRecord>(run).empty()) << "it was not over";
  ASSERT_EQ(train(run, 2, 0), 0) << log_of(run);
  EXPECT_GE(records_of<contract::StartRecord>(run).back().first_step, 10);
  EXPECT_EQ(records_of<contract::TrialRecord>(run).size(), 1U) << log_of(run);
  EXPECT_TRUE(final_weights(run) == final_weights(undisturbed));
}

}  // namespace
}  // namespace regatta::tests
