#include "orchestrator/slurm_scheduler.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/slurm/batch_script.h"
#include "orchestrator/slurm/job_end.h"
#include "orchestrator/slurm/run_job.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator {
namespace {

using base::Code;
using base::Error;

constexpr std::chrono::milliseconds kLook(250);  // how often the budget is asked
// A job may have been submitted by a controller whose clock differed, or long before this one.
constexpr double kClockDifference = 300;
constexpr double kOldNodes = 600;  // what was known of nodes before that says nothing of now
constexpr double kAgesAgo = 30.0 * 24 * 3600;

PollOutcome outcome_of(const std::optional<SlurmFailure>& failure) {
  if (!failure) return PollOutcome::Good;
  return failure->kind == FailureKind::RateLimited ? PollOutcome::RateLimited : PollOutcome::Failed;
}

// Of the jobs of ours that have nodes now.
std::map<std::string, std::string> nodes_by_token(const Jobs& jobs) {
  std::map<std::string, std::string> nodes;
  for (const JobRow& job : jobs.rows) {
    const JobPhase now = phase(job.state);
    if (!job.nodes || (now != JobPhase::Running && now != JobPhase::Ending)) continue;
    const auto token = token_of(job);
    if (token) nodes[*token] = *job.nodes;
  }
  return nodes;
}

// The end of a file; empty where there is none.
std::string tail_of(base::FileSystem& files, const base::Path& path) {
  constexpr std::uint64_t kMostBytes = 65536;
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return {};
  return files.read_at(path, size > kMostBytes ? size - kMostBytes : 0, kMostBytes);
}

// What the newest start of a job left in RUN/submit; its working directory is the run's.
std::string read_job_log(base::FileSystem& files, const JobRow& job, const std::string& token) {
  if (!job.work_directory) return {};
  const base::Path submit = base::Path(*job.work_directory) / "submit";
  const std::string name = token + "-" + job.id;
  try {
    std::int64_t newest = -1;
    for (const std::string& file : files.list(submit)) {
      const base::Path path(file);
      if (path.extension() != ".log" || file.rfind(name + "-", 0) != 0) continue;
      newest = std::max(
          newest, base::parse_integer(path.stem().string().substr(name.size() + 1)).value_or(-1));
    }
    const std::string ranks =
        newest < 0 ? "" : tail_of(files, submit / (name + "-" + std::to_string(newest) + ".log"));
    return job_log(tail_of(files, submit / (name + ".out")), ranks);
  } catch (const Error&) {  // the row alone decides
    return {};
  }
}

}  // namespace

SlurmSettings probe_slurm(const SlurmCommands& commands, const base::Path& trainer,
                          const std::string& user) {
  const SlurmCommands::Availability found = commands.available();
  if (!found.version) throw Error(Code::Operator, "Slurm cannot be used: " + found.why_not);
  const Answer<ClusterConfig> config = commands.show_config();
  if (!config.value) {
    throw Error(Code::Operator, "Slurm cannot be used: " + config.failure->message);
  }
  SlurmSettings settings;
  settings.trainer = trainer;
  settings.user = user;
  settings.version = *found.version;
  settings.accounting = config.value->accounting.value_or(true);
  // Accounting is asked when the queue has lost a job, for the cluster nobody asks so far.
  for (PollPace* pace : {&settings.limits.idle, &settings.limits.busy}) {
    for (const PollKind kind : {PollKind::Accounting, PollKind::Cluster}) {
      pace->intervals[static_cast<std::size_t>(kind)] = std::numeric_limits<double>::infinity();
    }
  }
  return settings;
}

SlurmScheduler::SlurmScheduler(base::FileSystem& files, const base::Clock& clock,
                               SlurmCommands commands, SlurmSettings settings, NodeTable& nodes)
    : files_(files),
      clock_(clock),
      commands_(std::move(commands)),
      settings_(std::move(settings)),
      nodes_(nodes),
      book_(settings_.accounting),
      budget_(settings_.limits),
      thread_([this](const std::stop_token& stop) { collect(stop); }) {}

SlurmScheduler::~SlurmScheduler() {
  thread_.request_stop();
  changed_.notify_all();
}

Submission SlurmScheduler::send(const SlurmJob& job, base::FileSystem::Open mode) {
  const std::string script = batch_script(job);
  std::vector<std::string> arguments = sbatch_arguments(job);
  const base::Path path = script_path(job);
  base::check(!arguments.empty() && arguments.back() == path.string(),
              "sbatch's last argument is the script");
  arguments.pop_back();
  files_.create_directory(path.parent_path());
  // Not synced: the job has slurmctld's copy, and without this one cannot only submit a successor.
  files_.open(path, mode)->append(script);
  return commands_.sbatch(arguments, path);
}

