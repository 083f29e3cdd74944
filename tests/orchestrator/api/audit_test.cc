// Who asked for what: each route that changes something leaves its event, with its asker, once.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "orchestrator/api/api.h"
#include "tests/checkpoint/samples.h"
#include "tests/orchestrator/control/controller_fixture.h"
#include "trainer/contract/platform_bench.h"

namespace regatta::orchestrator::api {
namespace {

using AuditJson = nlohmann::ordered_json;
using testing::ElementsAre, testing::IsEmpty;

class AuditTest : public ControllerFixture {
 protected:
  AuditTest() : ControllerFixture(1) {}

  // Each asker asks once, so that their events are those of one request.
  Response ask(uid_t asker, const std::string& method, const std::string& path,
               const std::string& body = "", const std::map<std::string, std::string>& query = {}) {
    Request request;
    request.method = method;
    request.path = "/api/v1/" + path;
    request.body = body;
    request.query = query;
    request.peer.local_socket = true;
    request.peer.uid = asker;
    return api_.handle(request);
  }
  std::vector<std::string> told_of(const std::string& asker) {
    const Response response = ask(999, "GET", "events", "", {{"by", asker}});
    EXPECT_EQ(response.status, 200) << response.body;
    std::vector<std::string> kinds;
    const AuditJson answer = AuditJson::parse(response.body);
    for (const AuditJson& event : answer["events"]) {
      EXPECT_EQ(event["by"], asker);
      kinds.push_back(event["kind"]);
    }
    return kinds;
  }

