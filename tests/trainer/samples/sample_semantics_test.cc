// Samples decoded, and compared with the token files of their dataset: what A, B and the labels
// mean, at every position, and how often what is drawn comes out how.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "tests/base/faulty_file_system.h"
#include "tests/trainer/samples/decoded_sample.h"
#include "tests/trainer/samples/numbered_suite.h"
#include "trainer/samples/sampler.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

// Of so many deviations is a fair draw further off in one of 1.7 million cases.
constexpr double kDeviations = 5;

class SampleSemantics : public NumberedSuite {
 protected:
  static contract::DataConfig config(int max_length, double short_fraction = 0,
                                     double mask_fraction = 0.15) {
    contract::DataConfig config;
    config.max_length = max_length;
    config.short_fraction = short_fraction;
    config.mask_fraction = mask_fraction;
    return config;
  }
  static const StoredSplit& stored(data::Split split) {
    return split == data::Split::Training ? numbers_->training() : numbers_->held_out();
  }
  // What is wrong with a sample, if anything.
  static std::string fault_of(const samples::Sample& sample, const StoredSplit& split,
                              int max_length) {
    DecodedSample decoded;
    const std::string fault = decode(sample, split, &decoded);
    if (!fault.empty()) return fault;
    return fault_of_pair(decoded, sample.sample_label == 1, split, max_length);
  }

  // All training samples of some passes, in the order of their documents.
  struct Seen {
    samples::Sample sample;
    DecodedSample pair;
    // Where nothing had to be cut off: what was left of A's document, whose sentences A begins.
    std::int64_t end = 0, sentences = 0;
    bool begins_document = false;
    std::uint32_t pass = 0;
  };
  using Look = std::function<void(const Seen& seen)>;
  static void look_at(const contract::DataConfig& config, std::uint32_t passes, const Look& look) {
    const StoredSplit& split = numbers_->training();
    const samples::SampleSource source(*dataset_, data::Split::Training, config, 5);
    Seen seen;
    for (seen.pass = 0; seen.pass < passes; ++seen.pass) {
      for (std::int64_t i = 0; i < source.pass_size(seen.pass); ++i) {
        seen.sample = source.sample(i, seen.pass);
        ASSERT_EQ(decode(seen.sample, split, &seen.pair), "");
        const std::int64_t begin = seen.pair.a.begin;
        seen.end = document_end(split, begin);
        seen.sentences = sentences_in(split, {begin, seen.end});
        seen.begins_document =
            begin == 0 || split.document_of[static_cast<std::size_t>(begin - 1)] !=
                              split.document_of[static_cast<std::size_t>(begin)];
        look(seen);
      }
    }
  }
  // What was counted, in deviations from what was to be expected.
  static double deviations(double found, double mean, double variance) {
    return (found - mean) / std::sqrt(variance);
  }
};

// The files themselves: whole documents, each in the split that its hash says.
TEST_F(SampleSemantics, TheSplitsAreThoseOfTheHashes) {
  std::size_t found = 0;
  for (const data::Split split : {data::Split::Training, data::Split::HeldOut}) {
    const StoredSplit& files = stored(split);
    for (std::size_t d = 0; d + 1 < files.documents.size(); ++d) {
      const auto begin = files.sentences[static_cast<std::size_t>(files.documents[d])];
      const auto end = files.sentences[static_cast<std::size_t>(files.documents[d + 1])];
      const std::vector<std::int32_t> tokens(files.tokens.begin() + begin,
                                             files.tokens.begin() + end);
      const std::size_t document = numbers_->document_of(tokens.at(0));
      EXPECT_EQ(tokens, numbers_->documents()[document]);
      EXPECT_EQ(numbers_->is_held_out(document), split == data::Split::HeldOut);
      ++found;
    }
  }
  EXPECT_EQ(found, numbers_->documents().size()) << "each of them once";
  EXPECT_GT(stored(data::Split::HeldOut).documents.size(), 8U);
}

