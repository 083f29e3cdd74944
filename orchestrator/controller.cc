#include "orchestrator/controller.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/digest.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/run_plan.h"
#include "orchestrator/run_records.h"
#include "trainer/contract/exit_code.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator {
namespace {

constexpr int kIdBytes = 3;  // random hexadecimal digits after the name
constexpr int kSuggestionPool = 1000;
constexpr std::size_t kLongestKey = 200;
constexpr double kDiskPauseSeconds = 5;         // after a launch that could not be written down
constexpr double kShortestPauseSeconds = 0.02;  // between two rounds, whoever wakes the thread
constexpr double kTickShare = 0.2;  // of the time, for looking at runs of which nothing is new

// Of those that may run at once; what only its journal is known of runs elsewhere.
bool takes_place(const Launch& launch) { return !launch.over && launch.handle != kByJournal; }

const Attempt* newest_of(const std::vector<Attempt>& attempts, int after) {
  if (attempts.empty() || attempts.back().number <= after) return nullptr;
  return &attempts.back();
}

// Whether the attempt was over before its job started the last time: what it said of its end is not
// how that start ended. Work that is done stays done.
bool is_of_an_earlier_start(const Attempt& attempt, const ProcessReport& report) {
  return report.started && attempt.exit_code &&
         *attempt.exit_code != static_cast<int>(trainer::ExitCode::Finished) &&
         attempt.start_utc + attempt.last_seconds < *report.started;
}

void check_key(const std::string& key) {
  bool good = !key.empty() && key.size() <= kLongestKey;
  for (const char c : key) good = good && c > 0x20 && c < 0x7F;
  if (!good) {
    throw base::Error(base::Code::User,
                      "the idempotency key is not usable; use 1 to 200 printable ASCII characters");
  }
}

}  // namespace

Controller::Controller(base::FileSystem& files, base::Clock& clock, Store& store,
                       Scheduler& scheduler, const ControllerOptions& options)
    : files_(files),
      clock_(clock),
      store_(store),
      scheduler_(scheduler),
      options_(options),
      follower_(files, store),
      nodes_(files, clock, store, scheduler),
      launcher_(files, scheduler, [this] { wake(); }) {
  std::error_code error;
  options_.runs_directory = std::filesystem::absolute(options_.runs_directory).lexically_normal();
  if (!options_.runs_directory.has_filename()) {
    options_.runs_directory = options_.runs_directory.parent_path();
  }
  std::filesystem::create_directories(options_.runs_directory.parent_path(), error);
  files_.create_directory(options_.runs_directory);
  lock_ = take_lock(options_.runs_directory / ".controller.lock",
                    "the runs directory " + options_.runs_directory.string());
}

Controller::~Controller() = default;

Controller::Accepted Controller::submit(const std::string& body,
                                        const std::optional<std::string>& idempotency_key) {
  SubmittedRun asked = parse_submitted(body);
  const trainer::RunConfig& config = asked.config;
  const std::string text = trainer::to_json(config);
  const std::string digest = asked.digest();
  if (idempotency_key) check_key(*idempotency_key);

  // Ids are random, so only the same key must not come twice at once: without one, several
  // submissions wait for the disk together.
  std::unique_lock lock(submit_mutex_, std::defer_lock);
  if (idempotency_key) {
    lock.lock();
    if (const auto before = store_.submitted_with(*idempotency_key)) {
      if (before->body_digest != digest) {
        throw base::Error(base::Code::Conflict, "the idempotency key was used for run " +
                                                    before->id +
                                                    " with another run file; use a new key");
      }
      return {find(before->id), false};
    }
  }
  NewRun run;
  do {
    run.id = config.name + "-" + base::random_hex(kIdBytes);
  } while (store_.run(run.id) || files_.exists(options_.runs_directory / run.id));
  const base::Path directory = options_.runs_directory / run.id;
  run.name = config.name;
  run.config = text;
  run.steps = config.steps;
  run.directory = directory.string();
  run.created_utc = clock_.utc_seconds();
  run.idempotency_key = idempotency_key;
  run.body_digest = digest;
  // The directory first: it is the truth. If the controller dies before the row is written, the
  // next one adopts the run, key included.
  const Submission submission{run.id, run.created_utc, Wanted::Run, idempotency_key, digest};
  if (!asked.plan && options_.plan) asked.plan = options_.plan(config);
  std::map<std::string, std::string> beside;
  if (asked.plan) beside = plan_files(*asked.plan);
  beside[kSubmissionName] = submission_text(submission);
  (void)trainer::RunDirectory::create(files_, directory, text, beside);
  RunNumber number{};
  try {
    number = store_.add_run(run);
  } catch (const base::Error&) {
    files_.remove_tree(directory);
    throw;
  }
  base::log(base::LogLevel::Info, "run " + run.id + " was submitted");
  wake(number);
  return {find(run.id), true};
}

