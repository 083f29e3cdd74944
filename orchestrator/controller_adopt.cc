// Runs that the controller finds: those of an earlier one, and those that somebody started by hand.
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/log.h"
#include "orchestrator/controller.h"
#include "orchestrator/run_records.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator {
namespace {

constexpr double kLookSeconds = 10;                  // between two looks at the runs directory
constexpr double kForgottenSeconds = 30 * 86400.0;   // after which an old run is not started again
constexpr std::uint64_t kBeginningBytes = 64 << 10;  // of a journal, which its start record fits in

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return {};
  return name;
}

bool is_run_name(const std::string& name) {
  return name.front() != '.' && name.find(".tmp-") == std::string::npos;
}

// Whether the attempt's journal has a whole record.
bool has_begun(base::FileSystem& files, const trainer::RunDirectory& directory,
               const trainer::AttemptName& attempt) {
  const base::Path journal = directory.journal_path(attempt);
  if (!files.exists(journal)) return false;
  return files.read_at(journal, 0, kBeginningBytes).find('\n') != std::string::npos;
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
  for (const std::string& name : files_.list(options_.runs_directory)) {
    if (!is_run_name(name) || known_.count(name) > 0) continue;
    try {
      if (!look_at(name)) continue;
    } catch (const base::Error& error) {
      base::log(base::LogLevel::Warning, "cannot adopt " + name + ": " + error.what());
    }
    known_.insert(name);
  }
}

bool Controller::look_at(const std::string& name) {
  const base::Path directory = options_.runs_directory / name;
  std::optional<Run> run = store_.run(name);
  if (run && run->wanted != Wanted::Observe) return true;
  if (run && !is_over(run->state)) return false;
  if (run && clock_.utc_seconds() - run->ended_utc.value_or(0) > kForgottenSeconds) return true;
  // What is being submitted has a submission.json before it has a row.
  if (!files_.exists(directory / "run.json") || files_.exists(directory / kSubmissionName)) {
    return false;
  }
  const auto opened = trainer::RunDirectory::open(files_, directory);
  const std::vector<trainer::AttemptName> attempts = opened.attempts();
  if (attempts.empty() || !has_begun(files_, opened, attempts.back())) return false;
  if (!run) {
    adopt_run(directory);
    return false;
  }
  const std::vector<Attempt> before = store_.attempts(run->number);
  const bool same = !before.empty() && before.back().execution == attempts.back().execution;
  if (same && before.back().started) return false;
  while (follower_.follow(&*run).more) {
  }
  watch_successor(&*run);
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
void Controller::watch_successor(Run* run) {
  const std::vector<Attempt> attempts = store_.attempts(run->number);
  const std::vector<Launch> launches = store_.launches(run->number);
  if (attempts.empty()) return;
  const Attempt& newest = attempts.back();
  std::optional<std::string> handle;
  const bool here = newest.host.empty() || newest.host == host_name();
  if (here) handle = scheduler_.adopt(newest.process, run->directory);
  const bool unseen = !here || !scheduler_.sees_processes();
  if (!handle && unseen && run->wanted == Wanted::Observe) handle = kByJournal;
  if (!handle && !launches.empty()) return;
  Launch launch;
  launch.number = launches.empty() ? 1 : launches.back().number + 1;
  launch.handle = handle.value_or("");
  launch.attempts_before = newest.number - 1;
  launch.started_utc = newest.start_utc;
  store_.put_launch(run->number, launch);
  run->state = RunState::Running;
  run->error.clear();
  run->ended_utc.reset();
}

}  // namespace regatta::orchestrator
