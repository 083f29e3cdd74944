#include "topology/fabric/ibnetdiscover.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "tests/shared_data.h"
#include "tests/topology/fabric/rail_fabric.h"

namespace regatta::topology {
namespace {

using regatta::tests::RailFabric;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string fact(const graph::Graph& graph, const std::string& id, const char* key) {
  const graph::VertexIndex vertex = graph.find(id);
  if (vertex == graph::kNoVertex) return "no such vertex";
  const graph::Fact* const found = graph::fact_of(graph, graph.vertex(vertex).facts, key);
  if (found == nullptr) return "";
  if (const auto* number = std::get_if<std::int64_t>(&found->value)) return std::to_string(*number);
  return graph::text_of(graph, graph.vertex(vertex).facts, key);
}

std::string refusal(const std::string& text) {
  try {
    (void)fabric::read_ibnetdiscover(text, "ib.txt");
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_EQ(base::printable(error.what()), error.what());
    return error.what();
  }
  return "nothing refused";
}

// Cables by rate, each counted once.
std::map<std::string, int> cables_of(const graph::Graph& graph) {
  std::map<std::string, int> rates;
  for (const graph::Link& link : graph.links()) {
    for (const std::string& cable :
         base::split(graph::text_of(graph, link.facts, graph::key::kCables), ',')) {
      ++rates[cable.substr(cable.rfind(' ') + 1)];
    }
  }
  return rates;
}

constexpr const char* kSmall =
    "#\n# Topology file\n#\nvendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xA1\n"
    "switchguid=0xa1(a1)\n"
    "Switch\t40 \"S-00000000000000A1\"\t\t# \"MF0;leaf1:MQM8700/U1\" enhanced port 0 lid 3 lmc 0\n"
    "[1]\t\"H-00000000000000c1\"[1](c1) \t\t# \"n1 mlx5_0\" lid 11 4xHDR\n"
    "[2]\t\"H-00000000000000c2\"[1](c2) \t\t# \"n2 HCA-1\" lid 12 2xHDR s=2 w=4 v=1 e=0\n"
    "[3]    \"S-00000000000000a2\"[1]  # \"a \"quoted\" spine\" lid 4 4xHDR\n"
    "[4]\t\"S-00000000000000a2\"[2]\t\t# \"a \"quoted\" spine\" lid 4 4xEDR\n"
    "[41]\t\"H-00000000000000f1\"[1](f1) \t\t# \"Mellanox Technologies Aggregation Node\" lid 9 "
    "4xHDR\n"
    "\nvendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xa2\nswitchguid=0xa2(a2)\n"
    "Switch\t36 \"S-00000000000000a2\"\t\t# \"a \"quoted\" spine\" base port 0 lid 4 lmc 0\n"
    "[1]\t\"S-00000000000000a1\"[3]\t\t# \"MF0;leaf1:MQM8700/U1\" lid 3 4xHDR\n"
    "[2]\t\"S-00000000000000a1\"[4]\t\t# \"MF0;leaf1:MQM8700/U1\" lid 3 4xEDR\n"
    "\ndevid=0x1017\ncaguid=0xc1\n"
    "Ca\t1 \"H-00000000000000c1\"\t\t# \"n1 mlx5_0\"\n"
    "[1](c1) \t\"S-00000000000000a1\"[1]\t\t# lid 11 lmc 0 \"MF0;leaf1:MQM8700/U1\" lid 3 4xHDR\n"
    "\ndevid=0x1017\ncaguid=0xc2\n"
    "Ca\t2 \"H-00000000000000c2\"\t\t# \"n2 HCA-1\"\n"
    "[1](c2) \t\"S-00000000000000a1\"[2]\t\t# lid 12 lmc 0 \"MF0;leaf1:MQM8700/U1\" lid 3 2xHDR\n"
    "\ndevid=0xcf09\ncaguid=0xf1\n"
    "Ca\t1 \"H-00000000000000f1\"\t\t# \"renamed by somebody\"\n"
    "[1](f1) \t\"S-00000000000000a1\"[41]\t\t# lid 9 lmc 0 \"MF0;leaf1:MQM8700/U1\" lid 3 4xHDR\n"
    "\ndevid=0x1017\ncaguid=0xc3\n"
    "Ca\t1 \"H-00000000000000c3\"\t\t# \"n1 mlx5_1\"\n";

TEST(Ibnetdiscover, ReadsBlocks) {
  const graph::Graph graph = fabric::read_ibnetdiscover(kSmall, "ib.txt");
  EXPECT_THAT(graph.of_kind(graph::Kind::Fabric), SizeIs(1));
  EXPECT_THAT(graph.of_kind(graph::Kind::FabricSwitch), SizeIs(2));
  EXPECT_THAT(graph.of_kind(graph::Kind::Node), SizeIs(2));
  EXPECT_THAT(graph.of_kind(graph::Kind::Nic), SizeIs(3))
      << "an aggregation node is not an adapter";
  const std::string leaf = "switch:0x00000000000000a1";
  const struct {
    std::string id;
    const char* key;
    const char* value;
  } facts[] = {
      {leaf, graph::key::kName, "leaf1"},
      {leaf, graph::key::kModel, "MQM8700"},
      {leaf, graph::key::kGuid, "0x00000000000000a1"},
      {leaf, graph::key::kLid, "3"},
      {leaf, graph::key::kPorts, "40"},
      {leaf, graph::key::kPortsUnlinked, "35"},
      {leaf, graph::key::kSharp, "1"},
      {"switch:0x00000000000000a2", graph::key::kName, "a \"quoted\" spine"},
      {"switch:0x00000000000000a2", graph::key::kSharp, ""},
      {"n1/nic:mlx5_0", graph::key::kGuid, "0x00000000000000c1"},
      {"n1/nic:mlx5_0", graph::key::kPortGuid, "0x00000000000000c1"},
      {"n1/nic:mlx5_0", graph::key::kName, "mlx5_0"},
      {"n1/nic:mlx5_0", graph::key::kSpeed, "200000"},
      {"n1/nic:mlx5_0", graph::key::kLid, "11"},
      {"n1/nic:mlx5_0", graph::key::kState, "active"},
      {"n1/nic:mlx5_1", graph::key::kState, "down"},
      {"n2/nic:HCA-1", graph::key::kName, ""},
      {"n2/nic:HCA-1", graph::key::kDescription, "n2 HCA-1"},
      {"n2/nic:HCA-1", graph::key::kSpeed, "100000"},
  };
  for (const auto& row : facts)
    EXPECT_EQ(fact(graph, row.id, row.key), row.value) << row.id << row.key;

  EXPECT_EQ(graph.vertex(graph.vertex(graph.find(leaf)).parent).id, "fabric:0x00000000000000a1");
  const auto uplink = graph.find_link(graph::LinkKind::Fabric, graph.find(leaf),
                                      graph.find("switch:0x00000000000000a2"));
  ASSERT_TRUE(uplink);
  const auto& facts_of_link = graph.links()[*uplink].facts;
  EXPECT_EQ(graph::number_of(graph, facts_of_link, graph::key::kBandwidth), 37.5);
  EXPECT_EQ(graph::integer_of(graph, facts_of_link, graph::key::kCount), 2);
  EXPECT_EQ(graph::text_of(graph, facts_of_link, graph::key::kRate), "4xHDR,4xEDR");
  EXPECT_EQ(graph::text_of(graph, facts_of_link, graph::key::kCables), "3-1 4xHDR, 4-2 4xEDR");
}

constexpr const char* kUnanswered =
    "src/ibnetdisc.c:811; umad (DR path slid 65535; dlid 65535; 0,1,31 Attr 0x11:0) bad status "
    "110; "
    "Connection timed out\n";

std::string without(std::string text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  base::check(from != std::string::npos, "the text to leave out is there");
  return text.erase(from, text.find(end, from) - from);
}

TEST(Ibnetdiscover, AnAggregationNodeWithoutBlockIsLeftOut) {
  const std::string text = without(kSmall, "\ndevid=0xcf09", "\ndevid=0x1017\ncaguid=0xc3");
  EXPECT_THAT(refusal(text), HasSubstr("of which the text says nothing"));
  std::vector<graph::Finding> findings;
  const graph::Graph graph = fabric::read_ibnetdiscover(text, "ib.txt", &findings);
  EXPECT_EQ(graph::to_json(graph), graph::to_json(fabric::read_ibnetdiscover(kSmall, "ib.txt")))
      << "its switch reduces, and its port is in use";
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].id, "reading.skipped");
  EXPECT_EQ(findings[0].severity, graph::Severity::Note);
  EXPECT_THAT(findings[0].words,
              HasSubstr("ib.txt:13: port 41 of 'MF0;leaf1:MQM8700/U1' (0x00000000000000a1) leads"));
  EXPECT_THAT(findings[0].words, HasSubstr("1 of these left out"));
}

