#include "trainer/contract/run_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"

namespace regatta::trainer {
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
  EXPECT_TRUE(config.deterministic);
  EXPECT_EQ(config.seed, 1U);
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
clip: {mode: none, norm: 2}
steps: 100
evaluate: {every: 10, samples: 77}
target: {metric: mlm_loss, value: 2.5, stop: false}
checkpoint: {every: 20, keep_last: 2}
seed: 18446744073709551615
deterministic: false
device: cuda
dtype: float32
threads: 4
ranks: 2
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
  EXPECT_EQ(config.clip, ClipMode::None);
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
  EXPECT_EQ(config.seed, 18446744073709551615U);
  EXPECT_FALSE(config.deterministic);
  EXPECT_EQ(config.device, DeviceKind::Cuda);
  EXPECT_EQ(config.threads, 4);
  EXPECT_EQ(config.ranks, 2);
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
  config.clip = static_cast<ClipMode>(below(2));
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
  config.seed = random();
  config.deterministic = below(2) == 0;
  config.device = static_cast<DeviceKind>(below(2));
  config.threads = static_cast<int>(below(100));
  config.ranks = static_cast<int>(1 + below(config.batch_size));
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
                           "seed: 0",
                           "name: 0",
                           "model: {hidden: 64, heads: 1}",
                           "token_bucket: 1",
                           "graphs: false",
                           "device: cuda\ndtype: bfloat16",
                           "device: auto\ndtype: float16",
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
      {"model: {layers: 0}", "layers is 0"},
      {"model: {vocabulary: -1}", "a vocabulary of -1"},
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
      {"clip: {mode: norm}", "clip.mode: expected one of none, global"},
      {"clip: {norm: 0}", "clip.norm: is 0"},
      {"evaluate: {every: 0}", "evaluate.every: is 0"},
      {"evaluate: {samples: 0}", "evaluate.samples: is 0"},
      {"checkpoint: {every: 0}", "checkpoint.every: is 0"},
      {"checkpoint: {keep_last: 0}", "checkpoint.keep_last: is 0"},
      {"checkpoint: {keep: 3}", "checkpoint.keep: unknown key"},
      {"target: {}", "target.value: use exactly one of"},
      {"target: {metric: mlm_loss}", "target.value: use exactly one of"},
      {"target: {value: 0.5, times_baseline: 2}", "target.times_baseline: use exactly one of"},
      {"target: {value: 1.5}", "target.value: is 1.5; use more than 0 to 1"},
      {"target: {value: 0}", "target.value: is 0"},
      {"target: {metric: mlm_loss, times_baseline: 2}", "needs metric mlm_accuracy"},
      {"target: {metric: f1, value: 0.5}", "target.metric: expected one of"},
      {"target: {times_baseline: -2}", "target.times_baseline: is -2"},
      {"target: 0.5", "target: expected a mapping"},
      {"seed: -1", "f:2: seed: expected a whole number of 0 to"},
      {"seed: 18446744073709551616", "f:2: seed: expected"},
      {"deterministic: yes", "expected true or false, found 'yes'"},
      {"device: gpu", "expected one of cpu, cuda, auto, found 'gpu'"},
      {"dtype: bfloat16", "dtype: the CPU computes in float32 only; set device: cuda"},
      {"dtype: half", "expected one of float32, tf32, bfloat16, float16, found 'half'"},
      {"attention: flash", "expected one of automatic, grouped, reference, found 'flash'"},
      {"token_bucket: -1", "token_bucket: is -1"},
      {"graphs: 2", "graphs: expected true or false"},
      {"threads: -1", "threads: is -1"},
      {"ranks: 0", "ranks: is 0; use 1 to 32"},
      {"ranks: 33", "ranks: is 33; use 1 to 32"},
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
      {"data: {path: ''}", "f:1: data.path: missing"},
      {"data: {path: \"a\\nb\"}", "data.path: not a path"},
      {"data: {path: \"a\\0b\"}", "data.path: not a path"},
      {"data: {path: " + std::string(4097, 'x') + "}", "at most 4096 bytes"},
      {"data: {path: d, max_length: 4}", "max_length: is 4; use 5 to 512"},
      {"data: {path: d, max_length: 513}", "max_length: is 513; use 5 to 512"},
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

}  // namespace
}  // namespace regatta::trainer
