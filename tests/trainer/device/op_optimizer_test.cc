#include <limits>

#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

using trainer::device::OptimizerTensor;
using trainer::device::View;

constexpr std::int64_t kSize = 40000;
// Odd sizes and gaps; the last is larger than what one thread takes at a time. Flags in every
// combination, and one tensor whose weights are all zero.
const std::vector<OptimizerTensor> kTensors = {
    {0, 1, true, true},      {64, 7, false, false}, {128, 129, true, false},
    {320, 512, false, true}, {900, 40, true, true}, {1024, 38001, true, true},
};

struct Step {
  float clip, squared_norm, learning_rate;
  float inverse_scale = 1;
};

template <typename Real>
reference::AdamState<Real> expected(bool lamb, const std::vector<Step>& steps,
                                    const std::vector<std::vector<float>>& gradients,
                                    const std::vector<float>& weights) {
  reference::AdamState<Real> state{as<Real>(weights), reference::zeros<Real>(kSize),
                                   reference::zeros<Real>(kSize)};
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const Real power = Real(s + 1);
    const reference::Adam<Real> adam{Real(steps[s].learning_rate),
                                     Real(0.9F),
                                     Real(0.999F),
                                     Real(1e-6F),
                                     Real(0.01F),
                                     Real(static_cast<float>(1 - std::pow(0.9, power))),
                                     Real(static_cast<float>(1 - std::pow(0.999, power))),
                                     Real(steps[s].clip),
                                     Real(steps[s].squared_norm),
                                     Real(steps[s].inverse_scale),
                                     lamb};
    for (const OptimizerTensor& tensor : kTensors) {
      reference::update(adam, tensor, as<Real>(gradients[s]), &state);
    }
  }
  return state;
}

void check_optimizer(Harness& at, bool lamb) {
  // Unclipped, clipped, a norm below the limit, and a gradient of nothing; then scaled gradients,
  // clipped and not: the limit is one of the norm without the scale.
  const std::vector<Step> steps = {{0, 9, 0.01F}, {1, 25, 0.02F},         {10, 25, 0.005F},
                                   {1, 0, 0.01F}, {1, 400, 0.01F, 0.37F}, {10, 400, 0.01F, 0.37F}};
  Numbers numbers(61);
  std::vector<float> weights = numbers.floats(kSize);
  for (std::size_t i = 900; i < 940; ++i) weights[i] = 0;
  std::vector<std::vector<float>> gradients;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    gradients.push_back(steps[s].squared_norm > 0 ? numbers.floats(kSize)
                                                  : std::vector<float>(kSize, 0.0F));
  }
  trainer::device::OptimizerUpdate op;
  op.parameters = at.floats(weights);
  op.first_moment = at.floats(std::vector<float>(kSize));
  op.second_moment = at.floats(std::vector<float>(kSize));
  op.beta1 = 0.9F;
  op.beta2 = 0.999F;
  op.epsilon = 1e-6F;
  op.weight_decay = 0.01F;
  op.lamb = lamb;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    std::vector<OptimizerTensor> tensors = kTensors;
    std::vector<float> scalars(trainer::device::kStepScalars);
    const double power = static_cast<double>(s + 1);
    scalars[trainer::device::kLearningRate] = steps[s].learning_rate;
    scalars[trainer::device::kBiasCorrection1] = static_cast<float>(1 - std::pow(0.9, power));
    scalars[trainer::device::kBiasCorrection2] = static_cast<float>(1 - std::pow(0.999, power));
    scalars[trainer::device::kClipNorm] = steps[s].clip;
    scalars[trainer::device::kInverseLossScale] = steps[s].inverse_scale;
    op.gradients = at.floats(gradients[s]);
    op.scalars = at.floats(scalars);
    op.squared_norm = at.floats({steps[s].squared_norm});
    op.tensors = tensors.data();
    op.tensor_count = static_cast<std::int64_t>(tensors.size());
    at.device().update(0, op);
    tensors.assign(tensors.size(), {});  // read when enqueued, so this must not matter
  }
  const auto exact = expected<double>(lamb, steps, gradients, weights);
  const auto naive = expected<float>(lamb, steps, gradients, weights);
  const std::vector<float> result = at.read(op.parameters);
  expect_close(result, exact.w, naive.w, "parameters");
  expect_close(at.read(op.first_moment), exact.m, naive.m, "first moment");
  expect_close(at.read(op.second_moment), exact.v, naive.v, "second moment");
  for (std::size_t i = 1; i < 64; ++i) {
    ASSERT_EQ(result[i], weights[i]) << "the gap between tensors changed";
  }
}

