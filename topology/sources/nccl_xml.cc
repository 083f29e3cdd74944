#include "topology/sources/nccl_xml.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/text.h"
#include "topology/graph/cpu_mask.h"
#include "topology/graph/nccl_speeds.h"
#include "topology/graph/reader_error.h"
#include "topology/graph/xml.h"

namespace regatta::topology::sources {
namespace {

constexpr std::size_t kMostDomains = 64;
constexpr std::size_t kMostGpuLinks = 256;  // elements
constexpr std::int64_t kMostLinks = 1'000'000;
// Ports of RDMA devices count from 1; NCCL writes 0 for an interface that it uses by sockets.
constexpr std::int64_t kNoPort = 0, kFirstPort = 1;

struct Children {
  std::string_view element;
  std::initializer_list<std::string_view> of;
};
const Children kGrammar[] = {
    {"system", {"cpu"}},
    {"cpu", {"pci", "nic"}},
    {"pci", {"pci", "gpu", "nic", "pcilink"}},
    {"gpu", {"nvlink", "xgmi", "c2c"}},
    {"nic", {"net"}},
    {"net", {}},
    {"nvlink", {}},
    {"xgmi", {}},
    {"c2c", {}},
    {"pcilink", {}},
};

bool is_class(std::string_view value, std::string_view prefix) { return value.starts_with(prefix); }

class NcclXmlReader {
 public:
  NcclXmlReader(std::string_view text, const NcclXmlContext& context)
      : context_(context), root_(graph::parse_xml(text, context.place)) {}

  graph::Graph read() {
    if (root_.name == "graphs") {
      fail(root_,
           "these are the graphs that NCCL searched (NCCL_GRAPH_DUMP_FILE), not a topology "
           "(NCCL_TOPO_DUMP_FILE)");
    }
    if (root_.name != "system") fail(root_, "the root is no <system>");
    check_grammar(root_);
    const std::int64_t version = integer(root_, "version");
    if (version != 1 && version != 2) {
      fail(root_, "version " + std::to_string(version) + " is not known; NCCL writes 1, RCCL 2");
    }
    amd_ = version == 2;
    source_ = graph_.add_source(graph::Source::NcclXml, context_.place);
    derived_ = graph_.add_source(graph::Source::Derived, context_.place);
    node_ = graph_.add(graph::Kind::Node, context_.node);
    keep(node_, root_);
    for (const graph::XmlElement& cpu : root_.children) read_cpu(cpu);
    connect_domains();
    for (Gpu& gpu : gpus_) read_gpu_links(gpu);
    for (const auto& [vertex, element] : bridges_) read_bridge_links(vertex, *element);
    return std::move(graph_);
  }

 private:
  struct Gpu {
    graph::VertexIndex vertex;
    graph::VertexIndex domain;
    const graph::XmlElement* element;
    std::map<graph::VertexIndex, std::int64_t> links;  // NVLink or xGMI, by peer
  };
  struct Place {
    graph::VertexIndex parent, domain;
    std::int64_t numa;
  };

  [[noreturn]] void fail(const graph::XmlElement& element, const std::string& what) const {
    graph::fail_at(context_.place, element.line, what);
  }

  void check_grammar(const graph::XmlElement& element) const {
    const auto rule = std::find_if(std::begin(kGrammar), std::end(kGrammar),
                                   [&](const Children& r) { return r.element == element.name; });
    for (const graph::XmlElement& child : element.children) {
      if (std::find(rule->of.begin(), rule->of.end(), child.name) == rule->of.end()) {
        fail(child, "<" + child.name.substr(0, 40) + "> cannot stand in <" + element.name + ">");
      }
      check_grammar(child);
    }
  }

