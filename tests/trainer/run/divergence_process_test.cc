// The real program on samples of which some make it diverge: a sample that is long enough reaches a
// position whose embedding overflows. Which steps those are, follows from the samples' lengths.
#include <algorithm>
#include <numeric>
#include <random>

#include "tests/trainer/run/run_process.h"
#include "trainer/model/initial_weights.h"
#include "trainer/run/checkpoint_keeper.h"
#include "trainer/run/training_run.h"
#include "trainer/samples/sampler.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

constexpr int kSteps = 60;
constexpr int kBatch = 4;
constexpr int kEvery = 7;      // steps between checkpoints
constexpr int kPosition = 36;  // whose embedding is too large
constexpr std::uint64_t kSeeds = 400;

// Short documents, and a few of long sentences.
base::Path make_dataset(const base::Path& directory) {
  std::mt19937 random(5);
  std::ofstream text(directory / "corpus.txt");
  for (int document = 0; document < 500; ++document) {
    const bool is_long = document % 125 == 60;
    for (int sentence = 0; sentence < 2; ++sentence) {
      text << "The";
      for (int word = 0; word < (is_long ? 44 : 4); ++word) {
        text << ' ' << std::vector<std::string>{"boat", "wind", "sail", "lake"}[random() % 4U];
      }
      text << ".\n";
    }
    text << '\n';
  }
  text.close();
  data::PrepareOptions options;
  options.inputs = {directory / "corpus.txt"};
  options.output = directory / "dataset";
  options.train_vocabulary = 256;
  options.threads = 1;
  options.held_out = 0.2;
  (void)data::prepare(options, base::posix_file_system(), {});
  return options.output;
}

// What a run does, by the rules of the README alone: which step of samples each step has taken.
struct Course {
  struct Back {
    std::int64_t from = 0, to = 0;
  };
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;  // step, and whose samples
  std::vector<Back> backs;
  std::vector<std::int64_t> written;  // steps of checkpoints, in time
  bool goes_back_twice = false;       // before another checkpoint
};
Course course_of(const samples::SampleSource& source) {
  Course course;
  const auto diverges = [&](std::int64_t step) {
    for (std::int64_t i = 0; i < kBatch; ++i) {
      if (source.length_at((step - 1) * kBatch + i) > kPosition) return true;
    }
    return false;
  };
  std::vector<std::int64_t> saved{0};  // that the run came through, and trusts
  std::int64_t skipped = 0;
  bool has_saved = true;  // since the last rollback
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    if (!diverges(step + skipped)) {
      course.taken.emplace_back(step, step + skipped);
      if (step % kEvery == 0 && step < kSteps) {
        saved.push_back(step);
        course.written.push_back(step);
        has_saved = true;
      }
      continue;
    }
    if (!has_saved && saved.size() > 1) {
      saved.pop_back();
      course.goes_back_twice = true;
    }
    course.backs.push_back({step, saved.back()});
    skipped += step - saved.back();
    has_saved = false;
    step = saved.back();
    if (course.backs.size() > 20) break;
  }
  course.written.push_back(kSteps);
  return course;
}

class Diverging : public RunProcess {
 protected:
  static void SetUpTestSuite() {
    suite_directory_ = new TemporaryDirectory;
    dataset_ = new base::Path(make_dataset(suite_directory_->path()));
  }