TEST_F(SampleSemantics, EveryTokenStandsWhereTheDatasetHasIt) {
  int next = 0, random = 0;
  for (const data::Split split : {data::Split::Training, data::Split::HeldOut}) {
    for (const int max_length : {5, 8, 33, 64, 128, 1024}) {
      for (const double short_fraction : {0.0, 0.1, 1.0}) {
        const samples::SampleSource source(*dataset_, split, config(max_length, short_fraction), 5);
        for (std::uint32_t pass = 0; pass < 4; ++pass) {
          for (std::int64_t i = 0; i < source.pass_size(pass); ++i) {
            const samples::Sample sample = source.sample(i, pass);
            ASSERT_EQ(fault_of(sample, stored(split), max_length), "")
                << "sample " << i << " of pass " << pass << ", max_length " << max_length
                << ", short_fraction " << short_fraction << ", split " << data::name_of(split);
            ++(sample.sample_label == 0 ? next : random);
          }
        }
      }
    }
  }
  EXPECT_GT(next, 1000);
  EXPECT_GT(random, 1000);
}

// Where all of a document fits: A begins where the sample before ended, which is behind its B if
// that followed and behind its A if it was a random one, so that what did not follow is not lost.
TEST_F(SampleSemantics, APassHasEverySentenceOnce) {
  const StoredSplit& split = numbers_->training();
  std::int64_t next = 0;
  std::uint32_t pass = 0;
  look_at(config(1024), 20, [&](const Seen& seen) {
    if (seen.pass != std::exchange(pass, seen.pass)) {
      EXPECT_EQ(std::exchange(next, 0), std::ssize(split.tokens));
    }
    EXPECT_EQ(seen.pair.a.begin, next);
    const bool random_next = seen.sample.sample_label == 1;
    next = random_next ? seen.pair.a.end : seen.pair.b.end;
    if (!random_next) {
      EXPECT_EQ(next, seen.end) << "a segment ends early";
    }
  });
  EXPECT_EQ(next, std::ssize(split.tokens));
}

// By number, as training and evaluation take them.
TEST_F(SampleSemantics, TheFirstPassIsInAnotherOrderAndHasEverySampleOnce) {
  for (const data::Split split : {data::Split::Training, data::Split::HeldOut}) {
    const samples::SampleSource source(*dataset_, split, config(64), 5);
    std::set<std::int64_t> by_number, by_document;
    bool same_order = true;
    const auto begin_of = [&](const samples::Sample& sample) {
      DecodedSample pair;
      EXPECT_EQ(decode(sample, stored(split), &pair), "");
      return pair.a.begin;
    };
    for (std::int64_t i = 0; i < source.size(); ++i) {
      const std::int64_t begin = begin_of(source.sample(i, 0));
      const std::int64_t numbered = begin_of(source.at(i));
      by_document.insert(begin);
      by_number.insert(numbered);
      same_order = same_order && begin == numbered;
    }
    EXPECT_FALSE(same_order);
    EXPECT_EQ(by_number, by_document);
    EXPECT_EQ(std::ssize(by_number), source.size());
  }
}

// Where all of a document fits. A last sentence has nothing that could follow.
TEST_F(SampleSemantics, NextSentencesAreHalfAndHalf) {
  double draws = 0, random = 0, alone = 0, alone_random = 0;
  look_at(config(1024), 200, [&](const Seen& seen) {
    (seen.sentences > 1 ? draws : alone) += 1;
    (seen.sentences > 1 ? random : alone_random) += seen.sample.sample_label;
  });
  ASSERT_GT(draws, 5000);
  EXPECT_LT(std::abs(deviations(random, draws / 2, draws / 4)), kDeviations);
  EXPECT_GT(alone, 0);
  EXPECT_EQ(alone_random, alone);
}

TEST_F(SampleSemantics, OtherDocumentsAreEquallyLikely) {
  const StoredSplit& split = numbers_->training();
  const std::size_t documents = split.documents.size() - 1;
  // By document, and by how far it is behind A's, in a circle.
  std::vector<double> found(documents, 0), expected(documents, 0), behind(documents, 0);
  double draws = 0;
  look_at(config(64), 200, [&](const Seen& seen) {
    if (seen.sample.sample_label == 0) return;
    const auto own =
        static_cast<std::size_t>(split.document_of[static_cast<std::size_t>(seen.pair.a.begin)]);
    const auto other =
        static_cast<std::size_t>(split.document_of[static_cast<std::size_t>(seen.pair.b.begin)]);
    draws += 1;
    found[other] += 1;
    behind[(other + documents - own) % documents] += 1;
    for (std::size_t d = 0; d < documents; ++d) {
      if (d != own) expected[d] += 1 / static_cast<double>(documents - 1);
    }
  });
  const auto freedom = static_cast<double>(documents - 1);
  double of_documents = 0, of_distances = 0;
  for (std::size_t d = 0; d < documents; ++d) {
    ASSERT_GT(expected[d], 50);
    of_documents += (found[d] - expected[d]) * (found[d] - expected[d]) / expected[d];
    if (d > 0) of_distances += std::pow(behind[d] - draws / freedom, 2) * freedom / draws;
  }
  EXPECT_LT(deviations(of_documents, freedom, 2 * freedom), kDeviations);
  EXPECT_LT(deviations(of_distances, freedom - 1, 2 * (freedom - 1)), kDeviations);
}