  std::optional<std::string> text(const graph::XmlElement& element, const char* name) const {
    const std::string* const found = element.find(name);
    if (found == nullptr) return std::nullopt;
    return *found;
  }
  std::optional<std::int64_t> optional_integer(const graph::XmlElement& element,
                                               const char* name) const {
    const auto found = text(element, name);
    if (!found) return std::nullopt;
    const auto number = base::parse_integer(*found);
    if (!number) {
      fail(element, "'" + found->substr(0, 40) + "' as " + name + " of <" + element.name +
                        "> is not a whole number");
    }
    return number;
  }
  std::int64_t integer(const graph::XmlElement& element, const char* name) const {
    const auto number = optional_integer(element, name);
    if (!number) fail(element, "<" + element.name + "> has no '" + name + "'");
    return *number;
  }
  std::int64_t count(const graph::XmlElement& element) const {
    const std::int64_t links = integer(element, "count");
    if (links < 1 || links > kMostLinks) {
      fail(element, "count " + std::to_string(links) + " is out of range");
    }
    return links;
  }
  std::string required(const graph::XmlElement& element, const char* name) const {
    const auto found = text(element, name);
    if (!found || found->empty()) fail(element, "<" + element.name + "> has no '" + name + "'");
    return *found;
  }
  std::string bus_id(const graph::XmlElement& pci) const {
    const std::string found = required(pci, "busid");
    const auto normal = graph::normal_bus_id(found);
    if (!normal) fail(pci, "'" + found.substr(0, 40) + "' is not a bus id");
    return *normal;
  }

  // The attributes of an element on the vertex that stands for it.
  void keep(graph::VertexIndex vertex, const graph::XmlElement& element, const std::string& name) {
    for (const auto& [attribute, value] : element.attributes) {
      if (attribute.find('.') != std::string::npos)
        fail(element, "an attribute has a '.' in its name");
      graph_.set(vertex, "xml." + name + "." + attribute, value, source_);
    }
  }
  void keep(graph::VertexIndex vertex, const graph::XmlElement& element) {
    keep(vertex, element, element.name);
  }
  // Its place among its siblings.
  void number(graph::VertexIndex vertex) { graph_.set(vertex, "xml.order", ++order_, source_); }
  void set_integer(graph::VertexIndex vertex, const char* name, const graph::XmlElement& element,
                   const char* attribute) {
    if (const auto value = optional_integer(element, attribute)) {
      graph_.set(vertex, name, *value, source_);
    }
  }

  void read_cpu(const graph::XmlElement& cpu) {
    const std::int64_t numa = integer(cpu, "numaid");
    const std::string id = context_.node + "/numa:" + std::to_string(numa);
    if (graph_.find(id) != graph::kNoVertex) {
      fail(cpu, "numaid " + std::to_string(numa) +
                    " appears twice; a dump of several machines is not read");
    }
    if (domains_.size() == kMostDomains) fail(cpu, "there are too many <cpu>");
    const graph::VertexIndex domain = graph_.add(graph::Kind::Numa, id, node_);
    domains_.push_back(domain);
    keep(domain, cpu);
    number(domain);
    if (const auto vendor = text(cpu, "vendor"))
      graph_.set(domain, graph::key::kVendor, *vendor, source_);
    if (const auto affinity = text(cpu, "affinity"); affinity && !affinity->empty()) {
      const auto cpus = graph::parse_cpu_mask(*affinity);
      if (!cpus) fail(cpu, "'" + affinity->substr(0, 80) + "' is not a mask of CPUs");
      if (!cpus->empty()) graph_.set(domain, graph::key::kCpus, graph::cpu_list(*cpus), source_);
    }
    const std::string arch = text(cpu, "arch").value_or("");
    const std::string vendor_name = text(cpu, "vendor").value_or("");
    const graph::CpuModel model = {arch, vendor_name, optional_integer(cpu, "familyid").value_or(0),
                                   optional_integer(cpu, "modelid").value_or(0)};
    smp_.push_back(graph::smp_gb_per_s(model));
    for (const graph::XmlElement& child : cpu.children) {
      const Place place = {domain, domain, numa};
      child.name == "nic" ? read_nic(nullptr, &child, place) : read_pci(child, place);
    }
  }

  // NCCL joins every two of them.
  void connect_domains() {
    for (std::size_t i = 0; i < domains_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const std::uint32_t link = graph_.connect(graph::LinkKind::Smp, domains_[j], domains_[i]);
        if (smp_[i] && smp_[j]) {
          graph_.set_link(link, graph::key::kBandwidth, std::min(*smp_[i], *smp_[j]), derived_);
        }
      }
    }
  }

