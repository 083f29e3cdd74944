// The decoder's product runs over more rows than there are pieces (vocabulary_rows). What lies
// there stays zero, and whatever lay there would change nothing.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.h"
#include "tests/trainer/samples/small_dataset.h"
#include "topology/plan/plan.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

constexpr int kSteps = 6;
constexpr float kPoison = 1000;

class PaddedVocabulary : public OnSmallDataset<60>,
                         public testing::WithParamInterface<contract::OptimizerKind> {
 protected:
  static contract::RunConfig config() {
    contract::RunConfig config = small_run_config(*dataset_);
    config.model.vocabulary = (config.model.vocabulary + 63) / 64 * 64 + 5;  // 59 rows are padding
    config.batch_size = 8;
    config.steps = 50;
    config.optimizer.kind = GetParam();
    config.optimizer.learning_rate = 5e-3;
    return config;
  }
  // The elements of the arena that belong to no tensor: padding of the vocabulary, and of sizes.
  static std::vector<bool> gaps(const contract::TensorTable& table) {
    std::vector<bool> gap(static_cast<std::size_t>(table.arena_size), true);
    for (const contract::TensorEntry& entry : table.tensors) {
      std::fill_n(gap.begin() + entry.offset, entry.size, false);
    }
    return gap;
  }

  struct Outcome {
    std::vector<float> parameters, gradients;  // arenas
    std::vector<double> losses;                // of each step
    double evaluated = 0;
  };
  // After some steps with `filling` in all gaps.
  static Outcome train(float filling) {
    const contract::RunConfig c = config();
    const auto device = cpu::make_cpu_device(1);
    const samples::SampleSource source(*dataset_, data::Split::Training, c.data, c.seed);
    ranks::SingleCommunicator communicator;
    const contract::TensorTable table = contract::make_tensor_table(c.model);
    step::TrainLoop loop(*device, communicator, base::system_clock(), c,
                         topology::plan::default_plan(static_cast<int>(table.tensors.size())),
                         samples::stream_of(source));
    step::TrainingState start;
    start.parameters = model::initial_weights(table, c.seed);
    loop.load(start);
    const std::vector<bool> gap = gaps(table);
    for (std::size_t i = 0; i < gap.size(); ++i) {
      if (gap[i]) start.parameters[i] = filling;
    }
    device->copy_to_device(0, loop.model().parameters(), start.parameters.data());
    device->synchronize();
    Outcome outcome;
    for (std::int64_t step = 1; step <= kSteps; ++step) {
      outcome.losses.push_back(loop.step(step).loss);
    }
    outcome.evaluated =
        loop.evaluate(samples::evaluation_samples(*dataset_, c.data, 20), kSteps).mlm_loss;
    for (const auto& [view, to] : {std::pair(loop.model().parameters(), &outcome.parameters),
                                   {loop.model().gradients(), &outcome.gradients}}) {
      to->resize(static_cast<std::size_t>(view.size));
      device->copy_to_host(0, to->data(), view);
    }
    device->synchronize();
    return outcome;
  }
};

TEST_P(PaddedVocabulary, StaysZeroAndGetsNoGradient) {
  const contract::TensorTable table = contract::make_tensor_table(config().model);
  const std::vector<bool> gap = gaps(table);
  const contract::TensorEntry& words = table.at("bert.embeddings.word_embeddings.weight");
  ASSERT_EQ(words.size,
            static_cast<std::int64_t>(config().model.vocabulary) * config().model.hidden);
  for (std::int64_t i = 0; i < std::int64_t{59} * config().model.hidden; ++i) {
    ASSERT_TRUE(gap[static_cast<std::size_t>(words.offset + words.size + i)]) << "in no tensor";
  }
  const Outcome outcome = train(0);
  for (std::size_t i = 0; i < gap.size(); ++i) {
    if (!gap[i]) continue;
    ASSERT_EQ(outcome.parameters[i], 0) << i;
    ASSERT_EQ(outcome.gradients[i], 0) << i;
  }
  EXPECT_LT(outcome.losses.back(), outcome.losses.front()) << "the rest did learn";
}

TEST_P(PaddedVocabulary, IsMaskedAndNeverUpdated) {
  const Outcome clean = train(0);
  const Outcome poisoned = train(kPoison);
  EXPECT_EQ(poisoned.losses, clean.losses);
  EXPECT_EQ(poisoned.evaluated, clean.evaluated);
  const std::vector<bool> gap = gaps(contract::make_tensor_table(config().model));
  for (std::size_t i = 0; i < gap.size(); ++i) {
    ASSERT_EQ(poisoned.parameters[i], gap[i] ? kPoison : clean.parameters[i]) << i;
    ASSERT_EQ(poisoned.gradients[i], clean.gradients[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, PaddedVocabulary,
                         testing::Values(contract::OptimizerKind::AdamW,
                                         contract::OptimizerKind::Lamb),
                         [](const auto& tested) {
                           return tested.param == contract::OptimizerKind::Lamb ? "lamb" : "adamw";
                         });

}  // namespace
}  // namespace regatta::tests
