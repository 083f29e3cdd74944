// From a discovered subnet to the graph: what hangs together, who is whose, and the cables.
#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "topology/fabric/discovery.h"
#include "topology/fabric/fabric_findings.h"
#include "topology/fabric/ibnetdiscover.h"

namespace regatta::topology::fabric {
namespace {

struct Cable {
  std::int64_t port_a = 0, port_b = 0;
  std::string rate;
};

class Builder {
 public:
  Builder(Discovery& discovery, const std::string& place, std::vector<graph::Finding>* findings)
      : discovery_(discovery),
        place_(place),
        findings_(findings),
        source_(graph_.add_source(graph::Source::Ibnetdiscover, place)),
        vertices_(discovery.devices.size(), graph::kNoVertex),
        part_of_(discovery.devices.size()) {}

  graph::Graph build() {
    sort_ports();
    if (findings_ != nullptr) {
      skip_aggregations();
      tell_unanswered();
    }
    check_whole();
    join_parts();
    add_switches();
    add_adapters();
    add_links();
    return std::move(graph_);
  }

 private:
  using Device = DiscoveredDevice;
  using Port = DiscoveredPort;

  [[noreturn]] void refuse(std::size_t line, const std::string& why) const {
    throw base::Error(base::Code::User,
                      place_ + (line == 0 ? "" : ":" + std::to_string(line)) + ": " + why);
  }
  [[nodiscard]] static std::string name_of(const Device& device) {
    const std::string& guid = device.guid.empty() ? device.port_guid : device.guid;
    return "'" + base::printable(device.description) + "' (" + guid + ")";
  }

  void sort_ports() {
    for (Device& device : discovery_.devices) {
      auto& ports = device.ports;
      const auto by_number = [](const Port& a, const Port& b) { return a.number < b.number; };
      std::stable_sort(ports.begin(), ports.end(), by_number);
      for (std::size_t i = 1; i < ports.size(); ++i) {
        if (ports[i].number != ports[i - 1].number) continue;
        refuse(ports[i].line, "a second line for port " + std::to_string(ports[i].number) + " of " +
                                  name_of(device));
      }
    }
  }

  [[nodiscard]] const Device* find(const std::string& key) const {
    const auto found = discovery_.by_key.find(key);
    return found == discovery_.by_key.end() ? nullptr : &discovery_.devices[found->second];
  }
  [[nodiscard]] static const Port* find_port(const Device& device, std::int64_t number) {
    const auto found = std::lower_bound(
        device.ports.begin(), device.ports.end(), number,
        [](const Port& port, std::int64_t wanted) { return port.number < wanted; });
    return found == device.ports.end() || found->number != number ? nullptr : &*found;
  }

  // A switch whose aggregation node did not answer has a port to nowhere, and no node hangs on it.
  void skip_aggregations() {
    graph::Finding finding;
    std::size_t skipped = 0;
    for (std::size_t i = 0; i < discovery_.devices.size(); ++i) {
      for (Port& port : discovery_.devices[i].ports) {
        if (!port.to_aggregation || port.peer.empty() || find(port.peer) != nullptr) continue;
        if (++skipped <= kMostListed) {
          finding.evidence.push_back(
              {at_line(port.line),
               "port " + std::to_string(port.number) + " of " + name_of(discovery_.devices[i])});
        }
        port.peer.clear();
        aggregating_.insert(i);
      }
    }
    if (skipped == 0) return;
    finding.id = "reading.skipped";
    finding.severity = graph::Severity::Note;
    finding.subject = place_;
    finding.words = finding.evidence.front().path + ": " + finding.evidence.front().value +
                    " leads to a SHARP aggregation node that has no block; " +
                    std::to_string(skipped) + " of these left out";
    finding.remedy = "nothing else is missing; take the dump again to have them";
    findings_->push_back(std::move(finding));
  }
  [[nodiscard]] std::string at_line(std::size_t line) const {
    return base::printable(place_) + ":" + std::to_string(line);
  }

