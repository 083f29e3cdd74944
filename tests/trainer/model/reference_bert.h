// BERT with the heads of all tasks in float64 on the tape: padded to nothing, one sample after
// another, written from the paper's formulas. The oracle of trainer/model/bert.cc.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/trainer/model/tape.h"
#include "trainer/contract/model_shape.h"
#include "trainer/samples/batch.h"

namespace regatta::tests {

struct ReferenceDropout {
  double hidden = 0, attention = 0;
  std::uint64_t seed = 0;
};

struct ReferenceWeight {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values;  // row-major
};
using ReferenceWeights = std::map<std::string, ReferenceWeight>;  // by tensor name

struct ReferenceResult {
  double mlm_loss = 0;  // sums
  double nsp_loss = 0;
  double loss = 0;  // Σ mlm / masked + Σ nsp / samples
  std::map<std::string, std::vector<double>> gradients, magnitudes;  // Node::magnitude
};

// What a model without dropout makes of samples, their masked positions one after another.
struct ReferencePrediction {
  int best = 0;       // the class with the largest logit
  double margin = 0;  // of that logit over the second largest
};
struct ReferenceScores {
  double mlm_loss = 0, nsp_loss = 0;    // sums
  double mlm_error = 0, nsp_error = 0;  // how far float32 may be from them (float32_error)
  std::vector<ReferencePrediction> mlm, nsp;
};
[[nodiscard]] ReferenceScores reference_scores(
    const trainer::contract::ModelShape& shape, const ReferenceWeights& weights,
    const std::vector<trainer::samples::Sample>& samples);

// Some logits of a sample, without dropout, and the sum of Tape::rounding() over them.
struct ReferenceLogits {
  std::vector<double> values;
  double rounding = 0;
};
// Of each masked position, then each of next sentence's two by itself.
[[nodiscard]] std::vector<ReferenceLogits> reference_logits(
    const trainer::contract::ModelShape& shape, const ReferenceWeights& weights,
    const trainer::samples::Sample& sample);

// A task other than pre-training.
struct ReferenceTaskResult {
  double loss = 0;                          // sum over the samples with labels
  std::vector<std::vector<double>> logits;  // of each sample: as the model's read_logits()
  std::map<std::string, std::vector<double>> gradients;  // of loss / sample_total
};
// Questions: ½·(cross-entropy of begin + of end) over the tokens of a sample; classes:
// cross-entropy; the label has weight 1 − smoothing, and smoothing is shared out alike among all.
// Values: squared error. Labels of −1 and values that are not numbers count nowhere.
[[nodiscard]] ReferenceTaskResult reference_task(
    const trainer::contract::ModelShape& shape, const ReferenceWeights& weights,
    const std::vector<trainer::samples::Sample>& samples, const std::vector<int>& ordinals,
    const ReferenceDropout& dropout, std::uint32_t step, double smoothing, double sample_total);

// ordinals as for collate. smoothing: of both labels, as in reference_task; then without what
// rounds.
[[nodiscard]] ReferenceResult reference_bert(const trainer::contract::ModelShape& shape,
                                             const ReferenceWeights& weights,
                                             const std::vector<trainer::samples::Sample>& samples,
                                             const std::vector<int>& ordinals,
                                             const ReferenceDropout& dropout, std::uint32_t step,
                                             double masked_total, double sample_total,
                                             double smoothing = 0);

}  // namespace regatta::tests