TEST(Ibnetdiscover, OnlyAggregationNodesMayBeMissing) {
  // An adapter's block, one of two ends of a cable, and a node of which nothing tells what it is.
  const std::string rows[] = {
      without(kSmall, "\ndevid=0x1017\ncaguid=0xc1", "\ndevid=0x1017\ncaguid=0xc2"),
      without(kSmall, "[1](f1)", "\n"),
      without(std::string(kSmall).replace(std::string(kSmall).find("Mellanox Technologies"), 37,
                                          "renamed by somebody"),
              "\ndevid=0xcf09", "\ndevid=0x1017\ncaguid=0xc3"),
  };
  for (const std::string& text : rows) {
    std::vector<graph::Finding> findings;
    EXPECT_THROW((void)fabric::read_ibnetdiscover(text, "ib.txt", &findings), base::Error) << text;
  }
}

TEST(Ibnetdiscover, MessagesOfDevicesThatDidNotAnswerAreCounted) {
  const std::string block = "vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xa2";
  for (const char* const message :
       {kUnanswered,
        "ibwarn: [2873] mad_rpc: _do_madrpc failed; dport (DR path slid 0; dlid 0; 0,1)\n",
        "ibpanic: [2873] main: discover failed\n"}) {
    EXPECT_THAT(refusal(message + std::string(kSmall)), HasSubstr("ib.txt:1: is not a line of"));
    // Before the text, between two ports of a switch, and behind all of it.
    std::string text = kSmall;
    text.insert(text.find("[3]"), message);
    text = message + text + message;
    std::vector<graph::Finding> findings;
    const graph::Graph graph = fabric::read_ibnetdiscover(text, "ib.txt", &findings);
    EXPECT_EQ(graph::to_json(graph), graph::to_json(fabric::read_ibnetdiscover(kSmall, "ib.txt")))
        << message;
    ASSERT_THAT(findings, SizeIs(1)) << message;
    EXPECT_EQ(findings[0].id, "reading.skipped");
    EXPECT_THAT(findings[0].words, HasSubstr("ib.txt:1: "));
    EXPECT_THAT(findings[0].words, HasSubstr("3 of its messages left out"));
  }
  std::vector<graph::Finding> findings;
  EXPECT_THROW((void)fabric::read_ibnetdiscover(kUnanswered, "ib.txt", &findings), base::Error)
      << "and nothing else";
}

