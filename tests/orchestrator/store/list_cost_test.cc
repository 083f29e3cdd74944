// What lists cost, by every filter and order that the route offers, and what they read.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/store/database.h"
#include "tests/orchestrator/store/filled_stack.h"

namespace regatta::orchestrator {
namespace {

using ListQuery = std::map<std::string, std::string>;

std::string text_of(const ListQuery& query) {
  std::string text = "runs?";
  for (const auto& [name, value] : query) text += name + "=" + value + "&";
  return text;
}

// Steps of SQLite's machine, by statement.
std::map<std::string, std::int64_t> steps_of(store::Store& store) {
  std::map<std::string, std::int64_t> steps;
  for (const store::StatementFigures& each : store.figures()) steps[each.sql] += each.steps;
  return steps;
}

std::int64_t cost_of(tests::FilledStack& stack, const ListQuery& query) {
  auto before = steps_of(stack.store());
  (void)stack.json("runs", query);
  std::int64_t cost = 0;
  // A connection forgets the statements that it has not used for long.
  for (const auto& [sql, steps] : steps_of(stack.store())) {
    cost += std::max<std::int64_t>(0, steps - before[sql]);
  }
  return cost;
}

// Filters that as many runs fit as a page has, or the same few, however many there are.
const std::vector<ListQuery> kFilters = {
    {},
    {{"owner", "token"}},
    {{"owner", "uid 1999"}},
    {{"tag", "first"}},
    {{"node", "node99"}},
    {{"tag", "first"}, {"node", "node99"}, {"owner", "uid 1999"}},
    {{"name", "run"}},
    {{"text", "RUN"}},
    {{"state", "failed,cancelled"}},
    {{"since", "2023-11-14T22:13:20Z"}, {"until", "2030-01-01T00:00:00Z"}},
    {{"full", "true"}},
};

std::vector<ListQuery> with_orders(const std::vector<std::string>& sorts) {
  std::vector<ListQuery> queries;
  for (const ListQuery& filter : kFilters) {
    for (const std::string& sort : sorts) {
      for (const char* const archived : {"false", "all"}) {
        for (const char* const order : {"descending", "ascending"}) {
          ListQuery query = filter;
          query["sort"] = sort;
          query["archived"] = archived;
          query["order"] = order;
          query["limit"] = "20";
          queries.push_back(query);
        }
      }
    }
  }
  return queries;
}

TEST(ListCost, IsThatOfThePageInEachOrder) {
  tests::FilledStack few({400, 5, 10});
  tests::FilledStack many({4000, 5, 10});
  for (const ListQuery& query : with_orders({"created", "ended", "time_to_accuracy", "name"})) {
    // The oldest of an owner are the last of most orders: an index is walked to its end for them.
    if (query.at("sort") != "created" && query.count("owner") > 0 && query.count("tag") == 0) {
      continue;
    }
    const auto before = static_cast<double>(cost_of(few, query));
    const auto after = static_cast<double>(cost_of(many, query));
    EXPECT_GT(before, 0) << text_of(query);
    EXPECT_LE(after, 1.25 * before + 150) << text_of(query);
  }
}

// Also of lists too long to be looked up run by run: here 2,000 runs and more.
TEST(ListTotal, IsHowManyRowsAllPagesHave) {
  tests::FilledStack stack({4000, 5, 10});
  store::Database more(stack.database(), store::Database::Access::ReadWrite);
  more.execute(
      "INSERT INTO run_tags(tag, run) SELECT 'third', number FROM runs WHERE number % 3 = 0");
  for (ListQuery query : std::vector<ListQuery>{
           {{"tag", "nightly"}},
           {{"tag", "nightly,third"}},
           {{"tag", "third,nightly,first"}},
           {{"tag", "nightly"}, {"state", "failed"}},
           {{"tag", "nightly"}, {"node", "node01"}, {"owner", "uid 1003"}},
           {{"node", "node01"}, {"archived", "true"}},
           {{"node", "node01"}, {"text", "7f"}},
           {{"tag", "nightly"}, {"until", "2023-11-14T22:30:00Z"}, {"archived", "all"}}}) {
    query["total"] = "true";
    const std::int64_t total = stack.json("runs", query)["total"];
    query["limit"] = "1000";
    std::int64_t rows = 0;
    while (true) {
      const auto page = stack.json("runs", query);
      rows += static_cast<std::int64_t>(page["runs"].size());
      if (page["next"].is_null()) break;
      query["before"] = page["next"];
    }
    EXPECT_EQ(total, rows) << text_of(query);
    EXPECT_EQ(total > 0, query.count("archived") == 0 || query["archived"] == "all");
  }
}

// What no run fits is looked for in one index, and no row is read for it: some ten steps a run.
TEST(ListCost, OfAFilterThatNothingFitsIsAWalkOverAnIndex) {
  constexpr int kRuns = 4000;
  tests::FilledStack stack({kRuns, 5, 10});
  for (const char* const sort : {"created", "ended", "time_to_accuracy", "name"}) {
    for (ListQuery query :
         std::vector<ListQuery>{{{"owner", "nobody"}},
                                {{"tag", "none"}},
                                {{"node", "none"}},
                                {{"name", "zz"}},
                                {{"text", "zz"}},
                                {{"since", "2030-01-01T00:00:00Z"}},
                                {{"until", "2000-01-01T00:00:00Z"}},
                                {{"state", "stopped"}},
                                {{"state", "stopped,queued"}},
                                {{"state", "stopped,queued"}, {"archived", "all"}},
                                {{"owner", "token"}, {"state", "stopped"}},
                                {{"owner", "token"}, {"archived", "true"}}}) {
      query["sort"] = sort;
      query["total"] = "true";
      EXPECT_EQ(stack.json("runs", query)["total"], 0) << text_of(query);
      EXPECT_LE(cost_of(stack, query), 60 * kRuns) << text_of(query);
      for (const store::StatementFigures& each : stack.store().figures()) {
        // The few of a tag or a node are sorted, and so is a page that a search has found.
        if (each.sql.find("number IN (") != std::string::npos) continue;
        EXPECT_EQ(each.sorts, 0) << each.sql;
      }
    }
  }
}

// Tables that a statement reads, or an index of theirs, as SQLite's own program for it says.
std::set<std::string> tables_of_statement(store::Database& database, const std::string& sql) {
  std::map<std::int64_t, std::string> roots;
  store::Statement schema =
      database.prepare("SELECT rootpage, tbl_name FROM sqlite_schema WHERE rootpage > 0");
  while (schema.step()) roots[schema.integer(0)] = schema.text(1);
  std::set<std::string> tables;
  store::Statement program = database.prepare("EXPLAIN " + sql);
  while (program.step()) {
    const std::string operation = program.text(1);
    if (operation != "OpenRead" && operation != "ReopenIdx") continue;
    const auto found = roots.find(program.integer(3));
    if (found != roots.end()) tables.insert(found->second);
  }
  return tables;
}

std::set<std::string> tables_read_by(tests::FilledStack& stack, const std::string& path,
                                     const ListQuery& query) {
  const auto before = steps_of(stack.store());
  (void)stack.json(path, query);
  store::Database plans(stack.database(), store::Database::Access::ReadOnly);
  std::set<std::string> tables;
  for (const auto& [sql, steps] : steps_of(stack.store())) {
    const auto found = before.find(sql);
    if (found != before.end() && found->second == steps) continue;
    if (sql.rfind("SELECT", 0) != 0 && sql.rfind("WITH", 0) != 0) continue;
    for (const std::string& table : tables_of_statement(plans, sql)) tables.insert(table);
  }
  return tables;
}

// The newest values of a run are in its row: neither single steps nor what they were rolled up to
// is looked at for a list.
TEST(ListCost, NoListLooksAtASeries) {
  tests::FilledStack stack({60, 5, 10});
  const std::vector<std::string> series = {"steps",    "step_blocks", "evaluations",
                                           "warnings", "checkpoints", "timelines"};
  for (ListQuery query : with_orders({"created", "ended", "time_to_accuracy", "name"})) {
    query["total"] = "true";
    const auto tables = tables_read_by(stack, "runs", query);
    EXPECT_EQ(tables.count("runs"), 1U) << text_of(query);
    for (const std::string& table : series) {
      EXPECT_EQ(tables.count(table), 0U) << table << " is read by " << text_of(query);
    }
  }
  const std::string id = stack.store().run(runs::RunNumber{1})->id;
  EXPECT_EQ(tables_read_by(stack, "runs/" + id + "/metrics", {}).count("steps"), 1U)
      << "it is found where it is read";
}

}  // namespace
}  // namespace regatta::orchestrator
