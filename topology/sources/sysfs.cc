#include "topology/sources/sysfs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "base/ascii.h"
#include "base/text.h"
#include "topology/graph/figures.h"
#include "topology/sources/capture.h"
#include "topology/sources/pci_config.h"

namespace regatta::topology::sources {
namespace {

constexpr const char* kPciRoot = "/sys/bus/pci/devices/";
constexpr const char* kInfiniband = "/sys/class/infiniband/";
constexpr const char* kNet = "/sys/class/net/";
constexpr const char* kNumaRoot = "/sys/devices/system/node/";

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The first number in a text: "32.0 GT/s PCIe" → 32; nothing when there is none.
std::optional<double> leading_number(const std::string& text) {
  std::size_t end = 0;
  while (end < text.size() && ((text[end] >= '0' && text[end] <= '9') || text[end] == '.')) ++end;
  return base::parse_number(text.substr(0, end));
}

// "0x001d"
std::optional<std::uint16_t> hexadecimal(const std::string& text) {
  std::uint16_t value = 0;
  if (text.rfind("0x", 0) != 0) return std::nullopt;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + 2, end, value, 16);
  return error == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

class SysfsReader {
 public:
  explicit SysfsReader(const Capture& capture)
      : capture_(capture),
        source_(graph_.add_source(graph::Source::Sysfs, capture.host)),
        node_(graph_.add(graph::Kind::Node, capture.host)) {}

  graph::Graph read() {
    read_machine();
    read_numa();
    read_pci();
    read_hcas();
    read_network_cards();
    tell_access_control();
    return std::move(graph_);
  }

 private:
  [[nodiscard]] std::string file(const std::string& path) const {
    const auto found = capture_.files.find(path);
    return found == capture_.files.end() ? "" : found->second;
  }
  void set(graph::VertexIndex vertex, const char* name, graph::Value value) {
    graph_.set(vertex, name, std::move(value), source_);
  }
  void set_text(graph::VertexIndex vertex, const char* name, const std::string& text) {
    if (!text.empty()) set(vertex, name, text);
  }
  // Names directly below a directory, of all captured paths.
  [[nodiscard]] std::vector<std::string> entries(const std::string& directory) const {
    std::vector<std::string> names;
    const auto take = [&](const std::map<std::string, std::string>& paths) {
      for (auto it = paths.lower_bound(directory);
           it != paths.end() && it->first.rfind(directory, 0) == 0; ++it) {
        const std::string rest = it->first.substr(directory.size());
        names.push_back(rest.substr(0, rest.find('/')));
      }
    };
    take(capture_.files);
    take(capture_.links);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }

  void read_machine() {
    set_text(node_, graph::key::kModel, file("/sys/class/dmi/id/product_name"));
    set_text(node_, graph::key::kDriver, file("/sys/module/nvidia/version"));
    const std::string cpus = file("/proc/cpuinfo");
    for (const std::string& line : base::split(cpus, '\n')) {
      if (line.empty()) break;  // the first processor is enough
      const std::size_t colon = line.find(':');
      if (colon == std::string::npos) continue;
      const std::string name(base::trimmed(line.substr(0, colon)));
      const std::string value(base::trimmed(line.substr(colon + 1)));
      if (name == "vendor_id") set_text(node_, graph::key::kVendor, value);
      if (name == "model name") set_text(node_, "cpu_model", value);
      if (name == "flags" && (" " + value + " ").find(" hypervisor ") != std::string::npos) {
        set(node_, graph::key::kVirtual, std::int64_t{1});
      }
    }
    if (capture_.files.count("/sys/kernel/mm/memory_peers/nv_mem/version") > 0 ||
        ("\n" + file("/proc/modules")).find("\nnvidia_peermem ") != std::string::npos) {
      set(node_, "peermem", std::int64_t{1});
    }
    const std::string status = file("/proc/self/status");
    const std::string mark = "Cpus_allowed_list:";
    if (const std::size_t at = status.find(mark); at != std::string::npos) {
      const std::size_t begin = at + mark.size();
      set_text(node_, "cpus_allowed",
               std::string(base::trimmed(status.substr(begin, status.find('\n', at) - begin))));
    }
  }

