#include "trainer/sampler.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "base/philox.h"
#include "trainer/contract/random_site.h"
#include "trainer/permutation.h"

namespace regatta::trainer {
namespace {

constexpr std::size_t kSpecials = 3;          // [CLS], [SEP], [SEP]
constexpr int kOtherDocumentTries = 10;       // as in the reference
constexpr std::uint64_t kEvaluationSeed = 0;  // the same masks for every run

base::PhiloxStream draws(std::uint64_t seed, std::uint32_t index, std::uint32_t epoch,
                         RandomSite site) {
  return {seed, index, epoch, static_cast<std::uint32_t>(site)};
}

// Cuts the longer segment (the second on a tie) at a random end until both fit.
void truncate(std::vector<std::int32_t>* a, std::vector<std::int32_t>* b, std::size_t limit,
              base::PhiloxStream* random) {
  std::size_t front[2] = {0, 0};
  std::size_t size[2] = {a->size(), b->size()};
  while (size[0] + size[1] > limit) {
    const int longer = size[0] > size[1] ? 0 : 1;
    if (random->below(2) == 0) ++front[longer];
    --size[longer];
  }
  std::vector<std::int32_t>* const both[2] = {a, b};
  for (int i = 0; i < 2; ++i) {
    const auto begin = both[i]->begin() + static_cast<std::ptrdiff_t>(front[i]);
    *both[i] = std::vector<std::int32_t>(begin, begin + static_cast<std::ptrdiff_t>(size[i]));
  }
}

}  // namespace

struct SampleSource::Pair {
  std::vector<std::int32_t> a, b;
  bool random_next = false;
};

SampleSource::SampleSource(const Dataset& dataset, Split split, const DataConfig& config,
                           std::uint64_t seed, bool shuffle_labels)
    : dataset_(dataset),
      split_(split),
      config_(config),
      seed_(seed),
      shuffle_labels_(shuffle_labels) {
  const auto limit = static_cast<std::size_t>(config.max_length) - kSpecials;
  for (std::int64_t document = 0; document < dataset.documents(split); ++document) {
    const auto sentences = static_cast<std::uint32_t>(dataset.sentences(split, document));
    SampleSlot slot{static_cast<std::uint32_t>(document), 0, 0};
    std::size_t tokens = 0;
    for (std::uint32_t sentence = 0; sentence < sentences; ++sentence) {
      const std::size_t length = dataset.sentence(split, document, sentence).size();
      if (slot.sentences > 0 && tokens + length > limit) {
        slots_.push_back(slot);
        slot = {slot.document, sentence, 0};
        tokens = 0;
      }
      ++slot.sentences;
      tokens += length;
    }
    if (slot.sentences > 0) slots_.push_back(slot);
  }
  if (slots_.empty()) {
    throw base::Error(base::Code::User, std::string("the dataset has no ") +
                                            (split == Split::HeldOut ? "held-out" : "training") +
                                            " samples; prepare it again from more text");
  }
}

void SampleSource::append_sentences(std::uint32_t document, std::uint32_t first,
                                    std::uint32_t count, std::size_t limit,
                                    std::vector<std::int32_t>* tokens) const {
  for (std::uint32_t i = 0; i < count && tokens->size() < limit; ++i) {
    const auto sentence = dataset_.sentence(split_, document, first + i);
    tokens->insert(tokens->end(), sentence.begin(), sentence.end());
  }
}

// A is a random number of the slot's sentences; B the rest, or, with probability one half and
// always when the slot is one sentence, sentences of another document from a random place.
SampleSource::Pair SampleSource::segments(const SampleSlot& slot, std::uint32_t index,
                                          std::uint32_t epoch) const {
  base::PhiloxStream random = draws(seed_, index, epoch, RandomSite::Segments);
  std::size_t limit = static_cast<std::size_t>(config_.max_length) - kSpecials;
  if (random.uniform() < static_cast<float>(config_.short_fraction)) {
    limit = 2 + random.below(static_cast<std::uint32_t>(limit - 1));
  }
  constexpr std::size_t kAll = SIZE_MAX;
  Pair pair;
  const std::uint32_t cut = slot.sentences == 1 ? 1 : 1 + random.below(slot.sentences - 1);
  append_sentences(slot.document, slot.first_sentence, cut, kAll, &pair.a);
  const auto documents = static_cast<std::uint32_t>(dataset_.documents(split_));
  pair.random_next = documents > 1 && (slot.sentences == 1 || random.below(2) == 0);
  if (pair.random_next) {
    std::uint32_t other = slot.document;
    for (int attempt = 0; attempt < kOtherDocumentTries && other == slot.document; ++attempt) {
      other = random.below(documents);
    }
    if (other == slot.document) other = (other + 1) % documents;
    const auto sentences = static_cast<std::uint32_t>(dataset_.sentences(split_, other));
    const std::uint32_t first = random.below(sentences);
    const std::size_t room = limit > pair.a.size() ? limit - pair.a.size() : 1;
    append_sentences(other, first, sentences - first, room, &pair.b);
  } else {
    append_sentences(slot.document, slot.first_sentence + cut, slot.sentences - cut, kAll, &pair.b);
    if (pair.b.empty() && pair.a.size() > 1) {  // one document of one sentence: split inside it
      const auto middle = pair.a.begin() + static_cast<std::ptrdiff_t>(pair.a.size() / 2);
      pair.b.assign(middle, pair.a.end());
      pair.a.erase(middle, pair.a.end());
    }
  }
  truncate(&pair.a, &pair.b, limit, &random);
  return pair;
}

Sample SampleSource::sample(std::int64_t index, std::uint32_t epoch) const {
  base::check(index >= 0 && index < size(), "the sample exists");
  const auto stream = static_cast<std::uint32_t>(index);
  const Pair pair = segments(slots_[static_cast<std::size_t>(index)], stream, epoch);
  const Vocabulary& vocabulary = dataset_.vocabulary();
  Sample sample;
  sample.ids.reserve(pair.a.size() + pair.b.size() + kSpecials);
  sample.ids.push_back(vocabulary.special().classify);
  sample.ids.insert(sample.ids.end(), pair.a.begin(), pair.a.end());
  sample.ids.push_back(vocabulary.special().separator);
  sample.types.assign(sample.ids.size(), 0);
  sample.ids.insert(sample.ids.end(), pair.b.begin(), pair.b.end());
  sample.ids.push_back(vocabulary.special().separator);
  sample.types.resize(sample.ids.size(), 1);
  sample.next_sentence_label = pair.random_next ? 1 : 0;
  mask(&sample, stream, epoch);
  return sample;
}

Sample SampleSource::at(std::int64_t number) const {
  const std::int64_t epoch = number / size();
  const Permutation order(static_cast<std::uint64_t>(size()), seed_,
                          static_cast<std::uint32_t>(epoch));
  return sample(static_cast<std::int64_t>(order(static_cast<std::uint64_t>(number % size()))),
                static_cast<std::uint32_t>(epoch));
}

// Of the positions that hold no special piece, mask_fraction of the sample's length (at least one)
// are predicted: 80 % become [MASK], 10 % stay, 10 % become any piece of the vocabulary.
void SampleSource::mask(Sample* sample, std::uint32_t index, std::uint32_t epoch) const {
  const Vocabulary& vocabulary = dataset_.vocabulary();
  base::PhiloxStream random = draws(seed_, index, epoch, RandomSite::Masking);
  std::vector<std::int32_t> candidates;
  for (std::size_t position = 0; position < sample->ids.size(); ++position) {
    const std::int32_t id = sample->ids[position];
    if (id != vocabulary.special().classify && id != vocabulary.special().separator) {
      candidates.push_back(static_cast<std::int32_t>(position));
    }
  }
  const double wanted =
      std::nearbyint(config_.mask_fraction * static_cast<double>(sample->ids.size()));
  const std::size_t count =
      std::min(candidates.size(), static_cast<std::size_t>(std::max(1.0, wanted)));
  for (std::size_t i = 0; i < count; ++i) {  // the first `count` places of a Fisher–Yates shuffle
    const auto left = static_cast<std::uint32_t>(candidates.size() - i);
    std::swap(candidates[i], candidates[i + random.below(left)]);
  }
  candidates.resize(count);
  std::sort(candidates.begin(), candidates.end());
  base::PhiloxStream other = draws(seed_, index, epoch, RandomSite::ShuffledLabels);
  for (const std::int32_t position : candidates) {
    std::int32_t& id = sample->ids[static_cast<std::size_t>(position)];
    std::int32_t label = id;
    const std::uint32_t choice = random.below(10);
    if (choice < 8) {
      id = vocabulary.special().mask;
    } else if (choice == 9) {
      id = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(vocabulary.size())));
    }
    if (shuffle_labels_) {
      const SampleSlot& slot = slots_[other.below(static_cast<std::uint32_t>(slots_.size()))];
      const auto sentence = dataset_.sentence(split_, slot.document, slot.first_sentence);
      label = sentence[other.below(static_cast<std::uint32_t>(sentence.size()))];
    }
    sample->masked_positions.push_back(position);
    sample->masked_labels.push_back(label);
  }
}

double constant_guess_accuracy(const std::vector<Sample>& samples) {
  std::unordered_map<std::int32_t, std::int64_t> counts;
  std::int64_t total = 0;
  std::int64_t most = 0;
  for (const Sample& sample : samples) {
    for (const std::int32_t label : sample.masked_labels) {
      ++total;
      most = std::max(most, ++counts[label]);
    }
  }
  return total == 0 ? 0.0 : static_cast<double>(most) / static_cast<double>(total);
}

std::vector<Sample> evaluation_samples(const Dataset& dataset, const DataConfig& config,
                                       int count) {
  const SampleSource source(dataset, Split::HeldOut, config, kEvaluationSeed);
  std::vector<Sample> samples;
  const std::int64_t size = std::min<std::int64_t>(count, source.size());
  for (std::int64_t number = 0; number < size; ++number) samples.push_back(source.at(number));
  return samples;
}

}  // namespace regatta::trainer
