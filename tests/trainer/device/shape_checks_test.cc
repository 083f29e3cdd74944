// What trainer/device/device.h allows in types and epilogues, and one word of each refusal. Sizes
// alone are refused in cpu_device_test.cc, through a device.
#include "trainer/device/shape_checks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

constexpr device::Dtype kFull = device::Dtype::Float32;
constexpr device::Dtype kHalf = device::Dtype::BFloat16;
constexpr device::Dtype kOther = device::Dtype::Float16;

// The checks never read memory; it only has to be there.
device::View view(std::int64_t size, device::Dtype dtype) {
  static float memory = 0;
  return {&memory, size, dtype};
}
device::View other_view(std::int64_t size, device::Dtype dtype) {
  static float memory = 0;
  return {&memory, size, dtype};
}

device::Gemm product(device::Dtype type) {
  device::Gemm op;
  op.m = 2;
  op.n = 3;
  op.k = 4;
  op.a = view(8, type);
  op.b = view(12, type);
  op.c = view(6, type);
  return op;
}
device::Gemm forward(device::Dtype type) {
  device::Gemm op = product(type);
  op.activation = device::Activation::GeluErf;
  op.pre_activation = other_view(6, type);
  return op;
}
device::Gemm backward(device::Dtype type) {
  device::Gemm op = product(type);
  op.activation = device::Activation::GeluTanh;
  op.gelu_input = other_view(6, type);
  return op;
}
device::Gemm with_sums(device::Dtype type) {
  device::Gemm op = product(type);
  op.transpose_a = true;
  op.a_column_sums = view(2, kFull);
  return op;
}

device::LayerNormBackward norm(device::Dtype type) {
  device::LayerNormBackward op;
  op.dy = op.z = op.dresidual = op.dx = view(16, type);
  op.mean = op.rstd = view(2, kFull);
  op.gamma = op.dgamma = op.dbeta = op.dbias = view(8, kFull);
  return op;
}

device::CrossEntropy loss(device::Dtype type) {
  device::CrossEntropy op;
  op.logits = view(6, type);
  op.labels = view(2, device::Dtype::Int32);
  op.classes = 3;
  op.scale = view(1, kFull);
  op.sums = view(3, kFull);
  return op;
}

device::SpanCrossEntropy answers(device::Dtype type) {
  device::SpanCrossEntropy op;
  op.logits = view(10, type);
  op.answers = view(4, device::Dtype::Int32);
  op.cumulative = view(3, device::Dtype::Int32);
  op.scale = view(1, kFull);
  op.sums = view(3, kFull);
  return op;
}

device::SquaredError errors(device::Dtype type) {
  device::SquaredError op;
  op.logits = view(4, type);
  op.values = view(4, kFull);
  op.scale = view(1, kFull);
  op.sums = view(3, kFull);
  return op;
}

device::OptimizerUpdate update() {
  device::OptimizerUpdate op;
  op.parameters = op.gradients = op.first_moment = op.second_moment = view(8, kFull);
  op.scalars = view(device::kStepScalars, kFull);
  op.squared_norm = view(1, kFull);
  return op;
}

device::NoiseSums noise_sums() {
  device::NoiseSums op;
  op.difference = op.mean = op.second_moment = view(8, kFull);
  op.scalars = view(device::kStepScalars, kFull);
  op.squared_norm = view(1, kFull);
  op.sums = view(4, kFull);
  return op;
}

device::AttentionForward attention(device::Dtype type) {
  device::AttentionForward op;
  op.qkv = view(5 * 3 * 8, type);
  op.out = view(5 * 8, type);
  op.lse = view(5 * 2, kFull);
  op.heads = 2;
  op.tokens.cumulative = view(3, device::Dtype::Int32);
  op.tokens.max_length = 3;
  return op;
}

