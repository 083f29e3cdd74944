// The list of runs: filtered, sorted, a page at a time.
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <variant>

#include "base/wording.h"
#include "orchestrator/runs/record_fields.h"
#include "orchestrator/store/row_fields.h"
#include "orchestrator/store/rows.h"
#include "orchestrator/store/run_columns.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::store {
namespace {

// The configuration is the largest part of a row.
const std::string kRowColumns = selection(columns_of<runs::Run>(), "runs", "config");

std::string key_column(RunSort sort) {
  switch (sort) {
    case RunSort::Created:
      return "created_utc";
    case RunSort::Ended:
      return "ifnull(ended_utc, 9e99)";
    case RunSort::TimeToAccuracy:
      return "ifnull(time_to_accuracy, 9e99)";
    case RunSort::Name:
      return "name";
  }
  return "";
}

using Value = std::variant<std::int64_t, double, std::string>;

// A condition of SQL with the values for its places.
class Condition {
 public:
  void add(const std::string& text) { text_ += (text_.empty() ? "" : " AND ") + text; }
  // The place for a value: "?3".
  std::string place(Value value) {
    values_.push_back(std::move(value));
    return "?" + std::to_string(values_.size());
  }
  // So few rows fit that no index of the list's order is worth while.
  void set_selective() { selective_ = true; }
  [[nodiscard]] bool is_selective() const { return selective_; }
  [[nodiscard]] std::string where() const { return text_.empty() ? "" : " WHERE " + text_; }
  void bind(Statement& statement) const {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      std::visit([&](const auto& value) { statement.bind_at(static_cast<int>(i) + 1, value); },
                 values_[i]);
    }
  }
  // The same text only where condition and values are the same.
  [[nodiscard]] std::string key() const {
    std::string key = text_;
    for (const Value& value : values_) {
      key += '\0';
      if (const auto* text = std::get_if<std::string>(&value)) {
        key += std::to_string(text->size()) + *text;
      } else if (const auto* number = std::get_if<double>(&value)) {
        key += base::formatted("%a", *number);
      } else {
        key += std::to_string(std::get<std::int64_t>(value));
      }
    }
    return key;
  }

 private:
  std::string text_;
  bool selective_ = false;
  std::vector<Value> values_;
};

