#include "orchestrator/plan/drawn_steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/philox.h"

namespace regatta::orchestrator::plan {
namespace {

using trainer::contract::Balance;
using trainer::contract::BatchSizes;
using trainer::contract::RunConfig;

constexpr std::uint32_t kLengthSite = 0x53494d31;  // no site of the trainer's
constexpr int kDraws = 1 << 16;

}  // namespace

RunConfig among_replicas(RunConfig config) {
  config.ranks = trainer::contract::rank_grid(config).data;
  return config;
}

DrawnSteps::DrawnSteps(const RunConfig& config, const trainer::contract::LengthTable& table)
    : config_(config),
      table_(table.evenly(kDraws)),
      lengths_(static_cast<std::size_t>(config.batch_size)) {
  const auto longest = static_cast<std::int32_t>(config.data.max_length);
  for (std::int32_t& length : table_) length = std::min(length, longest);
  if (config.balance.strategy != Balance::Stratified) return;
  std::vector<std::int32_t> all = table.evenly(trainer::contract::kStratumSamples);
  for (std::int32_t& length : all) length = std::min(length, longest);
  strata_ = trainer::contract::stratum_limits(all);
}

double DrawnSteps::moment(int power) const {
  double sum = 0;
  for (const std::int32_t length : table_) sum += std::pow(length, power);
  return sum / kDraws;
}

void DrawnSteps::draw(std::uint32_t step, std::vector<std::int32_t>* lengths) const {
  base::PhiloxStream random(config_.seed, 0, step, kLengthSite);
  for (std::size_t i = 0; i < lengths->size(); i += 2) {
    const std::uint32_t word = random.next();
    (*lengths)[i] = table_[word & 0xFFFFU];
    if (i + 1 < lengths->size()) (*lengths)[i + 1] = table_[word >> 16U];
  }
}

const std::vector<std::int32_t>& DrawnSteps::step(int number) {
  if (config_.balance.strategy != Balance::Stratified) {
    draw(static_cast<std::uint32_t>(number), &lengths_);
    return lengths_;
  }
  // A window of steps at a time.
  const int within = number % trainer::contract::kWindowSteps;
  if (within == 0) {
    window_.resize(lengths_.size() * trainer::contract::kWindowSteps);
    draw(static_cast<std::uint32_t>(number), &window_);
    order_ =
        trainer::contract::stratified_order(window_, config_.batch_size, config_.ranks, strata_);
  }
  const std::size_t first = lengths_.size() * static_cast<std::size_t>(within);
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    lengths_[i] = window_[static_cast<std::size_t>(order_[first + i])];
  }
  return lengths_;
}

trainer::contract::Assignment DrawnSteps::deal(const std::vector<std::int32_t>& lengths,
                                               int ranks_per_node) const {
  trainer::contract::BalanceOptions options;
  options.strategy = config_.balance.strategy;
  options.deal = config_.balance.deal;
  options.ranks = config_.ranks;
  // With stages those who share samples may be part of a node.
  options.ranks_per_node = std::gcd(config_.ranks, std::max(1, ranks_per_node));
  options.row_length = config_.data.max_length;
  options.strata = strata_;
  return trainer::contract::assign(lengths, options);
}

std::vector<BatchSizes> micro_batches_of(const RunConfig& config,
                                         const std::vector<std::int32_t>& lengths,
                                         std::vector<std::int32_t> places) {
  std::sort(places.begin(), places.end());
  const std::size_t most = config.micro_batch_size > 0
                               ? static_cast<std::size_t>(config.micro_batch_size)
                               : std::max<std::size_t>(1, places.size());
  std::vector<BatchSizes> batches;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i % most == 0) batches.emplace_back();
    const std::int64_t length = lengths[static_cast<std::size_t>(places[i])];
    ++batches.back().samples;
    batches.back().tokens += length;
    batches.back().squared_tokens += length * length;
  }
  for (BatchSizes& batch : batches) {
    batch.masked = std::llround(static_cast<double>(batch.tokens) * config.data.mask_fraction);
  }
  return batches;
}

}  // namespace regatta::orchestrator::plan
