#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "topology/graph/cpu_mask.h"
#include "topology/graph/paths.h"
#include "topology/graph/xml.h"
#include "topology/sources/matrix_bridges.h"
#include "topology/sources/nccl_xml.h"

namespace regatta::topology::sources {
namespace {

constexpr const char* kUnknownSwitch = "fffffff:ffff:ff";  // as NCCL writes it
constexpr const char* kGpuClass = "0x030200";
constexpr const char* kSwitchClass = "0x068000";

[[noreturn]] void refuse(const graph::Graph& graph, graph::VertexIndex node,
                         const std::string& what) {
  throw base::Error(base::Code::User, "cannot write NCCL's topology of " +
                                          base::printable(graph.vertex(node).id) + ": " +
                                          base::printable(what));
}

class Writer {
 public:
  Writer(const graph::Graph& graph, graph::VertexIndex node, const NcclXmlOptions& options)
      : graph_(graph), node_(node) {
    if (options.invent_bus_ids) invent_bus_ids();
    for (const graph::Kind kind : {graph::Kind::PciSwitch, graph::Kind::Gpu, graph::Kind::Nic}) {
      for (const graph::VertexIndex index : graph_.below(node_, kind)) taken_.insert(bus_of(index));
    }
  }

  graph::XmlElement write() {
    fold();
    graph::XmlElement system = element("system", node_, "system");
    if (system.find("version") == nullptr) {
      bool amd = false;
      for (const graph::Link& link : graph_.links()) {
        amd = amd || (link.kind == graph::LinkKind::Xgmi && graph_.node_of(link.a) == node_);
      }
      system.attributes.emplace_back("version", amd ? "2" : "1");
    }
    for (const graph::VertexIndex child : ordered(node_)) {
      if (vertex(child).kind == graph::Kind::Numa) {
        system.children.push_back(domain(child));
      }
    }
    add_devices_without_domain(&system);
    return system;
  }

 private:
  [[nodiscard]] const graph::Vertex& vertex(graph::VertexIndex index) const {
    return graph_.vertex(index);
  }
  [[nodiscard]] const std::vector<graph::Fact>& facts(graph::VertexIndex index) const {
    return vertex(index).facts;
  }

  // What an XML file said of an element, in its order.
  graph::XmlElement element(const std::string& name, graph::VertexIndex index,
                            const std::string& prefix) const {
    graph::XmlElement made;
    made.name = name;
    const std::string start = "xml." + prefix + ".";
    for (const graph::Fact& fact : facts(index)) {
      const auto* const value = std::get_if<std::string>(&fact.value);
      if (value == nullptr || !fact.key.starts_with(start)) continue;
      const std::string attribute = fact.key.substr(start.size());
      if (attribute.find('.') != std::string::npos || made.find(attribute) != nullptr) continue;
      made.attributes.emplace_back(attribute, *value);
    }
    return made;
  }
  static void fill(graph::XmlElement* element, const char* attribute, const std::string& value) {
    if (!value.empty() && element->find(attribute) == nullptr) {
      element->attributes.emplace_back(attribute, value);
    }
  }
  void fill_integer(graph::XmlElement* element, const char* attribute, graph::VertexIndex index,
                    const char* key) const {
    if (const auto value = graph::integer_of(graph_, facts(index), key)) {
      fill(element, attribute, std::to_string(*value));
    }
  }

  // Whether somebody else than NCCL's files speaks of it: then what they left out is filled in.
  [[nodiscard]] bool is_known_otherwise(graph::VertexIndex index) const {
    bool read = false;
    for (const graph::Fact& fact : facts(index)) {
      const graph::Source source = graph_.sources()[fact.source].source;
      if (source == graph::Source::NcclXml) {
        read = true;
      } else if (source != graph::Source::NcclGraph && source != graph::Source::Derived) {
        return true;
      }
    }
    return !read;
  }

