// Two benches of machines (docs/platform_bench.md), figure by figure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "trainer/contract/platform_bench.h"

namespace regatta::orchestrator::compare {

// {"benches": [{"host", "utc", "kind", "version", "workload"} of a and b], "same_work": …,
// "same_kind": …, "parts": [{"part", "change", "noise", "figures"}], "figures": [{"name", "unit",
// "values": [a, b], "change", "noise"}]}. A change is that of B's rate to A's as a share, below 0
// is slower, of what is measured in seconds as 1 ÷ these; null where only one bench has the figure,
// or where they are of other work. Noise is a standard deviation of it, from the repeats of both.
[[nodiscard]] nlohmann::ordered_json bench_difference(const trainer::contract::PlatformBench& a,
                                                      const trainer::contract::PlatformBench& b);

// Of that JSON, for people.
[[nodiscard]] std::string bench_difference_text(const nlohmann::ordered_json& difference);

}  // namespace regatta::orchestrator::compare