  static std::string text(const std::string& more) {
    std::string file =
        with(run_file(*dataset_, kSteps), "size: 8", "size: " + std::to_string(kBatch));
    file = with(file, "keep_last: 3", "keep_last: 100");
    return file + more;
  }
  // The first seed with which a run goes back, also twice from one place, and ends.
  static std::uint64_t seed() {
    const data::Dataset dataset = data::Dataset::open(*dataset_);
    contract::DataConfig data;
    data.max_length = 48;
    for (std::uint64_t seed = 1; seed < kSeeds; ++seed) {
      const Course course =
          course_of(samples::SampleSource(dataset, data::Split::Training, data, seed));
      if (course.goes_back_twice && course.backs.size() >= 3 && course.backs.size() <= 6) {
        return seed;
      }
    }
    return 0;
  }
  static Course course(std::uint64_t seed) {
    const data::Dataset dataset = data::Dataset::open(*dataset_);
    contract::DataConfig data;
    data.max_length = 48;
    return course_of(samples::SampleSource(dataset, data::Split::Training, data, seed));
  }
  // A run directory whose checkpoint of step 0 has too large an embedding at this position.
  base::Path make_poisoned(const std::string& name, const std::string& file, int position) {
    const base::Path path = make_run(name, file);
    base::FileSystem& files = base::posix_file_system();
    const data::Dataset dataset = data::Dataset::open(*dataset_);
    contract::RunConfig config = contract::parse_run_config(file, name);
    const contract::RunDirectory run =
        contract::RunDirectory::create(files, path, contract::to_json(config));
    config.model.vocabulary = static_cast<int>(dataset.vocabulary().size());
    const contract::TensorTable table = contract::make_tensor_table(config.model);
    step::TrainingState state;
    state.parameters = model::initial_weights(table, config.seed);
    const auto size = static_cast<std::size_t>(table.arena_size);
    state.first_moment.assign(size, 0.0F);
    state.second_moment.assign(size, 0.0F);
    const contract::TensorEntry& positions = table.at("bert.embeddings.position_embeddings.weight");
    std::fill_n(state.parameters.begin() + positions.offset + position * config.model.hidden,
                config.model.hidden, 3e38F);
    run::CheckpointKeeper keeper({files, base::system_clock(), run, contract::Fence(run, 0), config,
                                  table, dataset.fingerprint(), "aaaa"});
    EXPECT_EQ(keeper.write(0, state.whole(table), std::nullopt).front().status, "written");
    return path;
  }
  static void expect_course(const base::Path& run, const Course& course, const std::string& first) {
    const auto told = records_of<contract::DivergenceRecord>(run);
    ASSERT_EQ(told.size(), course.backs.size());
    std::int64_t skipped = 0;
    for (std::size_t i = 0; i < told.size(); ++i) {
      EXPECT_EQ(told[i].action, "rollback");
      EXPECT_EQ(told[i].step, course.backs[i].from);
      EXPECT_EQ(told[i].checkpoint_step, course.backs[i].to);
      EXPECT_EQ(told[i].rollbacks, static_cast<int>(i) + 1);
      skipped += course.backs[i].from - course.backs[i].to;
      EXPECT_EQ(told[i].skipped_steps, skipped);
      EXPECT_EQ(told[i].quantity + " of " + told[i].tensor, first);
    }
    std::vector<std::int64_t> written;
    for (const contract::CheckpointRecord& record : records_of<contract::CheckpointRecord>(run)) {
      EXPECT_EQ(record.status, "written") << record.message;
      written.push_back(record.step);
    }
    EXPECT_EQ(written, course.written);
    const data::Dataset dataset = data::Dataset::open(*dataset_);
    const contract::RunConfig config =
        run::config_of(contract::RunDirectory::open(base::posix_file_system(), run), {});
    const samples::SampleSource source(dataset, data::Split::Training, config.data, config.seed);
    const auto steps = records_of<contract::StepRecord>(run);
    ASSERT_EQ(steps.size(), course.taken.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto [step, of] = course.taken[i];
      std::int64_t tokens = 0;
      for (std::int64_t k = 0; k < kBatch; ++k) tokens += source.length_at((of - 1) * kBatch + k);
      EXPECT_EQ(steps[i].step, step);
      EXPECT_EQ(steps[i].tokens, tokens) << "step " << step << " takes the samples of " << of;
    }
  }
};

const std::string kFirst = "output of bert.embeddings.LayerNorm.weight";

TEST_F(Diverging, GoesBackAndOnWithOtherSamplesWhateverInterruptsIt) {
  const std::uint64_t chosen = seed();
  ASSERT_NE(chosen, 0U) << "no seed diverges as wanted";
  const Course expected = course(chosen);
  const std::string rollback =
      "seed: " + std::to_string(chosen) + "\non_divergence: rollback\nmax_rollbacks: 20\n";
  const base::Path whole = make_poisoned("whole", text(rollback), kPosition);
  ASSERT_EQ(run_to_end(whole), 0) << log_of(whole);
  expect_course(whole, expected, kFirst);
  EXPECT_NE(log_of(whole).find("training diverged; went back to step-"), std::string::npos);

  std::mt19937 random(20);
  for (int round = 0; round < repetitions(30); ++round) {
    const base::Path run =
        make_poisoned("killed-" + std::to_string(round), text(rollback), kPosition);
    const int signal = round % 2 == 0 ? SIGTERM : SIGKILL;
    int code = -1;
    for (int attempt = 0; attempt < 4; ++attempt) {
      const pid_t process = start(run);
      const auto wanted = static_cast<std::int64_t>(random() % kSteps);
      (void)wait_for_step(run, process, wanted);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000U));
      ::kill(process, signal);
      code = finish(process);
      if (code == 0) break;
    }
    if (code != 0) {
      ASSERT_EQ(run_to_end(run), 0) << log_of(run);
    }
    EXPECT_TRUE(final_weights(run) == final_weights(whole)) << "round " << round;
  }
}

TEST_F(Diverging, AllRanksGoBackTogether) {
  const std::uint64_t chosen = seed();
  ASSERT_NE(chosen, 0U);
  const std::string rollback = "seed: " + std::to_string(chosen) +
                               "\non_divergence: rollback\nmax_rollbacks: 20\nranks: 2\n";
  for (const bool sharded : {false, true}) {
    const base::Path run =
        make_poisoned(sharded ? "sharded" : "two",
                      text(rollback + (sharded ? "sharding: {optimizer: true}\n" : "")), kPosition);
    ASSERT_EQ(run_to_end(run), 0) << log_of(run);
    expect_course(run, course(chosen), kFirst);
    EXPECT_EQ(records_of<contract::StartRecord>(run).size(), 1U) << "within one attempt";
  }
}

