#include "orchestrator/store/event_log.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/runs/record_fields.h"
#include "orchestrator/runs/run_start.h"
#include "orchestrator/store/row_fields.h"
#include "orchestrator/store/rows.h"

namespace regatta::orchestrator::store {
namespace {

// Some 200 MB at most; how many are written between two looks.
constexpr std::int64_t kMostEvents = 1'000'000;
constexpr std::int64_t kCutEvery = 10'000;
constexpr std::size_t kMostWords = 500;  // bytes
constexpr int kScaleDigits = 8;          // a loss scale is a power of two, to 2²⁴

std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  if (line.size() <= kMostWords) return line;
  std::size_t end = kMostWords;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;
  return line.substr(0, end) + "…";
}

Event of(const char* kind, double utc, std::string words) {
  Event event;
  event.kind = kind;
  event.utc = utc;
  event.words = std::move(words);
  return event;
}

}  // namespace

const std::vector<EventKind>& event_kinds() {
  static const std::vector<EventKind> kinds = {
      {"run.submitted", "a run was submitted"},
      {"run.found", "a run was found in the runs directory"},
      {"run.queued", "a run waits to be started, for the first time or again"},
      {"run.starting", "a run is being started"},
      {"run.running", "a run trains"},
      {"run.stopping", "a run is ending"},
      {"run.succeeded", "a run reached its target or its last step"},
      {"run.stopped", "a run ended before that, as somebody asked it to"},
      {"run.failed", "a run ended with an error"},
      {"run.cancelled", "a run was cancelled"},
      {"run.cancel_asked", "somebody cancelled a run"},
      {"run.resume_asked", "somebody resumed a run"},
      {"run.requeue_asked", "somebody wanted a run's attempt ended, and another one started"},
      {"run.extend_asked", "somebody had a run that was over train further"},
      {"run.changed", "what a run asks for was changed"},
      {"run.labelled", "a run has other tags, or another note"},
      {"run.archived", "a run was archived"},
      {"run.unarchived", "a run is archived no longer"},
      {"run.removed", "a run was removed"},
      {"run.target_reached", "an evaluation met the target"},
      {"launch.submitted", "a job or a process was started for a run"},
      {"launch.limited", "a job got another time limit"},
      {"launch.limit_refused", "the scheduler refused to give a job another time limit"},
      {"launch.ended", "that job or process ended"},
      {"attempt.started", "an attempt began to train"},
      {"attempt.ended", "an attempt ended"},
      {"attempt.warning", "a trainer warned"},
      {"attempt.batch_grown", "a trainer takes more samples a step from a later step on"},
      {"attempt.alarm", "a figure of a step was far above what it usually is"},
      {"attempt.loss_scale", "the loss of a float16 run got another factor"},
      {"attempt.corruption", "gradients that were computed again came out otherwise"},
      {"checkpoint.written", "a checkpoint was written"},
      {"checkpoint.failed", "a checkpoint could not be written"},
      {"checkpoint.removed", "retention removed a checkpoint"},
      {"checkpoint.skipped", "a checkpoint was damaged, or of another model, and was passed over"},
      {"checkpoint.pinned", "somebody pinned a checkpoint"},
      {"checkpoint.unpinned", "somebody unpinned a checkpoint"},
      {"checkpoint.exported", "somebody had a checkpoint exported"},
      {"checkpoint.export_removed", "an export was removed, as asked, or when its days were over"},
      {"checkpoint.collected", "somebody had checkpoints removed"},
      {"plan.tried", "an attempt tried cuts of its gradient, and chose one"},
      {"plan.input", "an attempt tried several ways of making its samples, and chose one"},
      {"sweep.submitted", "a sweep was submitted"},
      {"sweep.trial_failed", "the run of a sweep's trial failed, or could not be made"},
      {"sweep.stop_asked", "somebody had a sweep end"},
      {"sweep.stopped", "a sweep ended before that, as somebody asked it to"},
      {"sweep.done", "a sweep has tried all it was to try"},
      {"sweep.removed", "a sweep was forgotten"},
      {"node.blamed", "a failure was laid on a node"},
      {"node.down", "Slurm gave up a node"},
      {"node.not_responding", "a node does not answer Slurm"},
      {"node.drained", "somebody, or Slurm, drained a node, or gave another reason"},
      {"node.resumed", "a node may be used again"},
      {"node.appeared", "Slurm has a new node"},
      {"node.disappeared", "Slurm has a node no more"},
      {"node.flapping", "a node changed so often that nothing more is told of it for a while"},
      {"node.benched", "somebody had the controller keep a bench of a node"},
      {"node.bench_removed", "somebody removed a bench of a node"},
      {"webhook.dead", "a webhook failed for days, and is tried no more"},
      {"webhook.revived", "somebody had a webhook tried again"},
      {"webhook.skipped", "somebody had a webhook go on without an event"},
      {"reference.added", "somebody imported a reference curve"},
      {"reference.removed", "somebody removed one"},
      {"controller.started", "the controller started"},
      {"controller.ended", "the controller was told to end"},
  };
  return kinds;
}

