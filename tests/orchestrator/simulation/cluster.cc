#include "tests/orchestrator/simulation/cluster.h"

#include <algorithm>
#include <cmath>

#include "tests/checkpoint/samples.h"
#include "trainer/contract/exit_code.h"
#include "trainer/contract/run_config.h"

namespace regatta::tests::simulation {
namespace {

using namespace orchestrator::runs;
using trainer::contract::ExitCode;

// As the real one: an unknown token is believed to be nobody's after so long.
constexpr double kLostSeconds = 60;
constexpr double kStepSeconds = 0.5;
constexpr std::int64_t kStepsForCheckpoint = 4;
constexpr std::int64_t kProcess = 4711;
constexpr double kUtc = 1.7e9;  // SimulatedClock's

}  // namespace

std::string Cluster::why_not_now() {
  return silent() ? "Slurm does not answer, so nothing is submitted" : "";
}

Job* Cluster::find_job(const std::string& handle) {
  for (const auto& job : jobs_) {
    if (job->handle == handle) return job.get();
  }
  return nullptr;
}

std::vector<const Job*> Cluster::live() const {
  std::vector<const Job*> found;
  for (const auto& job : jobs_) {
    if (!job->ended) found.push_back(job.get());
  }
  return found;
}

Job& Cluster::add(const LaunchRequest& request, double delay) {
  auto job = std::make_unique<Job>();
  job->handle = "j" + std::to_string(jobs_.size() + 1);
  job->token = request.token;
  job->directory = request.run_directory;
  job->submitted = clock_.now;
  job->arrives = clock_.now + delay;
  job->starts = job->arrives + chance_.between(0, calm_ ? 1 : 10);
  job->report.state = ProcessState::Waiting;
  job->report.tells_cancels = true;
  job->report.words = "Resources";
  Truth& truth = truths_[request.run_directory];
  ++truth.jobs;
  job->after_the_end = has_finished(request.run_directory);
  jobs_.push_back(std::move(job));
  return *jobs_.back();
}

bool Cluster::has_finished(const base::Path& directory) {
  const Truth& truth = truths_[directory];
  return truth.finished && truth.steps >= steps_of(directory);
}

std::int64_t Cluster::steps_of(const base::Path& directory) {
  if (!files_.exists(directory / "run.json")) return 0;
  const auto run = trainer::contract::RunDirectory::open(files_, directory);
  return trainer::contract::parse_run_config(run.run_json(), "run.json").steps;
}

std::string Cluster::submit(const LaunchRequest& request) {
  life_.step_or_die();
  if (silent()) throw base::Error(base::Code::Retry, "Slurm does not answer");
  const int fate = calm_ ? 99 : chance_.below(20);
  if (fate == 0) throw base::Error(base::Code::Conflict, "the partition is down");
  if (fate == 1) throw base::Error(base::Code::Retry, "no answer, and nothing was begun");
  const Job& job = add(request, fate == 2 ? chance_.between(0, 40) : 0);
  life_.step_or_die();
  if (fate == 2 || fate == 3) throw base::Error(base::Code::Retry, "the answer was lost");
  return job.handle;
}

SchedulerFinding Cluster::find(const std::string& token, double since_utc) {
  if (silent()) return {false, std::nullopt};
  for (const auto& job : jobs_) {
    if (job->token == token && job->arrives <= clock_.now) return {true, job->handle};
  }
  return {clock_.utc_seconds() - since_utc >= kLostSeconds, std::nullopt};
}

ProcessReport Cluster::poll(const std::string& handle) {
  if (silent()) return {};
  const Job* const job = find_job(handle);
  if (job != nullptr) return job->report;
  ProcessReport gone;
  gone.state = ProcessState::Gone;
  return gone;
}

void Cluster::stop(const std::string& handle) {
  life_.step_or_die();
  Job* const job = find_job(handle);
  if (job == nullptr || job->ended || silent()) return;
  if (!job->stops) job->stops = clock_.now + chance_.between(0, 3);
}

void Cluster::kill(const std::string& handle) {
  life_.step_or_die();
  Job* const job = find_job(handle);
  if (job == nullptr || job->ended || silent()) return;
  if (!job->killed) job->killed = clock_.now + chance_.between(0, 1);
}

void Cluster::advance() {
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    Job* const job = jobs_[i].get();
    while (!job->ended && job->arrives <= clock_.now) {
      const double due = job->attempt ? job->acts : job->starts;
      const double next = std::min({due, job->stops.value_or(due), job->killed.value_or(due)});
      if (next > clock_.now) break;
      act(job);
    }
  }
}

void Cluster::act(Job* job) {
  if (job->killed && *job->killed <= clock_.now) {
    return end(job, std::nullopt, 9, Cause::None);
  }
  if (job->stops && *job->stops <= clock_.now) {
    if (!job->attempt) return end(job, std::nullopt, std::nullopt, Cause::Cancelled);
    save(job);
    return finish(job, static_cast<int>(ExitCode::Stopped), "stopped");
  }
  if (!job->attempt) return begin_attempt(job);
  job->acts += kStepSeconds;
  if (!calm_ && chance_.one_in(25)) return go_wrong(job);
  train(job);
}

