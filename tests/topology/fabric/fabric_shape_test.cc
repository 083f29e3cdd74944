#include "topology/fabric/fabric_shape.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "tests/shared_data.h"
#include "tests/topology/fabric/rail_fabric.h"
#include "topology/fabric/fabric_findings.h"
#include "topology/fabric/ibnetdiscover.h"

namespace regatta::topology {
namespace {

using regatta::tests::RailFabric;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

graph::Graph shared_dump(const std::string& name) {
  std::ifstream file(regatta::tests::shared_path("topologies/ibnetdiscover") / name);
  std::stringstream text;
  text << file.rdbuf();
  return fabric::read_ibnetdiscover(text.str(), name);
}

const fabric::SwitchShape& shape_of(const graph::Graph& graph, const fabric::FabricShape& shape,
                                    const std::string& name) {
  for (const fabric::SwitchShape& one : shape.switches()) {
    if (fabric::name_for_people(graph, one.vertex) == name) return one;
  }
  ADD_FAILURE() << "no switch " << name;
  return shape.switches().front();
}

TEST(FabricShape, FindsLevelsRailsAndBandwidth) {
  RailFabric fabric{2, 4, 2, 2, 1, "4xNDR", true, -1};
  const graph::Graph graph = fabric::read_ibnetdiscover(fabric.blocks(), "x");
  const fabric::FabricShape shape(graph);
  EXPECT_THAT(shape.rails(), ElementsAre("mlx5_0", "mlx5_1"));
  const fabric::SwitchShape& leaf = shape_of(graph, shape, "leaf1-1");
  EXPECT_EQ(leaf.level, 0);
  EXPECT_EQ(leaf.rail, 1);
  EXPECT_EQ(leaf.adapters, 4);
  EXPECT_EQ(leaf.down_cables, 4);
  EXPECT_EQ(leaf.up_cables, 2);
  EXPECT_EQ(leaf.down_gb_per_s, 200);
  EXPECT_EQ(leaf.up_gb_per_s, 100);
  EXPECT_EQ(leaf.oversubscription(), 2);
  const fabric::SwitchShape& spine = shape_of(graph, shape, "spine0-1");
  EXPECT_EQ(spine.level, 1);
  EXPECT_EQ(spine.rail, std::nullopt);
  EXPECT_EQ(spine.oversubscription(), std::nullopt);
}

TEST(FabricShape, NodesWithOneAdapterHaveNoRails) {
  const graph::Graph graph =
      fabric::read_ibnetdiscover(RailFabric{2, 4, 1, 2, 1, "4xNDR", true, -1}.blocks(), "x");
  const fabric::FabricShape shape(graph);
  EXPECT_THAT(shape.rails(), IsEmpty());
  for (const fabric::SwitchShape& one : shape.switches()) EXPECT_EQ(one.rail, std::nullopt);
}

TEST(FabricShape, PlanesAreRailsToo) {
  RailFabric fabric;
  graph::Graph graph;
  for (fabric.plane = 0; fabric.plane < fabric.rails; ++fabric.plane) {
    graph.merge(fabric::read_ibnetdiscover(fabric.blocks(), std::to_string(fabric.plane)));
  }
  const fabric::FabricShape shape(graph);
  EXPECT_THAT(shape.rails(), SizeIs(2));
  EXPECT_EQ(shape_of(graph, shape, "leaf0-1").rail, 1);
  EXPECT_THAT(shape.groups(graph.of_kind(graph::Kind::Fabric)), SizeIs(1))
      << "one through its nodes";
  EXPECT_THAT(shape.groups({graph.of_kind(graph::Kind::Fabric)[0]}), SizeIs(1));
}

TEST(FabricShape, NotesLevelsAndRailsAsDerived) {
  graph::Graph graph = fabric::read_ibnetdiscover(RailFabric{}.blocks(), "x");
  fabric::note_shape(&graph);
  const std::string before = graph::to_json(graph);
  fabric::note_shape(&graph);
  EXPECT_EQ(graph::to_json(graph), before) << "once more changes nothing";
  const auto& nic = graph.vertex(graph.find("node0003/nic:mlx5_1")).facts;
  EXPECT_EQ(graph::integer_of(graph, nic, graph::key::kRail), 1);
  const graph::Fact* const rail = graph::fact_of(graph, nic, graph::key::kRail);
  EXPECT_EQ(graph.sources()[rail->source].source, graph::Source::Derived);
  const auto& spine = graph.vertex(graph.find("switch:0x0000000000005001")).facts;
  EXPECT_EQ(graph::integer_of(graph, spine, graph::key::kLevel), 1);
}

TEST(FabricShape, FindsRoutes) {
  // 4 hosts of 2 × 50 GB/s below 2 uplinks of 50 GB/s for each leaf.
  const graph::Graph graph = fabric::read_ibnetdiscover(RailFabric{}.blocks(), "x");
  const fabric::FabricShape shape(graph);
  const auto route = [&](const char* a, const char* b) {
    return shape.route(graph.find(a), graph.find(b));
  };
  const auto near = route("node0001", "node0004");
  ASSERT_TRUE(near);
  EXPECT_EQ(near->switches, 1);
  EXPECT_EQ(near->gb_per_s, 100);
  EXPECT_EQ(near->full_gb_per_s, 100) << "through no uplink";
  const auto far = route("node0001", "node0008");
  ASSERT_TRUE(far);
  EXPECT_EQ(far->switches, 3);
  EXPECT_EQ(far->gb_per_s, 100);
  EXPECT_EQ(far->full_gb_per_s, 50) << "four hosts share two uplinks";
  EXPECT_FALSE(route("node0001", "node0001"));

  graph::Graph apart = graph;
  RailFabric other{1, 1, 1, 1, 1, "4xEDR", false, -1};
  std::string text = other.blocks();
  for (std::size_t at = 0; (at = text.find("node0001", at)) != std::string::npos;)
    text[at + 4] = '9';
  for (std::size_t at = 0; (at = text.find("-0000", at)) != std::string::npos;) text[at + 1] = '9';
  apart.merge(fabric::read_ibnetdiscover(text, "y"));
  const fabric::FabricShape two(apart);
  ASSERT_NE(apart.find("node9001"), graph::kNoVertex);
  EXPECT_FALSE(two.route(apart.find("node0001"), apart.find("node9001")));
}

TEST(FabricShape, ComparesNamesByNumber) {
  const char* const names[] = {"",       "a",        "leaf1", "leaf2", "leaf02",
                               "leaf10", "leaf10-1", "leafa", "m"};
  for (std::size_t i = 0; i < std::size(names); ++i) {
    for (std::size_t j = 0; j < std::size(names); ++j) {
      if (std::string(names[i]) == "leaf02" || std::string(names[j]) == "leaf02") continue;
      EXPECT_EQ(fabric::natural_less(names[i], names[j]), i < j) << names[i] << " " << names[j];
    }
  }
  EXPECT_NE(fabric::natural_less("leaf2", "leaf02"), fabric::natural_less("leaf02", "leaf2"))
      << "an order";
}

TEST(FabricText, ShowsTiersAndHostlists) {
  graph::Graph graph = fabric::read_ibnetdiscover(RailFabric{}.blocks(), "x");
  graph.add(graph::Kind::Node, "login1");
  EXPECT_EQ(fabric::fabric_text(graph),
            "fabric:0x0000000000005000 (InfiniBand): 6 switches, 8 nodes, 16 adapters\n"
            "  rail 0: mlx5_0 on 2 leaves\n"
            "  rail 1: mlx5_1 on 2 leaves\n"
            "  level 1: 2 switches spine0-[0-1]\n"
            "    4 nodes node[0001-0004]\n"
            "      2 leaves leaf0-[0-1], rail 0,1, down 200 GB/s, up 100 GB/s (2:1)\n"
            "    4 nodes node[0005-0008]\n"
            "      2 leaves leaf1-[0-1], rail 0,1, down 200 GB/s, up 100 GB/s (2:1)\n"
            "1 node on no known fabric: login1\n");
  EXPECT_EQ(fabric::fabric_text(graph::Graph{}), "");
}

TEST(FabricText, StaysShortAtAThousandNodes) {
  const graph::Graph graph =
      fabric::read_ibnetdiscover(RailFabric{16, 64, 8, 64, 1, "4xNDR", true, -1}.blocks(), "x");
  const std::string text = fabric::fabric_text(graph);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 16 * 2 + 10);
  for (const std::string& line : base::split(text, '\n')) EXPECT_LE(line.size(), 120u) << line;
}

// The findings of a dump in which `from` became `to`, as "id subject".
std::vector<std::string> findings_of(
    RailFabric fabric, const std::vector<std::pair<std::string, std::string>>& edits) {
  std::string text = fabric.blocks();
  for (const auto& [from, to] : edits) {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  }
  std::vector<std::string> found;
  for (const graph::Finding& finding :
       fabric::check_fabric(fabric::read_ibnetdiscover(text, "x"))) {
    found.push_back(finding.id + " " + finding.subject);
    EXPECT_FALSE(finding.words.empty() || finding.remedy.empty() || finding.evidence.empty());
  }
  return found;
}

TEST(FabricFindings, ASoundFabricHasNone) {
  EXPECT_THAT(findings_of(RailFabric{}, {}), IsEmpty());
  EXPECT_THAT(findings_of(RailFabric{3, 4, 1, 2, 2, "4xHDR", false, -1}, {}), IsEmpty());
}

TEST(FabricFindings, TellsWhatDiffersFromTheRest) {
  const RailFabric fabric{4, 4, 2, 2, 1, "4xNDR", true, -1};
  EXPECT_THAT(
      findings_of(fabric, {{"\"node0002 mlx5_0\" lid 9 4xNDR", "\"node0002 mlx5_0\" lid 9 2xNDR"}}),
      ElementsAre("fabric.slow_cable node0002/nic:mlx5_0 – leaf0-0"));
  EXPECT_THAT(findings_of(fabric, {{"node0006 mlx5_1", "MT4129 ConnectX7"}}),
              ElementsAre("fabric.unnamed_adapters fabric"));
  // Two plugs in each other's place.
  EXPECT_THAT(findings_of(fabric, {{"node0003 mlx5_0", "@"},
                                   {"node0003 mlx5_1", "node0003 mlx5_0"},
                                   {"@", "node0003 mlx5_1"}}),
              ElementsAre("fabric.wrong_rail node0003/nic:mlx5_0",
                          "fabric.wrong_rail node0003/nic:mlx5_1"));
}

// A cable of half the rate, and a leaf with two uplinks of 50 GB/s where the others have three: by
// hand 25 and 50 GB/s.
TEST(FabricFindings, TellWhatTheyCost) {
  const RailFabric fabric{4, 4, 2, 3, 1, "4xNDR", false, -1};
  std::string text = fabric.blocks();
  const auto edit = [&text](const std::string& from, const std::string& to) {
    ASSERT_NE(text.find(from), std::string::npos) << from;
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  };
  edit("\"node0002 mlx5_0\" lid 9 4xNDR", "\"node0002 mlx5_0\" lid 9 2xNDR");
  std::vector<std::string> kept;
  bool in_leaf = false, in_spine = false;
  for (const std::string& line : base::split(text, '\n')) {
    if (line.empty()) in_leaf = in_spine = false;
    if (line.rfind("Switch", 0) == 0) {
      in_leaf = line.find("leaf1-0") != std::string::npos;
      in_spine = line.find("spine0-1") != std::string::npos;
    }
    const bool lost =
        line.rfind("[", 0) == 0 && ((in_leaf && line.find("spine0-1") != std::string::npos) ||
                                    (in_spine && line.find("leaf1-0") != std::string::npos));
    if (!lost) kept.push_back(line);
  }
  const auto findings =
      fabric::check_fabric(fabric::read_ibnetdiscover(base::join(kept, "\n") + "\n", "x"));
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[0].id, "fabric.missing_cables");
  EXPECT_EQ(findings[0].subject, "leaf1-0");
  EXPECT_EQ(findings[0].cost_gb_per_s, 50);
  EXPECT_EQ(findings[1].id, "fabric.slow_cable");
  EXPECT_EQ(findings[1].cost_gb_per_s, 25);
}

