#include "trainer/step/train_loop.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "trainer/contract/pipeline_schedule.h"
#include "trainer/step/buckets.h"
#include "trainer/step/schedule.h"

namespace regatta::trainer::step {
namespace {

using model::kCompute;

constexpr int kSumCount = 6;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

contract::BatchSizes sizes_of(const std::vector<samples::PackedBatch>& batches) {
  contract::BatchSizes sizes;
  for (const samples::PackedBatch& batch : batches) {
    sizes.samples += batch.samples();
    sizes.tokens += batch.tokens();
    sizes.masked += batch.masked();
    for (std::size_t i = 1; i < batch.cumulative.size(); ++i) {
      const std::int64_t length = batch.cumulative[i] - batch.cumulative[i - 1];
      sizes.squared_tokens += length * length;
    }
  }
  return sizes;
}

// Where nobody has found how many ranks share a node, each has its own.
contract::RunConfig on_nodes(contract::RunConfig config) {
  config.ranks_per_node = std::max(1, config.ranks_per_node);
  return config;
}

// Of whom a rank shares samples with: all ranks, or those of its stage, which may be part of a
// node; or shards, as if each were a rank.
contract::RunConfig among_replicas(contract::RunConfig config) {
  if (config.determinism.shards > 0) {
    config.ranks = config.determinism.shards;
    config.ranks_per_node = 1;
    return config;
  }
  if (config.parallel.pipeline == 1) return config;
  config.ranks = contract::rank_grid(config).data;
  config.ranks_per_node = std::gcd(config.ranks, config.ranks_per_node);
  return config;
}

model::BertOptions of_stage(model::BertOptions options, const contract::Stage& stage) {
  options.stage = stage;
  return options;
}

// Of the run's samples; as many as tell the mean well.
constexpr std::int64_t kCutSamples = 1024;

// What it takes: `stage` is this rank's.
struct OptimizerPlace {
  device::Device& device;
  const StageRanks& ranks;
  const contract::Stage& stage;
};
Optimizer make_optimizer(const OptimizerPlace& at, const contract::TensorTable& table,
                         const contract::RunConfig& config, const topology::plan::Plan& plan) {
  const double clip_norm = config.clip == contract::ClipMode::Global ? config.clip_norm : 0.0;
  const std::vector<float> factors = learning_rate_factors(table, config.model, config.fine_tuning);
  ranks::Communicator& world = at.ranks.world();
  if (config.determinism.shards > 0) {
    GranuleState held{0, table.arena_size};
    if (config.sharding.optimizer) {
      const ArenaSlice range =
          granule_ranges(table.arena_size, world.ranks())[static_cast<std::size_t>(world.rank())];
      held = {range.begin, range.size};
    }
    return {at.device, world, table, held, config.optimizer, clip_norm, factors};
  }
  if (at.stage.is_whole()) {
    return {
        at.device,
        world,
        table,
        config.sharding.optimizer ? sharded_state(table, plan.buckets, world) : whole_state(table),
        config.optimizer,
        clip_norm,
        factors};
  }
  return {at.device,
          world,
          table,
          stage_state(table, contract::stage_tensors(config.model, table, at.stage),
                      at.ranks.replica() == 0),
          config.optimizer,
          clip_norm,
          factors};
}

std::vector<topology::plan::Bucket> buckets_for(const model::Bert& model,
                                                const std::vector<topology::plan::Bucket>& all) {
  if (model.stage().is_whole()) return all;
  return stage_buckets(all, contract::stage_tensors(model.shape(), model.table(), model.stage()));
}

contract::NoiseScale noise_scale_of(const contract::RunConfig& config) {
  return {config.batch_size, std::max(1, config.base_batch)};
}

}  // namespace

std::vector<contract::Stage> stages_of(const contract::RunConfig& config,
                                       const samples::SampleStream& samples) {
  if (config.parallel.pipeline == 1) return {contract::whole_model(config.model)};
  std::vector<std::int32_t> lengths;
  for (std::int64_t i = 0; i < kCutSamples; ++i) lengths.push_back(samples.length(i));
  return contract::cut_stages(config.model,
                              contract::batch_of_lengths(lengths, config.data.mask_fraction),
                              config.parallel.pipeline);
}

bool measures_noise(const contract::RunConfig& config) {
  return config.statistics_every > 0 && config.batch_size >= 2 &&
         config.clip != contract::ClipMode::Bucket && config.clip != contract::ClipMode::Rank;
}

device::Dtype compute_dtype(contract::Precision precision) {
  if (precision == contract::Precision::BFloat16) return device::Dtype::BFloat16;
  return precision == contract::Precision::Float16 ? device::Dtype::Float16
                                                   : device::Dtype::Float32;
}

model::BertOptions bert_options(const contract::RunConfig& config, std::int64_t token_bucket) {
  model::BertOptions options;
  options.dropout = {config.dropout, config.attention_dropout, config.seed};
  options.compute = compute_dtype(config.dtype);
  options.room.token_bucket = config.token_bucket > 0 ? config.token_bucket : token_bucket;
  options.room.mask_fraction =
      config.model.task == contract::Task::Pretraining ? config.data.mask_fraction : 0;
  options.label_smoothing = static_cast<float>(config.fine_tuning.label_smoothing);
  options.frozen_layers = config.fine_tuning.frozen_layers;
  if (options.room.token_bucket > 1) options.room.max_length = config.data.max_length;
  options.repeat = config.graphs;
  return options;
}

model::BertOptions bert_options(const contract::RunConfig& config, const device::Device& device) {
  if (!device.computes_in(compute_dtype(config.dtype))) {
    throw base::Error(base::Code::User, "dtype is " + contract::name_of(config.dtype) +
                                            ", but this is " + device.description() +
                                            "; set dtype: float32, or device: cuda");
  }
  return bert_options(config, device.token_bucket());
}

TrainLoop::TrainLoop(device::Device& device, ranks::Communicator& communicator,
                     const base::Clock& clock, const contract::RunConfig& config,
                     const topology::plan::Plan& plan, samples::SampleStream samples,
                     TrainLoopOptions options)
    : device_(device),
      communicator_(communicator),
      clock_(clock),
      config_(on_nodes(config)),
      options_(std::move(options)),
      stage_ranks_(communicator, contract::rank_grid(config),
                   config.model.task == contract::Task::Pretraining),
      stages_(stages_of(config, samples)),
      model_(device, config.model,
             of_stage(bert_options(config, device),
                      stages_.at(static_cast<std::size_t>(stage_ranks_.stage())))),
      reducer_(device, stage_ranks_.data(), clock, model_, buckets_for(model_, plan.buckets),
               config),
      optimizer_(
          make_optimizer({device, stage_ranks_, model_.stage()}, model_.table(), config, plan)),
      gatherer_(device, communicator, clock, model_, plan.buckets),
      slices_(slices_of(model_.table(), plan.buckets)),
      loss_scaler_(config.dtype),
      noise_scale_(noise_scale_of(config)),
      raw_noise_scale_(noise_scale_of(config)),
      batch_(config),
      results_(device, 4 * (kSumCount + 1)),
      input_(input_tuner(config_)),
      channel_(stage_ranks_.data().open_channel()),
      samples_(among_replicas(config_), std::move(samples), *channel_),
      prefetcher_(clock, [this](const samples::StepPlace& at) { return begin_micro_batches(at); }) {
  base::check(config.ranks == communicator.ranks(), "the run has as many ranks as its file says");
  if (stages_.size() > 1) {
    pipeline_.emplace(stage_ranks_, config.parallel.schedule, clock, model_);
  }
  if (measures_noise(config)) noise_probe_.emplace(device, model_, optimizer_);
  prefetcher_.set_workers(input_.choice().workers);
  prepare_looking();
  if (config.determinism.shards == 0) return;
  shard_sums_.emplace(device, communicator, clock, model_, config.determinism.shards,
                      config.sharding.optimizer);
  if (config.sharding.optimizer) {
    gatherer_.gather_ranges(granule_ranges(model_.table().arena_size, communicator.ranks()));
  }
}

TrainLoop::~TrainLoop() {
  bool failed = std::uncaught_exceptions() > 0 || reducer_.is_busy() ||
                (pipeline_ && pipeline_->is_busy()) || (shard_sums_ && shard_sums_->is_busy());
  try {
    if (!failed) gatherer_.finish_all();
  } catch (const base::Error&) {
    failed = true;
  }
  if (failed) communicator_.abandon();
}

contract::StepRecord TrainLoop::step(std::int64_t step) {
  contract::StepRecord record;
  record.step = step;
  StepTimer timer(clock_, options_.beat, step);

  // dataset shards → sampler → balancer → collator: ahead, on other threads
  timer.enter(watch::Phase::Data);
  const samples::BatchPrefetcher::Taken taken = take_batches(step);
  const LossScales scales = agree_on_scales(taken.step, batch_.schedule().batch_at(step));
  timer.lap(&record.data_seconds);
  const bool measures = measures_noise_of(step);
  if (measures) measure_half(taken.step, step, scales.half, timer);
  begin_looking(taken.step, step, scales.step, timer);
  timer.lap(&record.statistics_seconds);
  gatherer_.forget_exposed();  // what was waited for between the steps

  // model forward/backward; where they overlap, buckets ⇄ communicator, too
  sum_gradients(taken.step, scales.step, &timer, &record);
  if (replays_) compare_gradients(taken.step, scales.step, &timer, &record);

  // buckets ⇄ communicator: what is left of it
  timer.enter(watch::Phase::Reduce);
  finish_sums();
  record.exposed_seconds = sums_exposed_seconds() + gatherer_.exposed_seconds();
  timer.lap(&record.reduce_seconds);
  if (measures) measure_noise(scales, &record);  // begins the update, too
  timer.lap(&record.statistics_seconds);

  // optimizer
  timer.enter(watch::Phase::Optimizer);
  if (!measures) begin_update(scales.step, &record);
  update();
  timer.lap(&record.optimizer_seconds);

  // what all ranks did and ask for: for the run journal, and for checkpoints
  record.seconds = timer.seconds();
  StepExchange all =
      exchange(communicator_.host(), local_step(taken.step, record), stage_ranks_.grid().stages);
  record.seconds = timer.seconds();
  agreed_ = all.flags;
  pace_ = all.pace;
  ranks_ = std::move(all.each);
  ranks_.step = step;
  pace_.disturbed = pace_.disturbed || measures || replays_;
  batch_.count(step, noise_scale_);
  if (measures) observe_noise(scales);
  grow_batch(step, measures);
  describe(all, scales.step, &record);
  look_at(taken.step.batches, scales.step, &record);
  tune_input(taken, &record);
  return record;
}

// By what all ranks counted. The half's is negative (measure_half).
TrainLoop::LossScales TrainLoop::agree_on_scales(const samples::StepBatches& batches,
                                                 std::int64_t batch) {
  double masked[] = {static_cast<double>(sizes_of(batches.batches).masked),
                     static_cast<double>(sizes_of(batches.half).masked)};
  stage_ranks_.data().host().all_reduce_sum(masked, 2);
  const auto count = [](double x) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(x));
  };
  const double factor = loss_scaler_.factor();
  return {{count(masked[0]), batch, factor}, {count(masked[1]), batch / 2, -factor}};
}