  // In the order of the file they come from, then by id.
  [[nodiscard]] std::vector<graph::VertexIndex> ordered(graph::VertexIndex parent) const {
    std::vector<graph::VertexIndex> list = graph_.children(parent);
    const auto order = [&](graph::VertexIndex index) {
      return graph::integer_of(graph_, facts(index), "xml.order")
          .value_or(std::numeric_limits<std::int64_t>::max());
    };
    std::stable_sort(list.begin(), list.end(), [&](graph::VertexIndex a, graph::VertexIndex b) {
      return order(a) < order(b);
    });
    return list;
  }

  // NCCL sees a card's functions as one device.
  [[nodiscard]] std::string card_of(graph::VertexIndex nic) const {
    std::string bus = graph::text_of(graph_, facts(nic), "xml.pci.busid");
    if (!bus.empty()) return bus;
    bus = known_bus_of(nic);
    if (!bus.empty()) bus.back() = '0';
    return bus;
  }
  [[nodiscard]] std::string bus_of(graph::VertexIndex index) const {
    return vertex(index).kind == graph::Kind::Nic ? card_of(index) : known_bus_of(index);
  }
  [[nodiscard]] std::string known_bus_of(graph::VertexIndex index) const {
    const auto invented = invented_.find(index);
    return invented != invented_.end() ? invented->second
                                       : graph::text_of(graph_, facts(index), graph::key::kBusId);
  }

  void invent_bus_ids() {
    for (const graph::Kind kind : {graph::Kind::PciSwitch, graph::Kind::Gpu, graph::Kind::Nic}) {
      for (const graph::VertexIndex index : graph_.below(node_, kind)) {
        // A card of several ports, or without PCIe, has none in its file either.
        const bool read = graph::text_of(graph_, facts(index), "xml.pci.busid").empty() &&
                          graph::integer_of(graph_, facts(index), "xml.net").has_value();
        if (bus_of(index).empty() && !read) {
          invented_.emplace(index, numbered_bus("fffe:", invented_.size()));
        }
      }
    }
  }
  static std::string numbered_bus(const char* domain, std::size_t number) {
    char text[40];
    std::snprintf(text, sizeof text, "%s%02x:%02x.0", domain,
                  static_cast<unsigned>(number / 32 % 256), static_cast<unsigned>(number % 32));
    return text;
  }

  // Skeletons may name a device's bus id only: what another source knows of it goes there.
  void fold() {
    std::map<std::string, graph::VertexIndex> leaves;
    for (const graph::VertexIndex index : graph_.below(node_, graph::Kind::PciSwitch)) {
      const std::string bus = bus_of(index);
      if (graph_.children(index).empty() && !bus.empty()) leaves.emplace(bus, index);
    }
    for (const graph::Kind kind : {graph::Kind::Gpu, graph::Kind::Nic}) {
      for (const graph::VertexIndex device : graph_.below(node_, kind)) {
        const auto leaf = leaves.find(bus_of(device));
        if (leaf == leaves.end()) continue;
        folded_[leaf->second].push_back(device);
        moved_.insert(device);
      }
    }
  }

  graph::XmlElement domain(graph::VertexIndex index) {
    graph::XmlElement cpu = element("cpu", index, "cpu");
    if (is_known_otherwise(index)) {
      const std::string& id = vertex(index).id;
      fill(&cpu, "numaid", id.substr(id.rfind(':') + 1));
      if (const auto set =
              graph::parse_cpu_list(graph::text_of(graph_, facts(index), graph::key::kCpus))) {
        fill(&cpu, "affinity", graph::cpu_mask(*set, cpus_of_node()));
      }
      fill(&cpu, "vendor", graph::text_of(graph_, facts(index), graph::key::kVendor));
    }
    add_children(index, &cpu);
    return cpu;
  }

