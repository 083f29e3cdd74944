// Shares of all ranks, each on a thread of its own, against the set of the step.
#include "trainer/samples/step_samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "base/philox.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "trainer/contract/balance.h"
#include "trainer/samples/sample_parcel.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

constexpr std::int32_t kMaxLength = 512;

bool equal(const samples::Sample& a, const samples::Sample& b) {
  return a.ids == b.ids && a.types == b.types && a.masked_positions == b.masked_positions &&
         a.masked_labels == b.masked_labels && a.sample_label == b.sample_label &&
         a.answer_begin == b.answer_begin && a.answer_end == b.answer_end &&
         std::bit_cast<std::int32_t>(a.value) == std::bit_cast<std::int32_t>(b.value);
}

std::int32_t made_up_length(std::int64_t number) {
  base::PhiloxStream random(1, static_cast<std::uint32_t>(number), 0, 1);
  return random.below(3) == 0 ? kMaxLength : 4 + static_cast<std::int32_t>(random.below(509));
}

// Its number is its first piece.
samples::Sample made_up_sample(std::int64_t number) {
  base::PhiloxStream random(1, static_cast<std::uint32_t>(number), 0, 2);
  samples::Sample sample;
  sample.ids.push_back(static_cast<std::int32_t>(number));
  while (std::ssize(sample.ids) < made_up_length(number)) {
    sample.ids.push_back(static_cast<std::int32_t>(random.below(30522)));
  }
  sample.types.assign(sample.ids.size(), 1);
  std::fill_n(sample.types.begin(), 1 + random.below(3), 0);
  for (std::int32_t i = 0; i < std::ssize(sample.ids); ++i) {
    if (random.below(7) != 0) continue;
    sample.masked_positions.push_back(i);
    sample.masked_labels.push_back(static_cast<std::int32_t>(random.below(30522)));
  }
  sample.sample_label = static_cast<std::int32_t>(random.below(2));
  if (random.below(2) == 0) {  // else as in pre-training
    sample.answer_begin = static_cast<std::int32_t>(random.below(4));
    sample.answer_end = sample.answer_begin + static_cast<std::int32_t>(random.below(9));
    sample.value = static_cast<float>(random.below(1000)) / 7 - 60;
  }
  return sample;
}

samples::SampleStream made_up_stream() { return {made_up_sample, made_up_length}; }

// Of a way of balancing that needs nothing from other ranks.
class SilentChannel final : public ranks::HostCollectives {
 public:
  SilentChannel(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
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

contract::RunConfig config_of(int ranks, int batch, const contract::BalanceConfig& balance) {
  contract::RunConfig config;
  config.ranks = ranks;
  config.ranks_per_node = ranks % 2 == 0 ? 2 : 1;
  config.batch_size = batch;
  config.balance = balance;
  config.data.max_length = kMaxLength;
  return config;
}

// Of each rank.
using RankShares = std::vector<std::vector<samples::StepShare>>;

RankShares shares_of(const contract::RunConfig& config, const std::vector<std::int64_t>& steps) {
  RankShares shares(static_cast<std::size_t>(config.ranks));
  const auto share_steps = [&](ranks::HostCollectives& channel) {
    samples::StepSamples samples(config, made_up_stream(), channel);
    for (const std::int64_t step : steps) {
      shares[static_cast<std::size_t>(channel.rank())].push_back(samples.share(step));
    }
  };
  if (config.balance.strategy == contract::Balance::Exchange && config.ranks > 1) {
    ThreadRanks(config.ranks).run([&](ranks::Communicator& ranks) { share_steps(ranks.host()); });
  } else {
    for (int rank = 0; rank < config.ranks; ++rank) {
      SilentChannel channel(rank, config.ranks);
      share_steps(channel);
    }
  }
  return shares;
}

// Of all ranks: place → number of the sample, each place once.
std::vector<std::int64_t> numbers_of(const RankShares& shares, std::size_t step, int batch) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(batch), -1);
  for (const std::vector<samples::StepShare>& steps : shares) {
    const samples::StepShare& share = steps[step];
    EXPECT_EQ(share.ordinals.size(), share.samples.size());
    EXPECT_TRUE(std::is_sorted(share.ordinals.begin(), share.ordinals.end()));
    for (std::size_t i = 0; i < share.samples.size(); ++i) {
      const std::int64_t number = share.samples[i].ids[0];
      EXPECT_TRUE(equal(share.samples[i], made_up_sample(number))) << "as its owner made it";
      std::int64_t& at = numbers.at(static_cast<std::size_t>(share.ordinals[i]));
      EXPECT_EQ(at, -1) << "place " << share.ordinals[i] << " twice";
      at = number;
    }
  }
  return numbers;
}

