#include "tests/orchestrator/plan/judged_plans.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/shared_data.h"

namespace regatta::tests {
namespace {

// Planned with the prior, judged by what was measured on other machines of the sort.
TEST(JudgedPlans, AreAtWorstOnePercentSlowerThan25MB) {
  REGATTA_NEED_SHARED("topologies/nccl-tests");
  const auto rows = judge_plans(REGATTA_SOURCE_DIR, shared_path("topologies/nccl-tests").string());
  std::printf("%-12s %5s %6s %-38s %-22s %7s %8s %8s\n", "cluster", "nodes", "ranks", "judge",
              "cut", "buckets", "gain", "worst");
  for (const JudgedPlan& row : rows) {
    std::printf("%-12s %5d %6d %-38s %-22s %7d %7.2f%% %7.2f%%\n", row.cluster.c_str(), row.nodes,
                row.ranks, row.judge.c_str(), row.cut.c_str(), row.buckets, 100 * row.gain(),
                100 * (row.worst_ratio - 1));
    EXPECT_GE(row.gain(), -0.01) << row.cluster << ", " << row.nodes << " nodes, " << row.judge;
  }
  EXPECT_GT(rows.size(), 100U);
}

}  // namespace
}  // namespace regatta::tests
