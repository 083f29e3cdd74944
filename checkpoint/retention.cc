#include "checkpoint/retention.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "checkpoint/found_damage.h"
#include "checkpoint/pins.h"
#include "checkpoint/tombstones.h"

namespace regatta::checkpoint {
namespace {

constexpr const char* kRemoving = "removing-";  // + the checkpoint's name, "-" and random digits
constexpr int kRemovingBytes = 8;
constexpr int kRemovalTries = 10;
constexpr int kRoundBytes = 4;  // random, of a round's tombstones

Age age(const Candidate& candidate) {
  return age_of(candidate.name, candidate.step, candidate.execution, candidate.rollbacks,
                candidate.epoch);
}
bool newer(const Candidate& a, const Candidate& b) { return age(a) > age(b); }

bool counts(const Candidate& candidate) {
  return candidate.status == Status::Valid && !candidate.removed && !candidate.pinned;
}

bool is_better(double a, double b, Better better) {
  return better == Better::Highest ? a > b : a < b;
}

// The candidates that count and have a metric, best first, the newer among equals first.
std::vector<const Candidate*> by_metric(const std::vector<Candidate>& newest_first, Better better) {
  std::vector<const Candidate*> ranked;
  for (const Candidate& candidate : newest_first) {
    if (counts(candidate) && candidate.metric && !std::isnan(*candidate.metric)) {
      ranked.push_back(&candidate);
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(), [&](const Candidate* a, const Candidate* b) {
    return is_better(*a->metric, *b->metric, better);
  });
  return ranked;
}

// Whether the run has gone back beyond it since: nothing goes on from there.
bool is_abandoned(const Candidate& candidate, const Candidate* newest) {
  return newest != nullptr && candidate.status == Status::Valid &&
         !came_through(candidate.step, candidate.rollbacks, newest->rollbacks);
}

// Why a checkpoint that counts stays, by the three rules of the policy.
using Reasons = std::map<const Candidate*, std::vector<std::string>>;
Reasons reasons_of_policy(const std::vector<Candidate>& newest_first, const Candidate* newest,
                          const RetentionPolicy& policy) {
  Reasons reasons;
  const int latest = std::max(policy.keep_last, 1);
  int place = 0;
  for (const bool abandoned : {false, true}) {  // those only where room is left
    for (const Candidate& candidate : newest_first) {
      if (!counts(candidate) || is_abandoned(candidate, newest) != abandoned) continue;
      if (++place > latest) break;
      reasons[&candidate].push_back("latest " + std::to_string(place) + " of " +
                                    std::to_string(latest));
    }
  }
  const std::string metric = policy.metric.empty() ? "metric" : policy.metric;
  place = 0;
  for (const Candidate* const candidate : by_metric(newest_first, policy.better)) {
    if (++place > policy.keep_best) break;
    reasons[candidate].push_back(
        (policy.keep_best == 1
             ? "best "
             : "best " + std::to_string(place) + " of " + std::to_string(policy.keep_best) + ", ") +
        metric + " " + base::short_number(*candidate->metric));
  }
  for (const Candidate& candidate : newest_first) {
    if (policy.keep_every > 0 && counts(candidate) && candidate.step > 0 &&
        candidate.step % policy.keep_every == 0) {
      reasons[&candidate].push_back("every " + std::to_string(policy.keep_every));
    }
  }
  return reasons;
}

std::string beyond(const RetentionPolicy& policy) {
  std::string text = "not among the latest " + std::to_string(std::max(policy.keep_last, 1));
  if (policy.keep_best > 0) text += ", nor the best " + std::to_string(policy.keep_best);
  if (policy.keep_every > 0) text += ", nor at every " + std::to_string(policy.keep_every);
  return text;
}

// The checkpoint that a run would resume from: a removal that began is finished only if there is
// another one.
const Candidate* newest_good(const std::vector<Candidate>& newest_first) {
  const Candidate* last = nullptr;
  for (const Candidate& candidate : newest_first) {
    if (candidate.status != Status::Valid) continue;
    if (!candidate.removed) return &candidate;
    if (last == nullptr) last = &candidate;
  }
  return last;
}

// Sets whether a candidate that is not valid goes, and why.
void decide_broken(const Candidate& candidate, const Candidate* good, const std::string& execution,
                   RetentionDecision* decision) {
  const std::string what = candidate.status == Status::Damaged ? "damaged" : "unfinished";
  if (candidate.status == Status::Unreadable) {
    decision->reasons = {"cannot be read now; it may be good again"};
  } else if (candidate.removed) {
    decision->goes = true;
    decision->reasons = {"its removal was cut short"};
  } else if (good == nullptr) {
    decision->reasons = {what + ", but there is no good one"};
  } else if (newer(candidate, *good)) {
    decision->reasons = {what + ", but no older than the newest good one"};
  } else if (candidate.status == Status::Unfinished && !execution.empty() &&
             candidate.execution.rfind(execution, 0) == 0) {  // a damaged one has its manifest
    decision->reasons = {what + ", but of the newest attempt, which may be writing it"};
  } else {
    decision->goes = true;
    decision->reasons = {what + ", and older than the newest good one"};
  }
}

struct Protection {
  std::map<std::string, Pin> pins;
  std::set<std::string> marks;
};
Protection read_protection(base::FileSystem& files, const base::Path& path, double utc_seconds) {
  return {read_pins(files, path), read_marks(files, path, utc_seconds)};
}

// The checkpoint whose removal left this name behind.
std::optional<std::string> being_removed(const std::string& file) {
  const std::string prefix = kRemoving;
  const std::size_t end = file.rfind('-');
  if (file.rfind(prefix, 0) != 0 || end <= prefix.size()) return std::nullopt;
  const std::string name = file.substr(prefix.size(), end - prefix.size());
  if (!parse_checkpoint_name(name)) return std::nullopt;
  return name;
}

// Reads every byte, and tells those who will list it.
bool is_found_damaged(base::FileSystem& files, const CheckpointStore& store,
                      const std::string& name, double utc_seconds) {
  const auto damage = store.verify(name);
  if (!damage) return false;
  try {
    note_found_damage(files, store.directory(), name, damage, utc_seconds);
  } catch (const base::Error&) {  // where nothing can be written it counts here alone
  }
  return true;
}

std::vector<Candidate> read_candidates(base::FileSystem& files, const CheckpointStore& store,
                                       const RetentionPolicy& policy, const RetentionRound& round) {
  const Protection kept = read_protection(files, store.directory(), round.utc_seconds);
  const auto tombstones = read_tombstones(files, store.directory());
  std::vector<Candidate> candidates;
  const auto noted = read_found_damage(files, store.directory());
  bool found_good =
      round.mode != RetentionRound::Mode::Check && round.mode != RetentionRound::Mode::Preview;
  for (const Entry& entry : store.list()) {  // newest first
    Candidate candidate;
    candidate.name = entry.name;
    candidate.step = entry.step;
    candidate.status = entry.status;
    candidate.execution = entry.execution;
    candidate.pinned = kept.pins.count(entry.name) != 0;
    candidate.being_read = kept.marks.count(entry.name) != 0;
    candidate.removed = tombstones.count(entry.name) != 0;
    if (entry.manifest) {
      candidate.epoch = entry.manifest->epoch;
      candidate.rollbacks = entry.manifest->rollbacks;
    }
    if (candidate.status == Status::Valid &&
        (round.damaged.count(entry.name) != 0 || noted.count(entry.name) != 0)) {
      candidate.status = Status::Damaged;
    }
    if (entry.manifest && (policy.metric.empty() || entry.manifest->metric == policy.metric)) {
      candidate.metric = entry.manifest->value;
    }
    if (!found_good && candidate.status == Status::Valid && !candidate.removed) {
      if (is_found_damaged(files, store, entry.name, round.utc_seconds)) {
        candidate.status = Status::Damaged;
      } else {
        found_good = true;
      }
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

// Another round may be removing the same tree; what is left after some tries goes the next time.
void remove_left(base::FileSystem& files, const base::Path& path) {
  for (int i = 0; i < kRemovalTries; ++i) {
    try {
      files.remove_tree(path);
      return;
    } catch (const base::Error& error) {
      if (error.code() != base::Code::NotFound) throw;
    }
  }
}

// Under the new name nobody else knows it, so nothing can be put in its place between the look at
// it and its removal; a link is renamed and removed itself, not what it leads to.
void remove_checkpoint(base::FileSystem& files, const base::Path& checkpoints,
                       const std::string& name) {
  refuse_links(checkpoints, "");
  if (!files.exists(checkpoints / name)) return;  // somebody else was faster
  const base::Path away = checkpoints / (kRemoving + name + "-" + base::random_hex(kRemovingBytes));
  try {
    files.rename(checkpoints / name, away);
  } catch (const base::Error& error) {
    if (error.code() == base::Code::NotFound) return;
    throw;
  }
  files.sync_directory(checkpoints);
  remove_left(files, away);
}

}  // namespace

std::vector<RetentionDecision> plan_retention(const std::vector<Candidate>& candidates,
                                              const RetentionPolicy& policy,
                                              const std::string& execution) {
  std::vector<Candidate> sorted = candidates;
  std::sort(sorted.begin(), sorted.end(), newer);
  const Candidate* const good = newest_good(sorted);
  const Reasons of_policy = reasons_of_policy(sorted, good, policy);
  std::vector<RetentionDecision> decisions;
  for (const Candidate& candidate : sorted) {
    RetentionDecision decision{candidate.name, candidate.step, false, {}};
    if (candidate.pinned) decision.reasons.push_back("pinned");
    if (candidate.being_read) decision.reasons.push_back("being read");
    const auto found = of_policy.find(&candidate);
    if (found != of_policy.end()) {
      decision.reasons.insert(decision.reasons.end(), found->second.begin(), found->second.end());
    }
    if (decision.reasons.empty()) {
      if (candidate.status != Status::Valid) {
        decide_broken(candidate, good, execution, &decision);
      } else if (&candidate == good) {
        decision.reasons = {"the last good one"};
      } else {
        decision.goes = true;
        decision.reasons = {candidate.removed               ? "its removal was cut short"
                            : is_abandoned(candidate, good) ? "the run has gone back beyond it"
                                                            : beyond(policy)};
      }
    }
    decisions.push_back(std::move(decision));
  }
  return decisions;
}

RetentionOutcome apply_retention(base::FileSystem& files, CheckpointStore& store,
                                 const RetentionPolicy& policy, const RetentionRound& round) {
  const base::Path& checkpoints = store.directory();
  refuse_links(checkpoints, "");
  RetentionOutcome outcome;
  outcome.decisions =
      plan_retention(read_candidates(files, store, policy, round), policy, round.execution);
  if (round.mode == RetentionRound::Mode::Plan || round.mode == RetentionRound::Mode::Preview) {
    return outcome;
  }

  const std::string id = base::random_hex(kRoundBytes);
  const auto before = read_tombstones(files, checkpoints);
  std::vector<Tombstone> tombstones;
  std::vector<std::string> going;  // oldest first
  for (auto it = outcome.decisions.rbegin(); it != outcome.decisions.rend(); ++it) {
    if (!it->goes) continue;
    going.push_back(it->name);
    if (before.count(it->name) != 0) continue;
    tombstones.push_back({it->name, it->step, round.utc_seconds, it->reasons.front(), false, id});
  }
  add_tombstones(files, checkpoints, tombstones);
  for (const std::string& name : going) {
    const Protection kept = read_protection(files, checkpoints, round.utc_seconds);
    if (kept.pins.count(name) != 0 || kept.marks.count(name) != 0) {
      const std::int64_t step = parse_checkpoint_name(name)->step;
      add_tombstones(files, checkpoints,
                     {{name, step, round.utc_seconds, "pinned or read meanwhile", true, id}});
      for (RetentionDecision& decision : outcome.decisions) {
        if (decision.name == name) decision = {name, step, false, {"pinned or read meanwhile"}};
      }
      continue;
    }
    remove_checkpoint(files, checkpoints, name);
    outcome.removed.push_back(name);
  }
  for (const std::string& file : files.list(checkpoints)) {  // of removals that were cut short
    if (being_removed(file)) remove_left(files, checkpoints / file);
  }
  remove_ended_marks(files, checkpoints, round.utc_seconds);
  return outcome;
}

}  // namespace regatta::checkpoint
