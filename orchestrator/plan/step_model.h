// What plan and simulate reckon a step with where nobody gives it: one set of figures for both, and
// the sentences by which each says what it rests on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/plan/cluster_machines.h"
#include "orchestrator/plan/compute_model.h"
#include "orchestrator/plan/dataset_facts.h"
#include "orchestrator/plan/peak_share.h"
#include "trainer/contract/length_table.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::plan {

// What a kernel costs beside its work, starting, filling and draining the device. An assumption,
// not a measurement: an empty kernel of a CUDA graph takes about 3 microseconds.
inline constexpr double kKernelSeconds = 4e-6;
// Of a data sheet's memory bandwidth: LayerNorms reach 3.7 of 4.8 TB/s on an H200.
inline constexpr double kMemoryShare = 0.77;
// Of a step on several nodes, without a measurement: what the study fits.
inline constexpr double kUsualOverheadSeconds = 0.009;

// What somebody gave; nothing: the usual.
struct GivenFigures {
  std::optional<double> efficiency;        // share of the devices' peak that products reach
  std::optional<double> overhead_seconds;  // of a step, beside all that is modelled
};

struct StepModel {
  PeakShare share;
  ComputeFigures compute;
  double overhead_seconds = 0;
};

// Of nodes with this GPU; `device` is null where nobody knows it. Throws Code::User where its peak
// is not known and the run names none.
[[nodiscard]] StepModel step_model(const trainer::contract::RunConfig& config,
                                   const std::string& gpu_model, const DeviceFigures* device,
                                   int nodes, const GivenFigures& given);

// What a step rests on, a sentence each, with the option that says otherwise.
[[nodiscard]] std::vector<std::string> step_basis(
    const trainer::contract::RunConfig& config, const GivenFigures& given,
    const std::optional<trainer::contract::LengthTable>& lengths);
// "share of the peak 60 %: MLPerf's entries on A100 reach 55 to 63 %". Of a share that is fitted.
[[nodiscard]] std::string share_sentence(const PeakShare& share);

// Of samples that are all as long as the run file lets them be: where nobody tells their lengths.
[[nodiscard]] trainer::contract::LengthTable longest_lengths(
    const trainer::contract::RunConfig& config);

// The run's vocabulary: `given` if it is above 0, else the run file's, else that of its dataset,
// relative to the run file's folder. Throws Code::User where none of them tells it. The dataset
// also tells labels. Returns what it says, if it is there.
std::optional<DatasetFacts> take_dataset(const std::string& file, int given,
                                         trainer::contract::RunConfig* config);

}  // namespace regatta::orchestrator::plan
