#include "orchestrator/api/run_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/text.h"
#include "base/wording.h"
#include "checkpoint/store.h"
#include "orchestrator/api/accuracy_json.h"
#include "orchestrator/api/answer_fields.h"
#include "orchestrator/api/shown_config.h"
#include "orchestrator/runs/record_fields.h"
#include "orchestrator/runs/run_presence.h"
#include "orchestrator/runs/run_start.h"
#include "orchestrator/store/abandoned_points.h"
#include "orchestrator/store/row_fields.h"
#include "orchestrator/store/series.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kWarningsShown = 20;
constexpr std::size_t kMostBuckets = 512;
constexpr std::size_t kMostKeys = 80;  // of a row; more only cost time

// A journal has a record a step, and with several ranks one a second. What takes longer is shown;
// the clock of its node may be seconds behind.
constexpr double kSilentSeconds = 30;
constexpr double kSilentSteps = 5;  // of the usual length; slow steps are no silence
// What else a trainer does has no record while it goes on: loading, evaluating.
constexpr double kSilentBesideTraining = 60;

// The newest attempt, and the end of the launch that made it.
Json attempt_json(const store::RunRow& row) {
  if (!row.attempt && !row.launch) return nullptr;
  Json json;
  const runs::Launch* launch = row.launch ? &*row.launch : nullptr;
  const runs::Attempt* attempt = row.attempt ? &*row.attempt : nullptr;
  const bool fresh = launch != nullptr && !launch->over &&
                     (attempt == nullptr || attempt->number <= launch->attempts_before);
  if (fresh) attempt = nullptr;  // started, but its directory is not there yet
  const bool over = launch == nullptr || launch->over || runs::is_over(row.run.state);
  json["number"] = attempt != nullptr ? attempt->number : launch->number;
  json["execution"] = attempt != nullptr ? Json(attempt->execution) : Json(nullptr);
  json["state"] = over ? "ended" : attempt != nullptr && attempt->started ? "running" : "starting";
  json["exit_code"] = nullptr;
  if (launch != nullptr && launch->exit_code) {
    json["exit_code"] = *launch->exit_code;
  } else if (attempt != nullptr && attempt->exit_code) {
    json["exit_code"] = *attempt->exit_code;
  }
  json["process"] =
      attempt != nullptr && attempt->process > 0 ? Json(attempt->process) : Json(nullptr);
  std::string reason = attempt != nullptr ? attempt->reason : "";
  if (launch != nullptr && launch->signal) {
    reason = "killed by signal " + std::to_string(*launch->signal);
  }
  json["reason"] = text_or_null(reason);
  return json;
}

// What the newest attempt that has begun says of itself.
void add_ranks(Json& json, const store::RunRow& row, double now_utc) {
  const runs::Attempt* attempt = row.begun ? &*row.begun : nullptr;
  json["ranks"] = attempt != nullptr ? Json(attempt->ranks) : Json(nullptr);
  json["ranks_per_node"] = attempt != nullptr ? Json(attempt->ranks_per_node) : Json(nullptr);
  json["device"] = attempt != nullptr ? text_or_null(attempt->device) : Json(nullptr);
  json["peak_flops"] =
      attempt != nullptr && attempt->peak_flops > 0 ? number(attempt->peak_flops) : Json(nullptr);
  json["slowest"] = nullptr;
  if (attempt == nullptr || !attempt->slowest || runs::is_over(row.run.state)) return;
  const runs::SlowestRank& slowest = *attempt->slowest;
  Json rank;
  add_fields(slowest, &rank);
  rank["age_seconds"] = number(std::max(0.0, now_utc - slowest.utc));
  json["slowest"] = std::move(rank);
}

const runs::Attempt* newest_begun(const std::vector<runs::Attempt>& attempts) {
  const auto begun = std::find_if(attempts.rbegin(), attempts.rend(),
                                  [](const runs::Attempt& attempt) { return attempt.started; });
  return begun == attempts.rend() ? nullptr : &*begun;
}

