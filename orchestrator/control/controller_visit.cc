// One visit of an open run: what the scheduler says of it, then what its directory says, then what
// follows. The directory may take its time; the visit is concluded when it has answered.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/runs/run_records.h"
#include "trainer/contract/exit_code.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator::control {
namespace {

constexpr double kDiskPauseSeconds = 5;        // after something that could not be written down
constexpr double kLongestDiskPause = 60;       // doubles up to this
constexpr double kSilentDirectorySeconds = 5;  // after which one is said not to answer
constexpr double kUnreadSeconds = 60;          // for which an end waits for its journal
constexpr double kRefusedSeconds = 0.02;       // after which a reading is tried again; doubles
constexpr double kLeastSubmitPause = 60;       // after a launch that was refused; doubles
constexpr double kLongestSubmitPause = 900;
constexpr double kTurnSeconds = 10;  // in which one of all that were refused is submitted
constexpr const char* kConfigUnwritten =
    "its run file was changed and cannot be written into its directory so far";
constexpr int kVisitsForOldAttempts = 20;  // every how many also at attempts that are over

bool is_gone(runs::ProcessState state) {
  return state == runs::ProcessState::Ended || state == runs::ProcessState::Gone;
}

const runs::Attempt* newest_of(const std::vector<runs::Attempt>& attempts, int after) {
  if (attempts.empty() || attempts.back().number <= after) return nullptr;
  return &attempts.back();
}

// Whether the attempt was over before its job started the last time: what it said of its end is not
// how that start ended. Work that is done stays done.
bool is_of_an_earlier_start(const runs::Attempt& attempt, const runs::ProcessReport& report) {
  return report.started && attempt.exit_code &&
         *attempt.exit_code != static_cast<int>(trainer::contract::ExitCode::Finished) &&
         attempt.start_utc + attempt.last_seconds < *report.started;
}

}  // namespace

void Controller::visit(OpenRun* open) {
  const double now = clock_.monotonic_seconds();
  schedule(open, now + pause_of(*open));
  try {
    if (launcher_.has(open->run.number)) {
      const std::optional<Launched> launched = launcher_.take(open->run.number);
      if (!launched) {  // until it is known what has become of it
        if (open->run.wanted == runs::Wanted::Cancel &&
            open->run.state != runs::RunState::Stopping) {
          open->run.state = runs::RunState::Stopping;
          save(open);
        }
        return;
      }
      note_launched(open, *launched);
      save(open);
    }
    if (!open->reading_since) return begin_reading(open);
    if (now - *open->reading_since < kSilentDirectorySeconds) return;
    conclude_unread(open);
  } catch (const base::Error& error) {
    troubles_.tell("run " + open->run.id, error.what(), now);
  }
}

// The process first and its journal after: when it is gone, the journal is complete.
void Controller::begin_reading(OpenRun* open) {
  const Watched watched = watch(open);
  open->report = watched.report;
  const double now = clock_.monotonic_seconds();
  ReadingOrder order = follower_.order(open->run, open->attempts);
  order.sweep = open->fresh;
  // Of a run that is over this is the last time: no attempt may be left out.
  order.also_old_ones =
      open->fresh || runs::is_over(open->run.state) || ++open->visits % kVisitsForOldAttempts == 0;
  if (watched.launch && is_gone(watched.report.state)) order.log_of = watched.launch;
  open->given = {};
  if (now >= open->unwritten.again) {
    open->given = open->unwritten;
    if (open->unwritten.config) order.config = config_to_write(open);
    if (open->unwritten.submission) order.submission = open->submitted();
    if (open->unwritten.state) order.state = open->given_state = open->recorded();
    for (const runs::Launch& launch : open->launches) {
      if (open->unwritten.launches.count(launch.number) > 0) order.launches.push_back(launch);
    }
    // What changes from here on is written the next time.
    open->unwritten.config = open->unwritten.submission = open->unwritten.state = false;
    open->unwritten.launches.clear();
  }
  const runs::RunNumber number = open->run.number;
  open->reading_since = now;
  readings_.insert(number);
  const bool begun = side_.begin<RunReading>(
      order.directory, [files = &files_, order] { return read_run(*files, order); },
      [this, number](files::Outcome<RunReading> outcome) {
        end_visit(number, std::move(outcome));
      });
  if (begun) return;  // and `open` may be gone
  // Its file system does not answer, or others are before it.
  open->reading_since.reset();
  readings_.erase(number);
  open->unwritten.add(open->given);
  open->given = {};
  // Soon again: it may be that the end of the work before is only just being noted.
  const double soon = kRefusedSeconds * std::exp2(std::min(open->refusals++, 20));
  schedule(open, std::min(open->due, now + soon));
  conclude_unread(open);
}

