#include "orchestrator/control/follower.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "orchestrator/runs/batch_of_attempt.h"
#include "orchestrator/runs/crossing.h"
#include "orchestrator/store/predictions.h"
#include "orchestrator/store/series.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator::control {
namespace {

constexpr int kRateSteps = 20;  // the figures shown are means over so many steps

// What one record changes in the attempt and in the run, beside its row.
struct Apply {
  const trainer::contract::JournalRecord& record;
  runs::Attempt& attempt;
  runs::RunSummary& summary;
  const std::string& forked_checkpoint;

  void operator()(const trainer::contract::StartRecord& start) const {
    attempt.process = start.process;
    attempt.host = start.host;
    attempt.hosts = start.hosts;
    attempt.first_step = start.first_step;
    attempt.batch_size = start.batch_size;
    attempt.batches = runs::batch_texts(start.batches);
    attempt.ranks = std::max(1, start.ranks);
    attempt.ranks_per_node = std::max(1, start.ranks_per_node);
    attempt.device = start.device;
    attempt.peak_flops = std::isfinite(start.peak_flops) ? std::max(0.0, start.peak_flops) : 0;
    attempt.slowest.reset();
    summary.steps = start.steps;
    summary.progress = start.first_progress;
    be_at(start.first_step);
    // Where the newest was skipped. A fork has written none of its own yet.
    if (summary.checkpoint.empty() && start.checkpoint != forked_checkpoint) {
      summary.checkpoint = start.checkpoint;
      if (!start.checkpoint.empty()) summary.checkpoint_step = start.first_step;
    }
    if (!start.metric.empty()) summary.metric = start.metric;
    summary.target = start.target;
    summary.baseline = start.baseline;
  }
  void operator()(const trainer::contract::StepRecord& step) const {
    if (!attempt.first_step_begin) attempt.first_step_begin = record.seconds - step.seconds;
    attempt.training_seconds += std::max(0.0, step.seconds);
    be_at(step.step);
    if (step.progress) summary.progress = step.progress;
    summary.loss = std::isfinite(step.loss) ? std::optional(step.loss) : std::nullopt;
  }
  void operator()(const trainer::contract::EvalRecord& evaluation) const {
    const double value = trainer::contract::value_of(evaluation, summary.metric);
    summary.value = std::isfinite(value) ? std::optional(value) : std::nullopt;
  }
  void operator()(const trainer::contract::CheckpointRecord& checkpoint) const {
    if (checkpoint.status == "written") {
      summary.checkpoint_step = checkpoint.step;
      summary.checkpoint = checkpoint.name;
    } else if ((checkpoint.status == "removed" || checkpoint.status == "skipped") &&
               checkpoint.name == summary.checkpoint) {
      summary.checkpoint_step = -1;
      summary.checkpoint.clear();
    }
  }
  void operator()(const trainer::contract::PhaseRecord& phase) const {
    summary.phase = phase.phase;
  }
  void operator()(const trainer::contract::EndRecord& end) const {
    attempt.exit_code = end.exit_code;
    attempt.reason = end.reason;
    if (!end.message.empty()) attempt.message = end.message;
    attempt.slowest.reset();
    summary.phase.clear();
  }
  void operator()(const trainer::contract::HeartbeatRecord& heartbeat) const {
    attempt.slowest = {heartbeat.rank, heartbeat.step, heartbeat.phase, heartbeat.phase_seconds,
                       record.utc_seconds};
  }
  void operator()(const trainer::contract::WarningRecord&) const {}
  void operator()(const trainer::contract::TrialRecord&) const {}
  void operator()(const trainer::contract::RanksRecord&) const {}
  void operator()(const trainer::contract::DivergenceRecord& divergence) const {
    if (divergence.action != "rollback") return;  // the end says it
    attempt.message = divergence.message;
    be_at(std::max<std::int64_t>(0, divergence.checkpoint_step));
    summary.loss.reset();
  }
  void operator()(const trainer::contract::BatchRecord& batch) const {
    runs::add_batch(batch, &attempt);
  }
  void operator()(const trainer::contract::AlarmRecord&) const {}
  void operator()(const trainer::contract::LossScaleRecord&) const {}
  void operator()(const trainer::contract::CorruptionRecord&) const {}
  void operator()(const trainer::contract::InputRecord&) const {}
  void operator()(const trainer::contract::UnknownRecord&) const {}