Json rank_shares_json(store::StoreReads& store, const std::vector<runs::Attempt>& attempts) {
  const runs::Attempt* begun = newest_begun(attempts);
  const auto shares = begun == nullptr ? std::nullopt : store.rank_shares(begun->row);
  if (!shares) return nullptr;
  const auto list = [](const std::vector<double>& values) {
    Json json = Json::array();
    for (const double value : values) json.push_back(number(value));
    return json;
  };
  return {{"step", shares->step},
          {"tokens", list(shares->tokens)},
          {"compute_seconds", list(shares->compute_seconds)}};
}

// Even where the journal names more buckets, no answer does: evenly thinned, with the last.
Json timeline_json(store::StoreReads& store, const std::vector<runs::Attempt>& attempts) {
  const runs::Attempt* begun = newest_begun(attempts);
  if (begun == nullptr) return nullptr;
  const std::optional<store::Timeline> timeline = store.timeline(begun->row);
  if (!timeline) return nullptr;
  Json json;
  add_fields(*timeline, &json);
  json["bucket_count"] = timeline->launched.size();
  json["buckets"] = Json::array();
  const std::size_t count = timeline->launched.size();
  const std::size_t stride = std::max<std::size_t>(1, (count + kMostBuckets - 1) / kMostBuckets);
  for (std::size_t i = 0; i < count; ++i) {
    if ((count - 1 - i) % stride != 0) continue;
    const bool sized = i < timeline->bucket_bytes.size();
    json["buckets"].push_back({i, sized ? number(timeline->bucket_bytes[i]) : Json(nullptr),
                               number(timeline->launched[i]), number(timeline->finished[i])});
  }
  return json;
}

std::vector<std::string> warning_texts(const RunParts& parts, const store::RunAxis& axis) {
  std::vector<std::string> texts;
  for (auto it = parts.warnings.rbegin(); it != parts.warnings.rend(); ++it) {
    texts.push_back(it->message);
  }
  if (parts.failures.count > 0) {
    const std::string others = parts.failures.count > 1
                                   ? std::to_string(parts.failures.count) + " checkpoints failed; "
                                   : "";
    texts.push_back(others + "checkpoint of step " + std::to_string(parts.failures.step) + ": " +
                    parts.failures.message);
  }
  for (const runs::Attempt& attempt : parts.attempts) {
    if (attempt.damaged > 0) {
      texts.push_back(std::to_string(attempt.damaged) +
                      " damaged lines in the journal of attempt " + std::to_string(attempt.number));
    }
  }
  if (axis.clamped() > 0) {
    texts.push_back("the clock went backwards between attempts; the gap counts as zero");
  }
  return texts;
}

std::optional<double> since_submission(const runs::Run& run, double now_utc) {
  const runs::RunSummary& summary = run.summary;
  double end = run.ended_utc.value_or(now_utc);
  if (summary.time_to_accuracy_seconds && summary.started_utc) {
    end = *summary.started_utc + *summary.time_to_accuracy_seconds;
  }
  return std::max(0.0, end - run.created_utc);
}

// An attempt goes on as it began, past the end that its run file has by now.
std::string steps_text(const runs::Run& run) {
  const runs::RunSummary& summary = run.summary;
  const std::string step = "step " + std::to_string(summary.step);
  const std::string steps = std::to_string(summary.steps);
  if (summary.progress) {
    return step + ", worth " + base::formatted("%.0f", std::floor(*summary.progress)) + " of " +
           steps;
  }
  if (summary.step <= summary.steps) return step + " of " + steps;
  const bool goes_on = run.state == runs::RunState::Running;
  return step + "; was to end at " + steps +
         (goes_on ? ", and this attempt goes on as it began" : "");
}

// Of one that was killed before it had saved.
std::string loss_text(const runs::Run& run) {
  const std::string lost = lost_text(run);
  const std::int64_t saved = run.summary.checkpoint_step;
  if (lost.empty()) return "";
  return (saved < 0 ? "; it has no checkpoint"
                    : "; its newest checkpoint is of step " + std::to_string(saved)) +
         lost;
}

std::optional<double> predicted_seconds(const runs::Run& run, double now_utc) {
  const runs::RunSummary& summary = run.summary;
  if (!summary.crossing || run.state != runs::RunState::Running) return std::nullopt;
  if (run.wait.category == runs::kSuspended || silent_seconds(run, now_utc)) {
    return std::nullopt;  // it has not moved since
  }
  const double since = std::max(0.0, now_utc - summary.last_record_utc);
  return std::max(0.0, *summary.crossing - summary.axis_seconds - since);
}

