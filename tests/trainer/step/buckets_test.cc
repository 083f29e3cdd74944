#include "trainer/step/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "topology/plan/bucket_programme.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

contract::TensorTable table_of(const std::string& preset) {
  contract::ModelShape shape = contract::preset_shape(preset);
  shape.vocabulary = 30522;
  return contract::make_tensor_table(shape);
}

void expect_cover(const std::vector<topology::plan::Bucket>& buckets,
                  const contract::TensorTable& table) {
  int next = 0;
  for (const topology::plan::Bucket& bucket : buckets) {
    EXPECT_EQ(bucket.begin_tensor, next);
    EXPECT_GT(bucket.end_tensor, bucket.begin_tensor);
    next = bucket.end_tensor;
  }
  EXPECT_EQ(next, static_cast<int>(table.tensors.size()));
}

std::int64_t bytes_of(const topology::plan::Bucket& bucket, const contract::TensorTable& table) {
  std::int64_t sum = 0;
  for (int i = bucket.begin_tensor; i < bucket.end_tensor; ++i) {
    sum += 4 * table.tensors[static_cast<std::size_t>(i)].size;
  }
  return sum;
}

// The planner's yardstick is what the trainer does without a plan.
TEST(Buckets, OfBytesAreThePlannersToo) {
  for (const char* preset : {"tiny", "base", "large"}) {
    const contract::TensorTable table = table_of(preset);
    topology::plan::StepInputs inputs;
    for (const contract::TensorEntry& tensor : table.tensors) {
      inputs.tensors.push_back({4 * tensor.offset, 4 * (tensor.offset + tensor.size), 0});
    }
    for (const std::int64_t limit :
         {std::int64_t{1}, std::int64_t{1} << 20, std::int64_t{25} << 20}) {
      const auto ours = step::buckets_of_bytes(table, limit);
      const auto planner = topology::plan::buckets_of_at_most(inputs, limit);
      ASSERT_EQ(ours.size(), planner.size());
      for (std::size_t i = 0; i < ours.size(); ++i) {
        EXPECT_EQ(ours[i].end_tensor, planner[i].end_tensor);
      }
    }
  }
}

// Every tensor is in one stage's buckets, no bucket reaches over a cut of the plan's, and the
// decoder is a bucket of its own.
TEST(Buckets, OfStagesArePlansCutToTheirTensors) {
  contract::ModelShape shape = contract::preset_shape("base");
  shape.vocabulary = 30522;
  const contract::TensorTable table = contract::make_tensor_table(shape);
  const auto all = static_cast<int>(table.tensors.size());
  const std::vector<topology::plan::Bucket> plan = step::buckets_of_bytes(table, 5 << 20);
  std::vector<topology::plan::Bucket> found;
  for (const contract::Stage& stage :
       contract::cut_stages(shape, contract::batch_of_lengths({128}, 0.15), 3)) {
    const contract::StageTensors tensors = contract::stage_tensors(shape, table, stage);
    std::vector<topology::plan::Bucket> buckets = step::stage_buckets(plan, tensors);
    EXPECT_EQ(buckets.front().begin_tensor, tensors.begin);
    if (stage.has_head()) {
      EXPECT_EQ(buckets.back(), (topology::plan::Bucket{all - 1, all}));
      buckets.pop_back();
    }
    EXPECT_EQ(buckets.back().end_tensor, tensors.end);
    found.insert(found.begin(), buckets.begin(), buckets.end());  // the last stage is first
  }
  expect_cover(found, table);
  for (const topology::plan::Bucket& bucket : found) {
    EXPECT_EQ(std::count_if(plan.begin(), plan.end(),
                            [&](const topology::plan::Bucket& whole) {
                              return whole.begin_tensor <= bucket.begin_tensor &&
                                     bucket.end_tensor <= whole.end_tensor;
                            }),
              1);
  }
}

TEST(Buckets, OfBytesAreAsLargeAsAllowed) {
  const contract::TensorTable table = table_of("base");
  for (const std::int64_t limit :
       {std::int64_t{1}, std::int64_t{1} << 20, std::int64_t{25} << 20}) {
    const auto buckets = step::buckets_of_bytes(table, limit);
    expect_cover(buckets, table);
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      const bool single = buckets[i].end_tensor == buckets[i].begin_tensor + 1;
      EXPECT_TRUE(single || bytes_of(buckets[i], table) <= limit);
      if (i == 0) continue;
      const topology::plan::Bucket with_next{buckets[i - 1].begin_tensor,
                                             buckets[i].begin_tensor + 1};
      EXPECT_GT(bytes_of(with_next, table), limit) << "the next tensor would have fitted";
    }
  }
  EXPECT_EQ(step::buckets_of_bytes(table, 0).size(), 1U);
  expect_cover(step::buckets_of_bytes(table, 0), table);
  EXPECT_EQ(step::buckets_of_bytes(table, 1).size(), table.tensors.size());
}

TEST(Buckets, PerLayerAreHeadsLayersAndEmbeddings) {
  const contract::TensorTable table = table_of("mini");
  const auto buckets = step::buckets_per_layer(table);
  expect_cover(buckets, table);
  ASSERT_EQ(buckets.size(), 6U);
  const auto first_of = [&](std::size_t i) {
    return table.tensors[static_cast<std::size_t>(buckets[i].begin_tensor)].name;
  };
  EXPECT_EQ(first_of(1), "bert.encoder.layer.3.output.LayerNorm.weight");
  EXPECT_EQ(first_of(4), "bert.encoder.layer.0.output.LayerNorm.weight");
  EXPECT_EQ(first_of(5), "bert.embeddings.LayerNorm.weight");
}

}  // namespace
}  // namespace regatta::tests
