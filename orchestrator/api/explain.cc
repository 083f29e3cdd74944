#include "orchestrator/api/explain.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/api/answer_fields.h"
#include "orchestrator/runs/record_fields.h"
#include "orchestrator/runs/run_presence.h"
#include "orchestrator/slurm/job_book.h"
#include "orchestrator/text/terminal.h"
#include "trainer/contract/exit_code.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;
using trainer::contract::ExitCode;

constexpr std::size_t kMostUsers = 5;  // of slots, by name

// For sentences, which know no time zone.
std::string in_time(double utc, double now_utc) {
  return utc <= now_utc ? "now" : "in " + base::human_seconds(std::ceil(utc - now_utc));
}
std::string sentence(const std::string& text, const std::string& absent) {
  return text.empty() ? absent : text;
}

std::string meaning_of(int code, const std::string& reason) {
  if (reason == "diverged") return reason;
  switch (static_cast<ExitCode>(code)) {
    case ExitCode::Finished:
      return "finished";
    case ExitCode::User:
      return "refused its input";
    case ExitCode::Operator:
      return "found the machine or the installation wrong";
    case ExitCode::Retry:
      return "ended early, to be started again";
    case ExitCode::Fenced:
      return "gave way to a newer attempt";
    case ExitCode::Stopped:
      return "was asked to stop, and saved";
    case ExitCode::Continue:
      return "saved when its time was over, to go on in another attempt";
    case ExitCode::Developer:
      return "ended with an error of the program itself";
  }
  return "returned " + std::to_string(code);
}

std::string what_became_of(const runs::Run& run, const runs::Attempt& attempt, bool newest,
                           bool launch_over) {
  if (attempt.exit_code) {
    return meaning_of(*attempt.exit_code, attempt.reason) +
           (attempt.message.empty() ? "" : ": " + attempt.message);
  }
  if (newest && !launch_over && !runs::is_over(run.state)) {
    const std::string since = attempt.message.empty() ? "" : ": " + attempt.message;
    return attempt.started ? "training" + since : "is being started";
  }
  return "left no exit code: it was killed, or its node was lost";
}

// reason: of its last attempt.
std::string what_became_of(const runs::Run& run, const runs::Launch& launch,
                           const std::string& reason) {
  if (!launch.words.empty()) return launch.words;
  if (!launch.over && launch.handle.empty()) return "is being submitted";
  if (!launch.over) return run.state == runs::RunState::Queued ? "waits to start" : "running";
  if (launch.signal) return "was killed by signal " + std::to_string(*launch.signal);
  if (launch.exit_code) return meaning_of(*launch.exit_code, reason);
  return "ended, and its exit code is not known";
}

// 0: of none that is known.
int launch_of(const runs::Attempt& attempt, const RunParts& parts) {
  int launch = 0;
  for (const runs::Launch& each : parts.launches) {
    if (each.attempts_before < attempt.number) launch = each.number;
  }
  return launch;
}

Json launch_json(const runs::Run& run, const runs::Launch& launch, const RunParts& parts) {
  const auto job = slurm::parse_job_handle(launch.handle);
  std::string reason;
  for (const runs::Attempt& attempt : parts.attempts) {
    if (launch_of(attempt, parts) == launch.number) reason = attempt.reason;
  }
  Json json;
  add_fields(launch, &json);
  json["job"] = job ? Json(job->id) : Json(nullptr);
  json["what"] = what_became_of(run, launch, reason);
  return json;
}

Json attempt_json(const runs::Run& run, const RunParts& parts, const runs::Attempt& attempt) {
  const bool newest = &attempt == &parts.attempts.back();
  const bool launch_over = parts.launches.empty() || parts.launches.back().over;
  const int launch = launch_of(attempt, parts);
  Json json;
  add_fields(attempt, &json);
  json["launch"] = launch == 0 ? Json(nullptr) : Json(launch);
  json["what"] = what_became_of(run, attempt, newest, launch_over);
  return json;
}

