// What one step of a run was made of, as `regatta-train debug probe` writes it
// (docs/formats/step_probe.md), and in what two of them differ. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::orchestrator::compare {

// In the order in which a step comes about.
enum class ProbePart {
  Weights,
  Samples,
  Tokens,
  Masks,
  Dropout,
  Activations,
  Loss,
  Gradients,
  Update
};
inline constexpr std::array<std::string_view, 9> kProbePartNames = {
    "weights",     "samples", "tokens",    "masks", "dropout",
    "activations", "loss",    "gradients", "update"};
[[nodiscard]] inline std::string name_of(ProbePart part) {
  return std::string(kProbePartNames[static_cast<std::size_t>(part)]);
}

struct ProbedTensor {
  std::string name;
  double norm = 0;
  std::string digest;
  std::vector<double> sketch;
};
struct ProbedSample {
  std::string id, tokens, masks;  // the last two are digests
};
struct ProbedDropout {
  double hidden = 0, attention = 0;
  std::string seed;  // as JSON
  std::string digest;
};
struct StepProbe {
  std::int64_t step = 0;
  std::string begins_with;  // "new weights", "checkpoint step-…", "given weights PATH"
  double loss = 0;          // not a number where it was none
  std::optional<double> journal_loss;
  std::int64_t sample_count = 0;
  std::string samples, tokens, masks;  // digests
  std::vector<ProbedSample> each;      // of the first samples
  ProbedDropout dropout;
  std::vector<ProbedTensor> weights, activations, gradients;
  double learning_rate = 0;
  std::vector<ProbedTensor> update;  // empty: the step diverged
};

// `source` is what messages call it. Code::Operator for what is none.
[[nodiscard]] StepProbe parse_step_probe(std::string_view text, const std::string& source);

// Where two probes differ in one part.
struct PartDifference {
  ProbePart part = ProbePart::Weights;
  std::size_t first = 0;  // place in the part of the first that differs
  std::string what;       // for people: "1 of 8 samples has other tokens: d0-17"
  double distance = 0;    // of the first tensor: relative to its norm; 0 where there are no tensors
};

// In the order of the parts; empty where they have the same bits.
[[nodiscard]] std::vector<PartDifference> differences_of(const StepProbe& a, const StepProbe& b);

// The estimate of |a − b| by their sketches, relative to the larger norm.
[[nodiscard]] double relative_distance(const ProbedTensor& a, const ProbedTensor& b);

}  // namespace regatta::orchestrator::compare
