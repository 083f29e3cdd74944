// The fields of runs, launches and attempts, and of a run directory's files; fields.h says what
// such a list is. Files are written in this order, and answers but for what is computed beside.
#pragma once

#include "orchestrator/runs/fields.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/runs/run_records.h"

namespace regatta::orchestrator::runs {

template <typename Archive, RecordOf<Wait> R>
void fields(Archive& archive, R& r) {
  archive(served("wait_category", "category"), r.category);
  archive(served("wait_action", "action"), r.action);
  archive(served("wait_clears", "clears"), r.clears);
  archive(served("expected_start").moment(), r.expected_start_utc);
  archive(served("next_start").moment(), r.next_start_utc);
}

template <typename Archive, RecordOf<RunSummary> R>
void fields(Archive& archive, R& r) {
  archive(served("started_utc", "started_at").moment(), r.started_utc);
  archive(served("step"), r.step);
  archive(served("steps"), r.steps);
  archive(served("samples"), r.samples);
  archive(served("progress"), r.progress);
  archive(served("batch_size"), r.batch_size);
  archive(served("metric"), r.metric);
  archive(served("value"), r.value);
  archive(served("target"), r.target);
  archive(served("target_times_baseline").fixed(), r.target_times_baseline);
  archive(served("baseline"), r.baseline);
  archive(served("time_to_accuracy", "time_to_accuracy_seconds"), r.time_to_accuracy_seconds);
  archive(served("training_seconds"), r.training_seconds);
  archive(served("samples_per_second"), r.samples_per_second);
  archive(served("tokens_per_second"), r.tokens_per_second);
  archive(served("loss"), r.loss);
  archive(served("mfu"), r.mfu);
  archive(served("utilisation"), r.utilisation);
  archive(served("noise_scale"), r.noise_scale);
  archive(served("noise_scale_low"), r.noise_scale_low);
  archive(served("noise_scale_high"), r.noise_scale_high);
  archive(served("efficiency"), r.efficiency);
  archive(served("goodput"), r.goodput);
  archive(served("exposed_share"), r.exposed_share);
  archive(served("imbalance"), r.imbalance);
  archive(served("moved_bytes"), r.moved_bytes);
  archive(kept("phase"), r.phase);
  archive(kept("checkpoint_step"), r.checkpoint_step);
  archive(kept("checkpoint"), r.checkpoint);
  archive(kept("crossing"), r.crossing);
  archive(kept("crossing_low"), r.crossing_low);
  archive(kept("crossing_high"), r.crossing_high);
  archive(kept("crossing_model"), r.crossing_model);
  archive(kept("axis_seconds"), r.axis_seconds);
  archive(kept("last_record_utc"), r.last_record_utc);
}

// Fixed is what Store::set_wanted() and its like own, beside what never changes.
template <typename Archive, RecordOf<Run> R>
void fields(Archive& archive, R& r) {
  archive(kept("number").fixed(), r.number);
  archive(served("id").fixed(), r.id);
  archive(served("name").fixed(), r.name);
  archive(kept("config").fixed(), r.config);
  archive(kept("kind").fixed(), r.kind);
  archive(served("state"), r.state);
  archive(served("created_utc", "created_at").moment().fixed(), r.created_utc);
  archive(kept("found_utc").fixed(), r.found_utc);
  archive(served("ended_utc", "ended_at").moment(), r.ended_utc);
  archive(served("directory").fixed(), r.directory);
  archive(kept("wanted").fixed(), r.wanted);
  archive(served("scheduler").or_null().fixed(), r.scheduler);
  archive(served("after_runs", "after").terminated('/').fixed(), r.after);
  archive(served("archived").fixed(), r.archived);
  archive(served("owner").or_null().fixed(), r.owner);
  archive(served("tags").terminated('/').fixed(), r.tags);
  archive(served("note").or_null().fixed(), r.note);
  archive(served("changed_utc", "changed_at").moment().fixed(), r.changed_utc);
  archive(served("forked_from").or_null().fixed(), r.forked_from);
  archive(served("forked_checkpoint").or_null().fixed(), r.forked_checkpoint);
  archive(kept("reason"), r.reason);
  archive(served("error").or_null(), r.error);
  archive(kept("failures"), r.failures);
  archive(kept("progress_step"), r.progress_step);
  archive(kept("drained"), r.drained);
  archive(kept("settled"), r.settled);
  archive.part(r.wait);
  archive.part(r.summary);
}

// Its file, too.
template <typename Archive, RecordOf<Launch> R>
void fields(Archive& archive, R& r) {
  archive(served("number", "launch"), r.number);
  archive(kept("token"), r.token);
  archive(kept("handle"), r.handle);
  archive(kept("attempts_before"), r.attempts_before);
  archive(served("started_utc", "submitted_at").moment(), r.started_utc);
  archive(kept("over"), r.over);
  archive(served("exit_code").if_any(), r.exit_code);
  archive(served("signal").if_any(), r.signal);
  archive(kept("replaced").if_any(), r.replaced);
  archive(served("ended_utc", "ended_at").moment().if_any(), r.ended_utc);
  archive(served("gpus").if_any(), r.gpus);
  archive(served("cause").or_null().if_any(), r.cause);
  archive(kept("words").if_any(), r.words);
  archive(served("action").if_any(), r.action);
  archive(served("nodes").if_any(), r.nodes);
  archive(kept("time_limit").if_any(), r.time_limit);
}

template <typename Archive, RecordOf<SlowestRank> R>
void fields(Archive& archive, R& r) {
  archive(served("slowest_rank", "rank"), r.rank);
  archive(served("slowest_step", "step"), r.step);
  archive(served("slowest_phase", "phase"), r.phase);
  archive(served("slowest_seconds", "phase_seconds"), r.phase_seconds);
  archive(kept("slowest_utc"), r.utc);
}

template <typename Archive, RecordOf<Attempt> R>
void fields(Archive& archive, R& r) {
  archive(kept("row").fixed(), r.row);
  archive(served("number", "attempt").fixed(), r.number);
  archive(served("execution").fixed(), r.execution);
  archive(kept("offset"), r.offset);
  archive(kept("damaged"), r.damaged);
  archive(kept("started"), r.started);
  archive(served("start_utc", "started_at").moment(), r.start_utc);
  archive(kept("first_step_begin"), r.first_step_begin);
  archive(served("last_seconds", "seconds"), r.last_seconds);
  archive(kept("process"), r.process);
  archive(served("host").or_null(), r.host);
  archive(kept("hosts"), r.hosts);
  archive(served("first_step"), r.first_step);
  archive(kept("batch_size"), r.batch_size);
  archive(kept("batches"), r.batches);
  archive(kept("ranks"), r.ranks);
  archive(kept("ranks_per_node"), r.ranks_per_node);
  archive(kept("device"), r.device);
  archive(kept("peak_flops"), r.peak_flops);
  archive.part(r.slowest);
  archive(kept("training_seconds"), r.training_seconds);
  archive(served("exit_code"), r.exit_code);
  archive(kept("reason"), r.reason);
  archive(kept("message"), r.message);
  archive(kept("judged").fixed(), r.judged);
}

template <typename Archive, RecordOf<SubmissionRecord> R>
void fields(Archive& archive, R& r) {
  archive(kept("id"), r.id);
  archive(kept("created_utc"), r.created_utc);
  archive(kept("wanted"), r.wanted);
  archive(kept("idempotency_key").if_any(), r.idempotency_key);
  archive(kept("body_digest"), r.body_digest);
  archive(kept("scheduler").if_any(), r.scheduler);
  archive(kept("after").if_any(), r.after);
  archive(kept("archived").if_any(), r.archived);
  archive(kept("owner").if_any(), r.owner);
  archive(kept("tags").if_any(), r.tags);
  archive(kept("note").if_any(), r.note);
  archive(kept("changed_utc").if_any(), r.changed_utc);
  archive(kept("forked_from").if_any(), r.forked_from);
  archive(kept("forked_checkpoint").if_any(), r.forked_checkpoint);
}

template <typename Archive, RecordOf<RecordedState> R>
void fields(Archive& archive, R& r) {
  archive(kept("state"), r.state);
  archive(kept("error").if_any(), r.error);
  archive(kept("ended_utc").if_any(), r.ended_utc);
  archive(kept("failures"), r.failures);
  archive(kept("progress_step"), r.progress_step);
  archive(kept("launch"), r.launch);
  archive(kept("changed_utc").if_any(), r.changed_utc);
}

}  // namespace regatta::orchestrator::runs