const contract::BalanceConfig kSameSet[] = {
    {contract::Balance::None, contract::Deal::LongestFirst, contract::ExchangeWay::Reread},
    {contract::Balance::GlobalPresort, contract::Deal::LongestFirst, contract::ExchangeWay::Reread},
    {contract::Balance::GlobalPresort, contract::Deal::Snake, contract::ExchangeWay::Move},
    {contract::Balance::Exchange, contract::Deal::LongestFirst, contract::ExchangeWay::Reread},
    {contract::Balance::Exchange, contract::Deal::LongestFirst, contract::ExchangeWay::Move},
    {contract::Balance::Exchange, contract::Deal::Stride, contract::ExchangeWay::Move},
    {contract::Balance::Packed, contract::Deal::LongestFirst, contract::ExchangeWay::Reread},
};

TEST(StepSamples, AllRanksTogetherHaveTheStep) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (const int batch : {ranks, ranks + 1, 4 * ranks, 4 * ranks + 3}) {
      for (const contract::BalanceConfig& balance : kSameSet) {
        const auto shares = shares_of(config_of(ranks, batch, balance), {1, 2, 7});
        for (const auto& [at, step] : {std::pair{0U, 1}, {1U, 2}, {2U, 7}}) {
          const std::vector<std::int64_t> numbers = numbers_of(shares, at, batch);
          for (std::size_t place = 0; place < numbers.size(); ++place) {
            ASSERT_EQ(numbers[place], (step - 1) * batch + static_cast<std::int64_t>(place))
                << ranks << " ranks, batch " << batch << ", strategy "
                << static_cast<int>(balance.strategy);
          }
          for (const auto& rank : shares) ASSERT_FALSE(rank[at].samples.empty());
        }
      }
    }
  }
}

TEST(StepSamples, FewerSamplesThanRanksIsAShareOfNothing) {
  for (const contract::BalanceConfig& balance : kSameSet) {
    const auto shares = shares_of(config_of(5, 3, balance), {4});
    EXPECT_EQ(numbers_of(shares, 0, 3), (std::vector<std::int64_t>{9, 10, 11}));
  }
}

TEST(StepSamples, NoneIsInTurn) {
  const auto shares = shares_of(config_of(3, 8, kSameSet[0]), {1});
  EXPECT_EQ(shares[0][0].ordinals, (std::vector<std::int32_t>{0, 3, 6}));
  EXPECT_EQ(shares[2][0].ordinals, (std::vector<std::int32_t>{2, 5}));
}

TEST(StepSamples, ExchangeIsGlobalPresort) {
  for (const contract::ExchangeWay way :
       {contract::ExchangeWay::Reread, contract::ExchangeWay::Move}) {
    for (const int batch : {17, 40}) {
      const auto presorted = shares_of(
          config_of(4, batch,
                    {contract::Balance::GlobalPresort, contract::Deal::LongestFirst, way}),
          {1, 2, 3});
      const auto exchanged = shares_of(
          config_of(4, batch, {contract::Balance::Exchange, contract::Deal::LongestFirst, way}),
          {1, 2, 3});
      for (std::size_t rank = 0; rank < 4; ++rank) {
        for (std::size_t step = 0; step < 3; ++step) {
          const samples::StepShare& a = presorted[rank][step];
          const samples::StepShare& b = exchanged[rank][step];
          EXPECT_EQ(a.ordinals, b.ordinals);
          EXPECT_TRUE(std::equal(a.samples.begin(), a.samples.end(), b.samples.begin(),
                                 b.samples.end(), equal));
        }
      }
    }
  }
}

