// Steps and evaluations of tasks: by the float64 reference, on several ranks, with layers frozen
// and slowed down.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_system.h"
#include "tests/trainer/model/random_model.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/step/task_samples.h"
#include "tests/trainer/step/whole_state.h"
#include "topology/plan/plan.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/model_shape.h"
#include "trainer/contract/noise_scale.h"
#include "trainer/contract/run_config.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/ranks/rank_agreement.h"
#include "trainer/step/buckets.h"
#include "trainer/step/evaluation.h"
#include "trainer/step/noise_probe.h"
#include "trainer/step/schedule.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Task;

constexpr std::int64_t kHandful = 6;
const Task kFineTuningTasks[] = {Task::QuestionAnswering, Task::Classification, Task::Regression};

using TaskBody =
    std::function<void(ranks::Communicator& ranks, device::Device& device, step::TrainLoop& loop)>;
void on_task_ranks(const contract::RunConfig& config, const std::vector<float>& weights,
                   const TaskBody& body, int threads = 1) {
  ThreadRanks(config.ranks).run([&](ranks::Communicator& ranks) {
    const auto device = cpu::make_cpu_device(threads);
    topology::plan::Plan plan;
    plan.ranks = config.ranks;
    plan.buckets = step::buckets_per_layer(contract::make_tensor_table(config.model));
    step::TrainLoop loop(*device, ranks, base::system_clock(), config, plan, task_stream(kHandful));
    step::TrainingState state;
    state.parameters = weights;
    loop.load(state);
    body(ranks, *device, loop);
  });
}
std::vector<float> first_weights(const contract::RunConfig& config) {
  return model::initial_weights(contract::make_tensor_table(config.model), config.seed);
}

// Rank 0's records of `steps` steps, and the state behind them.
struct TaskCourse {
  std::vector<contract::StepRecord> records;
  step::TrainingState state;
};
TaskCourse train_task(const contract::RunConfig& config, std::int64_t steps, int threads = 1) {
  TaskCourse course;
  on_task_ranks(
      config, first_weights(config),
      [&](ranks::Communicator& ranks, device::Device&, step::TrainLoop& loop) {
        for (std::int64_t step = 1; step <= steps; ++step) {
          const contract::StepRecord record = loop.step(step);
          if (ranks.rank() == 0) course.records.push_back(record);
        }
        step::TrainingState state = whole_state(ranks, loop);
        if (ranks.rank() == 0) course.state = std::move(state);
      },
      threads);
  return course;
}

bool starts_with(const std::string& name, const std::string& with) {
  return name.rfind(with, 0) == 0;
}

// Of the whole batch, by float64: Σ loss / samples, and the norm of its gradient by `counts`.
struct TaskTruth {
  double loss = 0, norm = 0;
};
TaskTruth truth_of_step_1(const contract::RunConfig& config,
                          const std::function<bool(const std::string& tensor)>& counts) {
  std::vector<samples::Sample> samples;
  std::vector<int> ordinals;
  for (int i = 0; i < kHandful; ++i) {
    samples.push_back(task_sample(i));
    ordinals.push_back(i);
  }
  const contract::TensorTable table = contract::make_tensor_table(config.model);
  const ReferenceTaskResult found =
      reference_task(config.model, reference_weights(table, first_weights(config)), samples,
                     ordinals, {}, 1, config.fine_tuning.label_smoothing, kHandful);
  TaskTruth truth;
  truth.loss = found.loss / kHandful;
  double squares = 0;
  for (const auto& [name, gradient] : found.gradients) {
    if (!counts(name)) continue;
    for (const double element : gradient) squares += element * element;
  }
  truth.norm = std::sqrt(squares);
  return truth;
}

TEST(TaskLoop, FirstStepIsThatOfTheReferenceOnAnyNumberOfRanks) {
  for (const Task task : kFineTuningTasks) {
    for (const int ranks : {1, 2, 3}) {
      for (const int micro : {0, 2}) {
        SCOPED_TRACE(contract::name_of(task) + " on " + std::to_string(ranks));
        contract::RunConfig config = task_config(task, ranks);
        config.micro_batch_size = micro;
        if (task != Task::Regression) config.fine_tuning.label_smoothing = 0.2;
        const TaskTruth truth = truth_of_step_1(config, [](const std::string&) { return true; });
        const contract::StepRecord record = train_task(config, 1).records.at(0);
        EXPECT_NEAR(record.loss, truth.loss, 1e-4 * truth.loss);
        EXPECT_NEAR(record.gradient_norm, truth.norm, 1e-4 * truth.norm);
        EXPECT_TRUE(std::isnan(record.mlm_loss));
        EXPECT_TRUE(std::isnan(record.nsp_loss));
        EXPECT_EQ(record.samples, kHandful);
        EXPECT_EQ(record.masked, 0);
      }
    }
  }
}