// As it is shown, where it is not as it is: the controller is just taking up what was to be
// resumed.
const runs::Run& shown(const runs::Run& run, std::optional<runs::Run>* other) {
  if (run.wanted != runs::Wanted::Resume) return run;
  *other = run;
  (*other)->state = runs::RunState::Queued;
  (*other)->error.clear();
  (*other)->ended_utc.reset();
  return **other;
}

void add_judgement(const runs::Run& run, double now_utc, Json* json) {
  (*json)["target_reached"] = run.summary.time_to_accuracy_seconds.has_value();
  (*json)["since_submission_seconds"] = number(since_submission(run, now_utc));
  (*json)["predicted_seconds_to_target"] = number(predicted_seconds(run, now_utc));
}

// What it is trained for, and what it begins with: null for new weights; a fork has a copy of its
// own of what another run had then.
void add_start(const runs::Run& run, Json* json) {
  const runs::RunStart start = runs::start_of(run.config);
  (*json)["task"] = start.task;
  (*json)["from"] = nullptr;
  if (!start.model && run.forked_from.empty()) return;
  (*json)["from"] = {{"path", start.model ? Json(start.model->path) : Json(nullptr)},
                     {"run", text_or_null(run.forked_from)},
                     {"checkpoint", text_or_null(run.forked_checkpoint)},
                     {"optimizer", !start.model || start.model->optimizer}};
}

// How fast it trained before is no speed that it has now.
void add_silence(const runs::Run& run, double now_utc, Json* json) {
  const std::optional<double> silence = silent_seconds(run, now_utc);
  (*json)["silent_seconds"] = number(silence);
  if (!silence) return;
  for (const char* const rate :
       {"samples_per_second", "tokens_per_second", "mfu", "utilisation", "goodput"}) {
    if (json->contains(rate)) (*json)[rate] = nullptr;
  }
}

}  // namespace

RunParts read_parts(store::StoreReads& store, runs::RunNumber run) {
  return {store.launches(run), store.attempts(run), store.newest_warnings(run, kWarningsShown),
          store.checkpoint_failures(run)};
}

std::optional<double> silent_seconds(const runs::Run& run, double now_utc) {
  const runs::RunSummary& summary = run.summary;
  if (run.state != runs::RunState::Running || run.wait.category == runs::kSuspended ||
      summary.last_record_utc <= 0) {
    return std::nullopt;
  }
  double bound = kSilentBesideTraining;
  if ((summary.phase.empty() || summary.phase == "training") && summary.step > 0 &&
      summary.samples_per_second.value_or(0) > 0) {
    const double samples = summary.batch_size > 0 ? static_cast<double>(summary.batch_size)
                                                  : static_cast<double>(summary.samples) /
                                                        static_cast<double>(summary.step);
    bound = std::max(kSilentSeconds, kSilentSteps * samples / *summary.samples_per_second);
  }
  const double silence = now_utc - summary.last_record_utc;
  return silence >= bound ? std::optional(silence) : std::nullopt;
}

std::string lost_text(const runs::Run& run) {
  const runs::RunSummary& summary = run.summary;
  const bool resumable = run.state == runs::RunState::Cancelled ||
                         run.state == runs::RunState::Stopped ||
                         (run.state == runs::RunState::Failed && !runs::is_given_up(run));
  // A fork without a checkpoint of its own has its parent's.
  const auto has_copy = [&] {
    return !run.forked_from.empty() && runs::start_checkpoint(run).empty();
  };
  if (!resumable || (summary.checkpoint_step < 0 && has_copy())) return "";
  const std::int64_t lost = summary.step - std::max<std::int64_t>(0, summary.checkpoint_step);
  if (lost <= 0) return "";
  return "; " + base::plural(lost, "step") + (lost == 1 ? " is" : " are") + " lost";
}

