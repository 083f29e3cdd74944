// The store's series: what journals say step by step.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "orchestrator/store/row_fields.h"
#include "orchestrator/store/rows.h"
#include "orchestrator/store/run_nodes.h"
#include "orchestrator/store/step_blocks.h"
#include "orchestrator/store/store.h"

namespace regatta::orchestrator::store {
namespace {

// All of a table's rows; without WHERE.
template <typename Row>
std::string rows_of(const std::string& table) {
  return "SELECT " + selection(columns_of<Row>(), table) + " FROM " + table + " ";
}
const std::string kSteps = rows_of<StepRow>("steps");
const std::string kEvaluations = rows_of<EvaluationRow>("evaluations");
const std::string kCheckpoints = rows_of<CheckpointRow>("checkpoints");
const std::string kWarnings = rows_of<WarningRow>("warnings");
const std::string kTimelines = rows_of<Timeline>("timelines");
const std::string kRankShares = rows_of<RankShares>("rank_shares");

template <typename Number>
std::string list_text(const std::vector<Number>& values) {
  return base::json_text(nlohmann::json(values));
}

// Of what a journal's record becomes.
template <typename Row>
std::string insertion_of(const std::string& table) {
  return insertion("INSERT OR IGNORE INTO " + table, {"run", "sequence"}, columns_of<Row>());
}

// The journal's words for "not known": 0 for a share of a peak, NaN for null.
std::optional<double> known(double value) {
  return std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
}

// An attempt may be judged by another metric than those before it: the run's file was changed. As
// trainer::contract::value_of() has it.
void judge_evaluations(Database& database, const runs::Run& run) {
  database
      .prepare(
          "WITH judged(cursor, value) AS (SELECT cursor, ifnull("
          "(SELECT each.value FROM json_each(evaluations.metrics) AS each WHERE each.key = ?2), "
          "CASE ?2 WHEN 'mlm_accuracy' THEN mlm_accuracy WHEN 'mlm_loss' THEN mlm_loss END) "
          "FROM evaluations WHERE run = ?1) "
          "UPDATE evaluations SET value = judged.value FROM judged "
          "WHERE judged.cursor = evaluations.cursor AND evaluations.value IS NOT judged.value")
      .bind(runs::row_of(run.number), run.summary.metric)
      .run();
}

// What people are warned of; empty: of nothing.
std::string warning_of(const trainer::contract::JournalRecord& record) {
  if (const auto* warning = std::get_if<trainer::contract::WarningRecord>(&record.body)) {
    return warning->message;
  }
  if (const auto* corruption = std::get_if<trainer::contract::CorruptionRecord>(&record.body)) {
    return corruption->message;
  }
  const auto* divergence = std::get_if<trainer::contract::DivergenceRecord>(&record.body);
  return divergence != nullptr && divergence->action == "rollback" ? divergence->message : "";
}

// At most so many, evenly and with the last.
std::vector<StepRow> thinned(std::vector<StepRow> rows, int limit) {
  const auto most = static_cast<std::size_t>(std::max(1, limit));
  const std::size_t stride = (rows.size() + most - 1) / most;
  if (stride <= 1) return rows;
  std::vector<StepRow> kept;
  for (std::size_t i = (rows.size() - 1) % stride; i < rows.size(); i += stride) {
    kept.push_back(rows[i]);
  }
  return kept;
}

}  // namespace

void Store::append(const runs::Run& run, const runs::Attempt& attempt,
                   const std::vector<trainer::contract::JournalRecord>& records) {
  const auto lock = lock_writes();
  if (removed_.count(run.number) > 0) return;
  Transaction transaction(*writer_);
  if (events_->note_start(run, attempt)) {
    add_run_nodes(*writer_, runs::row_of(run.number),
                  attempt.hosts.empty() ? attempt.host : base::join(attempt.hosts, ","));
  }
  const std::int64_t run_row = runs::row_of(run.number);
  BlockWriter blocks(*writer_, attempt.row);
  bool starts = false;
  for (const trainer::contract::JournalRecord& record : records) {
    if (std::holds_alternative<trainer::contract::StepRecord>(record.body)) {
      write_step(run, attempt, record, &blocks);
    } else if (const auto* evaluation = std::get_if<trainer::contract::EvalRecord>(&record.body)) {
      static const std::string sql = insertion_of<EvaluationRow>("evaluations");
      EvaluationRow row;
      row.cursor = next_cursor_++;
      row.attempt = attempt.row;
      row.step = evaluation->step;
      row.seconds = record.seconds;
      row.mlm_accuracy = evaluation->mlm_accuracy;
      row.mlm_loss = evaluation->mlm_loss;
      row.target_met = evaluation->target_met;
      row.value = trainer::contract::value_of(*evaluation, run.summary.metric);
      for (const auto& [name, value] : evaluation->metrics) row.metrics[name] = value;
      write_row(*writer_, sql, RowBinder::Which::All, row, run_row, record.sequence);
    } else if (std::holds_alternative<trainer::contract::CheckpointRecord>(record.body)) {
      write_checkpoint(run, attempt, record);
    } else if (const std::string warning = warning_of(record); !warning.empty()) {
      static const std::string sql =
          insertion("INSERT OR IGNORE INTO warnings", {"run", "sequence", "cursor", "attempt"},
                    columns_of<WarningRow>());
      write_row(*writer_, sql, RowBinder::Which::All, WarningRow{record.utc_seconds, warning},
                run_row, record.sequence, next_cursor_++, runs::row_of(attempt.row));
      note_new(run, attempt, record);
    } else if (std::holds_alternative<trainer::contract::TrialRecord>(record.body) ||
               std::holds_alternative<trainer::contract::BatchRecord>(record.body) ||
               std::holds_alternative<trainer::contract::AlarmRecord>(record.body) ||
               std::holds_alternative<trainer::contract::LossScaleRecord>(record.body) ||
               std::holds_alternative<trainer::contract::InputRecord>(record.body)) {
      events_->note_record(run, attempt, record);
    }
    starts = starts || std::holds_alternative<trainer::contract::StartRecord>(record.body);
  }
  if (starts) judge_evaluations(*writer_, run);
  blocks.finish();
  write_timeline(attempt.row, records);
  write_rank_shares(attempt.row, records);
  write_attempt(run, attempt);
  write_run(run);
  transaction.commit();
}

// Of a record whose row was just written, unless the store had it.
void Store::note_new(const runs::Run& run, const runs::Attempt& attempt,
                     const trainer::contract::JournalRecord& record) {
  if (writer_->changes() > 0) events_->note_record(run, attempt, record);
}

void Store::write_step(const runs::Run& run, const runs::Attempt& attempt,
                       const trainer::contract::JournalRecord& record, BlockWriter* blocks) {
  const auto& step = std::get<trainer::contract::StepRecord>(record.body);
  // With one rank the journal's defaults would pass for figures.
  const auto if_several = [&](auto value) {
    return attempt.ranks > 1 ? std::optional(value) : std::nullopt;
  };
  StepRow row;
  row.cursor = next_cursor_++;
  row.attempt = attempt.row;
  row.step = step.step;
  row.seconds = record.seconds;
  row.loss = step.loss;
  row.mlm_loss = step.mlm_loss;
  row.samples = step.samples;
  row.tokens = step.tokens;
  row.step_seconds = step.seconds;
  row.exposed_seconds = if_several(step.exposed_seconds);
  row.imbalance = if_several(step.imbalance);
  row.moved_bytes = if_several(static_cast<double>(step.moved_bytes));
  row.goodput = step.goodput;
  row.noise_scale = step.noise_scale;
  row.noise_scale_low = step.noise_scale_low;
  row.noise_scale_high = step.noise_scale_high;
  row.efficiency = step.efficiency;
  row.mfu = known(step.mfu);
  row.utilisation = known(step.utilisation);
  row.learning_rate = step.learning_rate;
  row.bubble = step.bubble;
  row.bubble_predicted = step.bubble_predicted;
  static const std::string sql =
      insertion("INSERT OR IGNORE INTO steps", {"run", "sequence"}, columns_of<StepRow>(),
                {{"place", "1 + ifnull((SELECT max(place) FROM steps WHERE run = ?1), 0)"}});
  write_row(*writer_, sql, RowBinder::Which::All, row, runs::row_of(run.number), record.sequence);
  if (writer_->changes() > 0) blocks->add(record.sequence, row);
}

void Store::write_checkpoint(const runs::Run& run, const runs::Attempt& attempt,
                             const trainer::contract::JournalRecord& record) {
  const auto& checkpoint = std::get<trainer::contract::CheckpointRecord>(record.body);
  const auto bytes = static_cast<std::int64_t>(
      std::min<std::uint64_t>(checkpoint.bytes, std::numeric_limits<std::int64_t>::max()));
  CheckpointRow row;
  row.cursor = next_cursor_++;
  row.attempt = attempt.row;
  row.step = checkpoint.step;
  row.seconds = record.seconds;
  row.name = checkpoint.name;
  row.status = checkpoint.status;
  row.bytes = bytes;
  row.whole_seconds = checkpoint.seconds;
  row.utc = record.utc_seconds;
  row.stall_seconds = known(checkpoint.stall_seconds);
  row.copy_seconds = known(checkpoint.copy_seconds);
  row.write_seconds = known(checkpoint.write_seconds);
  row.sync_seconds = known(checkpoint.sync_seconds);
  row.message = checkpoint.message;
  static const std::string sql = insertion_of<CheckpointRow>("checkpoints");
  write_row(*writer_, sql, RowBinder::Which::All, row, runs::row_of(run.number), record.sequence);
  note_new(run, attempt, record);
}

void Store::write_timeline(runs::AttemptNumber attempt,
                           const std::vector<trainer::contract::JournalRecord>& records) {
  const trainer::contract::StepRecord* newest = nullptr;
  for (const trainer::contract::JournalRecord& record : records) {
    if (const auto* start = std::get_if<trainer::contract::StartRecord>(&record.body)) {
      if (start->bucket_bytes.empty()) continue;
      writer_->prepare("INSERT OR REPLACE INTO timelines(attempt, bucket_bytes) VALUES(?1, ?2)")
          .bind(runs::row_of(attempt), list_text(start->bucket_bytes))
          .run();
    } else if (const auto* trial = std::get_if<trainer::contract::TrialRecord>(&record.body)) {
      writer_->prepare("INSERT OR REPLACE INTO timelines(attempt, bucket_bytes) VALUES(?1, ?2)")
          .bind(runs::row_of(attempt), list_text(trial->bucket_bytes))
          .run();
      newest = nullptr;  // had other buckets
    } else if (const auto* step = std::get_if<trainer::contract::StepRecord>(&record.body)) {
      if (!step->bucket_launched.empty()) newest = step;
    }
  }
  if (newest == nullptr) return;
  Timeline timeline;
  timeline.step = newest->step;
  timeline.step_seconds = newest->seconds;
  timeline.data_seconds = newest->data_seconds;
  timeline.forward_seconds = newest->forward_seconds;
  timeline.backward_seconds = newest->backward_seconds;
  timeline.reduce_seconds = newest->reduce_seconds;
  timeline.optimizer_seconds = newest->optimizer_seconds;
  timeline.exposed_seconds = newest->exposed_seconds;
  timeline.launched = newest->bucket_launched;
  timeline.finished = newest->bucket_finished;
  static const std::string sql =
      insertion_or_change("timelines", "attempt", columns_of<Timeline>());
  write_row(*writer_, sql, RowBinder::Which::NotFixed, timeline, runs::row_of(attempt));
}

void Store::write_rank_shares(runs::AttemptNumber attempt,
                              const std::vector<trainer::contract::JournalRecord>& records) {
  const trainer::contract::RanksRecord* newest = nullptr;
  for (const trainer::contract::JournalRecord& record : records) {
    const auto* ranks = std::get_if<trainer::contract::RanksRecord>(&record.body);
    if (ranks != nullptr) newest = ranks;
  }
  if (newest == nullptr) return;
  const RankShares shares = {
      newest->step, {newest->tokens.begin(), newest->tokens.end()}, newest->compute_seconds};
  static const std::string sql =
      insertion("INSERT OR REPLACE INTO rank_shares", {"attempt"}, columns_of<RankShares>());
  write_row(*writer_, sql, RowBinder::Which::All, shares, runs::row_of(attempt));
}

std::int64_t StoreReads::newest_cursor(runs::RunNumber run) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(
      "SELECT max(ifnull((SELECT max(cursor) FROM steps WHERE run = ?1), 0), "
      "ifnull((SELECT max(cursor) FROM evaluations WHERE run = ?1), 0), "
      "ifnull((SELECT max(cursor) FROM checkpoints WHERE run = ?1), 0))");
  ask.bind(runs::row_of(run));
  return ask.step() ? ask.integer(0) : 0;
}

