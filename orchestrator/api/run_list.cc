#include "orchestrator/api/run_list.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/ascii.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/run_json.h"
#include "orchestrator/runs/labels.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Value chosen(const Call& call, const char* name, const std::map<std::string, Value>& values) {
  const auto found = values.find(call.text(name).value_or(""));
  base::check(found != values.end(), "the choices of a parameter are those of its route");
  return found->second;
}

store::RunFilter filter_of(const Call& call) {
  store::RunFilter filter;
  filter.limit = static_cast<int>(call.integer("limit"));
  for (const std::string& state : call.words("state")) {
    filter.states.push_back(runs::parse_run_state(state).value());
  }
  filter.archived = chosen<store::Archived>(call, "archived",
                                            {{"false", store::Archived::Hidden},
                                             {"true", store::Archived::Only},
                                             {"all", store::Archived::Also}});
  filter.name_prefix = call.text("name").value_or("");
  filter.text = call.text("text").value_or("");
  filter.tags = call.words("tag");
  filter.owner = call.text("owner").value_or("");
  filter.node = call.text("node").value_or("");
  filter.since_utc = call.moment("since");
  filter.until_utc = call.moment("until");
  filter.sort = chosen<store::RunSort>(call, "sort",
                                       {{"created", store::RunSort::Created},
                                        {"ended", store::RunSort::Ended},
                                        {"time_to_accuracy", store::RunSort::TimeToAccuracy},
                                        {"name", store::RunSort::Name}});
  filter.order = chosen<store::SortOrder>(
      call, "order",
      {{"descending", store::SortOrder::Descending}, {"ascending", store::SortOrder::Ascending}});
  filter.with_total = call.flag("total");
  return filter;
}

// Of an even number of hexadecimal digits.
std::optional<std::string> bytes_of(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 2 <= hex.size(); i += 2) {
    unsigned value = 0;
    const char* const end = hex.data() + i + 2;
    if (std::from_chars(hex.data() + i, end, value, 16).ptr != end) return std::nullopt;
    bytes += static_cast<char>(value);
  }
  return bytes;
}

std::optional<std::uint64_t> whole_hex(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value, 16);
  if (text.empty() || read.ptr != end || read.ec != std::errc()) return std::nullopt;
  return value;
}

// "c" and "d": by what, and which way.
std::string order_letters(const store::RunFilter& filter) {
  constexpr std::string_view kSorts = "cetn";
  return {kSorts[static_cast<std::size_t>(filter.sort)],
          filter.order == store::SortOrder::Descending ? 'd' : 'a'};
}

// "-1a2b3c4d": which runs the list has, whatever the order of the words; empty: all that are not
// archived.
std::string filter_mark(const store::RunFilter& filter) {
  const auto text = [](store::RunFilter of) {
    std::sort(of.states.begin(), of.states.end());
    std::sort(of.tags.begin(), of.tags.end());
    const auto moment = [](const std::optional<double>& utc) { return utc ? Json(*utc) : Json(); };
    return base::json_text(Json{of.states, of.archived, of.name_prefix, of.tags, of.owner, of.node,
                                of.text, moment(of.since_utc), moment(of.until_utc)});
  };
  constexpr std::size_t kDigits = 8;
  const std::string own = text(filter);
  return own == text({}) ? "" : "-" + base::digest_of(own).substr(0, kDigits);
}

}  // namespace

std::string cursor_text(const store::RunFilter& filter, const store::ListPlace& place) {
  const auto* const name = std::get_if<std::string>(&place.key);
  const std::string key =
      name != nullptr ? base::hex(*name)
                      : base::formatted("%016" PRIx64,
                                        std::bit_cast<std::uint64_t>(std::get<double>(place.key)));
  return order_letters(filter) + key + "-" +
         base::formatted("%" PRIx64, static_cast<std::uint64_t>(place.number)) +
         filter_mark(filter);
}

std::optional<store::ListPlace> parse_cursor(const store::RunFilter& filter,
                                             const std::string& text) {
  const std::string mark = filter_mark(filter);
  if (!text.ends_with(mark)) return std::nullopt;
  const std::string_view rest = std::string_view(text).substr(0, text.size() - mark.size());
  const std::size_t dash = rest.rfind('-');
  if (dash == std::string::npos || dash < 2) return std::nullopt;
  const std::string_view key = rest.substr(2, dash - 2);
  const auto number = whole_hex(rest.substr(dash + 1));
  if (!number) return std::nullopt;
  store::ListPlace place;
  place.number = static_cast<std::int64_t>(*number);
  if (filter.sort == store::RunSort::Name) {
    auto name = bytes_of(key);
    if (!name) return std::nullopt;
    place.key = std::move(*name);
  } else {
    const auto bits = whole_hex(key);
    if (!bits || !std::isfinite(std::bit_cast<double>(*bits))) return std::nullopt;
    place.key = std::bit_cast<double>(*bits);
  }
  if (cursor_text(filter, place) != text) return std::nullopt;
  return place;
}

Json slim_row(const Json& row) {
  Json slim;
  for (const std::string_view key : slim_keys().in_order()) {
    slim[std::string(key)] = row.at(std::string(key));
  }
  return slim;
}

Response list_runs(store::StoreReads& store, const Call& call, double now_utc) {
  for (const char* const name : {"owner", "node"}) {
    if (call.text(name) == "") return empty_filter(name);
  }
  store::RunFilter filter = filter_of(call);
  if (filter.tags.size() > runs::kMostTags) {
    return parameter_problem("tag", "tag has " + std::to_string(filter.tags.size()) +
                                        " tags; name at most " + std::to_string(runs::kMostTags) +
                                        ", as no run has more");
  }
  if (const auto cursor = call.text("before")) {
    filter.after = parse_cursor(filter, *cursor);
    if (!filter.after) {
      return parameter_problem("before", "before is '" + base::printable(cursor->substr(0, 50)) +
                                             "'; use the `next` of an answer to the same query");
    }
  }
  const bool full = call.flag("full");
  filter.with_parts = full;
  const store::RunList list = store.list(filter);
  Json rest{{"next", list.next ? Json(cursor_text(filter, *list.next)) : Json()}};
  if (list.total) rest["total"] = *list.total;
  return list_response(
      "runs", list.rows.size(),
      [&](std::size_t i) {
        return full ? row_json(list.rows[i], now_utc) : slim_json(list.rows[i], now_utc);
      },
      rest);
}

}  // namespace regatta::orchestrator::api
