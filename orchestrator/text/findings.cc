#include "orchestrator/text/findings.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace regatta::orchestrator::text {

using Json = nlohmann::ordered_json;

Json finding_json(const topology::graph::Finding& finding) {
  const auto or_null = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  Json evidence = Json::array();
  for (const topology::graph::Evidence& each : finding.evidence) {
    evidence.push_back({{"path", each.path}, {"value", each.value}});
  }
  return {{"id", finding.id},
          {"severity", topology::graph::name_of(finding.severity)},
          {"subject", finding.subject},
          {"words", finding.words},
          {"evidence", std::move(evidence)},
          {"cost_gb_per_s", or_null(finding.cost_gb_per_s)},
          {"cost_milliseconds", or_null(finding.cost_milliseconds)},
          {"remedy", finding.remedy}};
}

}  // namespace regatta::orchestrator::text
