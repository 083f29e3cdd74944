// The device without fused operations: by the tables of cases of every device, in whole steps, and
// that it splits at all.
#include "trainer/device/unfused_device.h"

#include <cmath>
#include <deque>

#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/rounding_device.h"
#include "tests/trainer/model/random_model.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/step/optimizer.h"

namespace regatta::tests {

using namespace regatta::trainer;  // the subject

// In 16-bit types it rounds where a fused operation does not, which these tables do not forgive.
std::vector<DeviceUnderTest> devices_under_test() {
  const auto make = [] {
    static std::deque<std::unique_ptr<device::Device>> inner;  // outlives what it is behind
    inner.push_back(cpu::make_cpu_device(1));
    return device::make_unfused_device(*inner.back());
  };
  return {{"unfused", make}};
}

namespace {

INSTANTIATE_TEST_SUITE_P(Unfused, DeviceOps, testing::ValuesIn(devices_under_test()),
                         [](const auto& device) { return device.param.name; });

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(sum / size);
}

// The gradients and new weights of one whole step with dropout.
std::vector<float> step(device::Device& device, device::Dtype compute, contract::Gelu gelu) {
  model::BertOptions options;
  options.compute = compute;
  options.dropout = {0.1, 0.1, 7};
  model::Bert model(device, small_shape(32, 2, gelu), options);
  std::mt19937 random(5);
  const std::vector<float> weights = random_weights(model.table(), 3);
  device.copy_to_device(0, model.parameters(), weights.data());
  model.renew_compute_copy();
  model.zero_gradients();
  model.reset_statistics();
  std::vector<samples::Sample> samples;
  for (const int length : {9, 33, 20}) {
    samples.push_back(random_sample(length, length / 5, model.shape(), &random));
  }
  model.upload(samples::collate(samples, {0, 1, 2}), 1, {11, 3});
  model.forward(model::Mode::Training);
  model.backward();
  ranks::SingleCommunicator communicator;
  step::Optimizer optimizer(device, communicator, model.table(), step::whole_state(model.table()),
                            {}, 1.0);
  optimizer.begin(model, {1, 1e-3});
  optimizer.update(model);
  const auto size = static_cast<std::size_t>(model.table().arena_size);
  std::vector<float> values(2 * size);
  device.copy_to_host(0, values.data(), model.gradients());
  device.copy_to_host(0, values.data() + size, model.parameters());
  device.synchronize();
  values.resize(size + static_cast<std::size_t>(model.table().arena_size));
  return values;
}

TEST(UnfusedDevice, AWholeStepIsThatOfTheFusedDevice) {
  for (const contract::Gelu gelu : {contract::Gelu::Erf, contract::Gelu::Tanh}) {
    const auto fused = cpu::make_cpu_device(1);
    const auto unfused = device::make_unfused_device(*fused);
    const std::vector<float> expected = step(*fused, device::Dtype::Float32, gelu);
    EXPECT_LT(distance(step(*unfused, device::Dtype::Float32, gelu), expected), 1e-6);
  }
}

// Twice as far from float32 as the fused device, at most; and not where that is: it has split what
// would have been rounded once.
TEST(UnfusedDevice, AWholeStepIn16BitsErrsByTwiceAsMuchAtMost) {
  const auto exact = cpu::make_cpu_device(1);
  const std::vector<float> expected = step(*exact, device::Dtype::Float32, contract::Gelu::Erf);
  const auto fused = make_rounding_device(cpu::make_cpu_device(1));
  const auto unfused = device::make_unfused_device(*fused);
  for (const device::Dtype compute : {device::Dtype::BFloat16, device::Dtype::Float16}) {
    const std::vector<float> once = step(*fused, compute, contract::Gelu::Erf);
    const std::vector<float> twice = step(*unfused, compute, contract::Gelu::Erf);
    EXPECT_LE(distance(twice, expected), 2 * distance(once, expected));
    EXPECT_NE(twice, once);
  }
}

// Each operation alone, in a type that shows where results are rounded: nearly the same, and where
// a sum is kept in between, not the same bits.
class SplitOperation : public testing::Test {
 protected:
  static constexpr std::int64_t kRows = 24, kColumns = 32, kInner = 40;
  static constexpr Precision kPrecision{device::Dtype::BFloat16, false};

