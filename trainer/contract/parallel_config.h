// The run file's section `parallel`: how many ranks have the same layers, and how many share the
// model's among them; and which rank is which.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace regatta::base {
class Table;
}

namespace regatta::trainer::contract {

struct RunConfig;

// In which order a stage goes forward and back through a step's micro-batches
// (pipeline_schedule.h). OneForwardOneBackward: PipeDream-Flush (Narayanan et al., arXiv
// 2006.09503); GPipe: all forward, then all back (Huang et al., arXiv 1811.06965).
enum class PipelineOrder { OneForwardOneBackward, GPipe };

struct ParallelConfig {
  int data = 0;      // ranks that have the same layers; 0: ranks / pipeline
  int pipeline = 1;  // stages that the layers are cut into; 1: every rank has them all
  PipelineOrder schedule = PipelineOrder::OneForwardOneBackward;
};

// In the run file, in the order of PipelineOrder.
[[nodiscard]] const std::vector<std::string>& pipeline_order_names();

// Which rank has which stage and which part of the data: the stage is the outermost number, so that
// ranks of one stage, which sum gradients, are neighbours. A replica is the ranks that have the
// same samples, one of each stage.
struct RankGrid {
  int data = 1, stages = 1;

  [[nodiscard]] int ranks() const { return data * stages; }
  [[nodiscard]] int stage_of(int rank) const { return rank / data; }
  [[nodiscard]] int replica_of(int rank) const { return rank % data; }
  [[nodiscard]] int rank_of(int stage, int replica) const { return stage * data + replica; }
  // All replicas' ranks of a stage, by replica.
  [[nodiscard]] std::vector<int> ranks_of_stage(int stage) const;
};
[[nodiscard]] RankGrid rank_grid(const RunConfig& config);

// Reads the section and, where it gives both numbers and the file no ranks, the ranks.
void read_parallel(base::Table& root, RunConfig* config);

// The first key that the layout does not go with, and why ("is …; use …"): of a run with stages,
// and of one whose determinism depends on its ranks (determinism.h).
struct ParallelRefusal {
  std::string key;  // "clip.mode"
  std::string message;
};
// Nothing: the layout can be. Pure; the model's layers, the batch and the ranks are known.
[[nodiscard]] std::optional<ParallelRefusal> refuse_parallel(const RunConfig& config);

}  // namespace regatta::trainer::contract
