#include "tests/orchestrator/store/filled_store.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "orchestrator/store/step_blocks.h"
#include "orchestrator/store/store.h"
#include "trainer/contract/run_config.h"

namespace regatta::tests {
namespace {

std::string numbers(const std::string& name, std::int64_t count) {
  return "WITH RECURSIVE " + name + "(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM " + name +
         " WHERE i < " + std::to_string(count) + ") ";
}

}  // namespace

void fill_store(const base::Path& directory, const FilledStore& what) {
  { const orchestrator::store::Store made(directory); }
  orchestrator::store::Database store(directory / "store.sqlite",
                                      orchestrator::store::Database::Access::ReadWrite);
  const std::string config = trainer::contract::to_json(trainer::contract::parse_run_config(
      "{name: demo, steps: 100, data: {path: /nowhere}}", "run.yaml"));
  orchestrator::store::Transaction transaction(store);
  const std::string count = std::to_string(what.runs);
  const std::string open = "i > " + std::to_string(what.runs - what.open);
  store
      .prepare(numbers("n", what.runs) +
               "INSERT INTO runs(number, id, name, config, directory, created_utc, wanted, "
               "body_digest, state, drained, settled, steps, step, samples, value, target, "
               "started_utc, ended_utc, training_seconds, samples_per_second, loss, phase, owner, "
               "tags) "
               // A bijection of 24 bits: ids in another order than times.
               "SELECT i, printf('run%02d-%06x', i % 50, (i * 10368889) & 16777215), "
               "printf('run%02d', i % 50), ?1, '/runs/' || i, 1.7e9 + i / 3, 0, 'd', "
               "CASE WHEN " +
               open +
               " THEN 'running' WHEN i % 3 = 0 THEN 'failed' WHEN i % 3 = 1 THEN 'cancelled' "
               "ELSE 'succeeded' END, NOT (" +
               open + "), 1, 100, 10, 80, 0.25, 0.5, 1.7e9 + i, CASE WHEN " + open +
               " THEN NULL ELSE 1.7e9 + i + 60 END, 42.5, 341.0, 6.125, 'training', "
               "CASE WHEN i <= 20 THEN 'uid 1999' WHEN i % 2 THEN 'token' ELSE 'uid ' || (1000 + i "
               "% 7) END, CASE WHEN i <= 20 THEN 'first/' ELSE '' END || CASE WHEN i % 2 THEN '' "
               "ELSE 'nightly/' END FROM n")
      .bind(config)
      .run();
  store.execute(numbers("n", 2 * what.runs) +
                "INSERT INTO launches(run, number, token, handle, attempts_before, started_utc, "
                "over, exit_code) SELECT (i + 1) / 2, 2 - i % 2, 'token' || i, 'h' || i, 1 - i % "
                "2, 1.7e9, (i + 1) / 2 <= " +
                count + " - " + std::to_string(what.open) + " OR i % 2, 22 FROM n");
  store.execute(numbers("n", 2 * what.runs) +
                "INSERT INTO attempts(row, run, number, execution, started, start_utc, "
                "first_step_begin, last_seconds, process, host, ranks, device) SELECT i, (i + 1) / "
                "2, 2 - i % 2, printf('%016x', i), 1, 1.7e9, 1, 60, 1234, 'node01', 4, 'cpu' FROM "
                "n");
  store.execute(
      "INSERT INTO run_tags(tag, run) SELECT 'first', number FROM runs WHERE number <= 20 "
      "UNION ALL SELECT 'nightly', number FROM runs WHERE number % 2 = 0");
  store.execute(
      "INSERT INTO run_nodes(node, run) SELECT 'node01', number FROM runs UNION ALL "
      "SELECT 'node99', number FROM runs WHERE number <= 20");
  const std::string attempt = "2 * run - (step <= 2)";
  const auto add_steps = [&](const std::string& source) {
    store.execute(source +
                  "INSERT INTO steps(run, attempt, sequence, step, seconds, loss, mlm_loss, "
                  "samples, tokens, step_seconds, place) SELECT run, " +
                  attempt + ", step, step, step, 6, 5, 8, 800, 0.5, step FROM rows");
  };
  add_steps(numbers("n", 5 * (what.runs - 1)) +
            ", rows AS (SELECT 2 + (i - 1) / 5 AS run, 1 + (i - 1) % 5 AS step FROM n) ");
  add_steps(numbers("n", what.long_run_steps) + ", rows AS (SELECT 1 AS run, i AS step FROM n) ");
  store.execute(
      numbers("n", 2 * what.runs) +
      "INSERT INTO evaluations(run, attempt, sequence, step, seconds, mlm_accuracy, "
      "mlm_loss, target_met, value) SELECT (i + 1) / 2, i, 99, 5, 5, 0.25, 5, 0, 0.25 FROM n");
  store.execute(numbers("n", what.runs) +
                "INSERT INTO checkpoints(run, attempt, sequence, step, seconds, name, status, "
                "bytes, whole_seconds, utc) SELECT i, 2 * i, 100, 5, 5, 'step-5', 'failed', 10, 1, "
                "1.7e9 FROM n");
  store.execute(numbers("n", what.runs) +
                "INSERT INTO warnings(run, attempt, sequence, utc, message) "
                "SELECT i, 2 * i, 101, 1.7e9, 'hot' FROM n");
  store.execute(
      "INSERT INTO node_events(node, utc, blame, weight, run, words) "
      "VALUES('node01', 1.7e9, 'shared', 1, 'run', 'w')");
  orchestrator::store::make_blocks(store);
  store.execute("INSERT INTO node_standings VALUES('node01', 1, 0, 0, 1, 'fan', 1.7e9, 1.7e9, 1)");
  store.execute("INSERT INTO webhooks VALUES('pager', 'digest', 0, 0, 0, 0, 0, 0, 0, '')");
  store.execute(
      numbers("n", 1000) +
      "INSERT INTO node_benches(node, id, utc, added_utc, machine_kind, workload, bench) "
      "SELECT printf('node%03d', i / 8), printf('%012x', i), i, i, 'kind', 1, '{}' FROM n");
  if (!what.runs_directory.empty()) {
    const base::Path newest = what.runs_directory / count;
    std::filesystem::create_directories(newest);
    std::ofstream(newest / "run.json") << "{}";
    store.prepare("UPDATE runs SET directory = ?1 WHERE number = ?2")
        .bind(newest.string(), what.runs)
        .run();
  }
  transaction.commit();
}

}  // namespace regatta::tests
