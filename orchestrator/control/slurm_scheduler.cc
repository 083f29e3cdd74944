#include "orchestrator/control/slurm_scheduler.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/batch/batch_script.h"
#include "orchestrator/batch/run_job.h"
#include "orchestrator/slurm/job_end.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator::control {
namespace {

using base::Code;
using base::Error;

constexpr std::chrono::milliseconds kBudgetLook(250);  // how often the budget is asked
// A job may have been submitted by a controller whose clock differed, or long before this one.
constexpr double kClockDifference = 300;
constexpr double kOldNodes = 600;       // what was known of nodes before that says nothing of now
constexpr double kClusterSeconds = 15;  // between two questions, while nothing is known of it
constexpr double kBusySeconds = 60;     // after which a controller without open jobs is idle
constexpr double kAgesAgo = 30.0 * 24 * 3600;

slurm::PollOutcome outcome_of(const std::optional<slurm::SlurmFailure>& failure) {
  if (!failure) return slurm::PollOutcome::Good;
  return failure->kind == slurm::FailureKind::RateLimited ? slurm::PollOutcome::RateLimited
                                                          : slurm::PollOutcome::Failed;
}

// Of the jobs of ours that have nodes now.
std::map<std::string, std::string> nodes_by_token(const slurm::JobBook& book) {
  std::map<std::string, std::string> nodes;
  for (const std::string& token : book.tokens()) {
    const slurm::JobRow* const job = book.row(token);
    if (job != nullptr && job->nodes && slurm::has_nodes(slurm::phase(job->state))) {
      nodes[token] = *job->nodes;
    }
  }
  return nodes;
}

// That sacct is asked for at once: one argument has 128 KiB at most.
constexpr std::size_t kMostIds = 10'000;

}  // namespace

slurm::Answer<SlurmCluster> ask_cluster(const slurm::SlurmCommands& commands) {
  const slurm::Answer<slurm::SlurmVersion> version = commands.version();
  if (!version.value) return {std::nullopt, version.failure, version.seconds};
  const slurm::Answer<slurm::ClusterConfig> config = commands.show_config();
  if (!config.value) return {std::nullopt, config.failure, config.seconds};
  return {SlurmCluster{*version.value, config.value->accounting.value_or(true)}, std::nullopt,
          config.seconds};
}

slurm::PollLimits slurm_poll_limits() {
  slurm::PollLimits limits;
  for (slurm::PollPace* pace : {&limits.idle, &limits.busy}) {
    const auto interval = [pace](slurm::PollKind kind) -> double& {
      return pace->intervals[static_cast<std::size_t>(kind)];
    };
    interval(slurm::PollKind::Accounting) = std::numeric_limits<double>::infinity();
    interval(slurm::PollKind::Cluster) = kClusterSeconds;
  }
  return limits;
}

SlurmScheduler::SlurmScheduler(base::FileSystem& files, const base::Clock& clock,
                               slurm::SlurmCommands commands, SlurmSettings settings,
                               slurm::NodeTable& nodes)
    : files_(files),
      clock_(clock),
      commands_(std::move(commands)),
      settings_(std::move(settings)),
      nodes_(nodes),
      logs_(files_, clock_),
      cluster_(settings_.cluster),
      book_(!cluster_ || cluster_->accounting),
      budget_(settings_.limits) {
  threads_.emplace_back([this](const std::stop_token& stop) { collect(stop); });
  for (int i = 0; i < kEndThreads + kOtherThreads; ++i) {
    slurm::JobRequests* const requests = i < kEndThreads    ? &ends_
                                         : i == kEndThreads ? &avoided_
                                                            : &limits_;
    threads_.emplace_back(
        [this, requests](const std::stop_token& stop) { carry_out(requests, stop); });
  }
}

// Commands that are under way are given up.
SlurmScheduler::~SlurmScheduler() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

