#include "orchestrator/store/store_reads.h"

#include <map>
#include <utility>

#include "base/text.h"

namespace regatta::orchestrator::store {
namespace {

const std::string kColumnsAfterConfig =
    "directory, created_utc, wanted, state, reason, error, ended_utc, failures, "
    "progress_step, drained, step, steps, samples, metric, value, target, "
    "target_times_baseline, baseline, started_utc, time_to_accuracy, training_seconds, "
    "samples_per_second, tokens_per_second, "
    "loss, phase, checkpoint_step, checkpoint, crossing, crossing_low, crossing_high, "
    "axis_seconds, last_record_utc, mfu, utilisation, exposed_share, imbalance, moved_bytes, "
    "goodput, noise_scale, efficiency, wait_category, wait_action, wait_clears, "
    "expected_start, next_start, settled, scheduler, after_runs, archived, "
    "noise_scale_low, noise_scale_high";
const std::string kRunColumns =
    "SELECT number, id, name, config, " + kColumnsAfterConfig + " FROM runs ";
// Of a list: the configuration is the largest part of a row.
const std::string kRowColumns =
    "SELECT number, id, name, '', " + kColumnsAfterConfig + " FROM runs ";

// The columns that launch_of() and attempt_of() read.
const std::string kLaunchColumns =
    "launches.number, token, handle, attempts_before, launches.started_utc, over, exit_code, "
    "signal, replaced, launches.ended_utc, cause, words, action, nodes, gpus";
const std::string kAttemptColumns =
    "row, number, execution, offset, damaged, started, start_utc, first_step_begin, last_seconds, "
    "process, host, first_step, batch_size, training_seconds, exit_code, reason, message, ranks, "
    "ranks_per_node, device, peak_flops, slowest_rank, slowest_step, slowest_phase, "
    "slowest_seconds, slowest_utc, hosts, judged";

// Of ids and of names each, on either side of a word in their order, and of the newest runs.
constexpr int kNeighbours = 16;
constexpr int kNewestToSuggest = 100;

std::optional<int> optional_int(const Statement& row, int column) {
  const auto value = row.optional_integer(column);
  if (!value) return std::nullopt;
  return static_cast<int>(*value);
}

runs::RunSummary summary_of(const Statement& row, int column) {
  runs::RunSummary summary;
  summary.step = row.integer(column++);
  summary.steps = row.integer(column++);
  summary.samples = row.integer(column++);
  summary.metric = row.text(column++);
  summary.value = row.optional_number(column++);
  summary.target = row.optional_number(column++);
  summary.target_times_baseline = row.optional_number(column++);
  summary.baseline = row.optional_number(column++);
  summary.started_utc = row.optional_number(column++);
  summary.time_to_accuracy_seconds = row.optional_number(column++);
  summary.training_seconds = row.number(column++);
  summary.samples_per_second = row.optional_number(column++);
  summary.tokens_per_second = row.optional_number(column++);
  summary.loss = row.optional_number(column++);
  summary.phase = row.text(column++);
  summary.checkpoint_step = row.integer(column++);
  summary.checkpoint = row.text(column++);
  summary.crossing = row.optional_number(column++);
  summary.crossing_low = row.optional_number(column++);
  summary.crossing_high = row.optional_number(column++);
  summary.axis_seconds = row.number(column++);
  summary.last_record_utc = row.number(column++);
  summary.mfu = row.optional_number(column++);
  summary.utilisation = row.optional_number(column++);
  summary.exposed_share = row.optional_number(column++);
  summary.imbalance = row.optional_number(column++);
  summary.moved_bytes = row.optional_number(column++);
  summary.goodput = row.optional_number(column++);
  summary.noise_scale = row.optional_number(column++);
  summary.efficiency = row.optional_number(column++);
  return summary;
}

runs::Run run_of(const Statement& row) {
  runs::Run run;
  run.number = runs::RunNumber{row.integer(0)};
  run.id = row.text(1);
  run.name = row.text(2);
  run.config = row.text(3);
  run.directory = row.text(4);
  run.created_utc = row.number(5);
  run.wanted = static_cast<runs::Wanted>(row.integer(6));
  run.state = runs::parse_run_state(row.text(7)).value_or(runs::RunState::Failed);
  run.reason = row.text(8);
  run.error = row.text(9);
  run.ended_utc = row.optional_number(10);
  run.failures = static_cast<int>(row.integer(11));
  run.progress_step = row.integer(12);
  run.drained = row.integer(13) != 0;
  run.summary = summary_of(row, 14);
  run.wait = {row.text(44), row.text(45), row.text(46), row.optional_number(47),
              row.optional_number(48)};
  run.settled = row.integer(49) != 0;
  run.scheduler = row.text(50);
  if (std::string after = row.text(51); !after.empty()) {
    after.pop_back();
    run.after = base::split(after, '/');
  }
  run.archived = row.integer(52) != 0;
  run.summary.noise_scale_low = row.optional_number(53);
  run.summary.noise_scale_high = row.optional_number(54);
  return run;
}

runs::Attempt attempt_of(const Statement& row) {
  runs::Attempt attempt;
  attempt.row = runs::AttemptNumber{row.integer(0)};
  attempt.number = static_cast<int>(row.integer(1));
  attempt.execution = row.text(2);
  attempt.offset = row.integer(3);
  attempt.damaged = row.integer(4);
  attempt.started = row.integer(5) != 0;
  attempt.start_utc = row.number(6);
  attempt.first_step_begin = row.optional_number(7);
  attempt.last_seconds = row.number(8);
  attempt.process = row.integer(9);
  attempt.host = row.text(10);
  attempt.first_step = row.integer(11);
  attempt.batch_size = static_cast<int>(row.integer(12));
  attempt.training_seconds = row.number(13);
  attempt.exit_code = optional_int(row, 14);
  attempt.reason = row.text(15);
  attempt.message = row.text(16);
  attempt.ranks = static_cast<int>(row.integer(17));
  attempt.ranks_per_node = static_cast<int>(row.integer(18));
  attempt.device = row.text(19);
  attempt.peak_flops = row.number(20);
  const std::string hosts = row.text(26);
  if (!hosts.empty()) attempt.hosts = base::split(hosts, ',');
  attempt.judged = row.integer(27) != 0;
  if (const auto rank = optional_int(row, 21)) {
    attempt.slowest = {*rank, row.integer(22), row.text(23), row.number(24), row.number(25)};
  }
  return attempt;
}

runs::Launch launch_of(const Statement& row) {
  runs::Launch launch;
  launch.number = static_cast<int>(row.integer(0));
  launch.token = row.text(1);
  launch.handle = row.text(2);
  launch.attempts_before = static_cast<int>(row.integer(3));
  launch.started_utc = row.number(4);
  launch.over = row.integer(5) != 0;
  launch.exit_code = optional_int(row, 6);
  launch.signal = optional_int(row, 7);
  launch.replaced = row.integer(8) != 0;
  launch.ended_utc = row.optional_number(9);
  launch.cause = row.text(10);
  launch.words = row.text(11);
  launch.action = row.text(12);
  launch.nodes = row.text(13);
  launch.gpus = row.optional_integer(14);
  return launch;
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

Snapshot::Snapshot(ReaderPool& pool) : held_(pool.take()) {
  pinned_ = &*held_;
  pinned_->prepare("BEGIN").run();
}
Snapshot::~Snapshot() {
  try {
    pinned_->prepare("ROLLBACK").run();
  } catch (const base::Error&) {  // a read error has ended it already
  }
}

std::optional<runs::Run> StoreReads::run(const std::string& id) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(kRunColumns + "WHERE id = ?1");
  ask.bind(id);
  if (!ask.step()) return std::nullopt;
  return run_of(ask);
}

std::optional<runs::Run> StoreReads::run(runs::RunNumber number) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(kRunColumns + "WHERE number = ?1");
  ask.bind(runs::row_of(number));
  if (!ask.step()) return std::nullopt;
  return run_of(ask);
}

RunList StoreReads::list(const RunFilter& filter) {
  const ReaderPool::Lease reader = lease();
  RunList list;
  const std::string state = filter.state ? runs::name_of(*filter.state) : "";
  const bool archived = filter.archived == Archived::Only;
  Statement ask = reader->prepare(
      kRowColumns + "WHERE " + (filter.state ? "state = ?4 AND " : "?4 = '' AND ") +
      (filter.archived == Archived::Also ? "?5 >= 0 AND " : "archived = ?5 AND ") +
      "(created_utc, number) < (?1, ?2) ORDER BY created_utc DESC, number DESC LIMIT ?3");
  ask.bind(filter.after.created_utc, filter.after.number, filter.limit + 1, state, archived);
  std::string numbers = "[";
  std::map<std::int64_t, std::size_t> places;
  while (ask.step()) {
    if (list.rows.size() == static_cast<std::size_t>(filter.limit)) {  // one too many, on purpose
      const runs::Run& last = list.rows.back().run;
      list.next = ListPlace{last.created_utc, runs::row_of(last.number)};
      break;
    }
    list.rows.push_back({run_of(ask), 0, {}, {}, {}});
    places[ask.integer(0)] = list.rows.size() - 1;
    numbers += (numbers.size() > 1 ? "," : "") + std::to_string(ask.integer(0));
  }
  numbers += "]";

  Statement launches = reader->prepare(
      "SELECT " + kLaunchColumns + ", page.value FROM json_each(?1) AS page CROSS JOIN launches " +
      "ON launches.run = page.value AND launches.number = "
      "(SELECT max(number) FROM launches WHERE run = page.value)");
  launches.bind(numbers);
  while (launches.step()) list.rows[places.at(launches.integer(15))].launch = launch_of(launches);

  Statement attempts =
      reader->prepare("SELECT " + kAttemptColumns +
                      ", page.value, "
                      "(SELECT count(*) FROM attempts WHERE run = page.value) "
                      "FROM json_each(?1) AS page CROSS JOIN attempts ON attempts.row IN ("
                      "(SELECT row FROM attempts WHERE run = page.value "
                      "ORDER BY number DESC, execution DESC LIMIT 1), "
                      "(SELECT row FROM attempts WHERE run = page.value AND started = 1 "
                      "ORDER BY number DESC, execution DESC LIMIT 1))");
  attempts.bind(numbers);
  while (attempts.step()) {
    RunRow& row = list.rows[places.at(attempts.integer(28))];
    row.attempts = static_cast<int>(attempts.integer(29));
    row.take(attempt_of(attempts));
  }
  return list;
}

std::vector<runs::Run> StoreReads::runs_named(const std::string& name) {
  const ReaderPool::Lease reader = lease();
  Statement ask =
      reader->prepare(kRunColumns + "WHERE name = ?1 ORDER BY created_utc DESC LIMIT 3");
  ask.bind(name);
  return all<runs::Run>(ask, run_of);
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

std::vector<runs::Run> StoreReads::unfinished_runs() {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(
      kRunColumns + "INDEXED BY runs_open WHERE drained = 0 ORDER BY created_utc, number");
  return all<runs::Run>(ask, run_of);
}

std::vector<runs::Run> StoreReads::unsettled_runs(int limit) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(
      kRunColumns +
      "INDEXED BY runs_unsettled "
      "WHERE settled = 0 AND state IN ('succeeded', 'stopped', 'failed', 'cancelled') "
      "ORDER BY created_utc, number LIMIT ?1");
  ask.bind(limit);
  return all<runs::Run>(ask, run_of);
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

std::vector<runs::Launch> StoreReads::launches(runs::RunNumber run) {
  const ReaderPool::Lease reader = lease();
  Statement ask =
      reader->prepare("SELECT " + kLaunchColumns + " FROM launches WHERE run = ?1 ORDER BY number");
  ask.bind(runs::row_of(run));
  return all<runs::Launch>(ask, launch_of);
}

std::vector<OpenLaunch> StoreReads::open_launches() {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare("SELECT " + kLaunchColumns +
                                  ", runs.id FROM runs INDEXED BY runs_open CROSS JOIN launches " +
                                  "ON launches.run = runs.number AND launches.number = "
                                  "(SELECT max(number) FROM launches WHERE run = runs.number) "
                                  "WHERE drained = 0 ORDER BY created_utc");
  return all<OpenLaunch>(ask, [](const Statement& row) {
    return OpenLaunch{row.text(15), launch_of(row)};
  });
}

std::vector<runs::Attempt> StoreReads::attempts(runs::RunNumber run) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare("SELECT " + kAttemptColumns +
                                  " FROM attempts WHERE run = ?1 ORDER BY number, execution");
  ask.bind(runs::row_of(run));
  return all<runs::Attempt>(ask, attempt_of);
}

std::vector<slurm::NodeEvent> StoreReads::node_events() {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(
      "SELECT node, utc, blame, run, words, weight FROM node_events ORDER BY utc, row");
  return all<slurm::NodeEvent>(ask, [](const Statement& row) {
    return slurm::NodeEvent{
        row.text(0), row.number(1), slurm::parse_blame(row.text(2)).value_or(slurm::Blame::Shared),
        row.text(3), row.text(4),   row.number(5)};
  });
}

}  // namespace regatta::orchestrator::store
