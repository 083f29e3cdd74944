#include "orchestrator/slurm/job_wishes.h"

#include <algorithm>

#include "base/error.h"

namespace regatta::orchestrator::slurm {
namespace {

// Whether `wish` asks for what `present` does not do already.
bool adds(const JobWish& wish, const std::optional<JobWish>& present) {
  if (!present) return true;
  if (wish.kind == JobWish::Kind::Avoid && present->kind == JobWish::Kind::Avoid) {
    return wish.nodes != present->nodes;
  }
  return wish.kind > present->kind;
}

}  // namespace

void JobWishes::add(const JobWish& wish, double now) {
  const auto [found, is_new] = entries_.try_emplace(wish.job.token);
  Entry& entry = found->second;
  if (is_new) entry.since = now;
  if (entry.waiting ? !adds(wish, entry.waiting) : !adds(wish, entry.under_way)) return;
  entry.waiting = wish;
  entry.due = now;
  entry.order = next_++;
}

std::optional<JobWish> JobWishes::take(double now) {
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

void JobWishes::finish(const JobWish& wish, std::optional<double> again) {
  const auto found = entries_.find(wish.job.token);
  base::check(found != entries_.end() && found->second.under_way, "a wish that ends was taken");
  Entry& entry = found->second;
  entry.under_way.reset();
  if (!entry.waiting && again) {
    entry.waiting = wish;
    entry.due = *again;
    entry.order = next_++;
  }
  if (!entry.waiting) entries_.erase(found);
}

void JobWishes::hurry(double now) {
  for (auto& [token, entry] : entries_) entry.due = std::min(entry.due, now);
}

std::optional<double> JobWishes::waits_since(const std::string& token) const {
  const auto found = entries_.find(token);
  if (found == entries_.end()) return std::nullopt;
  return found->second.since;
}

void JobWishes::forget(const std::string& token) {
  const auto found = entries_.find(token);
  if (found == entries_.end()) return;
  found->second.waiting.reset();
  if (!found->second.under_way) entries_.erase(found);
}

}  // namespace regatta::orchestrator::slurm
