// The optimizer with its state whole and in pieces: on many ranks, played by threads, it must do
// what one rank with the whole does.
#include "trainer/step/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/device/deferred_device.h"
#include "tests/trainer/device/rounding_device.h"
#include "tests/trainer/model/random_model.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/step/buckets.h"

namespace regatta::tests {
namespace {

using topology::plan::Bucket;
using trainer::contract::OptimizerConfig;
using trainer::contract::OptimizerKind;
using trainer::contract::TensorEntry;
using trainer::contract::TensorTable;
using trainer::device::View;
using trainer::model::Bert;
using trainer::ranks::Communicator;
using trainer::step::Optimizer;
using trainer::step::StatePiece;

struct Ranks {
  int ranks, node_ranks;
};
const Ranks kRanks[] = {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {4, 2}, {6, 3}, {2, 1}};

std::string name_of(const Ranks& shape) {
  return std::to_string(shape.ranks) + " ranks, " + std::to_string(shape.node_ranks) + " a node";
}

constexpr int kSteps = 3;

trainer::contract::ModelShape shape() { return small_shape(24, 2, trainer::contract::Gelu::Tanh); }
TensorTable table() { return trainer::contract::make_tensor_table(shape()); }
std::vector<std::vector<Bucket>> bucket_choices() {
  return {trainer::step::buckets_of_bytes(table(), 0), trainer::step::buckets_of_bytes(table(), 4),
          trainer::step::buckets_per_layer(table()),
          trainer::step::buckets_of_bytes(table(), 9000)};
}
View slice_of(const View& arena, const Bucket& bucket) {
  const TensorTable all = table();
  const TensorEntry& first = all.tensors[static_cast<std::size_t>(bucket.begin_tensor)];
  const TensorEntry& last = all.tensors[static_cast<std::size_t>(bucket.end_tensor) - 1];
  return arena.slice(first.offset, last.offset + last.size - first.offset);
}

// The summed gradient of a step; tensors differ in size a hundredfold.
std::vector<float> gradient(int step) {
  std::mt19937 random(static_cast<unsigned>(100 + step));
  std::normal_distribution<float> normal;
  const TensorTable all = table();
  std::vector<float> arena(static_cast<std::size_t>(all.arena_size), 0.0F);
  for (std::size_t t = 0; t < all.tensors.size(); ++t) {
    const float size = std::pow(10.0F, static_cast<float>(t % 3) - 1);
    for (std::int64_t i = 0; i < all.tensors[t].size; ++i) {
      arena[static_cast<std::size_t>(all.tensors[t].offset + i)] = size * normal(random);
    }
  }
  return arena;
}
Optimizer::Step step_of(int step) { return {step, 0.01 / step, 4.0}; }

OptimizerConfig config_of(OptimizerKind kind) {
  OptimizerConfig config;
  config.kind = kind;
  return config;
}

std::vector<float> read(trainer::device::Device& device, const View& view) {
  std::vector<float> values(static_cast<std::size_t>(view.size));
  device.copy_to_host(0, values.data(), view);
  device.synchronize();
  return values;
}
void write(trainer::device::Device& device, const View& view, const std::vector<float>& values) {
  device.copy_to_device(0, view, values.data());
  device.synchronize();
}

// Of one run: weights, and moments where they lie in the arena.
struct State {
  std::vector<float> weights, first, second;
  std::vector<float> squared_norms;  // of each step
};

// A model with random weights and its optimizer.
struct Trained {
  std::unique_ptr<trainer::device::Device> device;
  Bert model;
  Optimizer optimizer;

