// What is wanted of jobs, told to Slurm by threads of the scheduler.
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/control/slurm_scheduler.h"

namespace regatta::orchestrator::control {
namespace {

using base::Error;

constexpr std::chrono::milliseconds kLook(250);  // how often what failed is looked at
constexpr double kAgainSeconds = 10;             // after a request that could not be told

std::string what_is_wanted(const slurm::JobRequest& request) {
  switch (request.kind) {
    case slurm::JobRequest::Kind::Limit:
      return "given " + std::to_string(request.minutes) + " minutes";
    case slurm::JobRequest::Kind::Avoid:
      return "kept from nodes " + base::join(request.nodes, ",");
    case slurm::JobRequest::Kind::Stop:
    case slurm::JobRequest::Kind::Kill:
      break;
  }
  return "ended";
}

}  // namespace

void SlurmScheduler::avoid(const std::string& handle, const std::vector<std::string>& nodes) {
  want(&avoided_, handle, slurm::JobRequest::Kind::Avoid, nodes);
}
void SlurmScheduler::limit(const std::string& handle, std::int64_t minutes) {
  want(&limits_, handle, slurm::JobRequest::Kind::Limit, {}, minutes);
}
std::optional<runs::LimitAnswer> SlurmScheduler::take_limit_answer(const std::string& handle) {
  const auto job = slurm::parse_job_handle(handle);
  const std::scoped_lock lock(mutex_);
  const auto found = job ? limit_answers_.find(job->token) : limit_answers_.end();
  if (found == limit_answers_.end()) return std::nullopt;
  runs::LimitAnswer answer = std::move(found->second);
  limit_answers_.erase(found);
  return answer;
}
void SlurmScheduler::stop(const std::string& handle) {
  want(&ends_, handle, slurm::JobRequest::Kind::Stop);
}
void SlurmScheduler::kill(const std::string& handle) {
  want(&ends_, handle, slurm::JobRequest::Kind::Kill);
}

void SlurmScheduler::want(slurm::JobRequests* requests, const std::string& handle,
                          slurm::JobRequest::Kind kind, std::vector<std::string> nodes,
                          std::int64_t minutes) {
  const auto job = slurm::parse_job_handle(handle);
  if (!job) return;
  const std::scoped_lock lock(mutex_);
  requests->add({kind, *job, std::move(nodes), minutes}, clock_.monotonic_seconds());
  changed_.notify_all();
}

void SlurmScheduler::carry_out(slurm::JobRequests* requests, const std::stop_token& stop) {
  const slurm::SlurmCommands commands = commands_.until(stop);
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const std::optional<slurm::JobRequest> request = requests->take(clock_.monotonic_seconds());
    if (!request) {
      if (requests->empty()) {
        changed_.wait(lock, stop, [&] { return !requests->empty(); });
      } else {
        changed_.wait_for(lock, stop, kLook, [] { return false; });
      }
      continue;
    }
    lock.unlock();
    std::optional<slurm::SlurmFailure> failure;
    try {
      failure = tell(*request, commands);
    } catch (const Error& error) {  // a node's name with a NUL byte
      failure = slurm::SlurmFailure{slurm::FailureKind::Refused, error.what()};
    }
    lock.lock();
    requests->finish(*request, judge(*request, failure));
  }
}

std::optional<double> SlurmScheduler::judge(const slurm::JobRequest& request,
                                            const std::optional<slurm::SlurmFailure>& failure) {
  const double now = clock_.monotonic_seconds();
  const std::string& token = request.job.token;
  const bool limits = request.kind == slurm::JobRequest::Kind::Limit;
  if (!failure || failure->kind == slurm::FailureKind::NotFound) {
    troubles_.erase(token);
    note_answer();
    if (limits && !failure) limit_answers_[token] = {request.minutes, ""};
    if (request.kind >= slurm::JobRequest::Kind::Stop) budget_.hurry(slurm::PollKind::Jobs, now);
    return std::nullopt;
  }
  if (failure->kind == slurm::FailureKind::Stopped) return std::nullopt;
  if (since_.count(token) == 0) return std::nullopt;  // it is over, and forgotten
  std::string& logged = troubles_[token];
  if (logged != failure->message) {
    logged = failure->message;
    base::log(base::LogLevel::Warning, "job " + request.job.id + " cannot be " +
                                           what_is_wanted(request) + ": " + failure->message);
  }
  if (limits && failure->kind == slurm::FailureKind::Refused) {
    limit_answers_[token] = {request.minutes, failure->message};
  }
  // What Slurm understood and refused, it would refuse again.
  if (failure->kind == slurm::FailureKind::Refused ||
      failure->kind == slurm::FailureKind::Disabled) {
    return std::nullopt;
  }
  return now + kAgainSeconds;
}

std::optional<slurm::SlurmFailure> SlurmScheduler::tell(const slurm::JobRequest& request,
                                                        const slurm::SlurmCommands& commands) {
  using Kind = slurm::JobRequest::Kind;
  if (request.kind >= Kind::Stop) return end(request, commands);
  // An id may have been given to another job.
  const slurm::Answer<slurm::JobRow> shown = commands.show_job(request.job.id);
  if (!shown.value) return shown.failure;
  if (slurm::token_of(*shown.value) != request.job.token) {
    return slurm::SlurmFailure{slurm::FailureKind::NotFound, "the job is another one"};
  }
  if (request.kind == Kind::Limit) return commands.limit(request.job.id, request.minutes).failure;
  return keep_away(request, commands);
}

std::optional<slurm::SlurmFailure> SlurmScheduler::keep_away(const slurm::JobRequest& request,
                                                             const slurm::SlurmCommands& commands) {
  // A name that the cluster does not have any more would cost the whole request.
  const slurm::NodeSnapshot known = nodes_.snapshot();
  std::vector<std::string> names;
  for (const std::string& name : request.nodes) {
    const bool is_list = name.find_first_of("[,") != std::string::npos;
    const bool is_known = std::any_of(known.rows.begin(), known.rows.end(),
                                      [&](const slurm::NodeRow& row) { return row.name == name; });
    if (is_list || is_known || known.rows.empty()) names.push_back(name);
  }
  return commands.exclude(request.job.id, names).failure;
}

// A running trainer that is to stop gets TERM, saves and returns; a waiting job is simply
// cancelled, and so is one that is to be killed. It is the newest job of the token, under the name
// that squeue showed last; the controller asks again where somebody has just changed that.
std::optional<slurm::SlurmFailure> SlurmScheduler::end(const slurm::JobRequest& request,
                                                       const slurm::SlurmCommands& commands) {
  slurm::JobRow job;
  {
    const std::scoped_lock lock(mutex_);
    const slurm::JobRow* const row = book_.row(request.job.token);
    if (row == nullptr) {
      return slurm::SlurmFailure{slurm::FailureKind::Incomplete, "squeue has not shown it so far"};
    }
    job = *row;
  }
  const bool asks =
      request.kind == slurm::JobRequest::Kind::Stop && slurm::has_nodes(slurm::phase(job.state));
  return commands.cancel(job.id, job.name.value_or(""), asks ? "TERM" : "").failure;
}

}  // namespace regatta::orchestrator::control