  graph::VertexIndex numa(std::int64_t number) {
    return graph_.add(graph::Kind::Numa, capture_.host + "/numa:" + std::to_string(number), node_);
  }

  void read_numa() {
    std::vector<std::pair<std::int64_t, graph::VertexIndex>> domains;
    for (const std::string& name : entries(kNumaRoot)) {
      const auto number = name.rfind("node", 0) == 0 ? base::parse_integer(name.substr(4))
                                                     : std::optional<std::int64_t>();
      if (!number) continue;
      const graph::VertexIndex domain = numa(*number);
      domains.emplace_back(*number, domain);
      set(domain, graph::key::kIndex, *number);
      set_text(domain, graph::key::kCpus, file(kNumaRoot + name + "/cpulist"));
    }
    for (std::size_t i = 0; i < domains.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        graph_.connect(graph::LinkKind::Smp, domains[i].second, domains[j].second);
      }
    }
  }

  // What a device hangs below: its PCIe switches, its NUMA domain, or the node.
  graph::VertexIndex place_of(const std::string& bus) {
    const std::string directory = kPciRoot + bus;
    const auto number = base::parse_integer(file(directory + "/numa_node"));
    graph::VertexIndex place = number && *number >= 0 ? numa(*number) : node_;
    const auto path = capture_.links.find(directory);
    if (path == capture_.links.end()) return place;
    for (const auto& [above, port] : switches_above(path->second)) {
      const graph::VertexIndex bridge =
          graph_.add(graph::Kind::PciSwitch, capture_.host + "/pci:" + above, place);
      set(bridge, graph::key::kBusId, above);
      connect_pcie(bridge, place, above);
      const std::string control = file(kPciRoot + port + "/" + kAcsControl);
      if (!control.empty()) acs_controls_[bridge][port] = control;
      place = bridge;
    }
    return place;
  }

  void tell_access_control() {
    for (const auto& [bridge, ports] : acs_controls_) {
      std::vector<std::string> redirecting;
      for (const auto& [port, text] : ports) {
        const std::optional<std::uint16_t> control = hexadecimal(text);
        if (control && redirects(*control)) redirecting.push_back(port);
      }
      set(bridge, graph::key::kAcs, std::int64_t{redirecting.empty() ? 0 : 1});
      set_text(bridge, graph::key::kAcsPorts, base::join(redirecting, " "));
    }
  }

  void connect_pcie(graph::VertexIndex device, graph::VertexIndex above, const std::string& bus) {
    const std::string directory = kPciRoot + bus;
    for (const char* name : {"class", "vendor", "device", "subsystem_vendor", "subsystem_device"}) {
      set_text(device, (std::string("pci.") + name).c_str(), file(directory + "/" + name));
    }
    const auto speed = leading_number(file(directory + "/current_link_speed"));
    const auto most_speed = leading_number(file(directory + "/max_link_speed"));
    const auto width = base::parse_integer(file(directory + "/current_link_width"));
    const auto most_width = base::parse_integer(file(directory + "/max_link_width"));
    if (speed) set(device, graph::key::kPcieSpeed, *speed);
    if (most_speed) set(device, graph::key::kPcieMaxSpeed, *most_speed);
    if (width && *width > 0 && *width <= 32) set(device, graph::key::kPcieWidth, *width);
    if (most_width && *most_width > 0 && *most_width <= 32) {
      set(device, graph::key::kPcieMaxWidth, *most_width);
    }
    const auto link = graph_.connect(graph::LinkKind::Pcie, device, above);
    // Idle GPUs sit at the lowest speed; the width is what it is.
    const double lanes = static_cast<double>(width.value_or(most_width.value_or(0)));
    const double rate = graph::pcie_gb_per_s(most_speed.value_or(speed.value_or(0)), lanes);
    if (rate > 0) graph_.set_link(link, graph::key::kBandwidth, rate, source_);
  }

