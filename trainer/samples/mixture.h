// A run on several datasets: whose samples come when, in which order they are read, and what is
// evaluated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trainer/contract/data_config.h"
#include "trainer/data/dataset.h"
#include "trainer/samples/sample_stream.h"
#include "trainer/samples/sampler.h"

namespace regatta::trainer::samples {

// Where a sample of the run is from.
struct MixturePlace {
  std::size_t dataset = 0;
  std::int64_t number = 0;  // of the dataset's own samples: how many of it came before
  friend bool operator==(const MixturePlace&, const MixturePlace&) = default;
};

// From which dataset each sample of a run is: a pure function of its number, of the weights and of
// the seed; every dataset's own samples come in their order 0, 1, 2, …
//
// Of the first n samples dataset d is to have n·w_d / Σw. Between two halves of the datasets, those
// of the right one get m·W_right / W, rounded, of the m samples of both; and so on within each
// half, ⌈log₂ D⌉ times for D datasets. The rounded number never falls and grows by at most one from
// m to m + 1, so no count ever falls, and each is off by at most half a sample for each halving.
// (The largest remainder of each n alone would let counts fall when n grows: the Alabama paradox,
// Balinski & Young, "Fair Representation", 1982.) These counts hold at the ends of blocks of
// kMixtureBlock samples; within a block the order is that of a Permutation of its own. So after any
// n samples a count is within kMixtureBlock / 4 + ⌈log₂ D⌉ / 2 of its share, and over any stretch
// of samples within twice that, however long the run is. Thread-safe.
constexpr std::int64_t kMixtureBlock = 64;
class MixtureOrder {
 public:
  // 1 to kMostDatasets weights above 0. Shares are kept in steps of 2^-64.
  MixtureOrder(const std::vector<double>& weights, std::uint64_t seed);

  // O(1) for the block of the last call, else O(kMixtureBlock). number: 0 to 2^62.
  [[nodiscard]] MixturePlace at(std::int64_t number) const;
  // Of each dataset, how many of the run's first `number` samples are its.
  [[nodiscard]] std::vector<std::int64_t> counts(std::int64_t number) const;

 private:
  using Block = std::array<MixturePlace, kMixtureBlock>;
  // Of each dataset before a block begins.
  [[nodiscard]] std::vector<std::int64_t> counts_at_block(std::int64_t block) const;
  void split(std::size_t first, std::size_t last, std::int64_t count,
             std::vector<std::int64_t>* counts) const;
  [[nodiscard]] Block make_block(std::int64_t block) const;

  std::size_t datasets_;
  std::uint64_t seed_;
  std::vector<std::uint64_t> right_shares_;  // in 2^-64, by the first dataset of the right half
  mutable std::mutex mutex_;
  mutable std::int64_t known_ = -1;  // which block `places_` is
  mutable Block places_{};
};

// The datasets of a run in the order of its run file, opened. Immutable: any thread may read.
class Datasets {
 public:
  // Throws as Dataset::open(); Code::User where vocabularies or case of the text differ, in one
  // line with each dataset and difference.
  [[nodiscard]] static Datasets open(const contract::DataConfig& config);
  [[nodiscard]] static Datasets open(const base::Path& directory);  // one

  // Of all of them.
  [[nodiscard]] const data::Vocabulary& vocabulary() const { return first().vocabulary(); }
  // The dataset's own where there is one (mixture_fingerprint).
  [[nodiscard]] const std::string& fingerprint() const { return fingerprint_; }
  [[nodiscard]] const data::Dataset& first() const { return datasets_.front(); }
  [[nodiscard]] const std::vector<data::Dataset>& all() const { return datasets_; }
  [[nodiscard]] const std::vector<double>& weights() const { return weights_; }  // of all()
  // Their directories, with ", " between them.
  [[nodiscard]] std::string name() const;

 private:
  Datasets(std::vector<data::Dataset> datasets, std::vector<double> weights);

  std::vector<data::Dataset> datasets_;  // never empty
  std::vector<double> weights_;
  std::string fingerprint_;
};

struct NamedManifest {
  const base::Path& directory;
  const data::Manifest& manifest;
};
// What keeps one model from reading both: vocabularies or case of the text that differ; a text for
// each, with what to do about `other`.
[[nodiscard]] std::vector<std::string> text_differences(NamedManifest first, NamedManifest other);

// What a run on datasets of these fingerprints and weights is trained on: the digest over all in
// order; of one dataset its own fingerprint, whatever its weight.
[[nodiscard]] std::string mixture_fingerprint(const std::vector<std::string>& fingerprints,
                                              const std::vector<double>& weights);

// The samples of a run: from each dataset those of a SampleSource, in that one's order. The first
// dataset's source has the run's seed, each other one a seed made of that and its place, so that
// what is drawn for two datasets is independent. Thread-safe. The datasets outlive it.
class Mixture {
 public:
  // Throws as SampleSource, naming the dataset that has no samples.
  Mixture(const Datasets& datasets, data::Split split, const contract::DataConfig& config,
          std::uint64_t seed, bool shuffle_labels = false);

  [[nodiscard]] std::int64_t size() const;  // of all sources
  [[nodiscard]] const SampleSource& source(std::size_t dataset) const { return *sources_[dataset]; }
  [[nodiscard]] const MixtureOrder& order() const { return order_; }
  // Sample `number` of the run, counted from 0, and its length (as SampleSource).
  [[nodiscard]] Sample at(std::int64_t number) const;
  [[nodiscard]] std::int32_t length_at(std::int64_t number) const;
  [[nodiscard]] std::string id_at(std::int64_t number) const;  // as SampleStream has it

 private:
  MixtureOrder order_;
  std::vector<std::unique_ptr<SampleSource>> sources_;
};

// The mixture outlives the stream.
[[nodiscard]] SampleStream stream_of(const Mixture& mixture);

// The fixed evaluation set: at most `count` held-out samples with fixed masks, the same for every
// seed, from all datasets by their weights as in training. It ends before a dataset would give a
// sample twice, so that the shares hold; those of a dataset are the first of its own evaluation
// set.
[[nodiscard]] std::vector<Sample> evaluation_samples(const Datasets& datasets,
                                                     const contract::DataConfig& config, int count);

}  // namespace regatta::trainer::samples
