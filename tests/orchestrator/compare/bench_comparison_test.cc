#include "orchestrator/compare/bench_comparison.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

namespace regatta::orchestrator::compare {
namespace {

using testing::ElementsAre, testing::IsEmpty, testing::SizeIs;
using trainer::contract::PlatformBench;

// Of a still machine: a rate of copies, a rate of products, a time of fsync.
PlatformBench of_machine(double copy, double product, double sync, double spread = 0) {
  PlatformBench bench;
  bench.processor = "P";
  bench.threads = 8;
  bench.figures = {{"memory.cpu.copy", "B/s", copy, copy * spread, 7, true, "w"},
                   {"product.cpu.float32.fc1", "FLOP/s", product, product * spread, 7, true, "w"},
                   {"storage.fsync", "s", sync, sync * spread, 7, false, "w"}};
  return bench;
}

std::vector<const PlatformBench*> pointers(const std::vector<PlatformBench>& benches) {
  std::vector<const PlatformBench*> pointers;
  for (const PlatformBench& bench : benches) pointers.push_back(&bench);
  return pointers;
}

const PartChange& part(const std::vector<PartChange>& changes, const std::string& name) {
  for (const PartChange& change : changes) {
    if (change.part == name) return change;
  }
  ADD_FAILURE() << name;
  return changes.front();
}

TEST(BenchChanges, AreRatiosToTheMedianWhateverTheUnit) {
  const std::vector<PlatformBench> others = {of_machine(100, 50, 0.010), of_machine(80, 50, 0.020),
                                             of_machine(1e6, 50, 0.040)};
  const auto changes = changes_by_part(of_machine(75, 60, 0.040), pointers(others));
  ASSERT_THAT(changes, SizeIs(3));
  EXPECT_EQ(changes[0].part, "memory");
  EXPECT_NEAR(changes[0].change, 75.0 / 100 - 1, 1e-12) << "one that is far off moves no median";
  EXPECT_NEAR(part(changes, "product").change, 60.0 / 50 - 1, 1e-12);
  EXPECT_NEAR(part(changes, "storage").change, 0.020 / 0.040 - 1, 1e-12) << "twice the time";
}

TEST(BenchChanges, NoiseIsWhatTheOthersDifferByOrTheOwnSpread) {
  // Logarithms of 100, 110, 121 have the distances ln 1.1, 0, ln 1.1 from their median.
  const std::vector<PlatformBench> others = {of_machine(100, 50, 1), of_machine(110, 50, 1),
                                             of_machine(121, 50, 1)};
  const auto changes = changes_by_part(of_machine(80, 40, 1, 0.01), pointers(others));
  EXPECT_NEAR(part(changes, "memory").noise, 1.4826 * std::log(1.1), 1e-9);
  EXPECT_NEAR(part(changes, "product").noise, 0.01, 1e-12) << "equal others: its own spread";
  EXPECT_FALSE(part(changes, "memory").is_slower) << "27 % are within three deviations of 14 %";
  EXPECT_TRUE(part(changes, "product").is_slower) << "20 % of 1 % noise";
}

TEST(BenchChanges, ALittleIsNeverTold) {
  const std::vector<PlatformBench> others(4, of_machine(100, 100, 1));
  for (const auto& [rate, slower] : {std::pair(95.1, false), std::pair(94.9, true)}) {
    const auto changes = changes_by_part(of_machine(rate, 100, 1), pointers(others));
    EXPECT_EQ(part(changes, "memory").is_slower, slower) << rate;
  }
  const auto noisy = changes_by_part(of_machine(84.9, 100, 1, 0.05), pointers(others));
  EXPECT_TRUE(part(noisy, "memory").is_slower) << "15.1 % of 5 % noise";
  EXPECT_FALSE(
      part(changes_by_part(of_machine(85.1, 100, 1, 0.05), pointers(others)), "memory").is_slower);
  EXPECT_FALSE(part(changes_by_part(of_machine(300, 100, 1), pointers(others)), "memory").is_slower)
      << "faster is not slower";
}

TEST(BenchChanges, APartIsTheMedianOfItsFigures) {
  PlatformBench newest, other;
  for (const auto& [name, rate] :
       {std::pair("memory.cpu.copy", 50.0), std::pair("memory.cpu.fill", 80.0),
        std::pair("memory.cpu.read", 100.0)}) {
    newest.figures.push_back({name, "B/s", rate, 0, 3, true, ""});
    other.figures.push_back({name, "B/s", 100, 0, 3, true, ""});
  }
  other.figures.push_back({"product.cuda.float16.fc1", "FLOP/s", 5, 0, 3, true, ""});
  newest.figures.push_back({"transfer.host.copy", "B/s", 1, 0, 3, true, ""});
  const auto changes = changes_by_part(newest, {&other});
  ASSERT_THAT(changes, SizeIs(1)) << "what only one of them has is not compared";
  EXPECT_EQ(changes[0].figures, 3U);
  EXPECT_NEAR(changes[0].change, -0.2, 1e-12);
  EXPECT_THAT(changes_by_part(newest, {}), IsEmpty());
}

TEST(BenchReports, CompareOnlyWhatIsOfOneKindAndWork) {
  std::vector<PlatformBench> fleet(4, of_machine(100, 100, 1));
  EXPECT_TRUE(is_comparable(fleet[0], fleet[1]));
  fleet[1].processor = "Q";
  fleet[2].workload = 2;
  fleet[3].threads = 4;
  for (int i = 1; i < 4; ++i) EXPECT_FALSE(is_comparable(fleet[0], fleet[i])) << i;
  const BenchReport report = report_of({fleet[0], fleet[1], fleet[2]}, pointers(fleet));
  EXPECT_EQ(report.fleet, 1U);
  EXPECT_EQ(report.earlier, 0U);
}

TEST(BenchReports, FewerThanThreeNodesAreNoFleet) {
  const PlatformBench slow = of_machine(50, 100, 1);
  std::vector<PlatformBench> fleet = {slow, of_machine(100, 100, 1)};
  EXPECT_THAT(report_of({slow}, pointers(fleet)).against_fleet, IsEmpty());
  EXPECT_EQ(slow_text(report_of({slow}, pointers(fleet))), "");
  fleet.push_back(of_machine(100, 100, 1));
  const BenchReport report = report_of({slow}, pointers(fleet));
  EXPECT_TRUE(is_slow(report));
  EXPECT_EQ(slow_text(report), "50 % slower than the median of 3 nodes of its kind in memory");
}

TEST(BenchReports, OneEarlierBenchIsNoHistory) {
  const PlatformBench fast = of_machine(100, 100, 1);
  const PlatformBench slow = of_machine(88, 100, 1.25);
  EXPECT_THAT(report_of({slow, fast}, {}).drift, IsEmpty());
  EXPECT_FALSE(is_slow(report_of({slow, fast}, {})));
  const BenchReport report = report_of({slow, fast, fast}, {});
  EXPECT_EQ(slow_text(report),
            "20 % slower than its own 2 earlier benches in storage, 12 % in memory");
  EXPECT_FALSE(is_slow(report_of({fast, slow, slow}, {}))) << "it got faster";
}

TEST(BenchReports, TellBoth) {
  const PlatformBench fast = of_machine(100, 100, 1);
  const PlatformBench slow = of_machine(50, 100, 1);
  const std::vector<PlatformBench> fleet = {slow, fast, fast, fast};
  EXPECT_EQ(slow_text(report_of({slow, fast, fast}, pointers(fleet))),
            "50 % slower than the median of 4 nodes of its kind in memory; 50 % slower than its "
            "own 2 earlier benches in memory");
}

TEST(BenchReports, AMachineWithOtherWorkIsNotJudged) {
  PlatformBench slow = of_machine(50, 100, 1);
  const std::vector<PlatformBench> fleet(3, of_machine(100, 100, 1));
  for (const auto& [load, threads, disturbed] :
       {std::tuple(1.9, 8, false), std::tuple(2.1, 8, true), std::tuple(0.4, 1, false),
        std::tuple(0.6, 1, true)}) {
    slow.load_average = load;
    slow.threads = threads;
    std::vector<PlatformBench> alike = fleet;
    for (PlatformBench& each : alike) each.threads = threads;
    const BenchReport report = report_of({slow}, pointers(alike));
    EXPECT_EQ(report.is_disturbed, disturbed) << load << " of " << threads;
    EXPECT_EQ(is_slow(report), !disturbed);
    EXPECT_EQ(slow_text(report).empty(), disturbed);
    EXPECT_THAT(report.against_fleet, SizeIs(3)) << "the figures are there all the same";
  }
}

// 300 fleets of 8 like machines whose figures differ by 2 %: hardly one is called slow; one that is
// 20 % slower in memory nearly always is, and in nothing else.
TEST(BenchReports, LikeMachinesAreSeldomSlow) {
  std::mt19937 generator(5);
  std::normal_distribution<double> noise(0, 0.02);
  const auto drawn = [&](double memory) {
    PlatformBench bench = of_machine(100, 100, 1);
    bench.figures.push_back({"memory.cpu.fill", "B/s", 100, 0, 7, true, ""});
    bench.figures.push_back({"memory.cpu.read", "B/s", 100, 0, 7, true, ""});
    for (auto& figure : bench.figures) {
      const bool is_memory = trainer::contract::part_of(figure) == "memory";
      figure.value *= (is_memory ? memory : 1) * std::exp(noise(generator));
      figure.spread = 0.005 * figure.value;
    }
    return bench;
  };
  int false_alarms = 0, found = 0, wrong_part = 0;
  constexpr int kFleets = 300;
  for (int i = 0; i < kFleets; ++i) {
    std::vector<PlatformBench> fleet;
    for (int node = 0; node < 8; ++node) fleet.push_back(drawn(node == 0 ? 0.8 : 1));
    const auto all = pointers(fleet);
    for (std::size_t node = 1; node < 8; ++node) {
      false_alarms += is_slow(report_of({fleet[node]}, all)) ? 1 : 0;
    }
    for (const PartChange& change : report_of({fleet[0]}, all).against_fleet) {
      found += change.is_slower && change.part == "memory" ? 1 : 0;
      wrong_part += change.is_slower && change.part != "memory" ? 1 : 0;
    }
  }
  EXPECT_GE(found, kFleets * 95 / 100);
  EXPECT_LE(false_alarms, kFleets * 7 * 3 / 100);
  EXPECT_LE(wrong_part, kFleets * 5 / 100);
}

}  // namespace
}  // namespace regatta::orchestrator::compare
