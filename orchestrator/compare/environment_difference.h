// In what two environments (docs/formats/environment.md) differ, plainly, the important first.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace regatta::orchestrator::compare {

// {"equal": whether both fingerprints are one, "fingerprints": [a, b], "equal_sections": [names],
// "differences": [{"key": "numerics threads", "values": [a, b]}, …]}. First what decides about the
// numbers, then what decides about speed, then what merely is different. Left out: what two equal
// attempts differ in, too (times, ids, digests), and clocks within 2 %.
[[nodiscard]] nlohmann::ordered_json environment_difference(const nlohmann::ordered_json& a,
                                                            const nlohmann::ordered_json& b);

// Of that JSON, for people. `most` facts, and how many more there are.
[[nodiscard]] std::string environment_difference_text(const nlohmann::ordered_json& difference,
                                                      std::size_t most);

}  // namespace regatta::orchestrator::compare