std::vector<StepRow> StoreReads::steps(runs::RunNumber run, std::int64_t cursor, int limit) {
  std::vector<StepRow> rows = rolled_up(run, cursor, limit);
  if (!rows.empty()) cursor = rows.back().cursor;
  const ReaderPool::Lease reader = lease();
  // Places have no gaps, so the rows that are wanted are known without counting.
  Statement ends = reader->prepare(
      "SELECT (SELECT place FROM steps WHERE run = ?1 AND cursor > ?2 ORDER BY cursor LIMIT 1), "
      "(SELECT max(place) FROM steps WHERE run = ?1)");
  ends.bind(runs::row_of(run), cursor);
  if (!ends.step() || ends.is_null(0)) return thinned(std::move(rows), limit);
  if (!rows.empty()) {
    limit = (limit + 1) / 2;
    rows = thinned(std::move(rows), limit);
  }
  const std::int64_t oldest = ends.integer(0);
  const std::int64_t newest = ends.integer(1);
  const std::int64_t count = newest - oldest + 1;
  const std::int64_t stride = std::max<std::int64_t>(1, (count + limit - 1) / std::max(1, limit));
  Statement ask = reader->prepare(kSteps + "WHERE run = ?1 AND place = ?2");
  // Counted from the newest, so that it is always among them.
  for (std::int64_t place = newest - (count - 1) / stride * stride; place <= newest;
       place += stride) {
    ask.bind(runs::row_of(run), place);
    while (ask.step()) rows.push_back(read_row<StepRow>(ask));
  }
  return rows;
}

