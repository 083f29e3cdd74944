// Tensors that learn at a multiple of the step's rate, or not at all.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

using trainer::device::OptimizerTensor;
using trainer::device::OptimizerUpdate;
using trainer::device::UpdatePart;
using trainer::device::View;

constexpr std::int64_t kArena = 40064;
// Factors of every kind, flags of every kind; the largest is more than one thread takes at a time.
const std::vector<OptimizerTensor> kLayers = {
    {0, 3, true, true, 0.25F, 0},   {64, 7, false, false, 0, 1},
    {128, 129, true, false, 1, 2},  {320, 512, false, true, 3, 3},
    {896, 18003, true, true, 0, 4}, {18944, 21001, true, true, 0.9F, 5},
};

struct LayerArrays {
  std::vector<float> weights, gradients, first, second, scalars;

  explicit LayerArrays(unsigned seed) : scalars(trainer::device::kStepScalars) {
    Numbers numbers(seed);
    weights = numbers.floats(kArena);
    gradients = numbers.floats(kArena);
    first = numbers.floats(kArena, 0.1F);
    second = numbers.floats(kArena, 0.1F);
    for (float& value : second) value = std::abs(value);
    scalars[trainer::device::kLearningRate] = 0.01F;
    scalars[trainer::device::kBiasCorrection1] = 0.3F;
    scalars[trainer::device::kBiasCorrection2] = 0.003F;
    scalars[trainer::device::kInverseLossScale] = 1;
  }
  [[nodiscard]] OptimizerUpdate on(Harness& at, bool lamb) const {
    OptimizerUpdate op;
    op.parameters = at.floats(weights);
    op.gradients = at.floats(gradients);
    op.first_moment = at.floats(first);
    op.second_moment = at.floats(second);
    op.beta1 = 0.9F;
    op.beta2 = 0.999F;
    op.epsilon = 1e-6F;
    op.weight_decay = 0.01F;
    op.lamb = lamb;
    op.scalars = at.floats(scalars);
    op.squared_norm = at.floats({9});
    op.tensor_norms = at.floats(std::vector<float>(2 * kLayers.size()));
    return op;
  }
};

// The whole update, or both of its parts.
void run_layers(Harness& at, OptimizerUpdate op, const std::vector<OptimizerTensor>& tensors,
                bool in_parts) {
  op.tensors = tensors.data();
  op.tensor_count = static_cast<std::int64_t>(tensors.size());
  if (!in_parts) {
    at.device().update(0, op);
    return;
  }
  for (const UpdatePart part : {UpdatePart::Moments, UpdatePart::Weights}) {
    op.part = part;
    at.device().update(0, op);
  }
}
std::vector<OptimizerTensor> all_with(float learning_rate) {
  std::vector<OptimizerTensor> tensors = kLayers;
  for (OptimizerTensor& tensor : tensors) tensor.learning_rate = learning_rate;
  return tensors;
}

struct LayerWay {
  const char* name;
  bool lamb, in_parts;
};
constexpr LayerWay kWays[] = {
    {"AdamW", false, false}, {"LAMB", true, false}, {"LAMB in parts", true, true}};

template <typename Real>
reference::AdamState<Real> expected_layers(const LayerArrays& arrays, bool lamb) {
  const reference::Adam<Real> adam{Real(0.01F), Real(0.9F), Real(0.999F), Real(1e-6F),
                                   Real(0.01F), Real(0.3F), Real(0.003F), 0,
                                   9,           1,          lamb};
  reference::AdamState<Real> state{as<Real>(arrays.weights), as<Real>(arrays.first),
                                   as<Real>(arrays.second)};
  for (const OptimizerTensor& tensor : kLayers) {
    reference::update(adam, tensor, as<Real>(arrays.gradients), &state);
  }
  return state;
}

TEST_P(DeviceOps, LearningRatesAreMultiplesOfTheSteps) {
  const LayerArrays arrays(101);
  for (const LayerWay& way : kWays) {
    SCOPED_TRACE(way.name);
    const OptimizerUpdate op = arrays.on(at(), way.lamb);
    run_layers(at(), op, kLayers, way.in_parts);
    const auto exact = expected_layers<double>(arrays, way.lamb);
    const auto naive = expected_layers<float>(arrays, way.lamb);
    expect_close(at().read(op.parameters), exact.w, naive.w, "parameters");
    expect_close(at().read(op.first_moment), exact.m, naive.m, "first moment");
    expect_close(at().read(op.second_moment), exact.v, naive.v, "second moment");
  }
}