  [[nodiscard]] std::uint32_t cpus_of_node() const {
    std::uint32_t cpus = 0;
    for (const graph::VertexIndex index : graph_.below(node_, graph::Kind::Numa)) {
      const auto set =
          graph::parse_cpu_list(graph::text_of(graph_, facts(index), graph::key::kCpus));
      if (set && !set->empty()) cpus = std::max(cpus, *set->rbegin() + 1);
    }
    return cpus;
  }

  // Devices of a node that has no more than one NUMA domain are in that one.
  void add_devices_without_domain(graph::XmlElement* system) {
    graph::XmlElement loose;
    add_children(node_, &loose);
    if (loose.children.empty()) return;
    if (system->children.size() > 1) {
      refuse(graph_, node_,
             "NUMA domains are known, but not the one of " + first_name(loose) +
                 "; add a source that tells (sysfs of the node)");
    }
    if (matrix_crosses_cpus(graph_, unplaced_devices(node_))) {
      refuse(
          graph_, node_,
          "devices are at different CPUs, but their NUMA domains are not known; add a source that "
          "tells (sysfs of the node)");
    }
    if (system->children.empty()) {
      graph::XmlElement& cpu = system->children.emplace_back();
      cpu.name = "cpu";
      cpu.attributes.emplace_back("numaid", "0");
    }
    auto& into = system->children.front().children;
    into.insert(into.end(), loose.children.begin(), loose.children.end());
  }
  static std::string first_name(const graph::XmlElement& parent) {
    const graph::XmlElement& child = parent.children.front();
    const std::string* const bus = child.find("busid");
    return bus != nullptr ? *bus : "a <" + child.name + ">";
  }

  void add_children(graph::VertexIndex parent, graph::XmlElement* into) {
    const std::vector<graph::VertexIndex> children = ordered(parent);
    std::map<graph::VertexIndex, BridgeGroup> groups;  // by the first device
    for (BridgeGroup& group : groups_of_matrix(graph_, unplaced_devices(parent))) {
      const graph::VertexIndex first = group.front().front();
      groups.emplace(first, std::move(group));
    }
    for (const graph::VertexIndex child : children) {
      if (vertex(child).kind == graph::Kind::Nic && moved_.count(child) == 0) {
        ports_[card_key(child)].push_back(child);
      }
    }
    std::set<graph::VertexIndex> done;
    for (const graph::VertexIndex child : children) {
      if (vertex(child).kind == graph::Kind::PciSwitch) into->children.push_back(bridge(child));
      const auto group = groups.find(child);
      if (group != groups.end()) add_group(group->second, &done, into);
      add_device(child, &done, into);
    }
  }

  // Devices of which no source says what they hang below.
  [[nodiscard]] std::vector<graph::VertexIndex> unplaced_devices(graph::VertexIndex parent) const {
    if (vertex(parent).kind == graph::Kind::PciSwitch) return {};
    std::vector<graph::VertexIndex> devices;
    for (const graph::VertexIndex child : ordered(parent)) {
      const graph::Kind kind = vertex(child).kind;
      if ((kind == graph::Kind::Gpu || kind == graph::Kind::Nic) && moved_.count(child) == 0 &&
          !graph_.find_link(graph::LinkKind::Pcie, child, parent)) {
        devices.push_back(child);
      }
    }
    return devices;
  }

  void add_group(const BridgeGroup& group, std::set<graph::VertexIndex>* done,
                 graph::XmlElement* into) {
    if (group.size() == 1 && group.front().size() == 1) return;  // alone: as any other device
    graph::XmlElement* outer = into;
    if (group.size() > 1) outer = &into->children.emplace_back(made_up_bridge());
    for (const std::vector<graph::VertexIndex>& devices : group) {
      graph::XmlElement inner = made_up_bridge();
      for (const graph::VertexIndex device : devices) add_device(device, done, &inner);
      if (!inner.children.empty()) outer->children.push_back(std::move(inner));
    }
  }
  graph::XmlElement made_up_bridge() {
    graph::XmlElement pci;
    pci.name = "pci";
    std::string bus;
    do {
      bus = numbered_bus("ffff:", 32 * 255 + ++made_up_);
    } while (taken_.count(bus) != 0);
    pci.attributes = {
        {"busid", bus},       {"class", "0x060400"},          {"vendor", "0x0000"},
        {"device", "0x0000"}, {"subsystem_vendor", "0x0000"}, {"subsystem_device", "0x0000"}};
    return pci;
  }

