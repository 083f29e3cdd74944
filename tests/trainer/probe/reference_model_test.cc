// The program's float64 model beside the tests' own: two programs that share nothing but the
// documented order of random draws.
#include "trainer/probe/reference_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/trainer/model/random_model.h"
#include "tests/trainer/model/reference_bert.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Gelu;
using contract::Task;

constexpr std::uint32_t kStep = 7;
constexpr double kRounding = 1e-11;  // of float64, through a small model

std::map<std::string, std::vector<double>> weights_by_name(const contract::TensorTable& table,
                                                           const std::vector<float>& arena) {
  std::map<std::string, std::vector<double>> weights;
  for (const contract::TensorEntry& entry : table.tensors) {
    weights[entry.name].assign(arena.begin() + entry.offset,
                               arena.begin() + entry.offset + entry.size);
  }
  return weights;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected,
                 double beside, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double squares = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    squares += (found[i] - expected[i]) * (found[i] - expected[i]);
  }
  EXPECT_LT(std::sqrt(squares), kRounding * beside) << what;
}

double norm_of(const std::map<std::string, std::vector<double>>& gradients) {
  double squares = 0;
  for (const auto& [name, values] : gradients) {
    for (const double value : values) squares += value * value;
  }
  return std::sqrt(squares);
}

struct Problem {
  contract::ModelShape shape;
  std::vector<probe::ReplayedSample> samples;
  std::vector<samples::Sample> plain;
  std::vector<int> ordinals;
  double masked = 0;
};

// Samples of several lengths, in places that are not their order; one without masked positions.
Problem problem_of(Task task, Gelu gelu) {
  Problem problem;
  problem.shape = small_shape(24, 3, gelu);
  problem.shape.task = task;
  if (task == Task::Classification) problem.shape.labels = 3;
  std::mt19937 random(5);
  const struct {
    int length, masked, ordinal;
  } kSamples[] = {{9, 2, 3}, {17, 3, 0}, {5, 0, 12}, {12, 4, 7}};
  for (const auto& each : kSamples) {
    const int masked = task == Task::Pretraining ? each.masked : 0;
    samples::Sample sample = random_sample(each.length, masked, problem.shape, &random);
    sample.answer_begin = static_cast<std::int32_t>(random() % static_cast<unsigned>(each.length));
    sample.answer_end = static_cast<std::int32_t>(random() % static_cast<unsigned>(each.length));
    sample.value = static_cast<float>(random() % 100U) / 50.0F;
    if (task != Task::Pretraining && each.ordinal == 0) {  // not known
      sample.sample_label = sample.answer_begin = sample.answer_end = -1;
      sample.value = std::nanf("");
    }
    problem.masked += masked;
    problem.plain.push_back(sample);
    problem.ordinals.push_back(each.ordinal);
    problem.samples.push_back({"", each.ordinal, std::move(sample)});
  }
  return problem;
}

class ReferenceModel : public testing::TestWithParam<std::tuple<Task, Gelu, double>> {};

TEST_P(ReferenceModel, HasLossAndGradientsOfTheTape) {
  const auto& [task, gelu, dropout] = GetParam();
  const Problem problem = problem_of(task, gelu);
  const contract::TensorTable table = contract::make_tensor_table(problem.shape);
  const std::vector<float> arena = random_weights(table, 3);
  const double smoothing = task == Task::Regression ? 0 : 0.1;
  probe::ReferenceOptions options;
  options.shape = problem.shape;
  options.dropout = dropout;
  options.attention_dropout = dropout / 2;
  options.seed = 0x123456789ABCDEFULL;
  options.step = kStep;
  options.masked = problem.masked;
  options.samples = static_cast<double>(problem.samples.size());
  options.label_smoothing = smoothing;
  probe::ReferenceModel model(options, weights_by_name(table, arena));
  for (const probe::ReplayedSample& sample : problem.samples) model.train(sample);

  const ReferenceDropout masks{dropout, dropout / 2, options.seed};
  const ReferenceWeights weights = reference_weights(table, arena);
  double loss = 0;
  std::map<std::string, std::vector<double>> gradients;
  if (task == Task::Pretraining) {
    ReferenceResult result =
        reference_bert(problem.shape, weights, problem.plain, problem.ordinals, masks, kStep,
                       options.masked, options.samples, smoothing);
    loss = result.loss;
    gradients = std::move(result.gradients);
  } else {
    ReferenceTaskResult result =
        reference_task(problem.shape, weights, problem.plain, problem.ordinals, masks, kStep,
                       smoothing, options.samples);
    loss = result.loss / options.samples;
    gradients = std::move(result.gradients);
  }
  EXPECT_NEAR(model.loss(), loss, kRounding * loss);
  const double all = norm_of(gradients);
  ASSERT_GT(all, 0.01);
  for (const contract::TensorEntry& entry : table.tensors) {
    expect_near(model.gradient(entry.name), gradients.at(entry.name), all, entry.name);
  }
}

INSTANTIATE_TEST_SUITE_P(Tasks, ReferenceModel,
                         testing::Combine(testing::Values(Task::Pretraining, Task::Classification,
                                                          Task::Regression,
                                                          Task::QuestionAnswering),
                                          testing::Values(Gelu::Erf, Gelu::Tanh),
                                          testing::Values(0.0, 0.2)));

}  // namespace
}  // namespace regatta::tests
