#include "orchestrator/text/comparison.h"

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFigures[] = {"state",
                                    "step",
                                    "metric",
                                    "value",
                                    "target",
                                    "time_to_accuracy_seconds",
                                    "training_seconds",
                                    "loss",
                                    "samples_per_second",
                                    "tokens_per_second",
                                    "goodput",
                                    "mfu",
                                    "utilisation",
                                    "efficiency",
                                    "noise_scale",
                                    "attempts",
                                    "ranks",
                                    "device"};

// "optimizer.name" → its value; lists are values.
void flatten(const Json& json, const std::string& path, std::map<std::string, Json>* out) {
  if (!json.is_object() || json.empty()) {
    (*out)[path] = json;
    return;
  }
  for (const auto& [key, value] : json.items()) {
    flatten(value, path.empty() ? key : path + "." + key, out);
  }
}

std::string cell_of(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return base::formatted("%.6g", value.get<double>());
  return base::json_text(value);
}

void add_rows(const Json& values, std::vector<std::vector<std::string>>* rows) {
  for (const auto& [key, each] : values.items()) {
    std::vector<std::string> row{key};
    for (const Json& value : each) row.push_back(cell_of(value));
    rows->push_back(std::move(row));
  }
}

}  // namespace

Json comparison_of(const Json& runs) {
  Json ids = Json::array();
  std::vector<std::map<std::string, Json>> configs;
  std::map<std::string, bool> keys;
  for (const Json& run : runs) {
    ids.push_back(run.value("id", ""));
    flatten(run.value("config", Json::object()), "", &configs.emplace_back());
    for (const auto& [key, value] : configs.back()) keys[key] = true;
  }
  Json figures = Json::object();
  for (const char* const key : kFigures) {
    for (const Json& run : runs) figures[key].push_back(run.value(key, Json()));
  }
  Json differences = Json::object();
  for (const auto& [key, known] : keys) {
    if (key == "name") continue;
    Json values = Json::array();
    for (const auto& config : configs) {
      const auto found = config.find(key);
      values.push_back(found == config.end() ? Json() : found->second);
    }
    // References have no configuration, and so none that differs.
    const Json* first = nullptr;
    bool equal = true;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (!runs[i].contains("config")) continue;
      if (first == nullptr) first = &values[i];
      equal = equal && values[i] == *first;
    }
    if (!equal) differences[key] = std::move(values);
  }
  return {{"runs", std::move(ids)},
          {"figures", std::move(figures)},
          {"differences", std::move(differences)}};
}

std::string comparison_text(const Json& comparison) {
  std::vector<std::vector<std::string>> figures{{"FIGURE"}};
  std::vector<std::vector<std::string>> differences{{"CONFIGURATION"}};
  for (const Json& id : comparison.value("runs", Json::array())) {
    figures.front().push_back(cell_of(id));
    differences.front().push_back(cell_of(id));
  }
  add_rows(comparison.value("figures", Json::object()), &figures);
  add_rows(comparison.value("differences", Json::object()), &differences);
  if (differences.size() == 1) return table(figures) + "\ntheir configurations are equal\n";
  return table(figures) + "\n" + table(differences);
}

}  // namespace regatta::orchestrator::text
