// A result log of MLPerf Training's BERT as a reference curve.
#pragma once

#include <string>
#include <string_view>

#include "orchestrator/runs/reference.h"

namespace regatta::orchestrator::simulate {

// Lines with ":::MLLOG {…}" somewhere in them count, others are passed over. Name, round, and a
// submitter or system that the log does not name are empty. Times count from run_start; samples are
// those of eval_accuracy's samples_count or epoch_num, where that counts samples.
//
// Throws Code::User with "source:line: what": a log of another benchmark, without run_start or an
// evaluation, with a damaged line, or with lines in an order that no run has.
[[nodiscard]] runs::ReferenceCurve read_mlperf_log(std::string_view text,
                                                   const std::string& source);

// What the path of a published log says: its round, submitter and system, and a name made of them,
// as in training_results_v2.0/NVIDIA/results/dgxa100/bert/result_0.txt and
// v2.0__NVIDIA__dgxa100__result_0.txt. Of other paths only the name, from that of the file.
struct MlperfPlace {
  std::string name, round, submitter, system;
};
[[nodiscard]] MlperfPlace mlperf_place(const std::string& path);

}  // namespace regatta::orchestrator::simulate
