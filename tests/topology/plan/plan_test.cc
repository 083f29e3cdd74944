#include "topology/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace regatta::topology {
namespace {

using testing::HasSubstr;

std::vector<std::pair<int, int>> ranges(const plan::Plan& plan) {
  std::vector<std::pair<int, int>> out;
  for (const plan::Bucket& bucket : plan.buckets)
    out.emplace_back(bucket.begin_tensor, bucket.end_tensor);
  return out;
}

TEST(Plan, DefaultIsOneBucket) {
  const plan::Plan plan = plan::default_plan(7);
  EXPECT_EQ(plan.ranks, 1);
  EXPECT_EQ(ranges(plan), (std::vector<std::pair<int, int>>{{0, 7}}));
  EXPECT_FALSE(plan.measured);
  EXPECT_FALSE(plan.why.empty());
}

TEST(Plan, RoundTrips) {
  plan::Plan plan;
  plan.ranks = 4;
  plan.topology = "0123456789abcdef0123456789abcdef";
  plan.buckets = {{0, 2}, {2, 3}, {3, 9}};
  plan.why = "said \"so\"\nby the model";
  plan.measured = true;
  const std::string text = plan::to_json(plan);
  const plan::Plan back = plan::parse_plan(text, "plan.json", 9);
  EXPECT_EQ(back.ranks, 4);
  EXPECT_EQ(back.topology, plan.topology);
  EXPECT_EQ(ranges(back), ranges(plan));
  EXPECT_EQ(back.why, plan.why);
  EXPECT_TRUE(back.measured);
  EXPECT_EQ(plan::to_json(back), text);
}

TEST(Plan, PlacementRoundTrips) {
  plan::Plan plan;
  plan.buckets = {{0, 3}};
  plan.placement.environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"},
                                {"NCCL_IB_HCA", "mlx5_0,x y"}};
  plan.placement.switches = "2@1-00:30";
  plan.placement.segment = 8;
  plan.placement.exclude = {"node07", "gpu[01-04,9]"};
  const std::string text = plan::to_json(plan);
  const plan::Plan back = plan::parse_plan(text, "plan.json", std::nullopt);
  EXPECT_EQ(back.placement.environment, plan.placement.environment);
  EXPECT_EQ(back.placement.switches, "2@1-00:30");
  EXPECT_EQ(back.placement.segment, 8);
  EXPECT_EQ(back.placement.exclude, plan.placement.exclude);
  EXPECT_EQ(plan::to_json(back), text);
}

TEST(Plan, PredictionsRoundTrip) {
  plan::Plan plan;
  plan.ranks = 2;
  plan.buckets = {{0, 2}, {2, 3}};
  plan.alternatives = {{"one bucket", 1, 0.25, 0.5}, {"programme", 2, 0.1, 0.1}};
  plan.cut = "programme";
  plan.timeline = plan::StepTimeline{0.1, 0.3, 0.2, 0.05, 0.01, 0.36, {{8, 0.1, 0.1, 0.2}, {}}};
  const std::string text = plan::to_json(plan);
  const plan::Plan back = plan::parse_plan(text, "plan.json", 3);
  EXPECT_EQ(plan::to_json(back), text);
  EXPECT_EQ(back.cut, "programme");
  ASSERT_EQ(back.alternatives.size(), 2U);
  EXPECT_EQ(back.alternatives[0].name, "one bucket");
  EXPECT_EQ(back.alternatives[1].buckets, 2);
  EXPECT_EQ(back.alternatives[0].mean_step_seconds, 0.5);
  ASSERT_TRUE(back.timeline.has_value());
  EXPECT_EQ(back.timeline->exposed_seconds, 0.05);
  EXPECT_EQ(back.timeline->buckets[0].bytes, 8);
  EXPECT_EQ(back.timeline->buckets[0].end_seconds, 0.2);
}

