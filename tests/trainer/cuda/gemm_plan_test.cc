// The choices behind products, without a GPU: keys, what may fuse, which time wins, the file.
#include "trainer/cuda/gemm_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace regatta::trainer::cuda {
namespace {

using testing::HasSubstr;

// A view at an address that is `offset` bytes past a boundary of 256; never read.
device::View view(std::int64_t size, device::Dtype dtype = device::Dtype::BFloat16,
                  std::uintptr_t offset = 0) {
  return {reinterpret_cast<void*>(std::uintptr_t{0x10000} + offset), size, dtype};
}

device::Gemm product(device::Dtype inputs = device::Dtype::BFloat16,
                     device::Dtype result = device::Dtype::BFloat16) {
  device::Gemm op;
  op.m = 96;
  op.n = 64;
  op.k = 32;
  op.a = view(op.m * op.k, inputs);
  op.b = view(op.k * op.n, inputs);
  op.c = view(op.m * op.n, result);
  return op;
}
device::Gemm forward(device::Activation activation, bool bias) {
  device::Gemm op = product();
  op.activation = activation;
  op.pre_activation = view(op.m * op.n);
  if (bias) op.bias = view(op.n);
  return op;
}
device::Gemm backward(device::Dtype dtype, bool sums) {
  device::Gemm op = product(dtype, dtype);
  op.activation = device::Activation::GeluTanh;
  op.gelu_input = view(op.m * op.n, dtype, 0x1000);
  if (sums) op.c_column_sums = view(op.n, device::Dtype::Float32);
  return op;
}
device::Gemm input_sums(device::Dtype result) {
  device::Gemm op = product(device::Dtype::BFloat16, result);
  op.transpose_a = true;
  op.beta = 1;
  op.a_column_sums = view(op.m, device::Dtype::Float32);
  return op;
}

TEST(GemmKey, HoldsWhatTheChoiceDependsOn) {
  device::Gemm op = product(device::Dtype::BFloat16, device::Dtype::Float32);
  op.transpose_b = true;
  op.beta = 1;
  op.bias = view(op.n, device::Dtype::Float32);
  const GemmKey key = key_of(op, false);
  EXPECT_EQ(key.m, 96);
  EXPECT_EQ(key.n, 64);
  EXPECT_EQ(key.k, 32);
  EXPECT_FALSE(key.transpose_a);
  EXPECT_TRUE(key.transpose_b);
  EXPECT_EQ(key.type, GemmType::BFloat16);
  EXPECT_TRUE(key.float_result);
  EXPECT_TRUE(key.accumulate);
  EXPECT_EQ(key.tail, GemmTail::Bias);
  EXPECT_EQ(key.alignment, 16);
}

TEST(GemmKey, TensorFloatIsAnotherKindOfFloat) {
  const device::Gemm floats = product(device::Dtype::Float32, device::Dtype::Float32);
  EXPECT_EQ(key_of(floats, false).type, GemmType::Float32);
  EXPECT_EQ(key_of(floats, true).type, GemmType::TensorFloat32);
  EXPECT_EQ(key_of(product(device::Dtype::Float16, device::Dtype::Float16), true).type,
            GemmType::Float16);
}

TEST(GemmKey, AlignmentIsTheWorstOperands) {
  for (const unsigned offset : {2U, 4U, 8U, 16U, 48U}) {
    const int expected = offset == 48 ? 16 : static_cast<int>(offset);
    for (device::View device::Gemm::*field : {&device::Gemm::a, &device::Gemm::b, &device::Gemm::c,
                                              &device::Gemm::pre_activation, &device::Gemm::bias}) {
      device::Gemm op = forward(device::Activation::GeluTanh, true);
      op.*field = view((op.*field).size, device::Dtype::BFloat16, offset);
      EXPECT_EQ(key_of(op, false).alignment, expected) << offset;
    }
  }
}

TEST(GemmKeyDeathTest, FloatEightIsNotThereYet) {
  EXPECT_DEATH(static_cast<void>(key_of(product(device::Dtype::Float8E4M3), false)),
               "not there yet");
  EXPECT_DEATH(static_cast<void>(key_of(product(device::Dtype::Float8E5M2), false)),
               "not there yet");
}

struct FuseCase {
  const char* name;
  device::Gemm op;
  GemmTail tail;
  bool fuses;
};

std::vector<FuseCase> fuse_cases() {
  device::Gemm accumulated = product();
  accumulated.beta = 1;
  device::Gemm narrow = forward(device::Activation::GeluTanh, true);  // rows of 68 elements
  narrow.n = 68;
  device::Gemm odd_address = forward(device::Activation::GeluTanh, true);
  odd_address.pre_activation.data = view(1, device::Dtype::BFloat16, 8).data;
  device::Gemm odd_input = backward(device::Dtype::BFloat16, false);
  odd_input.gelu_input.data = view(1, device::Dtype::BFloat16, 0x1004).data;
  device::Gemm float_forward = product(device::Dtype::Float32, device::Dtype::Float32);
  float_forward.activation = device::Activation::GeluTanh;
  float_forward.pre_activation = view(float_forward.m * float_forward.n, device::Dtype::Float32);
  device::Gemm widened =
      forward(device::Activation::GeluTanh, false);  // 16-bit factors, a float32 result
  widened.c.dtype = widened.pre_activation.dtype = device::Dtype::Float32;
  device::Gemm erf_gradient = backward(device::Dtype::BFloat16, false);
  erf_gradient.activation = device::Activation::GeluErf;
  device::Gemm sums_and_bias = input_sums(device::Dtype::Float32);
  sums_and_bias.bias = view(sums_and_bias.n, device::Dtype::Float32);
  return {
      {"plain", product(), GemmTail::None, true},
      {"accumulated", accumulated, GemmTail::None, true},
      {"tanh", forward(device::Activation::GeluTanh, false), GemmTail::Gelu, true},
      {"tanh with bias", forward(device::Activation::GeluTanh, true), GemmTail::GeluBias, true},
      {"erf", forward(device::Activation::GeluErf, false), GemmTail::Gelu, false},
      {"erf with bias", forward(device::Activation::GeluErf, true), GemmTail::GeluBias, false},
      {"rows not of 8", narrow, GemmTail::GeluBias, false},
      {"pre-activation at 8 bytes", odd_address, GemmTail::GeluBias, false},
      {"gradient", backward(device::Dtype::BFloat16, false), GemmTail::GeluGradient, true},
      {"gradient of erf", erf_gradient, GemmTail::GeluGradient, false},
      {"gradient at 4 bytes", odd_input, GemmTail::GeluGradient, false},
      {"float tanh", float_forward, GemmTail::Gelu, false},
      {"tanh of a widened result", widened, GemmTail::Gelu, false},
      {"float gradient", backward(device::Dtype::Float32, false), GemmTail::GeluGradient, false},
      {"float gradient, sums", backward(device::Dtype::Float32, true), GemmTail::GeluGradientSums,
       false},
      {"16-bit gradient, sums", backward(device::Dtype::BFloat16, true), GemmTail::GeluGradientSums,
       false},
      {"input sums", input_sums(device::Dtype::Float32), GemmTail::InputSums, true},
      {"input sums of a 16-bit result", input_sums(device::Dtype::BFloat16), GemmTail::InputSums,
       false},
      {"input sums and bias", sums_and_bias, GemmTail::InputSumsBias, false},
  };
}

TEST(GemmTail, FusesOnlyWhatTheLibraryDoesToTheContract) {
  for (const FuseCase& c : fuse_cases()) {
    const GemmKey key = key_of(c.op, false);
    EXPECT_EQ(key.tail, c.tail) << c.name;
    EXPECT_EQ(tail_can_fuse(key), c.fuses) << c.name;
  }
}

// Peeling a tail off leaves a product with a smaller one, down to none, and never loses the rest.
TEST(GemmTail, PeelsDownToAPlainProduct) {
  for (const FuseCase& c : fuse_cases()) {
    device::Gemm op = c.op;
    int steps = 0;
    for (GemmTail tail = key_of(op, false).tail; tail != GemmTail::None;
         tail = key_of(op, false).tail) {
      op = without_tail(op, tail);
      ASSERT_LT(++steps, 4) << c.name;
    }
    const GemmKey key = key_of(op, false);
    EXPECT_EQ(key.m, c.op.m) << c.name;
    EXPECT_EQ(key.accumulate, c.op.beta != 0) << c.name;
    EXPECT_EQ(op.c.data,
              c.op.pre_activation.data != nullptr ? c.op.pre_activation.data : c.op.c.data)
        << c.name;
    EXPECT_EQ(op.activation, device::Activation::None) << c.name;
  }
  const device::Gemm op = forward(device::Activation::GeluErf, true);
  EXPECT_EQ(key_of(without_tail(op, GemmTail::GeluBias), false).tail, GemmTail::Bias);
  EXPECT_EQ(
      key_of(without_tail(backward(device::Dtype::BFloat16, true), GemmTail::GeluGradientSums),
             false)
          .tail,
      GemmTail::GeluGradient);
}

GemmPlan timed(GemmPath path, std::uint64_t word, double microseconds) {
  GemmPlan plan;
  plan.path = path;
  plan.algorithm[0] = word;
  plan.microseconds = microseconds;
  return plan;
}

TEST(Fastest, TakesTheSmallestTimeAndTheEarlierOnATie) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const struct {
    const char* name;
    std::vector<double> times;
    int winner;  // −1: none
  } cases[] = {
      {"nothing", {}, -1},
      {"one", {5}, 0},
      {"the last", {5, 4, 3}, 2},
      {"the first", {3, 4, 5}, 0},
      {"a tie", {3, 3, 3}, 0},
      {"within a hundredth", {3, 2.98, 2.99}, 0},
      {"more", {3, 2.9}, 1},
      {"zero: the clock is too coarse", {0, 0}, 0},
      {"no number", {nan, 7}, 1},
      {"only no number", {nan}, -1},
      {"no number last", {7, nan}, 0},
  };
  for (const auto& c : cases) {
    std::vector<GemmPlan> candidates;
    for (std::size_t i = 0; i < c.times.size(); ++i) {
      candidates.push_back(timed(GemmPath::Library, i, c.times[i]));
    }
    const std::optional<GemmPlan> best = fastest(candidates);
    ASSERT_EQ(best.has_value(), c.winner >= 0) << c.name;
    const std::uint64_t won = best ? best->algorithm[0] : 0;
    EXPECT_EQ(won, c.winner < 0 ? 0 : static_cast<std::uint64_t>(c.winner)) << c.name;
  }
}

