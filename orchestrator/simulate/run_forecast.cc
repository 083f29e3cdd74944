#include "orchestrator/simulate/run_forecast.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "base/statistics.h"
#include "base/text.h"

namespace regatta::orchestrator::simulate {
namespace {

constexpr std::uint32_t kForecastSite = 0x53494d32;  // no site of the trainer's
constexpr double kMostSteps = 1e15;
constexpr double kTwoPi = 6.283185307179586;

class Draws {
 public:
  Draws(std::uint64_t seed, int run)
      : stream_(seed, static_cast<std::uint32_t>(run), 0, kForecastSite) {}
  // In (0, 1), 53 bits.
  double uniform() {
    const std::uint64_t high = stream_.next() >> 5U, low = stream_.next() >> 6U;
    return (static_cast<double>(high * (std::uint64_t{1} << 26U) + low) + 0.5) * 0x1p-53;
  }
  double exponential(double rate) { return -std::log(uniform()) / rate; }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(kTwoPi * uniform());
  }

 private:
  base::PhiloxStream stream_;
};

struct OneRun {
  double steps = 0, seconds = 0, evaluations = 0, checkpoints = 0, lost = 0, failures = 0;
};

double steps_needed(const RunForecastInputs& inputs, Draws* draws) {
  double samples = inputs.samples;
  if (inputs.samples_deviation > 0) samples += inputs.samples_deviation * draws->normal();
  const double steps = std::max(1.0, std::ceil(samples / inputs.batch));
  const auto every = static_cast<double>(inputs.evaluate_every);
  return std::ceil(steps / every) * every;
}

OneRun one_run(const RunForecastInputs& inputs, int number) {
  Draws draws(inputs.seed, number);
  OneRun run;
  run.steps = steps_needed(inputs, &draws);
  const auto every = static_cast<double>(inputs.checkpoint_every);
  const auto evaluate = static_cast<double>(inputs.evaluate_every);
  run.evaluations = run.steps / evaluate;
  run.checkpoints = std::ceil(run.steps / every) - 1;  // the last one follows the target
  run.seconds = run.steps * inputs.step_seconds + run.evaluations * inputs.evaluation_seconds +
                run.checkpoints * inputs.checkpoint_seconds;
  if (inputs.failures_per_second <= 0) return run;
  double failed = 0;  // seconds until the next failure, from the interval's begin
  for (double begin = 0; begin < run.steps; begin += every) {
    const double end = std::min(begin + every, run.steps);
    const double evaluations = std::floor(end / evaluate) - std::floor(begin / evaluate);
    const double needed = (end - begin) * inputs.step_seconds +
                          evaluations * inputs.evaluation_seconds +
                          (end < run.steps ? inputs.checkpoint_seconds : 0);
    for (;;) {
      if (failed <= 0) failed = draws.exponential(inputs.failures_per_second);
      if (failed >= needed) break;
      run.lost += failed;
      run.failures += 1;
      failed = 0;
    }
    failed -= needed;
  }
  run.seconds += run.lost + run.failures * inputs.restart_seconds;
  return run;
}

Spread spread_of(const std::vector<double>& values) {
  return {base::mean(values), base::percentile(values, 0.05), base::percentile(values, 0.5),
          base::percentile(values, 0.95)};
}

[[noreturn]] void fail(const std::string& what) { throw base::Error(base::Code::User, what); }

void check(const RunForecastInputs& inputs) {
  const double figures[] = {inputs.step_seconds,       inputs.samples,
                            inputs.samples_deviation,  inputs.evaluation_seconds,
                            inputs.checkpoint_seconds, inputs.failures_per_second,
                            inputs.restart_seconds};
  for (const double figure : figures) {
    if (!(figure >= 0) || !std::isfinite(figure)) {
      fail("cannot forecast with a figure of " + std::to_string(figure) + "; use at least 0");
    }
  }
  base::check(inputs.batch >= 1 && inputs.evaluate_every >= 1 && inputs.checkpoint_every >= 1 &&
                  inputs.runs >= 1,
              "a forecast's counts are at least 1");
  if ((inputs.samples + 40 * inputs.samples_deviation) / inputs.batch > kMostSteps) {
    fail("a run of " + std::to_string(inputs.samples) + " samples has too many steps; use fewer");
  }
  if (inputs.failures_per_second <= 0) return;
  const auto every = static_cast<double>(inputs.checkpoint_every);
  // A run of six deviations more is one of a billion.
  const double steps = (inputs.samples + 6 * inputs.samples_deviation) / inputs.batch;
  const double evaluations =
      std::ceil(std::min(every, steps) / static_cast<double>(inputs.evaluate_every));
  const double interval = std::min(every, steps) * inputs.step_seconds +
                          evaluations * inputs.evaluation_seconds + inputs.checkpoint_seconds;
  if (interval * inputs.failures_per_second > kMostFailures) {
    fail("a failure every " + base::human_seconds(1 / inputs.failures_per_second) +
         " hardly lets training get from one checkpoint to the next, which is " +
         base::human_seconds(interval) + "; checkpoint more often");
  }
  if (steps / every > kMostIntervals) {
    fail("a run with " + std::to_string(std::llround(steps / every)) +
         " checkpoints is too long to simulate with failures; raise checkpoint.every");
  }
}

}  // namespace

RunForecast forecast_run(const RunForecastInputs& inputs) {
  check(inputs);
  std::vector<double> seconds, steps;
  RunForecast forecast;
  for (int i = 0; i < inputs.runs; ++i) {
    const OneRun run = one_run(inputs, i);
    seconds.push_back(run.seconds);
    steps.push_back(run.steps);
    forecast.step_seconds += run.steps * inputs.step_seconds / inputs.runs;
    forecast.evaluation_seconds += run.evaluations * inputs.evaluation_seconds / inputs.runs;
    forecast.checkpoint_seconds += run.checkpoints * inputs.checkpoint_seconds / inputs.runs;
    forecast.lost_seconds += run.lost / inputs.runs;
    forecast.failures += run.failures / inputs.runs;
  }
  forecast.restart_seconds = forecast.failures * inputs.restart_seconds;
  forecast.seconds = spread_of(seconds);
  forecast.steps = spread_of(steps);
  return forecast;
}

double best_checkpoint_interval(double checkpoint_seconds, double failures_per_second) {
  return std::sqrt(2 * checkpoint_seconds / failures_per_second);
}

}  // namespace regatta::orchestrator::simulate
