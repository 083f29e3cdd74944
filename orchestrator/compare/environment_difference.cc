#include "orchestrator/compare/environment_difference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/compare/facts.h"
#include "trainer/contract/environment_file.h"

namespace regatta::orchestrator::compare {
namespace {

using Json = nlohmann::ordered_json;

// Keys as key_of() has them; what begins with none of them is not told. The first that fits counts.
constexpr std::array<std::string_view, 22> kByImportance = {"numerics",
                                                            "data",
                                                            "model",
                                                            "randomness",
                                                            "devices",
                                                            "configuration optimizer",
                                                            "configuration batch",
                                                            "configuration model",
                                                            "fabric",
                                                            "machine processor",
                                                            "machine limits",
                                                            "machine frequency",
                                                            "training throttled",
                                                            "training clocks mean_mhz",
                                                            "training waited_percent",
                                                            "build",
                                                            "variables",
                                                            "machine",
                                                            "configuration",
                                                            "attempt resumed_from",
                                                            "attempt host",
                                                            "attempt program"};
constexpr double kSameClock = 0.02;
constexpr double kSameWaiting = 5;  // percent of the threads' time

std::size_t importance_of(const std::string& key) {
  const auto found =
      std::find_if(kByImportance.begin(), kByImportance.end(), [&](std::string_view begin) {
        return key.rfind(begin, 0) == 0 && (key.size() == begin.size() || key[begin.size()] == ' ');
      });
  return static_cast<std::size_t>(found - kByImportance.begin());
}

// What is measured differs a little between equal attempts, too.
bool is_as_good_as_equal(const Evidence& fact) {
  const auto a = base::parse_json<Json>(fact.a), b = base::parse_json<Json>(fact.b);
  if (!a.is_number() || !b.is_number()) return false;
  const double apart = std::abs(a.get<double>() - b.get<double>());
  if (fact.key == "training waited_percent") return apart <= kSameWaiting;
  return fact.key == "training clocks mean_mhz" && apart <= kSameClock * std::abs(a.get<double>());
}

bool is_digest(const std::string& key) {
  return key.size() > 7 && key.compare(key.size() - 7, 7, " digest") == 0;
}

std::string digest_of(const Json& environment, std::string_view section) {
  const Json digest = fact_at(environment, "/" + std::string(section) + "/digest");
  return digest.is_string() ? digest.get<std::string>() : "";
}

}  // namespace

Json environment_difference(const Json& a, const Json& b) {
  Evidences all;
  for (const auto& [name, section] : a.items()) {
    if (section.is_object()) add_differences(name, section, b.value(name, Json()), &all);
  }
  for (const auto& [name, section] : b.items()) {
    if (section.is_object() && !a.contains(name)) add_differences(name, Json(), section, &all);
  }
  all.erase(std::remove_if(all.begin(), all.end(),
                           [](const Evidence& fact) {
                             return importance_of(fact.key) == kByImportance.size() ||
                                    is_digest(fact.key) || is_as_good_as_equal(fact);
                           }),
            all.end());
  std::stable_sort(all.begin(), all.end(), [](const Evidence& one, const Evidence& other) {
    return importance_of(one.key) < importance_of(other.key);
  });
  Json equal = Json::array();
  for (const std::string_view section : trainer::contract::kEnvironmentSections) {
    const std::string digest = digest_of(a, section);
    if (!digest.empty() && digest == digest_of(b, section)) equal.push_back(section);
  }
  const Json fingerprints = {a.value("fingerprint", Json()), b.value("fingerprint", Json())};
  return {{"equal", fingerprints[0].is_string() && fingerprints[0] == fingerprints[1]},
          {"fingerprints", fingerprints},
          {"equal_sections", std::move(equal)},
          {"differences", evidence_json(all)}};
}

std::string environment_difference_text(const Json& difference, std::size_t most) {
  const Json& all = difference.at("differences");
  std::vector<std::string> equal;
  for (const Json& name : difference.at("equal_sections")) equal.push_back(name);
  if (all.empty()) {
    return difference.at("equal")
               ? "environments: equal, " +
                     base::printable(difference.at("fingerprints").at(0).get<std::string>()) + "\n"
               : "environments: nothing to tell apart\n";
  }
  Json shown = Json::array();
  for (const Json& fact : all) {
    if (shown.size() < most) shown.push_back(fact);
  }
  std::string text = "environments: " + base::plural(all.size(), "fact") +
                     (all.size() == 1 ? " differs" : " differ, the important first") + "\n" +
                     evidence_text(shown);
  if (all.size() > shown.size()) {
    text += "    and " + std::to_string(all.size() - shown.size()) + " more: --environment\n";
  }
  if (!equal.empty()) text += "    equal: " + base::join(equal, ", ") + "\n";
  return text;
}

}  // namespace regatta::orchestrator::compare