TEST_P(DeviceOps, AdamWMatchesItsFormula) { check_optimizer(at(), false); }
TEST_P(DeviceOps, LambMatchesItsFormula) { check_optimizer(at(), true); }

// One step from zero moments with decay off: AdamW moves every weight by the rate against the sign
// of its gradient, LAMB each tensor by rate·‖w‖ in all.
TEST_P(DeviceOps, FirstStepsHaveTheirKnownLength) {
  for (const bool lamb : {false, true}) {
    const std::vector<float> weights = {3, 0, 4, 0};
    std::vector<float> scalars(trainer::device::kStepScalars);
    scalars[trainer::device::kLearningRate] = 0.5F;
    scalars[trainer::device::kBiasCorrection1] = 0.1F;
    scalars[trainer::device::kBiasCorrection2] = 0.001F;
    scalars[trainer::device::kInverseLossScale] = 1;
    const OptimizerTensor tensor{0, 4, true, true};
    trainer::device::OptimizerUpdate op;
    op.parameters = at().floats(weights);
    op.gradients = at().floats({2, -2, 5, -7});
    op.first_moment = at().floats({0, 0, 0, 0});
    op.second_moment = at().floats({0, 0, 0, 0});
    op.tensors = &tensor;
    op.tensor_count = 1;
    op.beta1 = 0.9F;
    op.beta2 = 0.999F;
    op.epsilon = 1e-8F;
    op.lamb = lamb;
    op.scalars = at().floats(scalars);
    op.squared_norm = at().floats({82});
    device().update(0, op);
    const std::vector<float> result = at().read(op.parameters);
    // LAMB: ‖w‖ = 5, ‖u‖ = 2, so each weight moves by 0.5 · 5 / 2.
    const float move = lamb ? 1.25F : 0.5F;
    const float signs[] = {1, -1, 1, -1};
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(result[i], weights[i] - move * signs[i], 1e-5F) << i;
    }
  }
}

// All arrays of one optimizer over kTensors, with what an update needs.
struct Optimizer {
  std::vector<OptimizerTensor> tensors = kTensors;
  trainer::device::OptimizerUpdate op;

  Optimizer(Harness& at, bool lamb, float loss_scale) {
    Numbers numbers(62);
    std::vector<float> gradients = numbers.floats(kSize);
    double squared_norm = 0;
    for (float& value : gradients) {
      value *= loss_scale;
      squared_norm += static_cast<double>(value) * static_cast<double>(value);
    }
    std::vector<float> moments = numbers.floats(kSize, 0.1F);
    for (float& value : moments) value = std::abs(value);
    op.parameters = at.floats(numbers.floats(kSize));
    op.gradients = at.floats(gradients);
    op.first_moment = at.floats(numbers.floats(kSize, 0.1F));
    op.second_moment = at.floats(moments);
    op.tensors = tensors.data();
    op.tensor_count = static_cast<std::int64_t>(tensors.size());
    op.beta1 = 0.9F;
    op.beta2 = 0.999F;
    op.epsilon = 1e-6F;
    op.weight_decay = 0.01F;
    op.lamb = lamb;
    std::vector<float> scalars(trainer::device::kStepScalars);
    scalars[trainer::device::kLearningRate] = 0.01F;
    scalars[trainer::device::kBiasCorrection1] = 0.3F;
    scalars[trainer::device::kBiasCorrection2] = 0.003F;
    scalars[trainer::device::kClipNorm] = 1;
    scalars[trainer::device::kInverseLossScale] = 1 / loss_scale;
    op.scalars = at.floats(scalars);
    op.squared_norm = at.floats({static_cast<float>(squared_norm)});
  }
  [[nodiscard]] std::vector<View> arrays() const {
    std::vector<View> views = {op.parameters, op.first_moment, op.second_moment};
    if (op.compute_copy.size != 0) views.push_back(op.compute_copy);
    return views;
  }
};