  Trained(std::unique_ptr<trainer::device::Device> on, Communicator& communicator,
          const std::vector<StatePiece>& pieces, const OptimizerConfig& config, double clip_norm)
      : device(std::move(on)),
        model(*device, shape(), {}),
        optimizer(*device, communicator, model.table(), pieces, config, clip_norm) {
    write(*device, model.parameters(), random_weights(model.table(), 5));
  }
  void update(const Optimizer::Step& step) {
    optimizer.begin(model, step);
    optimizer.update(model);
  }
  // The moments in the arena, NaN where others hold them.
  [[nodiscard]] std::vector<float> in_arena(const View& moment) {
    const std::vector<float> mine = read(*device, moment);
    std::vector<float> arena(static_cast<std::size_t>(model.table().arena_size),
                             std::numeric_limits<float>::quiet_NaN());
    for (const StatePiece& piece : optimizer.pieces()) {
      std::copy_n(mine.begin() + piece.state_begin, piece.size, arena.begin() + piece.arena_begin);
    }
    return arena;
  }
  void read_norm(State* state) {
    float norm = 0;
    optimizer.read_squared_norm(&norm);
    device->synchronize();
    state->squared_norms.push_back(norm);
  }
  [[nodiscard]] State state() {
    return {read(*device, model.parameters()),
            in_arena(optimizer.first_moment()),
            in_arena(optimizer.second_moment()),
            {}};
  }
};

State whole(OptimizerKind kind, double clip_norm) {
  trainer::ranks::SingleCommunicator one;
  Trained trained(trainer::cpu::make_cpu_device(1), one, trainer::step::whole_state(table()),
                  config_of(kind), clip_norm);
  State state;
  for (int step = 1; step <= kSteps; ++step) {
    write(*trained.device, trained.model.gradients(), gradient(step));
    trained.update(step_of(step));
    trained.read_norm(&state);
  }
  State end = trained.state();
  end.squared_norms = state.squared_norms;
  return end;
}

// Reduces each bucket, updates, gathers each bucket. Rank r brings every ranks()-th element of the
// gradient and zeros for the others, so that sums are exact.
void sharded_step(Communicator& at, Trained& trained, const std::vector<Bucket>& buckets,
                  std::vector<float> gradients, int step) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (i % static_cast<std::size_t>(at.ranks()) != static_cast<std::size_t>(at.rank())) {
      gradients[i] = 0;
    }
  }
  write(*trained.device, trained.model.gradients(), gradients);
  for (const Bucket& bucket : buckets) {
    at.finish(0, at.reduce_scatter_sum(0, slice_of(trained.model.gradients(), bucket)));
  }
  trained.update(step_of(step));
  for (const Bucket& bucket : buckets) {
    at.finish(0, at.all_gather(0, slice_of(trained.model.parameters(), bucket)));
  }
}

// What each rank has after the same steps.
std::vector<State> sharded(const Ranks& ranks, const std::vector<Bucket>& buckets,
                           OptimizerKind kind, double clip_norm) {
  std::vector<State> states(static_cast<std::size_t>(ranks.ranks));
  ThreadRanks(ranks.ranks, ranks.node_ranks).run([&](Communicator& at) {
    Trained trained(trainer::cpu::make_cpu_device(1), at,
                    trainer::step::sharded_state(table(), buckets, at), config_of(kind), clip_norm);
    State state;
    for (int step = 1; step <= kSteps; ++step) {
      sharded_step(at, trained, buckets, gradient(step), step);
      trained.read_norm(&state);
    }
    State& mine = states[static_cast<std::size_t>(at.rank())];
    mine = trained.state();
    mine.squared_norms = state.squared_norms;
  });
  return states;
}