// What LIKE finds the text itself by, wherever it stands.
std::string pattern_of(const std::string& text) {
  std::string pattern = "%";
  for (const char c : text) {
    if (c == '%' || c == '_' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern + "%";
}

// The index that has all that a filter by name, text or owner looks at.
constexpr const char* kByText = " INDEXED BY runs_text";

// Whether one of the indexes by time has no more than the list, which then ends with its page.
bool is_by_time_alone(const RunFilter& filter) {
  if (!filter.text.empty() || !filter.name_prefix.empty() || filter.states.size() > 1) return false;
  return filter.owner.empty() || (filter.states.empty() && filter.archived != Archived::Only);
}

// The index that has a list in its order, with all that filters look at but tags and nodes, which
// tables of their own have; empty: SQLite chooses.
std::string index_of(const RunFilter& filter, const Condition& condition) {
  // By their numbers: SQLite would rather walk an index of the list's order to its end.
  if (condition.is_selective()) return " NOT INDEXED";
  const bool all = filter.archived == Archived::Also;
  switch (filter.sort) {
    case RunSort::Created:
      return is_by_time_alone(filter) ? "" : kByText;
    case RunSort::Ended:
      return all ? " INDEXED BY runs_all_by_end" : " INDEXED BY runs_by_end";
    case RunSort::TimeToAccuracy:
      return all ? " INDEXED BY runs_all_by_accuracy" : " INDEXED BY runs_by_accuracy";
    case RunSort::Name:
      return all ? " INDEXED BY runs_all_by_name" : " INDEXED BY runs_by_archived_name";
  }
  return "";
}

// For the number of all runs that fit, whose order does not matter.
std::string index_of_total(const RunFilter& filter, const Condition& condition) {
  if (condition.is_selective()) return " NOT INDEXED";
  const bool by_text = !filter.text.empty() || !filter.name_prefix.empty() || !filter.owner.empty();
  return by_text ? kByText : "";
}

// Where few rows of `from` (a table with its index) fit what `make` says of them, and `number` of
// these rows are runs: those runs are looked up, whatever the order of the list.
bool add_if_few(Database& reader, const std::string& number, const std::string& from,
                const std::function<std::string(Condition*)>& make, Condition* condition) {
  constexpr std::int64_t kFew = 1000;
  {
    Condition fits;
    fits.add(make(&fits));
    Statement count = reader.prepare("SELECT count(*) FROM (SELECT 1 FROM " + from + fits.where() +
                                     " LIMIT " + fits.place(kFew) + ")");
    fits.bind(count);
    if (!count.step() || count.integer(0) >= kFew) return false;
  }
  condition->add("number IN (SELECT " + number + " FROM " + from + " WHERE " + make(condition) +
                 ")");
  condition->set_selective();
  return true;
}

// The rows of a table of its own that name runs.
struct Listed {
  const char* table;
  const char* column;
  std::string value;
};

// Of runs that another table lists. Where these are many, the list is walked in its order until the
// page is full; or, where `many` is given, they go there.
void add_listed(Database& reader, const Listed& listed, Condition* condition,
                std::vector<Listed>* many) {
  const std::string table = listed.table;
  const auto fits = [&](Condition* of) {
    return listed.column + (" = " + of->place(listed.value));
  };
  if (add_if_few(reader, "run", table, fits, condition)) return;
  if (many != nullptr) {
    many->push_back(listed);
  } else {
    condition->add("EXISTS (SELECT 1 FROM " + table + " WHERE " + fits(condition) +
                   " AND run = number)");
  }
}

// Of few runs their numbers, by this index; else the condition itself.
void add_by_index(Database& reader, const std::string& index,
                  const std::function<std::string(Condition*)>& make, Condition* condition) {
  if (!add_if_few(reader, "number", "runs INDEXED BY " + index, make, condition)) {
    condition->add(make(condition));
  }
}

void add_states(Database& reader, const RunFilter& filter, Condition* condition) {
  if (filter.states.empty()) return;
  const auto fits = [&states = filter.states](Condition* of) {
    std::string places;
    for (const runs::RunState state : states) {
      places += (places.empty() ? "" : ", ") + of->place(std::string(runs::name_of(state)));
    }
    return states.size() == 1 ? "state = " + places : "state IN (" + places + ")";
  };
  // That order has an index which begins with the state, and needs no look ahead.
  if (filter.sort == RunSort::Created && is_by_time_alone(filter)) {
    condition->add(fits(condition));
  } else {
    add_by_index(reader, "runs_by_state", fits, condition);
  }
}

void add_owner_and_name(Database& reader, const RunFilter& filter, Condition* condition) {
  if (!filter.name_prefix.empty()) {
    const auto fits = [&](Condition* of) {
      // No byte of UTF-8 is as large.
      return "name >= " + of->place(filter.name_prefix) + " AND name < " +
             of->place(filter.name_prefix + "\xff");
    };
    add_by_index(reader, "runs_by_name", fits, condition);
  }
  if (!filter.owner.empty()) {
    const auto fits = [&](Condition* of) {
      return "owner = " + of->place(filter.owner) + " AND owner <> ''";
    };
    add_by_index(reader, "runs_by_owner", fits, condition);
  }
}

// many: gets what other tables list at length, which the condition is then without.
Condition condition_of(Database& reader, const RunFilter& filter,
                       std::vector<Listed>* many = nullptr) {
  Condition condition;
  add_states(reader, filter, &condition);
  if (filter.archived != Archived::Also) {
    condition.add("archived = " +
                  condition.place(std::int64_t{filter.archived == Archived::Only ? 1 : 0}));
  }
  add_owner_and_name(reader, filter, &condition);
  for (const std::string& tag : filter.tags) {
    add_listed(reader, {"run_tags", "tag", tag}, &condition, many);
  }
  if (!filter.node.empty()) {
    add_listed(reader, {"run_nodes", "node", filter.node}, &condition, many);
  }
  if (filter.since_utc) condition.add("created_utc >= " + condition.place(*filter.since_utc));
  if (filter.until_utc) condition.add("created_utc < " + condition.place(*filter.until_utc));
  if (!filter.text.empty()) {
    const std::string pattern = condition.place(pattern_of(filter.text));
    const std::string like = " LIKE " + pattern + " ESCAPE '\\'";
    condition.add("(id" + like + " OR name" + like + " OR error" + like + ")");
  }
  return condition;
}

// How many runs fit. Those of long lists are marked first, and the others then walked once: to look
// each of 100,000 up in a list takes four times as long.
std::int64_t count_fitting(Database& reader, const RunFilter& filter) {
  std::vector<Listed> many;
  const Condition condition = condition_of(reader, filter, &many);
  const std::string from = " FROM runs" + index_of_total(filter, condition) + condition.where();
  if (many.empty()) {
    Statement count = reader.prepare("SELECT count(*)" + from);
    condition.bind(count);
    return count.step() ? count.integer(0) : 0;
  }
  std::vector<std::uint8_t> lists_of;  // by run; a filter has no more than runs::kMostTags and one
  for (const Listed& listed : many) {
    Statement ask = reader.prepare(
        base::formatted("SELECT run FROM %s WHERE %s = ?1", listed.table, listed.column));
    ask.bind(listed.value);
    while (ask.step()) {
      const auto run = static_cast<std::size_t>(ask.integer(0));
      if (run >= lists_of.size()) lists_of.resize(run + 1 + run / 2);
      ++lists_of[run];
    }
  }
  Statement fitting = reader.prepare("SELECT number" + from);
  condition.bind(fitting);
  std::int64_t count = 0;
  while (fitting.step()) {
    const auto run = static_cast<std::size_t>(fitting.integer(0));
    if (run < lists_of.size() && lists_of[run] == many.size()) ++count;
  }
  return count;
}

// Before the first row.
ListPlace first_place(const RunFilter& filter) {
  const bool down = filter.order == SortOrder::Descending;
  if (filter.sort == RunSort::Name) return {std::string(down ? "\xff" : ""), 0};
  const double end = std::numeric_limits<double>::infinity();
  return {down ? end : -end, 0};
}

// The page, with one more row where there is another page.
std::string page_of(const RunFilter& filter, Condition* condition) {
  const bool down = filter.order == SortOrder::Descending;
  const std::string key = key_column(filter.sort);
  const ListPlace after = filter.after.value_or(first_place(filter));
  const std::string place =
      std::visit([&](const auto& value) { return condition->place(value); }, after.key);
  condition->add("(" + key + ", number) " + (down ? "<" : ">") + " (" + place + ", " +
                 condition->place(after.number) + ")");
  const std::string direction = down ? " DESC" : "";
  const std::string order = " ORDER BY " + key + direction + ", number" + direction;
  const std::string limit = " LIMIT " + condition->place(std::int64_t{filter.limit} + 1);
  if (filter.text.empty()) {
    return "SELECT " + kRowColumns + " FROM runs" + index_of(filter, *condition) +
           condition->where() + order + limit;
  }
  // A search looks at many rows, which are large: it takes an index that has what it looks at.
  return "SELECT " + kRowColumns + " FROM runs WHERE number IN (SELECT number FROM runs" +
         index_of(filter, *condition) + condition->where() + order + limit + ")" + order;
}

ListPlace place_of(const runs::Run& run, RunSort sort) {
  constexpr double kNotYet = 9e99;
  const std::int64_t number = runs::row_of(run.number);
  switch (sort) {
    case RunSort::Created:
      return {run.created_utc, number};
    case RunSort::Ended:
      return {run.ended_utc.value_or(kNotYet), number};
    case RunSort::TimeToAccuracy:
      return {run.summary.time_to_accuracy_seconds.value_or(kNotYet), number};
    case RunSort::Name:
      return {run.name, number};
  }
  return {};
}

// "[3,1,2]"
std::string numbers_of(const RunList& list) {
  std::string numbers = "[";
  for (const RunRow& row : list.rows) {
    numbers += (numbers.size() > 1 ? "," : "") + std::to_string(runs::row_of(row.run.number));
  }
  return numbers + "]";
}

void count_attempts(Database& reader, RunList* list) {
  const std::string numbers = numbers_of(*list);
  Statement ask = reader.prepare(
      "SELECT page.key, (SELECT count(*) FROM attempts WHERE run = page.value) "
      "FROM json_each(?1) AS page");
  ask.bind(numbers);
  while (ask.step()) {
    list->rows.at(static_cast<std::size_t>(ask.integer(0))).attempts =
        static_cast<int>(ask.integer(1));
  }
}

// The newest launch and attempts of each row.
void add_parts(Database& reader, RunList* list) {
  const std::string numbers = numbers_of(*list);
  std::map<std::int64_t, std::size_t> places;
  for (std::size_t i = 0; i < list->rows.size(); ++i) {
    places[runs::row_of(list->rows[i].run.number)] = i;
  }
  Statement launches = reader.prepare(
      "SELECT " + kLaunchColumns + ", page.value FROM json_each(?1) AS page CROSS JOIN launches " +
      "ON launches.run = page.value AND launches.number = "
      "(SELECT max(number) FROM launches WHERE run = page.value)");
  launches.bind(numbers);
  const int run_of_launch = end_of<runs::Launch>();
  while (launches.step()) {
    RunRow& row = list->rows[places.at(launches.integer(run_of_launch))];
    row.launch = read_row<runs::Launch>(launches);
  }
  Statement attempts =
      reader.prepare("SELECT " + kAttemptColumns +
                     ", page.value, "
                     "(SELECT count(*) FROM attempts WHERE run = page.value) "
                     "FROM json_each(?1) AS page CROSS JOIN attempts ON attempts.row IN ("
                     "(SELECT row FROM attempts WHERE run = page.value "
                     "ORDER BY number DESC, execution DESC LIMIT 1), "
                     "(SELECT row FROM attempts WHERE run = page.value AND started = 1 "
                     "ORDER BY number DESC, execution DESC LIMIT 1))");
  attempts.bind(numbers);
  const int run_of_attempt = end_of<runs::Attempt>();
  while (attempts.step()) {
    RunRow& row = list->rows[places.at(attempts.integer(run_of_attempt))];
    row.attempts = static_cast<int>(attempts.integer(run_of_attempt + 1));
    row.take(read_row<runs::Attempt>(attempts));
  }
}

}  // namespace

void RunRow::take(runs::Attempt each) {
  const auto newer = [&](const std::optional<runs::Attempt>& than) {
    return !than ||
           std::pair(each.number, each.execution) > std::pair(than->number, than->execution);
  };
  if (each.started && newer(begun)) begun = each;
  if (newer(attempt)) attempt = std::move(each);
}

RunList StoreReads::list(const RunFilter& filter) {
  const ReaderPool::Lease reader = lease();
  RunList list;
  Condition condition = condition_of(*reader, filter);
  if (filter.with_total) {
    list.total = pool_->totals().total(*reader, condition.key(),
                                       [&] { return count_fitting(*reader, filter); });
  }
  {
    Statement ask = reader->prepare(page_of(filter, &condition));
    condition.bind(ask);
    while (ask.step()) {
      if (list.rows.size() == static_cast<std::size_t>(filter.limit)) {  // one too many, on purpose
        list.next = place_of(list.rows.back().run, filter.sort);
        break;
      }
      list.rows.emplace_back().run = read_run(ask);
    }
  }
  if (filter.with_parts) {
    add_parts(*reader, &list);
  } else {
    count_attempts(*reader, &list);
  }
  return list;
}

}  // namespace regatta::orchestrator::store
