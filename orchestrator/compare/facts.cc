#include "orchestrator/compare/facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::compare {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostShown = 60;  // characters of a fact

// Short enough for a line; a null is what an attempt does not tell.
std::string fact_text(const Json& fact) {
  if (fact.is_null()) return "none";
  if (fact.is_number_float()) return base::short_number(fact.get<double>());
  return text::cut(fact.is_string() ? fact.get<std::string>() : base::json_text(fact), kMostShown);
}

}  // namespace

Json fact_at(const Json& environment, const std::string& pointer) {
  const Json::json_pointer path(pointer);
  return environment.is_object() && environment.contains(path) ? environment.at(path) : Json();
}

std::string key_of(const std::string& pointer) {
  std::string key = pointer.substr(1);
  std::replace(key.begin(), key.end(), '/', ' ');
  return key;
}

Evidence evidence_of(std::string key, const Json& a, const Json& b) {
  return {std::move(key), base::json_text(a), base::json_text(b)};
}

void add_differences(const std::string& key, const Json& a, const Json& b, Evidences* evidence) {
  if (a == b) return;
  if (!a.is_object() || !b.is_object()) return evidence->push_back(evidence_of(key, a, b));
  const auto find = [](const Json& in, const std::string& name) {
    return in.contains(name) ? in.at(name) : Json();
  };
  for (const auto& item : a.items()) {
    add_differences(key + " " + item.key(), item.value(), find(b, item.key()), evidence);
  }
  for (const auto& item : b.items()) {
    if (!a.contains(item.key())) {
      add_differences(key + " " + item.key(), Json(), item.value(), evidence);
    }
  }
}

Json evidence_json(const Evidences& evidence) {
  Json all = Json::array();
  for (const Evidence& fact : evidence) {
    Json values = Json::array();
    for (const std::string& value : {fact.a, fact.b}) {
      values.push_back(base::parse_json<Json>(value));
    }
    all.push_back({{"key", fact.key}, {"values", std::move(values)}});
  }
  return all;
}

std::string evidence_text(const Json& evidence) {
  std::string all;
  for (const Json& fact : evidence) {
    all += "    " + base::printable(fact.at("key").get<std::string>()) + ": " +
           base::printable(fact_text(fact.at("values").at(0))) + " | " +
           base::printable(fact_text(fact.at("values").at(1))) + "\n";
  }
  return all;
}

}  // namespace regatta::orchestrator::compare
