#include "trainer/bench/bench_step.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/cpu/cpu_device.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

TEST(BenchStep, ReportsRatesThatFitTogether) {
  bench::BenchStepOptions options;
  options.shape = contract::preset_shape("tiny");
  options.shape.hidden = 32;
  options.shape.heads = 2;
  options.shape.feed_forward = 64;
  options.shape.vocabulary = 100;
  options.model_name = "test";
  options.samples = 6;
  options.micro = 4;
  options.steps = 5;
  options.warmup_steps = 1;
  const contract::LengthTable lengths = contract::LengthTable::parse("8,39,1\n", "t");
  const auto device = cpu::make_cpu_device(1);
  const auto json =
      nlohmann::json::parse(bench::bench_step(*device, base::system_clock(), lengths, options));
  const double tokens = json["tokens_per_second"];
  const double samples = json["samples_per_second"];
  // 30 samples at the 30 middle quantiles of an even distribution.
  EXPECT_NEAR(json["mean_length"].get<double>(), 23.5, 0.6);
  EXPECT_NEAR(tokens / samples, json["mean_length"].get<double>(), 1e-6);
  EXPECT_GT(json["gflop_per_second"].get<double>(), 0.0);
  EXPECT_GT(json["peak_device_bytes"].get<std::int64_t>(),
            4 * 4 * json["parameters"].get<std::int64_t>());
  EXPECT_LE(json["step_seconds"]["least"].get<double>(),
            json["step_seconds"]["median"].get<double>());
  double phases = 0;
  for (const char* phase : {"forward", "backward", "optimizer"}) {
    phases += json["phase_seconds"][phase].get<double>();
  }
  const double step = json["phase_seconds"]["step"];
  EXPECT_LE(phases, step);
  EXPECT_GT(phases, 0.5 * step) << "phases fill the step";
}

}  // namespace
}  // namespace regatta::tests
