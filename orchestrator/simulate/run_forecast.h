// How long a whole run takes, with evaluations, checkpoints and machines that fail: a Monte-Carlo
// simulation over many runs, each with failures of its own.
//
// Nodes fail independently of each other and of their age. A failure costs what was done since the
// last checkpoint, and the time to start again. Failures within that time do not count. The target
// is met at an evaluation, so a run takes as many steps as the next one is away.
#pragma once

#include <cstdint>

namespace regatta::orchestrator::simulate {

struct RunForecastInputs {
  double step_seconds = 0;
  int batch = 1;                      // samples of a step
  double samples = 0;                 // until the target is met
  double samples_deviation = 0;       // standard deviation of that over runs
  std::int64_t evaluate_every = 100;  // steps
  double evaluation_seconds = 0;
  std::int64_t checkpoint_every = 200;  // steps
  double checkpoint_seconds = 0;        // that training stands still for one
  double failures_per_second = 0;       // of all nodes together
  double restart_seconds = 0;           // from a failure until training goes on
  std::uint64_t seed = 1;
  int runs = 200;
};

struct Spread {
  double mean = 0, p5 = 0, p50 = 0, p95 = 0;
};

struct RunForecast {
  Spread seconds;  // of a run
  Spread steps;    // that count, so none twice
  // Mean seconds of a run.
  double step_seconds = 0, evaluation_seconds = 0, checkpoint_seconds = 0, lost_seconds = 0,
         restart_seconds = 0;
  double failures = 0;  // of a run, mean
};

// The same inputs give the same result. Throws Code::User where training would hardly get from one
// checkpoint to the next (an interval of more than kMostFailures mean times between failures), and
// for more checkpoints than kMostIntervals in a run that fails.
[[nodiscard]] RunForecast forecast_run(const RunForecastInputs& inputs);
inline constexpr double kMostFailures = 5;
inline constexpr double kMostIntervals = 1e5;

// Seconds between checkpoints at which least is lost, to first order (Young, "A first order
// approximation to the optimum checkpoint interval", CACM 17, 1974). Both above 0.
[[nodiscard]] double best_checkpoint_interval(double checkpoint_seconds,
                                              double failures_per_second);

}  // namespace regatta::orchestrator::simulate
