// The model's loss and every gradient against the float64 reference.
#include "trainer/model/bert.h"

#include <gtest/gtest.h>

#include "tests/trainer/model/random_model.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/step/buckets.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

struct BertCase {
  const char* name;
  int hidden;
  int heads;
  contract::Gelu gelu;
  double dropout;
  std::vector<std::pair<int, int>> lengths;  // tokens, masked
  std::int64_t token_bucket = 1;
  float smoothing = 0;
};

class BertGradients : public testing::TestWithParam<BertCase> {};

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

TEST_P(BertGradients, MatchTheReference) {
  const BertCase& c = GetParam();
  const contract::ModelShape shape = small_shape(c.hidden, c.heads, c.gelu);
  std::mt19937 random(11);
  std::vector<samples::Sample> samples;
  std::vector<std::int32_t> ordinals;
  model::LossScale scale{0, 0};
  for (const auto& [length, masked] : c.lengths) {
    ordinals.push_back(static_cast<std::int32_t>(3 * samples.size() + 1));
    samples.push_back(random_sample(length, masked, shape, &random));
    scale.masked += masked;
    ++scale.samples;
  }
  const auto device = cpu::make_cpu_device(2);
  model::BertOptions options{{c.dropout, c.dropout, 99}, device::Dtype::Float32, {c.token_bucket}};
  options.label_smoothing = c.smoothing;
  model::Bert model(*device, shape, options);
  const std::vector<float> weights = random_weights(model.table(), 5);
  device->copy_to_device(0, model.parameters(), weights.data());
  const samples::PackedBatch batch = samples::collate(samples, ordinals);
  const std::int32_t step = 17;
  model.zero_gradients();
  model.reset_statistics();
  model.upload(batch, step, scale);
  model.forward(model::Mode::Training);
  model.backward();
  std::vector<float> gradients(weights.size());
  device->copy_to_host(0, gradients.data(), model.gradients());
  float sums[6];
  model.read_statistics(sums);
  device->synchronize();

  const ReferenceResult expected =
      reference_bert(shape, reference_weights(model.table(), weights), samples,
                     {ordinals.begin(), ordinals.end()}, {c.dropout, c.dropout, 99},
                     static_cast<std::uint32_t>(step), static_cast<double>(scale.masked),
                     static_cast<double>(scale.samples), static_cast<double>(c.smoothing));
  const model::Statistics statistics = model::Bert::statistics_of(sums);
  EXPECT_NEAR(statistics.mlm_loss, expected.mlm_loss, 1e-4 * expected.mlm_loss);
  EXPECT_NEAR(statistics.sample_loss, expected.nsp_loss, 1e-4 * expected.nsp_loss);
  EXPECT_EQ(statistics.masked, static_cast<double>(scale.masked));
  EXPECT_EQ(statistics.samples, static_cast<double>(scale.samples));
  for (const contract::TensorEntry& tensor : model.table().tensors) {
    const std::vector<double>& want = expected.gradients.at(tensor.name);
    std::vector<double> difference;
    for (std::size_t i = 0; i < want.size(); ++i) {
      difference.push_back(
          static_cast<double>(gradients[static_cast<std::size_t>(tensor.offset) + i]) - want[i]);
    }
    // A key's bias shifts all scores of a query alike, so its true gradient is zero: rounding only.
    const bool zero = tensor.name.find("self.key.bias") != std::string::npos;
    EXPECT_LE(norm(difference), zero ? 1e-5 : 2e-5 * norm(want) + 1e-9) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, BertGradients,
    testing::Values(
        BertCase{"plain", 64, 2, contract::Gelu::Erf, 0.0, {{12, 3}, {5, 1}, {31, 5}}},
        BertCase{"dropout", 64, 2, contract::Gelu::Erf, 0.2, {{12, 3}, {5, 1}, {31, 5}}},
        BertCase{"tanh", 64, 1, contract::Gelu::Tanh, 0.1, {{40, 6}}},
        BertCase{"odd_sizes", 24, 3, contract::Gelu::Erf, 0.1, {{1, 1}, {2, 1}, {40, 7}, {17, 2}}},
        BertCase{"tiny_heads", 8, 1, contract::Gelu::Tanh, 0.0, {{9, 2}, {9, 1}}},
        BertCase{"smoothed", 64, 2, contract::Gelu::Erf, 0.2, {{12, 3}, {5, 1}, {31, 5}}, 64, 0.1F},
        BertCase{"padded", 64, 2, contract::Gelu::Erf, 0.2, {{12, 3}, {5, 1}, {31, 5}}, 64},
        BertCase{"padded_nothing_masked", 24, 3, contract::Gelu::Tanh, 0.1, {{6, 0}}, 32},
        BertCase{"nothing_masked", 64, 2, contract::Gelu::Erf, 0.1, {{6, 0}, {8, 0}}}),
    [](const auto& tested) { return std::string(tested.param.name); });

// What the planner takes for the groups in which gradients get ready.
TEST(Bert, AnnouncesGradientsInTheGroupsOfTheTable) {
  const contract::ModelShape shape = small_shape(8, 1, contract::Gelu::Erf);
  std::mt19937 random(3);
  const auto device = cpu::make_cpu_device(1);
  model::Bert model(*device, shape, {});
  const std::vector<float> weights = random_weights(model.table(), 5);
  device->copy_to_device(0, model.parameters(), weights.data());
  model.zero_gradients();
  model.upload(samples::collate({random_sample(9, 2, shape, &random)}, {0}), 1, {2, 1});
  model.forward(model::Mode::Training);
  std::vector<int> announced, expected;
  model.backward([&](int tensors) { announced.push_back(tensors); });
  for (const topology::plan::Bucket& group : step::buckets_as_announced(model.table())) {
    expected.push_back(group.end_tensor);
  }
  EXPECT_EQ(announced, expected);
  EXPECT_EQ(std::ssize(expected), 2 + 4 * shape.layers);
}

// Masks follow the ordinal, so where a sample lies in the pack changes nothing but summation order.
TEST(Bert, PackingOrderDoesNotMatter) {
  const contract::ModelShape shape = small_shape(64, 2, contract::Gelu::Erf);
  std::mt19937 random(3);
  std::vector<samples::Sample> samples;
  for (const int length : {30, 7, 18, 2})
    samples.push_back(random_sample(length, 2, shape, &random));
  const auto gradients_of = [&](const std::vector<int>& order) {
    const auto device = cpu::make_cpu_device(1);
    model::Bert model(*device, shape, {{0.3, 0.3, 4}, device::Dtype::Float32, {}});
    const std::vector<float> weights = random_weights(model.table(), 5);
    device->copy_to_device(0, model.parameters(), weights.data());
    std::vector<samples::Sample> packed;
    std::vector<std::int32_t> ordinals;
    for (const int i : order) {
      packed.push_back(samples[static_cast<std::size_t>(i)]);
      ordinals.push_back(i);
    }
    const samples::PackedBatch batch = samples::collate(packed, ordinals);
    const std::int32_t step = 2;
    model.zero_gradients();
    model.reset_statistics();
    model.upload(batch, step, {8, 4});
    model.forward(model::Mode::Training);
    model.backward();
    std::vector<float> gradients(weights.size());
    device->copy_to_host(0, gradients.data(), model.gradients());
    device->synchronize();
    return gradients;
  };
  const std::vector<float> one = gradients_of({0, 1, 2, 3});
  const std::vector<float> other = gradients_of({2, 3, 0, 1});
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    difference += std::pow(static_cast<double>(one[i]) - static_cast<double>(other[i]), 2);
    size += std::pow(static_cast<double>(one[i]), 2);
  }
  EXPECT_LT(std::sqrt(difference), 2e-6 * std::sqrt(size));
}