bool Controller::cancel(const std::string& name) {
  const std::lock_guard lock(submit_mutex_);
  const Run run = find(name);
  if (is_over(run.state) || run.wanted == Wanted::Cancel) return false;
  const std::vector<Launch> launches = store_.launches(run.number);
  if (!launches.empty() && !launches.back().over && launches.back().handle == kByJournal) {
    throw base::Error(base::Code::Conflict,
                      "run " + run.id + " was started by hand elsewhere, so only its journal is " +
                          "known here; end its process or its job (scancel)");
  }
  auto submission = read_submission(files_, run.directory);
  if (!submission) submission = Submission{run.id, run.created_utc, Wanted::Run, std::nullopt, ""};
  submission->wanted = Wanted::Cancel;
  write_submission(files_, run.directory, *submission);
  store_.set_wanted(run.number, Wanted::Cancel);
  base::log(base::LogLevel::Info, "run " + run.id + " is to be cancelled");
  wake(run.number);
  return true;
}

Run Controller::find(const std::string& name) {
  if (auto run = store_.run(name)) return *run;
  const std::vector<Run> named = store_.runs_named(name);
  if (named.size() == 1) return named.front();
  if (named.size() > 1) {
    throw base::Error(base::Code::NotFound, "several runs are called '" + base::printable(name) +
                                                "'; name one by its id: " + named[0].id + ", " +
                                                named[1].id + (named.size() > 2 ? ", …" : ""));
  }
  const auto suggestion = base::closest(name, store_.ids_and_names(kSuggestionPool));
  throw base::Error(base::Code::NotFound, "no run '" + base::printable(name.substr(0, 100)) + "'" +
                                              (suggestion ? "; did you mean '" + *suggestion + "'?"
                                                          : "; 'regatta ls' lists the runs"));
}

void Controller::tick() {
  adopt_new();
  nodes_.begin_round();
  std::vector<Run> runs = store_.unfinished_runs();
  active_ = 0;
  for (const Run& run : runs) {
    const std::vector<Launch> launches = store_.launches(run.number);
    if (!launches.empty() && takes_place(launches.back())) ++active_;
  }
  for (Run& run : runs) tick_or_tell(std::move(run));
}

void Controller::tick_news() {
  for (const RunNumber number : launcher_.landed()) news_.push_front(number);
  take_news();
  // A new run that finds no place comes again when a launch has landed.
  while (!news_.empty()) {
    const RunNumber number = news_.front();
    if (!launcher_.has(number) && !launcher_.has_place()) return;
    news_.pop_front();
    if (auto run = store_.run(number); run && !run->drained) tick_or_tell(std::move(*run));
  }
}

void Controller::take_news() {
  const std::scoped_lock lock(wake_mutex_);
  news_.insert(news_.end(), told_.begin(), told_.end());
  told_.clear();
}

void Controller::tick_or_tell(Run run) {
  const std::string id = run.id;
  const RunNumber number = run.number;
  try {
    tick_run(std::move(run), &active_);
    const auto memory = memory_.find(number);
    if (memory != memory_.end()) memory->second.trouble.clear();
  } catch (const base::Error& error) {
    std::string& trouble = memory_[number].trouble;
    if (trouble == error.what()) return;  // said already; it is tried again every tick
    trouble = error.what();
    base::log(base::LogLevel::Error, "run " + id + ": " + trouble);
  }
}