// The gradient of the step's half alone, with the step's masks, before the step begins: h, negated,
// so that adding the step's own leaves the difference.
void TrainLoop::measure_half(const samples::StepBatches& batches, std::int64_t step,
                             const model::LossScale& scale, const StepTimer& timer) {
  timer.enter(watch::Phase::Forward);
  model_.zero_gradients();
  reducer_.begin(scale.factor, 0);
  if (pipeline_) {
    (void)pipeline_->train(batches.half, {step, scale, nullptr}, timer);
  } else if (shard_sums_) {
    contract::StepRecord half;
    half.step = step;
    go_through_shards(batches.half, batches.shard_half, scale, timer, &half);
  } else {
    for (const samples::PackedBatch& batch : batches.half) {
      model_.upload(batch, static_cast<std::int32_t>(step), scale);
      model_.forward(model::Mode::Training, needed_weights());
      model_.backward();
    }
  }
  finish_sums();
  noise_probe_->keep_half();
}

model::Bert::Needed TrainLoop::needed_weights() {
  if (!gatherer_.is_busy()) return nullptr;
  return [this](int begin, int end) { gatherer_.finish(begin, end); };
}

void TrainLoop::sum_gradients(const samples::StepBatches& batches, const model::LossScale& scale,
                              StepTimer* timer, contract::StepRecord* record) {
  if (options_.observer.before_forward) show_step(record->step, batches, scale);
  model_.zero_gradients();
  model_.reset_statistics();
  reducer_.begin(scale.factor, timer->start());
  if (pipeline_) {
    const model::Bert::Ready ready = [this](int tensors) { reducer_.ready(tensors); };
    const Pipeline::Seconds seconds = pipeline_->train(
        batches.batches, {record->step, scale, reducer_.overlaps() ? ready : nullptr}, *timer);
    record->forward_seconds = seconds.forward;
    record->backward_seconds = seconds.backward;
    waited_seconds_ = device_.is_on_host() ? seconds.waited : kNone;
    double all = 0;  // of the stage, told apart above
    return timer->lap(&all);
  }
  if (shard_sums_) {
    go_through_shards(batches.batches, batches.shard_batches, scale, *timer, record);
    double all = 0;  // what is beside forward and backward adds gradients up
    timer->lap(&all);
    record->backward_seconds += all - record->forward_seconds - record->backward_seconds;
    return;
  }
  for (const samples::PackedBatch& batch : batches.batches) {
    timer->enter(watch::Phase::Forward);
    model_.upload(batch, static_cast<std::int32_t>(record->step), scale);
    model_.forward(model::Mode::Training, needed_weights());
    timer->lap(&record->forward_seconds);
    timer->enter(watch::Phase::Backward);
    const bool overlap = &batch == &batches.batches.back() && reducer_.overlaps() && !replays_;
    model_.backward(overlap ? [this](int tensors) { reducer_.ready(tensors); }
                            : model::Bert::Ready(nullptr));
    timer->lap(&record->backward_seconds);
  }
}

