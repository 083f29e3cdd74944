#include "topology/sources/nccl_graph.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/shared_data.h"
#include "topology/sources/nccl_xml.h"

namespace regatta::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::int64_t> numbers(const std::vector<sources::NcclDevice>& devices) {
  std::vector<std::int64_t> found;
  for (const sources::NcclDevice& device : devices) found.push_back(device.dev);
  return found;
}

TEST(NcclGraph, ReadsThePublicDump) {
  REGATTA_NEED_SHARED("topologies/nccl-xml");
  const auto folder = tests::shared_path("topologies/nccl-xml");
  const auto searches = sources::parse_nccl_graphs(
      tests::file_text(folder / "azure-ncv4-graph.xml"), "azure-ncv4-graph.xml");
  ASSERT_THAT(searches, SizeIs(3));
  const std::tuple<const char*, const char*, std::size_t> rows[] = {
      {"ring", "ring", 2}, {"tree", "balanced tree", 4}, {"collnet chain", "tree", 4}};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& [search, pattern, channels] = rows[i];
    EXPECT_STREQ(sources::name_of_search(searches[i].id), search);
    EXPECT_STREQ(sources::name_of_pattern(searches[i].pattern), pattern);
    EXPECT_THAT(searches[i].channels, SizeIs(channels));
    EXPECT_EQ(searches[i].gb_per_s_intra, 12);
    EXPECT_EQ(searches[i].gb_per_s_inter, 12);
    EXPECT_EQ(searches[i].intra, graph::PathType::Sys);
    EXPECT_EQ(searches[i].inter, graph::PathType::Pix);
    EXPECT_FALSE(searches[i].cross_nic);
  }
  EXPECT_THAT(numbers(searches[0].channels[1].gpus), ElementsAre(0, 3, 2, 1));
  EXPECT_THAT(searches[0].channels[1].nets, IsEmpty());
  graph::Graph graph = sources::graph_of_searches(searches, "n1", "graph.xml");
  EXPECT_THAT(graph.of_kind(graph::Kind::Gpu), SizeIs(4));
  const auto& facts = graph.vertex(graph.find("n1")).facts;
  EXPECT_EQ(graph::number_of(graph, facts, "nccl.ring.gb_per_s"), 24);
  EXPECT_EQ(graph::integer_of(graph, facts, "nccl.collnet_chain.channels"), 4);
  EXPECT_EQ(graph::text_of(graph, facts, "nccl.tree.path"), "SYS");
  graph.merge(
      sources::read_nccl_xml(tests::file_text(folder / "azure-ncv4-topo.xml"), {"n1", "topo.xml"}));
  EXPECT_THAT(graph.of_kind(graph::Kind::Gpu), SizeIs(4)) << "the same ones";
}

// NCCL writes `dev` as "%#lx" since 2.21: "0", "0x1", …, and above 56 bits the machine.
std::string hexadecimal_dump(const std::string& gpus) {
  return "<graphs version=\"1\"><graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"1\" "
         "speedintra=\"20\" speedinter=\"20\" latencyinter=\"0\" typeintra=\"NVL\" "
         "typeinter=\"PIX\" samechannels=\"0\"><channel><net dev=\"0xb\"/>" +
         gpus + "<net dev=\"0xb\"/></channel></graph></graphs>";
}

TEST(NcclGraph, ReadsDevicesAsNewerVersionsWriteThem) {
  const auto searches = sources::parse_nccl_graphs(
      hexadecimal_dump("<gpu dev=\"0\"/><gpu dev=\"0x1\"/><gpu dev=\"0xA\"/>"), "g.xml");
  EXPECT_THAT(numbers(searches.at(0).channels.at(0).gpus), ElementsAre(0, 1, 10));
  EXPECT_THAT(numbers(searches.at(0).channels.at(0).nets), ElementsAre(11, 11));
  const graph::Graph graph = sources::graph_of_searches(searches, "n1", "g.xml");
  EXPECT_THAT(graph.of_kind(graph::Kind::Gpu), SizeIs(3));
  EXPECT_NE(graph.find("n1/gpu#10"), graph::kNoVertex);
}

