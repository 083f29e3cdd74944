// The same steps on several ranks as on one: run by mpirun, every rank runs every test.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/model/small_dataset.h"
#include "tests/trainer/mpi/ranks.h"
#include "trainer/buckets.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/initial_weights.h"
#include "trainer/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

class LoopOnRanks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TemporaryDirectory;  // each rank makes the same dataset for itself
    dataset_ = new Dataset(Dataset::open(make_small_dataset(directory_->path(), 120)));
  }
  static void TearDownTestSuite() {
    delete dataset_;
    delete directory_;
  }
  static RunConfig config() {
    RunConfig config = small_run_config(*dataset_);
    config.batch_size = 13;  // shares differ
    config.steps = 100;
    config.optimizer.learning_rate = 1e-3;
    return config;
  }
  struct Course {
    std::vector<double> losses;
    std::vector<float> parameters;
    EvalRecord evaluation;
  };
  static Course train(Communicator& communicator, const std::vector<topology::Bucket>& buckets,
                      const RunConfig& config, int steps) {
    const auto device = make_cpu_device(1);
    const SampleSource source(*dataset_, Split::Training, config.data, config.seed);
    topology::Plan plan;
    plan.ranks = communicator.ranks();
    plan.buckets = buckets;
    TrainLoop loop(*device, communicator, base::system_clock(), config, plan, source);
    TrainingState start;
    start.parameters = initial_weights(loop.model().table(), config.seed);
    loop.load(start);
    Course course;
    for (int step = 1; step <= steps; ++step) course.losses.push_back(loop.step(step).loss);
    course.evaluation = loop.evaluate(evaluation_samples(*dataset_, config.data, 50), steps);
    course.parameters = loop.save().parameters;
    return course;
  }
  static TemporaryDirectory* directory_;
  static Dataset* dataset_;
};
TemporaryDirectory* LoopOnRanks::directory_ = nullptr;
Dataset* LoopOnRanks::dataset_ = nullptr;

// Summation order is all that differs; how far that leads apart, two instruction sets on one rank
// would show: about 1e-6 of the loss in a hundred steps of so small a model, and ten times that is
// allowed.
TEST_F(LoopOnRanks, LossesOfAHundredStepsAreThoseOfOneRank) {
  const RunConfig c = config();
  const TensorTable table = make_tensor_table(c.model);
  SingleCommunicator alone;
  const Course one = train(alone, buckets_of_bytes(table, 0), c, 100);
  const Course many = train(ranks(), buckets_per_layer(table), c, 100);
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    ASSERT_NEAR(many.losses[i], one.losses[i], 1e-5 * one.losses[i]) << i;
  }
  EXPECT_EQ(many.evaluation.samples, one.evaluation.samples) << "every sample is scored once";
  EXPECT_NEAR(many.evaluation.mlm_loss, one.evaluation.mlm_loss, 1e-5 * one.evaluation.mlm_loss);
}

// Sums are in rank order whatever the bucket, so buckets change no bit, nor does when they begin.
TEST_F(LoopOnRanks, BucketsChangeNoBit) {
  RunConfig c = config();
  const TensorTable table = make_tensor_table(c.model);
  const Course whole = train(ranks(), buckets_of_bytes(table, 0), c, 8);
  EXPECT_EQ(train(ranks(), buckets_per_layer(table), c, 8).parameters, whole.parameters);
  EXPECT_EQ(train(ranks(), buckets_of_bytes(table, 1), c, 8).parameters, whole.parameters);
  EXPECT_EQ(train(ranks(), buckets_of_bytes(table, 10000), c, 8).losses, whole.losses);
}

TEST_F(LoopOnRanks, EveryRankHasTheSameWeights) {
  RunConfig c = config();
  c.micro_batch_size = 2;
  const Course mine = train(ranks(), buckets_per_layer(make_tensor_table(c.model)), c, 6);
  std::vector<float> first = mine.parameters;
  ranks().host().broadcast(first.data(), static_cast<std::int64_t>(4 * first.size()), 0);
  EXPECT_EQ(first, mine.parameters);
}

}  // namespace
}  // namespace regatta::tests
