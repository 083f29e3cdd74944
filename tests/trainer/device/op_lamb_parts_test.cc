// LAMB in two parts over pieces of the arena, as ranks with sharded state make it, against the
// whole update.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/trainer/device/op_cases.h"

namespace regatta::tests {
namespace {

using trainer::device::OptimizerTensor;
using trainer::device::OptimizerUpdate;
using trainer::device::UpdatePart;
using trainer::device::View;

constexpr std::int64_t kSize = 50048;
// Of one element, smaller and larger than one thread's share, with gaps; flags in every
// combination, and several learning rates; the fourth has no weights.
const std::vector<OptimizerTensor> kWhole = {
    {0, 1, true, true, 1, 0},      {64, 7, false, false, 0.5F, 1}, {128, 129, true, false, 0, 2},
    {320, 512, false, true, 1, 3}, {896, 9000, true, true, 1, 4},  {9920, 40001, true, true, 2, 5},
};
const std::vector<std::vector<std::int64_t>> kCuts = {
    {}, {64}, {192, 320, 384}, {25024}, {64, 128, 192, 576, 1024, 8960, 9920, 9984, 26368, 49920},
};

// What of the tensors lies in [begin, end), relative to begin; each cut again at multiples of
// `grain` where it is not 0.
std::vector<OptimizerTensor> pieces_in(std::int64_t begin, std::int64_t end, std::int64_t grain) {
  std::vector<OptimizerTensor> pieces;
  for (const OptimizerTensor& tensor : kWhole) {
    std::int64_t first = std::max(begin, tensor.offset);
    const std::int64_t last = std::min(end, tensor.offset + tensor.size);
    while (first < last) {
      const std::int64_t next = grain == 0 ? last : std::min(last, (first / grain + 1) * grain);
      pieces.push_back({first - begin, next - first, tensor.weight_decay, tensor.trust_ratio,
                        tensor.learning_rate, tensor.number});
      first = next;
    }
  }
  return pieces;
}

struct Arrays {
  std::vector<float> weights, gradients, first, second, scalars;
  float squared_norm = 0;

