// What a run needs of device memory, told before it starts.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/contract/run_config.h"
#include "trainer/model/bert.h"

namespace regatta::trainer::step {

// Bytes of one rank.
struct MemoryNeeds {
  std::int64_t parameters = 0;  // float32 weights and, for 16-bit types, the copy products read
  std::int64_t gradients = 0;
  std::int64_t moments = 0;
  std::int64_t statistics = 0;   // a gradient that the noise scale is measured by
  std::int64_t activations = 0;  // of the largest micro-batch: every sample as long as can be
  std::int64_t inputs = 0;
  std::int64_t workspace = 0;  // of the device's products and sums
  model::BatchRoom room;       // that activations and inputs were reckoned for
  bool of_evaluation = false;  // which takes more room than any micro-batch

  [[nodiscard]] std::int64_t total() const {
    return parameters + gradients + moments + statistics + activations + inputs + workspace;
  }
};

// config.model.vocabulary is known. An upper bound; a run with shorter samples takes less.
[[nodiscard]] MemoryNeeds memory_needs(const contract::RunConfig& config,
                                       const model::BertOptions& options, std::int64_t workspace);

// A table for people, one line each, and what to change when it is too much.
[[nodiscard]] std::string describe(const MemoryNeeds& needs, const contract::RunConfig& config);

}  // namespace regatta::trainer::step
