// The API's JSON (docs/api.md): what handlers answer.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/api/answer_fields.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/runs/scheduler.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::api {

struct RunParts {
  std::vector<runs::Launch> launches;
  std::vector<runs::Attempt> attempts;
  std::vector<store::WarningRow> warnings;  // newest first
  store::CheckpointFailures failures;
};
[[nodiscard]] RunParts read_parts(store::StoreReads& store, runs::RunNumber run);

// now_utc: for what counts until now. In a list that is asked for in full: all but `warnings` and
// `config`; else what slim_keys() name, in their order, which needs no launch and no attempt.
[[nodiscard]] nlohmann::ordered_json row_json(const store::RunRow& row, double now_utc);
[[nodiscard]] const ChosenKeys& slim_keys();
[[nodiscard]] nlohmann::ordered_json slim_json(const store::RunRow& row, double now_utc);
[[nodiscard]] nlohmann::ordered_json run_json(const runs::Run& run, const RunParts& parts,
                                              double now_utc);
// Of a run that is not over: whether Slurm answers. null where nobody has to be asked.
[[nodiscard]] nlohmann::ordered_json contact_json(const std::optional<runs::Contact>& contact,
                                                  double now_utc);
// The series after `cursor`, at most `limit` step rows, and the buckets of the newest step.
[[nodiscard]] nlohmann::ordered_json metrics_json(store::StoreReads& store, const runs::Run& run,
                                                  std::int64_t cursor, int limit);
[[nodiscard]] nlohmann::ordered_json checkpoints_json(store::StoreReads& store,
                                                      const runs::Run& run);

// For how long a run that trains has said nothing, by its clock and this one, where that is longer
// than its steps account for; seconds. An evaluation or a checkpoint may take as long.
[[nodiscard]] std::optional<double> silent_seconds(const runs::Run& run, double now_utc);

// "; 1111 steps are lost": those behind the newest checkpoint of a run that is over and would begin
// with it; empty: none, or nobody knows.
[[nodiscard]] std::string lost_text(const runs::Run& run);

// "training, step 412 of 4000"
[[nodiscard]] std::string state_text(const runs::Run& run, double now_utc);

}  // namespace regatta::orchestrator::api
