// The same steps on several ranks as on one: run by mpirun, every rank runs every test.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "tests/trainer/mpi/ranks.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/buckets.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

class LoopOnRanks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TemporaryDirectory;  // each rank makes the same dataset for itself
    dataset_ = new data::Dataset(data::Dataset::open(make_small_dataset(directory_->path(), 120)));
    long_directory_ = new TemporaryDirectory;
    long_dataset_ =
        new data::Dataset(data::Dataset::open(make_small_dataset(long_directory_->path(), 60, 40)));
  }
  static void TearDownTestSuite() {
    delete long_dataset_;
    delete long_directory_;
    delete dataset_;
    delete directory_;
  }
  static contract::RunConfig config() {
    contract::RunConfig config = small_run_config(*dataset_);
    config.batch_size = 13;  // shares differ
    config.steps = 100;
    config.optimizer.learning_rate = 1e-3;
    return config;
  }
  // Of the dataset with long documents, cut to all lengths.
  static contract::RunConfig long_config() {
    contract::RunConfig long_config = config();
    long_config.model.vocabulary = static_cast<int>(long_dataset_->vocabulary().size());
    long_config.model.max_positions = kLongest;
    long_config.data.max_length = kLongest;
    long_config.data.short_fraction = 0.8;
    return long_config;
  }
  static constexpr int kLongest = 320;
  static const data::Dataset& dataset_of(const contract::RunConfig& config) {
    return config.data.max_length == kLongest ? *long_dataset_ : *dataset_;
  }
  struct Course {
    std::vector<double> losses;
    std::vector<float> parameters;
    contract::EvalRecord evaluation;
  };
  // `turns`: buckets to change to, in turn, after each step.
  static Course train(ranks::Communicator& communicator,
                      const std::vector<topology::plan::Bucket>& buckets,
                      contract::RunConfig config, int steps,
                      const std::vector<std::vector<topology::plan::Bucket>>& turns = {}) {
    config.ranks = communicator.ranks();
    config.ranks_per_node = 1;
    const auto device = cpu::make_cpu_device(1);
    const data::Dataset& dataset = dataset_of(config);
    const samples::SampleSource source(dataset, data::Split::Training, config.data, config.seed);
    topology::plan::Plan plan;
    plan.ranks = communicator.ranks();
    plan.buckets = buckets;
    step::TrainLoop loop(*device, communicator, base::system_clock(), config, plan,
                         samples::stream_of(source));
    step::TrainingState start;
    start.parameters = model::initial_weights(loop.model().table(), config.seed);
    loop.load(start);
    Course course;
    for (int step = 1; step <= steps; ++step) {
      course.losses.push_back(loop.step(step).loss);
      if (!turns.empty()) loop.cut(turns[static_cast<std::size_t>(step) % turns.size()]);
    }
    course.evaluation = loop.evaluate(samples::evaluation_samples(dataset, config.data, 50), steps);
    course.parameters.resize(static_cast<std::size_t>(loop.model().table().arena_size));
    device->copy_to_host(0, course.parameters.data(), loop.model().parameters());
    device->synchronize();
    return course;
  }
  static inline TemporaryDirectory *directory_ = nullptr, *long_directory_ = nullptr;
  static inline data::Dataset *dataset_ = nullptr, *long_dataset_ = nullptr;
};

// Summation order is all that differs; how far that leads apart, two instruction sets on one rank
// would show: about 1e-6 of the loss in a hundred steps of so small a model, and ten times that is
// allowed.
TEST_F(LoopOnRanks, LossesOfAHundredStepsAreThoseOfOneRank) {
  const contract::RunConfig c = config();
  const contract::TensorTable table = contract::make_tensor_table(c.model);
  ranks::SingleCommunicator alone;
  const Course one = train(alone, step::buckets_of_bytes(table, 0), c, 100);
  const Course many = train(ranks(), step::buckets_per_layer(table), c, 100);
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    ASSERT_NEAR(many.losses[i], one.losses[i], 1e-5 * one.losses[i]) << i;
  }
  EXPECT_EQ(many.evaluation.samples, one.evaluation.samples) << "every sample is scored once";
  EXPECT_NEAR(many.evaluation.mlm_loss, one.evaluation.mlm_loss, 1e-5 * one.evaluation.mlm_loss);
}

