// The routes below /references (docs/api.md).
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/api/answer_fields.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/api.h"
#include "orchestrator/api/event_api.h"
#include "orchestrator/runs/reference.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDepth = 8;  // of a body

Json curve_json(const runs::ReferenceCurve& curve) {
  Json json = Json::object();
  add_fields(curve.about, &json);
  json["evaluations"] = runs::points_json(curve);
  return json;
}

Response no_reference(const std::string& name) {
  return error_response(404, "not_found",
                        "there is no reference named " + base::printable(name.substr(0, 100)));
}

}  // namespace

Response Api::references(const Call& call) {
  const auto limit = static_cast<std::size_t>(call.integer("limit"));
  store::Snapshot store = controller_.store().snapshot();
  // One more than wanted, to see whether there are more.
  std::vector<runs::Reference> found =
      store.references(call.text("after").value_or(""), static_cast<int>(limit) + 1);
  const bool more = found.size() > limit;
  if (more) found.pop_back();
  Json rows = Json::array();
  for (const runs::Reference& each : found) {
    rows.push_back(Json::object());
    add_fields(each, &rows.back());
  }
  return json_response(
      200, {{"references", std::move(rows)}, {"next", more ? Json(found.back().name) : Json()}});
}

Response Api::add_reference(const Call& call) {
  const std::string& body = call.request.body;
  const Json json = read_body(body, kDepth);
  if (json.is_null()) {
    throw base::Error(base::Code::User, "the body is not JSON");
  }
  runs::ReferenceCurve curve = runs::parse_reference(json);
  curve.about.imported_utc = clock_.utc_seconds();
  const bool created = controller_.store().add_reference(curve, asker_of(call.request.peer));
  if (!created) return show_reference(curve.about.name);
  Response response = json_response(201, curve_json(curve));
  response.headers["Location"] = "/api/v1/references/" + curve.about.name;
  return response;
}

Response Api::show_reference(const Call& call) { return show_reference(call.names.at(0)); }

Response Api::show_reference(const std::string& name) {
  store::Snapshot store = controller_.store().snapshot();
  const auto curve = store.reference(name);
  return curve ? json_response(200, curve_json(*curve)) : no_reference(name);
}

Response Api::remove_reference(const Call& call) {
  const std::string& name = call.names.at(0);
  if (!controller_.store().remove_reference(name, asker_of(call.request.peer)))
    return no_reference(name);
  return json_response(200, {{"name", name}});
}

}  // namespace regatta::orchestrator::api
