#include "orchestrator/control/sweep_driver.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/log.h"
#include "orchestrator/control/request_key.h"
#include "orchestrator/plan/run_plan.h"
#include "orchestrator/plan/start_facts.h"

namespace regatta::orchestrator::control {
namespace {

using base::Code;
using sweeps::TrialState;

constexpr int kIdBytes = 3;
constexpr std::size_t kLongestBegin = 50;  // of an id: with its end it fits into a tag
constexpr int kTriedAtOnce = 256;          // trials whose values are looked at at a submission
constexpr std::uint64_t kLargestFile = 64U << 20U;
constexpr const char* kEnding = ".json";
constexpr const char* kHalfWritten = ".json.tmp-";  // by one that was killed

std::string words_of(const TrialRecord& trial, const std::string& sweep) {
  return sweep + ", trial " + std::to_string(trial.number) + ": " + trial.reason;
}

// The name of the sweep in an id as new_id() makes it, which has its first kLongestBegin bytes.
std::string name_in(const std::string& id) { return id.substr(0, id.rfind('-')); }

// Paths as of a run that is submitted: absolute ones alone.
void settle_paths(sweeps::SweepFile* file) {
  plan::settle_short_start(&file->run);
  file->run = plan::parse_submitted(trainer::contract::to_json(file->run)).config;
  sweeps::change_paths(&file->sweep, [](const std::string& of, const std::string& path) {
    if (base::Path(path).is_absolute()) return path;
    const std::string key = "sweep.parameters." + of;
    throw base::Error(Code::User,
                      "sweep file: " + key + ": '" + base::printable(path) +
                          "' is not absolute; the controller cannot know what it is relative to",
                      key);
  });
}

}  // namespace

SweepDriver::SweepDriver(base::FileSystem& files, base::Clock& clock, Controller& controller,
                         SweepDriverOptions options)
    : files_(files),
      clock_(clock),
      controller_(controller),
      options_(std::move(options)),
      directory_(sweeps_directory(controller.runs_directory())) {}

SweepDriver::~SweepDriver() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SweepDriver::start() {
  thread_ = std::thread([this] { run(); });
}

void SweepDriver::run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    woken_ = false;
    lock.unlock();
    const bool more = step();
    lock.lock();
    if (more) continue;
    wake_.wait_for(lock, std::chrono::duration<double>(options_.look_seconds),
                   [this] { return woken_ || ends_; });
  }
}

void SweepDriver::wake() {
  {
    const std::scoped_lock lock(mutex_);
    woken_ = true;
  }
  wake_.notify_all();
}

// What touches the runs directory. The directory has one work at a time, so that none that comes
// late undoes a later one.
template <typename Work>
auto SweepDriver::on_disk(Work work) {
  if (options_.shared == nullptr) return work();
  return options_.shared->call(directory_, options_.write_seconds, std::move(work));
}

void SweepDriver::load() {
  const auto texts = on_disk([files = &files_, directory = directory_] {
    std::map<std::string, std::string> found;
    for (const std::string& name : files->list(directory)) {
      if (name.find(kHalfWritten) != std::string::npos) files->remove_file(directory / name);
      if (!name.ends_with(kEnding) || name.front() == '.') continue;
      try {
        found[name] = files->read(directory / name, kLargestFile);
      } catch (const base::Error& error) {
        if (error.code() == Code::Operator || error.code() == Code::Retry) throw;
        found[name] = "";
      }
    }
    return found;
  });
  std::map<std::string, Shown> sweeps;
  std::map<std::string, std::string> damaged;
  for (const auto& [name, text] : texts) {
    try {
      auto record = std::make_shared<SweepRecord>(parse_sweep_record(text));
      if (record->id + kEnding != name) {
        throw base::Error(Code::Operator, "it is of the sweep " + base::printable(record->id));
      }
      sweeps[record->id] = std::move(record);
    } catch (const base::Error& error) {
      const std::string fault = base::printable((directory_ / name).string()) +
                                " is left out: " + error.what() +
                                "; mend or remove the file, then start `regatta serve` again";
      damaged[name.substr(0, name.rfind(kEnding))] = fault;
      base::log(base::LogLevel::Warning, fault);
    }
  }
  const std::scoped_lock lock(mutex_);
  sweeps_.merge(sweeps);
  damaged_ = std::move(damaged);
  load_trouble_.clear();
  loaded_ = true;
}

void SweepDriver::write(const SweepRecord& record) {
  controller_.check_lease();
  on_disk([files = &files_, directory = directory_, name = record.id + kEnding,
           text = text_of(record)] {
    if (files->create_directory(directory)) files->sync_directory(directory.parent_path());
    base::replace_file(*files, directory / name, text);
    return true;
  });
}

SweepDriver::Shown SweepDriver::shown(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  const auto found = sweeps_.find(id);
  return found == sweeps_.end() ? nullptr : found->second;
}

