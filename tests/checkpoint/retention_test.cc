#include "checkpoint/retention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "checkpoint/pins.h"
#include "tests/checkpoint/samples.h"

namespace regatta::checkpoint {
namespace {

using Names = std::vector<std::string>;
using Mode = RetentionRound::Mode;

Names gone(const std::vector<RetentionDecision>& decisions) {  // oldest first
  Names names;
  for (auto it = decisions.rbegin(); it != decisions.rend(); ++it) {
    if (it->goes) names.push_back(it->name);
  }
  return names;
}

Candidate valid(const char* name, std::int64_t step, std::optional<double> metric = {}) {
  Candidate candidate;
  candidate.name = name;
  candidate.step = step;
  candidate.metric = metric;
  candidate.execution = "old";
  return candidate;
}
Candidate with(Candidate candidate, Status status, const char* execution = "old") {
  candidate.status = status;
  candidate.execution = execution;
  return candidate;
}
Candidate after(Candidate candidate, std::vector<Rollback> rollbacks) {
  candidate.rollbacks = std::move(rollbacks);
  return candidate;
}
Candidate pinned(Candidate candidate) {
  candidate.pinned = true;
  return candidate;
}
Candidate being_read(Candidate candidate) {
  candidate.being_read = true;
  return candidate;
}
Candidate removed(Candidate candidate) {
  candidate.removed = true;
  return candidate;
}

constexpr auto kHighest = Better::Highest;
constexpr auto kLowest = Better::Lowest;

TEST(PlanRetention, Table) {
  struct Row {
    const char* name;
    std::vector<Candidate> candidates;
    RetentionPolicy policy;
    Names removed;
  };
  const std::vector<Candidate> four{valid("c", 30, 0.5), valid("a", 10, 0.9), valid("d", 40, 0.6),
                                    valid("b", 20, 0.4)};
  const Row rows[] = {
      {"none", {}, {}, {}},
      {"fewer than kept", four, {9}, {}},
      {"last two", four, {2}, {"a", "b"}},
      {"zero counts as one", four, {0}, {"a", "b", "c"}},
      {"negative counts as one", four, {-5, -1, -1}, {"a", "b", "c"}},
      {"and the highest", four, {1, 1, 0, kHighest}, {"b", "c"}},
      {"and the lowest", four, {1, 1, 0, kLowest}, {"a", "c"}},
      {"and the two lowest", four, {1, 2, 0, kLowest}, {"a"}},
      {"more best than there are", four, {1, 9, 0, kHighest}, {}},
      {"and every twentieth step", four, {1, 0, 20}, {"a", "c"}},
      {"every step", four, {1, 0, 1}, {}},
      {"no step is reached", four, {1, 0, 1000}, {"a", "b", "c"}},
      {"step 0 is not one of every", {valid("a", 0), valid("b", 1)}, {1, 0, 7}, {"a"}},
      {"all rules", four, {1, 1, 20, kHighest}, {"c"}},
      {"same step, by name", {valid("y", 5), valid("x", 5)}, {1}, {"x"}},
      {"pinned stays and does not count",
       {pinned(valid("a", 1)), valid("b", 2), pinned(valid("c", 3))},
       {1},
       {}},
      {"pinned is not the best one either",
       {pinned(valid("a", 1, 0.9)), valid("b", 2, 0.5), valid("c", 3, 0.1)},
       {1, 1, 0, kHighest},
       {}},
      {"being read stays and counts",
       {being_read(valid("a", 1)), valid("b", 2), being_read(valid("c", 3))},
       {1},
       {"b"}},
      {"no metric, no best", {valid("a", 1), valid("b", 2)}, {1, 1, 0, kHighest}, {"a"}},
      {"newer among equals",
       {valid("a", 1, 0.5), valid("b", 2, 0.5), valid("c", 3, 0.1)},
       {1, 1, 0, kHighest},
       {"a"}},
      {"not a number is never best",
       {valid("a", 1, std::nan("")), valid("b", 2, 0.1), valid("c", 3)},
       {1, 2, 0, kLowest},
       {"a"}},
      {"infinity is a number",
       {valid("a", 1, HUGE_VAL), valid("b", 2, 0.1), valid("c", 3)},
       {1, 1, 0, kHighest},
       {"b"}},
      {"broken ones, older",
       {with(valid("a", 1), Status::Damaged), with(valid("b", 2), Status::Unfinished),
        with(valid("c", 3), Status::Unreadable), valid("d", 4)},
       {1},
       {"a", "b"}},
      {"broken ones, newer",
       {valid("a", 1), with(valid("b", 2), Status::Damaged), with(valid("c", 1), Status::Damaged)},
       {1},
       {}},
      {"broken ones of the newest attempt",
       {with(valid("a", 1), Status::Unfinished, "now"), valid("b", 2)},
       {1},
       {}},
      {"a damaged one of the newest attempt, which writes it no more",
       {with(valid("a", 1), Status::Damaged, "now"), valid("b", 2)},
       {1},
       {"a"}},
      {"broken ones of the newest attempt, after a rollback",
       {with(valid("a", 1), Status::Unfinished, "nowr1"),
        with(valid("b", 2), Status::Unfinished, "nor1"), valid("c", 3)},
       {1},
       {"b"}},
      {"broken ones, pinned or read",
       {pinned(with(valid("a", 1), Status::Damaged)),
        being_read(with(valid("b", 2), Status::Unfinished)), valid("c", 3)},
       {1},
       {}},
      {"only broken ones",
       {with(valid("a", 1), Status::Damaged), with(valid("b", 2), Status::Unfinished)},
       {1},
       {}},
      {"after a rollback it is newer, whatever its step",
       {valid("a", 40), after(valid("b", 20), {{42, 10}}), valid("c", 10)},
       {1},
       {"c", "a"}},
      {"what the run has gone back beyond goes first",
       {valid("a", 40), valid("b", 30), valid("c", 10), after(valid("d", 20), {{42, 10}})},
       {2},
       {"b", "a"}},
      {"and stays where there is room",
       {valid("a", 40), valid("b", 30), valid("c", 10), after(valid("d", 20), {{42, 10}})},
       {3},
       {"b"}},
      {"and it may be the best",
       {valid("a", 40, 0.9), valid("b", 10, 0.1), after(valid("c", 20, 0.2), {{42, 10}})},
       {1, 1, 0, kHighest},
       {"b"}},
      {"broken ones of before a rollback",
       {with(valid("a", 40), Status::Damaged), after(valid("b", 20), {{42, 10}})},
       {1},
       {"a"}},
      {"a removal that was cut short", {removed(valid("a", 1)), valid("b", 2)}, {9}, {"a"}},
      {"cut short, half there",
       {removed(with(valid("a", 1), Status::Unfinished, "now")), valid("b", 2)},
       {9},
       {"a"}},
      {"cut short, but nothing else is good",
       {removed(valid("a", 1)), removed(valid("b", 2)), with(valid("c", 3), Status::Damaged)},
       {1},
       {"a"}},
      {"cut short, but pinned or read",
       {pinned(removed(valid("a", 1))), being_read(removed(valid("b", 2))), valid("c", 3)},
       {1},
       {}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(gone(plan_retention(row.candidates, row.policy, "now")), row.removed) << row.name;
  }
}

TEST(PlanRetention, SaysWhy) {
  RetentionPolicy policy{2, 1, 1000, Better::Highest, "mlm_accuracy"};
  const std::vector<Candidate> candidates{
      valid("a", 500, 0.1),
      valid("b", 1000, 0.41),
      pinned(valid("c", 1500)),
      being_read(valid("d", 1600)),
      with(valid("e", 1700), Status::Damaged),
      valid("f", 2000, 0.2),
      valid("g", 2500, 0.3),
      with(valid("h", 3000), Status::Unfinished),
  };
  const std::vector<RetentionDecision> plan = plan_retention(candidates, policy, "now");
  ASSERT_EQ(plan.size(), 8U);
  const std::vector<std::pair<std::string, Names>> expected{
      {"h", {"unfinished, but no older than the newest good one"}},
      {"g", {"latest 1 of 2"}},
      {"f", {"latest 2 of 2", "every 1000"}},
      {"e", {"damaged, and older than the newest good one"}},
      {"d", {"being read"}},
      {"c", {"pinned"}},
      {"b", {"best mlm_accuracy 0.41", "every 1000"}},
      {"a", {"not among the latest 2, nor the best 1, nor at every 1000"}}};
  for (std::size_t i = 0; i < plan.size(); ++i) {
    EXPECT_EQ(plan[i].name, expected[i].first);
    EXPECT_EQ(plan[i].reasons, expected[i].second) << plan[i].name;
    EXPECT_EQ(plan[i].goes, plan[i].name == "a" || plan[i].name == "e");
  }
  policy.keep_best = 3;
  EXPECT_EQ(plan_retention(candidates, policy, "now")[1].reasons[1],
            "best 2 of 3, mlm_accuracy 0.3");
  EXPECT_EQ(
      plan_retention({with(valid("a", 1), Status::Damaged, "now"), valid("b", 2)}, policy, "now")[1]
          .reasons,
      Names{"damaged, and older than the newest good one"});
  EXPECT_EQ(plan_retention({removed(valid("a", 1))}, policy, "now")[0].reasons,
            Names{"the last good one"});
}

Candidate random_candidate(std::mt19937& random, unsigned number) {
  Candidate candidate;
  candidate.name = "n" + std::to_string(number);
  candidate.step = static_cast<std::int64_t>(random() % 10);
  candidate.execution = random() % 3 == 0 ? "now" : "old";
  if (random() % 2 == 0) candidate.metric = static_cast<double>(random() % 4);
  if (random() % 20 == 0) candidate.metric = std::nan("");
  if (random() % 3 == 0) candidate.status = static_cast<Status>(random() % 4);
  candidate.pinned = random() % 6 == 0;
  candidate.being_read = random() % 6 == 0;
  candidate.removed = random() % 8 == 0;
  return candidate;
}

bool was_good(const Candidate& candidate) { return candidate.status == Status::Valid; }
bool was_counted(const Candidate& candidate) {
  return was_good(candidate) && !candidate.removed && !candidate.pinned;
}

// What must hold of any plan, each by name.
void expect_invariants(const std::vector<Candidate>& candidates, const RetentionPolicy& policy,
                       const std::vector<RetentionDecision>& plan) {
  ASSERT_EQ(plan.size(), candidates.size()) << "one decision each";
  std::map<std::string, const RetentionDecision*> of;
  for (const RetentionDecision& decision : plan) {
    ASSERT_FALSE(decision.reasons.empty()) << "every decision has a reason";
    of[decision.name] = &decision;
  }
  ASSERT_EQ(of.size(), candidates.size());
  std::size_t good_before = 0;
  std::size_t good_after = 0;
  std::int64_t newest_good = -1;
  bool newest_good_stays = true;
  for (const Candidate& candidate : candidates) {
    const bool goes = of.at(candidate.name)->goes;
    ASSERT_FALSE(goes && candidate.pinned) << "a pinned one never goes";
    ASSERT_FALSE(goes && candidate.being_read) << "one being read never goes";
    ASSERT_FALSE(goes && candidate.status == Status::Unreadable) << "nor one not readable now";
    if (!was_good(candidate)) continue;
    ++good_before;
    good_after += goes ? 0 : 1;
    if (!candidate.removed && candidate.step > newest_good) {
      newest_good = candidate.step;
      newest_good_stays = false;
    }
    if (!candidate.removed && candidate.step == newest_good && !goes) newest_good_stays = true;
  }
  ASSERT_TRUE(good_before == 0 || good_after > 0) << "the last good one never goes";
  ASSERT_TRUE(newest_good_stays) << "nor the newest good one";
  const int last = std::max(policy.keep_last, 1);
  for (const Candidate& candidate : candidates) {
    const bool goes = of.at(candidate.name)->goes;
    if (!was_counted(candidate)) continue;
    int newer = 0;
    int better = 0;
    for (const Candidate& other : candidates) {
      if (!was_counted(other)) continue;
      const bool is_newer =
          std::pair(other.step, other.name) > std::pair(candidate.step, candidate.name);
      newer += is_newer ? 1 : 0;
      if (!candidate.metric || !other.metric || std::isnan(*other.metric)) continue;
      const double sign = policy.better == Better::Highest ? 1 : -1;
      const double by = sign * (*other.metric - *candidate.metric);
      better += by > 0 || (by == 0 && is_newer) ? 1 : 0;
    }
    const bool latest = newer < last;
    const bool best =
        candidate.metric && !std::isnan(*candidate.metric) && better < policy.keep_best;
    const bool every =
        policy.keep_every > 0 && candidate.step > 0 && candidate.step % policy.keep_every == 0;
    ASSERT_EQ(goes, !(latest || best || every || candidate.being_read))
        << candidate.name << ": exactly what no rule keeps";
  }
}

TEST(PlanRetention, HoldsForRandomSets) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 5000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<Candidate> candidates;
    const auto count = static_cast<unsigned>(random() % 14);
    for (unsigned i = 0; i < count; ++i) candidates.push_back(random_candidate(random, i));
    const RetentionPolicy policy{static_cast<int>(random() % 5), static_cast<int>(random() % 4),
                                 static_cast<std::int64_t>(random() % 5),
                                 static_cast<Better>(random() % 2), ""};
    const std::vector<RetentionDecision> plan = plan_retention(candidates, policy, "now");
    expect_invariants(candidates, policy, plan);
    if (HasFatalFailure()) return;

    std::shuffle(candidates.begin(), candidates.end(), random);
    const std::vector<RetentionDecision> again = plan_retention(candidates, policy, "now");
    for (std::size_t i = 0; i < plan.size(); ++i) {
      ASSERT_EQ(again[i].name, plan[i].name) << "order does not matter";
      ASSERT_EQ(again[i].goes, plan[i].goes);
      ASSERT_EQ(again[i].reasons, plan[i].reasons);
    }
    const Names first = gone(plan);
    const std::set<std::string> went(first.begin(), first.end());
    std::erase_if(candidates, [&](const Candidate& c) { return went.count(c.name) != 0; });
    ASSERT_TRUE(gone(plan_retention(candidates, policy, "now")).empty()) << "once is enough";
  }
}

}  // namespace
}  // namespace regatta::checkpoint