// Sums are in rank order whatever the bucket, so buckets change no bit, nor does when they begin.
TEST_F(LoopOnRanks, BucketsChangeNoBit) {
  contract::RunConfig c = config();
  const contract::TensorTable table = contract::make_tensor_table(c.model);
  const Course whole = train(ranks(), step::buckets_of_bytes(table, 0), c, 8);
  EXPECT_EQ(train(ranks(), step::buckets_per_layer(table), c, 8).parameters, whole.parameters);
  EXPECT_EQ(train(ranks(), step::buckets_of_bytes(table, 1), c, 8).parameters, whole.parameters);
  EXPECT_EQ(train(ranks(), step::buckets_of_bytes(table, 10000), c, 8).losses, whole.losses);
}

TEST_F(LoopOnRanks, NorDoBucketsThatChangeBetweenSteps) {
  const contract::RunConfig c = config();
  const contract::TensorTable table = contract::make_tensor_table(c.model);
  const Course whole = train(ranks(), step::buckets_of_bytes(table, 0), c, 8);
  const std::vector<std::vector<topology::plan::Bucket>> turns{step::buckets_of_bytes(table, 0),
                                                               step::buckets_per_layer(table),
                                                               step::buckets_of_bytes(table, 1)};
  const Course changing = train(ranks(), step::buckets_of_bytes(table, 10000), c, 8, turns);
  EXPECT_EQ(changing.parameters, whole.parameters);
  EXPECT_EQ(changing.losses, whole.losses);
}

TEST_F(LoopOnRanks, EveryRankHasTheSameWeights) {
  contract::RunConfig c = config();
  c.micro_batch_size = 2;
  for (const bool sharded : {false, true}) {
    c.sharding.optimizer = sharded;
    const Course mine =
        train(ranks(), step::buckets_per_layer(contract::make_tensor_table(c.model)), c, 6);
    std::vector<float> first = mine.parameters;
    ranks().host().broadcast(first.data(), static_cast<std::int64_t>(4 * first.size()), 0);
    EXPECT_EQ(first, mine.parameters) << "sharded: " << sharded;
  }
}

// Full counts at REGATTA_REPETITIONS=100.
bool full_repetitions() {
  const char* const percent = std::getenv("REGATTA_REPETITIONS");
  return percent != nullptr && std::atoi(percent) >= 100;
}

struct Named {
  std::string name;
  contract::RunConfig config;
};

// Every way of balancing with every cut into buckets with every way of holding the state, for a
// hundred steps: what keeps the step's samples keeps the losses. `stratified` has samples of its
// own, so its combinations are compared with each other; it needs lengths of several classes.
std::vector<Named> balances(const contract::RunConfig& base, const contract::RunConfig& of_long) {
  std::vector<Named> named;
  const auto add = [&](const char* name, contract::Balance strategy, contract::Deal deal,
                       contract::ExchangeWay exchange) {
    contract::RunConfig config = strategy == contract::Balance::Stratified ? of_long : base;
    config.balance = {strategy, deal, exchange};
    named.push_back({name, config});
  };
  add("none", contract::Balance::None, contract::Deal::LongestFirst, contract::ExchangeWay::Reread);
  add("global snake", contract::Balance::GlobalPresort, contract::Deal::Snake,
      contract::ExchangeWay::Reread);
  add("global longest-first", contract::Balance::GlobalPresort, contract::Deal::LongestFirst,
      contract::ExchangeWay::Reread);
  add("exchange, reread", contract::Balance::Exchange, contract::Deal::LongestFirst,
      contract::ExchangeWay::Reread);
  add("exchange, moved", contract::Balance::Exchange, contract::Deal::LongestFirst,
      contract::ExchangeWay::Move);
  add("packed", contract::Balance::Packed, contract::Deal::LongestFirst,
      contract::ExchangeWay::Reread);
  add("stratified", contract::Balance::Stratified, contract::Deal::LongestFirst,
      contract::ExchangeWay::Reread);
  add("stratified snake", contract::Balance::Stratified, contract::Deal::Snake,
      contract::ExchangeWay::Reread);
  return named;
}

