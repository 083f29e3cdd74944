#include "orchestrator/slurm/poll_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace regatta::orchestrator {
namespace {

struct Call {
  PollKind kind = PollKind::Jobs;
  double start = 0;
  double end = 0;
};
struct Simulation {
  std::vector<Call> calls;
  [[nodiscard]] std::vector<double> starts(PollKind kind) const {
    std::vector<double> out;
    for (const Call& call : calls) {
      if (call.kind == kind) out.push_back(call.start);
    }
    return out;
  }
  [[nodiscard]] double longest_pause(PollKind kind, double end) const {
    double longest = 0;
    double before = 0;
    for (const double start : starts(kind)) {
      longest = std::max(longest, start - before);
      before = start;
    }
    return std::max(longest, end - before);
  }
  // The most calls that began within any minute.
  [[nodiscard]] std::size_t most_per_minute() const {
    std::size_t most = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      std::size_t count = 0;
      for (std::size_t j = i; j < calls.size() && calls[j].start < calls[i].start + 60; ++j)
        ++count;
      most = std::max(most, count);
    }
    return most;
  }
};

using Duration = std::function<double(PollKind, double)>;
using Outcome = std::function<PollOutcome(PollKind, double)>;
PollOutcome good(PollKind /*kind*/, double /*now*/) { return PollOutcome::Good; }

// Four looks a second, as the controller has them; `before_look` may change the budget.
Simulation simulate(PollBudget& budget, double seconds, const Duration& duration,
                    const Outcome& outcome = good,
                    const std::function<void(double)>& before_look = {}) {
  Simulation out;
  std::optional<Call> flying;
  for (double now = 0; now < seconds; now += 0.25) {
    if (before_look) before_look(now);
    if (flying && now >= flying->end) {
      budget.finished(outcome(flying->kind, now), now);
      flying.reset();
    }
    const auto kind = budget.next(now);
    if (!kind) continue;
    EXPECT_FALSE(flying) << "one call at a time";
    budget.started(*kind, now);
    flying = Call{*kind, now, now + duration(*kind, now)};
    out.calls.push_back(*flying);
  }
  return out;
}

double quick(PollKind /*kind*/, double /*now*/) { return 0.05; }

TEST(PollBudget, KeepsItsPaceIdleAndBusy) {
  for (const bool busy : {false, true}) {
    PollBudget budget({});
    budget.set_busy(busy);
    const Simulation run = simulate(budget, 3600, quick);
    EXPECT_LE(run.most_per_minute(), busy ? 12u : 6u);
    const double jobs = busy ? 15 : 30;
    EXPECT_LE(run.longest_pause(PollKind::Jobs, 3600), jobs + 3 * budget.gap() + 1);
    EXPECT_LE(run.longest_pause(PollKind::Nodes, 3600), 2 * jobs + 3 * budget.gap() + 1);
    EXPECT_GE(run.starts(PollKind::Jobs).size(), busy ? 200u : 90u);
    EXPECT_GE(run.starts(PollKind::Accounting).size(), busy ? 11u : 5u);
    EXPECT_GE(run.starts(PollKind::Cluster).size(), busy ? 5u : 2u);
  }
}

TEST(PollBudget, StartsWithEveryKindSoon) {
  PollBudget budget({});
  const Simulation run = simulate(budget, 40, quick);
  ASSERT_EQ(run.calls.size(), 4u);
  EXPECT_EQ(run.calls[0].kind, PollKind::Jobs);
}

TEST(PollBudget, AKindWithoutAnIntervalIsAskedOnlyWhenHurried) {
  PollLimits limits;
  for (PollPace* pace : {&limits.idle, &limits.busy}) {
    for (std::size_t i = 1; i < kPollKinds; ++i) {
      pace->intervals[i] = std::numeric_limits<double>::infinity();
    }
  }
  PollBudget budget(limits);
  const Simulation run = simulate(budget, 600, quick);
  EXPECT_EQ(run.starts(PollKind::Jobs).size(), run.calls.size());
  budget.hurry(PollKind::Accounting, 600);
  std::size_t asked = 0;
  for (double now = 600; now < 700; now += 1) {
    const auto kind = budget.next(now);
    if (!kind) continue;
    asked += *kind == PollKind::Accounting ? 1 : 0;
    budget.started(*kind, now);
    budget.finished(PollOutcome::Good, now);
  }
  EXPECT_EQ(asked, 1U);
}

TEST(PollBudget, AKindThatNobodyWantsIsNotAskedFor) {
  PollBudget budget({});
  for (const PollKind kind : {PollKind::Accounting, PollKind::Nodes, PollKind::Cluster}) {
    budget.set_wanted(kind, false, 0);
  }
  // Nodes are wanted from 1000 to 2000 s, and somebody is in a hurry for them all the time.
  const Simulation run = simulate(budget, 3600, quick, good, [&](double now) {
    budget.set_wanted(PollKind::Nodes, now >= 1000 && now < 2000, now);
    if (now < 1000 || now >= 2000) budget.hurry(PollKind::Nodes, now);
  });
  EXPECT_EQ(run.starts(PollKind::Jobs).size() + run.starts(PollKind::Nodes).size(),
            run.calls.size());
  EXPECT_LE(run.longest_pause(PollKind::Jobs, 3600), 30 + 2 * budget.gap());
  const std::vector<double> nodes = run.starts(PollKind::Nodes);
  ASSERT_GE(nodes.size(), 12u);
  EXPECT_LE(nodes.size(), 17u);
  EXPECT_GE(nodes.front(), 1000);
  EXPECT_LE(nodes.front(), 1000 + 2 * budget.gap()) << "at once when somebody wants to know";
  EXPECT_LT(nodes.back(), 2000);
}

