// Steps of several micro-batches on several ranks, in every way of reducing their gradients,
// against one micro-batch of the same samples on one device and the definitions of clipping and
// AdamW in float64.
//
// How far the two may be apart is derived, element by element. Both add up the same terms (one a
// token, masked position or sample) in another order, and a float32 sum of n terms, in any order,
// is within γ = n·u / (1 − n·u), u = 2⁻²⁴, times Σ|terms| of the exact one (Higham, "Accuracy and
// Stability of Numerical Algorithms", 2002, section 4.2); so 2γ·Σ|terms| part the two gradients.
// Σ|terms| comes from the float64 tape. The terms themselves differ by single roundings (of a bias
// that is added first or last), which is far less than roundings that all go one way. From there on
// the error is carried through clipping and AdamW by their derivatives. Each step begins with the
// same bits on both sides, so that errors do not pile up.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <ostream>

#include "tests/trainer/model/random_model.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/samples/small_dataset.h"
#include "tests/trainer/step/whole_state.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/buckets.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

constexpr double kUnit = 0x1p-24;
// Of one number: more roundings than clipping and AdamW make on the way to it. A sharded norm has
// the most, one for each bucket, of which there are no more than tensors.
constexpr double kScalar = 64 * kUnit;
constexpr std::int64_t kSteps = 3;
constexpr int kBatch = 13;  // uneven shares: other numbers of micro-batches on other ranks

struct Way {
  const char* name;
  int ranks, node_ranks, micro_batch;
  contract::ClipMode clip = contract::ClipMode::None;
  double clip_norm = 1e-3;  // far below any norm here, and nothing to a run that does not clip
  contract::ShardingConfig sharding = {false, true};
  bool overlap = true;
  std::int64_t bucket_bytes = 2000;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

double norm(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

// Of the arena; `error`: how far another order of its sums may lead.
struct Gradient {
  std::vector<double> value, error;

  explicit Gradient(std::int64_t size)
      : value(static_cast<std::size_t>(size), 0.0), error(static_cast<std::size_t>(size), 0.0) {}
  void add(const Gradient& other) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      value[i] += other.value[i];
      error[i] += other.error[i];
    }
  }
  // Scales [begin, begin + size) so that its norm is at most `most`.
  void limit(std::int64_t begin, std::int64_t size, double most) {
    const auto first = static_cast<std::ptrdiff_t>(begin), last = first + size;
    const double length = norm({value.begin() + first, value.begin() + last});
    const double spread = norm({error.begin() + first, error.begin() + last});
    if (length + spread < most) return;
    const double factor = std::min(1.0, most / length);
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
      error[i] = factor * (error[i] + std::abs(value[i]) * (spread / length + kScalar));
      value[i] *= factor;
    }
  }
};

class MicroBatches : public OnSmallDataset<60>, public testing::WithParamInterface<Way> {
 protected:
  static contract::RunConfig config_of(const Way& way) {
    contract::RunConfig config = small_run_config(*dataset_);
    config.model.hidden = 16;
    config.model.feed_forward = 32;
    config.batch_size = kBatch;
    config.micro_batch_size = way.micro_batch;
    config.steps = 20;
    config.optimizer.learning_rate = 0.01;
    config.optimizer.warmup_steps = 0;
    config.balance.strategy = contract::Balance::None;  // place p of the batch is rank p mod R's
    config.ranks = way.ranks;
    config.ranks_per_node = std::max(1, way.node_ranks);
    config.clip = way.clip;
    config.clip_norm = way.clip_norm;
    config.sharding = way.sharding;
    config.buckets.overlap = way.overlap;
    return config;
  }
  static std::vector<topology::plan::Bucket> buckets_of(const Way& way) {
    return step::buckets_of_bytes(contract::make_tensor_table(config_of(way).model),
                                  way.bucket_bytes);
  }

  // states[s]: after step s. Without `watched` only the first and the last.
  struct Course {
    std::vector<step::TrainingState> states;
    std::vector<contract::StepRecord> records;
  };
  static Course train(const Way& way, bool watched) {
    const contract::RunConfig config = config_of(way);
    Course course;
    ThreadRanks(way.ranks, way.node_ranks).run([&](ranks::Communicator& ranks) {
      const auto device = cpu::make_cpu_device(1);
      const samples::SampleSource source(*dataset_, data::Split::Training, config.data,
                                         config.seed);
      topology::plan::Plan plan;
      plan.ranks = config.ranks;
      plan.buckets = buckets_of(way);
      step::TrainLoop loop(*device, ranks, base::system_clock(), config, plan,
                           samples::stream_of(source));
      loop.load({random_weights(loop.model().table(), 5), {}, {}});
      for (std::int64_t step = 0; step <= kSteps; ++step) {
        const contract::StepRecord record = step > 0 ? loop.step(step) : contract::StepRecord{};
        if (!watched && step > 0 && step < kSteps) continue;
        step::TrainingState state = whole_state(ranks, loop);
        if (ranks.rank() != 0) continue;
        course.states.push_back(std::move(state));
        course.records.push_back(record);
      }
    });
    return course;
  }

