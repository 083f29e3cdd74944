// A sweep as the controller keeps it: RUNS/.sweeps/ID.json (docs/formats/controller.md), which is
// all that is known of it beside its runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/sweeps/sweep_file.h"

namespace regatta::orchestrator::control {

enum class SweepState { Running, Done, Stopped };
// "running", "done", "stopped": the words of files and API.
[[nodiscard]] const char* name_of(SweepState state);

struct TrialRecord : sweeps::SweepTrial {
  std::string run;              // its id; empty: not known yet
  double started_utc = 0;       // when the sweep decided on it
  std::optional<double> ended;  // since when it does not train; nothing: it does
};

// The reason of a trial that did not come to its goal because its sweep was stopped.
inline constexpr const char* kStoppedReason = "the sweep was stopped";

// The state of a trial's run that is there no more, beside the names of runs::RunState.
inline constexpr const char* kRemovedRun = "removed";

struct SweepRecord {
  std::string id;
  double created_utc = 0;
  std::string owner;  // store::Event::by
  std::optional<std::string> idempotency_key;
  std::string body_digest;
  bool stops = false;  // somebody wants it to end
  SweepState state = SweepState::Running;
  std::optional<double> ended_utc;
  sweeps::SweepFile file;
  std::vector<TrialRecord> trials;  // by number, from 1 on
};

[[nodiscard]] sweeps::SweepHistory history_of(const SweepRecord& record);
// Does to the records what sweeps::carry_out() does to a history.
void carry_out(const sweeps::SweepAction& action, double utc, SweepRecord* record);

[[nodiscard]] base::Path sweeps_directory(const base::Path& runs_directory);
// Of all its runs.
[[nodiscard]] std::string tag_of(const SweepRecord& record);

[[nodiscard]] std::string text_of(const SweepRecord& record);
// Code::Operator for a text that is none, with what is wrong.
[[nodiscard]] SweepRecord parse_sweep_record(const std::string& text);

}  // namespace regatta::orchestrator::control