TEST(Ibnetdiscover, APublicFabricWithAMessageIsTheSame) {
  REGATTA_NEED_SHARED("topologies/ibnetdiscover");
  for (const char* const name :
       {"topograph-dgx-ndr-fabric.out", "netloc-plafrim2-subnet0-ports-format.txt"}) {
    const std::string whole = read_text(tests::shared_path("topologies/ibnetdiscover") / name);
    const std::size_t middle = whole.find('\n', whole.size() / 2) + 1;
    std::vector<graph::Finding> findings;
    const graph::Graph graph = fabric::read_ibnetdiscover(
        whole.substr(0, middle) + kUnanswered + whole.substr(middle), "ib.txt", &findings);
    EXPECT_EQ(graph::to_json(graph), graph::to_json(fabric::read_ibnetdiscover(whole, "ib.txt")))
        << name;
    EXPECT_THAT(findings, SizeIs(1)) << name;
  }
}

TEST(Ibnetdiscover, APublicFabricLosesOneAggregationNode) {
  REGATTA_NEED_SHARED("topologies/ibnetdiscover");
  const std::string whole =
      read_text(tests::shared_path("topologies/ibnetdiscover/topograph-dgx-ndr-fabric.out"));
  const std::size_t name = whole.find("Mellanox Technologies Aggregation Node\"\n");
  ASSERT_NE(name, std::string::npos);
  const std::size_t begin = whole.rfind("vendid=", name);
  const std::size_t end = std::min(whole.find("vendid=", name), whole.size());
  std::vector<graph::Finding> findings;
  const graph::Graph graph =
      fabric::read_ibnetdiscover(whole.substr(0, begin) + whole.substr(end), "ib.txt", &findings);
  EXPECT_EQ(graph::to_json(graph), graph::to_json(fabric::read_ibnetdiscover(whole, "ib.txt")));
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].words, HasSubstr("1 of these left out"));
}

