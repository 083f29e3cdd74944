#include "orchestrator/simulate/simulation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/statistics.h"
#include "base/wording.h"
#include "orchestrator/plan/dataset_facts.h"
#include "orchestrator/plan/drawn_steps.h"
#include "orchestrator/plan/pipeline_step.h"
#include "orchestrator/plan/plan_inputs.h"
#include "topology/plan/bucket_choice.h"
#include "topology/plan/bucket_programme.h"

namespace regatta::orchestrator::simulate {
namespace {

using topology::plan::StepInputs;
using trainer::contract::BatchSizes;
using trainer::contract::RunConfig;

constexpr int kElementBytes = 4;  // of what plan_inputs() counts
constexpr std::int64_t kDefaultBucketBytes = std::int64_t{25} << 20;

std::int64_t rounded(double value) { return std::llround(value); }

trainer::contract::TensorTable table_of(const RunConfig& config) {
  trainer::contract::ModelShape shape = config.model;
  plan::complete_shape(std::nullopt, &shape);
  return trainer::contract::make_tensor_table(shape);
}

// What a rank has of a step, as the device sees it.
BatchSizes laid_out(double samples, double tokens, double squared, const RunConfig& config,
                    RowLayout layout) {
  const double row = config.data.max_length;
  BatchSizes sizes;
  sizes.samples = rounded(samples);
  sizes.masked = rounded(tokens * config.data.mask_fraction);
  sizes.tokens = rounded(tokens);
  sizes.squared_tokens = rounded(squared);
  if (layout == RowLayout::Padded) {
    sizes.tokens = rounded(samples * row);
    sizes.squared_tokens = rounded(samples * row * row);
  } else if (layout == RowLayout::Packed) {
    constexpr double kSamplesOfRow = 2;
    sizes.tokens = rounded(std::ceil(samples / kSamplesOfRow) * row);
  }
  return sizes;
}

// Where the step of the mean rank has its gradients.
StepInputs base_inputs(const SimulationInputs& inputs, double mean, double mean_square,
                       double compute_seconds) {
  const RunConfig& config = inputs.config;
  plan::PlanFigures figures;
  figures.peak_flops = inputs.compute.peak_flops;
  figures.efficiency = inputs.compute.efficiency;
  figures.memory_bytes_per_second = inputs.compute.memory_bytes_per_second;
  figures.mean_tokens = mean;
  figures.mean_squared_tokens = mean_square;
  figures.slowdown = inputs.network.slowdown;
  figures.compute_seconds = compute_seconds;
  figures.overhead_seconds = inputs.overhead_seconds;
  StepInputs step = plan::plan_inputs(config, figures);
  for (topology::plan::StepTensor& tensor : step.tensors) {
    tensor.begin_byte = tensor.begin_byte / kElementBytes * inputs.gradient_bytes;
    tensor.end_byte = tensor.end_byte / kElementBytes * inputs.gradient_bytes;
  }
  if (inputs.optimizer_parts > 0) {
    const double as_planned = config.sharding.optimizer ? config.ranks : 1;
    step.tail_seconds = inputs.overhead_seconds + (step.tail_seconds - inputs.overhead_seconds) *
                                                      as_planned / inputs.optimizer_parts;
  }
  return step;
}

std::vector<topology::plan::Bucket> per_layer(const trainer::contract::TensorTable& table) {
  std::vector<topology::plan::Bucket> buckets;
  std::string part = "-";
  for (int i = 0; i < static_cast<int>(table.tensors.size()); ++i) {
    const std::string& name = table.tensors[static_cast<std::size_t>(i)].name;
    const std::string layer = "bert.encoder.layer.";
    std::string here = name.rfind("bert.embeddings.", 0) == 0 ? "embeddings" : "heads";
    if (name.rfind(layer, 0) == 0) here = name.substr(0, name.find('.', layer.size()));
    if (here != part) buckets.push_back({i, i});
    part = here;
    buckets.back().end_tensor = i + 1;
  }
  return buckets;
}

topology::plan::Plan plan_of(const SimulationInputs& inputs, const StepInputs& step) {
  const RunConfig& config = inputs.config;
  if (config.buckets.by == trainer::contract::BucketPolicy::Plan) {
    return topology::plan::plan_buckets(step, inputs.network.sum, config.ranks);
  }
  topology::plan::Plan plan;
  plan.ranks = config.ranks;
  plan.why = "the run file says how";
  switch (config.buckets.by) {
    case trainer::contract::BucketPolicy::Plan:
    case trainer::contract::BucketPolicy::One:
      plan.buckets = topology::plan::one_bucket(step);
      break;
    case trainer::contract::BucketPolicy::Bytes: {
      const std::int64_t bytes =
          config.buckets.bytes > 0 ? config.buckets.bytes : kDefaultBucketBytes;
      plan.buckets = topology::plan::buckets_of_at_most(
          step, std::max<std::int64_t>(1, bytes / kElementBytes) * inputs.gradient_bytes);
      break;
    }
    case trainer::contract::BucketPolicy::PerLayer:
      plan.buckets = per_layer(table_of(config));
      break;
  }
  return plan;
}

double gather_seconds(const SimulationInputs& inputs, double forward_seconds) {
  const bool shares =
      inputs.optimizer_parts > 0 ? inputs.optimizer_parts > 1 : inputs.config.sharding.optimizer;
  if (!shares) return 0;
  const double elements = static_cast<double>(table_of(inputs.config).arena_size);
  const double whole = inputs.network.gather.seconds(elements * inputs.gather_bytes);
  const bool is_hidden = inputs.config.sharding.optimizer && inputs.config.sharding.overlap_gather;
  return is_hidden ? std::max(0.0, whole - forward_seconds) : whole;
}

// The largest rank's and all ranks' sizes of one step.
struct Shares {
  double samples = 0, tokens = 0, squared = 0;
};
struct StepShares {
  Shares slowest, all;
  double most_tokens = 0;
};

StepShares deal(const SimulationInputs& inputs, plan::DrawnSteps* steps, int number) {
  const RunConfig& config = inputs.config;
  const std::vector<std::int32_t>& lengths = steps->step(number);
  const double linear = 2.0 * (4.0 * config.model.hidden + 2.0 * config.model.feed_forward);
  double most = -1;
  StepShares shares;
  for (const std::vector<std::int32_t>& places : steps->deal(lengths, inputs.ranks_per_node)) {
    Shares rank;
    rank.samples = static_cast<double>(places.size());
    for (const std::int32_t place : places) {
      const double length = lengths[static_cast<std::size_t>(place)];
      rank.tokens += length;
      rank.squared += length * length;
    }
    const double cost = linear * rank.tokens + 4 * rank.squared;
    if (cost > most) shares.slowest = rank;
    most = std::max(most, cost);
    shares.most_tokens = std::max(shares.most_tokens, rank.tokens);
    shares.all.samples += rank.samples;
    shares.all.tokens += rank.tokens;
    shares.all.squared += rank.squared;
  }
  return shares;
}

void check_inputs(const SimulationInputs& inputs) {
  const RunConfig& config = inputs.config;
  const auto fail = [](const std::string& what) { throw base::Error(base::Code::User, what); };
  if (const auto refusal = trainer::contract::refuse_parallel(config);
      refusal && config.parallel.pipeline > 1) {
    fail("on " + base::plural(config.ranks, "rank") + ": " + refusal->key + " " + refusal->message);
  }
  if (config.ranks < 1 || config.batch_size < trainer::contract::rank_grid(config).data) {
    fail("a batch of " + std::to_string(config.batch_size) + " samples is too small for " +
         std::to_string(config.ranks) + " ranks; raise batch.size, or use fewer nodes");
  }
  if (inputs.lengths.longest() > config.data.max_length) {
    fail("a length of " + std::to_string(inputs.lengths.longest()) +
         " tokens is above data.max_length of " + std::to_string(config.data.max_length) +
         "; cut the table, or raise it");
  }
  if (inputs.steps < 1) fail("no steps are to be drawn; use at least 1");
}

double evaluation_seconds(const SimulationInputs& inputs, double mean, double mean_square) {
  const RunConfig& config = inputs.config;
  if (config.evaluate_samples == 0) return 0;  // all there are, and nobody said how many
  const double samples = std::ceil(static_cast<double>(config.evaluate_samples) / config.ranks);
  double at_once = std::ceil(static_cast<double>(config.batch_size) / config.ranks);
  if (config.micro_batch_size > 0) at_once = config.micro_batch_size;
  if (inputs.evaluation_batch > 0) at_once = inputs.evaluation_batch;
  const double parts = std::ceil(samples / at_once);
  const double each = samples / parts;
  const BatchSizes sizes =
      laid_out(each, each * mean, each * mean_square, config, inputs.evaluation_layout);
  return parts * plan::compute_seconds(config.model, sizes, inputs.compute).forward;
}

// Sums over the steps, and the step of each.
class Tally {
 public:
  void add(const StepParts& step) {
    sum_.compute += step.compute;
    sum_.bubble += step.bubble;
    sum_.imbalance += step.imbalance;
    sum_.exposed += step.exposed;
    sum_.tail += step.tail;
    sum_.gather += step.gather;
    sum_.overhead += step.overhead;
    sum_.step += step.step;
    steps_.push_back(step.step);
  }
  void write(Simulation* to) const {
    const auto count = static_cast<double>(steps_.size());
    to->mean = {sum_.compute / count, sum_.imbalance / count, sum_.exposed / count,
                sum_.tail / count,    sum_.gather / count,    sum_.overhead / count,
                sum_.step / count,    sum_.bubble / count};
    to->step_p5 = base::percentile(steps_, 0.05);
    to->step_p95 = base::percentile(steps_, 0.95);
  }

