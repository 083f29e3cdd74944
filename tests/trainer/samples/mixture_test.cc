#include "trainer/samples/mixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "trainer/contract/run_config.h"
#include "trainer/data/prepare.h"
#include "trainer/samples/step_samples.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

using samples::kMixtureBlock;
using samples::MixtureOrder;
using samples::MixturePlace;
using testing::HasSubstr;

// What the header promises of a count after any number of samples.
double bound_of(std::size_t datasets) {
  return static_cast<double>(kMixtureBlock) / 4 +
         std::ceil(std::log2(static_cast<double>(datasets))) / 2;
}

struct NamedWeights {
  std::string name;
  std::vector<double> weights;
};

std::vector<NamedWeights> weights_to_try() {
  std::vector<NamedWeights> tried = {
      {"one", {3}},
      {"equal", {1, 1}},
      {"two to one", {2, 1}},
      {"hardly any", {1e6, 1e-6}},
      {"hardly any, first", {1e-6, 1e6}},
      {"below the steps of shares", {1e6, 1e-300}},
      {"steps of shares would be above 1", {1e-300, 1e6, 1e-300}},
      {"Alabama's", {0.9, 0.6, 0.34, 0.01, 3.1}},
      {"64 equal", std::vector<double>(64, 0.1)},
  };
  std::mt19937_64 random(11);
  for (int round = 0; round < 30; ++round) {
    NamedWeights made{"random " + std::to_string(round), {}};
    const std::size_t datasets = 2 + random() % 63;
    const double decades = round % 3 == 0 ? 0.3 : round % 3 == 1 ? 3 : 12;
    std::uniform_real_distribution<double> exponent(6 - decades, 6);
    for (std::size_t d = 0; d < datasets; ++d)
      made.weights.push_back(std::pow(10, exponent(random)));
    tried.push_back(std::move(made));
  }
  return tried;
}

// The count that weights ask for, without rounding.
long double share_at(const std::vector<double>& weights, std::size_t dataset, std::int64_t number) {
  long double sum = 0;
  for (const double weight : weights) sum += weight;
  return static_cast<long double>(number) * weights[dataset] / sum;
}

TEST(MixtureOrder, CountsStayAtTheirShares) {
  for (const NamedWeights& tried : weights_to_try()) {
    SCOPED_TRACE(tried.name);
    const std::size_t datasets = tried.weights.size();
    const double bound = bound_of(datasets);
    for (const std::int64_t begin :
         {std::int64_t{0}, std::int64_t{12345}, std::int64_t{1} << 32, std::int64_t{1} << 44}) {
      const MixtureOrder order(tried.weights, 7);
      std::vector<std::int64_t> counts = order.counts(begin);
      ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), begin);
      std::vector<double> least(datasets, 0), most(datasets, 0);
      for (std::int64_t n = begin; n < begin + 3000; ++n) {
        const MixturePlace place = order.at(n);
        ASSERT_LT(place.dataset, datasets);
        ASSERT_EQ(place.number, counts[place.dataset]++) << "the dataset's own order, from " << n;
        for (std::size_t d = 0; d < datasets; ++d) {
          const auto off = static_cast<double>(static_cast<long double>(counts[d]) -
                                               share_at(tried.weights, d, n + 1));
          ASSERT_LE(std::abs(off), bound + 0.25) << "dataset " << d << " after " << n + 1;
          least[d] = std::min(least[d], off);
          most[d] = std::max(most[d], off);
        }
      }
      for (std::size_t d = 0; d < datasets; ++d) {  // over every stretch of these
        ASSERT_LE(most[d] - least[d], 2 * bound + 0.25);
      }
      ASSERT_EQ(order.counts(begin + 3000), counts);
    }
  }
}

// With two datasets the counts at the ends of blocks are the largest-remainder apportionment.
TEST(MixtureOrder, TwoDatasetsHaveTheLargestRemainder) {
  for (const auto& [a, b] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {2, 1}, {1, 2}, {3, 7}, {999, 1}, {1, 1000000}, {7, 65}}) {
    const MixtureOrder order({static_cast<double>(a), static_cast<double>(b)}, 3);
    for (std::int64_t block = 0; block < 3000; ++block) {
      const std::int64_t n = block * kMixtureBlock;
      const std::int64_t right = (2 * n * b + (a + b)) / (2 * (a + b));  // n·b/(a+b), half up
      const std::int64_t got = order.counts(n)[1];
      // A tie of halves may go to either.
      if ((2 * n * b + (a + b)) % (2 * (a + b)) == 0) {
        ASSERT_TRUE(got == right || got == right - 1) << a << ":" << b << " at " << n;
      } else {
        ASSERT_EQ(got, right) << a << ":" << b << " at " << n;
      }
    }
  }
}

