// Which nodes are better left out of the next attempt: pure, with time as a parameter. Every
// failure that can be laid on a node counts for a while, good work counts against it, and all of it
// fades.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::orchestrator::slurm {

enum class Blame {
  NodeFailed,    // Slurm lost the node
  LaunchFailed,  // the job's steps could not be started on it
  Prolog,        // its prolog failed
  Hung,          // a rank on it stood still
  Corrupted,     // a rank on it computed wrong gradients, or has wrong weights
  Slow,          // its newest bench is slower than others', or than its own earlier ones
  Shared,        // an attempt ended early and nobody named a node: each of its nodes has a share
  Worked,        // no blame: an attempt of at least kWorkedSeconds ended well on it
};
inline constexpr double kWorkedSeconds = 600;
// A node that is named within this time after an early end takes all the blame for it.
inline constexpr double kNamedSeconds = 600;

// Of a slow node, whose newest bench alone counts: below the threshold, so that nothing but a
// failure beside it has a node avoided.
inline constexpr double kSlowWeight = 0.5;

// "node failed", "launch failed", "prolog", "hung", "corrupted", "slow", "shared", "worked": as the
// store keeps them.
[[nodiscard]] std::string_view to_string(Blame blame);
[[nodiscard]] std::optional<Blame> parse_blame(std::string_view text);

struct NodeEvent {
  std::string node;
  double utc = 0;  // seconds since 1970
  Blame blame = Blame::NodeFailed;
  std::string run;    // its id
  std::string words;  // of the scheduler; for people, may be empty
  // 0 to 1; below 1 only for Shared, 1/n of an attempt on n nodes, and for Slow: kSlowWeight, or 0
  // once a newer bench is as fast as others. Not used for Worked.
  double weight = 1;
};

struct SuspicionPolicy {
  double half_life_seconds = 7200;
  double threshold = 0.9;        // a score from which a node is avoided
  double worked_credit = 0.5;    // that Worked takes away; no score falls below 0
  double same_seconds = 60;      // events of one node and run this close together are one
  std::size_t most_unknown = 4;  // avoided where nobody knows which nodes there are
};

// Older than 10 half-lives: what is left of it is less than a thousandth.
[[nodiscard]] bool is_forgotten(const NodeEvent& event, double now_utc,
                                const SuspicionPolicy& policy);

// Of the events of one node, in any order. Events of the future count as of now. Good work takes
// away what was there before it and earns nothing for later, so the first failure of a node that
// has worked for days weighs as much as any.
[[nodiscard]] double score(const std::vector<NodeEvent>& events, double now_utc,
                           const SuspicionPolicy& policy);

struct Avoided {
  std::string node;
  double score = 0;
  // "2 failures in the last 2 h, the last: node failed under demo-4f2a91 12 min ago"
  std::string why;
};

// Every node of the events with a score above 0, the most suspicious first, then by name.
[[nodiscard]] std::vector<Avoided> suspicions(const std::vector<NodeEvent>& events, double now_utc,
                                              const SuspicionPolicy& policy);

// Those of suspicions() that reach the threshold, as far as at least `needed` of the usable nodes
// are left. Where even all usable ones are too few, none: an exclusion could then keep the run
// from ever starting. Empty `usable`: not known, so at most policy.most_unknown. A suspect that is
// not among the usable ones costs nothing and is avoided too, since it may come back before the
// job starts. Names that the cluster does not have any more are the caller's to leave out of
// `events`: sbatch refuses them.
[[nodiscard]] std::vector<Avoided> nodes_to_avoid(const std::vector<NodeEvent>& events,
                                                  double now_utc, const SuspicionPolicy& policy,
                                                  const std::vector<std::string>& usable,
                                                  std::size_t needed);

}  // namespace regatta::orchestrator::slurm
