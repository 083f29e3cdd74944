#include "trainer/contract/run_change.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace regatta::trainer::contract {
namespace {

constexpr std::array<std::string_view, 9> kMayChange = {
    "steps",
    "target.value",
    "target.times_baseline",
    "target.stop",
    "evaluate.every",
    "checkpoint.every",
    "checkpoint.keep_last",
    "checkpoint.keep_best",
    "checkpoint.keep_every",
};
constexpr std::string_view kMetric = "target.metric";

}  // namespace

std::vector<KeyDifference> fixed_differences(const RunConfig& before, const RunConfig& after) {
  const bool same_metric = metric_of(before) == metric_of(after);
  std::vector<KeyDifference> found = differences(before, after);
  std::erase_if(found, [&](const KeyDifference& each) {
    return (each.key == kMetric && same_metric) ||
           std::find(kMayChange.begin(), kMayChange.end(), each.key) != kMayChange.end();
  });
  return found;
}

}  // namespace regatta::trainer::contract
