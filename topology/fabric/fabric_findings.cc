#include "topology/fabric/fabric_findings.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"
#include "topology/fabric/fabric_shape.h"
#include "topology/fabric/ibnetdiscover.h"

namespace regatta::topology::fabric {
namespace {

// The value that more than half have, if there is one.
template <class Value>
const Value* usual(const std::map<Value, int>& tally) {
  int all = 0;
  for (const auto& [value, count] : tally) all += count;
  for (const auto& [value, count] : tally) {
    if (2 * count > all) return &value;
  }
  return nullptr;
}

struct CableOf {
  std::uint32_t link = 0;
  std::string text;  // "35-32 4xNDR"
  double megabits = 0;
};

class Checker {
 public:
  explicit Checker(const graph::Graph& graph) : graph_(graph), shape_(graph) {}

  std::vector<graph::Finding> check() {
    check_rates();
    check_uplinks();
    check_rails();
    check_adapters();
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const graph::Finding& a, const graph::Finding& b) {
                       return std::tie(a.id, a.subject) < std::tie(b.id, b.subject);
                     });
    return std::move(findings_);
  }

 private:
  [[nodiscard]] std::string called(graph::VertexIndex vertex) const {
    const graph::VertexIndex node = graph_.node_of(vertex);
    if (node != graph::kNoVertex || graph_.vertex(vertex).kind == graph::Kind::Nic) {
      return base::printable(graph_.vertex(vertex).id);
    }
    return name_for_people(graph_, vertex);
  }

  // Cables to what is on one leaf are compared with each other, those between switches of a fabric
  // likewise.
  void check_rates() {
    std::map<std::pair<graph::VertexIndex, bool>, std::vector<CableOf>> groups;
    for (std::uint32_t number = 0; number < graph_.links().size(); ++number) {
      const graph::Link& link = graph_.links()[number];
      if (link.kind != graph::LinkKind::Fabric) continue;
      const SwitchShape* const a = shape_.find(link.a);
      const SwitchShape* const b = shape_.find(link.b);
      if (a == nullptr && b == nullptr) continue;
      const bool between = a != nullptr && b != nullptr;
      auto& group = groups[{between ? a->fabric : (a != nullptr ? a : b)->vertex, between}];
      for (const std::string& cable :
           base::split(graph::text_of(graph_, link.facts, graph::key::kCables), ',')) {
        const std::size_t space = cable.rfind(' ');
        if (space == std::string::npos) continue;
        const double megabits = parse_infiniband_rate(std::string_view(cable).substr(space + 1));
        if (megabits > 0) group.push_back({number, cable, megabits});
      }
    }
    for (const auto& [name, cables] : groups) check_rates_of(cables);
  }

  void check_rates_of(const std::vector<CableOf>& cables) {
    std::map<double, int> tally;
    for (const CableOf& cable : cables) ++tally[cable.megabits];
    const double* const most = usual(tally);
    if (most == nullptr) return;
    for (const CableOf& cable : cables) {
      if (cable.megabits >= *most) continue;
      const graph::Link& link = graph_.links()[cable.link];
      const bool a_first = graph_.vertex(link.a).id < graph_.vertex(link.b).id;
      const graph::VertexIndex a = a_first ? link.a : link.b, b = a_first ? link.b : link.a;
      graph::Finding finding;
      finding.id = "fabric.slow_cable";
      finding.subject = called(a) + " – " + called(b);
      finding.words = "a cable runs at " + figure(cable.megabits) +
                      " GB/s where most of its kind " + "run at " + figure(*most) + " GB/s";
      const std::size_t begin = cable.text.find_first_not_of(' ');
      finding.evidence = {{"ports and rate", cable.text.substr(begin)}};
      finding.cost_gb_per_s = (*most - cable.megabits) / kMegabitPerGigabyte;
      finding.remedy =
          "reseat or replace the cable, then reset the port (ibportstate LID PORT reset); if the "
          "adapter is an older one, keep jobs that need the network off it";
      findings_.push_back(std::move(finding));
    }
  }

  static std::string figure(double megabits) {
    char text[40];
    std::snprintf(text, sizeof text, "%.4g", megabits / kMegabitPerGigabyte);
    return text;
  }

  void check_uplinks() {
    std::map<graph::VertexIndex, std::map<int, int>> tallies;  // by fabric
    for (const SwitchShape& one : shape_.switches()) {
      if (one.level == 0 && one.up_cables > 0) ++tallies[one.fabric][one.up_cables];
    }
    for (std::size_t i = 0; i < shape_.switches().size(); ++i) {
      const SwitchShape& leaf = shape_.switches()[i];
      if (leaf.level != 0) continue;
      const int* const most = usual(tallies[leaf.fabric]);
      if (most == nullptr || leaf.up_cables >= *most) continue;
      graph::Finding finding;
      finding.id = "fabric.missing_cables";
      finding.subject = called(leaf.vertex);
      finding.words = "has " + std::to_string(leaf.up_cables) + " cables upwards where most " +
                      "leaves have " + std::to_string(*most);
      finding.evidence = thin_links(i);
      if (leaf.up_cables > 0 && leaf.up_gb_per_s > 0) {
        finding.cost_gb_per_s = leaf.up_gb_per_s / leaf.up_cables * (*most - leaf.up_cables);
      }
      finding.remedy =
          "look at the ports of this switch that have no link; reseat or replace the cables";
      findings_.push_back(std::move(finding));
    }
  }

