#include "orchestrator/api/shown_config.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json whole_config(const std::string& config) {
  Json json = base::parse_json<Json>(config);
  return json.is_object() ? json : Json(nullptr);
}

Json shown_config(const std::string& config) {
  Json json = whole_config(config);
  const auto slurm = json.find("slurm");
  if (slurm == json.end() || !slurm->is_object()) return json;
  const auto environment = slurm->find("environment");
  if (environment == slurm->end()) return json;
  if (!environment->is_object()) {
    *environment = nullptr;
  } else {
    for (auto& value : *environment) value = nullptr;
  }
  return json;
}

}  // namespace regatta::orchestrator::api
