// Records with another value in every member, for tests that ask whether each goes where it should.
// All members are named here once more: one that is added to a record does not compile here until
// it has a name.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/runs/metrics.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/runs/run_records.h"
#include "orchestrator/slurm/node_suspicion.h"
#include "orchestrator/store/events.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::tests {

// In records of four kinds (0 to 3) no two flags have the same values in all.
inline constexpr int kDistinctKinds = 4;

class Distinct {
 public:
  explicit Distinct(int kind = 0) : kind_(kind) {}

  template <typename... Members>
  void fill(Members&... members) {
    (set(members), ...);
  }

  void set(orchestrator::runs::RunSummary& r) {
    auto& [step, steps, samples, progress, batch_size, metric, value, target, target_times_baseline,
           baseline, started_utc, time_to_accuracy_seconds, training_seconds, samples_per_second,
           tokens_per_second, loss, mfu, utilisation, exposed_share, imbalance, moved_bytes,
           goodput, noise_scale, noise_scale_low, noise_scale_high, efficiency, phase,
           checkpoint_step, checkpoint, crossing, crossing_low, crossing_high, crossing_model,
           axis_seconds, last_record_utc] = r;
    fill(step, steps, samples, metric, value, target, target_times_baseline, baseline, started_utc,
         time_to_accuracy_seconds, training_seconds, samples_per_second, tokens_per_second, loss,
         mfu, utilisation, exposed_share, imbalance, moved_bytes, goodput, noise_scale,
         noise_scale_low, noise_scale_high, efficiency, phase, checkpoint_step, checkpoint,
         crossing, crossing_low, crossing_high, crossing_model, axis_seconds, last_record_utc);
    (void)progress, (void)batch_size;  // behind all of the run, whose figures stay as they were
  }
  void set(orchestrator::runs::Wait& r) {
    auto& [category, action, clears, expected_start_utc, next_start_utc] = r;
    fill(category, action, clears, expected_start_utc, next_start_utc);
  }
  void set(orchestrator::runs::Run& r) {
    auto& [number, id, name, config, kind, directory, created_utc, found_utc, wanted, scheduler,
           after, archived, owner, tags, note, changed_utc, forked_from, forked_checkpoint, state,
           reason, wait, error, ended_utc, failures, progress_step, drained, settled, summary] = r;
    fill(number, id, name, config, kind, directory, created_utc, wanted, scheduler, after, archived,
         state, reason, wait, error, ended_utc, failures, progress_step, drained, settled, summary,
         found_utc, owner, tags, note, changed_utc, forked_from, forked_checkpoint,
         summary.progress, summary.batch_size);
  }
  void set(orchestrator::runs::Launch& r) {
    auto& [number, token, handle, attempts_before, started_utc, over, replaced, exit_code, signal,
           ended_utc, cause, words, action, nodes, gpus, time_limit] = r;
    fill(number, token, handle, attempts_before, started_utc, over, replaced, exit_code, signal,
         ended_utc, cause, words, action, nodes, gpus, time_limit);
  }
  void set(orchestrator::runs::SlowestRank& r) {
    auto& [rank, step, phase, phase_seconds, utc] = r;
    fill(rank, step, phase, phase_seconds, utc);
  }
  void set(orchestrator::runs::Attempt& r) {
    auto& [row, number, execution, offset, damaged, started, start_utc, first_step_begin,
           last_seconds, process, host, hosts, first_step, batch_size, batches, ranks,
           ranks_per_node, device, peak_flops, slowest, training_seconds, exit_code, reason,
           message, judged] = r;
    fill(row, number, execution, offset, damaged, started, start_utc, first_step_begin,
         last_seconds, process, host, hosts, first_step, batch_size, ranks, ranks_per_node, device,
         peak_flops, slowest, training_seconds, exit_code, reason, message, judged, batches);
  }
  void set(orchestrator::runs::SubmissionRecord& r) {
    auto& [id, created_utc, wanted, idempotency_key, body_digest, scheduler, after, archived, owner,
           tags, note, changed_utc, forked_from, forked_checkpoint] = r;
    fill(id, created_utc, wanted, idempotency_key, body_digest, scheduler, after, archived, owner,
         tags, note, changed_utc, forked_from, forked_checkpoint);
  }
  void set(orchestrator::runs::RecordedState& r) {
    auto& [state, error, ended_utc, failures, progress_step, launch, changed_utc] = r;
    fill(state, error, ended_utc, failures, progress_step, launch, changed_utc);
  }
  void set(orchestrator::store::StepRow& r) {
    auto& [cursor, attempt, step, seconds, loss, mlm_loss, samples, tokens, step_seconds,
           exposed_seconds, imbalance, moved_bytes, goodput, noise_scale, noise_scale_low,
           noise_scale_high, efficiency, mfu, utilisation, learning_rate, bubble,
           bubble_predicted] = r;
    fill(cursor, attempt, step, seconds, loss, mlm_loss, samples, tokens, step_seconds,
         exposed_seconds, imbalance, moved_bytes, goodput, noise_scale, noise_scale_low,
         noise_scale_high, efficiency, mfu, utilisation, learning_rate, bubble, bubble_predicted);
  }
  void set(orchestrator::store::EvaluationRow& r) {
    auto& [cursor, attempt, step, seconds, mlm_accuracy, mlm_loss, target_met, value, metrics] = r;
    fill(cursor, attempt, step, seconds, mlm_accuracy, mlm_loss, target_met, value, metrics);
  }
  void set(orchestrator::store::CheckpointRow& r) {
    auto& [cursor, attempt, step, seconds, name, status, bytes, whole_seconds, utc, stall_seconds,
           copy_seconds, write_seconds, sync_seconds, message] = r;
    fill(cursor, attempt, step, seconds, name, status, bytes, whole_seconds, utc, stall_seconds,
         copy_seconds, write_seconds, sync_seconds, message);
  }
  void set(orchestrator::store::WarningRow& r) {
    auto& [utc, message] = r;
    fill(utc, message);
  }
  void set(orchestrator::store::Timeline& r) {
    auto& [step, step_seconds, data_seconds, forward_seconds, backward_seconds, reduce_seconds,
           optimizer_seconds, exposed_seconds, bucket_bytes, launched, finished] = r;
    fill(step, step_seconds, data_seconds, forward_seconds, backward_seconds, reduce_seconds,
         optimizer_seconds, exposed_seconds, bucket_bytes, launched, finished);
  }
  void set(orchestrator::store::RankShares& r) {
    auto& [step, tokens, compute_seconds] = r;
    fill(step, tokens, compute_seconds);
  }
  void set(orchestrator::slurm::NodeEvent& r) {
    auto& [node, utc, blame, run, words, weight] = r;
    fill(node, utc, blame, run, words, weight);
  }
  void set(orchestrator::slurm::NodeStanding& r) {
    auto& [node, present, down, silent, drained, reason, since_utc, counted_utc, changes] = r;
    fill(node, present, down, silent, drained, reason, since_utc, counted_utc, changes);
  }
  void set(orchestrator::store::Event& r) {
    auto& [number, utc, kind, run, node, checkpoint, launch, attempt, step, by, words] = r;
    fill(number, utc, kind, run, node, checkpoint, launch, attempt, step, by, words);
  }
  void set(orchestrator::store::WebhookPlace& r) {
    auto& [name, address, position, delivered, delivered_utc, failures, failing_since_utc,
           next_try_utc, dead, error] = r;
    fill(name, address, position, delivered, delivered_utc, failures, failing_since_utc,
         next_try_utc, dead, error);
  }
  void set(orchestrator::runs::NodeBench& r) {
    auto& [node, id, utc, added_utc, kind, workload, text] = r;
    fill(node, id, utc, added_utc, kind, workload, text);
  }

