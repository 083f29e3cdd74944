#include "orchestrator/slurm/node_suspicion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace regatta::orchestrator {
namespace {

constexpr double kNow = 1'800'000'000;
constexpr double kHour = 3600;

// An event `ago` seconds before kNow.
slurm::NodeEvent event(double ago, slurm::Blame blame, const std::string& run = "demo-4f2a91",
                       double weight = 1, const std::string& node = "node01") {
  return {node, kNow - ago, blame, run, "", weight};
}

TEST(NodeSuspicion, BlamesHaveWordsThatAreReadAgain) {
  for (const slurm::Blame blame :
       {slurm::Blame::NodeFailed, slurm::Blame::LaunchFailed, slurm::Blame::Prolog,
        slurm::Blame::Hung, slurm::Blame::Slow, slurm::Blame::Shared, slurm::Blame::Worked}) {
    EXPECT_EQ(slurm::parse_blame(slurm::to_string(blame)), blame);
  }
  EXPECT_EQ(slurm::parse_blame("node failed"), slurm::Blame::NodeFailed);
  for (const char* text : {"", "Node failed", "node_failed", "shared "}) {
    EXPECT_FALSE(slurm::parse_blame(text)) << text;
  }
}

TEST(NodeSuspicion, ANodeThatIsNamedTakesAllTheBlame) {
  const auto nodes_blamed = [](double named_later, const std::string& run, slurm::Blame blame) {
    std::vector<slurm::NodeEvent> events;
    for (const char* node : {"node01", "node02", "node03"}) {
      events.push_back(event(1000, slurm::Blame::Shared, "a", 1.0 / 3, node));
    }
    events.push_back(event(1000 - named_later, blame, run, 1, "node02"));
    std::vector<std::string> nodes;
    for (const slurm::Avoided& each : slurm::suspicions(events, kNow, {}))
      nodes.push_back(each.node);
    std::sort(nodes.begin(), nodes.end());
    return nodes;
  };
  const std::vector<std::string> all{"node01", "node02", "node03"};
  const std::vector<std::string> one{"node02"};
  EXPECT_EQ(nodes_blamed(0, "a", slurm::Blame::NodeFailed), one);
  EXPECT_EQ(nodes_blamed(599, "a", slurm::Blame::Hung), one);
  EXPECT_EQ(nodes_blamed(600, "a", slurm::Blame::NodeFailed), all) << "another misfortune";
  EXPECT_EQ(nodes_blamed(-61, "a", slurm::Blame::NodeFailed), all) << "before";
  EXPECT_EQ(nodes_blamed(0, "b", slurm::Blame::NodeFailed), all) << "another run's";
  EXPECT_EQ(nodes_blamed(0, "a", slurm::Blame::Shared), all);
  EXPECT_EQ(nodes_blamed(0, "a", slurm::Blame::Slow), all) << "to be slow explains no end";
  EXPECT_EQ(nodes_blamed(100, "a", slurm::Blame::Worked),
            (std::vector<std::string>{"node01", "node03"}));
}

TEST(NodeSuspicion, ASlowNodeIsWatchedAndNotAvoidedByThatAlone) {
  const auto bench = [](double ago, double weight = slurm::kSlowWeight) {
    return event(ago, slurm::Blame::Slow, "", weight);
  };
  const auto avoided = [](const std::vector<slurm::NodeEvent>& events) {
    return !slurm::nodes_to_avoid(events, kNow, {}, {"node01", "node02"}, 1).empty();
  };
  EXPECT_EQ(slurm::score({bench(0)}, kNow, {}), 0.5);
  EXPECT_EQ(slurm::score({bench(2 * kHour)}, kNow, {}), 0.25) << "it fades as all do";
  const std::vector<slurm::NodeEvent> often = {bench(0), bench(100), bench(200), bench(300)};
  EXPECT_EQ(slurm::score(often, kNow, {}), 0.5) << "the newest bench says what the node is like";
  EXPECT_FALSE(avoided(often));
  EXPECT_EQ(slurm::score({bench(0, 0), bench(100)}, kNow, {}), 0) << "it is fast again";
  EXPECT_EQ(slurm::score({bench(0), bench(100, 0)}, kNow, {}), 0.5) << "it is slow again";
  EXPECT_TRUE(avoided({bench(0), event(100, slurm::Blame::Shared, "a", 0.5)}))
      << "beside a failure it counts";
  EXPECT_FALSE(avoided({event(100, slurm::Blame::Shared, "a", 0.5)}));
  const auto suspects = slurm::suspicions({bench(720)}, kNow, {});
  ASSERT_EQ(suspects.size(), 1U);
  EXPECT_EQ(suspects[0].why, "slow in its bench 12 min ago");
}

TEST(NodeSuspicion, ScoresFade) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    const char* name;
    std::vector<slurm::NodeEvent> events;
    double score;
  };
  const Case cases[] = {
      {"nothing", {}, 0},
      {"a failure of now", {event(0, slurm::Blame::NodeFailed)}, 1},
      {"of the future", {event(-500, slurm::Blame::Hung)}, 1},
      {"a half-life ago", {event(2 * kHour, slurm::Blame::LaunchFailed)}, 0.5},
      {"two half-lives ago", {event(4 * kHour, slurm::Blame::Prolog)}, 0.25},
      {"one of four nodes", {event(0, slurm::Blame::Shared, "a", 0.25)}, 0.25},
      {"ten half-lives ago", {event(20 * kHour, slurm::Blame::Hung)}, std::exp2(-10)},
      {"forgotten", {event(20 * kHour + 1, slurm::Blame::Hung)}, 0},
      {"two of two runs",
       {event(0, slurm::Blame::Hung, "a"), event(0, slurm::Blame::Hung, "b")},
       2},
      {"one incident",
       {event(0, slurm::Blame::Hung), event(60, slurm::Blame::NodeFailed)},
       std::exp2(-60 / 7200.0)},
      {"an incident is as long as from its first event",
       {event(0, slurm::Blame::Hung), event(50, slurm::Blame::Hung),
        event(100, slurm::Blame::Hung)},
       1 + std::exp2(-100 / 7200.0)},
      {"two incidents", {event(0, slurm::Blame::Hung), event(7200, slurm::Blame::Hung)}, 1.5},
      {"the most of an incident counts",
       {event(0, slurm::Blame::Shared, "a", 0.25), event(0, slurm::Blame::Hung, "a"),
        event(0, slurm::Blame::Shared, "a", 0.5)},
       1},
      {"good work", {event(0, slurm::Blame::NodeFailed), event(0, slurm::Blame::Worked)}, 1},
      {"good work after a failure",
       {event(0, slurm::Blame::Worked), event(7200, slurm::Blame::Hung)},
       0},
      {"good work fades as well",
       {event(7200, slurm::Blame::Worked), event(14400, slurm::Blame::Hung)},
       0},
      {"good work within an incident's time",
       {event(10, slurm::Blame::Worked), event(10.5, slurm::Blame::Hung, "b")},
       std::exp2(-10.5 / 7200) - 0.5 * std::exp2(-10 / 7200.0)},
      {"good work earns nothing",
       {event(0, slurm::Blame::Hung), event(100, slurm::Blame::Worked),
        event(200, slurm::Blame::Worked)},
       1},
      {"a weight above 1 is none", {event(0, slurm::Blame::Shared, "a", 7)}, 1},
      {"a weight below 0 is none", {event(0, slurm::Blame::Shared, "a", -7)}, 0},
      {"a time that is none", {event(nan, slurm::Blame::Hung), event(0, slurm::Blame::Hung)}, 1},
  };
  for (Case item : cases) {
    std::sort(
        item.events.begin(), item.events.end(),
        [](const slurm::NodeEvent& a, const slurm::NodeEvent& b) { return a.weight < b.weight; });
    EXPECT_NEAR(slurm::score(item.events, kNow, {}), item.score, 1e-12) << item.name;
    std::reverse(item.events.begin(), item.events.end());
    EXPECT_NEAR(slurm::score(item.events, kNow, {}), item.score, 1e-12)
        << item.name << ", reversed";
  }
}

