#include <algorithm>
#include <functional>
#include <optional>

#include "topology/doctor/doctor_checks.h"
#include "topology/graph/figures.h"

namespace regatta::topology::doctor {
namespace {

// No machine has more; what looks at pairs leaves out what claims to.
constexpr std::size_t kMostDevices = 256;

bool is_likely(const NodeView& node) {
  return node.gpus.size() <= kMostDevices && node.nics.size() <= kMostDevices;
}

// A figure of a device's PCIe link.
struct Training {
  double now, most;
  const char* key;  // where `now` stands
};

// Devices of which it is lower now than it could be. `gt_s`: the link's signalling rate.
std::vector<graph::Finding> look_at_training(
    const ClusterView& view, const char* unit,
    const std::function<std::optional<Training>(graph::VertexIndex)>& training_of,
    const std::function<double(graph::VertexIndex, const Training&)>& gt_s) {
  Cases cases(view);
  for (const NodeView& node : view.nodes()) {
    for (const auto* devices : {&node.gpus, &node.nics}) {
      for (const graph::VertexIndex device : *devices) {
        if (view.is_plain_card(device)) continue;
        const auto training = training_of(device);
        if (!training || training->now <= 0 || training->now >= training->most * 0.99) continue;
        const double width = view.number(device, graph::key::kPcieMaxWidth).value_or(16);
        const double healthy = graph::pcie_gb_per_s(gt_s(device, *training), width);
        const std::string is = figure(training->now), could = figure(training->most);
        cases.add(is + unit + " instead of " + could + unit,
                  {device,
                   {view.id(device) + " " + training->key, is + " of " + could},
                   Rates{healthy, healthy * training->now / training->most}});
      }
    }
  }
  return cases.findings([](const std::string& who, const std::string& cause) {
    return who + ": the PCIe link runs with " + cause;
  });
}

std::optional<Training> training(const std::optional<double>& now,
                                 const std::optional<double>& most, const char* key) {
  return now && most ? std::optional(Training{*now, *most, key}) : std::nullopt;
}

std::vector<graph::Finding> look_at_width(const ClusterView& view) {
  return look_at_training(
      view, " lanes",
      [&view](graph::VertexIndex device) {
        return training(view.number(device, graph::key::kPcieWidth),
                        view.number(device, graph::key::kPcieMaxWidth), graph::key::kPcieWidth);
      },
      [&view](graph::VertexIndex device, const Training&) {
        return view.number(device, graph::key::kPcieMaxSpeed)
            .value_or(graph::pcie_gt_s(4).value_or(16));
      });
}

// An idle GPU slows its link down to save power: only what NVML saw of it at work counts.
std::optional<Training> speed_training(const ClusterView& view, graph::VertexIndex device) {
  if (view.kind(device) == graph::Kind::Nic) {
    return training(view.number(device, graph::key::kPcieSpeed),
                    view.number(device, graph::key::kPcieMaxSpeed), graph::key::kPcieSpeed);
  }
  if (view.integer(device, graph::key::kBusy) != 1) return std::nullopt;
  const auto gt_s = [&](const char* key) {
    const auto generation = view.integer(device, key);
    return generation ? graph::pcie_gt_s(static_cast<int>(*generation)) : std::nullopt;
  };
  return training(gt_s(graph::key::kPcieGen), gt_s(graph::key::kPcieMaxGen), graph::key::kPcieGen);
}

std::vector<graph::Finding> look_at_speed(const ClusterView& view) {
  return look_at_training(
      view, " GT/s", [&view](graph::VertexIndex device) { return speed_training(view, device); },
      [](graph::VertexIndex, const Training& training) { return training.most; });
}

std::vector<graph::Finding> look_at_acs(const ClusterView& view) {
  Cases cases(view);
  for (const NodeView& node : view.nodes()) {
    // A virtual machine's host needs it.
    if (view.integer(node.vertex, graph::key::kVirtual) == 1) continue;
    for (const graph::VertexIndex bridge : node.bridges) {
      if (view.integer(bridge, graph::key::kAcs) != 1) continue;
      if (view.graph().below(bridge, graph::Kind::Gpu).empty() &&
          view.graph().below(bridge, graph::Kind::Nic).empty()) {
        continue;
      }
      const std::string ports = view.text(bridge, graph::key::kAcsPorts);
      cases.add(
          "", {bridge,
               {view.id(bridge) + " " + (ports.empty() ? graph::key::kAcs : graph::key::kAcsPorts),
                ports.empty() ? "1" : ports}});
    }
  }
  return cases.findings([](const std::string& who, const std::string&) {
    return who + ": Access Control Services send traffic between devices up to the root complex";
  });
}

// Bandwidth from a GPU to the network by its nearest NIC, and by one behind its own switch.
std::optional<Rates> rates_of_far(const ClusterView& view, graph::VertexIndex gpu,
                                  const std::vector<graph::VertexIndex>& nics) {
  double now = 0, fastest = 0;
  for (const graph::VertexIndex nic : nics) {
    const double speed = view.nic_speed(nic) / 8000;
    fastest = std::max(fastest, speed);
    now = std::max(now, std::min(speed, view.bottleneck_gb_per_s(gpu, nic).value_or(speed)));
  }
  if (fastest == 0) return std::nullopt;
  // Without GPUDirect in any case: NCCL uses it within a PCIe switch only.
  return Rates{fastest, std::min(now, fastest * graph::kShareWithoutGpuDirect)};
}

std::vector<graph::Finding> look_at_far_nics(const ClusterView& view) {
  Cases cases(view);
  for (const NodeView& node : view.nodes()) {
    const std::vector<graph::VertexIndex> nics = view.compute_nics(node);
    if (nics.empty() || view.is_flat(node) || !is_likely(node)) continue;
    std::vector<Reach> best;
    for (const graph::VertexIndex gpu : node.gpus) best.push_back(view.best_reach(gpu, nics));
    const bool some_near =
        std::any_of(best.begin(), best.end(), [](Reach reach) { return reach <= Reach::Chip; });
    for (std::size_t i = 0; i < node.gpus.size(); ++i) {
      // All GPUs without a switch to a NIC: that is how the machine is built.
      const bool far = best[i] == Reach::OtherNuma || (best[i] == Reach::SameNuma && some_near);
      if (!far) continue;
      cases.add(name_of(best[i]),
                {node.gpus[i],
                 {view.id(node.gpus[i]), std::string("nearest NIC ") + name_of(best[i])},
                 rates_of_far(view, node.gpus[i], nics)});
    }
  }
  return cases.findings([](const std::string& who, const std::string& cause) {
    return who + ": no NIC behind the same PCIe switch; the nearest is " + cause;
  });
}

// Whether every GPU can have one of its nearest NICs when each NIC takes `each` GPUs (Kuhn's
// augmenting paths; a node has few of both).
class Matching {
 public:
  Matching(std::vector<std::vector<std::size_t>> choices, std::size_t nics, std::size_t each)
      : choices_(std::move(choices)), taken_(nics), each_(each) {}
  // The first GPU that finds none, or the number of GPUs.
  std::size_t run() {
    for (std::size_t gpu = 0; gpu < choices_.size(); ++gpu) {
      seen_.assign(taken_.size(), false);
      if (!place(gpu)) return gpu;
    }
    return choices_.size();
  }

