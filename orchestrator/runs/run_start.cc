#include "orchestrator/runs/run_start.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"

namespace regatta::orchestrator::runs {
namespace {

// Reading a configuration takes time, which most runs need not.
bool may_start_elsewhere(const Run& run) {
  return run.config.find("\"from\"") != std::string::npos;
}

}  // namespace

RunStart start_of(const std::string& config) {
  constexpr int kConfigDepth = 32;
  using Json = nlohmann::ordered_json;
  RunStart start;
  const Json json =
      base::json_depth_at_most(config, kConfigDepth) ? base::parse_json<Json>(config) : Json();
  if (!json.is_object()) return start;
  const auto task = json.find("task");
  if (task != json.end() && task->is_string()) start.task = task->get<std::string>();
  const auto from = json.find("from");
  if (from == json.end() || !from->is_object()) return start;
  const auto path = from->find("path");
  if (path == from->end() || !path->is_string()) return start;
  const auto optimizer = from->find("optimizer");
  start.model =
      StartModel{path->get<std::string>(),
                 optimizer != from->end() && optimizer->is_boolean() && optimizer->get<bool>()};
  return start;
}

base::Path start_checkpoint(const Run& run) {
  if (run.forked_checkpoint.empty() || !may_start_elsewhere(run)) return {};
  const RunStart start = start_of(run.config);
  return start.model ? base::Path(start.model->path) : base::Path();
}

std::string origin_text(const Run& run) {
  const std::optional<StartModel> model =
      may_start_elsewhere(run) ? start_of(run.config).model : std::nullopt;
  if (run.forked_from.empty()) return model ? "begins with " + base::printable(model->path) : "";
  return (model ? "begins with " : "continues ") + run.forked_checkpoint + " of " + run.forked_from;
}

}  // namespace regatta::orchestrator::runs