  void read_pci(const graph::XmlElement& pci, const Place& place) {
    const std::string bus = bus_id(pci);
    if (!buses_.insert(bus).second) fail(pci, "the bus id " + bus + " appears twice");
    const std::string type = text(pci, "class").value_or("");
    std::size_t devices = 0;
    for (const graph::XmlElement& child : pci.children)
      devices += child.name == "gpu" || child.name == "nic";
    if (devices != 0 && pci.children.size() != 1) {
      fail(pci, bus + " holds a GPU or NIC and something else");
    }
    const graph::XmlElement* const child = pci.children.empty() ? nullptr : &pci.children.front();
    if (child != nullptr ? child->name == "gpu" : is_class(type, "0x03")) {
      read_gpu(pci, child, bus, place);
    } else if (child != nullptr ? child->name == "nic" : is_class(type, "0x02")) {
      read_nic(&pci, child, place);
    } else {
      const graph::VertexIndex bridge =
          graph_.add(graph::Kind::PciSwitch, context_.node + "/pci:" + bus, place.parent);
      hang(bridge, pci, bus, place);
      bridges_.emplace_back(bridge, &pci);
      for (const graph::XmlElement& each : pci.children) {
        if (each.name == "pci") read_pci(each, {bridge, place.domain, place.numa});
      }
    }
  }

  // What every PCIe device has: its place, and the way up.
  void hang(graph::VertexIndex vertex, const graph::XmlElement& pci, const std::string& bus,
            const Place& place) {
    keep(vertex, pci);
    number(vertex);
    if (!bus.empty()) graph_.set(vertex, graph::key::kBusId, bus, source_);
    const std::uint32_t link = graph_.connect(graph::LinkKind::Pcie, vertex, place.parent);
    const auto speed = text(pci, "link_speed");
    const std::int64_t width = optional_integer(pci, "link_width").value_or(0);
    if (width < 0 || width > 1024) fail(pci, "a link of " + std::to_string(width) + " lanes");
    // The lesser of the device and its port, so other sources may say more of the device.
    if (width > 0) graph_.set(vertex, graph::key::kPcieMaxWidth, width, derived_);
    if (!speed) return;
    const auto gt_per_s = graph::parse_pcie_speed(*speed);
    if (gt_per_s) graph_.set(vertex, graph::key::kPcieMaxSpeed, *gt_per_s, derived_);
    graph_.set_link(link, graph::key::kBandwidth,
                    graph::nccl_pcie_gb_per_s(gt_per_s.value_or(0), width), derived_);
  }

  void read_gpu(const graph::XmlElement& pci, const graph::XmlElement* gpu, const std::string& bus,
                const Place& place) {
    const graph::VertexIndex vertex =
        graph_.add(graph::Kind::Gpu, context_.node + "/gpu:" + bus, place.parent);
    hang(vertex, pci, bus, place);
    graph_.set(vertex, graph::key::kNuma, place.numa, source_);
    if (gpu == nullptr) return;
    graph_.set(vertex, "xml.gpu", std::int64_t{1}, source_);
    keep(vertex, *gpu);
    set_integer(vertex, graph::key::kIndex, *gpu, "dev");
    set_integer(vertex, graph::key::kGdr, *gpu, "gdr");
    // RCCL's number is another one.
    if (!amd_) set_integer(vertex, graph::key::kComputeCapability, *gpu, "sm");
    gpus_.push_back({vertex, place.domain, gpu, {}});
  }

  // `pci` null: a virtual card below a CPU. `nic` null: a skeleton.
  void read_nic(const graph::XmlElement* pci, const graph::XmlElement* nic, const Place& place) {
    const std::string bus = pci == nullptr ? "" : bus_id(*pci);
    const std::int64_t element = ++order_;
    const auto made = [&](graph::VertexIndex vertex, bool alone) {
      graph_.set(vertex, graph::key::kNuma, place.numa, source_);
      // Cards of several ports share a bus id here, though each port has its own on the machine.
      if (pci != nullptr) {
        hang(vertex, *pci, alone ? bus : "", place);
      } else {
        number(vertex);
      }
      if (nic == nullptr) return;
      graph_.set(vertex, "xml.nic", element, source_);
      keep(vertex, *nic);
    };
    if (nic == nullptr || nic->children.empty()) {
      if (pci == nullptr) fail(*nic, "a <nic> without bus id has no <net> either");
      const std::string id = context_.node + "/nic:" + bus;
      if (graph_.find(id) != graph::kNoVertex)
        fail(*pci, "a <net> has the bus id of this NIC as name");
      made(graph_.add(graph::Kind::Nic, id, place.parent), true);
      return;
    }
    for (const graph::XmlElement& net : nic->children) {
      if (pci == nullptr && is_listed(net)) continue;
      const graph::VertexIndex vertex = add_net(net, place);
      made(vertex, nic->children.size() == 1);
      if (pci == nullptr || port_of(net) == kNoPort) interfaces_.insert(required(net, "name"));
    }
  }