void Controller::end_visit(runs::RunNumber number, files::Outcome<RunReading> outcome) {
  const auto found = open_.find(number);
  if (found == open_.end()) return;
  OpenRun* const open = &found->second;
  open->reading_since.reset();
  open->refusals = 0;
  readings_.erase(number);
  if (open->silence_told) {
    open->silence_told = false;
    base::log(base::LogLevel::Info, "run " + open->run.id + ": its directory answers again");
  }
  const std::string subject = "run " + open->run.id;
  try {
    RunReading reading;
    if (outcome.value) reading = std::move(*outcome.value);
    if (outcome.error) reading.unwritten = outcome.error;
    note_written(open, reading);
    if (outcome.error) throw base::Error(*outcome.error);
    conclude(open, reading);
    if (open_.count(number) == 0) return;
    if (!open->unwritten.any() && !open->unsaved) troubles_.settle(subject);
  } catch (const base::Error& error) {
    troubles_.tell(subject, error.what(), clock_.monotonic_seconds());
    // A full disk must not keep from its end what fills it.
    if (open_.count(number) == 0 || open->run.wanted != runs::Wanted::Cancel) return;
    try {
      conclude_unread(open);
    } catch (const base::Error&) {  // told already
    }
  }
}

void Controller::note_written(OpenRun* open, const RunReading& reading) {
  if (!reading.unwritten || !open->given.any()) {
    if (open->given.any()) open->unwritten.pause = 0;
    const bool settles = open->given.state && runs::is_over(open->run.state) &&
                         open->given_state == open->recorded();
    open->given = {};
    if (settles && !open->run.settled) {
      open->run.settled = true;
      save(open);
    }
    return;
  }
  open->unwritten.add(open->given);
  open->given = {};
  double& pause = open->unwritten.pause;
  pause = std::clamp(2 * pause, kDiskPauseSeconds, kLongestDiskPause);
  open->unwritten.again = clock_.monotonic_seconds() + pause;
  troubles_.tell("run " + open->run.id, reading.unwritten->what(), clock_.monotonic_seconds());
}

void Controller::conclude(OpenRun* open, const RunReading& reading) {
  if (reading.exists) {
    open->gone_since.reset();
  } else if (reading.gone && ends_with_directory(*open)) {
    return end_gone(open);
  } else if (open->report.state == runs::ProcessState::Waiting ||
             open->report.state == runs::ProcessState::Unknown) {
    open->gone_since.reset();
    throw base::Error(base::Code::Operator,
                      "its directory " + base::printable(open->run.directory) +
                          " leads nowhere from here; what was started in it is left alone");
  } else if (open->report.state != runs::ProcessState::Running) {
    return wait_for_directory(open);
  }
  Followed followed;
  if (follow(open, reading, &followed)) decide(open, followed, reading);
  if (followed.more) conclude_unread(open);  // a cancellation does not wait for a long journal
  if (open->unsaved) save(open);
  runs::Run& run = open->run;
  if (runs::is_over(run.state) && run.wanted == runs::Wanted::Observe && !run.settled) {
    run.settled = true;  // its directory is somebody else's to write into
    save(open);
  }
  if (runs::is_over(run.state) && !run.settled && !open->unwritten.state && !open->given.state) {
    open->unwritten.state = true;
  }
  const bool start_is_kept = keep_start(open);
  if (run.drained && run.settled && !open->unwritten.config && start_is_kept) {
    return close(run.number);
  }
  if (followed.more || (open->unwritten.any() && open->unwritten.again == 0)) {
    schedule(open, clock_.monotonic_seconds());
  }
  if (run.drained) {  // only to be written down
    schedule(open, std::max(open->due, open->unwritten.again));
  }
}

