// What belongs to the CPU device alone: equal bits with any number of threads, instruction sets and
// products that agree, refusals.
#include "trainer/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "tests/trainer/device/whole_layer.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

TEST(CpuDevice, GivesTheSameBitsWithAnyNumberOfThreads) {
  for (const cpu::CpuProducts products : {cpu::CpuProducts::Fastest, cpu::CpuProducts::BuiltIn}) {
    const auto one = cpu::make_cpu_device({1, "", products});
    const std::vector<NamedResult> expected = run_every_operation(*one);
    for (const int threads : {2, 3}) {
      const auto device = cpu::make_cpu_device({threads, "", products});
      const std::vector<NamedResult> results = run_every_operation(*device);
      ASSERT_EQ(results.size(), expected.size());
      for (std::size_t i = 0; i < results.size(); ++i) {
        ASSERT_EQ(results[i].values.size(), expected[i].values.size());
        EXPECT_EQ(std::memcmp(results[i].values.data(), expected[i].values.data(),
                              results[i].values.size() * sizeof(float)),
                  0)
            << results[i].name << " with " << threads << " threads";
      }
    }
  }
}

void expect_same_bits(const std::vector<NamedResult>& results,
                      const std::vector<NamedResult>& expected, const std::string& where) {
  ASSERT_EQ(results.size(), expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    ASSERT_EQ(results[i].values.size(), expected[i].values.size());
    EXPECT_EQ(std::memcmp(results[i].values.data(), expected[i].values.data(),
                          results[i].values.size() * sizeof(float)),
              0)
        << results[i].name << " by " << where;
  }
}

// One by one, so that the first that differs is named. Plain code has 4 lanes, AVX2 8, AVX-512 16.
TEST(CpuDevice, PortableArithmeticHasTheSameBitsOnEveryInstructionSet) {
  using cpu::CpuArithmetic;
  const auto portable = [](int threads, const std::string& isa) {
    return cpu::make_cpu_device({threads, isa, cpu::CpuProducts::Fastest, CpuArithmetic::Portable});
  };
  const std::vector<NamedResult> expected = run_every_operation(*portable(1, "baseline"));
  for (const std::string& isa : cpu::cpu_instruction_sets()) {
    for (const int threads : {1, 2, 3}) {
      const auto device = portable(threads, isa);
      expect_same_bits(run_every_operation(*device), expected, device->description());
    }
  }
  // Sizes that no vector divides, sums that go on over blocks, and edges of blocks.
  const auto odd = [](device::Device& device) {
    Harness at(device);
    Numbers numbers(5);
    std::vector<NamedResult> results;
    for (const std::int64_t m : {1, 37, 101}) {
      for (const std::int64_t n : {3, 29, 67}) {
        device::Gemm op;
        op.m = m;
        op.n = n;
        op.k = 531;
        op.a = at.floats(numbers.floats(op.m * op.k));
        op.b = at.floats(numbers.floats(op.k * op.n));
        op.bias = at.floats(numbers.floats(op.n));
        op.c = at.output(op.m * op.n);
        device.gemm(0, op);
        results.push_back({"product", at.read(op.c)});
        const device::View y = at.output(op.m * op.n);
        device.gelu_forward(0, op.c, y, n == 3);
        results.push_back({"gelu", at.read(y)});
        const device::View sum = at.output(1);
        device.sum_of_squares(0, op.c, sum);
        results.push_back({"squares", at.read(sum)});
        device::CrossEntropy loss;
        loss.logits = op.c;
        loss.labels = at.ints(numbers.below(m, static_cast<std::int32_t>(n)));
        loss.classes = n;
        loss.scale = at.floats({0.01F});
        loss.sums = at.floats({0, 0, 0});
        device.cross_entropy(0, loss);
        results.push_back({"logits", at.read(op.c)});
        results.push_back({"losses", at.read(loss.sums)});
      }
    }
    return results;
  };
  const std::vector<NamedResult> odd_expected = odd(*portable(1, "baseline"));
  for (const std::string& isa : cpu::cpu_instruction_sets()) {
    expect_same_bits(odd(*portable(2, isa)), odd_expected, isa);
  }
  // The test would see a difference: other arithmetic rounds otherwise.
  const auto fused = cpu::make_cpu_device({1, "", cpu::CpuProducts::BuiltIn});
  const std::vector<NamedResult> results = run_every_operation(*fused);
  bool differs = false;
  for (std::size_t i = 0; i < results.size(); ++i) {
    differs = differs || results[i].values != expected[i].values;
  }
  EXPECT_TRUE(differs);
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, static_cast<double>(std::abs(a[i] - b[i])));
    size = std::max(size, static_cast<double>(std::abs(a[i])));
  }
  return difference / (size > 0 ? size : 1);
}