  void be_at(std::int64_t step) const {
    summary.step = step;
    summary.samples = runs::samples_after(attempt, step);
    summary.batch_size = runs::batch_at(attempt, step);
  }
};

void add_corruption(const trainer::contract::JournalRecord& record, int attempt,
                    std::vector<FollowedCorruption>* all) {
  const auto* told = std::get_if<trainer::contract::CorruptionRecord>(&record.body);
  if (told == nullptr || told->rank < 0) return;
  all->push_back({attempt, told->host, told->message, record.utc_seconds});
}

}  // namespace

ReadingOrder Follower::order(const runs::Run& run,
                             const std::vector<runs::Attempt>& attempts) const {
  ReadingOrder order;
  order.directory = run.directory;
  order.chunk_bytes = chunk_bytes_;
  for (const runs::Attempt& attempt : attempts) {
    const bool later = attempt.number < attempts.back().number;
    order.attempts[trainer::contract::AttemptName{attempt.number, attempt.execution}.text()] = {
        attempt.offset, later && attempt.judged, attempt.judged};
  }
  return order;
}

Followed Follower::take(runs::Run* run, std::vector<runs::Attempt>* attempts,
                        const RunReading& reading) {
  Followed all;
  bool moves_axis = false;
  for (const trainer::contract::AttemptName& name : reading.attempts) {
    const auto is_this = [&](const runs::Attempt& a) {
      return a.number == name.number && a.execution == name.execution;
    };
    if (std::none_of(attempts->begin(), attempts->end(), is_this)) {
      runs::Attempt fresh;
      fresh.number = name.number;
      fresh.execution = name.execution;
      fresh.row = store_.add_attempt(run->number, name.number, name.execution);
      attempts->push_back(fresh);
    }
    const auto part =
        std::find_if(reading.parts.begin(), reading.parts.end(), [&](const JournalPart& each) {
          return each.name.number == name.number && each.name.execution == name.execution;
        });
    if (part == reading.parts.end()) continue;
    if (part->trouble) {
      all.trouble = part->trouble->what();
      continue;
    }
    const bool behind =
        std::any_of(attempts->begin(), attempts->end(),
                    [&](const runs::Attempt& a) { return a.number > name.number && a.started; });
    const Taken taken =
        take_part(run, &*std::find_if(attempts->begin(), attempts->end(), is_this), *part, behind);
    all.corruption.insert(all.corruption.end(), taken.corruption.begin(), taken.corruption.end());
    all.read_any = all.read_any || taken.any;
    moves_axis = moves_axis || taken.moves_axis;
    all.more = all.more || (taken.any && part->more);
    if (part->more) break;  // what follows was not read
  }
  std::sort(attempts->begin(), attempts->end(), [](const runs::Attempt& a, const runs::Attempt& b) {
    return a.number != b.number ? a.number < b.number : a.execution < b.execution;
  });
  if (moves_axis) {
    refresh(run, *attempts);
  } else if (all.read_any) {
    refresh_axis(run, *attempts);
    refresh_rates(run);
  }
  return all;
}

