#include "trainer/contract/run_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/digest.h"
#include "base/document.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "trainer/contract/other_names.h"
#include "trainer/contract/read_range.h"

namespace regatta::trainer::contract {
namespace {

using base::Table;

const std::vector<std::string> kGelus{"erf", "tanh"};
const std::vector<std::string> kOptimizers{"adamw", "lamb"};
const std::vector<std::string> kSchedules{"constant", "linear", "polynomial"};
const std::vector<std::string> kGrowths{"none", "square_root", "adascale"};
const std::vector<std::string> kClips{"none", "global", "bucket", "rank"};
const std::vector<std::string> kBucketPolicies{"plan", "bytes", "one", "per_layer"};
const std::vector<std::string> kBalances{"none", "stratified", "global_presort", "exchange",
                                         "packed"};
const std::vector<std::string> kDeals{"stride", "snake", "longest_first"};
const std::vector<std::string> kExchangeWays{"reread", "move"};
const std::vector<std::string> kDivergences{"stop", "rollback"};
const std::vector<std::string> kMetrics{"mlm_accuracy", "mlm_loss", "exact",    "f1",  "accuracy",
                                        "matthews",     "pearson",  "spearman", "loss"};
const std::vector<std::string> kDevices{"cpu", "cuda", "auto"};
const std::vector<std::string> kDivisions{"closed", "open"};
const std::vector<std::string> kDtypes{"float32", "tf32", "bfloat16", "float16"};

// Steps and samples are 32-bit words of a random counter; a thousand million leaves room.
constexpr std::int64_t kMaxSteps = 1'000'000'000;
constexpr int kMaxBatch = 1 << 20;
constexpr int kMaxRollbacks = 1000;  // each stands in every later manifest
// The largest rate whose 16-bit threshold still keeps something.
constexpr double kMaxDropout = 0.9999;
constexpr std::size_t kMostMllogText = 1024;

void read_name(Table& table, std::string* name) {
  table.read("name", name);
  const auto letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  bool good = !name->empty() && name->size() <= 64 && letter_or_digit(name->front());
  for (const char c : *name) {
    good = good && (letter_or_digit(c) || c == '.' || c == '_' || c == '-');
  }
  if (!good) {
    table.fail("name", "is '" + base::printable(name->substr(0, 80)) +
                           "'; use 1 to 64 of A-Z a-z 0-9 . _ -, starting with a letter or digit");
  }
}

void read_model(Table& root, RunConfig* config) {
  Table table = root.table("model");
  ModelShape& shape = config->model;
  std::string preset;
  table.read("preset", &preset);
  if (!preset.empty()) {
    try {
      shape = preset_shape(preset);
    } catch (const base::Error& error) {
      table.fail("preset", error.what());
    }
  }
  read_range(table, "layers", &shape.layers, 1, kMostLayers);
  read_range(table, "hidden", &shape.hidden, 1, kMostHidden);
  read_range(table, "heads", &shape.heads, 1, kMostHeads);
  read_range(table, "feed_forward", &shape.feed_forward, 1, kMostFeedForward);
  read_range(table, "max_positions", &shape.max_positions, 1, kMostPositions);
  read_range(table, "vocabulary", &shape.vocabulary, 0, kMostVocabulary);
  table.read_enum("gelu", kGelus, &shape.gelu);
  read_range(table, "dropout", &config->dropout, 0, kMaxDropout);
  read_range(table, "attention_dropout", &config->attention_dropout, 0, kMaxDropout);
  table.finish();
  try {
    check_shape(shape);
  } catch (const base::Error& error) {
    root.fail("model", error.what());
  }
}

void read_task(Table& root, RunConfig* config) {
  Task& task = config->model.task;
  root.read_enum("task", task_names(), &task);
  const auto not_of_task = [&](const char* key) {
    if (!root.has(key)) return;
    root.fail(key, "does not go with task " + name_of(task) + "; leave it out, or set the task");
  };
  Table questions = root.table("questions");
  read_range(questions, "doc_stride", &config->questions.doc_stride, 1, kMostLength);
  read_range(questions, "max_question", &config->questions.max_question, 1, kMostLength);
  read_range(questions, "max_answer", &config->questions.max_answer, 1, kMostLength);
  read_range(questions, "best", &config->questions.best, 1, 1000);
  read_range(questions, "null_threshold", &config->questions.null_threshold, -1e6, 1e6);
  questions.finish();
  if (task != Task::QuestionAnswering) not_of_task("questions");
  Table tuning = root.table("fine_tuning");
  FineTuningConfig& fine_tuning = config->fine_tuning;
  read_range(tuning, "layer_decay", &fine_tuning.layer_decay, 0, 1, Ends::OpenLow);
  read_range(tuning, "frozen_layers", &fine_tuning.frozen_layers, 0, config->model.layers);
  read_range(tuning, "label_smoothing", &fine_tuning.label_smoothing, 0, 1, Ends::OpenHigh);
  tuning.finish();
  if (task == Task::Regression && fine_tuning.label_smoothing > 0) {
    tuning.fail("label_smoothing", "is of labels, and a regression has none; leave it out");
  }
}

void check_path(const Table& table, const std::string& key, const std::string& path) {
  bool control = path.size() > 4096;
  for (const char c : path) {
    control = control || static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  }
  if (control) table.fail(key, "not a path; use at most 4096 bytes and no control characters");
}

void read_from(Table& root, RunConfig* config) {
  if (!root.has("from")) return;
  StartConfig from;
  if (root.is_table("from")) {
    Table table = root.table("from");
    table.read("path", &from.path);
    table.read("run", &from.run);
    table.read("optimizer", &from.optimizer);
    table.finish();
    check_path(table, "path", from.path);
    check_path(table, "run", from.run);
    if (!from.path.empty() && !from.run.empty()) {
      table.fail("run", "and from.path name two models; give one of them");
    }
  } else {
    root.read("from", &from.path);
    check_path(root, "from", from.path);
    from.is_short = true;
  }
  if (from.path.empty() && from.run.empty()) {
    root.fail("from",
              "names nothing; give a Hugging Face directory, a TensorFlow checkpoint, a run "
              "or a checkpoint, or leave it out");
  }
  config->from = std::move(from);
}

void read_optimizer(Table& root, RunConfig* config) {
  Table table = root.table("optimizer");
  OptimizerConfig& optimizer = config->optimizer;
  table.read_enum("name", kOptimizers, &optimizer.kind);
  read_range(table, "learning_rate", &optimizer.learning_rate, 0, 1000, Ends::OpenLow);
  read_range(table, "beta1", &optimizer.beta1, 0, 1, Ends::OpenHigh);
  read_range(table, "beta2", &optimizer.beta2, 0, 1, Ends::OpenHigh);
  read_range(table, "epsilon", &optimizer.epsilon, 0, 1, Ends::OpenLow);
  read_range(table, "weight_decay", &optimizer.weight_decay, 0, 1000);
  table.read_enum("schedule", kSchedules, &optimizer.schedule);
  read_range(table, "decay_steps", &optimizer.decay_steps, 0, kMaxSteps);
  const std::int64_t decay = optimizer.decay_steps > 0 ? optimizer.decay_steps : config->steps;
  read_range(table, "warmup_steps", &optimizer.warmup_steps, 0, decay);
  read_range(table, "power", &optimizer.power, 0, 100, Ends::OpenLow);
  read_range(table, "end_learning_rate", &optimizer.end_learning_rate, 0, optimizer.learning_rate);
  table.finish();
}

// The first is the one that a run of the task is judged by.
const std::vector<TargetMetric>& metrics_of(Task task) {
  using enum TargetMetric;
  static const std::vector<std::vector<TargetMetric>> metrics{{MlmAccuracy, MlmLoss},
                                                              {F1, Exact, Loss},
                                                              {Accuracy, F1, Matthews, Loss},
                                                              {Pearson, Spearman, Loss}};
  return metrics.at(static_cast<std::size_t>(task));
}

std::string names_of(const std::vector<TargetMetric>& metrics) {
  std::vector<std::string> names;
  for (const TargetMetric metric : metrics) names.push_back(name_of(metric));
  const std::string last = names.back();
  names.pop_back();
  return base::join(names, ", ") + " or " + last;
}

void read_target(Table& root, RunConfig* config) {
  Table table = root.table("target");
  if (!root.is_table("target")) return;
  TargetConfig target;
  target.metric = standard_metric(config->model.task);
  table.read_enum("metric", kMetrics, &target.metric);
  table.read("value", &target.value);
  table.read("times_baseline", &target.times_baseline);
  table.read("stop", &config->stop_at_target);
  table.finish();
  if (target.value.has_value() == target.times_baseline.has_value()) {
    table.fail(target.value ? "times_baseline" : "value",
               "use exactly one of target.value and target.times_baseline");
  }
  const std::vector<TargetMetric>& possible = metrics_of(config->model.task);
  if (std::find(possible.begin(), possible.end(), target.metric) == possible.end()) {
    table.fail("metric", "is " + name_of(target.metric) + ", which task " +
                             name_of(config->model.task) + " has not; use " + names_of(possible));
  }
  const bool share = !is_loss(target.metric);
  // A constant guess has a correlation of 0, and no loss.
  const bool correlates = target.metric == TargetMetric::Matthews ||
                          target.metric == TargetMetric::Pearson ||
                          target.metric == TargetMetric::Spearman;
  if (target.times_baseline && (!share || correlates)) {
    table.fail("times_baseline", "is of no " + name_of(target.metric) +
                                     ", which a constant guess has none of; use value");
  }
  if (target.value) read_range(table, "value", &*target.value, 0, share ? 1 : 1000, Ends::OpenLow);
  if (target.times_baseline) {
    read_range(table, "times_baseline", &*target.times_baseline, 0, 1e6, Ends::OpenLow);
  }
  config->target = target;
}

void read_policies(Table& root, RunConfig* config) {
  Table batch = root.table("batch");
  read_range(batch, "size", &config->batch_size, 1, kMaxBatch);
  read_range(batch, "micro", &config->micro_batch_size, 0, config->batch_size);
  batch.read_enum("growth", kGrowths, &config->growth);
  read_range(batch, "max_size", &config->max_batch, 0, kMaxBatch);
  batch.finish();
  Table clip = root.table("clip");
  clip.read_enum("mode", kClips, &config->clip);
  read_range(clip, "norm", &config->clip_norm, 0, 1e9, Ends::OpenLow);
  clip.finish();
  Table evaluate = root.table("evaluate");
  read_range(evaluate, "every", &config->evaluate_every, 1, kMaxSteps);
  if (config->model.task != Task::Pretraining) config->evaluate_samples = 0;
  read_range(evaluate, "samples", &config->evaluate_samples, 0, 1 << 30);
  evaluate.finish();
  Table checkpoint = root.table("checkpoint");
  read_range(checkpoint, "every", &config->checkpoint_every, 1, kMaxSteps);
  read_range(checkpoint, "keep_last", &config->keep_last, 1, 1'000'000);
  read_range(checkpoint, "keep_best", &config->keep_best, 0, 1'000'000);
  read_range(checkpoint, "keep_every", &config->keep_every, 0, kMaxSteps);
  checkpoint.read("async", &config->checkpoint_async);
  checkpoint.finish();
  root.read_enum("on_divergence", kDivergences, &config->on_divergence);
  read_range(root, "max_rollbacks", &config->max_rollbacks, 1, kMaxRollbacks);
}

void check_question_length(Table& root, const RunConfig& config) {
  constexpr int kSpecials = 3;
  const int question = config.questions.max_question, window = config.data.max_length;
  if (config.model.task != Task::QuestionAnswering || question < window - kSpecials) return;
  root.table("questions")
      .fail("max_question",
            "is " + text_of(question) + ", and data.max_length " + text_of(window) +
                " has no room for text beside it and 3 special tokens; lower it, or "
                "raise data.max_length (384 is usual)");
}

void check_parallel(Table& root, const RunConfig& config) {
  const std::optional<ParallelRefusal> refusal = refuse_parallel(config);
  if (!refusal) return;
  const std::size_t dot = refusal->key.rfind('.');
  if (dot == std::string::npos) root.fail(refusal->key, refusal->message);
  root.table(refusal->key.substr(0, dot)).fail(refusal->key.substr(dot + 1), refusal->message);
}

void check_growth(Table& root, const RunConfig& config) {
  const std::optional<GrowthRefusal> refusal = refuse_growth(config);
  if (!refusal) return;
  if (refusal->section.empty()) root.fail(refusal->key, refusal->message);
  root.table(refusal->section).fail(refusal->key, refusal->message);
}

void read_ranks(Table& root, RunConfig* config) {
  read_parallel(root, config);
  read_range(root, "ranks", &config->ranks, 1, config->batch_size * config->parallel.pipeline);
  root.read("ranks_per_node", &config->ranks_per_node);
  const int per_node = config->ranks_per_node;
  if (per_node < 0 || (per_node > 0 && config->ranks % per_node != 0)) {
    const std::string ranks = text_of(config->ranks);
    root.fail("ranks_per_node",
              "is " + text_of(per_node) + ", and ranks is " + ranks +
                  (per_node > config->ranks ? " (--ranks comes after the file): set ranks to a "
                                              "multiple of it, or use a divisor of "
                                            : "; use a divisor of ") +
                  ranks + ", or 0 for as many as are found on each node");
  }
  root.read("hierarchical", &config->hierarchical);
  Table buckets = root.table("buckets");
  buckets.read_enum("by", kBucketPolicies, &config->buckets.by);
  read_range(buckets, "bytes", &config->buckets.bytes, 0, std::int64_t{1} << 40);
  buckets.read("overlap", &config->buckets.overlap);
  buckets.finish();
  Table balance = root.table("balance");
  balance.read_enum("strategy", kBalances, &config->balance.strategy);
  balance.read_enum("deal", kDeals, &config->balance.deal);
  balance.read_enum("exchange", kExchangeWays, &config->balance.exchange);
  balance.finish();
  Table sharding = root.table("sharding");
  sharding.read("optimizer", &config->sharding.optimizer);
  sharding.read("overlap_gather", &config->sharding.overlap_gather);
  sharding.finish();
  Table statistics = root.table("statistics");
  read_range(statistics, "base_batch", &config->base_batch, 0, kMaxBatch);
  read_range(statistics, "every", &config->statistics_every, 0, kMaxBatch);
  read_range(statistics, "peak_tflops", &config->peak_tflops, 0, 1e6);
  statistics.finish();
  read_guard(root, &config->guard);
  read_input(root, &config->input);
  Table watchdog = root.table("watchdog");
  read_range(watchdog, "seconds", &config->watchdog_seconds, 0, 86400);
  watchdog.finish();
  check_parallel(root, *config);
}

void read_mllog(Table& root, RunConfig* config) {
  if (!root.has("mllog")) return;
  Table table = root.table("mllog");
  MllogConfig mllog;
  for (const auto& [key, value] :
       {std::pair("file", &mllog.file), std::pair("submitter", &mllog.submitter),
        std::pair("system", &mllog.system)}) {
    table.read(key, value);
    if (value->size() > kMostMllogText) {
      table.fail(key, "is longer than " + text_of(kMostMllogText) + " bytes; shorten it");
    }
  }
  table.read_enum("division", kDivisions, &mllog.division);
  if (mllog.file.empty()) table.fail("file", "missing; name the file that the log is to be in");
  if (mllog.submitter.empty()) table.fail("submitter", "is empty; name who ran it");
  table.finish();
  config->mllog = std::move(mllog);
}

template <typename Enum>
const std::string& name_of(const std::vector<std::string>& names, Enum value) {
  return names.at(static_cast<std::size_t>(value));
}

nlohmann::ordered_json target_json(const TargetConfig& target, const RunConfig& config) {
  nlohmann::ordered_json json;
  json["metric"] = name_of(kMetrics, target.metric);
  if (target.value) json["value"] = *target.value;
  if (target.times_baseline) json["times_baseline"] = *target.times_baseline;
  json["stop"] = config.stop_at_target;
  return json;
}

// Of a batch that does not grow as it always was.
nlohmann::ordered_json batch_json(const RunConfig& config) {
  nlohmann::ordered_json json{{"size", config.batch_size}, {"micro", config.micro_batch_size}};
  if (grows(config)) {
    json["growth"] = name_of(kGrowths, config.growth);
    json["max_size"] = config.max_batch;
  }
  return json;
}

// Nothing for a pre-training as it always was.
nlohmann::ordered_json task_json(const RunConfig& config) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (config.model.task != Task::Pretraining) json["task"] = name_of(config.model.task);
  if (config.model.task == Task::QuestionAnswering) {
    const QuestionConfig& questions = config.questions;
    json["questions"] = {{"doc_stride", questions.doc_stride},
                         {"max_question", questions.max_question},
                         {"max_answer", questions.max_answer},
                         {"best", questions.best},
                         {"null_threshold", questions.null_threshold}};
  }
  const FineTuningConfig& tuning = config.fine_tuning;
  if (tuning == FineTuningConfig{}) return json;
  json["fine_tuning"] = {{"layer_decay", tuning.layer_decay},
                         {"frozen_layers", tuning.frozen_layers},
                         {"label_smoothing", tuning.label_smoothing}};
  return json;
}

nlohmann::ordered_json start_json(const StartConfig& from) {
  const bool is_run = from.path.empty();
  return {{is_run ? "run" : "path", is_run ? from.run : from.path}, {"optimizer", from.optimizer}};
}

// Nothing for a run whose ranks all have the whole model.
nlohmann::ordered_json parallel_json(const RunConfig& config) {
  return {{"data", rank_grid(config).data},
          {"pipeline", config.parallel.pipeline},
          {"schedule", name_of(pipeline_order_names(), config.parallel.schedule)}};
}

nlohmann::ordered_json model_json(const RunConfig& config) {
  const ModelShape& shape = config.model;
  return {{"layers", shape.layers},
          {"hidden", shape.hidden},
          {"heads", shape.heads},
          {"feed_forward", shape.feed_forward},
          {"max_positions", shape.max_positions},
          {"vocabulary", shape.vocabulary},
          {"gelu", name_of(kGelus, shape.gelu)},
          {"dropout", config.dropout},
          {"attention_dropout", config.attention_dropout}};
}

nlohmann::ordered_json mllog_json(const MllogConfig& mllog) {
  return {{"file", mllog.file},
          {"submitter", mllog.submitter},
          {"system", mllog.system},
          {"division", name_of(kDivisions, mllog.division)}};
}

}  // namespace