device::EmbeddingForward embedding(device::Dtype type) {
  device::EmbeddingForward op;
  op.ids = op.types = op.tokens.position = view(2, device::Dtype::Int32);
  op.word = op.position = op.type = view(24, type);
  op.gamma = op.beta = view(8, kFull);
  op.x = op.y = view(16, type);
  op.mean = op.rstd = view(2, kFull);
  return op;
}

TEST(ShapeChecks, ActivationsMayHaveAnyOfThreeTypes) {
  for (const device::Dtype type : {kFull, kHalf, kOther}) {
    device::check_shapes(product(type));
    device::check_shapes(forward(type));
    device::check_shapes(backward(type));
    device::check_shapes(with_sums(type));
    device::check_shapes(norm(type));
    device::check_shapes(loss(type));
    device::check_shapes(answers(type));
    device::check_shapes(errors(type));
    device::check_shapes(attention(type));
    device::check_shapes(embedding(type));
    device::check_elementwise(view(7, type), view(7, type), view(7, type));
    device::check_column_sums(view(6, type), 3, view(3, kFull));
    device::check_row_selection(view(6, type), view(4, device::Dtype::Int32), 3, view(12, type));
  }
}

TEST(ShapeChecks, OptionalViewsMayBeAbsent) {
  device::Gemm gemm = product(kHalf);
  gemm.c = view(6, kFull);
  gemm.bias = view(3, kFull);
  device::check_shapes(gemm);
  gemm = with_sums(kHalf);
  gemm.c = view(6, kFull);
  gemm.beta = 1;
  device::check_shapes(gemm);
  gemm = forward(kHalf);
  gemm.bias = view(3, kHalf);
  device::check_shapes(gemm);
  gemm = backward(kHalf);
  gemm.c_column_sums = view(3, kFull);
  device::check_shapes(gemm);
  device::LayerNormBackward without_bias = norm(kHalf);
  without_bias.dbias = {};
  device::check_shapes(without_bias);
  device::CrossEntropy evaluated = loss(kHalf);
  evaluated.scale = {};
  evaluated.evaluate = true;
  device::check_shapes(evaluated);
  device::CrossEntropy spread = loss(kHalf);
  spread.classes = 2;
  spread.stride = 3;
  device::check_shapes(spread);
  for (const float smoothing : {0.0F, 0.5F, 0.999F}) {
    spread.label_smoothing = smoothing;
    device::check_shapes(spread);
  }
  device::SpanCrossEntropy evaluated_answers = answers(kHalf);
  evaluated_answers.scale = {};
  evaluated_answers.evaluate = true;
  device::check_shapes(evaluated_answers);
  device::SpanCrossEntropy no_samples = answers(kFull);
  no_samples.answers = view(0, device::Dtype::Int32);
  no_samples.cumulative = view(1, device::Dtype::Int32);
  device::check_shapes(no_samples);
  device::SquaredError evaluated_errors = errors(kHalf);
  evaluated_errors.scale = {};
  evaluated_errors.evaluate = true;
  device::check_shapes(evaluated_errors);
  device::OptimizerUpdate with_copy = update();
  device::check_shapes(with_copy);
  with_copy.compute_copy = view(8, kOther);
  device::check_shapes(with_copy);
  device::check_convert(view(3, kHalf), view(3, kFull));
  device::check_convert(view(3, kFull), view(3, kOther));
}

template <typename Operation, typename Change>
void refuse(Operation op, Change change, const char* words) {
  change(op);
  EXPECT_DEATH(device::check_shapes(op), words);
}

TEST(ShapeChecksDeathTest, ProductsRefuseMixedTypes) {
  refuse(
      product(kHalf), [](device::Gemm& op) { op.b.dtype = kOther; }, "of a's type");
  refuse(
      product(kFull), [](device::Gemm& op) { op.b.dtype = kHalf; }, "of a's type");
  refuse(
      product(kFull), [](device::Gemm& op) { op.c.dtype = kHalf; }, "of a's type or float32");
  refuse(
      product(kHalf), [](device::Gemm& op) { op.c.dtype = kOther; }, "of a's type or float32");
  refuse(
      product(kHalf), [](device::Gemm& op) { op.bias = view(3, kFull); }, "elements of c's type");
  refuse(
      product(kHalf), [](device::Gemm& op) { op.a.dtype = device::Dtype::Int32; },
      "a of a matrix product");
  refuse(
      product(kHalf), [](device::Gemm& op) { op.a.dtype = device::Dtype::Float8E4M3; },
      "a of a matrix product");
}