// Of each tensor's elements that are no NaN in `actual`; `tolerance`: of the largest `size` in the
// tensor, which the roundings of sums of both signs go by; 0: the same bits.
template <typename Size>
void expect_near(const std::vector<float>& actual, const std::vector<float>& expected,
                 double tolerance, Size size, const std::string& what) {
  for (const TensorEntry& tensor : table().tensors) {
    const auto begin = static_cast<std::size_t>(tensor.offset);
    const auto end = static_cast<std::size_t>(tensor.offset + tensor.size);
    double largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, size(i));
    EXPECT_GT(largest, 0) << what << " " << tensor.name;
    for (std::size_t i = begin; i < end; ++i) {
      if (std::isnan(actual[i])) continue;
      const auto value = static_cast<double>(expected[i]);
      const double allowed =
          tolerance == 0 ? 0 : tolerance * largest + kSteps * 0x1p-24 * std::abs(value);
      ASSERT_NEAR(static_cast<double>(actual[i]), value, allowed)
          << what << " " << tensor.name << " " << i - begin;
    }
  }
}
void expect_weights(const std::vector<float>& actual, const std::vector<float>& expected,
                    double tolerance, const std::string& what) {
  const std::vector<float> before = random_weights(table(), 5);
  const auto moved = [&](std::size_t i) {
    return std::abs(static_cast<double>(expected[i]) - static_cast<double>(before[i]));
  };
  for (const float weight : actual) ASSERT_TRUE(std::isfinite(weight)) << what;
  expect_near(actual, expected, tolerance, moved, what);
}
// Returns how many elements the rank holds.
std::int64_t expect_moments(const std::vector<float>& actual, const std::vector<float>& expected,
                            double tolerance, const std::string& what) {
  const auto size = [&](std::size_t i) { return std::abs(static_cast<double>(expected[i])); };
  expect_near(actual, expected, tolerance, size, what);
  return std::count_if(actual.begin(), actual.end(), [](float x) { return !std::isnan(x); });
}
// The same, where both are the same rank's.
void expect_unchanged(const std::vector<float>& actual, const std::vector<float>& expected,
                      const std::string& what) {
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(std::isnan(actual[i]), std::isnan(expected[i])) << what << " " << i;
    if (std::isnan(actual[i])) continue;
    ASSERT_EQ(actual[i], expected[i]) << what << " " << i;
  }
}

