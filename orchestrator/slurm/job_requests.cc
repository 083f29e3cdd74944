#include "orchestrator/slurm/job_requests.h"

#include <algorithm>

#include "base/error.h"

namespace regatta::orchestrator::slurm {
namespace {

// Whether `request` asks for what `present` does not do already.
bool adds(const JobRequest& request, const std::optional<JobRequest>& present) {
  if (!present) return true;
  if (request.kind == present->kind && request.kind <= JobRequest::Kind::Avoid) {
    return request != *present;
  }
  return request.kind > present->kind;
}

}  // namespace

void JobRequests::add(const JobRequest& request, double now) {
  const auto [found, is_new] = entries_.try_emplace(request.job.token);
  Entry& entry = found->second;
  if (is_new) entry.since = now;
  if (entry.waiting ? !adds(request, entry.waiting) : !adds(request, entry.under_way)) return;
  entry.waiting = request;
  entry.due = now;
  entry.order = next_++;
}

std::optional<JobRequest> JobRequests::take(double now) {
  Entry* best = nullptr;
  for (auto& [token, entry] : entries_) {
    if (!entry.waiting || entry.under_way || entry.due > now) continue;
    if (best != nullptr) {
      const bool stronger = entry.waiting->kind > best->waiting->kind;
      const bool as_strong = entry.waiting->kind == best->waiting->kind;
      if (!stronger && !(as_strong && entry.order < best->order)) continue;
    }
    best = &entry;
  }
  if (best == nullptr) return std::nullopt;
  best->under_way = std::move(best->waiting);
  best->waiting.reset();
  return best->under_way;
}

void JobRequests::finish(const JobRequest& request, std::optional<double> again) {
  const auto found = entries_.find(request.job.token);
  base::check(found != entries_.end() && found->second.under_way, "a request that ends was taken");
  Entry& entry = found->second;
  entry.under_way.reset();
  if (!entry.waiting && again) {
    entry.waiting = request;
    entry.due = *again;
    entry.order = next_++;
  }
  if (!entry.waiting) entries_.erase(found);
}

void JobRequests::hurry(double now) {
  for (auto& [token, entry] : entries_) entry.due = std::min(entry.due, now);
}

std::optional<double> JobRequests::waits_since(const std::string& token) const {
  const auto found = entries_.find(token);
  if (found == entries_.end()) return std::nullopt;
  return found->second.since;
}

void JobRequests::forget(const std::string& token) {
  const auto found = entries_.find(token);
  if (found == entries_.end()) return;
  found->second.waiting.reset();
  if (!found->second.under_way) entries_.erase(found);
}

}  // namespace regatta::orchestrator::slurm
