#include "trainer/probe/numerics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/clock.h"
#include "tests/trainer/model/random_model.h"
#include "tests/trainer/probe/probed_run.h"
#include "trainer/probe/usual_error.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

class Numerics : public ProbedRun {
 protected:
  static probe::NumericsReport compare(const contract::RunDirectory& run, std::int64_t step,
                                       std::int64_t tokens = 512) {
    return probe::compare_with_reference(disk(), base::system_clock(),
                                         {options_of(run, step), tokens});
  }
  // A step with weights far from the first ones, where each part of the model matters, beside a
  // reference of another run file.
  static std::vector<probe::TensorError> found_beside(
      const contract::RunDirectory& run,
      const std::function<void(contract::RunConfig*)>& reference) {
    probe::Replay replay(disk(), base::system_clock(), options_of(run, 4));
    contract::RunConfig config = replay.config_here();
    reference(&config);
    probe::NumericsReport report;
    step::StepObserver observer;
    observer.before_forward = [&](const step::StepSeen& seen) {
      const std::vector<float> weights = random_weights(seen.model.table(), 1);
      replay.device().copy_to_device(model::kCompute, seen.model.parameters(), weights.data());
      replay.device().synchronize();
      report = probe::compare_step(replay.device(), base::system_clock(), config, seen,
                                   replay.samples_of(seen), 512);
    };
    (void)replay.run(observer);
    return probe::far_off(report);
  }
};

TEST_F(Numerics, RoundingIsWithinWhatIsUsual) {
  const contract::RunDirectory run = train(config_of(6));
  for (const std::int64_t step : {1, 5}) {
    const probe::NumericsReport report = compare(run, step);
    EXPECT_TRUE(probe::far_off(report).empty()) << probe::to_text(report, true);
    EXPECT_EQ(report.samples, 8);
    EXPECT_EQ(report.of_samples, 8);
    EXPECT_EQ(report.dtype, "float32");
    // All samples of the step: it is the loss that the run had.
    EXPECT_NEAR(report.loss, steps_of(run).at(step).loss, 1e-6 * report.loss);
    EXPECT_NEAR(report.reference_loss, report.loss, 1e-5 * report.loss);
    const contract::TensorTable table = contract::make_tensor_table(config_of(6).model);
    EXPECT_EQ(report.gradients.size(), table.tensors.size());
    EXPECT_EQ(report.activations.size(), 2U + 2U * 10U + 5U);
    double most = 0;
    for (const auto& each : report.activations) {
      EXPECT_GT(each.error, 0) << each.name << ": float32 rounds";
      most = std::max(most, each.error);
    }
    EXPECT_LT(most, 1e-5);
  }
}

TEST_F(Numerics, TakesTheFirstSamplesOfALargerStep) {
  const contract::RunDirectory run = train(config_of(3));
  const probe::NumericsReport all = compare(run, 2), one = compare(run, 2, 1);
  EXPECT_EQ(one.samples, 1) << "at least one";
  EXPECT_LT(one.tokens, all.tokens);
  const probe::NumericsReport half = compare(run, 2, all.tokens / 2);
  EXPECT_LE(half.tokens, all.tokens / 2);
  EXPECT_GT(half.samples, 1);
  EXPECT_LT(half.samples, 8);
  EXPECT_TRUE(probe::far_off(half).empty()) << probe::to_text(half, false);
}