TEST(NodeSuspicion, ThePolicyDecides) {
  slurm::SuspicionPolicy policy;
  policy.half_life_seconds = 100;
  policy.worked_credit = 0.25;
  EXPECT_NEAR(slurm::score({event(100, slurm::Blame::Hung)}, kNow, policy), 0.5, 1e-12);
  EXPECT_NEAR(
      slurm::score({event(100, slurm::Blame::Hung), event(0, slurm::Blame::Worked)}, kNow, policy),
      0.25, 1e-12);
  EXPECT_FALSE(slurm::is_forgotten(event(1000, slurm::Blame::Hung), kNow, policy));
  EXPECT_TRUE(slurm::is_forgotten(event(1001, slurm::Blame::Hung), kNow, policy));
  EXPECT_FALSE(slurm::is_forgotten(event(-1001, slurm::Blame::Hung), kNow, policy));
}

TEST(NodeSuspicion, SaysWhy) {
  struct Case {
    const char* name;
    std::vector<slurm::NodeEvent> events;
    const char* why;
  };
  const Case cases[] = {
      {"two",
       {event(7000, slurm::Blame::Hung), event(720, slurm::Blame::NodeFailed)},
       "2 failures in the last 2 h, the last: node failed under demo-4f2a91 12 min ago"},
      {"minutes",
       {event(61, slurm::Blame::Hung, "a"), event(5, slurm::Blame::LaunchFailed, "b")},
       "2 failures in the last 2 min, the last: launch failed under b 5 s ago"},
      {"one", {event(2 * kHour, slurm::Blame::Prolog)}, "prolog failed under demo-4f2a91 2 h ago"},
      {"no run", {event(0, slurm::Blame::Hung, "")}, "a rank hung 1 s ago"},
      {"shared",
       {event(90, slurm::Blame::Shared, "a", 0.25)},
       "early end with no node named under a 2 min ago"},
      {"work is not a failure",
       {event(7000, slurm::Blame::Hung), event(720, slurm::Blame::NodeFailed),
        event(7100, slurm::Blame::Worked)},
       "2 failures in the last 2 h, the last: node failed under demo-4f2a91 12 min ago"},
      {"an incident is one",
       {event(30, slurm::Blame::Shared, "a", 0.5), event(30, slurm::Blame::Hung, "a")},
       "a rank hung under a 30 s ago"},
  };
  for (const Case& item : cases) {
    const std::vector<slurm::Avoided> all = slurm::suspicions(item.events, kNow, {});
    ASSERT_EQ(all.size(), 1U) << item.name;
    EXPECT_EQ(all[0].why, item.why) << item.name;
  }
}

