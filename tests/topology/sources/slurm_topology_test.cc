#include "topology/sources/slurm_topology.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "tests/shared_data.h"
#include "tests/topology/fabric/rail_fabric.h"
#include "topology/fabric/fabric_shape.h"
#include "topology/fabric/ibnetdiscover.h"

namespace regatta::topology {
namespace {

using regatta::tests::RailFabric;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

using Read = graph::Graph (*)(std::string_view, const std::string&);

std::string refusal(Read read, const std::string& text) {
  try {
    (void)read(text, "t");
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_EQ(base::printable(error.what()), error.what());
    return error.what();
  }
  return "nothing refused";
}

std::string fact(const graph::Graph& graph, const std::string& id, const char* key) {
  const graph::VertexIndex vertex = graph.find(id);
  if (vertex == graph::kNoVertex) return "no such vertex";
  const graph::Fact* const found = graph::fact_of(graph, graph.vertex(vertex).facts, key);
  if (found == nullptr) return "";
  if (const auto* number = std::get_if<std::int64_t>(&found->value)) return std::to_string(*number);
  return graph::text_of(graph, graph.vertex(vertex).facts, key);
}

TEST(TopologyConf, ReadsTrees) {
  const graph::Graph graph = sources::read_topology_conf(
      "# a comment\n\n"
      "SwitchName=top Switches=s[0-1] LinkSpeed=100 # before its children\n"
      "# s0=MF0;leaf zero\n"
      "switchname=s0 NODES=n[01-03]\r\n"
      "SwitchName=s1 \\\n  Nodes=\"n04,n05\"\n"
      "SwitchName=alone Nodes=n[05-06]\n",
      "t.conf");
  EXPECT_THAT(graph.of_kind(graph::Kind::FabricSwitch), SizeIs(4));
  EXPECT_THAT(graph.of_kind(graph::Kind::Node), SizeIs(6));
  EXPECT_THAT(graph.links(), SizeIs(2 + 3 + 2 + 2)) << "n05 is on two leaves";
  EXPECT_EQ(fact(graph, "fabric:slurm", graph::key::kTopology), "tree");
  EXPECT_EQ(fact(graph, "switch:top", graph::key::kLevel), "1");
  EXPECT_EQ(fact(graph, "switch:s0", graph::key::kLevel), "0");
  EXPECT_EQ(fact(graph, "switch:s0", graph::key::kDescription), "MF0;leaf zero");
  EXPECT_EQ(fact(graph, "switch:s1", graph::key::kDescription), "");
  EXPECT_TRUE(graph.find_link(graph::LinkKind::Fabric, graph.find("switch:s1"), graph.find("n05")));
  const fabric::FabricShape shape(graph);
  const auto route = [&](const char* a, const char* b) {
    const auto found = shape.route(graph.find(a), graph.find(b));
    return found ? found->switches : -1;
  };
  EXPECT_EQ(route("n01", "n02"), 1);
  EXPECT_EQ(route("n01", "n04"), 3);
  EXPECT_EQ(route("n04", "n06"), -1);
  EXPECT_EQ(route("n04", "n05"), 1);
}

TEST(TopologyConf, ReadsBlocks) {
  const graph::Graph graph = sources::read_topology_conf(
      "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes=4,8\n", "t.conf");
  EXPECT_EQ(fact(graph, "fabric:slurm", graph::key::kTopology), "block");
  EXPECT_EQ(fact(graph, "fabric:slurm", graph::key::kBlockSizes), "4,8");
  EXPECT_THAT(graph.of_kind(graph::Kind::FabricSwitch), SizeIs(2));
  EXPECT_THAT(graph.links(), SizeIs(8));
}

TEST(TopologyConf, RefusesWhatSlurmDoes) {
  std::string many;
  for (int i = 0; i < 5; ++i) many += "SwitchName=s" + std::to_string(i) + " Nodes=n[0-65535]\n";
  const struct {
    const char* name;
    std::string text;
    const char* why;
  } rows[] = {
      {"nothing", "", "t: names no switch and no block"},
      {"comments", "# SwitchName=s0 Nodes=n1\n", "names no switch"},
      {"prose", "hello\n", "t:1: 'hello' is not a list of Key=value"},
      {"key", "\nSwitchName=s0 Node=n1\n", "t:2: unknown key 'Node'; did you mean Nodes?"},
      {"no value", "SwitchName=s0 Nodes=\n", "'Nodes' has no value"},
      {"no name", "Nodes=n1\n", "names no switch"},
      {"two names", "SwitchName=a SwitchName=b Nodes=n1\n", "two names"},
      {"nothing below", "SwitchName=a\n", "has neither nodes nor switches"},
      {"both below", "SwitchName=b Nodes=n1\nSwitchName=a Nodes=n1 Switches=b\n", "only one"},
      {"twice", "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "t:2: a second switch 'a'"},
      {"unknown switch", "SwitchName=a Switches=b\n", "has the switch 'b', which has no line"},
      {"below itself", "SwitchName=a Switches=a\n", "'a' is below itself"},
      {"ring", "SwitchName=a Switches=b\nSwitchName=b Switches=c\nSwitchName=c Switches=a\n",
       "below itself"},
      {"hostlist", "SwitchName=a Nodes=n[1-\n", "t:1: "},
      {"function", "SwitchName=a Nodes=block{b1}\n", "hostlist functions"},
      {"a range as a name", "SwitchName=s[1-2] Nodes=n1\n", "is not the name of one switch"},
      {"too many", many, "t:4: cannot read the node list"},
      {"both kinds", "SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n", "switches and blocks"},
      {"block of switches", "BlockName=a Nodes=n1 Switches=b\n", "a block has no switches"},
      {"sizes", "BlockName=a Nodes=n1\nBlockSizes=4,x\n", "not a list of block sizes"},
      {"size 0", "BlockName=a Nodes=n1\nBlockSizes=0\n", "not a list of block sizes"},
      {"sizes 4,12", "BlockName=a Nodes=n1\nBlockSizes=4,12\n",
       "t:2: block size 12 is not a power"},
      {"sizes 8,4", "BlockName=a Nodes=n1\nBlockSizes=8,4\n", "block size 4 is not a power"},
      {"levels", "BlockName=a Nodes=n1\nBlockLevels=0,1\n", "write BlockSizes"},
      {"quote", "SwitchName=\"a Nodes=n1\n", "not a list of Key=value"},
      {"escape", "SwitchName=\x1b[1m Nodes=n1\n", "t:1:"},
      {"NUL", std::string("SwitchName=a\0b Nodes=n1\n", 24), "t:1:"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(refusal(sources::read_topology_conf, row.text), HasSubstr(row.why)) << row.name;
  }
}

constexpr const char* kYaml =
    "---\n"
    "- topology: net\n"
    "  cluster_default: true\n"
    "  tree:\n"
    "    switches:\n"
    "      - switch: root\n"
    "        children: s[1-2]\n"
    "      - switch: s1\n"
    "        nodes: n[1-2]\n"
    "      - switch: s2\n"
    "        nodes: n[3-4]\n"
    "- topology: racks\n"
    "  block:\n"
    "    block_sizes: [2, 4]\n"
    "    blocks:\n"
    "      - {block: b1, nodes: 'n[1-2]'}\n"
    "      - {block: b2, nodes: 'n[3-4]'}\n"
    "- topology: plain\n"
    "  flat: true\n";

TEST(TopologyYaml, ReadsEveryKind) {
  const graph::Graph graph = sources::read_topology_yaml(kYaml, "t.yaml");
  EXPECT_THAT(graph.of_kind(graph::Kind::Fabric), SizeIs(3));
  EXPECT_THAT(graph.of_kind(graph::Kind::FabricSwitch), SizeIs(5));
  EXPECT_THAT(graph.of_kind(graph::Kind::Node), SizeIs(4));
  EXPECT_EQ(fact(graph, "fabric:net", graph::key::kTopology), "tree");
  EXPECT_EQ(fact(graph, "fabric:racks", graph::key::kTopology), "block");
  EXPECT_EQ(fact(graph, "fabric:racks", graph::key::kBlockSizes), "2,4");
  EXPECT_EQ(fact(graph, "fabric:plain", graph::key::kTopology), "flat");
  EXPECT_EQ(fact(graph, "switch:net/root", graph::key::kLevel), "1");
  EXPECT_EQ(fact(graph, "switch:racks/b1", graph::key::kName), "b1");
}

TEST(TopologyYaml, RefusesWhatSlurmDoes) {
  const struct {
    const char* text;
    const char* why;
  } rows[] = {
      {"", "t: expected a list at the top"},
      {"[]", "names no topology"},
      {"topology: a\n", "expected a list at the top"},
      {"- a\n", "t:1: [0]: expected a mapping"},
      {"- flat: true\n", "expected the name of a topology"},
      {"- topology: a\n", "expected one of tree, block and flat"},
      {"- topology: a\n  flat: false\n", "expected one of tree, block and flat"},
      {"- topology: a\n  flat: true\n  tree: {}\n", "expected one of tree"},
      {"- topology: a\n  tree: {}\n", "expected a list of switches"},
      {"- topology: a\n  tree:\n    switches:\n      - children: b\n", "name of a switch"},
      {"- topology: a\n  tree:\n    switches:\n      - switch: b\n", "neither nodes nor switches"},
      {"- topology: a\n  tree:\n    switches:\n      - switch: b\n        children: c\n",
       "t:4: switch 'b' has the switch 'c'"},
      {"- topology: a\n  tree:\n    switches:\n      - switch: b\n        node: c\n",
       "did you mean 'nodes'"},
      {"- topology: a\n  block: {block_sizes: [4], blocks: []}\n", "expected a list of blocks"},
      {"- topology: a\n  block: {block_sizes: [4, 5], blocks: [{block: b, nodes: n1}]}\n",
       "block size 5"},
      {"- topology: a\n  ring: {}\n", "this kind of topology is not understood"},
      {"- topology: a\n  torus3d: {}\n", "this kind of topology is not understood"},
      {"- topology: a\n  flat: true\n- topology: a\n  flat: true\n", "t:3: a second topology 'a'"},
      {"- topology: a\n  flat: true\n  extra: 1\n", "unknown key"},
      {"- topology: [\n", "not valid YAML"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(refusal(sources::read_topology_yaml, row.text), HasSubstr(row.why)) << row.text;
  }
}

TEST(ScontrolTopology, ReadsTreesAndBlocks) {
  const graph::Graph tree = sources::read_scontrol_topology(
      "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
      "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[3-4] \n"
      "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[0-1]\n",
      "scontrol");
  const graph::Graph conf = sources::read_topology_conf(
      "SwitchName=s0 Nodes=n[1-2]\nSwitchName=s1 Nodes=n[3-4]\nSwitchName=top Switches=s[0-1]\n",
      "scontrol");
  EXPECT_EQ(graph::to_json(tree), graph::to_json(conf));
  const graph::Graph blocks = sources::read_scontrol_topology(
      "BlockName=b1 BlockIndex=0 Nodes=n[1-4] BlockSize=4\n"
      "BlockName=b2 BlockIndex=1 Nodes=n[5-8] BlockSize=4\n"
      "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-8] BlockSize=8\n",
      "scontrol");
  const graph::Graph block_conf = sources::read_topology_conf(
      "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes=4,8\n", "scontrol");
  EXPECT_EQ(graph::to_json(blocks), graph::to_json(block_conf));
}

TEST(ScontrolTopology, RefusesWhatIsCutOff) {
  const std::string leaves =
      "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
      "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[3-4]\n";
  const struct {
    std::string text;
    const char* why;
  } rows[] = {
      {"", "names no switch and no block"},
      {"slurm_load_topo error: Unable to contact slurm controller\n", "t:1:"},
      {"There is no topology information available\n", "is not a line of scontrol"},
      {leaves + "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4]\n",
       "has no switches; the text is cut"},
      {leaves + "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[0-", "t:3: "},
      {leaves + "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s0\n",
       "lists 4 nodes, and the switches below it 2"},
      {leaves + "SwitchName=top Lev", "is not a line of scontrol"},
      {"SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2\n", "t:1: "},
      {"SwitchName=s0 Level=0 LinkSpeed=1\n", "SLURM_TOPO_LEN"},
      {"SwitchName=leaf1 Level=0 LinkSpeed=1 Nod\n", "unset SLURM_TOPO_LEN"},
      {"SwitchName=s0 Nodes=n1\n", "has no level"},
      {"SwitchName=s0 Level=0 Nodes=n1 Switches=s1\n", "has switches"},
      {"AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-8] BlockSize=8\n", "names no switch"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(refusal(sources::read_scontrol_topology, row.text), HasSubstr(row.why)) << row.text;
  }
}

TEST(ScontrolNodes, ReadsWhatNodesHave) {
  const graph::Graph graph = sources::read_scontrol_nodes(
      "NodeName=n1 Arch=x86_64 CoresPerSocket=32 CPUAlloc=0 CPUEfctv=128 CPUTot=128 CPULoad=0.10 "
      "AvailableFeatures=ib,h100 ActiveFeatures=ib,h100 Gres=gpu:h100:8(S:0-1),nic:4 NodeAddr=n1 "
      "NodeHostName=n1 Version=22.05.8 OS=Linux 6.1 #1 SMP RealMemory=2063937 AllocMem=0 "
      "State=IDLE+DRAIN ThreadsPerCore=2 Reason=State=UP Gres=gpu:64 [root@now]\n"
      "\n"
      "NodeName=n2 CPUTot=4 ActiveFeatures=(null) Gres=gpu:a100:4(IDX:0-3),gpu:v100:2,shard:9 "
      "RealMemory=x State=DOWN*\n"
      "NodeName=n3 CPUTot=4 Gres=gpu State=IDLE Comment=ActiveFeatures=none\n"
      "NodeName=n4 CPUTot=4 Gres=(null) State=IDLE\n",
      "scontrol");
  EXPECT_THAT(graph.of_kind(graph::Kind::Node), SizeIs(4));
  const struct {
    const char* node;
    const char* key;
    const char* value;
  } rows[] = {
      {"n1", graph::key::kCpuCount, "128"},
      {"n1", graph::key::kFeatures, "ib,h100"},
      {"n1", graph::key::kGpuCount, "8"},
      {"n1", graph::key::kGpuType, "h100"},
      {"n1", graph::key::kMemory, "2164194803712"},
      {"n2", graph::key::kNodeState, "DOWN*"},
      {"n2", graph::key::kFeatures, ""},
      {"n2", graph::key::kGpuCount, "6"},
      {"n2", graph::key::kGpuType, "a100,v100"},
      {"n2", graph::key::kMemory, ""},
      {"n3", graph::key::kGpuCount, "1"},
      {"n3", graph::key::kGpuType, ""},
      {"n3", graph::key::kFeatures, ""},
      {"n4", graph::key::kGpuCount, ""},
  };
  for (const auto& row : rows)
    EXPECT_EQ(fact(graph, row.node, row.key), row.value) << row.node << row.key;
}

TEST(ScontrolNodes, RefusesWhatIsNone) {
  const struct {
    std::string text;
    const char* why;
  } rows[] = {
      {"", "t: names no node"},
      {"\n\n", "t: names no node"},
      {"Node n1 not found\n",
       "t:1: is not a line of scontrol show node: 'Node n1 not found'; give"},
      {"   CPUAlloc=0 CPUTot=4\n", "t:1: is not a line of scontrol show node"},
      {"NodeName=n1 State=IDLE\nNodeName=n1 State=IDLE\n", "t:2: node n1 is a duplicate"},
      {"NodeName=n1 CPUTot=4\n", "t:1: node n1 has no State; its text is cut off: take it again"},
      {"NodeName= State=IDLE\n", "t:1:"},
      {"NodeName=n[1-2] State=IDLE\n", "t:1:"},
      {"NodeName=n[1] State=IDLE\n", "names several nodes"},
      {"NodeName=../x State=IDLE\n", "t:1:"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(refusal(sources::read_scontrol_nodes, row.text), HasSubstr(row.why)) << row.text;
  }
}

TEST(SlurmWriters, TreesComeBack) {
  const char* const texts[] = {
      "SwitchName=s0 Nodes=n[1-2]\n",
      "SwitchName=s0 Nodes=n[1-2]\nSwitchName=s1 Nodes=n[3-4]\nSwitchName=top Switches=s[0-1]\n",
      // Roots apart, leaves at different depths, names that look like made-up ones.
      "SwitchName=leaf1 Nodes=a[1-2]\nSwitchName=spine1 Nodes=a[3-4]\n"
      "SwitchName=x Switches=leaf1\nSwitchName=top Switches=spine1,x\n"
      "SwitchName=apart Nodes=b[01-20]\n",
      "# s0=MF0;real name\nSwitchName=s0 Nodes=n[1-2]\n",
  };
  for (const char* const text : texts) {
    const graph::Graph graph = sources::read_topology_conf(text, "t");
    const std::string written = sources::write_tree_conf(graph);
    EXPECT_EQ(graph::to_json(sources::read_topology_conf(written, "t")), graph::to_json(graph))
        << written;
  }
}

TEST(SlurmWriters, AChainOfSwitchesDoesNotNestAsDeep) {
  constexpr int kSwitches = 20'000;
  std::string text = "SwitchName=s0 Nodes=n1\n";
  for (int i = 1; i < kSwitches; ++i) {
    text += "SwitchName=s" + std::to_string(i) + " Switches=s" + std::to_string(i - 1) + "\n";
  }
  const graph::Graph graph = sources::read_topology_conf(text, "t");
  EXPECT_EQ(fact(graph, "switch:s19999", graph::key::kLevel), "19999");
  const std::string written = sources::write_tree_conf(graph);
  EXPECT_EQ(std::count(written.begin(), written.end(), '\n'), fabric::kMostLevel + 1 + 1)
      << "a comment";
  EXPECT_THAT(fabric::fabric_text(graph), HasSubstr("level 31: 19969 switches"));
}

TEST(SlurmWriters, BlocksAndYamlComeBack) {
  const graph::Graph blocks = sources::read_topology_conf(
      "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockName=b3 Nodes=n[9-12]\n"
      "BlockSizes=4,16\n",
      "t");
  EXPECT_EQ(graph::to_json(sources::read_topology_conf(sources::write_block_conf(blocks), "t")),
            graph::to_json(blocks));

  const graph::Graph tree = sources::read_topology_conf(
      "SwitchName=s0 Nodes=n[1-2]\nSwitchName=s1 Nodes=n[3-5]\nSwitchName=top Switches=s[0-1]\n",
      "t");
  const graph::Graph yaml = sources::read_topology_yaml(sources::write_topology_yaml(tree), "t");
  EXPECT_EQ(fact(yaml, "fabric:tree", graph::key::kTopology), "tree");
  EXPECT_EQ(fact(yaml, "fabric:block", graph::key::kBlockSizes), "2,4") << "of the smallest block";
  EXPECT_EQ(sources::write_tree_conf(yaml), sources::write_tree_conf(tree));
  EXPECT_EQ(sources::write_topology_yaml(yaml), sources::write_topology_yaml(tree));
}

TEST(SlurmWriters, RailsOfAUnitAreOneLeaf) {
  const graph::Graph graph =
      fabric::read_ibnetdiscover(RailFabric{3, 4, 2, 2, 1, "4xNDR", true, -1}.blocks(), "x");
  const std::string text = sources::write_tree_conf(graph);
  EXPECT_EQ(text,
            "# leaf1=leaf0-0,leaf0-1\nSwitchName=leaf1 Nodes=node[0001-0004]\n"
            "# leaf2=leaf1-0,leaf1-1\nSwitchName=leaf2 Nodes=node[0005-0008]\n"
            "# leaf3=leaf2-0,leaf2-1\nSwitchName=leaf3 Nodes=node[0009-0012]\n"
            "# spine1=spine0-0,spine0-1\nSwitchName=spine1 Switches=leaf[1-3]\n");
  EXPECT_THAT(sources::read_topology_conf(text, "t").of_kind(graph::Kind::Node), SizeIs(12));
  EXPECT_EQ(sources::write_block_conf(graph),
            "# leaf1=leaf0-0,leaf0-1\nBlockName=leaf1 Nodes=node[0001-0004]\n"
            "# leaf2=leaf1-0,leaf1-1\nBlockName=leaf2 Nodes=node[0005-0008]\n"
            "# leaf3=leaf2-0,leaf2-1\nBlockName=leaf3 Nodes=node[0009-0012]\n"
            "BlockSizes=4,8\n");
  EXPECT_THAT(sources::write_topology_labels(graph),
              HasSubstr("node0005 network.topology.nvidia.com/leaf=leaf2 "
                        "network.topology.nvidia.com/spine=spine1\n"));
}

TEST(SlurmWriters, PlanesAreOneTree) {
  RailFabric fabric;
  graph::Graph graph;
  for (fabric.plane = 0; fabric.plane < fabric.rails; ++fabric.plane) {
    graph.merge(fabric::read_ibnetdiscover(fabric.blocks(), std::to_string(fabric.plane)));
  }
  EXPECT_EQ(sources::write_tree_conf(graph),
            "# leaf1=leaf0-0,leaf0-1\nSwitchName=leaf1 Nodes=node[0001-0004]\n"
            "# leaf2=leaf1-0,leaf1-1\nSwitchName=leaf2 Nodes=node[0005-0008]\n"
            "# spine1=spine0-0,spine0-1,spine1-0,spine1-1\nSwitchName=spine1 Switches=leaf[1-2]\n");
}

TEST(SlurmWriters, DiscoveredFabricsComeBeforeWrittenOnes) {
  graph::Graph graph = sources::read_topology_conf("SwitchName=old Nodes=node[0001-0008]\n", "t");
  graph.merge(fabric::read_ibnetdiscover(RailFabric{}.blocks(), "x"));
  EXPECT_THAT(sources::write_tree_conf(graph), Not(HasSubstr("old")));
}

TEST(SlurmWriters, NvlinkDomainsAreBlocks) {
  graph::Graph graph =
      fabric::read_ibnetdiscover(RailFabric{1, 4, 1, 1, 1, "4xNDR", false, -1}.blocks(), "x");
  for (int node = 1; node <= 4; ++node) {
    const std::string name = "node000" + std::to_string(node);
    const graph::VertexIndex domain =
        graph.add(graph::Kind::NvlinkDomain, node <= 2 ? "nvlink:a.1" : "nvlink:b.1");
    graph.connect(graph::LinkKind::NvLink,
                  graph.add(graph::Kind::Gpu, name + "/gpu#0", graph.find(name)), domain);
  }
  EXPECT_EQ(sources::write_block_conf(graph),
            "# block1=nvlink:a.1\nBlockName=block1 Nodes=node[0001-0002]\n"
            "# block2=nvlink:b.1\nBlockName=block2 Nodes=node[0003-0004]\n"
            "BlockSizes=2,4\n");
  EXPECT_THAT(sources::write_topology_labels(graph),
              HasSubstr("node0003 network.topology.nvidia.com/"
                        "accelerator=block2 network"));
}

TEST(SlurmWriters, RefuseAGraphWithoutFabric) {
  graph::Graph graph;
  graph.add(graph::Kind::Node, "n1");
  for (const auto write :
       {sources::write_tree_conf, sources::write_block_conf, sources::write_topology_yaml}) {
    EXPECT_THROW((void)write(graph), base::Error);
  }
}

TEST(TopologyConf, ReadsSharedFiles) {
  REGATTA_NEED_SHARED("topologies/slurm");
  const struct {
    const char* file;
    const char* kind;
    std::size_t switches, nodes, links;
    int levels;
    const char* sizes;
  } rows[] = {
      {"slurm-backfill-topology.conf", "block", 8, 32, 32, 1, "4,8,16,32,64"},
      {"slurm-testcase1-topology.conf", "tree", 529, 10000, 10528, 4, ""},
      {"slurm-testcase2-topology.conf", "tree", 528, 10000, 10527, 4, ""},
      {"slurm-testcase3-topology.conf", "tree", 23, 400, 422, 3, ""},
      {"topograph-block.conf", "block", 12, 96, 96, 1, "8,16,32"},
      {"topograph-tree.conf", "tree", 19, 96, 114, 3, ""},
  };
  for (const auto& row : rows) {
    std::ifstream file(regatta::tests::shared_path("topologies/slurm") / row.file);
    std::stringstream text;
    text << file.rdbuf();
    const graph::Graph graph = sources::read_topology_conf(text.str(), "t");
    EXPECT_EQ(fact(graph, "fabric:slurm", graph::key::kTopology), row.kind) << row.file;
    EXPECT_EQ(fact(graph, "fabric:slurm", graph::key::kBlockSizes), row.sizes) << row.file;
    EXPECT_THAT(graph.of_kind(graph::Kind::FabricSwitch), SizeIs(row.switches)) << row.file;
    EXPECT_THAT(graph.of_kind(graph::Kind::Node), SizeIs(row.nodes)) << row.file;
    EXPECT_THAT(graph.links(), SizeIs(row.links)) << row.file;
    int levels = 0;
    const fabric::FabricShape shape(graph);
    for (const fabric::SwitchShape& one : shape.switches())
      levels = std::max(levels, one.level + 1);
    EXPECT_EQ(levels, row.levels) << row.file;
    const bool is_block = std::string(row.kind) == "block";
    const std::string written =
        is_block ? sources::write_block_conf(graph) : sources::write_tree_conf(graph);
    EXPECT_EQ(graph::to_json(sources::read_topology_conf(written, "t")), graph::to_json(graph))
        << row.file;
  }
}

TEST(SlurmWriters, OfTheSharedFabric) {
  REGATTA_NEED_SHARED("topologies/ibnetdiscover");
  std::ifstream file(
      regatta::tests::shared_path("topologies/ibnetdiscover/topograph-dgx-ndr-fabric.out"));
  std::stringstream text;
  text << file.rdbuf();
  const graph::Graph tree = sources::read_topology_conf(
      sources::write_tree_conf(fabric::read_ibnetdiscover(text.str(), "x")), "t");
  EXPECT_THAT(tree.of_kind(graph::Kind::FabricSwitch), SizeIs(8 + 1))
      << "units of rails, and the spines";
  EXPECT_THAT(tree.of_kind(graph::Kind::Node), SizeIs(121));
}

}  // namespace
}  // namespace regatta::topology
