#include "trainer/step/step_exchange.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "base/error.h"
#include "trainer/contract/parallel_config.h"

namespace regatta::trainer::step {
namespace {

// Ranks run the same program on the same kind of machine, so a step travels as it lies in memory.
static_assert(std::is_trivially_copyable_v<LocalStep>);

constexpr bool StepFlags::*kFlags[] = {&StepFlags::stop,    &StepFlags::checkpoint,
                                       &StepFlags::fenced,  &StepFlags::out_of_time,
                                       &StepFlags::writing, &StepFlags::write_failed};
static_assert(sizeof(StepFlags) == std::size(kFlags), "every flag is exchanged");

// A replica's step ends with its last stage: until then whoever has no work waits.
void add_bubble(const std::vector<LocalStep>& ranks, int stages, StepExchange* all) {
  const contract::RankGrid grid{static_cast<int>(ranks.size()) / stages, stages};
  double idle = 0, busy = 0, predicted = 0, micro_batches = 0;
  for (int replica = 0; replica < grid.data; ++replica) {
    double end = 0, computed = 0;
    for (int stage = 0; stage < stages; ++stage) {
      const LocalStep& rank = ranks[static_cast<std::size_t>(grid.rank_of(stage, replica))];
      // max() would drop what is not a number.
      const double here = rank.compute_seconds + rank.waited_seconds;
      end = std::isnan(here) || here > end ? here : end;
      computed += rank.compute_seconds;
    }
    idle += stages * end - computed;
    busy += computed;
    const LocalStep& first = ranks[static_cast<std::size_t>(grid.rank_of(0, replica))];
    predicted += first.predicted_bubble / grid.data;
    micro_batches += static_cast<double>(first.micro_batches) / grid.data;
  }
  if (std::isfinite(idle) && busy > 0) all->bubble = idle / busy;
  all->bubble_predicted = predicted;
  if (micro_batches > 0) all->bubble_even = (stages - 1) / micro_batches;
}

}  // namespace

StepExchange combine(const std::vector<LocalStep>& ranks, int stages) {
  base::check(!ranks.empty(), "a step is taken by at least one rank");
  StepExchange all;
  std::int64_t most_tokens = 0;
  for (const LocalStep& rank : ranks) {
    for (const auto flag : kFlags) all.flags.*flag = all.flags.*flag || rank.flags.*flag;
    all.pace.seconds = std::max(all.pace.seconds, rank.seconds);
    all.pace.flops = std::max(all.pace.flops, rank.flops);
    all.pace.disturbed = all.pace.disturbed || rank.input_stalled || rank.flags.writing;
    all.mlm_loss += rank.mlm_loss;
    all.sample_loss += rank.sample_loss;
    all.flops += rank.flops;
    all.samples += rank.samples;
    all.tokens += rank.tokens;
    all.masked += rank.masked;
    all.moved_bytes += rank.moved_bytes;
    most_tokens = std::max(most_tokens, rank.tokens);
    all.each.tokens.push_back(rank.tokens);
    all.each.compute_seconds.push_back(rank.compute_seconds);
  }
  all.imbalance = static_cast<double>(most_tokens) * static_cast<double>(ranks.size()) /
                  std::max(1.0, static_cast<double>(all.tokens));
  if (stages == 1) return all;
  all.samples /= stages;
  all.tokens /= stages;
  all.masked /= stages;
  add_bubble(ranks, stages, &all);
  return all;
}

StepExchange exchange(ranks::HostCollectives& host, const LocalStep& mine, int stages) {
  std::vector<LocalStep> ranks(static_cast<std::size_t>(host.ranks()));
  host.all_gather(&mine, sizeof mine, ranks.data());
  return combine(ranks, stages);
}

}  // namespace regatta::trainer::step
