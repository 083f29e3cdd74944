#include "orchestrator/text/run_csv.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"

namespace regatta::orchestrator::text {
namespace {

using Json = nlohmann::ordered_json;

std::string cell_of(const Json& value, Audience reader) {
  if (value.is_null()) return "";
  if (value.is_array()) {
    std::string text;
    for (const Json& each : value) text += (text.empty() ? "" : " ") + cell_of(each, reader);
    return text;
  }
  if (!value.is_string()) return json_text(value, -1, reader);
  std::string text = value.get<std::string>();
  if (reader == Audience::Terminal) text = base::printable(text);
  if (!text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos) {
    text.insert(text.begin(), '\'');
  }
  return text;
}

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string text = "\"";
  for (const char c : cell) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

// JSON's texts and words are YAML's, too; in YAML 1.1 a number with an exponent has a point.
std::string scalar_of(const Json& json) {
  std::string text = base::ascii_json_text(json);
  const std::size_t exponent = json.is_number() ? text.find('e') : std::string::npos;
  if (exponent != std::string::npos && text.find('.') == std::string::npos) {
    text.insert(exponent, ".0");
  }
  return text;
}

void add_yaml(const Json& json, std::size_t indent, std::string* out) {
  const std::string pad(indent, ' ');
  if (json.is_object() && !json.empty()) {
    for (const auto& [key, value] : json.items()) {
      *out += pad + base::ascii_json_text(Json(key)) + ":";
      const bool deeper = value.is_structured() && !value.empty();
      *out += deeper ? "\n" : " ";
      add_yaml(value, deeper ? indent + 2 : 0, out);
    }
  } else if (json.is_array() && !json.empty()) {
    for (const Json& value : json) {
      const bool deeper = value.is_structured() && !value.empty();
      *out += pad + (deeper ? "-\n" : "- ");
      add_yaml(value, deeper ? indent + 2 : 0, out);
    }
  } else {
    *out += scalar_of(json) + "\n";
  }
}

}  // namespace

std::string csv_of(const Json& rows, Audience reader, const std::vector<std::string>& if_empty) {
  Json columns = Json::object();  // as a set of keys in their order
  if (rows.empty()) {
    for (const std::string& column : if_empty) columns[column] = nullptr;
  }
  for (const Json& row : rows) {
    for (const auto& [key, value] : row.items()) columns[key] = nullptr;
  }
  if (columns.empty()) return "";
  std::string out;
  for (const auto& [key, value] : columns.items()) {
    out += (out.empty() ? "" : ",") + quoted(cell_of(Json(key), reader));
  }
  out += "\r\n";
  for (const Json& row : rows) {
    std::string line;
    bool first = true;
    for (const auto& [key, absent] : columns.items()) {
      const auto value = row.find(key);
      line += first ? "" : ",";
      line += quoted(cell_of(value == row.end() ? absent : *value, reader));
      first = false;
    }
    out += line + "\r\n";
  }
  return out;
}

std::string yaml_of(const Json& json) {
  std::string out;
  add_yaml(json, 0, &out);
  return out;
}

}  // namespace regatta::orchestrator::text
