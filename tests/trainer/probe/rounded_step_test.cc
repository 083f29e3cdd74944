// Steps in the types of GPUs, on a device that rounds as they do, beside the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "base/clock.h"
#include "tests/trainer/device/rounding_device.h"
#include "tests/trainer/model/random_model.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/probe/numerics.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Precision;

// A step on a device that rounds. factor: of the loss, as float16's runs have it.
probe::NumericsReport report_of(
    Precision precision, double factor,
    const std::function<void(const contract::TensorTable&, std::vector<float>*)>& change) {
  contract::RunConfig config;
  config.model = small_shape(32, 2, contract::Gelu::Erf);
  config.dtype = precision;
  config.device = contract::DeviceKind::Cuda;
  config.dropout = 0.1;
  config.attention_dropout = 0.1;
  const auto device = make_rounding_device(cpu::make_cpu_device(1), precision == Precision::Tf32);
  model::Bert model(*device, config.model, step::bert_options(config, 1));
  std::vector<float> weights = random_weights(model.table(), 2);
  change(model.table(), &weights);
  device->copy_to_device(model::kCompute, model.parameters(), weights.data());
  model.renew_compute_copy();
  device->synchronize();
  std::mt19937 random(1);
  std::vector<probe::ReplayedSample> samples;
  for (int i = 0; i < 6; ++i) {
    samples.push_back({"", i, random_sample(12 + i, 3, config.model, &random)});
  }
  const samples::StepPlace place{1, 6, 0};
  const samples::StepBatches none;
  const model::LossScale scale{1, 1, factor};
  return probe::compare_step(*device, base::system_clock(), config, {1, place, none, scale, model},
                             samples, 512);
}

struct Errors {
  double activation = 0, gradient = 0;  // the largest
  std::string text;
  bool far_off = false;
};

Errors errors_of(Precision precision, double factor) {
  const probe::NumericsReport report = report_of(precision, factor, [](const auto&, auto*) {});
  Errors errors;
  for (const auto& each : report.activations) {
    errors.activation = std::max(errors.activation, each.error);
  }
  for (const auto& each : report.gradients) {
    errors.gradient = std::max(errors.gradient, each.error);
  }
  errors.text = probe::to_text(report, true);
  errors.far_off = !probe::far_off(report).empty();
  return errors;
}

// Unit roundoffs are 2⁻²⁴, 2⁻¹¹, 2⁻¹¹ and 2⁻⁸: errors follow them, and none is far off.
TEST(RoundedStep, ErrorsFollowTheUnitRoundoff) {
  const Errors single = errors_of(Precision::Float32, 1);
  const Errors tensor = errors_of(Precision::Tf32, 1);
  const Errors half = errors_of(Precision::Float16, 1024);
  const Errors brain = errors_of(Precision::BFloat16, 1);
  for (const Errors* each : {&single, &tensor, &half, &brain}) {
    EXPECT_FALSE(each->far_off) << each->text;
  }
  EXPECT_LT(single.activation, 1e-5);
  EXPECT_GT(half.activation, 100 * single.activation);
  EXPECT_GT(half.gradient, 100 * single.gradient);
  EXPECT_GT(tensor.gradient, 50 * single.gradient);
  EXPECT_GT(brain.activation, 4 * half.activation);
  EXPECT_LT(brain.activation, 16 * half.activation);
  EXPECT_GT(brain.gradient, 3 * half.gradient);
  EXPECT_LT(brain.gradient, 0.3);
}

// Embeddings of types and positions that cancel out but for what bfloat16 rounds away of each: the
// sum of three is off by its own rounding only, not by theirs.
TEST(RoundedStep, TheReferenceHasTheRoundedWeights) {
  const auto fill = [](const contract::TensorTable& table, std::vector<float>* weights,
                       const std::string& name, float value) {
    const contract::TensorEntry& entry = table.at("bert.embeddings." + name + "_embeddings.weight");
    std::fill_n(weights->begin() + entry.offset, entry.size, value);
  };
  const probe::NumericsReport report = report_of(
      Precision::BFloat16, 1, [&](const contract::TensorTable& table, std::vector<float>* weights) {
        fill(table, weights, "token_type", 8.027F);
        fill(table, weights, "position", -8.035F);
      });
  ASSERT_EQ(report.activations.front().name, "input of bert.embeddings.LayerNorm.weight");
  EXPECT_LE(report.activations.front().error, 0x1p-8);
  EXPECT_GT(report.activations.front().error, 0x1p-12);
}

}  // namespace
}  // namespace regatta::tests