std::string next_start(const runs::Run& run, double now_utc) {
  if (run.wait.next_start_utc) {
    return "the next attempt is started " + in_time(*run.wait.next_start_utc, now_utc);
  }
  if (run.wait.expected_start_utc) {
    return "Slurm expects to start it " + in_time(*run.wait.expected_start_utc, now_utc);
  }
  if (run.wait.category == "dependency") {
    return run.wait.clears == "by itself" ? "it begins when what it waits for has succeeded"
                                          : "nothing, until somebody acts";
  }
  if (run.wait.category == "held") return "nothing, until it is released";
  if (run.wait.clears == "never") return "nothing, until somebody changes what it asks for";
  return "it starts when its turn comes";
}

// Whether what is known of the run's job is old, because Slurm does not answer.
bool is_silent(const RunParts& parts, const std::optional<runs::Contact>& contact) {
  return contact && !contact->trouble.empty() && !parts.launches.empty() &&
         !parts.launches.back().over;
}

// What its run file or its data made it end by would end it again.
bool ends_the_same_way(const RunParts& parts) {
  return !parts.attempts.empty() &&
         parts.attempts.back().exit_code == static_cast<int>(ExitCode::User);
}

std::string summary_of(const runs::Run& run, const RunParts& parts,
                       const std::optional<runs::Contact>& contact, double now_utc) {
  const std::string saved =
      (run.summary.checkpoint_step >= 0
           ? "; its newest checkpoint is of step " + std::to_string(run.summary.checkpoint_step)
           : "; it has no checkpoint") +
      lost_text(run);
  const std::string beside = run.reason.empty() ? "" : "; it " + run.reason;
  switch (run.state) {
    case runs::RunState::Queued:
      if (run.wait.category == "dependency") return "it " + run.reason;
      return "queued: " + sentence(run.reason, "about to be started");
    case runs::RunState::Starting:
      return (parts.launches.empty() ? "it is about to be started"
                                     : "it was started, and its trainer has not reported yet") +
             beside;
    case runs::RunState::Running:
      return state_text(run, now_utc) + beside;
    case runs::RunState::Stopping:
      if (is_silent(parts, contact)) {
        return "it is to be stopped, and Slurm has not been told so far" + saved;
      }
      return "it was asked to stop, and saves" + saved + beside;
    case runs::RunState::Succeeded:
      return run.summary.time_to_accuracy_seconds
                 ? "it reached its target after " +
                       base::human_seconds(*run.summary.time_to_accuracy_seconds)
                 : "it did all its steps";
    case runs::RunState::Stopped:
      return "it was stopped" + (run.error.empty() ? "" : ": " + run.error) + saved;
    case runs::RunState::Failed:
      return "it failed: " + sentence(run.error, "nobody said why") +
             (runs::is_given_up(run) ? "" : saved);
    case runs::RunState::Cancelled:
      return "it was cancelled" + (run.error.empty() ? "" : ", " + run.error) + saved;
  }
  return "";
}

// A run without a checkpoint has nothing to go on from.
std::string resume_text(const runs::Run& run) {
  return "`" + base::shown_command("regatta resume", run.id) + "`" +
         (run.summary.checkpoint_step >= 0 ? " lets it go on from its newest checkpoint"
                                           : " starts it again");
}

// What another attempt of a run begins with.
std::string another_attempt(const runs::Run& run, std::string_view from, std::string_view anew) {
  return run.summary.checkpoint_step >= 0
             ? std::string(from) + " from the newest checkpoint"
             : std::string(anew) + " again, as there is no checkpoint yet";
}

std::string next_of_silent(const runs::Run& run, const RunParts& parts) {
  const std::string look = "; `regatta-train stacks --directory " +
                           base::shell_word(run.directory) + "` on its node shows where it stands";
  if (run.wanted == runs::Wanted::Observe) {
    return "it was started by hand, and is left alone" + look;
  }
  const bool watched = !parts.attempts.empty() && parts.attempts.back().ranks > 1;
  return (watched ? "its watchdog ends the attempt if its ranks stand still, and another follows; "
                    "if that does not come, `"
                  : "nothing, as long as its process lives; it may be evaluating or saving, and if "
                    "it does not go on, `") +
         base::shown_command("regatta requeue", run.id) + "` starts " +
         another_attempt(run, "another attempt", "it") + look;
}

std::string end_of(const runs::RunSummary& summary) {
  const std::string steps = std::to_string(summary.steps);
  return summary.progress ? "when its steps are worth " + steps + " of its first batch"
                          : "at step " + steps;
}

