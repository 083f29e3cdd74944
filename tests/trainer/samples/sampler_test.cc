#include "trainer/samples/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/samples/permutation.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

class Sampler : public OnSmallDataset<120> {
 protected:
  static contract::DataConfig config(int max_length) {
    contract::DataConfig config;
    config.max_length = max_length;
    return config;
  }
};

bool equal(const samples::Sample& a, const samples::Sample& b) {
  return a.ids == b.ids && a.types == b.types && a.masked_positions == b.masked_positions &&
         a.masked_labels == b.masked_labels && a.sample_label == b.sample_label;
}

TEST_F(Sampler, EverySampleIsWellFormed) {
  const data::Vocabulary& vocabulary = dataset_->vocabulary();
  for (const int max_length : {8, 33, 64, 128}) {
    const samples::SampleSource source(*dataset_, data::Split::Training, config(max_length), 5);
    for (std::int64_t i = 0; i < source.size(); ++i) {
      const samples::Sample sample = source.sample(i, 3);
      ASSERT_LE(sample.ids.size(), static_cast<std::size_t>(max_length));
      ASSERT_GE(sample.ids.size(), 4U);
      ASSERT_EQ(sample.ids.size(), sample.types.size());
      EXPECT_EQ(sample.ids.front(), vocabulary.special().classify);
      EXPECT_EQ(sample.ids.back(), vocabulary.special().separator);
      const auto ones = std::find(sample.types.begin(), sample.types.end(), 1);
      ASSERT_NE(ones, sample.types.end());
      EXPECT_EQ(sample.ids[static_cast<std::size_t>(ones - sample.types.begin()) - 1],
                vocabulary.special().separator);
      const double wanted =
          std::max(1.0, std::nearbyint(0.15 * static_cast<double>(sample.ids.size())));
      EXPECT_EQ(static_cast<double>(sample.masked_positions.size()), wanted);
      EXPECT_TRUE(std::is_sorted(sample.masked_positions.begin(), sample.masked_positions.end()));
      for (const std::int32_t position : sample.masked_positions) {
        EXPECT_GT(position, 0);
        EXPECT_LT(position, static_cast<std::int32_t>(sample.ids.size()) - 1);
      }
    }
  }
}

TEST_F(Sampler, MasksAreEightyTenTen) {
  const samples::SampleSource source(*dataset_, data::Split::Training, config(128), 1);
  std::int64_t masked = 0, kept = 0, total = 0;
  for (std::uint32_t epoch = 0; epoch < 40; ++epoch) {
    for (std::int64_t i = 0; i < source.size(); ++i) {
      const samples::Sample sample = source.sample(i, epoch);
      for (std::size_t m = 0; m < sample.masked_labels.size(); ++m) {
        const std::int32_t id = sample.ids[static_cast<std::size_t>(sample.masked_positions[m])];
        masked += id == dataset_->vocabulary().special().mask ? 1 : 0;
        kept += id == sample.masked_labels[m] ? 1 : 0;
        ++total;
      }
    }
  }
  // Four standard deviations; a random piece is the old one or [MASK] now and then (1/256 each).
  const double deviation = 4 * std::sqrt(0.25 / static_cast<double>(total));
  EXPECT_NEAR(static_cast<double>(masked) / static_cast<double>(total), 0.8, deviation + 0.001);
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(total), 0.1, deviation + 0.001);
}

TEST_F(Sampler, APassVisitsEverySampleOnce) {
  const samples::SampleSource source(*dataset_, data::Split::Training, config(64), 9);
  std::multiset<std::vector<std::int32_t>> by_order, by_index;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    by_order.insert(source.at(i).ids);
    by_index.insert(source.sample(i, 0).ids);
  }
  EXPECT_EQ(by_order, by_index);
}

TEST_F(Sampler, EveryPassHasAnOrderOfItsOwn) {
  const samples::SampleSource source(*dataset_, data::Split::Training, config(64), 9);
  std::vector<std::int64_t> orders[2];
  for (const std::uint32_t epoch : {0U, 1U}) {
    std::map<std::vector<std::int32_t>, std::int64_t> index_of;
    const std::int64_t samples = std::max(source.size(), source.pass_size(epoch));
    for (std::int64_t i = 0; i < samples; ++i) index_of[source.sample(i, epoch).ids] = i;
    for (std::int64_t i = 0; i < source.size(); ++i) {
      orders[epoch].push_back(index_of.at(source.at(epoch * source.size() + i).ids));
    }
  }
  int same = 0;
  for (std::size_t i = 0; i < orders[0].size(); ++i) same += orders[0][i] == orders[1][i] ? 1 : 0;
  EXPECT_LT(same, 12);  // one expected
}

TEST_F(Sampler, SamplesDependOnSeedAndNumberOnly) {
  const samples::SampleSource one(*dataset_, data::Split::Training, config(64), 9);
  const samples::SampleSource again(*dataset_, data::Split::Training, config(64), 9);
  const samples::SampleSource other(*dataset_, data::Split::Training, config(64), 10);
  int same = 0;
  std::vector<samples::Sample> backwards;
  for (std::int64_t number = 49; number >= 0; --number) backwards.push_back(again.at(number));
  for (std::int64_t number = 0; number < 50; ++number) {
    EXPECT_TRUE(equal(one.at(number), backwards[static_cast<std::size_t>(49 - number)]));
    same += equal(one.at(number), other.at(number)) ? 1 : 0;
  }
  EXPECT_LT(same, 3);
}

