#include "orchestrator/api/event_api.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "orchestrator/api/answer_fields.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/control/request_error.h"
#include "orchestrator/control/run_lookup.h"
#include "orchestrator/store/row_fields.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPieceEvents = 100;
constexpr const char* kLastEventId = "last-event-id";

// "run" is all kinds that begin with "run.".
std::variant<store::EventFilter, Response> filter_of(store::StoreReads& store, const Call& call) {
  store::EventFilter filter;
  for (const std::string& asked : call.words("kind")) {
    const std::vector<std::string> kinds = store::kinds_named(asked);
    filter.kinds.insert(filter.kinds.end(), kinds.begin(), kinds.end());
    if (kinds.empty()) {
      return parameter_problem("kind", "kind '" + base::printable(asked) +
                                           "' is none; use one of /openapi.json, such as "
                                           "run.failed, or a beginning, such as run");
    }
  }
  std::sort(filter.kinds.begin(), filter.kinds.end());
  filter.kinds.erase(std::unique(filter.kinds.begin(), filter.kinds.end()), filter.kinds.end());
  for (const char* const name : {"run", "node", "by"}) {
    if (call.text(name) == "") return empty_filter(name);
  }
  filter.node = call.text("node").value_or("");
  filter.by = call.text("by").value_or("");
  if (const auto run = call.text("run")) {
    // Of a run that was removed the events are still there, by its id.
    try {
      filter.run = control::by_parameter("run", [&] { return control::find_run(store, *run); }).id;
    } catch (const base::Error& error) {
      if (error.code() != base::Code::NotFound) throw;
      filter.run = *run;
      if (store.events_after({{}, *run, {}, {}}, 0, 1).events.empty()) throw;
    }
  }
  return filter;
}

Json event_json(const store::Event& event) {
  Json json;
  add_fields(event, &json);
  return json;
}

class EventStream final : public BodyStream {
 public:
  EventStream(store::Store& store, base::Clock& clock, store::EventFilter filter,
              std::int64_t since, const EventStreamLimits& limits)
      : store_(store),
        clock_(clock),
        filter_(std::move(filter)),
        since_(since),
        limits_(limits),
        began_(clock.monotonic_seconds()),
        spoke_(began_) {}

  [[nodiscard]] std::optional<std::uint64_t> size() const override { return std::nullopt; }

  Piece next() override {
    const double now = clock_.monotonic_seconds();
    Piece piece;
    if (!began_to_speak_) {
      began_to_speak_ = true;
      // A reader that saw no event has a Last-Event-ID from this.
      piece.bytes = "retry: 2000\nid: " + std::to_string(since_) + "\n\n";
    }
    if (store_.has_events_after(since_)) piece.bytes += news();
    if (piece.bytes.empty() && now - spoke_ >= limits_.beat_seconds) piece.bytes = ":\n\n";
    if (!piece.bytes.empty()) spoke_ = now;
    piece.is_last = now - began_ >= limits_.longest_seconds;
    return piece;
  }

 private:
  std::string news() {
    store::Snapshot snapshot = store_.snapshot();
    const store::EventPage page = snapshot.events_after(filter_, since_, kPieceEvents);
    std::string text;
    for (const store::Event& event : page.events) {
      text += "id: " + std::to_string(event.number) + "\nevent: " + event.kind +
              "\ndata: " + base::json_text(event_json(event)) + "\n\n";
    }
    // What does not fit the filter has been seen, too.
    since_ = page.more ? page.events.back().number : std::max(since_, page.newest);
    return text;
  }

  store::Store& store_;
  base::Clock& clock_;
  const store::EventFilter filter_;
  std::int64_t since_;
  const EventStreamLimits limits_;
  const double began_;
  double spoke_;
  bool began_to_speak_ = false;
};

}  // namespace

std::string event_text(const store::Event& event) { return base::json_text(event_json(event)); }

std::string asker_of(const Peer& peer) {
  return peer.local_socket ? "uid " + std::to_string(peer.uid) : "token";
}

Response list_events(store::Snapshot& store, const Call& call) {
  const auto filter = filter_of(store, call);
  if (const auto* refused = std::get_if<Response>(&filter)) return *refused;
  const auto& asked = std::get<store::EventFilter>(filter);
  const auto limit = static_cast<int>(call.integer("limit"));
  const bool forward = call.request.query.count("since") > 0;
  if (forward && call.request.query.count("before") > 0) {
    return parameter_problem("before", "since and before exclude each other; send one of them");
  }
  const std::int64_t since = call.integer("since");
  const std::int64_t before = call.integer("before");
  const store::EventPage page =
      forward
          ? store.events_after(asked, since, limit)
          : store.events_before(asked, before > 0 ? std::optional(before) : std::nullopt, limit);
  Json events = Json::array();
  for (const store::Event& event : page.events) events.push_back(event_json(event));
  std::int64_t next = std::max(page.newest, since);
  if (!page.events.empty() && (forward ? page.more : before > 0)) next = page.events.back().number;
  Json json{{"events", std::move(events)},
            {"next", next},
            {"more", page.more},
            {"oldest", page.oldest > 0 ? Json(page.oldest) : Json()}};
  return json_response(200, json);
}

Response stream_events(store::Store& store, base::Clock& clock, const Call& call,
                       const EventStreamLimits& limits) {
  store::Snapshot snapshot = store.snapshot();
  auto filter = filter_of(snapshot, call);
  if (const auto* refused = std::get_if<Response>(&filter)) return *refused;
  std::optional<std::int64_t> since;
  if (call.request.query.count("since") > 0) since = call.integer("since");
  // Of a stream that broke off, which goes on where it was.
  const auto last = call.request.headers.find(kLastEventId);
  if (last != call.request.headers.end()) {
    since = base::parse_integer(last->second);
    if (!since || *since < 0) {
      return error_response(400, "user", "Last-Event-ID is no number of an event");
    }
  }
  if (!since) since = snapshot.events_before({}, std::nullopt, 1).newest;
  Response response;
  response.content_type = "text/event-stream";
  response.headers["Cache-Control"] = "no-store";
  response.headers["X-Accel-Buffering"] = "no";  // of proxies that would wait for more
  response.stream = std::make_shared<EventStream>(
      store, clock, std::move(std::get<store::EventFilter>(filter)), *since, limits);
  return response;
}

}  // namespace regatta::orchestrator::api
