// Facts of two environment.json (docs/formats/environment.md) that differ.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace regatta::orchestrator::compare {

// A key of environment.json ("numerics instruction_set"), or a figure of the journals. Values as
// JSON, "null" where an attempt has none.
struct Evidence {
  std::string key;
  std::string a, b;

  bool operator==(const Evidence&) const = default;
};
using Evidences = std::vector<Evidence>;

// What stands at a JSON pointer; null where nothing does, or where there is no file.
[[nodiscard]] nlohmann::ordered_json fact_at(const nlohmann::ordered_json& environment,
                                             const std::string& pointer);

// "/numerics/products" → "numerics products".
[[nodiscard]] std::string key_of(const std::string& pointer);

[[nodiscard]] Evidence evidence_of(std::string key, const nlohmann::ordered_json& a,
                                   const nlohmann::ordered_json& b);

// Of objects the keys that differ, else the values if these do.
void add_differences(const std::string& key, const nlohmann::ordered_json& a,
                     const nlohmann::ordered_json& b, Evidences* evidence);

// [{"key": …, "values": [a, b]}, …]
[[nodiscard]] nlohmann::ordered_json evidence_json(const Evidences& evidence);
// Of that JSON a line for each fact, indented: "    numerics threads: 2 | 1\n".
[[nodiscard]] std::string evidence_text(const nlohmann::ordered_json& evidence);

}  // namespace regatta::orchestrator::compare
