// What MLPerf Training published of BERT-large on A100, H100, H200, B200 and GB200: the one table
// that the study predicts. Times and samples are means of the runs of an entry without the fastest
// and the slowest, computed from the raw result logs of the public repositories
// mlcommons/training_results_* (run_start to run_stop, samples until the target); layouts, sums
// and SHARP are from the entries' configurations there, where they could be read, else as of the
// same software.
#pragma once

#include <vector>

#include "orchestrator/simulate/simulation.h"

namespace regatta::orchestrator::simulate {

enum class MlperfGpu { A100, H100, H200, B200, Gb200 };
// How gradients were summed. One: one block after backward, the optimizer shared by the node's
// GPUs. Blocks: the same in five blocks, beside backward. Each: buckets of 25 MB beside backward,
// the whole optimizer on every GPU.
enum class MlperfSums { One, Blocks, Each };

struct MlperfRow {
  const char* round;
  const char* submitter;
  MlperfGpu gpu;
  const char* software;  // rows of one GPU and software share the fitted efficiency
  int gpus;
  int batch;
  double minutes;
  double million_samples;  // until the target, mean
  RowLayout layout;
  MlperfSums sums;
  bool sharp;          // sums within the network
  const char* remark;  // what is known of it that the model leaves out; "" for nothing
};

[[nodiscard]] std::vector<MlperfRow> mlperf_rows();
[[nodiscard]] const char* name_of(MlperfGpu gpu);
[[nodiscard]] double samples_per_second(const MlperfRow& row);
// The rows that the study may be fitted to: those of 8 and of 64 GPUs.
[[nodiscard]] bool is_small(const MlperfRow& row);

}  // namespace regatta::orchestrator::simulate
