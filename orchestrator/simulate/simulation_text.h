// Simulations side by side, for people and for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/plan/peak_share.h"
#include "orchestrator/simulate/run_forecast.h"
#include "orchestrator/simulate/simulation.h"

namespace regatta::orchestrator::simulate {

struct SamplesRange {
  double low = 0, high = 0;  // per second
};

struct SimulatedRun {
  int nodes = 1;
  // Where the device's share of its peak is not known: with the least and the largest one.
  std::optional<SamplesRange> samples_range{};
  bool is_measured = false;  // what its sums take
  Simulation simulation;
  RunForecast forecast;
};

struct SimulationReport {
  std::string title;               // model, batch, machines
  double peak_flops = 0;           // of a rank
  plan::PeakShare share;           // of that peak
  std::vector<SimulatedRun> runs;  // at least one; the first is what scaling compares with
  std::vector<std::string> notes;  // what figures rest on, a sentence each
};

// Samples per second of a rank, as a share of those of the first run's ranks.
[[nodiscard]] double scaling_of(const SimulationReport& report, const SimulatedRun& run);

[[nodiscard]] std::string simulation_text(const SimulationReport& report);
// docs/simulation.md.
[[nodiscard]] std::string simulation_json(const SimulationReport& report);

}  // namespace regatta::orchestrator::simulate
