// A checkpoint on an evaluation set, outside of its run.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/contract/journal.h"
#include "trainer/plugins/make_device.h"
#include "trainer/tasks/answer_score.h"

namespace regatta::trainer::run {

struct EvaluationOptions {
  base::Path checkpoint;  // of a run (RUN/checkpoints/step-…), or a run directory: its newest whole
  base::Path dataset;     // whose held-out split counts; empty: the run's own
  int threads = 0;        // 0: as the run file says, else all cores that this process may use
  plugins::DevicePlace place;
};

struct CheckpointEvaluation {
  std::string run;         // its name
  std::string checkpoint;  // its name
  base::Path dataset;      // of several with ", " between them
  std::string device;
  int ranks = 1;                // in whose order sums were made
  contract::EvalRecord result;  // of the checkpoint's step
  // Where some questions are impossible: which null thresholds would have scored best.
  std::optional<tasks::BestThresholds> best;
  std::vector<std::string> notes;  // one line each
};

// What the run journals at that step, with its own data: every sample of the evaluation set that
// its run file asks for, scored once, in as many shares as ranks wrote the checkpoint, so that on a
// CPU the figures have the same bits. Every byte of the checkpoint is verified, and marked as being
// read meanwhile. Throws Code::User or NotFound, saying what to name instead, when checkpoint, run
// file or dataset is missing or they do not fit.
[[nodiscard]] CheckpointEvaluation evaluate_checkpoint(base::FileSystem& files,
                                                       const base::Clock& clock,
                                                       const EvaluationOptions& options);

// Names and figures of what is told of the best null thresholds: the scores as shares, as metrics
// are.
[[nodiscard]] std::vector<std::pair<const char*, double>> figures_of(
    const tasks::BestThresholds& best);

// For people; and one JSON object, one line.
[[nodiscard]] std::string to_text(const CheckpointEvaluation& evaluation);
[[nodiscard]] std::string to_json(const CheckpointEvaluation& evaluation);

}  // namespace regatta::trainer::run
