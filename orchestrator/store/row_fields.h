// The fields of series and of what is known of nodes; runs/fields.h says what such a list is.
#pragma once

#include "orchestrator/runs/fields.h"
#include "orchestrator/slurm/node_changes.h"
#include "orchestrator/slurm/node_suspicion.h"
#include "orchestrator/store/events.h"
#include "orchestrator/store/store_reads.h"
#include "orchestrator/store/webhooks.h"

namespace regatta::orchestrator::store {

template <typename Archive, runs::RecordOf<StepRow> R>
void fields(Archive& archive, R& r) {
  archive(runs::kept("cursor"), r.cursor);
  archive(runs::kept("attempt"), r.attempt);
  archive(runs::served("step"), r.step);
  archive(runs::kept("seconds"), r.seconds);
  archive(runs::served("loss"), r.loss);
  archive(runs::served("mlm_loss"), r.mlm_loss);
  archive(runs::served("samples"), r.samples);
  archive(runs::served("tokens"), r.tokens);
  archive(runs::served("step_seconds"), r.step_seconds);
  archive(runs::served("exposed_seconds"), r.exposed_seconds);
  archive(runs::served("imbalance"), r.imbalance);
  archive(runs::served("moved_bytes"), r.moved_bytes);
  archive(runs::served("goodput"), r.goodput);
  archive(runs::served("noise_scale"), r.noise_scale);
  archive(runs::served("noise_scale_low"), r.noise_scale_low);
  archive(runs::served("noise_scale_high"), r.noise_scale_high);
  archive(runs::served("efficiency"), r.efficiency);
  archive(runs::served("mfu"), r.mfu);
  archive(runs::served("utilisation"), r.utilisation);
  archive(runs::served("learning_rate"), r.learning_rate);
  archive(runs::served("bubble"), r.bubble);
  archive(runs::served("bubble_predicted"), r.bubble_predicted);
}

template <typename Archive, runs::RecordOf<EvaluationRow> R>
void fields(Archive& archive, R& r) {
  archive(runs::kept("cursor"), r.cursor);
  archive(runs::kept("attempt"), r.attempt);
  archive(runs::served("step"), r.step);
  archive(runs::kept("seconds"), r.seconds);
  archive(runs::served("mlm_accuracy"), r.mlm_accuracy);
  archive(runs::served("mlm_loss"), r.mlm_loss);
  archive(runs::served("target_met"), r.target_met);
  archive(runs::served("value"), r.value);
  archive(runs::served("metrics"), r.metrics);
}

template <typename Archive, runs::RecordOf<CheckpointRow> R>
void fields(Archive& archive, R& r) {
  archive(runs::kept("cursor"), r.cursor);
  archive(runs::kept("attempt"), r.attempt);
  archive(runs::served("step"), r.step);
  archive(runs::kept("seconds"), r.seconds);
  archive(runs::served("name"), r.name);
  archive(runs::served("bytes"), r.bytes);
  archive(runs::served("whole_seconds", "seconds"), r.whole_seconds);
  archive(runs::served("stall_seconds"), r.stall_seconds);
  archive(runs::served("copy_seconds"), r.copy_seconds);
  archive(runs::served("write_seconds"), r.write_seconds);
  archive(runs::served("sync_seconds"), r.sync_seconds);
  archive(runs::served("status"), r.status);
  archive(runs::served("message").or_null(), r.message);
  archive(runs::served("utc", "at").moment(), r.utc);
}

template <typename Archive, runs::RecordOf<WarningRow> R>
void fields(Archive& archive, R& r) {
  archive(runs::kept("utc"), r.utc);
  archive(runs::kept("message"), r.message);
}

// bucket_bytes comes with an attempt's start, and the rest with its steps.
template <typename Archive, runs::RecordOf<Timeline> R>
void fields(Archive& archive, R& r) {
  archive(runs::served("step"), r.step);
  archive(runs::served("step_seconds"), r.step_seconds);
  archive(runs::served("data_seconds"), r.data_seconds);
  archive(runs::served("forward_seconds"), r.forward_seconds);
  archive(runs::served("backward_seconds"), r.backward_seconds);
  archive(runs::served("reduce_seconds"), r.reduce_seconds);
  archive(runs::served("optimizer_seconds"), r.optimizer_seconds);
  archive(runs::served("exposed_seconds"), r.exposed_seconds);
  archive(runs::kept("bucket_bytes").fixed(), r.bucket_bytes);
  archive(runs::kept("launched"), r.launched);
  archive(runs::kept("finished"), r.finished);
}

template <typename Archive, runs::RecordOf<RankShares> R>
void fields(Archive& archive, R& r) {
  archive(runs::served("step"), r.step);
  archive(runs::kept("tokens"), r.tokens);
  archive(runs::kept("compute_seconds"), r.compute_seconds);
}

template <typename Archive, runs::RecordOf<Event> R>
void fields(Archive& archive, R& r) {
  archive(runs::served("number"), r.number);
  archive(runs::served("utc", "at").moment(), r.utc);
  archive(runs::served("kind"), r.kind);
  archive(runs::served("run").or_null(), r.run);
  archive(runs::served("launch"), r.launch);
  archive(runs::served("attempt"), r.attempt);
  archive(runs::served("step"), r.step);
  archive(runs::served("checkpoint").or_null(), r.checkpoint);
  archive(runs::served("node").or_null(), r.node);
  archive(runs::served("actor", "by").or_null(), r.by);
  archive(runs::served("words").or_null(), r.words);
}

template <typename Archive, runs::RecordOf<slurm::NodeStanding> R>
void fields(Archive& archive, R& r) {
  archive(runs::kept("node"), r.node);
  archive(runs::kept("present"), r.present);
  archive(runs::kept("down"), r.down);
  archive(runs::kept("silent"), r.silent);
  archive(runs::kept("drained"), r.drained);
  archive(runs::kept("reason"), r.reason);
  archive(runs::kept("since_utc"), r.since_utc);
  archive(runs::kept("counted_utc"), r.counted_utc);
  archive(runs::kept("changes"), r.changes);
}

template <typename Archive, runs::RecordOf<WebhookPlace> R>
void fields(Archive& archive, R& r) {
  archive(runs::kept("name"), r.name);
  archive(runs::kept("address"), r.address);
  archive(runs::kept("position"), r.position);
  archive(runs::kept("delivered"), r.delivered);
  archive(runs::kept("delivered_utc"), r.delivered_utc);
  archive(runs::kept("failures"), r.failures);
  archive(runs::kept("failing_since_utc"), r.failing_since_utc);
  archive(runs::kept("next_try_utc"), r.next_try_utc);
  archive(runs::kept("dead"), r.dead);
  archive(runs::kept("error"), r.error);
}

template <typename Archive, runs::RecordOf<slurm::NodeEvent> R>
void fields(Archive& archive, R& r) {
  archive(runs::kept("node"), r.node);
  archive(runs::kept("utc"), r.utc);
  archive(runs::kept("blame"), r.blame);
  archive(runs::kept("run"), r.run);
  archive(runs::kept("words"), r.words);
  archive(runs::kept("weight"), r.weight);
}

}  // namespace regatta::orchestrator::store
