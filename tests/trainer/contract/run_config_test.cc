#include "trainer/contract/run_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "trainer/contract/other_names.h"

namespace regatta::trainer::contract {
namespace {

using testing::HasSubstr;

constexpr const char* kMinimal = "data: {path: /d}\n";

TEST(RunConfig, DefaultsAreThoseOfTheHeader) {
  const RunConfig config = parse_run_config(kMinimal, "f");
  const RunConfig expected;
  EXPECT_EQ(config.name, "run");
  EXPECT_EQ(config.data.path, "/d");
  EXPECT_EQ(config.model.hidden, 128);
  EXPECT_EQ(config.steps, expected.steps);
  EXPECT_EQ(config.batch_size, expected.batch_size);
  EXPECT_EQ(config.optimizer.learning_rate, expected.optimizer.learning_rate);
  EXPECT_FALSE(config.target.has_value());
  EXPECT_EQ(config.determinism, DeterminismConfig{});
  EXPECT_EQ(config.seed, 1U);
  EXPECT_TRUE(config.checkpoint_async);
  EXPECT_EQ(config.on_divergence, OnDivergence::Stop);
  EXPECT_EQ(config.max_rollbacks, 3);
}

TEST(RunConfig, DefaultsForManyRanksAreThoseOfTheHeader) {
  const RunConfig config = parse_run_config(kMinimal, "f");
  const RunConfig expected;
  EXPECT_EQ(config.ranks, 1);
  EXPECT_EQ(config.ranks_per_node, 0);
  EXPECT_FALSE(config.hierarchical);
  EXPECT_EQ(config.clip, ClipMode::Global);
  EXPECT_EQ(config.buckets.by, expected.buckets.by);
  EXPECT_EQ(config.buckets.bytes, expected.buckets.bytes);
  EXPECT_TRUE(config.buckets.overlap);
  EXPECT_EQ(config.balance.strategy, expected.balance.strategy);
  EXPECT_EQ(config.balance.deal, expected.balance.deal);
  EXPECT_EQ(config.balance.exchange, expected.balance.exchange);
  EXPECT_FALSE(config.sharding.optimizer);
  EXPECT_TRUE(config.sharding.overlap_gather);
  EXPECT_EQ(config.base_batch, 0);
  EXPECT_EQ(config.statistics_every, 50);
  EXPECT_EQ(config.peak_tflops, 0);
  EXPECT_EQ(config.watchdog_seconds, expected.watchdog_seconds);
}

// Each word of each enumeration, as the file says it and as the canonical text says it again.
TEST(RunConfig, KnowsTheWordsOfEveryPolicy) {
  struct Row {
    const char* text;
    bool (*holds)(const RunConfig&);
  };
  const Row rows[] = {
      {"clip: {mode: none}", [](const RunConfig& c) { return c.clip == ClipMode::None; }},
      {"clip: {mode: global}", [](const RunConfig& c) { return c.clip == ClipMode::Global; }},
      {"clip: {mode: bucket}", [](const RunConfig& c) { return c.clip == ClipMode::Bucket; }},
      {"clip: {mode: rank}", [](const RunConfig& c) { return c.clip == ClipMode::Rank; }},
      {"on_divergence: stop",
       [](const RunConfig& c) { return c.on_divergence == OnDivergence::Stop; }},
      {"on_divergence: rollback",
       [](const RunConfig& c) { return c.on_divergence == OnDivergence::Rollback; }},
      {"buckets: {by: plan}",
       [](const RunConfig& c) { return c.buckets.by == BucketPolicy::Plan; }},
      {"buckets: {by: bytes}",
       [](const RunConfig& c) { return c.buckets.by == BucketPolicy::Bytes; }},
      {"buckets: {by: one}", [](const RunConfig& c) { return c.buckets.by == BucketPolicy::One; }},
      {"buckets: {by: per_layer}",
       [](const RunConfig& c) { return c.buckets.by == BucketPolicy::PerLayer; }},
      {"balance: {strategy: none}",
       [](const RunConfig& c) { return c.balance.strategy == Balance::None; }},
      {"balance: {strategy: stratified}",
       [](const RunConfig& c) { return c.balance.strategy == Balance::Stratified; }},
      {"balance: {strategy: global_presort}",
       [](const RunConfig& c) { return c.balance.strategy == Balance::GlobalPresort; }},
      {"balance: {strategy: exchange}",
       [](const RunConfig& c) { return c.balance.strategy == Balance::Exchange; }},
      {"balance: {strategy: packed}",
       [](const RunConfig& c) { return c.balance.strategy == Balance::Packed; }},
      {"balance: {deal: stride}",
       [](const RunConfig& c) { return c.balance.deal == Deal::Stride; }},
      {"balance: {deal: snake}", [](const RunConfig& c) { return c.balance.deal == Deal::Snake; }},
      {"balance: {deal: longest_first}",
       [](const RunConfig& c) { return c.balance.deal == Deal::LongestFirst; }},
      {"balance: {exchange: reread}",
       [](const RunConfig& c) { return c.balance.exchange == ExchangeWay::Reread; }},
      {"balance: {exchange: move}",
       [](const RunConfig& c) { return c.balance.exchange == ExchangeWay::Move; }},
  };
  for (const Row& row : rows) {
    const RunConfig config = parse_run_config(kMinimal + std::string(row.text) + "\n", "f");
    EXPECT_TRUE(row.holds(config)) << row.text;
    EXPECT_TRUE(row.holds(parse_run_config(to_json(config), "canonical"))) << row.text;
  }
}

TEST(RunConfig, ReadsEveryKey) {
  const RunConfig config = parse_run_config(R"(
name: demo-1.a_B
model:
  preset: base
  layers: 3
  heads: 8
  max_positions: 256
  gelu: tanh
  dropout: 0.2
  attention_dropout: 0
  vocabulary: 8000
data:
  path: data/wiki
  max_length: 256
  mask_fraction: 0.2
  short_fraction: 0
optimizer:
  name: lamb
  learning_rate: 4e-3
  beta1: 0.8
  beta2: 0.99
  epsilon: 1e-8
  weight_decay: 0
  schedule: polynomial
  warmup_steps: 10
  decay_steps: 90
  power: 0.5
  end_learning_rate: 1e-5
batch: {size: 64, micro: 16}
clip: {mode: bucket, norm: 2}
steps: 100
evaluate: {every: 10, samples: 77}
target: {metric: mlm_loss, value: 2.5, stop: false}
checkpoint: {every: 20, keep_last: 2, keep_best: 4, keep_every: 1000, async: false}
on_divergence: rollback
max_rollbacks: 7
seed: 18446744073709551615
deterministic: false
device: cuda
dtype: float32
threads: 4
ranks: 8
ranks_per_node: 4
hierarchical: true
buckets: {by: bytes, bytes: 26214400, overlap: false}
balance: {strategy: exchange, deal: snake, exchange: move}
sharding: {optimizer: true, overlap_gather: false}
statistics: {base_batch: 16, every: 7, peak_tflops: 989.5}
watchdog: {seconds: 2.5}
shuffle_labels: true
)",
                                            "f");
  EXPECT_EQ(config.name, "demo-1.a_B");
  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.model.hidden, 768) << "from the preset";
  EXPECT_EQ(config.model.heads, 8);
  EXPECT_EQ(config.model.feed_forward, 3072);
  EXPECT_EQ(config.model.max_positions, 256);
  EXPECT_EQ(config.model.gelu, Gelu::Tanh);
  EXPECT_EQ(config.model.vocabulary, 8000);
  EXPECT_EQ(config.dropout, 0.2);
  EXPECT_EQ(config.attention_dropout, 0);
  EXPECT_EQ(config.data.path, "data/wiki");
  EXPECT_EQ(config.data.max_length, 256);
  EXPECT_EQ(config.data.mask_fraction, 0.2);
  EXPECT_EQ(config.data.short_fraction, 0);
  EXPECT_EQ(config.optimizer.kind, OptimizerKind::Lamb);
  EXPECT_EQ(config.optimizer.learning_rate, 4e-3);
  EXPECT_EQ(config.optimizer.beta1, 0.8);
  EXPECT_EQ(config.optimizer.beta2, 0.99);
  EXPECT_EQ(config.optimizer.epsilon, 1e-8);
  EXPECT_EQ(config.optimizer.weight_decay, 0);
  EXPECT_EQ(config.optimizer.schedule, ScheduleKind::Polynomial);
  EXPECT_EQ(config.optimizer.warmup_steps, 10);
  EXPECT_EQ(config.optimizer.decay_steps, 90);
  EXPECT_EQ(config.optimizer.power, 0.5);
  EXPECT_EQ(config.optimizer.end_learning_rate, 1e-5);
  EXPECT_EQ(config.batch_size, 64);
  EXPECT_EQ(config.micro_batch_size, 16);
  EXPECT_EQ(config.clip, ClipMode::Bucket);
  EXPECT_EQ(config.clip_norm, 2);
  EXPECT_EQ(config.steps, 100);
  EXPECT_EQ(config.evaluate_every, 10);
  EXPECT_EQ(config.evaluate_samples, 77);
  ASSERT_TRUE(config.target.has_value());
  EXPECT_EQ(config.target->metric, TargetMetric::MlmLoss);
  EXPECT_EQ(config.target->value, 2.5);
  EXPECT_EQ(config.target->times_baseline, std::nullopt);
  EXPECT_FALSE(config.stop_at_target);
  EXPECT_EQ(config.checkpoint_every, 20);
  EXPECT_EQ(config.keep_last, 2);
  EXPECT_EQ(config.keep_best, 4);
  EXPECT_EQ(config.keep_every, 1000);
  EXPECT_FALSE(config.checkpoint_async);
  EXPECT_EQ(config.on_divergence, OnDivergence::Rollback);
  EXPECT_EQ(config.max_rollbacks, 7);
  EXPECT_EQ(config.seed, 18446744073709551615U);
  EXPECT_EQ(config.determinism.level, Determinism::Fast);
  EXPECT_EQ(config.device, DeviceKind::Cuda);
  EXPECT_EQ(config.threads, 4);
  EXPECT_EQ(config.ranks, 8);
  EXPECT_EQ(config.ranks_per_node, 4);
  EXPECT_TRUE(config.hierarchical);
  EXPECT_EQ(config.buckets.by, BucketPolicy::Bytes);
  EXPECT_EQ(config.buckets.bytes, 26'214'400);
  EXPECT_FALSE(config.buckets.overlap);
  EXPECT_EQ(config.balance.strategy, Balance::Exchange);
  EXPECT_EQ(config.balance.deal, Deal::Snake);
  EXPECT_EQ(config.balance.exchange, ExchangeWay::Move);
  EXPECT_TRUE(config.sharding.optimizer);
  EXPECT_FALSE(config.sharding.overlap_gather);
  EXPECT_EQ(config.base_batch, 16);
  EXPECT_EQ(config.statistics_every, 7);
  EXPECT_EQ(config.peak_tflops, 989.5);
  EXPECT_EQ(config.watchdog_seconds, 2.5);
  EXPECT_TRUE(config.shuffle_labels);
  const std::string text = to_json(config);
  EXPECT_EQ(to_json(parse_run_config(text, "g")), text);
}

