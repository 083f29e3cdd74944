// A step that diverges: what stopped being finite first is named by its tensor, alike on all ranks.
#include "trainer/step/divergence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>

#include "tests/trainer/ranks/thread_ranks.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/step/buckets.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kShort = 12;
constexpr int kLong = 30;

contract::RunConfig config_of(int ranks) {
  contract::RunConfig config;
  config.model = contract::preset_shape("tiny");
  config.model.hidden = 32;
  config.model.heads = 2;
  config.model.feed_forward = 64;
  config.model.max_positions = 64;
  config.model.vocabulary = 100;
  config.data.max_length = 48;
  config.batch_size = 12;
  config.steps = 10;
  config.ranks = ranks;
  config.ranks_per_node = 1;
  config.balance.strategy = contract::Balance::None;  // place p is of rank p mod R
  return config;
}

samples::Sample sample_of(int length, std::int64_t number) {
  samples::Sample sample;
  for (int i = 0; i < length; ++i) {
    sample.ids.push_back(static_cast<std::int32_t>((number * 7 + i * 3) % 100));
    sample.types.push_back(i < length / 2 ? 0 : 1);
  }
  sample.masked_positions = {1, 5};
  sample.masked_labels = {static_cast<std::int32_t>(number % 100), 3};
  sample.sample_label = static_cast<std::int32_t>(number % 2);
  return sample;
}

// All samples are short but number `longer`.
samples::SampleStream stream_with(std::int64_t longer) {
  const auto length = [longer](std::int64_t number) { return number == longer ? kLong : kShort; };
  return {[length](std::int64_t number) { return sample_of(length(number), number); }, length};
}

void fill(const contract::TensorTable& table, const std::string& name, float value,
          std::vector<float>* values) {
  const contract::TensorEntry& entry = table.at(name);
  std::fill_n(values->begin() + static_cast<std::ptrdiff_t>(entry.offset), entry.size, value);
}

struct Told {
  std::string message;
  std::int64_t step = 0;
  step::NotFinite first;
};

// What every rank is told of step 1 that these weights take.
std::vector<Told> diverge(const contract::RunConfig& config, const std::vector<float>& weights,
                          std::int64_t longer = -1) {
  std::vector<Told> told(static_cast<std::size_t>(config.ranks));
  ThreadRanks world(config.ranks);
  world.run([&](ranks::Communicator& ranks) {
    const auto device = cpu::make_cpu_device(1);
    topology::plan::Plan plan;
    plan.ranks = config.ranks;
    plan.buckets = step::buckets_per_layer(contract::make_tensor_table(config.model));
    step::TrainLoop loop(*device, ranks, base::system_clock(), config, plan, stream_with(longer));
    step::TrainingState state;
    state.parameters = weights;
    loop.load(state);
    try {
      const contract::StepRecord record = loop.step(1);
      ADD_FAILURE() << "rank " << ranks.rank() << " has a loss of " << record.loss;
    } catch (const step::Diverged& error) {
      told[static_cast<std::size_t>(ranks.rank())] = {error.what(), error.step, error.first};
    }
  });
  return told;
}

class Divergence : public testing::Test {
 protected:
  const contract::RunConfig config_ = config_of(1);
  const contract::TensorTable table_ = contract::make_tensor_table(config_.model);
  std::vector<float> weights_ = model::initial_weights(table_, 1);
};

TEST_F(Divergence, NamesTheFirstWeightThatForwardUses) {
  const std::vector<std::string> in_order{
      "bert.embeddings.word_embeddings.weight", "bert.encoder.layer.0.attention.self.key.bias",
      "bert.encoder.layer.1.output.dense.weight", "cls.seq_relationship.bias"};
  for (std::size_t first = in_order.size(); first-- > 0;) {
    // The last element, so that all of a tensor is looked at.
    const contract::TensorEntry& entry = table_.at(in_order[first]);
    weights_[static_cast<std::size_t>(entry.offset + entry.size - 1)] =
        first % 2 == 0 ? kNaN : kInfinity;
    const Told told = diverge(config_, weights_)[0];
    EXPECT_EQ(told.first.tensor, in_order[first]);
    EXPECT_EQ(told.first.quantity, "weight");
    EXPECT_EQ(told.step, 1);
    EXPECT_EQ(told.message, "the loss is not finite at step 1 (first: weight of " +
                                in_order[first] + ", in " + contract::layer_of(in_order[first]) +
                                ")");
  }
}

