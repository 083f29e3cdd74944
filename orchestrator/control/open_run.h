// What the controller keeps in memory of a run that is not over, or not read or written down to its
// end. The store has all of it but what a restart may begin anew.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/control/dependencies.h"
#include "orchestrator/control/journal_pulse.h"
#include "orchestrator/control/node_avoidance.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/runs/run_records.h"
#include "orchestrator/runs/scheduler.h"

namespace regatta::orchestrator::control {

// What is to be written into the run's directory; the store has it already.
struct Unwritten {
  bool config = false;  // run.json, which was changed; nothing is started before it is written
  bool submission = false;
  bool state = false;
  std::set<int> launches;  // by number
  double again = 0;        // monotonic: not before
  double pause = 0;        // after the next failure

  void add(const Unwritten& other) {
    config |= other.config;
    submission |= other.submission;
    state |= other.state;
    launches.insert(other.launches.begin(), other.launches.end());
  }
  [[nodiscard]] bool any() const { return config || submission || state || !launches.empty(); }
};

struct OpenRun {
  runs::Run run;
  std::vector<runs::Launch> launches;   // all, by number
  std::vector<runs::Attempt> attempts;  // all, by number
  double due = 0;                       // monotonic: the next visit
  bool fresh = true;                    // no visit has been concluded
  bool unsaved = false;                 // the store has an older `run`
  bool waits = false;                   // for a place
  bool blocked = false;                 // by runs that it starts after
  Blockage blockage;                    // when it was looked at last
  double blockage_again = 0;            // monotonic: its step is noted again
  bool found = false;                   // in the runs directory: a process may be at work on it
  int visits = 0;
  std::string foreign;  // why only another scheduler can do anything about it; may be empty

  // A reading that is under way: since when, and what the scheduler said before it began.
  std::optional<double> reading_since;
  std::optional<double> gone_since;    // the directory
  std::optional<double> unread_since;  // the journal of what has ended
  int refusals = 0;                    // in a row, of beginning one
  bool silence_told = false;           // that the directory does not answer
  runs::ProcessReport report;
  // What was given to it to write.
  Unwritten given;
  std::optional<runs::RecordedState> given_state;

  // The checkpoint of another run that it begins with (controller_start.cc); empty: none.
  base::Path start;
  enum class StartPin { Unknown, Held, Released } start_pin = StartPin::Unknown;
  bool start_pin_asked = false;

  Unwritten unwritten;
  double not_before = 0;
  double refused_pause = 0;  // after the newest of the scheduler's refusals in a row; 0: none
  std::optional<double> stop_sent, stop_asked;  // the first and the last time
  Avoidance avoidance;                          // of the watched launch
  JournalPulse pulse;                           // where nothing else is known of it

  // Of those that may run at once; what only its journal is known of runs elsewhere.
  [[nodiscard]] bool takes_place() const {
    return foreign.empty() && !launches.empty() && !launches.back().over &&
           launches.back().handle != kByJournal;
  }
  // Whoever changed it may have been ended before its files said so.
  void write_change_again() {
    if (run.changed_utc) unwritten.config = unwritten.submission = true;
  }
  // What its directory says: of a run that is to be resumed, that it is wanted to run and waits.
  [[nodiscard]] bool resumes() const { return run.wanted == runs::Wanted::Resume; }
  [[nodiscard]] runs::SubmissionRecord submitted() const {
    runs::SubmissionRecord submission = runs::submission_of(run);
    if (submission.wanted > runs::Wanted::Observe) submission.wanted = runs::Wanted::Run;
    return submission;
  }
  [[nodiscard]] runs::RecordedState recorded() const {
    runs::RecordedState state{run.state,    run.error,         run.ended_utc,
                              run.failures, run.progress_step, 0};
    if (resumes()) {
      state = {runs::RunState::Queued, "", std::nullopt, 0, run.progress_step, 0};
    }
    state.changed_utc = run.changed_utc;
    for (const runs::Launch& launch : launches) {
      if (launch.over) state.launch = launch.number;
    }
    return state;
  }
};

}  // namespace regatta::orchestrator::control