TEST(TaskLoop, LossesAreTheSameOnAnyNumberOfRanks) {
  for (const Task task : {Task::QuestionAnswering, Task::Classification}) {
    contract::RunConfig config = task_config(task, 1);
    config.dropout = config.attention_dropout = 0.1;
    const TaskCourse one = train_task(config, 6);
    for (const int ranks : {2, 3}) {
      for (const bool sharded : {false, true}) {
        SCOPED_TRACE(contract::name_of(task) + " on " + std::to_string(ranks));
        config.ranks = ranks;
        config.sharding.optimizer = sharded;
        const TaskCourse many = train_task(config, 6);
        ASSERT_EQ(many.records.size(), one.records.size());
        for (std::size_t i = 0; i < many.records.size(); ++i) {
          // Afterwards AdamW makes much of what rounding does to the smallest gradients.
          const double tolerance = i == 0 ? 1e-5 : 1e-3;
          EXPECT_NEAR(many.records[i].loss, one.records[i].loss, tolerance * one.records[i].loss)
              << i;
          EXPECT_EQ(many.records[i].tokens, one.records[i].tokens);
          EXPECT_DOUBLE_EQ(many.records[i].flops, one.records[i].flops);
        }
      }
    }
  }
}

TEST(TaskLoop, SameBitsOnAnyNumberOfThreads) {
  for (const Task task : kFineTuningTasks) {
    SCOPED_TRACE(contract::name_of(task));
    contract::RunConfig config = task_config(task, 1);
    config.dropout = config.attention_dropout = 0.1;
    config.fine_tuning.layer_decay = 0.9;
    const TaskCourse one = train_task(config, 4, 1);
    for (const int threads : {2, 3}) {
      const TaskCourse more = train_task(config, 4, threads);
      EXPECT_EQ(more.state.parameters, one.state.parameters);
      EXPECT_EQ(more.state.second_moment, one.state.second_moment);
      EXPECT_EQ(more.records.back().loss, one.records.back().loss);
    }
  }
}

TEST(TaskLoop, LearnsAHandfulOfSamplesByHeart) {
  constexpr std::int64_t kMost = 500;
  for (const Task task : kFineTuningTasks) {
    SCOPED_TRACE(contract::name_of(task));
    const contract::RunConfig config = task_config(task, 1);
    double loss = 0;
    on_task_ranks(config, first_weights(config),
                  [&](ranks::Communicator&, device::Device&, step::TrainLoop& loop) {
                    loss = loop.step(1).loss;
                    EXPECT_GT(loss, 0.1);
                    for (std::int64_t step = 2; step <= kMost && loss >= 0.05; ++step) {
                      loss = loop.step(step).loss;
                    }
                  });
    EXPECT_LT(loss, 0.05);
  }
}

// ‖ḡ − h‖² and ‖ḡ‖² of the first step by float64, h being the mean gradient of its half: with as
// many samples in it as not, noise is the former, and signal what the latter has beyond it.
TEST(TaskLoop, NoiseOfAStepIsThatOfTheReference) {
  for (const Task task : kFineTuningTasks) {
    for (const int ranks : {1, 3}) {
      SCOPED_TRACE(contract::name_of(task) + " on " + std::to_string(ranks));
      contract::RunConfig config = task_config(task, ranks);
      config.statistics_every = 1;
      config.balance.strategy = contract::Balance::None;  // sample n is at place n
      const std::vector<bool> in_half = step::half_of_step(config.seed, 1, kHandful);
      std::vector<samples::Sample> all, half;
      for (int i = 0; i < kHandful; ++i) {
        all.push_back(task_sample(i));
        if (in_half[static_cast<std::size_t>(i)]) half.push_back(all.back());
      }
      ASSERT_EQ(std::ssize(half), kHandful / 2);
      const ReferenceWeights weights =
          reference_weights(contract::make_tensor_table(config.model), first_weights(config));
      const auto gradients = [&](const std::vector<samples::Sample>& samples) {
        return reference_task(config.model, weights, samples, std::vector<int>(samples.size(), 0),
                              {}, 1, 0, static_cast<double>(samples.size()))
            .gradients;
      };
      const auto mean = gradients(all);
      const auto of_half = gradients(half);
      double difference = 0, whole = 0;
      for (const auto& [name, gradient] : mean) {
        const std::vector<double>& h = of_half.at(name);
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          difference += (gradient[i] - h[i]) * (gradient[i] - h[i]);
          whole += gradient[i] * gradient[i];
        }
      }
      const contract::NoiseScale::State raw = train_task(config, 1).state.noise[1];
      EXPECT_EQ(raw[0], 1) << "steps observed";
      EXPECT_NEAR(raw[2], difference, 1e-3 * difference) << "noise";
      EXPECT_NEAR(raw[3], whole - difference, 1e-3 * (whole + difference)) << "signal";
    }
  }
}