// Of samples that hold whole documents, none is cut off.
TEST_F(SampleSemantics, RandomSegmentsBeginWithAnySentence) {
  const StoredSplit& split = numbers_->training();
  double sum = 0, variance = 0;
  std::map<std::int64_t, std::set<std::int64_t>> begins;  // by sentences of the document
  look_at(config(1024), 200, [&](const Seen& seen) {
    if (seen.sample.sample_label == 0) return;
    const auto first =
        split.documents.begin() + split.document_of[static_cast<std::size_t>(seen.pair.b.begin)];
    const auto begin =
        std::lower_bound(split.sentences.begin(), split.sentences.end(), seen.pair.b.begin);
    ASSERT_EQ(*begin, seen.pair.b.begin) << "it begins with a sentence";
    const std::int64_t sentence = begin - split.sentences.begin() - *first;
    const std::int64_t sentences = *(first + 1) - *first;
    const auto n = static_cast<double>(sentences);
    sum += static_cast<double>(sentence) - (n - 1) / 2;
    variance += (n * n - 1) / 12;
    begins[sentences].insert(sentence);
  });
  EXPECT_LT(std::abs(deviations(sum, 0, variance)), kDeviations);
  ASSERT_GT(begins.size(), 4U);
  for (const auto& [n, seen] : begins) EXPECT_EQ(std::ssize(seen), n) << "each was the first";
}

// A has 1 to n − 1 of the n sentences that are left, where all of them fit.
TEST_F(SampleSemantics, CutsAreEquallyLikely) {
  double sum = 0, variance = 0;
  std::map<std::int64_t, std::set<std::int64_t>> cuts;  // by n
  look_at(config(1024), 200, [&](const Seen& seen) {
    if (seen.sample.sample_label == 1) return;
    const std::int64_t cut = sentences_in(numbers_->training(), seen.pair.a);
    const auto n = static_cast<double>(seen.sentences);
    sum += static_cast<double>(cut) - n / 2;
    variance += ((n - 1) * (n - 1) - 1) / 12;
    cuts[seen.sentences].insert(cut);
  });
  EXPECT_LT(std::abs(deviations(sum, 0, variance)), kDeviations);
  ASSERT_GT(cuts.size(), 4U);
  for (const auto& [n, seen] : cuts) {
    EXPECT_EQ(std::ssize(seen), n - 1);
    EXPECT_EQ(*seen.begin(), 1);
    EXPECT_EQ(*seen.rbegin(), n - 1);
  }
}

// A target of 2 to max_length − 3 tokens is drawn for the share of documents that is to be short. A
// document of n > 1 sentences that fits is then one sample, half of them with its own B, unless its
// sentences but the last have the target already.
TEST_F(SampleSemantics, TheShareOfShortSamples) {
  constexpr double kShare = 0.3;
  constexpr int kLength = 128;
  const StoredSplit& split = numbers_->training();
  constexpr std::uint32_t kPasses = 400;
  double whole = 0;
  look_at(config(kLength, kShare), kPasses, [&](const Seen& seen) {
    if (!seen.begins_document || seen.end - seen.pair.a.begin > kLength - 3) return;
    whole += seen.sample.sample_label == 0 && seen.pair.b.end == seen.end ? 1 : 0;
  });
  double mean = 0, variance = 0;
  for (std::size_t d = 0; d + 1 < split.documents.size(); ++d) {
    const auto first = split.sentences.begin() + split.documents[d];
    const auto end = split.sentences.begin() + split.documents[d + 1];
    if (end - first == 1 || *end - *first > kLength - 3) continue;
    const auto before = static_cast<double>(*(end - 1) - *first);
    const double p = (1 - kShare * std::max(0.0, before - 1) / (kLength - 3 - 1)) / 2;
    mean += kPasses * p;
    variance += kPasses * p * (1 - p);
  }
  ASSERT_GT(mean, 1000);
  EXPECT_LT(std::abs(deviations(whole, mean, variance)), kDeviations);
}