std::vector<StepRow> StoreReads::steps_after(runs::RunNumber run, std::int64_t cursor, int limit) {
  std::vector<StepRow> rows;
  if (const int resolution = step_resolution(run); resolution > 0) {
    rows = rolled_up_after(run, resolution, cursor, limit);
    if (!rows.empty()) cursor = rows.back().cursor;
  }
  const ReaderPool::Lease reader = lease();
  Statement ask =
      reader->prepare(kSteps + "WHERE run = ?1 AND cursor > ?2 ORDER BY cursor LIMIT ?3");
  ask.bind(runs::row_of(run), cursor, limit - static_cast<int>(rows.size()));
  while (ask.step()) rows.push_back(read_row<StepRow>(ask));
  return rows;
}

std::vector<StepRow> StoreReads::newest_steps(runs::RunNumber run, int limit) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(kSteps + "WHERE run = ?1 ORDER BY cursor DESC LIMIT ?2");
  ask.bind(runs::row_of(run), limit);
  return read_rows<StepRow>(ask);
}

std::vector<EvaluationRow> StoreReads::evaluations(runs::RunNumber run, std::int64_t cursor,
                                                   std::optional<int> limit) {
  const ReaderPool::Lease reader = lease();
  Statement ask =
      reader->prepare(kEvaluations + "WHERE run = ?1 AND cursor > ?2 ORDER BY cursor LIMIT ?3");
  ask.bind(runs::row_of(run), cursor, limit.value_or(-1));  // negative: all
  return read_rows<EvaluationRow>(ask);
}

