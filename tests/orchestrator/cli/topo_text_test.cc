// What `regatta topo` says of files, without the program.
#include <gmock/gmock.h>

#include "orchestrator/cli/machines.h"
#include "orchestrator/cli/topology_text.h"
#include "tests/orchestrator/support.h"
#include "tests/shared_data.h"
#include "topology/sources/nccl_xml.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::Not;
using tests::TemporaryDirectory;
using tests::write_file;
using topology::graph::Graph;

Graph graph_of(const std::vector<std::string>& files) {
  return cli::machines_of({files, {}, false, ""}, {}, "topo");
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// Eight adapters of two ports each, which share their adapter's GUID.
TEST(TopoText, PortsOfAdaptersAreNics) {
  REGATTA_NEED_SHARED("topologies/nccl-xml");
  const std::string file = tests::shared_path("topologies/nccl-xml/oci-H100-topology.xml").string();
  const Graph graph = graph_of({file});
  EXPECT_THAT(cli::topology_text(graph), HasSubstr("8 GPUs, 16 NICs, 4 NVSwitches\n"));
  const auto node = graph.of_kind(topology::graph::Kind::Node).front();
  EXPECT_EQ(count_of(topology::sources::write_nccl_xml(graph, node), "<net "), 16U);
  EXPECT_EQ(cli::topology_text(graph_of({file, file})), cli::topology_text(graph))
      << "the same machine";
}

TEST(TopoText, OneSwitchIsNotSeveral) {
  REGATTA_NEED_SHARED("topologies/smi-topo");
  const std::string file =
      tests::shared_path("topologies/smi-topo/dgx-a100-8gpu-10nic.txt").string();
  const std::string text = cli::topology_text(graph_of({file}));
  EXPECT_THAT(text, HasSubstr("8 GPUs, 10 NICs, 1 NVSwitch\n"));
  EXPECT_THAT(text, Not(HasSubstr("NVSwitches")));
}

// No file of it says how anything is connected; that Slurm knows of GPUs is said all the same.
TEST(TopoText, OfNodesThatOnlySlurmKnowsItSaysWhatSlurmSays) {
  const TemporaryDirectory folder;
  const base::Path file = folder.path() / "nodes.txt";
  write_file(file,
             "NodeName=n1 CPUTot=64 Gres=gpu:h100:8(S:0-1) State=IDLE\n"
             "NodeName=n2 CPUTot=64 Gres=gpu:h100:8(S:0-1) State=IDLE\n"
             "NodeName=n3 CPUTot=64 Gres=(null) State=DOWN*+DRAIN\n");
  EXPECT_EQ(cli::topology_text(graph_of({file.string()})),
            "node n3\n"
            "  Slurm says: state DOWN*+DRAIN; no device is known\n"
            "2 nodes n[1-2]\n"
            "  Slurm says: state IDLE, 8 GPUs (h100); how they are connected is not known: give a "
            "capture (`regatta probe`)\n"
            "no fabric is known; give a dump of ibnetdiscover or Slurm's topology\n");
}

TEST(TopoText, WhatIsLeftOutIsSaidWithWhatToDo) {
  const TemporaryDirectory folder;
  const base::Path file = folder.path() / "m.txt";
  write_file(file, "\tGPU0\tmlx5_0\nGPU0\t X \tPIX\n");
  testing::internal::CaptureStderr();
  const Graph graph = graph_of({file.string()});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(cli::topology_text(graph), HasSubstr("1 GPU, no NIC"));
  EXPECT_THAT(said,
              HasSubstr("regatta topo: " + file.string() + ": the matrix is cut off at the "));
  EXPECT_THAT(said, HasSubstr("1 GPU read, 1 NIC left out; give the whole output of nvidia-smi"));
  EXPECT_EQ(count_of(said, "\n"), 1U) << said;
}

}  // namespace
}  // namespace regatta::orchestrator