  void tell_unanswered() {
    const std::size_t lines = discovery_.unanswered;
    if (lines == 0) return;
    graph::Finding finding;
    finding.id = "reading.skipped";
    finding.subject = place_;
    finding.words = at_line(discovery_.first_unanswered) +
                    ": a device did not answer ibnetdiscover; " + std::to_string(lines) +
                    " of its messages left out, and what lies behind is missing";
    finding.evidence = {{at_line(discovery_.first_unanswered), base::plural(lines, "message")}};
    finding.remedy = "look at the port on that path (ibstat, iblinkinfo) and take the dump again";
    findings_->push_back(std::move(finding));
  }

  // ibnetdiscover writes each cable from both ends, so that a text that is cut off anywhere shows.
  void check_whole() const {
    if (discovery_.devices.empty()) {
      refuse(0, "holds no switch and no adapter; is it the output of ibnetdiscover?");
    }
    bool linked = false;
    for (const auto& [key, index] : discovery_.by_key) {
      const Device& device = discovery_.devices[index];
      for (const Port& port : device.ports) {
        if (port.peer.empty()) continue;
        linked = true;
        const Device* const peer = find(port.peer);
        if (peer == nullptr) {
          refuse(port.line, "port " + std::to_string(port.number) + " of " + name_of(device) +
                                " leads to " + port.peer +
                                ", of which the text says nothing; it is cut off, take it again");
        }
        const Port* const back = find_port(*peer, port.peer_port);
        if (back == nullptr || back->peer != key || back->peer_port != port.number) {
          refuse(port.line, "port " + std::to_string(port.number) + " of " + name_of(device) +
                                " leads to port " + std::to_string(port.peer_port) + " of " +
                                name_of(*peer) +
                                ", which does not lead back; the text is cut off or the cabling "
                                "changed meanwhile, take it again");
        }
      }
    }
    if (!linked) {
      refuse(discovery_.devices.front().line,
             "the discovery saw only " + name_of(discovery_.devices.front()) +
                 " and no link: the port that it started from is down, or it was not allowed to "
                 "ask (ibnetdiscover needs root); run it on a node whose port is active");
    }
  }

  std::size_t part(std::size_t device) {
    while (part_of_[device] != device) {
      part_of_[device] = part_of_[part_of_[device]];
      device = part_of_[device];
    }
    return device;
  }

  void join_parts() {
    std::iota(part_of_.begin(), part_of_.end(), std::size_t{0});
    for (std::size_t index = 0; index < discovery_.devices.size(); ++index) {
      for (const Port& port : discovery_.devices[index].ports) {
        if (port.peer.empty()) continue;
        part_of_[part(index)] = part(discovery_.by_key.find(port.peer)->second);
      }
    }
  }

