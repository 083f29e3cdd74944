// A bench of a node that the controller keeps (docs/formats/platform_bench.md).
#pragma once

#include <cstdint>
#include <string>

#include "orchestrator/runs/fields.h"
#include "trainer/contract/platform_bench.h"

namespace regatta::orchestrator::runs {

// The newest so many of a node are kept, and benches of so many nodes.
inline constexpr int kMostBenchesOfNode = 8;
inline constexpr int kMostBenchedNodes = 10'000;

struct NodeBench {
  std::string node;
  std::string id;  // of its text: the same bench has the same
  double utc = 0;  // when it was measured
  double added_utc = 0;
  std::string kind;  // contract::machine_kind()
  std::int64_t workload = 1;
  std::string text;  // of the bench, as JSON

  bool operator==(const NodeBench&) const = default;
};

// added_utc is the caller's to set. Throws Code::User for a node whose name is none: up to 255 of
// letters, digits and ". _ -".
[[nodiscard]] NodeBench node_bench_of(const std::string& node,
                                      const trainer::contract::PlatformBench& bench);

template <typename Archive, RecordOf<NodeBench> R>
void fields(Archive& archive, R& r) {
  archive(served("node"), r.node);
  archive(served("id"), r.id);
  archive(served("utc", "at").moment(), r.utc);
  archive(served("added_utc", "added_at").moment(), r.added_utc);
  archive(served("machine_kind"), r.kind);
  archive(served("workload"), r.workload);
  archive(kept("bench"), r.text);
}

}  // namespace regatta::orchestrator::runs