  // `run` enqueues on the device and returns what the operation wrote.
  template <typename Run>
  void expect_split(const Run& run) {
    const auto fused = make_rounding_device(cpu::make_cpu_device(1));
    const auto unfused = device::make_unfused_device(*fused);
    Harness once(*fused, kPrecision), twice(*unfused, kPrecision);
    const std::vector<float> expected = run(once), actual = run(twice);
    EXPECT_LT(distance(actual, expected), 0.01);  // bfloat16 has 8 bits
    EXPECT_NE(actual, expected) << "was not split";
  }
  static std::vector<float> joined(Harness& at, std::initializer_list<device::View> views) {
    std::vector<float> all;
    for (const device::View& view : views) {
      const std::vector<float> values = at.read(view);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
};

TEST_F(SplitOperation, BackwardActivationWithColumnSums) {
  expect_split([](Harness& at) {
    Numbers numbers(1);
    device::Gemm op;
    op.m = kRows;
    op.n = kColumns;
    op.k = kInner;
    op.a = at.activations(numbers.floats(kRows * kInner));
    op.b = at.activations(numbers.floats(kInner * kColumns));
    op.c = at.activation_output(kRows * kColumns);
    op.activation = device::Activation::GeluTanh;
    op.gelu_input = at.activations(numbers.floats(kRows * kColumns));
    op.c_column_sums = at.floats(numbers.floats(kColumns));
    at.device().gemm(0, op);
    return joined(at, {op.c, op.c_column_sums});
  });
}

TEST_F(SplitOperation, ResidualOfLayerNormWithDropout) {
  expect_split([](Harness& at) {
    Numbers numbers(2);
    device::LayerNormForward op;
    op.x = op.z = at.activations(numbers.floats(kRows * kColumns));
    op.residual = at.activations(numbers.floats(kRows * kColumns));
    op.gamma = at.floats(numbers.floats(kColumns));
    op.beta = at.floats(numbers.floats(kColumns));
    op.epsilon = 1e-12F;
    op.dropout = {6554, 3, 70};
    op.tokens.ordinal = at.ints(std::vector<std::int32_t>(kRows, 4));
    std::vector<std::int32_t> positions;
    for (std::int32_t i = 0; i < kRows; ++i) positions.push_back(i);
    op.tokens.position = at.ints(positions);
    op.tokens.step = at.ints({9});
    op.mean = at.output(kRows);
    op.rstd = at.output(kRows);
    op.y = at.activation_output(kRows * kColumns);
    at.device().layer_norm_forward(0, op);
    return joined(at, {op.z, op.mean, op.rstd, op.y});
  });
}

TEST_F(SplitOperation, ColumnSumsOfLayerNormBackward) {
  expect_split([](Harness& at) {
    Numbers numbers(3);
    device::LayerNormBackward op;
    op.dy = at.activations(numbers.floats(kRows * kColumns));
    op.z = at.activations(numbers.floats(kRows * kColumns));
    op.mean = at.floats(std::vector<float>(kRows, 0.1F));
    op.rstd = at.floats(std::vector<float>(kRows, 1.7F));
    op.gamma = at.floats(numbers.floats(kColumns));
    op.dresidual = op.dx = at.activation_output(kRows * kColumns);
    op.dgamma = at.floats(numbers.floats(kColumns));
    op.dbeta = at.floats(numbers.floats(kColumns));
    op.dbias = at.floats(numbers.floats(kColumns));
    at.device().layer_norm_backward(0, op);
    return joined(at, {op.dx, op.dgamma, op.dbeta, op.dbias});
  });
}

}  // namespace
}  // namespace regatta::tests