const std::vector<std::string>& attention_names() {
  static const std::vector<std::string> names{"automatic", "streamed", "resident",
                                              "wgmma",     "grouped",  "reference"};
  return names;
}
const std::string& name_of(Precision precision) { return name_of(kDtypes, precision); }
const std::string& name_of(OptimizerKind kind) { return name_of(kOptimizers, kind); }
const std::string& name_of(BatchGrowth growth) { return name_of(kGrowths, growth); }
const std::string& name_of(MllogDivision division) { return name_of(kDivisions, division); }

const std::string& name_of(TargetMetric metric) { return name_of(kMetrics, metric); }

bool is_loss(TargetMetric metric) {
  return metric == TargetMetric::MlmLoss || metric == TargetMetric::Loss;
}

TargetMetric standard_metric(Task task) { return metrics_of(task).front(); }

const std::string& metric_of(const RunConfig& config) { return name_of(judged_by(config)); }

TargetMetric judged_by(const RunConfig& config) {
  return config.target ? config.target->metric : standard_metric(config.model.task);
}

SlurmResources slurm_resources_of(const RunConfig& config) {
  return config.slurm ? *config.slurm
                      : default_slurm_resources(config.ranks, config.ranks_per_node);
}

namespace {

// All but what only shows when every key was asked for.
RunConfig read_run_config(Table& root) {
  RunConfig config;
  read_name(root, &config.name);
  read_range(root, "steps", &config.steps, 1, kMaxSteps);
  read_model(root, &config);
  read_task(root, &config);
  read_data(root, config.model, &config.data);
  check_question_length(root, config);
  read_from(root, &config);
  read_optimizer(root, &config);
  read_policies(root, &config);
  read_target(root, &config);
  root.read("seed", &config.seed);
  read_determinism(root, &config.determinism);
  root.read_enum("device", kDevices, &config.device);
  root.read_enum("dtype", kDtypes, &config.dtype);
  root.read_enum("attention", attention_names(), &config.attention);
  read_range(root, "token_bucket", &config.token_bucket, 0, 1 << 20);
  root.read("graphs", &config.graphs);
  if (config.device == DeviceKind::Cpu && config.dtype != Precision::Float32) {
    root.fail("dtype", "the CPU computes in float32 only; set device: cuda or dtype: float32");
  }
  read_range(root, "threads", &config.threads, 0, 4096);
  read_ranks(root, &config);
  root.read("shuffle_labels", &config.shuffle_labels);
  read_mllog(root, &config);
  check_growth(root, config);
  config.slurm = read_slurm_resources(root, config.ranks, config.ranks_per_node);
  return config;
}

RunConfig finished(Table& root, RunConfig config) {
  root.finish();
  // Last, since an unknown key (`dataset`) may be what was meant.
  require_data(root, config.data);
  return config;
}

}  // namespace