// Weights that are finite, and too large for what is made of them.
TEST_F(Divergence, NamesWhereForwardOverflows) {
  struct Case {
    std::vector<std::string> tensors;
    float value;
    std::string quantity, first;
  };
  const std::string layer = "bert.encoder.layer.1.";
  for (const Case& c : std::vector<Case>{
           {{"bert.embeddings.position_embeddings.weight",
             "bert.embeddings.token_type_embeddings.weight"},
            3e38F,
            "input",
            "bert.embeddings.LayerNorm.weight"},
           {{"bert.embeddings.position_embeddings.weight"},
            3e38F,
            "output",
            "bert.embeddings.LayerNorm.weight"},
           {{layer + "attention.self.query.weight"}, 3e38F, "output", ""},
           {{layer + "attention.self.key.weight"}, 3e38F, "output", ""},
           {{layer + "attention.self.value.weight"}, 3e38F, "output", ""},
           {{layer + "attention.self.query.bias", layer + "attention.self.key.bias"},
            1e20F,
            "input",
            layer + "attention.output.dense.weight"},
           {{layer + "attention.self.value.bias"},
            3.3e38F,
            "input",
            layer + "attention.output.dense.weight"},
           {{layer + "attention.output.dense.bias"},
            3.3e38F,
            "output",
            layer + "attention.output.dense.weight"},
           {{layer + "attention.output.LayerNorm.weight"}, 3e38F, "output", ""},
           {{layer + "intermediate.dense.weight"}, 3e38F, "output", ""},
           {{layer + "output.dense.bias"}, 3.3e38F, "output", layer + "output.dense.weight"},
           {{layer + "output.LayerNorm.weight"}, 3e38F, "output", ""},
           {{"cls.predictions.transform.dense.weight"}, 3e38F, "output", ""},
           {{"cls.predictions.transform.LayerNorm.weight"}, 3e38F, "output", ""},
       }) {
    std::vector<float> weights = weights_;
    for (const std::string& tensor : c.tensors) fill(table_, tensor, c.value, &weights);
    const step::NotFinite first = diverge(config_, weights)[0].first;
    const std::string expected = c.first.empty() ? c.tensors[0] : c.first;
    EXPECT_EQ(step::to_text(first, 1),
              c.quantity + " of " + expected + ", in " + contract::layer_of(expected))
        << "large " << c.tensors[0];
  }
}

// Every masked position's loss is finite, and their sum is not.
TEST_F(Divergence, NamesNothingWhereOnlyASumOverflows) {
  weights_[static_cast<std::size_t>(table_.at("cls.predictions.bias").offset) + 99] = 3.4e38F;
  const Told told = diverge(config_, weights_)[0];
  EXPECT_EQ(told.first.tensor, "");
  EXPECT_EQ(told.message, "the loss is not finite at step 1");
}

// One sample of one rank reaches a position whose embedding is too large, in the middle one of
// three micro-batches.
TEST_F(Divergence, IsTheSameOnAllRanksAndSaysWhoseSamplesLedThere) {
  const contract::TensorEntry& positions = table_.at("bert.embeddings.position_embeddings.weight");
  std::fill_n(weights_.begin() + static_cast<std::ptrdiff_t>(positions.offset) + kShort * 32, 32,
              3e38F);
  for (const bool sharded : {false, true}) {
    contract::RunConfig config = config_of(2);
    config.micro_batch_size = 2;
    config.sharding.optimizer = sharded;
    const std::vector<Told> told = diverge(config, weights_, 5);
    for (const Told& rank : told) {
      EXPECT_EQ(rank.message,
                "the loss is not finite at step 1 (first: output of "
                "bert.embeddings.LayerNorm.weight, in the embeddings on rank 1)");
      EXPECT_EQ(rank.first.rank, 1);
    }
  }
}

// Of gradients, a rank looks at those that it has the sum of.
TEST_F(Divergence, NamesTheFirstGradientThatBackwardFinishes) {
  const auto element = [&](const std::string& name) { return table_.at(name).offset + 7; };
  const std::int64_t early = element("bert.pooler.dense.weight");
  const std::int64_t middle = element("bert.encoder.layer.1.intermediate.dense.bias");
  const std::int64_t late = element("bert.embeddings.word_embeddings.weight");
  struct Case {
    std::vector<std::pair<std::int64_t, float>> planted;
    std::string first;
    int rank;
  };
  const std::int64_t half = table_.at("bert.encoder.layer.0.output.LayerNorm.weight").offset;
  // Rank 0 has the sums of [0, half), rank 1 the others.
  for (const Case& c : std::vector<Case>{
           {{{late, kNaN}}, "bert.embeddings.word_embeddings.weight", 1},
           {{{late, kNaN}, {middle, kInfinity}}, "bert.encoder.layer.1.intermediate.dense.bias", 0},
           {{{middle, 1e20F}}, "bert.encoder.layer.1.intermediate.dense.bias", 0},
           {{{middle, 1e18F}}, "", 0},
           {{{middle, 1.5e19F}, {middle + 1, 1.5e19F}},
            "bert.encoder.layer.1.intermediate.dense.bias",
            0},
           {{{early, -kInfinity}, {late, kNaN}}, "bert.pooler.dense.weight", 0}}) {
    std::mutex mutex;
    ThreadRanks world(2);
    world.run([&](ranks::Communicator& ranks) {
      const auto device = cpu::make_cpu_device(1);
      model::Bert model(*device, config_.model, step::bert_options(config_, *device));
      device->copy_to_device(0, model.parameters(), weights_.data());
      std::vector<float> gradients(static_cast<std::size_t>(table_.arena_size), 0.0F);
      const bool first = ranks.rank() == 0;
      const step::StatePiece mine{first ? 0 : half, first ? half : table_.arena_size - half, 0};
      for (const auto& [at, value] : c.planted) gradients[static_cast<std::size_t>(at)] = value;
      // What lies in another rank's part is nobody's sum.
      if (!first) gradients[static_cast<std::size_t>(early)] = kNaN;
      device->copy_to_device(0, model.gradients(), gradients.data());
      device->synchronize();
      const std::vector<samples::PackedBatch> batches{
          samples::collate({sample_of(kShort, 1)}, {0})};
      const std::vector<step::StatePiece> pieces{mine};
      const step::NotFinite found =
          step::first_not_finite(*device, ranks.host(), model, {1, batches, {2, 1, 1}, pieces});
      const std::scoped_lock lock(mutex);
      EXPECT_EQ(found.tensor, c.first);
      EXPECT_EQ(found.quantity, c.first.empty() ? "" : "gradient");
      EXPECT_EQ(found.rank, c.rank);
    });
  }
}

}  // namespace
}  // namespace regatta::tests
