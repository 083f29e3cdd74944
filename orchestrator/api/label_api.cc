#include "orchestrator/api/label_api.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/api/answers.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLabelDepth = 4;

bool is_list_of_texts(const Json& value) {
  if (!value.is_array()) return false;
  for (const Json& each : value) {
    if (!each.is_string()) return false;
  }
  return true;
}

}  // namespace

runs::LabelChange parse_labels(const std::string& body) {
  const Json json = read_body(body, kLabelDepth);
  runs::LabelChange change;
  std::string wrong;  // the first key that is
  bool good = json.is_object() && !json.empty();
  for (const auto& [key, value] : json.items()) {
    if (key == "note" && (value.is_string() || value.is_null())) {
      change.note = value.is_null() ? std::string() : value.get<std::string>();
    } else if (key == "tags" && is_list_of_texts(value)) {
      change.tags = value.get<std::vector<std::string>>();
    } else if (key == "add_tags" && is_list_of_texts(value)) {
      change.add_tags = value.get<std::vector<std::string>>();
    } else if (key == "remove_tags" && is_list_of_texts(value)) {
      change.remove_tags = value.get<std::vector<std::string>>();
    } else {
      if (json.is_object() && wrong.empty()) wrong = base::printable(key);
      good = false;
    }
  }
  if (good && change.tags && (json.contains("add_tags") || json.contains("remove_tags"))) {
    throw base::Error(base::Code::User,
                      "tags are all that it has from then on; send either these, or add_tags and "
                      "remove_tags",
                      "tags");
  }
  if (good) return change;
  throw base::Error(base::Code::User,
                    R"(the body is not {"tags": ["…"]} or {"add_tags": ["…"], "remove_tags": )"
                    R"(["…"]}, with {"note": "…"}; send that, or a part of it)",
                    wrong);
}

}  // namespace regatta::orchestrator::api