// Attempts that have the time of one step only: what one went back on is saved, and the next goes
// on from there.
TEST_F(Diverging, GoesOnWhereTheShortestOfAttemptsWentBack) {
  const std::uint64_t chosen = seed();
  ASSERT_NE(chosen, 0U);
  const std::string rollback =
      "seed: " + std::to_string(chosen) + "\non_divergence: rollback\nmax_rollbacks: 20\n";
  const base::Path whole = make_poisoned("all at once", text(rollback), kPosition);
  ASSERT_EQ(run_to_end(whole), 0) << log_of(whole);
  const base::Path run = make_poisoned("step by step", text(rollback), kPosition);
  const int continues = static_cast<int>(contract::ExitCode::Continue);
  for (int attempt = 0; attempt < 25; ++attempt) {
    ASSERT_EQ(run_to_end(run, {"--deadline-utc", "1"}), continues) << log_of(run);
  }
  EXPECT_GE(records_of<contract::DivergenceRecord>(run).size(), 1U) << "some of them went back";
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  EXPECT_TRUE(final_weights(run) == final_weights(whole));
  std::vector<int> rollbacks;
  for (const contract::DivergenceRecord& record : records_of<contract::DivergenceRecord>(run)) {
    rollbacks.push_back(record.rollbacks);
  }
  std::vector<int> expected(course(chosen).backs.size());
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(rollbacks, expected) << "none comes twice";
}

TEST_F(Diverging, StopsAfterAsManyRollbacksAsItMay) {
  const base::Path run =
      make_poisoned("often", text("on_divergence: rollback\nmax_rollbacks: 2\n"), 0);
  EXPECT_EQ(run_to_end(run), static_cast<int>(contract::ExitCode::User)) << log_of(run);
  const auto told = records_of<contract::DivergenceRecord>(run);
  ASSERT_EQ(told.size(), 3U);
  for (const contract::DivergenceRecord& record : told) {
    EXPECT_EQ(record.step, 1);
    EXPECT_EQ(record.checkpoint, "step-0000000000-aaaa");
    EXPECT_EQ(record.checkpoint_step, 0);
  }
  EXPECT_EQ(told[0].action, "rollback");
  EXPECT_EQ(told[2].action, "stop");
  EXPECT_EQ(told[2].rollbacks, 2);
  EXPECT_NE(told[2].message.find("after 2 rollbacks (max_rollbacks)"), std::string::npos)
      << told[2].message;
}

// Also at the first step, before which no step was told.
TEST_F(Diverging, TheEndNamesStepTensorAndCheckpoint) {
  const base::Path run = make_poisoned("stops", text(""), 0);
  EXPECT_EQ(run_to_end(run), static_cast<int>(contract::ExitCode::User)) << log_of(run);
  const contract::EndRecord end = records_of<contract::EndRecord>(run).back();
  EXPECT_EQ(end.reason, "diverged");
  EXPECT_EQ(end.step, 1);
  EXPECT_EQ(end.message,
            "the loss is not finite at step 1 (first: " + kFirst + ", in the embeddings" +
                "): training diverged; last good checkpoint: step-0000000000-aaaa; lower "
                "optimizer.learning_rate");
  EXPECT_NE(log_of(run).find("ended: diverged at step 1\n"), std::string::npos) << log_of(run);
}

// A run that has no checkpoint so far begins again, with the samples that come after.
TEST_F(Diverging, WithoutACheckpointItGoesBackToTheFirstWeights) {
  std::string file = with(text("on_divergence: rollback\nclip: {mode: none}\n"),
                          "learning_rate: 0.003", "learning_rate: 1000");
  file = with(file, "every: 7", "every: 1000");
  const base::Path run = make_run("early", file);
  EXPECT_EQ(run_to_end(run), static_cast<int>(contract::ExitCode::User)) << log_of(run);
  const auto told = records_of<contract::DivergenceRecord>(run);
  ASSERT_EQ(told.size(), 4U) << "three rollbacks by default, and the end";
  EXPECT_NE(told[0].message.find("went back to the first weights"), std::string::npos);
  const data::Dataset dataset = data::Dataset::open(*dataset_);
  const contract::RunConfig config =
      run::config_of(contract::RunDirectory::open(base::posix_file_system(), run), {});
  const samples::SampleSource source(dataset, data::Split::Training, config.data, config.seed);
  std::int64_t of = 0;
  std::size_t at = 0;
  const auto steps = records_of<contract::StepRecord>(run);
  for (const contract::DivergenceRecord& each : told) {
    EXPECT_EQ(each.checkpoint, "");
    for (std::int64_t step = 1; step < each.step; ++step, ++at) {
      ASSERT_LT(at, steps.size());
      std::int64_t tokens = 0;
      for (std::int64_t k = 0; k < kBatch; ++k) {
        tokens += source.length_at((of + step - 1) * kBatch + k);
      }
      EXPECT_EQ(steps[at].step, step);
      EXPECT_EQ(steps[at].tokens, tokens);
    }
    of += each.step;
  }
  EXPECT_EQ(told.back().checkpoint_step, -1);
  EXPECT_NE(told.back().message.find("there is no checkpoint before it"), std::string::npos);
}

}  // namespace
}  // namespace regatta::tests
