#include "trainer/samples/sampler.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_map>

#include "base/error.h"
#include "base/philox.h"
#include "trainer/contract/random_site.h"
#include "trainer/samples/permutation.h"

namespace regatta::trainer::samples {
namespace {

constexpr std::size_t kSpecials = 3;     // [CLS], [SEP], [SEP]
constexpr int kOtherDocumentTries = 10;  // as in the reference
constexpr std::size_t kPassesKept = 2;

base::PhiloxStream draws(std::uint64_t seed, std::uint32_t index, std::uint32_t epoch,
                         contract::RandomSite site) {
  return {seed, index, epoch, static_cast<std::uint32_t>(site)};
}

using Tokens = std::span<const data::TokenId>;

// Cuts the longer segment (the second on a tie) at a random end until both fit.
void truncate(Tokens* a, Tokens* b, std::size_t limit, base::PhiloxStream* random) {
  while (a->size() + b->size() > limit) {
    Tokens* const longer = a->size() > b->size() ? a : b;
    *longer = random->below(2) == 0 ? longer->subspan(1) : longer->first(longer->size() - 1);
  }
}

}  // namespace

// Two segments before truncation.
struct SampleSource::Pair {
  Tokens a, b;
  std::size_t limit;  // of both together
  bool random_next;
  base::PhiloxStream random;  // after the draws so far
};

SampleSource::SampleSource(const data::Dataset& dataset, data::Split split,
                           const contract::DataConfig& config, std::uint64_t seed,
                           bool shuffle_labels)
    : dataset_(dataset),
      split_(split),
      config_(config),
      seed_(seed),
      shuffle_labels_(shuffle_labels) {
  const std::lock_guard lock(mutex_);
  size_ = std::ssize(pass(0));
  if (size_ == 0) {
    throw base::Error(base::Code::User,
                      std::string("the dataset has no ") +
                          (split == data::Split::HeldOut ? "held-out" : "training") +
                          " samples; prepare it again from more text");
  }
}

SampleSource::Pass SampleSource::make_pass(std::uint32_t epoch) const {
  const std::size_t limit = static_cast<std::size_t>(config_.max_length) - kSpecials;
  const std::int64_t documents = dataset_.documents(split_);
  Pass made;
  for (std::int64_t document = 0; document < documents; ++document) {
    const auto stream = static_cast<std::uint32_t>(document);
    base::PhiloxStream random = draws(seed_, stream, epoch, contract::RandomSite::Chunks);
    std::size_t target = limit;
    if (random.uniform() < static_cast<float>(config_.short_fraction)) {
      target = 2 + random.below(static_cast<std::uint32_t>(limit - 1));
    }
    const auto sentences = static_cast<std::uint32_t>(dataset_.sentences(split_, document));
    std::uint32_t first = 0;
    std::size_t tokens = 0;
    for (std::uint32_t next = 0; next < sentences;) {
      tokens += dataset_.sentence(split_, document, next++).size();
      if (next < sentences && tokens < target) continue;
      const std::uint32_t chunk = next - first;
      const std::uint32_t a = chunk == 1 ? 1 : 1 + random.below(chunk - 1);
      const bool random_next = documents > 1 && (chunk == 1 || random.below(2) == 0);
      made.push_back({stream, first, static_cast<std::uint16_t>(a),
                      static_cast<std::uint16_t>(random_next ? 0 : chunk - a),
                      static_cast<std::uint16_t>(target)});
      if (random_next) next = first + a;
      first = next;
      tokens = 0;
    }
  }
  return made;
}

const SampleSource::Pass& SampleSource::pass(std::uint32_t epoch) const {
  const auto known = passes_.find(epoch);
  if (known != passes_.end()) return known->second;
  // A step may lie across the end of a pass: the one before stays.
  if (passes_.size() == kPassesKept) {
    passes_.erase(passes_.begin()->first < epoch ? passes_.begin() : std::prev(passes_.end()));
  }
  return passes_.emplace(epoch, make_pass(epoch)).first->second;
}

std::int64_t SampleSource::pass_size(std::uint32_t epoch) const {
  const std::lock_guard lock(mutex_);
  return std::ssize(pass(epoch));
}

SampleSlot SampleSource::slot(std::int64_t index, std::uint32_t epoch) const {
  const std::lock_guard lock(mutex_);
  const Pass& slots = pass(epoch);
  return slots[static_cast<std::size_t>(index) % slots.size()];
}

// A document's sentences lie one after another.
Tokens SampleSource::sentences(std::uint32_t document, std::uint32_t first,
                               std::uint32_t count) const {
  if (count == 0) return {};
  const Tokens begin = dataset_.sentence(split_, document, first);
  const Tokens end = dataset_.sentence(split_, document, first + count - 1);
  return {begin.data(), end.data() + end.size()};
}

SampleSource::Pair SampleSource::segments(const SampleSlot& slot, std::uint32_t index,
                                          std::uint32_t epoch) const {
  base::PhiloxStream random = draws(seed_, index, epoch, contract::RandomSite::Segments);
  const std::size_t limit = static_cast<std::size_t>(config_.max_length) - kSpecials;
  Tokens a = sentences(slot.document, slot.first_sentence, slot.a);
  Tokens b = sentences(slot.document, slot.first_sentence + slot.a, slot.b);
  const auto documents = static_cast<std::uint32_t>(dataset_.documents(split_));
  const bool random_next = slot.b == 0 && documents > 1;
  if (random_next) {
    std::uint32_t other = slot.document;
    for (int attempt = 0; attempt < kOtherDocumentTries && other == slot.document; ++attempt) {
      other = random.below(documents);
    }
    if (other == slot.document) other = (other + 1) % documents;
    const auto count = static_cast<std::uint32_t>(dataset_.sentences(split_, other));
    const std::uint32_t first = random.below(count);
    const std::size_t room = slot.target > a.size() ? slot.target - a.size() : 1;
    for (std::uint32_t n = 1; b.size() < room && first + n <= count; ++n) {
      b = sentences(other, first, n);
    }
  } else if (b.empty() && a.size() > 1) {  // one document, one sentence: split inside it
    b = a.subspan(a.size() / 2);
    a = a.first(a.size() / 2);
  }
  return {a, b, limit, random_next, random};
}

Sample SampleSource::sample(std::int64_t index, std::uint32_t epoch) const {
  base::check(index >= 0, "the sample exists");
  const auto stream = static_cast<std::uint32_t>(index);
  Pair pair = segments(slot(index, epoch), stream, epoch);
  truncate(&pair.a, &pair.b, pair.limit, &pair.random);
  const data::Vocabulary& vocabulary = dataset_.vocabulary();
  Sample sample;
  sample.ids.reserve(pair.a.size() + pair.b.size() + kSpecials);
  sample.ids.push_back(vocabulary.special().classify);
  sample.ids.insert(sample.ids.end(), pair.a.begin(), pair.a.end());
  sample.ids.push_back(vocabulary.special().separator);
  sample.types.assign(sample.ids.size(), 0);
  sample.ids.insert(sample.ids.end(), pair.b.begin(), pair.b.end());
  sample.ids.push_back(vocabulary.special().separator);
  sample.types.resize(sample.ids.size(), 1);
  sample.sample_label = pair.random_next ? 1 : 0;
  mask(&sample, stream, epoch);
  return sample;
}

SampleSource::Visit SampleSource::visit(std::int64_t number) const {
  const auto epoch = static_cast<std::uint32_t>(number / size());
  const auto samples = static_cast<std::uint64_t>(pass_size(epoch));
  const Permutation order(samples, seed_, epoch);
  return {static_cast<std::int64_t>(order(static_cast<std::uint64_t>(number % size()) % samples)),
          epoch};
}

Sample SampleSource::at(std::int64_t number) const {
  const Visit visited = visit(number);
  return sample(visited.index, visited.epoch);
}

std::int32_t SampleSource::length_at(std::int64_t number) const {
  const Visit visited = visit(number);
  const Pair pair = segments(slot(visited.index, visited.epoch),
                             static_cast<std::uint32_t>(visited.index), visited.epoch);
  return static_cast<std::int32_t>(std::min(pair.limit, pair.a.size() + pair.b.size()) + kSpecials);
}

std::string SampleSource::id_at(std::int64_t number) const {
  const Visit visited = visit(number);
  const SampleSlot place = slot(visited.index, visited.epoch);
  return std::to_string(visited.epoch) + ":" + std::to_string(place.document) + ":" +
         std::to_string(place.first_sentence);
}

// Of the positions that hold no special piece, mask_fraction of the sample's length (at least one)
// are predicted: 80 % become [MASK], 10 % stay, 10 % become any piece of the vocabulary.
void SampleSource::mask(Sample* sample, std::uint32_t index, std::uint32_t epoch) const {
  const data::Vocabulary& vocabulary = dataset_.vocabulary();
  base::PhiloxStream random = draws(seed_, index, epoch, contract::RandomSite::Masking);
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
  base::PhiloxStream other = draws(seed_, index, epoch, contract::RandomSite::ShuffledLabels);
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
      const SampleSlot from = slot(other.below(static_cast<std::uint32_t>(size_)), epoch);
      const auto sentence = dataset_.sentence(split_, from.document, from.first_sentence);
      label = sentence[other.below(static_cast<std::uint32_t>(sentence.size()))];
    }
    sample->masked_positions.push_back(position);
    sample->masked_labels.push_back(label);
  }
}

SampleStream stream_of(const SampleSource& source) {
  return {[&source](std::int64_t number) { return source.at(number); },
          [&source](std::int64_t number) { return source.length_at(number); },
          [&source](std::int64_t number) { return "0:" + source.id_at(number); }};
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

std::vector<Sample> evaluation_samples(const data::Dataset& dataset,
                                       const contract::DataConfig& config, int count) {
  const SampleSource source(dataset, data::Split::HeldOut, config, kEvaluationSeed);
  std::vector<Sample> samples;
  const std::int64_t size = std::min<std::int64_t>(count, source.size());
  for (std::int64_t number = 0; number < size; ++number) samples.push_back(source.at(number));
  return samples;
}

}  // namespace regatta::trainer::samples