std::string next_of(const runs::Run& run, const RunParts& parts,
                    const std::optional<runs::Contact>& contact, double now_utc) {
  // A journal goes on without Slurm.
  if (is_silent(parts, contact) && !runs::is_over(run.state) &&
      run.state != runs::RunState::Running) {
    return run.state == runs::RunState::Stopping
               ? "it is stopped when Slurm answers; until then Slurm is asked again and again"
               : "not known until Slurm answers; until then Slurm is asked again and again";
  }
  switch (run.state) {
    case runs::RunState::Queued:
      return next_start(run, now_utc);
    case runs::RunState::Starting:
      return "training begins when every node has answered";
    case runs::RunState::Running:
      if (run.wait.category == runs::kSuspended) return "it trains on when its job is resumed";
      if (silent_seconds(run, now_utc)) return next_of_silent(run, parts);
      if (!run.summary.progress && run.summary.step > run.summary.steps) {
        return "this attempt goes on to the steps that its run file had when it began; `" +
               base::shown_command("regatta requeue", run.id) + "` makes the run end at step " +
               std::to_string(run.summary.steps);
      }
      return "it ends at its target or " + end_of(run.summary) +
             "; should an attempt end early, another " + another_attempt(run, "goes on", "begins");
    case runs::RunState::Stopping:
      if (run.wanted == runs::Wanted::Requeue) {
        return "it waits in its turn for another attempt as soon as it has saved, and is killed if "
               "that takes too long";
      }
      return "it is cancelled as soon as it has saved, and killed if that takes too long";
    case runs::RunState::Failed:
      if (runs::is_given_up(run)) {
        return "nothing; `" + base::shown_command("regatta rm", run.id) + "` forgets it";
      }
      if (run.wanted == runs::Wanted::Observe) return "nothing; it is over";
      return ends_the_same_way(parts)
                 ? "nothing; a resumed run has the same run file, so submit a changed one; where "
                   "the cause lies elsewhere, mend it, then `" +
                       base::shown_command("regatta resume", run.id) + "`"
                 : "nothing; mend the cause, then " + resume_text(run);
    case runs::RunState::Stopped:
    case runs::RunState::Cancelled:
      if (run.wanted == runs::Wanted::Observe) return "nothing; it is over";
      return "nothing; " + resume_text(run);
    default:
      return "nothing; it is over";
  }
}

std::string ordinal(int number) {
  const bool teen = number % 100 / 10 == 1;
  const char* const end = teen || number % 10 > 3 || number % 10 == 0 ? "th"
                          : number % 10 == 1                          ? "st"
                          : number % 10 == 2                          ? "nd"
                                                                      : "rd";
  return std::to_string(number) + end;
}

Json waiting_json(const runs::Run& run) {
  if (run.state != runs::RunState::Queued && run.wait.category != runs::kSuspended) return nullptr;
  Json json;
  add_fields(run.wait, &json);
  json["category"] = sentence(run.wait.category, "controller");
  json["clears"] = sentence(run.wait.clears, "by itself");
  json["sentence"] = run.reason;
  return json;
}

std::string text_of(const Json& json, const char* name) {
  const auto it = json.find(name);
  if (it == json.end() || it->is_null()) return "";
  return base::printable(it->is_string() ? it->get<std::string>() : base::json_text(*it));
}

// " (at 14:05:03)" where the next start is known.
std::string at_local_time(const Json& json) {
  const Json waiting = json.value("waiting", Json());
  if (!waiting.is_object()) return "";
  const std::string next = text::local_date(waiting.value("next_start", Json()));
  const std::string start =
      next.empty() ? text::local_date(waiting.value("expected_start", Json())) : next;
  return start.empty() ? "" : " (" + start + ")";
}

// Of contact_json(): how old is what is known of the run's job.
std::string slurm_text(const Json& slurm) {
  const std::string trouble = text_of(slurm, "trouble");
  const Json at = slurm.value("answered_at", Json());
  const Json age = slurm.value("age_seconds", Json());
  const double seconds = age.is_number() ? age.get<double>() : 0;
  if (!trouble.empty() || !at.is_string()) return text::silence_text(at, seconds, trouble);
  return "answered " + base::human_seconds(seconds) + " ago";
}

}  // namespace

