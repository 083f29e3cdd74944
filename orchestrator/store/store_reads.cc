#include "orchestrator/store/store_reads.h"

#include <limits>
#include <utility>

#include "orchestrator/runs/record_fields.h"
#include "orchestrator/store/row_fields.h"
#include "orchestrator/store/rows.h"
#include "orchestrator/store/run_columns.h"

namespace regatta::orchestrator::store {
namespace {

const std::string kRunColumns =
    "SELECT " + selection(columns_of<runs::Run>(), "runs") + " FROM runs ";
const std::string kNodeEvents = "SELECT " +
                                selection(columns_of<slurm::NodeEvent>(), "node_events") +
                                " FROM node_events ORDER BY utc, row";

// Of ids and of names each, on either side of a word in their order, and of the newest runs.
constexpr int kNeighbours = 16;
constexpr int kNewestToSuggest = 100;

}  // namespace

Snapshot::Snapshot(ReaderPool& pool, const base::Path& runs) : held_(pool.take()) {
  runs_ = runs;
  pool_ = &pool;
  pinned_ = &*held_;
  pinned_->prepare("BEGIN").run();
}
Snapshot::~Snapshot() {
  try {
    pinned_->prepare("ROLLBACK").run();
  } catch (const base::Error&) {  // a read error has ended it already
  }
}

runs::Run StoreReads::read_run(const Statement& row) const {
  runs::Run run = read_row<runs::Run>(row);
  run.directory = (runs_ / run.directory).string();
  return run;
}
std::vector<runs::Run> StoreReads::read_runs(Statement& statement) const {
  return all<runs::Run>(statement, [this](const Statement& row) { return read_run(row); });
}

std::optional<runs::Run> StoreReads::run(const std::string& id) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(kRunColumns + "WHERE id = ?1");
  ask.bind(id);
  if (!ask.step()) return std::nullopt;
  return read_run(ask);
}

std::optional<runs::Run> StoreReads::run(runs::RunNumber number) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(kRunColumns + "WHERE number = ?1");
  ask.bind(runs::row_of(number));
  if (!ask.step()) return std::nullopt;
  return read_run(ask);
}

std::vector<runs::Run> StoreReads::runs_named(const std::string& name) {
  const ReaderPool::Lease reader = lease();
  Statement ask =
      reader->prepare(kRunColumns + "WHERE name = ?1 ORDER BY created_utc DESC LIMIT 3");
  ask.bind(name);
  return read_runs(ask);
}

std::vector<std::string> StoreReads::ids_and_names_near(const std::string& name) {
  const ReaderPool::Lease reader = lease();
  std::vector<std::string> near;
  const auto add = [&](const std::string& sql, const std::string& word, int limit) {
    Statement ask = reader->prepare(sql);
    ask.bind(limit, word);
    while (ask.step()) {
      if (!ask.is_null(0)) near.push_back(ask.text(0));
    }
  };
  add("SELECT id FROM runs WHERE id < ?2 ORDER BY id DESC LIMIT ?1", name, kNeighbours);
  add("SELECT id FROM runs WHERE id >= ?2 ORDER BY id LIMIT ?1", name, kNeighbours);
  // Many runs may have one name: each is one step.
  for (const char* const sql : {"SELECT max(name) FROM runs WHERE name < ?2 LIMIT ?1",
                                "SELECT min(name) FROM runs WHERE name > ?2 LIMIT ?1"}) {
    std::string word = name;
    for (int i = 0; i < kNeighbours; ++i) {
      const std::size_t before = near.size();
      add(sql, word, 1);
      if (near.size() == before) break;
      word = near.back();
    }
  }
  Statement ask = reader->prepare(
      "SELECT id, name FROM runs WHERE created_utc <= ?2 ORDER BY created_utc DESC LIMIT ?1");
  ask.bind(kNewestToSuggest, std::numeric_limits<double>::infinity());
  while (ask.step()) {
    near.push_back(ask.text(0));
    near.push_back(ask.text(1));
  }
  return near;
}

std::vector<std::string> StoreReads::ids_with_prefix(const std::string& prefix, int limit) {
  const ReaderPool::Lease reader = lease();
  Statement ask =
      reader->prepare("SELECT id FROM runs WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3");
  const std::string beyond = prefix + "\xff";  // no byte of UTF-8 is as large
  ask.bind(prefix, beyond, limit);
  return all<std::string>(ask, [](const Statement& row) { return row.text(0); });
}

std::vector<runs::Run> StoreReads::unfinished_runs() {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(
      kRunColumns + "INDEXED BY runs_open WHERE drained = 0 ORDER BY created_utc, number");
  return read_runs(ask);
}