TEST(Ibnetdiscover, ReadsAdapterNames) {
  const struct {
    const char* description;
    const char* host;
    const char* device;
  } rows[] = {
      {"node01 mlx5_5", "node01", "mlx5_5"},
      {"a08-p1-dgx-04-c01 HCA-6", "a08-p1-dgx-04-c01", "HCA-6"},
      {"n1.example.org  ibp12s0", "n1.example.org", "ibp12s0"},
      {"n1 mlx5_bond_0", "n1", "mlx5_bond_0"},
      {"localhost HCA-1", "", "HCA-1"},
      {"localhost.localdomain mlx5_0", "", "mlx5_0"},
      {"MT4129 ConnectX7   Mellanox Technologies", "", ""},
      {"MT25408 ConnectX Mellanox Technologies", "", ""},
      {"Mellanox Technologies", "", ""},
      {"MT4129 ConnectX7", "", ""},
      {"node01", "", ""},
      {"", "", ""},
      {" ", "", ""},
      {"-rf mlx5_0", "", ""},
      {"a;b mlx5_0", "", ""},
  };
  for (const auto& row : rows) {
    const fabric::AdapterName name = fabric::parse_adapter_name(row.description);
    EXPECT_EQ(name.host, row.host) << row.description;
    EXPECT_EQ(name.device, row.device) << row.description;
  }
}