  void set(std::int64_t& value) { value = ++count_; }
  void set(int& value) { value = ++count_; }
  void set(double& value) { value = ++count_ + 0.5; }
  void set(bool& value) { value = ((++flags_ >> kind_) & 1) != 0; }
  void set(std::string& value) { value = "text " + std::to_string(++count_); }
  void set(std::vector<std::string>& value) {
    value = {"one-" + std::to_string(++count_), "two-" + std::to_string(++count_)};
  }
  void set(std::vector<double>& value) { value = {++count_ + 0.5, ++count_ + 0.25}; }
  void set(orchestrator::runs::Metrics& value) {
    value = {{"one-" + std::to_string(++count_), 0.5}, {"two-" + std::to_string(++count_), 0.25}};
  }
  void set(orchestrator::runs::RunNumber& value) {
    value = orchestrator::runs::RunNumber{++count_};
  }
  void set(orchestrator::runs::AttemptNumber& value) {
    value = orchestrator::runs::AttemptNumber{++count_};
  }
  void set(orchestrator::runs::RunState& value) {
    value = static_cast<orchestrator::runs::RunState>(2 + kind_);
  }
  void set(orchestrator::runs::Wanted& value) {
    value = static_cast<orchestrator::runs::Wanted>(kind_ % 3);
  }
  void set(orchestrator::slurm::Blame& value) {
    value = static_cast<orchestrator::slurm::Blame>(1 + kind_);
  }
  template <typename Value>
  void set(std::optional<Value>& value) {
    set(value.emplace());
  }

 private:
  int kind_;
  int count_ = 0;
  int flags_ = 0;
};

template <typename Record>
Record distinct(int kind = 0) {
  Record record{};
  Distinct(kind).set(record);
  return record;
}

}  // namespace regatta::tests