  // Switches above to which this leaf has fewer cables than to most.
  [[nodiscard]] std::vector<graph::Evidence> thin_links(std::size_t leaf) const {
    std::map<int, int> tally;
    std::map<std::size_t, int> cables;
    const auto& shapes = shape_.switches();
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (shapes[i].fabric == shapes[leaf].fabric && shapes[i].level == 1) cables[i] = 0;
    }
    for (const auto& neighbour : shape_.neighbours(leaf)) {
      const auto found = cables.find(neighbour.shape);
      if (found != cables.end()) found->second += neighbour.cables;
    }
    for (const auto& [above, count] : cables) ++tally[count];
    const int* const most = usual(tally);
    std::vector<graph::Evidence> evidence;
    for (const auto& [above, count] : cables) {
      if (most == nullptr || count >= *most || evidence.size() == kMostListed) continue;
      evidence.push_back({"cables to " + called(shapes[above].vertex),
                          std::to_string(count) + " of " + std::to_string(*most)});
    }
    return evidence;
  }

  // Only of nodes that have an adapter for every rail: those of a management node are plugged in
  // anywhere.
  void check_rails() {
    std::map<graph::VertexIndex, std::set<int>> rails_of;
    for (const auto& end : shape_.attachments()) {
      if (end.rail) rails_of[end.node].insert(*end.rail);
    }
    for (const auto& end : shape_.attachments()) {
      const SwitchShape& leaf = shape_.switches()[end.leaf];
      if (!end.rail || !leaf.rail || *end.rail == *leaf.rail) continue;
      if (rails_of[end.node].size() != shape_.rails().size()) continue;
      graph::Finding finding;
      finding.id = "fabric.wrong_rail";
      finding.subject = called(end.end);
      finding.words = "is plugged into a leaf of rail " + std::to_string(*leaf.rail) + " (" +
                      rail_name(*leaf.rail) + ") and belongs to rail " + std::to_string(*end.rail) +
                      " (" + rail_name(*end.rail) + ")";
      finding.evidence = {{"leaf", called(leaf.vertex)}};
      finding.remedy =
          "swap its cable with the one that is in its place, or rename the adapters; until then "
          "its traffic along the rail crosses the spine";
      findings_.push_back(std::move(finding));
    }
  }
  [[nodiscard]] std::string rail_name(int rail) const {
    return base::printable(shape_.rails()[static_cast<std::size_t>(rail)]);
  }

  void check_adapters() {
    std::set<graph::VertexIndex> unnamed;
    for (const auto& end : shape_.attachments()) {
      if (end.node == graph::kNoVertex) unnamed.insert(end.end);
    }
    if (!unnamed.empty()) {
      graph::Finding finding;
      finding.id = "fabric.unnamed_adapters";
      finding.severity = graph::Severity::Note;
      finding.subject = "fabric";
      finding.words = std::to_string(unnamed.size()) +
                      " adapters name no host, or one that another adapter is in already; their "
                      "nodes are missing in this graph";
      for (const graph::VertexIndex nic : unnamed) {
        if (finding.evidence.size() == kMostListed) break;
        finding.evidence.push_back(
            {called(nic), base::printable(graph::text_of(graph_, graph_.vertex(nic).facts,
                                                         graph::key::kDescription))});
      }
      finding.remedy =
          "start rdma-ndd on these hosts, or give the description of each host as well: adapters "
          "are matched by GUID";
      findings_.push_back(std::move(finding));
    }
    for (const graph::VertexIndex nic : graph_.of_kind(graph::Kind::Nic)) {
      for (const graph::Fact& fact : graph_.vertex(nic).facts) {
        if (fact.key != graph::key::kState || fact.value != graph::Value(std::string("down")) ||
            graph_.sources()[fact.source].source != graph::Source::Ibnetdiscover) {
          continue;
        }
        graph::Finding finding;
        finding.id = "fabric.port_down";
        finding.subject = called(nic);
        finding.words = "no port of this adapter has a link";
        finding.evidence = {{graph_.sources()[fact.source].place, "down"}};
        finding.remedy = "look at its cable and at its port of the switch (ibstat on the host)";
        findings_.push_back(std::move(finding));
      }
    }
  }

  const graph::Graph& graph_;
  const FabricShape shape_;
  std::vector<graph::Finding> findings_;
};

}  // namespace

std::vector<graph::Finding> check_fabric(const graph::Graph& graph) {
  return Checker(graph).check();
}

}  // namespace regatta::topology::fabric