TEST(MixtureOrder, IsAFunctionOfNumberSeedAndShares) {
  const std::vector<double> weights{5, 1, 2.5, 0.1};
  const MixtureOrder order(weights, 21), scaled({20, 4, 10, 0.4}, 21), other(weights, 22);
  std::vector<MixturePlace> places;
  for (std::int64_t n = 0; n < 2000; ++n) places.push_back(order.at(n));
  int same = 0;
  std::mt19937_64 random(4);
  for (int look = 0; look < 2000; ++look) {  // in any order, from anew
    const auto n = static_cast<std::int64_t>(random() % 2000);
    const MixturePlace& place = places[static_cast<std::size_t>(n)];
    ASSERT_EQ(MixtureOrder(weights, 21).at(n), place);
    ASSERT_EQ(order.at(n), place);
    ASSERT_EQ(scaled.at(n), place);
    same += other.at(n).dataset == place.dataset ? 1 : 0;
  }
  EXPECT_LT(same, 1400) << "of 2000; (5² + 1 + 2.5² + 0.1²) / 8.6² are 44 %";
}

// Blocks are in an order of their own each: nothing repeats that ranks or batches could be in step
// with. Of 64 places of which half are of each dataset, a place is of either half the time.
TEST(MixtureOrder, NoPlaceOfBlocksIsAlwaysOfOneDataset) {
  constexpr int kBlocks = 2000;
  const MixtureOrder order({1, 1}, 8);
  std::vector<int> firsts(kMixtureBlock, 0);
  for (std::int64_t n = 0; n < kBlocks * kMixtureBlock; ++n) {
    firsts[static_cast<std::size_t>(n % kMixtureBlock)] += order.at(n).dataset == 0 ? 1 : 0;
  }
  for (const int first : firsts) EXPECT_NEAR(first, kBlocks / 2, 5 * std::sqrt(kBlocks / 4.0));
  int same = 0;  // block 0 and block 2^32
  for (std::int64_t n = 0; n < kMixtureBlock; ++n) {
    same += order.at(n).dataset == order.at((kMixtureBlock << 32) + n).dataset ? 1 : 0;
  }
  EXPECT_LT(same, 3 * kMixtureBlock / 4);
}

TEST(MixtureOrder, ManyThreadsReadIt) {
  const std::vector<double> weights{3, 1, 1};
  const MixtureOrder order(weights, 2), alone(weights, 2);
  std::vector<std::vector<MixturePlace>> seen(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < seen.size(); ++t) {
      threads.emplace_back([&, t] {
        for (std::int64_t n = 0; n < 5000; ++n) {
          seen[t].push_back(order.at(n * (static_cast<std::int64_t>(t) + 1) % 5000));
        }
      });
    }
  }
  for (std::size_t t = 0; t < seen.size(); ++t) {
    for (std::int64_t n = 0; n < 5000; ++n) {
      ASSERT_EQ(seen[t][static_cast<std::size_t>(n)],
                alone.at(n * (static_cast<std::int64_t>(t) + 1) % 5000));
    }
  }
}

// Three datasets of one vocabulary: of 120, 40 and 15 documents.
class OnMixture : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TemporaryDirectory;
    (void)prepare("a", 120, "", true);
    (void)prepare("b", 40, "a", true);
    (void)prepare("c", 15, "a", true);
  }
  static void TearDownTestSuite() { delete directory_; }

  // Documents of words that differ by name. vocabulary: whose; empty: one of its own.
  static std::string prepare(const std::string& name, int documents, const std::string& vocabulary,
                             bool lower_case) {
    std::mt19937 random(static_cast<unsigned>(name[0]));
    const base::Path input = directory_->path() / (name + ".txt");
    std::ofstream text(input);
    for (int document = 0; document < documents; ++document) {
      for (unsigned sentence = 0; sentence < 3 + random() % 7U; ++sentence) {
        for (unsigned word = 0; word < 4 + random() % 9U; ++word) {
          text << static_cast<char>('a' + random() % 20U) << static_cast<char>('a' + random() % 9U)
               << ' ';
        }
        text << name << ".\n";
      }
      text << "\n";
    }
    text.close();
    data::PrepareOptions options;
    options.inputs = {input};
    options.output = directory_->path() / name;
    if (vocabulary.empty()) {
      options.train_vocabulary = 200;
    } else {
      options.vocabulary = directory_->path() / vocabulary / "vocab.txt";
    }
    options.threads = 1;
    options.held_out = 0.25;
    options.lower_case = lower_case;
    (void)data::prepare(options, base::posix_file_system(), {});
    return options.output.string();
  }
  static contract::DataConfig config(const std::vector<contract::MixturePart>& parts) {
    contract::DataConfig config;
    for (contract::MixturePart part : parts) {
      part.path = (directory_->path() / part.path).string();
      config.mixture.push_back(part);
    }
    if (parts.size() == 1) config.path = std::exchange(config.mixture, {}).front().path;
    config.max_length = 40;
    return config;
  }

  static inline TemporaryDirectory* directory_ = nullptr;
};

