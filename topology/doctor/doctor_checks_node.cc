#include <algorithm>
#include <functional>

#include "base/text.h"
#include "topology/doctor/doctor_checks.h"

namespace regatta::topology::doctor {
namespace {

using Range = std::pair<std::int64_t, std::int64_t>;

// "0-31,64" as ranges; nothing for what is no such list.
std::optional<std::vector<Range>> parse_cpus(const std::string& text) {
  std::vector<Range> ranges;
  for (const std::string& part : base::split(text, ',')) {
    const std::size_t dash = part.find('-');
    const auto first = base::parse_integer(part.substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : base::parse_integer(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first) return std::nullopt;
    ranges.emplace_back(*first, *last);
  }
  return ranges;
}

bool overlap(const std::vector<Range>& a, const std::vector<Range>& b) {
  for (const Range& x : a) {
    for (const Range& y : b) {
      if (x.first <= y.second && y.first <= x.second) return true;
    }
  }
  return false;
}

// CPUs that jobs may use on a node; empty: not known.
std::string allowed_cpus(const ClusterView& view, const NodeView& node) {
  for (const HostState& host : view.subject().hosts) {
    if (host.node == view.id(node.vertex) && host.cpuset) return *host.cpuset;
  }
  return view.text(node.vertex, "cpus_allowed");
}

std::string local_cpus(const ClusterView& view, graph::VertexIndex gpu) {
  const std::string own = view.text(gpu, "local_cpus");
  if (!own.empty()) return own;
  graph::VertexIndex numa = view.graph().vertex(gpu).parent;
  while (numa != graph::kNoVertex && view.kind(numa) != graph::Kind::Numa) {
    numa = view.graph().vertex(numa).parent;
  }
  return numa == graph::kNoVertex ? "" : view.text(numa, graph::key::kCpus);
}

std::vector<graph::Finding> look_at_cpusets(const ClusterView& view) {
  Cases cases(view);
  for (const NodeView& node : view.nodes()) {
    const std::string allowed = allowed_cpus(view, node);
    const auto ranges = parse_cpus(allowed);
    if (allowed.empty() || !ranges || ranges->empty()) continue;
    for (const graph::VertexIndex gpu : node.gpus) {
      const std::string local = local_cpus(view, gpu);
      const auto near = parse_cpus(local);
      if (!near || near->empty() || overlap(*ranges, *near)) continue;
      cases.add("", {gpu, {view.id(gpu) + " local CPUs", local + ", allowed: " + allowed}});
    }
  }
  return cases.findings([](const std::string& who, const std::string&) {
    return who + ": jobs may use none of the CPUs beside it";
  });
}

// A fact of which all should have one value. Evidence names each value and a place that has it.
std::optional<graph::Finding> look_at_several(
    const ClusterView& view,
    const std::function<std::optional<std::string>(const NodeView&)>& value_of, const char* path) {
  std::map<std::string, std::vector<Case>> by_value;
  for (const NodeView& node : view.nodes()) {
    const auto value = value_of(node);
    if (value) by_value[*value].push_back({node.vertex, {}});
  }
  if (by_value.size() < 2) return std::nullopt;
  const Cases cases(view);
  graph::Finding finding;
  for (const auto& [value, nodes] : by_value) {
    finding.evidence.push_back({cases.who(nodes) + " " + path, value});
    if (finding.subject.empty() || nodes.size() == 1) finding.subject = view.id(nodes[0].vertex);
  }
  return finding;
}

std::vector<graph::Finding> look_at_vendors(const ClusterView& view) {
  auto finding = look_at_several(
      view,
      [&view](const NodeView& node) -> std::optional<std::string> {
        if (node.gpus.empty()) return std::nullopt;
        for (const graph::VertexIndex numa : node.numas) {
          const std::string vendor = view.text(numa, graph::key::kVendor);
          if (!vendor.empty()) return vendor;
        }
        const std::string vendor = view.text(node.vertex, graph::key::kVendor);
        return vendor.empty() ? std::nullopt : std::optional(vendor);
      },
      graph::key::kVendor);
  if (!finding) return {};
  finding->words = "the nodes' CPUs are of several makers";
  return {*finding};
}

std::vector<graph::Finding> look_at_gpu_generations(const ClusterView& view) {
  std::map<std::int64_t, graph::VertexIndex> first;
  for (const NodeView& node : view.nodes()) {
    for (const graph::VertexIndex gpu : node.gpus) {
      if (const auto sm = view.integer(gpu, graph::key::kComputeCapability))
        first.emplace(*sm, gpu);
    }
  }
  if (first.size() < 2) return {};
  graph::Finding finding;
  finding.subject = view.id(first.begin()->second);
  finding.words = "GPUs of several generations";
  for (const auto& [sm, gpu] : first) {
    finding.evidence.push_back(
        {view.id(gpu) + " " + graph::key::kComputeCapability, std::to_string(sm)});
  }
  return {finding};
}

// What nodes with the same GPUs should have in common.
using Features = std::map<std::string, std::string>;
Features features_of(const ClusterView& view, const NodeView& node) {
  Features features;
  features["GPUs"] = std::to_string(node.gpus.size());
  std::vector<graph::VertexIndex> nics = node.nics;
  nics.erase(std::remove_if(nics.begin(), nics.end(),
                            [&view](graph::VertexIndex nic) { return view.is_plain_card(nic); }),
             nics.end());
  features["NICs"] = std::to_string(nics.size());
  features["NUMA domains"] = std::to_string(node.numas.size());
  features["driver"] = view.text(node.vertex, graph::key::kDriver);
  std::map<std::string, int> models;
  for (const graph::VertexIndex nic : nics) ++models[view.text(nic, graph::key::kModel)];
  for (const auto& [model, count] : models) {
    features["models of the NICs"] +=
        (count > 1 ? std::to_string(count) + " x " : "") + model + " ";
  }
  return features;
}

std::vector<graph::Finding> look_at_differences(const ClusterView& view) {
  std::map<std::string, std::vector<const NodeView*>> by_model;
  for (const NodeView& node : view.nodes()) {
    if (!node.gpus.empty())
      by_model[view.text(node.gpus.front(), graph::key::kModel)].push_back(&node);
  }
  Cases cases(view);
  for (const auto& [model, nodes] : by_model) {
    std::map<std::string, std::vector<std::string>> values;
    std::vector<Features> features;
    for (const NodeView* node : nodes) {
      features.push_back(features_of(view, *node));
      for (const auto& [name, value] : features.back()) values[name].push_back(value);
    }
    Features common;
    for (const auto& [name, all] : values) common[name] = usual(all).value_or("");
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const bool fewer = features[i]["NICs"] != common["NICs"];
      for (const auto& [name, value] : features[i]) {
        if (value.empty() || common[name].empty() || value == common[name]) continue;
        if (fewer && name == "models of the NICs") continue;  // follows from their number
        cases.add(name + ": " + value + " instead of " + common[name],
                  {nodes[i]->vertex,
                   {view.id(nodes[i]->vertex) + " " + name, value + ", others " + common[name]}});
      }
    }
  }
  return cases.findings([](const std::string& who, const std::string& cause) {
    return who + ": differs from the other nodes with these GPUs (" + cause + ")";
  });
}

std::vector<graph::Finding> look_at_machines(const ClusterView& view) {
  Cases cases(view);
  for (const NodeView& node : view.nodes()) {
    if (!view.is_flat(node)) continue;
    const bool told = view.integer(node.vertex, graph::key::kVirtual) == 1;
    cases.add("",
              {node.vertex,
               {view.id(node.vertex), std::string(told ? "a virtual machine" : "NUMA domain -1") +
                                          ", no PCIe switch, no topology file"}});
  }
  return cases.findings([](const std::string& who, const std::string&) {
    return who + ": the virtual machine hides which GPU and NIC are near each other";
  });
}

graph::Finding of_file(const TopologyFile& file, std::string words, graph::Evidence evidence) {
  graph::Finding finding;
  finding.subject = file.path;
  finding.words = file.path + ": " + std::move(words);
  finding.evidence = {std::move(evidence)};
  return finding;
}

std::vector<graph::Finding> look_at_file_sizes(const ClusterView& view) {
  constexpr std::size_t kMost = 256;  // NCCL 2.28: MAX_NODES of its xml.h
  std::vector<graph::Finding> findings;
  for (const TopologyFile& file : view.subject().topology_files) {
    if (file.elements <= kMost) continue;
    findings.push_back(of_file(
        file, "has more elements than NCCL reads",
        {file.path, std::to_string(file.elements) + " of at most " + std::to_string(kMost)}));
  }
  return findings;
}

std::vector<graph::Finding> look_at_file_devices(const ClusterView& view) {
  std::vector<graph::Finding> findings;
  for (const TopologyFile& file : view.subject().topology_files) {
    for (const NodeView& node : view.nodes()) {
      if (!file.node.empty() && file.node != view.id(node.vertex)) continue;
      std::set<std::string> there;
      for (const auto* devices : {&node.gpus, &node.nics}) {
        for (const graph::VertexIndex device : *devices) {
          // What the file itself says of its devices proves nothing.
          const graph::Graph& graph = view.subject().graph;
          for (const graph::Fact& fact : graph.vertex(device).facts) {
            if (fact.key != graph::key::kBusId || graph.sources()[fact.source].place == file.path)
              continue;
            if (const auto* bus = std::get_if<std::string>(&fact.value)) there.insert(*bus);
          }
        }
      }
      // A node of which no bus ids are known says nothing of the file.
      if (there.empty()) continue;
      graph::Finding finding =
          of_file(file, "names devices that " + view.id(node.vertex) + " has not", {});
      finding.evidence.clear();
      for (const std::string& device : file.devices) {
        if (there.count(device) == 0 && finding.evidence.size() < 8) {
          finding.evidence.push_back({file.path + " busid", device});
        }
      }
      if (!finding.evidence.empty()) findings.push_back(std::move(finding));
      break;  // other nodes have the same file, and the same fault
    }
  }
  return findings;
}

std::vector<graph::Finding> look_at_file_masks(const ClusterView& view) {
  std::vector<graph::Finding> findings;
  for (const TopologyFile& file : view.subject().topology_files) {
    std::map<std::string, std::string> seen;
    for (const TopologyFile::Cpu& cpu : file.cpus) {
      if (cpu.affinity.empty()) continue;
      const auto [found, fresh] = seen.emplace(cpu.affinity, cpu.numa);
      if (fresh) continue;
      findings.push_back(of_file(
          file, "NUMA domains " + found->second + " and " + cpu.numa + " have the same CPUs",
          {file.path + " affinity", cpu.affinity}));
      break;
    }
  }
  return findings;
}

// The same two sources on the same fact are one cause, whatever number of devices shows it.
std::vector<graph::Finding> look_at_conflicts(const ClusterView& view) {
  std::map<std::string, std::vector<graph::Finding>> causes;
  for (graph::Finding& finding : graph::check_graph(view.graph())) {
    std::string cause = finding.words;
    if (cause.size() > finding.subject.size()) cause.resize(cause.size() - finding.subject.size());
    causes[cause].push_back(std::move(finding));
  }
  std::vector<graph::Finding> findings;
  for (auto& [cause, alike] : causes) {
    graph::Finding& first = alike.front();
    if (alike.size() > 1) {
      first.words = cause + std::to_string(alike.size()) + " parts, " + first.subject + " first";
      first.evidence.push_back({"and", std::to_string(alike.size() - 1) + " parts more"});
    }
    findings.push_back(std::move(first));
  }
  return findings;
}

}  // namespace

std::vector<Check> node_checks() {
  return {
      {{"cpu.set", graph::Severity::Warning, "jobs may use no CPU beside a GPU",
        "every transfer crosses the sockets, and NCCL's threads run far from their GPU",
        "give the job the GPU's cores: `--gpu-bind=closest` or `--gres-flags=enforce-binding`, "
        "and Cores= in gres.conf"},
       look_at_cpusets},
      {{"cpu.vendors", graph::Severity::Error, "CPUs of several makers in one cluster",
        "NCCL reckons by the CPU's maker, so that ranks may choose differently and hang "
        "(NVIDIA/nccl issue 1136)",
        "keep a job on one kind (slurm.constraint), or fix the choice on all ranks with a plan"},
       look_at_vendors},
      {{"gpu.generations", graph::Severity::Warning, "GPUs of several generations in one cluster",
        "the slowest sets the pace, and NCCL leaves LL128 out for all",
        "keep a job on one kind (slurm.constraint, or --gpus=TYPE:N among slurm.options)"},
       look_at_gpu_generations},
      {{"graph.conflict", graph::Severity::Warning, "sources disagree on a figure",
        "one of them is old or wrong, and plans rest on it",
        "look which one is right, and collect it again"},
       look_at_conflicts},
      {{"node.differs", graph::Severity::Warning,
        "a node differs from the others with the same GPUs",
        "a device is lost, or the node has another driver",
        "look at `nvidia-smi -L`, `lspci` and the driver of this node and of another one; drain it "
        "until they are alike"},
       look_at_differences},
      {{"topology_file.bus_ids", graph::Severity::Error,
        "a topology file names devices that are not there",
        "NCCL takes the file for the truth and places GPUs and NICs wrongly",
        "use the file made for this very machine type, or unset NCCL_TOPO_FILE"},
       look_at_file_devices},
      {{"topology_file.masks", graph::Severity::Warning,
        "NUMA domains of a topology file share their CPUs",
        "NCCL binds threads of one socket's GPUs to the other one",
        "correct the affinity masks after `lscpu | grep NUMA`"},
       look_at_file_masks},
      {{"topology_file.too_large", graph::Severity::Error,
        "a topology file has more than 256 elements", "NCCL stops with \"too many XML nodes\"",
        "take bridges and NICs out that no GPU needs, or use a newer NCCL"},
       look_at_file_sizes},
      {{"vm.flat", graph::Severity::Error,
        "a virtual machine hides its topology, without a topology file",
        "NCCL sees every NIC as far from every GPU: no GPUDirect, and no rails",
        "set NCCL_TOPO_FILE to the file that the cloud ships for this machine type"},
       look_at_machines},
  };
}

}  // namespace regatta::topology::doctor