Follower::Taken Follower::take_part(runs::Run* run, runs::Attempt* attempt, const JournalPart& part,
                                    bool behind) {
  const trainer::contract::JournalChunk chunk = trainer::contract::parse_journal(part.bytes);
  if (chunk.consumed == 0) return {};
  Taken taken{true, false, {}};
  runs::Attempt after = *attempt;
  runs::Run changed = *run;
  runs::RunSummary& summary = changed.summary;
  const runs::RunSummary newer = summary;
  after.offset += static_cast<std::int64_t>(chunk.consumed);
  after.damaged += chunk.damaged;
  for (const trainer::contract::JournalRecord& record : chunk.records) {
    if (!after.started) {
      after.started = true;
      after.start_utc = record.utc_seconds - record.seconds;
      taken.moves_axis = true;
    }
    if (!after.first_step_begin ||
        std::holds_alternative<trainer::contract::EvalRecord>(record.body)) {
      taken.moves_axis = true;
    }
    std::visit(Apply{record, after, summary, run->forked_checkpoint}, record.body);
    add_corruption(record, after.number, &taken.corruption);
    after.last_seconds = std::max(after.last_seconds, record.seconds);
    summary.last_record_utc = std::max(summary.last_record_utc, record.utc_seconds);
  }
  if (behind) {
    const runs::RunSummary older = std::exchange(summary, newer);
    if (older.checkpoint_step > newer.checkpoint_step) {
      summary.checkpoint_step = older.checkpoint_step;
      summary.checkpoint = older.checkpoint;
    }
    summary.last_record_utc = std::max(older.last_record_utc, newer.last_record_utc);
  }
  store::take_changes(&changed);
  store_.append(changed, after, chunk.records);
  *attempt = after;
  run->summary = summary;
  return taken;
}

void Follower::refresh_axis(runs::Run* run, const std::vector<runs::Attempt>& attempts) {
  runs::RunSummary& summary = run->summary;
  const store::RunAxis axis(attempts);
  summary.training_seconds = 0;
  for (const runs::Attempt& attempt : attempts)
    summary.training_seconds += attempt.training_seconds;
  if (!axis.started()) return;
  summary.started_utc = axis.origin_utc();
  summary.axis_seconds = axis.last();
}

void Follower::refresh(runs::Run* run, const std::vector<runs::Attempt>& attempts) {
  refresh_axis(run, attempts);
  refresh_rates(run);
  runs::RunSummary& summary = run->summary;
  const std::vector<runs::EvaluationPoint> points =
      store::evaluation_points(store::RunAxis(attempts), store_.evaluations(run->number, 0), *run);
  summary.time_to_accuracy_seconds = runs::time_to_accuracy(points);
  summary.crossing = summary.crossing_low = summary.crossing_high = std::nullopt;
  summary.crossing_model.clear();
  if (!summary.target || summary.time_to_accuracy_seconds || runs::is_over(run->state)) return;
  const auto crossing = runs::predict_crossing(
      points, *summary.target, runs::better_of(summary.metric), past_of(*run), summary.metric);
  if (!crossing) return;
  summary.crossing = crossing->seconds;
  summary.crossing_low = crossing->low;
  summary.crossing_high = crossing->high;
  summary.crossing_model = runs::name_of(crossing->model);
}

void Follower::take_changes(runs::Run* run, const std::vector<runs::Attempt>& attempts) {
  if (!run->changed_utc) return;
  store::take_changes(run);
  refresh(run, attempts);
}

const std::vector<runs::PastRun>& Follower::past_of(const runs::Run& run) {
  const std::pair key{run.number, run.summary.target.value_or(0)};
  const auto found = past_.find(key);
  if (found != past_.end()) return found->second;
  if (past_.size() > kMostPast) past_.clear();
  return past_.emplace(key, store::past_runs(store_, run)).first->second;
}

void Follower::refresh_rates(runs::Run* run) {
  runs::RunSummary& summary = run->summary;
  const store::RecentFigures recent =
      store::recent_figures(store_.newest_steps(run->number, kRateSteps));
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
  summary.noise_scale_low = recent.noise_scale_low;
  summary.noise_scale_high = recent.noise_scale_high;
  summary.efficiency = recent.efficiency;
}

}  // namespace regatta::orchestrator::control