void Cluster::begin_attempt(Job* job) {
  if (!files_.exists(job->directory / "run.json")) {
    return end(job, static_cast<int>(ExitCode::Operator), std::nullopt, Cause::None);
  }
  const auto directory = trainer::contract::RunDirectory::open(files_, job->directory);
  auto opened = directory;
  job->attempt = opened.create_attempt();
  job->epoch = opened.take_epoch();
  job->journal = files_.open(directory.journal_path(*job->attempt), base::FileSystem::Open::Append);
  job->sequence = 0;
  job->torn.clear();
  job->began = job->starts;
  job->acts = job->starts + kStepSeconds;
  job->step = truths_[job->directory].checkpoint;
  job->report.state = ProcessState::Running;
  job->report.words.clear();
  job->report.started = kUtc + job->starts;
  trainer::contract::StartRecord record;
  record.attempt = job->attempt->number;
  record.execution = job->attempt->execution;
  record.epoch = job->epoch;
  record.process = kProcess;
  record.host = "node1";
  record.hosts = {"node1"};
  record.steps = job->goal = steps_of(job->directory);
  record.batch_size = 8;
  record.first_step = job->step;
  record.metric = "mlm_accuracy";
  (void)this->record(job, record);
}

// A fenced attempt writes no more.
bool Cluster::write(Job* job, const std::string& line) {
  const auto directory = trainer::contract::RunDirectory::open(files_, job->directory);
  if (directory.newest_epoch() != job->epoch) {
    end(job, static_cast<int>(ExitCode::Fenced), std::nullopt, Cause::None);
    return false;
  }
  const std::string text = job->torn + line;
  // Readers see lines grow.
  const bool tears = !calm_ && chance_.one_in(4);
  const std::size_t now =
      tears ? text.size() - static_cast<std::size_t>(chance_.below(static_cast<int>(line.size())))
            : text.size();
  job->journal->append(std::string_view(text).substr(0, now));
  job->torn = text.substr(now);
  return true;
}

template <typename Body>
bool Cluster::record(Job* job, const Body& body) {
  trainer::contract::JournalRecord record;
  record.sequence = job->sequence++;
  record.seconds = std::max(0.0, std::min(job->acts, clock_.now.load()) - job->began);
  record.utc_seconds = kUtc + job->began + record.seconds;
  record.body = body;
  return write(job, to_line(record));
}

void Cluster::train(Job* job) {
  if (job->step >= job->goal) return finish(job, 0, "steps");
  trainer::contract::StepRecord record;
  record.step = ++job->step;
  record.loss = record.mlm_loss = 1.0 / static_cast<double>(job->step);
  record.samples = 8;
  record.tokens = 800;
  record.seconds = kStepSeconds;
  if (!this->record(job, record)) return;
  if (job->step % kStepsForCheckpoint == 0) save(job);
  if (job->ended || job->step < job->goal) return;
  trainer::contract::EvalRecord evaluation;
  evaluation.step = job->step;
  evaluation.mlm_accuracy = 0.25;
  if (this->record(job, evaluation)) finish(job, 0, "steps");
}

void Cluster::save(Job* job) {
  trainer::contract::CheckpointRecord record;
  record.step = job->step;
  record.name = "step-" + std::to_string(job->step);
  record.status = "written";
  record.bytes = 10;
  if (!this->record(job, record)) return;
  std::int64_t& checkpoint = truths_[job->directory].checkpoint;
  if (job->step <= checkpoint) return;
  checkpoint = job->step;
  const SampleCheckpoint sample(job->step, job->attempt->execution);
  checkpoint::CheckpointStore(files_, job->directory / "checkpoints")
      .write(sample.contents, always);
}

void Cluster::finish(Job* job, int code, const std::string& reason) {
  if (job->ended) return;
  trainer::contract::EndRecord record;
  record.reason = reason;
  record.step = job->step;
  record.exit_code = code;
  const bool torn = calm_;
  if (!this->record(job, record)) return;
  (void)torn;
  if (!job->torn.empty()) job->journal->append(job->torn);  // what ends in order writes all of it
  job->torn.clear();
  if (code == 0) {
    Truth& truth = truths_[job->directory];
    truth.finished = true;
    truth.steps = job->goal;
  }
  end(job, code, std::nullopt, code == 0 ? Cause::None : Cause::None);
}

void Cluster::end(Job* job, std::optional<int> code, std::optional<int> signal, Cause cause) {
  job->ended = true;
  job->journal.reset();
  job->report.state = ProcessState::Ended;
  job->report.exit_code = code;
  job->report.signal = signal;
  job->report.cause = cause;
  job->report.words = name_of(cause);
}

void Cluster::go_wrong(Job* job) {
  switch (chance_.below(6)) {
    case 0:
      return end(job, std::nullopt, 9, Cause::NodeFailure);
    case 1:
      return finish(job, static_cast<int>(ExitCode::Retry), "failed");
    case 2:
      save(job);
      return finish(job, static_cast<int>(ExitCode::Continue), "deadline");
    case 3:
      return end(job, std::nullopt, 15, Cause::TimeLimit);
    case 4:  // requeued by itself
      job->attempt.reset();
      job->journal.reset();
      job->starts = clock_.now + chance_.between(0, 20);
      job->report.state = ProcessState::Waiting;
      job->report.words = "BeginTime";
      return;
    default:  // slow
      job->acts += chance_.between(0, 30);
  }
}

}  // namespace regatta::tests::simulation