// Rounding only: sums of up to 600 terms in another order differ by far less than 1e-5 of the
// largest element, a wrong mask or index by about 1.
TEST(CpuDevice, InstructionSetsAndProductsAgree) {
  const auto reference = cpu::make_cpu_device({1, "baseline", cpu::CpuProducts::BuiltIn});
  const std::vector<NamedResult> expected = run_every_operation(*reference);
  for (const std::string& isa : cpu::cpu_instruction_sets()) {
    for (const cpu::CpuProducts products :
         {cpu::CpuProducts::BuiltIn, cpu::CpuProducts::OneDnn, cpu::CpuProducts::Fastest}) {
      const auto device = cpu::make_cpu_device({2, isa, products});
      const std::vector<NamedResult> results = run_every_operation(*device);
      ASSERT_EQ(results.size(), expected.size());
      for (std::size_t i = 0; i < results.size(); ++i) {
        ASSERT_EQ(results[i].values.size(), expected[i].values.size());
        EXPECT_LT(distance(results[i].values, expected[i].values), 1e-5)
            << results[i].name << " by " << device->description();
      }
    }
  }
}

TEST(CpuDevice, EpiloguesGiveTheBitsOfSeparateOperations) {
  for (const cpu::CpuProducts products : {cpu::CpuProducts::Fastest, cpu::CpuProducts::BuiltIn}) {
    const auto device = cpu::make_cpu_device({2, "", products});
    Harness at(*device);
    Numbers numbers(1);
    device::Gemm op;
    op.m = 70;
    op.n = 33;
    op.k = 40;
    op.a = at.floats(numbers.floats(op.m * op.k));
    op.b = at.floats(numbers.floats(op.k * op.n));
    op.bias = at.floats(numbers.floats(op.n));
    const device::View before = op.c = at.output(op.m * op.n);
    device->gemm(0, op);
    const device::View after = at.output(op.m * op.n);
    device->gelu_forward(0, before, after, true);
    op.activation = device::Activation::GeluTanh;
    op.pre_activation = at.output(op.m * op.n);
    op.c = at.output(op.m * op.n);
    device->gemm(0, op);
    EXPECT_EQ(at.read(op.pre_activation), at.read(before));
    EXPECT_EQ(at.read(op.c), at.read(after));

    device::Gemm back = op;
    back.bias = {};
    back.pre_activation = {};
    back.activation = device::Activation::None;
    back.c = at.output(op.m * op.n);
    device->gemm(0, back);
    device->gelu_backward(0, before, back.c, back.c, true);
    const device::View sums = at.floats(std::vector<float>(33, 2.0F));
    device->add_column_sums(0, back.c, op.n, sums);
    const device::View separate = back.c;
    back.activation = device::Activation::GeluTanh;
    back.gelu_input = before;
    back.c = at.output(op.m * op.n);
    back.c_column_sums = at.floats(std::vector<float>(33, 2.0F));
    device->gemm(0, back);
    EXPECT_EQ(at.read(back.c), at.read(separate));
    EXPECT_EQ(at.read(back.c_column_sums), at.read(sums));
  }
}

TEST(CpuDevice, ComputesInFloat32Only) {
  const auto device = cpu::make_cpu_device(1);
  for (const device::Dtype type :
       {device::Dtype::Float32, device::Dtype::BFloat16, device::Dtype::Float16,
        device::Dtype::Float8E4M3, device::Dtype::Float8E5M2, device::Dtype::Int32,
        device::Dtype::Byte}) {
    EXPECT_EQ(device->computes_in(type), type == device::Dtype::Float32);
  }
  EXPECT_EQ(device->token_bucket(), 1);
}

TEST(CpuDevice, DescribesItself) {
  const std::string text =
      cpu::make_cpu_device({3, "baseline", cpu::CpuProducts::BuiltIn})->description();
  EXPECT_EQ(text, "CPU, 3 threads, baseline, matrix products: built in");
  EXPECT_EQ(
      cpu::make_cpu_device({1, "baseline", cpu::CpuProducts::OneDnn, cpu::CpuArithmetic::Portable})
          ->description(),
      "CPU, 1 threads, baseline, matrix products: built in, portable");
}

TEST(CpuDevice, RefusesMoreMemoryThanTheMachineHas) {
  const auto device = cpu::make_cpu_device(1);
  for (const std::int64_t bytes : {std::int64_t{1} << 50, INT64_MAX}) {
    try {
      (void)device->allocate(bytes);
      FAIL() << "allocated " << bytes;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::Operator);
      EXPECT_NE(std::string(error.what()).find(std::to_string(bytes)), std::string::npos);
    }
  }
  EXPECT_EQ(device->peak_bytes(), 0);
}

