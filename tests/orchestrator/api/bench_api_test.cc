// The routes below /nodes/{node}/benches; orchestrator.openapi asks them over HTTP.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "orchestrator/api/api.h"
#include "orchestrator/api/bench_book.h"
#include "tests/orchestrator/control/controller_fixture.h"
#include "trainer/contract/platform_bench.h"

namespace regatta::orchestrator::api {
namespace {

using BenchJson = nlohmann::ordered_json;
using testing::HasSubstr, testing::Not;

class BenchApiTest : public ControllerFixture {
 protected:
  BenchApiTest() : ControllerFixture(1) {}

  Response ask(const std::string& method, const std::string& path, const std::string& body = "") {
    Request request;
    request.method = method;
    request.path = "/api/v1/" + path;
    request.body = body;
    request.peer.local_socket = true;
    return api_.handle(request);
  }
  // Of a machine that copies so many bytes a second.
  BenchJson bench(double utc, double rate = 1e9) {
    trainer::contract::PlatformBench bench;
    bench.host = "n1";
    bench.utc = utc;
    bench.processor = "P";
    bench.figures = {{"memory.cpu.copy", "B/s", rate, rate / 100, 7, true, "8 B"}};
    return trainer::contract::to_json(bench);
  }

  Api api_{*controller_, base::posix_file_system(), clock_, {folder_.path()}};
};

TEST_F(BenchApiTest, AnswersWhatIsKeptTheNewestFirst) {
  EXPECT_EQ(BenchJson::parse(ask("GET", "nodes/n1/benches").body),
            BenchJson({{"node", "n1"}, {"benches", BenchJson::array()}}));
  const Response first = ask("POST", "nodes/n1/benches", bench(100).dump(2));
  ASSERT_EQ(first.status, 201) << first.body;
  EXPECT_EQ(ask("POST", "nodes/n1/benches", bench(200).dump()).status, 201);
  const BenchJson listed = BenchJson::parse(ask("GET", "nodes/n1/benches").body)["benches"];
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0]["at"], "1970-01-01T00:03:20.000Z");
  EXPECT_EQ(listed[1], BenchJson::parse(first.body));
  EXPECT_EQ(listed[1]["bench"], bench(100)) << "as it was sent";
  EXPECT_EQ(listed[1]["machine_kind"], "P, 1 threads");
  const Response again = ask("POST", "nodes/n1/benches", bench(100).dump());
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again.body, first.body);
}

TEST_F(BenchApiTest, OlderThanAllThatStayIsRefused) {
  for (int i = 1; i <= 8; ++i) {
    ASSERT_EQ(ask("POST", "nodes/n1/benches", bench(100 + i).dump()).status, 201);
  }
  const Response refused = ask("POST", "nodes/n1/benches", bench(50).dump());
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.body, HasSubstr("this one is older"));
}

// Four nodes of a kind of which one copies at half the rate.
TEST_F(BenchApiTest, ASlowNodeIsASuspicionUntilANewerBenchIsAsFastAsOthers) {
  const auto slow_events = [&] {
    std::vector<std::pair<std::string, double>> found;
    for (const slurm::NodeEvent& event : store_->node_events()) {
      if (event.blame == slurm::Blame::Slow) found.emplace_back(event.node, event.weight);
    }
    return found;
  };
  using Events = std::vector<std::pair<std::string, double>>;
  for (const char* const node : {"n1", "n2", "n3"}) {
    ask("POST", std::string("nodes/") + node + "/benches", bench(100, 1e9).dump());
  }
  EXPECT_EQ(slow_events(), Events());
  ask("POST", "nodes/n4/benches", bench(100, 5e8).dump());
  EXPECT_EQ(slow_events(), (Events{{"n4", slurm::kSlowWeight}}));
  ask("POST", "nodes/n4/benches", bench(100, 5e8).dump());
  EXPECT_EQ(slow_events().size(), 1U) << "the same bench again says nothing new";
  ask("POST", "nodes/n4/benches", bench(50, 1e9).dump());
  EXPECT_EQ(slow_events().size(), 1U) << "an older bench says nothing of now";
  BenchJson disturbed = bench(150, 4e8);
  disturbed["machine"]["load_average"] = 3;
  ask("POST", "nodes/n4/benches", disturbed.dump());
  EXPECT_EQ(slow_events().size(), 1U) << "under load nothing is judged";
  ask("POST", "nodes/n4/benches", bench(200, 1e9).dump());
  EXPECT_EQ(slow_events(), (Events{{"n4", slurm::kSlowWeight}, {"n4", 0.0}}));
  ask("POST", "nodes/n4/benches", bench(300, 1e9).dump());
  EXPECT_EQ(slow_events().size(), 2U) << "fast as before";
  const BenchJson told = BenchJson::parse(ask("GET", "events").body)["events"];
  std::vector<std::string> words;
  for (const BenchJson& event : told) {
    if (event["kind"] == "node.blamed") words.push_back(event["words"]);
  }
  EXPECT_THAT(words, testing::ElementsAre(
                         "slow: 50 % slower than the median of 4 nodes of its kind in memory"));
}

