#include "tests/orchestrator/simulation/world.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "orchestrator/runs/run_records.h"
#include "trainer/contract/run_config.h"

namespace regatta::tests::simulation {
namespace {

using namespace orchestrator;

constexpr int kTurns = 120;  // of trouble
constexpr int kMostWishes = 6;
constexpr int kFailures = 5;            // Limits::failures
constexpr double kRestSeconds = 20000;  // all that waits longest, several times
const base::Path kRuns = "/shared/runs";

}  // namespace

World::World(std::uint64_t seed)
    : chance_(seed),
      vfs_(life_, chance_),
      jobs_mount_(disk_, Mount::Writes::Synced, nullptr, nullptr),
      mount_(disk_, Mount::Writes::Unsynced, &life_, &chance_),
      cluster_(jobs_mount_, clock_, life_, chance_),
      parallel_(1 + chance_.below(3)) {
  jobs_mount_.create_directory("/shared");
  clock_.now = 1000;
}

World::~World() { close(); }

void Tally::add(const Tally& other) {
  kills += other.kills;
  power_losses += other.power_losses;
  store_losses += other.store_losses;
  jobs += other.jobs;
  steps += other.steps;
}

std::string World::told() const {
  std::string text;
  for (const std::string& line : story_) {
    const std::size_t at = line.find(".tmp-");
    text += line.substr(0, at) + "\n";
  }
  return text;
}

void World::tell(const std::string& what) {
  char time[32];
  std::snprintf(time, sizeof time, "%9.2f  ", clock_.now.load());
  story_.push_back(time + what);
}

void World::violated(const std::string& what) const { throw Violation(what); }

// ---------------------------------------------------------------- The controller's lives.

void World::open() {
  control::ControllerOptions options;
  options.runs_directory = kRuns;
  options.parallel = parallel_;
  options.limits.failures = kFailures;
  options.lease.reset();
  options.random_hex = [this](int bytes) { return chance_.hex(bytes); };
  options.beside = [this](const base::Path&, std::function<void()> work) {
    return beside(std::move(work));
  };
  life_.begin();
  attempt("starts", [&] {
    store_ = std::make_unique<store::Store>("/local", store::StoreOptions{vfs_.name()});
    controller_ = std::make_unique<control::Controller>(mount_, clock_, *store_, cluster_, options);
    controller_->adopt();
  });
}

void World::close() {
  beside_.clear();
  controller_.reset();
  store_.reset();
}

// What it was told to do goes with it.
void World::die() {
  close();
  vfs_.forget_locks();
  life_.begin();
  ++tally_.kills;
}

bool World::attempt(const std::string& what, const std::function<void()>& call) {
  try {
    call();
    if (!life_.dead()) return true;
  } catch (const Killed&) {
  } catch (const base::Error& error) {
    if (!life_.dead()) {
      tell(what + ": " + error.what());
      if (!controller_) store_.reset();
      return false;
    }
  }
  tell(what + ": killed");
  die();
  if (chance_.one_in(3)) {
    tell("the power of its machine is lost");
    ++tally_.power_losses;
    vfs_.lose_power();
    disk_.lose_power(chance_);
    for (const auto& wish : wishes_) wish->told.reset();  // what was shown may not be on the disk
  }
  if (chance_.one_in(8)) {
    tell("its store is lost");
    ++tally_.store_losses;
    vfs_.remove_all();
    for (const auto& wish : wishes_) lose_what_is_unwritten(wish.get());
  }
  return false;
}

// A wish is taken where its directory cannot be written now: then the store alone has it.
void World::lose_what_is_unwritten(Wish* wish) {
  wish->told.reset();
  if (wish->id.empty() || wish->removed) return;
  const auto submission = runs::read_submission(jobs_mount_, directory_of(*wish));
  if (wish->steps && !(submission && submission->changed_utc &&
                       cluster_.steps_of(directory_of(*wish)) == *wish->steps)) {
    wish->steps.reset();
    wish->unsure = true;
  }
  const auto state = runs::read_state(jobs_mount_, directory_of(*wish));
  const bool cancelled = submission && submission->wanted == runs::Wanted::Cancel;
  const bool over =
      state && runs::is_over(state->state) && state->state != runs::RunState::Succeeded;
  if (cancelled == wish->cancelled && (wish->cancelled || !over)) return;
  wish->unsure = true;
  wish->cancelled = false;
}

bool World::ask(const std::string& what, const std::function<void()>& call) {
  asking_ = true;
  const bool answered = attempt(what, call);
  asking_ = false;
  return answered;
}

// What a user or a start waits for is done at once: the wait is by the machine's clock.
bool World::beside(std::function<void()> work) {
  if (asking_ || !controller_ || calm_ || chance_.one_in(2)) {
    work();
    return true;
  }
  if (chance_.one_in(10)) return false;
  beside_.push_back(std::move(work));
  return true;
}

void World::work_beside() {
  while (alive() && !beside_.empty() && !chance_.one_in(3)) {
    const auto work = std::move(beside_.front());
    beside_.pop_front();
    attempt("beside", work);
  }
}

// ---------------------------------------------------------------- A world full of trouble.

void World::live() {
  for (int i = 0; i < kTurns; ++i) turn();
  come_to_rest();
}

void World::turn() {
  clock_.now += chance_.one_in(20) ? chance_.between(10, 90) : chance_.between(0.05, 2);
  cluster_.advance();
  trouble();
  if (!alive() && !chance_.one_in(4)) open();
  if (alive()) work_beside();
  if (alive() && chance_.one_in(3)) use();
  if (alive()) attempt("round", [this] { controller_->round(clock_.now + 1e9); });
  check_jobs();
  if (alive()) check_ends();
}

void World::trouble() {
  if (chance_.one_in(6)) life_.end_at(1 + chance_.below(60));
  if (chance_.one_in(12)) cluster_.be_silent(chance_.between(1, 60));
  // Failures come in spells.
  if (chance_.one_in(25)) mount_.fail_one_in(3 + chance_.below(60));
  if (chance_.one_in(25)) vfs_.fail_one_in(3 + chance_.below(60));
  if (chance_.one_in(40)) mount_.fill(true);
  if (chance_.one_in(8)) mount_.fail_one_in(0);
  if (chance_.one_in(8)) vfs_.fail_one_in(0);
  if (chance_.one_in(8)) mount_.fill(false);
  if (alive() && chance_.one_in(40)) {
    tell("ends in order");
    close();
  }
}

base::Path World::directory_of(const Wish& wish) const { return kRuns / wish.id; }

void World::use() {
  if (wishes_.empty() || (wishes_.size() < kMostWishes && chance_.one_in(3))) {
    auto wish = std::make_unique<Wish>();
    wish->key = "key-" + std::to_string(wishes_.size());
    wish->body =
        "name: demo\nsteps: " + std::to_string(Cluster::kSteps) + "\ndata: {path: /nowhere}\n";
    if (!wishes_.empty() && chance_.one_in(3)) {
      const Wish& other =
          *wishes_[static_cast<std::size_t>(chance_.below(static_cast<int>(wishes_.size())))];
      if (!other.id.empty() && !other.removed) wish->after.push_back(other.id);
    }
    wishes_.push_back(std::move(wish));
    return submit(wishes_.back().get());
  }
  Wish* const wish =
      wishes_[static_cast<std::size_t>(chance_.below(static_cast<int>(wishes_.size())))].get();
  const bool known = !wish->id.empty();
  if (!known || (!wish->removed && !wish->maybe_removed && chance_.one_in(6))) {
    return submit(wish);
  }
  if (!wish->removed && chance_.one_in(2)) change(wish);
}

// Who got no answer asks again, with the same key.
void World::submit(Wish* wish) {
  std::optional<control::Controller::Accepted> accepted;
  const bool answered = ask("submit " + wish->key, [&] {
    try {
      accepted = controller_->submit(wish->body, wish->key, wish->after);
    } catch (const base::Error& error) {  // what it is to wait for was removed
      wish->refused = wish->id.empty() && error.code() == base::Code::NotFound;
      throw;
    }
  });
  if (!accepted || !answered) return;
  wish->refused = false;
  tell("submit " + wish->key + ": " + accepted->run.id);
  if (!wish->id.empty() && wish->id != accepted->run.id) {
    violated("key " + wish->key + " was of run " + wish->id + ", and now is of " +
             accepted->run.id + account());
  }
  wish->id = accepted->run.id;
}

// Of a run that is over or under way; most of the time it is not in the state for it.
void World::change_steps(Wish* wish) {
  const bool extends = chance_.one_in(2);
  const std::int64_t steps = Cluster::kSteps + 1 + chance_.below(8);
  const std::string changes = "{\"steps\": " + std::to_string(steps) + "}";
  const std::string name = (extends ? "extend " : "change ") + wish->id;
  bool refused = false, changed = false;
  const bool answered = ask(name, [&] {
    try {
      changed =
          extends ? controller_->extend(wish->id, changes) : controller_->change(wish->id, changes);
    } catch (const base::Error& error) {
      refused = error.code() == base::Code::Conflict || error.code() == base::Code::NotFound;
      if (!refused) throw;
    }
  });
  if (!answered) {
    wish->steps.reset();
    if (!extends) return;
    wish->unsure = true;
    wish->cancelled = false;
    wish->told.reset();
    return;
  }
  tell(name + " to " + std::to_string(steps) + (refused ? ": refused" : ""));
  if (refused) return;
  wish->steps = steps;
  if (!extends || !changed) return;
  wish->cancelled = false;
  wish->told.reset();
}

// Nothing that a user knows of the run is another after it.
void World::requeue(const Wish& wish) {
  bool changed = false;
  const bool answered = ask("requeue " + wish.id, [&] {
    try {
      changed = controller_->requeue(wish.id);
    } catch (const base::Error& error) {
      if (error.code() != base::Code::Conflict && error.code() != base::Code::NotFound) throw;
    }
  });
  if (answered) tell("requeue " + wish.id + (changed ? "" : ": nothing to do"));
}

void World::change(Wish* wish) {
  if (chance_.one_in(4)) return change_steps(wish);
  if (chance_.one_in(5)) return requeue(*wish);
  const int what = chance_.below(5);
  const std::string name = what < 2 ? "cancel " : what < 4 ? "resume " : "remove ";
  bool changed = false, over = false;
  const bool answered = ask(name + wish->id, [&] {
    if (what < 2) changed = controller_->cancel(wish->id);
    if (what == 2 || what == 3) changed = controller_->resume(wish->id);
    if (what == 4) (void)controller_->remove(wish->id, {}), changed = true;
    over = what < 2 && runs::is_over(controller_->find(wish->id).state);
  });
  if (!answered) {
    wish->unsure = true;
    wish->cancelled = false;
    wish->maybe_removed |= what == 4;
    wish->told.reset();
    return;
  }
  tell(name + wish->id + (changed ? "" : ": nothing to do"));
  if (what < 2 && !over) {
    wish->cancelled = true;
    wish->launches = cluster_.jobs().size();
  } else if (what < 4 && what >= 2 && changed) {
    wish->cancelled = false;
    wish->told.reset();
  } else if (what == 4) {
    wish->removed = true;
  }
}

// ---------------------------------------------------------------- What must hold.

void World::check_jobs() {
  std::map<base::Path, int> live;
  const auto jobs = cluster_.live();
  for (const Job* const job : jobs) {
    if (++live[job->directory] > 1) {
      violated("two jobs work in " + job->directory.string());
    }
  }
  if (alive() && controller_->adoption().done) {
    unread_ = cannot_know_all() || (unread_ && are_too_many(jobs.size()));
  }
  if (jobs.size() > static_cast<std::size_t>(parallel_) && alive() && !unread_) {
    violated(std::to_string(jobs.size()) + " jobs at once, of " + std::to_string(parallel_));
  }
  for (; jobs_seen_ < cluster_.jobs().size(); ++jobs_seen_) {
    const Job& job = *cluster_.jobs()[jobs_seen_];
    ++tally_.jobs;
    tell("job " + job.handle + " of " + job.directory.filename().string() + ", token " + job.token);
    if (job.after_the_end) violated(job.directory.string() + " had finished, and is started again");
    for (const auto& wish : wishes_) {
      if (wish->id.empty() || directory_of(*wish) != job.directory) continue;
      if (wish->removed) violated("run " + wish->id + " was removed, and is started");
      if (wish->steps && cluster_.steps_of(job.directory) != *wish->steps) {
        violated("run " + wish->id + " is started before its changed file is there");
      }
      if (wish->cancelled && jobs_seen_ >= wish->launches) {
        violated("run " + wish->id + " was cancelled, and is started");
      }
      for (const std::string& other : wish->after) {
        if (!cluster_.truth(kRuns / other).finished) {
          violated("run " + wish->id + " is started before " + other + " has succeeded");
        }
      }
    }
  }
}

// Who lost its store does not wait for ever for a directory that cannot be read, in which a job may
// be at work.
bool World::cannot_know_all() {
  try {
    for (const std::string& name : jobs_mount_.list(kRuns)) {
      if (jobs_mount_.exists(kRuns / name / "run.json") && !store_->run(name)) return true;
    }
  } catch (const base::Error&) {
    return true;
  }
  return false;
}

// Jobs, or launches that are to be jobs: what was launched while a directory could not be read
// works on when it can be.
bool World::are_too_many(std::size_t jobs) {
  try {
    return std::max(jobs, store_->open_launches().size()) > static_cast<std::size_t>(parallel_);
  } catch (const base::Error&) {
    return true;
  }
}

// An end that was shown stays.
void World::check_ends() {
  for (const auto& wish : wishes_) {
    if (wish->id.empty() || wish->removed) continue;
    std::optional<runs::Run> run;
    try {
      run = store_->run(wish->id);
    } catch (const base::Error&) {
      continue;
    }
    if (run && run->wanted == runs::Wanted::Resume) continue;
    if (wish->told && run && run->state != *wish->told) {
      violated("run " + wish->id + " had " + runs::name_of(*wish->told) + ", and now is " +
               runs::name_of(run->state));
    }
    if (run && runs::is_over(run->state) && !wish->unsure) wish->told = run->state;
  }
}

void World::come_to_rest() {
  tell("calm");
  calm_ = true;
  cluster_.calm();
  mount_.fail_one_in(0);
  mount_.fill(false);
  vfs_.fail_one_in(0);
  life_.end_at(0);
  if (!alive()) open();
  if (!alive()) violated("it does not start, though nothing is wrong");
  const double end = clock_.now + kRestSeconds;
  while (true) {
    clock_.now += chance_.between(0.5, 5);
    cluster_.advance();
    while (!beside_.empty()) work_beside();
    if (!attempt("round", [this] { controller_->round(clock_.now + 1e9); })) {
      violated("an error in calm");
    }
    check_jobs();
    check_ends();
    bool taken = true;
    for (const auto& wish : wishes_) {
      if (wish->id.empty() && !wish->refused) submit(wish.get());
      taken &= !wish->id.empty() || wish->refused;
    }
    if (clock_.now > end) {
      violated(std::string("it does not come to rest") +
               (controller_->adoption().done ? "" : ", as not all is adopted") +
               (store_->unsettled_runs(1).empty() ? "" : ", as not all is written down") + ":" +
               account());
    }
    if (!taken) continue;
    if (at_rest()) break;
  }
  if (!cluster_.live().empty()) violated("a job goes on, and all runs are over");
  for (const auto& wish : wishes_) check_wish(*wish);
  // What a submission without an answer left is dealt with at a start.
  close();
  restart();
  check_keys();
  check_rebuilt();
  tally_.steps = life_.steps();
}

// Waits for a run that will not succeed by itself.
bool World::waits_in_vain(const runs::Run& run) {
  return run.state == runs::RunState::Queued && run.wanted == runs::Wanted::Run &&
         store_->launches(run.number).empty() &&
         std::any_of(run.after.begin(), run.after.end(), [&](const std::string& id) {
           const auto other = store_->run(id);
           return !other ||
                  (runs::is_over(other->state) && other->state != runs::RunState::Succeeded) ||
                  waits_in_vain(*other);
         });
}

bool World::at_rest() {
  // What could not be read before the calm is read again one after the other.
  for (const auto& wish : wishes_) {
    if (wish->id.empty() || wish->removed || wish->unsure || wish->maybe_removed) continue;
    if (!store_->run(wish->id) && jobs_mount_.exists(directory_of(*wish) / "run.json"))
      return false;
  }
  const std::vector<runs::Run> open = store_->unfinished_runs();
  return controller_->adoption().done && store_->unsettled_runs(1).empty() &&
         std::all_of(open.begin(), open.end(),
                     [this](const runs::Run& run) { return waits_in_vain(run); });
}

void World::check_wish(const Wish& wish) {
  if (wish.id.empty()) return;
  const std::optional<runs::Run> run = store_->run(wish.id);
  if (wish.removed) {
    if (run) violated("run " + wish.id + " was removed, and is there");
    return;
  }
  if (!run) {
    if (wish.unsure) return;  // its removal was not answered
    violated("run " + wish.id + " was accepted, and is not there");
  }
  // A removal that was told to have failed may have got as far as that.
  if (wish.maybe_removed && !jobs_mount_.exists(directory_of(wish) / "run.json")) return;
  const std::int64_t steps = trainer::contract::parse_run_config(run->config, "run.json").steps;
  if (wish.steps && steps != *wish.steps) {
    violated("run " + wish.id + " was given " + std::to_string(*wish.steps) + " steps, and has " +
             std::to_string(steps));
  }
  if (steps != cluster_.steps_of(directory_of(wish))) {
    violated("run " + wish.id + " has another run file in its directory");
  }
  const bool finished = cluster_.has_finished(directory_of(wish));
  const bool succeeded = run->state == runs::RunState::Succeeded;
  // What was extended without an answer may have lost its wish with the store.
  if (finished != succeeded && !(wish.unsure && succeeded)) {
    violated("run " + wish.id + (finished ? " finished" : " did not finish") + ", and is " +
             runs::name_of(run->state) + " " + run->error);
  }
  check_series(*run);
  if (succeeded || wish.unsure || waits_in_vain(*run)) return;
  if (wish.cancelled && run->state != runs::RunState::Cancelled) {
    violated("run " + wish.id + " was cancelled, and is " + runs::name_of(run->state));
  }
  const bool gave_up = run->state == runs::RunState::Failed && run->failures >= kFailures;
  if (!wish.cancelled && !gave_up) {
    violated("run " + wish.id + " is " + runs::name_of(run->state) + " (" + run->error +
             "), and nobody wished it");
  }
}

// What the store knows of training is what the journals say.
void World::check_series(const runs::Run& run) {
  std::size_t steps = 0, evaluations = 0, checkpoints = 0, attempts = 0;
  const auto directory = trainer::contract::RunDirectory::open(jobs_mount_, run.directory);
  for (const trainer::contract::AttemptName& name : directory.attempts()) {
    ++attempts;
    const auto chunk =
        trainer::contract::parse_journal(jobs_mount_.read(directory.journal_path(name), 1 << 30));
    for (const auto& record : chunk.records) {
      steps += std::holds_alternative<trainer::contract::StepRecord>(record.body) ? 1 : 0;
      evaluations += std::holds_alternative<trainer::contract::EvalRecord>(record.body) ? 1 : 0;
      checkpoints +=
          std::holds_alternative<trainer::contract::CheckpointRecord>(record.body) ? 1 : 0;
    }
  }
  const auto compare = [&](const char* what, std::size_t journals, std::size_t rows) {
    if (journals == rows) return;
    violated("run " + run.id + ": " + std::to_string(journals) + " " + what +
             " in its journals, and " + std::to_string(rows) + " in the store");
  };
  compare("attempts", attempts, store_->attempts(run.number).size());
  compare("steps", steps, store_->steps(run.number, 0, 1000000).size());
  compare("evaluations", evaluations, store_->evaluations(run.number, 0).size());
  compare("checkpoints", checkpoints, store_->checkpoints(run.number, 0).size());
}

// One run a key, and nothing half made.
void World::check_keys() {
  std::map<std::string, std::string> runs_of;
  for (const std::string& name : jobs_mount_.list(kRuns)) {
    const auto submission = runs::read_submission(jobs_mount_, kRuns / name);
    if (!submission || !submission->idempotency_key || name.front() == '.') continue;
    if (name.find(".tmp-") != std::string::npos) continue;
    if (!jobs_mount_.exists(kRuns / name / "run.json")) continue;
    const auto run = store_->run(name);
    if (run && run->state == runs::RunState::Cancelled) continue;
    const auto [known, fresh] = runs_of.emplace(*submission->idempotency_key, name);
    if (!fresh) violated("one key, and two runs: " + known->second + " and " + name + account());
  }
}

std::string World::account() const {
  std::string text;
  for (const std::string& id : store_->ids()) {
    const runs::Run run = *store_->run(id);
    if (disk_.find(run.directory) == nullptr) continue;  // removed, but for its row
    // How the last attempt of a cancelled run ended is not known where its launch was lost.
    const bool cancelled = run.state == runs::RunState::Cancelled;
    text += "\n" + id + ": " + runs::name_of(run.state) + " '" + (cancelled ? "" : run.error) +
            "' failures " + std::to_string(run.failures) + " progress " +
            std::to_string(run.progress_step) + " step " + std::to_string(run.summary.step) +
            " checkpoint " + std::to_string(run.summary.checkpoint_step) + " samples " +
            std::to_string(run.summary.samples) + " launches";
    for (const runs::Launch& launch : store_->launches(run.number)) {
      if (launch.over && launch.handle.empty()) continue;  // never was a job
      text += " " + launch.token + "/" + launch.handle + (launch.over ? "/over" : "");
    }
  }
  return text;
}

void World::restart() {
  open();
  if (!alive()) violated("it does not start, though nothing is wrong");
  for (int i = 0; i < 400 && !at_rest(); ++i) {
    clock_.now += 1;
    cluster_.advance();
    attempt("round", [this] { controller_->round(clock_.now + 1e9); });
    check_jobs();
  }
}

// All that the store knows it learns again from the run directories.
void World::check_rebuilt() {
  const std::string before = account();
  close();
  vfs_.remove_all();
  tell("its store is lost");
  restart();
  const std::string after = account();
  if (before != after) violated("the store was" + before + "\nand was rebuilt as" + after);
}

}  // namespace regatta::tests::simulation
