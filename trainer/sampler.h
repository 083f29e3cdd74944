// Which samples a step trains on, and what they look like: segments, next-sentence pairs and masks
// as in google-research/bert's create_pretraining_data.py, drawn when the sample is needed instead
// of being written down ten times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/batch.h"
#include "trainer/contract/run_config.h"
#include "trainer/data/dataset.h"
#include "trainer/sample_stream.h"

namespace regatta::trainer {

// A run of consecutive sentences of one document that fits one sample.
struct SampleSlot {
  std::uint32_t document = 0;
  std::uint32_t first_sentence = 0;
  std::uint32_t sentences = 0;
};

// All slots of one split, and the sample of each. Immutable; thread-safe. The dataset outlives it.
class SampleSource {
 public:
  // seed: of masks, pairs and order. Throws Code::User when the split holds no sample.
  SampleSource(const Dataset& dataset, Split split, const DataConfig& config, std::uint64_t seed,
               bool shuffle_labels = false);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(slots_.size()); }
  // Sample `index` of [0, size) as it looks in pass `epoch`: other pairs and masks in every pass.
  [[nodiscard]] Sample sample(std::int64_t index, std::uint32_t epoch) const;
  // Sample number `number` of the run, counted from 0: passes follow one another, each in an order
  // of its own. The set of a step's samples depends on seed, step and batch size only.
  [[nodiscard]] Sample at(std::int64_t number) const;
  // at(number).ids.size() by the same draws, without masks or copies.
  [[nodiscard]] std::int32_t length_at(std::int64_t number) const;

 private:
  struct Pair;
  struct Visit {  // of a sample: which, and in which pass
    std::int64_t index;
    std::uint32_t epoch;
  };
  [[nodiscard]] Visit visit(std::int64_t number) const;
  [[nodiscard]] Pair segments(const SampleSlot& slot, std::uint32_t index,
                              std::uint32_t epoch) const;
  [[nodiscard]] std::span<const TokenId> sentences(std::uint32_t document, std::uint32_t first,
                                                   std::uint32_t count) const;
  void mask(Sample* sample, std::uint32_t index, std::uint32_t epoch) const;

  const Dataset& dataset_;
  Split split_;
  DataConfig config_;
  std::uint64_t seed_;
  bool shuffle_labels_;
  std::vector<SampleSlot> slots_;
};

// The source outlives the stream.
[[nodiscard]] SampleStream stream_of(const SampleSource& source);

// The share of masked labels that the most frequent one has: what always guessing it would score on
// these samples.
[[nodiscard]] double constant_guess_accuracy(const std::vector<Sample>& samples);

// The fixed evaluation set of a dataset: at most `count` held-out samples with fixed masks.
[[nodiscard]] std::vector<Sample> evaluation_samples(const Dataset& dataset,
                                                     const DataConfig& config, int count);

}  // namespace regatta::trainer
