// The plan of a run: what the planner decided and the trainer obeys. Without a planner the trainer
// runs with default_plan().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "topology/plan/bucket.h"
#include "topology/plan/step_timeline.h"
#include "topology/plan/tuner_table.h"

namespace regatta::topology::plan {

// Where the run is to be placed and how its libraries are set; empty and 0: as the run file says.
struct Placement {
  std::map<std::string, std::string> environment;  // of the ranks: NCCL_… and CUDA_… only
  std::string switches;              // leaf switches at most: "count" or "count@longest wait"
  int segment = 0;                   // nodes of a block that stay together
  std::vector<std::string> exclude;  // nodes or hostlists that must not be used
};

// A way to cut the gradient that the planner looked at, the chosen one among them.
struct Alternative {
  std::string name;
  int buckets = 0;
  double step_seconds = 0;       // predicted
  double mean_step_seconds = 0;  // predicted, over ready times that vary
};

// Where a rank belongs.
struct Seat {
  std::string node;
  int gpu = 0;      // its number on the node
  std::string nic;  // the nearest one, as it is named there; empty: not known
};

// A setting of the run file that the planner looked at. The run file's holds; where they differ,
// the planner would gain.
struct PlanDecision {
  struct Option {
    std::string value;
    double step_seconds = 0;  // predicted
  };
  std::string key;       // "sharding.optimizer"
  std::string choice;    // the planner's
  std::string run_file;  // what the run file has
  std::string why;       // one sentence
  std::vector<Option> options{};
};

struct Plan {
  int ranks = 1;
  std::string topology{};       // fingerprint of the nodes that it was made for; empty: not known
  std::vector<Bucket> buckets;  // in the order of reduction, covering the tensor table
  std::string cut{};            // name of the chosen alternative; empty: it is none of them
  std::string why;              // one sentence
  bool measured = false;        // else modelled
  Placement placement{};
  std::vector<Seat> seats{};  // of rank 0, 1, …; none: as Slurm gives them
  std::vector<PlanDecision> decisions{};
  TunerTable tuner{};                       // what NCCL is made to use; no ranges: nothing
  std::vector<Alternative> alternatives{};  // none without a planner
  std::optional<StepTimeline> timeline{};   // predicted; a span for each bucket
};

inline constexpr std::uint64_t kMostPlanBytes = std::uint64_t{64} << 20;  // of plan.json

// One bucket over `tensor_count` tensors: right for one rank, where nothing is reduced.
[[nodiscard]] Plan default_plan(int tensor_count);

// plan.json in and out. parse throws Code::User naming `source` and what is wrong: buckets must
// cover [0, tensor_count) without gap or overlap; where the count is not known, they end anywhere.
[[nodiscard]] std::string to_json(const Plan& plan);
[[nodiscard]] Plan parse_plan(const std::string& text, const std::string& source,
                              std::optional<int> tensor_count);

}  // namespace regatta::topology::plan
