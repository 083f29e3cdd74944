#include "orchestrator/api/webhook_api.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/api/answer_fields.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/event_api.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

std::string state_of(const webhooks::Status& status) {
  if (status.place.dead) return "dead";
  if (status.place.failures > 0) return "retrying";
  return status.waiting > 0 ? "delivering" : "idle";
}

Json webhook_json(const webhooks::Status& status, double now_utc) {
  const store::WebhookPlace& place = status.place;
  const bool waits = place.failures > 0 && !place.dead;
  return {{"name", status.name},
          {"url", status.url},
          {"kinds", status.kinds},
          {"state", state_of(status)},
          {"delivered", place.delivered > 0 ? Json(place.delivered) : Json()},
          {"delivered_at", moment(place.delivered_utc)},
          {"waiting", status.waiting},
          {"failures", place.failures},
          {"failing_since", moment(place.failing_since_utc)},
          {"next_try_at", waits ? moment(std::max(place.next_try_utc, now_utc)) : Json()},
          {"error", place.error.empty() ? Json() : Json(place.error)}};
}

}  // namespace

Response list_webhooks(const webhooks::Webhooks* webhooks, double now_utc) {
  Json list = Json::array();
  if (webhooks != nullptr) {
    for (const webhooks::Status& status : webhooks->status()) {
      list.push_back(webhook_json(status, now_utc));
    }
  }
  return json_response(200, {{"webhooks", std::move(list)}});
}

Response redeliver_webhook(const webhooks::Webhooks* webhooks, const Call& call, double now_utc) {
  const std::string& name = call.names.at(0);
  if (webhooks == nullptr) {
    throw base::Error(base::Code::NotFound,
                      "no webhook '" + base::printable(name) + "'; this controller has none");
  }
  webhooks::Courier& courier = webhooks->find(name);
  const std::string by = asker_of(call.request.peer);
  (void)(call.flag("skip") ? courier.skip(by) : courier.redeliver(by));
  return json_response(200, webhook_json(courier.status(), now_utc));
}

}  // namespace regatta::orchestrator::api
