#include "orchestrator/plan/run_changes.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "trainer/contract/run_change.h"

namespace regatta::orchestrator::plan {
namespace {

using Json = nlohmann::ordered_json;
using trainer::contract::KeyDifference;
using trainer::contract::RunConfig;

constexpr int kDepth = 8;
constexpr std::size_t kShownKeys = 4;
// Beginnings of the keys that a checkpoint's weights and samples depend on.
constexpr const char* kOfCheckpoint[] = {"model.", "data.", "task", "questions.doc_stride",
                                         "questions.max_question"};
const std::string kSlurm = "slurm.";
const std::string kTimeLimit = kSlurm + "time_limit";

[[noreturn]] void refuse(const std::string& why, const std::string& key = {}) {
  throw base::Error(base::Code::User, why, key);
}

Json parse_changes(const std::string& changes) {
  Json asked = base::json_depth_at_most(changes, kDepth) ? base::parse_json<Json>(changes)
                                                         : Json(Json::value_t::discarded);
  if (!asked.is_object()) {
    refuse("changes are not a JSON object; send the keys of the run file that are to change");
  }
  if (const auto twice = base::repeated_key(changes)) {
    refuse(base::printable(*twice) + " stands twice in the changes; give it once",
           base::printable(*twice));
  }
  if (!asked.contains("target")) return asked;
  Json& target = asked["target"];
  if (target.is_number()) target = Json{{"value", target}};
  // Exactly one of the two: who gives one takes the other away.
  if (target.is_object() && target.contains("value") != target.contains("times_baseline")) {
    target[target.contains("value") ? "times_baseline" : "value"] = nullptr;
  }
  return asked;
}

// The first key that is null, with the mappings that it is in.
std::optional<std::string> null_key(const Json& json) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_null()) return key;
    if (!value.is_object()) continue;
    if (const auto below = null_key(value)) return key + "." + *below;
  }
  return std::nullopt;
}

std::string words_of(const std::vector<KeyDifference>& differences) {
  std::vector<std::string> parts;
  for (const KeyDifference& each : differences) {
    parts.push_back(each.key + " from " + each.a + " to " + each.b);
  }
  return base::join(parts, ", ");
}

bool is_slurm(const KeyDifference& difference) { return difference.key.rfind(kSlurm, 0) == 0; }

// As the user wrote them: what parse_changes() added is none of his.
void refuse_nulls(const std::string& changes) {
  if (const auto key = null_key(base::parse_json<Json>(changes))) {
    refuse("a key of the changes is null; give it a value", base::printable(*key));
  }
}

// A run file may be YAML, where "200" is a number; JSON says which of the two it is.
// Slurm's own have both forms: 90 and "1:30:00".
void refuse_texts_of_numbers(const Json& asked, const Json& after, const std::string& above) {
  for (const auto& [key, value] : asked.items()) {
    const auto found = after.find(key);
    if (found == after.end()) continue;
    const std::string path = above + key;
    if (value.is_object() && found->is_object()) {
      refuse_texts_of_numbers(value, *found, path + ".");
    } else if (value.is_string() && !found->is_string() && path.rfind(kSlurm, 0) != 0) {
      refuse(base::printable(path) + " is a text; give it as " + base::json_text(*found) +
                 ", without quotes",
             base::printable(path));
    }
  }
}

// Ranks are data × pipeline, and a run's file has all three: of those that are not asked for, one
// follows. With the ranks (or, with data, the stages) as they were; what cannot follow is refused
// when the file is read.
void let_layout_follow(Json* asked) {
  Json none;
  const auto section = asked->find("parallel");
  Json& parallel = section == asked->end() ? none : *section;
  if (!parallel.is_object() && !parallel.is_null()) return;   // refused
  if (section != asked->end() && parallel.is_null()) return;  // which leaves ranks alone
  const bool pipeline = parallel.contains("pipeline"), data = parallel.contains("data");
  const bool ranks = asked->contains("ranks");
  if (data && !ranks && parallel["data"] != 0) {
    (*asked)["ranks"] = nullptr;
  } else if (!data && (ranks ? !(*asked)["ranks"].is_null() : pipeline)) {
    (*asked)["parallel"]["data"] = nullptr;
  }
}

