#include "orchestrator/plan/run_plan.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "orchestrator/api/api.h"
#include "tests/orchestrator/control/controller_fixture.h"
#include "tests/shared_data.h"
#include "tests/topology/sources/examples.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

trainer::contract::RunConfig two_ranks() {
  trainer::contract::RunConfig config;
  config.model = trainer::contract::preset_shape("tiny");
  config.model.vocabulary = 1000;
  config.data.path = "/data/set";
  config.ranks = 2;
  return config;
}

topology::plan::Plan a_plan() {
  topology::plan::Plan plan;
  plan.ranks = 2;
  plan.buckets = {{0, 3}, {3, 40}};
  plan.why = "because";
  return plan;
}

std::string refusal(const std::string& body) {
  try {
    (void)plan::parse_submitted(body);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    return error.what();
  }
  return "no error";
}

TEST(SubmittedRun, CarriesAPlanOrNone) {
  const plan::SubmittedRun bare{two_ranks(), {}};
  const plan::SubmittedRun planned{two_ranks(), a_plan()};
  EXPECT_FALSE(plan::parse_submitted(plan::submitted_body(bare)).plan);
  const plan::SubmittedRun back = plan::parse_submitted(plan::submitted_body(planned));
  ASSERT_TRUE(back.plan);
  EXPECT_EQ(topology::plan::to_json(*back.plan), topology::plan::to_json(a_plan()));
  EXPECT_EQ(trainer::contract::to_json(back.config), trainer::contract::to_json(two_ranks()));
  EXPECT_EQ(back.digest(), planned.digest());
  EXPECT_NE(bare.digest(), planned.digest());
}

TEST(SubmittedRun, ADeepPlanIsRefusedUnwritten) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(refusal(R"({"data": {"path": "/d"}, "plan": )" + deep + "}"), HasSubstr("run file"));
}

TEST(SubmittedRun, EveryPathOfAMixtureIsAbsolute) {
  EXPECT_EQ(refusal("data: [{path: /a}, {path: /b, weight: 2}]"), "no error");
  EXPECT_THAT(refusal("data: [{path: /a}, {path: b}]"),
              HasSubstr("run file: data.mixture[1].path: 'b' is not absolute"));
  EXPECT_THAT(refusal("data: {path: b}"), HasSubstr("run file: data.path: 'b' is not absolute"));
}

TEST(SubmittedRun, RefusesABadPlan) {
  plan::SubmittedRun run{two_ranks(), a_plan()};
  run.plan->ranks = 4;
  EXPECT_THAT(refusal(plan::submitted_body(run)),
              HasSubstr("plan: it is for 4 ranks and the run has 2"));
  Json json = Json::parse(plan::submitted_body(plan::SubmittedRun{two_ranks(), {}}));
  json["plan"] = "x";
  EXPECT_THAT(refusal(json.dump()), HasSubstr("plan"));
  json["plan"] = {{"bucket_ends", {5, 3}}};
  EXPECT_THAT(refusal(json.dump()), HasSubstr("bucket_ends"));
  json["plan"] = {{"bucket_ends", {5}}, {"ranks", 2}, {"environment", {{"LD_PRELOAD", "x"}}}};
  EXPECT_THAT(refusal(json.dump()), HasSubstr("LD_PRELOAD"));
}

class RunPlans : public ControllerFixture {
 protected:
  RunPlans() : ControllerFixture(1) {}
  // Opens another controller that plans.
  void plan_with(const plan::RunPlanner& planner) {
    close();
    store_ = std::make_unique<store::Store>(folder_.path() / "state");
    control::ControllerOptions options;
    options.runs_directory = folder_.path() / "runs";
    options.plan = [&planner](const trainer::contract::RunConfig& run) {
      return planner.plan(run);
    };
    controller_ = std::make_unique<control::Controller>(base::posix_file_system(), clock_, *store_,
                                                        scheduler_, options);
  }
  std::string submit_run(const plan::SubmittedRun& asked) {
    return controller_->submit(plan::submitted_body(asked), std::nullopt).run.id;
  }
  std::optional<topology::plan::Plan> plan_of(const std::string& id) {
    const base::Path path = directory(id).path() / "plan.json";
    if (!std::filesystem::exists(path)) return std::nullopt;
    return topology::plan::parse_plan(tests::file_text(path), path.string(), std::nullopt);
  }
};