struct RefusedOptions {
  cpu::CpuOptions options;
  const char* named;
};

TEST(CpuDevice, RefusesImpossibleOptions) {
  const RefusedOptions rows[] = {
      {{0, ""}, "0 threads"},
      {{-3, ""}, "-3 threads"},
      {{1, "avx1024"}, "avx1024"},
      {{1, "AVX2"}, "AVX2"},
  };
  for (const RefusedOptions& row : rows) {
    try {
      (void)cpu::make_cpu_device(row.options);
      FAIL() << row.named;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_NE(std::string(error.what()).find(row.named), std::string::npos) << error.what();
    }
  }
}

device::SpanCrossEntropy small_answers(Harness& at, const std::vector<std::int32_t>& answers,
                                       const std::vector<std::int32_t>& cumulative) {
  device::SpanCrossEntropy op;
  op.logits = at.floats(std::vector<float>(10));
  op.answers = at.ints(answers);
  op.cumulative = at.ints(cumulative);
  op.scale = at.output(1);
  op.sums = at.output(3);
  return op;
}

// A misuse and words of the invariant that it breaks.
struct Misuse {
  const char* name;
  const char* invariant;
  void (*run)(device::Device& device, Harness& at);
};

device::Gemm small_gemm(Harness& at) {
  device::Gemm op;
  op.m = 2;
  op.n = 3;
  op.k = 4;
  op.a = at.output(8);
  op.b = at.output(12);
  op.c = at.output(6);
  return op;
}
device::LayerNormForward small_norm(Harness& at, std::int64_t hidden) {
  device::LayerNormForward op;
  op.x = at.output(2 * hidden);
  op.gamma = at.output(hidden);
  op.beta = at.output(hidden);
  op.z = op.x;
  op.mean = at.output(2);
  op.rstd = at.output(2);
  op.y = at.output(2 * hidden);
  return op;
}
device::AttentionForward small_attention(Harness& at) {
  device::AttentionForward op;
  op.qkv = at.output(5 * 3 * 8);
  op.out = at.output(5 * 8);
  op.lse = at.output(5 * 2);
  op.heads = 2;
  op.tokens.cumulative = at.ints({0, 2, 5});
  op.tokens.max_length = 3;
  return op;
}

