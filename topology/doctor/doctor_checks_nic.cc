#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"
#include "topology/doctor/doctor_checks.h"
#include "topology/graph/figures.h"

namespace regatta::topology::doctor {
namespace {

constexpr double kSlowestUsual = 10000;  // Mbit/s: 4X SDR; no fabric for GPUs is that slow

// Of what can carry a job's traffic.
bool is_down(const ClusterView& view, graph::VertexIndex nic) {
  if (view.is_plain_card(nic)) return false;
  std::string state = view.text(nic, graph::key::kState);
  for (char& c : state) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return !state.empty() && state.find("active") == std::string::npos;
}

bool has_one_lane(const ClusterView& view, graph::VertexIndex nic) {
  if (view.text(nic, graph::key::kLinkLayer) == "Ethernet" || view.is_plain_card(nic)) return false;
  return view.integer(nic, graph::key::kLanes) == 1 ||
         view.text(nic, "rate").find("(1X ") != std::string::npos;
}

// By its speed alone only a port that is known to be InfiniBand's: others are 10 GbE by nature, and
// NCCL's XML, which names no link layer, gives 10,000 where it knows nothing.
bool is_narrow(const ClusterView& view, graph::VertexIndex nic) {
  const double speed = view.nic_speed(nic);
  return has_one_lane(view, nic) || (view.text(nic, graph::key::kLinkLayer) == "InfiniBand" &&
                                     speed > 0 && speed <= kSlowestUsual);
}

std::vector<graph::Finding> look_at_ports(const ClusterView& view) {
  std::map<std::string, std::size_t> nodes_with, nodes_down;
  for (const NodeView& node : view.nodes()) {
    for (const graph::VertexIndex nic : node.nics) {
      ++nodes_with[view.nic_name(nic)];
      if (is_down(view, nic)) ++nodes_down[view.nic_name(nic)];
    }
  }
  Cases cases(view);
  for (const NodeView& node : view.nodes()) {
    for (const graph::VertexIndex nic : node.nics) {
      if (!is_down(view, nic)) continue;
      const std::string name = view.nic_name(nic);
      const bool everywhere = nodes_with[name] >= 2 && nodes_down[name] == nodes_with[name];
      const double speed = view.nic_speed(nic) / 8000;
      Case one{nic, {view.id(nic) + " " + graph::key::kState, view.text(nic, graph::key::kState)}};
      if (speed > 0) one.rates = Rates{speed, 0};
      cases.add(everywhere ? "everywhere" : "", std::move(one));
    }
  }
  std::vector<graph::Finding> findings =
      cases.findings([](const std::string& who, const std::string& cause) {
        return who + (cause.empty() ? ": the port is not active"
                                    : ": the port is not active on any node; perhaps on purpose");
      });
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const auto& cause = *std::next(cases.causes().begin(), static_cast<std::ptrdiff_t>(i));
    if (!cause.first.empty()) set_severity(&findings[i], "nic.port_down", graph::Severity::Note);
  }
  return findings;
}

// A port that is slower than its like: than most of one model in one fabric.
struct SlowPort {
  graph::VertexIndex nic = graph::kNoVertex;
  double speed = 0, healthy = 0;  // Mbit/s
  // Of a node that is older as a whole, as a good part of the fabric is: no fault.
  bool older = false;
};

// Of NICs that are compared with each other. A node is of an older generation when all its ports
// have the same lower speed, and when so have four nodes at least and a tenth of all: cables and
// adapters that trained down are few, or are some of a node's.
std::vector<SlowPort> slow_ports_of(const ClusterView& view,
                                    const std::vector<graph::VertexIndex>& nics) {
  constexpr std::size_t kFewestNodes = 4, kShareOfNodes = 10;
  std::vector<double> speeds;
  std::map<std::string, std::set<double>> speeds_of_node;
  for (const graph::VertexIndex nic : nics) {
    speeds.push_back(view.nic_speed(nic));
    speeds_of_node[view.node_name(nic)].insert(speeds.back());
  }
  const auto healthy = usual(speeds);
  if (!healthy) return {};
  std::map<double, std::size_t> nodes_at;
  for (const auto& [node, each] : speeds_of_node) {
    if (each.size() == 1) ++nodes_at[*each.begin()];
  }
  std::vector<SlowPort> slow;
  for (std::size_t i = 0; i < nics.size(); ++i) {
    if (speeds[i] >= *healthy * 0.98) continue;
    const std::size_t alike = nodes_at[speeds[i]];
    const bool older = speeds_of_node[view.node_name(nics[i])].size() == 1 &&
                       !has_one_lane(view, nics[i]) && alike >= kFewestNodes &&
                       alike * kShareOfNodes >= speeds_of_node.size();
    slow.push_back({nics[i], speeds[i], *healthy, older});
  }
  return slow;
}

std::vector<SlowPort> slow_ports(const ClusterView& view) {
  // NICs of one kind in one fabric should be equally fast, wherever they are.
  using Group = std::array<std::string, 3>;
  std::map<Group, std::vector<graph::VertexIndex>> groups;
  for (const NodeView& node : view.nodes()) {
    for (const graph::VertexIndex nic : node.nics) {
      if (view.nic_speed(nic) <= 0 || is_down(view, nic) || view.is_plain_card(nic)) continue;
      const graph::VertexIndex fabric = view.fabric_of(nic);
      groups[{view.text(nic, graph::key::kModel), view.text(nic, graph::key::kLinkLayer),
              fabric == graph::kNoVertex ? "" : view.id(fabric)}]
          .push_back(nic);
    }
  }
  std::vector<SlowPort> all;
  for (const auto& [group, nics] : groups) {
    const std::vector<SlowPort> slow = slow_ports_of(view, nics);
    all.insert(all.end(), slow.begin(), slow.end());
  }
  return all;
}

// "20 Gbit/s where its like have 40", with evidence and cost.
void add_slow_port(const ClusterView& view, const SlowPort& port, Cases* cases) {
  const std::string is = figure(port.speed / 1000), should = figure(port.healthy / 1000);
  cases->add(is + " Gbit/s where its like have " + should,
             {port.nic,
              {view.id(port.nic) + " " + graph::key::kSpeed, is + " of " + should + " Gbit/s"},
              Rates{port.healthy / 8000, port.speed / 8000}});
}

std::vector<graph::Finding> look_at_slow(const ClusterView& view) {
  Cases cases(view);
  for (const SlowPort& port : slow_ports(view)) {
    if (!port.older && !is_narrow(view, port.nic)) add_slow_port(view, port, &cases);
  }
  return cases.findings([](const std::string& who, const std::string& cause) {
    return who + ": the port has " + cause;
  });
}

std::vector<graph::Finding> look_at_generations(const ClusterView& view) {
  Cases cases(view);
  for (const SlowPort& port : slow_ports(view)) {
    if (port.older) add_slow_port(view, port, &cases);
  }
  return cases.findings([](const std::string& who, const std::string& cause) {
    return who + ": all ports of these nodes have " + cause + ", as of an older generation";
  });
}

struct Counter {
  const char* name;
  std::int64_t most;  // thresholds of infiniband-diags, which separate noise from faults
};
constexpr Counter kCounters[] = {{"symbol_error", 10},
                                 {"link_error_recovery", 10},
                                 {"link_downed", 10},
                                 {"port_rcv_errors", 10},
                                 {"port_xmit_discards", 100},
                                 {"local_link_integrity_errors", 10},
                                 {"excessive_buffer_overrun_errors", 10}};

std::vector<graph::Finding> look_at_errors(const ClusterView& view) {
  Cases cases(view);
  for (graph::VertexIndex i = 0; i < view.graph().vertices().size(); ++i) {
    const graph::Kind kind = view.kind(i);
    if (kind != graph::Kind::Nic && kind != graph::Kind::FabricSwitch) continue;
    for (const Counter& counter : kCounters) {
      const std::int64_t errors = view.integer(i, counter.name).value_or(0);
      if (errors <= counter.most) continue;
      cases.add(counter.name, {i, {view.id(i) + " " + counter.name, std::to_string(errors)}});
    }
  }
  return cases.findings([](const std::string& who, const std::string& cause) {
    return who + ": the port counts errors (" + cause + ")";
  });
}

// Cables of InfiniBand that came up narrow, but for those of ports that are reported already.
void add_narrow_cables(const ClusterView& view, const std::set<graph::VertexIndex>& reported,
                       Cases* cases) {
  const auto& links = view.graph().links();
  for (std::uint32_t i = 0; i < links.size(); ++i) {
    if (links[i].kind != graph::LinkKind::Fabric) continue;
    const graph::VertexIndex end =
        view.kind(links[i].a) == graph::Kind::FabricSwitch ? links[i].a : links[i].b;
    const graph::VertexIndex root = view.fabric_of(end);
    if (root == graph::kNoVertex || view.text(root, graph::key::kLinkLayer) == "Ethernet") continue;
    if (reported.count(view.other_end(i, end)) != 0) continue;
    for (const Cable& cable : view.cables(i)) {
      const double speed = cable.gb_per_s * 8000;
      if (!cable.one_lane && speed > kSlowestUsual) continue;
      cases->add("cable", {end, {cable.ends, figure(speed / 1000) + " Gbit/s"}});
    }
  }
}

std::vector<graph::Finding> look_at_narrow(const ClusterView& view) {
  Cases cases(view);
  std::set<graph::VertexIndex> reported;
  for (const SlowPort& port : slow_ports(view)) {
    if (port.older) reported.insert(port.nic);
  }
  for (const NodeView& node : view.nodes()) {
    for (const graph::VertexIndex nic : node.nics) {
      if (!is_narrow(view, nic) || is_down(view, nic) || !reported.insert(nic).second) continue;
      cases.add("port", {nic,
                         {view.id(nic) + " " + graph::key::kSpeed,
                          figure(view.nic_speed(nic) / 1000) + " Gbit/s"}});
    }
  }
  add_narrow_cables(view, reported, &cases);
  return cases.findings([](const std::string& who, const std::string& cause) {
    return who + ": a " + cause + " came up with one lane, or at the lowest speed there is";
  });
}

double all_speeds(const ClusterView& view, const NodeView& node) {
  double sum = 0;
  for (const graph::VertexIndex nic : view.compute_nics(node)) sum += view.nic_speed(nic) / 8000;
  return sum;
}

// Why GPUDirect RDMA is off on a node; nothing: it is on, or nobody says.
std::optional<graph::Evidence> why_no_gdr(const ClusterView& view, const NodeView& node) {
  const std::string way = view.text(node.vertex, graph::key::kPeerMemory);
  if (way == "none")
    return graph::Evidence{view.id(node.vertex) + " " + graph::key::kPeerMemory, way};
  for (const HostState& host : view.subject().hosts) {
    if (host.node != view.id(node.vertex) || !host.modules || host.dma_buf) continue;
    if (view.integer(node.vertex, "peermem") == 1) continue;
    const bool loaded =
        std::any_of(host.modules->begin(), host.modules->end(), [](const std::string& module) {
          return module == "nvidia_peermem" || module == "nv_peer_mem";
        });
    if (!loaded && way.empty()) {
      return graph::Evidence{host.node + " modules", "no nvidia_peermem, and no dma-buf"};
    }
  }
  const std::vector<graph::VertexIndex> nics = view.compute_nics(node);
  const bool none =
      !nics.empty() && std::all_of(nics.begin(), nics.end(), [&](graph::VertexIndex nic) {
        return view.integer(nic, graph::key::kGdr) == 0;
      });
  if (none) return graph::Evidence{view.id(nics.front()) + " " + graph::key::kGdr, "0"};
  return std::nullopt;
}

std::vector<graph::Finding> look_at_gdr(const ClusterView& view) {
  Cases cases(view);
  for (const NodeView& node : view.nodes()) {
    // Without an RDMA device there is no GPUDirect to be had.
    const bool sockets_only =
        std::all_of(node.nics.begin(), node.nics.end(),
                    [&view](graph::VertexIndex nic) { return view.is_plain_card(nic); });
    if (node.gpus.empty() || sockets_only || view.is_flat(node)) continue;
    auto evidence = why_no_gdr(view, node);
    if (!evidence) continue;
    const double speed = all_speeds(view, node);
    Case one{node.vertex, std::move(*evidence)};
    if (speed > 0) one.rates = Rates{speed, speed * graph::kShareWithoutGpuDirect};
    cases.add("", std::move(one));
  }
  return cases.findings([](const std::string& who, const std::string&) {
    return who + ": GPUDirect RDMA is off, so everything to the network goes through host memory";
  });
}

std::vector<graph::Finding> look_at_mixture(const ClusterView& view) {
  if (view.setting("NCCL_IB_HCA") != nullptr) return {};  // somebody has chosen
  Cases cases(view);
  for (const NodeView& node : view.nodes()) {
    if (node.gpus.empty()) continue;
    const std::vector<graph::VertexIndex> good = view.compute_nics(node);
    if (good.empty()) continue;
    for (const graph::VertexIndex nic : node.nics) {
      if (is_down(view, nic) || view.is_plain_card(nic) ||
          std::find(good.begin(), good.end(), nic) != good.end())
        continue;
      const bool ethernet = view.text(nic, graph::key::kLinkLayer) == "Ethernet";
      cases.add(
          ethernet ? "an Ethernet port among InfiniBand" : "a bond",
          {nic,
           {view.id(nic) + " " + graph::key::kLinkLayer, view.text(nic, graph::key::kLinkLayer)}});
    }
  }
  return cases.findings([](const std::string& who, const std::string& cause) {
    return who + ": " + cause + ", which NCCL takes for one of its NICs";
  });
}

}  // namespace

