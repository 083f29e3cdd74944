#include "orchestrator/store.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/schema.h"

namespace regatta::orchestrator {
namespace {

constexpr const char* kRunColumns =
    "SELECT number, id, name, config, directory, created_utc, wanted, state, reason, error, "
    "ended_utc, failures, progress_step, drained, step, steps, samples, metric, value, target, "
    "baseline, started_utc, time_to_accuracy, training_seconds, samples_per_second, "
    "tokens_per_second, loss, phase, checkpoint_step, checkpoint, crossing, crossing_low, "
    "crossing_high, axis_seconds, last_record_utc, mfu, utilisation, exposed_share, imbalance, "
    "moved_bytes, goodput, noise_scale, efficiency, wait_category, wait_action, wait_clears, "
    "expected_start, next_start FROM runs ";

// Old ones fade to nothing (node_suspicion.h); this many are some megabytes at most.
constexpr std::int64_t kMostNodeEvents = 20000;

std::optional<int> optional_int(const Statement& row, int column) {
  const auto value = row.optional_integer(column);
  if (!value) return std::nullopt;
  return static_cast<int>(*value);
}

RunSummary summary_of(const Statement& row, int column) {
  RunSummary summary;
  summary.step = row.integer(column++);
  summary.steps = row.integer(column++);
  summary.samples = row.integer(column++);
  summary.metric = row.text(column++);
  summary.value = row.optional_number(column++);
  summary.target = row.optional_number(column++);
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

Run run_of(const Statement& row) {
  Run run;
  run.number = RunNumber{row.integer(0)};
  run.id = row.text(1);
  run.name = row.text(2);
  run.config = row.text(3);
  run.directory = row.text(4);
  run.created_utc = row.number(5);
  run.wanted = static_cast<Wanted>(row.integer(6));
  run.state = parse_run_state(row.text(7)).value_or(RunState::Failed);
  run.reason = row.text(8);
  run.error = row.text(9);
  run.ended_utc = row.optional_number(10);
  run.failures = static_cast<int>(row.integer(11));
  run.progress_step = row.integer(12);
  run.drained = row.integer(13) != 0;
  run.summary = summary_of(row, 14);
  run.wait = {row.text(43), row.text(44), row.text(45), row.optional_number(46),
              row.optional_number(47)};
  return run;
}

Attempt attempt_of(const Statement& row) {
  Attempt attempt;
  attempt.row = AttemptNumber{row.integer(0)};
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

Launch launch_of(const Statement& row) {
  Launch launch;
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

base::UniqueFd take_lock(const base::Path& path, const std::string& what) {
  base::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) base::throw_errno(errno, "cannot open " + path.string());
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw base::Error(base::Code::Operator, what + " is in use by another controller (" +
                                                path.string() +
                                                "); stop that one or name another directory");
  }
  return fd;
}

Store::Store(const base::Path& directory) {
  std::error_code error;
  if (directory.has_parent_path()) {
    std::filesystem::create_directories(directory.parent_path(), error);
  }
  base::posix_file_system().create_directory(directory);
  refuse_network_file_system(directory, "the controller's store");
  lock_ = take_lock(directory / "lock", "the store in " + directory.string());
  const base::Path path = directory / "store.sqlite";
  writer_ = std::make_unique<Database>(path, Database::Access::ReadWrite);
  migrate();
  reader_ = std::make_unique<Database>(path, Database::Access::ReadOnly);
}

void Store::migrate() {
  Transaction transaction(*writer_);
  std::int64_t version = 0;
  {
    Statement ask = writer_->prepare("PRAGMA user_version");
    if (ask.step()) version = ask.integer(0);
    ask.run();
  }
  if (version > kSchemaVersion) {
    throw base::Error(base::Code::Operator,
                      "the store was written by a newer regatta (schema " +
                          std::to_string(version) + ", this one knows " +
                          std::to_string(kSchemaVersion) +
                          "); update regatta, or name another directory with --data");
  }
  if (version < kSchemaVersion) {
    for (; version < kSchemaVersion; ++version) writer_->execute(kVersions[version]);
    writer_->execute("PRAGMA user_version = " + std::to_string(kSchemaVersion));
  }
  for (const char* table : {"steps", "evaluations", "checkpoints", "warnings"}) {
    Statement newest = writer_->prepare(std::string("SELECT max(cursor) FROM ") + table);
    if (newest.step()) next_cursor_ = std::max(next_cursor_, newest.integer(0) + 1);
    newest.run();
  }
  transaction.commit();
}

RunNumber Store::add_run(const NewRun& run) {
  const std::lock_guard lock(write_mutex_);
  writer_
      ->prepare(
          "INSERT INTO runs(id, name, config, directory, created_utc, wanted, idempotency_key, "
          "body_digest, steps) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")
      .bind(run.id, run.name, run.config, run.directory, run.created_utc,
            static_cast<int>(run.wanted), run.idempotency_key, run.body_digest, run.steps)
      .run();
  return RunNumber{writer_->last_row()};
}

std::optional<Run> Store::run(const std::string& id) {
  const std::lock_guard lock(read_mutex_);
  Statement ask = reader_->prepare(std::string(kRunColumns) + "WHERE id = ?1");
  ask.bind(id);
  if (!ask.step()) return std::nullopt;
  return run_of(ask);
}

std::optional<Run> Store::run(RunNumber number) {
  const std::lock_guard lock(read_mutex_);
  Statement ask = reader_->prepare(std::string(kRunColumns) + "WHERE number = ?1");
  ask.bind(row_of(number));
  if (!ask.step()) return std::nullopt;
  return run_of(ask);
}

std::vector<Run> Store::runs(const RunFilter& filter) {
  const std::lock_guard lock(read_mutex_);
  Statement ask = reader_->prepare(
      std::string(kRunColumns) +
      "WHERE ?2 = '' OR state = ?2 ORDER BY created_utc DESC, number DESC LIMIT ?1");
  const std::string state = filter.state ? name_of(*filter.state) : "";
  ask.bind(filter.limit, state);
  return all<Run>(ask, run_of);
}

std::vector<Run> Store::runs_named(const std::string& name) {
  const std::lock_guard lock(read_mutex_);
  Statement ask = reader_->prepare(std::string(kRunColumns) +
                                   "WHERE name = ?1 ORDER BY created_utc DESC LIMIT 20");
  ask.bind(name);
  return all<Run>(ask, run_of);
}

std::vector<std::string> Store::ids_and_names(int limit) {
  const std::lock_guard lock(read_mutex_);
  Statement ask = reader_->prepare("SELECT id, name FROM runs ORDER BY created_utc DESC LIMIT ?1");
  ask.bind(limit);
  std::vector<std::string> out;
  while (ask.step()) {
    out.push_back(ask.text(0));
    out.push_back(ask.text(1));
  }
  return out;
}

std::vector<Run> Store::unfinished_runs() {
  const std::lock_guard lock(read_mutex_);
  Statement ask =
      reader_->prepare(std::string(kRunColumns) + "WHERE drained = 0 ORDER BY created_utc, number");
  return all<Run>(ask, run_of);
}

std::optional<Store::Submitted> Store::submitted_with(const std::string& idempotency_key) {
  const std::lock_guard lock(read_mutex_);
  Statement ask = reader_->prepare("SELECT id, body_digest FROM runs WHERE idempotency_key = ?1");
  ask.bind(idempotency_key);
  if (!ask.step()) return std::nullopt;
  return Submitted{ask.text(0), ask.text(1)};
}

void Store::update_run(const Run& run) {
  const std::lock_guard lock(write_mutex_);
  write_run(run);
}

void Store::write_run(const Run& run) {
  const RunSummary& s = run.summary;
  writer_
      ->prepare(
          "UPDATE runs SET state = ?2, reason = ?3, error = ?4, ended_utc = ?5, failures = ?6, "
          "progress_step = ?7, drained = ?8, step = ?9, steps = ?10, samples = ?11, metric = ?12, "
          "value = ?13, target = ?14, baseline = ?15, started_utc = ?16, time_to_accuracy = ?17, "
          "training_seconds = ?18, samples_per_second = ?19, tokens_per_second = ?20, loss = ?21, "
          "phase = ?22, checkpoint_step = ?23, checkpoint = ?24, crossing = ?25, "
          "crossing_low = ?26, crossing_high = ?27, axis_seconds = ?28, last_record_utc = ?29, "
          "mfu = ?30, utilisation = ?31, exposed_share = ?32, imbalance = ?33, moved_bytes = ?34, "
          "goodput = ?35, noise_scale = ?36, efficiency = ?37, wait_category = ?38, "
          "wait_action = ?39, wait_clears = ?40, expected_start = ?41, next_start = ?42 "
          "WHERE number = ?1")
      .bind(row_of(run.number), name_of(run.state), run.reason, run.error, run.ended_utc,
            run.failures, run.progress_step, run.drained, s.step, s.steps, s.samples, s.metric,
            s.value, s.target, s.baseline, s.started_utc, s.time_to_accuracy_seconds,
            s.training_seconds, s.samples_per_second, s.tokens_per_second, s.loss, s.phase,
            s.checkpoint_step, s.checkpoint, s.crossing, s.crossing_low, s.crossing_high,
            s.axis_seconds, s.last_record_utc, s.mfu, s.utilisation, s.exposed_share, s.imbalance,
            s.moved_bytes, s.goodput, s.noise_scale, s.efficiency, run.wait.category,
            run.wait.action, run.wait.clears, run.wait.expected_start_utc, run.wait.next_start_utc)
      .run();
}

void Store::set_wanted(RunNumber run, Wanted wanted) {
  const std::lock_guard lock(write_mutex_);
  writer_->prepare("UPDATE runs SET wanted = ?2 WHERE number = ?1")
      .bind(row_of(run), static_cast<int>(wanted))
      .run();
}

std::vector<Launch> Store::launches(RunNumber run) {
  const std::lock_guard lock(read_mutex_);
  Statement ask = reader_->prepare(
      "SELECT number, token, handle, attempts_before, started_utc, over, exit_code, signal, "
      "replaced, ended_utc, cause, words, action, nodes, gpus FROM launches WHERE run = ?1 ORDER "
      "BY number");
  ask.bind(row_of(run));
  return all<Launch>(ask, launch_of);
}

void Store::put_launch(RunNumber run, const Launch& launch) {
  const std::lock_guard lock(write_mutex_);
  writer_
      ->prepare(
          "INSERT OR REPLACE INTO launches(run, number, token, handle, attempts_before, "
          "started_utc, over, exit_code, signal, replaced, ended_utc, cause, words, action, nodes, "
          "gpus) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)")
      .bind(row_of(run), launch.number, launch.token, launch.handle, launch.attempts_before,
            launch.started_utc, launch.over, launch.exit_code, launch.signal, launch.replaced,
            launch.ended_utc, launch.cause, launch.words, launch.action, launch.nodes, launch.gpus)
      .run();
}

std::vector<Attempt> Store::attempts(RunNumber run) {
  const std::lock_guard lock(read_mutex_);
  Statement ask = reader_->prepare(
      "SELECT row, number, execution, offset, damaged, started, start_utc, first_step_begin, "
      "last_seconds, process, host, first_step, batch_size, training_seconds, exit_code, reason, "
      "message, ranks, ranks_per_node, device, peak_flops, slowest_rank, slowest_step, "
      "slowest_phase, slowest_seconds, slowest_utc, hosts, judged FROM attempts WHERE run = ?1 "
      "ORDER BY number, execution");
  ask.bind(row_of(run));
  return all<Attempt>(ask, attempt_of);
}

AttemptNumber Store::add_attempt(RunNumber run, int number, const std::string& execution) {
  const std::lock_guard lock(write_mutex_);
  writer_->prepare("INSERT INTO attempts(run, number, execution) VALUES(?1, ?2, ?3)")
      .bind(row_of(run), number, execution)
      .run();
  return AttemptNumber{writer_->last_row()};
}

void Store::judge(const std::optional<AttemptNumber>& attempt,
                  const std::vector<NodeEvent>& events) {
  const std::lock_guard lock(write_mutex_);
  Transaction transaction(*writer_);
  for (const NodeEvent& event : events) {
    writer_
        ->prepare(
            "INSERT INTO node_events(node, utc, blame, weight, run, words) "
            "VALUES(?1, ?2, ?3, ?4, ?5, ?6)")
        .bind(event.node, event.utc, std::string(to_string(event.blame)), event.weight, event.run,
              event.words)
        .run();
  }
  writer_->prepare("DELETE FROM node_events WHERE row <= (SELECT max(row) FROM node_events) - ?1")
      .bind(kMostNodeEvents)
      .run();
  if (attempt) {
    writer_->prepare("UPDATE attempts SET judged = 1 WHERE row = ?1").bind(row_of(*attempt)).run();
  }
  transaction.commit();
}

std::vector<NodeEvent> Store::node_events() {
  const std::lock_guard lock(read_mutex_);
  Statement ask = reader_->prepare(
      "SELECT node, utc, blame, run, words, weight FROM node_events ORDER BY utc, row");
  return all<NodeEvent>(ask, [](const Statement& row) {
    return NodeEvent{row.text(0), row.number(1), parse_blame(row.text(2)).value_or(Blame::Shared),
                     row.text(3), row.text(4),   row.number(5)};
  });
}

void Store::write_attempt(const Attempt& attempt) {
  const bool slow = attempt.slowest.has_value();
  const SlowestRank slowest = attempt.slowest.value_or(SlowestRank{});
  writer_
      ->prepare(
          "UPDATE attempts SET offset = ?2, damaged = ?3, started = ?4, start_utc = ?5, "
          "first_step_begin = ?6, last_seconds = ?7, process = ?8, host = ?9, first_step = ?10, "
          "batch_size = ?11, training_seconds = ?12, exit_code = ?13, reason = ?14, "
          "message = ?15, ranks = ?16, ranks_per_node = ?17, device = ?18, peak_flops = ?19, "
          "slowest_rank = ?20, slowest_step = ?21, slowest_phase = ?22, slowest_seconds = ?23, "
          "slowest_utc = ?24, hosts = ?25 WHERE row = ?1")
      .bind(row_of(attempt.row), attempt.offset, attempt.damaged, attempt.started,
            attempt.start_utc, attempt.first_step_begin, attempt.last_seconds, attempt.process,
            attempt.host, attempt.first_step, attempt.batch_size, attempt.training_seconds,
            attempt.exit_code, attempt.reason, attempt.message, attempt.ranks,
            attempt.ranks_per_node, attempt.device, attempt.peak_flops,
            slow ? std::optional(slowest.rank) : std::nullopt, slowest.step, slowest.phase,
            slowest.phase_seconds, slowest.utc, base::join(attempt.hosts, ","))
      .run();
}

}  // namespace regatta::orchestrator
