// Runs that the controller finds: those of an earlier one, and those that somebody started by hand.
#include <unistd.h>

#include <algorithm>

#include "base/digest.h"
#include "base/error.h"
#include "base/log.h"
#include "orchestrator/controller.h"
#include "orchestrator/run_records.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator {
namespace {

constexpr double kLookSeconds = 10;                 // between two looks at the runs directory
constexpr double kForgottenSeconds = 30 * 86400.0;  // after which an old run is not started again
constexpr int kLooksForOld = 6;                     // every how many also at runs that are over
constexpr std::uint64_t kMostRecordBytes = std::uint64_t{1} << 20U;

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return {};
  return name;
}

bool is_run_name(const std::string& name) {
  return name.front() != '.' && name.find(".tmp-") == std::string::npos;
}

// Whether the attempt's journal has a whole record behind `offset`.
bool has_more(base::FileSystem& files, const trainer::RunDirectory& directory,
              const trainer::AttemptName& attempt, std::int64_t offset) {
  const base::Path journal = directory.journal_path(attempt);
  if (!files.exists(journal)) return false;
  const std::string text =
      files.read_at(journal, static_cast<std::uint64_t>(offset), kMostRecordBytes);
  return text.find('\n') != std::string::npos;
}

}  // namespace

void Controller::adopt() {
  for (const std::string& name : files_.list(options_.runs_directory)) {
    if (!is_run_name(name)) continue;
    try {
      if (!store_.run(name)) adopt_run(options_.runs_directory / name);
    } catch (const base::Error& error) {
      base::log(base::LogLevel::Warning, "cannot adopt " + name + ": " + error.what());
    }
  }
}

void Controller::adopt_new() {
  const double now = clock_.monotonic_seconds();
  if (now < next_look_) return;
  next_look_ = now + kLookSeconds;
  const bool at_old_ones = ++looks_ % kLooksForOld == 0;
  for (const std::string& name : files_.list(options_.runs_directory)) {
    if (!is_run_name(name) || known_.count(name) > 0) continue;
    std::string trouble;
    try {
      if (look_at(name, at_old_ones)) known_.insert(name);
    } catch (const base::Error& error) {
      trouble = error.what();
    }
    std::string& told = looked_[name];
    if (!trouble.empty() && trouble != told) {
      base::log(base::LogLevel::Warning, "cannot adopt " + name + ": " + trouble);
    }
    if (!trouble.empty()) told = trouble;
  }
}

bool Controller::look_at(const std::string& name, bool at_old_ones) {
  const base::Path directory = options_.runs_directory / name;
  std::optional<Run> run = store_.run(name);
  if (run && run->wanted != Wanted::Observe) return true;
  if (run && (!is_over(run->state) || !at_old_ones)) return false;
  if (run && clock_.utc_seconds() - run->ended_utc.value_or(0) > kForgottenSeconds) return true;
  // What is being submitted has a submission.json before it has a row.
  if (!files_.exists(directory / "run.json") || files_.exists(directory / kSubmissionName)) {
    return false;
  }
  const auto opened = trainer::RunDirectory::open(files_, directory);
  const std::vector<trainer::AttemptName> attempts = opened.attempts();
  if (attempts.empty()) return false;
  if (!run) {
    if (has_more(files_, opened, attempts.back(), 0)) adopt_run(directory);
    return false;
  }
  const std::vector<Attempt> before = store_.attempts(run->number);
  const auto find = [&](const std::string& execution) {
    return std::find_if(before.begin(), before.end(),
                        [&](const Attempt& attempt) { return attempt.execution == execution; });
  };
  const auto known = find(attempts.back().execution);
  if (known != before.end() && known->exit_code) return false;
  const std::int64_t read = known == before.end() ? 0 : known->offset;
  if (!has_more(files_, opened, attempts.back(), read)) return false;
  if (!before.empty() && find(attempts.front().execution) == before.end()) {
    throw base::Error(base::Code::Conflict,
                      "it was removed and made anew; only the old run is shown under this name, so "
                      "train in a directory of another name");
  }
  while (follower_.follow(&*run).more) {
  }
  if (!watch_successor(&*run)) return false;
  run->drained = false;
  store_.update_run(*run);
  base::log(base::LogLevel::Info, "run " + run->id + " goes on, started by somebody else");
  return false;
}

void Controller::adopt_run(const base::Path& directory) {
  if (!files_.exists(directory / "run.json")) return;
  const auto opened = trainer::RunDirectory::open(files_, directory);
  const trainer::RunConfig config = trainer::parse_run_config(opened.run_json(), "run.json");
  const auto submission = read_submission(files_, directory);
  NewRun run;
  run.id = directory.filename().string();
  run.name = config.name;
  run.config = trainer::to_json(config);
  run.steps = config.steps;
  run.directory = directory.string();
  run.created_utc = submission ? submission->created_utc : clock_.utc_seconds();
  run.wanted = submission ? submission->wanted : Wanted::Observe;
  run.body_digest = submission ? submission->body_digest : base::digest_of(run.config);
  if (submission && submission->idempotency_key &&
      !store_.submitted_with(*submission->idempotency_key)) {
    run.idempotency_key = submission->idempotency_key;
  }
  const RunNumber number = store_.add_run(run);
  std::vector<Launch> launches = read_launches(files_, directory);
  // The journals decide how the newest one ended, whatever was written down before.
  if (!launches.empty()) launches.back().over = false;
  for (const Launch& launch : launches) store_.put_launch(number, launch);
  auto adopted = store_.run(number);
  base::check(adopted.has_value(), "a run that was added is there");
  while (follower_.follow(&*adopted).more) {
  }
  if (launches.empty()) watch_successor(&*adopted);
  store_.update_run(*adopted);
  base::log(base::LogLevel::Info, "run " + run.id + " was found in the runs directory");
}

// An attempt that this controller did not start: watched like its own if it lives, else judged by
// its journal.
bool Controller::watch_successor(Run* run) {
  const std::vector<Attempt> attempts = store_.attempts(run->number);
  const std::vector<Launch> launches = store_.launches(run->number);
  if (attempts.empty()) return false;
  // Two that began at once have one number, and one of them was fenced.
  const Attempt* newest = &attempts.back();
  for (const Attempt& attempt : attempts) {
    if (attempt.number == attempts.back().number && !attempt.exit_code) newest = &attempt;
  }
  // What a launch has watched to its end is over; a later one may have begun and ended unseen.
  const bool seen = !launches.empty() && newest->number - 1 <= launches.back().attempts_before;
  if (newest->exit_code && seen) return false;
  std::optional<std::string> handle;
  const bool here = newest->host.empty() || newest->host == host_name();
  if (here) handle = scheduler_.adopt(newest->process, run->directory);
  const bool gone = here && scheduler_.is_gone(newest->process);
  if (!handle && !gone && run->wanted == Wanted::Observe) handle = kByJournal;
  if (!handle && !launches.empty()) return false;
  Launch launch;
  launch.number = launches.empty() ? 1 : launches.back().number + 1;
  launch.handle = handle.value_or("");
  launch.attempts_before = newest->number - 1;
  launch.started_utc = newest->start_utc;
  store_.put_launch(run->number, launch);
  run->state = RunState::Running;
  run->error.clear();
  run->ended_utc.reset();
  return true;
}

}  // namespace regatta::orchestrator
