// The order of a stage's work as properties, and over a simulated link: no stage waits for ever,
// and what it waits is what the papers say.
#include "trainer/contract/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::PipelineOrder;
using contract::PipelineWork;
using Way = contract::PipelineWork::Way;

constexpr PipelineOrder kOrders[] = {PipelineOrder::OneForwardOneBackward, PipelineOrder::GPipe};

TEST(PipelineWork, OfFourStagesAndFiveMicroBatchesIsThatOfThePaper) {
  const auto text = [](PipelineOrder order, int stage) {
    std::string line;
    for (const PipelineWork& work : contract::pipeline_work(order, {stage, 4, 5})) {
      line += (work.way == Way::Forward ? "F" : "B") + std::to_string(work.micro_batch);
    }
    return line;
  };
  EXPECT_EQ(text(PipelineOrder::OneForwardOneBackward, 0), "F0F1F2F3B0F4B1B2B3B4");
  EXPECT_EQ(text(PipelineOrder::OneForwardOneBackward, 1), "F0F1F2B0F3B1F4B2B3B4");
  EXPECT_EQ(text(PipelineOrder::OneForwardOneBackward, 3), "F0B0F1B1F2B2F3B3F4B4");
  EXPECT_EQ(text(PipelineOrder::GPipe, 2), "F0F1F2F3F4B0B1B2B3B4");
}

TEST(PipelineWork, GoesOnceForwardAndOnceBackInOrderWithinItsLimit) {
  for (const PipelineOrder order : kOrders) {
    for (int stages = 1; stages <= 6; ++stages) {
      for (int stage = 0; stage < stages; ++stage) {
        for (int all = 0; all <= 9; ++all) {
          const contract::PipelinePlace place{stage, stages, all};
          int forward = 0, backward = 0, most = 0;
          for (const PipelineWork& work : contract::pipeline_work(order, place)) {
            EXPECT_EQ(work.micro_batch, work.way == Way::Forward ? forward++ : backward++);
            EXPECT_LE(backward, forward);
            most = std::max(most, forward - backward);
          }
          EXPECT_EQ(forward, all);
          EXPECT_EQ(backward, all);
          EXPECT_EQ(most, contract::most_in_flight(order, place));
        }
      }
    }
  }
}

contract::PipelineCosts even_costs(int stages, int micro_batches, double forward, double backward) {
  const std::vector<double> f(static_cast<std::size_t>(micro_batches), forward);
  const std::vector<double> b(static_cast<std::size_t>(micro_batches), backward);
  contract::PipelineCosts costs;
  costs.forward.assign(static_cast<std::size_t>(stages), f);
  costs.backward.assign(static_cast<std::size_t>(stages), b);
  return costs;
}

TEST(PipelineTimes, OfEqualStagesHaveTheBubbleOfThePaper) {
  for (const PipelineOrder order : kOrders) {
    for (int stages = 1; stages <= 8; ++stages) {
      for (int all = stages; all <= 20; ++all) {
        const contract::PipelineTimes times =
            contract::pipeline_times(order, even_costs(stages, all, 1, 2));
        EXPECT_EQ(times.end, 3 * (all + stages - 1));
        EXPECT_NEAR(times.bubble(), static_cast<double>(stages - 1) / all, 1e-12);
      }
    }
  }
}

// A simulator of its own: at each turn a random stage that can go on does one thing, with its
// messages in queues. What it ends with bounds the times from both sides.
struct Clocks {
  std::vector<double> stage;
  bool stuck = false;
};
Clocks run_in_random_turns(PipelineOrder order, const contract::PipelineCosts& costs,
                           std::mt19937* random) {
  const auto stages = static_cast<int>(costs.forward.size());
  const auto all = static_cast<int>(costs.forward[0].size());
  std::vector<std::deque<PipelineWork>> left;
  for (int s = 0; s < stages; ++s) {
    const auto work = contract::pipeline_work(order, {s, stages, all});
    left.emplace_back(work.begin(), work.end());
  }
  std::map<std::pair<int, int>, std::deque<std::pair<int, double>>> link;  // from, to
  Clocks clocks;
  clocks.stage.assign(left.size(), 0.0);
  for (;;) {
    std::vector<int> able;
    for (int s = 0; s < stages; ++s) {
      auto& mine = left[static_cast<std::size_t>(s)];
      if (mine.empty()) continue;
      const bool forward = mine.front().way == Way::Forward;
      const int from = forward ? s - 1 : s + 1;
      if (from < 0 || from == stages || !link[{from, s}].empty()) able.push_back(s);
    }
    if (able.empty()) break;
    const int s = able[(*random)() % able.size()];
    auto& mine = left[static_cast<std::size_t>(s)];
    const PipelineWork work = mine.front();
    mine.pop_front();
    const bool forward = work.way == Way::Forward;
    const int from = forward ? s - 1 : s + 1, to = forward ? s + 1 : s - 1;
    double& clock = clocks.stage[static_cast<std::size_t>(s)];
    if (from >= 0 && from < stages) {
      const auto [number, at] = link[{from, s}].front();
      EXPECT_EQ(number, work.micro_batch) << "messages come in the order in which they are wanted";
      clock = std::max(clock, at);
      link[{from, s}].pop_front();
    }
    clock += (forward ? costs.forward : costs.backward)[static_cast<std::size_t>(s)]
                                                       [static_cast<std::size_t>(work.micro_batch)];
    if (to >= 0 && to < stages) {
      const auto pair = static_cast<std::size_t>(std::min(s, to));
      const double travel =
          costs.link.empty() ? 0 : costs.link[pair][static_cast<std::size_t>(work.micro_batch)];
      link[{s, to}].push_back({work.micro_batch, clock + travel});
    }
  }
  for (const auto& mine : left) clocks.stuck = clocks.stuck || !mine.empty();
  return clocks;
}

TEST(PipelineTimes, AreThoseOfASimulationInAnyTurns) {
  std::mt19937 random(9);
  std::uniform_real_distribution<double> cost(0.1, 3);
  for (int trial = 0; trial < 200; ++trial) {
    const int stages = 1 + static_cast<int>(random() % 6);
    const int all = static_cast<int>(random() % 12);
    contract::PipelineCosts costs = even_costs(stages, all, 0, 0);
    for (auto* of : {&costs.forward, &costs.backward}) {
      for (std::vector<double>& stage : *of) {
        for (double& each : stage) each = cost(random);
      }
    }
    for (int pair = 0; trial % 2 == 1 && pair + 1 < stages; ++pair) {
      std::vector<double>& link = costs.link.emplace_back(static_cast<std::size_t>(all));
      for (double& each : link) each = cost(random);
    }
    for (const PipelineOrder order : kOrders) {
      const contract::PipelineTimes times = contract::pipeline_times(order, costs);
      const Clocks clocks = run_in_random_turns(order, costs, &random);
      EXPECT_FALSE(clocks.stuck);
      for (std::size_t s = 0; s < clocks.stage.size(); ++s) {
        EXPECT_NEAR(times.stage_end[s], clocks.stage[s], 1e-9);
      }
      EXPECT_GE(times.bubble(), all == 0 ? 0 : -1e-12);
    }
  }
}

}  // namespace
}  // namespace regatta::tests