slurm::Submission SlurmScheduler::send(const batch::SlurmJob& job, base::FileSystem::Open mode,
                                       const slurm::SlurmCommands& commands) {
  const std::string script = batch::batch_script(job);
  std::vector<std::string> arguments = batch::sbatch_arguments(job);
  const base::Path path = batch::script_path(job);
  base::check(!arguments.empty() && arguments.back() == path.string(),
              "sbatch's last argument is the script");
  arguments.pop_back();
  files_.create_directory(path.parent_path());
  // Not synced: the job has slurmctld's copy, and without this one cannot only submit a successor.
  files_.open(path, mode)->append(script);
  return commands.sbatch(arguments, path);
}

std::string SlurmScheduler::why_not_now() {
  const std::scoped_lock lock(mutex_);
  if (cluster_) return {};
  return "Slurm has not answered yet" +
         (cluster_trouble_.empty() ? "" : " (" + cluster_trouble_ + ")");
}

std::string SlurmScheduler::submit(const runs::LaunchRequest& request) {
  const auto run = trainer::contract::RunDirectory::open(files_, request.run_directory);
  const trainer::contract::RunConfig config =
      trainer::contract::parse_run_config(run.run_json(), "run.json");
  const auto plan = batch::plan_of_run(files_, request.run_directory, config.ranks);
  batch::SlurmJob launch;
  launch.token = request.token;
  launch.run_directory = request.run_directory;
  launch.trainer = settings_.trainer;
  launch.exclude = request.avoid;
  const double since = clock_.utc_seconds() - kClockDifference;
  const slurm::SlurmCommands commands = commands_.until(request.stop);
  slurm::Submission submission =
      send(batch::job_of_run(launch, config, plan), base::FileSystem::Open::CreateNew, commands);
  const auto* const first = std::get_if<slurm::Refused>(&submission);
  // "Invalid node name specified", "Requested node configuration is not available".
  const bool about_nodes = first != nullptr && first->reason.find("node ") != std::string::npos;
  if (about_nodes && !launch.exclude.empty()) {
    // Avoiding is a request: a node that the cluster does not have any more must not cost the run.
    base::log(base::LogLevel::Warning,
              "sbatch refused (" + base::printable(first->reason) +
                  ") what avoids nodes; the job is submitted without avoiding any");
    launch.exclude.clear();
    submission =
        send(batch::job_of_run(launch, config, plan), base::FileSystem::Open::Truncate, commands);
  }
  if (auto* refused = std::get_if<slurm::Refused>(&submission)) {
    const std::string why =
        about_nodes
            ? slurm::why_no_node(nodes_.snapshot(), trainer::contract::slurm_resources_of(config))
            : "";
    if (!why.empty()) refused->hint = why;
    throw Error(refused->code == Code::Retry ? Code::Conflict : refused->code,
                refused->reason + (refused->hint.empty() ? "" : "; " + refused->hint));
  }
  if (const auto* ambiguous = std::get_if<slurm::Ambiguous>(&submission)) {
    expect({"", request.token}, since);
    const std::scoped_lock lock(mutex_);
    contact_.trouble = ambiguous->why;
    throw Error(Code::Retry, ambiguous->why);
  }
  const slurm::JobHandle job{std::get<slurm::Submitted>(submission).id, request.token};
  expect(job, since);
  const std::scoped_lock lock(mutex_);
  note_answer();
  return job.text();
}

runs::StartPreview SlurmScheduler::preview(const base::Path& run_directory,
                                           const trainer::contract::RunConfig& config,
                                           const std::optional<std::string>& plan_json) const {
  std::optional<topology::plan::Plan> plan;
  if (plan_json) plan = topology::plan::parse_plan(*plan_json, "plan.json", std::nullopt);
  if (plan && plan->ranks != config.ranks) plan.reset();  // as plan_of_run() of a submission does
  batch::SlurmJob launch;
  launch.token = std::string(16, '0');
  launch.run_directory = run_directory;
  launch.trainer = settings_.trainer;
  const batch::SlurmJob job = batch::job_of_run(launch, config, plan);
  runs::StartPreview preview{batch::sbatch_arguments(job), batch::batch_script(job)};
  preview.command.insert(preview.command.begin(), "sbatch");
  return preview;
}