  explicit Arrays(unsigned seed) : scalars(trainer::device::kStepScalars) {
    Numbers numbers(seed);
    weights = numbers.floats(kSize);
    std::fill_n(weights.begin() + 320, 512, 0.0F);
    gradients = numbers.floats(kSize, 8);
    first = numbers.floats(kSize, 0.1F);
    second = numbers.floats(kSize, 0.1F);
    for (float& value : second) value = std::abs(value);
    double sum = 0;
    for (const float value : gradients) {
      sum += static_cast<double>(value) * static_cast<double>(value);
    }
    squared_norm = static_cast<float>(sum);
    scalars[trainer::device::kLearningRate] = 0.01F;
    scalars[trainer::device::kBiasCorrection1] = 0.3F;
    scalars[trainer::device::kBiasCorrection2] = 0.003F;
    scalars[trainer::device::kClipNorm] = 1;
    scalars[trainer::device::kInverseLossScale] = 0.125F;
  }
  // Of the whole arena; tensors are still missing.
  [[nodiscard]] OptimizerUpdate update(Harness& at) const {
    OptimizerUpdate op;
    op.parameters = at.floats(weights);
    op.gradients = at.floats(gradients);
    op.first_moment = at.floats(first);
    op.second_moment = at.floats(second);
    op.beta1 = 0.9F;
    op.beta2 = 0.999F;
    op.epsilon = 1e-6F;
    op.weight_decay = 0.01F;
    op.lamb = true;
    op.scalars = at.floats(scalars);
    op.squared_norm = at.floats({squared_norm});
    return op;
  }
};

std::vector<float> zero_norms() { return std::vector<float>(2 * kWhole.size(), 0.0F); }

void run(Harness& at, OptimizerUpdate op, UpdatePart part,
         const std::vector<OptimizerTensor>& tensors) {
  std::vector<OptimizerTensor> passed = tensors;
  op.part = part;
  op.tensors = passed.data();
  op.tensor_count = static_cast<std::int64_t>(passed.size());
  at.device().update(0, op);
  passed.assign(passed.size(), {});  // read when enqueued, so this must not matter
}

// One of several slices of the arena; its moments are memory of its own, as on another rank.
struct Slice {
  OptimizerUpdate op;
  std::vector<OptimizerTensor> tensors;
};
std::vector<Slice> slices_of(Harness& at, const Arrays& arrays, const OptimizerUpdate& whole,
                             const std::vector<std::int64_t>& cuts, std::int64_t grain) {
  std::vector<Slice> slices;
  std::vector<std::int64_t> ends = cuts;
  ends.push_back(kSize);
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    const auto own = [&](const std::vector<float>& from) {
      return at.floats({from.begin() + begin, from.begin() + end});
    };
    Slice slice{whole, pieces_in(begin, end, grain)};
    slice.op.parameters = whole.parameters.slice(begin, end - begin);
    slice.op.gradients = whole.gradients.slice(begin, end - begin);
    slice.op.first_moment = own(arrays.first);
    slice.op.second_moment = own(arrays.second);
    if (whole.compute_copy.size != 0) {
      slice.op.compute_copy = whole.compute_copy.slice(begin, end - begin);
    }
    slices.push_back(slice);
    begin = end;
  }
  return slices;
}
std::vector<float> joined(Harness& at, const std::vector<Slice>& slices,
                          View OptimizerUpdate::*view) {
  std::vector<float> all;
  for (const Slice& slice : slices) {
    const std::vector<float> one = at.read(slice.op.*view);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

// Norms are float32 between the parts: each piece's is rounded, and so is their sum.
void expect_step(const std::vector<float>& actual, const std::vector<float>& expected,
                 const std::vector<float>& before, std::size_t pieces) {
  ASSERT_EQ(actual.size(), expected.size());
  const double rounding = 0x1p-24 * static_cast<double>(pieces + 4);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const auto whole = static_cast<double>(expected[i]);
    const double moved = std::abs(whole - static_cast<double>(before[i]));
    ASSERT_NEAR(static_cast<double>(actual[i]), whole, rounding * moved + 0x1p-22 * std::abs(whole))
        << i;
  }
}

TEST_P(DeviceOps, LambInPartsIsTheWhole) {
  const Arrays arrays(71);
  const OptimizerUpdate whole = arrays.update(at());
  run(at(), whole, UpdatePart::Whole, kWhole);
  const std::vector<float> expected = at().read(whole.parameters);
  for (const std::vector<std::int64_t>& cuts : kCuts) {
    for (const std::int64_t grain : {0, 64 * 77}) {
      OptimizerUpdate parts = arrays.update(at());
      parts.tensor_norms = at().floats(zero_norms());
      const std::vector<Slice> slices = slices_of(at(), arrays, parts, cuts, grain);
      for (const Slice& slice : slices) run(at(), slice.op, UpdatePart::Moments, slice.tensors);
      expect_same(at().read(parts.parameters), arrays.weights, "weights before their part");
      expect_same(joined(at(), slices, &OptimizerUpdate::first_moment),
                  at().read(whole.first_moment), "first moment");
      expect_same(joined(at(), slices, &OptimizerUpdate::second_moment),
                  at().read(whole.second_moment), "second moment");
      for (const Slice& slice : slices) run(at(), slice.op, UpdatePart::Weights, slice.tensors);
      expect_step(at().read(parts.parameters), expected, arrays.weights,
                  cuts.size() + (grain == 0 ? 0 : 10));
      expect_same(joined(at(), slices, &OptimizerUpdate::second_moment),
                  at().read(whole.second_moment), "second moment after the weights");
    }
  }
}

// The same calls give the same bits.
TEST_P(DeviceOps, LambInPartsRepeatsItsBits) {
  const Arrays arrays(72);
  std::vector<std::vector<float>> results;
  for (int time = 0; time < 2; ++time) {
    OptimizerUpdate parts = arrays.update(at());
    parts.tensor_norms = at().floats(zero_norms());
    const std::vector<Slice> slices = slices_of(at(), arrays, parts, kCuts.back(), 640);
    for (const Slice& slice : slices) run(at(), slice.op, UpdatePart::Moments, slice.tensors);
    for (const Slice& slice : slices) run(at(), slice.op, UpdatePart::Weights, slice.tensors);
    results.push_back(at().read(parts.parameters));
    results.push_back(at().read(parts.tensor_norms));
  }
  expect_same(results[2], results[0], "weights");
  expect_same(results[3], results[1], "norms");
}

// Σ w² against its definition, Σ u² by hand: moments that make every u² 2, and no ε.
TEST_P(DeviceOps, LambMomentsAddTheNorms) {
  Arrays arrays(73);
  std::fill(arrays.gradients.begin(), arrays.gradients.end(), 0.0F);
  std::fill(arrays.first.begin(), arrays.first.end(), 8.0F);
  std::fill(arrays.second.begin(), arrays.second.end(), 16.0F);
  arrays.squared_norm = 0;
  arrays.scalars[trainer::device::kBiasCorrection1] = 0.5F;
  arrays.scalars[trainer::device::kBiasCorrection2] = 0.25F;
  OptimizerUpdate op = arrays.update(at());
  op.beta1 = op.beta2 = 0.5F;  // m̂ = 4 / 0.5, v̂ = 8 / 0.25, so u = 8 / √32 = √2
  op.epsilon = op.weight_decay = 0;
  std::vector<float> start = zero_norms();
  start[2 * 4] = 7;  // added to, not overwritten
  op.tensor_norms = at().floats(start);
  for (const std::int64_t grain : {0, 64}) {
    device().copy(0, op.tensor_norms, at().floats(start));
    device().copy(0, op.first_moment, at().floats(arrays.first));
    device().copy(0, op.second_moment, at().floats(arrays.second));
    run(at(), op, UpdatePart::Moments, pieces_in(0, kSize, grain));
    const std::vector<float> norms = at().read(op.tensor_norms);
    for (std::size_t t = 0; t < kWhole.size(); ++t) {
      double weights = static_cast<double>(start[2 * t]);
      for (std::int64_t i = kWhole[t].offset; i < kWhole[t].offset + kWhole[t].size; ++i) {
        const auto weight = static_cast<double>(arrays.weights[static_cast<std::size_t>(i)]);
        weights += weight * weight;
      }
      const auto updates = 2.0 * static_cast<double>(kWhole[t].size);
      const double roundings = grain == 0 ? 4 : 700;  // of a float32 sum of pieces
      EXPECT_NEAR(static_cast<double>(norms[2 * t]), weights, roundings * 0x1p-24 * weights) << t;
      EXPECT_NEAR(static_cast<double>(norms[2 * t + 1]), updates, roundings * 0x1p-24 * updates)
          << t;
    }
  }
}

struct Norms {
  float weights, updates;
  bool trust_ratio;
  float ratio;
};
// The weights' part takes the norms as they stand: u is 1 everywhere, so a weight moves by rate
// times ratio.
TEST_P(DeviceOps, LambWeightsGoByTheNorms) {
  const std::vector<Norms> cases = {{16, 64, true, 0.5F},     {64, 16, true, 2}, {64, 16, false, 1},
                                    {0, 16, true, 1},         {16, 0, true, 1},  {0, 0, true, 1},
                                    {9e-38F, 1e-38F, true, 3}};
  for (std::size_t c = 0; c < cases.size(); ++c) {
    Arrays arrays(74);
    std::fill(arrays.first.begin(), arrays.first.end(), 2.0F);
    std::fill(arrays.second.begin(), arrays.second.end(), 4.0F);
    arrays.scalars[trainer::device::kLearningRate] = 0.25F;
    arrays.scalars[trainer::device::kBiasCorrection1] = 1;
    arrays.scalars[trainer::device::kBiasCorrection2] = 1;
    OptimizerUpdate op = arrays.update(at());
    op.epsilon = op.weight_decay = 0;
    op.tensor_norms = at().floats({-1, -1, -1, -1, cases[c].weights, cases[c].updates});
    op.compute_copy = at().output_of(trainer::device::Dtype::BFloat16, kSize);
    run(at(), op, UpdatePart::Weights, {{128, 300, true, cases[c].trust_ratio, 1, 2}});
    const std::vector<float> result = at().read(op.parameters);
    const std::vector<float> copy = at().read(op.compute_copy);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const bool inside = i >= 128 && i < 428;
      const float expected = arrays.weights[i] - (inside ? 0.25F * cases[c].ratio : 0.0F);
      ASSERT_NEAR(result[i], expected, inside ? 1e-6F : 0.0F) << "case " << c << " weight " << i;
      if (!inside) continue;
      ASSERT_EQ(copy[i], stored_as(trainer::device::Dtype::BFloat16, result[i])) << i;
    }
    expect_same(at().read(op.first_moment), arrays.first, "first moment");
    expect_same(at().read(op.second_moment), arrays.second, "second moment");
  }
}

TEST_P(DeviceOps, LambInPartsSkipsWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float norm : {infinity, std::nanf(""), -infinity}) {
    Arrays arrays(75);
    arrays.squared_norm = norm;
    arrays.gradients[1000] = norm;
    OptimizerUpdate op = arrays.update(at());
    op.compute_copy = at().values_of(trainer::device::Dtype::Float16, Numbers(3).floats(kSize));
    std::vector<float> norms = zero_norms();
    norms[3] = 5;
    op.tensor_norms = at().floats(norms);
    const std::vector<View> arrays_of_op = {op.parameters, op.first_moment, op.second_moment,
                                            op.compute_copy, op.tensor_norms};
    std::vector<std::vector<std::uint8_t>> before;
    for (const View& view : arrays_of_op) before.push_back(at().read_bytes(view));
    for (const UpdatePart part : {UpdatePart::Moments, UpdatePart::Weights}) {
      run(at(), op, part, pieces_in(0, kSize, 6400));
      for (std::size_t i = 0; i < before.size(); ++i) {
        EXPECT_EQ(at().read_bytes(arrays_of_op[i]), before[i]) << norm << " array " << i;
      }
    }
  }
}

// A rank may hold nothing of a list.
TEST_P(DeviceOps, LambInPartsTakesEmptyLists) {
  const Arrays arrays(76);
  OptimizerUpdate op = arrays.update(at());
  op.tensor_norms = at().floats(zero_norms());
  for (const UpdatePart part : {UpdatePart::Moments, UpdatePart::Weights}) {
    run(at(), op, part, {});
    run(at(), op, part, {{64, 0, true, true, 1, 1}});
  }
  expect_same(at().read(op.parameters), arrays.weights, "weights");
  expect_same(at().read(op.first_moment), arrays.first, "first moment");
  expect_same(at().read(op.tensor_norms), zero_norms(), "norms");
}

}  // namespace
}  // namespace regatta::tests