bool Controller::follow(OpenRun* open, const RunReading& reading, Followed* followed) {
  runs::Run& run = open->run;
  if (open->fresh) follower_.refresh(&run, open->attempts);
  *followed = follower_.take(&run, &open->attempts, reading);
  nodes_.judge_corruption(run, open->launches, followed->corruption);
  const std::string subject = "journal of run " + run.id;
  if (followed->trouble.empty()) {
    troubles_.settle(subject);
  } else {
    troubles_.tell(subject, followed->trouble, clock_.monotonic_seconds());
  }
  const bool was_over = runs::is_over(run.state);
  if (followed->read_any || open->fresh) open->unsaved = true;
  if (followed->more) return false;  // the end of the journal decides; it comes with a later visit
  const bool first = adopted_.erase(run.number) > 0;
  if (std::exchange(open->found, false) && (was_over || open->launches.empty()) &&
      watch_successor(open)) {
    if (was_over) {
      base::log(base::LogLevel::Info, "run " + run.id + " goes on, started by somebody else");
    }
    schedule(open, clock_.monotonic_seconds());
    return false;
  }
  if (!was_over) return true;
  open->fresh = false;
  if (first) judge_again(open, reading);
  if (!followed->trouble.empty()) {  // it is not read to its end, and may be later
    schedule(open, clock_.monotonic_seconds() + kDiskPauseSeconds);
    return false;
  }
  // What was found to be over has no process that could write more.
  if ((!followed->read_any || (first && open->report.state == runs::ProcessState::None)) &&
      !run.drained) {
    run.drained = true;
    open->unsaved = true;
  }
  return false;
}

// What a lost store knew of nodes.
void Controller::judge_again(OpenRun* open, const RunReading& reading) {
  runs::ProcessReport report;
  report.state = runs::ProcessState::Gone;
  if (!open->launches.empty()) report.cause = runs::parse_cause(open->launches.back().cause);
  nodes_.judge_attempts(open->run, report, &open->attempts, open->launches, reading.parts);
}

// A journal that cannot be read now may hold how the attempt ended: it is waited for, for a while.
bool Controller::may_be_read_yet(OpenRun* open, const Followed& followed) {
  const double now = clock_.monotonic_seconds();
  if (followed.trouble.empty()) {
    open->unread_since.reset();
    return false;
  }
  if (!open->unread_since) open->unread_since = now;
  if (now - *open->unread_since >= kUnreadSeconds) return false;
  schedule(open, now + kDiskPauseSeconds);
  return true;
}

void Controller::decide(OpenRun* open, const Followed& followed, const RunReading& reading) {
  runs::Run& run = open->run;
  Watched watched{std::nullopt, open->report};
  if (!open->launches.empty() && !open->launches.back().over) {
    watched.launch = open->launches.back();
  }
  if (watched.launch && watched.launch->handle == kByJournal) {
    const runs::Attempt* const newest = newest_of(open->attempts, watched.launch->attempts_before);
    watched.report = open->pulse.look(followed.read_any, newest != nullptr && newest->exit_code,
                                      clock_.utc_seconds() - run.summary.last_record_utc,
                                      clock_.monotonic_seconds());
  }
  const runs::ProcessState process = watched.report.state;
  if (watched.launch && is_gone(process)) {
    if (may_be_read_yet(open, followed)) return;
    // How it ended is judged by what the run is to do now.
    if (const auto stored = store_.run(run.number)) take_change(*stored, open);
  }
  // Before anything is started: the next launch would be ended, too.
  if (run.wanted == runs::Wanted::Requeue && !watched.launch) end_requeue(open);
  if (open->fresh && !watched.launch) judge_again(open, reading);
  if (open->fresh || followed.read_any || is_gone(process)) {
    nodes_.judge_attempts(run, watched.report, &open->attempts, open->launches, reading.parts);
  }
  open->fresh = false;
  Observation seen = observe(*open, watched, reading.last_log_line, may_start(*open));
  if (const auto blockage = look_at_dependencies(open)) {
    seen.blocked = blockage->reason;
    seen.blocked_wait = blockage->wait;
  }
  const Decision decision = reconcile(seen, options_.limits);
  if (watched.launch) keep_time_limit(open, &*watched.launch, process);
  const runs::Run before = run;
  apply(open, seen, decision, &watched);
  if (watched.launch && !watched.launch->over &&
      watched.report.state == runs::ProcessState::Waiting) {
    nodes_.tell_waiting_job(run, watched.launch->handle, &open->avoidance);
  }
  if (run.state != before.state || run.reason != before.reason || run.wait != before.wait ||
      decision.launch_over) {
    open->unsaved = true;
  }
}

