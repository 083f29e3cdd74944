// What happened to runs, launches, attempts, checkpoints, plans and nodes, and who asked for it:
// one table that only grows at its end, from which the command line, the page and other programs
// read what they have not read yet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::orchestrator::store {

struct Event {
  // Grows with every event, with gaps, and across a store that was lost or put back, too.
  std::int64_t number = 0;
  double utc = 0;    // when it happened; the controller may have learned of it later
  std::string kind;  // one of event_kinds()
  std::string run;   // an id; empty here and below: of none
  std::string node, checkpoint;
  std::optional<std::int64_t> launch, attempt, step;
  // Who asked for it: "uid 1000" over the socket, "token" over TCP. Empty: nobody did; it is what
  // the controller, the scheduler or the trainer did.
  std::string by;
  std::string words;  // one line for people; may be empty

  bool operator==(const Event&) const = default;
};

struct EventKind {
  std::string_view name;
  std::string_view what;  // for the document
};
// All kinds: "run.submitted", "launch.ended", …
[[nodiscard]] const std::vector<EventKind>& event_kinds();

// The kind of this name, or all that begin with it and a dot; none where it is none.
[[nodiscard]] std::vector<std::string> kinds_named(std::string_view name);

struct EventFilter {
  std::vector<std::string> kinds;  // one of these; empty: any
  std::string run, node, by;       // empty: any
};

// In the order of their numbers.
struct EventPage {
  std::vector<Event> events;
  bool more = false;        // there are others, on the side that was asked for
  std::int64_t oldest = 0;  // that the store still has, whatever the filter; 0: none
  std::int64_t newest = 0;
};

}  // namespace regatta::orchestrator::store