// A random configuration that is valid; awkward doubles on purpose.
RunConfig random_config(std::mt19937_64& random) {
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
  };
  const auto unit = [&] { return static_cast<double>(random() >> 11U) * 0x1p-53; };
  RunConfig config;
  config.name = "r" + std::to_string(random());
  config.model = preset_shape(below(2) == 0 ? "tiny" : "large");
  config.model.layers = static_cast<int>(1 + below(1024));
  config.model.vocabulary = static_cast<int>(below(100000));
  config.model.max_positions = static_cast<int>(5 + below(4092));
  config.model.gelu = static_cast<Gelu>(below(2));
  config.dropout = unit() * 0.9;
  config.attention_dropout = unit() * 1e-9;
  config.data.path = below(2) == 0 ? "/tmp/\xc3\xa9 \"x\" \\ y: #z" : "~";
  config.data.max_length = static_cast<int>(5 + below(config.model.max_positions - 4));
  config.data.mask_fraction = 1e-12 + unit() * 0.9;
  config.data.short_fraction = unit();
  config.steps = 1 + below(1'000'000'000);
  OptimizerConfig& optimizer = config.optimizer;
  optimizer.kind = static_cast<OptimizerKind>(below(2));
  optimizer.learning_rate = std::ldexp(1 + unit(), -static_cast<int>(below(60)));
  optimizer.beta1 = unit();
  optimizer.beta2 = unit();
  optimizer.epsilon = std::ldexp(1 + unit(), -1 - static_cast<int>(below(1000)));
  optimizer.weight_decay = unit();
  optimizer.schedule = static_cast<ScheduleKind>(below(3));
  optimizer.decay_steps = below(2) * (1 + below(1'000'000'000));
  optimizer.warmup_steps = below(optimizer.decay_steps > 0 ? optimizer.decay_steps : config.steps);
  optimizer.power = 1e-3 + unit();
  optimizer.end_learning_rate = optimizer.learning_rate * unit();
  config.batch_size = static_cast<int>(1 + below(1 << 20));
  config.micro_batch_size = static_cast<int>(below(config.batch_size + 1));
  config.clip = static_cast<ClipMode>(below(4));
  config.clip_norm = 1e-6 + unit();
  config.evaluate_every = 1 + below(1000);
  config.evaluate_samples = static_cast<int>(1 + below(100000));
  if (below(3) != 0) {
    config.target = TargetConfig{};
    if (below(2) == 0) {
      config.target->times_baseline = 1e-3 + 10 * unit();
    } else {
      config.target->metric = static_cast<TargetMetric>(below(2));
      config.target->value = 1e-3 + 0.9 * unit();
    }
    config.stop_at_target = below(2) == 0;
  }
  config.checkpoint_every = 1 + below(1000);
  config.keep_last = static_cast<int>(1 + below(100));
  config.keep_best = static_cast<int>(below(10));
  config.keep_every = below(10000);
  config.checkpoint_async = below(2) == 0;
  config.on_divergence = static_cast<OnDivergence>(below(2));
  config.max_rollbacks = static_cast<int>(1 + below(1000));
  config.seed = random();
  config.determinism.level = static_cast<Determinism>(below(2));
  config.device = static_cast<DeviceKind>(below(2));
  config.threads = static_cast<int>(below(100));
  config.ranks = static_cast<int>(1 + below(config.batch_size));
  if (below(2) == 0) {
    config.ranks_per_node = static_cast<int>(1 + below(config.ranks));
    while (config.ranks % config.ranks_per_node != 0) --config.ranks_per_node;
  }
  config.hierarchical = below(2) == 0;
  config.buckets = {static_cast<BucketPolicy>(below(4)), below(std::int64_t{1} << 40U),
                    below(2) == 0};
  config.balance = {static_cast<Balance>(below(5)), static_cast<Deal>(below(3)),
                    static_cast<ExchangeWay>(below(2))};
  config.sharding = {below(2) == 0, below(2) == 0};
  config.base_batch = static_cast<int>(below(1 << 20));
  config.statistics_every = static_cast<int>(below(1 << 20));
  config.peak_tflops = 1e6 * unit();
  config.watchdog_seconds = 86400 * unit();
  config.shuffle_labels = below(2) == 0;
  return config;
}

TEST(RunConfig, RoundTripsExactly) {
  std::mt19937_64 random(20261121);
  for (int round = 0; round < 300; ++round) {
    const RunConfig config = random_config(random);
    const std::string text = to_json(config);
    const RunConfig back = parse_run_config(text, "round " + std::to_string(round));
    ASSERT_EQ(to_json(back), text);
    ASSERT_EQ(back.name, config.name);
    ASSERT_EQ(back.data.path, config.data.path);
    ASSERT_EQ(back.seed, config.seed);
    ASSERT_EQ(back.dropout, config.dropout);
    ASSERT_EQ(back.attention_dropout, config.attention_dropout);
    ASSERT_EQ(back.optimizer.learning_rate, config.optimizer.learning_rate);
    ASSERT_EQ(back.optimizer.epsilon, config.optimizer.epsilon);
    ASSERT_EQ(back.optimizer.end_learning_rate, config.optimizer.end_learning_rate);
    ASSERT_EQ(back.optimizer.decay_steps, config.optimizer.decay_steps);
    ASSERT_EQ(back.target.has_value(), config.target.has_value());
    if (config.target) {
      ASSERT_EQ(back.target->value, config.target->value);
      ASSERT_EQ(back.target->times_baseline, config.target->times_baseline);
      ASSERT_EQ(back.target->metric, config.target->metric);
    }
    ASSERT_EQ(back.stop_at_target, config.stop_at_target);
    ASSERT_EQ(back.checkpoint_async, config.checkpoint_async);
    ASSERT_EQ(back.on_divergence, config.on_divergence);
    ASSERT_EQ(back.max_rollbacks, config.max_rollbacks);
    ASSERT_EQ(back.clip, config.clip);
    ASSERT_EQ(back.ranks_per_node, config.ranks_per_node);
    ASSERT_EQ(back.hierarchical, config.hierarchical);
    ASSERT_EQ(back.buckets.by, config.buckets.by);
    ASSERT_EQ(back.buckets.bytes, config.buckets.bytes);
    ASSERT_EQ(back.balance.strategy, config.balance.strategy);
    ASSERT_EQ(back.balance.deal, config.balance.deal);
    ASSERT_EQ(back.balance.exchange, config.balance.exchange);
    ASSERT_EQ(back.sharding.optimizer, config.sharding.optimizer);
    ASSERT_EQ(back.sharding.overlap_gather, config.sharding.overlap_gather);
    ASSERT_EQ(back.base_batch, config.base_batch);
    ASSERT_EQ(back.statistics_every, config.statistics_every);
    ASSERT_EQ(back.peak_tflops, config.peak_tflops);
    ASSERT_EQ(back.watchdog_seconds, config.watchdog_seconds);
    ASSERT_EQ(model_fingerprint(back.model), model_fingerprint(config.model));
  }
}

TEST(RunConfig, AcceptsTheEndsOfItsRanges) {
  for (const char* text : {"steps: 1",
                           "steps: 1000000000",
                           "model: {dropout: 0.9999}",
                           "model: {dropout: 0}",
                           "batch: {size: 1}",
                           "batch: {size: 8, micro: 8}",
                           "optimizer: {beta1: 0, beta2: 0.9999999}",
                           "optimizer: {warmup_steps: 1000}",
                           "optimizer: {warmup_steps: 2000, decay_steps: 2000}",
                           "optimizer: {learning_rate: 1, end_learning_rate: 1}",
                           "target: {value: 1}",
                           "target: {times_baseline: 3}",
                           "target:",
                           "target: ~",
                           "ranks: 32",
                           "ranks: 32\nranks_per_node: 32",
                           "ranks: 6\nranks_per_node: 3",
                           "ranks: 4\nranks_per_node: 0",
                           "ranks_per_node: 1",
                           "hierarchical: true",
                           "buckets: {bytes: 0}",
                           "buckets: {bytes: 1099511627776}",
                           "buckets:",
                           "balance: ~",
                           "sharding: {}",
                           "statistics: {base_batch: 0, every: 0, peak_tflops: 0}",
                           "statistics: {base_batch: 1048576, peak_tflops: 1000000}",
                           "max_rollbacks: 1000",
                           "watchdog: {seconds: 0}",
                           "watchdog: {seconds: 86400}",
                           "seed: 0",
                           "name: 0",
                           "model: {hidden: 64, heads: 1}",
                           "token_bucket: 1",
                           "graphs: false",
                           "device: cuda\ndtype: bfloat16",
                           "device: auto\ndtype: float16",
                           "attention: resident",
                           "attention: grouped"}) {
    EXPECT_NO_THROW(parse_run_config(std::string(kMinimal) + text + "\n", "f")) << text;
  }
  EXPECT_NO_THROW(parse_run_config("data: {path: d, max_length: 512}", "f"));
  EXPECT_NO_THROW(parse_run_config("data: {path: d, max_length: 5}", "f"));
  EXPECT_NO_THROW(parse_run_config("name: " + std::string(64, 'a') + "\n" + kMinimal, "f"));
}

TEST(RunConfig, NamesWhatIsWrongWhere) {
  struct Row {
    const char* text;  // line 2 of the file
    const char* message;
  };
  const Row rows[] = {
      {"steps: 0", "f:2: steps: is 0; use 1 to 1000000000"},
      {"steps: 1000000001", "f:2: steps: is 1000000001"},
      {"steps: -3", "f:2: steps: is -3"},
      {"steps: 1e3", "f:2: steps: expected a whole number"},
      {"step: 5", "f:2: step: unknown key; did you mean 'steps'?"},
      {"batchsize: 5", "f:2: batchsize: unknown key; did you mean 'batch.size'?"},
      {"epochs: 5", "f:2: epochs: unknown key; did you mean 'steps'?"},
      {"vocab_size: 5", "f:2: vocab_size: unknown key; did you mean 'model.vocabulary'?"},
      {"dataset: d", "f:2: dataset: unknown key; did you mean 'data.path'?"},
      {"hidden: 5", "f:2: hidden: unknown key; did you mean 'model.hidden'?"},
      {"model: {hidden_size: 5}", "model.hidden_size: unknown key; did you mean 'model.hidden'?"},
      {"optimizer: {lr: 1e-4}",
       "optimizer.lr: unknown key; did you mean 'optimizer.learning_rate'?"},
      {"name: ''", "f:2: name: is ''; use 1 to 64"},
      {"name: -x", "starting with a letter or digit"},
      {"name: .x", "starting with a letter or digit"},
      {"name: a/b", "name: is 'a/b'"},
      {"name: a b", "name: is 'a b'"},
      {"name: ../x", "name: is '../x'"},
      {"name: \"a\\e[2J\"", "is 'a\\x1b[2J'"},
      {"name: caf\xc3\xa9", "use 1 to 64"},
      {"name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "use 1 to 64"},
      {"name: [a]", "f:2: name: expected text"},
      {"model: {preset: huge}", "f:2: model.preset: unknown model preset 'huge'"},
      {"model: {hiden: 5}", "model.hiden: unknown key; did you mean 'hidden'?"},
      {"model: {heads: 3}", "f:2: model: impossible model: heads (3) does not divide"},
      {"model: {hidden: 100, heads: 1}", "multiple of 8"},
      {"model: {max_positions: 5000}", "model.max_positions: is 5000; use 1 to 4096"},
      {"model: {vocabulary: -1}", "model.vocabulary: is -1; use 0 to 16777216"},
      {"model: {gelu: relu}", "model.gelu: expected one of erf, tanh, found 'relu'"},
      {"model: {dropout: 1}", "f:2: model.dropout: is 1; use 0 to 0.9999"},
      {"model: {dropout: -0.1}", "model.dropout: is -0.1"},
      {"model: {attention_dropout: 1.5}", "model.attention_dropout: is 1.5"},
      {"model: {attention_dropout: nan}", "expected a number"},
      {"model: tiny", "f:2: model: expected a mapping"},
      {"model: {max_positions: 64}", "data.max_length: is 128; use 5 to 64"},
      {"optimizer: {name: sgd}", "optimizer.name: expected one of adamw, lamb"},
      {"optimizer: {learning_rate: 0}", "learning_rate: is 0; use more than 0 to 1000"},
      {"optimizer: {learning_rate: -1e-3}", "learning_rate: is -0.001"},
      {"optimizer: {learning_rate: inf}", "expected a number"},
      {"optimizer: {beta1: 1}", "beta1: is 1; use 0 to less than 1"},
      {"optimizer: {beta2: -0.5}", "beta2: is -0.5"},
      {"optimizer: {epsilon: 0}", "epsilon: is 0"},
      {"optimizer: {weight_decay: -1}", "weight_decay: is -1"},
      {"optimizer: {schedule: cosine}", "schedule: expected one of constant, linear, polynomial"},
      {"optimizer: {warmup_steps: 1001}", "warmup_steps: is 1001; use 0 to 1000"},
      {"optimizer: {warmup_steps: 11, decay_steps: 10}", "warmup_steps: is 11; use 0 to 10"},
      {"optimizer: {decay_steps: -1}", "decay_steps: is -1"},
      {"optimizer: {power: 0}", "power: is 0"},
      {"optimizer: {end_learning_rate: 0.1}", "end_learning_rate: is 0.1; use 0 to 0.001"},
      {"batch: {size: 0}", "batch.size: is 0; use 1 to"},
      {"batch: {size: 8, micro: 9}", "batch.micro: is 9; use 0 to 8"},
      {"batch: {micro: -1}", "batch.micro: is -1"},
      {"batch: 8", "batch: expected a mapping"},
      {"clip: {mode: norm}", "clip.mode: expected one of none, global, bucket, rank"},
      {"clip: {norm: 0}", "clip.norm: is 0"},
      {"evaluate: {every: 0}", "evaluate.every: is 0"},
      {"evaluate: {samples: -1}", "evaluate.samples: is -1; use 0 to 1073741824"},
      {"checkpoint: {every: 0}", "checkpoint.every: is 0"},
      {"checkpoint: {keep_last: 0}", "checkpoint.keep_last: is 0"},
      {"checkpoint: {keep_best: -1}", "checkpoint.keep_best: is -1; use 0 to 1000000"},
      {"checkpoint: {keep_best: all}", "checkpoint.keep_best: "},
      {"checkpoint: {keep_every: -1}", "checkpoint.keep_every: is -1; use 0 to 1000000000"},
      {"checkpoint: {keep_every: 1.5}", "checkpoint.keep_every: "},
      {"checkpoint: {keep: 3}", "checkpoint.keep: unknown key"},
      {"checkpoint: {async: 1}", "checkpoint.async: "},
      {"checkpoint: {async: maybe}", "checkpoint.async: "},
      {"checkpoint: {async: [true]}", "checkpoint.async: "},
      {"checkpoint: {asynchronous: true}", "checkpoint.asynchronous: unknown key"},
      {"target: {}", "target.value: use exactly one of"},
      {"target: {metric: mlm_loss}", "target.value: use exactly one of"},
      {"target: {value: 0.5, times_baseline: 2}", "target.times_baseline: use exactly one of"},
      {"target: {value: 1.5}", "target.value: is 1.5; use more than 0 to 1"},
      {"target: {value: 0}", "target.value: is 0"},
      {"target: {metric: mlm_loss, times_baseline: 2}", "target.times_baseline: is of no mlm_loss"},
      {"target: {metric: bleu, value: 0.5}", "target.metric: expected one of"},
      {"target: {metric: f1, value: 0.5}", "target.metric: is f1, which task pretraining has not"},
      {"target: {times_baseline: -2}", "target.times_baseline: is -2"},
      {"target: 0.5", "target: expected a mapping"},
      {"seed: -1", "f:2: seed: expected a whole number of 0 to"},
      {"seed: 18446744073709551616", "f:2: seed: expected"},
      {"deterministic: yes", "expected true or false, found 'yes'"},
      {"device: gpu", "expected one of cpu, cuda, auto, found 'gpu'"},
      {"dtype: bfloat16", "dtype: the CPU computes in float32 only; set device: cuda"},
      {"dtype: half", "expected one of float32, tf32, bfloat16, float16, found 'half'"},
      {"attention: flash",
       "expected one of automatic, streamed, resident, wgmma, grouped, reference, found 'flash'"},
      {"token_bucket: -1", "token_bucket: is -1"},
      {"graphs: 2", "graphs: expected true or false"},
      {"threads: -1", "threads: is -1"},
      {"ranks: 0", "ranks: is 0; use 1 to 32"},
      {"ranks: 33", "ranks: is 33; use 1 to 32"},
      {"ranks: 2.5", "ranks: expected a whole number"},
      {"ranks_per_node: -1",
       "ranks_per_node: is -1, and ranks is 1; use a divisor of 1, or 0 for as many as are found"},
      {"ranks_per_node: 2",
       "ranks_per_node: is 2, and ranks is 1 (--ranks comes after the file): set ranks to a "
       "multiple of it, or use a divisor of 1, or 0 for as many as are found on each node"},
      {"ranks: 4\nranks_per_node: 3",
       "f:3: ranks_per_node: is 3, and ranks is 4; use a divisor of 4, or 0 for as many"},
      {"hierarchical: 2", "hierarchical: expected true or false"},
      {"hierarchical: {}", "hierarchical: expected true or false"},
      {"buckets: {by: layer}", "buckets.by: expected one of plan, bytes, one, per_layer"},
      {"buckets: {by: 3}", "buckets.by: expected one of"},
      {"buckets: {bytes: -1}", "buckets.bytes: is -1; use 0 to 1099511627776"},
      {"buckets: {bytes: 1099511627777}", "buckets.bytes: is 1099511627777"},
      {"buckets: {bytes: 25MB}", "buckets.bytes: expected a whole number"},
      {"buckets: {overlap: 1}", "buckets.overlap: expected true or false"},
      {"buckets: {size: 4}", "buckets.size: unknown key"},
      {"buckets: 4", "buckets: expected a mapping"},
      {"balance: {strategy: presort}",
       "strategy: expected one of none, stratified, global_presort"},
      {"balance: {deal: zigzag}", "balance.deal: expected one of stride, snake, longest_first"},
      {"balance: {exchange: copy}", "balance.exchange: expected one of reread, move"},
      {"balance: {strategy: [none]}", "balance.strategy: expected"},
      {"balance: snake", "balance: expected a mapping"},
      {"balance: {deals: snake}", "balance.deals: unknown key; did you mean 'deal'?"},
      {"sharding: {optimizer: adamw}", "sharding.optimizer: expected true or false"},
      {"sharding: {overlap_gather: 0}", "sharding.overlap_gather: expected true or false"},
      {"sharding: {optimiser: true}", "sharding.optimiser: unknown key; did you mean 'optimizer'?"},
      {"sharding: true", "sharding: expected a mapping"},
      {"statistics: {base_batch: -1}", "statistics.base_batch: is -1; use 0 to 1048576"},
      {"statistics: {every: -1}", "statistics.every: is -1; use 0 to 1048576"},
      {"statistics: {base_batch: 1048577}", "statistics.base_batch: is 1048577"},
      {"statistics: {peak_tflops: -1}", "statistics.peak_tflops: is -1"},
      {"statistics: {peak_tflops: 1000001}", "statistics.peak_tflops: is"},
      {"statistics: {mfu: 1}", "statistics.mfu: unknown key"},
      {"on_divergence: resume", "on_divergence: expected one of stop, rollback"},
      {"max_rollbacks: 0", "max_rollbacks: is 0; use 1 to 1000"},
      {"max_rollbacks: 1001", "max_rollbacks: is 1001"},
      {"watchdog: {seconds: -0.5}", "watchdog.seconds: is -0.5; use 0 to 86400"},
      {"watchdog: {seconds: 86401}", "watchdog.seconds: is 86401"},
      {"watchdog: {seconds: inf}", "watchdog.seconds: expected a number"},
      {"watchdog: 20", "watchdog: expected a mapping"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    try {
      (void)parse_run_config(kMinimal + std::string(row.text) + "\n", "f");
      ADD_FAILURE() << "accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(row.message));
    }
  }
}

TEST(RunConfig, NamesWhatIsWrongWithTheData) {
  struct Row {
    std::string text;
    const char* message;
  };
  const Row rows[] = {
      {"steps: 1", "f: data.path: missing"},
      {"data: {max_length: 64}", "f:1: data.path: missing"},
      {"dataset: d", "f:1: dataset: unknown key; did you mean 'data.path'?"},
      {"data: {dir: d, dataset: d}", "f:1: data.dir: unknown key"},
      {"data: {dataset: d}", "f:1: data.dataset: unknown key; did you mean 'data.path'?"},
      {"data: {path: ''}", "f:1: data.path: missing"},
      {"data: {path: \"a\\nb\"}", "data.path: not a path"},
      {"data: {path: \"a\\0b\"}", "data.path: not a path"},
      {"data: {path: " + std::string(4097, 'x') + "}", "at most 4096 bytes"},
      {"data: {path: d, max_length: 4}", "max_length: is 4; use 5 to 512"},
      {"data: {path: d, max_length: 513}", "max_length: is 513; use 5 to 512"},
      {"model: {max_positions: 4096}\ndata: {path: d, max_length: 4096}", "use 5 to 4095"},
      {"data: {path: d, mask_fraction: 0}", "mask_fraction: is 0; use more than 0 to less than 1"},
      {"data: {path: d, mask_fraction: 1}", "mask_fraction: is 1"},
      {"data: {path: d, short_fraction: 1.1}", "short_fraction: is 1.1; use 0 to 1"},
      {"data: {path: d, paths: e}", "data.paths: unknown key; did you mean 'path'?"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text.substr(0, 80));
    try {
      (void)parse_run_config(row.text + "\n", "f");
      ADD_FAILURE() << "accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(row.message));
    }
  }
}

TEST(RunConfig, OtherProgramsNamesLeadToKeys) {
  const std::string staged = "data: {path: d}\nbatch: {micro: 1}\nparallel: {pipeline: 2}\n";
  const auto known = nlohmann::json::parse(to_json(parse_run_config(staged, "f"))).flatten();
  for (const base::OtherName& other : kOtherNames) {
    std::string pointer = "/" + std::string(other.key);
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    EXPECT_TRUE(known.contains(pointer)) << other.name << " -> " << other.key;
    for (const char c : other.name) {
      EXPECT_TRUE((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) << other.name;
    }
  }
}

}  // namespace
}  // namespace regatta::trainer::contract