// The directory says nothing now. What runs can be ended all the same; the rest waits.
void Controller::conclude_unread(OpenRun* open) {
  const double now = clock_.monotonic_seconds();
  if (open->reading_since && !open->silence_told) {
    open->silence_told = true;
    readings_.erase(open->run.number);  // others need not wait for it
    base::log(base::LogLevel::Warning,
              "run " + open->run.id + ": its directory has not answered for " +
                  base::human_seconds(now - *open->reading_since) + "; what is shown is older");
  }
  if (open->run.wanted != runs::Wanted::Cancel || runs::is_over(open->run.state)) return;
  Watched watched = watch(open);
  const runs::ProcessState process = watched.report.state;
  if (process != runs::ProcessState::Running && process != runs::ProcessState::Waiting) return;
  const Observation seen = observe(*open, watched, "", false);
  apply(open, seen, reconcile(seen, options_.limits), &watched);
  save(open);
}

// Where the store cannot be written, memory goes on and the store follows.
void Controller::save(OpenRun* open) {
  open->unsaved = true;
  store_.update_run(open->run);
  open->unsaved = false;
}

void Controller::put_launch(OpenRun* open, const runs::Launch& launch) {
  book_.put(open, launch);
  count_place(*open);
}

// After each change of its launches.
void Controller::count_place(const OpenRun& open) {
  if (open.takes_place()) {
    active_.insert(open.run.number);
  } else {
    active_.erase(open.run.number);
  }
}

Controller::Watched Controller::watch(OpenRun* open) {
  Watched watched;
  watched.report.state = runs::ProcessState::None;
  const bool idle = open->launches.empty() || open->launches.back().over;
  if (!open->foreign.empty() && !(idle && open->run.wanted == runs::Wanted::Cancel)) {
    watched.report.state = runs::ProcessState::Unknown;
    watched.report.words = open->foreign;
    return watched;
  }
  if (open->launches.empty() || open->launches.back().over) return watched;
  watched.launch = open->launches.back();
  runs::Launch& launch = *watched.launch;
  if (launch.handle.empty() && !launch.token.empty()) {
    // The last controller ended between the start and the note about it, or nobody could say
    // whether it was started. Never started again before that is known.
    const runs::SchedulerFinding finding = scheduler_.find(launch.token, launch.started_utc);
    if (!finding.known) {
      watched.report.state = runs::ProcessState::Unknown;
      return watched;
    }
    if (finding.handle) {
      launch.handle = *finding.handle;
      put_launch(open, launch);
    }
  }
  if (launch.handle.empty()) {
    watched.report.state = runs::ProcessState::Gone;
  } else if (launch.handle == kByJournal) {
    watched.report.state = runs::ProcessState::Running;  // its journal says more, when it is read
  } else {
    watched.report = scheduler_.poll(launch.handle);
    const runs::ProcessReport& report = watched.report;
    if (!report.nodes.empty() && (report.nodes != launch.nodes || report.gpus != launch.gpus)) {
      launch.nodes = report.nodes;
      launch.gpus = report.gpus;
      put_launch(open, launch);
    }
  }
  return watched;
}