void SlurmScheduler::expect(const slurm::JobHandle& job, double asked_since_utc) {
  const std::scoped_lock lock(mutex_);
  const double now = clock_.monotonic_seconds();
  book_.expect(job.token, job.id, now);
  if (!since_.emplace(job.token, asked_since_utc).second) return;
  budget_.hurry(slurm::PollKind::Jobs, now);
  changed_.notify_all();
}

runs::SchedulerFinding SlurmScheduler::find(const std::string& token, double since_utc) {
  expect({"", token}, since_utc - kClockDifference);
  const std::scoped_lock lock(mutex_);
  return book_.find(token);
}

std::optional<std::string> SlurmScheduler::adopt(std::int64_t, const base::Path&) {
  return std::nullopt;
}

runs::ProcessReport SlurmScheduler::poll(const std::string& handle) {
  const auto job = slurm::parse_job_handle(handle);
  if (!job) {
    runs::ProcessReport gone;
    gone.state = runs::ProcessState::Gone;
    gone.words = "it was not started by Slurm";
    return gone;
  }
  expect(*job, clock_.utc_seconds() - kAgesAgo);
  const std::scoped_lock lock(mutex_);
  const slurm::JobRow* const row = book_.row(job->token);
  std::string log;
  if (row != nullptr && slurm::needs_log(*row)) {
    std::optional<std::string> read = logs_.find(*row, job->token);
    if (!read) return {};  // not known yet
    log = std::move(*read);
  }
  runs::ProcessReport report = book_.report(*job, log);
  if (report.state == runs::ProcessState::Ended || report.state == runs::ProcessState::Gone) {
    book_.forget(job->token);
    since_.erase(job->token);
    logs_.forget(job->token);
    ends_.forget(job->token);
    avoided_.forget(job->token);
    limits_.forget(job->token);
    limit_answers_.erase(job->token);
    troubles_.erase(job->token);
  }
  return report;
}

std::optional<std::vector<std::string>> SlurmScheduler::usable_nodes(
    const trainer::contract::SlurmResources& wanted) {
  const slurm::NodeSnapshot nodes = nodes_.snapshot();
  if (!nodes.taken_utc || clock_.utc_seconds() - *nodes.taken_utc > kOldNodes) return std::nullopt;
  return orchestrator::slurm::usable_nodes(nodes, wanted);
}

std::vector<std::string> SlurmScheduler::lost_nodes() {
  const slurm::NodeSnapshot nodes = nodes_.snapshot();
  if (!nodes.taken_utc || clock_.utc_seconds() - *nodes.taken_utc > kOldNodes) return {};
  return slurm::dead_nodes(nodes);
}

void SlurmScheduler::look_soon() {
  const std::scoped_lock lock(mutex_);
  budget_.hurry(slurm::PollKind::Jobs, clock_.monotonic_seconds());
}

std::optional<runs::Contact> SlurmScheduler::contact(const std::string& handle) {
  const auto job = slurm::parse_job_handle(handle);
  const std::scoped_lock lock(mutex_);
  runs::Contact contact = contact_;
  if (contact.trouble.empty()) contact.trouble = accounting_trouble_;
  const auto since = job ? ends_.waits_since(job->token) : std::nullopt;
  if (since) {
    contact.end_waits_utc = clock_.utc_seconds() - (clock_.monotonic_seconds() - *since);
  }
  return contact;
}

std::optional<runs::Asking> SlurmScheduler::asking() {
  const std::scoped_lock lock(mutex_);
  return budget_.use(clock_.monotonic_seconds());
}

void SlurmScheduler::somebody_looks() {
  const std::scoped_lock lock(mutex_);
  budget_.look(cluster_ ? slurm::PollKind::Jobs : slurm::PollKind::Cluster,
               clock_.monotonic_seconds());
}

