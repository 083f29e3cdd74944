#include "orchestrator/plan/plan_decisions.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/wording.h"
#include "topology/plan/bucket_choice.h"

namespace regatta::orchestrator::plan {
namespace {

using topology::nccl::CommunicationCurve;
using topology::plan::PlanDecision;
using topology::plan::StepInputs;
using trainer::contract::Balance;
using trainer::contract::ClipMode;
using trainer::contract::RunConfig;

constexpr int kSteps = 16;                    // that an imbalance is the mean of
constexpr std::int64_t kMostSamples = 65536;  // of a step, drawn; a larger step has fewer steps
constexpr std::uint64_t kSeed = 1;

// As the run file writes it.
std::string setting(const RunConfig& config, const std::string& pointer) {
  const auto json = base::parse_json<nlohmann::json>(trainer::contract::to_json(config));
  const auto& value = json.at(nlohmann::json::json_pointer(pointer));
  return value.is_string() ? value.get<std::string>() : base::json_text(value);
}

class Decider {
 public:
  Decider(const DecisionInputs& inputs, const topology::plan::Plan& plan)
      : inputs_(inputs),
        plan_(plan),
        step_(plan_inputs(inputs.config, inputs.figures)),
        now_(plan.timeline ? plan.timeline->step_seconds
                           : topology::plan::run_step(step_, plan.buckets, curve()).step_seconds) {}

  std::vector<PlanDecision> decide() {
    if (inputs_.config.ranks < 2) return {};
    hierarchical();
    sharding();
    balance();
    clip();
    return std::move(decisions_);
  }

 private:
  // What reduces the gradient now.
  const CommunicationCurve& curve() const {
    return inputs_.config.sharding.optimizer ? inputs_.reduce_scatter : inputs_.all_reduce;
  }

  double planned(const StepInputs& inputs, const CommunicationCurve& curve) const {
    return topology::plan::plan_buckets(inputs, curve, inputs_.config.ranks).timeline->step_seconds;
  }

  // `options` in the order in which they are named; the first of equal ones is taken.
  void add(const std::string& key, const std::string& run_file,
           const std::vector<PlanDecision::Option>& options, const std::string& about) {
    PlanDecision decision{key, run_file, run_file, "", options};
    double own = now_;
    for (const auto& option : options) {
      if (option.value == run_file) own = option.step_seconds;
    }
    const auto best = std::min_element(options.begin(), options.end(), [](auto& a, auto& b) {
      return a.step_seconds < b.step_seconds;
    });
    const double gain = own > 0 ? 1 - best->step_seconds / own : 0;
    if (gain >= kLeastGain) {
      decision.choice = best->value;
      decision.why = best->value + " would save " + base::short_number(100 * gain, 2) +
                     " % of the step; " + about;
    } else if (best->value == run_file) {
      decision.why = run_file + " is already the fastest by the model";
    } else {
      decision.why = "keep " + run_file + ": the best alternative, " + best->value +
                     ", would save only " + base::short_number(100 * gain, 2) + " % of the step";
    }
    decisions_.push_back(std::move(decision));
  }

  // Both by NCCL's model alone, since nobody has measured the parts.
  void hierarchical() {
    if (!inputs_.allocation) return;
    const double bytes = most_bytes();
    const auto by_node = hierarchical_curve(*inputs_.allocation, bytes);
    if (!by_node) return;
    const topology::nccl::CostModel model(*inputs_.allocation);
    const CommunicationCurve flat = CommunicationCurve::sampled(
        [&](double n) { return 1e-6 * model.choice({.bytes = static_cast<std::uint64_t>(n)}).us; },
        bytes);
    add("hierarchical", setting(inputs_.config, "/hierarchical"),
        {{"false", planned(step_, flat)}, {"true", planned(step_, *by_node)}},
        "sums are then added in another order, so results differ in their last bits");
  }

  // Reduce-scatter in place of all-reduce, and each rank updates its part; the weights are gathered
  // within the next forward, of which what it cannot hide is waited for.
  void sharding() {
    RunConfig config = inputs_.config;
    config.sharding.optimizer = false;
    const double whole = planned(plan_inputs(config, inputs_.figures), inputs_.all_reduce);
    config.sharding.optimizer = true;
    const StepInputs inputs = plan_inputs(config, inputs_.figures);
    const topology::plan::Plan plan =
        topology::plan::plan_buckets(inputs, inputs_.reduce_scatter, config.ranks);
    double gather = 0;
    for (const auto& bucket : plan.timeline->buckets) {
      gather += inputs_.all_gather.seconds(static_cast<double>(bucket.bytes));
    }
    const double hidden = config.sharding.overlap_gather ? inputs.forward_seconds : 0;
    add("sharding.optimizer", setting(inputs_.config, "/sharding/optimizer"),
        {{"false", whole}, {"true", plan.timeline->step_seconds + std::max(0.0, gather - hidden)}},
        "each rank then holds only its part of the optimizer's state");
  }

