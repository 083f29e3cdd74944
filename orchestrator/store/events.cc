// Events as they are read.
#include "orchestrator/store/events.h"

#include <algorithm>
#include <limits>

#include "orchestrator/store/row_fields.h"
#include "orchestrator/store/rows.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::store {
namespace {

enum class Way { Up, Down };

const std::string& columns() {
  static const std::string text = selection(columns_of<Event>(), "events");
  return text;
}

// ?1: the kind; ?2, ?3, ?4: run, node and actor, each empty for any; ?5: the number; ?6: how many.
// The most selective of them names the index.
std::string query(const EventFilter& filter, bool of_kind, Way way) {
  std::string where = way == Way::Up ? "number > ?5" : "number < ?5";
  std::string index = of_kind ? "events_by_kind" : "";
  if (of_kind) where += " AND kind = ?1";
  const auto add = [&](const std::string& value, const char* column, const char* place) {
    if (value.empty()) return;
    // The index has no others, and SQLite has to see that.
    where += std::string(" AND ") + column + " = " + place + " AND " + column + " <> ''";
    index = std::string("events_by_") + column;
  };
  add(filter.by, "actor", "?4");
  add(filter.node, "node", "?3");
  add(filter.run, "run", "?2");
  return "SELECT " + columns() + " FROM events" + (index.empty() ? "" : " INDEXED BY " + index) +
         " WHERE " + where + " ORDER BY number" + (way == Way::Up ? "" : " DESC") + " LIMIT ?6";
}

EventPage page_of(Database& reader, const EventFilter& filter, std::int64_t from, Way way,
                  int limit) {
  EventPage page;
  Statement ends = reader.prepare(
      "SELECT ifnull((SELECT min(number) FROM events), 0), "
      "ifnull((SELECT max(number) FROM events), 0)");
  if (ends.step()) {
    page.oldest = ends.integer(0);
    page.newest = ends.integer(1);
  }
  ends.run();
  const bool any = filter.kinds.empty();
  const std::vector<std::string> kinds = any ? std::vector<std::string>{""} : filter.kinds;
  for (const std::string& kind : kinds) {
    Statement ask = reader.prepare(query(filter, !any, way));
    ask.bind(kind, filter.run, filter.node, filter.by, from, limit + 1);
    for (Event& event : read_rows<Event>(ask)) page.events.push_back(std::move(event));
  }
  std::sort(page.events.begin(), page.events.end(), [way](const Event& a, const Event& b) {
    return way == Way::Up ? a.number < b.number : a.number > b.number;
  });
  page.more = page.events.size() > static_cast<std::size_t>(limit);
  if (page.more) page.events.resize(static_cast<std::size_t>(limit));
  if (way == Way::Down) std::reverse(page.events.begin(), page.events.end());
  return page;
}

}  // namespace

std::int64_t StoreReads::count_events_after(const EventFilter& filter, std::int64_t after,
                                            std::int64_t most) {
  const ReaderPool::Lease reader = lease();
  const bool any = filter.kinds.empty();
  const std::vector<std::string> kinds = any ? std::vector<std::string>{""} : filter.kinds;
  std::int64_t count = 0;
  for (const std::string& kind : kinds) {
    Statement ask = reader->prepare("SELECT count(*) FROM (" + query(filter, !any, Way::Up) + ")");
    ask.bind(kind, filter.run, filter.node, filter.by, after, most - count);
    if (ask.step()) count += ask.integer(0);
    ask.run();
  }
  return count;
}

EventPage StoreReads::events_after(const EventFilter& filter, std::int64_t after, int limit) {
  const ReaderPool::Lease reader = lease();
  return page_of(*reader, filter, after, Way::Up, limit);
}

EventPage StoreReads::events_before(const EventFilter& filter,
                                    const std::optional<std::int64_t>& before, int limit) {
  const ReaderPool::Lease reader = lease();
  return page_of(*reader, filter, before.value_or(std::numeric_limits<std::int64_t>::max()),
                 Way::Down, limit);
}

}  // namespace regatta::orchestrator::store