GemmCache example() {
  GemmCache cache;
  for (const FuseCase& c : fuse_cases()) {
    GemmKey key = key_of(c.op, false);
    const GemmPath path = c.fuses ? GemmPath::Library : GemmPath::Separate;
    cache.put("NVIDIA H200 / cuBLASLt 13.1.0", key, timed(path, 0xfedcba9876543210ULL, 12.125));
    key.k = std::int64_t{1} << 33;
    cache.put("NVIDIA A100-SXM4-40GB / cuBLASLt 13.1.0", key, timed(path, 7, 0));
  }
  GemmKey odd = key_of(product(device::Dtype::Float32, device::Dtype::Float32), true);
  odd.alignment = 4;
  cache.put("NVIDIA H200 / cuBLASLt 13.1.0", odd, timed(GemmPath::BuiltIn, 0, 1));
  return cache;
}

TEST(GemmCache, ComesBackFromItsText) {
  const GemmCache cache = example();
  const std::string text = cache.text();
  const GemmCache again = GemmCache::parse(text);
  EXPECT_EQ(again.size(), cache.size());
  EXPECT_EQ(again.text(), text);
  const GemmKey key = key_of(input_sums(device::Dtype::Float32), false);
  const GemmPlan* plan = again.find("NVIDIA H200 / cuBLASLt 13.1.0", key);
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(*plan, timed(GemmPath::Library, 0xfedcba9876543210ULL, 12.125));
  EXPECT_EQ(again.find("NVIDIA H200 / cuBLASLt 13.2.0", key), nullptr);
  EXPECT_EQ(GemmCache::parse(GemmCache().text()).size(), 0U);
}

