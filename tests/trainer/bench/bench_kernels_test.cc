#include "trainer/bench/bench_kernels.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/error.h"
#include "tests/trainer/device/recording_device.h"
#include "tests/trainer/model/random_model.h"
#include "trainer/bench/bench_kernel_cases.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/bert.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

bench::BenchKernelsOptions small_options() {
  bench::BenchKernelsOptions options;
  options.shape = contract::preset_shape("tiny");
  options.shape.hidden = 32;
  options.shape.heads = 2;
  options.shape.feed_forward = 64;
  options.shape.vocabulary = 100;
  options.shape.max_positions = 30;
  options.model_name = "test";
  options.lengths_name = "t";
  options.dtype_name = "float32";
  options.attention_name = "automatic";
  options.samples = 6;
  options.repetitions = 3;
  options.batch_seconds = 1e-4;
  options.product_side = 64;
  options.copy_bytes = 1 << 16;
  return options;
}

nlohmann::json run(const bench::BenchKernelsOptions& options) {
  const contract::LengthTable lengths = contract::LengthTable::parse("8,39,1\n", "t");
  const auto device = cpu::make_cpu_device(1);
  return nlohmann::json::parse(
      bench::bench_kernels(*device, base::system_clock(), lengths, options));
}

TEST(BenchKernels, TimesEveryOperationOfAStep) {
  const nlohmann::json json = run(small_options());
  std::multiset<std::string> names;
  for (const auto& kernel : json["kernels"]) names.insert(kernel["name"]);
  std::multiset<std::string> expected;
  for (const char* linear : {"qkv", "attention_output", "fc1", "fc2", "mlm_transform", "decoder",
                             "pooler", "next_sentence"}) {
    for (const char* pass : {".forward", ".weight_gradient", ".input_gradient"}) {
      expected.insert(std::string(linear) + pass);
    }
  }
  for (const char* pair : {"attention", "layer_norm"}) {
    for (const char* pass : {".forward", ".backward"}) {
      expected.insert(std::string(pair) + pass);
      expected.insert(std::string(pair) + pass + "_without_dropout");
    }
  }
  expected.insert({"mlm_layer_norm.forward",
                   "mlm_layer_norm.backward",
                   "embedding.forward",
                   "embedding.backward",
                   "cross_entropy",
                   "cross_entropy.next_sentence",
                   "gather_rows.masked",
                   "gather_rows.first",
                   "scatter_add_rows.masked",
                   "scatter_add_rows.first",
                   "gelu.forward",
                   "gelu.backward",
                   "gelu.backward_masked",
                   "tanh.forward",
                   "tanh.backward",
                   "add",
                   "add_column_sums",
                   "fill_zero.gradients",
                   "fill_zero.hidden",
                   "copy",
                   "sum_of_squares",
                   "update.adamw",
                   "update.lamb"});
  EXPECT_EQ(names, expected);
}

TEST(BenchKernels, TimeTimesRateIsWorkAndPercentIsOfTheCeiling) {
  const nlohmann::json json = run(small_options());
  const double flops = json["ceilings"]["product"]["tflop_per_second"];
  const double bytes = json["ceilings"]["copy"]["terabytes_per_second"];
  EXPECT_GT(flops, 0);
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(json["ceilings"]["product"]["side"], 64);
  EXPECT_EQ(json["ceilings"]["copy"]["bytes"], 1 << 16);
  double sum = 0;
  for (const auto& kernel : json["kernels"]) {
    SCOPED_TRACE(kernel["name"].get<std::string>());
    const bool computes = kernel.contains("flop");
    EXPECT_NE(computes, kernel.contains("bytes"));
    const double work = kernel[computes ? "flop" : "bytes"];
    const double rate = kernel[computes ? "tflop_per_second" : "terabytes_per_second"];
    const double seconds = kernel["seconds"];
    EXPECT_GT(work, 0);
    EXPECT_GT(seconds, 0);
    EXPECT_LE(kernel["least_seconds"].get<double>(), seconds);
    EXPECT_GE(kernel["most_seconds"].get<double>(), seconds);
    EXPECT_NEAR(seconds * rate * 1e12 / work, 1, 1e-9);
    EXPECT_NEAR(kernel["percent_of_ceiling"].get<double>(), 100 * rate / (computes ? flops : bytes),
                1e-6 * kernel["percent_of_ceiling"].get<double>());
    sum += seconds * kernel["calls_per_step"].get<double>();
  }
  EXPECT_NEAR(json["step_seconds_by_kernels"].get<double>(), sum, 1e-9 * sum);
}