RunConfig parse_run_config(std::string_view text, const std::string& source,
                           std::list<base::AskedKey>* asked) {
  Table root = Table::parse(text, source, kOtherNames, asked);
  if (root.has("sweep")) {
    root.fail("sweep", "makes many runs of one file; submit it with `regatta sweep submit`");
  }
  if (root.has("experiment")) {
    root.fail("experiment",
              "makes many runs of one file; start them with `regatta experiment parallel`");
  }
  RunConfig config = read_run_config(root);
  return finished(root, std::move(config));
}

RunConfig parse_run_config(std::string_view text, const std::string& source,
                           const std::function<void(Table& root)>& others) {
  Table root = Table::parse(text, source, kOtherNames, nullptr);
  others(root);
  RunConfig config = read_run_config(root);
  return finished(root, std::move(config));
}

void refuse_runs_of_controllers(const RunConfig& config, const std::string& source) {
  if (!config.from || config.from->run.empty()) return;
  throw base::Error(base::Code::User,
                    source + ": from.run: '" + base::printable(config.from->run) +
                        "' is a run of a controller, which regatta-train does not know; give the " +
                        "path of its directory or of RUN/checkpoints/step-… as from.path, or use " +
                        "`regatta submit`",
                    "from.run");
}

std::string to_json(const RunConfig& config) {
  nlohmann::ordered_json json;
  json["name"] = config.name;
  json["model"] = model_json(config);
  json["data"] = data_json(config.data);
  json.update(task_json(config));
  if (config.from) json["from"] = start_json(*config.from);
  const OptimizerConfig& optimizer = config.optimizer;
  json["optimizer"] = {{"name", name_of(kOptimizers, optimizer.kind)},
                       {"learning_rate", optimizer.learning_rate},
                       {"beta1", optimizer.beta1},
                       {"beta2", optimizer.beta2},
                       {"epsilon", optimizer.epsilon},
                       {"weight_decay", optimizer.weight_decay},
                       {"schedule", name_of(kSchedules, optimizer.schedule)},
                       {"warmup_steps", optimizer.warmup_steps},
                       {"decay_steps", optimizer.decay_steps},
                       {"power", optimizer.power},
                       {"end_learning_rate", optimizer.end_learning_rate}};
  json["batch"] = batch_json(config);
  json["clip"] = {{"mode", name_of(kClips, config.clip)}, {"norm", config.clip_norm}};
  json["steps"] = config.steps;
  json["evaluate"] = {{"every", config.evaluate_every}, {"samples", config.evaluate_samples}};
  if (config.target) json["target"] = target_json(*config.target, config);
  json["checkpoint"] = {{"every", config.checkpoint_every},
                        {"keep_last", config.keep_last},
                        {"keep_best", config.keep_best},
                        {"keep_every", config.keep_every},
                        {"async", config.checkpoint_async}};
  json["on_divergence"] = name_of(kDivergences, config.on_divergence);
  json["max_rollbacks"] = config.max_rollbacks;
  json["seed"] = config.seed;
  json["determinism"] = determinism_json(config.determinism);
  json["device"] = name_of(kDevices, config.device);
  json["dtype"] = name_of(kDtypes, config.dtype);
  json["attention"] = name_of(attention_names(), config.attention);
  json["token_bucket"] = config.token_bucket;
  json["graphs"] = config.graphs;
  json["threads"] = config.threads;
  json["ranks"] = config.ranks;
  json["ranks_per_node"] = config.ranks_per_node;
  if (config.parallel.pipeline > 1) json["parallel"] = parallel_json(config);
  json["hierarchical"] = config.hierarchical;
  json["buckets"] = {{"by", name_of(kBucketPolicies, config.buckets.by)},
                     {"bytes", config.buckets.bytes},
                     {"overlap", config.buckets.overlap}};
  json["balance"] = {{"strategy", name_of(kBalances, config.balance.strategy)},
                     {"deal", name_of(kDeals, config.balance.deal)},
                     {"exchange", name_of(kExchangeWays, config.balance.exchange)}};
  json["sharding"] = {{"optimizer", config.sharding.optimizer},
                      {"overlap_gather", config.sharding.overlap_gather}};
  json["statistics"] = {{"base_batch", config.base_batch},
                        {"every", config.statistics_every},
                        {"peak_tflops", config.peak_tflops}};
  json["guard"] = guard_json(config.guard);
  json["input"] = input_json(config.input);
  json["watchdog"] = {{"seconds", config.watchdog_seconds}};
  json["shuffle_labels"] = config.shuffle_labels;
  if (config.mllog) json["mllog"] = mllog_json(*config.mllog);
  if (config.slurm) json["slurm"] = slurm_resources_json(*config.slurm);
  return base::json_text(json, 2) + "\n";
}

std::string model_fingerprint(const ModelShape& shape) {
  std::string text = "regatta model 1";
  for (const int size : {shape.layers, shape.hidden, shape.heads, shape.feed_forward,
                         shape.vocabulary, shape.max_positions, shape.token_types}) {
    text += " " + std::to_string(size);
  }
  text += " " + name_of(kGelus, shape.gelu) + " " + text_of(shape.layer_norm_epsilon);
  if (shape.task != Task::Pretraining) {
    text += " " + name_of(shape.task) + " " + std::to_string(outputs_of(shape));
  }
  return base::digest_of(text);
}

}  // namespace regatta::trainer::contract
