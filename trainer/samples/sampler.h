// Which samples a step trains on, and what they look like: segments, next-sentence pairs and masks
// as in google-research/bert's create_pretraining_data.py, drawn when the sample is needed instead
// of being written down ten times.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "trainer/contract/run_config.h"
#include "trainer/data/dataset.h"
#include "trainer/samples/batch.h"
#include "trainer/samples/sample_stream.h"

namespace regatta::trainer::samples {

// A pair of a pass before truncation: consecutive sentences of one document.
struct SampleSlot {
  std::uint32_t document = 0;
  std::uint32_t first_sentence = 0;
  std::uint16_t a = 0;       // sentences of A
  std::uint16_t b = 0;       // of B, behind them; 0: B is of another document
  std::uint16_t target = 0;  // tokens of both, up to which a B of another document is filled
};

// The samples of one split. In each pass every document is cut anew, as in the reference: until a
// chunk's sentences reach the target length (max_length − 3, or, for one document in ten
// (short_fraction), a random one from 2 on); its first sentences are A, the others B, or, with
// probability one half and always when there is only one, B is of another document and the others
// go back, to begin the next chunk. So passes differ in how many samples they have. Thread-safe.
// The dataset outlives it. Memory: 16 bytes a sample of the two newest passes asked for; the first
// question about a pass goes over all sentences.
class SampleSource {
 public:
  // seed: of masks, pairs and order. Throws Code::User when the split holds no sample.
  SampleSource(const data::Dataset& dataset, data::Split split, const contract::DataConfig& config,
               std::uint64_t seed, bool shuffle_labels = false);

  // Samples that a run takes of each pass: as many as the first one has.
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int64_t pass_size(std::uint32_t epoch) const;
  // Sample `index` of pass `epoch`, counted on from the first beyond pass_size().
  [[nodiscard]] Sample sample(std::int64_t index, std::uint32_t epoch) const;
  // Sample number `number` of the run, counted from 0: passes follow one another, each in an order
  // of its own. Of a pass with more samples than size() the last in that order are left out, of one
  // with fewer the first come again. The set of a step's samples depends on seed, step and batch
  // size only.
  [[nodiscard]] Sample at(std::int64_t number) const;
  // at(number).ids.size() by the same draws, without masks or copies.
  [[nodiscard]] std::int32_t length_at(std::int64_t number) const;
  // Its pass, document and first sentence, as "2:57:3".
  [[nodiscard]] std::string id_at(std::int64_t number) const;

 private:
  struct Pair;
  using Pass = std::vector<SampleSlot>;
  struct Visit {  // of a sample: which, and in which pass
    std::int64_t index;
    std::uint32_t epoch;
  };
  [[nodiscard]] Pass make_pass(std::uint32_t epoch) const;
  // With mutex_ held; valid until it is not.
  [[nodiscard]] const Pass& pass(std::uint32_t epoch) const;
  [[nodiscard]] SampleSlot slot(std::int64_t index, std::uint32_t epoch) const;
  [[nodiscard]] Visit visit(std::int64_t number) const;
  [[nodiscard]] Pair segments(const SampleSlot& slot, std::uint32_t index,
                              std::uint32_t epoch) const;
  [[nodiscard]] std::span<const data::TokenId> sentences(std::uint32_t document,
                                                         std::uint32_t first,
                                                         std::uint32_t count) const;
  void mask(Sample* sample, std::uint32_t index, std::uint32_t epoch) const;

  const data::Dataset& dataset_;
  data::Split split_;
  contract::DataConfig config_;
  std::uint64_t seed_;
  bool shuffle_labels_;
  std::int64_t size_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<std::uint32_t, Pass> passes_;  // by epoch
};

// The source outlives the stream.
[[nodiscard]] SampleStream stream_of(const SampleSource& source);

// The share of masked labels that the most frequent one has: what always guessing it would score on
// these samples.
[[nodiscard]] double constant_guess_accuracy(const std::vector<Sample>& samples);

constexpr std::uint64_t kEvaluationSeed = 0;  // the same masks for every run

// The fixed evaluation set of a dataset: at most `count` held-out samples with fixed masks.
[[nodiscard]] std::vector<Sample> evaluation_samples(const data::Dataset& dataset,
                                                     const contract::DataConfig& config, int count);

}  // namespace regatta::trainer::samples