  // Of one device and micro-batch: what `places` of the step add to its gradient.
  static Gradient gradient_of(const contract::RunConfig& config, const std::vector<float>& weights,
                              std::int64_t step, const std::vector<std::int32_t>& places) {
    const samples::SampleSource source(*dataset_, data::Split::Training, config.data, config.seed);
    model::LossScale scale{0, config.batch_size};
    double roundings = 1 + config.batch_size;  // of a product, and between micro-batches
    std::vector<samples::Sample> samples;
    for (std::int32_t place = 0; place < config.batch_size; ++place) {
      const samples::Sample sample = source.at((step - 1) * config.batch_size + place);
      scale.masked += std::ssize(sample.masked_positions);
      // The word embeddings' sums have the most terms: all tokens and all masked positions.
      roundings += static_cast<double>(sample.ids.size() + sample.masked_positions.size());
      if (std::count(places.begin(), places.end(), place) > 0) samples.push_back(sample);
    }
    const auto device = cpu::make_cpu_device(1);
    model::Bert model(*device, config.model, step::bert_options(config, *device));
    device->copy_to_device(0, model.parameters(), weights.data());
    model.zero_gradients();
    model.upload(samples::collate(samples, places), static_cast<std::int32_t>(step), scale);
    model.forward(model::Mode::Training);
    model.backward();
    std::vector<float> values(weights.size());
    device->copy_to_host(0, values.data(), model.gradients());
    device->synchronize();

    const ReferenceResult reference = reference_bert(
        config.model, reference_weights(model.table(), weights), samples,
        {places.begin(), places.end()}, {config.dropout, config.attention_dropout, config.seed},
        static_cast<std::uint32_t>(step), static_cast<double>(scale.masked),
        static_cast<double>(scale.samples));
    const double twice_gamma = 2 * roundings * kUnit / (1 - roundings * kUnit);
    Gradient gradient(model.table().arena_size);
    gradient.value.assign(values.begin(), values.end());
    for (const contract::TensorEntry& tensor : model.table().tensors) {
      const std::vector<double>& magnitude = reference.magnitudes.at(tensor.name);
      for (std::size_t i = 0; i < magnitude.size(); ++i) {
        gradient.error[static_cast<std::size_t>(tensor.offset) + i] = twice_gamma * magnitude[i];
      }
    }
    return gradient;
  }

  // The step's, as the ways of clipping define it: what a rank limits is that of its own samples.
  static Gradient summed_gradient(const Way& way, const std::vector<float>& weights,
                                  std::int64_t step) {
    const contract::RunConfig config = config_of(way);
    const contract::TensorTable table = contract::make_tensor_table(config.model);
    const bool local =
        way.clip == contract::ClipMode::Bucket || way.clip == contract::ClipMode::Rank;
    const int parts = local ? way.ranks : 1;
    Gradient sum(table.arena_size);
    for (int part = 0; part < parts; ++part) {
      std::vector<std::int32_t> places;
      for (std::int32_t place = part; place < kBatch; place += parts) places.push_back(place);
      Gradient mine = gradient_of(config, weights, step, places);
      if (way.clip == contract::ClipMode::Rank) {
        mine.limit(0, table.arena_size, way.clip_norm / way.ranks);
      } else if (way.clip == contract::ClipMode::Bucket) {
        for (const step::ArenaSlice& slice : step::slices_of(table, buckets_of(way))) {
          const double share =
              static_cast<double>(slice.parameters) / static_cast<double>(table.parameter_count);
          mine.limit(slice.begin, slice.size, way.clip_norm * std::sqrt(share) / way.ranks);
        }
      }
      sum.add(mine);
    }
    return sum;
  }
};

// AdamW's step from `before` by gradient g, beside what the run made of it.
struct AdamW {
  const contract::OptimizerConfig& config;
  const step::TrainingState& before;
  const step::TrainingState& after;
  const Gradient& g;
  double learning_rate, correction1, correction2;

  AdamW(const contract::OptimizerConfig& optimizer, const step::TrainingState& from,
        const step::TrainingState& to, const Gradient& gradient, double rate, std::int64_t step)
      : config(optimizer),
        before(from),
        after(to),
        g(gradient),
        learning_rate(rate),
        correction1(1 - std::pow(optimizer.beta1, step)),
        correction2(1 - std::pow(optimizer.beta2, step)) {}

