// What is in the store's file, column by column, after records with another value in every member
// were written: as the version before wrote them (golden/rows.json).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/distinct_records.h"
#include "tests/orchestrator/store/store_rows.h"
#include "tests/orchestrator/support.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator {
namespace {

using Json = nlohmann::json;
using tests::distinct;

// Every column of the table, whatever the store's code knows of it.
Json rows_of(const base::Path& file, const std::string& table) {
  store::Database database(file, store::Database::Access::ReadOnly);
  std::vector<std::string> names, quoted;
  store::Statement columns = database.prepare("SELECT name FROM pragma_table_info(?1)");
  columns.bind(table);
  while (columns.step()) {
    names.push_back(columns.text(0));
    quoted.push_back("json_quote(" + names.back() + ")");
  }
  Json list = Json::array();
  store::Statement rows =
      database.prepare("SELECT " + base::join(quoted, ", ") + " FROM " + table + " ORDER BY 1, 2");
  while (rows.step()) {
    Json row;
    for (std::size_t i = 0; i < names.size(); ++i) {
      row[names[i]] = Json::parse(rows.text(static_cast<int>(i)));
    }
    list.push_back(row);
  }
  return list;
}

// Each field has its number for a value.
trainer::contract::StepRecord distinct_step() {
  trainer::contract::StepRecord r;
  r.step = 1;
  r.loss = 2;
  r.mlm_loss = 3;
  r.samples = 4;
  r.tokens = 5;
  r.seconds = 6;
  r.data_seconds = 7;
  r.forward_seconds = 8;
  r.backward_seconds = 9;
  r.reduce_seconds = 10;
  r.optimizer_seconds = 11;
  r.exposed_seconds = 12;
  r.bucket_launched = {13, 14};
  r.bucket_finished = {15, 16};
  r.imbalance = 17;
  r.moved_bytes = 18;
  r.noise_scale = 19;
  r.efficiency = 20;
  r.goodput = 21;
  r.noise_scale_low = 22;
  r.noise_scale_high = 23;
  r.mfu = 24;
  r.utilisation = 25;
  r.learning_rate = 26;
  r.bubble = 27;
  r.bubble_predicted = 28;
  return r;
}
std::vector<trainer::contract::JournalRecord> distinct_journal(const std::string& metric) {
  trainer::contract::StartRecord start;
  start.bucket_bytes = {4096, 1024};
  trainer::contract::EvalRecord evaluation;
  evaluation.step = 31;
  evaluation.mlm_accuracy = 32;
  evaluation.mlm_loss = 33;
  evaluation.target_met = true;
  evaluation.metrics = {{metric, 34}};
  trainer::contract::CheckpointRecord checkpoint;
  checkpoint.step = 41;
  checkpoint.name = "step-41";
  checkpoint.status = "failed";
  checkpoint.bytes = 42;
  checkpoint.seconds = 43;
  checkpoint.stall_seconds = 44;
  checkpoint.copy_seconds = 45;
  checkpoint.write_seconds = 46;
  checkpoint.sync_seconds = 47;
  checkpoint.message = "no space";
  trainer::contract::WarningRecord warning;
  warning.message = "hot";
  const trainer::contract::RanksRecord ranks = {51, {52, 53}, {54, 55}};
  std::vector<trainer::contract::JournalRecord> records(6);
  records[0].body = start;
  records[1].body = distinct_step();
  records[2].body = evaluation;
  records[3].body = checkpoint;
  records[4].body = warning;
  records[5].body = ranks;
  for (std::size_t i = 0; i < records.size(); ++i) {
    records[i].sequence = static_cast<std::int64_t>(i) + 100;
    records[i].seconds = static_cast<double>(i) + 0.125;
    records[i].utc_seconds = static_cast<double>(i) + 1.7e9;
  }
  return records;
}

void write_everything(const base::Path& directory) {
  store::Store store(directory);
  for (int kind = 0; kind < tests::kDistinctKinds; ++kind) {
    const auto known = distinct<runs::Run>(kind);
    const std::string id = "run-" + std::to_string(kind);
    store::NewRun fresh = new_run(id, known.created_utc);
    fresh.name = known.name;
    fresh.directory = "/" + id;
    fresh.wanted = known.wanted;
    fresh.scheduler = known.scheduler;
    fresh.after = known.after;
    fresh.archived = known.archived;
    fresh.idempotency_key = "key-" + id;
    fresh.body_digest = "digest";
    const trainer::contract::RunConfig config = trainer::contract::parse_run_config(
        "{name: demo, steps: 7, data: {path: /d}, target: {times_baseline: 2.5}}", "run.yaml");
    store::take_config(config, &fresh);
    runs::Run run = known;
    run.number = store.add_run(fresh, {distinct<runs::Launch>(kind)});
    store.update_run(run);
    store.put_launch(run.number, runs::Launch{});
    auto attempt = distinct<runs::Attempt>(kind);
    if (kind == 3) attempt.slowest.reset();
    attempt.row = store.add_attempt(run.number, 5, "0123456789abcdef");
    store.append(run, attempt, distinct_journal(run.summary.metric));
    store.judge(attempt.row, {distinct<slurm::NodeEvent>(kind)});
    store.put_node_news({{}, {distinct<slurm::NodeStanding>(kind)}, {}}, 1);
    store.put_webhook(distinct<store::WebhookPlace>(kind));
    store.add_node_bench(distinct<runs::NodeBench>(kind));
  }
  (void)store.add_run(new_run("fresh"));
}

TEST(StoredRows, AreTheSameAsBefore) {
  const tests::TemporaryDirectory folder;
  write_everything(folder.path());
  Json rows;
  for (const char* table :
       {"runs", "launches", "attempts", "steps", "evaluations", "checkpoints", "warnings",
        "timelines", "rank_shares", "node_events", "node_standings", "webhooks", "node_benches"}) {
    rows[table] = rows_of(folder.path() / "store.sqlite", table);
  }
  // What is not known of the slowest rank is told by its first column alone.
  for (Json& attempt : rows["attempts"]) {
    if (!attempt["slowest_rank"].is_null()) continue;
    for (const char* rest : {"step", "phase", "seconds", "utc"}) {
      attempt.erase(std::string("slowest_") + rest);
    }
  }
  const std::string path = REGATTA_SOURCE_DIR "/tests/orchestrator/store/golden/rows.json";
  if (std::getenv("REGATTA_WRITE_GOLDEN") != nullptr) std::ofstream(path) << rows.dump(1) << "\n";
  std::ifstream file(path);
  EXPECT_EQ(rows, Json::parse(file, nullptr, false)) << path;
}

}  // namespace
}  // namespace regatta::orchestrator