// A power of two may stand in either place.
TEST_P(DeviceOps, HalfALearningRateIsHalfTheSteps) {
  LayerArrays arrays(102);
  for (const LayerWay& way : kWays) {
    const OptimizerUpdate of_tensors = arrays.on(at(), way.lamb);
    run_layers(at(), of_tensors, all_with(0.5F), way.in_parts);
    LayerArrays slower = arrays;
    slower.scalars[trainer::device::kLearningRate] /= 2;
    const OptimizerUpdate of_step = slower.on(at(), way.lamb);
    run_layers(at(), of_step, all_with(1), way.in_parts);
    expect_same(at().read(of_tensors.parameters), at().read(of_step.parameters), way.name);
  }
}

// Others move as if all did.
TEST_P(DeviceOps, TensorsThatStayChangeNoOthers) {
  const LayerArrays arrays(103);
  for (const LayerWay& way : kWays) {
    std::vector<OptimizerTensor> tensors = all_with(1);
    const OptimizerUpdate all = arrays.on(at(), way.lamb);
    run_layers(at(), all, tensors, way.in_parts);
    tensors[2].learning_rate = tensors[5].learning_rate = 0;
    const OptimizerUpdate some = arrays.on(at(), way.lamb);
    run_layers(at(), some, tensors, way.in_parts);
    std::vector<float> expected = at().read(all.parameters);
    for (const std::size_t stays : {2U, 5U}) {
      for (std::int64_t i = 0; i < kLayers[stays].size; ++i) {
        const auto place = static_cast<std::size_t>(kLayers[stays].offset + i);
        expected[place] = arrays.weights[place];
      }
    }
    expect_same(at().read(some.parameters), expected, way.name);
  }
}

// Bit for bit, where a step of 0 would not do: −0, infinity, what is not a number, updates of 0/0,
// and a copy that is of other weights.
TEST_P(DeviceOps, LearningRateZeroLeavesWeightsAndTheirCopy) {
  const float infinity = std::numeric_limits<float>::infinity();
  LayerArrays arrays(104);
  const std::vector<float> odd = {-0.0F,          0.0F,   infinity, -infinity,
                                  std::nanf("1"), 1e-45F, -1e-45F};
  for (std::size_t i = 0; i < arrays.weights.size(); ++i) {
    if (i % 2 == 0) arrays.weights[i] = odd[i / 2 % odd.size()];
    if (i % 3 == 0) arrays.gradients[i] = arrays.first[i] = arrays.second[i] = 0;
    if (i % 3 == 1) arrays.gradients[i] = -std::abs(arrays.gradients[i]);
  }
  for (const LayerWay& way : kWays) {
    for (const trainer::device::Dtype type :
         {trainer::device::Dtype::BFloat16, trainer::device::Dtype::Float16}) {
      OptimizerUpdate op = arrays.on(at(), way.lamb);
      op.epsilon = 0;
      op.compute_copy = at().values_of(type, Numbers(3).floats(kArena));
      const std::vector<std::uint8_t> weights = at().read_bytes(op.parameters);
      const std::vector<std::uint8_t> copy = at().read_bytes(op.compute_copy);
      run_layers(at(), op, all_with(0), way.in_parts);
      EXPECT_EQ(at().read_bytes(op.parameters), weights) << way.name;
      EXPECT_EQ(at().read_bytes(op.compute_copy), copy) << way.name;
    }
  }
}

// A list of tensors that differs in nothing but a factor is another list.
TEST_P(DeviceOps, LearningRatesAreReadFromEveryList) {
  const LayerArrays arrays(105);
  const OptimizerUpdate stays = arrays.on(at(), false);
  const OptimizerUpdate moves = arrays.on(at(), false);
  for (int step = 0; step < 2; ++step) {
    run_layers(at(), stays, all_with(0), false);
    run_layers(at(), moves, all_with(1), false);
  }
  expect_same(at().read(stays.parameters), arrays.weights, "weights that stay");
  EXPECT_NE(at().read(moves.parameters)[0], arrays.weights[0]);
}

}  // namespace
}  // namespace regatta::tests