bool same_sample(const samples::Sample& a, const samples::Sample& b) {
  return a.ids == b.ids && a.types == b.types && a.masked_positions == b.masked_positions &&
         a.masked_labels == b.masked_labels && a.sample_label == b.sample_label;
}

TEST_F(OnMixture, EverySampleOncePerEpochOfItsDataset) {
  const contract::DataConfig data = config({{"a", 2}, {"b", 1}, {"c", 1}});
  const samples::Datasets datasets = samples::Datasets::open(data);
  const samples::Mixture mixture(datasets, data::Split::Training, data, 5);
  std::vector<std::vector<samples::Sample>> seen(3);
  for (std::int64_t n = 0; n < 4 * mixture.source(0).size(); ++n) {
    const MixturePlace place = mixture.order().at(n);
    const samples::Sample sample = mixture.at(n);
    ASSERT_EQ(mixture.length_at(n), std::ssize(sample.ids));
    ASSERT_EQ(place.number, std::ssize(seen[place.dataset]));
    ASSERT_TRUE(same_sample(sample, mixture.source(place.dataset).at(place.number)));
    seen[place.dataset].push_back(sample);
  }
  std::int64_t all = 0;
  for (std::size_t d = 0; d < 3; ++d) {
    const samples::SampleSource& source = mixture.source(d);
    all += source.size();
    ASSERT_GE(std::ssize(seen[d]), source.size()) << "a whole epoch";
    std::vector<std::vector<std::int32_t>> read, there;
    for (std::int64_t i = 0; i < source.size(); ++i) {
      read.push_back(seen[d][static_cast<std::size_t>(i)].ids);
      there.push_back(source.sample(i, 0).ids);
    }
    std::sort(read.begin(), read.end());
    std::sort(there.begin(), there.end());
    EXPECT_EQ(read, there) << "dataset " << d;
  }
  EXPECT_EQ(mixture.size(), all);
  // The first dataset is read as it is alone, with the run's seed.
  const samples::SampleSource alone(datasets.first(), data::Split::Training, data, 5);
  for (std::size_t k = 0; k < 50; ++k) {
    EXPECT_TRUE(same_sample(seen[0][k], alone.at(static_cast<std::int64_t>(k))));
  }
}

TEST_F(OnMixture, OneDatasetIsReadAsAlways) {
  const contract::DataConfig data = config({{"b", 1}});
  const samples::Datasets datasets = samples::Datasets::open(data);
  const samples::Mixture mixture(datasets, data::Split::Training, data, 5);
  const samples::SampleSource alone(datasets.first(), data::Split::Training, data, 5);
  EXPECT_EQ(datasets.fingerprint(), datasets.first().fingerprint());
  EXPECT_EQ(datasets.name(), data.path);
  EXPECT_EQ(mixture.size(), alone.size());
  for (std::int64_t n = 0; n < 3 * alone.size(); ++n) {
    ASSERT_TRUE(same_sample(mixture.at(n), alone.at(n)));
    ASSERT_EQ(mixture.length_at(n), alone.length_at(n));
  }
  for (const int count : {1, 20, 1 << 20}) {
    const auto set = samples::evaluation_samples(datasets, data, count);
    const auto as_always = samples::evaluation_samples(datasets.first(), data, count);
    ASSERT_EQ(set.size(), as_always.size());
    for (std::size_t i = 0; i < set.size(); ++i) EXPECT_TRUE(same_sample(set[i], as_always[i]));
  }
}