std::vector<std::string> kinds_named(std::string_view name) {
  std::vector<std::string> kinds;
  for (const EventKind& kind : event_kinds()) {
    if (kind.name == name || kind.name.rfind(std::string(name) + ".", 0) == 0) {
      kinds.emplace_back(kind.name);
    }
  }
  return kinds;
}

// A store that was lost or put back does not give a number again that somebody has read: a new one
// begins with the milliseconds since 1970. The first event cuts: a controller may be restarted more
// often than that comes.
EventLog::EventLog(Database& database, base::Clock& clock)
    : database_(database), clock_(clock), since_cut_(kCutEvery - 1) {
  Statement ask = database_.prepare("SELECT max(number) FROM events");
  const std::int64_t known = ask.step() ? ask.integer(0) : 0;
  ask.run();
  constexpr double kMilliseconds = 1000;
  newest_ = std::max(known, static_cast<std::int64_t>(clock.utc_seconds() * kMilliseconds));
}

void EventLog::note(Event event) {
  event.number = newest_ + 1;
  if (!(event.utc > 0)) event.utc = clock_.utc_seconds();
  event.words = first_line(event.words);
  static const std::string sql = insertion("INSERT INTO events", {}, columns_of<Event>());
  write_row(database_, sql, RowBinder::Which::All, event);
  newest_ = event.number;
  if (++since_cut_ < kCutEvery) return;
  since_cut_ = 0;
  database_
      .prepare(
          "DELETE FROM events WHERE number <= (SELECT number FROM events ORDER BY number DESC "
          "LIMIT 1 OFFSET ?1)")
      .bind(kMostEvents)
      .run();
}

void EventLog::note(const runs::Run& run, Event event) {
  if (run.found_utc && event.utc > 0 && event.utc < *run.found_utc) return;
  event.run = run.id;
  note(std::move(event));
}

std::string EventLog::id_of(runs::RunNumber run) {
  Statement ask = database_.prepare("SELECT id FROM runs WHERE number = ?1");
  ask.bind(runs::row_of(run));
  return ask.step() ? ask.text(0) : std::string();
}

void EventLog::note_added(const runs::Run& run, const std::string& by) {
  const std::string origin = runs::origin_text(run);
  Event event = run.found_utc ? of("run.found", *run.found_utc, run.directory)
                              : of("run.submitted", run.created_utc, origin);
  event.by = by;
  note(run, std::move(event));
}

void EventLog::note_run(const runs::Run& run) {
  Statement ask = database_.prepare("SELECT state, time_to_accuracy FROM runs WHERE number = ?1");
  ask.bind(runs::row_of(run.number));
  if (!ask.step()) return;
  const bool same_state = ask.text(0) == runs::name_of(run.state);
  const bool had_reached = !ask.is_null(1);
  ask.run();
  const runs::RunSummary& summary = run.summary;
  if (summary.time_to_accuracy_seconds && !had_reached) {
    const std::optional<double> begun = summary.started_utc;
    Event event =
        of("run.target_reached", begun ? *begun + *summary.time_to_accuracy_seconds : 0,
           base::human_seconds(*summary.time_to_accuracy_seconds) + " after the first step");
    event.step = summary.step;
    note(run, std::move(event));
  }
  if (same_state) return;
  const bool over = runs::is_over(run.state);
  Event event =
      of("", over ? run.ended_utc.value_or(0) : 0, run.error.empty() ? run.reason : run.error);
  event.kind = std::string("run.") + runs::name_of(run.state);
  note(run, std::move(event));
}