// A rank that has only its own part of the data makes no sample and no length of another's.
TEST(StepSamples, ExchangeByMovingTouchesOwnDataOnly) {
  constexpr int kRanks = 3, kBatch = 14;
  const contract::RunConfig config = config_of(
      kRanks, kBatch,
      {contract::Balance::Exchange, contract::Deal::LongestFirst, contract::ExchangeWay::Move});
  std::int64_t moved[kRanks] = {};
  ThreadRanks(kRanks).run([&](ranks::Communicator& ranks) {
    const int rank = ranks.rank();
    const auto check = [rank](std::int64_t number) {
      EXPECT_EQ(number % kBatch % kRanks, rank) << number;
    };
    const samples::SampleStream own{[&](std::int64_t n) { return check(n), made_up_sample(n); },
                                    [&](std::int64_t n) { return check(n), made_up_length(n); }};
    samples::StepSamples samples(config, own, ranks.host());
    for (std::int64_t step = 1; step <= 3; ++step) {
      const samples::StepShare share = samples.share(step);
      moved[rank] += share.moved_bytes;
      for (std::size_t i = 0; i < share.samples.size(); ++i) {
        EXPECT_TRUE(
            equal(share.samples[i], made_up_sample((step - 1) * kBatch + share.ordinals[i])));
      }
    }
  });
  // About two of three samples of 320 tokens and more, two to four bytes a token.
  const std::int64_t all = moved[0] + moved[1] + moved[2];
  EXPECT_GT(all, 3 * 14 / 2 * 300 * 2);
  EXPECT_LT(all, 3 * 14 * 400 * 4);
}

// Of the run's first samples, whatever the step.
contract::StratumLimits made_up_strata() {
  std::vector<std::int32_t> first;
  for (std::int64_t number = 0; number < contract::kStratumSamples; ++number) {
    first.push_back(made_up_length(number));
  }
  return contract::stratum_limits(first);
}

TEST(StepSamples, StratifiedFollowsItsPlan) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int batch : {ranks, 4 * ranks, 6 * ranks + 1}) {
      const contract::BalanceConfig balance{contract::Balance::Stratified,
                                            contract::Deal::LongestFirst,
                                            contract::ExchangeWay::Reread};
      std::vector<std::int64_t> steps(2 * contract::kWindowSteps);
      for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<std::int64_t>(i) + 1;
      const auto shares = shares_of(config_of(ranks, batch, balance), steps);
      const contract::StratumLimits strata = made_up_strata();
      for (std::int64_t window = 0; window < 2; ++window) {
        const std::int64_t first = window * contract::kWindowSteps * batch;
        std::vector<std::int32_t> lengths;
        for (std::int64_t i = 0; i < contract::kWindowSteps * batch; ++i) {
          lengths.push_back(made_up_length(first + i));
        }
        const std::vector<std::int32_t> order =
            contract::stratified_order(lengths, batch, ranks, strata);
        for (std::int64_t step = 0; step < contract::kWindowSteps; ++step) {
          const auto numbers = numbers_of(
              shares, static_cast<std::size_t>(window * contract::kWindowSteps + step), batch);
          for (std::int64_t place = 0; place < batch; ++place) {
            ASSERT_EQ(numbers[static_cast<std::size_t>(place)],
                      first + order[static_cast<std::size_t>(step * batch + place)]);
          }
        }
      }
    }
  }
}