// Of ways of balancing in which ranks need nothing from one another.
class QuietChannel final : public ranks::HostCollectives {
 public:
  QuietChannel(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return ranks_; }
  void all_reduce_sum(double*, int) override { ADD_FAILURE(); }
  void broadcast(void*, std::int64_t, int) override { ADD_FAILURE(); }
  void all_gather(const void*, std::int64_t, void*) override { ADD_FAILURE(); }
  [[nodiscard]] ranks::Parcels all_to_all(const ranks::Parcels& to) override {
    ADD_FAILURE();
    return to;
  }
  void barrier() override { ADD_FAILURE(); }

 private:
  int rank_, ranks_;
};

// Every attempt opens the data anew, begins at some step, and has some number of ranks.
TEST_F(OnMixture, EveryNumberOfRanksGoesOnInTheSameOrder) {
  constexpr int kBatch = 50;  // no multiple of the blocks
  contract::RunConfig run;
  run.batch_size = kBatch;
  run.ranks_per_node = 1;
  run.data = config({{"a", 2}, {"b", 1}, {"c", 0.3}});
  const samples::Datasets datasets = samples::Datasets::open(run.data);
  const samples::Mixture whole(datasets, data::Split::Training, run.data, 5);
  for (const int ranks : {1, 2, 3, 8}) {
    for (const auto strategy : {contract::Balance::None, contract::Balance::GlobalPresort}) {
      for (const std::int64_t first_step : {1, 4, 37}) {
        run.ranks = ranks;
        run.balance.strategy = strategy;
        const samples::Mixture again(datasets, data::Split::Training, run.data, 5);
        std::map<std::int64_t, samples::Sample> seen;  // by number
        for (int rank = 0; rank < ranks; ++rank) {
          QuietChannel channel(rank, ranks);
          samples::StepSamples samples(run, samples::stream_of(again), channel);
          for (std::int64_t step = first_step; step < first_step + 3; ++step) {
            const samples::StepShare share = samples.share(step);
            for (std::size_t i = 0; i < share.samples.size(); ++i) {
              const std::int64_t number = (step - 1) * kBatch + share.ordinals[i];
              ASSERT_TRUE(seen.emplace(number, share.samples[i]).second) << number << " twice";
            }
          }
        }
        ASSERT_EQ(seen.size(), 3U * kBatch);
        for (const auto& [number, sample] : seen) {
          ASSERT_TRUE(same_sample(sample, whole.at(number))) << ranks << " ranks, " << number;
        }
      }
    }
  }
}

TEST_F(OnMixture, AnotherWeightOnlyChangesWhoseTurnItIs) {
  const contract::DataConfig data = config({{"a", 2}, {"b", 1}});
  const contract::DataConfig more = config({{"a", 2}, {"b", 3}, {"c", 1}});
  const samples::Datasets two = samples::Datasets::open(data);
  const samples::Datasets three = samples::Datasets::open(more);
  const samples::Mixture before(two, data::Split::Training, data, 5);
  const samples::Mixture after(three, data::Split::Training, more, 5);
  for (std::size_t d = 0; d < 2; ++d) {
    for (std::int64_t k = 0; k < 300; ++k) {
      ASSERT_TRUE(same_sample(before.source(d).at(k), after.source(d).at(k)));
    }
  }
  int elsewhere = 0;
  for (std::int64_t n = 0; n < 300; ++n) {
    elsewhere += before.order().at(n) == after.order().at(n) ? 0 : 1;
  }
  EXPECT_GT(elsewhere, 200);
}

// Who gives one text under several names reads it in several orders, with other masks.
TEST_F(OnMixture, DatasetsOfOneTextAreReadInOrdersOfTheirOwn) {
  for (const char* const twin : {"second", "third"}) {
    std::filesystem::copy(directory_->path() / "b", directory_->path() / twin);
  }
  const contract::DataConfig data = config({{"b", 1}, {"second", 1}, {"third", 1}});
  const samples::Datasets datasets = samples::Datasets::open(data);
  const samples::Mixture mixture(datasets, data::Split::Training, data, 5);
  const std::int64_t size = mixture.source(0).size();
  ASSERT_GE(size, 20);
  for (const auto& [one, other] : {std::pair(0U, 1U), {0U, 2U}, {1U, 2U}}) {
    std::int64_t same = 0;
    for (std::int64_t n = 0; n < size; ++n) {
      same += mixture.source(one).at(n).ids == mixture.source(other).at(n).ids ? 1 : 0;
    }
    EXPECT_LT(same, size / 4) << one << " and " << other;
  }
}

