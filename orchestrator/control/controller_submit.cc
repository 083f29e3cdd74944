// A run that is submitted: what it is to be, its directory, its row.
#include <algorithm>
#include <chrono>
#include <future>

#include "base/digest.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/control/request_error.h"
#include "orchestrator/control/request_key.h"
#include "orchestrator/plan/run_plan.h"
#include "orchestrator/runs/run_records.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator::control {
namespace {

constexpr int kIdBytes = 3;  // random hexadecimal digits after the name
constexpr int kMostIdTries = 100;

std::vector<std::string> each_once(const std::vector<std::string>& names) {
  std::vector<std::string> once;
  for (const std::string& name : names) {
    if (std::find(once.begin(), once.end(), name) == once.end()) once.push_back(name);
  }
  return once;
}

}  // namespace

Controller::Accepted Controller::submit(const std::string& body,
                                        const std::optional<std::string>& idempotency_key,
                                        const std::vector<std::string>& after,
                                        const std::string& by, const runs::LabelChange& label) {
  check_lease();
  const runs::Labels labels = runs::changed({}, label);
  plan::SubmittedRun asked = plan::parse_submitted(body);
  // Of what was asked for: defaults may change before the same key comes again.
  const std::string digest =
      after.empty()
          ? asked.digest()
          : base::digest_of(asked.digest() + " after " + base::join(each_once(after), "/"));
  // What the key's run waited for may be gone by now.
  if (idempotency_key) {
    check_key(*idempotency_key);
    wait_for_adoption();
    refuse_unreadable(asked.config.name);
    if (const auto before = submitted_before(*idempotency_key, digest)) return {*before, false};
  }
  store::NewRun run;
  run.after = resolve(after);
  // Ids are random, so only the same key must not come twice at once. What others are to wait for
  // is not removed meanwhile.
  std::vector<std::string> names = run.after;
  if (idempotency_key) names.push_back(lock_name(*idempotency_key));
  const files::NameLocks::Held held = changing_.take(names, options_.submit_seconds);
  if (idempotency_key) {
    if (const auto before = submitted_before(*idempotency_key, digest)) return {*before, false};
  }
  for (const std::string& id : run.after) (void)find(id);  // somebody may have removed it
  const Origin origin = resolve_start(&asked.config);
  const std::string taken = take_defaults(&asked.config);
  const std::vector<std::string> doubts = refuse_inputs(asked.config);
  if (!asked.plan && options_.plan) asked.plan = options_.plan(asked.config);
  store::take_config(asked.config, &run);
  run.created_utc = clock_.utc_seconds();
  run.idempotency_key = idempotency_key;
  run.body_digest = digest;
  run.by = run.owner = by;
  run.tags = labels.tags;
  run.note = labels.note;
  run.scheduler = runs::family_of(scheduler_.name());
  run.forked_from = origin.run;
  run.forked_checkpoint = origin.checkpoint;
  DirectoryContents contents;
  contents.seconds = options_.submit_seconds;
  if (!origin.run.empty()) {
    contents.before = [&](const std::string& id) { pin_origin(id, asked.config); };
  }
  if (asked.plan) contents.beside = plan::plan_files(*asked.plan);
  const runs::RunNumber number = add_submitted(&run, std::move(contents));
  base::log(base::LogLevel::Info, "run " + run.id + " was submitted" + taken);
  for (const std::string& doubt : doubts) {
    base::log(base::LogLevel::Warning, "run " + run.id + ": " + doubt);
  }
  wake(number);
  return {find(run.id), true, doubts};
}

std::vector<std::string> Controller::check_inputs(trainer::contract::RunConfig config) {
  (void)resolve_start(&config);
  (void)take_defaults(&config);
  return refuse_inputs(config);
}

std::optional<runs::Run> Controller::submitted_before(const std::string& key,
                                                      const std::string& digest) {
  const auto before = store_.submitted_with(key);
  if (!before) {
    if (const auto other = store_.changed_with(key)) refuse_key_of_change(other->id);
    return std::nullopt;
  }
  if (before->body_digest == digest) return find(before->id);
  throw base::Error(base::Code::Conflict, "the idempotency key was used for run " + before->id +
                                              " with another run file or other runs to wait "
                                              "for; use a new key");
}

