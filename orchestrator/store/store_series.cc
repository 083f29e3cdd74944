// The store's series: what journals say step by step.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "orchestrator/store/store.h"

namespace regatta::orchestrator::store {
namespace {

StepRow step_of(const Statement& row) {
  StepRow step;
  step.cursor = row.integer(0);
  step.attempt = runs::AttemptNumber{row.integer(1)};
  step.step = row.integer(2);
  step.seconds = row.number(3);
  step.loss = row.number(4);
  step.mlm_loss = row.number(5);
  step.samples = row.integer(6);
  step.tokens = row.integer(7);
  step.step_seconds = row.number(8);
  step.exposed_seconds = row.optional_number(9);
  step.imbalance = row.optional_number(10);
  step.moved_bytes = row.optional_number(11);
  step.goodput = row.optional_number(12);
  step.noise_scale = row.optional_number(13);
  step.efficiency = row.optional_number(14);
  step.mfu = row.optional_number(15);
  step.utilisation = row.optional_number(16);
  step.noise_scale_low = row.optional_number(17);
  step.noise_scale_high = row.optional_number(18);
  return step;
}

const std::string kStepColumns =
    "SELECT cursor, attempt, step, seconds, loss, mlm_loss, samples, tokens, step_seconds, "
    "exposed_seconds, imbalance, moved_bytes, goodput, noise_scale, efficiency, mfu, utilisation, "
    "noise_scale_low, noise_scale_high ";

// Lists are kept as JSON text; what is no number in it reads as NaN.
template <typename Number>
std::string list_text(const std::vector<Number>& values) {
  return nlohmann::json(values).dump();
}
std::vector<double> list_of(const std::string& text) {
  std::vector<double> values;
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array()) return values;
  for (const auto& element : json) {
    values.push_back(element.is_number() ? element.get<double>()
                                         : std::numeric_limits<double>::quiet_NaN());
  }
  return values;
}

// The journal's words for "not known": 0 for a share of a peak, NaN for null.
std::optional<double> known(double value) {
  return std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
}

// What people are warned of; empty: of nothing.
std::string warning_of(const trainer::contract::JournalRecord& record) {
  if (const auto* warning = std::get_if<trainer::contract::WarningRecord>(&record.body)) {
    return warning->message;
  }
  const auto* divergence = std::get_if<trainer::contract::DivergenceRecord>(&record.body);
  return divergence != nullptr && divergence->action == "rollback" ? divergence->message : "";
}

}  // namespace

void Store::append(const runs::Run& run, const runs::Attempt& attempt,
                   const std::vector<trainer::contract::JournalRecord>& records) {
  const std::lock_guard lock(write_mutex_);
  if (removed_.count(run.number) > 0) return;
  Transaction transaction(*writer_);
  const std::int64_t run_row = runs::row_of(run.number);
  const std::int64_t row = runs::row_of(attempt.row);
  for (const trainer::contract::JournalRecord& record : records) {
    const std::int64_t sequence = record.sequence;
    const double seconds = record.seconds;
    if (std::holds_alternative<trainer::contract::StepRecord>(record.body)) {
      write_step(run, attempt, record);
    } else if (const auto* evaluation = std::get_if<trainer::contract::EvalRecord>(&record.body)) {
      writer_
          ->prepare("INSERT OR IGNORE INTO evaluations VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")
          .bind(next_cursor_++, run_row, row, sequence, evaluation->step, seconds,
                evaluation->mlm_accuracy, evaluation->mlm_loss, evaluation->target_met)
          .run();
    } else if (std::holds_alternative<trainer::contract::CheckpointRecord>(record.body)) {
      write_checkpoint(run, attempt, record);
    } else if (const std::string warning = warning_of(record); !warning.empty()) {
      writer_->prepare("INSERT OR IGNORE INTO warnings VALUES(?1, ?2, ?3, ?4, ?5, ?6)")
          .bind(next_cursor_++, run_row, row, sequence, record.utc_seconds, warning)
          .run();
    }
  }
  write_timeline(attempt.row, records);
  write_attempt(attempt);
  write_run(run);
  transaction.commit();
}

