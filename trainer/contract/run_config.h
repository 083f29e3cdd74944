// The run file: what a run is. YAML or JSON, one schema, the same as the API's body.
// docs/formats/run_file.md lists every key with its default and unit.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/contract/balance.h"
#include "trainer/contract/data_config.h"
#include "trainer/contract/determinism.h"
#include "trainer/contract/guard_config.h"
#include "trainer/contract/input_config.h"
#include "trainer/contract/model_shape.h"
#include "trainer/contract/parallel_config.h"
#include "trainer/contract/slurm_resources.h"

namespace regatta::base {
struct AskedKey;
class Table;
}  // namespace regatta::base

namespace regatta::trainer::contract {

enum class OptimizerKind { AdamW, Lamb };
enum class ScheduleKind { Constant, Linear, Polynomial };
// Of the learning rate with a batch that grows (batch_schedule.h).
enum class BatchGrowth { None, SquareRoot, AdaScale };
// Of the gradient, by its norm. Global: after the reduction. Bucket, Rank: each rank limits its own
// part of each bucket, or its whole gradient, before the reduction, so that the sum keeps the limit
// (Samsung, arXiv 2402.02447).
enum class ClipMode { None, Global, Bucket, Rank };
enum class BucketPolicy { Plan, Bytes, One, PerLayer };
enum class ExchangeWay { Reread, Move };
// Rollback: to the last good checkpoint, and on with other samples (trainer/run/rollback.h).
enum class OnDivergence { Stop, Rollback };
// Which of them a run can be judged by, its task says. Shares and correlations: 1 is perfect.
enum class TargetMetric {
  MlmAccuracy,
  MlmLoss,
  Exact,  // answers that are word for word one of those expected
  F1,     // of questions by the words they share with those; of classes as GLUE has it
  Accuracy,
  Matthews,
  Pearson,
  Spearman,
  Loss
};
enum class DeviceKind { Cpu, Cuda, Auto };
// Of activations and of the copy of the weights that products read; the weights themselves, their
// gradients and the optimizer's state are float32 always. Tf32: float32 whose products round their
// factors to 10 bits.
enum class Precision { Float32, Tf32, BFloat16, Float16 };
enum class AttentionKind { Automatic, Streamed, Resident, Wgmma, Grouped, Reference };
// Their names in run files and options, in this order.
[[nodiscard]] const std::vector<std::string>& attention_names();

// How questions and their texts are cut, and answers chosen (google-research/bert, run_squad.py).
struct QuestionConfig {
  int doc_stride = 128;       // pieces from one window of a text to the next
  int max_question = 64;      // pieces; what is beyond is cut off
  int max_answer = 30;        // pieces
  int best = 20;              // answers told of each question
  double null_threshold = 0;  // no answer is given when its odds are above it
};

// What fine-tuning does otherwise than pre-training.
struct FineTuningConfig {
  // The learning rate of a layer is this times that of the one above it; of the head it is the
  // optimizer's, of the embeddings that of a layer below the first (Howard & Ruder, arXiv
  // 1801.06146).
  double layer_decay = 1;
  int frozen_layers = 0;       // from the bottom, with the embeddings; 0: nothing is frozen
  double label_smoothing = 0;  // share of a label's weight that all get alike; not of Regression
  friend bool operator==(const FineTuningConfig&, const FineTuningConfig&) = default;
};

// Weights made elsewhere, which the run begins with.
struct StartConfig {
  // A Hugging Face directory, a TensorFlow checkpoint's prefix, a run directory or RUN/checkpoints/
  // step-…; absolute once the run exists.
  std::string path;
  bool optimizer = false;  // its moments and its step, too; only of the same task
  // Instead of a path, a run of the controller that the file is submitted to: RUN, RUN@STEP,
  // RUN@best or RUN@newest. The controller puts the path of its checkpoint there.
  std::string run{};
  bool is_short = false;  // the file gives a text alone: `path`, which may be meant for either
};

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::AdamW;
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
  ScheduleKind schedule = ScheduleKind::Linear;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;  // steps until end_learning_rate; 0: the run's steps
  double power = 1.0;            // of the polynomial
  double end_learning_rate = 0.0;
};

struct TargetConfig {
  TargetMetric metric = TargetMetric::MlmAccuracy;
  std::optional<double> value;
  std::optional<double> times_baseline;  // value = this × the best constant guess (accuracy only)
};

// How the gradient is cut for reduction. Plan: as plan.json of the run directory says, if there is
// one, else Bytes.
struct BucketConfig {
  BucketPolicy by = BucketPolicy::Plan;
  std::int64_t bytes = 0;  // of float32; 0: 4 MiB on the CPU, 25 MiB on a GPU
  bool overlap = true;     // reduction begins within backward, not after it
};

struct BalanceConfig {
  Balance strategy = Balance::GlobalPresort;
  Deal deal = Deal::LongestFirst;
  ExchangeWay exchange = ExchangeWay::Reread;
};

// ZeRO stage 1 (Rajbhandari et al., arXiv 1910.02054): each rank holds and updates one part of the
// optimizer's state.
struct ShardingConfig {
  bool optimizer = false;
  bool overlap_gather = true;  // new weights are gathered within the next forward
};

enum class MllogDivision { Closed, Open };
// A log as MLPerf Training's submitters write them (trainer/run/mllog_writer.h).
struct MllogConfig {
  std::string file;  // relative: below the run directory
  std::string submitter = "unnamed";
  std::string system;  // empty: nodes and devices, as the attempt finds them
  MllogDivision division = MllogDivision::Closed;
};