  void add_device(graph::VertexIndex index, std::set<graph::VertexIndex>* done,
                  graph::XmlElement* into) {
    if (moved_.count(index) != 0 || done->count(index) != 0) return;
    if (vertex(index).kind == graph::Kind::Gpu) {
      done->insert(index);
      into->children.push_back(gpu(index, graph::kNoVertex));
    } else if (vertex(index).kind == graph::Kind::Nic) {
      // All ports of a card where its first one stands.
      const std::vector<graph::VertexIndex>& ports = ports_.at(card_key(index));
      done->insert(ports.begin(), ports.end());
      into->children.push_back(card(ports, graph::kNoVertex));
    }
  }

  // A card with a bus id is one; others are distinguished by their element, or stand alone.
  [[nodiscard]] std::pair<graph::VertexIndex, std::string> card_key(graph::VertexIndex nic) const {
    const graph::VertexIndex parent = vertex(nic).parent;
    if (const std::string bus = card_of(nic); !bus.empty()) return {parent, bus};
    const auto element = graph::integer_of(graph_, facts(nic), "xml.nic");
    return {parent, element ? std::to_string(*element) : vertex(nic).id};
  }

  // `skeleton`: the bridge without children that is this device, else none.
  graph::XmlElement pci(graph::VertexIndex index, graph::VertexIndex skeleton,
                        const char* type) const {
    graph::XmlElement made = element("pci", skeleton == graph::kNoVertex ? index : skeleton, "pci");
    if (!is_known_otherwise(index)) return made;
    const std::string bus = bus_of(index);
    if (bus.empty()) {
      refuse(graph_, node_,
             vertex(index).id +
                 " has no bus id, and NCCL finds devices by it; add a source that "
                 "tells (NVML, or sysfs of the node)");
    }
    fill(&made, "busid", bus);
    fill(&made, "class", type);
    if (const auto speed = graph::number_of(graph_, facts(index), graph::key::kPcieMaxSpeed)) {
      char text[40];
      std::snprintf(text, sizeof text, "%.1f GT/s PCIe", *speed);
      fill(&made, "link_speed", text);
    }
    fill_integer(&made, "link_width", index, graph::key::kPcieMaxWidth);
    return made;
  }

  graph::XmlElement bridge(graph::VertexIndex index) {
    if (const auto device = folded_.find(index); device != folded_.end()) {
      const graph::VertexIndex first = device->second.front();
      return vertex(first).kind == graph::Kind::Gpu ? gpu(first, index)
                                                    : card(device->second, index);
    }
    graph::XmlElement made = pci(index, graph::kNoVertex, "0x060400");
    // NCCL does not mind where among its children they stand.
    add_children(index, &made);
    add_kept(index, {"pcilink"}, &made);
    return made;
  }

  // Elements that a file had below a device: "xml.nvlink.3.target".
  void add_kept(graph::VertexIndex index, const std::vector<std::string>& names,
                graph::XmlElement* into) const {
    std::map<std::int64_t, std::string> found;  // by position
    for (const graph::Fact& fact : facts(index)) {
      for (const std::string& name : names) {
        const std::string start = "xml." + name + ".";
        if (!fact.key.starts_with(start)) continue;
        const std::size_t end = fact.key.find('.', start.size());
        if (end == std::string::npos) continue;
        const auto position = base::parse_integer(
            std::string_view(fact.key).substr(start.size(), end - start.size()));
        if (position) found.emplace(*position, name);
      }
    }
    for (const auto& [position, name] : found) {
      into->children.push_back(element(name, index, name + "." + std::to_string(position)));
    }
  }

