#include "trainer/samples/mixture.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/philox.h"
#include "base/text.h"
#include "trainer/contract/random_site.h"
#include "trainer/samples/permutation.h"

namespace regatta::trainer::samples {
namespace {

// Of the order (0), and of a dataset's source but the first's (its place).
std::uint64_t seed_of_part(std::uint64_t seed, std::size_t part) {
  const base::PhiloxCounter words =
      base::philox(seed, {static_cast<std::uint32_t>(part), 0, 0,
                          static_cast<std::uint32_t>(contract::RandomSite::Mixture)});
  return std::uint64_t{words[1]} << 32U | words[0];
}

// share / 2^64 of count, rounded half up, by halves of the 128-bit product.
std::int64_t rounded_share(std::uint64_t share, std::int64_t count) {
  constexpr std::uint64_t kLow = 0xFFFFFFFFU;
  const auto m = static_cast<std::uint64_t>(count);
  const std::uint64_t bottom = (m & kLow) * (share & kLow);
  const std::uint64_t middle = (m >> 32U) * (share & kLow) + (bottom >> 32U);
  const std::uint64_t other = (m & kLow) * (share >> 32U) + (middle & kLow);
  const std::uint64_t whole = (m >> 32U) * (share >> 32U) + (middle >> 32U) + (other >> 32U);
  return static_cast<std::int64_t>(whole + (other >> 31U & 1U));
}

// part / all in 2^-64, below 1.
std::uint64_t share_of(double part, double all) {
  const double scaled = std::ldexp(part / all, 64);
  return scaled < 0x1p64 ? static_cast<std::uint64_t>(scaled) : ~std::uint64_t{0};
}

std::vector<std::unique_ptr<SampleSource>> sources_of(const Datasets& datasets, data::Split split,
                                                      const contract::DataConfig& config,
                                                      const std::vector<std::uint64_t>& seeds,
                                                      bool shuffle_labels) {
  std::vector<std::unique_ptr<SampleSource>> sources;
  for (const data::Dataset& dataset : datasets.all()) {
    try {
      sources.push_back(std::make_unique<SampleSource>(dataset, split, config,
                                                       seeds[sources.size()], shuffle_labels));
    } catch (const base::Error& error) {
      if (datasets.all().size() == 1) throw;
      throw base::Error(error.code(),
                        base::printable(dataset.directory().string()) + ": " + error.what());
    }
  }
  return sources;
}

std::vector<std::uint64_t> seeds_of_parts(std::uint64_t seed, std::size_t parts) {
  std::vector<std::uint64_t> seeds{seed};
  while (seeds.size() < parts) seeds.push_back(seed_of_part(seed, seeds.size()));
  return seeds;
}

}  // namespace

MixtureOrder::MixtureOrder(const std::vector<double>& weights, std::uint64_t seed)
    : datasets_(weights.size()), seed_(seed_of_part(seed, 0)), right_shares_(weights.size(), 0) {
  base::check(!weights.empty() && weights.size() <= contract::kMostDatasets &&
                  std::all_of(weights.begin(), weights.end(),
                              [](double weight) { return std::isfinite(weight) && weight > 0; }),
              "a mixture has 1 to 64 weights above 0");
  const auto sum = [&](std::size_t first, std::size_t last) {
    return std::accumulate(weights.begin() + static_cast<std::ptrdiff_t>(first),
                           weights.begin() + static_cast<std::ptrdiff_t>(last), 0.0);
  };
  // Halves of halves: [first, last) by `middle`, as split() has them.
  std::vector<std::pair<std::size_t, std::size_t>> open{{0, datasets_}};
  while (!open.empty()) {
    const auto [first, last] = open.back();
    open.pop_back();
    if (last - first == 1) continue;
    const std::size_t middle = first + (last - first) / 2;
    const double right = sum(middle, last);
    right_shares_[middle] = share_of(right, sum(first, middle) + right);
    open.emplace_back(first, middle);
    open.emplace_back(middle, last);
  }
}

void MixtureOrder::split(std::size_t first, std::size_t last, std::int64_t count,
                         std::vector<std::int64_t>* counts) const {
  if (last - first == 1) {
    (*counts)[first] = count;
    return;
  }
  const std::size_t middle = first + (last - first) / 2;
  const std::int64_t right = rounded_share(right_shares_[middle], count);
  split(first, middle, count - right, counts);
  split(middle, last, right, counts);
}

std::vector<std::int64_t> MixtureOrder::counts_at_block(std::int64_t block) const {
  std::vector<std::int64_t> counts(datasets_);
  split(0, datasets_, block * kMixtureBlock, &counts);
  return counts;
}

MixtureOrder::Block MixtureOrder::make_block(std::int64_t block) const {
  std::vector<std::int64_t> next = counts_at_block(block);
  const std::vector<std::int64_t> end = counts_at_block(block + 1);
  std::vector<std::int64_t> slots(datasets_);  // up to and with each dataset
  std::int64_t sum = 0;
  for (std::size_t d = 0; d < datasets_; ++d) slots[d] = sum += end[d] - next[d];
  const auto wide = static_cast<std::uint64_t>(block);
  const Permutation order(kMixtureBlock, seed_ + (wide >> 32U), static_cast<std::uint32_t>(wide));
  Block places;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto slot = static_cast<std::int64_t>(order(i));
    const auto dataset = static_cast<std::size_t>(
        std::upper_bound(slots.begin(), slots.end(), slot) - slots.begin());
    places[i] = {dataset, next[dataset]++};
  }
  return places;
}