// The file first. Null where the sweep was removed.
SweepDriver::Shown SweepDriver::update(const std::string& id, const Change& change) {
  const auto held = changing_.try_take({"sweeps"}, options_.write_seconds);
  if (!held) throw base::Error(Code::Retry, directory_.string() + " does not answer; try again");
  const Shown before = shown(id);
  if (before == nullptr) return nullptr;
  auto after = std::make_shared<SweepRecord>(*before);
  if (!change(after.get())) return before;
  write(*after);
  {
    const std::scoped_lock lock(mutex_);
    sweeps_[id] = after;
  }
  tell(*before, *after);
  return after;
}

std::string SweepDriver::new_id(const std::string& name) {
  for (;;) {
    std::string id = name.substr(0, kLongestBegin) + "-" + options_.random_hex(kIdBytes);
    if (shown(id) == nullptr) return id;
  }
}

SweepRecord SweepDriver::preview(const std::string& body) const {
  SweepRecord record;
  record.file = sweeps::parse_sweep_file(body, "sweep file");
  sweeps::check_trials(record.file, kTriedAtOnce);
  record.body_digest = base::digest_of(sweeps::to_json(record.file));
  settle_paths(&record.file);
  record.created_utc = clock_.utc_seconds();
  return record;
}

std::optional<SweepDriver::Shown> SweepDriver::submitted_before(const std::string& key,
                                                                const std::string& digest) {
  if (const auto run = controller_.store().submitted_with(key)) refuse_key_of_submission(run->id);
  if (const auto run = controller_.store().changed_with(key)) refuse_key_of_change(run->id);
  for (const Shown& each : all()) {
    if (each->idempotency_key != key) continue;
    if (each->body_digest == digest) return each;
    throw base::Error(Code::Conflict, "the idempotency key was used for sweep " + each->id +
                                          " with another file; use a new key");
  }
  return std::nullopt;
}

SweepDriver::Accepted SweepDriver::submit(const std::string& body,
                                          const std::optional<std::string>& idempotency_key,
                                          const std::string& by) {
  if (idempotency_key) check_key(*idempotency_key);
  auto record = std::make_shared<SweepRecord>(preview(body));
  const std::vector<std::string> doubts = check_inputs(*record);
  record->owner = by;
  record->idempotency_key = idempotency_key;
  {
    const auto held = changing_.try_take({"sweeps"}, options_.write_seconds);
    if (!held) throw base::Error(Code::Retry, directory_.string() + " does not answer; try again");
    (void)all();  // which are read
    if (idempotency_key) {
      if (auto before = submitted_before(*idempotency_key, record->body_digest)) {
        return {*before, false, doubts};
      }
    }
    record->id = new_id(record->file.run.name);
    write(*record);
    const std::scoped_lock lock(mutex_);
    sweeps_[record->id] = record;
  }
  note("sweep.submitted", by, record->id);
  for (const std::string& doubt : doubts) {
    base::log(base::LogLevel::Warning, "sweep " + record->id + ": " + doubt);
  }
  wake();
  return {record, true, doubts};
}

void SweepDriver::refuse_used_key(const std::string& idempotency_key) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, sweep] : sweeps_) {
    if (sweep->idempotency_key != idempotency_key) continue;
    throw base::Error(Code::Conflict, "the idempotency key was used for the submission of sweep " +
                                          id + "; use a new key");
  }
}

bool SweepDriver::stop(const std::string& name, const std::string& by) {
  bool stopped = false;
  const std::string id = find(name)->id;
  (void)update(id, [&](SweepRecord* record) {
    if (record->stops || record->state != SweepState::Running) return false;
    return stopped = record->stops = true;
  });
  if (!stopped) return false;
  {
    const std::scoped_lock lock(mutex_);
    troubles_.erase(id);  // what kept the next trial keeps no run from being cancelled
  }
  note("sweep.stop_asked", by, id);
  wake();
  return true;
}

void SweepDriver::remove(const std::string& name, const std::string& by) {
  const std::string id = find(name)->id;
  {
    const auto held = changing_.try_take({"sweeps"}, options_.write_seconds);
    if (!held) throw base::Error(Code::Retry, directory_.string() + " does not answer; try again");
    const Shown last = shown(id);
    if (last == nullptr) return;
    if (last->state == SweepState::Running) {
      const char* const what =
          last->stops ? " is stopping; try again when its runs have written their checkpoints"
                      : " goes on; stop it first";
      throw base::Error(Code::Conflict, "sweep " + id + what);
    }
    controller_.check_lease();
    on_disk([files = &files_, path = directory_ / (id + kEnding)] {
      files->remove_file(path);
      files->sync_directory(path.parent_path());
      return true;
    });
    const std::scoped_lock lock(mutex_);
    sweeps_.erase(id);
    troubles_.erase(id);
  }
  note("sweep.removed", by, id);
}

