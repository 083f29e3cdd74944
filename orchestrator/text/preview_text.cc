#include "orchestrator/text/preview_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::text {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> texts_of(const Json& preview, const char* key) {
  std::vector<std::string> texts;
  for (const Json& each : preview.value(key, Json::array())) {
    if (each.is_string()) texts.push_back(each.get<std::string>());
  }
  return texts;
}

std::string plan_of(const Json& preview) {
  const Json plan = preview.value("plan", Json());
  if (!plan.is_object()) return "";
  const Json ends = plan.value("bucket_ends", Json::array());
  return std::to_string(ends.size()) + " gradient buckets; " + text_of(plan, "why");
}

// "ok", "NO" or "?".
std::string verdict_of(const Json& check) {
  const Json good = check.value("good", Json());
  if (!good.is_boolean()) return "?";
  return good.get<bool>() ? "ok" : "NO";
}

}  // namespace

std::vector<std::vector<std::string>> check_rows(const Json& preview) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& check : preview.value("checks", Json::array())) {
    rows.push_back({text_of(check, "name"), verdict_of(check) + "  " + text_of(check, "detail")});
  }
  return rows;
}

bool may_train(const Json& preview) {
  const Json checks = preview.value("checks", Json::array());
  return std::none_of(checks.begin(), checks.end(),
                      [](const Json& check) { return check.value("good", Json()) == false; });
}

std::string preview_text(const Json& preview) {
  std::vector<std::vector<std::string>> rows{
      {"would submit", text_of(preview, "name") + " to " + text_of(preview, "scheduler")},
      {"directory", text_of(preview, "directory")}};
  const std::vector<std::string> after = texts_of(preview, "after");
  if (!after.empty()) rows.push_back({"after", base::join(after, ", ")});
  if (!text_of(preview, "defaults").empty()) {
    rows.push_back({"defaults", text_of(preview, "defaults")});
  }
  if (!plan_of(preview).empty()) rows.push_back({"plan", plan_of(preview)});
  std::string command;
  for (const std::string& word : texts_of(preview, "command")) {
    command += (command.empty() ? "" : " ") + base::shown_word(word);
  }
  rows.push_back({"command", command});
  for (const auto& row : check_rows(preview)) rows.push_back(row);
  std::string out = table(rows);
  const std::string script = text_of(preview, "script");
  if (script.empty()) return out;
  for (const std::string& line : base::split(script, '\n')) out += "\n" + base::printable(line);
  return out;
}

}  // namespace regatta::orchestrator::text
