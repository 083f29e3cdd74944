#include "orchestrator/text/environment_text.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/json.h"
#include "orchestrator/text/terminal.h"
#include "trainer/contract/environment_file.h"

namespace regatta::orchestrator::text {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kShownDigits = 8;
constexpr int kMostLevels = 8;  // of keys; the rest is shown as JSON

bool is_single(const Json& value) { return !value.is_object() && !value.is_array(); }

std::string single_text(const Json& value) {
  if (value.is_null()) return "not shown";
  return value.is_string() ? value.get<std::string>() : base::json_text(value);
}

// "caches 1 bytes" of caches[0].bytes.
void add_rows(const std::string& key, const Json& value, int level, Rows* rows) {
  if (is_single(value)) {
    rows->push_back({key, single_text(value)});
    return;
  }
  if (level == kMostLevels) {
    rows->push_back({key, base::json_text(value)});
    return;
  }
  if (value.is_object()) {
    for (const auto& [name, below] : value.items()) {
      add_rows(key.empty() ? name : key + " " + name, below, level + 1, rows);
    }
    return;
  }
  std::string line;
  bool all_single = true;
  for (const Json& each : value) {
    all_single = all_single && is_single(each);
    if (all_single) line += (line.empty() ? "" : " ") + single_text(each);
  }
  if (all_single) {
    rows->push_back({key, line});
    return;
  }
  int number = 0;
  for (const Json& each : value) {
    add_rows(key + " " + std::to_string(++number), each, level + 1, rows);
  }
}

std::string part_text(const std::string& head, const Json& part) {
  Rows rows;
  for (const auto& [key, value] : part.items()) {
    if (key != "digest") add_rows("  " + key, value, 0, &rows);
  }
  return head + (rows.empty() ? "  nothing\n" : table(rows));
}

std::string first_digits(const Json& json, const char* key) {
  return text_of(json, key).substr(0, kShownDigits);
}

}  // namespace

std::string environment_text(const Json& environment) {
  std::string text = table({{"fingerprint", first_digits(environment, "fingerprint")}});
  for (const std::string_view name : trainer::contract::kEnvironmentSections) {
    const auto section = environment.find(name);
    if (section == environment.end() || !section->is_object()) continue;
    text += part_text(table({{std::string(name), first_digits(*section, "digest")}}), *section);
  }
  for (const char* const name : {"attempt", "training"}) {
    const auto part = environment.find(name);
    if (part != environment.end() && part->is_object()) {
      text += part_text(std::string(name) + "\n", *part);
    }
  }
  return text;
}

}  // namespace regatta::orchestrator::text