std::string SlurmScheduler::submit(const LaunchRequest& request) {
  const auto run = trainer::RunDirectory::open(files_, request.run_directory);
  const trainer::RunConfig config = trainer::parse_run_config(run.run_json(), "run.json");
  const auto plan = plan_of_run(files_, request.run_directory, config.ranks);
  SlurmJob launch;
  launch.token = request.token;
  launch.run_directory = request.run_directory;
  launch.trainer = settings_.trainer;
  launch.exclude = request.avoid;
  const double since = clock_.utc_seconds() - kClockDifference;
  Submission submission = send(job_of_run(launch, config, plan), base::FileSystem::Open::CreateNew);
  const auto* const first = std::get_if<Refused>(&submission);
  // "Invalid node name specified", "Requested node configuration is not available".
  const bool about_nodes = first != nullptr && first->reason.find("node ") != std::string::npos;
  if (about_nodes && !launch.exclude.empty()) {
    // Avoiding is a wish: a node that the cluster does not have any more must not cost the run.
    base::log(base::LogLevel::Warning,
              "sbatch refused (" + base::printable(first->reason) +
                  ") what avoids nodes; the job is submitted without avoiding any");
    launch.exclude.clear();
    submission = send(job_of_run(launch, config, plan), base::FileSystem::Open::Truncate);
  }
  if (const auto* refused = std::get_if<Refused>(&submission)) {
    throw Error(refused->code == Code::Retry ? Code::Conflict : refused->code,
                refused->reason + (refused->hint.empty() ? "" : "; " + refused->hint));
  }
  expect(request.token, since);
  if (const auto* ambiguous = std::get_if<Ambiguous>(&submission)) {
    throw Error(Code::Retry, ambiguous->why);
  }
  return JobHandle{std::get<Submitted>(submission).id, request.token}.text();
}

void SlurmScheduler::expect(const std::string& token, double asked_since_utc) {
  const std::scoped_lock lock(mutex_);
  if (!since_.emplace(token, asked_since_utc).second) return;
  const double now = clock_.monotonic_seconds();
  book_.expect(token, now);
  budget_.hurry(PollKind::Jobs, now);
  changed_.notify_all();
}

Finding SlurmScheduler::find(const std::string& token) {
  expect(token, clock_.utc_seconds() - kAgesAgo);
  const std::scoped_lock lock(mutex_);
  return book_.find(token);
}

std::optional<std::string> SlurmScheduler::adopt(std::int64_t, const base::Path&) {
  return std::nullopt;
}

ProcessReport SlurmScheduler::poll(const std::string& handle) {
  const auto job = parse_job_handle(handle);
  if (!job) {
    ProcessReport gone;
    gone.state = ProcessState::Gone;
    gone.words = "it was not started by Slurm";
    return gone;
  }
  expect(job->token, clock_.utc_seconds() - kAgesAgo);
  std::optional<JobRow> row;
  {
    const std::scoped_lock lock(mutex_);
    const JobRow* const known = book_.row(job->token);
    if (known != nullptr && needs_log(*known)) row = *known;
  }
  const std::string log = row ? read_job_log(files_, *row, job->token) : "";
  const std::scoped_lock lock(mutex_);
  ProcessReport report = book_.report(*job, log);
  if (report.state == ProcessState::Ended || report.state == ProcessState::Gone) {
    book_.forget(job->token);
    since_.erase(job->token);
  }
  return report;
}

std::optional<std::vector<std::string>> SlurmScheduler::usable_nodes(
    const trainer::SlurmResources& wanted) {
  const NodeSnapshot nodes = nodes_.snapshot();
  if (!nodes.taken_utc || clock_.utc_seconds() - *nodes.taken_utc > kOldNodes) return std::nullopt;
  return orchestrator::usable_nodes(nodes, wanted);
}

void SlurmScheduler::avoid(const std::string& handle, const std::vector<std::string>& nodes) {
  const auto job = parse_job_handle(handle);
  if (!job) return;
  const Answer<JobRow> shown = commands_.show_job(job->id);
  if (!shown.value || token_of(*shown.value) != job->token) return;
  // A name that the cluster does not have any more would cost the whole request.
  const NodeSnapshot known = nodes_.snapshot();
  std::vector<std::string> names;
  for (const std::string& name : nodes) {
    const bool is_list = name.find_first_of("[,") != std::string::npos;
    const bool is_known = std::any_of(known.rows.begin(), known.rows.end(),
                                      [&](const NodeRow& row) { return row.name == name; });
    if (is_list || is_known || known.rows.empty()) names.push_back(name);
  }
  const Answer<Done> answer = commands_.exclude(job->id, names);
  if (answer.failure) {
    base::log(base::LogLevel::Warning, "job " + job->id + " cannot be kept from nodes " +
                                           base::join(nodes, ",") + ": " + answer.failure->message);
  }
}