std::vector<CheckpointRow> StoreReads::checkpoints(runs::RunNumber run, std::int64_t cursor) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(kCheckpoints + "WHERE run = ?1 AND cursor > ?2 ORDER BY cursor");
  ask.bind(runs::row_of(run), cursor);
  return read_rows<CheckpointRow>(ask);
}

CheckpointFailures StoreReads::checkpoint_failures(runs::RunNumber run) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(
      "SELECT (SELECT count(*) FROM checkpoints WHERE run = ?1 AND status = 'failed'), step, "
      "message FROM checkpoints WHERE run = ?1 AND status = 'failed' ORDER BY cursor DESC LIMIT 1");
  ask.bind(runs::row_of(run));
  if (!ask.step()) return {};
  return {static_cast<int>(ask.integer(0)), ask.integer(1), ask.text(2)};
}

std::vector<WarningRow> StoreReads::newest_warnings(runs::RunNumber run, int limit) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(kWarnings + "WHERE run = ?1 ORDER BY cursor DESC LIMIT ?2");
  ask.bind(runs::row_of(run), limit);
  return read_rows<WarningRow>(ask);
}

std::optional<Timeline> StoreReads::timeline(runs::AttemptNumber attempt) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(kTimelines + "WHERE attempt = ?1 AND step IS NOT NULL");
  ask.bind(runs::row_of(attempt));
  if (!ask.step()) return std::nullopt;
  auto timeline = read_row<Timeline>(ask);
  const std::size_t buckets = std::min(timeline.launched.size(), timeline.finished.size());
  timeline.launched.resize(buckets);
  timeline.finished.resize(buckets);
  return timeline;
}

std::optional<RankShares> StoreReads::rank_shares(runs::AttemptNumber attempt) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(kRankShares + "WHERE attempt = ?1");
  ask.bind(runs::row_of(attempt));
  if (!ask.step()) return std::nullopt;
  auto shares = read_row<RankShares>(ask);
  const std::size_t ranks = std::min(shares.tokens.size(), shares.compute_seconds.size());
  shares.tokens.resize(ranks);
  shares.compute_seconds.resize(ranks);
  return shares;
}

}  // namespace regatta::orchestrator::store
