#include "orchestrator/follower.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "orchestrator/series.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator {
namespace {

constexpr int kRateSteps = 20;  // the figures shown are means over so many steps

// What one record changes in the attempt and in the run, beside its row.
struct Apply {
  const trainer::JournalRecord& record;
  Attempt& attempt;
  RunSummary& summary;

  void operator()(const trainer::StartRecord& start) const {
    attempt.process = start.process;
    attempt.host = start.host;
    attempt.hosts = start.hosts;
    attempt.first_step = start.first_step;
    attempt.batch_size = start.batch_size;
    attempt.ranks = std::max(1, start.ranks);
    attempt.ranks_per_node = std::max(1, start.ranks_per_node);
    attempt.device = start.device;
    attempt.peak_flops = std::isfinite(start.peak_flops) ? std::max(0.0, start.peak_flops) : 0;
    attempt.slowest.reset();
    summary.steps = start.steps;
    summary.step = start.first_step;
    summary.samples = start.first_step * start.batch_size;
    if (!start.metric.empty()) summary.metric = start.metric;
    summary.target = start.target;
    summary.baseline = start.baseline;
  }
  void operator()(const trainer::StepRecord& step) const {
    if (!attempt.first_step_begin) attempt.first_step_begin = record.seconds - step.seconds;
    attempt.training_seconds += std::max(0.0, step.seconds);
    summary.step = step.step;
    summary.samples = step.step * attempt.batch_size;
    summary.loss = std::isfinite(step.loss) ? std::optional(step.loss) : std::nullopt;
  }
  void operator()(const trainer::EvalRecord& evaluation) const {
    const double value =
        summary.metric == "mlm_loss" ? evaluation.mlm_loss : evaluation.mlm_accuracy;
    summary.value = std::isfinite(value) ? std::optional(value) : std::nullopt;
  }
  void operator()(const trainer::CheckpointRecord& checkpoint) const {
    if (checkpoint.status == "written") {
      summary.checkpoint_step = checkpoint.step;
      summary.checkpoint = checkpoint.name;
    } else if (checkpoint.status == "removed" && checkpoint.name == summary.checkpoint) {
      summary.checkpoint_step = -1;
      summary.checkpoint.clear();
    }
  }
  void operator()(const trainer::PhaseRecord& phase) const { summary.phase = phase.phase; }
  void operator()(const trainer::EndRecord& end) const {
    attempt.exit_code = end.exit_code;
    attempt.reason = end.reason;
    attempt.message = end.message;
    attempt.slowest.reset();
    summary.phase.clear();
  }
  void operator()(const trainer::HeartbeatRecord& heartbeat) const {
    attempt.slowest = {heartbeat.rank, heartbeat.step, heartbeat.phase, heartbeat.phase_seconds,
                       record.utc_seconds};
  }
  void operator()(const trainer::WarningRecord&) const {}
  void operator()(const trainer::TrialRecord&) const {}
  void operator()(const trainer::UnknownRecord&) const {}
};

}  // namespace

Followed Follower::follow(Run* run) {
  Followed all;
  const auto directory = trainer::RunDirectory::open(files_, run->directory);
  std::vector<Attempt> known = store_.attempts(run->number);
  for (const trainer::AttemptName& name : directory.attempts()) {
    auto attempt = std::find_if(known.begin(), known.end(), [&](const Attempt& a) {
      return a.number == name.number && a.execution == name.execution;
    });
    if (attempt == known.end()) {
      Attempt fresh;
      fresh.number = name.number;
      fresh.execution = name.execution;
      fresh.row = store_.add_attempt(run->number, name.number, name.execution);
      known.push_back(fresh);
      attempt = known.end() - 1;
    }
    try {
      const Followed one = follow_attempt(run, &*attempt, directory.journal_path(name));
      all.read_any = all.read_any || one.read_any;
      all.more = all.more || one.more;
      if (one.more) break;  // attempts in order: the next one after this
    } catch (const base::Error& error) {
      base::log(base::LogLevel::Warning, "run " + run->id + ": " + error.what());
    }
  }
  if (all.read_any) refresh(run);
  return all;
}

Followed Follower::follow_attempt(Run* run, Attempt* attempt, const base::Path& journal) {
  std::string bytes;
  try {
    bytes = files_.read_at(journal, static_cast<std::uint64_t>(attempt->offset), chunk_bytes_);
  } catch (const base::Error& error) {
    if (error.code() == base::Code::NotFound) return {};  // not created yet
    throw;
  }
  const trainer::JournalChunk chunk = trainer::parse_journal(bytes);
  if (chunk.consumed == 0) return {};
  Attempt after = *attempt;
  Run changed = *run;
  RunSummary& summary = changed.summary;
  after.offset += static_cast<std::int64_t>(chunk.consumed);
  after.damaged += chunk.damaged;
  for (const trainer::JournalRecord& record : chunk.records) {
    if (!after.started) {
      after.started = true;
      after.start_utc = record.utc_seconds - record.seconds;
    }
    std::visit(Apply{record, after, summary}, record.body);
    after.last_seconds = std::max(after.last_seconds, record.seconds);
    summary.last_record_utc = std::max(summary.last_record_utc, record.utc_seconds);
  }
  store_.append(changed, after, chunk.records);
  *attempt = after;
  run->summary = summary;
  return {true, bytes.size() == chunk_bytes_};
}

void Follower::refresh(Run* run) {
  RunSummary& summary = run->summary;
  const std::vector<Attempt> attempts = store_.attempts(run->number);
  const RunAxis axis(attempts);
  summary.training_seconds = 0;
  for (const Attempt& attempt : attempts) summary.training_seconds += attempt.training_seconds;
  if (axis.started()) {
    summary.started_utc = axis.origin_utc();
    summary.axis_seconds = axis.last();
  }
  const std::vector<EvaluationPoint> points =
      evaluation_points(axis, store_.evaluations(run->number, 0), summary.metric);
  summary.time_to_accuracy_seconds = time_to_accuracy(points);
  summary.crossing = summary.crossing_low = summary.crossing_high = std::nullopt;
  if (summary.target && !summary.time_to_accuracy_seconds) {
    const Better better = summary.metric == "mlm_loss" ? Better::Lower : Better::Higher;
    if (const auto crossing = predict_crossing(points, *summary.target, better)) {
      summary.crossing = crossing->seconds;
      summary.crossing_low = crossing->low;
      summary.crossing_high = crossing->high;
    }
  }
  const RecentFigures recent = recent_figures(store_.newest_steps(run->number, kRateSteps));
  if (recent.samples_per_second) {
    summary.samples_per_second = recent.samples_per_second;
    summary.tokens_per_second = recent.tokens_per_second;
  }
  summary.mfu = recent.mfu;
  summary.utilisation = recent.utilisation;
  summary.exposed_share = recent.exposed_share;
  summary.imbalance = recent.imbalance;
  summary.moved_bytes = recent.moved_bytes;
  summary.goodput = recent.goodput;
  summary.noise_scale = recent.noise_scale;
  summary.efficiency = recent.efficiency;
}

}  // namespace regatta::orchestrator
