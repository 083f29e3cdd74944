// The shares of random next sentences and the lengths of samples beside those of Google's recipe:
// beside closed formulas, and beside a second implementation of it (google-research/bert,
// create_pretraining_data.py, create_instances_from_document) that shares nothing with the sampler.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/shared_data.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/samples/sampler.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

// Of many passes.
struct Shares {
  double passes = 0, samples = 0, random_next = 0, tokens = 0, squared_tokens = 0;

  void add(std::int64_t length, bool is_random) {
    const auto tokens_of_it = static_cast<double>(length);
    ++samples;
    random_next += is_random ? 1 : 0;
    tokens += tokens_of_it;
    squared_tokens += tokens_of_it * tokens_of_it;
  }
  [[nodiscard]] double share() const { return random_next / samples; }
  [[nodiscard]] double mean() const { return tokens / samples; }
  [[nodiscard]] double deviation() const {
    return std::sqrt(squared_tokens / samples - mean() * mean());
  }
};

// Documents as lists of sentences' lengths; only lengths and labels come out.
class GoogleRecipe {
 public:
  GoogleRecipe(std::vector<std::vector<int>> documents, int max_length, double short_probability)
      : documents_(std::move(documents)),
        most_(max_length - 3),
        short_probability_(short_probability) {}

  void pass(Shares* shares) {
    for (std::size_t d = 0; d < documents_.size(); ++d) cut(d, shares);
    ++shares->passes;
  }

 private:
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  double uniform() { return std::uniform_real_distribution<double>(0, 1)(engine_); }

  void cut(std::size_t d, Shares* shares) {
    const std::vector<int>& document = documents_[d];
    const int target = uniform() < short_probability_ ? between(2, most_) : most_;
    std::vector<int> chunk;
    int length = 0;
    for (int i = 0; i < static_cast<int>(document.size()); ++i) {
      chunk.push_back(document[static_cast<std::size_t>(i)]);
      length += chunk.back();
      if (i != static_cast<int>(document.size()) - 1 && length < target) continue;
      const int size = static_cast<int>(chunk.size());
      const int a_end = size >= 2 ? between(1, size - 1) : 1;
      int a = 0, b = 0;
      for (int j = 0; j < a_end; ++j) a += chunk[static_cast<std::size_t>(j)];
      bool is_random = false;
      if (size == 1 || uniform() < 0.5) {
        is_random = true;
        std::size_t other = d;
        for (int j = 0; j < 10 && other == d; ++j) {
          other = static_cast<std::size_t>(between(0, static_cast<int>(documents_.size()) - 1));
        }
        const std::vector<int>& from = documents_[other];
        const int start = between(0, static_cast<int>(from.size()) - 1);
        for (auto j = static_cast<std::size_t>(start); j < from.size(); ++j) {
          b += from[j];
          if (b >= target - a) break;
        }
        i -= size - a_end;
      } else {
        for (int j = a_end; j < size; ++j) b += chunk[static_cast<std::size_t>(j)];
      }
      shares->add(3 + std::min(most_, a + b), is_random);
      chunk.clear();
      length = 0;
    }
  }

  std::vector<std::vector<int>> documents_;
  int most_;
  double short_probability_;
  std::mt19937_64 engine_{7};
};

Shares of_sampler(const data::Dataset& dataset, const contract::DataConfig& config, int passes) {
  Shares shares;
  const samples::SampleSource source(dataset, data::Split::Training, config, 3);
  for (int epoch = 0; epoch < passes; ++epoch) {
    const auto number = static_cast<std::uint32_t>(epoch);
    for (std::int64_t i = 0; i < source.pass_size(number); ++i) {
      const samples::Sample sample = source.sample(i, number);
      shares.add(std::ssize(sample.ids), sample.sample_label == 1);
    }
    ++shares.passes;
  }
  return shares;
}
// Lengths of their sentences.
std::vector<std::vector<int>> documents_of(const data::Dataset& dataset) {
  std::vector<std::vector<int>> lengths;
  for (std::int64_t d = 0; d < dataset.documents(data::Split::Training); ++d) {
    lengths.emplace_back();
    for (std::int64_t s = 0; s < dataset.sentences(data::Split::Training, d); ++s) {
      lengths.back().push_back(
          static_cast<int>(dataset.sentence(data::Split::Training, d, s).size()));
    }
  }
  return lengths;
}

class SamplerRecipe : public OnSmallDataset<120> {};

TEST_F(SamplerRecipe, HasGooglesSharesAndLengths) {
  for (const int max_length : {16, 32, 64, 128}) {
    for (const double short_fraction : {0.0, 0.1, 1.0}) {
      contract::DataConfig config;
      config.max_length = max_length;
      config.short_fraction = short_fraction;
      const Shares ours = of_sampler(*dataset_, config, 60);
      GoogleRecipe recipe(documents_of(*dataset_), max_length, short_fraction);
      Shares google;
      for (int i = 0; i < 400; ++i) recipe.pass(&google);
      // Samples of a document depend on one another: twice the deviation of free ones, four times.
      const double free = std::sqrt(1 / ours.samples + 1 / google.samples);
      const std::string where =
          "at " + std::to_string(max_length) + ", short " + std::to_string(short_fraction);
      EXPECT_NEAR(ours.share(), google.share(), 8 * 0.5 * free) << where;
      EXPECT_NEAR(ours.mean(), google.mean(), 8 * google.deviation() * free) << where;
      EXPECT_NEAR(ours.samples / ours.passes, google.samples / google.passes,
                  0.01 * google.samples / google.passes)
          << where;
      EXPECT_NEAR(ours.deviation(), google.deviation(), 0.03 * google.deviation()) << where;
    }
  }
}