void Controller::tick_run(Run run, int* active) {
  if (launcher_.has(run.number)) {
    const std::optional<Launched> launched = launcher_.take(run.number);
    if (!launched) return;  // until it is known what has become of it
    note_launched(&run, *launched);
    store_.update_run(run);
  }
  Memory& memory = memory_[run.number];
  // The process first and its journal after: when it is gone, the journal is complete.
  Watched watched = watch(run);
  if (watched.report.state != ProcessState::Running &&
      !files_.exists(base::Path(run.directory) / "run.json")) {
    return lose(&run, watched.launch, active);
  }
  if (!memory.refreshed) follower_.refresh(&run);
  const Followed followed = follower_.follow(&run);
  const bool was_over = is_over(run.state);
  const bool fresh = !memory.refreshed;
  memory.refreshed = true;
  if (followed.more) {  // the end of the journal decides; it comes with a later tick
    store_.update_run(run);
    return;
  }
  if (was_over) {
    run.drained = !followed.read_any;
    store_.update_run(run);
    if (run.drained) memory_.erase(run.number);
    return;
  }
  if (watched.launch && watched.launch->handle == kByJournal) {
    const std::vector<Attempt> attempts = store_.attempts(run.number);
    const Attempt* const newest = newest_of(attempts, watched.launch->attempts_before);
    watched.report = memory.pulse.look(followed.read_any, newest != nullptr && newest->exit_code,
                                       clock_.utc_seconds() - run.summary.last_record_utc,
                                       clock_.monotonic_seconds());
  }
  const ProcessState process = watched.report.state;
  if (fresh || followed.read_any || process == ProcessState::Ended ||
      process == ProcessState::Gone) {
    nodes_.judge_attempts(run, watched.report);
  }
  const Observation seen =
      observe(run, watched, memory, *active < options_.parallel && launcher_.has_place());
  const Decision decision = reconcile(seen, options_.limits);
  if (decision.launch_over && takes_place(*watched.launch)) --*active;
  if (decision.act == Act::Start) ++*active;
  const RunState before = run.state;
  const std::string reason_before = run.reason;
  const Wait wait_before = run.wait;
  apply(&run, seen, decision, &watched, &memory);
  if (watched.launch && !watched.launch->over && watched.report.state == ProcessState::Waiting) {
    nodes_.tell_waiting_job(run, watched.launch->handle, &memory.avoidance);
  }
  if (fresh || followed.read_any || run.state != before || run.reason != reason_before ||
      run.wait != wait_before || decision.launch_over) {
    store_.update_run(run);
  }
}

// Its directory was removed, and nothing runs in it.
void Controller::lose(Run* run, std::optional<Launch> launch, int* active) {
  if (launch) {
    if (takes_place(*launch)) --*active;
    launch->over = true;
    store_.put_launch(run->number, *launch);
  }
  if (!is_over(run->state)) {
    run->state = RunState::Failed;
    run->error = "its directory " + run->directory + " is gone";
    run->ended_utc = clock_.utc_seconds();
    base::log(base::LogLevel::Warning, "run " + run->id + ": " + run->error);
  }
  run->drained = true;
  store_.update_run(*run);
  memory_.erase(run->number);
}

Controller::Watched Controller::watch(const Run& run) {
  Watched watched;
  watched.report.state = ProcessState::None;
  const std::vector<Launch> launches = store_.launches(run.number);
  if (launches.empty() || launches.back().over) return watched;
  watched.launch = launches.back();
  Launch& launch = *watched.launch;
  if (launch.handle.empty() && !launch.token.empty()) {
    // The last controller ended between the start and the note about it, or nobody could say
    // whether it was started. Never started again before that is known.
    const Finding finding = scheduler_.find(launch.token);
    if (!finding.known) {
      watched.report.state = ProcessState::Unknown;
      return watched;
    }
    if (finding.handle) {
      launch.handle = *finding.handle;
      write_launch(files_, run.directory, launch);
      store_.put_launch(run.number, launch);
    }
  }
  if (launch.handle.empty()) {
    watched.report.state = ProcessState::Gone;
  } else if (launch.handle == kByJournal) {
    watched.report.state = ProcessState::Running;  // its journal says more, when it is read
  } else {
    watched.report = scheduler_.poll(launch.handle);
    const ProcessReport& report = watched.report;
    if (!report.nodes.empty() && (report.nodes != launch.nodes || report.gpus != launch.gpus)) {
      launch.nodes = report.nodes;
      launch.gpus = report.gpus;
      store_.put_launch(run.number, launch);
    }
  }
  return watched;
}

