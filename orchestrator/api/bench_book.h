// What the benches that are kept say of each node, read again where they changed.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "orchestrator/compare/bench_comparison.h"
#include "orchestrator/store/store.h"
#include "trainer/contract/platform_bench.h"

namespace regatta::orchestrator::api {

using BenchReports = std::map<std::string, compare::BenchReport>;  // by node

// Thread-safe.
class BenchBook {
 public:
  // Of all nodes that have benches. Costs nothing as long as none is added or removed, and then a
  // look at the nodes whose benches are others, and a comparison of all.
  [[nodiscard]] BenchReports reports(store::Store& store);

 private:
  struct Known {
    std::string ids;  // store::BenchedNode
    std::string newest;
    std::vector<trainer::contract::PlatformBench> benches;  // the newest first
  };

  std::mutex mutex_;
  std::int64_t changes_ = -1;  // Store::bench_changes() of the reports
  std::map<std::string, Known> known_;
  BenchReports reports_;
};

// As answers have it: the figures, and what is slow in words.
[[nodiscard]] nlohmann::ordered_json report_json(const compare::BenchReport& report);

}  // namespace regatta::orchestrator::api
