// Plans made with NCCL's own model, judged by what was measured elsewhere: for the test that they
// do not lose and the table of what they gain.
#pragma once

#include <string>
#include <vector>

namespace regatta::tests {

struct JudgedPlan {
  std::string cluster;  // of topology/examples
  int nodes = 0, ranks = 0;
  std::string judge;  // a public log of nccl-tests, or "the model"
  int buckets = 0;    // of the plan
  std::string cut;    // "programme", "25 MB", …
  // Mean step over ready times that vary by 10 %, with the judge's curve.
  double planned_seconds = 0, standard_seconds = 0;  // standard: 25 MB buckets
  double worst_ratio = 0;                            // planned ÷ standard in one of them

  [[nodiscard]] double gain() const { return 1 - planned_seconds / standard_seconds; }
};

// BERT-large, 16 samples a rank with Wikipedia's lengths, on every example cluster with 2 to 128
// nodes. `logs`: ../shared/topologies/nccl-tests. Judges are the logs of the same sort of machine.
[[nodiscard]] std::vector<JudgedPlan> judge_plans(const std::string& source_directory,
                                                  const std::string& logs);

}  // namespace regatta::tests