TEST(Plan, SeatsDecisionsAndWaysRoundTrip) {
  plan::Plan plan;
  plan.ranks = 3;
  plan.buckets = {{0, 3}};
  plan.seats = {{"a", 0, "mlx5_0"}, {"a", 3, ""}, {"b", 0, "mlx5_0"}};
  plan.decisions = {{"clip.mode", "bucket", "global", "why", {{"global", 0.2}, {"bucket", 0.1}}}};
  plan.tuner = {
      3, 2, 22809, {{nccl::Collective::AllReduce, 256, 1024}, {nccl::Collective::AllReduce, 4096}}};
  plan.tuner.ranges[0].way = {nccl::Algorithm::Tree, nccl::Protocol::Ll, 8};
  plan.tuner.ranges[1].measured = true;
  const std::string text = plan::to_json(plan);
  const plan::Plan back = plan::parse_plan(text, "plan.json", 3);
  EXPECT_EQ(plan::to_json(back), text);
  ASSERT_EQ(back.seats.size(), 3U);
  EXPECT_EQ(back.seats[1].gpu, 3);
  EXPECT_EQ(back.seats[2].node, "b");
  EXPECT_EQ(back.decisions.at(0).options.at(1).step_seconds, 0.1);
  EXPECT_EQ(back.tuner.ranges.at(0).way.channels, 8);
  EXPECT_EQ(back.tuner.ranges.at(1).to_bytes, plan::TunedRange::kNoEnd);
}

TEST(Plan, WithoutACountTheLastEndIsIt) {
  EXPECT_EQ(ranges(plan::parse_plan(R"({"bucket_ends": [1, 3]})", "p", std::nullopt)),
            (std::vector<std::pair<int, int>>{{0, 1}, {1, 3}}));
  EXPECT_THROW((void)plan::parse_plan(R"({"bucket_ends": [3, 1]})", "p", std::nullopt),
               base::Error);
}

TEST(Plan, ReadsEndsWrittenAsTexts) {
  EXPECT_EQ(plan::parse_plan(R"({"bucket_ends": ["1", "3"]})", "p", 3).buckets.size(), 2U);
}