// Where a document fits one sample, its k sentences make n_k = 1 + ½·mean(n_1 … n_{k−1}) samples,
// of which r_k = ½·(1 + mean(r_1 … r_{k−1})) have a random next; n_1 = r_1 = 1.
TEST_F(SamplerRecipe, SharesOfShortDocumentsAreTheFormulas) {
  std::vector<double> n(12, 1), r(12, 1);
  for (std::size_t k = 2; k < n.size(); ++k) {
    double others = 0, randoms = 0;
    for (std::size_t j = 1; j < k; ++j) {
      others += n[j];
      randoms += r[j];
    }
    n[k] = 1 + 0.5 * others / static_cast<double>(k - 1);
    r[k] = 0.5 * (1 + randoms / static_cast<double>(k - 1));
  }
  EXPECT_DOUBLE_EQ(r[2] / n[2], 2.0 / 3);
  double samples = 0, randoms = 0;
  const std::vector<std::vector<int>> documents = documents_of(*dataset_);
  for (const std::vector<int>& document : documents) {
    samples += n.at(document.size());
    randoms += r.at(document.size());
  }
  contract::DataConfig config;
  config.max_length = 512;  // above every document
  config.short_fraction = 0;
  constexpr int kPasses = 200;
  const Shares ours = of_sampler(*dataset_, config, kPasses);
  // Of a document's number of samples the deviation is below 1; four of them.
  const double noise = 4 * std::sqrt(static_cast<double>(documents.size()) * kPasses);
  EXPECT_NEAR(ours.samples, kPasses * samples, noise);
  EXPECT_NEAR(ours.random_next, kPasses * randoms, noise);
}

// What the README says of English Wikipedia.
TEST(SamplerRecipeOfWikipedia, IsWithinOnePercentOfGoogles) {
  REGATTA_NEED_SHARED("data/corpus/wiki_en_docs.txt");
  REGATTA_NEED_SHARED("data/vocab/bert-base-uncased/vocab.txt");
  TemporaryDirectory directory;
  data::PrepareOptions options;
  options.inputs = {shared_path("data/corpus/wiki_en_docs.txt")};
  options.output = directory.path() / "dataset";
  options.vocabulary = shared_path("data/vocab/bert-base-uncased/vocab.txt");
  options.threads = 1;
  (void)data::prepare(options, base::posix_file_system(), {});
  const data::Dataset dataset = data::Dataset::open(options.output);
  for (const int max_length : {128, 512}) {
    contract::DataConfig config;
    config.max_length = max_length;
    const Shares ours = of_sampler(dataset, config, 6);
    GoogleRecipe recipe(documents_of(dataset), max_length, config.short_fraction);
    Shares google;
    for (int i = 0; i < 20; ++i) recipe.pass(&google);
    std::printf("at %d: random next %.1f %%, Google's %.1f %%; tokens %.1f, Google's %.1f\n",
                max_length, 100 * ours.share(), 100 * google.share(), ours.mean(), google.mean());
    EXPECT_NEAR(ours.share(), google.share(), 0.01 * google.share()) << max_length;
    EXPECT_NEAR(ours.mean(), google.mean(), 0.01 * google.mean()) << max_length;
    EXPECT_NEAR(ours.samples / ours.passes, google.samples / google.passes,
                0.01 * google.samples / google.passes)
        << max_length;
  }
}

// A run goes on from pass to pass with as many samples of each as the first one has.
TEST_F(SamplerRecipe, PassesOfOtherSizesFollowOneAnother) {
  contract::DataConfig config;
  config.max_length = 32;
  const samples::SampleSource source(*dataset_, data::Split::Training, config, 9);
  int longer = 0, shorter = 0;
  for (std::uint32_t epoch = 0; epoch < 12; ++epoch) {
    const std::int64_t size = source.pass_size(epoch);
    longer += size > source.size() ? 1 : 0;
    shorter += size < source.size() ? 1 : 0;
    std::vector<int> seen(static_cast<std::size_t>(size), 0);
    std::map<std::vector<std::int32_t>, std::size_t> index;
    for (std::int64_t i = 0; i < size; ++i) {
      index[source.sample(i, epoch).ids] = static_cast<std::size_t>(i);
    }
    for (std::int64_t i = 0; i < source.size(); ++i) {
      const samples::Sample sample =
          source.at(static_cast<std::int64_t>(epoch) * source.size() + i);
      const auto found = index.find(sample.ids);
      ASSERT_NE(found, index.end());
      ++seen[found->second];
    }
    for (const int times : seen) {
      EXPECT_LE(times, size >= source.size() ? 1 : 2) << "pass " << epoch;
    }
  }
  EXPECT_GT(longer, 0);
  EXPECT_GT(shorter, 0);
}

// Threads that ask for far-apart passes get what one alone gets.
TEST_F(SamplerRecipe, PassesMayBeAskedForInAnyOrder) {
  contract::DataConfig config;
  config.max_length = 32;
  const samples::SampleSource source(*dataset_, data::Split::Training, config, 9);
  std::vector<std::vector<std::int32_t>> rising;
  for (std::uint32_t epoch = 0; epoch < 6; ++epoch) rising.push_back(source.sample(5, epoch).ids);
  for (const std::uint32_t epoch : {5U, 0U, 3U, 1U, 4U, 2U, 0U, 5U}) {
    EXPECT_EQ(source.sample(5, epoch).ids, rising[epoch]);
  }
}

}  // namespace
}  // namespace regatta::tests