TEST(PollBudget, WantedAgainIsNoOlderThanWhatWaits) {
  PollBudget budget({});
  budget.set_wanted(PollKind::Nodes, false, 0);
  budget.hurry(PollKind::Jobs, 0);
  budget.set_wanted(PollKind::Nodes, true, 10000);
  for (const PollKind kind : {PollKind::Accounting, PollKind::Cluster}) {
    budget.set_wanted(kind, false, 0);
  }
  EXPECT_EQ(budget.next(10001), PollKind::Jobs);
}

TEST(PollBudget, AsksASlowSlurmLessOften) {
  PollBudget budget({});
  budget.set_busy(true);
  const Simulation run = simulate(budget, 3600, [](PollKind, double) { return 4.0; });
  // 4 s at a share of 5 % is once in 80 s.
  EXPECT_LE(run.starts(PollKind::Jobs).size(), 3600u / 80 + 1);
  EXPECT_GE(run.starts(PollKind::Jobs).size(), 30u);
  EXPECT_EQ(budget.interval(PollKind::Jobs), 80);
  (void)simulate(budget, 1, quick);
}

TEST(PollBudget, ASlowAccountingDoesNotSlowTheQueue) {
  PollBudget budget({});
  budget.set_busy(true);
  const Simulation run = simulate(budget, 3600, [](PollKind kind, double) {
    return kind == PollKind::Accounting ? 20.0 : 0.05;
  });
  EXPECT_GE(run.starts(PollKind::Jobs).size(), 180u);
  EXPECT_GE(run.starts(PollKind::Accounting).size(), 7u);
}

TEST(PollBudget, RecoversFromSlowness) {
  PollBudget budget({});
  budget.set_busy(true);
  const Simulation run =
      simulate(budget, 3600, [](PollKind, double now) { return now < 600 ? 10.0 : 0.05; });
  std::size_t late = 0;
  for (const double start : run.starts(PollKind::Jobs)) late += start > 3000 ? 1 : 0;
  EXPECT_GE(late, 30u);
}

TEST(PollBudget, BacksOffFromRateLimits) {
  PollBudget budget({});
  budget.set_busy(true);
  const Simulation run =
      simulate(budget, 3600, quick, [](PollKind, double) { return PollOutcome::RateLimited; });
  // Pauses of 15, 30, … 480 s are 945 s together; then one call in 600 s.
  EXPECT_LE(run.calls.size(), 11u);
  EXPECT_GE(run.calls.size(), 7u);
  PollBudget recovering({});
  recovering.set_busy(true);
  const Simulation after = simulate(recovering, 3600, quick, [](PollKind, double now) {
    return now < 300 ? PollOutcome::RateLimited : PollOutcome::Good;
  });
  EXPECT_GE(after.starts(PollKind::Jobs).size(), 150u);
}

TEST(PollBudget, AFailingKindIsAskedRarelyAndAlone) {
  PollBudget budget({});
  budget.set_busy(true);
  const Simulation run = simulate(budget, 3600, quick, [](PollKind kind, double) {
    return kind == PollKind::Nodes ? PollOutcome::Failed : PollOutcome::Good;
  });
  EXPECT_LE(run.starts(PollKind::Nodes).size(), 20u);
  EXPECT_LE(run.longest_pause(PollKind::Nodes, 3600), 300 + 3 * budget.gap() + 1);
  EXPECT_GE(run.starts(PollKind::Jobs).size(), 200u);
}

TEST(PollBudget, HurryIsServedWithinTheBudget) {
  PollBudget budget({});
  budget.set_busy(true);
  // Somebody who is always in a hurry neither breaks the budget nor starves the others.
  const Simulation run =
      simulate(budget, 3600, quick, good, [&](double now) { budget.hurry(PollKind::Jobs, now); });
  EXPECT_LE(run.most_per_minute(), 12u);
  EXPECT_LE(run.longest_pause(PollKind::Jobs, 3600), 4 * budget.gap());
  EXPECT_LE(run.longest_pause(PollKind::Nodes, 3600), 30 + 5 * budget.gap());
  EXPECT_LE(run.longest_pause(PollKind::Cluster, 3600), 600 + 600 * 0.5);
}

TEST(PollBudget, PropertyNeverAboveTheBudgetAndNobodyStarves) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    PollBudget budget({});
    const double slowness = static_cast<double>(random() % 100) / 20;
    const std::uint64_t failing = random() % 8;
    bool busy = random() % 2 == 0;
    budget.set_busy(busy);
    const double seconds = 6 * 3600;
    const Simulation run = simulate(
        budget, seconds,
        [&](PollKind, double) { return slowness * static_cast<double>(random() % 100) / 100; },
        [&](PollKind, double) {
          return random() % 8 < failing / 2 ? PollOutcome::Failed : PollOutcome::Good;
        },
        [&](double now) {
          if (random() % 400 == 0) budget.hurry(static_cast<PollKind>(random() % kPollKinds), now);
          if (random() % 4000 == 0) budget.set_busy(busy = !busy);
        });
    EXPECT_LE(run.most_per_minute(), 12u) << "seed " << seed;
    for (std::size_t i = 1; i < run.calls.size(); ++i) {
      ASSERT_GE(run.calls[i].start, run.calls[i - 1].end) << "seed " << seed;
      ASSERT_GE(run.calls[i].start - run.calls[i - 1].start, 5.0) << "seed " << seed;
    }
    const double bounds[kPollKinds] = {300, 600, 300, 1800};
    for (std::size_t i = 0; i < kPollKinds; ++i) {
      const auto kind = static_cast<PollKind>(i);
      EXPECT_LE(run.longest_pause(kind, seconds), bounds[i] + 90)
          << "seed " << seed << " kind " << i;
    }
  }
}

}  // namespace
}  // namespace regatta::orchestrator