Observation Controller::observe(const Run& run, const Watched& watched, const Memory& memory,
                                bool place_free) {
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
  seen.now = clock_.monotonic_seconds();
  seen.not_before = memory.not_before;
  seen.stop_sent = memory.stop_sent;
  seen.stop_asked = memory.stop_asked;
  if (!watched.launch) return seen;
  seen.replaced = watched.launch->replaced;
  const std::vector<Attempt> attempts = store_.attempts(run.number);
  const Attempt* attempt = newest_of(attempts, watched.launch->attempts_before);
  if (attempt != nullptr && !is_of_an_earlier_start(*attempt, seen.process)) {
    seen.journal_started = attempt->started;
    if (attempt->exit_code) seen.end = JournalEnd{*attempt->exit_code, attempt->message};
  }
  if (seen.end && (seen.process.state == ProcessState::Running ||
                   seen.process.state == ProcessState::Waiting)) {
    scheduler_.look_soon();
  }
  if (seen.process.state == ProcessState::Ended || seen.process.state == ProcessState::Gone) {
    const auto logs = launch_logs(files_, run.directory, {*watched.launch});
    if (!logs.empty()) seen.last_log_line = last_log_line(files_, logs.back());
  }
  return seen;
}

void Controller::apply(Run* run, const Observation& seen, const Decision& decision,
                       Watched* watched, Memory* memory) {
  if (decision.launch_over) {
    base::check(watched->launch.has_value(), "only a watched launch can be over");
    end_launch(*run, seen, &*watched->launch);
    memory->stop_sent.reset();
    memory->stop_asked.reset();
  }
  if (decision.state != run->state) {
    base::log(base::LogLevel::Info, "run " + run->id + " is " + name_of(decision.state) +
                                        (decision.error.empty() ? "" : ": " + decision.error));
  }
  run->state = decision.state;
  run->reason = decision.reason;
  run->wait = decision.wait;
  if (decision.launch_over && decision.not_before > seen.now) {
    run->wait.next_start_utc = clock_.utc_seconds() + decision.not_before - seen.now;
  }
  run->error = decision.error;
  run->failures = decision.failures;
  run->progress_step = decision.progress_step;
  memory->not_before = decision.not_before;
  if (is_over(run->state)) {
    // What ended while no controller looked ended with its last record.
    const bool unseen =
        seen.process.state == ProcessState::Gone && run->summary.last_record_utc > 0;
    run->ended_utc = unseen ? run->summary.last_record_utc : clock_.utc_seconds();
  }
  if (decision.look_for_successor) watch_successor(run);
  if (decision.act == Act::Start) {
    launch(run, memory);
  } else if (decision.act == Act::Replace) {
    // Written down first: another controller must not take its end for somebody's wish.
    watched->launch->replaced = true;
    write_launch(files_, run->directory, *watched->launch);
    store_.put_launch(run->number, *watched->launch);
    base::log(base::LogLevel::Warning, "run " + run->id + ": " + run->reason + "; replaced");
    scheduler_.kill(watched->launch->handle);
  } else if (decision.act == Act::Stop) {
    scheduler_.stop(watched->launch->handle);
    memory->stop_asked = clock_.monotonic_seconds();
    if (!memory->stop_sent) memory->stop_sent = memory->stop_asked;
  } else if (decision.act == Act::Kill) {
    base::log(base::LogLevel::Warning, "run " + run->id + " did not stop in time; killed");
    scheduler_.kill(watched->launch->handle);
    memory->stop_sent = clock_.monotonic_seconds();  // again after another grace
    memory->stop_asked = memory->stop_sent;
  }
}