 private:
  StepParts sum_;
  std::vector<double> steps_;
};

StepInputs stretched(StepInputs step, double factor) {
  step.forward_seconds *= factor;
  step.compute_seconds *= factor;
  for (topology::plan::StepTensor& tensor : step.tensors) tensor.ready_seconds *= factor;
  return step;
}

plan::PipelineModel pipeline_of(const SimulationInputs& inputs, const plan::DrawnSteps& steps) {
  const RunConfig& config = inputs.config;
  plan::PipelineInputs made;
  made.config = config;
  made.stages = plan::stages_of(config, inputs.lengths);
  made.compute = inputs.compute;
  made.network = inputs.stage_network;
  made.mean_tokens = steps.mean();
  made.mean_squared_tokens = steps.mean_square();
  made.overhead_seconds = inputs.overhead_seconds;
  if (config.buckets.by != trainer::contract::BucketPolicy::Plan) {
    made.buckets =
        plan_of(inputs, base_inputs(inputs, steps.mean(), steps.mean_square(), 0)).buckets;
  }
  return plan::PipelineModel(std::move(made));
}

double staged_evaluation_seconds(const plan::PipelineModel& model) {
  const RunConfig& config = model.inputs().config;
  const int replicas = trainer::contract::rank_grid(config).data;
  const double samples = std::ceil(static_cast<double>(config.evaluate_samples) / replicas);
  if (samples < 1) return 0;  // all there are, and nobody said how many
  const double packs = std::ceil(samples / config.micro_batch_size);
  const double each = samples / packs;
  return model.evaluation_seconds(
      laid_out(each, each * model.inputs().mean_tokens, each * model.inputs().mean_squared_tokens,
               config, RowLayout::Unpadded),
      packs);
}

SimulatedStages described(const plan::PipelineModel& model) {
  SimulatedStages stages;
  stages.cut = model.inputs().stages;
  stages.data = trainer::contract::rank_grid(model.inputs().config).data;
  stages.micro_batch = model.inputs().config.micro_batch_size;
  stages.ends_seconds = model.ends_seconds();
  const auto tokens = static_cast<double>(model.mean_replicas().front().front().tokens);
  for (std::size_t boundary = 0; boundary + 1 < stages.cut.size(); ++boundary) {
    stages.send_seconds = std::max(stages.send_seconds, model.link_seconds(boundary, tokens));
  }
  return stages;
}

Simulation simulate_stages(const SimulationInputs& inputs) {
  base::check(inputs.layout == RowLayout::Unpadded, "stages have unpadded rows");
  const RunConfig& config = inputs.config;
  const RunConfig replicas = plan::among_replicas(config);
  plan::DrawnSteps steps(replicas, inputs.lengths);
  const plan::PipelineModel model = pipeline_of(inputs, steps);
  Simulation result;
  result.ranks = config.ranks;
  result.batch = config.batch_size;
  SimulatedStages stages = described(model);
  Tally tally;
  double imbalance = 0, flops = 0, micro_batches = 0;
  for (int i = 0; i < inputs.steps; ++i) {
    const std::vector<std::int32_t>& lengths = steps.step(i);
    plan::PipelineModel::Replicas dealt;
    double most = 0, all = 0;
    for (const auto& places : steps.deal(lengths, inputs.ranks_per_node)) {
      double tokens = 0;
      for (const BatchSizes& batch :
           dealt.emplace_back(plan::micro_batches_of(config, lengths, places))) {
        tokens += static_cast<double>(batch.tokens);
        flops += trainer::contract::training_flops(config.model, batch);
      }
      micro_batches += static_cast<double>(dealt.back().size());
      most = std::max(most, tokens);
      all += tokens;
    }
    const plan::PipelineParts parts = model.step(dealt);
    tally.add({parts.compute, parts.imbalance, parts.exposed, parts.tail, 0, parts.overhead,
               parts.step, parts.bubble});
    imbalance += most * stages.data / all;
  }
  tally.write(&result);
  stages.micro_batches = micro_batches / inputs.steps / stages.data;
  stages.bubble = result.mean.bubble / result.mean.compute;
  stages.bubble_even = plan::even_bubble(static_cast<int>(stages.cut.size()), stages.micro_batches);
  result.plan.ranks = config.ranks;
  result.plan.buckets = model.buckets();
  result.plan.why = model.buckets_why();
  result.timeline = model.mean_timeline();
  result.communication_seconds = result.timeline.communication_seconds;
  result.token_imbalance = imbalance / inputs.steps;
  result.samples_per_second = config.batch_size / result.mean.step;
  result.model_flops_per_second = flops / (result.mean.step * inputs.steps) / config.ranks;
  result.evaluation_seconds = staged_evaluation_seconds(model);
  result.stages = std::move(stages);
  return result;
}

}  // namespace

Simulation simulate_steps(const SimulationInputs& inputs) {
  check_inputs(inputs);
  if (inputs.config.parallel.pipeline > 1) return simulate_stages(inputs);
  const RunConfig& config = inputs.config;
  plan::DrawnSteps steps(config, inputs.lengths);
  const double ranks = config.ranks;
  const double mean = steps.mean(), mean_square = steps.mean_square();
  const auto compute = [&](double samples, double tokens, double squared) {
    const BatchSizes sizes = laid_out(samples, tokens, squared, config, inputs.layout);
    const plan::ComputeSeconds seconds =
        plan::compute_seconds(config.model, sizes, inputs.compute, config.micro_batch_size);
    return seconds.forward + seconds.backward;
  };
  const double samples = config.batch_size / ranks;
  const double base = compute(samples, samples * mean, samples * mean_square);
  const StepInputs step = base_inputs(inputs, mean, mean_square, base);

  Simulation result;
  result.ranks = config.ranks;
  result.batch = config.batch_size;
  result.plan = plan_of(inputs, step);
  Tally tally;
  double imbalance = 0, flops = 0;
  for (int i = 0; i < inputs.steps; ++i) {
    const StepShares shares = deal(inputs, &steps, i);
    const Shares& slowest = shares.slowest;
    StepParts parts;
    parts.compute =
        compute(shares.all.samples / ranks, shares.all.tokens / ranks, shares.all.squared / ranks);
    const double longest =
        std::max(parts.compute, compute(slowest.samples, slowest.tokens, slowest.squared));
    const topology::plan::StepTimeline timeline = topology::plan::run_step(
        stretched(step, longest / base), result.plan.buckets, inputs.network.sum);
    parts.imbalance = longest - parts.compute;
    // What the sums slow computing down by is theirs.
    parts.exposed = std::max(0.0, timeline.exposed_seconds + timeline.compute_seconds - longest);
    parts.overhead = inputs.overhead_seconds;
    parts.tail = timeline.tail_seconds - parts.overhead;
    parts.gather = gather_seconds(inputs, timeline.forward_seconds);
    parts.step = timeline.step_seconds + parts.gather;
    tally.add(parts);
    imbalance += shares.most_tokens / (shares.all.tokens / ranks);
    const double masked = shares.all.tokens * config.data.mask_fraction;
    flops += trainer::contract::training_flops(
        config.model, {rounded(shares.all.samples), rounded(shares.all.tokens),
                       rounded(shares.all.squared), rounded(masked)});
  }
  tally.write(&result);
  const double total = result.mean.step * inputs.steps;
  result.timeline = topology::plan::run_step(
      stretched(step, (result.mean.compute + result.mean.imbalance) / base), result.plan.buckets,
      inputs.network.sum);
  result.communication_seconds = result.timeline.communication_seconds;
  result.token_imbalance = imbalance / inputs.steps;
  result.samples_per_second = config.batch_size / result.mean.step;
  result.model_flops_per_second = flops / total / ranks;
  result.evaluation_seconds = evaluation_seconds(inputs, mean, mean_square);
  return result;
}

}  // namespace regatta::orchestrator::simulate