std::string state_text(const runs::Run& run, double now_utc) {
  const runs::RunSummary& summary = run.summary;
  const std::string steps = steps_text(run);
  switch (run.state) {
    case runs::RunState::Queued:
      return run.reason.empty() ? "waits to be started" : run.reason;
    case runs::RunState::Starting:
      return "its trainer is starting";
    case runs::RunState::Running: {
      if (run.wait.category == runs::kSuspended) return "suspended by Slurm, " + steps;
      const std::optional<double> silence = silent_seconds(run, now_utc);
      const std::string silent = silence ? "; silent for " + base::human_seconds(*silence) : "";
      if (summary.phase == "loading") return summary.phase + silent;
      return (summary.phase.empty() ? "training" : summary.phase) + ", " + steps + silent;
    }
    case runs::RunState::Stopping:
      return "writes a checkpoint and stops, " + steps;
    case runs::RunState::Succeeded:
      if (summary.time_to_accuracy_seconds) {
        return "reached its target after " + base::human_seconds(*summary.time_to_accuracy_seconds);
      }
      if (runs::steps_done(summary) < static_cast<double>(summary.steps)) {
        return "ended at an earlier target, " + steps;
      }
      return summary.target ? "finished without reaching its target, " + steps
                            : "finished, " + steps;
    case runs::RunState::Stopped:
      return summary.step == 0 ? "stopped" : "stopped, " + steps + loss_text(run);
    case runs::RunState::Failed:
      return run.error.empty() ? "failed" : "failed: " + run.error;
    case runs::RunState::Cancelled:
      return summary.step == 0 ? "cancelled" : "cancelled, " + steps + loss_text(run);
  }
  return "";
}

Json row_json(const store::RunRow& row, double now_utc) {
  std::optional<runs::Run> other;
  const runs::Run& run = shown(row.run, &other);
  Json json = Json::object();
  json.get_ref<Json::object_t&>().reserve(kMostKeys);
  add_fields(run, &json);
  json["state_text"] = state_text(run, now_utc);
  json["attempts"] = row.attempts;
  json["attempt"] = attempt_json(row);
  add_fields(run.summary, &json);
  add_silence(run, now_utc, &json);
  add_judgement(run, now_utc, &json);
  add_ranks(json, row, now_utc);
  json["checkpoint"] = nullptr;
  const runs::RunSummary& summary = run.summary;
  if (!summary.checkpoint.empty() && !runs::is_given_up(run)) {
    json["checkpoint"] = {{"step", summary.checkpoint_step},
                          {"name", summary.checkpoint},
                          {"path", run.directory + "/checkpoints/" + summary.checkpoint}};
  }
  return json;
}

const ChosenKeys& slim_keys() {
  static const ChosenKeys keys{"id",
                               "name",
                               "state",
                               "state_text",
                               "silent_seconds",
                               "created_at",
                               "started_at",
                               "ended_at",
                               "scheduler",
                               "after",
                               "archived",
                               "owner",
                               "tags",
                               "error",
                               "attempts",
                               "step",
                               "steps",
                               "samples",
                               "progress",
                               "batch_size",
                               "metric",
                               "value",
                               "target",
                               "target_times_baseline",
                               "target_reached",
                               "time_to_accuracy_seconds",
                               "training_seconds",
                               "since_submission_seconds",
                               "predicted_seconds_to_target",
                               "samples_per_second",
                               "loss"};
  return keys;
}

Json slim_json(const store::RunRow& row, double now_utc) {
  static const Json in_order = [] {
    Json json;
    for (const std::string_view key : slim_keys().in_order()) json[std::string(key)] = nullptr;
    return json;
  }();
  std::optional<runs::Run> other;
  const runs::Run& run = shown(row.run, &other);
  Json json = in_order;
  add_fields(run, &json, &slim_keys());
  json["state_text"] = state_text(run, now_utc);
  json["attempts"] = row.attempts;
  add_fields(run.summary, &json, &slim_keys());
  add_silence(run, now_utc, &json);
  add_judgement(run, now_utc, &json);
  return json;
}

Json run_json(const runs::Run& run, const RunParts& parts, double now_utc) {
  store::RunRow row{run, static_cast<int>(parts.attempts.size()), {}, {}, {}};
  if (!parts.launches.empty()) row.launch = parts.launches.back();
  for (const runs::Attempt& attempt : parts.attempts) row.take(attempt);
  Json json = row_json(row, now_utc);
  json["warnings"] = warning_texts(parts, store::RunAxis(parts.attempts));
  add_start(run, &json);
  json["config"] = shown_config(run.config);
  return json;
}

