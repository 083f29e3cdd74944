#include "trainer/probe/changed_run.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "trainer/contract/run_difference.h"

namespace regatta::trainer::probe {
namespace {

using base::Code;
using base::Error;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostValue = 4096;  // bytes; a run file's longest text is a path
constexpr int kMostDepth = 8;
constexpr std::string_view kPreset = "model.preset";
constexpr std::string_view kAbsent = "absent";  // as contract::differences() has it

// As a run file has it: what is no JSON is a text.
Json value_of(const KeyValue& change) {
  const bool shallow = base::json_depth_at_most(change.value, kMostDepth);
  Json json = shallow ? base::parse_json<Json>(change.value) : Json(Json::value_t::discarded);
  return json.is_discarded() ? Json(change.value) : json;
}

void set_value(Json* root, const KeyValue& change) {
  Json* at = root;
  const std::vector<std::string> parts = base::split(change.key, '.');
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    Json& next = (*at)[parts[i]];
    if (next.is_null()) next = Json::object();
    if (!next.is_object()) {
      throw Error(Code::User, "--set " + base::printable(change.key) + ": " +
                                  base::printable(parts[i]) +
                                  " has no keys in it; name a key of the run file");
    }
    at = &next;
  }
  const Json value = value_of(change);
  if (value.is_null() && at->contains(parts.back())) {
    at->erase(parts.back());
  } else {
    (*at)[parts.back()] = value;  // a null, too: the reader says that there is no such key
  }
}

}  // namespace

KeyValue parse_key_value(std::string_view text) {
  const std::size_t equals = text.find('=');
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::User, "--set " + base::printable(text.substr(0, 80)) + ": " + why);
  };
  if (equals == std::string_view::npos) refuse("has no =; use KEY=VALUE, as in seed=2");
  KeyValue change{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
  const std::string padded = "." + change.key + ".";
  if (padded.find("..") != std::string::npos) {
    refuse("names no key; use one of the run file, as in optimizer.beta2=0.98");
  }
  if (change.value.size() > kMostValue) {
    refuse("the value has " + std::to_string(change.value.size()) + " bytes; at most " +
           std::to_string(kMostValue) + " are read");
  }
  if (change.key == kPreset) {
    refuse("a preset only fills in what a run file leaves out; set model.layers, model.hidden, …");
  }
  return change;
}

ChangedRun change_run(const contract::RunConfig& config, const std::vector<KeyValue>& changes,
                      const std::string& source) {
  ChangedRun run{config, {}, false};
  if (changes.empty()) return run;
  Json json = base::parse_json<Json>(contract::to_json(config));
  for (const KeyValue& change : changes) set_value(&json, change);
  run.config = contract::parse_run_config(base::json_text(json), source + " with --set");
  for (const contract::KeyDifference& each : contract::differences(config, run.config)) {
    run.changed.emplace_back(each.key, each.b == kAbsent ? "null" : each.b);
    run.data_changed |= each.key.rfind("data.", 0) == 0;
  }
  return run;
}

}  // namespace regatta::trainer::probe