  static double of(const std::vector<float>& values, std::size_t i) {
    return static_cast<double>(values[i]);
  }
  void expect_element(std::size_t i, bool decays) const {
    // The device has them as float32; 1 − β is exact then.
    const auto beta1 = static_cast<double>(static_cast<float>(config.beta1));
    const auto beta2 = static_cast<double>(static_cast<float>(config.beta2));
    const double m = beta1 * of(before.first_moment, i) + (1 - beta1) * g.value[i];
    const double m_error =
        (1 - beta1) * g.error[i] + kScalar * (beta1 * std::abs(of(before.first_moment, i)) +
                                              (1 - beta1) * std::abs(g.value[i]));
    ASSERT_LE(std::abs(of(after.first_moment, i) - m), m_error) << m;

    // √v moves by at most √(1 − β2) of what the gradient does.
    const double root =
        std::sqrt(beta2 * of(before.second_moment, i) + (1 - beta2) * g.value[i] * g.value[i]);
    const double root_error = std::sqrt(1 - beta2) * g.error[i] + kScalar * root;
    const double root_after = std::sqrt(of(after.second_moment, i));
    ASSERT_LE(std::abs(root_after - root), root_error) << root;

    // a/s − a'/s' = (a − a')/s' + a·(s' − s)/(s·s')
    const double s = root / std::sqrt(correction2) + config.epsilon;
    const double s_after = root_after / std::sqrt(correction2) + config.epsilon;
    const double decay = decays ? config.weight_decay * of(before.parameters, i) : 0;
    const double update = m / correction1 / s + decay;
    const double update_error =
        m_error / correction1 / s_after +
        std::abs(m) / correction1 * root_error / std::sqrt(correction2) / (s * s_after) +
        kScalar * (std::abs(m) / correction1 / s + std::abs(decay));
    const double w = of(before.parameters, i) - learning_rate * update;
    ASSERT_LE(std::abs(of(after.parameters, i) - w),
              learning_rate * update_error + 2 * kUnit * std::abs(w))
        << w;
  }
};

TEST_P(MicroBatches, HaveTheWeightsOfOne) {
  const Way& way = GetParam();
  const contract::RunConfig config = config_of(way);
  const contract::TensorTable table = contract::make_tensor_table(config.model);
  const Course course = train(way, true);
  ASSERT_EQ(course.states.size(), static_cast<std::size_t>(kSteps + 1));
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    const step::TrainingState& before = course.states[static_cast<std::size_t>(step) - 1];
    const step::TrainingState& after = course.states[static_cast<std::size_t>(step)];
    const contract::StepRecord& record = course.records[static_cast<std::size_t>(step)];
    Gradient gradient = summed_gradient(way, before.parameters, step);
    const double length = norm(gradient.value);
    EXPECT_NEAR(record.gradient_norm, length, norm(gradient.error) + kScalar * length);
    if (way.clip == contract::ClipMode::Global) gradient.limit(0, table.arena_size, way.clip_norm);
    const AdamW update(config.optimizer, before, after, gradient, record.learning_rate, step);
    for (const contract::TensorEntry& tensor : table.tensors) {
      for (std::int64_t i = 0; i < tensor.size; ++i) {
        update.expect_element(static_cast<std::size_t>(tensor.offset + i), tensor.weight_decay);
        if (HasFatalFailure()) FAIL() << tensor.name << " " << i << ", step " << step;
      }
    }
  }
  // Looking at the weights waits for them: a run that is not looked at has the same.
  const Course alone = train(way, false);
  EXPECT_EQ(alone.states.back().parameters, course.states.back().parameters);
  EXPECT_EQ(alone.states.back().first_moment, course.states.back().first_moment);
}

constexpr contract::ShardingConfig kSharded = {true, true};  // gathered within the next forward
constexpr contract::ShardingConfig kGatheredAtOnce = {true, false};

INSTANTIATE_TEST_SUITE_P(
    Reducing, MicroBatches,
    testing::Values(
        Way{"one_rank_one_micro_batch", 1, 0, 0}, Way{"one_rank", 1, 0, 3},
        Way{"all_reduce", 3, 0, 2},
        Way{"all_reduce_after_backward", 3, 0, 2, contract::ClipMode::None, 1e-3, {}, false},
        Way{"all_reduce_of_one_bucket", 2, 0, 3, contract::ClipMode::None, 1e-3, {}, true, 0},
        Way{"sharded", 3, 0, 2, contract::ClipMode::None, 1e-3, kSharded},
        Way{"sharded_after_backward", 2, 0, 3, contract::ClipMode::None, 1e-3, kGatheredAtOnce,
            false},
        Way{"hierarchical", 4, 2, 2},
        Way{"hierarchical_sharded", 4, 2, 2, contract::ClipMode::None, 1e-3, kSharded},
        Way{"clip_global", 3, 0, 2, contract::ClipMode::Global},
        Way{"clip_global_sharded", 3, 0, 2, contract::ClipMode::Global, 1e-3, kSharded},
        Way{"clip_global_above_the_norm", 3, 0, 2, contract::ClipMode::Global, 1e6},
        Way{"clip_bucket", 3, 0, 2, contract::ClipMode::Bucket},
        Way{"clip_bucket_after_backward", 3, 0, 2, contract::ClipMode::Bucket, 1e-3, {}, false},
        Way{"clip_bucket_sharded", 2, 0, 3, contract::ClipMode::Bucket, 1e-3, kSharded},
        Way{"clip_bucket_hierarchical", 4, 2, 2, contract::ClipMode::Bucket},
        Way{"clip_rank", 3, 0, 2, contract::ClipMode::Rank},
        Way{"clip_rank_sharded", 3, 0, 2, contract::ClipMode::Rank, 1e-3, kSharded}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace regatta::tests
