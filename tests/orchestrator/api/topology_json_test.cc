// The machines that a controller plans with, against descriptions of known machines.
#include "orchestrator/api/topology_json.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "topology/graph/graph.h"
#include "topology/sources/read_any.h"

namespace regatta::orchestrator::api {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

topology::graph::Graph machines(const std::string& example) {
  const base::Path file = base::Path(REGATTA_SOURCE_DIR "/topology/examples") / example;
  const std::string text = base::posix_file_system().read(file, std::uint64_t{1} << 20U);
  return topology::sources::read_any(text, "cluster.yaml").graph;
}
plan::RunPlanner planner(topology::graph::Graph graph, std::vector<plan::MeasuredLog> logs = {}) {
  return {base::posix_file_system(), std::move(graph), std::move(logs), "/nowhere"};
}

TEST(Topology, OfADescribedClusterHasKindsFabricsAndWhereTheyAreFrom) {
  const topology::graph::Graph graph = machines("dgx-h100.yaml");
  const Json json =
      topology_json(planner(graph, {{"Ring/Simple=all_reduce.log", {}, {}}}), GraphToo::No);
  EXPECT_EQ(json["fingerprint"], topology::graph::fingerprint(graph));
  EXPECT_EQ(json["nodes"], 32);
  ASSERT_EQ(json["kinds"].size(), 1U);
  const Json& kind = json["kinds"][0];
  EXPECT_EQ(kind["nodes"], 32);
  EXPECT_EQ(kind["names"], "dgx[01-32]");
  EXPECT_EQ(kind["gpus"], 8);
  EXPECT_EQ(kind["gpu_models"], Json::array({"NVIDIA H100 80GB HBM3"}));
  EXPECT_EQ(kind["gpu_links"], "nvlink");
  int nics = 0;
  for (const Json& each : kind["nics"]) {
    EXPECT_EQ(each["gbit_per_s"], 400);
    nics += each["count"].get<int>();
  }
  EXPECT_EQ(nics, 10);
  ASSERT_EQ(json["fabrics"].size(), 2U);
  for (const Json& fabric : json["fabrics"]) {
    int switches = 0;
    for (const Json& tier : fabric["tiers"]) switches += tier["switches"].get<int>();
    EXPECT_EQ(switches, fabric["switches"]);
    EXPECT_GT(switches, 0);
  }
  EXPECT_THAT(json["sources"].dump(), HasSubstr("cluster.yaml"));
  EXPECT_EQ(json["measured"], Json::array({"Ring/Simple=all_reduce.log"}));
  EXPECT_FALSE(json.contains("graph"));
}

TEST(Topology, HasTheDocumentOfRegattaTopo) {
  const topology::graph::Graph graph = machines("pcie-100gbe.yaml");
  const Json json = topology_json(planner(graph), GraphToo::Yes);
  EXPECT_EQ(json["graph"]["regatta_graph"], 1);
  EXPECT_EQ(topology::graph::fingerprint(
                topology::graph::parse_graph(json["graph"].dump(), "the answer")),
            json["fingerprint"]);
  EXPECT_EQ(json["kinds"][0]["gpu_links"], "pcie");
}

TEST(Topology, OfAControllerThatPlansNothingSaysHowToPlan) {
  const Response response = show_topology(nullptr, GraphToo::No);
  EXPECT_EQ(response.status, 404);
  EXPECT_THAT(response.body, HasSubstr("regatta serve --cluster FILE"));
}

}  // namespace
}  // namespace regatta::orchestrator::api