void Store::write_step(const runs::Run& run, const runs::Attempt& attempt,
                       const trainer::contract::JournalRecord& record) {
  const auto& step = std::get<trainer::contract::StepRecord>(record.body);
  // With one rank the journal's defaults would pass for figures.
  const auto if_several = [&](auto value) {
    return attempt.ranks > 1 ? std::optional(value) : std::nullopt;
  };
  writer_
      ->prepare(
          "INSERT OR IGNORE INTO steps VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, "
          "?13, ?14, ?15, ?16, ?17, ?18, ?19, "
          "1 + ifnull((SELECT max(place) FROM steps WHERE run = ?2), 0), ?20, ?21)")
      .bind(next_cursor_++, runs::row_of(run.number), runs::row_of(attempt.row), record.sequence,
            step.step, record.seconds, step.loss, step.mlm_loss, step.samples, step.tokens,
            step.seconds, if_several(step.exposed_seconds), if_several(step.imbalance),
            if_several(step.moved_bytes), step.goodput, step.noise_scale, step.efficiency,
            known(step.mfu), known(step.utilisation), step.noise_scale_low, step.noise_scale_high)
      .run();
}

void Store::write_checkpoint(const runs::Run& run, const runs::Attempt& attempt,
                             const trainer::contract::JournalRecord& record) {
  const auto& checkpoint = std::get<trainer::contract::CheckpointRecord>(record.body);
  const auto bytes = static_cast<std::int64_t>(
      std::min<std::uint64_t>(checkpoint.bytes, std::numeric_limits<std::int64_t>::max()));
  writer_
      ->prepare(
          "INSERT OR IGNORE INTO checkpoints(cursor, run, attempt, sequence, step, seconds, name, "
          "status, bytes, whole_seconds, utc, stall_seconds, copy_seconds, write_seconds, "
          "sync_seconds, message) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, "
          "?14, ?15, ?16)")
      .bind(next_cursor_++, runs::row_of(run.number), runs::row_of(attempt.row), record.sequence,
            checkpoint.step, record.seconds, checkpoint.name, checkpoint.status, bytes,
            checkpoint.seconds, record.utc_seconds, known(checkpoint.stall_seconds),
            known(checkpoint.copy_seconds), known(checkpoint.write_seconds),
            known(checkpoint.sync_seconds), checkpoint.message)
      .run();
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
  writer_
      ->prepare(
          "INSERT INTO timelines(attempt, step, step_seconds, data_seconds, forward_seconds, "
          "backward_seconds, reduce_seconds, optimizer_seconds, exposed_seconds, launched, "
          "finished) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) "
          "ON CONFLICT(attempt) DO UPDATE SET step = ?2, step_seconds = ?3, data_seconds = ?4, "
          "forward_seconds = ?5, backward_seconds = ?6, reduce_seconds = ?7, "
          "optimizer_seconds = ?8, exposed_seconds = ?9, launched = ?10, finished = ?11")
      .bind(runs::row_of(attempt), newest->step, newest->seconds, newest->data_seconds,
            newest->forward_seconds, newest->backward_seconds, newest->reduce_seconds,
            newest->optimizer_seconds, newest->exposed_seconds, list_text(newest->bucket_launched),
            list_text(newest->bucket_finished))
      .run();
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
  const ReaderPool::Lease reader = lease();
  // Places have no gaps, so the rows that are wanted are known without counting.
  Statement ends = reader->prepare(
      "SELECT (SELECT place FROM steps WHERE run = ?1 AND cursor > ?2 ORDER BY cursor LIMIT 1), "
      "(SELECT max(place) FROM steps WHERE run = ?1)");
  ends.bind(runs::row_of(run), cursor);
  if (!ends.step() || ends.is_null(0)) return {};
  const std::int64_t oldest = ends.integer(0);
  const std::int64_t newest = ends.integer(1);
  const std::int64_t count = newest - oldest + 1;
  const std::int64_t stride = std::max<std::int64_t>(1, (count + limit - 1) / std::max(1, limit));
  std::vector<StepRow> rows;
  Statement ask = reader->prepare(kStepColumns + "FROM steps WHERE run = ?1 AND place = ?2");
  // Counted from the newest, so that it is always among them.
  for (std::int64_t place = newest - (count - 1) / stride * stride; place <= newest;
       place += stride) {
    ask.bind(runs::row_of(run), place);
    while (ask.step()) rows.push_back(step_of(ask));
  }
  return rows;
}

