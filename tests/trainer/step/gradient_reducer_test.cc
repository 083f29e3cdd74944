// Clipping before and after the reduction, against the definitions in float64.
#include "trainer/step/gradient_reducer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <vector>

#include "tests/trainer/ranks/thread_ranks.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/step/buckets.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

contract::ModelShape small_shape() {
  contract::ModelShape shape = contract::preset_shape("tiny");
  shape.hidden = 16;
  shape.heads = 2;
  shape.feed_forward = 32;
  shape.max_positions = 16;
  shape.vocabulary = 50;
  return shape;
}

// A gradient of rank `rank`, some buckets of which are large and some small; zero between tensors.
std::vector<float> gradient_of(int rank, const contract::TensorTable& table) {
  std::vector<float> gradient(static_cast<std::size_t>(table.arena_size), 0.0F);
  for (std::size_t t = 0; t < table.tensors.size(); ++t) {
    const contract::TensorEntry& tensor = table.tensors[t];
    const float size = t % 3 == 0 ? 0.3F : 0.0003F;
    for (std::int64_t i = 0; i < tensor.size; ++i) {
      gradient[static_cast<std::size_t>(tensor.offset + i)] =
          size * std::sin(static_cast<float>(i % 97 + 13 * rank) + static_cast<float>(t));
    }
  }
  return gradient;
}

double squared(const std::vector<float>& values, const step::ArenaSlice& slice) {
  double sum = 0;
  for (std::int64_t i = slice.begin; i < slice.begin + slice.size; ++i) {
    sum += std::pow(static_cast<double>(values[static_cast<std::size_t>(i)]), 2);
  }
  return sum;
}

struct Reduced {
  std::vector<float> gradient;  // after the reduction, as rank 0 has it
  std::size_t launched = 0, finished = 0;
};

Reduced reduce(int ranks, contract::ClipMode clip, double norm, double loss_scale,
               bool overlap = true) {
  Reduced result;
  std::mutex mutex;
  ThreadRanks world(ranks);
  world.run([&](ranks::Communicator& communicator) {
    const auto device = cpu::make_cpu_device(1);
    model::Bert model(*device, small_shape(), {});
    contract::RunConfig config;
    config.ranks = ranks;
    config.clip = clip;
    config.clip_norm = norm;
    config.buckets.overlap = overlap;
    step::GradientReducer reducer(*device, communicator, base::system_clock(), model,
                                  step::buckets_of_bytes(model.table(), 2000), config);
    std::vector<float> gradient = gradient_of(communicator.rank(), model.table());
    for (float& value : gradient) value *= static_cast<float>(loss_scale);
    device->copy_to_device(0, model.gradients(), gradient.data());
    reducer.begin(loss_scale, 0);
    if (reducer.overlaps()) reducer.ready(static_cast<int>(model.table().tensors.size() / 2));
    reducer.finish();
    device->copy_to_host(0, gradient.data(), model.gradients());
    device->synchronize();
    const std::scoped_lock lock(mutex);
    if (communicator.rank() != 0) return;
    result.gradient = gradient;
    result.launched = reducer.spans().launched.size();
    result.finished = reducer.spans().finished.size();
  });
  return result;
}

// What the definitions say, in float64.
std::vector<double> expected(int ranks, contract::ClipMode clip, double norm, double loss_scale) {
  const contract::TensorTable table = contract::make_tensor_table(small_shape());
  const auto slices = step::slices_of(table, step::buckets_of_bytes(table, 2000));
  std::vector<double> sum(static_cast<std::size_t>(table.arena_size), 0.0);
  const step::ArenaSlice whole{0, table.arena_size, table.parameter_count};
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> gradient = gradient_of(rank, table);
    for (const step::ArenaSlice& slice : slices) {
      double factor = 1;
      if (clip == contract::ClipMode::Bucket) {
        const double limit = norm *
                             std::sqrt(static_cast<double>(slice.parameters) /
                                       static_cast<double>(table.parameter_count)) /
                             ranks;
        factor = std::min(1.0, limit / std::sqrt(squared(gradient, slice)));
      } else if (clip == contract::ClipMode::Rank) {
        factor = std::min(1.0, norm / ranks / std::sqrt(squared(gradient, whole)));
      }
      for (std::int64_t i = slice.begin; i < slice.begin + slice.size; ++i) {
        const auto at = static_cast<std::size_t>(i);
        sum[at] += static_cast<double>(gradient[at]) * factor * loss_scale;
      }
    }
  }
  return sum;
}