void Controller::end_launch(const Run& run, const Observation& seen, Launch* launch) {
  launch->over = true;
  launch->exit_code = seen.process.exit_code;
  if (!launch->exit_code && seen.end) launch->exit_code = seen.end->exit_code;
  launch->signal = seen.process.signal;
  launch->ended_utc = clock_.utc_seconds();
  launch->cause = name_of(seen.process.cause);
  launch->words = seen.process.words;
  if (launch->words.empty() && !seen.journal_started) launch->words = seen.last_log_line;
  launch->action = seen.process.action;
  nodes_.judge_launch(run, seen.process, *launch->ended_utc);
  write_launch(files_, run.directory, *launch);
  store_.put_launch(run.number, *launch);
}

void Controller::launch(Run* run, Memory* memory) {
  const std::vector<Launch> launches = store_.launches(run->number);
  Launch launch;
  launch.number = launches.empty() ? 1 : launches.back().number + 1;
  launch.token = base::random_hex(8);
  for (const trainer::AttemptName& attempt :
       trainer::RunDirectory::open(files_, run->directory).attempts()) {
    launch.attempts_before = std::max(launch.attempts_before, attempt.number);
  }
  launch.started_utc = clock_.utc_seconds();
  // Written down, then started, then the handle: whatever is lost in between is found by its token.
  store_.put_launch(run->number, launch);
  memory->avoidance.avoided = nodes_.suspects(*run);
  launcher_.order({run->number, run->directory, launch, memory->avoidance.avoided});
  if (const auto launched = launcher_.take(run->number)) note_launched(run, *launched);
}

void Controller::note_launched(Run* run, const Launched& launched) {
  Launch launch = launched.launch;
  if (launch.over) launch.ended_utc = clock_.utc_seconds();
  store_.put_launch(run->number, launch);
  if (!launched.error) return;
  const std::string why = launched.error->what();
  const auto level = launched.launch.over ? base::LogLevel::Error : base::LogLevel::Warning;
  base::log(level, "run " + run->id + ": " + why);
  const auto wait = [&](const std::string& reason, double seconds) {
    run->state = RunState::Queued;
    run->reason = reason + why;
    run->wait.next_start_utc = clock_.utc_seconds() + seconds;
    memory_[run->number].not_before = clock_.monotonic_seconds() + seconds;
  };
  if (!launched.begun) {
    wait("its launch cannot be written down: ", kDiskPauseSeconds);
  } else if (!launched.launch.over) {  // watch() asks for its token
    run->reason = "asks whether it was submitted: " + why;
  } else if (launched.error->code() == base::Code::Conflict) {
    wait("refused for now: ", options_.limits.longest_backoff_seconds);
  } else {
    run->state = RunState::Failed;
    run->error = why;
    run->ended_utc = clock_.utc_seconds();
  }
}

void Controller::start() {
  adopt();
  thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
}

void Controller::loop(const std::stop_token& stop) {
  using Seconds = std::chrono::duration<double>;
  double next_tick = 0;
  while (!stop.stop_requested()) {
    const double begin = clock_.monotonic_seconds();
    try {
      if (begin >= next_tick) {
        tick();
        const double took = clock_.monotonic_seconds() - begin;
        next_tick = begin + std::max(options_.tick_seconds, took / kTickShare);
      } else {
        tick_news();
      }
    } catch (const base::Error& error) {
      base::log(base::LogLevel::Error, error.what());
    }
    clock_.sleep(Seconds(kShortestPauseSeconds));
    const double rest = next_tick - clock_.monotonic_seconds();
    std::unique_lock lock(wake_mutex_);
    (void)wake_.wait_for(lock, stop, Seconds(std::max(0.0, rest)), [this] { return woken_; });
    woken_ = false;
  }
}

void Controller::wake(std::optional<RunNumber> about) {
  const std::scoped_lock lock(wake_mutex_);
  if (about) told_.push_back(*about);
  woken_ = true;
  wake_.notify_one();
}

}  // namespace regatta::orchestrator