std::vector<Check> nic_checks() {
  return {
      {{"fabric.narrow_link", graph::Severity::Error,
        "a port or cable runs with one lane or at SDR speed",
        "one such link slows every message that crosses it, and with it every collective",
        "reseat or change the cable, then look at `ibstat`, or at `iblinkinfo` for switches"},
       look_at_narrow},
      {{"gdr.off", graph::Severity::Error, "GPUDirect RDMA is off",
        "everything to the network is copied through host memory: 33 instead of 93 GB/s were "
        "measured between two nodes of 8 GPUs",
        "load the module on every boot (`modprobe nvidia_peermem`), or use the open kernel "
        "modules of the driver, which share memory by dma-buf"},
       look_at_gdr},
      {{"nic.errors", graph::Severity::Warning, "error counters of a port are high",
        "packets are sent again, and the link may soon go down",
        "clean or change the cable and transceiver, clear the counters (`perfquery -R`) and look "
        "again under load"},
       look_at_errors},
      {{"nic.generations", graph::Severity::Note,
        "nodes of one fabric have ports of several generations",
        "a job that spans them goes at the pace of the slower ones",
        "keep a job's nodes to one generation (slurm.exclude, or a feature of Slurm); if these "
        "nodes should be as fast as the others, compare `ibstat` (rate) with one of them"},
       look_at_generations},
      {{"nic.mixed", graph::Severity::Warning,
        "a bond, or an Ethernet port among InfiniBand, is in use",
        "NCCL spreads its traffic over all RDMA devices it finds, also those for storage and "
        "management",
        "name the devices to use: NCCL_IB_HCA==mlx5_0,mlx5_1,… (with '=', which stands for exact "
        "names)"},
       look_at_mixture},
      {{"nic.port_down", graph::Severity::Error, "a port is not active",
        "its GPU's traffic takes another NIC, and the rail is missing for the whole job",
        "look at the cable and at the switch's port, and at `ibstat`; until then drain the node or "
        "leave the NIC out on all nodes (NCCL_IB_HCA)"},
       look_at_ports},
      {{"nic.slow", graph::Severity::Error, "a port is slower than its like",
        "the slowest rail sets the pace of every collective",
        "reseat or change the cable and compare `ibstat` (rate) with another node; where the NIC "
        "is slower on purpose, leave it out with NCCL_IB_HCA"},
       look_at_slow},
  };
}

}  // namespace regatta::topology::doctor