// Four lengths so far apart that classes of any sense part them: every node's share of a step has
// each of them as often as every other's, but for the few steps that take what classes leave over.
TEST(StepSamples, StratifiedSharesHaveEveryLengthAsOften) {
  constexpr std::int32_t kLengths[] = {60, 190, 320, 500};
  const auto length = [&](std::int64_t number) {
    return kLengths[base::PhiloxStream(2, static_cast<std::uint32_t>(number), 0, 1).below(4)];
  };
  const samples::SampleStream stream{[&](std::int64_t number) {
                                       samples::Sample sample;
                                       sample.ids.resize(static_cast<std::size_t>(length(number)));
                                       return sample;
                                     },
                                     length};
  struct Row {
    int ranks, node_ranks, batch;
  };
  for (const Row& row : {Row{2, 1, 8}, Row{3, 1, 24}, Row{4, 1, 20}, Row{4, 2, 24}}) {
    contract::RunConfig config =
        config_of(row.ranks, row.batch,
                  {contract::Balance::Stratified, contract::Deal::LongestFirst,
                   contract::ExchangeWay::Reread});
    config.ranks_per_node = row.node_ranks;
    std::vector<std::map<std::size_t, int>> counts[contract::kWindowSteps];  // of nodes: by length
    for (int rank = 0; rank < row.ranks; ++rank) {
      SilentChannel channel(rank, row.ranks);
      samples::StepSamples samples(config, stream, channel);
      for (std::size_t step = 0; step < contract::kWindowSteps; ++step) {
        counts[step].resize(static_cast<std::size_t>(row.ranks / row.node_ranks));
        auto& mine = counts[step][static_cast<std::size_t>(rank / row.node_ranks)];
        for (const samples::Sample& sample :
             samples.share(static_cast<std::int64_t>(step) + 1).samples) {
          ++mine[sample.ids.size()];
        }
      }
    }
    std::map<std::size_t, int> all;
    int uneven = 0;
    for (const auto& nodes : counts) {
      uneven += std::count(nodes.begin(), nodes.end(), nodes[0]) < std::ssize(nodes) ? 1 : 0;
      for (const auto& node : nodes) {
        for (const auto& [of, count] : node) all[of] += count;
      }
    }
    ASSERT_EQ(all.size(), 4U);
    for (const auto& [of, count] : all) {
      EXPECT_GT(count, contract::kWindowSteps * row.batch / 8) << "half its share of length " << of;
    }
    EXPECT_LT(uneven, 4) << row.ranks << " ranks: fewer than there are classes";
  }
}

TEST(StepSamples, StratifiedStepsMayBeAskedForInAnyOrder) {
  const contract::RunConfig config = config_of(
      2, 6, {contract::Balance::Stratified, contract::Deal::Snake, contract::ExchangeWay::Reread});
  const auto rising = shares_of(config, {1, 64, 65, 200});
  const auto falling = shares_of(config, {200, 65, 64, 1});
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::size_t i = 0; i < 4; ++i) {
      const samples::StepShare& a = rising[rank][i];
      const samples::StepShare& b = falling[rank][3 - i];
      EXPECT_EQ(a.ordinals, b.ordinals);
      EXPECT_TRUE(std::equal(a.samples.begin(), a.samples.end(), b.samples.begin(), b.samples.end(),
                             equal));
    }
  }
}

