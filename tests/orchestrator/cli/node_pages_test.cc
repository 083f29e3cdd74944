// Thousands of nodes: pages, filters and tags of GET /nodes, and what reads them all.
#include "orchestrator/cli/node_pages.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/wording.h"
#include "orchestrator/api/api.h"
#include "orchestrator/api/delivery.h"
#include "orchestrator/api/server.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Json = nlohmann::ordered_json;
using Query = std::map<std::string, std::string>;

slurm::NodeRow node(int number, const std::string& state) {
  slurm::NodeRow row;
  row.name = base::formatted("n%04d", number);
  row.state = slurm::parse_node_state(state);
  row.partitions = {number % 2 == 0 ? "even" : "odd"};
  row.features = {"fast"};
  return row;
}

class NodePages : public testing::Test {
 protected:
  void SetUp() override { fill(2500); }
  // Every hundredth is drained, and node 7 is down, too.
  void fill(int count) {
    slurm::Nodes nodes;
    for (int i = 0; i < count; ++i) {
      nodes.rows.push_back(node(i, i == 7 ? "DOWN+DRAIN" : i % 100 == 0 ? "IDLE+DRAIN" : "IDLE"));
      if (i % 100 == 0) nodes.rows.back().reason = i == 300 ? "Fan broken" : "update";
    }
    table_.fill(std::move(nodes), clock_.utc_seconds());
  }
  api::Response answer(const Query& query) {
    return api_.handle({"GET", "/api/v1/nodes", query, {}, ""});
  }
  Json nodes(const Query& query) {
    const api::Response response = answer(query);
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  }
  std::vector<std::string> names(const Query& query) {
    std::vector<std::string> names;
    const Json page = nodes(query);
    for (const Json& each : page["nodes"]) names.push_back(each["name"]);
    return names;
  }

  tests::TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  tests::ScriptedScheduler scheduler_;
  slurm::NodeTable table_;
  store::Store store_{folder_.path() / "state"};
  control::Controller controller_{base::posix_file_system(),
                                  clock_,
                                  store_,
                                  scheduler_,
                                  {folder_.path() / "runs", 1, {}, 0.25}};
  api::Api api_{controller_, base::posix_file_system(), clock_, {folder_.path(), {}, &table_}};
};

TEST_F(NodePages, FollowEachOtherByName) {
  Json page = nodes({});
  EXPECT_EQ(page["nodes"].size(), 100U);
  EXPECT_EQ(page["total"], 2500);
  EXPECT_EQ(page["next"], "n0099");
  std::vector<std::string> all;
  std::string after;
  for (int i = 0; i < 3; ++i) {
    Query query = {{"limit", "1000"}};
    if (!after.empty()) query["after"] = after;
    page = nodes(query);
    EXPECT_EQ(page["total"], 2500);
    for (const Json& each : page["nodes"]) all.push_back(each["name"]);
    after = page["next"].is_null() ? "" : page["next"].get<std::string>();
  }
  EXPECT_EQ(after, "");
  ASSERT_EQ(all.size(), 2500U);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  EXPECT_EQ(all.back(), "n2499");
  EXPECT_THAT(names({{"after", "n2498"}}), ElementsAre("n2499"));
  EXPECT_THAT(names({{"after", "n2498x"}}), ElementsAre("n2499")) << "one that has gone meanwhile";
  EXPECT_EQ(nodes({{"after", "n2398"}, {"limit", "101"}})["next"], Json()) << "just as many";
}

TEST_F(NodePages, OfWhatIsAskedFor) {
  EXPECT_EQ(nodes({{"state", "drained"}})["total"], 26) << "the one that is down is drained, too";
  EXPECT_THAT(names({{"state", "down"}}), ElementsAre("n0007"));
  EXPECT_EQ(nodes({{"state", "idle,down"}})["total"], 2475);
  EXPECT_THAT(names({{"state", "not_responding"}}), IsEmpty());
  EXPECT_EQ(nodes({{"usable", "false"}})["total"], 26);
  EXPECT_EQ(nodes({{"usable", "true"}, {"partition", "odd"}})["total"], 1249);
  EXPECT_EQ(nodes({{"name", "n01"}})["total"], 100);
  EXPECT_THAT(names({{"nodes", "n[0001-0002],n9999"}}), ElementsAre("n0001", "n0002"));
  EXPECT_THAT(names({{"text", "fAN"}}), ElementsAre("n0300"));
  EXPECT_THAT(names({{"text", "249"}, {"name", "n2"}, {"state", "idle"}, {"limit", "2"}}),
              ElementsAre("n2249", "n2490"));
  EXPECT_THAT(names({{"partition", "od"}}), IsEmpty());
}

TEST_F(NodePages, RefuseWhatIsNone) {
  for (const Query& query :
       {Query{{"state", "dead"}}, Query{{"state", ""}}, Query{{"usable", "maybe"}},
        Query{{"limit", "0"}}, Query{{"limit", "1001"}}, Query{{"nodes", "n["}},
        Query{{"nodes", ""}}, Query{{"partition", ""}}, Query{{"before", "n1"}}}) {
    const api::Response refused = answer(query);
    EXPECT_EQ(refused.status, 400) << query.begin()->first << "=" << query.begin()->second;
    EXPECT_EQ(Json::parse(refused.body)["parameter"], query.begin()->first);
  }
}

TEST_F(NodePages, HaveSlimRowsUnlessAllIsAskedFor) {
  const Json slim = nodes({{"limit", "1"}})["nodes"][0];
  EXPECT_FALSE(slim.contains("features"));
  EXPECT_FALSE(slim.contains("action"));
  EXPECT_EQ(slim["state"], "drained");
  const Json full = nodes({{"limit", "1"}, {"full", "true"}})["nodes"][0];
  EXPECT_EQ(full["features"], Json({"fast"}));
  EXPECT_THAT(full["action"].get<std::string>(), HasSubstr("state=resume"));
  for (const auto& [key, value] : slim.items()) EXPECT_EQ(full[key], value) << key;
}

TEST_F(NodePages, HaveATagThatTimeAloneDoesNotChange) {
  const api::Response first = answer({});
  const std::string tag = first.headers.at("ETag");
  clock_.now += 30;
  const api::Response later = answer({});
  EXPECT_EQ(later.headers.at("ETag"), tag);
  EXPECT_NE(later.body, first.body) << "its age";
  EXPECT_NE(answer({{"after", "n0000"}}).headers.at("ETag"), tag);
  EXPECT_EQ(api::with_tag(later, {"GET", "/api/v1/nodes", {}, {{"if-none-match", tag}}, ""}).status,
            304);
  fill(2501);
  EXPECT_NE(answer({}).headers.at("ETag"), tag);
}

TEST_F(NodePages, AreReadAsOneByTheCommandLine) {
  const base::Path socket = folder_.path() / "socket";
  api::HttpServer server({"", api::kNoPort, socket},
                         [this](const api::Request& request) { return api_.handle(request); });
  server.start();
  const cli::Client client({"unix:" + socket.string(), {}, {}}, 10);
  Json all = cli::fetch_nodes(client, {});
  EXPECT_EQ(all["nodes"].size(), 2500U);
  EXPECT_EQ(all["total"], 2500);
  EXPECT_FALSE(all.contains("next"));
  EXPECT_TRUE(all["nodes"][0].contains("features"));
  all = cli::fetch_nodes(client, {{"partition", "odd"}, {"state", "idle"}});
  EXPECT_EQ(all["nodes"].size(), 1249U);
}

}  // namespace
}  // namespace regatta::orchestrator