// The noise is of samples: there are no masked positions to count.
TEST(TaskLoop, LooksAtTheNoiseOfSamples) {
  for (const int ranks : {1, 2}) {
    contract::RunConfig config = task_config(Task::Classification, ranks);
    config.optimizer.learning_rate = 1e-9;
    config.statistics_every = 1;
    const TaskCourse course = train_task(config, 12);
    EXPECT_EQ(course.state.noise[1][0], 12) << "steps observed, of gradients as they are";
    for (const contract::NoiseScale::State& state : course.state.noise) {
      EXPECT_GE(state[0], 7) << "the first five steps have no second moment to go by";
      EXPECT_GT(state[2], 0) << "noise";
      EXPECT_TRUE(
          std::all_of(state.begin(), state.end(), [](double x) { return std::isfinite(x); }));
    }
    contract::RunConfig blind = config;
    blind.statistics_every = 0;
    EXPECT_EQ(train_task(blind, 12).state.parameters, course.state.parameters);
  }
}

TEST(TaskLoop, FrozenLayersStandStillAndAreNotInTheNorm) {
  for (const Task task : kFineTuningTasks) {
    for (const int ranks : {1, 2}) {
      SCOPED_TRACE(contract::name_of(task) + " on " + std::to_string(ranks));
      contract::RunConfig config = task_config(task, ranks);
      config.fine_tuning.frozen_layers = 1;
      const auto is_frozen = [](const std::string& tensor) {
        return starts_with(tensor, "bert.embeddings.") ||
               starts_with(tensor, "bert.encoder.layer.0.");
      };
      const TaskTruth truth =
          truth_of_step_1(config, [&](const std::string& tensor) { return !is_frozen(tensor); });
      const TaskCourse course = train_task(config, 3);
      EXPECT_NEAR(course.records[0].gradient_norm, truth.norm, 1e-4 * truth.norm);
      const std::vector<float> before = first_weights(config);
      for (const contract::TensorEntry& tensor :
           contract::make_tensor_table(config.model).tensors) {
        const auto begin = static_cast<std::ptrdiff_t>(tensor.offset);
        const auto end = begin + static_cast<std::ptrdiff_t>(tensor.size);
        const bool still = std::equal(before.begin() + begin, before.begin() + end,
                                      course.state.parameters.begin() + begin);
        if (is_frozen(tensor.name)) {
          EXPECT_TRUE(still) << tensor.name;
        } else if (tensor.shape.size() == 2) {  // biases may have a gradient of 0
          EXPECT_FALSE(still) << tensor.name;
        }
      }
    }
  }
}