 private:
  bool place(std::size_t gpu) {
    for (const std::size_t nic : choices_[gpu]) {
      if (seen_[nic]) continue;
      seen_[nic] = true;
      if (taken_[nic].size() < each_) {
        taken_[nic].push_back(gpu);
        return true;
      }
      for (std::size_t& other : taken_[nic]) {
        if (!place(other)) continue;
        other = gpu;
        return true;
      }
    }
    return false;
  }

  std::vector<std::vector<std::size_t>> choices_;
  std::vector<std::vector<std::size_t>> taken_;  // by NIC
  std::vector<bool> seen_;
  std::size_t each_;
};

std::vector<graph::Finding> look_at_shared_nics(const ClusterView& view) {
  Cases cases(view);
  for (const NodeView& node : view.nodes()) {
    const std::vector<graph::VertexIndex> nics = view.compute_nics(node);
    if (nics.empty() || node.gpus.empty() || !is_likely(node)) continue;
    std::vector<std::vector<std::size_t>> choices;
    bool all_near = true;  // else that is the finding
    for (const graph::VertexIndex gpu : node.gpus) {
      const Reach best = view.best_reach(gpu, nics);
      all_near = all_near && best <= Reach::Chip;
      choices.emplace_back();
      for (std::size_t i = 0; i < nics.size(); ++i) {
        if (view.reach(gpu, nics[i]) == best) choices.back().push_back(i);
      }
    }
    if (!all_near) continue;
    const std::size_t each = (node.gpus.size() + nics.size() - 1) / nics.size();
    const std::size_t without = Matching(choices, nics.size(), each).run();
    if (without == node.gpus.size()) continue;
    const graph::VertexIndex nic = nics[choices[without].front()];
    const double speed = view.nic_speed(nic) / 8000;
    const double share = static_cast<double>(each) / static_cast<double>(each + 1);
    cases.add(
        std::to_string(each),
        {node.vertex,
         {view.id(nic), "nearest NIC of more than " + std::to_string(each) + " GPUs"},
         Rates{speed / static_cast<double>(each), speed / static_cast<double>(each) * share}});
  }
  return cases.findings([](const std::string& who, const std::string& cause) {
    return who + ": more than " + cause + " GPUs share a NIC although there are NICs enough for " +
           cause + " each";
  });
}

}  // namespace

std::vector<Check> pcie_checks() {
  return {
      {{"gpu.far_nic", graph::Severity::Warning, "a GPU has no NIC behind its PCIe switch",
        "traffic crosses the CPU, where NCCL uses no GPUDirect and sockets are narrow",
        "move the NIC to a slot behind the GPU's switch, or leave the GPU out of jobs that span "
        "nodes; `nvidia-smi topo -m` must show PIX or PXB between both"},
       look_at_far_nics},
      {{"gpu.nic_shared", graph::Severity::Warning, "GPUs share a NIC while another one is idle",
        "the shared NIC sets the pace of every collective",
        "spread the NICs over the PCIe switches as the maker's manual shows; compare "
        "`nvidia-smi topo -m` with a node that is right"},
       look_at_shared_nics},
      {{"pcie.acs", graph::Severity::Warning, "Access Control Services are on at a PCIe bridge",
        "traffic between GPUs and NICs goes up to the root complex instead of through the switch",
        "turn ACS off in the BIOS, or at every boot for each port of the evidence: "
        "`setpci -s PORT ECAP_ACS+0x6.w=0000`"},
       look_at_acs},
      {{"pcie.speed", graph::Severity::Warning, "a PCIe link runs below its speed while at work",
        "the device gets a half or less of its bandwidth",
        "reseat the device or its riser, check the slot's generation in the BIOS, then compare "
        "`lspci -vv -s BUS | grep LnkSta` under load"},
       look_at_speed},
      {{"pcie.width", graph::Severity::Error, "a PCIe link has fewer lanes than it could",
        "the device gets a half or less of its bandwidth; NCCL records only the highest width "
        "and does not see it",
        "reseat the device or its riser and look again: `lspci -vv -s BUS | grep LnkSta`; if it "
        "stays, have slot, riser or card changed"},
       look_at_width},
  };
}

}  // namespace regatta::topology::doctor
