// How well each way of balancing shares out the steps of a run: no training, only lengths.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/contract/length_table.h"
#include "trainer/contract/model_shape.h"

namespace regatta::trainer::bench {

struct BenchBalanceOptions {
  contract::ModelShape shape;  // for the cost of a length; vocabulary set
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
// moved per step: samples whose rank changes, at kBytesPerToken, and lengths that ranks tell one
// another, at kBytesPerLength; ways that read samples where they are needed move none. Steps are of
// one run of random lengths, dealt by the functions that training uses. Throws Code::User for
// options that do not fit together.
// `strata` are the limits of the length classes of `stratified`, as a run on such lengths has them.
[[nodiscard]] std::string bench_balance(const contract::LengthTable& lengths,
                                        const BenchBalanceOptions& options);
constexpr double kBytesPerToken =
    2.42;                              // of a parcel (sample_parcel.h), Wikipedia in 30,522 pieces
constexpr double kBytesPerLength = 4;  // as `exchange` gathers them

// The same for people: a line each.
[[nodiscard]] std::string bench_balance_table(const std::string& json);

// What is left to even out when ranks have few samples: the same for batches of kSmallBatches
// samples for each rank, whatever options.batch is. The paper on stratified batches (Samsung, arXiv
// 2402.02447) leaves this open.
constexpr int kSmallBatches[] = {1, 2, 4, 8, 16};
[[nodiscard]] std::string bench_small_batches(const contract::LengthTable& lengths,
                                              const BenchBalanceOptions& options);
// For people: a line for each way, a column for each batch, largest / mean of tokens.
[[nodiscard]] std::string bench_small_batches_table(const std::string& json);

}  // namespace regatta::trainer::bench