// A power of two changes no bit of the step: multiplying by it is exact.
TEST_P(DeviceOps, UpdateTakesTheLossScaleBack) {
  for (const bool lamb : {false, true}) {
    const Optimizer plain(at(), lamb, 1);
    const Optimizer scaled(at(), lamb, 4096);
    device().update(0, plain.op);
    device().update(0, scaled.op);
    for (std::size_t i = 0; i < 3; ++i) {
      expect_same(at().read(scaled.arrays()[i]), at().read(plain.arrays()[i]),
                  "array " + std::to_string(i));
    }
  }
}

TEST_P(DeviceOps, UpdateSkipsWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const bool lamb : {false, true}) {
    for (const float norm : {infinity, std::nanf(""), -infinity}) {
      Optimizer optimizer(at(), lamb, 1);
      optimizer.op.squared_norm = at().floats({norm});
      optimizer.op.compute_copy =
          at().values_of(trainer::device::Dtype::BFloat16, Numbers(3).floats(kSize));
      std::vector<std::vector<std::uint8_t>> before;
      for (const View& array : optimizer.arrays()) before.push_back(at().read_bytes(array));
      device().update(0, optimizer.op);
      for (std::size_t i = 0; i < before.size(); ++i) {
        EXPECT_EQ(at().read_bytes(optimizer.arrays()[i]), before[i]) << norm << " array " << i;
      }
    }
  }
}

// The copy is the new weights, rounded; where there is none, nothing else changes.
TEST_P(DeviceOps, UpdateKeepsACopyInTheComputeType) {
  for (const bool lamb : {false, true}) {
    Optimizer without(at(), lamb, 1);
    device().update(0, without.op);
    const std::vector<float> expected = at().read(without.op.parameters);
    for (const trainer::device::Dtype type :
         {trainer::device::Dtype::BFloat16, trainer::device::Dtype::Float16}) {
      Optimizer with(at(), lamb, 1);
      with.op.compute_copy = at().output_of(type, kSize);
      device().update(0, with.op);
      expect_same(at().read(with.op.parameters), expected, "parameters");
      const std::vector<float> copy = at().read(with.op.compute_copy);
      for (const OptimizerTensor& tensor : kTensors) {
        for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
          const auto place = static_cast<std::size_t>(i);
          ASSERT_EQ(copy[place], stored_as(type, expected[place])) << i;
        }
      }
    }
  }
}

// The same views again with other scalars in them, as a repeated step reads them.
TEST_P(DeviceOps, RepeatedUpdateReadsItsScalarsOnTheDevice) {
  for (const bool lamb : {false, true}) {
    Optimizer direct(at(), lamb, 1);
    Optimizer repeated(at(), lamb, 1);
    for (int step = 1; step <= 3; ++step) {
      std::vector<float> scalars = at().read(direct.op.scalars);
      scalars[trainer::device::kLearningRate] = 0.01F / static_cast<float>(step);
      scalars[trainer::device::kClipNorm] = static_cast<float>(step - 1);
      for (const View& to : {direct.op.scalars, repeated.op.scalars}) {
        device().copy(0, to, at().floats(scalars));
      }
      device().update(0, direct.op);
      device().repeat(0, lamb ? 11 : 10, [&] { device().update(0, repeated.op); });
      expect_same(at().read(repeated.op.parameters), at().read(direct.op.parameters),
                  "step " + std::to_string(step));
    }
  }
  device().forget_repeats();
}

