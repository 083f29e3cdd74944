#include "orchestrator/slurm/job_book.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "orchestrator/slurm/job_end.h"
#include "trainer/contract/exit_code.h"

namespace regatta::orchestrator::slurm {
namespace {

// A token that neither squeue nor sacct finds this long after Slurm began to answer was never
// submitted, or its job is lost. Accounting lags behind by seconds.
constexpr double kLostSeconds = 60;
constexpr std::size_t kTokenDigits = 16;
constexpr std::string_view kMark = "regatta:";     // before the token in a comment
constexpr std::string_view kOldName = "regatta-";  // and in the names of earlier versions

// The newer of two executions.
bool is_newer(const JobRow& a, const JobRow& b) {
  return a.start.value_or(a.submit.value_or(0)) >= b.start.value_or(b.submit.value_or(0));
}

bool is_in_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '_';
}

// The token of the first word "regatta:TOKEN", whatever stands around it.
std::optional<std::string> marked_token(std::string_view text) {
  for (std::size_t at = 0; (at = text.find(kMark, at)) != std::string_view::npos; ++at) {
    const std::string_view token = text.substr(at + kMark.size(), kTokenDigits);
    const std::size_t end = at + kMark.size() + kTokenDigits;
    const bool is_word =
        (at == 0 || !is_in_word(text[at - 1])) && (end >= text.size() || !is_in_word(text[end]));
    if (is_word && is_token(token)) return std::string(token);
  }
  return std::nullopt;
}

// The token of "<run directory>/submit/<token>.sh".
std::optional<std::string> script_token(std::string_view path) {
  constexpr std::string_view kFolder = "/submit/";
  constexpr std::string_view kSuffix = ".sh";
  constexpr std::size_t kLength = kFolder.size() + kTokenDigits + kSuffix.size();
  if (path.size() < kLength) return std::nullopt;
  path.remove_prefix(path.size() - kLength);
  const std::string_view token = path.substr(kFolder.size(), kTokenDigits);
  if (path.substr(0, kFolder.size()) != kFolder || !is_token(token) ||
      path.substr(kLength - kSuffix.size()) != kSuffix) {
    return std::nullopt;
  }
  return std::string(token);
}

}  // namespace