void SlurmScheduler::collect(const std::stop_token& stop) {
  const slurm::SlurmCommands commands = commands_.until(stop);
  while (!stop.stop_requested()) {
    std::optional<slurm::PollKind> kind;
    {
      std::unique_lock lock(mutex_);
      const double now = clock_.monotonic_seconds();
      kind = next_question(now);
      if (!kind) {
        changed_.wait_for(lock, stop, kBudgetLook, [] { return false; });
        continue;
      }
      budget_.started(*kind, now);
    }
    const slurm::PollOutcome outcome = ask(*kind, commands);
    const std::scoped_lock lock(mutex_);
    const double now = clock_.monotonic_seconds();
    budget_.finished(outcome, now);
    if (book_.wanted().empty()) {
      accounting_trouble_.clear();
    } else if (*kind == slurm::PollKind::Jobs) {
      budget_.hurry(slurm::PollKind::Accounting, now);
    }
  }
}

// An idle controller at which nobody looks costs Slurm nothing.
std::optional<slurm::PollKind> SlurmScheduler::next_question(double now) {
  budget_.set_wanted(slurm::PollKind::Cluster, !cluster_, now);
  const bool any_runs = cluster_ && !since_.empty();
  if (book_.has_open()) busy_until_ = now + kBusySeconds;
  budget_.set_busy(now < busy_until_);
  budget_.set_wanted(slurm::PollKind::Jobs, any_runs, now);
  budget_.set_wanted(slurm::PollKind::Accounting, any_runs, now);
  budget_.set_wanted(slurm::PollKind::Nodes, any_runs || (cluster_ && nodes_.is_wanted(now)), now);
  const bool are_shown = cluster_ && nodes_.is_wanted(now);
  budget_.set_wanted(slurm::PollKind::Reservations, are_shown, now);
  if (nodes_.take_look()) budget_.look(slurm::PollKind::Nodes, now);
  return budget_.next(now);
}

slurm::PollOutcome SlurmScheduler::ask(slurm::PollKind kind, const slurm::SlurmCommands& commands) {
  switch (kind) {
    case slurm::PollKind::Jobs:
      return ask_queue(commands);
    case slurm::PollKind::Accounting:
      return ask_accounting(commands);
    case slurm::PollKind::Nodes:
      return ask_nodes(commands);
    case slurm::PollKind::Cluster:
      return get_acquainted(commands);
    case slurm::PollKind::Reservations:
      return ask_reservations(commands);
  }
  return slurm::PollOutcome::Good;
}

slurm::PollOutcome SlurmScheduler::get_acquainted(const slurm::SlurmCommands& commands) {
  const slurm::Answer<SlurmCluster> answer = ask_cluster(commands);
  const std::scoped_lock lock(mutex_);
  if (answer.value) {
    cluster_ = answer.value;
    cluster_trouble_.clear();
    book_.set_accounting(cluster_->accounting);
    note_answer();
    base::log(base::LogLevel::Info, "runs go to Slurm " + slurm::to_string(cluster_->version));
  } else if (answer.failure->kind != slurm::FailureKind::Stopped) {
    if (answer.failure->message != cluster_trouble_) {
      base::log(base::LogLevel::Warning, "Slurm query failed: " + answer.failure->message);
    }
    cluster_trouble_ = answer.failure->message;
    contact_.trouble = cluster_trouble_;
    nodes_.fail(cluster_trouble_);
  }
  return outcome_of(answer.failure);
}

slurm::PollOutcome SlurmScheduler::ask_nodes(const slurm::SlurmCommands& commands) {
  const double asked = clock_.utc_seconds();
  slurm::Answer<slurm::Nodes> answer = commands.show_nodes();
  if (answer.value) {
    nodes_.fill(std::move(*answer.value), asked);
  } else {
    nodes_.fail(answer.failure->message);
  }
  return outcome_of(answer.failure);
}

// What was known stays where there is no answer: it has its times.
slurm::PollOutcome SlurmScheduler::ask_reservations(const slurm::SlurmCommands& commands) {
  slurm::Answer<std::vector<slurm::Reservation>> answer = commands.show_reservations();
  if (answer.value) nodes_.set_reservations(std::move(*answer.value));
  return outcome_of(answer.failure);
}