// Samples of at most 128 tokens have classes, too: between the ranks of a step, tokens differ less
// than when they are dealt in turn.
TEST(StepSamples, StratifiedEvensOutShortSamples) {
  const auto length = [](std::int64_t number) {
    return 4 + (made_up_length(number) - 4) * 124 / 508;
  };
  const auto largest_over_mean = [&](contract::Balance strategy) {
    constexpr int kRanks = 4, kBatch = 32;
    contract::RunConfig config = config_of(
        kRanks, kBatch, {strategy, contract::Deal::LongestFirst, contract::ExchangeWay::Reread});
    config.data.max_length = 128;
    config.ranks_per_node = 1;
    double sum = 0;
    std::vector<std::vector<double>> tokens(contract::kWindowSteps, std::vector<double>(kRanks));
    for (int rank = 0; rank < kRanks; ++rank) {
      SilentChannel channel(rank, kRanks);
      const samples::SampleStream stream{
          [&](std::int64_t number) {
            samples::Sample sample;
            sample.ids.resize(static_cast<std::size_t>(length(number)));
            return sample;
          },
          length};
      samples::StepSamples samples(config, stream, channel);
      for (std::size_t step = 0; step < contract::kWindowSteps; ++step) {
        for (const samples::Sample& sample :
             samples.share(static_cast<std::int64_t>(step) + 1).samples) {
          tokens[step][static_cast<std::size_t>(rank)] += static_cast<double>(sample.ids.size());
        }
      }
    }
    for (const std::vector<double>& step : tokens) {
      const double all = step[0] + step[1] + step[2] + step[3];
      sum += *std::max_element(step.begin(), step.end()) * kRanks / all;
    }
    return sum / contract::kWindowSteps;
  };
  // Of lengths like these (a third at the limit, the others even below it), four classes of least
  // variance keep a twentieth of the variance of all, so less than a third of the deviation.
  const double in_turn = largest_over_mean(contract::Balance::None) - 1;
  EXPECT_LT(largest_over_mean(contract::Balance::Stratified) - 1, in_turn / 3);
}

TEST(StepSamples, StratifiedRefusesHalfANode) {
  contract::RunConfig config = config_of(
      3, 6, {contract::Balance::Stratified, contract::Deal::Snake, contract::ExchangeWay::Reread});
  config.ranks_per_node = 2;
  SilentChannel channel(0, 3);
  try {
    const samples::StepSamples samples(config, made_up_stream(), channel);
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_NE(std::string(error.what()).find("3 ranks are not whole nodes of 2"),
              std::string::npos);
  }
  config.balance.strategy = contract::Balance::GlobalPresort;  // needs no nodes
  EXPECT_NO_THROW(samples::StepSamples(config, made_up_stream(), channel));
}

// Rank 0 of 2; what rank 1 says passes through `tamper`.
class ScriptedPeer final : public ranks::HostCollectives {
 public:
  std::function<void(std::vector<std::byte>*)> tamper_lengths = [](auto*) {};
  std::function<void(std::vector<std::byte>*)> tamper_samples = [](auto*) {};

  explicit ScriptedPeer(int batch) : batch_(batch) {}
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int ranks() const override { return 2; }
  void all_reduce_sum(double*, int) override {}
  void broadcast(void*, std::int64_t, int) override {}
  void barrier() override {}
  void all_gather(const void* bytes, std::int64_t count, void* all) override {
    std::vector<std::byte> theirs(static_cast<std::size_t>(count));
    for (std::int32_t place = 1; place < batch_; place += 2) {
      const std::int32_t length = made_up_length(place);
      std::memcpy(theirs.data() + place / 2 * 4, &length, 4);
    }
    tamper_lengths(&theirs);
    std::memcpy(all, bytes, static_cast<std::size_t>(count));
    std::memcpy(static_cast<std::byte*>(all) + count, theirs.data(), theirs.size());
  }
  [[nodiscard]] ranks::Parcels all_to_all(const ranks::Parcels&) override {
    std::vector<std::int32_t> lengths;
    for (std::int32_t place = 0; place < batch_; ++place) lengths.push_back(made_up_length(place));
    contract::Assignment places = contract::assign(
        lengths, {contract::Balance::Exchange, contract::Deal::LongestFirst, 2, 1});
    std::sort(places[0].begin(), places[0].end());
    std::vector<samples::PlacedSample> sent;
    for (const std::int32_t place : places[0]) {
      if (place % 2 == 1) sent.push_back({place, made_up_sample(place)});
    }
    std::vector<std::byte> parcel = samples::make_parcel(1, sent);
    tamper_samples(&parcel);
    return {{}, parcel};
  }