TEST(FabricFindings, OfTheSharedDumps) {
  REGATTA_NEED_SHARED("topologies/ibnetdiscover");
  const struct {
    const char* file;
    std::map<std::string, int> findings;
  } rows[] = {
      // One node has the plugs of two rails in each other's place.
      {"topograph-dgx-ndr-fabric.out",
       {{"fabric.missing_cables", 12}, {"fabric.wrong_rail", 2}, {"fabric.unnamed_adapters", 1}}},
      {"netloc-plafrim2-subnet0-ports-format.txt", {{"fabric.missing_cables", 1}}},
      {"netloc-plafrim2-subnet1-ports-format.txt",
       {{"fabric.slow_cable", 1}, {"fabric.unnamed_adapters", 1}}},
  };
  for (const auto& row : rows) {
    std::map<std::string, int> found;
    for (const graph::Finding& finding : fabric::check_fabric(shared_dump(row.file)))
      ++found[finding.id];
    EXPECT_EQ(found, row.findings) << row.file;
  }
}

TEST(FabricShape, OfTheSharedDumps) {
  REGATTA_NEED_SHARED("topologies/ibnetdiscover");
  const struct {
    const char* file;
    int leaves, above;
    std::size_t rails;
    std::size_t groups;  // of leaves that share nodes
  } rows[] = {{"topograph-dgx-ndr-fabric.out", 31, 9, 4, 8},
              {"netloc-plafrim2-subnet0-ports-format.txt", 5, 2, 0, 5},
              {"netloc-plafrim2-subnet1-ports-format.txt", 1, 0, 0, 0}};
  for (const auto& row : rows) {
    const graph::Graph graph = shared_dump(row.file);
    const fabric::FabricShape shape(graph);
    int leaves = 0, above = 0;
    for (const fabric::SwitchShape& one : shape.switches()) (one.level == 0 ? leaves : above) += 1;
    EXPECT_EQ(leaves, row.leaves) << row.file;
    EXPECT_EQ(above, row.above) << row.file;
    EXPECT_THAT(shape.rails(), SizeIs(row.rails)) << row.file;
    const auto groups = shape.groups(graph.of_kind(graph::Kind::Fabric));
    ASSERT_THAT(groups, SizeIs(1)) << row.file;
    EXPECT_THAT(groups[0].below, SizeIs(row.groups)) << row.file;
  }
  // 31 leaves of 17 or 18 hosts; the first of the dump: 17 × 50 down, 16 × 50 up.
  const graph::Graph graph = shared_dump("topograph-dgx-ndr-fabric.out");
  const fabric::FabricShape shape(graph);
  const fabric::SwitchShape& leaf = shape_of(graph, shape, "A09-P1-IBLEAF-04-04");
  EXPECT_EQ(leaf.rail, 3);
  EXPECT_EQ(leaf.down_gb_per_s, 850);
  EXPECT_EQ(leaf.up_gb_per_s, 800);
  const auto route = shape.route(graph.find("a08-p1-dgx-04-c01"), graph.find("b05-p1-dgx-05-c18"));
  ASSERT_TRUE(route);
  EXPECT_EQ(route->switches, 3);
  EXPECT_EQ(route->gb_per_s, 200);
}

}  // namespace
}  // namespace regatta::topology