  // What has no PCIe device (tunl0, docker0, a virtual machine's eth0) is nearer to no CPU than to
  // another, and some dumps list it below each. It is one interface: that of its first place.
  bool is_listed(const graph::XmlElement& net) const {
    return interfaces_.count(required(net, "name")) != 0;
  }
  std::int64_t port_of(const graph::XmlElement& net) const {
    return optional_integer(net, "port").value_or(kFirstPort);
  }

  graph::VertexIndex add_net(const graph::XmlElement& net, const Place& place) {
    const std::string name = required(net, "name");
    if (base::printable(name) != name) fail(net, "'" + name + "' is not the name of a NIC");
    const std::string id = context_.node + "/nic:" + name;
    if (graph_.find(id) != graph::kNoVertex) fail(net, "'" + name + "' appears twice");
    const graph::VertexIndex vertex = graph_.add(graph::Kind::Nic, id, place.parent);
    graph_.set(vertex, "xml.net", std::int64_t{1}, source_);
    keep(vertex, net);
    graph_.set(vertex, graph::key::kName, name, source_);
    set_integer(vertex, graph::key::kIndex, net, "dev");
    set_integer(vertex, graph::key::kSpeed, net, "speed");
    set_integer(vertex, graph::key::kPort, net, "port");
    set_integer(vertex, graph::key::kGdr, net, "gdr");
    if (port_of(net) == kNoPort) return vertex;  // its guid is a number that NCCL counts up
    const auto guid = swapped_guid(text(net, "guid").value_or(""));
    if (guid && guid->find_first_not_of("0x") != std::string::npos) {
      graph_.set(vertex, graph::key::kGuid, *guid, source_);
    }
    return vertex;
  }

  void read_gpu_links(Gpu& gpu) {
    if (gpu.element->children.size() > kMostGpuLinks)
      fail(*gpu.element, "a GPU has too many links");
    std::size_t position = 0;
    for (const graph::XmlElement& child : gpu.element->children) {
      keep(gpu.vertex, child, child.name + "." + std::to_string(position++));
      if (child.name == "c2c") {
        const std::uint32_t link = graph_.connect(graph::LinkKind::C2c, gpu.vertex, gpu.domain);
        const std::int64_t links = count(child), mb_per_s = integer(child, "bw");
        graph_.set_link(link, graph::key::kCount, links, source_);
        graph_.set_link(link, graph::key::kBandwidth,
                        static_cast<double>(mb_per_s) * static_cast<double>(links) / 1000, source_);
        continue;
      }
      const std::int64_t links = count(child);
      const graph::VertexIndex peer = peer_of(gpu, child);
      if (peer != graph::kNoVertex) gpu.links[peer] += links;
    }
    std::int64_t sum = 0;
    for (const auto& [peer, links] : gpu.links) {
      sum += links;
      connect_gpu(gpu, peer, links);
    }
    if (sum != 0 && !amd_) graph_.set(gpu.vertex, graph::key::kNvlinks, sum, source_);
  }