 private:
  std::int32_t batch_;
};

TEST(StepSamples, RefusesADamagedParcel) {
  const contract::RunConfig config = config_of(
      2, 12,
      {contract::Balance::Exchange, contract::Deal::LongestFirst, contract::ExchangeWay::Move});
  const auto message = [&](ScriptedPeer&& peer) -> std::string {
    try {
      (void)samples::StepSamples(config, made_up_stream(), peer).share(1);
      return "";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::Retry);
      return error.what();
    }
  };
  EXPECT_EQ(message(ScriptedPeer(12)), "") << "undamaged";
  ScriptedPeer flipped(12);
  flipped.tamper_samples = [](auto* parcel) { (*parcel)[100] ^= std::byte{1}; };
  EXPECT_NE(message(std::move(flipped)).find("digest does not fit (rank 1, step 1)"),
            std::string::npos);
  ScriptedPeer absent(12);
  absent.tamper_samples = [](auto* parcel) { parcel->clear(); };
  EXPECT_NE(message(std::move(absent)).find("0 bytes"), std::string::npos);
  ScriptedPeer longer(12);
  longer.tamper_lengths = [](auto* lengths) { (*lengths)[2] = std::byte{1}; };
  EXPECT_NE(message(std::move(longer)).find("rank 1 says that a sample of step 1 has"),
            std::string::npos);
  ScriptedPeer nothing(12);
  nothing.tamper_lengths = [](auto* lengths) { std::fill_n(lengths->begin(), 4, std::byte{0}); };
  EXPECT_NE(message(std::move(nothing)).find("has 0 tokens"), std::string::npos);
}

std::vector<samples::PlacedSample> placed(const std::vector<std::int32_t>& places) {
  std::vector<samples::PlacedSample> samples;
  for (const std::int32_t place : places) samples.push_back({place, made_up_sample(place)});
  return samples;
}

TEST(SampleParcel, ReturnsWhatWentIn) {
  for (const std::vector<std::int32_t>& places :
       {std::vector<std::int32_t>{}, {0}, {3, 8, 1000000}}) {
    std::vector<samples::PlacedSample> samples = placed(places);
    if (places.size() == 3) {  // nothing about the content is taken for granted
      samples[0].sample = {};
      samples[1].sample.ids[5] = -1;
      samples[1].sample.types[7] = 5;
      samples[1].sample.sample_label = -100;
      samples[0].sample.answer_end = std::numeric_limits<std::int32_t>::max();
      samples[0].sample.value = -0.0F;
      samples[1].sample.answer_begin = samples[1].sample.answer_end = -1;
      samples[1].sample.value = std::numeric_limits<float>::quiet_NaN();
      samples[2].sample.value = -std::numeric_limits<float>::infinity();
      samples[2].sample.masked_positions.clear();
      samples[2].sample.masked_labels.clear();
    }
    const std::vector<std::byte> parcel = samples::make_parcel(9, samples);
    const std::vector<samples::PlacedSample> again =
        samples::open_parcel(parcel, 9, places, kMaxLength);
    ASSERT_EQ(again.size(), samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      EXPECT_EQ(again[i].place, samples[i].place);
      EXPECT_TRUE(equal(again[i].sample, samples[i].sample));
    }
  }
}

std::string refusal(const std::vector<std::byte>& parcel, std::int64_t step,
                    const std::vector<std::int32_t>& places, std::int32_t max_length = kMaxLength) {
  try {
    (void)samples::open_parcel(parcel, step, places, max_length);
    return "";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Retry);
    return error.what();
  }
}

TEST(SampleParcel, RefusesWhatIsNotMeant) {
  const std::vector<std::byte> parcel = samples::make_parcel(9, placed({3, 8}));
  EXPECT_EQ(refusal(parcel, 9, {3, 8}), "");
  EXPECT_NE(refusal(parcel, 10, {3, 8}).find("of step 9, not 10"), std::string::npos);
  EXPECT_NE(refusal(parcel, 9, {3}).find("2 came instead of 1"), std::string::npos);
  EXPECT_NE(refusal(parcel, 9, {3, 7}).find("for place 8, not 7"), std::string::npos);
  EXPECT_NE(refusal(parcel, 9, {3, 8}, 3).find("is above 3"), std::string::npos);
}