TEST(GemmCache, MergesWithoutForgetting) {
  const GemmKey key = key_of(product(), false);
  GemmKey other = key;
  other.m = 7;
  GemmCache mine, theirs;
  mine.put("gpu", key, timed(GemmPath::Library, 1, 1));
  theirs.put("gpu", key, timed(GemmPath::Library, 2, 2));
  theirs.put("gpu", other, timed(GemmPath::BuiltIn, 0, 3));
  theirs.put("another", key, timed(GemmPath::Library, 4, 4));
  mine.merge(theirs);
  EXPECT_EQ(mine.size(), 3U);
  EXPECT_EQ(mine.find("gpu", key)->algorithm[0], 1U);
  EXPECT_EQ(mine.find("gpu", other)->path, GemmPath::BuiltIn);
  EXPECT_EQ(mine.find("another", key)->algorithm[0], 4U);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t found = text.find(from);
  EXPECT_NE(found, std::string::npos) << from;
  return text.replace(found, from.size(), to);
}

TEST(GemmCache, RefusesWhatItDidNotWrite) {
  GemmCache cache;
  GemmPlan plan = timed(GemmPath::Library, 9, 2.5);
  cache.put("gpu", key_of(product(), false), plan);
  const std::string good = cache.text();
  const std::string entry = base::split(good, '\n')[2];
  const struct {
    const char* name;
    std::string text;
    const char* message;
  } cases[] = {
      {"empty", "", "line 1 does not begin"},
      {"another file", "{\"a\": 1}\n", "line 1 does not begin"},
      {"another version", replaced(good, "regatta-gemm 1", "regatta-gemm 2"), "line 1"},
      {"binary", std::string("\0\x01\x02\xff", 4), "line 1"},
      {"cut inside the last line", good.substr(0, good.size() - 1), "does not end the file"},
      {"cut after an entry", good.substr(0, good.find("end ")), "does not count"},
      {"cut after the header", "regatta-gemm 1\n", "does not end the file"},
      {"wrong count", replaced(good, "end 1", "end 2"), "does not count the 1 products"},
      {"no machine", replaced(good, "machine gpu\n", ""), "line 2 comes before any machine"},
      {"empty machine", replaced(good, "machine gpu", "machine "), "names no machine"},
      {"repeated entry", replaced(good, entry, entry + "\n" + entry), "repeats a product"},
      {"too few fields", replaced(good, "96 64 32 ", "96 64 "), "20 fields, not 21"},
      {"too many fields", replaced(good, "96 64 32 ", "96 64 32 1 "), "22 fields, not 21"},
      {"negative size", replaced(good, "96 64", "-96 64"), "'-96'"},
      {"size of nothing", replaced(good, "64 32 ", "64 0 "), "'0'"},
      {"huge size", replaced(good, "96 64", "99999999999999 64"), "99999999999999"},
      {"not a number", replaced(good, "96 64", "9x 64"), "'9x'"},
      {"flag of two", replaced(good, "32 0 0", "32 2 0"), "'2'"},
      {"unknown type", replaced(good, "bfloat16", "bfloat8"), "unknown word 'bfloat8'"},
      {"unknown tail", replaced(good, "none", "relu"), "unknown word 'relu'"},
      {"unknown path", replaced(good, "library", "guess"), "unknown word 'guess'"},
      {"escape sequence", replaced(good, "none", "\x1b[2J"), "\\x1b[2J"},
      {"time of nothing", replaced(good, "2.500", "nan"), "for a time"},
      {"negative time", replaced(good, "2.500", "-2.500"), "for a time"},
      {"short word", replaced(good, "0000000000000009", "9"), "16 hexadecimal digits"},
      {"not hexadecimal", replaced(good, "0000000000000009", "000000000000000g"), "hexadecimal"},
      {"nothing to separate", replaced(good, "library", "separate"), "has no tail"},
      {"built-in with a tail", replaced(replaced(good, "none", "bias"), "library", "built-in"),
       "a tail on a built-in"},
      {"fused erf", replaced(good, "none", "gelu"), "fuses a tail"},
      {"fused float32", replaced(good, "bfloat16 0 0 none 0", "bfloat16 1 0 gelu 1"),
       "fuses a tail"},
  };
  for (const auto& c : cases) {
    try {
      static_cast<void>(GemmCache::parse(c.text));
      ADD_FAILURE() << c.name << " was accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << c.name;
      EXPECT_THAT(base::printable(error.what()), HasSubstr(c.message)) << c.name;
    }
  }
}

}  // namespace
}  // namespace regatta::trainer::cuda