// Each shard's gradient alone, and its statistics.
void TrainLoop::go_through_shards(const std::vector<samples::PackedBatch>& batches,
                                  const std::vector<std::size_t>& counts,
                                  const model::LossScale& scale, const StepTimer& timer,
                                  contract::StepRecord* record) {
  shard_sums_->begin();
  auto batch = batches.begin();
  for (const std::size_t count : counts) {
    model_.zero_gradients();
    model_.reset_statistics();
    for (std::size_t i = 0; i < count; ++i, ++batch) {
      timer.enter(watch::Phase::Forward);
      double mark = clock_.monotonic_seconds();
      model_.upload(*batch, static_cast<std::int32_t>(record->step), scale);
      model_.forward(model::Mode::Training, needed_weights());
      record->forward_seconds += clock_.monotonic_seconds() - mark;
      timer.enter(watch::Phase::Backward);
      mark = clock_.monotonic_seconds();
      model_.backward();
      record->backward_seconds += clock_.monotonic_seconds() - mark;
    }
    shard_sums_->add();
  }
}

double TrainLoop::sums_exposed_seconds() const {
  return shard_sums_ ? shard_sums_->exposed_seconds() : reducer_.exposed_seconds();
}

// Of what two stages have, over both: each has summed its own part over the replicas.
void TrainLoop::finish_sums() {
  if (shard_sums_) return shard_sums_->finish();
  reducer_.finish();
  ranks::Communicator* const ends = stage_ranks_.ends();
  if (ends == nullptr) return;
  const contract::TensorEntry& word = model_.table().at(contract::kWordEmbedding);
  const device::View gradient = model_.gradients().slice(word.offset, word.size);
  ends->finish(kCompute, ends->all_reduce_sum(kCompute, gradient));
}

