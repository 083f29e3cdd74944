// The graph and the node table have the same of a node: one reader reads Slurm's text for both.
#include <gtest/gtest.h>

#include <cmath>

#include "base/text.h"
#include "orchestrator/slurm/node_table.h"
#include "topology/sources/slurm_topology.h"

namespace regatta::orchestrator {
namespace {

namespace key = topology::graph::key;

// What one user has of a node; "" is nothing.
struct Known {
  std::string state, cpus, memory, gpus, types, features;
  bool operator==(const Known& other) const {
    return state == other.state && cpus == other.cpus && memory == other.memory &&
           gpus == other.gpus && types == other.types && features == other.features;
  }
};

std::ostream& operator<<(std::ostream& out, const Known& known) {
  return out << known.state << " cpus " << known.cpus << " memory " << known.memory << " gpus "
             << known.gpus << " of " << known.types << " features " << known.features;
}

Known in_the_graph(const std::string& text) {
  const topology::graph::Graph graph = topology::sources::read_scontrol_nodes(text, "t");
  const auto fact = [&](const char* name) {
    const auto& facts = graph.vertex(graph.find("n1")).facts;
    const topology::graph::Fact* const found = topology::graph::fact_of(graph, facts, name);
    if (found == nullptr) return std::string();
    const auto* number = std::get_if<std::int64_t>(&found->value);
    return number ? std::to_string(*number) : topology::graph::text_of(graph, facts, name);
  };
  return {fact(key::kNodeState), fact(key::kCpuCount), fact(key::kMemory),
          fact(key::kGpuCount),  fact(key::kGpuType),  fact(key::kFeatures)};
}

Known in_the_table(const std::string& text) {
  slurm::NodeTable table;
  table.fill(slurm::parse_scontrol_nodes(text), 0);
  const slurm::NodeSnapshot nodes = table.snapshot();
  EXPECT_EQ(nodes.trouble, "");
  EXPECT_EQ(nodes.rows.size(), 1u);
  const slurm::NodeRow& node = nodes.rows[0];
  Known known;
  known.state = node.state.raw;
  if (node.cpus) known.cpus = std::to_string(*node.cpus);
  if (node.memory_bytes) known.memory = std::to_string(std::llround(*node.memory_bytes));
  if (node.gpus) {
    known.gpus = std::to_string(node.gpus->count);
    for (const auto& [type, count] : node.gpus->by_type) {
      known.types += (known.types.empty() ? "" : ",") + type;
    }
  }
  known.features = base::join(node.features, ",");
  return known;
}

TEST(NodeReaders, GraphAndTableHaveTheSame) {
  const struct {
    std::string text;  // behind NodeName=n1
    Known expected;
  } rows[] = {
      {" CPUTot=128 ActiveFeatures=ib,h100 Gres=gpu:h100:8(S:0-1),nic:4 RealMemory=2063937 "
       "Sockets=2 State=IDLE+DRAIN Reason=State=UP Gres=gpu:64 [root@now]",
       {"IDLE+DRAIN", "128", "2164194803712", "8", "h100", "ib,h100"}},
      {"\n   CPUTot=4\n   ActiveFeatures=(null)\n   Gres=gpu:a100:4(IDX:0-3),gpu:v100:2,shard:9\n"
       "   RealMemory=x State=DOWN*\n",
       {"DOWN*", "4", "", "6", "a100,v100", ""}},
      {" Gres=gpu:h100 State=IDLE", {"IDLE", "", "", "1", "h100", ""}},
      {" Gres=gres/gpu:8 State=MIXED", {"MIXED", "", "", "8", "", ""}},
      {" Gres=gpu:(null):4(IDX:N/A) State=MIXED", {"MIXED", "", "", "4", "", ""}},
      {" Gres=gpu:h100:8,gpu:a:b:8 State=IDLE", {"IDLE", "", "", "", "", ""}},
      {" Gres=gpu:2000000 CPUTot=-4 State=IDLE", {"IDLE", "", "", "", "", ""}},
      {" CPUTot=4 CPUTot=8 State=DOWN*+DRAIN", {"DOWN*+DRAIN", "", "", "", "", ""}},
      {" Gres=(null) ActiveFeatures=a,,b State=FUTURE", {"FUTURE", "", "", "", "", "a,b"}},
      {" State=IDLE Reason=two\n       lines State=DOWN", {"IDLE", "", "", "", "", ""}},
  };
  for (const auto& row : rows) {
    const std::string text = "NodeName=n1" + row.text + "\n";
    EXPECT_EQ(in_the_graph(text), row.expected) << text;
    EXPECT_EQ(in_the_table(text), row.expected) << text;
  }
}

}  // namespace
}  // namespace regatta::orchestrator
