#include "orchestrator/plan/pipeline_step.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "orchestrator/plan/dataset_facts.h"
#include "orchestrator/plan/drawn_steps.h"
#include "orchestrator/plan/plan_inputs.h"
#include "topology/plan/bucket_choice.h"
#include "trainer/contract/pipeline_schedule.h"

namespace regatta::orchestrator::plan {
namespace {

using topology::plan::Bucket;
using topology::plan::StepInputs;
using topology::plan::StepTensor;
using topology::plan::StepTimeline;
using trainer::contract::BatchSizes;
using trainer::contract::ModelShape;
using trainer::contract::Stage;
using trainer::contract::StageTensors;

// Hidden states and their gradients travel in float32, whatever the stages compute in.
constexpr double kTravelBytes = 4;

ModelShape shape_of(const trainer::contract::RunConfig& config) {
  ModelShape shape = config.model;
  complete_shape(std::nullopt, &shape);
  return shape;
}

// What one rank with the whole model and a replica's samples would do: when its gradients get
// ready, as shares of its last backward, and what its optimizer takes.
StepInputs whole_step(const PipelineInputs& inputs) {
  trainer::contract::RunConfig config = among_replicas(inputs.config);
  config.parallel = {};
  PlanFigures figures;
  figures.peak_flops = inputs.compute.peak_flops;
  figures.efficiency = inputs.compute.efficiency;
  figures.memory_bytes_per_second = inputs.compute.memory_bytes_per_second;
  figures.mean_tokens = inputs.mean_tokens;
  figures.mean_squared_tokens = inputs.mean_squared_tokens;
  figures.slowdown = inputs.network.sums.slowdown;
  return plan_inputs(config, figures);
}

std::int64_t bytes_of(const std::vector<StepTensor>& tensors, int begin, int end) {
  return tensors[static_cast<std::size_t>(end) - 1].end_byte -
         tensors[static_cast<std::size_t>(begin)].begin_byte;
}

}  // namespace

std::vector<Stage> stages_of(const trainer::contract::RunConfig& config,
                             const trainer::contract::LengthTable& lengths) {
  constexpr int kSamples = 1024;  // as the trainer takes
  std::vector<std::int32_t> drawn = lengths.evenly(kSamples);
  const auto longest = static_cast<std::int32_t>(config.data.max_length);
  for (std::int32_t& length : drawn) length = std::min(length, longest);
  return trainer::contract::cut_stages(
      config.model, trainer::contract::batch_of_lengths(drawn, config.data.mask_fraction),
      config.parallel.pipeline);
}

double even_bubble(int stages, double micro_batches) { return (stages - 1) / micro_batches; }

PipelineModel::PipelineModel(PipelineInputs inputs) : inputs_(std::move(inputs)) {
  base::check(!inputs_.stages.empty() &&
                  inputs_.network.sends.size() + 1 == inputs_.stages.size() &&
                  std::ssize(inputs_.stages) == inputs_.config.parallel.pipeline,
              "the network is of these stages");
  const ModelShape shape = shape_of(inputs_.config);
  const trainer::contract::TensorTable table = trainer::contract::make_tensor_table(shape);
  whole_ = whole_step(inputs_);
  const std::int64_t all = bytes_of(whole_.tensors, 0, static_cast<int>(whole_.tensors.size()));
  std::int64_t most = 0;
  for (const Stage& stage : inputs_.stages) {
    const StageTensors tensors = trainer::contract::stage_tensors(shape, table, stage);
    std::int64_t bytes = bytes_of(whole_.tensors, tensors.begin, tensors.end);
    if (tensors.tied >= 0) {
      const std::int64_t word = bytes_of(whole_.tensors, tensors.tied, tensors.tied + 1);
      word_bytes_ = static_cast<double>(word);
      bytes += word;
    }
    most = std::max(most, bytes);
    tensors_.push_back(tensors);
  }
  tail_ = whole_.tail_seconds * static_cast<double>(most) / static_cast<double>(all);
  cut_buckets(times_of(mean_replicas()).last);
}

double PipelineModel::link_seconds(std::size_t boundary, double tokens) const {
  return inputs_.network.sends[boundary].seconds(tokens * inputs_.config.model.hidden *
                                                 kTravelBytes);
}

double PipelineModel::ends_seconds() const {
  return word_bytes_ > 0 ? inputs_.network.ends.seconds(word_bytes_) : 0;
}

PipelineModel::StageTimes PipelineModel::times_of(const Replicas& replicas) const {
  const std::size_t stages = inputs_.stages.size();
  StageTimes all;
  all.last.resize(stages);
  for (const std::vector<BatchSizes>& batches : replicas) {
    trainer::contract::PipelineCosts costs;
    costs.forward.resize(stages);
    costs.backward.resize(stages);
    costs.link.resize(stages - 1);
    for (const BatchSizes& batch : batches) {
      const PartSeconds parts = part_seconds(inputs_.config.model, batch, inputs_.compute);
      for (std::size_t s = 0; s < stages; ++s) {
        const ComputeSeconds seconds = stage_seconds(parts, inputs_.stages[s]);
        costs.forward[s].push_back(seconds.forward);
        costs.backward[s].push_back(seconds.backward);
        if (s + 1 < stages) {
          costs.link[s].push_back(link_seconds(s, static_cast<double>(batch.tokens)));
        }
      }
    }
    const trainer::contract::PipelineTimes times =
        trainer::contract::pipeline_times(inputs_.config.parallel.schedule, costs);
    all.compute += std::accumulate(times.busy.begin(), times.busy.end(), 0.0);
    all.mean_end += times.end / static_cast<double>(replicas.size());
    all.end = std::max(all.end, times.end);
    for (std::size_t s = 0; s < stages; ++s) {
      if (times.stage_end[s] < all.last[s].end) continue;
      all.last[s] = {times.stage_end[s] - costs.backward[s].back(), times.stage_end[s]};
    }
  }
  return all;
}

StepInputs PipelineModel::stage_inputs(std::size_t stage, const LastBackward& last) const {
  const StageTensors& tensors = tensors_[stage];
  const auto ready = [&](int i) {
    return whole_.tensors[static_cast<std::size_t>(i)].ready_seconds;
  };
  const double from = tensors.begin > 0 ? ready(tensors.begin - 1) : whole_.forward_seconds;
  const double to = ready(tensors.end - 1);
  StepInputs inputs;
  inputs.forward_seconds = last.begin;
  inputs.compute_seconds = last.end;
  inputs.slowdown = whole_.slowdown;
  for (int i = tensors.begin; i < tensors.end; ++i) {
    StepTensor tensor = whole_.tensors[static_cast<std::size_t>(i)];
    const double share = to > from ? (ready(i) - from) / (to - from) : 1;
    tensor.ready_seconds = inputs_.config.buckets.overlap
                               ? std::min(last.end, last.begin + share * (last.end - last.begin))
                               : last.end;
    inputs.tensors.push_back(tensor);
  }
  return inputs;
}

std::vector<Bucket> PipelineModel::run_file_buckets(std::size_t stage) const {
  const StageTensors& tensors = tensors_[stage];
  std::vector<Bucket> own;
  for (const Bucket& bucket : inputs_.buckets) {
    const int begin = std::max(bucket.begin_tensor, tensors.begin);
    const int end = std::min(bucket.end_tensor, tensors.end);
    if (begin < end) own.push_back({begin - tensors.begin, end - tensors.begin});
  }
  return own;
}

void PipelineModel::cut_buckets(const std::vector<LastBackward>& last) {
  const int replicas = trainer::contract::rank_grid(inputs_.config).data;
  // Stages in the middle of as many layers are alike.
  std::map<std::tuple<int, bool, bool>, topology::plan::Plan> cuts;
  for (std::size_t s = 0; s < inputs_.stages.size(); ++s) {
    const Stage& stage = inputs_.stages[s];
    if (!inputs_.buckets.empty()) {
      stage_buckets_.push_back(run_file_buckets(s));
      why_ = "the run file says how";
      continue;
    }
    const std::tuple<int, bool, bool> kind{stage.layers(), stage.has_embeddings(),
                                           stage.has_head()};
    auto found = cuts.find(kind);
    if (found == cuts.end()) {
      const StepInputs inputs = stage_inputs(s, last[s]);
      found = cuts.emplace(kind,
                           topology::plan::plan_buckets(inputs, inputs_.network.sums.sum, replicas))
                  .first;
    }
    stage_buckets_.push_back(found->second.buckets);
    if (s == 0) why_ = found->second.why;
  }
  for (std::size_t s = inputs_.stages.size(); s-- > 0;) {
    const int shift = tensors_[s].begin;
    for (const Bucket& bucket : stage_buckets_[s]) {
      buckets_.push_back({bucket.begin_tensor + shift, bucket.end_tensor + shift});
    }
  }
}

PipelineModel::Sums PipelineModel::sums_of(const std::vector<LastBackward>& last) const {
  Sums sums;
  std::vector<double> ends;
  for (std::size_t s = 0; s < inputs_.stages.size(); ++s) {
    StepInputs inputs = stage_inputs(s, last[s]);
    std::vector<Bucket> buckets = stage_buckets_[s];
    if (tensors_[s].tied >= 0) {  // the decoder's gradient, a bucket by itself and the last
      const std::int64_t at = inputs.tensors.back().end_byte;
      inputs.tensors.push_back({at, at + std::llround(word_bytes_), last[s].end});
      const int number = static_cast<int>(inputs.tensors.size());
      buckets.push_back({number - 1, number});
    }
    const StepTimeline& timeline = sums.stages.emplace_back(
        topology::plan::run_step(inputs, buckets, inputs_.network.sums.sum));
    ends.push_back(timeline.compute_seconds + timeline.exposed_seconds);
    sums.end = std::max(sums.end, ends.back());
  }
  if (word_bytes_ > 0) {
    sums.end = std::max(sums.end, std::max(ends.front(), ends.back()) + ends_seconds());
  }
  return sums;
}

PipelineParts PipelineModel::step(const Replicas& replicas) const {
  const StageTimes times = times_of(replicas);
  PipelineParts parts;
  parts.compute = times.compute / static_cast<double>(replicas.size() * inputs_.stages.size());
  parts.bubble = times.mean_end - parts.compute;
  parts.imbalance = times.end - times.mean_end;
  parts.exposed = sums_of(times.last).end - times.end;
  parts.tail = tail_;
  parts.overhead = inputs_.overhead_seconds;
  parts.step = times.end + parts.exposed + parts.tail + parts.overhead;
  return parts;
}

PipelineModel::Replicas PipelineModel::mean_replicas() const {
  const trainer::contract::RunConfig& config = inputs_.config;
  const double samples =
      static_cast<double>(config.batch_size) / trainer::contract::rank_grid(config).data;
  const double most = config.micro_batch_size > 0 ? config.micro_batch_size : samples;
  std::vector<BatchSizes> batches;
  for (double left = samples; left > 1e-9; left -= most) {
    const double here = std::min(left, most);
    BatchSizes batch;
    batch.samples = std::llround(here);
    batch.tokens = std::llround(here * inputs_.mean_tokens);
    batch.squared_tokens = std::llround(here * inputs_.mean_squared_tokens);
    batch.masked = std::llround(here * inputs_.mean_tokens * config.data.mask_fraction);
    batches.push_back(batch);
  }
  return {batches};
}

StepTimeline PipelineModel::mean_timeline() const {
  const StageTimes times = times_of(mean_replicas());
  const Sums sums = sums_of(times.last);
  StepTimeline timeline;
  timeline.forward_seconds = times.last.front().begin;
  timeline.tail_seconds = tail_ + inputs_.overhead_seconds;
  for (std::size_t s = inputs_.stages.size(); s-- > 0;) {
    const StepTimeline& stage = sums.stages[s];
    timeline.compute_seconds = std::max(timeline.compute_seconds, stage.compute_seconds);
    timeline.communication_seconds =
        std::max(timeline.communication_seconds, stage.communication_seconds);
    const std::size_t own = stage_buckets_[s].size();  // without the decoder's
    timeline.buckets.insert(timeline.buckets.end(), stage.buckets.begin(),
                            stage.buckets.begin() + static_cast<std::ptrdiff_t>(own));
  }
  timeline.communication_seconds += ends_seconds();
  timeline.exposed_seconds = sums.end - timeline.compute_seconds;
  timeline.step_seconds =
      timeline.compute_seconds + timeline.exposed_seconds + timeline.tail_seconds;
  return timeline;
}

double PipelineModel::evaluation_seconds(const BatchSizes& pack, double packs) const {
  const PartSeconds parts = part_seconds(inputs_.config.model, pack, inputs_.compute);
  double slowest = 0, through = 0;
  for (std::size_t s = 0; s < inputs_.stages.size(); ++s) {
    const double forward = stage_seconds(parts, inputs_.stages[s]).forward;
    slowest = std::max(slowest, forward);
    through += forward;
    if (s + 1 < inputs_.stages.size()) {
      through += link_seconds(s, static_cast<double>(pack.tokens));
    }
  }
  // The first pack passes all stages; each after it leaves the slowest stage's time later.
  return through + (packs - 1) * slowest;
}

}  // namespace regatta::orchestrator::plan
