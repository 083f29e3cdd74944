#include "orchestrator/api/preview_json.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "orchestrator/api/answer_fields.h"
#include "orchestrator/api/shown_config.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json checks_json(const std::vector<control::PreviewCheck>& checks) {
  Json json = Json::array();
  for (const control::PreviewCheck& check : checks) {
    json.push_back({{"name", check.name},
                    {"good", check.good ? Json(*check.good) : Json()},
                    {"detail", check.detail}});
  }
  return json;
}

Json preview_json(const control::Preview& preview, const std::string& scheduler) {
  return {{"dry_run", true},
          {"name", preview.config.name},
          {"scheduler", scheduler},
          {"directory", preview.directory},
          {"after", preview.after},
          {"config", shown_config(trainer::contract::to_json(preview.config))},
          {"defaults", preview.defaults},
          {"plan",
           preview.plan ? base::parse_json<Json>(topology::plan::to_json(*preview.plan)) : Json()},
          {"command", preview.start.command},
          {"script", text_or_null(preview.start.script)},
          {"checks", checks_json(preview.checks)}};
}

}  // namespace regatta::orchestrator::api