// Each tensor takes the step that it would take with its own rate for all: a power of two, so that
// no product rounds.
TEST(TaskLoop, ALayersStepIsThatOfItsOwnRate) {
  constexpr double kRate = 0.0078125;
  struct RateCase {
    contract::OptimizerKind kind;
    int ranks;
    bool sharded;
  };
  for (const RateCase& way : {RateCase{contract::OptimizerKind::AdamW, 1, false},
                              RateCase{contract::OptimizerKind::Lamb, 1, false},
                              RateCase{contract::OptimizerKind::AdamW, 2, true},
                              RateCase{contract::OptimizerKind::Lamb, 2, true}}) {
    contract::RunConfig config = task_config(Task::Classification, way.ranks);
    config.optimizer.kind = way.kind;
    config.sharding.optimizer = way.sharded;
    config.optimizer.learning_rate = kRate;
    config.fine_tuning.layer_decay = 0.5;
    const std::vector<float> decayed = train_task(config, 1).state.parameters;
    config.fine_tuning.layer_decay = 1;
    const std::vector<std::pair<std::string, double>> depths{{"classifier.", 0},
                                                             {"bert.pooler.", 0},
                                                             {"bert.encoder.layer.1.", 1},
                                                             {"bert.encoder.layer.0.", 2},
                                                             {"bert.embeddings.", 3}};
    std::size_t seen = 0;
    const contract::TensorTable table = contract::make_tensor_table(config.model);
    for (const auto& [prefix, depth] : depths) {
      config.optimizer.learning_rate = kRate * std::pow(0.5, depth);
      const std::vector<float> plain = train_task(config, 1).state.parameters;
      for (const contract::TensorEntry& tensor : table.tensors) {
        if (!starts_with(tensor.name, prefix)) continue;
        ++seen;
        const auto begin = static_cast<std::ptrdiff_t>(tensor.offset);
        const auto end = begin + static_cast<std::ptrdiff_t>(tensor.size);
        EXPECT_TRUE(std::equal(plain.begin() + begin, plain.begin() + end, decayed.begin() + begin))
            << tensor.name << " at depth " << depth;
      }
    }
    EXPECT_EQ(seen, table.tensors.size());
  }
}

TEST(LearningRateFactors, AreOfTheClosedForm) {
  for (const Task task : {Task::Pretraining, Task::QuestionAnswering, Task::Classification}) {
    contract::ModelShape shape = task_config(task, 1).model;
    shape.layers = 12;  // numbers of two digits, too
    const contract::TensorTable table = contract::make_tensor_table(shape);
    for (const double decay : {1.0, 0.9, 0.5}) {
      for (const int frozen : {0, 1, 11, 12}) {
        SCOPED_TRACE(contract::name_of(task) + ", " + std::to_string(frozen) + " frozen");
        const std::vector<float> factors =
            step::learning_rate_factors(table, shape, {decay, frozen, 0});
        ASSERT_EQ(factors.size(), table.tensors.size());
        std::map<std::string, double> expected;  // by the beginning of names
        expected["bert.embeddings."] = frozen > 0 ? 0 : std::pow(decay, 13);
        for (int layer = 0; layer < 12; ++layer) {
          expected["bert.encoder.layer." + std::to_string(layer) + "."] =
              layer < frozen ? 0 : std::pow(decay, 12 - layer);
        }
        for (const char* head : {"cls.", "bert.pooler.", "qa_outputs.", "classifier."}) {
          expected[head] = 1;
        }
        for (std::size_t i = 0; i < factors.size(); ++i) {
          int found = 0;
          for (const auto& [prefix, factor] : expected) {
            if (!starts_with(table.tensors[i].name, prefix)) continue;
            ++found;
            EXPECT_FLOAT_EQ(factors[i], static_cast<float>(factor)) << table.tensors[i].name;
          }
          EXPECT_EQ(found, 1) << table.tensors[i].name;
        }
      }
    }
  }
}