  Api api_{*controller_, base::posix_file_system(), clock_, {folder_.path()}};
};

TEST_F(AuditTest, EachChangeLeavesItsEventWithItsAsker) {
  const Response created = ask(1001, "POST", "runs", tests::run_file());
  ASSERT_EQ(created.status, 201) << created.body;
  const std::string run = "runs/" + AuditJson::parse(created.body)["id"].get<std::string>();
  EXPECT_EQ(ask(1002, "POST", run + "/labels", R"({"add_tags": ["kept"]})").status, 200);
  EXPECT_EQ(ask(1003, "POST", run + "/change", R"({"steps": 50})").status, 202);
  EXPECT_EQ(ask(1004, "POST", run + "/cancel").status, 202);
  ticks();
  EXPECT_EQ(ask(1005, "POST", run + "/resume").status, 202);
  EXPECT_EQ(ask(1006, "POST", run + "/cancel").status, 202);
  ticks();
  EXPECT_EQ(ask(1007, "DELETE", run, "", {{"dry_run", "true"}}).status, 200);
  EXPECT_EQ(ask(1008, "POST", run + "/archive").status, 200);
  EXPECT_EQ(ask(1009, "DELETE", run).status, 200);
  EXPECT_EQ(ask(1010, "POST", run + "/cancel").status, 404);
  const std::map<std::string, std::string> expected = {
      {"uid 1001", "run.submitted"},    {"uid 1002", "run.labelled"},
      {"uid 1003", "run.changed"},      {"uid 1004", "run.cancel_asked"},
      {"uid 1005", "run.resume_asked"}, {"uid 1006", "run.cancel_asked"},
      {"uid 1008", "run.archived"},     {"uid 1009", "run.removed"}};
  for (const auto& [asker, kind] : expected) EXPECT_THAT(told_of(asker), ElementsAre(kind));
  EXPECT_THAT(told_of("uid 1007"), IsEmpty()) << "it only asked what would be done";
  EXPECT_THAT(told_of("uid 1010"), IsEmpty()) << "nothing was done";
  EXPECT_THAT(told_of("uid 999"), IsEmpty()) << "who reads leaves none";
}

// What is done to checkpoints, and with them.
TEST_F(AuditTest, SoDoesEachChangeOfACheckpointAndOfWhatGoesOnFromOne) {
  const std::string id = submit();
  controller_->cancel(id);
  ticks();
  checkpoint::CheckpointStore saved(base::posix_file_system(), directory(id).checkpoints_path());
  std::vector<std::string> names;
  for (const std::int64_t step : {10, 20, 30, 40, 50}) {
    const tests::SampleCheckpoint sample(step, "00c0ffee00c0ffee");
    names.push_back(saved.write(sample.contents, tests::always).name);
  }
  const std::string run = "runs/" + id;
  const std::string first = run + "/checkpoints/" + names.front();
  EXPECT_EQ(ask(1001, "POST", first + "/pin", R"({"reason": "paper"})").status, 200);
  EXPECT_EQ(ask(1002, "POST", first + "/unpin").status, 200);
  EXPECT_EQ(ask(1003, "POST", first + "/verify").status, 200);
  EXPECT_EQ(ask(1004, "POST", run + "/checkpoints/gc", "", {{"dry_run", "true"}}).status, 200);
  EXPECT_EQ(ask(1005, "POST", run + "/checkpoints/gc").status, 200);
  const Response forked = ask(1006, "POST", run + "/fork", R"({"name": "other"})");
  EXPECT_EQ(forked.status, 201) << forked.body;
  EXPECT_EQ(ask(1007, "POST", run + "/fork", R"({"checkpoint": "none"})").status, 404);
  EXPECT_EQ(ask(1008, "POST", run + "/extend", R"({"steps": 900})").status, 202);
  const std::map<std::string, std::vector<std::string>> expected = {
      {"uid 1001", {"checkpoint.pinned"}},
      {"uid 1002", {"checkpoint.unpinned"}},
      {"uid 1003", {}},
      {"uid 1004", {}},
      {"uid 1005", {"checkpoint.collected"}},
      {"uid 1006", {"run.submitted"}},
      {"uid 1007", {}},
      {"uid 1008", {"run.changed", "run.extend_asked"}}};
  for (const auto& [asker, kinds] : expected) {
    EXPECT_THAT(told_of(asker), testing::UnorderedElementsAreArray(kinds)) << asker;
  }
}

TEST_F(AuditTest, SoDoesEachChangeOfAReference) {
  const char* const curve = R"({"name": "mine", "threshold": 0.72, "evaluations": [[60, 1, 0.7]]})";
  EXPECT_EQ(ask(1001, "POST", "references", curve).status, 201);
  EXPECT_EQ(ask(1005, "POST", "references", curve).status, 200) << "it says so already";
  const char* const other = R"({"name": "mine", "threshold": 0.72, "evaluations": [[60, 1, 0.5]]})";
  EXPECT_EQ(ask(1002, "POST", "references", other).status, 409) << "it is another one";
  EXPECT_EQ(ask(1003, "DELETE", "references/mine").status, 200);
  EXPECT_EQ(ask(1004, "DELETE", "references/mine").status, 404);
  EXPECT_THAT(told_of("uid 1001"), ElementsAre("reference.added"));
  EXPECT_THAT(told_of("uid 1003"), ElementsAre("reference.removed"));
  for (const char* const asker : {"uid 1002", "uid 1004", "uid 1005"})
    EXPECT_THAT(told_of(asker), IsEmpty());
}

TEST_F(AuditTest, SoDoesEachChangeOfABench) {
  trainer::contract::PlatformBench bench;
  bench.host = "elsewhere";
  bench.utc = 1000;
  const std::string body = trainer::contract::to_json(bench).dump();
  EXPECT_EQ(ask(1001, "POST", "nodes/n1/benches", body).status, 201);
  EXPECT_EQ(ask(1002, "POST", "nodes/n1/benches", body).status, 200) << "it is kept already";
  const Response listed = ask(1003, "GET", "nodes/n1/benches");
  const std::string id = AuditJson::parse(listed.body)["benches"][0]["id"];
  EXPECT_EQ(ask(1004, "DELETE", "nodes/n2/benches/" + id).status, 404) << "of another node";
  EXPECT_EQ(ask(1005, "DELETE", "nodes/n1/benches/" + id).status, 200);
  EXPECT_EQ(ask(1006, "DELETE", "nodes/n1/benches/" + id).status, 404);
  EXPECT_THAT(told_of("uid 1001"), ElementsAre("node.benched"));
  EXPECT_THAT(told_of("uid 1005"), ElementsAre("node.bench_removed"));
  for (const char* const asker : {"uid 1002", "uid 1003", "uid 1004", "uid 1006"})
    EXPECT_THAT(told_of(asker), IsEmpty());
}

TEST_F(AuditTest, OverTcpTheTokenAsked) {
  Request request;
  request.method = "POST";
  request.path = "/api/v1/runs";
  request.body = tests::run_file();
  EXPECT_EQ(api_.handle(request).status, 201);
  EXPECT_THAT(told_of("token"), ElementsAre("run.submitted"));
}

// When each of several values was reached first, against what the journal says.
class ReachedTest : public AuditTest {
 protected:
  AuditJson reached(const std::string& metric, const std::string& thresholds) {
    const std::string id = submit();
    ticks();
    tests::JournalAuthor author(directory(id), clock_.utc_seconds());
    trainer::contract::StartRecord start;
    start.attempt = author.name().number;
    start.execution = author.name().execution;
    start.process = 1234;
    start.steps = 100;
    start.batch_size = 8;
    start.metric = metric;
    start.target = metric.ends_with("loss") ? 0.25 : 0.9;
    author.add(1, start);
    author.step(4, 1, 0.5);  // which begins at 3.5
    for (int i = 1; i <= 6; ++i) {
      trainer::contract::EvalRecord evaluation;
      evaluation.step = 10 * i;
      const double accuracy = kAccuracies[static_cast<std::size_t>(i - 1)];
      const double loss = kLosses[static_cast<std::size_t>(i - 1)];
      const bool pretrains = metric.starts_with("mlm_");
      evaluation.mlm_accuracy = pretrains ? accuracy : std::nan("");
      evaluation.mlm_loss = pretrains ? loss : std::nan("");
      if (!pretrains) evaluation.metrics = {{"exact", 0}, {"f1", accuracy}, {"loss", loss}};
      author.add(10.0 * i, evaluation);
    }
    ticks();
    const Response response =
        ask(999, "GET", "runs/" + id + "/time_to_accuracy", "", {{"thresholds", thresholds}});
    EXPECT_EQ(response.status, 200) << response.body;
    const AuditJson answer = AuditJson::parse(response.body);
    EXPECT_EQ(answer["metric"], metric);
    return answer["reached"];
  }
  static AuditJson at(double value, int evaluation) {
    return {{"value", value}, {"seconds", 10.0 * evaluation - 3.5}, {"step", 10 * evaluation}};
  }
  static AuditJson never(double value) {
    return {{"value", value}, {"seconds", nullptr}, {"step", nullptr}};
  }

