// GET /events and GET /events/stream (docs/api.md).
#pragma once

#include <string>

#include "base/clock.h"
#include "orchestrator/api/routes.h"
#include "orchestrator/store/store.h"

namespace regatta::orchestrator::api {

// Who sends a request, as events tell it (store::Event::by).
[[nodiscard]] std::string asker_of(const Peer& peer);

// An event as both have it.
[[nodiscard]] std::string event_text(const store::Event& event);

// The parameters of both that say which events.
inline constexpr const char* kEventFilters = "kind run node by";

[[nodiscard]] Response list_events(store::Snapshot& store, const Call& call);

struct EventStreamLimits {
  double longest_seconds = 600;  // then it ends, and whoever reads it asks again, with its token
  double beat_seconds = 15;      // of silence, after which a comment shows that it lives
};
// Server-sent events, from `since` or the header Last-Event-ID on; without, from now on. `store`
// and `clock` outlive the answer.
[[nodiscard]] Response stream_events(store::Store& store, base::Clock& clock, const Call& call,
                                     const EventStreamLimits& limits = {});

}  // namespace regatta::orchestrator::api