TEST_F(OnMixture, TheFingerprintIsOfDatasetsAndWeightsInOrder) {
  const auto fingerprint = [](const std::vector<contract::MixturePart>& parts) {
    return samples::Datasets::open(config(parts)).fingerprint();
  };
  const std::string mixed = fingerprint({{"a", 2}, {"b", 1}});
  EXPECT_EQ(mixed.size(), 32U);
  EXPECT_EQ(fingerprint({{"a", 2}, {"b", 1}}), mixed);
  EXPECT_NE(fingerprint({{"b", 1}, {"a", 2}}), mixed);
  EXPECT_NE(fingerprint({{"a", 2}, {"b", 1.5}}), mixed);
  EXPECT_NE(fingerprint({{"a", 2}, {"c", 1}}), mixed);
  EXPECT_NE(fingerprint({{"a", 2}, {"b", 1}, {"c", 1}}), mixed);
  std::filesystem::copy(directory_->path() / "b", directory_->path() / "moved");
  EXPECT_EQ(fingerprint({{"a", 2}, {"moved", 1}}), mixed) << "wherever it lies";
}

TEST_F(OnMixture, EvaluatesAllDatasetsByTheirWeights) {
  const contract::DataConfig data = config({{"a", 3}, {"b", 1}});
  const samples::Datasets datasets = samples::Datasets::open(data);
  std::vector<std::vector<samples::Sample>> own;
  for (const data::Dataset& dataset : datasets.all()) {
    own.push_back(samples::evaluation_samples(dataset, data, 1 << 20));
  }
  const auto most = samples::evaluation_samples(datasets, data, 1 << 20);
  for (const int count : {1, 30, 1 << 20}) {
    const auto set = samples::evaluation_samples(datasets, data, count);
    ASSERT_EQ(std::ssize(set), std::min<std::int64_t>(count, std::ssize(most)));
    std::vector<std::size_t> taken(2, 0);
    const MixtureOrder order(datasets.weights(), samples::kEvaluationSeed);
    for (std::size_t i = 0; i < set.size(); ++i) {
      ASSERT_TRUE(same_sample(set[i], most[i]));
      const std::size_t d = order.at(static_cast<std::int64_t>(i)).dataset;
      ASSERT_TRUE(same_sample(set[i], own[d].at(taken[d]++))) << "each once, in its own order";
    }
    EXPECT_NEAR(static_cast<double>(taken[0]), 0.75 * static_cast<double>(set.size()), bound_of(2));
  }
  // It ended since one dataset had no more.
  const MixturePlace next =
      MixtureOrder(datasets.weights(), samples::kEvaluationSeed).at(std::ssize(most));
  EXPECT_EQ(next.number, std::ssize(own[next.dataset]));
}

TEST_F(OnMixture, RefusesWhatOneModelCannotRead) {
  (void)prepare("other", 40, "", true);
  (void)prepare("cased", 40, "a", false);
  (void)prepare("neither", 40, "", false);
  const auto refusal = [](const std::vector<contract::MixturePart>& parts) -> std::string {
    try {
      (void)samples::Datasets::open(config(parts));
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      return error.what();
    }
    return "";
  };
  const std::string at = directory_->path().string() + "/";
  EXPECT_EQ(refusal({{"a", 1}, {"b", 1}, {"c", 1}}), "");
  EXPECT_THAT(refusal({{"a", 1}, {"other", 1}}), HasSubstr(at + "other has another vocabulary ("));
  EXPECT_THAT(refusal({{"a", 1}, {"other", 1}}),
              HasSubstr("prepare it again with --vocab " + at + "a/vocab.txt"));
  EXPECT_EQ(refusal({{"a", 1}, {"cased", 1}}),
            at + "cased is cased, " + at + "a is in lower case; prepare it again without --cased");
  EXPECT_EQ(refusal({{"cased", 1}, {"a", 1}}),
            at + "a is in lower case, " + at + "cased is cased; prepare it again with --cased");
  const std::string both = refusal({{"a", 1}, {"b", 1}, {"neither", 1}, {"other", 1}});
  EXPECT_EQ(std::count(both.begin(), both.end(), '\n'), 0) << both;
  for (const char* each : {"neither has another vocabulary (", "neither is cased, ",
                           "other has another vocabulary ("}) {
    EXPECT_THAT(both, HasSubstr("/" + std::string(each)));
  }
  EXPECT_EQ(both.find(at + "b "), std::string::npos);
  EXPECT_THROW((void)samples::Datasets::open(config({{"a", 1}, {"absent", 1}})), base::Error);
}

}  // namespace
}  // namespace regatta::tests