void SlurmScheduler::look_soon() {
  const std::scoped_lock lock(mutex_);
  budget_.hurry(PollKind::Jobs, clock_.monotonic_seconds());
}

void SlurmScheduler::stop(const std::string& handle) { end(handle, true); }
void SlurmScheduler::kill(const std::string& handle) { end(handle, false); }

// Gently: a running trainer gets TERM, saves and returns; a waiting job is simply cancelled.
void SlurmScheduler::end(const std::string& handle, bool gently) {
  const auto job = parse_job_handle(handle);
  if (!job) return;
  bool running = false;
  {
    const std::scoped_lock lock(mutex_);
    running = book_.report(*job).state == ProcessState::Running;
  }
  const std::string signal = gently && running ? "TERM" : "";
  const Answer<Done> answer = commands_.cancel(job->id, slurm_job_name(job->token), signal);
  if (answer.failure && answer.failure->kind != FailureKind::NotFound) {
    throw Error(Code::Retry, answer.failure->message);
  }
  const std::scoped_lock lock(mutex_);
  budget_.hurry(PollKind::Jobs, clock_.monotonic_seconds());
}

void SlurmScheduler::collect(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::optional<PollKind> kind;
    {
      std::unique_lock lock(mutex_);
      const double now = clock_.monotonic_seconds();
      kind = next_question(now);
      if (!kind) {
        changed_.wait_for(lock, stop, kLook, [] { return false; });
        continue;
      }
      budget_.started(*kind, now);
    }
    const PollOutcome outcome = ask(*kind);
    const std::scoped_lock lock(mutex_);
    const double now = clock_.monotonic_seconds();
    budget_.finished(outcome, now);
    if (*kind == PollKind::Jobs && !book_.wanted().empty()) {
      budget_.hurry(PollKind::Accounting, now);
    }
  }
}

// An idle controller at which nobody looks costs Slurm nothing.
std::optional<PollKind> SlurmScheduler::next_question(double now) {
  const bool any_runs = !since_.empty();
  budget_.set_busy(book_.has_open());
  budget_.set_wanted(PollKind::Jobs, any_runs, now);
  budget_.set_wanted(PollKind::Accounting, any_runs, now);
  budget_.set_wanted(PollKind::Nodes, any_runs || nodes_.is_wanted(now), now);
  return budget_.next(now);
}

PollOutcome SlurmScheduler::ask(PollKind kind) {
  switch (kind) {
    case PollKind::Jobs:
      return ask_queue();
    case PollKind::Accounting:
      return ask_accounting();
    case PollKind::Nodes:
      return ask_nodes();
    case PollKind::Cluster:
      break;
  }
  return PollOutcome::Good;
}

PollOutcome SlurmScheduler::ask_nodes() {
  const double asked = clock_.utc_seconds();
  Answer<Nodes> answer = commands_.show_nodes();
  if (answer.value) {
    nodes_.fill(std::move(*answer.value), asked);
  } else {
    nodes_.fail(answer.failure->message);
  }
  return outcome_of(answer.failure);
}

PollOutcome SlurmScheduler::ask_queue() {
  const double asked = clock_.monotonic_seconds();
  JobQuery query;
  query.user = settings_.user;
  const Answer<Jobs> answer = commands_.squeue(query);
  const std::scoped_lock lock(mutex_);
  if (answer.value) {
    book_.take_queue(*answer.value, asked);
    nodes_.set_jobs(nodes_by_token(*answer.value));
  }
  const std::string trouble = answer.failure ? answer.failure->message : "";
  if (trouble != trouble_ && !trouble.empty()) {
    base::log(base::LogLevel::Warning, "Slurm does not tell: " + trouble);
  }
  trouble_ = trouble;
  return outcome_of(answer.failure);
}

PollOutcome SlurmScheduler::ask_accounting() {
  const double asked = clock_.monotonic_seconds();
  std::vector<std::string> wanted;
  double since = clock_.utc_seconds();
  {
    const std::scoped_lock lock(mutex_);
    wanted = book_.wanted();
    for (const std::string& token : wanted) since = std::min(since, since_[token]);
  }
  if (wanted.empty()) return PollOutcome::Good;
  JobQuery query;
  query.user = settings_.user;
  const Answer<Jobs> answer = commands_.sacct(query, since, settings_.version);
  const std::scoped_lock lock(mutex_);
  if (answer.value) book_.take_accounting(*answer.value, wanted, asked);
  return outcome_of(answer.failure);
}

}  // namespace regatta::orchestrator
