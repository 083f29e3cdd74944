// Steps whose lengths are drawn from a table, and which ranks get which of their samples: what
// `regatta simulate` and a comparison of layouts have in common.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/contract/balance.h"
#include "trainer/contract/length_table.h"
#include "trainer/contract/model_shape.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::plan {

// The run file as those see it who share a step's samples: with pipeline stages the replicas, else
// all ranks.
[[nodiscard]] trainer::contract::RunConfig among_replicas(trainer::contract::RunConfig config);

class DrawnSteps {
 public:
  // Of config.batch_size samples each, for config.ranks ranks (among_replicas()); config.seed draws
  // them, each by 16 random bits, as fine as a table of shares is known; what is longer than
  // data.max_length is cut to it. `config` outlives it.
  DrawnSteps(const trainer::contract::RunConfig& config,
             const trainer::contract::LengthTable& table);

  // Of a sample of the table, tokens.
  [[nodiscard]] double mean() const { return moment(1); }
  [[nodiscard]] double mean_square() const { return moment(2); }

  // The lengths of a step; valid until the next call. Steps are asked for in turn from 0.
  const std::vector<std::int32_t>& step(int number);
  // Which of those places each rank has, by the trainer's own function, in the order in which they
  // were dealt.
  [[nodiscard]] trainer::contract::Assignment deal(const std::vector<std::int32_t>& lengths,
                                                   int ranks_per_node) const;

 private:
  [[nodiscard]] double moment(int power) const;
  void draw(std::uint32_t step, std::vector<std::int32_t>* lengths) const;

  const trainer::contract::RunConfig& config_;
  std::vector<std::int32_t> table_;  // evenly, one for each value of 16 bits
  trainer::contract::StratumLimits strata_ = {};
  std::vector<std::int32_t> lengths_, window_, order_;
};

// The micro-batches that the trainer makes of a rank's samples: by their places, ascending, at most
// config.micro_batch_size in each (0: all in one).
[[nodiscard]] std::vector<trainer::contract::BatchSizes> micro_batches_of(
    const trainer::contract::RunConfig& config, const std::vector<std::int32_t>& lengths,
    std::vector<std::int32_t> places);

}  // namespace regatta::orchestrator::plan