// What a step's products and attention count is what training_flops counts, but for the rows that
// the vocabulary is rounded up by, and attention's backward, which counts the scores it computes
// again.
TEST(BenchKernels, CountsTheWorkOfAStep) {
  const bench::BenchKernelsOptions options = small_options();
  const nlohmann::json json = run(options);
  double counted = 0;
  for (const auto& kernel : json["kernels"]) {
    if (kernel.contains("flop")) {
      counted += kernel["flop"].get<double>() * kernel["calls_per_step"].get<double>();
    }
  }
  const contract::BatchSizes sizes{json["samples"], json["tokens"], json["squared_tokens"],
                                   json["masked"]};
  const double squared = static_cast<double>(sizes.squared_tokens);
  const double again = 0.5 * options.shape.layers * 4.0 * options.shape.hidden * squared;
  const double rounding =
      3.0 * 2 * options.shape.hidden * static_cast<double>(sizes.masked) *
      static_cast<double>(contract::vocabulary_rows(options.shape) - options.shape.vocabulary);
  EXPECT_NEAR(counted, contract::training_flops(options.shape, sizes) + again + rounding,
              1e-9 * counted);
}

std::map<std::string, double> counted(const std::vector<std::string>& lines, double times = 1) {
  std::map<std::string, double> counts;
  for (const std::string& line : lines) counts[line] += times;
  return counts;
}

// Each operation as often, with the same sizes, epilogues and sums as Bert asks for it: what
// `bench kernels` adds up to a step is a step.
TEST(BenchKernels, TimesTheOperationsThatBertAsksFor) {
  for (const contract::Gelu gelu : {contract::Gelu::Erf, contract::Gelu::Tanh}) {
    bench::BenchKernelsOptions options = small_options();
    options.shape.gelu = gelu;
    const contract::LengthTable lengths = contract::LengthTable::parse("8,39,1\n", "t");
    const auto cpu = cpu::make_cpu_device(1);
    std::vector<std::string> lines;
    const auto device = make_recording_device(*cpu, &lines);
    std::map<std::string, double> timed;
    const bench::KernelCases cases(*device, lengths, options);
    for (const bench::KernelCase& one : cases.cases()) {
      lines.clear();
      one.enqueue();
      if (one.calls_per_step == 0) continue;
      for (const auto& [line, times] : counted(lines, one.calls_per_step)) timed[line] += times;
    }

    std::vector<samples::Sample> samples;
    std::mt19937 random(1);
    for (int i = 0; i < options.samples; ++i) {
      const auto length = std::min<std::int64_t>(lengths.quantile((i + 0.5) / options.samples),
                                                 options.shape.max_positions);
      const auto masked = std::llround(0.15 * static_cast<double>(length));
      samples.push_back(random_sample(static_cast<int>(length), static_cast<int>(masked),
                                      options.shape, &random));
    }
    model::Bert model(*device, options.shape, {{0.1, 0.1, 1}, device::Dtype::Float32, {}});
    const std::vector<float> weights = random_weights(model.table(), 5);
    device->copy_to_device(0, model.parameters(), weights.data());
    model.upload(samples::collate(samples, {0, 1, 2, 3, 4, 5}), 1,
                 {cases.sizes().masked, cases.sizes().samples});
    model.zero_gradients();
    model.reset_statistics();
    lines.clear();
    model.forward(model::Mode::Training);
    model.backward();
    EXPECT_EQ(timed, counted(lines));
  }
}

TEST(BenchKernels, LengthsAreCutToTheModelsPositions) {
  const nlohmann::json json = run(small_options());
  // The middle sixths of 8 … 39, the last above 30 positions: 10, 16, 21, 26, 30, 30 or so.
  EXPECT_LE(json["tokens"].get<int>(), 6 * 30);
  EXPECT_GE(json["tokens"].get<int>(), 120);
}

TEST(BenchKernels, WithoutDropoutTheStepUsesTheOtherVariants) {
  bench::BenchKernelsOptions options = small_options();
  options.dropout = 0;
  const nlohmann::json json = run(options);
  std::map<std::string, double> calls;
  for (const auto& kernel : json["kernels"]) {
    calls[kernel["name"]] = kernel["calls_per_step"];
  }
  EXPECT_EQ(calls.at("attention.forward"), 0);
  EXPECT_EQ(calls.at("attention.forward_without_dropout"), options.shape.layers);
  EXPECT_EQ(calls.at("layer_norm.backward"), 0);
  EXPECT_EQ(calls.at("layer_norm.backward_without_dropout"), 2 * options.shape.layers);
}

TEST(BenchKernels, RefusesATypeThatTheDeviceLacks) {
  bench::BenchKernelsOptions options = small_options();
  options.dtype = device::Dtype::BFloat16;
  options.dtype_name = "bfloat16";
  try {
    (void)run(options);
    FAIL() << "no error";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_NE(std::string(error.what()).find("bfloat16"), std::string::npos);
  }
}

TEST(BenchKernels, TableHasALineForEveryOperation) {
  const nlohmann::json json = run(small_options());
  const std::string table = bench::bench_kernels_table(json.dump());
  for (const auto& kernel : json["kernels"]) {
    EXPECT_NE(table.find(kernel["name"].get<std::string>() + " "), std::string::npos);
  }
}

}  // namespace
}  // namespace regatta::tests