Json explain_json(const runs::Run& run, const RunParts& parts,
                  const std::vector<slurm::Avoided>& avoided,
                  const std::optional<runs::Contact>& contact, double now_utc) {
  Json json{{"id", run.id},
            {"state", runs::name_of(run.state)},
            {"summary", summary_of(run, parts, contact, now_utc)},
            {"next", next_of(run, parts, contact, now_utc)},
            {"slurm", runs::is_over(run.state) ? Json(nullptr) : contact_json(contact, now_utc)},
            {"waiting", waiting_json(run)},
            {"failures_in_a_row", run.failures},
            {"launches", Json::array()},
            {"attempts", Json::array()},
            {"avoided_nodes", Json::array()}};
  for (const runs::Launch& launch : parts.launches)
    json["launches"].push_back(launch_json(run, launch, parts));
  for (const runs::Attempt& attempt : parts.attempts) {
    json["attempts"].push_back(attempt_json(run, parts, attempt));
  }
  for (const slurm::Avoided& node : avoided) {
    json["avoided_nodes"].push_back(
        {{"node", node.node}, {"score", node.score}, {"why", node.why}});
  }
  return json;
}

std::string place_in_line(const runs::Run& run, const std::vector<runs::Run>& open) {
  int place = 1;
  std::vector<std::string> users;
  for (const runs::Run& other : open) {
    if (other.state == runs::RunState::Queued) {
      const bool before =
          std::pair(other.created_utc, other.number) < std::pair(run.created_utc, run.number);
      if (before && other.reason == run.reason) ++place;
    } else if (!runs::is_over(other.state) && other.wanted != runs::Wanted::Observe) {
      users.push_back(other.id);
    }
  }
  if (users.size() > kMostUsers) {
    const std::string more = std::to_string(users.size() - kMostUsers) + " more";
    users.resize(kMostUsers);
    users.push_back(more);
  }
  return ordinal(place) + " in line for a free slot" +
         (users.empty() ? "" : "; in use by " + base::join(users, ", ")) +
         " (`regatta serve --parallel` says how many run at once)";
}

std::string explain_text(const Json& json) {
  std::string text = text_of(json, "id") + "  " + text_of(json, "state") + "\n";
  const auto line = [&text](const std::string& name, const std::string& words) {
    if (words.empty()) return;
    text += "  " + name + std::string(name.size() < 8 ? 8 - name.size() : 1, ' ') + words + "\n";
  };
  line("now", text_of(json, "summary"));
  line("next", text_of(json, "next") + at_local_time(json));
  if (json.contains("waiting") && json["waiting"].is_object()) {
    line("do", text_of(json["waiting"], "action"));
  }
  const Json slurm = json.value("slurm", Json());
  if (slurm.is_object()) {
    line("slurm", slurm_text(slurm));
    const std::string waits = text::local_time(slurm.value("cancel_waits_since", Json()));
    if (!waits.empty()) line("cancel", "waits since " + waits + " for Slurm to answer");
  }
  for (const Json& launch : json.value("launches", Json::array())) {
    const std::string job = text_of(launch, "job");
    const std::string nodes = text_of(launch, "nodes");
    text += "  launch " + text_of(launch, "launch") + (job.empty() ? "" : ", job " + job) +
            (nodes.empty() ? "" : " on " + nodes) + ", " +
            text::local_date(launch.value("submitted_at", Json())) + ": " +
            text_of(launch, "what") + "\n";
    line("  do", text_of(launch, "action"));
    for (const Json& attempt : json.value("attempts", Json::array())) {
      if (attempt.value("launch", Json()) != launch.value("launch", Json())) continue;
      const std::string host = text_of(attempt, "host");
      text += "    attempt " + text_of(attempt, "attempt") + (host.empty() ? "" : " on " + host) +
              ", from step " + text_of(attempt, "first_step") + ", " +
              base::human_seconds(attempt.value("seconds", 0.0)) + ": " + text_of(attempt, "what") +
              "\n";
    }
  }
  for (const Json& node : json.value("avoided_nodes", Json::array())) {
    line("avoids", text_of(node, "node") + ": " + text_of(node, "why"));
  }
  return text;
}

}  // namespace regatta::orchestrator::api