Observation Controller::observe(const OpenRun& open, const Watched& watched,
                                const std::string& last_log_line, bool place_free) {
  const runs::Run& run = open.run;
  Observation seen;
  seen.wanted = run.wanted;
  seen.state = run.state;
  seen.reason = run.reason;
  seen.wait = run.wait;
  seen.process = watched.report;
  seen.checkpoint_step = run.summary.checkpoint_step;
  seen.failures = run.failures;
  seen.progress_step = run.progress_step;
  seen.place_free = place_free;
  seen.why_not_now = scheduler_.why_not_now();
  if (open.unwritten.config) seen.why_not_now = kConfigUnwritten;
  seen.now = clock_.monotonic_seconds();
  seen.not_before = open.not_before;
  seen.stop_sent = open.stop_sent;
  seen.stop_asked = open.stop_asked;
  if (!watched.launch) return seen;
  seen.replaced = watched.launch->replaced;
  const runs::Attempt* attempt = newest_of(open.attempts, watched.launch->attempts_before);
  if (attempt != nullptr && !is_of_an_earlier_start(*attempt, seen.process)) {
    seen.journal_started = attempt->started;
    if (attempt->exit_code) seen.end = JournalEnd{*attempt->exit_code, attempt->message};
    seen.goes_further = goes_further(run, *attempt);
  }
  if (seen.end && (seen.process.state == runs::ProcessState::Running ||
                   seen.process.state == runs::ProcessState::Waiting)) {
    scheduler_.look_soon();
  }
  if (is_gone(seen.process.state)) seen.last_log_line = last_log_line;
  return seen;
}

void Controller::apply(OpenRun* open, const Observation& seen, const Decision& decision,
                       Watched* watched) {
  runs::Run run = open->run;
  run.state = decision.state;
  run.reason = decision.reason;
  run.wait = decision.wait;
  if (decision.launch_over && decision.not_before > seen.now) {
    run.wait.next_start_utc = clock_.utc_seconds() + decision.not_before - seen.now;
  }
  run.error = decision.error;
  run.failures = decision.failures;
  run.progress_step = decision.progress_step;
  if (runs::is_over(run.state)) {
    run.ended_utc = end_of(seen, run, watched->launch ? watched->launch->started_utc : 0);
  }
  if (decision.launch_over) {
    base::check(watched->launch.has_value(), "only a watched launch can be over");
    end_launch(open, run, seen, &*watched->launch);
  }
  if (run.state != open->run.state) {
    base::log(base::LogLevel::Info, "run " + run.id + " is " + runs::name_of(run.state) +
                                        (run.error.empty() ? "" : ": " + run.error));
    if (runs::is_over(run.state)) wake_dependants(run.id);
  }
  open->run = run;
  open->not_before = decision.not_before;
  if (decision.look_for_successor) watch_successor(open);
  const bool idle = seen.process.state == runs::ProcessState::None || decision.launch_over;
  const bool waits = idle && open->run.state == runs::RunState::Queued;
  open->blocked = waits && !seen.blocked.empty();
  wait_for_place(open, waits && !open->blocked);
  act(open, decision, watched);
}

void Controller::act(OpenRun* open, const Decision& decision, Watched* watched) {
  const runs::Run& run = open->run;
  if (decision.act == Act::Start) {
    launch(open);
  } else if (decision.act == Act::Replace) {
    // Written down first: another controller must not take its end for somebody's wish.
    watched->launch->replaced = true;
    put_launch(open, *watched->launch);
    base::log(base::LogLevel::Warning, "run " + run.id + ": " + run.reason + "; replaced");
    scheduler_.kill(watched->launch->handle);
  } else if (decision.act == Act::Stop) {
    if (run.wanted == runs::Wanted::Requeue && !watched->launch->replaced) {
      // As above, also where the store is lost meanwhile: the next reading writes it into its file.
      watched->launch->replaced = true;
      return put_launch(open, *watched->launch);
    }
    // A grace begins when the request has been passed on: it waits while Slurm is silent.
    const auto contact = scheduler_.contact(watched->launch->handle);
    const bool waits = contact && contact->end_waits_utc;
    scheduler_.stop(watched->launch->handle);
    open->stop_asked = clock_.monotonic_seconds();
    if (!open->stop_sent || waits) open->stop_sent = open->stop_asked;
  } else if (decision.act == Act::Kill) {
    base::log(base::LogLevel::Warning, "run " + run.id + " did not stop in time; killed");
    scheduler_.kill(watched->launch->handle);
    open->stop_sent = clock_.monotonic_seconds();  // again after another grace
    open->stop_asked = open->stop_sent;
  }
}

// What ended while no controller looked ended with its last record, if that is of what began at
// `began_utc` or later.
double Controller::end_of(const Observation& seen, const runs::Run& run, double began_utc) const {
  const double last = run.summary.last_record_utc;
  const bool unseen = seen.process.state == runs::ProcessState::Gone && last > 0;
  return unseen && last >= began_utc ? last : clock_.utc_seconds();
}