std::vector<Named> states(const contract::RunConfig& base) {
  std::vector<Named> named;
  for (const auto& [name, sharding] :
       {std::pair{"whole", contract::ShardingConfig{false, true}},
        std::pair{"sharded", contract::ShardingConfig{true, false}},
        std::pair{"sharded, gathered in forward", contract::ShardingConfig{true, true}}}) {
    contract::RunConfig config = base;
    config.sharding = sharding;
    named.push_back({name, config});
  }
  return named;
}

class Combinations : public LoopOnRanks {
 protected:
  static void expect_near(const Course& course, const Course& reference, const std::string& what) {
    ASSERT_EQ(course.losses.size(), reference.losses.size()) << what;
    for (std::size_t i = 0; i < course.losses.size(); ++i) {
      ASSERT_NEAR(course.losses[i], reference.losses[i], 1e-5 * reference.losses[i])
          << what << ", step " << i + 1;
    }
  }
  static void expect_different(const Course& course, const Course& reference) {
    std::size_t different = 0;
    for (std::size_t i = 0; i < course.losses.size(); ++i) {
      const double apart = std::abs(course.losses[i] - reference.losses[i]);
      different += apart > 1e-5 * reference.losses[i] ? 1U : 0U;
    }
    EXPECT_EQ(different, course.losses.size())
        << "strata without effect: the samples of these steps are those of any other way";
  }
  // All combinations with an optimizer, each against one rank or, for `stratified`, the first.
  static void compare_all(contract::OptimizerKind kind, int steps) {
    contract::RunConfig base = config(), of_long = long_config();
    base.optimizer.kind = of_long.optimizer.kind = kind;
    ranks::SingleCommunicator alone;
    const auto one_bucket = [](const contract::RunConfig& c) {
      return step::buckets_of_bytes(contract::make_tensor_table(c.model), 0);
    };
    const Course one = train(alone, one_bucket(base), base, steps);
    std::optional<Course> stratified;
    for (const Named& balance : balances(base, of_long)) {
      const contract::TensorTable table = contract::make_tensor_table(balance.config.model);
      const std::pair<const char*, std::vector<topology::plan::Bucket>> cuts[] = {
          {"one bucket", one_bucket(balance.config)},
          {"a bucket a layer", step::buckets_per_layer(table)},
          {"buckets of 10 kB", step::buckets_of_bytes(table, 10000)}};
      for (const auto& [cut, buckets] : cuts) {
        for (const Named& state : states(balance.config)) {
          const std::string what = balance.name + ", " + cut + ", " + state.name;
          const Course course = train(ranks(), buckets, state.config, steps);
          if (balance.config.balance.strategy != contract::Balance::Stratified) {
            expect_near(course, one, what);
          } else {
            if (!stratified) stratified = course;
            expect_near(course, *stratified, what);
          }
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
    expect_different(*stratified, train(alone, one_bucket(of_long), of_long, steps));
  }
};

// Whether classes are of 128 tokens or of as many as the data has, these lengths are in several.
TEST_F(Combinations, OfStratifiedHaveLengthsToStratify) {
  const contract::RunConfig c = long_config();
  const samples::SampleSource source(*long_dataset_, data::Split::Training, c.data, c.seed);
  const std::int64_t samples = std::int64_t{contract::kWindowSteps} * c.batch_size;
  std::int64_t counts[3] = {};
  for (std::int64_t number = 0; number < samples; ++number) {
    ++counts[(source.length_at(number) - 1) / 128];
  }
  for (const std::int64_t count : counts) EXPECT_GT(count, samples / 20);
}

TEST_F(Combinations, OfAdamWHaveTheLossesOfOneRank) {
  compare_all(contract::OptimizerKind::AdamW, full_repetitions() ? 100 : 10);
}

TEST_F(Combinations, OfLambHaveTheLossesOfOneRank) {
  compare_all(contract::OptimizerKind::Lamb, full_repetitions() ? 100 : 10);
}

}  // namespace
}  // namespace regatta::tests
