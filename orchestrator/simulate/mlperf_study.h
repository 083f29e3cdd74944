// `regatta simulate --study mlperf`: how far off the simulator is, by the published results of
// MLPerf. Fitted on the rows of 8 and 64 GPUs: a share of the peak for each GPU and software, and
// one overhead of a step on several nodes (waiting for each other, networks below NCCL's model).
// All other rows are predictions. The form of the model was chosen with the large rows in view, its
// figures were not (docs/simulation.md).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "orchestrator/plan/peak_share.h"
#include "orchestrator/plan/step_model.h"
#include "orchestrator/simulate/mlperf_rows.h"
#include "topology/nccl/cost_model.h"

namespace regatta::orchestrator::simulate {

// What is assumed and not fitted, to be varied.
struct MlperfAssumptions {
  double kernel_seconds = plan::kKernelSeconds;
  double memory_share = plan::kMemoryShare;
  double sum_times = 1;  // sums take so many times what NCCL's model says
};

struct MlperfPrediction {
  MlperfRow row;
  bool is_fitted = false;
  double efficiency = 0;  // share of the 16-bit peak
  Simulation simulation;
  int evaluations = 0;
  double samples_per_second = 0;
  double error = 0;  // predicted ÷ published − 1
};

struct MlperfStudy {
  MlperfAssumptions assumptions;
  std::map<std::string, double> efficiencies;  // by "A100 v2.1"
  double overhead_seconds = 0;                 // of a step on several nodes
  std::vector<MlperfPrediction> predictions;   // in the order of the rows
  // Medians of |error|: of what was fitted, of other rows of at most 64 GPUs, and of larger ones.
  double fitted_error = 0, middle_error = 0, large_error = 0;
  std::map<std::string, double> large_errors;  // by GPU
  int large_rows = 0, large_within_20_percent = 0;
};

// Rows of a GPU and software without a small row take A100's v2.1.
[[nodiscard]] MlperfStudy study_mlperf(const std::vector<MlperfRow>& rows,
                                       const MlperfAssumptions& assumptions = {});

// The machines that the study takes for all entries of a GPU: DGX A100 and DGX H100 (H200 likewise,
// and B200 with its own NVLinks) and racks of GB200 NVL72, as in topology/examples. As many racks
// as it takes, equally full.
[[nodiscard]] topology::nccl::Allocation mlperf_allocation(MlperfGpu gpu, int gpus);

[[nodiscard]] std::string mlperf_text(const MlperfStudy& study);
[[nodiscard]] std::string mlperf_json(const MlperfStudy& study);

}  // namespace regatta::orchestrator::simulate
