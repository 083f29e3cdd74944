#include "orchestrator/cli/run_command.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "orchestrator/cli/usage_error.h"

namespace regatta::orchestrator::cli {

using Json = nlohmann::ordered_json;

Json changes_of(const std::vector<std::string>& words) {
  Json changes = Json::object();
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const std::vector<std::string> keys = base::split(word.substr(0, equals), '.');
    Json* place = &changes;
    bool good = equals != std::string::npos;
    for (const std::string& key : keys) {
      good = good && !key.empty() && (place->is_object() || place->is_null());
      if (good) place = &(*place)[key];
    }
    if (!good) {
      throw UsageError("--set '" + base::printable(word) +
                       "' is not KEY=VALUE; name a key of the run file, "
                       "such as slurm.qos=long");
    }
    const std::string value = word.substr(equals + 1);
    Json parsed = base::parse_json<Json>(value);
    *place = parsed.is_discarded() ? Json(value) : std::move(parsed);
  }
  return changes;
}

std::string body_of(const Json& json) {
  try {
    return base::json_text(json);
  } catch (const Json::exception&) {
    throw UsageError("--set has a value that is not UTF-8");
  }
}

}  // namespace regatta::orchestrator::cli