// run: as it is afterwards. Both are stored together, or nothing is.
void Controller::end_launch(OpenRun* open, const runs::Run& run, const Observation& seen,
                            runs::Launch* launch) {
  launch->over = true;
  launch->exit_code = seen.process.exit_code;
  if (!launch->exit_code && seen.end) launch->exit_code = seen.end->exit_code;
  launch->signal = seen.process.signal;
  launch->ended_utc = end_of(seen, run, launch->started_utc);
  launch->cause = runs::name_of(seen.process.cause);
  launch->words = seen.process.words;
  if (launch->words.empty() && !seen.journal_started) launch->words = seen.last_log_line;
  launch->action = seen.process.action;
  book_.end(open, run, *launch);
  count_place(*open);
  open->stop_sent.reset();
  open->stop_asked.reset();
  open->unwritten.state = run.wanted != runs::Wanted::Observe;
  nodes_.judge_launch(run, seen.process, *launch->ended_utc);
}

void Controller::launch(OpenRun* open) {
  runs::Launch launch;
  launch.number = open->launches.empty() ? 1 : open->launches.back().number + 1;
  launch.token = options_.random_hex(8);
  launch.attempts_before = open->attempts.empty() ? 0 : open->attempts.back().number;
  launch.started_utc = clock_.utc_seconds();
  launch.time_limit = time_limit_of(open->run);
  // Written down, then started, then the handle: whatever is lost in between is found by its token.
  book_.begin(open, launch);
  count_place(*open);
  open->avoidance.avoided = nodes_.suspects(open->run);
  launcher_.order({open->run.number, open->run.directory, launch, open->avoidance.avoided});
  if (const auto launched = launcher_.take(open->run.number)) note_launched(open, *launched);
}

// Of the turns from about `time` on the first that is free: a limit that holds for many runs must
// not cost slurmctld as many calls.
double Controller::next_turn(double time) {
  const double now = clock_.monotonic_seconds();
  turns_.erase(turns_.begin(), turns_.lower_bound(static_cast<std::int64_t>(now / kTurnSeconds)));
  auto turn = static_cast<std::int64_t>(time / kTurnSeconds);
  while (!turns_.insert(turn).second) ++turn;
  return static_cast<double>(turn) * kTurnSeconds;
}

void Controller::note_launched(OpenRun* open, const Launched& launched) {
  runs::Run& run = open->run;
  runs::Launch launch = launched.launch;
  if (launch.over) launch.ended_utc = clock_.utc_seconds();
  book_.note_begun(open, launch, launched.in_file);
  count_place(*open);
  open->unwritten.state |= launch.over;
  const double pause = std::exchange(open->refused_pause, 0);
  if (!launched.error) return;
  const std::string why = launched.error->what();
  const auto wait = [&](const std::string& reason, double seconds) {
    run.state = runs::RunState::Queued;
    run.reason = reason + why;
    run.wait = {};
    run.wait.next_start_utc = clock_.utc_seconds() + seconds;
    open->not_before = clock_.monotonic_seconds() + seconds;
    open->unsaved = true;
    wait_for_place(open, true);
  };
  const double now = clock_.monotonic_seconds();
  troubles_.tell("run " + run.id, why, now);
  const bool passes = launched.error->code() == base::Code::Conflict;
  const bool had_launch =
      std::any_of(open->launches.begin(), open->launches.end(),
                  [](const runs::Launch& each) { return !each.handle.empty(); });
  if (!launched.begun) {
    wait("its launch cannot be written down: ", kDiskPauseSeconds);
  } else if (!launched.launch.over) {  // watch() asks for its token
    run.reason = "checking whether the job was submitted: " + why;
  } else if (passes || had_launch) {
    // What was once taken may be taken again: its partition, account or QOS was changed.
    open->refused_pause = std::clamp(2 * pause, kLeastSubmitPause, kLongestSubmitPause);
    wait(passes ? "refused for now: " : "refused, and asked for again: ",
         next_turn(now + open->refused_pause) - now);
    if (!passes) run.wait.clears = "perhaps";
  } else {
    run.state = runs::RunState::Failed;
    run.error = why;
    run.ended_utc = clock_.utc_seconds();
  }
}

}  // namespace regatta::orchestrator::control
