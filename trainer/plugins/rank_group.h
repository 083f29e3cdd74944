// The ranks of a run: how this process joins them, and what they sum gradients with.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trainer/contract/run_config.h"
#include "trainer/nccl/nccl_options.h"
#include "trainer/plugins/plugin_loader.h"
#include "trainer/plugins/tuner_agreement.h"
#include "trainer/ranks/communicator.h"
#include "trainer/ranks/rendezvous.h"

namespace regatta::trainer::plugins {

class RankGroup {
 public:
  // `place`: as rank_place() finds; nothing: alone. Ranks that Slurm started without MPI meet by a
  // file in `run`, the run's directory. Throws Code::User when there are not as many ranks as the
  // run file says. Collective.
  RankGroup(base::FileSystem& files, const base::Path& run, const contract::RunConfig& config,
            const std::optional<ranks::RankPlace>& place, const PluginPlace& plugins,
            const ranks::Variables& variables);

  [[nodiscard]] int rank() const { return host().rank(); }
  [[nodiscard]] int ranks() const { return host().ranks(); }
  [[nodiscard]] int local_rank() const { return local_rank_; }
  // As the run file says, or as found.
  [[nodiscard]] int ranks_per_node() const { return ranks_per_node_; }
  // For setup, before there is a device.
  [[nodiscard]] ranks::HostCollectives& host() const { return *host_; }
  // What gradients on `device` are summed with: MPI on CPUs, NCCL on GPUs. Called once; the device
  // outlives the group.
  [[nodiscard]] ranks::Communicator& communicator(device::Device& device, bool is_cuda);
  // Why the plan's NCCL choices are not in force; empty where they are, or where the run has no
  // plan.
  [[nodiscard]] const std::string& tuner_warning() const { return tuner_warning_; }

  // On the way out of a failure: does not wait for the other ranks.
  void abandon() noexcept;

 private:
  // Host values beside NCCL's collectives, with those of groups.
  [[nodiscard]] nccl::NcclHost host_over(ranks::Communicator& mpi);
  [[nodiscard]] nccl::NcclHost host_over(ranks::TcpHost& tcp);
  void give_tuner(ranks::HostCollectives& host, int nccl_version);

  base::FileSystem& files_;
  base::Path run_;
  contract::RunConfig config_;
  PluginPlace plugins_;
  ranks::Variables variables_;
  TunerOffer tuner_;
  std::string tuner_warning_;
  int local_rank_ = 0;
  int ranks_per_node_ = 1;
  std::unique_ptr<ranks::TcpHost> tcp_;         // of ranks without MPI
  std::unique_ptr<ranks::Communicator> first_;  // alone, or over MPI
  // Of NCCL's groups.
  std::vector<std::unique_ptr<ranks::TcpHost>> tcp_groups_;
  std::vector<std::unique_ptr<ranks::Communicator>> first_groups_;
  std::unique_ptr<ranks::Communicator> nccl_;
  ranks::HostCollectives* host_ = nullptr;  // of one of the above
};

}  // namespace regatta::trainer::plugins