// The directory first: it is the truth. If the controller dies before the row is written, the next
// one adopts the run, key included.
runs::RunNumber Controller::add_submitted(store::NewRun* run, DirectoryContents contents) {
  for (int tries = 0;; ++tries) {
    run->id = run->name + "-" + options_.random_hex(kIdBytes);
    if (store_.run(run->id)) continue;
    run->directory = (options_.runs_directory / run->id).string();
    runs::SubmissionRecord submission = runs::submission_of(*run);
    submission.idempotency_key = run->idempotency_key;
    submission.body_digest = run->body_digest;
    contents.beside[runs::kSubmissionName] = runs::submission_text(submission);
    if (contents.before) contents.before(run->id);
    try {
      make_directory(run->directory, run->config, contents);
      break;
    } catch (const base::Error& error) {  // of a run that the store does not know yet
      unpin_origin(*run);
      if (error.code() != base::Code::Conflict || tries >= kMostIdTries) throw;
    }
  }
  try {
    return store_.add_run(*run);
  } catch (const base::Error&) {
    unpin_origin(*run);
    const base::Path directory = run->directory;
    try {
      do_beside(directory, options_.submit_seconds, [files = &files_, directory] {
        // By another name it is no run, whatever becomes of its files.
        remove_moved(*files, move_run_away(*files, directory));
      });
    } catch (const base::Error&) {  // why it is not in the store is what counts
    }
    throw;
  }
}

// What came from where, for the log.
std::string Controller::take_defaults(trainer::contract::RunConfig* config) const {
  if (!options_.defaults) return "";
  const site::FilledRun filled = options_.defaults(*config);
  *config = filled.config;
  std::map<std::string, std::vector<std::string>> by_file;
  for (const auto& [key, path] : filled.origins) by_file[path.string()].push_back(key);
  std::string text;
  for (const auto& [path, keys] : by_file) {
    text += (text.empty() ? ", with " : "; ") + base::join(keys, ", ") + " from " + path;
  }
  return text;
}

// Only while the controller starts: the run of a key may be one that it has not read yet.
void Controller::wait_for_adoption() {
  const double deadline = clock_.monotonic_seconds() + kAdoptionSeconds;
  while (!adopted_all_ && clock_.monotonic_seconds() < deadline) {
    clock_.sleep(std::chrono::duration<double>(kLookAgainSeconds));
  }
  if (!adopted_all_) {
    throw base::Error(base::Code::Retry,
                      "the runs directory is still being read, and the run of this key may be "
                      "there; try again in a moment");
  }
}

// A run of this name that cannot be read now may be the one of the key.
void Controller::refuse_unreadable(const std::string& run_name) {
  const std::scoped_lock lock(wake_mutex_);
  const auto found = unreadable_.lower_bound(run_name + "-");
  if (found == unreadable_.end() || found->rfind(run_name + "-", 0) != 0) return;
  throw base::Error(base::Code::Retry,
                    "the run directory " + (options_.runs_directory / *found).string() +
                        " cannot be read, and may be of this key; mend its file system, give the "
                        "run another name, or submit it without a key");
}

// A directory that comes after nobody waits for it any more is removed again: nobody was told of
// its run.
void Controller::make_directory(const base::Path& directory, const std::string& run_json,
                                const DirectoryContents& contents) {
  enum class Fate { Made, GivenUp };
  const auto fate = std::make_shared<std::optional<Fate>>();
  const auto mutex = std::make_shared<std::mutex>();
  try {
    do_beside(directory, contents.seconds, [=, files = &files_] {
      (void)trainer::contract::RunDirectory::create(*files, directory, run_json, contents.beside,
                                                    contents.fill);
      const std::scoped_lock lock(*mutex);
      if (fate->has_value()) {
        files->remove_tree(directory);
      } else {
        *fate = Fate::Made;
      }
    });
  } catch (const base::Error& error) {
    const std::scoped_lock lock(*mutex);
    if (error.code() == base::Code::Retry && *fate == Fate::Made) return;  // at the last moment
    *fate = Fate::GivenUp;
    throw;
  }
}

// Ids of what is to be waited for, each once.
std::vector<std::string> Controller::resolve(const std::vector<std::string>& after) {
  if (after.size() > kMostAfter) {
    throw RequestError(base::Code::User,
                       "the run is to start after " + std::to_string(after.size()) +
                           " runs; name at most " + std::to_string(kMostAfter),
                       "after");
  }
  std::vector<std::string> ids;
  for (const std::string& name : after) {
    const std::string id = by_parameter("after", [&] { return find(name); }).id;
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

}  // namespace regatta::orchestrator::control
