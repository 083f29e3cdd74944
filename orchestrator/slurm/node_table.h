// What is known of the machines that runs use: the scheduler fills it, the API and whoever places
// runs read it. Nobody who reads waits for Slurm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/slurm/reservations.h"
#include "orchestrator/slurm/slurm_text.h"
#include "trainer/contract/slurm_resources.h"

namespace regatta::orchestrator::slurm {

// Rows that do not change, shared by all who read them: a copy costs nothing.
class NodeRows {
 public:
  NodeRows() : NodeRows(std::vector<NodeRow>()) {}
  NodeRows(std::vector<NodeRow> rows)
      : rows_(std::make_shared<const std::vector<NodeRow>>(std::move(rows))) {}
  NodeRows(std::initializer_list<NodeRow> rows) : NodeRows(std::vector<NodeRow>(rows)) {}

  [[nodiscard]] auto begin() const { return rows_->begin(); }
  [[nodiscard]] auto end() const { return rows_->end(); }
  [[nodiscard]] std::size_t size() const { return rows_->size(); }
  [[nodiscard]] bool empty() const { return rows_->empty(); }
  [[nodiscard]] const NodeRow& operator[](std::size_t i) const { return (*rows_)[i]; }

 private:
  std::shared_ptr<const std::vector<NodeRow>> rows_;
};

struct NodeSnapshot {
  std::optional<double> taken_utc;          // when Slurm was asked; absent: never yet
  NodeRows rows;                            // by name
  std::uint64_t answer = 0;                 // grows with every answer; 0: none so far
  bool whole = false;                       // it has every node that Slurm has
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
  // The same without haste, and for so many seconds more: somebody waits for what happens to them.
  void follow(double now, double seconds);
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
