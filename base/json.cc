#include "base/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace regatta::base {

template <typename Json>
Json parse_json(std::string_view text) {
  return Json::parse(text, nullptr, false);
}

std::optional<std::string> repeated_key(std::string_view text) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> open;  // the keys so far of each object that has not ended
  std::optional<std::string> repeated;
  const auto look = [&](int, Event event, const nlohmann::json& key) {
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event == Event::key && !open.back().insert(key.get<std::string>()).second && !repeated) {
      repeated = key.get<std::string>();
    }
    return true;
  };
  if (nlohmann::json::parse(text, look, false).is_discarded()) return std::nullopt;
  return repeated;
}

template <typename Json>
std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

template <typename Json>
std::string ascii_json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', true, Json::error_handler_t::replace);
}

template nlohmann::json parse_json(std::string_view text);
template nlohmann::ordered_json parse_json(std::string_view text);
template std::string json_text(const nlohmann::json& json, int indent);
template std::string json_text(const nlohmann::ordered_json& json, int indent);
template std::string ascii_json_text(const nlohmann::json& json, int indent);
template std::string ascii_json_text(const nlohmann::ordered_json& json, int indent);

}  // namespace regatta::base