struct Merged {
  RunConfig before, after;
};
Merged merge(const std::string& config, const Json& asked, const char* source) {
  Json json = base::parse_json<Json>(config);
  json.merge_patch(asked);
  Merged merged{trainer::contract::parse_run_config(config, "run.json"),
                trainer::contract::parse_run_config(base::json_text(json), source)};
  const std::string after = trainer::contract::to_json(merged.after);
  refuse_texts_of_numbers(asked, base::parse_json<Json>(after), "");
  return merged;
}

}  // namespace

ChangedRunFile with_changes(const std::string& config, const std::string& changes) {
  Json asked = parse_changes(changes);
  if (asked.empty()) refuse("the changes are empty; give what is to change");
  refuse_nulls(changes);
  // Ranks are none of what may change, so nothing follows where data is given.
  if (!asked.value("parallel", Json::object()).contains("data")) let_layout_follow(&asked);
  const Merged merged = merge(config, asked, "the changed run");
  std::vector<std::string> keys;
  for (const KeyDifference& each :
       trainer::contract::fixed_differences(merged.before, merged.after)) {
    if (!is_slurm(each)) keys.push_back(each.key);
  }
  const Json slurm = asked.value("slurm", Json::object());
  for (const auto& [key, value] : slurm.items()) {
    if (kSlurm + key != kTimeLimit) keys.push_back(kSlurm + base::printable(key));
  }
  if (!keys.empty()) {
    const std::string first = keys.front();
    keys.resize(std::min(keys.size(), kShownKeys));
    refuse(
        base::join(keys, ", ") +
            " cannot change once the run exists; `regatta fork` makes a run that continues it with "
            "other settings",
        first);
  }
  // A section slurm that was not there has all its keys now, of which one was meant.
  std::vector<KeyDifference> found = trainer::contract::differences(merged.before, merged.after);
  std::erase_if(found,
                [](const KeyDifference& each) { return is_slurm(each) && each.key != kTimeLimit; });
  return {merged.after, trainer::contract::to_json(merged.after), words_of(found)};
}

ChangedRunFile with_extension(const std::string& config, const std::string& changes) {
  const Json asked = parse_changes(changes);
  if (asked.empty()) refuse("nothing says how far the run is to go; give steps, a target, or both");
  for (const auto& [key, value] : asked.items()) {
    if (key != "steps" && key != "target") {
      refuse("an extension has no " + base::printable(key) +
                 "; give steps, a target, or both, and change the rest with `regatta change`",
             base::printable(key));
    }
  }
  return with_changes(config, changes);
}

namespace {

ChangedRunFile forked(const std::string& config, const std::string& changes,
                      const std::string& name) {
  Json asked = changes.empty() ? Json::object() : parse_changes(changes);
  if (asked.contains("from")) {
    refuse("from cannot be given to a run that continues a checkpoint; submit a run of its own",
           "from");
  }
  if (!name.empty()) asked["name"] = name;
  let_layout_follow(&asked);
  Merged merged = merge(config, asked, "the forked run");
  for (const KeyDifference& each : trainer::contract::differences(merged.before, merged.after)) {
    if (std::any_of(std::begin(kOfCheckpoint), std::end(kOfCheckpoint),
                    [&](const char* key) { return each.key.rfind(key, 0) == 0; })) {
      refuse(
          each.key + " cannot change in a run that continues a checkpoint; submit a run of its own",
          each.key);
    }
  }
  merged.after.from.reset();  // its checkpoint is what it begins with
  return {merged.after, trainer::contract::to_json(merged.after), ""};
}

}  // namespace

ChangedRunFile forked_run_file(const std::string& config, const std::string& changes,
                               const std::string& name) {
  try {
    return forked(config, changes, name);
  } catch (const base::Error& error) {  // which names a key of the run file
    const bool beside = error.key().empty() || (error.key() == "name" && !name.empty());
    throw base::Error(error.code(), error.what(), beside ? error.key() : "changes." + error.key());
  }
}

std::string canonical_json(const std::string& text) {
  const auto json = base::json_depth_at_most(text, kDepth)
                        ? base::parse_json<nlohmann::json>(text)
                        : nlohmann::json(nlohmann::json::value_t::discarded);
  if (json.is_object() && json.empty()) return "";
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return "";
  if (json.is_discarded()) return text;
  return base::json_text(json);
}

}  // namespace regatta::orchestrator::plan