// A sample of 30 tokens has over 10,000 masks: two passes with the same are no accident.
TEST_F(Sampler, EveryPassDrawsAnew) {
  const samples::SampleSource source(*dataset_, data::Split::Training, config(64), 9);
  int looked_at = 0;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    const samples::Sample first = source.sample(i, 0);
    const samples::Sample second = source.sample(i, 1);
    if (first.ids.size() < 30) continue;
    EXPECT_FALSE(equal(first, second)) << "sample " << i;
    EXPECT_TRUE(first.ids.size() != second.ids.size() ||
                first.masked_positions != second.masked_positions)
        << "sample " << i;
    ++looked_at;
  }
  EXPECT_GT(looked_at, 50);
}

TEST_F(Sampler, LengthsAreKnownWithoutTheSamples) {
  for (const int max_length : {5, 8, 33, 64, 512}) {
    for (const double short_fraction : {0.0, 0.5, 1.0}) {
      contract::DataConfig data = config(max_length);
      data.short_fraction = short_fraction;
      const samples::SampleSource source(*dataset_, data::Split::Training, data, 7);
      const samples::SampleStream stream = samples::stream_of(source);
      for (std::int64_t i = 0; i < 4 * source.size() + 100; ++i) {  // five passes
        const samples::Sample sample = stream.at(i);
        ASSERT_EQ(stream.length(i), std::ssize(sample.ids)) << "sample " << i;
        ASSERT_TRUE(i % 16 != 0 || equal(sample, source.at(i)));
      }
    }
  }
}

// Splits of one document: no other to take sentences from.
TEST_F(Sampler, LengthsAreKnownWhereNoOtherDocumentIs) {
  TemporaryDirectory directory;
  std::ofstream(directory.path() / "text.txt")
      << "One sentence alone.\n\nOne.\nTwo and more.\nThree, four.\n";
  data::PrepareOptions options;
  options.inputs = {directory.path() / "text.txt"};
  options.output = directory.path() / "dataset";
  options.train_vocabulary = 256;
  options.threads = 1;
  options.held_out = 0.5;
  (void)data::prepare(options, base::posix_file_system(), {});
  const data::Dataset dataset = data::Dataset::open(options.output);
  for (const data::Split split : {data::Split::Training, data::Split::HeldOut}) {
    ASSERT_EQ(dataset.documents(split), 1);
    for (const int max_length : {5, 8, 64}) {
      contract::DataConfig data = config(max_length);
      data.short_fraction = 0.5;
      const samples::SampleSource source(dataset, split, data, 7);
      for (std::int64_t i = 0; i < 200; ++i) {
        ASSERT_EQ(source.length_at(i), std::ssize(source.at(i).ids)) << "sample " << i;
      }
    }
  }
}

// That it is held out: HeldOut of evaluation_test.cc.
TEST_F(Sampler, EvaluationSetIsFixed) {
  const std::vector<samples::Sample> set = samples::evaluation_samples(*dataset_, config(64), 20);
  const std::vector<samples::Sample> again = samples::evaluation_samples(*dataset_, config(64), 20);
  ASSERT_EQ(set.size(), 20U);
  for (std::size_t i = 0; i < set.size(); ++i) EXPECT_TRUE(equal(set[i], again[i]));
  EXPECT_LT(samples::evaluation_samples(*dataset_, config(64), 1 << 20).size(), 1U << 20U);
}

TEST_F(Sampler, ShuffledLabelsKeepTheInputs) {
  const samples::SampleSource plain(*dataset_, data::Split::Training, config(64), 9);
  const samples::SampleSource shuffled(*dataset_, data::Split::Training, config(64), 9, true);
  int changed = 0, total = 0;
  for (std::int64_t i = 0; i < plain.size(); ++i) {
    const samples::Sample a = plain.sample(i, 0);
    const samples::Sample b = shuffled.sample(i, 0);
    EXPECT_EQ(a.ids, b.ids);
    for (std::size_t m = 0; m < a.masked_labels.size(); ++m) {
      changed += a.masked_labels[m] != b.masked_labels[m] ? 1 : 0;
      ++total;
    }
  }
  EXPECT_GT(changed, total / 2);
}

TEST(ConstantGuess, IsTheShareOfTheMostFrequentLabel) {
  samples::Sample a, b;
  a.masked_labels = {7, 8, 7};
  b.masked_labels = {9, 7};
  EXPECT_DOUBLE_EQ(samples::constant_guess_accuracy({a, b}), 0.6);
  EXPECT_DOUBLE_EQ(samples::constant_guess_accuracy({}), 0.0);
}

TEST(PermutationTest, IsABijectionForEverySize) {
  for (const std::uint64_t size : {1, 2, 3, 4, 5, 17, 64, 1000, 4097}) {
    std::set<std::uint64_t> seen;
    const samples::Permutation order(size, 42, 7);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t image = order(i);
      ASSERT_LT(image, size);
      seen.insert(image);
    }
    EXPECT_EQ(seen.size(), size);
  }
}

TEST(PermutationTest, DiffersBetweenEpochsAndSeeds) {
  const samples::Permutation base(1000, 1, 0), epoch(1000, 1, 1), seed(1000, 2, 0);
  int same_epoch = 0, same_seed = 0, fixed = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    same_epoch += base(i) == epoch(i) ? 1 : 0;
    same_seed += base(i) == seed(i) ? 1 : 0;
    fixed += base(i) == i ? 1 : 0;
  }
  EXPECT_LT(same_epoch, 12);  // one expected
  EXPECT_LT(same_seed, 12);
  EXPECT_LT(fixed, 12);
}

}  // namespace
}  // namespace regatta::tests