struct RunConfig {
  std::string name = "run";
  ModelShape model;
  double dropout = 0.1;
  double attention_dropout = 0.1;
  DataConfig data;
  std::optional<StartConfig> from;  // nothing: new weights
  QuestionConfig questions;         // of model.task QuestionAnswering
  FineTuningConfig fine_tuning;
  OptimizerConfig optimizer;
  int batch_size = 32;  // samples per optimizer step, over all ranks; of growth, the first one's
  BatchGrowth growth = BatchGrowth::None;
  int max_batch = 0;         // of growth, which always says it
  int micro_batch_size = 0;  // samples per forward/backward of a rank; 0: all at once
  ClipMode clip = ClipMode::Global;
  double clip_norm = 1.0;
  std::int64_t steps = 1000;  // of batch_size samples; with growth, optimizer steps are fewer
  std::int64_t evaluate_every = 100;  // steps; also after the last one
  // At most; fixed for the whole run. 0, a task's default: all there are. Of a task, questions or
  // examples.
  int evaluate_samples = 1024;
  std::optional<TargetConfig> target;
  bool stop_at_target = true;
  std::int64_t checkpoint_every = 200;  // steps; also at the end, at the target and when stopped
  int keep_last = 3;                    // checkpoints
  int keep_best = 0;                    // beside them, by the target's metric
  std::int64_t keep_every = 0;          // beside them, those of steps that it divides; 0: none
  bool checkpoint_async = true;         // false: training waits until each is on the disk
  OnDivergence on_divergence = OnDivergence::Stop;
  int max_rollbacks = 3;  // of the whole run; the divergence after them ends it
  std::uint64_t seed = 1;
  DeterminismConfig determinism;
  DeviceKind device = DeviceKind::Cpu;  // Auto: a GPU if one can be used, else the CPU
  Precision dtype = Precision::Float32;
  AttentionKind attention = AttentionKind::Automatic;  // CUDA only
  int token_bucket = 0;  // tokens of a micro-batch are rounded up to it; 0: as the device likes
  bool graphs = true;    // CUDA graphs
  int threads = 0;       // per rank; 0: the cores this process may use
  int ranks = 1;
  int ranks_per_node = 0;     // 0: as found
  ParallelConfig parallel;    // with stages, ranks is a multiple of them
  bool hierarchical = false;  // sums go through the node first
  BucketConfig buckets;
  BalanceConfig balance;
  ShardingConfig sharding;
  int base_batch = 0;         // of statistical efficiency: samples; 0: one
  int statistics_every = 50;  // steps from one look at the gradient's noise to the next; 0: none
  double peak_tflops = 0;     // of one rank's device, for model FLOP utilisation; 0: measured
  GuardConfig guard;
  InputConfig input;
  double watchdog_seconds = 20;  // a phase may take this long, or as long as it learned; 0: off
  bool shuffle_labels =
      false;  // control experiment: nothing can be learned but the label frequencies
  std::optional<MllogConfig> mllog;
  std::optional<SlurmResources> slurm;  // see slurm_resources_of()
};

// What the run asks of Slurm, also when its file does not say.
[[nodiscard]] SlurmResources slurm_resources_of(const RunConfig& config);

// As in the run file.
[[nodiscard]] const std::string& name_of(Precision precision);
[[nodiscard]] const std::string& name_of(OptimizerKind kind);
[[nodiscard]] const std::string& name_of(MllogDivision division);
[[nodiscard]] const std::string& name_of(BatchGrowth growth);

[[nodiscard]] inline bool grows(const RunConfig& config) {
  return config.growth != BatchGrowth::None;
}
// Why the run cannot have a batch that grows, and the key that is in the way; nothing: it can, or
// has none. Also of what a command line adds.
struct GrowthRefusal {
  std::string section, key;  // "batch", "growth"
  std::string message;       // what is the matter and what to do
};
[[nodiscard]] std::optional<GrowthRefusal> refuse_growth(const RunConfig& config);

// What a task is judged by if nothing else is said, and as the journal names it.
[[nodiscard]] TargetMetric standard_metric(Task task);
[[nodiscard]] const std::string& name_of(TargetMetric metric);
[[nodiscard]] bool is_loss(TargetMetric metric);  // less is better
// What a run is judged by: its target's metric, else its task's.
[[nodiscard]] TargetMetric judged_by(const RunConfig& config);
// Its name.
[[nodiscard]] const std::string& metric_of(const RunConfig& config);

// Throws Code::User with "source:line: path: …". Relative data paths stay relative.
// asked: as Table::parse() has it (run_schema.h).
[[nodiscard]] RunConfig parse_run_config(std::string_view text, const std::string& source,
                                         std::list<base::AskedKey>* asked = nullptr);
// The same of a file with sections that are not a run's, which `others` reads from its root.
[[nodiscard]] RunConfig parse_run_config(std::string_view text, const std::string& source,
                                         const std::function<void(base::Table& root)>& others);

// Throws Code::User, naming `source`, where the run begins with one of a controller: only that
// knows its runs.
void refuse_runs_of_controllers(const RunConfig& config, const std::string& source);

// The canonical JSON of a configuration: every key, fixed order, so equal configurations give equal
// text. parse_run_config reads it back.
[[nodiscard]] std::string to_json(const RunConfig& config);

// Digest of what decides the weights' meaning (model sizes, activation, vocabulary): a checkpoint
// fits a run only if these agree.
[[nodiscard]] std::string model_fingerprint(const ModelShape& shape);

}  // namespace regatta::trainer::contract