MixturePlace MixtureOrder::at(std::int64_t number) const {
  base::check(number >= 0 && number <= std::int64_t{1} << 62U, "a run has 2^62 samples at most");
  if (datasets_ == 1) return {0, number};
  const std::int64_t block = number / kMixtureBlock;
  const std::lock_guard lock(mutex_);
  if (known_ != block) {
    places_ = make_block(block);
    known_ = block;
  }
  return places_[static_cast<std::size_t>(number % kMixtureBlock)];
}

std::vector<std::int64_t> MixtureOrder::counts(std::int64_t number) const {
  const std::int64_t block = number / kMixtureBlock;
  std::vector<std::int64_t> counts = counts_at_block(block);
  for (std::int64_t n = block * kMixtureBlock; n < number; ++n) ++counts[at(n).dataset];
  return counts;
}

Datasets::Datasets(std::vector<data::Dataset> datasets, std::vector<double> weights)
    : datasets_(std::move(datasets)), weights_(std::move(weights)) {
  std::vector<std::string> fingerprints, lines;
  for (const data::Dataset& dataset : datasets_) {
    fingerprints.push_back(dataset.fingerprint());
    const std::vector<std::string> found = text_differences(
        {first().directory(), first().manifest()}, {dataset.directory(), dataset.manifest()});
    lines.insert(lines.end(), found.begin(), found.end());
  }
  if (!lines.empty()) throw base::Error(base::Code::User, base::join(lines, "; "));
  fingerprint_ = mixture_fingerprint(fingerprints, weights_);
}

Datasets Datasets::open(const contract::DataConfig& config) {
  std::vector<data::Dataset> datasets;
  for (const std::string& path : contract::data_paths(config)) {
    datasets.push_back(data::Dataset::open(path));
  }
  return {std::move(datasets), contract::data_weights(config)};
}

Datasets Datasets::open(const base::Path& directory) {
  std::vector<data::Dataset> one;
  one.push_back(data::Dataset::open(directory));
  return {std::move(one), {1.0}};
}

std::string Datasets::name() const {
  std::vector<std::string> directories;
  for (const data::Dataset& dataset : datasets_) directories.push_back(dataset.directory());
  return base::join(directories, ", ");
}

std::vector<std::string> text_differences(NamedManifest first, NamedManifest other) {
  const std::string a = base::printable(first.directory.string());
  const std::string b = base::printable(other.directory.string());
  std::vector<std::string> lines;
  if (first.manifest.vocabulary_digest != other.manifest.vocabulary_digest) {
    lines.push_back(b + " has another vocabulary (" +
                    std::to_string(other.manifest.vocabulary_size) + " pieces) than " + a + " (" +
                    std::to_string(first.manifest.vocabulary_size) +
                    "); prepare it again with --vocab " + a + "/" + data::kVocabularyName);
  }
  const bool lower = first.manifest.tokenizer.lower_case;
  if (lower != other.manifest.tokenizer.lower_case) {
    lines.push_back(b + " is " + (lower ? "cased" : "in lower case") + ", " + a + " is " +
                    (lower ? "in lower case" : "cased") + "; prepare it again " +
                    (lower ? "without" : "with") + " --cased");
  }
  return lines;
}

std::string mixture_fingerprint(const std::vector<std::string>& fingerprints,
                                const std::vector<double>& weights) {
  base::check(fingerprints.size() == weights.size() && !weights.empty(), "a weight for each");
  if (fingerprints.size() == 1) return fingerprints.front();
  std::string text = "regatta mixture 1";
  for (std::size_t i = 0; i < weights.size(); ++i) {
    char weight[32];
    const auto [end, error] = std::to_chars(weight, weight + sizeof weight, weights[i]);
    base::check(error == std::errc{}, "32 characters hold every number");
    text += " " + fingerprints[i] + " " + std::string(weight, end);
  }
  return base::digest_of(text);
}

Mixture::Mixture(const Datasets& datasets, data::Split split, const contract::DataConfig& config,
                 std::uint64_t seed, bool shuffle_labels)
    : order_(datasets.weights(), seed),
      sources_(sources_of(datasets, split, config, seeds_of_parts(seed, datasets.all().size()),
                          shuffle_labels)) {}

std::int64_t Mixture::size() const {
  std::int64_t sum = 0;
  for (const auto& source : sources_) sum += source->size();
  return sum;
}

Sample Mixture::at(std::int64_t number) const {
  const MixturePlace place = order_.at(number);
  return sources_[place.dataset]->at(place.number);
}

std::int32_t Mixture::length_at(std::int64_t number) const {
  const MixturePlace place = order_.at(number);
  return sources_[place.dataset]->length_at(place.number);
}

std::string Mixture::id_at(std::int64_t number) const {
  const MixturePlace place = order_.at(number);
  return std::to_string(place.dataset) + ":" + sources_[place.dataset]->id_at(place.number);
}

SampleStream stream_of(const Mixture& mixture) {
  return {[&mixture](std::int64_t number) { return mixture.at(number); },
          [&mixture](std::int64_t number) { return mixture.length_at(number); },
          [&mixture](std::int64_t number) { return mixture.id_at(number); }};
}

std::vector<Sample> evaluation_samples(const Datasets& datasets, const contract::DataConfig& config,
                                       int count) {
  const std::vector<std::uint64_t> seeds(datasets.all().size(), kEvaluationSeed);
  const auto sources = sources_of(datasets, data::Split::HeldOut, config, seeds, false);
  const MixtureOrder order(datasets.weights(), kEvaluationSeed);
  std::vector<Sample> samples;
  for (std::int64_t number = 0; number < count; ++number) {
    const MixturePlace place = order.at(number);
    const SampleSource& source = *sources[place.dataset];
    if (place.number >= source.size()) break;
    samples.push_back(source.at(place.number));
  }
  return samples;
}

}  // namespace regatta::trainer::samples