TEST_F(RunPlans, LieInTheRunDirectoryAndAreShown) {
  const std::string id = submit_run({two_ranks(), a_plan()});
  ASSERT_TRUE(plan_of(id));
  EXPECT_EQ(plan_of(id)->why, "because");
  EXPECT_FALSE(plan_of(submit_run({two_ranks(), {}})));
  api::Api api(*controller_, base::posix_file_system(), clock_, {});
  const auto get = [&](const std::string& run) {
    api::Request request;
    request.method = "GET";
    request.path = "/api/v1/runs/" + run + "/plan";
    return api.handle(request);
  };
  EXPECT_EQ(get(id).status, 200);
  EXPECT_EQ(Json::parse(get(id).body).at("why"), "because");
  EXPECT_EQ(get(submit_run({two_ranks(), {}})).status, 404);
}

TEST_F(RunPlans, AreOfTheMachinesThatTheControllerKnows) {
  const plan::RunPlanner planner(base::posix_file_system(),
                                 topology::sources::generate(topology::example("dgx-a100"), 2), {},
                                 folder_.path() / "runs");
  plan_with(planner);
  trainer::contract::RunConfig config = two_ranks();
  EXPECT_FALSE(plan_of(submit_run({config, {}}))) << "on the CPU";
  config.device = trainer::contract::DeviceKind::Cuda;
  const auto planned = plan_of(submit_run({config, {}}));
  ASSERT_TRUE(planned);
  EXPECT_EQ(planned->ranks, 2);
  EXPECT_TRUE(planned->timeline);
  EXPECT_EQ(plan_of(submit_run({config, a_plan()}))->why, "because") << "its own counts";
  config.buckets.by = trainer::contract::BucketPolicy::One;
  EXPECT_FALSE(plan_of(submit_run({config, {}})));
  config.buckets.by = trainer::contract::BucketPolicy::Plan;
  config.ranks = config.batch_size = 4096;
  EXPECT_FALSE(plan_of(submit_run({config, {}}))) << "too large for these machines, not refused";
  config = two_ranks();
  config.device = trainer::contract::DeviceKind::Cuda;
  config.model.vocabulary = 0;
  EXPECT_FALSE(plan_of(submit_run({config, {}}))) << "the dataset is not there";
}

TEST_F(RunPlans, StartFromWhatEarlierRunsFound) {
  const base::Path runs = folder_.path() / "runs";
  trainer::contract::RunConfig config = two_ranks();
  config.device = trainer::contract::DeviceKind::Cuda;
  const plan::RunPlanner planner(base::posix_file_system(),
                                 topology::sources::generate(topology::example("dgx-a100"), 2), {},
                                 runs);
  const auto before = planner.plan(config);
  ASSERT_TRUE(before);
  topology::plan::StoredPlan stored;
  stored.key = {"", "NCCL 2.28.9", "an A100", trainer::contract::model_fingerprint(config.model), 2,
                2};
  stored.plan.ranks = 2;
  stored.plan.measured = true;
  const int tensors = before->buckets.back().end_tensor;
  stored.plan.buckets = {{0, 1}, {1, tensors}};
  stored.plan.cut = "finer";
  stored.plan.why = "finer won";
  stored.plan.alternatives = {{"finer", 2, 0.1, 0.1}};
  stored.utc_seconds = 5;
  topology::plan::write_stored_plan(base::posix_file_system(), runs / topology::plan::kPlansFolder,
                                    stored);
  const auto after = planner.plan(config);
  ASSERT_TRUE(after);
  EXPECT_TRUE(after->measured);
  EXPECT_THAT(after->why, HasSubstr("finer won"));
  EXPECT_EQ(after->buckets.front().end_tensor, 1);
  EXPECT_EQ(after->alternatives.back().name, "finer, tried");
  EXPECT_EQ(after->cut, "finer, tried");

  // Found on other machines it says nothing here; found on such ones, more than anything newer.
  const auto store = [&](const std::string& topology, const std::string& why, double seconds) {
    stored.key.topology = topology;
    stored.plan.why = why;
    stored.utc_seconds = seconds;
    topology::plan::write_stored_plan(base::posix_file_system(),
                                      runs / topology::plan::kPlansFolder, stored);
  };
  ASSERT_EQ(before->topology.size(), 32U);
  store(std::string(32, 'f'), "of another cluster", 9);
  EXPECT_THAT(planner.plan(config)->why, HasSubstr("finer won"));
  store(before->topology, "of such nodes", 4);
  EXPECT_THAT(planner.plan(config)->why, HasSubstr("of such nodes"));
  config.model.hidden *= 2;
  EXPECT_THAT(planner.plan(config)->why, testing::Not(HasSubstr("finer won"))) << "another model";
}

}  // namespace
}  // namespace regatta::orchestrator