  graph::XmlElement gpu(graph::VertexIndex index, graph::VertexIndex skeleton) const {
    graph::XmlElement outer = pci(index, skeleton, kGpuClass);
    const bool complete = is_known_otherwise(index);
    const bool has_index = graph::integer_of(graph_, facts(index), graph::key::kIndex).has_value();
    if (graph::integer_of(graph_, facts(index), "xml.gpu") || (complete && has_index)) {
      graph::XmlElement inner = element("gpu", index, "gpu");
      add_kept(index, {"nvlink", "xgmi", "c2c"}, &inner);
      if (complete) {
        fill_integer(&inner, "dev", index, graph::key::kIndex);
        fill_integer(&inner, "sm", index, graph::key::kComputeCapability);
        fill_integer(&inner, "gdr", index, graph::key::kGdr);
        if (inner.children.empty()) add_links(index, &inner);
      }
      outer.children.push_back(std::move(inner));
    }
    return outer;
  }

  void add_links(graph::VertexIndex index, graph::XmlElement* gpu) const {
    for (const graph::Link& link : graph_.links()) {
      if (link.a != index && link.b != index) continue;
      const graph::VertexIndex peer = link.a == index ? link.b : link.a;
      if (graph::is_stand_in(graph_, peer)) continue;
      const auto count = graph::integer_of(graph_, link.facts, graph::key::kCount);
      if (link.kind == graph::LinkKind::C2c) {
        add_c2c(link, count.value_or(1), gpu);
      } else if (vertex(peer).kind == graph::Kind::Numa) {
        continue;  // POWER: NCCL finds the bridge of the CPU itself
      } else if ((link.kind == graph::LinkKind::NvLink || link.kind == graph::LinkKind::Xgmi) &&
                 count) {
        graph::XmlElement& made = gpu->children.emplace_back();
        made.name = link.kind == graph::LinkKind::NvLink ? "nvlink" : "xgmi";
        const bool is_switch = vertex(peer).kind == graph::Kind::NvSwitch;
        const std::string bus = bus_of(peer);
        if (bus.empty() && !is_switch) {
          refuse(graph_, node_, vertex(peer).id + " has NVLinks but no bus id");
        }
        made.attributes = {{"target", bus.empty() ? kUnknownSwitch : bus},
                           {"count", std::to_string(*count)},
                           {"tclass", is_switch ? kSwitchClass : kGpuClass}};
      }
    }
  }
  void add_c2c(const graph::Link& link, std::int64_t count, graph::XmlElement* gpu) const {
    const auto speed = graph::number_of(graph_, link.facts, graph::key::kBandwidth);
    if (!speed || count < 1) return;
    graph::XmlElement& made = gpu->children.emplace_back();
    made.name = "c2c";
    const double mb_per_s = *speed * 1000 / static_cast<double>(count);
    made.attributes = {{"bw", std::to_string(static_cast<std::int64_t>(mb_per_s))},
                       {"count", std::to_string(count)}};
  }

  graph::XmlElement card(const std::vector<graph::VertexIndex>& ports,
                         graph::VertexIndex skeleton) const {
    const graph::VertexIndex first = ports.front();
    const bool ethernet =
        graph::text_of(graph_, facts(first), graph::key::kLinkLayer) == "Ethernet";
    graph::XmlElement nic = element("nic", first, "nic");
    bool has_nic = graph::integer_of(graph_, facts(first), "xml.nic").has_value();
    for (const graph::VertexIndex port : ports) {
      const bool complete = is_known_otherwise(port);
      const std::string name = graph::text_of(graph_, facts(port), graph::key::kName);
      if (!graph::integer_of(graph_, facts(port), "xml.net") && (!complete || name.empty()))
        continue;
      graph::XmlElement net = element("net", port, "net");
      if (complete) {
        fill(&net, "name", name);
        fill_integer(&net, "dev", port, graph::key::kIndex);
        fill_integer(&net, "speed", port, graph::key::kSpeed);
        fill_integer(&net, "port", port, graph::key::kPort);
        fill(&net, "guid",
             swapped_guid(graph::text_of(graph_, facts(port), graph::key::kGuid))
                 .value_or(std::string()));
        fill_integer(&net, "gdr", port, graph::key::kGdr);
      }
      nic.children.push_back(std::move(net));
      has_nic = true;
    }
    if (card_of(first).empty() && skeleton == graph::kNoVertex) return nic;
    graph::XmlElement outer = pci(first, skeleton, ethernet ? "0x020000" : "0x020700");
    if (has_nic) outer.children.push_back(std::move(nic));
    return outer;
  }

