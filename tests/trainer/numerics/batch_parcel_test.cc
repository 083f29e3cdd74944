#include "trainer/numerics/batch_parcel.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace regatta::trainer {
namespace {

std::vector<samples::PackedBatch> two_batches() {
  samples::Sample first, second;
  first.ids = {2, 7, 8, 3};
  first.types = {0, 0, 1, 1};
  first.masked_positions = {1};
  first.masked_labels = {9};
  first.sample_label = 1;
  first.value = 0.5F;
  second.ids = {2, 3};
  second.types = {0, 0};
  second.answer_begin = second.answer_end = 1;
  second.value = std::numeric_limits<float>::infinity();
  return {samples::collate({first, second}, {4, 5}), samples::collate({second}, {11})};
}

TEST(BatchParcel, BringsEveryField) {
  const auto sent = two_batches();
  const auto got = numerics::unpack_batches(numerics::pack_batches(sent));
  ASSERT_EQ(got.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(got[i].ids, sent[i].ids);
    EXPECT_EQ(got[i].types, sent[i].types);
    EXPECT_EQ(got[i].ordinals, sent[i].ordinals);
    EXPECT_EQ(got[i].positions, sent[i].positions);
    EXPECT_EQ(got[i].sorted, sent[i].sorted);
    EXPECT_EQ(got[i].cumulative, sent[i].cumulative);
    EXPECT_EQ(got[i].masked_rows, sent[i].masked_rows);
    EXPECT_EQ(got[i].masked_labels, sent[i].masked_labels);
    EXPECT_EQ(got[i].first_rows, sent[i].first_rows);
    EXPECT_EQ(got[i].sample_labels, sent[i].sample_labels);
    EXPECT_EQ(got[i].answers, sent[i].answers);
    EXPECT_EQ(got[i].values, sent[i].values);
    EXPECT_EQ(got[i].max_length, sent[i].max_length);
  }
  // All that a batch has: whoever adds a field adds it to the parcel.
  EXPECT_EQ(sizeof(samples::PackedBatch), 12 * sizeof(std::vector<int>) + sizeof(std::int64_t));
  EXPECT_TRUE(numerics::unpack_batches(numerics::pack_batches({})).empty());
}

TEST(BatchParcel, RefusesWhatIsNone) {
  const std::vector<std::byte> good = numerics::pack_batches(two_batches());
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW((void)numerics::unpack_batches(std::span(good).first(size)), base::Error) << size;
  }
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_THROW((void)numerics::unpack_batches(longer), base::Error);
  for (const std::size_t place : {7U, 15U, 23U}) {  // counts of 2⁵⁶ and below zero
    for (const int value : {1, 255}) {
      std::vector<std::byte> bad = good;
      bad[place] = static_cast<std::byte>(value);
      EXPECT_THROW((void)numerics::unpack_batches(bad), base::Error) << place;
    }
  }
}

}  // namespace
}  // namespace regatta::trainer
