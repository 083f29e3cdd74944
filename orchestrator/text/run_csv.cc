#include "orchestrator/text/run_csv.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace regatta::orchestrator::text {
namespace {

using Json = nlohmann::ordered_json;

std::string cell_of(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_array()) {
    std::string text;
    for (const Json& each : value) text += (text.empty() ? "" : " ") + cell_of(each);
    return text;
  }
  if (!value.is_string()) return base::json_text(value);
  std::string text = value.get<std::string>();
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

// JSON's texts, numbers and words are YAML's, too.
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
    *out += base::ascii_json_text(json) + "\n";
  }
}

}  // namespace

std::string csv_of(const Json& rows) {
  std::string out;
  for (const Json& row : rows) {
    if (out.empty()) {
      std::string head;
      for (const auto& [key, value] : row.items()) head += (head.empty() ? "" : ",") + quoted(key);
      out = head + "\r\n";
    }
    std::string line;
    bool first = true;
    for (const auto& [key, value] : row.items()) {
      line += (first ? "" : ",") + quoted(cell_of(value));
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
