// `regatta probe` and `regatta topo` as programs: on this machine, on one with a library that plays
// NVML, and on files of every format that ships with the project.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/process.h"
#include "orchestrator/cli/topology_text.h"
#include "tests/orchestrator/support.h"
#include "topology/graph/graph.h"

namespace regatta::orchestrator {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using tests::TemporaryDirectory;
using tests::write_file;
using topology::graph::Kind;

const std::string kRegatta = std::string(REGATTA_BINARY_DIR) + "/orchestrator/regatta";
const base::Path kExamples = base::Path(REGATTA_SOURCE_DIR) / "topology" / "examples";

base::Output regatta(std::vector<std::string> words) {
  base::Command command;
  command.arguments = {kRegatta};
  command.arguments.insert(command.arguments.end(), words.begin(), words.end());
  return base::run(command, 60);
}

TEST(TopoHere, SaysWhatIsThereAndWhatIsNot) {
  const base::Output done = regatta({"topo"});
  EXPECT_EQ(done.exit.code, 0) << done.errors;
  EXPECT_THAT(done.text, HasSubstr("NUMA domain"));
  EXPECT_THAT(done.text, AnyOf(HasSubstr("no GPU"), HasSubstr(" GPU")));
  EXPECT_THAT(done.text, HasSubstr("no fabric is known"));
}

TEST(TopoHere, ACaptureTellsTheSame) {
  const TemporaryDirectory folder;
  const std::string file = (folder.path() / "here.json").string();
  ASSERT_EQ(regatta({"probe", "-o", file}).exit.code, 0);
  EXPECT_EQ(regatta({"topo", file}).text, regatta({"topo"}).text);
  const base::Output again = regatta({"topo", file, "-o", "json"});
  EXPECT_EQ(again.exit.code, 0);
  EXPECT_EQ(topology::graph::parse_graph(again.text, "stdout").of_kind(Kind::Node).size(), 1U);
  const base::Output doctor = regatta({"doctor", file, "-o", "json"});
  EXPECT_TRUE(nlohmann::json::accept(doctor.text)) << doctor.text << doctor.errors;
}

TEST(TopoHere, DoctorLooksAtThisMachine) {
  const base::Output done = regatta({"doctor"});
  EXPECT_THAT(done.text, HasSubstr("1 node, "));
  EXPECT_THAT(done.exit.code, AnyOf(0, 1)) << done.errors;
}

TEST(TopoNvml, ShowsGpusThatALibraryTells) {
  const base::Output done = regatta({"topo", "--nvml-library", FAKE_NVML});
  EXPECT_EQ(done.exit.code, 0) << done.errors;
  EXPECT_THAT(done.text, HasSubstr("2 GPUs (NVIDIA H100 80GB HBM3)"));
  EXPECT_THAT(done.text, HasSubstr("NV17"));
}

TEST(TopoNvml, NoLibraryIsSaid) {
  const base::Output done = regatta({"probe", "--nvml-library", "libnone.so.1"});
  EXPECT_EQ(done.exit.code, 0);
  EXPECT_THAT(done.errors, HasSubstr("no NVML: "));
  EXPECT_TRUE(nlohmann::json::accept(done.text));
}

struct Example {
  const char* file;
  const char* words;
  friend void PrintTo(const Example& each, std::ostream* out) { *out << each.file; }
};
class TopoExample : public testing::TestWithParam<Example> {};
TEST_P(TopoExample, IsShownAndWrittenInEveryForm) {
  const std::string file = (kExamples / GetParam().file).string();
  const base::Output text = regatta({"topo", file});
  EXPECT_EQ(text.exit.code, 0) << text.errors;
  EXPECT_THAT(text.text, HasSubstr(GetParam().words));
  EXPECT_THAT(text.text, Not(HasSubstr("no fabric is known")));
  const base::Output json = regatta({"topo", file, "-o", "json"});
  EXPECT_EQ(topology::graph::to_json(topology::graph::parse_graph(json.text, "stdout")), json.text);
  for (const char* form : {"slurm", "slurm-block", "slurm-yaml"}) {
    const TemporaryDirectory folder;
    const base::Output written = regatta({"topo", file, "-o", form});
    ASSERT_EQ(written.exit.code, 0) << form << written.errors;
    write_file(folder.path() / "topology", written.text);
    EXPECT_EQ(regatta({"topo", (folder.path() / "topology").string()}).exit.code, 0)
        << form << " cannot be read again";
  }
}
INSTANTIATE_TEST_SUITE_P(Ships, TopoExample,
                         testing::Values(Example{"dgx-a100.yaml", "8 GPUs"},
                                         Example{"dgx-h100.yaml", "8 GPUs"},
                                         Example{"hgx-h200.yaml", "8 GPUs"},
                                         Example{"pcie-100gbe.yaml", "GPUs"},
                                         Example{"gb200-nvl72.yaml", "4 GPUs"}));

struct Refused {
  const char* name;
  std::vector<std::string> words;
  int code;
  const char* said;
  friend void PrintTo(const Refused& each, std::ostream* out) { *out << each.name; }
};
class TopoRefuses : public testing::TestWithParam<Refused> {};
TEST_P(TopoRefuses, InOneLine) {
  const base::Output done = regatta(GetParam().words);
  EXPECT_EQ(done.exit.code, GetParam().code);
  EXPECT_THAT(done.errors, HasSubstr(GetParam().said));
  EXPECT_EQ(std::count(done.errors.begin(), done.errors.end(), '\n'), 1) << done.errors;
  EXPECT_EQ(done.text, "");
}
INSTANTIATE_TEST_SUITE_P(
    Table, TopoRefuses,
    testing::Values(Refused{"no_file", {"topo", "/nowhere/x"}, 3, "/nowhere/x"},
                    Refused{"no_format", {"topo", kRegatta}, 7, "its format is none"},
                    Refused{"unknown_output", {"topo", "-o", "png"}, 2, "png"},
                    Refused{"many_nodes_as_one",
                            {"topo", (kExamples / "dgx-h100.yaml").string(), "-o", "nccl-xml"},
                            7,
                            "describes one machine, and there are 32"}));

TEST(TopoRefusesTo, WriteSlurmsFileWithoutAFabric) {
  const TemporaryDirectory folder;
  topology::graph::Graph graph;
  graph.add(Kind::Node, "n1");
  write_file(folder.path() / "graph.json", topology::graph::to_json(graph));
  const base::Output done =
      regatta({"topo", (folder.path() / "graph.json").string(), "-o", "slurm"});
  EXPECT_EQ(done.exit.code, 7);
  EXPECT_THAT(done.errors, HasSubstr("no fabric of this graph has a node"));
}

TEST(TopologyText, ShowsHostileNamesHarmlessly) {
  topology::graph::Graph graph;
  graph.add(Kind::Node, "n\x1b[31m1\n");
  const std::string text = cli::topology_text(graph);
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_THAT(text, HasSubstr("no device is known"));
}

TEST(TopologyText, NodesThatAreAlikeAreToldOnce) {
  topology::graph::Graph graph;
  for (int i = 1; i <= 1024; ++i) {
    const std::string name = "node" + std::to_string(i);
    graph.add(Kind::Numa, name + "/numa:0", graph.add(Kind::Node, name));
  }
  const std::string text = cli::topology_text(graph);
  EXPECT_THAT(text, HasSubstr("1024 nodes node[1-1024]\n"));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 5);
}

}  // namespace
}  // namespace regatta::orchestrator
