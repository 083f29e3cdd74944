// What a run asks of Slurm: the run file's `slurm` section, as plain data.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/document.h"

namespace regatta::trainer::contract {

// Through the srun options of a container plug-in (Pyxis: --container-image, --container-mounts).
struct SlurmContainer {
  std::string image;                   // empty: none
  std::vector<std::string> mounts;     // "source:target[:flags]"
  std::vector<std::string> arguments;  // further options of srun
};

// Texts that are empty, lists that are empty and numbers that are 0 leave the choice to Slurm.
struct SlurmResources {
  std::string partition, account, qos, reservation;
  int time_limit_minutes = 0;
  // A run whose nodes may differ starts with as many as Slurm gives it.
  int min_nodes = 1;
  int max_nodes = 1;
  int ranks_per_node = 1;
  int gpus_per_rank = 0;
  std::string gpu_type;  // as Slurm calls it ("a100"); counts only where GPUs are asked for
  int cpus_per_rank = 0;
  std::optional<std::int64_t> memory_per_node_mib;  // 0: all of the node's
  std::string constraint;
  std::vector<std::string> exclude;  // node names or hostlists
  std::string switches;              // "count" or "count@longest wait"
  std::string comment;               // of the job, before the token that Regatta puts there
  bool requeue = true;               // false: Slurm must not start the job a second time
  SlurmContainer container;
  std::vector<std::string> options;                // of sbatch, each "--name" or "--name=value"
  std::string setup;                               // shell text, run before the trainer
  std::map<std::string, std::string> environment;  // of the ranks
  bool defaults = true;                            // of site and user: fill in what is empty here
};

// What a run of `ranks` needs that says nothing about Slurm: one node, or as many as
// `ranks_per_node` (0: not given) asks for.
[[nodiscard]] SlurmResources default_slurm_resources(int ranks, int ranks_per_node);

// The section `slurm` of a run file; nothing when there is none. `nodes` and `ranks_per_node` give
// defaults to each other, and the largest number of nodes times ranks per node must be `ranks`.
[[nodiscard]] std::optional<SlurmResources> read_slurm_resources(base::Table& root, int ranks,
                                                                 int ranks_per_node);

// The section `slurm` of a file of defaults: the same keys but for requeue, defaults and those that
// only a run has (nodes, ranks_per_node, gpus_per_rank). Options that have a key are refused:
// sbatch would take them for more than a run's own key.
[[nodiscard]] SlurmResources read_slurm_defaults(base::Table& root);

// `run` with what is empty in it as `defaults` has it. Options of sbatch are added one by one where
// the run gives none of that name or of a beginning of it, and so are variables of the environment
// and keys of the container. keys: what was taken, such as "partition", "options.licenses" and
// "environment.HTTP_PROXY".
[[nodiscard]] SlurmResources with_slurm_defaults(SlurmResources run, const SlurmResources& defaults,
                                                 std::vector<std::string>* keys);

// As read_slurm_resources reads it: every key, in a fixed order.
[[nodiscard]] nlohmann::ordered_json slurm_resources_json(const SlurmResources& resources);

}  // namespace regatta::trainer::contract