  // Neither only gets better, and the two get worse at different times.
  static constexpr std::array<double, 6> kAccuracies = {0.125, 0.375, 0.25, 0.5, 0.4375, 0.75};
  static constexpr std::array<double, 6> kLosses = {6, 4, 5, 2, 3, 1};
};

TEST_F(ReachedTest, OfAccuracyTheFirstThatIsAsHigh) {
  EXPECT_EQ(reached("mlm_accuracy", "0,0.125,0.25,0.375,0.4,0.75,0.8"),
            AuditJson({at(0, 1), at(0.125, 1), at(0.25, 2), at(0.375, 2), at(0.4, 4), at(0.75, 6),
                       never(0.8)}));
}

TEST_F(ReachedTest, OfLossTheFirstThatIsAsLow) {
  EXPECT_EQ(reached("mlm_loss", "7,6,4.5,3,2,1,0.5"),
            AuditJson({at(7, 1), at(6, 1), at(4.5, 2), at(3, 4), at(2, 4), at(1, 6), never(0.5)}));
}

TEST_F(ReachedTest, OfF1AsOfAccuracy) {
  EXPECT_EQ(reached("f1", "0.125,0.4,0.8"), AuditJson({at(0.125, 1), at(0.4, 4), never(0.8)}));
}

TEST_F(ReachedTest, OfTheLossOfAnotherTaskAsOfThatOfPretraining) {
  EXPECT_EQ(reached("loss", "6,3,0.5"), AuditJson({at(6, 1), at(3, 4), never(0.5)}));
}

}  // namespace
}  // namespace regatta::orchestrator::api