slurm::PollOutcome SlurmScheduler::ask_queue(const slurm::SlurmCommands& commands) {
  const double asked = clock_.monotonic_seconds();
  // All of the user's: a job may have any name, and a successor any id.
  slurm::JobQuery query;
  query.user = settings_.user;
  const slurm::Answer<slurm::Jobs> answer = commands.squeue(query);
  const std::scoped_lock lock(mutex_);
  if (answer.value) {
    book_.take_queue(*answer.value, asked);
    if (answer.value->whole) nodes_.set_jobs(nodes_by_token(book_));
  }
  const slurm::PollOutcome outcome = note("squeue", answer, &trouble_);
  if (trouble_.empty() && answer.value) {
    note_answer();
  } else if (!trouble_.empty()) {
    contact_.trouble = trouble_;
  }
  return outcome;
}

slurm::PollOutcome SlurmScheduler::ask_accounting(const slurm::SlurmCommands& commands) {
  const double asked = clock_.monotonic_seconds();
  std::vector<std::string> wanted;
  slurm::JobQuery query;
  query.user = settings_.user;
  double since = clock_.utc_seconds();
  slurm::SlurmVersion version;
  {
    // By id where one is known; then for the others, in all that the user has had since then.
    const std::scoped_lock lock(mutex_);
    if (cluster_) version = cluster_->version;
    std::vector<std::string> others;
    for (const std::string& token : book_.wanted()) {
      const std::string id = book_.id_to_ask(token);
      if (id.empty()) {
        others.push_back(token);
      } else if (query.ids.size() < kMostIds) {
        wanted.push_back(token);
        query.ids.push_back(id);
      }
    }
    if (wanted.empty()) wanted = std::move(others);
    for (const std::string& token : wanted) {
      const slurm::JobRow* const row = query.ids.empty() ? book_.row(token) : nullptr;
      const bool has_older = row != nullptr && row->submit;  // than the successor that is sought
      since = std::min(since, has_older ? *row->submit : since_[token]);
    }
  }
  if (wanted.empty()) return slurm::PollOutcome::Good;
  const slurm::Answer<slurm::Jobs> answer = commands.sacct(query, since, version);
  const std::scoped_lock lock(mutex_);
  if (answer.value) {
    book_.take_accounting(
        *answer.value, wanted, asked,
        query.ids.empty() ? slurm::JobBook::Asked::ForAllJobs : slurm::JobBook::Asked::ForIds);
  }
  return note("sacct", answer, &accounting_trouble_);
}

void SlurmScheduler::note_answer() {
  const double now = clock_.monotonic_seconds();
  contact_.answered_utc = clock_.utc_seconds();
  budget_.answered(now);
  if (contact_.trouble.empty()) return;
  contact_.trouble.clear();
  ends_.hurry(now);
  avoided_.hurry(now);
  limits_.hurry(now);
}

slurm::PollOutcome SlurmScheduler::note(const std::string& program,
                                        const slurm::Answer<slurm::Jobs>& answer,
                                        std::string* logged) {
  std::string trouble;
  if (answer.failure && answer.failure->kind != slurm::FailureKind::Stopped) {
    trouble = answer.failure->message;
  } else if (answer.value && !answer.value->whole) {
    trouble = "the answer of " + program + " is not whole (" +
              std::to_string(answer.value->rows.size()) + " jobs, " +
              std::to_string(answer.value->damaged) +
              " rows damaged); no job that it leaves out counts as gone";
  }
  if (trouble != *logged && !trouble.empty()) {
    base::log(base::LogLevel::Warning, "Slurm query failed: " + trouble);
  }
  *logged = trouble;
  const bool broken = answer.value && !answer.value->whole;
  return broken ? slurm::PollOutcome::Failed : outcome_of(answer.failure);
}

}  // namespace regatta::orchestrator::control
