// How well each way of balancing shares out the steps of a run: no training, only lengths.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/contract/length_table.h"
#include "trainer/contract/model_shape.h"

namespace regatta::trainer {

struct BenchBalanceOptions {
  ModelShape shape;  // for the cost of a length; vocabulary set
  std::string model_name = "large", lengths_name;
  int ranks = 8;
  int ranks_per_node = 8;  // divides ranks
  int batch = 448;         // samples per step, over all ranks
  int steps = 200;
  std::uint64_t seed = 1;
};

// Returns JSON: for every way, mean and 95th percentile over the steps of (largest / mean over
// ranks) for tokens and for cost (forward and backward FLOP of the encoder's layers), the idle
// share (of all ranks' time, what waits for the slowest or computes padding, by cost), and bytes
// moved per step: samples whose rank changes, at kBytesPerToken; ways that read samples where they
// are needed instead move their lengths only. Throws Code::User for options that do not fit
// together.
[[nodiscard]] std::string bench_balance(const LengthTable& lengths,
                                        const BenchBalanceOptions& options);
constexpr std::int64_t kBytesPerToken = 5;   // piece and segment
constexpr std::int64_t kBytesPerLength = 2;  // of a sample whose content is read again

// The same for people: a line each.
[[nodiscard]] std::string bench_balance_table(const std::string& json);

}  // namespace regatta::trainer