TEST(NcclGraph, GpusOfSeveralMachinesAreNobodys) {
  const auto of = [](const char* gpus) {
    return sources::parse_nccl_graphs(hexadecimal_dump(gpus), "g.xml");
  };
  const auto several =
      of("<gpu dev=\"0x1\"/><gpu dev=\"0x100000000000001\"/>"
         "<gpu dev=\"0xff00000000000002\"/>");
  EXPECT_THAT(several.at(0).channels.at(0).gpus,
              ElementsAre(sources::NcclDevice{1, 0}, sources::NcclDevice{1, 1},
                          sources::NcclDevice{2, 255}));
  const graph::Graph rack = sources::graph_of_searches(several, "n1", "g.xml");
  EXPECT_THAT(rack.of_kind(graph::Kind::Gpu), IsEmpty()) << "which machine wrote it is not said";
  EXPECT_EQ(graph::integer_of(rack, rack.vertex(rack.find("n1")).facts, "nccl.ring.channels"), 1);
  const graph::Graph one =
      sources::graph_of_searches(of("<gpu dev=\"0x100000000000003\"/>"), "n1", "g.xml");
  EXPECT_NE(one.find("n1/gpu#3"), graph::kNoVertex) << "all of one machine";
}

TEST(NcclGraph, ReadsNetworksAndRefusesTheRest) {
  const auto text = [](const std::string& attributes, const std::string& inside) {
    return "<graphs version=\"1\"><graph id=\"0\" pattern=\"4\" crossnic=\"1\" " + attributes +
           " samechannels=\"1\">" + inside + "</graph></graphs>";
  };
  const std::string good =
      "nchannels=\"1\" speedintra=\"20\" speedinter=\"10.5\" typeintra=\"NVL\" typeinter=\"PXB\"";
  const std::string channel =
      "<channel><net dev=\"1\"/><gpu dev=\"3\"/><gpu dev=\"0\"/><net dev=\"2\"/></channel>";
  const auto searches = sources::parse_nccl_graphs(text(good, channel), "g.xml");
  ASSERT_THAT(searches, SizeIs(1));
  EXPECT_TRUE(searches[0].cross_nic);
  EXPECT_TRUE(searches[0].same_channels);
  EXPECT_EQ(searches[0].gb_per_s_inter, 10.5);
  EXPECT_THAT(numbers(searches[0].channels[0].gpus), ElementsAre(3, 0));
  EXPECT_THAT(numbers(searches[0].channels[0].nets), ElementsAre(1, 2));
  const std::pair<std::string, const char*> rows[] = {
      {"", "no XML"},
      {"<system version=\"1\"/>", "NCCL_TOPO_DUMP_FILE"},
      {"<graphs version=\"2\"/>", "version 1"},
      {"<graphs version=\"1\"><x/></graphs>", "something else than a <graph>"},
      {text(good, ""), "0 of 1 channels"},
      {text(good, "<x/>"), "something else than a <channel>"},
      {text(good, "<channel><cpu dev=\"0\"/></channel>"), "something else than a <gpu>"},
      {text(good, "<channel><gpu/></channel>"), "<gpu> has no 'dev'"},
      {text(good, "<channel><gpu dev=\"-1\"/></channel>"), "'-1' as dev of <gpu>"},
      {text(good, "<channel><gpu dev=\"\"/></channel>"), "'' as dev of <gpu>"},
      {text(good, "<channel><gpu dev=\"0x\"/></channel>"), "'0x' as dev of <gpu>"},
      {text(good, "<channel><gpu dev=\"0x-1\"/></channel>"), "'0x-1' as dev"},
      {text(good, "<channel><gpu dev=\"a\"/></channel>"), "not a device number"},
      {text(good, "<channel><net dev=\"0x1g\"/></channel>"), "'0x1g' as dev of <net>"},
      {text(good, "<channel><gpu dev=\"0x10000000000000000\"/></channel>"), "not a device number"},
      {text(
           "nchannels=\"0\" speedintra=\"-1\" speedinter=\"1\" typeintra=\"NVL\" typeinter=\"PXB\"",
           ""),
       "'speedintra' is not a speed"},
      {text("nchannels=\"0\" speedintra=\"1\" speedinter=\"1\" typeintra=\"NVX\" typeinter=\"PXB\"",
            ""),
       "'NVX' is not one of NCCL's path types"},
      {text("speedintra=\"1\" speedinter=\"1\" typeintra=\"NVL\" typeinter=\"PXB\"", ""),
       "has no 'nchannels'"},
  };
  for (const auto& [bad, why] : rows) {
    try {
      (void)sources::parse_nccl_graphs(bad, "g.xml");
      ADD_FAILURE() << bad << " was read";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(why));
      EXPECT_THAT(error.what(), HasSubstr("g.xml"));
    }
  }
}

}  // namespace
}  // namespace regatta::topology