void EventLog::note_changed(const runs::Run& run, const std::string& words, const std::string& by) {
  if (!words.empty()) note_wish(run.number, "run.changed", by, words);
  const std::optional<double> reached = run.summary.time_to_accuracy_seconds;
  if (!reached) return;
  Statement ask =
      database_.prepare("SELECT 1 FROM runs WHERE number = ?1 AND time_to_accuracy IS NULL");
  ask.bind(runs::row_of(run.number));
  if (!ask.step()) return;
  ask.run();
  note_wish(run.number, "run.target_reached", by,
            base::human_seconds(*reached) + " after the first step");
}

void EventLog::note_launch(runs::RunNumber run, const runs::Launch& launch) {
  Statement ask =
      database_.prepare("SELECT handle, over FROM launches WHERE run = ?1 AND number = ?2");
  ask.bind(runs::row_of(run), launch.number);
  const bool known = ask.step();
  const bool had_handle = known && !ask.text(0).empty();
  const bool was_over = known && ask.integer(1) != 0;
  if (known) ask.run();
  if (!launch.handle.empty() && !had_handle) {
    Event event = of("launch.submitted", launch.started_utc, launch.handle);
    event.run = id_of(run);
    event.launch = launch.number;
    note(std::move(event));
  }
  if (!launch.over || was_over) return;
  Event event = of("launch.ended", launch.ended_utc.value_or(0),
                   launch.words.empty() ? launch.cause : launch.words);
  event.run = id_of(run);
  event.launch = launch.number;
  event.node = launch.nodes;
  note(std::move(event));
}

// Whether this is true of the attempt's row so far.
bool EventLog::was(const runs::Attempt& attempt, const char* condition) {
  Statement ask =
      database_.prepare(std::string("SELECT ") + condition + " FROM attempts WHERE row = ?1");
  ask.bind(runs::row_of(attempt.row));
  return ask.step() && ask.integer(0) != 0;
}

// The first records of a journal come before its start record, which alone says where the attempt
// is and at which step it begins. Where that is damaged, the first step or the end has to do.
bool EventLog::note_start(const runs::Run& run, const runs::Attempt& attempt) {
  const bool told = attempt.process != 0 || !attempt.hosts.empty();
  if (!told && !attempt.first_step_begin && !attempt.exit_code) return false;
  if (was(attempt,
          "process <> 0 OR hosts <> '' OR first_step_begin IS NOT NULL OR exit_code IS NOT NULL")) {
    return false;
  }
  std::string words =
      base::join(attempt.hosts.empty() ? std::vector{attempt.host} : attempt.hosts, ", ");
  if (attempt.ranks > 1) words = std::to_string(attempt.ranks) + " ranks on " + words;
  Event event = of("attempt.started", attempt.start_utc, std::move(words));
  event.attempt = attempt.number;
  event.step = attempt.first_step;
  note(run, std::move(event));
  return true;
}

void EventLog::note_end(const runs::Run& run, const runs::Attempt& attempt) {
  if (!attempt.exit_code || was(attempt, "exit_code IS NOT NULL")) return;
  Event event = of("attempt.ended", attempt.start_utc + attempt.last_seconds,
                   attempt.reason + (attempt.message.empty() ? "" : ": " + attempt.message));
  event.attempt = attempt.number;
  event.step = run.summary.step;
  note(run, std::move(event));
}