TEST(ShapeChecksDeathTest, ProductsRefuseOddEpilogues) {
  refuse(
      forward(kHalf), [](device::Gemm& op) { op.gelu_input = view(6, kHalf); },
      "at most one epilogue");
  refuse(
      forward(kHalf),
      [](device::Gemm& op) {
        op.transpose_a = true;
        op.a_column_sums = view(2, kFull);
      },
      "at most one epilogue");
  refuse(
      forward(kHalf), [](device::Gemm& op) { op.activation = device::Activation::None; },
      "names it");
  refuse(
      forward(kHalf), [](device::Gemm& op) { op.beta = 1; }, "beta 0");
  refuse(
      forward(kHalf), [](device::Gemm& op) { op.pre_activation.size = 5; }, "c's size");
  refuse(
      forward(kHalf), [](device::Gemm& op) { op.pre_activation.dtype = kFull; }, "product's type");
  refuse(
      forward(kHalf), [](device::Gemm& op) { op.c.dtype = op.pre_activation.dtype = kFull; },
      "product's type");
  refuse(
      forward(kHalf), [](device::Gemm& op) { op.pre_activation = op.c; }, "differ");
  refuse(
      backward(kHalf), [](device::Gemm& op) { op.activation = device::Activation::None; },
      "names it");
  refuse(
      backward(kHalf), [](device::Gemm& op) { op.beta = 1; }, "beta 0");
  refuse(
      backward(kHalf), [](device::Gemm& op) { op.bias = view(3, kHalf); }, "no bias");
  refuse(
      backward(kHalf), [](device::Gemm& op) { op.gelu_input.dtype = kOther; }, "product's type");
  refuse(
      backward(kHalf), [](device::Gemm& op) { op.c_column_sums = view(3, kHalf); }, "n elements");
  refuse(
      backward(kHalf), [](device::Gemm& op) { op.c_column_sums = view(2, kFull); }, "n elements");
  refuse(
      product(kHalf), [](device::Gemm& op) { op.c_column_sums = view(3, kFull); }, "come with");
  refuse(
      product(kHalf), [](device::Gemm& op) { op.activation = device::Activation::GeluErf; },
      "comes with");
  refuse(
      with_sums(kHalf), [](device::Gemm& op) { op.transpose_a = false; }, "transposed a");
  refuse(
      with_sums(kHalf), [](device::Gemm& op) { op.a_column_sums.size = 4; }, "m elements");
  refuse(
      with_sums(kHalf), [](device::Gemm& op) { op.a_column_sums.dtype = kHalf; }, "m elements");
}

