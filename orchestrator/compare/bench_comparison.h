// How the newest bench of a node compares with those of other nodes, and with its own earlier ones.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trainer/contract/platform_bench.h"

namespace regatta::orchestrator::compare {

// Fewer nodes of a kind, the one that is compared included, have no median to speak of.
inline constexpr std::size_t kLeastFleet = 3;
// With fewer earlier benches nobody knows how much they differ by themselves.
inline constexpr std::size_t kLeastEarlier = 2;
// What is slower by less is never told, however still the figures are.
inline constexpr double kLeastSlowdown = 0.05;
// Standard deviations of what figures do by themselves.
inline constexpr double kNoiseFactor = 3;

// Of one part of a machine ("memory"), over its figures.
struct PartChange {
  std::string part;
  // Median of the figures' rates ÷ those that they are compared with, − 1: below 0 is slower. Of
  // what is measured in seconds, rates are 1 ÷ these.
  double change = 0;
  double noise = 0;  // one standard deviation of it, robust, as a share
  std::size_t figures = 0;
  bool is_slower = false;  // by more than kLeastSlowdown and kNoiseFactor × noise

  bool operator==(const PartChange&) const = default;
};

struct BenchReport {
  std::string id;
  double utc = 0;  // when it was measured
  std::string kind;
  double load_average = 0;    // of the machine before it was measured
  bool is_disturbed = false;  // the machine had other work: nothing is judged
  std::size_t fleet = 0;      // nodes of its kind with a bench of the same work, itself included
  std::vector<PartChange> against_fleet;  // none below kLeastFleet
  std::size_t earlier = 0;                // benches of its own of the same work
  std::vector<PartChange> drift;          // none below kLeastEarlier
};

// By part, in the order of the newest bench's figures. others: each a bench of the same kind and
// work; of the parts that no other has nothing is said. Each figure is compared with the median of
// the others', and its noise is what the others' differ by (1.4826 × the median distance of their
// logarithms), or its own spread where that is more.
[[nodiscard]] std::vector<PartChange> changes_by_part(
    const trainer::contract::PlatformBench& newest,
    const std::vector<const trainer::contract::PlatformBench*>& others);

// Whether the two measured the same work on machines of one kind.
[[nodiscard]] bool is_comparable(const trainer::contract::PlatformBench& one,
                                 const trainer::contract::PlatformBench& other);

// benches: of one node, the newest first, at least one. fleet: the newest of every node, this one
// included; those that are not comparable count nowhere. The id is the caller's to set.
[[nodiscard]] BenchReport report_of(
    const std::vector<trainer::contract::PlatformBench>& benches,
    const std::vector<const trainer::contract::PlatformBench*>& fleet);

// Whether the node is slow in anything.
[[nodiscard]] bool is_slow(const BenchReport& report);
// "12 % slower than the median of 8 nodes of its kind in memory, 7 % in storage; 9 % slower than
// its own 3 earlier benches in product"; empty where it is not slow.
[[nodiscard]] std::string slow_text(const BenchReport& report);

}  // namespace regatta::orchestrator::compare