TEST(SampleParcel, RefusesEveryFlippedBitAndEveryCut) {
  const std::vector<std::byte> parcel = samples::make_parcel(9, placed({3}));
  for (std::size_t i = 0; i < parcel.size(); ++i) {
    std::vector<std::byte> flipped = parcel;
    flipped[i] ^= std::byte(1U << i % 8);
    EXPECT_NE(refusal(flipped, 9, {3}), "") << "byte " << i;
    const std::vector<std::byte> cut(parcel.begin(),
                                     parcel.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(refusal(cut, 9, {3}), "") << i << " bytes";
  }
  std::vector<std::byte> more = parcel;
  more.push_back(std::byte{0});
  EXPECT_NE(refusal(more, 9, {3}), "");
}

// A right digest over wrong content: each field is still held to its bounds.
std::vector<std::byte> sealed(const std::string& content) {
  std::vector<std::byte> parcel;
  for (const char c : content + base::digest_of(content).substr(0, samples::kParcelDigest)) {
    parcel.push_back(static_cast<std::byte>(c));
  }
  return parcel;
}

TEST(SampleParcel, ReadsNothingOutsideOfItsBounds) {
  // Step 9, one sample: place 3, label 1, answer 4 to 8, value 0, 2 ids (5, 6), segments (0 × 1,
  // 1 × 1), 1 masked (1): 7.
  const std::string good = {9, 1, 3, 1, 4, 8, 0, 2, 5, 6, 0, 1, 1, 1, 1, 2, 7};
  ASSERT_EQ(refusal(sealed(good), 9, {3}), "");
  struct Row {
    const char* what;
    std::size_t at;
    char value;
    const char* message;
  };
  const Row rows[] = {
      {"more ids than there are", 7, 100, "end early"},
      {"an endless number", 8, static_cast<char>(0x80), "is above"},
      {"a segment beyond the ids", 11, 3, "tokens of a segment 3 is above 2"},
      {"an empty segment", 11, 0, "a segment is empty"},
      {"more masked positions than ids", 14, 3, "masked positions 3 is above 2"},
      {"a masked position beyond the ids", 15, 3, "masked position 3 is above 2"},
      {"a masked position before the first", 15, 0, "masked twice"},
      {"fewer masked positions than sent", 14, 0, "left over"},
      {"a label cut off", 16, static_cast<char>(0xFF), "end early"},
  };
  for (const Row& row : rows) {
    std::string bad = good;
    bad[row.at] = row.value;
    EXPECT_NE(refusal(sealed(bad), 9, {3}).find(row.message), std::string::npos)
        << row.what << ": " << refusal(sealed(bad), 9, {3});
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(refusal(sealed(good.substr(0, size)), 9, {3}), "") << size;
  }
  EXPECT_NE(refusal(sealed(std::string(12, '\xFF')), 9, {3}).find("63 bits"), std::string::npos);
  std::string wide = good;
  wide.replace(8, 1, "\xFF\xFF\xFF\xFF\x7F");
  EXPECT_NE(refusal(sealed(wide), 9, {3}).find("32 bits"), std::string::npos);
  // Whatever bytes follow the right beginning: an answer, never a crash.
  base::PhiloxStream random(3, 0, 0, 0);
  for (int round = 0; round < 20000; ++round) {
    std::string noise = good;
    for (int i = 0; i < 3; ++i) {
      noise[3 + random.below(static_cast<std::uint32_t>(noise.size()) - 3)] =
          static_cast<char>(random.below(256));
    }
    (void)refusal(sealed(noise), 9, {3});
  }
}

}  // namespace
}  // namespace regatta::tests