  // The vertex at the other end; none for the GPU itself and for one that is not in the file.
  graph::VertexIndex peer_of(const Gpu& gpu, const graph::XmlElement& link) {
    const std::string target = required(link, "target");
    const std::string type = text(link, "tclass").value_or("");
    const auto bus = graph::normal_bus_id(target);
    if (is_class(type, "0x068001")) return gpu.domain;  // POWER: NVLink to the CPU
    if (is_class(type, "0x0680")) {
      // NCCL writes fffffff:ffff:ff for a switch that the machine does not show.
      const std::string id = context_.node + (bus ? "/nvswitch:" + *bus : "/nvswitch#0");
      const graph::VertexIndex vertex = graph_.add(graph::Kind::NvSwitch, id, node_);
      if (bus) graph_.set(vertex, graph::key::kBusId, *bus, source_);
      return vertex;
    }
    if (!bus) fail(link, "'" + target.substr(0, 40) + "' is not a bus id");
    const graph::VertexIndex peer = graph_.find(context_.node + "/gpu:" + *bus);
    return peer == gpu.vertex ? graph::kNoVertex : peer;
  }

  void connect_gpu(const Gpu& gpu, graph::VertexIndex peer, std::int64_t links) {
    const graph::LinkKind kind = amd_ ? graph::LinkKind::Xgmi : graph::LinkKind::NvLink;
    if (const auto found = graph_.find_link(kind, gpu.vertex, peer)) {
      const auto before =
          graph::integer_of(graph_, graph_.links()[*found].facts, graph::key::kCount);
      if (before && *before != links) {
        fail(*gpu.element, graph_.vertex(gpu.vertex).id + " has " + std::to_string(links) +
                               " links to " + graph_.vertex(peer).id + ", which has " +
                               std::to_string(*before) + " back");
      }
    }
    const std::uint32_t link = graph_.connect(kind, gpu.vertex, peer);
    graph_.set_link(link, graph::key::kCount, links, source_);
    const auto speed_of = [&](graph::VertexIndex vertex) -> std::optional<double> {
      const auto sm =
          graph::integer_of(graph_, graph_.vertex(vertex).facts, graph::key::kComputeCapability);
      return sm ? graph::nvlink_gb_per_s(*sm) : std::nullopt;
    };
    auto speed = speed_of(gpu.vertex);
    if (const auto other = speed_of(peer); speed && other) speed = std::min(*speed, *other);
    if (speed) {
      graph_.set_link(link, graph::key::kBandwidth, *speed * static_cast<double>(links), derived_);
    }
  }

  void read_bridge_links(graph::VertexIndex bridge, const graph::XmlElement& pci) {
    std::size_t position = 0;
    for (const graph::XmlElement& child : pci.children) {
      if (child.name != "pcilink") continue;
      if (position == kMostGpuLinks) fail(child, "a bridge has too many <pcilink>");
      keep(bridge, child, child.name + "." + std::to_string(position++));
      const auto bus = graph::normal_bus_id(required(child, "target"));
      if (!bus) fail(child, "the target of a <pcilink> is not a bus id");
      const graph::VertexIndex peer = graph_.find(context_.node + "/pci:" + *bus);
      if (peer != graph::kNoVertex && peer != bridge)
        graph_.connect(graph::LinkKind::Pcie, bridge, peer);
    }
  }

  const NcclXmlContext& context_;
  graph::XmlElement root_;
  bool amd_ = false;
  std::int64_t order_ = 0;
  graph::Graph graph_;
  std::uint32_t source_ = 0, derived_ = 0;
  graph::VertexIndex node_ = graph::kNoVertex;
  std::vector<graph::VertexIndex> domains_;
  std::vector<std::optional<double>> smp_;  // by domain
  std::set<std::string> buses_;
  std::set<std::string> interfaces_;  // names of those that may be listed again
  std::vector<Gpu> gpus_;
  std::vector<std::pair<graph::VertexIndex, const graph::XmlElement*>> bridges_;
};

}  // namespace

std::optional<std::string> swapped_guid(std::string_view guid) {
  if (!guid.starts_with("0x") || guid.size() < 3 || guid.size() > 18) return std::nullopt;
  std::string digits(guid.substr(2));
  if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) return std::nullopt;
  digits.insert(0, 16 - digits.size(), '0');
  std::string swapped = "0x";
  for (std::size_t byte = 8; byte-- > 0;) swapped += digits.substr(2 * byte, 2);
  return swapped;
}

graph::Graph read_nccl_xml(std::string_view text, const NcclXmlContext& context) {
  return NcclXmlReader(text, context).read();
}

}  // namespace regatta::topology::sources