  void balance() {
    if (!inputs_.lengths || inputs_.config.batch_size < inputs_.config.ranks) return;
    std::vector<PlanDecision::Option> options;
    // The figures are of the slowest rank as the run file balances, where they are modelled.
    const double own = inputs_.figures.compute_seconds > 0
                           ? imbalance_of(inputs_.config, inputs_.config.balance.strategy,
                                          inputs_.ranks_per_node, *inputs_.lengths)
                           : 1;
    for (const Balance strategy : {Balance::None, Balance::Stratified, Balance::GlobalPresort,
                                   Balance::Exchange, Balance::Packed}) {
      RunConfig config = inputs_.config;
      config.balance.strategy = strategy;
      const double slowest =
          imbalance_of(config, strategy, inputs_.ranks_per_node, *inputs_.lengths);
      PlanFigures figures = inputs_.figures;
      figures.efficiency /= slowest / own;
      figures.compute_seconds *= slowest / own;
      options.push_back(
          {setting(config, "/balance/strategy"),
           topology::plan::run_step(plan_inputs(config, figures), plan_.buckets, curve())
               .step_seconds});
    }
    add("balance.strategy", setting(inputs_.config, "/balance/strategy"), options,
        "the cost of moving samples is not included");
  }

  void clip() {
    if (inputs_.config.clip == ClipMode::None) return;
    std::vector<PlanDecision::Option> options;
    for (const ClipMode mode : {ClipMode::Global, ClipMode::Bucket, ClipMode::Rank}) {
      RunConfig config = inputs_.config;
      config.clip = mode;
      options.push_back(
          {setting(config, "/clip/mode"), planned(plan_inputs(config, inputs_.figures), curve())});
    }
    add("clip.mode", setting(inputs_.config, "/clip/mode"), options,
        "it clips other gradients, so the run learns differently");
  }

  double most_bytes() const {
    return static_cast<double>(step_.tensors.back().end_byte - step_.tensors.front().begin_byte);
  }

  const DecisionInputs& inputs_;
  const topology::plan::Plan& plan_;
  StepInputs step_;
  double now_;
  std::vector<PlanDecision> decisions_;
};

}  // namespace

double imbalance_of(const RunConfig& config, Balance strategy, int ranks_per_node,
                    const trainer::contract::LengthTable& lengths) {
  std::mt19937_64 engine(kSeed);
  const auto batch = static_cast<std::size_t>(config.batch_size);
  const auto longest = static_cast<std::int32_t>(config.data.max_length);
  const auto steps = std::clamp<std::int64_t>(kMostSamples / config.batch_size, 1, kSteps);
  std::vector<std::int32_t> window(batch * static_cast<std::size_t>(steps));
  for (std::int32_t& length : window) {
    const double u = static_cast<double>(engine() >> 11U) * 0x1p-53;
    length = std::clamp(static_cast<std::int32_t>(lengths.quantile(u)), 1, longest);
  }
  trainer::contract::StratumLimits strata = {};
  if (strategy == Balance::Stratified) {
    std::vector<std::int32_t> all = lengths.evenly(trainer::contract::kStratumSamples);
    for (std::int32_t& length : all) length = std::min(length, longest);
    strata = trainer::contract::stratum_limits(all);
    std::vector<std::int32_t> ordered;
    for (const std::int32_t place :
         trainer::contract::stratified_order(window, config.batch_size, config.ranks, strata)) {
      ordered.push_back(window[static_cast<std::size_t>(place)]);
    }
    window = std::move(ordered);
  }
  double sum = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::span<const std::int32_t> samples(
        window.data() + static_cast<std::size_t>(step) * batch, batch);
    const auto shares = trainer::contract::assign(
        samples, {strategy, config.balance.deal, config.ranks, ranks_per_node, longest, strata});
    double most = 0, all = 0;
    for (const auto& share : shares) {
      trainer::contract::BatchSizes sizes;
      for (const std::int32_t place : share) {
        const std::int64_t length = samples[static_cast<std::size_t>(place)];
        ++sizes.samples;
        sizes.tokens += length;
        sizes.squared_tokens += length * length;
      }
      sizes.masked =
          static_cast<std::int64_t>(static_cast<double>(sizes.tokens) * config.data.mask_fraction);
      const double flops = trainer::contract::training_flops(config.model, sizes);
      most = std::max(most, flops);
      all += flops;
    }
    sum += most * static_cast<double>(config.ranks) / all;
  }
  return sum / static_cast<double>(steps);
}

std::optional<CommunicationCurve> hierarchical_curve(const topology::nccl::Allocation& allocation,
                                                     double most_bytes) {
  const int inside = allocation.ranks_per_node;
  if (allocation.nodes < 2 || inside < 2) return std::nullopt;
  topology::nccl::Allocation node = allocation;
  node.nodes = 1;
  // As many sums between nodes at once as a node has ranks: each has its part of the NICs.
  topology::nccl::Allocation between = allocation;
  between.ranks_per_node = 1;
  between.gb_per_s_a_nic = allocation.gb_per_s_a_nic * allocation.nics / inside;
  between.nics = 1;
  between.ring = between.tree = between.nvls = std::nullopt;
  const topology::nccl::CostModel within(node), across(between);
  const auto seconds = [](const topology::nccl::CostModel& model,
                          topology::nccl::Collective collective, double bytes) {
    return 1e-6 * model
                      .choice({.collective = collective,
                               .bytes = static_cast<std::uint64_t>(std::max(1.0, bytes))})
                      .us;
  };
  return CommunicationCurve::sampled(
      [&](double bytes) {
        return seconds(within, topology::nccl::Collective::ReduceScatter, bytes) +
               seconds(across, topology::nccl::Collective::AllReduce, bytes / inside) +
               seconds(within, topology::nccl::Collective::AllGather, bytes);
      },
      most_bytes);
}

std::vector<PlanDecision> decide(const DecisionInputs& inputs, const topology::plan::Plan& plan) {
  return Decider(inputs, plan).decide();
}

}  // namespace regatta::orchestrator::plan