std::vector<StepRow> StoreReads::newest_steps(runs::RunNumber run, int limit) {
  const ReaderPool::Lease reader = lease();
  Statement ask =
      reader->prepare(kStepColumns + "FROM steps WHERE run = ?1 ORDER BY cursor DESC LIMIT ?2");
  ask.bind(runs::row_of(run), limit);
  return all<StepRow>(ask, step_of);
}

std::vector<EvaluationRow> StoreReads::evaluations(runs::RunNumber run, std::int64_t cursor) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(
      "SELECT cursor, attempt, step, seconds, mlm_accuracy, mlm_loss, target_met FROM evaluations "
      "WHERE run = ?1 AND cursor > ?2 ORDER BY cursor");
  ask.bind(runs::row_of(run), cursor);
  return all<EvaluationRow>(ask, [](const Statement& row) {
    return EvaluationRow{row.integer(0),     runs::AttemptNumber{row.integer(1)},
                         row.integer(2),     row.number(3),
                         row.number(4),      row.number(5),
                         row.integer(6) != 0};
  });
}

std::vector<CheckpointRow> StoreReads::checkpoints(runs::RunNumber run, std::int64_t cursor) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(
      "SELECT cursor, attempt, step, seconds, name, status, bytes, whole_seconds, utc, "
      "stall_seconds, copy_seconds, write_seconds, sync_seconds, message "
      "FROM checkpoints WHERE run = ?1 AND cursor > ?2 ORDER BY cursor");
  ask.bind(runs::row_of(run), cursor);
  return all<CheckpointRow>(ask, [](const Statement& row) {
    return CheckpointRow{row.integer(0),
                         runs::AttemptNumber{row.integer(1)},
                         row.integer(2),
                         row.number(3),
                         row.text(4),
                         row.text(5),
                         row.integer(6),
                         row.number(7),
                         row.number(8),
                         row.optional_number(9),
                         row.optional_number(10),
                         row.optional_number(11),
                         row.optional_number(12),
                         row.text(13)};
  });
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
  Statement ask = reader->prepare(
      "SELECT utc, message FROM warnings WHERE run = ?1 ORDER BY cursor DESC LIMIT ?2");
  ask.bind(runs::row_of(run), limit);
  return all<WarningRow>(ask, [](const Statement& row) {
    return WarningRow{row.number(0), row.text(1)};
  });
}

std::optional<Timeline> StoreReads::timeline(runs::AttemptNumber attempt) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(
      "SELECT step, step_seconds, data_seconds, forward_seconds, backward_seconds, "
      "reduce_seconds, optimizer_seconds, exposed_seconds, bucket_bytes, launched, finished "
      "FROM timelines WHERE attempt = ?1 AND step IS NOT NULL");
  ask.bind(runs::row_of(attempt));
  if (!ask.step()) return std::nullopt;
  Timeline timeline;
  timeline.step = ask.integer(0);
  timeline.step_seconds = ask.number(1);
  timeline.data_seconds = ask.number(2);
  timeline.forward_seconds = ask.number(3);
  timeline.backward_seconds = ask.number(4);
  timeline.reduce_seconds = ask.number(5);
  timeline.optimizer_seconds = ask.number(6);
  timeline.exposed_seconds = ask.number(7);
  timeline.bucket_bytes = list_of(ask.text(8));
  timeline.launched = list_of(ask.text(9));
  timeline.finished = list_of(ask.text(10));
  const std::size_t buckets = std::min(timeline.launched.size(), timeline.finished.size());
  timeline.launched.resize(buckets);
  timeline.finished.resize(buckets);
  return timeline;
}

}  // namespace regatta::orchestrator::store