TEST(Plan, NamesWhatIsWrong) {
  struct Row {
    const char* name;
    const char* text;
    const char* message;
  };
  const Row rows[] = {
      {"empty", "", "expected a mapping"},
      {"half", "{\"ranks\": 1,", "not valid"},
      {"no buckets", "{}", "must end at the number of tensors, 5"},
      {"no ranks", R"({"ranks": 0, "bucket_ends": [5]})", "use at least 1"},
      {"no fingerprint", R"({"topology": "0123", "bucket_ends": [5]})", "32 hexadecimal digits"},
      {"too short", R"({"bucket_ends": [2, 4]})", "must end at the number of tensors, 5"},
      {"too long", R"({"bucket_ends": [2, 6]})", "must grow from 1"},
      {"empty bucket", R"({"bucket_ends": [2, 2, 5]})", "must grow from 1"},
      {"backwards", R"({"bucket_ends": [3, 2, 5]})", "must grow from 1"},
      {"zero", R"({"bucket_ends": [0, 5]})", "must grow from 1"},
      {"negative", R"({"bucket_ends": [-1, 5]})", "must grow from 1"},
      {"fraction", R"({"bucket_ends": [2.5, 5]})", "whole numbers, found '2.5'"},
      {"trailing letters", R"({"bucket_ends": ["2x", 5]})", "whole numbers, found '2x'"},
      {"beyond 64 bits", R"({"bucket_ends": [99999999999999999999]})", "whole numbers"},
      {"beyond 32 bits", R"({"bucket_ends": [4294967301]})", "must grow from 1"},
      {"unknown key", R"({"bucket_ends": [5], "rank": 1})", "did you mean 'ranks'"},
      {"a loader's variable", R"({"bucket_ends": [5], "environment": {"LD_PRELOAD": "x"}})",
       "LD_PRELOAD: is not a variable of a plan"},
      {"a variable that only ends so", R"({"bucket_ends": [5], "environment": {"X_NCCL_": "x"}})",
       "is not a variable of a plan"},
      {"a small prefix", R"({"bucket_ends": [5], "environment": {"nccl_debug": "x"}})",
       "is not a variable of a plan"},
      {"a variable with =", R"({"bucket_ends": [5], "environment": {"NCCL_A=B": "x"}})",
       "is not a variable of a plan"},
      {"a variable with NUL", "{\"bucket_ends\": [5], \"environment\": {\"NCCL_A\": \"\\u0000\"}}",
       "no NUL"},
      {"switches of nothing", R"({"bucket_ends": [5], "switches": "@3"})",
       "use a number such as 1"},
      {"no switches", R"({"bucket_ends": [5], "switches": "0"})", "use a number such as 1"},
      {"switches with an option", R"({"bucket_ends": [5], "switches": "1 --uid=0"})",
       "use a number such as 1"},
      {"a wait of words", R"({"bucket_ends": [5], "switches": "1@soon"})",
       "use a number such as 1"},
      {"a negative segment", R"({"bucket_ends": [5], "segment": -1})", "use 0 (none) to 65536"},
      {"an excluded option", R"({"bucket_ends": [5], "exclude": ["-w"]})", "use names of nodes"},
      {"an excluded blank", R"({"bucket_ends": [5], "exclude": ["a b"]})", "use names of nodes"},
      {"an excluded nothing", R"({"bucket_ends": [5], "exclude": [""]})", "use names of nodes"},
      {"seats of other ranks",
       R"({"bucket_ends": [5], "seats": [{"node": "a", "gpus": [0, 1], "nics": ["", ""]}]})",
       "are 2 for 1 ranks"},
      {"a seat without a NIC's name",
       R"({"bucket_ends": [5], "seats": [{"node": "a", "gpus": [0], "nics": []}]})",
       "as many NICs as GPUs"},
      {"a GPU that cannot be",
       R"({"bucket_ends": [5], "seats": [{"node": "a", "gpus": [-1], "nics": [""]}]})",
       "use numbers from 0"},
      {"an option of negative time",
       R"({"bucket_ends": [5], "decisions": [{"options": [{"step_seconds": -1}]}]})",
       "use seconds of at least 0"},
      {"an unknown way",
       R"({"bucket_ends": [5], "nccl": {"ranks": 2, "nodes": 1, "ranges": [{"algorithm": "X"}]}})",
       "algorithm"},
      {"ways that overlap",
       R"({"bucket_ends": [5], "nccl": {"ranks": 2, "nodes": 1, "ranges": [{}, {}]}})", "nccl"},
      {"an alternative without buckets", R"({"bucket_ends": [5], "alternatives": [{"name": "x"}]})",
       "buckets: use at least 1"},
      {"an alternative in no time",
       R"({"bucket_ends": [5], "alternatives": [{"buckets": 1, "step_seconds": -1}]})",
       "use seconds of at least 0"},
      {"a timeline of other buckets", R"({"bucket_ends": [5], "timeline": {"buckets": []}})",
       "has 0 buckets where bucket_ends has 1"},
      {"a timeline that ends before it begins",
       R"({"bucket_ends": [5], "timeline": {"step_seconds": -1, "buckets": [{}]}})",
       "use seconds of at least 0"},
      {"a span of nothing", R"({"bucket_ends": [5], "timeline": {"buckets": [{"bytes": -1}]}})",
       "use at least 0"},
      {"a span with more", R"({"bucket_ends": [5], "timeline": {"buckets": [{"byte": 1}]}})",
       "did you mean 'bytes'"},
      {"hostile text", "{\"bucket_ends\": [\"\\u001b[2J\"]}", "\\x1b"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    try {
      (void)plan::parse_plan(row.text, "plan.json", 5);
      ADD_FAILURE() << "accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr("plan.json"));
      EXPECT_THAT(error.what(), HasSubstr(row.message));
    }
  }
}

}  // namespace
}  // namespace regatta::topology
