#include "orchestrator/text/run_columns.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/ascii.h"
#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLeastWidth = 8;
constexpr std::size_t kGap = 2;  // between two columns of a table

// "time_to_accuracy_seconds" is "TIME TO ACCURACY".
std::string heading_of(std::string key) {
  for (const std::string_view unit : {"_seconds", "_at"}) {
    if (key.ends_with(unit)) key.resize(key.size() - unit.size());
  }
  std::replace(key.begin(), key.end(), '_', ' ');
  return base::upper_case(key);
}

std::string cell_of(const std::string& key, const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) {
    return key.ends_with("_at") ? local_date(value) : base::printable(value.get<std::string>());
  }
  if (value.is_number() && key.ends_with("_seconds")) {
    return base::human_seconds(value.get<double>());
  }
  if (value.is_number_float()) return base::short_number(value.get<double>(), 4);
  if (!value.is_array()) return base::printable(base::json_text(value));
  std::string text;
  for (const Json& each : value) text += (text.empty() ? "" : " ") + cell_of("", each);
  return text.empty() ? "-" : text;
}

}  // namespace

Json chosen_columns(const Json& runs, const std::vector<std::string>& columns) {
  Json rows = Json::array();
  for (const Json& run : runs) {
    Json row = Json::object();
    for (const std::string& key : columns) row[key] = run.value(key, Json());
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string column_table(const Json& runs, const std::vector<std::string>& columns, int width) {
  std::vector<std::vector<std::string>> rows(1);
  for (const std::string& key : columns) rows.front().push_back(heading_of(key));
  for (const Json& run : runs) {
    rows.emplace_back();
    for (const std::string& key : columns) {
      rows.back().push_back(cell_of(key, run.value(key, Json())));
    }
  }
  std::vector<std::size_t> widths(columns.size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  const auto room = static_cast<std::size_t>(std::max(width, 0));
  while (width > 0 &&
         std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1)) > room) {
    std::size_t widest = columns.size();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] == "id" || widths[i] <= kLeastWidth) continue;
      if (widest == columns.size() || widths[i] > widths[widest]) widest = i;
    }
    if (widest == columns.size()) break;
    --widths[widest];
  }
  for (auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = cut(row[i], widths[i]);
  }
  return table(rows);
}

}  // namespace regatta::orchestrator::text