TEST(ShapeChecksDeathTest, FusedOperationsRefuseMixedTypes) {
  refuse(
      norm(kHalf), [](auto& op) { op.dx.dtype = kFull; }, "z's shape");
  refuse(
      norm(kHalf), [](auto& op) { op.gamma.dtype = kHalf; }, "hidden size");
  refuse(
      norm(kHalf), [](auto& op) { op.mean.dtype = kHalf; }, "mean and rstd");
  refuse(
      norm(kHalf), [](auto& op) { op.dgamma.dtype = kHalf; }, "dgamma");
  refuse(
      norm(kHalf), [](auto& op) { op.dbias.dtype = kHalf; }, "dbias");
  refuse(
      norm(kHalf), [](auto& op) { op.dbias.size = 7; }, "dbias");
  refuse(
      loss(kHalf), [](auto& op) { op.scale = {}; }, "one scale");
  refuse(
      loss(kHalf), [](auto& op) { op.scale.dtype = kHalf; }, "one scale");
  refuse(
      loss(kHalf), [](auto& op) { op.sums.dtype = kHalf; }, "three sums");
  refuse(
      loss(kHalf), [](auto& op) { op.stride = 2; }, "rows of all classes");
  refuse(
      attention(kHalf), [](auto& op) { op.out.dtype = kOther; }, "side by side");
  refuse(
      attention(kHalf), [](auto& op) { op.lse.dtype = kHalf; }, "one lse");
  refuse(
      attention(device::Dtype::Float8E5M2), [](auto&) {}, "T rows");
  refuse(
      embedding(kHalf), [](auto& op) { op.word.dtype = kFull; }, "x's type");
  refuse(
      embedding(kHalf), [](auto& op) { op.y.dtype = kFull; }, "T rows");
  refuse(
      update(), [](auto& op) { op.parameters.dtype = kHalf; }, "float32");
  refuse(
      update(), [](auto& op) { op.compute_copy = view(8, kFull); }, "16-bit type");
  refuse(
      update(), [](auto& op) { op.compute_copy = view(7, kHalf); }, "parameters' size");
}

TEST(ShapeChecksDeathTest, LossesRefuseWhatDoesNotFit) {
  for (const float smoothing : {-0.1F, 1.0F, 2.0F, std::nanf("")}) {
    refuse(
        loss(kFull), [&](auto& op) { op.label_smoothing = smoothing; }, "label smoothing");
    refuse(
        answers(kFull), [&](auto& op) { op.label_smoothing = smoothing; }, "label smoothing");
  }
  refuse(
      answers(kHalf), [](auto& op) { op.logits.size = 9; }, "beginning and an end");
  refuse(
      answers(device::Dtype::Int32), [](auto&) {}, "beginning and an end");
  refuse(
      answers(kHalf), [](auto& op) { op.answers.size = 5; }, "two answers");
  refuse(
      answers(kHalf), [](auto& op) { op.answers.dtype = kFull; }, "two answers");
  refuse(
      answers(kHalf), [](auto& op) { op.cumulative.size = 4; }, "two answers");
  refuse(
      answers(kHalf), [](auto& op) { op.cumulative = device::View{}; }, "int32 offsets");
  refuse(
      answers(kHalf), [](auto& op) { op.cumulative.size = 0; }, "int32 offsets");
  refuse(
      answers(kHalf), [](auto& op) { op.scale = {}; }, "one scale");
  refuse(
      answers(kHalf), [](auto& op) { op.sums.size = 2; }, "three sums");
  refuse(
      errors(kHalf), [](auto& op) { op.values.dtype = kHalf; }, "float32 value");
  refuse(
      errors(kHalf), [](auto& op) { op.values.size = 3; }, "float32 value");
  refuse(
      errors(device::Dtype::Int32), [](auto&) {}, "float32 value");
  refuse(
      errors(kHalf), [](auto& op) { op.scale.dtype = kHalf; }, "one scale");
  refuse(
      errors(kHalf), [](auto& op) { op.sums = {}; }, "three sums");
}

TEST(ShapeChecksDeathTest, NoiseIsSummedOverArraysOfOneSize) {
  device::check_shapes(noise_sums());
  struct Wrong {
    device::View device::NoiseSums::*which;
    device::View view;
    const char* why;
  };
  const Wrong cases[] = {{&device::NoiseSums::mean, view(8, kHalf), "float32 of one size"},
                         {&device::NoiseSums::difference, view(7, kFull), "float32 of one size"},
                         {&device::NoiseSums::second_moment, view(9, kFull), "float32 of one size"},
                         {&device::NoiseSums::scalars, view(1, kFull), "scalars of a step"},
                         {&device::NoiseSums::squared_norm, view(2, kFull), "scalars of a step"},
                         {&device::NoiseSums::sums, view(2, kFull), "four sums"}};
  for (const Wrong& wrong : cases) {
    refuse(
        noise_sums(), [&](auto& op) { op.*wrong.which = wrong.view; }, wrong.why);
  }
}