  void read_pci() {
    // GPUs are numbered by bus id, as NVML does; network cards come with their drivers below.
    std::int64_t gpus = 0;
    for (const std::string& name : entries(kPciRoot)) {
      const std::string type = file(kPciRoot + name + "/class");
      const bool gpu =
          type.rfind("0x0302", 0) == 0 ||
          (type.rfind("0x0300", 0) == 0 && file(kPciRoot + name + "/vendor") == "0x10de");
      const bool nvswitch =
          type.rfind("0x0680", 0) == 0 && file(kPciRoot + name + "/vendor") == "0x10de";
      if (!gpu && !nvswitch) continue;
      const std::string bus = graph::normal_bus_id(name).value_or(name);
      const graph::VertexIndex place = place_of(name);
      const graph::VertexIndex device =
          graph_.add(gpu ? graph::Kind::Gpu : graph::Kind::NvSwitch,
                     capture_.host + (gpu ? "/gpu:" : "/nvswitch:") + bus, place);
      set(device, graph::key::kBusId, bus);
      if (gpu) set(device, graph::key::kIndex, gpus++);
      set_text(device, "local_cpus", file(kPciRoot + name + "/local_cpulist"));
      if (const auto number = base::parse_integer(file(kPciRoot + name + "/numa_node"))) {
        set(device, graph::key::kNuma, *number);
      }
      connect_pcie(device, place, name);
    }
  }

  // A network card's vertex below the PCI device that `link` leads to.
  graph::VertexIndex nic(const std::string& name, const std::string& link) {
    graph::VertexIndex place = node_;
    std::string bus;
    const auto device = capture_.links.find(link);
    if (device != capture_.links.end()) bus = last_part(device->second);
    if (graph::normal_bus_id(bus)) place = place_of(bus);
    const graph::VertexIndex card =
        graph_.add(graph::Kind::Nic, capture_.host + "/nic:" + name, place);
    set(card, graph::key::kName, name);
    if (!graph::normal_bus_id(bus)) return card;
    set(card, graph::key::kBusId, *graph::normal_bus_id(bus));
    if (const auto number = base::parse_integer(file(kPciRoot + bus + "/numa_node"))) {
      set(card, graph::key::kNuma, *number);
    }
    connect_pcie(card, place, bus);
    return card;
  }

  void read_hcas() {
    for (const std::string& name : entries(kInfiniband)) {
      const std::string directory = kInfiniband + name;
      const graph::VertexIndex card = nic(name, directory + "/device");
      set_text(card, graph::key::kModel, file(directory + "/hca_type"));
      set_text(card, "firmware", file(directory + "/fw_ver"));
      set_text(card, "board", file(directory + "/board_id"));
      set_text(card, graph::key::kGuid, file(directory + "/node_guid"));
      // Facts are of the first port that is there; a second one has names of its own.
      bool first = true;
      for (const std::string& port : entries(directory + "/ports/")) {
        const std::string prefix = first ? "" : "port" + port + ".";
        read_port(card, directory + "/ports/" + port, port, prefix);
        first = false;
      }
    }
  }

  void read_port(graph::VertexIndex card, const std::string& directory, const std::string& port,
                 const std::string& prefix) {
    const auto put = [&](const char* name, graph::Value value) {
      set(card, (prefix + name).c_str(), std::move(value));
    };
    if (const auto number = base::parse_integer(port)) put(graph::key::kPort, *number);
    const std::string state = file(directory + "/state");  // "4: ACTIVE"
    if (const std::size_t colon = state.find(": "); colon != std::string::npos) {
      std::string word = state.substr(colon + 2);
      for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      put(graph::key::kState, word);
    }
    const std::string layer = file(directory + "/link_layer");
    if (!layer.empty()) put(graph::key::kLinkLayer, layer);
    const std::string rate = file(directory + "/rate");  // "400 Gb/sec (4X NDR)"
    if (!rate.empty()) put("rate", rate);
    if (const auto gigabits = leading_number(rate)) {
      put(graph::key::kSpeed, static_cast<std::int64_t>(std::llround(*gigabits * 1000)));
    }
    for (const char* counter : {"symbol_error", "link_downed", "link_error_recovery",
                                "port_rcv_errors", "port_xmit_discards"}) {
      const auto count = base::parse_integer(file(directory + "/counters/" + counter));
      if (count) put(counter, *count);
    }
  }