struct ClipCase {
  const char* name;
  contract::ClipMode clip;
  int ranks;
  double norm, loss_scale;
};

class Clipping : public testing::TestWithParam<ClipCase> {};

TEST_P(Clipping, IsAsDefinedAndKeepsTheSumWithinTheNorm) {
  const ClipCase& c = GetParam();
  const Reduced reduced = reduce(c.ranks, c.clip, c.norm, c.loss_scale);
  const std::vector<double> reference = expected(c.ranks, c.clip, c.norm, c.loss_scale);
  double sum = 0;
  double largest = 0;
  for (const double value : reference) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < reference.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(reduced.gradient[i]), reference[i], 2e-6 * largest) << i;
    sum += std::pow(static_cast<double>(reduced.gradient[i]) / c.loss_scale, 2);
  }
  if (c.clip == contract::ClipMode::Bucket || c.clip == contract::ClipMode::Rank) {
    EXPECT_LE(std::sqrt(sum), c.norm * (1 + 1e-5));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Clipping,
    testing::Values(ClipCase{"none", contract::ClipMode::None, 3, 0.5, 1},
                    ClipCase{"global_is_left_to_the_optimizer", contract::ClipMode::Global, 2, 0.5,
                             1},
                    ClipCase{"bucket", contract::ClipMode::Bucket, 3, 0.5, 1},
                    ClipCase{"bucket_of_one_rank", contract::ClipMode::Bucket, 1, 0.5, 1},
                    ClipCase{"bucket_with_loss_scale", contract::ClipMode::Bucket, 2, 0.5, 1024},
                    ClipCase{"bucket_too_wide_to_matter", contract::ClipMode::Bucket, 2, 1e6, 1},
                    ClipCase{"rank", contract::ClipMode::Rank, 3, 0.5, 1},
                    ClipCase{"rank_with_loss_scale", contract::ClipMode::Rank, 2, 0.5, 1024},
                    ClipCase{"rank_of_one", contract::ClipMode::Rank, 1, 0.5, 1}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(GradientReducer, BucketsBeginWithinBackwardExceptWhereTheWholeNormIsNeeded) {
  ThreadRanks world(2);
  world.run([](ranks::Communicator& communicator) {
    const auto device = cpu::make_cpu_device(1);
    const model::Bert model(*device, small_shape(), {});
    contract::RunConfig config;
    config.ranks = 2;
    for (const auto& [clip, overlap, expected_overlap] :
         {std::tuple{contract::ClipMode::Bucket, true, true},
          std::tuple{contract::ClipMode::Global, true, true},
          std::tuple{contract::ClipMode::Global, false, false},
          std::tuple{contract::ClipMode::Rank, true, false}}) {
      config.clip = clip;
      config.buckets.overlap = overlap;
      const step::GradientReducer reducer(*device, communicator, base::system_clock(), model,
                                          step::buckets_per_layer(model.table()), config);
      EXPECT_EQ(reducer.overlaps(), expected_overlap);
    }
  });
}

TEST(GradientReducer, TellsWhenEachBucketWentAndCame) {
  const std::size_t buckets =
      step::buckets_of_bytes(contract::make_tensor_table(small_shape()), 2000).size();
  ASSERT_GT(buckets, 3U);
  const Reduced reduced = reduce(2, contract::ClipMode::Global, 1, 1);
  EXPECT_EQ(reduced.launched, buckets);
  EXPECT_EQ(reduced.finished, buckets);
}

TEST(GradientReducer, OverlapChangesNoBit) {
  for (const contract::ClipMode clip : {contract::ClipMode::None, contract::ClipMode::Bucket}) {
    EXPECT_EQ(reduce(3, clip, 0.5, 1, true).gradient, reduce(3, clip, 0.5, 1, false).gradient);
  }
}

// Σ over buckets of the squared limits is the squared norm over R²: nothing is given away.
TEST(GradientReducer, LimitsOfBucketsShareTheNormOut) {
  double sum = 0;
  for (const std::int64_t parameters : {10, 20, 70}) {
    sum += std::pow(step::bucket_limit(3.0, parameters, 100, 4), 2);
  }
  EXPECT_NEAR(std::sqrt(sum), 3.0 / 4, 1e-12);
}

}  // namespace
}  // namespace regatta::tests