TEST_F(BenchApiTest, AReportFollowsEachChange) {
  BenchBook book;
  const auto slow = [&](const std::string& node) {
    const BenchReports reports = book.reports(*store_);
    const auto found = reports.find(node);
    return found == reports.end() ? "absent" : compare::slow_text(found->second);
  };
  EXPECT_EQ(slow("n4"), "absent");
  ask("POST", "nodes/n4/benches", bench(100, 5e8).dump());
  EXPECT_EQ(slow("n4"), "") << "alone";
  for (const char* const node : {"n1", "n2"}) {
    ask("POST", std::string("nodes/") + node + "/benches", bench(100, 1e9).dump());
  }
  EXPECT_EQ(slow("n4"), "50 % slower than the median of 3 nodes of its kind in memory");
  const BenchJson listed = BenchJson::parse(ask("GET", "nodes/n2/benches").body)["benches"];
  ask("DELETE", "nodes/n2/benches/" + listed[0]["id"].get<std::string>());
  EXPECT_EQ(slow("n4"), "") << "two are no fleet";
  EXPECT_EQ(slow("n2"), "absent");
  const BenchJson json = report_json(book.reports(*store_).at("n4"));
  EXPECT_EQ(json["fleet_nodes"], 2);
  EXPECT_EQ(json["machine_kind"], "P, 1 threads");
}

TEST_F(BenchApiTest, HostileBodiesAreRefusedInOneLine) {
  const auto with = [&](const std::string& pointer, const BenchJson& value) {
    BenchJson json = bench(100);
    json[BenchJson::json_pointer(pointer)] = value;
    return json.dump(-1, ' ', false, BenchJson::error_handler_t::replace);
  };
  const double now = clock_.utc_seconds();
  const std::string bodies[] = {
      "",
      "null",
      "[]",
      "{",
      "\xff\xfe",
      std::string(100'000, '['),
      std::string(300'000, ' '),
      R"({"format": 1, "format": 1})",
      bench(now + 3600).dump(),
      with("/format", 2),
      with("/host", "<script>\x1b[31m"),
      with("/figures/0/value", "1e9"),
      with("/figures/0/value", -1),
      with("/figures/0/name", "../../etc"),
      with("/figures/0/name", "a\nb"),
      with("/figures/0/work", std::string(5000, 'x')),
      with("/figures", BenchJson(600, bench(1)["figures"][0])),
      with("/machine/threads", 1e18),
      with("/constructor", 1),
  };
  for (const std::string& body : bodies) {
    const Response response = ask("POST", "nodes/n1/benches", body);
    // What a host calls itself is text; it is escaped where it is shown.
    if (body.find("<script>") != std::string::npos) continue;
    EXPECT_TRUE(response.status == 422 || response.status == 400 || response.status == 411)
        << body.substr(0, 60) << response.body;
    const std::string detail = BenchJson::parse(response.body)["detail"];
    EXPECT_NE(detail, "");
    EXPECT_THAT(detail, Not(HasSubstr("\n")));
  }
  EXPECT_EQ(BenchJson::parse(ask("GET", "nodes/n1/benches").body)["benches"].size(), 1U);
  for (const char* const node : {"a%20b", "a b", "..", "\xff"}) {
    EXPECT_THAT(ask("POST", std::string("nodes/") + node + "/benches", bench(1).dump()).status,
                testing::AnyOf(400, 404, 422))
        << node;
  }
}

}  // namespace
}  // namespace regatta::orchestrator::api
