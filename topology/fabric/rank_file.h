// Which rank runs where, as Open MPI and Slurm take it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace regatta::topology::fabric {

// Where a rank runs; rank r is the r-th of a list.
struct RankPlace {
  std::string node;
  int gpu = 0;       // number in the node
  std::string cpus;  // "0-15,32-47" of the node to bind it to; empty: not bound
};

// Open MPI's rankfile (mpirun --rankfile FILE, from 5.0 --map-by rankfile:file=FILE): "rank
// 0=node01 slot=0-15". A rankfile always binds: without CPUs each rank gets one core, by its number
// within its node. All three throw Code::User for no rank, for what is no node's name, for CPUs
// that are no list, and for a GPU below 0.
[[nodiscard]] std::string write_open_mpi_ranks(const std::vector<RankPlace>& places);

// Slurm's host file, for SLURM_HOSTFILE=… srun --distribution=arbitrary: a line for each rank.
[[nodiscard]] std::string write_slurm_ranks(const std::vector<RankPlace>& places);

// What makes srun give the ranks their GPUs: "map_gpu:3,0,1,2" (--gpu-bind), in the order of the
// ranks within a node. Nothing when nodes differ in that order, since srun has one list for all.
[[nodiscard]] std::optional<std::string> slurm_gpu_map(const std::vector<RankPlace>& places);

}  // namespace regatta::topology::fabric