struct Case {
  const char* name;
  OptimizerKind kind;
  double clip_norm;
  bool exact_weights, exact_moments;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
// A sum over pieces in float32 makes a rounding each, of at most as many as there are tensors.
constexpr double kRounding = kSteps * 64 * 0x1p-24;

class ShardedOptimizer : public testing::TestWithParam<Case> {};

TEST_P(ShardedOptimizer, DoesWhatTheWholeDoes) {
  const Case& one = GetParam();
  const State expected = whole(one.kind, one.clip_norm);
  for (const Ranks& ranks : kRanks) {
    std::size_t choice = 0;
    for (const std::vector<Bucket>& buckets : bucket_choices()) {
      const std::string what = name_of(ranks) + ", buckets " + std::to_string(choice++);
      const std::vector<State> states = sharded(ranks, buckets, one.kind, one.clip_norm);
      std::int64_t held = 0;
      for (const State& state : states) {
        expect_weights(state.weights, expected.weights, one.exact_weights ? 0 : kRounding, what);
        EXPECT_EQ(state.weights, states[0].weights) << what;
        const double tolerance = one.exact_moments ? 0 : kRounding;
        held += expect_moments(state.first, expected.first, tolerance, what + " first");
        expect_moments(state.second, expected.second, 2 * tolerance, what + " second");
        EXPECT_EQ(state.squared_norms, states[0].squared_norms) << what;
        for (std::size_t s = 0; s < state.squared_norms.size(); ++s) {
          EXPECT_NEAR(state.squared_norms[s], expected.squared_norms[s],
                      kRounding * static_cast<double>(expected.squared_norms[s]))
              << what;
        }
      }
      const int copies = ranks.node_ranks == 0 ? 1 : ranks.ranks / ranks.node_ranks;
      EXPECT_GE(held, copies * table().parameter_count) << what;
      EXPECT_LE(held, copies * table().arena_size) << what;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Optimizer, ShardedOptimizer,
    testing::Values(Case{"AdamW", OptimizerKind::AdamW, 0, true, true},
                    Case{"AdamWClipped", OptimizerKind::AdamW, 0.5, false, false},
                    Case{"AdamWUnderItsLimit", OptimizerKind::AdamW, 1e9, true, true},
                    Case{"Lamb", OptimizerKind::Lamb, 0, false, true},
                    Case{"LambClipped", OptimizerKind::Lamb, 0.5, false, false}),
    [](const auto& one) { return std::string(one.param.name); });

// With the whole in one piece: one sum of squares and one update, by their definition.
TEST(Optimizer, TheWholeIsOneUpdate) {
  for (const OptimizerKind kind : {OptimizerKind::AdamW, OptimizerKind::Lamb}) {
    const State state = whole(kind, 0.5);
    const std::unique_ptr<trainer::device::Device> device = trainer::cpu::make_cpu_device(1);
    const TensorTable all = table();
    std::vector<float> w = random_weights(all, 5);
    std::vector<float> g(w.size()), m(w.size()), v(w.size());
    std::vector<float> scalars(trainer::device::kStepScalars), norm(1);
    std::vector<trainer::device::OptimizerTensor> tensors;
    for (const TensorEntry& tensor : all.tensors) {
      tensors.push_back({tensor.offset, tensor.size, tensor.weight_decay, tensor.trust_ratio});
    }
    const auto view = [](std::vector<float>& x) {
      return View{x.data(), static_cast<std::int64_t>(x.size()), trainer::device::Dtype::Float32};
    };
    const OptimizerConfig config = config_of(kind);
    for (int step = 1; step <= kSteps; ++step) {
      g = gradient(step);
      scalars[trainer::device::kLearningRate] = static_cast<float>(step_of(step).learning_rate);
      scalars[trainer::device::kBiasCorrection1] =
          static_cast<float>(1 - std::pow(config.beta1, step));
      scalars[trainer::device::kBiasCorrection2] =
          static_cast<float>(1 - std::pow(config.beta2, step));
      scalars[trainer::device::kClipNorm] = 0.5F;
      scalars[trainer::device::kInverseLossScale] = 0.25F;
      device->sum_of_squares(0, view(g), view(norm));
      trainer::device::OptimizerUpdate op;
      op.parameters = view(w);
      op.gradients = view(g);
      op.first_moment = view(m);
      op.second_moment = view(v);
      op.tensors = tensors.data();
      op.tensor_count = static_cast<std::int64_t>(tensors.size());
      op.beta1 = static_cast<float>(config.beta1);
      op.beta2 = static_cast<float>(config.beta2);
      op.epsilon = static_cast<float>(config.epsilon);
      op.weight_decay = static_cast<float>(config.weight_decay);
      op.lamb = kind == OptimizerKind::Lamb;
      op.scalars = view(scalars);
      op.squared_norm = view(norm);
      device->update(0, op);
      EXPECT_EQ(norm[0], state.squared_norms[static_cast<std::size_t>(step) - 1]);
    }
    EXPECT_EQ(state.weights, w);
    EXPECT_EQ(state.first, m);
    EXPECT_EQ(state.second, v);
  }
}

// A gradient that is not finite in one rank's part: all skip, and nothing changes anywhere.
TEST(Optimizer, OverflowInOnePartSkipsTheStepEverywhere) {
  const std::vector<Bucket> buckets = trainer::step::buckets_per_layer(table());
  for (const OptimizerKind kind : {OptimizerKind::AdamW, OptimizerKind::Lamb}) {
    for (const Ranks& ranks : kRanks) {
      for (const std::size_t bucket : {std::size_t{0}, buckets.size() - 1}) {
        ThreadRanks(ranks.ranks, ranks.node_ranks).run([&](Communicator& at) {
          Trained trained(trainer::cpu::make_cpu_device(1), at,
                          trainer::step::sharded_state(table(), buckets, at), config_of(kind), 1);
          sharded_step(at, trained, buckets, gradient(1), 1);
          const State before = trained.state();
          std::vector<float> overflown = gradient(2);
          const TensorTable all = table();
          const auto tensor = static_cast<std::size_t>(buckets[bucket].end_tensor) - 1;
          overflown[static_cast<std::size_t>(all.tensors[tensor].offset)] =
              std::numeric_limits<float>::infinity();
          sharded_step(at, trained, buckets, overflown, 2);
          State after = trained.state();
          trained.read_norm(&after);
          EXPECT_FALSE(std::isfinite(after.squared_norms[0])) << name_of(ranks);
          EXPECT_EQ(after.weights, before.weights) << name_of(ranks);
          expect_unchanged(after.first, before.first, name_of(ranks));
          expect_unchanged(after.second, before.second, name_of(ranks));
          sharded_step(at, trained, buckets, gradient(2), 2);
          EXPECT_NE(trained.state().weights, before.weights) << name_of(ranks);
        });
      }
    }
  }
}

// Every element of every tensor belongs to one part, and lies at one place of its state.
TEST(ShardedState, CoversEveryTensorOnce) {
  const TensorTable all = table();
  for (const Ranks& ranks : kRanks) {
    for (const std::vector<Bucket>& buckets : bucket_choices()) {
      std::vector<int> owners(static_cast<std::size_t>(all.arena_size), 0);
      std::mutex mutex;
      ThreadRanks(ranks.ranks, ranks.node_ranks).run([&](Communicator& at) {
        const std::vector<StatePiece> pieces = trainer::step::sharded_state(all, buckets, at);
        std::int64_t end = 0;
        const std::scoped_lock lock(mutex);
        for (const StatePiece& piece : pieces) {
          EXPECT_GT(piece.size, 0);
          EXPECT_GE(piece.state_begin, end);
          EXPECT_LT(piece.state_begin, end + trainer::ranks::kPartAlignment);
          EXPECT_EQ(piece.state_begin % trainer::ranks::kPartAlignment, 0);
          end = piece.state_begin + piece.size;
          for (std::int64_t i = 0; i < piece.size; ++i) {
            ++owners[static_cast<std::size_t>(piece.arena_begin + i)];
          }
        }
        const auto count = static_cast<std::int64_t>(buckets.size());
        EXPECT_LE(end, all.arena_size / at.parts() + 2 * trainer::ranks::kPartAlignment * count);
      });
      const int copies = ranks.node_ranks == 0 ? 1 : ranks.ranks / ranks.node_ranks;
      for (const TensorEntry& tensor : all.tensors) {
        for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
          ASSERT_EQ(owners[static_cast<std::size_t>(i)], copies) << tensor.name;
        }
      }
      EXPECT_LE(*std::max_element(owners.begin(), owners.end()), copies);
    }
  }
}

// Moments are all of the memory that grows with the model, and it shrinks with the ranks.
TEST(ShardedState, HoldsItsPartOfTheMoments) {
  const std::vector<Bucket> buckets = trainer::step::buckets_per_layer(table());
  for (const Ranks& ranks : kRanks) {
    ThreadRanks(ranks.ranks, ranks.node_ranks).run([&](Communicator& at) {
      const std::vector<StatePiece> pieces = trainer::step::sharded_state(table(), buckets, at);
      const std::unique_ptr<trainer::device::Device> device = trainer::cpu::make_cpu_device(1);
      const Optimizer optimizer(*device, at, table(), pieces, config_of(OptimizerKind::Lamb), 1);
      const std::int64_t allowed =
          table().arena_size / at.parts() +
          trainer::ranks::kPartAlignment * static_cast<std::int64_t>(2 * pieces.size());
      EXPECT_LE(optimizer.first_moment().size, allowed);
      EXPECT_EQ(optimizer.second_moment().size, optimizer.first_moment().size);
      const auto others = static_cast<std::int64_t>(2 * table().tensors.size() + 64);
      EXPECT_LE(device->peak_bytes(), 4 * (2 * allowed + others));
    });
  }
}

// One small tensor is all that is updated: the other ranks hold nothing, and still take part.
TEST(Optimizer, RanksWithoutStateTakePart) {
  const TensorTable all = table();
  ASSERT_LE(all.tensors[0].size, trainer::ranks::kPartAlignment);
  const std::vector<Bucket> buckets = {{0, 1}};
  for (const OptimizerKind kind : {OptimizerKind::AdamW, OptimizerKind::Lamb}) {
    ThreadRanks(3).run([&](Communicator& at) {
      const std::vector<StatePiece> pieces = trainer::step::sharded_state(all, buckets, at);
      EXPECT_EQ(pieces.empty(), at.rank() != 0);
      Trained trained(trainer::cpu::make_cpu_device(1), at, pieces, config_of(kind), 1);
      const std::vector<float> before = random_weights(all, 5);
      sharded_step(at, trained, buckets, gradient(1), 1);
      const std::vector<float> after = trained.state().weights;
      const auto end = static_cast<std::size_t>(all.tensors[0].offset + all.tensors[0].size);
      for (std::size_t i = 0; i < after.size(); ++i) {
        EXPECT_EQ(after[i] != before[i], i < end) << i;
      }
      State norms;
      trained.read_norm(&norms);
      EXPECT_GT(norms.squared_norms[0], 0);
    });
  }
}

// Many pieces on one rank, on a device that runs late, in random order, on memory of NaN.
TEST(Optimizer, PiecesOnOneRankAreTheWhole) {
  for (const OptimizerKind kind : {OptimizerKind::AdamW, OptimizerKind::Lamb}) {
    const State expected = whole(kind, 0.5);
    for (const std::vector<Bucket>& buckets : bucket_choices()) {
      trainer::ranks::SingleCommunicator one;
      Trained trained(make_deferred_device(1, 17), one,
                      trainer::step::sharded_state(table(), buckets, one), config_of(kind), 0.5);
      for (int step = 1; step <= kSteps; ++step) {
        write(*trained.device, trained.model.gradients(), gradient(step));
        trained.update(step_of(step));
        trained.device->synchronize();
      }
      expect_weights(trained.state().weights, expected.weights, kRounding, "one rank");
    }
  }
}

// The copy that products read is renewed with the whole; with pieces, once weights are gathered.
TEST(Optimizer, TheWholeKeepsTheComputeCopy) {
  for (const bool sharded : {false, true}) {
    const std::unique_ptr<trainer::device::Device> device =
        make_rounding_device(trainer::cpu::make_cpu_device(1), false);
    trainer::model::BertOptions options;
    options.compute = trainer::device::Dtype::BFloat16;
    Bert model(*device, shape(), options);
    trainer::ranks::SingleCommunicator one;
    const std::vector<StatePiece> pieces =
        sharded
            ? trainer::step::sharded_state(table(), trainer::step::buckets_per_layer(table()), one)
            : trainer::step::whole_state(table());
    Optimizer optimizer(*device, one, table(), pieces, config_of(OptimizerKind::Lamb), 1);
    write(*device, model.parameters(), random_weights(table(), 5));
    write(*device, model.gradients(), gradient(1));
    model.renew_compute_copy();
    const auto copy = [&] {
      std::vector<std::uint16_t> values(static_cast<std::size_t>(table().arena_size));
      device->copy_to_host(0, values.data(), model.compute_copy());
      device->synchronize();
      return values;
    };
    const std::vector<std::uint16_t> before = copy();
    optimizer.begin(model, step_of(1));
    optimizer.update(model);
    const std::vector<std::uint16_t> after = copy();
    EXPECT_EQ(after != before, !sharded);
    model.renew_compute_copy();
    EXPECT_EQ(copy() == after, !sharded);
  }
}

}  // namespace
}  // namespace regatta::tests