TEST(Ibnetdiscover, ReadsRates) {
  const struct {
    const char* rate;
    double megabits;
  } rows[] = {{"4xNDR", 400'000},
              {"4xXDR", 800'000},
              {"2xHDR", 100'000},
              {"4xFDR10", 40'000},
              {"4xFDR", 56'000},
              {"12xQDR", 120'000},
              {"1xSDR", 2500},
              {"4x???", 0},
              {"4x", 0},
              {"xNDR", 0},
              {"", 0},
              {"99xNDR", 0},
              {"4xNDRx", 0},
              {"-4xNDR", 0}};
  for (const auto& row : rows)
    EXPECT_EQ(fabric::parse_infiniband_rate(row.rate), row.megabits) << row.rate;
}

TEST(Ibnetdiscover, BothFormsTellTheSame) {
  const RailFabric fabric;
  const graph::Graph blocks = fabric::read_ibnetdiscover(fabric.blocks(), "x");
  const graph::Graph ports = fabric::read_ibnetdiscover(fabric.ports(), "x");
  for (const graph::Graph* graph : {&blocks, &ports}) {
    EXPECT_THAT(graph->of_kind(graph::Kind::FabricSwitch), SizeIs(6));
    EXPECT_THAT(graph->of_kind(graph::Kind::Nic), SizeIs(16));
    EXPECT_THAT(graph->of_kind(graph::Kind::Node), SizeIs(8));
    EXPECT_THAT(graph->links(), SizeIs(16 + 8));
    EXPECT_EQ(fact(*graph, "switch:0x0000000000005000", graph::key::kSharp), "1");
  }
  EXPECT_EQ(graph::fingerprint(blocks), graph::fingerprint(ports));
}

TEST(Ibnetdiscover, AnAdapterWithTwoPortsIsOneInListsOfPorts) {
  const std::string text =
      "SW 1 1 0xa1 4x EDR - CA 5 1 0xc1 ( 'leaf' - 'n1 mlx4_0' )\n"
      "SW 1 2 0xa1 4x EDR - CA 6 2 0xc2 ( 'leaf' - 'n1 mlx4_0' )\n"
      "SW 1 3 0xa1 4x EDR - CA 7 1 0xd1 ( 'leaf' - 'n1 mlx4_0' )\n"
      "SW 1 4 0xa1 1x SDR                       'leaf'\n"
      "CA 5 1 0xc1 4x EDR - SW 1 1 0xa1 ( 'n1 mlx4_0' - 'leaf' )\n"
      "CA 6 2 0xc2 4x EDR - SW 1 2 0xa1 ( 'n1 mlx4_0' - 'leaf' )\n"
      "CA 7 1 0xd1 4x EDR - SW 1 3 0xa1 ( 'n1 mlx4_0' - 'leaf' )\n"
      "CA 8 1 0xe1 4x EDR                       'n2 mlx4_0'\n";
  const graph::Graph graph = fabric::read_ibnetdiscover(text, "x");
  EXPECT_THAT(graph.of_kind(graph::Kind::Nic), SizeIs(3))
      << "the third calls itself like another one";
  EXPECT_NE(graph.find("nic:0x00000000000000d1"), graph::kNoVertex);
  EXPECT_EQ(fact(graph, "n1/nic:mlx4_0", graph::key::kPortGuid), "0x00000000000000c1");
  EXPECT_EQ(fact(graph, "switch:0x00000000000000a1", graph::key::kPorts), "4");
  EXPECT_EQ(fact(graph, "switch:0x00000000000000a1", graph::key::kPortsUnlinked), "1");
  EXPECT_EQ(fact(graph, "n2/nic:mlx4_0", graph::key::kState), "down");
  EXPECT_THAT(graph.of_kind(graph::Kind::Fabric), SizeIs(1));
  const auto link = graph.find_link(graph::LinkKind::Fabric, graph.find("n1/nic:mlx4_0"),
                                    graph.of_kind(graph::Kind::FabricSwitch)[0]);
  ASSERT_TRUE(link);
  EXPECT_EQ(graph::integer_of(graph, graph.links()[*link].facts, graph::key::kCount), 2);
}

TEST(Ibnetdiscover, SeparatePartsAreSeparateFabrics) {
  RailFabric fabric;
  graph::Graph graph;
  for (fabric.plane = 0; fabric.plane < fabric.rails; ++fabric.plane) {
    graph.merge(
        fabric::read_ibnetdiscover(fabric.blocks(), "plane" + std::to_string(fabric.plane)));
  }
  EXPECT_THAT(graph.of_kind(graph::Kind::Fabric), SizeIs(2));
  EXPECT_THAT(graph.of_kind(graph::Kind::Node), SizeIs(8)) << "each with an adapter in both";
  EXPECT_THAT(graph.of_kind(graph::Kind::Nic), SizeIs(16));
  EXPECT_THAT(graph.of_kind(graph::Kind::FabricSwitch), SizeIs(8));
  EXPECT_THAT(graph::check_graph(graph), IsEmpty());

  // The same planes in one text are as separate.
  std::string both;
  for (fabric.plane = 0; fabric.plane < fabric.rails; ++fabric.plane) both += fabric.blocks();
  EXPECT_EQ(graph::fingerprint(fabric::read_ibnetdiscover(both, "x")), graph::fingerprint(graph));

  // And the same again from another node of the same subnet adds nothing.
  const std::size_t links = graph.links().size();
  fabric.plane = 0;
  graph.merge(fabric::read_ibnetdiscover(fabric.blocks(), "another node"));
  EXPECT_THAT(graph.of_kind(graph::Kind::Fabric), SizeIs(2));
  EXPECT_EQ(graph.links().size(), links);
}

TEST(Ibnetdiscover, JoinsAdaptersThatNameNoHost) {
  std::string text = RailFabric{}.blocks();
  for (std::size_t at = 0; (at = text.find("node0002 mlx5_1", at)) != std::string::npos;) {
    text.replace(at, 15, "MT4129 ConnectX7   Mellanox Technologies");
  }
  graph::Graph graph = fabric::read_ibnetdiscover(text, "x");
  const std::string guid = "0x" + RailFabric::hex(0x1000000 + 2 * 16 + 1);
  ASSERT_NE(graph.find("nic:" + guid), graph::kNoVertex);
  graph::Graph host;
  const auto source = host.add_source(graph::Source::Sysfs, "node0002");
  const graph::VertexIndex nic =
      host.add(graph::Kind::Nic, "node0002/nic:mlx5_1", host.add(graph::Kind::Node, "node0002"));
  host.set(nic, graph::key::kGuid, guid, source);
  host.set(nic, graph::key::kSpeed, std::int64_t{400'000}, source);
  graph.merge(host);
  EXPECT_EQ(graph.find("nic:" + guid), graph::kNoVertex);
  const graph::VertexIndex joined = graph.find("node0002/nic:mlx5_1");
  ASSERT_NE(joined, graph::kNoVertex);
  EXPECT_EQ(graph.vertex(graph.node_of(joined)).id, "node0002");
  EXPECT_TRUE(
      graph.find_link(graph::LinkKind::Fabric, joined, graph.find("switch:0x0000000000010001")));
  EXPECT_THAT(graph::check_graph(graph), IsEmpty());
}

TEST(Ibnetdiscover, RefusesWhatIsNone) {
  const std::string header = "Switch\t8 \"S-a1\"\t\t# \"leaf\" base port 0 lid 3 lmc 0\n";
  const std::string port = "[1]\t\"H-c1\"[1](c1) \t\t# \"n1 mlx5_0\" lid 11 4xHDR\n";
  const std::string adapter = "Ca\t1 \"H-c1\"\t\t# \"n1 mlx5_0\"\n";
  const std::string back = "[1](c1) \t\"S-a1\"[1]\t\t# lid 11 lmc 0 \"leaf\" lid 3 4xHDR\n";
  ASSERT_EQ(refusal(header + port + adapter + back), "nothing refused");
  const struct {
    const char* name;
    std::string text;
    const char* why;
  } rows[] = {
      {"nothing", "", "ib.txt: holds no switch and no adapter"},
      {"comments", "#\n# Topology file\n", "holds no switch and no adapter"},
      {"another tool", "CA 'mlx5_0'\n\tCA type: MT4129\n",
       "ib.txt:1: is not a line of ibnetdiscover"},
      {"prose", "ibnetdiscover: Failed to open umad port\n", "ib.txt:1: is not a line"},
      {"escape", "\x1b[31m\n", "\\x1b[31m"},
      {"adapter alone", "caguid=0xc1\n" + adapter, "ib.txt:2: the discovery saw only 'n1 mlx5_0'"},
      {"switch alone", header, "saw only 'leaf'"},
      {"port alone", port, "begins too late"},
      {"port after attributes", header + "vendid=0x2c9\n" + port, "ib.txt:3: a port outside"},
      {"cut after the switch", header + port, "of which the text says nothing; it is cut off"},
      {"cut after the adapter", header + port + adapter, "does not lead back"},
      {"another port",
       header + port + adapter + "[1](c1) \"S-a1\"[2] # lid 1 lmc 0 \"l\" lid 3 4xHDR\n",
       "does not lead back"},
      {"no rate", header + "[1]\t\"H-c1\"[1](c1) \t\t# \"n1 mlx5_0\" lid 11\n", "without a rate"},
      {"cut in a line", header + "[1]\t\"H-c1\"[1](c1) \t\t# \"n1 ml", "ib.txt:2: is not a line"},
      {"cut in a key", header + "[1]\t\"H-c1", "is not a line"},
      {"port 300", header + "[300]\t\"H-c1\"[1](c1) # \"n1 mlx5_0\" lid 11 4xHDR\n",
       "is not a line"},
      {"port twice", header + port + port + adapter + back, "ib.txt:3: a second line for port 1"},
      {"block twice", header + header, "ib.txt:2: a second block of S-0x00000000000000a1"},
      {"no GUID", "Switch\t8 \"S-\"\t# \"leaf\" base port 0 lid 3 lmc 0\n", "is not a line"},
      {"GUID too long", "Switch\t8 \"S-12345678901234567\"\t# \"l\" base\n", "is not a line"},
      {"no description", "Switch\t8 \"S-a1\"\n", "is not a line"},
      {"both forms", header + "SW 1 1 0xa1 4x EDR 'leaf'\n", "ib.txt:2: is not a line"},
      {"list without peer", "SW 1 1 0xa1 4x EDR - CA 5 1 0xc1 ( 'leaf' - 'n1 mlx4_0' )\n",
       "it is cut off"},
      {"list cut in a line", "SW 1 1 0xa1 4x EDR - CA 5 1\n", "is not a line"},
      {"list without width", "SW 1 1 0xa1 EDR 'leaf'\n", "is not a line"},
      {"list without name", "SW 1 1 0xa1 4x EDR\n", "is not a line"},
      {"list without links", "SW 1 1 0xa1 1x SDR 'leaf'\n", "saw only 'leaf'"},
      {"list with a bad GUID", "SW 1 1 0xzz 4x EDR 'leaf'\n", "is not a line"},
  };
  for (const auto& row : rows) EXPECT_THAT(refusal(row.text), HasSubstr(row.why)) << row.name;
}

// Wherever a text is cut off, it is refused.
TEST(Ibnetdiscover, EveryCutIsNoticed) {
  const std::string text = RailFabric{1, 2, 1, 1, 1, "4xNDR", false, -1}.blocks();
  // "4xN" is a rate, if an unknown one, and so ends a whole line.
  for (std::size_t size = 0; size + 3 < text.size(); ++size) {
    EXPECT_NE(refusal(text.substr(0, size)), "nothing refused") << size;
  }
  EXPECT_EQ(refusal(text), "nothing refused");
}

struct SharedDump {
  const char* file;
  std::size_t switches, nodes, adapters, unnamed;
  std::map<std::string, int> cables;  // SHARP's own are none
};

TEST(Ibnetdiscover, ReadsSharedDumps) {
  REGATTA_NEED_SHARED("topologies/ibnetdiscover");
  const SharedDump rows[] = {
      // 582 adapters in the text, 40 of them aggregation nodes; 2228 lines, two for each cable.
      {"topograph-dgx-ndr-fabric.out", 40, 121, 542, 72, {{"4xNDR", 2228 / 2 - 40}}},
      {"netloc-plafrim2-subnet0-ports-format.txt", 7, 96, 96, 0, {{"4xQDR", 96 + 59}}},
      {"netloc-plafrim2-subnet1-ports-format.txt", 1, 2, 23, 21, {{"4xQDR", 22}, {"4xSDR", 1}}},
  };
  for (const SharedDump& row : rows) {
    const auto path = regatta::tests::shared_path("topologies/ibnetdiscover") / row.file;
    const graph::Graph graph = fabric::read_ibnetdiscover(read_text(path), row.file);
    EXPECT_THAT(graph.of_kind(graph::Kind::Fabric), SizeIs(1)) << row.file;
    EXPECT_THAT(graph.of_kind(graph::Kind::FabricSwitch), SizeIs(row.switches)) << row.file;
    EXPECT_THAT(graph.of_kind(graph::Kind::Node), SizeIs(row.nodes)) << row.file;
    EXPECT_THAT(graph.of_kind(graph::Kind::Nic), SizeIs(row.adapters)) << row.file;
    std::size_t unnamed = 0;
    for (const graph::VertexIndex nic : graph.of_kind(graph::Kind::Nic)) {
      unnamed += graph.node_of(nic) == graph::kNoVertex ? 1 : 0;
    }
    EXPECT_EQ(unnamed, row.unnamed) << row.file;
    EXPECT_EQ(cables_of(graph), row.cables) << row.file;
    EXPECT_EQ(graph::to_json(graph::parse_graph(graph::to_json(graph), "again")),
              graph::to_json(graph))
        << row.file;
  }
}

TEST(Ibnetdiscover, RefusesTheSharedDumpThatSawNothing) {
  REGATTA_NEED_SHARED("topologies/ibnetdiscover");
  const auto path =
      regatta::tests::shared_path("topologies/ibnetdiscover/topograph-truncated-bad.out");
  EXPECT_THAT(refusal(read_text(path)),
              HasSubstr("the discovery saw only 'dgx-gb200-n01-c1 HCA-1' (0xb8e92403009ca838)"));
}

std::uint64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

// Prints seconds; compares nothing with a clock.
TEST(Ibnetdiscover, ReadsAThousandNodes) {
  const RailFabric fabric{16, 64, 8, 64, 1, "4xNDR", true, -1};
  for (const auto& [form, text] :
       {std::pair("blocks", fabric.blocks()), std::pair("ports", fabric.ports())}) {
    const auto start = std::chrono::steady_clock::now();
    const graph::Graph graph = fabric::read_ibnetdiscover(text, "x");
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << form << ": " << base::human_bytes(text.size()) << " in " << seconds.count()
              << " s, peak memory of this process " << base::human_bytes(peak_bytes()) << "\n";
    EXPECT_THAT(graph.of_kind(graph::Kind::Node), SizeIs(1024));
    EXPECT_THAT(graph.of_kind(graph::Kind::Nic), SizeIs(8192));
    EXPECT_THAT(graph.of_kind(graph::Kind::FabricSwitch), SizeIs(128 + 64));
    EXPECT_THAT(graph.links(), SizeIs(8192 + 128 * 64));
  }
}

}  // namespace
}  // namespace regatta::topology
