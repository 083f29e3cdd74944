#include "base/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace regatta::base {

namespace {

// An object or a list that has not ended.
struct Open {
  bool is_list = false;
  std::set<std::string> keys{};
  std::string key{};  // the newest of these
  std::size_t elements = 0;
};

std::string path_of(const std::vector<Open>& open) {
  std::string path;
  for (const Open& each : open) {
    if (each.is_list) {
      path += "[" + std::to_string(each.elements - 1) + "]";
    } else {
      path += (path.empty() ? "" : ".") + each.key;
    }
  }
  return path;
}

}  // namespace

template <typename Json>
Json parse_json(std::string_view text) {
  return Json::parse(text, nullptr, false);
}

std::optional<std::string> repeated_key(std::string_view text) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<Open> open;
  std::optional<std::string> repeated;
  const auto look = [&](int, Event event, const nlohmann::json& key) {
    const bool begins = event == Event::object_start || event == Event::array_start;
    if (begins || event == Event::value) {
      if (!open.empty() && open.back().is_list) ++open.back().elements;
    }
    if (begins) open.push_back({event == Event::array_start});
    if (event == Event::object_end || event == Event::array_end) open.pop_back();
    if (event == Event::key) {
      open.back().key = key.get<std::string>();
      if (!open.back().keys.insert(open.back().key).second && !repeated) repeated = path_of(open);
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
