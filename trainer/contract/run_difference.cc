#include "trainer/contract/run_difference.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace regatta::trainer::contract {
namespace {

using Json = nlohmann::ordered_json;
using Values = std::vector<std::pair<std::string, std::string>>;  // key, text

constexpr const char* kAbsent = "absent";

void flatten(const std::string& path, const Json& json, Values* values) {
  if (!json.is_object()) {
    values->emplace_back(path, base::json_text(json));
    return;
  }
  for (const auto& [key, value] : json.items()) {
    flatten(path.empty() ? key : path + "." + key, value, values);
  }
}

Values values_of(const RunConfig& config) {
  Values values;
  flatten("", base::parse_json<Json>(to_json(config)), &values);
  return values;
}

std::string value_of(const Values& values, const std::string& key) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const auto& value) { return value.first == key; });
  return found == values.end() ? kAbsent : found->second;
}

}  // namespace

std::vector<KeyDifference> differences(const RunConfig& a, const RunConfig& b) {
  const Values of_a = values_of(a);
  const Values of_b = values_of(b);
  std::vector<KeyDifference> found;
  for (const auto& [key, text] : of_a) {
    const std::string other = value_of(of_b, key);
    if (other != text) found.push_back({key, text, other});
  }
  for (const auto& [key, text] : of_b) {
    if (value_of(of_a, key) == kAbsent) found.push_back({key, kAbsent, text});
  }
  return found;
}

std::string to_text(const std::vector<KeyDifference>& differences, std::size_t most) {
  std::vector<std::string> parts;
  for (const KeyDifference& each : differences) {
    if (parts.size() == most) {
      parts.push_back(std::to_string(differences.size() - most) + " more");
      break;
    }
    if (each.key.rfind("slurm.environment.", 0) == 0) {  // may be a secret
      parts.push_back(each.key + " differs");
      continue;
    }
    parts.push_back(each.key + " is " + base::printable(each.a) + " there and " +
                    base::printable(each.b) + " here");
  }
  return base::join(parts, ", ");
}

}  // namespace regatta::trainer::contract
