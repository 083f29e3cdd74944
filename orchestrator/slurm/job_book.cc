#include "orchestrator/slurm/job_book.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "orchestrator/slurm/job_end.h"

namespace regatta::orchestrator {
namespace {

// A token that neither squeue nor sacct finds this long after Slurm began to answer was never
// submitted, or its job is lost (design decision 1). Accounting lags behind by seconds.
constexpr double kLostSeconds = 60;
constexpr std::size_t kTokenDigits = 16;

bool is_token(std::string_view text) {
  return text.size() == kTokenDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The newer of two executions.
bool is_newer(const JobRow& a, const JobRow& b) {
  return a.start.value_or(a.submit.value_or(0)) >= b.start.value_or(b.submit.value_or(0));
}

}  // namespace

std::optional<std::string> token_of(const JobRow& job) {
  if (!job.name || job.name->rfind(kJobNamePrefix, 0) != 0) return std::nullopt;
  std::string token = job.name->substr(kJobNamePrefix.size());
  if (!is_token(token)) return std::nullopt;
  return token;
}

std::optional<JobHandle> parse_job_handle(const std::string& text) {
  const std::vector<std::string> parts = base::split(text, ':');
  if (parts.size() != 3 || parts[0] != "slurm" || !is_job_id(parts[1]) || !is_token(parts[2])) {
    return std::nullopt;
  }
  return JobHandle{parts[1], parts[2]};
}

void JobBook::expect(const std::string& token, double now) {
  entries_.try_emplace(token).first->second.since = now;
}

void JobBook::forget(const std::string& token) { entries_.erase(token); }

void JobBook::take_queue(const Jobs& jobs, double asked) {
  for (auto& [token, entry] : entries_) {
    if (asked < entry.since) continue;
    entry.in_last_queue = false;
    if (entry.queue_asked < 0) entry.queue_asked = asked;
    entry.queue_answered = asked;
  }
  for (const JobRow& job : jobs.rows) {
    const auto token = token_of(job);
    const auto found = token ? entries_.find(*token) : entries_.end();
    if (found == entries_.end()) continue;
    Entry& entry = found->second;
    if (entry.in_last_queue && entry.queued && !is_newer(job, *entry.queued)) continue;
    entry.queued = job;
    entry.in_last_queue = true;
  }
}

void JobBook::take_accounting(const Jobs& jobs, const std::vector<std::string>& tokens,
                              double asked) {
  for (const std::string& token : tokens) {
    const auto found = entries_.find(token);
    if (found == entries_.end() || asked < found->second.since) continue;
    if (found->second.accounting_asked < 0) found->second.accounting_asked = asked;
    found->second.accounting_answered = asked;
  }
  for (const JobRow& job : jobs.rows) {
    const auto token = token_of(job);
    const auto found = token ? entries_.find(*token) : entries_.end();
    if (found == entries_.end()) continue;
    Entry& entry = found->second;
    if (!entry.accounted || is_newer(job, *entry.accounted)) entry.accounted = job;
  }
}

std::vector<std::string> JobBook::wanted() const {
  std::vector<std::string> tokens;
  if (!accounting_) return tokens;
  for (const auto& [token, entry] : entries_) {
    const bool gone = entry.queue_answered >= 0 && !entry.in_last_queue;
    const bool known = entry.accounted && ended_in_accounting(entry.accounted->state);
    if (gone && !known && !is_lost(entry)) tokens.push_back(token);
  }
  return tokens;
}

bool JobBook::has_open() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const auto& pair) {
    const Entry& entry = pair.second;
    return !entry.in_last_queue || phase(entry.queued->state) != JobPhase::Ended;
  });
}

bool JobBook::is_lost(const Entry& entry) const {
  const bool queue = entry.queue_asked >= 0 && !entry.in_last_queue &&
                     entry.queue_answered - entry.queue_asked >= kLostSeconds;
  const bool accounting =
      !accounting_ || (entry.accounting_asked >= 0 &&
                       entry.accounting_answered - entry.accounting_asked >= kLostSeconds);
  return queue && accounting;
}

Finding JobBook::find(const std::string& token) const {
  const auto found = entries_.find(token);
  if (found == entries_.end()) return {false, std::nullopt};
  const Entry& entry = found->second;
  if (const JobRow* job = row(token)) return {true, JobHandle{job->id, token}.text()};
  return {is_lost(entry), std::nullopt};
}

const JobRow* JobBook::row(const std::string& token) const {
  const auto found = entries_.find(token);
  if (found == entries_.end()) return nullptr;
  const Entry& entry = found->second;
  if (entry.in_last_queue) return &*entry.queued;
  if (entry.accounted) return &*entry.accounted;
  return entry.queued ? &*entry.queued : nullptr;
}

ProcessReport JobBook::report(const JobHandle& handle, std::string_view log) const {
  ProcessReport unknown;
  const auto found = entries_.find(handle.token);
  if (found == entries_.end()) return unknown;
  const Entry& entry = found->second;
  if (entry.in_last_queue) {
    switch (phase(entry.queued->state)) {
      case JobPhase::Waiting:
        return waiting_report(*entry.queued, log);
      case JobPhase::Running:
      case JobPhase::Ending:
        return running_report(*entry.queued);
      case JobPhase::Ended:
        return ended_report(*entry.queued, log);
      case JobPhase::Unknown:
        return unknown;
    }
  }
  // Slurm forgets ended jobs after a while, and accounting hears of them late.
  if (entry.accounted && ended_in_accounting(entry.accounted->state)) {
    return ended_report(*entry.accounted, log);
  }
  if (!is_lost(entry)) return unknown;
  ProcessReport gone;
  gone.state = ProcessState::Gone;
  gone.words = "neither squeue nor sacct knows job " + handle.id + " (any more)";
  return gone;
}

}  // namespace regatta::orchestrator