const Misuse kMisuses[] = {
    {"gemm a", "a of a matrix product",
     [](device::Device& device, Harness& at) {
       device::Gemm op = small_gemm(at);
       op.a = at.output(9);
       device.gemm(0, op);
     }},
    {"gemm integers", "b of a matrix product",
     [](device::Device& device, Harness& at) {
       device::Gemm op = small_gemm(at);
       op.b = at.ints(std::vector<std::int32_t>(12));
       device.gemm(0, op);
     }},
    {"gemm beta", "beta of a matrix product",
     [](device::Device& device, Harness& at) {
       device::Gemm op = small_gemm(at);
       op.beta = 0.5F;
       device.gemm(0, op);
     }},
    {"gemm bias", "a bias has n elements",
     [](device::Device& device, Harness& at) {
       device::Gemm op = small_gemm(at);
       op.bias = at.output(2);
       device.gemm(0, op);
     }},
    {"gemm of no depth", "a k above 0",
     [](device::Device& device, Harness& at) {
       device::Gemm op = small_gemm(at);
       op.k = 0;
       device.gemm(0, op);
     }},
    {"hidden size", "multiple of 8",
     [](device::Device& device, Harness& at) { device.layer_norm_forward(0, small_norm(at, 12)); }},
    {"norm without its mean", "mean and rstd",
     [](device::Device& device, Harness& at) {
       device::LayerNormForward op = small_norm(at, 8);
       op.mean = at.output(1);
       device.layer_norm_forward(0, op);
     }},
    {"dropout without identity", "dropout knows",
     [](device::Device& device, Harness& at) {
       device::LayerNormForward op = small_norm(at, 8);
       op.dropout.threshold = 100;
       device.layer_norm_forward(0, op);
     }},
    {"dropout of everything", "below 65536",
     [](device::Device& device, Harness& at) {
       device::LayerNormForward op = small_norm(at, 8);
       op.dropout.threshold = 65536;
       device.layer_norm_forward(0, op);
     }},
    {"attention qkv", "side by side",
     [](device::Device& device, Harness& at) {
       device::AttentionForward op = small_attention(at);
       op.qkv = op.out;
       device.attention_forward(0, op);
     }},
    {"attention longer than it says", "longer than max_length",
     [](device::Device& device, Harness& at) {
       device::AttentionForward op = small_attention(at);
       op.tokens.max_length = 2;
       device.attention_forward(0, op);
     }},
    {"attention offsets", "run from 0 to T",
     [](device::Device& device, Harness& at) {
       device::AttentionForward op = small_attention(at);
       op.tokens.cumulative = at.ints({0, 3, 6});
       device.attention_forward(0, op);
     }},
    {"label", "one of the classes",
     [](device::Device& device, Harness& at) {
       device::CrossEntropy op;
       op.logits = at.output(6);
       op.labels = at.ints({0, 3});
       op.classes = 3;
       op.scale = at.output(1);
       op.sums = at.output(3);
       device.cross_entropy(0, op);
     }},
    {"answer behind its sample", "begins and ends in its sample",
     [](device::Device& device, Harness& at) {
       device.span_cross_entropy(0, small_answers(at, {0, 2, 2, 1}, {0, 2, 5}));
     }},
    {"answer below none", "begins and ends in its sample",
     [](device::Device& device, Harness& at) {
       device.span_cross_entropy(0, small_answers(at, {0, -2, 2, 1}, {0, 2, 5}));
     }},
    {"answer of an empty sample", "begins and ends in its sample",
     [](device::Device& device, Harness& at) {
       device.span_cross_entropy(0, small_answers(at, {0, 0, 0, 0}, {0, 5, 5}));
     }},
    {"answers of more tokens than there are", "run from 0 to T",
     [](device::Device& device, Harness& at) {
       device.span_cross_entropy(0, small_answers(at, {0, 0, 0, 0}, {0, 2, 6}));
     }},
    {"answers of samples that overlap", "offsets never fall",
     [](device::Device& device, Harness& at) {
       device.span_cross_entropy(0, small_answers(at, {0, 0, -1, -1}, {0, 4, 3}));
     }},
    {"gathered row", "a gathered row exists",
     [](device::Device& device, Harness& at) {
       device.gather_rows(0, at.output(8), at.ints({0, 4}), 2, at.output(4));
     }},
    {"scattered row", "a row to scatter to exists",
     [](device::Device& device, Harness& at) {
       device.scatter_add_rows(0, at.output(4), at.ints({0, 4}), 2, at.output(8));
     }},
    {"column sums", "one element per column",
     [](device::Device& device, Harness& at) {
       device.add_column_sums(0, at.output(7), 2, at.output(2));
     }},
    {"unequal sizes", "of one size",
     [](device::Device& device, Harness& at) { device.add(0, at.output(7), at.output(8)); }},
    {"copy of another type", "keeps type and size",
     [](device::Device& device, Harness& at) {
       device.copy(0, at.output(2), at.ints({1, 2}));
     }},
    {"tensor outside", "lies in the optimizer's slice",
     [](device::Device& device, Harness& at) {
       const device::OptimizerTensor tensor{4, 5, true, true};
       device::OptimizerUpdate op;
       op.parameters = op.gradients = op.first_moment = op.second_moment = at.output(8);
       op.tensors = &tensor;
       op.tensor_count = 1;
       op.scalars = at.output(device::kStepScalars);
       op.squared_norm = at.output(1);
       device.update(0, op);
     }},
    {"bfloat16", "computes in float32",
     [](device::Device& device, Harness& at) {
       const device::View x = at.output_of(device::Dtype::BFloat16, 8);
       device.add(0, x, x);
     }},
    {"float16 product", "computes in float32",
     [](device::Device& device, Harness& at) {
       device::Gemm op = small_gemm(at);
       op.a = at.output_of(device::Dtype::Float16, 8);
       op.b = at.output_of(device::Dtype::Float16, 12);
       device.gemm(0, op);
     }},
    {"foreign host memory", "only memory of this device",
     [](device::Device& device, Harness&) {
       float mine = 0;
       device.release_host(&mine);
     }},
    {"stream", "a stream comes from make_stream",
     [](device::Device& device, Harness& at) { device.fill_zero(1, at.output(1)); }},
    {"event", "recorded before it is waited for",
     [](device::Device& device, Harness&) { device.wait_host(1); }},
    {"slice", "inside its view",
     [](device::Device&, Harness& at) { (void)at.output(4).slice(2, 3); }},
    {"foreign memory", "only memory of this device",
     [](device::Device& device, Harness&) {
       float mine = 0;
       device.release(&mine);
     }},
};

TEST(CpuDeviceDeathTest, MisuseAbortsInWords) {
  for (const Misuse& misuse : kMisuses) {
    EXPECT_DEATH(
        {
          const auto device = cpu::make_cpu_device(1);
          Harness at(*device);
          misuse.run(*device, at);
        },
        misuse.invariant)
        << misuse.name;
  }
}

}  // namespace
}  // namespace regatta::tests
