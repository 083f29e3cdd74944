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
#include "topology/sources/matrix_bridges.h"
#include "topology/sources/nccl_xml.h"
#include "topology/graph/paths.h"
#include "topology/graph/xml.h"

namespace regatta::topology {
namespace {

constexpr const char* kUnknownSwitch = "fffffff:ffff:ff";  // as NCCL writes it
constexpr const char* kGpuClass = "0x030200";
constexpr const char* kSwitchClass = "0x068000";

[[noreturn]] void refuse(const Graph& graph, VertexIndex node, const std::string& what) {
  throw base::Error(base::Code::User, "cannot write NCCL's topology of " +
                                          base::printable(graph.vertex(node).id) + ": " +
                                          base::printable(what));
}

class Writer {
 public:
  Writer(const Graph& graph, VertexIndex node, const NcclXmlOptions& options)
      : graph_(graph), node_(node) {
    if (options.invent_bus_ids) invent_bus_ids();
    for (const Kind kind : {Kind::PciSwitch, Kind::Gpu, Kind::Nic}) {
      for (const VertexIndex index : graph_.below(node_, kind)) taken_.insert(bus_of(index));
    }
  }

  XmlElement write() {
    fold();
    XmlElement system = element("system", node_, "system");
    if (system.find("version") == nullptr) {
      bool amd = false;
      for (const Link& link : graph_.links()) {
        amd = amd || (link.kind == LinkKind::Xgmi && graph_.node_of(link.a) == node_);
      }
      system.attributes.emplace_back("version", amd ? "2" : "1");
    }
    for (const VertexIndex child : ordered(node_)) {
      if (vertex(child).kind == Kind::Numa) {
        system.children.push_back(domain(child));
      }
    }
    add_devices_without_domain(&system);
    return system;
  }

 private:
  [[nodiscard]] const Vertex& vertex(VertexIndex index) const { return graph_.vertex(index); }
  [[nodiscard]] const std::vector<Fact>& facts(VertexIndex index) const {
    return vertex(index).facts;
  }

  // What an XML file said of an element, in its order.
  XmlElement element(const std::string& name, VertexIndex index, const std::string& prefix) const {
    XmlElement made;
    made.name = name;
    const std::string start = "xml." + prefix + ".";
    for (const Fact& fact : facts(index)) {
      const auto* const value = std::get_if<std::string>(&fact.value);
      if (value == nullptr || !fact.key.starts_with(start)) continue;
      const std::string attribute = fact.key.substr(start.size());
      if (attribute.find('.') != std::string::npos || made.find(attribute) != nullptr) continue;
      made.attributes.emplace_back(attribute, *value);
    }
    return made;
  }
  static void fill(XmlElement* element, const char* attribute, const std::string& value) {
    if (!value.empty() && element->find(attribute) == nullptr) {
      element->attributes.emplace_back(attribute, value);
    }
  }
  void fill_integer(XmlElement* element, const char* attribute, VertexIndex index,
                    const char* key) const {
    if (const auto value = integer_of(graph_, facts(index), key)) {
      fill(element, attribute, std::to_string(*value));
    }
  }

  // Whether somebody else than NCCL's files speaks of it: then what they left out is filled in.
  [[nodiscard]] bool is_known_otherwise(VertexIndex index) const {
    bool read = false;
    for (const Fact& fact : facts(index)) {
      const Source source = graph_.sources()[fact.source].source;
      if (source == Source::NcclXml) {
        read = true;
      } else if (source != Source::NcclGraph && source != Source::Derived) {
        return true;
      }
    }
    return !read;
  }

  // In the order of the file they come from, then by id.
  [[nodiscard]] std::vector<VertexIndex> ordered(VertexIndex parent) const {
    std::vector<VertexIndex> list = graph_.children(parent);
    const auto order = [&](VertexIndex index) {
      return integer_of(graph_, facts(index), "xml.order")
          .value_or(std::numeric_limits<std::int64_t>::max());
    };
    std::stable_sort(list.begin(), list.end(),
                     [&](VertexIndex a, VertexIndex b) { return order(a) < order(b); });
    return list;
  }