// Of as many samples as leave the ranks with different numbers, and of fewer than there are ranks.
TEST(TaskEvaluation, AllRanksHaveTheRecordOfOne) {
  for (const Task task : kFineTuningTasks) {
    for (const int count : {11, 2}) {
      const WeighedSet set(count);
      std::vector<contract::Metric> alone;
      for (const int ranks : {1, 2, 3}) {
        SCOPED_TRACE(contract::name_of(task) + " on " + std::to_string(ranks));
        const contract::RunConfig config = task_config(task, ranks);
        const std::vector<float> weights =
            random_weights(contract::make_tensor_table(config.model), 5);
        std::vector<contract::EvalRecord> records(static_cast<std::size_t>(ranks));
        std::vector<contract::Metric> in_turn;
        on_task_ranks(
            config, weights,
            [&](ranks::Communicator& communicator, device::Device&, step::TrainLoop& loop) {
              records[static_cast<std::size_t>(communicator.rank())] = loop.evaluate(set, 40);
            });
        // One process that has every rank's share in turn.
        const auto device = cpu::make_cpu_device(1);
        model::Bert model(*device, config.model, step::bert_options(config, *device));
        device->copy_to_device(0, model.parameters(), weights.data());
        tasks::JudgedSet::Logits all(static_cast<std::size_t>(count));
        for (int rank = 0; rank < ranks; ++rank) {
          auto place = static_cast<std::size_t>(rank);
          for (const std::vector<float>& logits :
               step::logits_share(*device, model, set.samples(), rank, ranks)) {
            ASSERT_LT(place, all.size());
            all[place] = logits;
            place += static_cast<std::size_t>(ranks);
          }
        }
        for (std::size_t i = 0; i < all.size(); ++i) {
          const std::size_t tokens = set.samples()[i].ids.size();
          EXPECT_EQ(all[i].size(), task == Task::QuestionAnswering ? 2 * tokens
                                   : task == Task::Classification  ? 3
                                                                   : 1);
        }
        in_turn = set.score(all);
        if (ranks == 1) alone = in_turn;
        for (const contract::EvalRecord& record : records) {
          EXPECT_EQ(record.step, 40);
          EXPECT_EQ(record.samples, count);
          EXPECT_TRUE(std::isnan(record.mlm_accuracy) && std::isnan(record.mlm_loss) &&
                      std::isnan(record.nsp_accuracy));
          ASSERT_EQ(record.metrics.size(), in_turn.size());
          for (std::size_t i = 0; i < in_turn.size(); ++i) {
            EXPECT_EQ(record.metrics[i].name, in_turn[i].name) << "in their order";
            EXPECT_EQ(record.metrics[i].value, in_turn[i].value) << "to the last bit";
            // Packs of other ranks sum in another order.
            EXPECT_NEAR(record.metrics[i].value, alone[i].value,
                        1e-4 * std::abs(alone[i].value) + 1e-9);
          }
        }
      }
    }
  }
}

// Logits of a sample are the reference's, in its place.
TEST(TaskEvaluation, LogitsAreThoseOfTheirSamples) {
  for (const Task task : kFineTuningTasks) {
    SCOPED_TRACE(contract::name_of(task));
    const contract::RunConfig config = task_config(task, 1);
    const contract::TensorTable table = contract::make_tensor_table(config.model);
    const std::vector<float> weights = random_weights(table, 5);
    const WeighedSet set(7);
    const auto device = cpu::make_cpu_device(1);
    model::Bert model(*device, config.model, step::bert_options(config, *device));
    device->copy_to_device(0, model.parameters(), weights.data());
    const ReferenceTaskResult expected =
        reference_task(config.model, reference_weights(table, weights), set.samples(),
                       std::vector<int>(7, 0), {}, 0, 0, 1);
    const tasks::JudgedSet::Logits found = step::logits_share(*device, model, set.samples(), 0, 1);
    ASSERT_EQ(found.size(), expected.logits.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].size(), expected.logits[i].size());
      for (std::size_t k = 0; k < found[i].size(); ++k) {
        EXPECT_NEAR(static_cast<double>(found[i][k]), expected.logits[i][k], 1e-4) << i;
      }
    }
  }
}

// Those that other ranks have updated come within the next forward: an evaluation waits for them.
TEST(TaskEvaluation, IsOfAllWeightsOfTheStepBefore) {
  contract::RunConfig config = task_config(Task::Classification, 3);
  config.sharding.optimizer = true;
  const WeighedSet set(11);
  on_task_ranks(config, first_weights(config),
                [&](ranks::Communicator& ranks, device::Device&, step::TrainLoop& loop) {
                  (void)loop.step(1);
                  const contract::EvalRecord at_once = loop.evaluate(set, 1);
                  (void)whole_state(ranks, loop);  // all weights are there
                  const contract::EvalRecord later = loop.evaluate(set, 1);
                  ASSERT_FALSE(at_once.metrics.empty());
                  for (std::size_t i = 0; i < at_once.metrics.size(); ++i) {
                    EXPECT_EQ(at_once.metrics[i].value, later.metrics[i].value);
                  }
                });
}