std::vector<runs::Run> StoreReads::runs_alike(const std::string& kind, double before_utc,
                                              int limit) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(
      kRunColumns +
      "INDEXED BY runs_by_kind WHERE state = 'succeeded' AND time_to_accuracy IS NOT NULL "
      "AND kind = ?1 AND ended_utc < ?2 AND forked_from = '' ORDER BY ended_utc DESC LIMIT ?3");
  ask.bind(kind, before_utc, limit);
  return read_runs(ask);
}

std::vector<runs::Run> StoreReads::unsettled_runs(int limit) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(
      kRunColumns +
      "INDEXED BY runs_unsettled "
      "WHERE settled = 0 AND state IN ('succeeded', 'stopped', 'failed', 'cancelled') "
      "ORDER BY created_utc, number LIMIT ?1");
  ask.bind(limit);
  return read_runs(ask);
}

std::vector<runs::Run> StoreReads::begun_with(const std::string& run,
                                              const std::string& checkpoint) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(
      kRunColumns +
      "WHERE forked_from = ?1 AND forked_checkpoint = ?2 ORDER BY created_utc, number");
  ask.bind(run, checkpoint);
  return read_runs(ask);
}

std::vector<std::string> StoreReads::waiting_after(const std::string& id) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(
      "SELECT id FROM runs INDEXED BY runs_after "
      "WHERE after_runs <> '' AND state = 'queued' AND instr('/' || after_runs, ?1) > 0 "
      "AND NOT EXISTS (SELECT 1 FROM launches WHERE run = runs.number) ORDER BY created_utc");
  const std::string part = "/" + id + "/";
  ask.bind(part);
  return all<std::string>(ask, [](const Statement& row) { return row.text(0); });
}

bool StoreReads::has_runs_of(const std::string& scheduler) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare("SELECT 1 FROM runs WHERE scheduler = ?1 LIMIT 1");
  ask.bind(scheduler);
  return ask.step();
}

std::vector<std::string> StoreReads::ids() {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare("SELECT id FROM runs ORDER BY id");
  return all<std::string>(ask, [](const Statement& row) { return row.text(0); });
}

std::optional<StoreReads::Submitted> StoreReads::submitted_with(
    const std::string& idempotency_key) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare("SELECT id, body_digest FROM runs WHERE idempotency_key = ?1");
  ask.bind(idempotency_key);
  if (!ask.step()) return std::nullopt;
  return Submitted{ask.text(0), ask.text(1)};
}

std::optional<StoreReads::Submitted> StoreReads::changed_with(const std::string& idempotency_key) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(
      "SELECT ifnull(runs.id, ''), changes.body_digest FROM changes LEFT JOIN runs ON runs.number "
      "= changes.run WHERE changes.idempotency_key = ?1");
  ask.bind(idempotency_key);
  if (!ask.step()) return std::nullopt;
  return Submitted{ask.text(0), ask.text(1)};
}

std::vector<runs::Launch> StoreReads::launches(runs::RunNumber run) {
  const ReaderPool::Lease reader = lease();
  Statement ask =
      reader->prepare("SELECT " + kLaunchColumns + " FROM launches WHERE run = ?1 ORDER BY number");
  ask.bind(runs::row_of(run));
  return read_rows<runs::Launch>(ask);
}

std::vector<OpenLaunch> StoreReads::open_launches() {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare("SELECT " + kLaunchColumns +
                                  ", runs.id FROM runs INDEXED BY runs_open CROSS JOIN launches " +
                                  "ON launches.run = runs.number AND launches.number = "
                                  "(SELECT max(number) FROM launches WHERE run = runs.number) "
                                  "WHERE drained = 0 ORDER BY created_utc");
  return all<OpenLaunch>(ask, [](const Statement& row) {
    return OpenLaunch{row.text(end_of<runs::Launch>()), read_row<runs::Launch>(row)};
  });
}

std::vector<runs::Attempt> StoreReads::attempts(runs::RunNumber run) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare("SELECT " + kAttemptColumns +
                                  " FROM attempts WHERE run = ?1 ORDER BY number, execution");
  ask.bind(runs::row_of(run));
  return read_rows<runs::Attempt>(ask);
}

slurm::NodeStandings StoreReads::node_standings() {
  static const std::string sql = "SELECT " +
                                 selection(columns_of<slurm::NodeStanding>(), "node_standings") +
                                 " FROM node_standings ORDER BY node";
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(sql);
  slurm::NodeStandings standings;
  for (slurm::NodeStanding& each : read_rows<slurm::NodeStanding>(ask)) {
    const std::string name = each.node;
    standings.emplace_hint(standings.end(), name, std::move(each));
  }
  return standings;
}

std::vector<slurm::NodeEvent> StoreReads::node_events() {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(kNodeEvents);
  return read_rows<slurm::NodeEvent>(ask);
}

}  // namespace regatta::orchestrator::store