TEST(NodeSuspicion, SuspicionsAreSortedAndLeaveOutWhoIsAboveSuspicion) {
  const std::vector<slurm::Avoided> all =
      slurm::suspicions({event(0, slurm::Blame::Hung, "a", 1, "node03"),
                         event(0, slurm::Blame::Hung, "a", 1, "node02"),
                         event(0, slurm::Blame::Hung, "a", 1, "node04"),
                         event(0, slurm::Blame::Hung, "b", 1, "node04"),
                         event(0, slurm::Blame::Shared, "c", 0.25, "node01"),
                         event(0, slurm::Blame::Worked, "a", 1, "node05")},
                        kNow, {});
  std::vector<std::string> names;
  for (const slurm::Avoided& row : all) names.push_back(row.node);
  EXPECT_EQ(names, (std::vector<std::string>{"node04", "node02", "node03", "node01"}));
  EXPECT_NEAR(all.front().score, 2, 1e-12);
}

TEST(NodeSuspicion, AvoidsOnlyAsManyAsCanBeSpared) {
  std::vector<slurm::NodeEvent> events;
  for (int i = 1; i <= 6; ++i) {  // node01 is the most suspicious
    events.push_back(event(60 * i, slurm::Blame::Hung, "a", 1, "node0" + std::to_string(i)));
  }
  events.push_back(event(0, slurm::Blame::Shared, "a", 0.25, "node07"));
  using Names = std::vector<std::string>;
  const Names eight = {"node01", "node02", "node03", "node04",
                       "node05", "node06", "node07", "node08"};
  struct Case {
    const char* name;
    Names usable;
    std::size_t needed;
    Names avoided;
  };
  const Case cases[] = {
      {"enough are left", eight, 2, {"node01", "node02", "node03", "node04", "node05", "node06"}},
      {"the worst first", eight, 6, {"node01", "node02"}},
      {"all are needed", eight, 8, {}},
      {"more than there are are needed", eight, 9, {}},
      {"not known", {}, 2, {"node01", "node02", "node03", "node04"}},
      {"who is out already costs nothing",
       {"node02", "node08"},
       1,
       {"node01", "node02", "node03", "node04", "node05", "node06"}},
      {"who is out already, and nobody can be spared",
       {"node02", "node08"},
       2,
       {"node01", "node03", "node04", "node05", "node06"}},
      {"too few without those who are out", {"node02", "node08"}, 3, {}},
      {"a name twice is one node",
       {"node01", "node01", "node08"},
       2,
       {"node02", "node03", "node04", "node05", "node06"}},
      {"no need", {"node01"}, 0, {"node01", "node02", "node03", "node04", "node05", "node06"}},
  };
  for (const Case& item : cases) {
    Names avoided;
    for (const slurm::Avoided& row :
         slurm::nodes_to_avoid(events, kNow, {}, item.usable, item.needed)) {
      EXPECT_FALSE(row.why.empty());
      avoided.push_back(row.node);
    }
    EXPECT_EQ(avoided, item.avoided) << item.name;
  }
}

TEST(NodeSuspicion, TheThresholdIsWithinAvoiding) {
  slurm::SuspicionPolicy policy;
  const std::vector<slurm::NodeEvent> events = {event(0, slurm::Blame::Shared, "a", 0.9)};
  EXPECT_EQ(slurm::nodes_to_avoid(events, kNow, policy, {}, 1).size(), 1U);
  policy.threshold = 0.91;
  EXPECT_TRUE(slurm::nodes_to_avoid(events, kNow, policy, {}, 1).empty());
  policy = {};
  policy.most_unknown = 0;
  EXPECT_TRUE(slurm::nodes_to_avoid(events, kNow, policy, {}, 1).empty());
}

}  // namespace
}  // namespace regatta::orchestrator
