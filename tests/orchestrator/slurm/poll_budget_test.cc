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
  slurm::PollKind kind = slurm::PollKind::Jobs;
  double start = 0;
  double end = 0;
};
struct Simulation {
  std::vector<Call> calls;
  [[nodiscard]] std::vector<double> starts(slurm::PollKind kind) const {
    std::vector<double> out;
    for (const Call& call : calls) {
      if (call.kind == kind) out.push_back(call.start);
    }
    return out;
  }
  [[nodiscard]] double longest_pause(slurm::PollKind kind, double end) const {
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

using Duration = std::function<double(slurm::PollKind, double)>;
using Outcome = std::function<slurm::PollOutcome(slurm::PollKind, double)>;
slurm::PollOutcome good(slurm::PollKind /*kind*/, double /*now*/) {
  return slurm::PollOutcome::Good;
}

// Four looks a second, as the controller has them; `before_look` may change the budget.
Simulation simulate(slurm::PollBudget& budget, double seconds, const Duration& duration,
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

double quick(slurm::PollKind /*kind*/, double /*now*/) { return 0.05; }

TEST(PollBudget, KeepsItsPaceIdleAndBusy) {
  for (const bool busy : {false, true}) {
    slurm::PollBudget budget({});
    budget.set_busy(busy);
    const Simulation run = simulate(budget, 3600, quick);
    EXPECT_LE(run.most_per_minute(), busy ? 12u : 6u);
    const double jobs = busy ? 15 : 30;
    EXPECT_LE(run.longest_pause(slurm::PollKind::Jobs, 3600), jobs + 3 * budget.gap() + 1);
    EXPECT_LE(run.longest_pause(slurm::PollKind::Nodes, 3600), 2 * jobs + 3 * budget.gap() + 1);
    EXPECT_GE(run.starts(slurm::PollKind::Jobs).size(), busy ? 200u : 90u);
    EXPECT_GE(run.starts(slurm::PollKind::Accounting).size(), busy ? 11u : 5u);
    EXPECT_GE(run.starts(slurm::PollKind::Cluster).size(), busy ? 5u : 2u);
  }
}

TEST(PollBudget, StartsWithEveryKindSoon) {
  slurm::PollBudget budget({});
  const Simulation run = simulate(budget, 40, quick);
  ASSERT_EQ(run.calls.size(), 4u);
  EXPECT_EQ(run.calls[0].kind, slurm::PollKind::Jobs);
}

TEST(PollBudget, AKindWithoutAnIntervalIsAskedOnlyWhenHurried) {
  slurm::PollLimits limits;
  for (slurm::PollPace* pace : {&limits.idle, &limits.busy}) {
    for (std::size_t i = 1; i < slurm::kPollKinds; ++i) {
      pace->intervals[i] = std::numeric_limits<double>::infinity();
    }
  }
  slurm::PollBudget budget(limits);
  const Simulation run = simulate(budget, 600, quick);
  EXPECT_EQ(run.starts(slurm::PollKind::Jobs).size(), run.calls.size());
  budget.hurry(slurm::PollKind::Accounting, 600);
  std::size_t asked = 0;
  for (double now = 600; now < 700; now += 1) {
    const auto kind = budget.next(now);
    if (!kind) continue;
    asked += *kind == slurm::PollKind::Accounting ? 1 : 0;
    budget.started(*kind, now);
    budget.finished(slurm::PollOutcome::Good, now);
  }
  EXPECT_EQ(asked, 1U);
}

TEST(PollBudget, AKindThatNobodyWantsIsNotAskedFor) {
  slurm::PollBudget budget({});
  for (const slurm::PollKind kind : {slurm::PollKind::Accounting, slurm::PollKind::Nodes,
                                     slurm::PollKind::Cluster, slurm::PollKind::Reservations}) {
    budget.set_wanted(kind, false, 0);
  }
  // Nodes are wanted from 1000 to 2000 s, and somebody is in a hurry for them all the time.
  const Simulation run = simulate(budget, 3600, quick, good, [&](double now) {
    budget.set_wanted(slurm::PollKind::Nodes, now >= 1000 && now < 2000, now);
    if (now < 1000 || now >= 2000) budget.hurry(slurm::PollKind::Nodes, now);
  });
  EXPECT_EQ(run.starts(slurm::PollKind::Jobs).size() + run.starts(slurm::PollKind::Nodes).size(),
            run.calls.size());
  EXPECT_LE(run.longest_pause(slurm::PollKind::Jobs, 3600), 30 + 2 * budget.gap());
  const std::vector<double> nodes = run.starts(slurm::PollKind::Nodes);
  ASSERT_GE(nodes.size(), 12u);
  EXPECT_LE(nodes.size(), 17u);
  EXPECT_GE(nodes.front(), 1000);
  EXPECT_LE(nodes.front(), 1000 + 2 * budget.gap()) << "at once when somebody wants to know";
  EXPECT_LT(nodes.back(), 2000);
}

TEST(PollBudget, WantedAgainIsNoOlderThanWhatWaits) {
  slurm::PollBudget budget({});
  budget.set_wanted(slurm::PollKind::Nodes, false, 0);
  budget.hurry(slurm::PollKind::Jobs, 0);
  budget.set_wanted(slurm::PollKind::Nodes, true, 10000);
  for (const slurm::PollKind kind : {slurm::PollKind::Accounting, slurm::PollKind::Cluster}) {
    budget.set_wanted(kind, false, 0);
  }
  EXPECT_EQ(budget.next(10001), slurm::PollKind::Jobs);
}

TEST(PollBudget, AsksASlowSlurmLessOften) {
  slurm::PollBudget budget({});
  budget.set_busy(true);
  const Simulation run = simulate(budget, 3600, [](slurm::PollKind, double) { return 4.0; });
  // 4 s at a share of 5 % is once in 80 s.
  EXPECT_LE(run.starts(slurm::PollKind::Jobs).size(), 3600u / 80 + 1);
  EXPECT_GE(run.starts(slurm::PollKind::Jobs).size(), 30u);
  EXPECT_EQ(budget.interval(slurm::PollKind::Jobs), 80);
  (void)simulate(budget, 1, quick);
}

TEST(PollBudget, OneSlowCallIsNoSlowSlurm) {
  slurm::PollBudget budget({});
  budget.set_busy(true);
  const Simulation run = simulate(budget, 600, [](slurm::PollKind, double now) {
    return now >= 100 && now < 115 ? 115 - now : 0.05;
  });
  EXPECT_LE(run.longest_pause(slurm::PollKind::Jobs, 600), 15 + 30 + 2 * budget.gap());
  EXPECT_GE(run.starts(slurm::PollKind::Jobs).size(), 600u / 15 - 8);
}

TEST(PollBudget, ASlowAccountingDoesNotSlowTheQueue) {
  slurm::PollBudget budget({});
  budget.set_busy(true);
  const Simulation run = simulate(budget, 3600, [](slurm::PollKind kind, double) {
    return kind == slurm::PollKind::Accounting ? 20.0 : 0.05;
  });
  EXPECT_GE(run.starts(slurm::PollKind::Jobs).size(), 180u);
  EXPECT_GE(run.starts(slurm::PollKind::Accounting).size(), 7u);
}

TEST(PollBudget, RecoversFromSlowness) {
  slurm::PollBudget budget({});
  budget.set_busy(true);
  const Simulation run =
      simulate(budget, 3600, [](slurm::PollKind, double now) { return now < 600 ? 10.0 : 0.05; });
  std::size_t late = 0;
  for (const double start : run.starts(slurm::PollKind::Jobs)) late += start > 3000 ? 1 : 0;
  EXPECT_GE(late, 30u);
}

TEST(PollBudget, BacksOffFromRateLimits) {
  slurm::PollBudget budget({});
  budget.set_busy(true);
  const Simulation run = simulate(
      budget, 3600, quick, [](slurm::PollKind, double) { return slurm::PollOutcome::RateLimited; });
  // Pauses of 15, 30, … 480 s are 945 s together; then one call in 600 s.
  EXPECT_LE(run.calls.size(), 11u);
  EXPECT_GE(run.calls.size(), 7u);
  slurm::PollBudget recovering({});
  recovering.set_busy(true);
  const Simulation after = simulate(recovering, 3600, quick, [](slurm::PollKind, double now) {
    return now < 300 ? slurm::PollOutcome::RateLimited : slurm::PollOutcome::Good;
  });
  EXPECT_GE(after.starts(slurm::PollKind::Jobs).size(), 150u);
}

TEST(PollBudget, TellsWhatItCosts) {
  slurm::PollBudget budget({});
  std::vector<double> starts;
  int most = 0;
  const auto slow = [&](slurm::PollKind, double now) {
    starts.push_back(now);
    return 3.0;
  };
  (void)simulate(budget, 1800, slow, good, [&](double now) {
    budget.set_busy(now > 900);
    const runs::Asking use = budget.use(now);
    const auto in_minute = std::count_if(starts.begin(), starts.end(),
                                         [now](double start) { return start >= now - 60; });
    ASSERT_EQ(use.calls, in_minute) << now;
    EXPECT_EQ(use.most_calls, now > 900 ? 12 : 6);
    EXPECT_EQ(use.paused_seconds, 0);
    most = std::max(most, use.calls);
  });
  EXPECT_GE(most, 4);
  EXPECT_NEAR(budget.use(1800).call_seconds, 3, 0.3);
  EXPECT_EQ(budget.use(1900).calls, 0) << "a minute after the last";
}

TEST(PollBudget, TellsThatSlurmIsAskedTooOften) {
  slurm::PollBudget budget({});
  EXPECT_EQ(budget.use(0).call_seconds, 0);
  const auto kind = budget.next(100);
  ASSERT_TRUE(kind);
  budget.started(*kind, 100);
  budget.finished(slurm::PollOutcome::RateLimited, 100.5);
  EXPECT_DOUBLE_EQ(budget.use(101.5).paused_seconds, 14);
  EXPECT_EQ(budget.use(101.5).calls, 1);
  EXPECT_EQ(budget.use(200).paused_seconds, 0);
}

TEST(PollBudget, AFailingKindIsAskedRarelyAndAlone) {
  slurm::PollBudget budget({});
  budget.set_busy(true);
  const Simulation run = simulate(budget, 3600, quick, [](slurm::PollKind kind, double) {
    return kind == slurm::PollKind::Nodes ? slurm::PollOutcome::Failed : slurm::PollOutcome::Good;
  });
  EXPECT_LE(run.starts(slurm::PollKind::Nodes).size(), 20u);
  EXPECT_LE(run.longest_pause(slurm::PollKind::Nodes, 3600), 300 + 3 * budget.gap() + 1);
  EXPECT_GE(run.starts(slurm::PollKind::Jobs).size(), 200u);
}

slurm::PollOutcome failed(slurm::PollKind /*kind*/, double /*now*/) {
  return slurm::PollOutcome::Failed;
}

// Refused connections take no time, and a stopped slurmctld keeps a question for 10 to 20 s.
TEST(PollBudget, ASilentSlurmIsAskedTwiceAMinute) {
  for (const double seconds : {0.05, 10.0, 20.0}) {
    slurm::PollBudget budget({});
    budget.set_busy(true);
    const Simulation run = simulate(
        budget, 1800, [&](slurm::PollKind, double) { return seconds; }, failed);
    EXPECT_LE(run.most_per_minute(), 12u);
    double before = 60;  // when the first questions have failed
    std::size_t later = 0;
    for (const Call& call : run.calls) {
      if (call.start < before) continue;
      EXPECT_LE(call.start - before, 36) << "at " << call.start << " s";
      before = call.start;
      ++later;
    }
    EXPECT_GE(before, 1760);
    EXPECT_LE(later, 1740u / 30 + 6) << "and accounting, which is another daemon";
    EXPECT_LE(run.longest_pause(slurm::PollKind::Jobs, 1800), 4 * 36)
        << "in turn with nodes and cluster";
  }
}

TEST(PollBudget, TheFirstAnswerEndsASilenceAtOnce) {
  for (const bool looks : {false, true}) {
    slurm::PollBudget budget({});
    budget.set_busy(true);
    const double back = 1000;
    const Simulation run = simulate(
        budget, 1200, [&](slurm::PollKind, double now) { return now < back ? 20.0 : 0.05; },
        [&](slurm::PollKind, double now) {
          return now < back ? slurm::PollOutcome::Failed : slurm::PollOutcome::Good;
        },
        [&](double now) {
          if (looks && now == back) budget.look(slurm::PollKind::Jobs, now);
        });
    const auto first_after = [&](slurm::PollKind kind) {
      for (const double start : run.starts(kind)) {
        if (start >= back) return start - back;
      }
      return 1e9;
    };
    // A question that was under way when Slurm came back is that of before.
    EXPECT_LE(first_after(slurm::PollKind::Jobs), (looks ? 20 : 30) + 3 * budget.gap());
    EXPECT_LE(first_after(slurm::PollKind::Nodes), (looks ? 20 : 30) + 4 * budget.gap());
    std::size_t jobs = 0;
    for (const double start : run.starts(slurm::PollKind::Jobs)) jobs += start > 1040 ? 1 : 0;
    EXPECT_GE(jobs, 160u / 15 - 2) << "no pause is left of the silence";
  }
}

// What a command was answered counts as well: then all that was missed is asked for.
TEST(PollBudget, AnAnswerToACommandEndsASilence) {
  slurm::PollBudget budget({});
  budget.set_busy(true);
  (void)simulate(budget, 600, quick, failed);
  EXPECT_FALSE(budget.next(600.1)) << "it pauses";
  budget.answered(610);
  ASSERT_TRUE(budget.next(610));
  budget.started(*budget.next(610), 610);
  budget.finished(slurm::PollOutcome::Good, 610.05);
  EXPECT_TRUE(budget.next(610 + budget.gap())) << "the other kinds";
}

TEST(PollBudget, WhoLooksKeepsToTheShare) {
  slurm::PollBudget budget({});
  budget.set_busy(true);
  const Simulation slow = simulate(
      budget, 3600, [](slurm::PollKind, double) { return 4.0; }, good,
      [&](double now) { budget.look(slurm::PollKind::Jobs, now); });
  EXPECT_LE(slow.starts(slurm::PollKind::Jobs).size(), 3600u / 80 + 1) << "4 s at 5 %";
  slurm::PollBudget other({});
  other.set_busy(true);
  const Simulation fast = simulate(other, 600, quick, good,
                                   [&](double now) { other.look(slurm::PollKind::Jobs, now); });
  EXPECT_LE(fast.longest_pause(slurm::PollKind::Jobs, 600), 3 * other.gap()) << "else at once";
  EXPECT_LE(fast.most_per_minute(), 12u);
}

// What a command has changed may have come too late for the answer that was under way.
// Somebody has the page open, and a job has to be looked up in accounting, which has no interval.
TEST(PollBudget, WhoLooksStarvesNobody) {
  slurm::PollLimits limits;
  for (slurm::PollPace* pace : {&limits.idle, &limits.busy}) {
    pace->intervals[static_cast<std::size_t>(slurm::PollKind::Accounting)] =
        std::numeric_limits<double>::infinity();
  }
  slurm::PollBudget budget(limits);
  budget.set_busy(true);
  budget.set_wanted(slurm::PollKind::Cluster, false, 0);
  const auto look = [&](double now) {
    budget.look(slurm::PollKind::Jobs, now);
    budget.look(slurm::PollKind::Nodes, now);
    budget.hurry(slurm::PollKind::Accounting, now);
  };
  const Simulation run = simulate(
      budget, 600, [](slurm::PollKind, double) { return 0.05; }, good, look);
  EXPECT_LE(run.longest_pause(slurm::PollKind::Accounting, 600), 30);
  EXPECT_LE(run.longest_pause(slurm::PollKind::Jobs, 600), 30);
  EXPECT_LE(run.longest_pause(slurm::PollKind::Nodes, 600), 60);
  EXPECT_LE(run.most_per_minute(), 12U);
}

TEST(PollBudget, WhoHurriesDuringAQuestionIsServedByTheNext) {
  slurm::PollBudget budget({});
  budget.set_busy(true);
  budget.started(slurm::PollKind::Jobs, 100);
  budget.hurry(slurm::PollKind::Jobs, 100.5);
  budget.finished(slurm::PollOutcome::Good, 101);
  for (const slurm::PollKind kind : {slurm::PollKind::Accounting, slurm::PollKind::Nodes,
                                     slurm::PollKind::Cluster, slurm::PollKind::Reservations}) {
    budget.set_wanted(kind, false, 101);
  }
  EXPECT_EQ(budget.next(100 + budget.gap() + 0.1), slurm::PollKind::Jobs);
}

TEST(PollBudget, HurryIsServedWithinTheBudget) {
  slurm::PollBudget budget({});
  budget.set_busy(true);
  // Somebody who is always in a hurry neither breaks the budget nor starves the others.
  const Simulation run = simulate(budget, 3600, quick, good,
                                  [&](double now) { budget.hurry(slurm::PollKind::Jobs, now); });
  EXPECT_LE(run.most_per_minute(), 12u);
  EXPECT_LE(run.longest_pause(slurm::PollKind::Jobs, 3600), 4 * budget.gap());
  EXPECT_LE(run.longest_pause(slurm::PollKind::Nodes, 3600), 30 + 5 * budget.gap());
  EXPECT_LE(run.longest_pause(slurm::PollKind::Cluster, 3600), 600 + 600 * 0.5);
}

TEST(PollBudget, PropertyNeverAboveTheBudgetAndNobodyStarves) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    slurm::PollBudget budget({});
    const double slowness = static_cast<double>(random() % 100) / 20;
    const std::uint64_t failing = random() % 8;
    bool busy = random() % 2 == 0;
    budget.set_busy(busy);
    const double seconds = 6 * 3600;
    const Simulation run = simulate(
        budget, seconds,
        [&](slurm::PollKind, double) {
          return slowness * static_cast<double>(random() % 100) / 100;
        },
        [&](slurm::PollKind, double) {
          return random() % 8 < failing / 2 ? slurm::PollOutcome::Failed : slurm::PollOutcome::Good;
        },
        [&](double now) {
          if (random() % 400 == 0)
            budget.hurry(static_cast<slurm::PollKind>(random() % slurm::kPollKinds), now);
          if (random() % 4000 == 0) budget.set_busy(busy = !busy);
        });
    EXPECT_LE(run.most_per_minute(), 12u) << "seed " << seed;
    for (std::size_t i = 1; i < run.calls.size(); ++i) {
      ASSERT_GE(run.calls[i].start, run.calls[i - 1].end) << "seed " << seed;
      ASSERT_GE(run.calls[i].start - run.calls[i - 1].start, 5.0) << "seed " << seed;
    }
    const double bounds[slurm::kPollKinds] = {300, 600, 300, 1800, 650};
    for (std::size_t i = 0; i < slurm::kPollKinds; ++i) {
      const auto kind = static_cast<slurm::PollKind>(i);
      EXPECT_LE(run.longest_pause(kind, seconds), bounds[i] + 90)
          << "seed " << seed << " kind " << i;
    }
  }
}

}  // namespace
}  // namespace regatta::orchestrator