  // Ethernet cards that are no RDMA device as well.
  void read_network_cards() {
    for (const std::string& name : entries(kNet)) {
      const auto device = capture_.links.find(kNet + name + "/device");
      if (device == capture_.links.end() || !graph::normal_bus_id(last_part(device->second)))
        continue;
      const std::string bus = *graph::normal_bus_id(last_part(device->second));
      const auto cards = graph_.below(node_, graph::Kind::Nic);
      const bool known = std::any_of(cards.begin(), cards.end(), [&](graph::VertexIndex card) {
        return graph::text_of(graph_, graph_.vertex(card).facts, graph::key::kBusId) == bus;
      });
      if (known) continue;
      const graph::VertexIndex card = nic(name, kNet + name + "/device");
      set(card, graph::key::kLinkLayer, "Ethernet");
      set_text(card, graph::key::kState,
               file(kNet + name + "/operstate") == "up" ? "active" : "down");
      const auto speed = base::parse_integer(file(kNet + name + "/speed"));
      if (speed && *speed > 0) set(card, graph::key::kSpeed, *speed);
    }
  }

  const Capture& capture_;
  std::map<graph::VertexIndex, std::map<std::string, std::string>>
      acs_controls_;  // by switch and port
  graph::Graph graph_;
  std::uint32_t source_;
  graph::VertexIndex node_;
};

}  // namespace

const std::vector<std::string>& sysfs_patterns() {
  static const std::vector<std::string> patterns{
      "/proc/cpuinfo",
      "/proc/modules",
      "/proc/self/status",
      "/proc/driver/nvidia/version",
      "/sys/module/nvidia/version",
      "/sys/kernel/mm/memory_peers/nv_mem/version",
      "/sys/class/dmi/id/product_name",
      "/sys/class/dmi/id/sys_vendor",
      "/sys/devices/system/node/*/cpulist",
      "/sys/devices/system/node/*/distance",
      "/sys/class/infiniband/*/board_id",
      "/sys/class/infiniband/*/fw_ver",
      "/sys/class/infiniband/*/hca_type",
      "/sys/class/infiniband/*/node_guid",
      "/sys/class/infiniband/*/ports/*/state",
      "/sys/class/infiniband/*/ports/*/phys_state",
      "/sys/class/infiniband/*/ports/*/rate",
      "/sys/class/infiniband/*/ports/*/link_layer",
      "/sys/class/infiniband/*/ports/*/counters/symbol_error",
      "/sys/class/infiniband/*/ports/*/counters/link_downed",
      "/sys/class/infiniband/*/ports/*/counters/link_error_recovery",
      "/sys/class/infiniband/*/ports/*/counters/port_rcv_errors",
      "/sys/class/infiniband/*/ports/*/counters/port_xmit_discards",
      "/sys/class/net/*/speed",
      "/sys/class/net/*/operstate"};
  return patterns;
}

const std::vector<std::string>& pci_attributes() {
  static const std::vector<std::string> names{"class",
                                              "vendor",
                                              "device",
                                              "subsystem_vendor",
                                              "subsystem_device",
                                              "numa_node",
                                              "local_cpulist",
                                              "current_link_speed",
                                              "current_link_width",
                                              "max_link_speed",
                                              "max_link_width"};
  return names;
}

bool is_wanted_pci_class(const std::string& text) {
  // Display, network, InfiniBand among it, and NVSwitches.
  return text.rfind("0x03", 0) == 0 || text.rfind("0x02", 0) == 0 || text.rfind("0x0680", 0) == 0;
}

bool is_pci_bridge(const std::string& text) { return text.rfind("0x0604", 0) == 0; }

bool is_pci_gpu(const std::string& text) { return text.rfind("0x0302", 0) == 0; }

std::vector<PciSwitchPorts> switches_above(const std::string& device) {
  std::vector<std::string> chain;
  for (const std::string& part : base::split(device, '/')) {
    if (graph::normal_bus_id(part)) chain.push_back(*graph::normal_bus_id(part));
  }
  std::vector<PciSwitchPorts> switches;
  for (std::size_t i = chain.size(); i >= 4; i -= 2) {
    switches.push_back({chain[i - 3], chain[i - 2]});
  }
  std::reverse(switches.begin(), switches.end());
  return switches;
}

graph::Graph read_sysfs(const Capture& capture) { return SysfsReader(capture).read(); }

}  // namespace regatta::topology::sources