std::vector<SweepDriver::Shown> SweepDriver::all() {
  std::vector<Shown> all;
  const std::scoped_lock lock(mutex_);
  if (!loaded_) {
    throw base::Error(load_trouble_.empty() ? Code::Retry : Code::Operator,
                      load_trouble_.empty()
                          ? "the sweeps are still being read; try again in a moment"
                          : "the sweeps cannot be read: " + load_trouble_);
  }
  for (const auto& [id, each] : sweeps_) all.push_back(each);
  std::sort(all.begin(), all.end(), [](const Shown& a, const Shown& b) {
    return std::pair(b->created_utc, b->id) < std::pair(a->created_utc, a->id);
  });
  return all;
}

SweepDriver::Shown SweepDriver::find(const std::string& name) {
  std::vector<Shown> named;
  std::vector<std::string> names;
  for (const Shown& each : all()) {
    if (each->id == name) return each;
    if (each->file.run.name == name) named.push_back(each);
    names.push_back(each->id);
    names.push_back(each->file.run.name);
  }
  if (named.size() == 1) return named.front();
  const std::string shown_name = "'" + base::printable(name.substr(0, 100)) + "'";
  if (named.size() > 1) {
    throw base::Error(Code::NotFound, "several sweeps are called " + shown_name +
                                          "; name one by its id: " + named[0]->id + ", " +
                                          named[1]->id + (named.size() > 2 ? ", …" : ""));
  }
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, fault] : damaged_) {
      if (id == name || name_in(id) == name) throw base::Error(Code::Operator, fault);
    }
  }
  const auto meant = base::closest(name, names);
  throw base::Error(Code::NotFound, "no sweep " + shown_name +
                                        (meant ? "; did you mean '" + *meant + "'?"
                                               : "; 'regatta sweep ls' lists the sweeps"));
}

std::vector<std::string> SweepDriver::left_out() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> all;
  for (const auto& [id, fault] : damaged_) all.push_back(fault);
  return all;
}

std::vector<std::string> SweepDriver::faults() {
  std::vector<std::string> all = left_out();
  const std::scoped_lock lock(mutex_);
  if (!load_trouble_.empty()) all.push_back("the sweeps cannot be read: " + load_trouble_);
  for (const auto& [id, trouble] : troubles_) {
    if (!trouble.why.empty()) all.push_back("sweep " + id + " stands still: " + trouble.why);
  }
  return all;
}

std::string SweepDriver::trouble(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  const auto found = troubles_.find(id);
  return found == troubles_.end() ? "" : found->second.why;
}

bool SweepDriver::step() {
  std::vector<std::string> going_on;
  try {
    if (!loaded_) load();
    // Which runs there are is known only then.
    if (!controller_.adoption().done) return false;
    for (const Shown& each : all()) {
      if (each->state == SweepState::Running) going_on.push_back(each->id);
    }
  } catch (const base::Error& error) {
    const std::scoped_lock lock(mutex_);
    if (load_trouble_ != error.what()) {
      base::log(base::LogLevel::Warning, std::string("sweeps: ") + error.what());
    }
    load_trouble_ = error.what();
    return false;
  }
  bool more = false;
  for (const std::string& id : going_on) {
    std::string why;
    {
      const std::scoped_lock lock(mutex_);
      const auto found = troubles_.find(id);
      if (found != troubles_.end()) why = found->second.why;
      if (!why.empty() && clock_.monotonic_seconds() < found->second.not_before) continue;
    }
    try {
      more = advance(id) || more;
      const std::scoped_lock lock(mutex_);
      troubles_.erase(id);
    } catch (const base::Error& error) {
      if (why != error.what()) {
        base::log(base::LogLevel::Warning, "sweep " + id + ": " + error.what());
      }
      const std::scoped_lock lock(mutex_);
      troubles_[id] = {error.what(), clock_.monotonic_seconds() + options_.pause_seconds};
    }
  }
  return more;
}

void SweepDriver::note(const char* kind, const std::string& by, const std::string& words,
                       const std::string& run) {
  store::Event event;
  event.kind = kind;
  event.by = by;
  event.words = words;
  event.run = run;
  try {
    controller_.store().note(event);
  } catch (const base::Error& error) {
    base::log(base::LogLevel::Warning, words + ": " + error.what());
  }
}

void SweepDriver::tell(const SweepRecord& before, const SweepRecord& after) {
  for (std::size_t i = 0; i < after.trials.size(); ++i) {
    const TrialRecord& trial = after.trials[i];
    const bool failed_before =
        i < before.trials.size() && before.trials[i].state == TrialState::Failed;
    if (trial.state != TrialState::Failed || failed_before) continue;
    note("sweep.trial_failed", "", words_of(trial, after.id), trial.run);
  }
  if (before.state == after.state) return;
  note(after.state == SweepState::Done ? "sweep.done" : "sweep.stopped", "", after.id);
}

}  // namespace regatta::orchestrator::control