// 15 % of a sample's length, rounded to even, at least one, at most all; no special piece.
TEST_F(SampleSemantics, LabelsAreSoMany) {
  for (const double fraction : {0.15, 0.5, 1.0}) {
    for (const int max_length : {5, 33, 128}) {
      look_at(config(max_length, 0.5, fraction), 4, [&](const Seen& seen) {
        const auto length = std::ssize(seen.sample.ids);
        const double wanted = std::max(1.0, std::nearbyint(fraction * static_cast<double>(length)));
        EXPECT_EQ(std::ssize(seen.sample.masked_labels),
                  std::min<std::int64_t>(length - 3, static_cast<std::int64_t>(wanted)));
        const auto separator = static_cast<std::int32_t>(1 + seen.pair.a.size());
        for (const std::int32_t position : seen.sample.masked_positions) {
          EXPECT_NE(position, 0);
          EXPECT_NE(position, separator);
          EXPECT_NE(position, length - 1);
        }
      });
    }
  }
}

TEST_F(SampleSemantics, EveryPositionIsEquallyLikelyToBePredicted) {
  constexpr std::size_t kLength = 64;
  std::vector<double> found(kLength, 0), mean(kLength, 0), variance(kLength, 0);
  look_at(config(kLength), 200, [&](const Seen& seen) {
    const std::size_t length = seen.sample.ids.size();
    const double p =
        static_cast<double>(seen.sample.masked_labels.size()) / static_cast<double>(length - 3);
    for (std::size_t i = 1; i + 1 < length; ++i) {
      if (i == static_cast<std::size_t>(1 + seen.pair.a.size())) continue;
      mean[i] += p;
      variance[i] += p * (1 - p);
    }
    for (const std::int32_t position : seen.sample.masked_positions) {
      found[static_cast<std::size_t>(position)] += 1;
    }
  });
  EXPECT_EQ(found[0], 0);
  EXPECT_EQ(found[kLength - 1], 0);
  for (std::size_t i = 1; i + 1 < kLength; ++i) {
    EXPECT_LT(std::abs(deviations(found[i], mean[i], variance[i])), kDeviations) << i;
  }
}

// 80 % become [MASK], 10 % stay, 10 % become any piece of the vocabulary: now and then [MASK] or
// the one that stood there.
TEST_F(SampleSemantics, MasksAreEightyTenTen) {
  constexpr std::size_t kParts = 20;
  const auto pieces = static_cast<double>(numbers_->pieces());
  const auto part_of = [&](std::int32_t piece) {
    return static_cast<std::size_t>(piece) * kParts / static_cast<std::size_t>(numbers_->pieces());
  };
  std::vector<double> sizes(kParts, 0), found(kParts, 0), originals(kParts, 0);
  for (std::int32_t piece = 0; piece < numbers_->pieces(); ++piece) {
    if (piece != kMask) sizes[part_of(piece)] += 1;
  }
  double total = 0, masked = 0, kept = 0;
  look_at(config(64), 200, [&](const Seen& seen) {
    for (std::size_t i = 0; i < seen.sample.masked_labels.size(); ++i) {
      const std::int32_t label = seen.sample.masked_labels[i];
      const std::int32_t id =
          seen.sample.ids[static_cast<std::size_t>(seen.sample.masked_positions[i])];
      total += 1;
      originals[part_of(label)] += 1;
      if (id == kMask) {
        masked += 1;
      } else if (id == label) {
        kept += 1;
      } else {
        found[part_of(id)] += 1;
      }
    }
  });
  ASSERT_GT(total, 50000);
  const auto is_share = [&](double count, double p, const char* what) {
    EXPECT_LT(std::abs(deviations(count, total * p, total * p * (1 - p))), kDeviations) << what;
  };
  is_share(masked, 0.8 + 0.1 / pieces, "[MASK]");
  is_share(kept, 0.1 + 0.1 / pieces, "as it was");
  for (std::size_t part = 0; part < kParts; ++part) {
    const double mean = 0.1 / pieces * (total * sizes[part] - originals[part]);
    EXPECT_LT(std::abs(deviations(found[part], mean, mean)), kDeviations) << "part " << part;
  }
}

}  // namespace
}  // namespace regatta::tests