// By the FLOPs of this replica's micro-batches on each stage, at one speed and without a link.
double TrainLoop::predicted_bubble(const std::vector<samples::PackedBatch>& batches) const {
  contract::PipelineCosts costs;
  for (const contract::Stage& stage : stages_) {
    std::vector<double>& forward = costs.forward.emplace_back();
    std::vector<double>& backward = costs.backward.emplace_back();
    for (const samples::PackedBatch& batch : batches) {
      const double flops = contract::stage_flops(model_.shape(), stage, sizes_of({batch}));
      forward.push_back(flops / 3);  // backward is twice as much
      backward.push_back(2 * flops / 3);
    }
  }
  return contract::pipeline_times(config_.parallel.schedule, costs).bubble();
}

// With sharded state, new weights are on their way to the next forward afterwards.
void TrainLoop::begin_update(const model::LossScale& scale, contract::StepRecord* record) {
  record->learning_rate =
      learning_rate(config_.optimizer, config_.steps, batch_.progress_before(record->step) + 1) *
      batch_.rate_factor(record->step, noise_scale_);
  gatherer_.finish_all();  // what no forward of this step has asked for
  if (options_.observer.before_update) options_.observer.before_update(record->step, scale, model_);
  optimizer_.begin(model_, {record->step, record->learning_rate, scale.factor});
}