void EventLog::note_record(const runs::Run& run, const runs::Attempt& attempt,
                           const trainer::contract::JournalRecord& record) {
  using namespace trainer::contract;
  Event event = of("", record.utc_seconds, "");
  event.attempt = attempt.number;
  if (const auto* checkpoint = std::get_if<CheckpointRecord>(&record.body)) {
    event.kind = "checkpoint." + checkpoint->status;
    event.checkpoint = checkpoint->name;
    event.step = checkpoint->step;
    event.words = checkpoint->message;
  } else if (const auto* trial = std::get_if<TrialRecord>(&record.body)) {
    event.kind = "plan.tried";
    event.step = trial->step;
    event.words = "chose " + trial->winner + ": " + std::to_string(trial->bucket_bytes.size()) +
                  " buckets, a step is " + base::percent(trial->gain) + " shorter";
  } else if (const auto* input = std::get_if<InputRecord>(&record.body)) {
    if (input->tried_workers.size() < 2) return;  // as in most attempts
    event.kind = "plan.input";
    event.step = input->step;
    event.words = input->why;
  } else if (const auto* batch = std::get_if<BatchRecord>(&record.body)) {
    event.kind = "attempt.batch_grown";
    event.step = batch->step;
    event.words = std::to_string(batch->size) + " samples a step: the noise scale is at least " +
                  base::formatted("%.0f", std::floor(batch->noise_scale_low));
  } else if (const auto* alarm = std::get_if<AlarmRecord>(&record.body)) {
    event.kind = "attempt.alarm";
    event.step = alarm->step;
    event.words = alarm->message;
  } else if (const auto* scale = std::get_if<LossScaleRecord>(&record.body)) {
    event.kind = "attempt.loss_scale";
    event.step = scale->step;
    event.words = base::short_number(scale->from, kScaleDigits) + " → " +
                  base::short_number(scale->to, kScaleDigits) + ". " + scale->message;
  } else if (const auto* corruption = std::get_if<CorruptionRecord>(&record.body)) {
    event.kind = "attempt.corruption";
    event.step = corruption->step;
    event.words = corruption->message;
    if (corruption->rank >= 0) event.node = corruption->host;
  } else if (const auto* warning = std::get_if<WarningRecord>(&record.body)) {
    event.kind = "attempt.warning";
    event.words = warning->message;
  } else if (const auto* divergence = std::get_if<DivergenceRecord>(&record.body)) {
    event.kind = "attempt.warning";
    event.step = divergence->step;
    event.words = divergence->message;
  } else {
    return;
  }
  // A journal's status may be any text.
  const auto known = std::any_of(event_kinds().begin(), event_kinds().end(),
                                 [&](const EventKind& kind) { return kind.name == event.kind; });
  if (known) note(run, std::move(event));
}

void EventLog::note_blame(const slurm::NodeEvent& blame) {
  // What no node is named for, the end of its attempt tells.
  if (blame.blame == slurm::Blame::Worked || blame.blame == slurm::Blame::Shared) return;
  if (blame.weight == 0) return;  // a slow node is slow no longer
  Event event = of("node.blamed", blame.utc, std::string(slurm::to_string(blame.blame)));
  if (!blame.words.empty()) event.words += ": " + blame.words;
  event.run = blame.run;
  event.node = blame.node;
  note(std::move(event));
}

void EventLog::note_change(const slurm::NodeChange& change, double utc) {
  Event event = of("", utc, change.words);
  event.kind = change.kind;
  event.node = change.node;
  note(std::move(event));
}

void EventLog::note_wish(runs::RunNumber run, const char* kind, const std::string& by,
                         const std::string& words) {
  Event event = of(kind, 0, words);
  event.run = id_of(run);
  event.by = by;
  note(std::move(event));
}

void EventLog::note_bench(const char* kind, const std::string& node, const std::string& by,
                          const std::string& id) {
  Event event = of(kind, 0, "bench " + id);
  event.node = node;
  event.by = by;
  note(std::move(event));
}

void EventLog::note_asked(const char* kind, const std::string& by, const std::string& words) {
  Event event = of(kind, 0, words);
  event.by = by;
  note(std::move(event));
}

}  // namespace regatta::orchestrator::store
