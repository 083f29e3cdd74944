// GET /webhooks and what somebody may ask of one (docs/api.md).
#pragma once

#include "orchestrator/api/routes.h"
#include "orchestrator/webhooks/webhooks.h"

namespace regatta::orchestrator::api {

// webhooks: null where there are none.
[[nodiscard]] Response list_webhooks(const webhooks::Webhooks* webhooks, double now_utc);
// 200 with the webhook as it is then. Code::NotFound for a name that is none.
[[nodiscard]] Response redeliver_webhook(const webhooks::Webhooks* webhooks, const Call& call,
                                         double now_utc);

}  // namespace regatta::orchestrator::api
