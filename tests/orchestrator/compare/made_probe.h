// Probes of steps that only exist as digests: each part is named by all that it would come of.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "orchestrator/compare/step_probe.h"

namespace regatta::orchestrator::compare {

// What a run is made of. A part of a step's probe changes with what is listed for it, and with the
// parts before it that it is computed from.
struct MadeRun {
  std::string seed = "1", texts = "t", masks = "0.15", dropout = "0.1", gelu = "erf",
              instructions = "avx512", summation = "a", optimizer = "adamw", begins = "new";
  int changed_sample = -1;  // of 4: its tokens are others, from step 3 on
};

inline ProbedTensor made_tensor(const std::string& name, const std::string& of) {
  double value = 0;
  for (const char letter : of) value = value * 0.7 + letter;
  return {name, 100, of, {value, 1, -value}};
}

inline StepProbe made_probe(const MadeRun& run, std::int64_t step) {
  const std::string number = std::to_string(step);
  const std::string steps = step > 1 ? run.optimizer : "";  // what came before it
  StepProbe probe;
  probe.step = step;
  probe.begins_with = "new weights";
  const std::string weights = run.begins + run.seed + steps;
  probe.weights = {made_tensor("embedding", weights), made_tensor("layer.0", weights)};
  for (int i = 0; i < 4; ++i) {
    std::string tokens = run.texts + std::to_string(i);
    if (i == run.changed_sample && step >= 3) tokens += "changed";
    probe.each.push_back(
        {"sample-" + run.seed + "-" + std::to_string(i), tokens, run.seed + run.masks + tokens});
    probe.samples += probe.each.back().id;
    probe.tokens += tokens;
    probe.masks += probe.each.back().masks;
  }
  probe.sample_count = 4;
  const double dropout = std::stod(run.dropout);
  probe.dropout = {dropout, dropout, run.seed, run.seed + run.dropout + number};
  const std::string input = weights + probe.tokens + probe.masks + (dropout > 0 ? run.seed : "");
  const std::string embedded = input + run.instructions + run.dropout;
  const std::string hidden = embedded + run.gelu;
  probe.activations = {made_tensor("embedding", embedded), made_tensor("layer.0.gelu", hidden)};
  probe.loss = made_tensor("", hidden).sketch[0];
  const std::string gradients = hidden + run.summation;
  probe.gradients = {made_tensor("layer.0", gradients), made_tensor("embedding", gradients)};
  probe.learning_rate = 0.001;
  probe.update = {made_tensor("embedding", gradients + run.optimizer)};
  return probe;
}

}  // namespace regatta::orchestrator::compare