Json contact_json(const std::optional<runs::Contact>& contact, double now_utc) {
  if (!contact) return nullptr;
  std::optional<double> age;
  if (contact->answered_utc) age = std::max(0.0, now_utc - *contact->answered_utc);
  return {{"answered_at", moment(contact->answered_utc)},
          {"age_seconds", number(age)},
          {"trouble", text_or_null(contact->trouble)},
          {"cancel_waits_since", moment(contact->end_waits_utc)}};
}

Json metrics_json(store::StoreReads& store, const runs::Run& run, std::int64_t cursor, int limit) {
  const std::vector<runs::Attempt> attempts = store.attempts(run.number);
  const store::RunAxis axis(attempts);
  // Before the rows, so that a row that comes in between is sent twice rather than never.
  Json json;
  json["cursor"] = std::max(cursor, store.newest_cursor(run.number));
  json["most_steps"] = limit;
  json["resolution_seconds"] = store.step_resolution(run.number);
  json["steps"] = Json::array();
  const std::vector<store::StepRow> steps = store.steps(run.number, cursor, limit);
  const std::vector<bool> abandoned_steps = store::abandoned(store, attempts, steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const store::StepRow& row = steps[i];
    const double rate = row.step_seconds > 0 ? 1 / row.step_seconds : 0;
    json["steps"].push_back({row.step, number(axis.at(row.attempt, row.seconds)), number(row.loss),
                             number(row.mlm_loss), number(static_cast<double>(row.samples) * rate),
                             number(static_cast<double>(row.tokens) * rate), number(row.goodput),
                             number(row.noise_scale), number(row.mfu),
                             static_cast<bool>(abandoned_steps[i])});
  }
  json["evaluations"] = Json::array();
  const auto evaluations = store.evaluations(run.number, cursor);
  const std::vector<bool> abandoned = store::abandoned(store, run, attempts, evaluations);
  for (std::size_t i = 0; i < evaluations.size(); ++i) {
    const store::EvaluationRow& row = evaluations[i];
    json["evaluations"].push_back({row.step, number(axis.at(row.attempt, row.seconds)),
                                   number(row.mlm_accuracy), number(row.mlm_loss),
                                   static_cast<bool>(abandoned[i]), number(row.value),
                                   numbers(row.metrics)});
  }
  json["checkpoints"] = Json::array();
  for (const store::CheckpointRow& row : store.checkpoints(run.number, cursor)) {
    json["checkpoints"].push_back(
        {row.step, number(axis.at(row.attempt, row.seconds)), row.name, row.status});
  }
  json["timeline"] = timeline_json(store, attempts);
  json["rank_shares"] = rank_shares_json(store, attempts);
  json["prediction"] = prediction_json(run);
  return json;
}

Json checkpoints_json(store::StoreReads& store, const runs::Run& run) {
  Json list = Json::array();
  for (const store::CheckpointRow& row : store.checkpoints(run.number, 0)) {
    // One line per checkpoint: the newest word about it, where it was removed with what it took.
    // What fails once it is written (removing older ones) is a line of its own.
    const auto earlier = std::find_if(list.begin(), list.end(), [&](const Json& line) {
      if (row.status == "failed" && line.at("status") == "written") return false;
      return !row.name.empty() && line.at("name") == row.name;
    });
    if (earlier != list.end() && row.status == "removed") {
      (*earlier)["status"] = "removed";
      continue;
    }
    if (earlier != list.end()) list.erase(earlier);
    // The record of a removal tells the step at which it was removed.
    const auto name = checkpoint::parse_checkpoint_name(row.name);
    Json json;
    add_fields(row, &json);
    if (name) json["step"] = name->step;
    if (row.status == "written" && runs::is_given_up(run)) json["status"] = "removed";
    json["path"] = run.directory + "/checkpoints/" + row.name;
    list.push_back(std::move(json));
  }
  return {{"checkpoints", list}};
}

}  // namespace regatta::orchestrator::api