TEST(ShapeChecksDeathTest, LearningRatesAreMultiplesOfTheSteps) {
  for (const float rate : {-1.0F, -1e-6F, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    device::OptimizerTensor tensor{0, 8};
    tensor.learning_rate = rate;
    refuse(
        update(),
        [&](auto& op) {
          op.tensors = &tensor;
          op.tensor_count = 1;
        },
        "learning rate");
  }
}

device::OptimizerUpdate in_parts(device::UpdatePart part, const device::OptimizerTensor* tensor) {
  device::OptimizerUpdate op = update();
  op.lamb = true;
  op.part = part;
  op.tensors = tensor;
  op.tensor_count = 1;
  op.tensor_norms = view(6, kFull);
  return op;
}

TEST(ShapeChecks, UpdatesInPartsHaveNormsForEveryTensor) {
  for (const std::int64_t number : {0, 2}) {
    const device::OptimizerTensor tensor{0, 8, true, true, 1, number};
    for (const device::UpdatePart part :
         {device::UpdatePart::Moments, device::UpdatePart::Weights}) {
      device::check_shapes(in_parts(part, &tensor));
    }
  }
}

TEST(ShapeChecksDeathTest, UpdatesInPartsRefuseWhatHasNoNorms) {
  const device::OptimizerTensor tensor{0, 8, true, true, 1, 2};
  const device::OptimizerTensor negative{0, 8, true, true, 1, -1};
  for (const device::UpdatePart part : {device::UpdatePart::Moments, device::UpdatePart::Weights}) {
    const device::OptimizerUpdate op = in_parts(part, &tensor);
    refuse(
        op, [](auto& wrong) { wrong.lamb = false; }, "only LAMB");
    refuse(
        op, [](auto& wrong) { wrong.tensor_norms = device::View{}; }, "has norms");
    refuse(
        op, [](auto& wrong) { wrong.tensor_norms = view(7, kFull); }, "two float32 norms");
    refuse(
        op, [](auto& wrong) { wrong.tensor_norms = view(6, kHalf); }, "two float32 norms");
    refuse(
        op, [](auto& wrong) { wrong.tensor_norms = view(4, kFull); }, "has norms");
    refuse(
        op, [&](auto& wrong) { wrong.tensors = &negative; }, "has norms");
  }
}

TEST(ShapeChecksDeathTest, SmallOperationsRefuseMixedTypes) {
  EXPECT_DEATH(device::check_elementwise(view(4, kHalf), view(4, kFull)), "one type");
  EXPECT_DEATH(
      device::check_elementwise(view(4, device::Dtype::Int32), view(4, device::Dtype::Int32)),
      "one type");
  EXPECT_DEATH(device::check_column_sums(view(6, kHalf), 3, view(3, kHalf)), "column sums");
  EXPECT_DEATH(
      device::check_row_selection(view(6, kHalf), view(2, device::Dtype::Int32), 3, view(6, kFull)),
      "one row per index");
  EXPECT_DEATH(device::check_convert(view(3, kHalf), view(3, kOther)), "between float32");
  EXPECT_DEATH(device::check_convert(view(3, kFull), view(3, kFull)), "between float32");
  EXPECT_DEATH(device::check_convert(view(3, kHalf), view(4, kFull)), "keeps the size");
  EXPECT_DEATH(device::check_sum_of_squares(view(3, kHalf), view(1, kFull)), "one float32");
  EXPECT_DEATH(device::check_limit_norm(view(3, kHalf), view(1, kFull), view(1, kFull)),
               "is float32");
  EXPECT_DEATH(device::check_limit_norm(view(3, kFull), view(2, kFull), view(1, kFull)),
               "one float32");
  EXPECT_DEATH(device::check_limit_norm(view(3, kFull), view(1, kFull), view(1, kHalf)),
               "one float32");
  EXPECT_DEATH(device::check_copy(view(3, kHalf), view(3, kOther)), "keeps type");
}

}  // namespace
}  // namespace regatta::tests
