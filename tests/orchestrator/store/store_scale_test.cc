// What requests cost with many runs, in what SQLite counts: no figure here is a time.
#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "orchestrator/store/roll_ups.h"
#include "tests/orchestrator/store/filled_stack.h"

namespace regatta::orchestrator {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using Stack = tests::FilledStack;
using Json = nlohmann::ordered_json;

// What ticks and followers ask and write.
void use_as_the_controller(store::Store& store, const orchestrator::runs::Run& run) {
  EXPECT_EQ(store.unfinished_runs().size(), 6U);
  EXPECT_TRUE(store.unsettled_runs(10).empty());
  EXPECT_FALSE(store.submitted_with("key"));
  runs::Launch launch;
  launch.number = 1;
  store.put_launch(run.number, launch);
  runs::Attempt attempt;
  attempt.row = store.add_attempt(run.number, 1, "0123456789abcdef");
  std::vector<trainer::contract::JournalRecord> records(4);
  records[0].body = trainer::contract::StepRecord{};
  records[1].body = trainer::contract::EvalRecord{};
  records[2].body = trainer::contract::CheckpointRecord{};
  records[3].body = trainer::contract::WarningRecord{};
  store.append(run, attempt, records);
  store.judge(attempt.row, {});
  store.update_run(run);
  EXPECT_EQ(store.newest_steps(run.number, 20).size(), 1U);
}

// Every route that reads the store, a submission and a cancellation; what the statements cost.
std::map<std::string, store::StatementFigures> cost_of_requests(Stack& stack) {
  const Json first = stack.json("runs");
  const std::string id = first["runs"].back()["id"];
  (void)stack.json("runs", {{"before", first["next"].is_string() ? first["next"] : Json("")}});
  (void)stack.json("runs", {{"state", "failed"}, {"limit", "20"}});
  for (const char* const archived : {"true", "all"}) {
    (void)stack.json("runs", {{"archived", archived}});
    (void)stack.json("runs", {{"archived", archived}, {"state", "failed"}, {"limit", "20"}});
  }
  for (const char* const view : {"", "/metrics", "/explain", "/checkpoints"}) {
    const api::Response response = stack.get("runs/" + id + view);
    EXPECT_EQ(response.status, 200) << view << response.body;
  }
  const std::string newest = first["runs"].front()["id"];  // which has a directory
  EXPECT_EQ(stack.get("runs/" + newest + "/logs").status, 200);
  EXPECT_EQ(stack.get("runs/" + id + "/plan").status, 404);
  EXPECT_EQ(stack.get("runs/run07-nobody").status, 404);
  EXPECT_EQ(stack.get("runs/run07").status, 404) << "several have the name";
  EXPECT_EQ(stack.get("nodes").status, 200);
  (void)stack.json("references", {{"after", "a"}, {"limit", "20"}});
  EXPECT_EQ(stack.get("references/nobody").status, 404);
  EXPECT_EQ(stack.send("DELETE", "references/nobody").status, 404);
  const api::Response created = stack.send("POST", "runs", {}, tests::run_file());
  EXPECT_EQ(created.status, 201) << created.body;
  const std::string fresh = Json::parse(created.body)["id"];
  EXPECT_EQ(stack.send("POST", "runs/" + fresh + "/cancel").status, 202);
  use_as_the_controller(stack.store(), *stack.store().run(fresh));
  std::map<std::string, store::StatementFigures> sums;
  for (const store::StatementFigures& each : stack.store().figures()) {
    store::StatementFigures& sum = sums[each.sql];
    sum.scanned += each.scanned;
    sum.sorts += each.sorts;
    sum.steps += each.steps;
  }
  return sums;
}

// All of these rows are the answer, by an index that has no others: runs that are open or not
// settled, events of nodes, benches of nodes (at most so many of each). And once in ten thousand
// events, the newest million of them.
bool answers_with_all(const std::string& sql) {
  return sql.find("INDEXED BY runs_open") != std::string::npos ||
         sql.find("INDEXED BY runs_unsettled") != std::string::npos ||
         sql.find("FROM node_events ORDER BY utc") != std::string::npos ||
         sql.find("FROM node_benches GROUP BY node") != std::string::npos ||
         sql.find("DELETE FROM events WHERE number <=") == 0;
}

TEST(StoreScale, NoRequestScansOrSorts) {
  Stack stack({300, 5, 10});
  const auto cost = cost_of_requests(stack);
  EXPECT_GT(cost.size(), 25U);
  store::Database plans(stack.database(), store::Database::Access::ReadOnly);
  for (const auto& [sql, figures] : cost) {
    EXPECT_EQ(figures.sorts, 0) << sql;
    if (answers_with_all(sql)) continue;
    EXPECT_EQ(figures.scanned, 0) << sql;
    if (!std::regex_search(sql, std::regex("^(SELECT|INSERT|UPDATE|DELETE)"))) continue;
    store::Statement plan = plans.prepare("EXPLAIN QUERY PLAN " + sql);
    while (plan.step()) {
      const std::string step = plan.text(3);
      EXPECT_THAT(step, Not(HasSubstr("TEMP B-TREE"))) << sql;
      if (step.find("SCAN page VIRTUAL TABLE") != std::string::npos) continue;
      EXPECT_THAT(step, Not(ContainsRegex("^SCAN [a-z_]+$"))) << sql;
    }
  }
}

TEST(StoreScale, NoRequestCostsMoreWithMoreRuns) {
  Stack few({200, 5, 10});
  Stack many({4000, 5, 10});
  const auto before = cost_of_requests(few);
  const auto after = cost_of_requests(many);
  EXPECT_GT(after.size(), 25U);
  for (const auto& [sql, figures] : after) {
    ASSERT_TRUE(before.count(sql) == 1) << sql;
    // Some neighbours of a word are there only when there are many runs.
    const double most = 1.25 * static_cast<double>(before.at(sql).steps) + 150;
    EXPECT_LE(static_cast<double>(figures.steps), most) << sql;
  }
}

TEST(StoreScale, ALongSeriesThatIsRolledUpIsReadInBlocksThatDrawIt) {
  Stack stack({2, 1, 660'000});  // a step a second: 11,000 minutes
  while (stack.store().roll_up(runs::RunNumber{1}, {0, 1e6, 1e6}, 1e10)) {
  }
  ASSERT_EQ(stack.store().step_resolution(runs::RunNumber{1}), 10);
  const std::string id = stack.store().run(runs::RunNumber{1})->id;
  const std::size_t points = stack.json("runs/" + id + "/metrics")["steps"].size();
  EXPECT_GE(points, 1000U);
  EXPECT_LE(points, 2000U);
  EXPECT_LE(stack.store().snapshot().steps(runs::RunNumber{1}, 0, 2000).size(), 1300U)
      << "1,100 blocks of 10 min, not 11,000 of 1 min";
}

TEST(StoreScale, ALongSeriesCostsWhatIsSent) {
  Stack few({2, 1, 3000});
  Stack many({2, 1, 60000});
  const auto steps = [](Stack& stack) {
    const Json metrics =
        stack.json("runs/" + stack.store().run(runs::RunNumber{1})->id + "/metrics");
    EXPECT_GT(metrics["steps"].size(), 1000U);
    EXPECT_LE(metrics["steps"].size(), 2000U);
    std::int64_t sum = 0;
    for (const store::StatementFigures& each : stack.store().figures()) sum += each.steps;
    return static_cast<double>(sum);
  };
  const double before = steps(few);
  EXPECT_LE(steps(many), 1.4 * before) << "2000 rows instead of 1500";
}

// Nobody else writes meanwhile.
TEST(StoreScale, APieceOfARollUpCostsWhatItRemoves) {
  const auto steps_of_a_piece = [](int long_run_steps) {
    Stack stack({2, 1, long_run_steps});
    const auto steps = [&stack] {
      std::int64_t sum = 0;
      for (const store::StatementFigures& each : stack.store().figures()) sum += each.steps;
      return static_cast<double>(sum);
    };
    const double before = steps();
    int pieces = 0;
    while (stack.store().roll_up(runs::RunNumber{1}, {}, 1e10)) ++pieces;
    EXPECT_GE(pieces, long_run_steps * 11 / 10 / 2000) << "rows, and blocks of 10 s";
    EXPECT_EQ(stack.store().step_resolution(runs::RunNumber{1}), 60);
    return (steps() - before) / pieces;
  };
  EXPECT_LE(steps_of_a_piece(240'000), 1.3 * steps_of_a_piece(80'000));
}

TEST(StoreScale, OthersWriteWhileALongRunIsRemoved) {
  Stack stack({2, 0, 100'000});
  const runs::Run run = *stack.store().run(runs::RunNumber{1});
  std::atomic<bool> done = false;
  std::thread removal([&] {
    stack.store().remove_run(run);
    done = true;
  });
  std::set<std::int64_t> firsts;  // steps that were the first one left when a write was done
  while (!done) {
    stack.store().note({0, 1, "plan.tried", "", "", "", {}, {}, {}, "", ""});
    const auto left = stack.store().steps_after(run.number, 0, 1);
    if (!left.empty()) firsts.insert(left.front().step);
  }
  removal.join();
  EXPECT_GE(firsts.size(), 15U) << "of 50 pieces";
  EXPECT_FALSE(stack.store().run(runs::RunNumber{1}));
  EXPECT_TRUE(stack.store().steps_after(runs::RunNumber{1}, 0, 10).empty());
  EXPECT_EQ(stack.store().steps_after(runs::RunNumber{2}, 0, 10).size(), 5U);
}

TEST(StoreScale, AListIsReadInAFixedNumberOfStatements) {
  Stack stack({300, 5, 10});
  const auto statements = [&](const std::string& limit) {
    (void)stack.json("runs", {{"limit", limit}});
    return stack.store().figures().size();
  };
  EXPECT_EQ(statements("1"), statements("300"));
}

TEST(StoreScale, RowsAreTheRunWithoutItsConfigurationAndWarnings) {
  Stack stack({300, 5, 10});
  const Json rows = stack.json("runs", {{"limit", "300"}, {"full", "true"}})["runs"];
  ASSERT_EQ(rows.size(), 300U);
  for (const std::size_t i : {0, 4, 5, 6, 7, 299}) {
    Json run = stack.json("runs/" + rows[i]["id"].get<std::string>());
    EXPECT_GE(run["warnings"].size(), 2U);
    EXPECT_EQ(run["config"]["data"]["path"], "/nowhere");
    run.erase("warnings");
    for (const char* of_config : {"config", "task", "from"}) run.erase(of_config);
    run.erase("slurm");
    EXPECT_EQ(run, rows[i]);
  }
}

TEST(StoreScale, PagesHoldEveryRunOnce) {
  Stack stack({100, 5, 10});  // of which three each were created at one time
  std::vector<std::string> seen;
  std::map<std::string, std::string> query{{"limit", "7"}};
  for (int page = 0; page < 20; ++page) {
    if (page == 3) {  // what comes meanwhile is before the first page
      store::NewRun fresh;
      fresh.id = fresh.name = fresh.directory = "fresh";
      fresh.created_utc = 2e9;
      stack.store().add_run(fresh);
    }
    const Json answer = stack.json("runs", query);
    for (const Json& run : answer["runs"]) seen.push_back(run["id"]);
    if (answer["next"].is_null()) break;
    EXPECT_EQ(answer["runs"].size(), 7U);
    query["before"] = answer["next"];
  }
  std::vector<std::string> all;
  for (std::int64_t number = 100; number >= 1; --number) {
    all.push_back(stack.store().run(runs::RunNumber{number})->id);
  }
  EXPECT_EQ(seen, all);
  const Json failed = stack.json("runs", {{"limit", "20"}, {"state", "failed"}});
  const Json rest = stack.json("runs", {{"state", "failed"}, {"before", failed["next"]}});
  EXPECT_EQ(failed["runs"].size() + rest["runs"].size(), 31U) << "every third of 95 that are over";
  EXPECT_TRUE(rest["next"].is_null());
}

TEST(StoreScale, RefusesPlacesThatItDidNotMake) {
  Stack stack({10, 5, 10});
  const std::string place = stack.json("runs", {{"limit", "3"}})["next"];
  EXPECT_EQ(stack.get("runs", {{"before", place}}).status, 200);
  for (const std::string& text :
       {std::string(), std::string("1"), place.substr(1), "-" + place, place + "-",
        "7ff0000000000000-1" + std::string(), std::string(200, 'f'),
        "7ff8000000000000-1" + std::string(), place.substr(0, 17), std::string("\x1b]0;x")}) {
    const api::Response response = stack.get("runs", {{"before", text}});
    EXPECT_EQ(response.status, 400) << text;
    EXPECT_THAT(response.body, HasSubstr("before is"));
  }
}

TEST(StoreScale, SuggestsAmongManyRuns) {
  Stack stack({4000, 5, 10});
  const auto message = [&](const std::string& name) { return stack.get("runs/" + name).body; };
  const std::string old = stack.store().run(runs::RunNumber{7})->id;
  std::string typed = old;
  typed.back() = 'x';
  EXPECT_THAT(message(typed), HasSubstr("did you mean '" + old.substr(0, 6)));
  EXPECT_THAT(message("run7"), HasSubstr("did you mean 'run"));
  EXPECT_THAT(message("rum07"), HasSubstr("did you mean 'run07'"));
  EXPECT_THAT(message("zzzzzzzzzzzz"), HasSubstr("'regatta ls' lists the runs"));
  EXPECT_THAT(message(""), HasSubstr("no run ''"));
}

struct Query {
  const char* method;
  const char* path;
  std::map<std::string, std::string> query;
  int status;
  const char* message;
};

TEST(Routes, TakeTheQueryParametersTheyKnow) {
  Stack stack({10, 5, 10});
  const std::string id = stack.store().run(runs::RunNumber{10})->id;
  const auto runs = stack.json("runs")["runs"].size();
  for (const Query& each : std::vector<Query>{
           {"GET",
            "runs",
            {{"status", "failed"}},
            400,
            "unknown query parameter 'status'; use "
            "state, archived, name, text, "},
           {"GET", "runs", {{"state", "failed"}, {"limit", "3"}}, 200, ""},
           {"GET", "runs", {{"", ""}}, 400, "unknown query parameter ''"},
           {"POST", "runs", {{"dry", "true"}}, 400, "use after, tags, dry_run"},
           {"GET", "version", {{"verbose", "1"}}, 400, "this address takes none"},
           {"GET", "webhooks", {{"state", "dead"}}, 400, "this address takes none"},
           {"GET", "runs/ID", {{"fields", "id"}}, 400, "use secrets"},
           {"DELETE", "runs/ID", {{"force", "1"}}, 400, "use dry_run, pinned_too"},
           {"POST", "runs/ID/archive", {{"keep", "1"}}, 400, "use dry_run"},
           {"POST", "runs/ID/cancel", {{"force", "1"}}, 400, "this address takes none"},
           {"GET", "runs/ID/metrics", {{"cursor", "1"}}, 400, "use since"},
           {"GET", "runs/ID/metrics", {{"since", "1"}}, 200, ""},
           {"GET",
            "runs/ID/logs",
            {{"since", "1"}},
            400,
            "use file, attempt, rank, offset, limit, tail"},
           {"GET", "runs/ID/logs", {{"offset", "1"}}, 200, ""},
           {"GET", "runs/ID/explain", {{"x", "1"}}, 400, "this address takes none"},
           {"GET", "runs/ID/plan", {{"x", "1"}}, 400, "this address takes none"},
           {"GET", "runs/ID/checkpoints", {{"x", "1"}}, 400, "this address takes none"},
           {"GET", "runs/ID/checkpoints/7", {{"x", "1"}}, 400, "this address takes none"},
           {"POST", "runs/ID/checkpoints/gc", {{"dryrun", "1"}}, 400, "use dry_run"},
           {"POST", "runs/ID/checkpoints/7/verify", {{"x", "1"}}, 400, "this address takes none"},
           {"POST", "runs/ID/checkpoints/7/pin", {{"x", "1"}}, 400, "this address takes none"},
           {"POST", "runs/ID/checkpoints/7/unpin", {{"x", "1"}}, 400, "this address takes none"},
           {"POST", "runs/ID/checkpoints/7/export", {{"x", "1"}}, 400, "this address takes none"},
           {"GET", "runs/ID/checkpoints/7/export", {{"x", "1"}}, 400, "this address takes none"},
           {"GET", "runs", {{"\x1b[31m", "1"}}, 400, "\\\\x1b"},
           // The address and the method come first.
           {"GET", "nothing", {{"x", "1"}}, 404, "no such address"},
           {"DELETE", "runs", {{"x", "1"}}, 405, "use GET, HEAD, POST"},
       }) {
    std::string path = each.path;
    if (const auto at = path.find("ID"); at != std::string::npos) path.replace(at, 2, id);
    const bool has_body = std::string(each.method) == "POST" && path == "runs";
    const api::Response response =
        stack.send(each.method, path, each.query, has_body ? tests::run_file() : "");
    EXPECT_EQ(response.status, each.status) << each.method << " " << path << response.body;
    EXPECT_THAT(response.body, HasSubstr(each.message)) << each.method << " " << path;
  }
  EXPECT_EQ(stack.json("runs")["runs"].size(), runs) << "nothing was submitted";
  EXPECT_EQ(stack.store().run(id)->wanted, runs::Wanted::Run) << "nor cancelled";
}

TEST(Routes, AnotherMethodHasACodeOfItsOwn) {
  Stack stack({10, 5, 10});
  for (const auto& [method, path] :
       std::vector<std::pair<std::string, std::string>>{{"POST", "version"},
                                                        {"DELETE", "runs"},
                                                        {"GET", "runs/x/cancel"},
                                                        {"PUT", "runs/x/checkpoints/7/pin"},
                                                        {"GET", "runs/x/checkpoints/gc"}}) {
    const api::Response response = stack.send(method, path);
    EXPECT_EQ(response.status, 405) << path;
    EXPECT_EQ(Json::parse(response.body)["code"], "method_not_allowed") << path;
    EXPECT_EQ(response.headers.count("Allow"), 1U) << path;
  }
}

}  // namespace
}  // namespace regatta::orchestrator