void TrainLoop::update() {
  if (looks_at_updates_) update_ratio_->before(model_.parameters());
  optimizer_.update(model_);
  if (looks_at_updates_) update_ratio_->after(model_.parameters());
  if (config_.sharding.optimizer) {
    gatherer_.launch();
    if (!config_.sharding.overlap_gather) gatherer_.finish_all();
  }
  float* results = results_.floats();
  model_.read_statistics(results);
  optimizer_.read_squared_norm(results + kSumCount);
  device_.wait_host(device_.record(kCompute));  // the one point where the host reads results
}

LocalStep TrainLoop::local_step(const samples::StepBatches& batches,
                                const contract::StepRecord& record) const {
  const contract::BatchSizes sizes = sizes_of(batches.batches);
  const model::Statistics statistics = model::Bert::statistics_of(results_.floats());
  LocalStep mine;
  mine.mlm_loss = shard_sums_ ? shard_sums_->own_losses().mlm : statistics.mlm_loss;
  mine.sample_loss = shard_sums_ ? shard_sums_->own_losses().sample : statistics.sample_loss;
  mine.flops = contract::stage_flops(model_.shape(), model_.stage(), sizes);
  mine.seconds = record.seconds;
  mine.compute_seconds = record.forward_seconds + record.backward_seconds;
  mine.samples = sizes.samples;
  mine.tokens = sizes.tokens;
  mine.masked = sizes.masked;
  mine.moved_bytes = batches.moved_bytes;
  mine.input_stalled = record.input_stalled;
  if (pipeline_) {
    mine.micro_batches = std::ssize(batches.batches);
    mine.waited_seconds = waited_seconds_;
    mine.predicted_bubble = predicted_bubble(batches.batches);
  }
  if (options_.local_flags) mine.flags = options_.local_flags();
  return mine;
}

