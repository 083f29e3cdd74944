// Runs whose directory is not there any more.
#include <memory>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/shell_words.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/control/run_lookup.h"
#include "orchestrator/runs/run_presence.h"

namespace regatta::orchestrator::control {
namespace {

constexpr double kGoneSeconds = 60;  // after which a directory that is not there will not come back

}  // namespace

// What was started by hand is not the controller's to end.
bool Controller::ends_with_directory(const OpenRun& open) {
  return open.foreign.empty() && open.run.wanted != runs::Wanted::Observe &&
         !open.launches.empty() && !open.launches.back().over &&
         open.launches.back().handle != kByJournal;
}

// What is under way in a directory that was removed can write nothing more, and would be taken for
// training as long as it lives.
void Controller::end_gone(OpenRun* open) {
  const runs::ProcessState process = open->report.state;
  if (process != runs::ProcessState::Running && process != runs::ProcessState::Waiting &&
      process != runs::ProcessState::Unknown) {
    return lose(open);
  }
  runs::Run& run = open->run;
  const double now = clock_.monotonic_seconds();
  if (!open->gone_since) open->gone_since = now;
  const std::string why = runs::gone_words(run.directory);
  const bool news = run.state != runs::RunState::Stopping || run.reason != why;
  if (news) {
    run.state = runs::RunState::Stopping;
    run.reason = why;
    run.wait = {};
    base::log(base::LogLevel::Warning, "run " + run.id + ": " + why + "; what runs in it is ended");
  }
  const std::string& handle = open->launches.back().handle;
  const bool again =
      !open->stop_sent || now - *open->stop_sent >= options_.limits.stop_grace_seconds;
  if (!handle.empty() && (news || again)) {
    scheduler_.kill(handle);
    open->stop_sent = open->stop_asked = now;
  }
  if (news || open->unsaved) save(open);
}

// Nothing runs in it. It may have been moved for a moment, or be mounted soon.
void Controller::wait_for_directory(OpenRun* open) {
  const double now = clock_.monotonic_seconds();
  if (!open->gone_since) open->gone_since = now;
  if (now - *open->gone_since >= kGoneSeconds) return lose(open);
  throw base::Error(base::Code::Operator, runs::gone_words(open->run.directory) +
                                              "; it is given up after a minute of that");
}

// Its directory was removed, and nothing runs in it.
void Controller::lose(OpenRun* open) {
  runs::Run& run = open->run;
  const double now = clock_.utc_seconds();
  const std::string why = runs::gone_words(run.directory);
  const bool news = !runs::is_over(run.state);
  if (news) {
    run.state = runs::RunState::Failed;
    run.reason.clear();
    run.wait = {};
    run.error = why;
    run.ended_utc = now;
  }
  run.drained = true;
  run.settled = true;
  if (!open->launches.empty() && !open->launches.back().over) {
    runs::Launch launch = open->launches.back();
    launch.over = true;
    launch.exit_code = open->report.exit_code;
    launch.signal = open->report.signal;
    launch.ended_utc = now;
    launch.words = why;
    book_.end(open, run, launch);
  }
  save(open);
  if (news) {
    base::log(base::LogLevel::Warning, "run " + run.id + ": " + run.error);
    wake_dependants(run.id);
  }
  close(run.number);
}

// Where nobody can say, what is asked for is written down as ever, and waits for its directory.
void Controller::refuse_gone(const runs::Run& run) {
  const auto gone = std::make_shared<bool>(false);  // with a work that may come later
  try {
    do_beside(run.directory, options_.cancel_seconds,
              [gone, files = &files_, directory = base::Path(run.directory)] {
                *gone = runs::presence_of(*files, directory) == runs::Presence::Gone;
              });
  } catch (const base::Error&) {
    return;
  }
  if (!*gone) return;
  refuse(run, "cannot go on: " + runs::gone_words(run.directory) + "; `" +
                  base::shown_command("regatta rm", run.id) + "` forgets it");
}

}  // namespace regatta::orchestrator::control
