// The machines that a controller plans with, against descriptions of known machines.
#include "orchestrator/api/topology_json.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "topology/doctor/doctor.h"
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
  for (const Response& response : {show_topology(nullptr, GraphToo::No), show_findings(nullptr)}) {
    EXPECT_EQ(response.status, 404);
    EXPECT_THAT(response.body, HasSubstr("regatta serve --cluster FILE"));
  }
}

// The same as the doctor says of the graph, each with the node that its vertex is on.
TEST(Topology, WhatIsWrongIsToldWithItsNode) {
  topology::graph::Graph graph = machines("dgx-h100.yaml");
  EXPECT_EQ(findings_json(planner(graph))["findings"].size(),
            topology::doctor::diagnose({graph}).size());
  const auto nics = graph.below(graph.find("dgx07"), topology::graph::Kind::Nic);
  ASSERT_FALSE(nics.empty());
  graph.set(nics[0], topology::graph::key::kState, std::string("1: DOWN"), 0);
  const std::vector<topology::graph::Finding> found = topology::doctor::diagnose({graph});
  const Json json = findings_json(planner(graph));
  EXPECT_EQ(json["total"], found.size());
  ASSERT_EQ(json["findings"].size(), found.size());
  int of_the_node = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Json& told = json["findings"][i];
    EXPECT_EQ(told["id"], found[i].id);
    EXPECT_EQ(told["subject"], found[i].subject);
    EXPECT_EQ(told["words"], found[i].words);
    if (told["node"] == "dgx07") ++of_the_node;
  }
  EXPECT_GE(of_the_node, 1);
}

}  // namespace
}  // namespace regatta::orchestrator::api