void TrainLoop::describe(const StepExchange& all, const model::LossScale& scale,
                         contract::StepRecord* record) {
  ShardSums::Losses losses{all.mlm_loss, all.sample_loss};
  if (shard_sums_) losses = shard_sums_->all_losses();
  const double sample_loss = losses.sample / static_cast<double>(scale.samples);
  const bool pretraining = config_.model.task == contract::Task::Pretraining;
  record->mlm_loss = pretraining ? losses.mlm / static_cast<double>(scale.masked) : kNone;
  record->nsp_loss = pretraining ? sample_loss : kNone;
  record->loss = pretraining ? record->mlm_loss + record->nsp_loss : sample_loss;
  record->loss_scale = scale.factor;
  const float squared_norm = results_.floats()[kSumCount];
  record->gradient_norm = std::sqrt(static_cast<double>(squared_norm)) / scale.factor;
  record->skipped = !std::isfinite(record->gradient_norm);
  record->samples = all.samples;
  record->tokens = all.tokens;
  record->masked = all.masked;
  record->flops = all.flops;
  record->moved_bytes = all.moved_bytes;
  record->imbalance = all.imbalance;
  if (batch_.grows()) record->progress = batch_.progress_before(record->step + 1);
  record->bubble = all.bubble;
  record->bubble_predicted = all.bubble_predicted;
  record->bubble_even = all.bubble_even;
  GradientReducer::Spans spans = reducer_.spans();
  record->bucket_launched = std::move(spans.launched);
  record->bucket_finished = std::move(spans.finished);
  // What is exposed beside the sums was waited for within forward.
  const double gathering = record->exposed_seconds - sums_exposed_seconds();
  const double busy =
      record->forward_seconds + record->backward_seconds + record->optimizer_seconds - gathering;
  record->utilisation = busy / record->seconds;
  if (options_.peak_flops > 0) {
    // What was measured as the run began, beside others perhaps, is no peak once a step is faster.
    const double rate = record->flops / record->seconds;
    if (options_.peak_is_measured) options_.peak_flops = std::max(options_.peak_flops, rate);
    record->mfu = rate / options_.peak_flops;
  }
  describe_noise(record);
}

// Items that the loss is a mean of, in the half of a step and beside it.
TrainLoop::HalfCounts TrainLoop::half_counts(const LossScales& scales) const {
  const bool pretraining = config_.model.task == contract::Task::Pretraining;
  const std::int64_t half = pretraining ? scales.half.masked : scales.half.samples;
  const std::int64_t all = pretraining ? scales.step.masked : scales.step.samples;
  return {static_cast<double>(half), static_cast<double>(all - half)};
}

void TrainLoop::measure_noise(const LossScales& scales, contract::StepRecord* record) {
  begin_update(scales.step, record);
  const HalfCounts counts = half_counts(scales);
  const double half_to_rest = counts.rest > 0 ? counts.half / counts.rest : 0;  // not observed
  noise_probe_->measure(record->step - 1, half_to_rest);
}

void TrainLoop::observe_noise(const LossScales& scales) {
  const HalfCounts counts = half_counts(scales);
  const NoiseNorms norms = noise_probe_->norms();
  const auto observe = [&](double difference, double whole, contract::NoiseScale* into) {
    into->observe({difference, whole, counts.half, counts.rest});
  };
  observe(norms.difference, norms.whole, &raw_noise_scale_);
  if (!norms.preconditioned) return;
  observe(norms.preconditioned->difference, norms.preconditioned->whole, &noise_scale_);
}

// By rank 0's figures: a last bit that another processor rounds otherwise may part no ranks.
void TrainLoop::grow_batch(std::int64_t step, bool measured) {
  decided_.reset();
  if (!measured || !batch_.grows()) return;
  NoiseStates noise{noise_scale_.state(), raw_noise_scale_.state()};
  communicator_.host().broadcast(&noise, sizeof noise, 0);
  noise_scale_.restore(noise[0]);
  raw_noise_scale_.restore(noise[1]);
  decided_ = batch_.decide(step, noise_scale_);
}

void TrainLoop::describe_noise(contract::StepRecord* record) const {
  record->noise_scale = noise_scale_.samples();
  record->efficiency = noise_scale_.efficiency();
  if (record->efficiency) {
    record->goodput = *record->efficiency * static_cast<double>(record->samples) / record->seconds;
  }
  if (const std::optional<contract::NoiseInterval> interval = noise_scale_.interval()) {
    record->noise_scale_low = interval->low;
    record->noise_scale_high = interval->high;
  }
  record->raw_noise_scale = raw_noise_scale_.samples();
  if (const std::optional<contract::NoiseInterval> interval = raw_noise_scale_.interval()) {
    record->raw_noise_scale_low = interval->low;
    record->raw_noise_scale_high = interval->high;
  }
}

void TrainLoop::cut(const std::vector<topology::plan::Bucket>& buckets) {
  base::check(!config_.sharding.optimizer, "parts of the state belong to no bucket");
  reducer_.cut(buckets_for(model_, buckets));
}

}  // namespace regatta::trainer::step