  // The fabric of each part is called after its first switch by GUID, so that every dump of the
  // same subnet gives the same name; two adapters without a switch, after the first of them.
  void add_switches() {
    std::map<std::size_t, std::string> names;
    std::set<std::size_t> parts_with_switch;
    const auto offer = [&](std::size_t index, const std::string& guid) {
      std::string& name = names[part(index)];
      if (name.empty() || guid < name) name = guid;
    };
    const auto& devices = discovery_.devices;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (!devices[i].is_switch) continue;
      offer(i, devices[i].guid);
      parts_with_switch.insert(part(i));
    }
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const bool is_linked = std::any_of(devices[i].ports.begin(), devices[i].ports.end(),
                                         [](const Port& port) { return !port.peer.empty(); });
      if (!is_linked || parts_with_switch.count(part(i)) != 0) continue;
      offer(i, devices[i].guid.empty() ? devices[i].port_guid : devices[i].guid);
    }
    std::map<std::size_t, graph::VertexIndex> fabrics;
    for (const auto& [root, name] : names) {
      fabrics[root] = graph_.add(graph::Kind::Fabric, "fabric:" + name);
      graph_.set(fabrics[root], graph::key::kLinkLayer, std::string("InfiniBand"), source_);
    }
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (devices[i].is_switch) add_switch(i, fabrics.at(part(i)));
    }
  }

  void add_switch(std::size_t index, graph::VertexIndex fabric) {
    const Device& device = discovery_.devices[index];
    const graph::VertexIndex vertex =
        graph_.add(graph::Kind::FabricSwitch, "switch:" + device.guid, fabric);
    vertices_[index] = vertex;
    graph_.set(vertex, graph::key::kGuid, device.guid, source_);
    // "MF0;leaf1:MQM9701/U1": a managed switch, its name, its model and the chip in it.
    std::string name = device.description;
    const std::size_t colon = name.find(':');
    if (name.rfind("MF0;", 0) == 0 && colon != std::string::npos) {
      const std::string model = name.substr(colon + 1, name.find('/', colon) - colon - 1);
      name = name.substr(4, colon - 4);
      if (!model.empty()) graph_.set(vertex, graph::key::kModel, model, source_);
    }
    if (!name.empty()) graph_.set(vertex, graph::key::kName, name, source_);
    if (device.lid != 0) graph_.set(vertex, graph::key::kLid, device.lid, source_);
    const auto linked =
        std::count_if(device.ports.begin(), device.ports.end(),
                      [](const Port& port) { return !port.peer.empty() || port.to_aggregation; });
    const auto lines = static_cast<std::int64_t>(device.ports.size());
    const std::int64_t ports = device.port_count != 0 ? device.port_count : lines;
    graph_.set(vertex, graph::key::kPorts, ports, source_);
    graph_.set(vertex, graph::key::kPortsUnlinked, std::max<std::int64_t>(ports - linked, 0),
               source_);
    if (aggregating_.count(index) != 0) {
      graph_.set(vertex, graph::key::kSharp, std::int64_t{1}, source_);
    }
  }

  void add_adapters() {
    for (std::size_t i = 0; i < discovery_.devices.size(); ++i) {
      const Device& device = discovery_.devices[i];
      if (device.is_switch) continue;
      if (device.is_aggregation) {
        note_aggregation(device);
      } else {
        add_adapter(i);
      }
    }
  }

  void note_aggregation(const Device& device) {
    for (const Port& port : device.ports) {
      if (port.peer.empty()) continue;
      const graph::VertexIndex owner = vertices_[discovery_.by_key.find(port.peer)->second];
      if (owner != graph::kNoVertex && graph_.vertex(owner).kind == graph::Kind::FabricSwitch) {
        graph_.set(owner, graph::key::kSharp, std::int64_t{1}, source_);
      }
    }
  }

  void add_adapter(std::size_t index) {
    const Device& device = discovery_.devices[index];
    const AdapterName name = parse_adapter_name(device.description);
    const std::string& guid = device.guid.empty() ? device.port_guid : device.guid;
    std::string id = name.host + "/nic:" + name.device;
    graph::VertexIndex node = graph::kNoVertex;
    if (name.host.empty() || !is_free(id, device)) {
      id = "nic:" + guid;
    } else {
      node = graph_.add(graph::Kind::Node, name.host);
    }
    const graph::VertexIndex vertex = graph_.add(graph::Kind::Nic, id, node);
    vertices_[index] = vertex;
    // "HCA-6" is no name that the host itself uses: with another one, sources would disagree.
    if (!name.device.empty() && name.device.rfind("HCA-", 0) != 0) {
      graph_.set(vertex, graph::key::kName, name.device, source_);
    }
    const auto set_once = [&](const char* key, graph::Value value) {
      if (graph::fact_of(graph_, graph_.vertex(vertex).facts, key) == nullptr) {
        graph_.set(vertex, key, std::move(value), source_);
      }
    };
    graph_.set(vertex, graph::key::kDescription, device.description, source_);
    graph_.set(vertex, graph::key::kLinkLayer, std::string("InfiniBand"), source_);
    if (!device.guid.empty()) graph_.set(vertex, graph::key::kGuid, device.guid, source_);
    if (!device.port_guid.empty()) set_once(graph::key::kPortGuid, device.port_guid);
    if (device.lid != 0) set_once(graph::key::kLid, device.lid);
    const auto up = std::find_if(device.ports.begin(), device.ports.end(),
                                 [](const Port& port) { return !port.peer.empty(); });
    const bool is_up = up != device.ports.end();
    // A line for another port of the same adapter may have said more.
    if (is_up) graph_.set(vertex, graph::key::kState, std::string("active"), source_);
    if (!is_up) set_once(graph::key::kState, std::string("down"));
    const double megabits = is_up ? parse_infiniband_rate(up->rate) : 0;
    if (megabits > 0) set_once(graph::key::kSpeed, static_cast<std::int64_t>(megabits));
  }

  // Whether no other adapter has this id; lists of ports have a line for each of one adapter.
  bool is_free(const std::string& id, const Device& device) {
    const bool is_new = graph_.find(id) == graph::kNoVertex;
    if (!discovery_.one_device_per_port) return is_new;
    bool ok = true;
    for (const Port& port : device.ports) ok = ports_seen_.emplace(id, port.number).second && ok;
    return ok;
  }

  void add_links() {
    std::map<std::pair<graph::VertexIndex, graph::VertexIndex>, std::vector<Cable>> links;
    for (std::size_t i = 0; i < discovery_.devices.size(); ++i) {
      const graph::VertexIndex own = vertices_[i];
      if (own == graph::kNoVertex) continue;
      for (const Port& port : discovery_.devices[i].ports) {
        if (port.peer.empty()) continue;
        const std::size_t peer_index = discovery_.by_key.find(port.peer)->second;
        const graph::VertexIndex peer = vertices_[peer_index];
        if (peer == graph::kNoVertex || peer == own) continue;  // SHARP; a plug that leads back
        if (graph_.vertex(own).id > graph_.vertex(peer).id) continue;  // its other end says it
        const Port& back = *find_port(discovery_.devices[peer_index], port.peer_port);
        // Each end tells its own rate; the link is no faster than the slower one.
        const bool own_is_slower =
            parse_infiniband_rate(port.rate) <= parse_infiniband_rate(back.rate);
        links[{own, peer}].push_back(
            {port.number, port.peer_port, own_is_slower ? port.rate : back.rate});
      }
    }
    for (const auto& [ends, cables] : links) add_link(ends.first, ends.second, cables);
  }

  void add_link(graph::VertexIndex a, graph::VertexIndex b, const std::vector<Cable>& cables) {
    const std::uint32_t link = graph_.connect(graph::LinkKind::Fabric, a, b);
    double megabits = 0;
    std::vector<std::string> rates;
    std::string listed;
    for (const Cable& cable : cables) {
      megabits += parse_infiniband_rate(cable.rate);
      if (std::find(rates.begin(), rates.end(), cable.rate) == rates.end()) {
        rates.push_back(cable.rate);
      }
      listed += (listed.empty() ? "" : ", ") + std::to_string(cable.port_a) + "-" +
                std::to_string(cable.port_b) + " " + cable.rate;
    }
    std::string rate;
    for (const std::string& one : rates) rate += (rate.empty() ? "" : ",") + one;
    const auto count = static_cast<std::int64_t>(cables.size());
    graph_.set_link(link, graph::key::kCount, count, source_);
    graph_.set_link(link, graph::key::kRate, rate, source_);
    graph_.set_link(link, graph::key::kCables, listed, source_);
    if (megabits > 0) {
      graph_.set_link(link, graph::key::kBandwidth, megabits / kMegabitPerGigabyte, source_);
    }
  }

  Discovery& discovery_;
  const std::string& place_;
  std::vector<graph::Finding>* findings_;  // null: what could be left out is refused
  std::set<std::size_t> aggregating_;      // switches whose aggregation node is left out
  graph::Graph graph_;
  std::uint32_t source_;
  std::vector<graph::VertexIndex> vertices_;  // of devices_; kNoVertex: aggregation node
  std::vector<std::size_t> part_of_;          // union-find: what hangs together
  std::set<std::pair<std::string, std::int64_t>> ports_seen_;
};

}  // namespace

graph::Graph graph_of(Discovery* discovery, const std::string& place,
                      std::vector<graph::Finding>* findings) {
  return Builder(*discovery, place, findings).build();
}

}  // namespace regatta::topology::fabric
