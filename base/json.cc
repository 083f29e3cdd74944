#include "base/json.h"

#include <nlohmann/json.hpp>

namespace regatta::base {

template <typename Json>
Json parse_json(std::string_view text) {
  return Json::parse(text, nullptr, false);
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