  // NCCL sees a card's functions as one device.
  [[nodiscard]] std::string card_of(VertexIndex nic) const {
    std::string bus = text_of(graph_, facts(nic), "xml.pci.busid");
    if (!bus.empty()) return bus;
    bus = known_bus_of(nic);
    if (!bus.empty()) bus.back() = '0';
    return bus;
  }
  [[nodiscard]] std::string bus_of(VertexIndex index) const {
    return vertex(index).kind == Kind::Nic ? card_of(index) : known_bus_of(index);
  }
  [[nodiscard]] std::string known_bus_of(VertexIndex index) const {
    const auto invented = invented_.find(index);
    return invented != invented_.end() ? invented->second
                                       : text_of(graph_, facts(index), key::kBusId);
  }

  void invent_bus_ids() {
    for (const Kind kind : {Kind::PciSwitch, Kind::Gpu, Kind::Nic}) {
      for (const VertexIndex index : graph_.below(node_, kind)) {
        // A card of several ports, or without PCIe, has none in its file either.
        const bool read = text_of(graph_, facts(index), "xml.pci.busid").empty() &&
                          integer_of(graph_, facts(index), "xml.net").has_value();
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
    std::map<std::string, VertexIndex> leaves;
    for (const VertexIndex index : graph_.below(node_, Kind::PciSwitch)) {
      const std::string bus = bus_of(index);
      if (graph_.children(index).empty() && !bus.empty()) leaves.emplace(bus, index);
    }
    for (const Kind kind : {Kind::Gpu, Kind::Nic}) {
      for (const VertexIndex device : graph_.below(node_, kind)) {
        const auto leaf = leaves.find(bus_of(device));
        if (leaf == leaves.end()) continue;
        folded_[leaf->second].push_back(device);
        moved_.insert(device);
      }
    }
  }

  XmlElement domain(VertexIndex index) {
    XmlElement cpu = element("cpu", index, "cpu");
    if (is_known_otherwise(index)) {
      const std::string& id = vertex(index).id;
      fill(&cpu, "numaid", id.substr(id.rfind(':') + 1));
      if (const auto set = parse_cpu_list(text_of(graph_, facts(index), key::kCpus))) {
        fill(&cpu, "affinity", cpu_mask(*set, cpus_of_node()));
      }
      fill(&cpu, "vendor", text_of(graph_, facts(index), key::kVendor));
    }
    add_children(index, &cpu);
    return cpu;
  }

  [[nodiscard]] std::uint32_t cpus_of_node() const {
    std::uint32_t cpus = 0;
    for (const VertexIndex index : graph_.below(node_, Kind::Numa)) {
      const auto set = parse_cpu_list(text_of(graph_, facts(index), key::kCpus));
      if (set && !set->empty()) cpus = std::max(cpus, *set->rbegin() + 1);
    }
    return cpus;
  }

  // Devices of a node that has no more than one NUMA domain are in that one.
  void add_devices_without_domain(XmlElement* system) {
    XmlElement loose;
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
      XmlElement& cpu = system->children.emplace_back();
      cpu.name = "cpu";
      cpu.attributes.emplace_back("numaid", "0");
    }
    auto& into = system->children.front().children;
    into.insert(into.end(), loose.children.begin(), loose.children.end());
  }
  static std::string first_name(const XmlElement& parent) {
    const XmlElement& child = parent.children.front();
    const std::string* const bus = child.find("busid");
    return bus != nullptr ? *bus : "a <" + child.name + ">";
  }

  void add_children(VertexIndex parent, XmlElement* into) {
    const std::vector<VertexIndex> children = ordered(parent);
    std::map<VertexIndex, BridgeGroup> groups;  // by the first device
    for (BridgeGroup& group : groups_of_matrix(graph_, unplaced_devices(parent))) {
      const VertexIndex first = group.front().front();
      groups.emplace(first, std::move(group));
    }
    for (const VertexIndex child : children) {
      if (vertex(child).kind == Kind::Nic && moved_.count(child) == 0) {
        ports_[card_key(child)].push_back(child);
      }
    }
    std::set<VertexIndex> done;
    for (const VertexIndex child : children) {
      if (vertex(child).kind == Kind::PciSwitch) into->children.push_back(bridge(child));
      const auto group = groups.find(child);
      if (group != groups.end()) add_group(group->second, &done, into);
      add_device(child, &done, into);
    }
  }

  // Devices of which no source says what they hang below.
  [[nodiscard]] std::vector<VertexIndex> unplaced_devices(VertexIndex parent) const {
    if (vertex(parent).kind == Kind::PciSwitch) return {};
    std::vector<VertexIndex> devices;
    for (const VertexIndex child : ordered(parent)) {
      const Kind kind = vertex(child).kind;
      if ((kind == Kind::Gpu || kind == Kind::Nic) && moved_.count(child) == 0 &&
          !graph_.find_link(LinkKind::Pcie, child, parent)) {
        devices.push_back(child);
      }
    }
    return devices;
  }

  void add_group(const BridgeGroup& group, std::set<VertexIndex>* done, XmlElement* into) {
    if (group.size() == 1 && group.front().size() == 1) return;  // alone: as any other device
    XmlElement* outer = into;
    if (group.size() > 1) outer = &into->children.emplace_back(made_up_bridge());
    for (const std::vector<VertexIndex>& devices : group) {
      XmlElement inner = made_up_bridge();
      for (const VertexIndex device : devices) add_device(device, done, &inner);
      if (!inner.children.empty()) outer->children.push_back(std::move(inner));
    }
  }
  XmlElement made_up_bridge() {
    XmlElement pci;
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

  void add_device(VertexIndex index, std::set<VertexIndex>* done, XmlElement* into) {
    if (moved_.count(index) != 0 || done->count(index) != 0) return;
    if (vertex(index).kind == Kind::Gpu) {
      done->insert(index);
      into->children.push_back(gpu(index, kNoVertex));
    } else if (vertex(index).kind == Kind::Nic) {
      // All ports of a card where its first one stands.
      const std::vector<VertexIndex>& ports = ports_.at(card_key(index));
      done->insert(ports.begin(), ports.end());
      into->children.push_back(card(ports, kNoVertex));
    }
  }

  // A card with a bus id is one; others are told apart by their element, or stand alone.
  [[nodiscard]] std::pair<VertexIndex, std::string> card_key(VertexIndex nic) const {
    const VertexIndex parent = vertex(nic).parent;
    if (const std::string bus = card_of(nic); !bus.empty()) return {parent, bus};
    const auto element = integer_of(graph_, facts(nic), "xml.nic");
    return {parent, element ? std::to_string(*element) : vertex(nic).id};
  }

  // `skeleton`: the bridge without children that is this device, else none.
  XmlElement pci(VertexIndex index, VertexIndex skeleton, const char* type) const {
    XmlElement made = element("pci", skeleton == kNoVertex ? index : skeleton, "pci");
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
    if (const auto speed = number_of(graph_, facts(index), key::kPcieMaxSpeed)) {
      char text[40];
      std::snprintf(text, sizeof text, "%.1f GT/s PCIe", *speed);
      fill(&made, "link_speed", text);
    }
    fill_integer(&made, "link_width", index, key::kPcieMaxWidth);
    return made;
  }

  XmlElement bridge(VertexIndex index) {
    if (const auto device = folded_.find(index); device != folded_.end()) {
      const VertexIndex first = device->second.front();
      return vertex(first).kind == Kind::Gpu ? gpu(first, index) : card(device->second, index);
    }
    XmlElement made = pci(index, kNoVertex, "0x060400");
    // NCCL does not mind where among its children they stand.
    add_children(index, &made);
    add_kept(index, {"pcilink"}, &made);
    return made;
  }

  // Elements that a file had below a device: "xml.nvlink.3.target".
  void add_kept(VertexIndex index, const std::vector<std::string>& names, XmlElement* into) const {
    std::map<std::int64_t, std::string> found;  // by position
    for (const Fact& fact : facts(index)) {
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

  XmlElement gpu(VertexIndex index, VertexIndex skeleton) const {
    XmlElement outer = pci(index, skeleton, kGpuClass);
    const bool complete = is_known_otherwise(index);
    const bool has_index = integer_of(graph_, facts(index), key::kIndex).has_value();
    if (integer_of(graph_, facts(index), "xml.gpu") || (complete && has_index)) {
      XmlElement inner = element("gpu", index, "gpu");
      add_kept(index, {"nvlink", "xgmi", "c2c"}, &inner);
      if (complete) {
        fill_integer(&inner, "dev", index, key::kIndex);
        fill_integer(&inner, "sm", index, key::kComputeCapability);
        fill_integer(&inner, "gdr", index, key::kGdr);
        if (inner.children.empty()) add_links(index, &inner);
      }
      outer.children.push_back(std::move(inner));
    }
    return outer;
  }

  void add_links(VertexIndex index, XmlElement* gpu) const {
    for (const Link& link : graph_.links()) {
      if (link.a != index && link.b != index) continue;
      const VertexIndex peer = link.a == index ? link.b : link.a;
      if (is_stand_in(graph_, peer)) continue;
      const auto count = integer_of(graph_, link.facts, key::kCount);
      if (link.kind == LinkKind::C2c) {
        add_c2c(link, count.value_or(1), gpu);
      } else if (vertex(peer).kind == Kind::Numa) {
        continue;  // POWER: NCCL finds the bridge of the CPU itself
      } else if ((link.kind == LinkKind::NvLink || link.kind == LinkKind::Xgmi) && count) {
        XmlElement& made = gpu->children.emplace_back();
        made.name = link.kind == LinkKind::NvLink ? "nvlink" : "xgmi";
        const bool is_switch = vertex(peer).kind == Kind::NvSwitch;
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
  void add_c2c(const Link& link, std::int64_t count, XmlElement* gpu) const {
    const auto speed = number_of(graph_, link.facts, key::kBandwidth);
    if (!speed || count < 1) return;
    XmlElement& made = gpu->children.emplace_back();
    made.name = "c2c";
    const double mb_per_s = *speed * 1000 / static_cast<double>(count);
    made.attributes = {{"bw", std::to_string(static_cast<std::int64_t>(mb_per_s))},
                       {"count", std::to_string(count)}};
  }

  XmlElement card(const std::vector<VertexIndex>& ports, VertexIndex skeleton) const {
    const VertexIndex first = ports.front();
    const bool ethernet = text_of(graph_, facts(first), key::kLinkLayer) == "Ethernet";
    XmlElement nic = element("nic", first, "nic");
    bool has_nic = integer_of(graph_, facts(first), "xml.nic").has_value();
    for (const VertexIndex port : ports) {
      const bool complete = is_known_otherwise(port);
      const std::string name = text_of(graph_, facts(port), key::kName);
      if (!integer_of(graph_, facts(port), "xml.net") && (!complete || name.empty())) continue;
      XmlElement net = element("net", port, "net");
      if (complete) {
        fill(&net, "name", name);
        fill_integer(&net, "dev", port, key::kIndex);
        fill_integer(&net, "speed", port, key::kSpeed);
        fill_integer(&net, "port", port, key::kPort);
        fill(&net, "guid",
             swapped_guid(text_of(graph_, facts(port), key::kGuid)).value_or(std::string()));
        fill_integer(&net, "gdr", port, key::kGdr);
      }
      nic.children.push_back(std::move(net));
      has_nic = true;
    }
    if (card_of(first).empty() && skeleton == kNoVertex) return nic;
    XmlElement outer = pci(first, skeleton, ethernet ? "0x020000" : "0x020700");
    if (has_nic) outer.children.push_back(std::move(nic));
    return outer;
  }

  const Graph& graph_;
  VertexIndex node_;
  std::map<VertexIndex, std::vector<VertexIndex>> folded_;  // bridge → devices that it is
  std::set<VertexIndex> moved_;
  std::map<std::pair<VertexIndex, std::string>, std::vector<VertexIndex>> ports_;  // of a card
  std::map<VertexIndex, std::string> invented_;                                    // bus ids
  std::set<std::string> taken_;
  std::size_t made_up_ = 0;  // bridges
};

class Limits {
 public:
  Limits(const Graph& graph, VertexIndex node) : graph_(graph), node_(node) {}

  void check(const XmlElement& system) {
    visit(system);
    if (elements_ > kMostNcclElements) {
      refuse(graph_, node_,
             "it takes " + std::to_string(elements_) + " elements, and NCCL 2.28 reads at most " +
                 std::to_string(kMostNcclElements) + "; leave out the NICs that do not compute");
    }
  }

 private:
  void visit(const XmlElement& element) {
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
    for (const XmlElement& child : element.children) visit(child);
  }

  void check_value(const XmlElement& element, const std::string& name,
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
  static std::string shown(const XmlElement& element) {
    for (const char* name : {"busid", "name", "numaid"}) {
      if (const std::string* const value = element.find(name)) {
        return "<" + element.name + " " + name + "=\"" + value->substr(0, 40) + "\">";
      }
    }
    return "<" + element.name + ">";
  }

  const Graph& graph_;
  VertexIndex node_;
  std::size_t elements_ = 0;
};

}  // namespace

std::string write_nccl_xml(const Graph& graph, VertexIndex node, const NcclXmlOptions& options) {
  base::check(graph.vertex(node).kind == Kind::Node, "a topology file is of a node");
  const XmlElement system = Writer(graph, node, options).write();
  Limits(graph, node).check(system);
  return to_text(system);
}

}  // namespace regatta::topology
