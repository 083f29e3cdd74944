// Records of the run journal (journal.jsonl of an attempt): one JSON object per line, appended by
// rank 0 only. docs/formats/run_directory.md lists the fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "checkpoint/manifest.h"

namespace regatta::trainer::contract {

// Of a batch that grows, all changes that were decided (batch_schedule.h); none: it does not.
using BatchChanges = std::vector<checkpoint::BatchChange>;

struct StartRecord {
  int attempt = 0;
  std::string execution;
  std::int64_t epoch = 0;  // fencing epoch
  std::int64_t process = 0;
  std::string host;
  std::string version;
  std::int64_t parameters = 0;
  std::int64_t steps = 0;
  int batch_size = 0;    // of growth, the first one's
  BatchChanges batches;  // as the checkpoint resumed from has them
  int ranks = 1;
  int ranks_per_node = 1;
  std::vector<std::string> hosts;          // of each node, in the order of their ranks
  std::string device;                      // of rank 0
  double peak_flops = 0;                   // per second, all ranks; what mfu is measured by
  std::vector<std::int64_t> bucket_bytes;  // in the order of reduction
  std::int64_t first_step = 0;             // steps already done by the checkpoint resumed from
  std::optional<double> first_progress;    // of growth: as StepRecord::progress
  std::string checkpoint;                  // its name; empty when starting from scratch
  std::string metric;                      // of the target; the task's when there is none
  std::optional<double> target;
  std::optional<double> baseline;  // `metric` of the best constant guess on the evaluation set
  std::string task;                // "pretraining", …
};
struct StepRecord {
  std::int64_t step = 0;  // steps done, 1 for the first
  double loss = 0;
  double mlm_loss = 0;  // this and nsp_loss: not a number but in pre-training
  double nsp_loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  std::int64_t samples = 0;  // of this step
  std::int64_t tokens = 0;
  std::int64_t masked = 0;
  double seconds = 0;  // of this step
  double flops = 0;    // of this step, by training_flops
  double data_seconds = 0;
  double forward_seconds = 0;
  double backward_seconds = 0;
  double reduce_seconds = 0;
  double optimizer_seconds = 0;
  double exposed_seconds = 0;  // of communication: nothing else was left to do
  // Of each bucket, seconds since the step's start on rank 0: its reduction's beginning and end.
  std::vector<double> bucket_launched, bucket_finished;
  double imbalance = 1;          // largest number of tokens of a rank / mean
  std::int64_t moved_bytes = 0;  // of samples, between ranks
  // Gradient noise scale in samples, smoothed (McCandlish et al., arXiv 1812.06162), of gradients
  // as the optimizer preconditions them, statistical efficiency and goodput in samples per second
  // (Qiao et al., Pollux, OSDI 2021); absent until known.
  std::optional<double> noise_scale, efficiency, goodput;
  // 95 % confidence; no upper end: the scale may be endless.
  std::optional<double> noise_scale_low, noise_scale_high;
  std::optional<double> raw_noise_scale, raw_noise_scale_low, raw_noise_scale_high;
  double statistics_seconds = 0;  // of the step, for measuring these
  double mfu = 0;                 // model FLOPs of the step / (peak FLOP rate · seconds)
  double utilisation = 0;         // share of the step in which rank 0 computed
  bool input_stalled = false;     // the step waited for its samples
  double making_seconds = 0;  // that a thread of rank 0 took for its samples, beside other steps
  // With pipeline stages, time in which ranks waited over time in which they computed (forward and
  // backward): measured, where the device computes on the host; as the micro-batches' FLOPs predict
  // it; and (stages − 1) / micro-batches, as if all were equal (pipeline_schedule.h).
  std::optional<double> bubble, bubble_predicted, bubble_even;
  // With a batch that grows: how many steps of the first batch all steps so far are worth.
  std::optional<double> progress;
  // ‖Δw‖/‖w‖ of the step, by a sample of the weights (trainer/numerics/update_ratio.h); absent
  // where the step did not look.
  std::optional<double> update_ratio;
  double loss_scale = 1;  // float16: the factor of the gradients
  bool skipped = false;   // float16: the gradients overflowed, nothing was updated
};
struct Metric {
  std::string name;
  double value = 0;
};
struct EvalRecord {
  std::int64_t step = 0;
  // Of pre-training; not numbers for another task, which has `metrics`.
  double mlm_accuracy = 0;
  double mlm_loss = 0;
  double nsp_accuracy = 0;
  // By name, as a run file's target has them ("f1"); the least that a task has is "loss", the mean
  // over samples. Shares and correlations, 1 being perfect.
  std::vector<Metric> metrics;
  std::int64_t samples = 0;
  double seconds = 0;
  bool target_met = false;
};
// The figure of that name, a target's metric; not a number where the record has none.
[[nodiscard]] double value_of(const EvalRecord& record, const std::string& metric);

struct CheckpointRecord {
  std::int64_t step = 0;  // that it is of; of a removal, the one after which it was removed
  std::string name;       // directory below checkpoints/; what removal applies to as well
  std::string status;     // written, failed, removed, skipped (damaged or of another model)
  std::uint64_t bytes = 0;
  double seconds = 0;  // from the step's end until it was whole, or failed
  // Of these: training stood still (copying included), copying to host memory; and, beside
  // training, on the slowest rank: writing, syncing.
  double stall_seconds = 0, copy_seconds = 0, write_seconds = 0, sync_seconds = 0;
  std::string message;
};
struct PhaseRecord {
  std::string phase;  // loading, training, evaluating, checkpointing
};
// Once a second, from several ranks: the rank that is furthest behind.
struct HeartbeatRecord {
  std::int64_t step = 0;  // that it works on
  int rank = 0;
  std::string phase;         // that it is in
  double phase_seconds = 0;  // since it entered it
};
// Once a second at most, from several ranks: what each did in one step, in the ranks' order.
struct RanksRecord {
  std::int64_t step = 0;
  std::vector<std::int64_t> tokens;
  std::vector<double> compute_seconds;  // forward and backward; of GPUs none: hosts only enqueue
};
struct WarningRecord {
  std::string message;
};
// The cuts of the gradient that the attempt's first steps tried, when that is over.
struct TrialRecord {
  std::int64_t step = 0;  // at whose end; the next one has the winner's buckets
  int steps = 0;          // it took, warm-up and disturbed ones included
  int rounds = 0;
  std::vector<std::string>
      cuts;                      // default, plan, remembered, coarser, finer; first: what was there
  std::vector<int> cut_buckets;  // of each
  std::vector<double> cut_seconds;  // of each: the median step, reckoned to the same work; 0: none
  std::string winner;               // of the cuts
  double gain = 0;                  // share of the first cut's step that it saves
  double noise = 0;                 // that a gain had to be beyond, as such a share
  std::string why;
  std::vector<std::int64_t> bucket_bytes;  // the winner's, in the order of reduction
};
// The loss or the gradient of a step was not finite. The step has no record of its own; after a
// rollback others follow with numbers that were there before.
struct DivergenceRecord {
  std::int64_t step = 0;
  // What stopped being finite first: the weight, input, output or gradient (`quantity`) of a tensor
  // of the model, and on which rank. Empty: nothing but a sum.
  std::string quantity;
  std::string tensor;
  std::string layer;  // that it is of (layer_of); empty: nothing but a sum
  int rank = 0;
  std::string action;  // stop, rollback
  // The last good one, or the one that the run goes back to. Empty and -1: none; empty and 0: the
  // run begins again.
  std::string checkpoint;
  std::int64_t checkpoint_step = -1;
  int rollbacks = 0;               // of the run so far, this one included
  std::int64_t skipped_steps = 0;  // whose samples these leave out
  std::string message;             // all of it, for people
};
// The batch is to grow, as was decided after a step that looked at the gradient's noise. An attempt
// that repeats that step says it again.
struct BatchRecord {
  std::int64_t step = 0;  // the first one of that size
  std::int64_t size = 0;
  std::optional<double> noise_scale;  // by which it was decided; its lower end, at 95 %
  double noise_scale_low = 0;
};
// A figure of a step is far above what the attempt's steps before it had
// (trainer/numerics/alarms.h). Nothing was done about it.
struct AlarmRecord {
  std::int64_t step = 0;
  std::string kind;      // gradient_norm, update_ratio
  std::string layer;     // of an update ratio, the one that is furthest out; of a norm empty
  double value = 0;      // of the step
  double usual = 0;      // the median of the steps before it
  double deviation = 0;  // how far above it, in spreads of their logarithms
  std::string message;   // for people
};
// float16: the loss has another factor from the next step on.
struct LossScaleRecord {
  std::int64_t step = 0;
  double from = 1, to = 1;
  std::string why;     // overflow: of the gradients, the step was skipped; quiet: none for long
  std::string tensor;  // of an overflow, what was not finite first, as in a divergence
  std::string quantity, layer;
  int rank = 0;
  std::string message;  // for people
};
// A rank's gradients of a step are not what the same samples gave when they were computed again
// (trainer/numerics/replay_check.h).
struct CorruptionRecord {
  std::int64_t step = 0;
  int rank = 0;               // −1: the ranks do not agree, and nobody can say which is wrong
  std::vector<int> suspects;  // the rank; where nobody can say, those that it may be
  std::string host, device;   // of the rank
  std::string quantity, tensor, layer;  // the first that differs: gradient or weight
  int tensors = 0;                      // that differ
  std::int64_t checked_step = 0;        // the last one before it at which nothing differed; 0: none
  std::string action;                   // stop, warn
  std::string message;                  // for people
};
// How samples are made from the next step on, on rank 0, and why (trainer/samples/input_tuner.h).
struct InputRecord {
  std::int64_t step = 0;
  int workers = 1;
  int prefetch = 1;               // steps ahead
  double samples_per_second = 0;  // that so many workers make
  double demand_per_second = 0;   // that steps take which wait for none
  bool starved = false;           // steps wait for their samples all the same
  // All that was tried, and what a step took then.
  std::vector<int> tried_workers, tried_prefetch;
  std::vector<double> tried_seconds;
  // Of a micro-batch's copy to a GPU, from pinned and from other memory; both 0: not tried.
  double pinned_seconds = 0, ordinary_seconds = 0;
  std::string why;  // for people
};
struct EndRecord {
  std::string reason;     // target, steps, stopped, deadline, diverged, failed, fenced
  std::int64_t step = 0;  // the last one done; of a divergence, the one that diverged
  int exit_code = 0;
  std::string message;
};
// A record of a type this version does not know: kept, never an error.
struct UnknownRecord {
  std::string type;
};

struct JournalRecord {
  std::int64_t sequence = 0;  // 0, 1, 2, … within an attempt
  double utc_seconds = 0;
  double seconds = 0;  // monotonic, since the attempt's start
  std::variant<StartRecord, StepRecord, EvalRecord, CheckpointRecord, PhaseRecord, WarningRecord,
               EndRecord, HeartbeatRecord, TrialRecord, DivergenceRecord, RanksRecord, BatchRecord,
               AlarmRecord, LossScaleRecord, CorruptionRecord, InputRecord, UnknownRecord>
      body;
};

// One line, ending in '\n'.
[[nodiscard]] std::string to_line(const JournalRecord& record);

// Nothing for a line that is not a record (damaged): the reader counts and skips it. `line` comes
// without its '\n'; unknown fields are ignored, absent ones keep their defaults.
[[nodiscard]] std::optional<JournalRecord> parse_record(std::string_view line);

struct JournalChunk {
  std::vector<JournalRecord> records;
  std::size_t consumed = 0;  // bytes up to and including the last '\n'
  int damaged = 0;           // lines that were not records
};
// Splits what was read from an offset; a torn last line is left for the next read.
[[nodiscard]] JournalChunk parse_journal(std::string_view bytes);

}  // namespace regatta::trainer::contract
