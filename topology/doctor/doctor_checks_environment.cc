#include <algorithm>

#include "base/text.h"
#include "topology/doctor/doctor_checks.h"
#include "topology/graph/figures.h"

namespace regatta::topology::doctor {
namespace {

constexpr std::string_view kPrefix = "NCCL_";

graph::Finding of_setting(const Setting& setting, std::string words) {
  graph::Finding finding;
  finding.subject = setting.name;
  finding.words = setting.name + "=" + setting.value + ": " + std::move(words);
  finding.evidence = {{setting.place, setting.name + "=" + setting.value}};
  return finding;
}

bool same(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    const auto lower = [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    return lower(x) == lower(y);
  });
}

// What a node can send in all, and what NVLink gives a GPU: the best of the cluster, GB/s.
Rates network_rates(const ClusterView& view, double share) {
  double best = 0;
  for (const NodeView& node : view.nodes()) {
    double sum = 0;
    for (const graph::VertexIndex nic : view.compute_nics(node)) sum += view.nic_speed(nic) / 8000;
    best = std::max(best, sum);
  }
  return {best, best * share};
}
Rates nvlink_rates(const ClusterView& view) {
  double nvlink = 0, pcie = 0;
  for (const NodeView& node : view.nodes()) {
    for (const graph::VertexIndex gpu : node.gpus) {
      double sum = 0;
      for (const std::uint32_t link : view.links_of(gpu)) {
        const graph::LinkKind kind = view.graph().links()[link].kind;
        if (kind == graph::LinkKind::NvLink) sum += view.gb_per_s(link);
        if (kind == graph::LinkKind::Pcie) pcie = std::max(pcie, view.gb_per_s(link));
      }
      nvlink = std::max(nvlink, sum);
    }
  }
  return {nvlink, nvlink > 0 ? pcie : 0};
}

enum class Cost { None, Network, HostCopy, Nvlink };
// TCP instead of InfiniBand: 5 of 123 GB/s, two nodes of 4 GPUs (CSCS, NCCL on Alps).
constexpr double kShareOfSockets = 5.0 / 123.0;

struct Leftover {
  const char* name;
  const char* value;  // that is bad
  graph::Severity severity;
  const char* words;
  Cost cost;
};
constexpr Leftover kLeftovers[] = {
    {"NCCL_IB_DISABLE", "1", graph::Severity::Error,
     "NCCL leaves InfiniBand and RoCE alone and sends through TCP", Cost::Network},
    {"NCCL_NET", "Socket", graph::Severity::Error, "NCCL sends through TCP", Cost::Network},
    {"NCCL_P2P_DISABLE", "1", graph::Severity::Error,
     "GPUs of a node send through host memory, not through NVLink or PCIe", Cost::Nvlink},
    {"NCCL_P2P_LEVEL", "LOC", graph::Severity::Error,
     "GPUs of a node send through host memory, not through NVLink or PCIe", Cost::Nvlink},
    {"NCCL_SHM_DISABLE", "1", graph::Severity::Warning,
     "ranks of a node that cannot reach each other directly send through the network", Cost::None},
    {"NCCL_NVLS_ENABLE", "0", graph::Severity::Warning,
     "NVSwitches do not add up: all-reduce was measured at 370 instead of 480 GB/s on 8 H100",
     Cost::None},
    {"NCCL_CUMEM_ENABLE", "0", graph::Severity::Warning,
     "no NVLink SHARP, no registered buffers, no NVLink across nodes", Cost::None},
    {"NCCL_MNNVL_ENABLE", "0", graph::Severity::Warning, "NVLink is not used between nodes",
     Cost::None},
    {"NCCL_NET_GDR_LEVEL", "LOC", graph::Severity::Error, "GPUDirect RDMA is off", Cost::HostCopy},
    {"NCCL_NET_GDR_LEVEL", "0", graph::Severity::Error, "GPUDirect RDMA is off", Cost::HostCopy},
    {"NCCL_NET_GDR_LEVEL", "PHB", graph::Severity::Warning,
     "GPUDirect RDMA is used across a CPU, which is slower than a copy on many machines",
     Cost::None},
    {"NCCL_NET_GDR_LEVEL", "SYS", graph::Severity::Warning,
     "GPUDirect RDMA is used across sockets, which is slower than a copy on most machines",
     Cost::None},
    {"NCCL_NET_GDR_READ", "0", graph::Severity::Note,
     "GPUs' memory is not read directly when sending", Cost::None},
    {"NCCL_DMABUF_ENABLE", "0", graph::Severity::Note, "GPUDirect RDMA needs nvidia_peermem then",
     Cost::None},
    {"NCCL_PXN_DISABLE", "1", graph::Severity::Warning,
     "messages to another rail cross the spines instead of NVLink", Cost::None},
    {"NCCL_DEBUG", "TRACE", graph::Severity::Warning, "every call is logged", Cost::None},
    {"CUDA_LAUNCH_BLOCKING", "1", graph::Severity::Error,
     "the host waits for every kernel, and nothing overlaps", Cost::None},
};

std::vector<graph::Finding> look_at_leftovers(const ClusterView& view) {
  std::vector<graph::Finding> findings;
  for (const Setting& setting : view.subject().environment) {
    for (const Leftover& row : kLeftovers) {
      if (setting.name != row.name || !same(setting.value, row.value)) continue;
      graph::Finding finding = of_setting(setting, row.words);
      set_severity(&finding, "env.leftover", row.severity);
      if (row.cost == Cost::Network) set_cost(&finding, network_rates(view, kShareOfSockets));
      if (row.cost == Cost::HostCopy) {
        set_cost(&finding, network_rates(view, graph::kShareWithoutGpuDirect));
      }
      if (row.cost == Cost::Nvlink) set_cost(&finding, nvlink_rates(view));
      finding.remedy = "remove " + setting.name + " from " + setting.place;
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

struct Forced {
  const char* name;
  const char* words;
};
constexpr Forced kForced[] = {
    {"NCCL_ALGO", "one algorithm for every size, and for collectives that do not have it"},
    {"NCCL_PROTO", "one protocol for every size"},
    {"NCCL_MIN_NCHANNELS", "channels are forced; they cost compute cores"},
    {"NCCL_MAX_NCHANNELS", "channels are limited, and with them bandwidth"},
    {"NCCL_MIN_CTAS", "channels are forced on every communicator"},
    {"NCCL_MAX_CTAS", "channels are limited on every communicator"},
    {"NCCL_NTHREADS", "threads of a channel are forced"},
    {"NCCL_BUFFSIZE", "buffers are forced"},
};

// Without a list that begins it, NCCL 2.31 and later may leave the collectives that the value does
// not name without any algorithm.
void advise_on_algorithms(const std::string& value, graph::Finding* finding) {
  const bool names_collectives = value.find(':') != std::string::npos;
  if (!names_collectives) {
    finding->remedy +=
        ", or limit it to one collective, as in NCCL_ALGO='ring,tree;allreduce:" + value + "'";
  } else if (value.substr(0, value.find(';')).find(':') != std::string::npos) {
    finding->words +=
        "; from NCCL 2.31 on the others may be left without any, and their calls fail";
    finding->remedy +=
        ", or begin it with a list for the others: NCCL_ALGO='ring,tree;" + value + "'";
  }
}

std::vector<graph::Finding> look_at_forced(const ClusterView& view) {
  std::vector<graph::Finding> findings;
  for (const Setting& setting : view.subject().environment) {
    for (const Forced& row : kForced) {
      if (setting.name != row.name || setting.value.empty()) continue;
      graph::Finding finding = of_setting(setting, row.words);
      // Forced where NCCL has not enabled it, it may corrupt data; "^LL128" leaves it out.
      if (setting.name == "NCCL_PROTO" && setting.value.find("LL128") != std::string::npos &&
          setting.value.find('^') == std::string::npos) {
        finding.words = setting.name + "=" + setting.value +
                        ": LL128 is forced also where it is not safe, and may corrupt data";
        set_severity(&finding, "env.forced", graph::Severity::Error);
      }
      finding.remedy = "remove " + setting.name + " from " + setting.place;
      if (setting.name == "NCCL_ALGO") advise_on_algorithms(setting.value, &finding);
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

// The names of NCCL_IB_HCA, without ports; `exact` and `excluded` by its first characters.
struct HcaList {
  bool exact = false, excluded = false;
  std::vector<std::string> names;
};
HcaList parse_hcas(std::string_view text) {
  HcaList list;
  while (!text.empty() && (text.front() == '^' || text.front() == '=')) {
    (text.front() == '^' ? list.excluded : list.exact) = true;
    text.remove_prefix(1);
  }
  for (const std::string& part : base::split(text, ',')) {
    const std::string name = part.substr(0, part.find(':'));
    if (!name.empty()) list.names.push_back(name);
  }
  return list;
}

std::set<std::string> all_nics(const ClusterView& view) {
  std::set<std::string> names;
  for (const NodeView& node : view.nodes()) {
    for (const graph::VertexIndex nic : node.nics) names.insert(view.nic_name(nic));
  }
  return names;
}

std::vector<graph::Finding> look_at_hca_prefixes(const ClusterView& view) {
  const Setting* const setting = view.setting("NCCL_IB_HCA");
  if (setting == nullptr) return {};
  const HcaList list = parse_hcas(setting->value);
  if (list.exact) return {};
  std::set<std::string> caught;  // beside the ones that are named
  const std::set<std::string> nics = all_nics(view);
  for (const std::string& nic : nics) {
    if (std::find(list.names.begin(), list.names.end(), nic) != list.names.end()) continue;
    for (const std::string& name : list.names) {
      // "mlx5" alone is meant to be a prefix; "mlx5_1" is a NIC.
      if (nic.rfind(name, 0) == 0 && nics.count(name) != 0) caught.insert(nic);
    }
  }
  if (caught.empty()) return {};
  graph::Finding finding =
      of_setting(*setting, std::string("names are prefixes, so it also ") +
                               (list.excluded ? "leaves out " : "takes ") +
                               base::join({caught.begin(), caught.end()}, ", "));
  finding.remedy = "write NCCL_IB_HCA=" + std::string(list.excluded ? "^=" : "=") +
                   base::join(list.names, ",") + " in " + setting->place +
                   ": '=' stands for exact names";
  return {finding};
}

std::vector<graph::Finding> look_at_hca_names(const ClusterView& view) {
  const Setting* const setting = view.setting("NCCL_IB_HCA");
  const std::set<std::string> nics = all_nics(view);
  if (setting == nullptr || nics.empty()) return {};
  const HcaList list = parse_hcas(setting->value);
  std::vector<std::string> unknown;
  for (const std::string& name : list.names) {
    const bool there = std::any_of(nics.begin(), nics.end(), [&](const std::string& nic) {
      return list.exact ? nic == name : nic.rfind(name, 0) == 0;
    });
    if (!there) unknown.push_back(name);
  }
  if (unknown.empty()) return {};
  graph::Finding finding = of_setting(*setting, "no node has " + base::join(unknown, ", "));
  finding.remedy = "name NICs that are there (" + base::join({nics.begin(), nics.end()}, ", ") +
                   ") in " + setting->place;
  return {finding};
}

std::vector<graph::Finding> look_at_cross_nic(const ClusterView& view) {
  const Setting* const setting = view.setting("NCCL_CROSS_NIC");
  if (setting == nullptr || setting->value != "1") return {};
  for (const NodeView& node : view.nodes()) {
    for (const graph::VertexIndex nic : node.nics) {
      if (!view.integer(nic, graph::key::kRail)) continue;
      return {of_setting(*setting, "rings may change rails, which cross the spines here")};
    }
  }
  return {};
}

std::vector<graph::Finding> look_at_interfaces(const ClusterView& view) {
  const Setting* const setting = view.setting("NCCL_SOCKET_IFNAME");
  if (setting == nullptr) return {};
  for (const char* bad : {"lo", "docker", "virbr"}) {
    std::string_view value = setting->value;
    if (!value.empty() && value.front() == '=') value.remove_prefix(1);
    if (value.rfind(bad, 0) != 0) continue;
    return {of_setting(*setting, "this interface does not reach other nodes")};
  }
  return {};
}

std::vector<graph::Finding> look_at_visible_devices(const ClusterView& view) {
  const Setting* const setting = view.setting("CUDA_VISIBLE_DEVICES");
  if (setting == nullptr) return {};
  std::size_t most = 0;
  for (const NodeView& node : view.nodes()) most = std::max(most, node.gpus.size());
  std::set<std::string> seen;
  for (const std::string& part : base::split(setting->value, ',')) {
    if (part.empty()) continue;
    const auto index = base::parse_integer(part);
    if (!seen.insert(part).second) {
      return {of_setting(*setting, "device " + part + " appears twice, and CUDA sees none")};
    }
    if (most > 0 && index && (*index < 0 || *index >= static_cast<std::int64_t>(most))) {
      return {
          of_setting(*setting, "there is no GPU " + part + ", and CUDA sees none from there on")};
    }
  }
  return {};
}

// Of NCCL 2.28's documentation, without their common "NCCL_", which must not count as likeness.
constexpr const char* kDocumented =
    "BUFFSIZE CHECK_POINTERS COLLNET_ENABLE COLLNET_NODE_THRESHOLD COMM_ID CONF_FILE "
    "CROSS_NIC CTA_POLICY CUMEM_ENABLE CUMEM_HOST_ENABLE DEBUG DEBUG_FILE DEBUG_SUBSYS "
    "DMABUF_ENABLE GRAPH_DUMP_FILE GRAPH_FILE GRAPH_REGISTER HOSTID IB_ADDR_FAMILY "
    "IB_ADDR_RANGE IB_AR_THRESHOLD IB_CUDA_SUPPORT IB_GID_INDEX IB_HCA IB_MERGE_NICS "
    "IB_PCI_RELAXED_ORDERING IB_QPS_PER_CONNECTION IB_RETRY_CNT IB_ROCE_VERSION_NUM IB_SL "
    "IB_SPLIT_DATA_ON_QPS IB_TC IB_TIMEOUT IGNORE_CPU_AFFINITY LAUNCH_MODE LL128_BUFFSIZE "
    "LL128_C2C LL_BUFFSIZE MAX_NCHANNELS MAX_P2P_NCHANNELS MIN_NCHANNELS MIN_P2P_NCHANNELS "
    "NCHANNELS_PER_NET_PEER NETDEVS_POLICY NET_GDR_C2C NET_GDR_LEVEL NET_GDR_READ "
    "NET_OVERHEAD NET_PLUGIN NET_SHARED_BUFFERS NET_SHARED_COMMS NSOCKS_PERTHREAD "
    "NVB_DISABLE NVLS_CHUNKSIZE P2P_DIRECT_DISABLE P2P_NET_CHUNKSIZE P2P_PXN_LEVEL "
    "PAT_ENABLE PROFILER_PLUGIN RAS_ADDR RAS_ENABLE SET_STACK_SIZE SET_THREAD_NAME "
    "SINGLE_RING_THRESHOLD SOCKET_FAMILY SOCKET_IFNAME SOCKET_NTHREADS SYM_CTAS SYM_KERNEL "
    "TOPO_DUMP_FILE TOPO_DUMP_FILE_RANK TOPO_FILE TUNER_CONFIG_FILE TUNER_PLUGIN "
    "WIN_ENABLE WORK_FIFO_BYTES";

std::vector<std::string> known_variables() {
  std::vector<std::string> names = base::split(kDocumented, ' ');
  for (const Leftover& row : kLeftovers) names.emplace_back(row.name);
  for (const Forced& row : kForced) names.emplace_back(row.name);
  for (std::string& name : names) {
    if (name.rfind(kPrefix, 0) == 0) name.erase(0, kPrefix.size());
  }
  return names;
}

std::vector<graph::Finding> look_at_unknown(const ClusterView& view) {
  std::vector<graph::Finding> findings;
  const std::vector<std::string> known = known_variables();
  for (const Setting& setting : view.subject().environment) {
    if (setting.name.rfind(kPrefix, 0) != 0) continue;
    const std::string name = setting.name.substr(kPrefix.size());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    // There are many more than are documented: only what looks mistyped.
    const auto close = base::closest(name, known);
    if (!close) continue;
    const std::string meant = std::string(kPrefix) + *close;
    graph::Finding finding =
        of_setting(setting, "NCCL knows no such variable; is " + meant + " meant?");
    finding.remedy = "write " + meant + ", or remove it from " + setting.place;
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace

std::vector<Check> environment_checks() {
  return {
      {{"env.cross_nic", graph::Severity::Warning, "NCCL_CROSS_NIC=1 on a fabric with rails",
        "traffic between rails crosses the spines", "remove NCCL_CROSS_NIC, or set it to 0"},
       look_at_cross_nic},
      {{"env.forced", graph::Severity::Warning, "a choice of NCCL is forced",
        "what helped one size or version hurts others, or fails; a plan chooses by size",
        "remove the variable"},
       look_at_forced},
      {{"env.hca_prefix", graph::Severity::Error, "NCCL_IB_HCA matches more NICs than it names",
        "storage and management NICs carry a part of the traffic, at their speed",
        "write '=' before the list: NCCL_IB_HCA==mlx5_0,mlx5_1"},
       look_at_hca_prefixes},
      {{"env.hca_unknown", graph::Severity::Error, "NCCL_IB_HCA names NICs that no node has",
        "NCCL uses fewer NICs, or none and sends through TCP",
        "name the NICs that `ibv_devices` shows"},
       look_at_hca_names},
      {{"env.interface", graph::Severity::Error,
        "NCCL_SOCKET_IFNAME is an interface of one node only",
        "ranks on several nodes do not find each other",
        "name the interface that joins the nodes, or remove NCCL_SOCKET_IFNAME"},
       look_at_interfaces},
      {{"env.leftover", graph::Severity::Error,
        "a variable from an earlier search for faults is left",
        "it switches off what makes collectives fast", "remove the variable"},
       look_at_leftovers},
      {{"env.unknown", graph::Severity::Note, "a variable of NCCL looks mistyped",
        "NCCL ignores what it does not know, without a message", "correct the name"},
       look_at_unknown},
      {{"env.visible_devices", graph::Severity::Error, "CUDA_VISIBLE_DEVICES hides GPUs by mistake",
        "CUDA ignores a wrong entry and all that follow it",
        "leave CUDA_VISIBLE_DEVICES to Slurm, or name each GPU once, from 0"},
       look_at_visible_devices},
  };
}

}  // namespace regatta::topology::doctor
