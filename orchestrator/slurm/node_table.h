// What is known of the machines that runs use: the scheduler fills it, the API and whoever places
// runs read it. Nobody who reads waits for Slurm.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/slurm/reservations.h"
#include "orchestrator/slurm/slurm_text.h"
#include "trainer/contract/slurm_resources.h"

namespace regatta::orchestrator::slurm {

struct NodeSnapshot {
  std::optional<double> taken_utc;          // when Slurm was asked; absent: never yet
  std::vector<NodeRow> rows;                // by name
  std::map<std::string, std::string> jobs;  // nodes (a hostlist) by the token of what runs on them
  std::vector<Reservation> reservations;    // by start
  std::string trouble;                      // why the newest answer is missing or has gaps
};

// Thread-safe.
class NodeTable {
 public:
  // A whole answer. damaged: nodes that could not be read.
  void fill(Nodes nodes, double asked_utc);
  // There was no answer; what was known stays.
  void fail(const std::string& message);
  void set_reservations(std::vector<Reservation> reservations);
  void set_jobs(std::map<std::string, std::string> jobs);
  [[nodiscard]] NodeSnapshot snapshot() const;

  // Somebody looks at nodes: for the next kWantedSeconds they are collected also while no run is
  // open. Monotonic seconds.
  static constexpr double kWantedSeconds = 300;
  void want(double now);
  [[nodiscard]] bool is_wanted(double now) const;
  // Whether somebody has looked since this was last asked.
  [[nodiscard]] bool take_look();

 private:
  mutable std::mutex mutex_;
  NodeSnapshot known_;
  std::optional<double> wanted_;
  bool looked_ = false;
};

// Names of the nodes that may be given a run that asks for this: up, not drained, in its partition,
// with its feature, not excluded by itself. Nothing where that is unknown: a constraint of
// several features.
[[nodiscard]] std::optional<std::vector<std::string>> usable_nodes(
    const NodeSnapshot& nodes, const trainer::contract::SlurmResources& wanted);

// Names of the nodes that Slurm shows as down or not responding.
[[nodiscard]] std::vector<std::string> dead_nodes(const NodeSnapshot& nodes);

// What in the request no node of its partition has, or which of its own constraints leaves too few,
// for people; empty where nothing stands out. Of the default partition all nodes count.
[[nodiscard]] std::string why_no_node(const NodeSnapshot& nodes,
                                      const trainer::contract::SlurmResources& wanted);

// This machine as a node, for runs without Slurm. proc: /proc, or a test's copy.
[[nodiscard]] NodeRow this_machine(const base::Path& proc = "/proc");

}  // namespace regatta::orchestrator::slurm