// Whatever activations held before, padded rows included, changes no bit of loss or gradients.
TEST(Bert, StaleMemoryAndPaddingChangeNothing) {
  const contract::ModelShape shape = small_shape(64, 2, contract::Gelu::Tanh);
  std::mt19937 random(5);
  const samples::PackedBatch batch = samples::collate(
      {random_sample(21, 3, shape, &random), random_sample(9, 1, shape, &random)}, {4, 2});
  const auto results_with = [&](float stale) {
    const auto device = cpu::make_cpu_device(1);
    model::Bert model(*device, shape, {{0.2, 0.2, 4}, device::Dtype::Float32, {64, 0.15, 40}});
    const std::vector<float> weights = random_weights(model.table(), 5);
    device->copy_to_device(0, model.parameters(), weights.data());
    model.reserve(model::room_for(batch, {64, 0.15, 40}));
    const device::View memory = model.activation_memory();
    const std::vector<float> fill(static_cast<std::size_t>(memory.bytes() / 4), stale);
    device->copy_to_device(0, {memory.data, memory.bytes() / 4, device::Dtype::Float32},
                           fill.data());
    model.zero_gradients();
    model.reset_statistics();
    model.upload(batch, 3, {4, 2});
    model.forward(model::Mode::Training);
    model.backward();
    std::vector<float> results(weights.size() + 6);
    device->copy_to_host(0, results.data(), model.gradients());
    model.read_statistics(results.data() + weights.size());
    device->synchronize();
    return results;
  };
  const std::vector<float> clean = results_with(0);
  EXPECT_EQ(results_with(1e4F), clean);
  EXPECT_EQ(clean[clean.size() - 1], 2) << "padding is not counted as a sample";
}

}  // namespace
}  // namespace regatta::tests