bool is_token(std::string_view text) {
  return text.size() == kTokenDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<std::string> token_of(const JobRow& job) {
  const std::string nothing;
  if (auto token = marked_token(job.comment.value_or(nothing))) return token;
  if (auto token = script_token(job.command.value_or(nothing))) return token;
  if (auto token = marked_token(job.submit_line.value_or(nothing))) return token;
  if (!job.name || job.name->rfind(kOldName, 0) != 0) return std::nullopt;
  std::string token = job.name->substr(kOldName.size());
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

void JobBook::expect(const std::string& token, const std::string& id, double now) {
  const auto [entry, is_new] = entries_.try_emplace(token);
  if (is_new) entry->second.since = now;
  if (entry->second.id.empty()) entry->second.id = id;
}

void JobBook::forget(const std::string& token) { entries_.erase(token); }

void JobBook::take_queue(const Jobs& jobs, double asked) {
  for (auto& [token, entry] : entries_) {
    if (!jobs.whole || asked < entry.since) continue;
    entry.in_last_queue = false;
    if (entry.queue_asked < 0) entry.queue_asked = asked;
    entry.queue_answered = asked;
  }
  const TokensById ids = tokens_by_id();
  std::set<Entry*> seen;  // a token's other rows are of earlier executions
  for (const JobRow& job : jobs.rows) {
    Entry* const entry = owner_of(job, ids);
    if (entry == nullptr) continue;
    if (!seen.insert(entry).second && !is_newer(job, *entry->queued)) continue;
    entry->queued = job;
    entry->in_last_queue = true;
    entry->id = job.id;
  }
}

void JobBook::take_accounting(const Jobs& jobs, const std::vector<std::string>& tokens,
                              double asked, Asked what) {
  const TokensById ids = tokens_by_id();
  for (const JobRow& job : jobs.rows) {
    Entry* const entry = owner_of(job, ids);
    if (entry == nullptr) continue;
    if (entry->accounted && !is_newer(job, *entry->accounted)) continue;
    entry->accounted = job;
    entry->id = job.id;
  }
  for (const std::string& token : tokens) {
    const auto found = entries_.find(token);
    if (!jobs.whole || found == entries_.end() || asked < found->second.since) continue;
    Entry& entry = found->second;
    if (entry.accounting_asked < 0) entry.accounting_asked = asked;
    entry.accounting_answered = asked;
    if (what == Asked::ForAllJobs) entry.newest = entry.id;
  }
}

JobBook::TokensById JobBook::tokens_by_id() const {
  TokensById tokens;
  for (const auto& [token, entry] : entries_) {
    if (entry.queued) tokens[entry.queued->id] = token;
  }
  return tokens;
}

// A row that names no token is of the job that was seen under its id, if that was submitted then:
// somebody has changed its comment.
JobBook::Entry* JobBook::owner_of(const JobRow& job, const TokensById& seen) {
  const auto token = token_of(job);
  const auto by_id = seen.find(job.id);
  if (!token && by_id == seen.end()) return nullptr;
  const auto found = entries_.find(token ? *token : by_id->second);
  if (found == entries_.end()) return nullptr;
  Entry& entry = found->second;
  if (token) return &entry;
  const bool same = job.submit && entry.queued->submit == job.submit;
  return same && entry.queued->user == job.user ? &entry : nullptr;
}

std::vector<std::string> JobBook::tokens() const {
  std::vector<std::string> tokens;
  for (const auto& [token, entry] : entries_) tokens.push_back(token);
  return tokens;
}

std::vector<std::string> JobBook::wanted() const {
  std::vector<std::string> tokens;
  if (!accounting_) return tokens;
  for (const auto& [token, entry] : entries_) {
    const bool gone = entry.queue_answered >= 0 && !entry.in_last_queue;
    if (gone && !has_ended(entry) && !is_lost(entry)) tokens.push_back(token);
  }
  return tokens;
}

std::string JobBook::id_to_ask(const std::string& token) const {
  const auto found = entries_.find(token);
  if (found == entries_.end()) return "";
  const Entry& entry = found->second;
  const bool has_end = entry.accounted && ended_in_accounting(entry.accounted->state);
  return has_end ? "" : entry.id;
}

// According to accounting. A job whose time was over may have submitted its successor under the
// same token, and nobody but accounting knows of that one either. An execution that was requeued is
// never the last one.
bool JobBook::has_ended(const Entry& entry) {
  if (!entry.accounted || !ended_in_accounting(entry.accounted->state)) return false;
  if (entry.accounted->state.has(JobFlag::Requeued)) return false;
  const auto& exit = entry.accounted->exit;
  const bool continues =
      exit && exit->code == static_cast<int>(trainer::contract::ExitCode::Continue);
  return !continues || entry.newest == entry.accounted->id;
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

runs::SchedulerFinding JobBook::find(const std::string& token) const {
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

runs::ProcessReport JobBook::report(const JobHandle& handle, std::string_view log) const {
  runs::ProcessReport unknown;
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
  // Slurm forgets ended jobs after a while, and accounting hears of them late. Before the queue was
  // asked for this one, what accounting has may be of an earlier execution.
  if (entry.queue_answered < 0) return unknown;
  if (has_ended(entry)) return ended_report(*entry.accounted, log);
  if (!is_lost(entry)) return unknown;
  runs::ProcessReport gone;
  gone.state = runs::ProcessState::Gone;
  gone.words = "neither squeue nor sacct knows job " + handle.id + " (any more)";
  gone.tells_cancels = true;  // a job that was cancelled is known to them as long as any other
  return gone;
}

}  // namespace regatta::orchestrator::slurm
