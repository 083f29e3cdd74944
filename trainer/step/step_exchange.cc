#include "trainer/step/step_exchange.h"

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "base/error.h"

namespace regatta::trainer::step {
namespace {

// Ranks run the same program on the same kind of machine, so a step travels as it lies in memory.
static_assert(std::is_trivially_copyable_v<LocalStep>);

constexpr bool StepFlags::*kFlags[] = {&StepFlags::stop,    &StepFlags::checkpoint,
                                       &StepFlags::fenced,  &StepFlags::out_of_time,
                                       &StepFlags::writing, &StepFlags::write_failed};
static_assert(sizeof(StepFlags) == std::size(kFlags), "every flag is exchanged");

}  // namespace

StepExchange combine(const std::vector<LocalStep>& ranks) {
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
  return all;
}

StepExchange exchange(ranks::HostCollectives& host, const LocalStep& mine) {
  std::vector<LocalStep> ranks(static_cast<std::size_t>(host.ranks()));
  host.all_gather(&mine, sizeof mine, ranks.data());
  return combine(ranks);
}

}  // namespace regatta::trainer::step
