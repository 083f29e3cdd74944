#include "trainer/plugins/rank_group.h"

#include "base/error.h"
#include "base/log.h"
#include "trainer/plugins/cuda_plugin.h"
#include "trainer/plugins/mpi_plugin.h"
#include "trainer/ranks/node_layout.h"
#include "trainer/ranks/rank_agreement.h"

namespace regatta::trainer::plugins {
namespace {

// For all ranks to come to rank 0.
constexpr double kMeetSeconds = 120;

// What only the processes of one job step share, and no later one has again.
std::string step_of(const ranks::Variables& variables) {
  std::string name = "slurm";
  for (const char* part : {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}) {
    const char* value = variables(part);
    name += std::string("-") + (value == nullptr ? "0" : value);
  }
  return name;
}

}  // namespace

RankGroup::RankGroup(base::FileSystem& files, const base::Path& run,
                     const contract::RunConfig& config,
                     const std::optional<ranks::RankPlace>& place, const PluginPlace& plugins,
                     const ranks::Variables& variables)
    : files_(files), run_(run), config_(config), plugins_(plugins), variables_(variables) {
  const int found = place ? place->ranks : 1;
  if (found != config.ranks) {
    throw base::Error(base::Code::User,
                      "ranks is " + std::to_string(config.ranks) + ", but " +
                          (place ? place->source + " started " + std::to_string(found)
                                 : "one process was started") +
                          "; start as many, or change ranks");
  }
  if (found == 1) {
    first_ = std::make_unique<ranks::SingleCommunicator>();
    host_ = &first_->host();
    return;
  }
  local_rank_ = place->local_rank;
  const bool may_use_gpu = config.device != contract::DeviceKind::Cpu;
  try {
    mpi::MpiOptions options;
    if (config.hierarchical && config.device == contract::DeviceKind::Cpu) {
      options.ranks_per_node =
          config.ranks_per_node > 0 ? config.ranks_per_node : mpi::kRanksPerNodeAsFound;
    }
    first_ = load_mpi_communicator(plugins, options);
    host_ = &first_->host();
  } catch (const base::Error& error) {
    if (!may_use_gpu || place->source != "Slurm") throw;
    base::log(base::LogLevel::Info, std::string("ranks meet over TCP: ") + error.what());
    tcp_ = ranks::FileRendezvous(files, run, step_of(variables)).meet(*place, kMeetSeconds);
    host_ = tcp_.get();
  }
  base::check(host_->ranks() == found, "all ranks have met");
  ranks_per_node_ =
      config.ranks_per_node > 0 ? config.ranks_per_node : trainer::ranks::ranks_per_node(*host_);
}

void RankGroup::abandon() noexcept {
  if (nccl_ != nullptr) nccl_->abandon();
  if (first_ != nullptr) first_->abandon();
  if (tcp_ != nullptr) tcp_->abandon();
  for (const auto& group : tcp_groups_) group->abandon();
}

ranks::Communicator& RankGroup::communicator(device::Device& device, bool is_cuda) {
  if (ranks() == 1 || (!is_cuda && first_ != nullptr)) return *first_;
  if (!is_cuda) {
    throw base::Error(base::Code::Operator,
                      "several ranks on CPUs need the MPI communicator; install Open MPI and build "
                      "libregatta-mpi.so, or set ranks: 1");
  }
  nccl::NcclHost host = first_ != nullptr ? host_over(*first_) : host_over(*tcp_);
  nccl::NcclOptions options;
  if (config_.hierarchical) options.ranks_per_node = ranks_per_node_;
  options.before_first = [this](ranks::HostCollectives& values, int version) {
    give_tuner(values, version);
  };
  nccl_ = load_nccl_communicator(plugins_, device, std::move(host), options);
  return *nccl_;
}

nccl::NcclHost RankGroup::host_over(ranks::Communicator& mpi) {
  nccl::NcclHost host;
  host.values = mpi.open_channel();
  host.open_channel = [&mpi] { return mpi.open_channel(); };
  host.open_group = [this, &mpi](const std::vector<int>& members) -> nccl::NcclHost {
    std::unique_ptr<ranks::Communicator> group = mpi.open_group(members);
    if (members.size() < 2) return {};
    return host_over(*first_groups_.emplace_back(std::move(group)));
  };
  return host;
}

nccl::NcclHost RankGroup::host_over(ranks::TcpHost& tcp) {
  nccl::NcclHost host;
  host.values = tcp.open_channel();
  host.open_channel = [&tcp] { return tcp.open_channel(); };
  host.open_group = [this, &tcp](const std::vector<int>& members) -> nccl::NcclHost {
    std::unique_ptr<ranks::TcpHost> group = ranks::meet_in_group(tcp, members, kMeetSeconds);
    if (members.size() < 2) return {};
    return host_over(*tcp_groups_.emplace_back(std::move(group)));
  };
  return host;
}

void RankGroup::give_tuner(ranks::HostCollectives& host, int nccl_version) {
  tuner_ =
      tuner_offer(files_, run_ / "plan.tuner", plugins_, variables_, host.ranks(), nccl_version);
  const TunerVerdict verdict = judge_offers(ranks::texts_of_ranks(host, tuner_.text));
  act_on(verdict, tuner_);
  tuner_warning_ = verdict.warning;
  if (host.rank() != 0) return;
  if (!tuner_warning_.empty()) base::log(base::LogLevel::Warning, tuner_warning_);
  if (verdict.action == TunerVerdict::Action::Give) {
    base::log(base::LogLevel::Info, "NCCL is tuned by " + (run_ / "plan.tuner").string());
  }
}

}  // namespace regatta::trainer::plugins