  const graph::Graph& graph_;
  graph::VertexIndex node_;
  std::map<graph::VertexIndex, std::vector<graph::VertexIndex>>
      folded_;  // bridge → devices that it is
  std::set<graph::VertexIndex> moved_;
  std::map<std::pair<graph::VertexIndex, std::string>, std::vector<graph::VertexIndex>>
      ports_;                                           // of a card
  std::map<graph::VertexIndex, std::string> invented_;  // bus ids
  std::set<std::string> taken_;
  std::size_t made_up_ = 0;  // bridges
};

class Limits {
 public:
  Limits(const graph::Graph& graph, graph::VertexIndex node) : graph_(graph), node_(node) {}

  void check(const graph::XmlElement& system) {
    visit(system);
    if (elements_ > kMostNcclElements) {
      refuse(graph_, node_,
             "it takes " + std::to_string(elements_) + " elements, and NCCL 2.28 reads at most " +
                 std::to_string(kMostNcclElements) + "; leave out the NICs that do not compute");
    }
  }

 private:
  void visit(const graph::XmlElement& element) {
    ++elements_;
    if (element.children.size() > kMostNcclChildren) {
      refuse(
          graph_, node_,
          shown(element) + " holds more than " + std::to_string(kMostNcclChildren) + " elements");
    }
    if (element.attributes.size() > kMostNcclAttributes) {
      refuse(
          graph_, node_,
          shown(element) + " has more than " + std::to_string(kMostNcclAttributes) + " attributes");
    }
    for (const auto& [name, value] : element.attributes) check_value(element, name, value);
    for (const graph::XmlElement& child : element.children) visit(child);
  }

  void check_value(const graph::XmlElement& element, const std::string& name,
                   const std::string& value) const {
    for (const std::string& text : {name, value}) {
      if (text.size() > kMostNcclAttributeBytes) {
        refuse(graph_, node_,
               "'" + name.substr(0, 40) + "' of " + shown(element) + " has more than " +
                   std::to_string(kMostNcclAttributeBytes) + " characters");
      }
      // NCCL's parser takes the bytes between quotes as they are.
      if (base::printable(text) != text || text.find_first_of("\"<>&") != std::string::npos) {
        refuse(graph_, node_,
               "'" + name.substr(0, 40) + "' of " + shown(element) +
                   " holds characters that NCCL would misread");
      }
    }
  }
  static std::string shown(const graph::XmlElement& element) {
    for (const char* name : {"busid", "name", "numaid"}) {
      if (const std::string* const value = element.find(name)) {
        return "<" + element.name + " " + name + "=\"" + value->substr(0, 40) + "\">";
      }
    }
    return "<" + element.name + ">";
  }

  const graph::Graph& graph_;
  graph::VertexIndex node_;
  std::size_t elements_ = 0;
};

}  // namespace

std::string write_nccl_xml(const graph::Graph& graph, graph::VertexIndex node,
                           const NcclXmlOptions& options) {
  base::check(graph.vertex(node).kind == graph::Kind::Node, "a topology file is of a node");
  const graph::XmlElement system = Writer(graph, node, options).write();
  Limits(graph, node).check(system);
  return graph::to_text(system);
}

}  // namespace regatta::topology::sources