// Sizes around what one block, thread or vector takes, at every address.
TEST_P(DeviceOps, NormsAreLimitedExactly) {
  for (const std::int64_t size : {0, 1, 3, 4, 17, 1024, 40003}) {
    for (const std::int64_t skip : {0, 1, 3}) {
      std::vector<float> x;
      for (std::int64_t i = 0; i < size + 5; ++i) x.push_back(static_cast<float>(i % 7 - 3));
      const View all = at().floats(x);
      device().limit_norm(0, all.slice(skip, size), at().floats({64}), at().floats({2}));
      for (std::int64_t i = skip; i < skip + size; ++i) x[static_cast<std::size_t>(i)] *= 0.25F;
      expect_same(at().read(all), x, std::to_string(size) + " at " + std::to_string(skip));
    }
  }
}

TEST_P(DeviceOps, NormsAreLimitedToTheirLimit) {
  const std::vector<float> x = Numbers(63).floats(5000);
  double squared_norm = 0;
  for (const float value : x) {
    squared_norm += static_cast<double>(value) * static_cast<double>(value);
  }
  const View view = at().floats(x);
  const View squared = at().output(1);
  const View limit = at().floats({0.5F});
  device().sum_of_squares(0, view, squared);
  device().limit_norm(0, view, squared, limit);
  const std::vector<float> result = at().read(view);
  const double factor = 0.5 / std::sqrt(squared_norm);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = factor * static_cast<double>(x[i]);
    ASSERT_NEAR(static_cast<double>(result[i]), exact, 3e-7 * std::abs(exact)) << i;
  }
}

struct Unlimited {
  const char* name;
  float squared_norm, limit;
};
TEST_P(DeviceOps, WhatKeepsItsLimitOrHasNoNormStaysAsItIs) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  const std::vector<Unlimited> cases = {{"below", 15.9F, 4},
                                        {"at the limit", 16, 4},
                                        {"zero", 0, 4},
                                        {"zero, limited to zero", 0, 0},
                                        {"infinite", infinity, 4},
                                        {"not a number", nan, 4},
                                        {"minus infinite", -infinity, 4},
                                        {"negative", -16, 1},
                                        {"limit infinite", 16, infinity}};
  const std::vector<float> x = {1, -infinity, nan, -0.0F, 3e38F, 1e-40F, 7};
  for (const Unlimited& one : cases) {
    const View view = at().floats(x);
    const std::vector<std::uint8_t> before = at().read_bytes(view);
    device().limit_norm(0, view, at().floats({one.squared_norm}), at().floats({one.limit}));
    EXPECT_EQ(at().read_bytes(view), before) << one.name;
  }
}

TEST_P(DeviceOps, ANormLimitedToZeroIsZero) {
  const View view = at().floats({3, -4, 0});
  device().limit_norm(0, view, at().floats({25}), at().floats({0}));
  expect_same(at().read(view), {0, 0, 0}, "x");
}

// The same call again with another norm in memory, as a repeated step makes it.
TEST_P(DeviceOps, RepeatedLimitsReadTheNormOnTheDevice) {
  const View view = at().floats({8, -16, 32});
  const View squared = at().output(1);
  const View limit = at().floats({1});
  const std::vector<float> norms = {4, 0.25F, 16};
  const std::vector<float> firsts = {4, 4, 1};
  for (std::size_t i = 0; i < norms.size(); ++i) {
    device().copy(0, squared, at().floats({norms[i]}));
    device().repeat(0, 12, [&] { device().limit_norm(0, view, squared, limit); });
    expect_same(at().read(view), {firsts[i], -2 * firsts[i], 4 * firsts[i]}, std::to_string(i));
  }
  device().forget_repeats();
}

}  // namespace
}  // namespace regatta::tests