// Each as if the model's kernels did something else than the run file says.
TEST_F(Numerics, WhatIsNotRoundingIsFoundWhereItBegins) {
  const contract::RunDirectory run = train(config_of(6));
  const std::string layer = "bert.encoder.layer.0.";
  for (const probe::TensorError& each : found_beside(run, [](auto*) {})) {
    ADD_FAILURE() << each.name << ": " << each.error << ", usual " << each.usual;
  }
  const struct {
    std::string first;
    std::function<void(contract::RunConfig*)> change;
  } kCases[] = {
      {"input of " + layer + "output.dense.weight",
       [](auto* config) { config->model.gelu = contract::Gelu::Tanh; }},
      {"output of bert.embeddings.LayerNorm.weight",
       [](auto* config) { config->model.layer_norm_epsilon = 1e-2F; }},
      {"output of bert.embeddings.LayerNorm.weight", [](auto* config) { config->seed = 99; }},
      {"input of " + layer + "attention.output.dense.weight",
       [](auto* config) { config->attention_dropout = 0.11; }},
      {"gradient of the output of bert.embeddings.word_embeddings.weight",
       [](auto* config) { config->fine_tuning.label_smoothing = 0.01; }},
  };
  for (const auto& each : kCases) {
    std::string first = "nothing";
    for (const probe::TensorError& error : found_beside(run, each.change)) {
      if (error.name == "loss") continue;
      first = error.name;
      break;
    }
    if (each.first.rfind("gradient", 0) == 0) {
      EXPECT_EQ(first.rfind("gradient", 0), 0U) << first << ": of logits, the first of them";
    } else {
      EXPECT_EQ(first, each.first);
    }
  }
}

TEST_F(Numerics, ReportsAreOneLinePerLayer) {
  const contract::RunDirectory run = train(config_of(2));
  const probe::NumericsReport report = compare(run, 1);
  const std::string text = probe::to_text(report, false), all = probe::to_text(report, true);
  for (const char* const line : {"\nembeddings ", "\nlayer 0 ", "\nlayer 1 ", "\nhead "}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_NE(text.find("Nothing is more than 10 times what is usual."), std::string::npos) << text;
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'),
            std::ssize(report.activations) + std::ssize(report.gradients) + 4);
  for (const probe::TensorError& each : report.gradients) {
    EXPECT_NE(all.find("gradient of " + each.name + "\n"), std::string::npos) << each.name;
  }
}

TEST_F(Numerics, TheNextStepIsBehindTheNewestCheckpoint) {
  const contract::RunDirectory run = train(config_of(4));
  EXPECT_EQ(probe::next_step(disk(), run.path()), std::nullopt) << "it has taken all";
  disk().remove_tree(checkpoint_of(run, 4));
  EXPECT_EQ(probe::next_step(disk(), run.path()), 4);
  disk().remove_tree(checkpoint_of(run, 3));
  EXPECT_EQ(probe::next_step(disk(), run.path()), 1);
}

TEST(UsualError, GrowsWithDepthAndWithTheRoundoff) {
  contract::ModelShape shape = contract::preset_shape("tiny");
  shape.vocabulary = 100;
  using contract::Precision;
  const probe::UsualError single(shape, Precision::Float32, 100, 4);
  const probe::UsualError half(shape, Precision::Float16, 100, 4);
  const probe::UsualError brain(shape, Precision::BFloat16, 100, 4);
  for (int layer = -1; layer <= shape.layers; ++layer) {
    EXPECT_GT(single.forward(layer), layer < 0 ? 0 : single.forward(layer - 1));
    EXPECT_GT(single.backward(layer), single.forward(shape.layers));
    if (layer >= 0) {
      EXPECT_LT(single.backward(layer), single.backward(layer - 1));
    }
    // Stores alone count where they are so much coarser: in proportion to the unit roundoff.
    EXPECT_NEAR(brain.forward(layer) / half.forward(layer), 8, 0.01);
  }
  // Two stores of 2⁻¹¹ and 3 + 128 additions of 2⁻²⁴, by hand.
  EXPECT_DOUBLE_EQ(half.forward(-1), std::sqrt(2 * 0x1p-22 + 131 * 0x1p-48));
}

TEST(NumericsReport, WhatIsNoNumberIsFarOff) {
  EXPECT_TRUE(probe::is_far_off(std::nan(""), 1));
  EXPECT_TRUE(probe::is_far_off(HUGE_VAL, 1));
  EXPECT_TRUE(probe::is_far_off(11, 1));
  EXPECT_FALSE(probe::is_far_off(9, 1));
  EXPECT_FALSE(probe::is_far_off(0, 0));
}

}  // namespace
}  // namespace regatta::tests