TEST(TaskEvaluation, GatheringPutsEachSampleInItsPlace) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const std::size_t samples :
         {std::size_t{0}, std::size_t{1}, std::size_t{4}, std::size_t{7}}) {
      ThreadRanks(ranks).run([&](ranks::Communicator& communicator) {
        tasks::JudgedSet::Logits share;
        for (auto i = static_cast<std::size_t>(communicator.rank()); i < samples;
             i += static_cast<std::size_t>(ranks)) {
          share.emplace_back(i % 3, static_cast<float>(i) + 0.5F);  // some have none
        }
        const tasks::JudgedSet::Logits all =
            step::gather_logits(communicator.host(), share, samples);
        if (communicator.rank() != 0) {
          EXPECT_TRUE(all.empty());
          return;
        }
        ASSERT_EQ(all.size(), samples);
        for (std::size_t i = 0; i < samples; ++i) {
          EXPECT_EQ(all[i], std::vector<float>(i % 3, static_cast<float>(i) + 0.5F)) << i;
        }
      });
    }
  }
}

// A set that cannot be judged ends the run on all ranks alike, and none waits for rank 0.
TEST(TaskEvaluation, AllRanksLearnThatASetCannotBeJudged) {
  class Hopeless final : public tasks::JudgedSet {
   public:
    [[nodiscard]] const std::vector<samples::Sample>& samples() const override { return one_; }
    [[nodiscard]] bool labelled() const override { return false; }
    [[nodiscard]] std::vector<contract::Metric> score(const Logits&) const override {
      throw base::Error(base::Code::User, "a logit is not finite");
    }
    [[nodiscard]] std::vector<contract::Metric> baseline() const override { return {}; }
    void write_predictions(const Logits&, const base::Path&, base::FileSystem&) const override {}

   private:
    std::vector<samples::Sample> one_{task_sample(0)};
  };
  const Hopeless set;
  const contract::RunConfig config = task_config(Task::Regression, 3);
  std::mutex mutex;
  int told = 0;
  on_task_ranks(config, first_weights(config),
                [&](ranks::Communicator&, device::Device&, step::TrainLoop& loop) {
                  try {
                    (void)loop.evaluate(set, 1);
                    ADD_FAILURE() << "was judged";
                  } catch (const ranks::AgreedError& error) {
                    EXPECT_EQ(error.code(), base::Code::User);
                    EXPECT_NE(std::string(error.what()).find("a logit is not finite"),
                              std::string::npos);
                    const std::scoped_lock lock(mutex);
                    ++told;
                  }
                });
  EXPECT_EQ(told, 3);
}

struct Broken {
  Task task;
  std::vector<std::pair<const char*, float>> fills;  // whole tensors
  const char* first;
};

// What stops being finite first is named in the heads, too.
TEST(TaskDivergence, NamesTheHeadsTensors) {
  constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
  const Broken rows[] = {
      {Task::QuestionAnswering, {{"qa_outputs.bias", kNotANumber}}, "weight of qa_outputs.bias"},
      {Task::Classification, {{"classifier.weight", kNotANumber}}, "weight of classifier.weight"},
      {Task::Regression,
       {{"bert.pooler.dense.bias", kNotANumber}},
       "weight of bert.pooler.dense.bias"},
      // Σ of 32 hidden units of about 10 or 1, times 3·10³⁸.
      {Task::QuestionAnswering,
       {{"bert.encoder.layer.1.output.LayerNorm.bias", 10}, {"qa_outputs.weight", 3e38F}},
       "output of qa_outputs.weight"},
      {Task::Classification,
       {{"bert.pooler.dense.bias", 10}, {"classifier.weight", 3e38F}},
       "output of classifier.weight"},
      {Task::Regression,
       {{"bert.pooler.dense.bias", 10}, {"classifier.weight", 3e38F}},
       "output of classifier.weight"}};
  for (const Broken& row : rows) {
    SCOPED_TRACE(row.first);
    const contract::RunConfig config = task_config(row.task, 1);
    const contract::TensorTable table = contract::make_tensor_table(config.model);
    std::vector<float> weights = first_weights(config);
    for (const auto& [name, value] : row.fills) {
      const contract::TensorEntry& tensor = table.at(name);
      std::fill_n(weights.begin() + static_cast<std::ptrdiff_t>(tensor.offset), tensor.size, value);
    }
    on_task_ranks(
        config, weights, [&](ranks::Communicator&, device::Device&, step::TrainLoop& loop) {
          try {
            (void)loop.step(1);
            ADD_FAILURE() << "is finite";
          } catch (const step::Diverged& error) {
            EXPECT_EQ(step::to_text(error.first, 1), std::string(row.first) + ", in the head");
          }
        });
  }
}

}  // namespace
}  // namespace regatta::tests
