#include "trainer/step/train_loop.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include "base/error.h"
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

// Of at most `most` samples each; 0: one of all.
std::vector<samples::PackedBatch> micro_batches(const samples::StepShare& share, int most) {
  std::vector<samples::PackedBatch> batches;
  const std::ptrdiff_t all = std::ssize(share.samples);
  const std::ptrdiff_t step = most > 0 ? most : std::max<std::ptrdiff_t>(1, all);
  for (std::ptrdiff_t from = 0; from < all; from += step) {
    const std::ptrdiff_t to = std::min(all, from + step);
    batches.push_back(
        samples::collate({share.samples.begin() + from, share.samples.begin() + to},
                         {share.ordinals.begin() + from, share.ordinals.begin() + to}));
  }
  return batches;
}

// Where nobody has found how many ranks share a node, each has its own.
contract::RunConfig on_nodes(contract::RunConfig config) {
  config.ranks_per_node = std::max(1, config.ranks_per_node);
  return config;
}

contract::NoiseScale noise_scale_of(const contract::RunConfig& config) {
  return {config.batch_size, std::max(1, config.base_batch)};
}

}  // namespace

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
      model_(device, config.model, bert_options(config, device)),
      reducer_(device, communicator, clock, model_, plan.buckets, config),
      optimizer_(
          device, communicator, model_.table(),
          config.sharding.optimizer ? sharded_state(model_.table(), plan.buckets, communicator)
                                    : whole_state(model_.table()),
          config.optimizer, config.clip == contract::ClipMode::Global ? config.clip_norm : 0.0,
          learning_rate_factors(model_.table(), config.model, config.fine_tuning)),
      gatherer_(device, communicator, clock, model_, plan.buckets),
      slices_(slices_of(model_.table(), plan.buckets)),
      loss_scaler_(config.dtype),
      noise_scale_(noise_scale_of(config)),
      raw_noise_scale_(noise_scale_of(config)),
      results_(device, 4 * (kSumCount + 1)),
      channel_(communicator.open_channel()),
      samples_(config_, std::move(samples), *channel_),
      prefetcher_([this](std::int64_t step) { return collect_micro_batches(step); }, config.steps) {
  base::check(config.ranks == communicator.ranks(), "the run has as many ranks as its file says");
  if (measures_noise(config)) noise_probe_.emplace(device, model_, optimizer_);
}

TrainLoop::~TrainLoop() {
  bool failed = std::uncaught_exceptions() > 0 || reducer_.is_busy();
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

  // dataset shards → sampler → balancer → collator: one step ahead, on another thread
  timer.enter(watch::Phase::Data);
  const samples::BatchPrefetcher::Taken taken = prefetcher_.take(step);
  record.input_stalled = taken.stalled;
  const LossScales scales = agree_on_scales(taken.step);
  timer.lap(&record.data_seconds);
  const bool measures = measures_noise_of(step);
  if (measures) measure_half(taken.step, step, scales.half, timer);
  timer.lap(&record.statistics_seconds);

  // model forward/backward; where they overlap, buckets ⇄ communicator, too
  sum_gradients(taken.step, scales.step, &timer, &record);

  // buckets ⇄ communicator: what is left of it
  timer.enter(watch::Phase::Reduce);
  reducer_.finish();
  record.exposed_seconds = reducer_.exposed_seconds() + gatherer_.exposed_seconds();
  timer.lap(&record.reduce_seconds);
  if (measures) noise_probe_->measure(step - 1);
  timer.lap(&record.statistics_seconds);

  // optimizer
  timer.enter(watch::Phase::Optimizer);
  update(scales.step, &record);
  timer.lap(&record.optimizer_seconds);

  // what all ranks did and ask for: for the run journal, and for checkpoints
  record.seconds = timer.seconds();
  StepExchange all = exchange(communicator_.host(), local_step(taken.step, record));
  record.seconds = timer.seconds();
  agreed_ = all.flags;
  pace_ = all.pace;
  ranks_ = std::move(all.each);
  ranks_.step = step;
  pace_.disturbed = pace_.disturbed || measures;
  if (measures) observe_noise(scales.half, scales.step);
  describe(all, scales.step, &record);
  if (!std::isfinite(record.loss) || !loss_scaler_.observe(!record.skipped)) {
    diverge(record, taken.step.batches, scales.step);
  }
  return record;
}

// sampler → balancer → collator: this rank's share of the step, packed.
samples::StepBatches TrainLoop::collect_micro_batches(std::int64_t step) {
  const samples::StepShare share = samples_.share(step + skipped_steps_);
  samples::StepBatches batches;
  batches.moved_bytes = share.moved_bytes;
  batches.batches = micro_batches(share, config_.micro_batch_size);
  if (!measures_noise_of(step)) return batches;
  const std::vector<bool> in_half = half_of_step(config_.seed, step, config_.batch_size);
  samples::StepShare half;
  for (std::size_t i = 0; i < share.samples.size(); ++i) {
    if (!in_half[static_cast<std::size_t>(share.ordinals[i])]) continue;
    half.ordinals.push_back(share.ordinals[i]);
    half.samples.push_back(share.samples[i]);
  }
  batches.half = micro_batches(half, config_.micro_batch_size);
  return batches;
}

bool TrainLoop::measures_noise_of(std::int64_t step) const {
  return measures_noise(config_) && step % config_.statistics_every == 0;
}

// By what all ranks counted. The half's is negative (measure_half).
TrainLoop::LossScales TrainLoop::agree_on_scales(const samples::StepBatches& batches) {
  double masked[] = {static_cast<double>(sizes_of(batches.batches).masked),
                     static_cast<double>(sizes_of(batches.half).masked)};
  communicator_.host().all_reduce_sum(masked, 2);
  const auto count = [](double x) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(x));
  };
  const double factor = loss_scaler_.factor();
  return {{count(masked[0]), config_.batch_size, factor},
          {count(masked[1]), config_.batch_size / 2, -factor}};
}

// The gradient of the step's half alone, with the step's masks, before the step begins: h, negated,
// so that adding the step's own leaves the difference.
void TrainLoop::measure_half(const samples::StepBatches& batches, std::int64_t step,
                             const model::LossScale& scale, const StepTimer& timer) {
  timer.enter(watch::Phase::Forward);
  model_.zero_gradients();
  reducer_.begin(scale.factor, 0);
  for (const samples::PackedBatch& batch : batches.half) {
    model_.upload(batch, static_cast<std::int32_t>(step), scale);
    model_.forward(model::Mode::Training, needed_weights());
    model_.backward();
  }
  reducer_.finish();
  noise_probe_->keep_half();
}

model::Bert::Needed TrainLoop::needed_weights() {
  if (!gatherer_.is_busy()) return nullptr;
  return [this](int begin, int end) { gatherer_.finish(begin, end); };
}

void TrainLoop::sum_gradients(const samples::StepBatches& batches, const model::LossScale& scale,
                              StepTimer* timer, contract::StepRecord* record) {
  model_.zero_gradients();
  model_.reset_statistics();
  reducer_.begin(scale.factor, timer->start());
  for (const samples::PackedBatch& batch : batches.batches) {
    timer->enter(watch::Phase::Forward);
    model_.upload(batch, static_cast<std::int32_t>(record->step), scale);
    model_.forward(model::Mode::Training, needed_weights());
    timer->lap(&record->forward_seconds);
    timer->enter(watch::Phase::Backward);
    const bool overlap = &batch == &batches.batches.back() && reducer_.overlaps();
    model_.backward(overlap ? [this](int tensors) { reducer_.ready(tensors); }
                            : model::Bert::Ready(nullptr));
    timer->lap(&record->backward_seconds);
  }
}

// With sharded state, new weights are on their way to the next forward afterwards.
void TrainLoop::update(const model::LossScale& scale, contract::StepRecord* record) {
  record->learning_rate = learning_rate(config_.optimizer, config_.steps, record->step);
  gatherer_.finish_all();  // what no forward of this step has asked for
  optimizer_.update(model_, {record->step, record->learning_rate, scale.factor});
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
  mine.mlm_loss = statistics.mlm_loss;
  mine.sample_loss = statistics.sample_loss;
  mine.flops = contract::training_flops(model_.shape(), sizes);
  mine.seconds = record.seconds;
  mine.compute_seconds = record.forward_seconds + record.backward_seconds;
  mine.samples = sizes.samples;
  mine.tokens = sizes.tokens;
  mine.masked = sizes.masked;
  mine.moved_bytes = batches.moved_bytes;
  mine.input_stalled = record.input_stalled;
  if (options_.local_flags) mine.flags = options_.local_flags();
  return mine;
}

void TrainLoop::describe(const StepExchange& all, const model::LossScale& scale,
                         contract::StepRecord* record) {
  const double sample_loss = all.sample_loss / static_cast<double>(scale.samples);
  const bool pretraining = config_.model.task == contract::Task::Pretraining;
  record->mlm_loss = pretraining ? all.mlm_loss / static_cast<double>(scale.masked) : kNone;
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
  GradientReducer::Spans spans = reducer_.spans();
  record->bucket_launched = std::move(spans.launched);
  record->bucket_finished = std::move(spans.finished);
  // What is exposed beside the sums was waited for within forward.
  const double gathering = record->exposed_seconds - reducer_.exposed_seconds();
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

// By what the loss is a mean of.
void TrainLoop::observe_noise(const model::LossScale& half, const model::LossScale& scale) {
  const bool pretraining = config_.model.task == contract::Task::Pretraining;
  const std::int64_t half_count = pretraining ? half.masked : half.samples;
  const std::int64_t count = pretraining ? scale.masked : scale.samples;
  const NoiseNorms norms = noise_probe_->norms();
  const auto observe = [&](double difference, double whole, contract::NoiseScale* into) {
    const double unscaled = 1 / (scale.factor * scale.factor);
    into->observe({difference * unscaled, whole * unscaled, static_cast<double>(half_count),
                   static_cast<double>(count - half_count)});
  };
  observe(norms.difference, norms.whole, &raw_noise_scale_);
  if (!norms.preconditioned) return;
  observe(norms.preconditioned->difference, norms.preconditioned->whole, &noise_scale_);
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

void TrainLoop::diverge(const contract::StepRecord& record,
                        const std::vector<samples::PackedBatch>& batches,
                        const model::LossScale& scale) {
  gatherer_.finish_all();
  const NotFinite first = first_not_finite(device_, communicator_.host(), model_,
                                           {record.step, batches, scale, optimizer_.pieces()});
  const std::string where = to_text(first, communicator_.ranks());
  throw Diverged(std::string(std::isfinite(record.loss) ? "the gradient" : "the loss") +
                     " is not finite at step " + std::to_string(record.step) +
                     (where.empty() ? "" : " (first: " + where + ")"),
                 record.step, first);
}

contract::EvalRecord TrainLoop::evaluate(const std::vector<samples::Sample>& samples,
                                         std::int64_t step) {
  const double start = clock_.monotonic_seconds();
  if (options_.beat) options_.beat(step, watch::Phase::Evaluating);
  gatherer_.finish_all();
  EvaluationSums sums =
      evaluate_share(device_, model_, samples, communicator_.rank(), communicator_.ranks());
  communicator_.host().all_reduce_sum(sums.data(), static_cast<int>(sums.size()));
  contract::EvalRecord record = evaluation_of(sums, step);
  record.seconds = clock_.monotonic_seconds() - start;
  return record;
}

contract::EvalRecord TrainLoop::evaluate(const tasks::JudgedSet& set, std::int64_t step) {
  const double start = clock_.monotonic_seconds();
  if (options_.beat) options_.beat(step, watch::Phase::Evaluating);
  gatherer_.finish_all();
  contract::EvalRecord record = judge(
      communicator_.host(), set,
      logits_share(device_, model_, set.samples(), communicator_.rank(), communicator_.ranks()),
      step);
  record.seconds = clock_.monotonic_seconds() - start;
  return record;
}

void TrainLoop::load(const StateShard& whole) {
  gatherer_.finish_all();  // no weights of a step before arrive later
  const bool source = communicator_.rank() == 0;
  double header[3] = {whole.first_moment == nullptr ? 0.0 : 1.0, whole.loss_scale,
                      static_cast<double>(whole.good_steps)};
  communicator_.host().broadcast(header, sizeof header, 0);
  if (source) {
    base::check(is_whole(whole, model_.table()), "the state is a whole one");
    device_.copy_to_device(kCompute, model_.parameters(), whole.parameters);
  }
  communicator_.finish(kCompute, communicator_.broadcast(kCompute, model_.parameters(), 0));
  model_.renew_compute_copy();
  loss_scaler_ = LossScaler(config_.dtype, header[1], static_cast<std::int64_t>(header[2]));
  if (header[0] > 0) {
    load_moment(optimizer_.first_moment(), whole.first_moment);
    load_moment(optimizer_.second_moment(), whole.second_moment);
  } else {
    device_.fill_zero(kCompute, optimizer_.first_moment());
    device_.fill_zero(kCompute, optimizer_.second_moment());
  }
  NoiseStates noise = whole.noise;
  communicator_.host().broadcast(&noise, sizeof noise, 0);
  noise_scale_.restore(noise[0]);
  raw_noise_scale_.restore(noise[1]);
  device_.synchronize();
}

// Bucket by bucket the whole travels, and each rank keeps its pieces: a state fits any number of
// ranks, and no rank ever holds all of it.
void TrainLoop::load_moment(device::View moment, const float* from) {
  const bool source = communicator_.rank() == 0;
  if (!config_.sharding.optimizer) {
    if (source) device_.copy_to_device(kCompute, moment, from);
    return communicator_.finish(kCompute, communicator_.broadcast(kCompute, moment, 0));
  }
  for_each_bucket([&](const ArenaSlice& slice, device::View whole) {
    if (source) device_.copy_to_device(kCompute, whole, from + slice.begin);
    communicator_.finish(kCompute, communicator_.broadcast(kCompute, whole, 0));
    for (const StatePiece& piece : pieces_in(slice)) {
      device_.copy(kCompute, moment.slice(piece.state_begin, piece.size),
                   whole.slice(piece.arena_begin - slice.begin, piece.size));
    }
  });
}

void TrainLoop::for_each_bucket(const std::function<void(const ArenaSlice&, device::View)>& body) {
  std::int64_t largest = 0;
  for (const ArenaSlice& slice : slices_) largest = std::max(largest, slice.size);
  const device::DeviceMemory memory(device_, largest, device::Dtype::Float32);
  for (const ArenaSlice& slice : slices_) {
    body(slice, memory.view().slice(0, slice.size));
  }
  device_.synchronize();
}

// What of this rank's state lies in a bucket.
std::vector<StatePiece> TrainLoop::pieces_in(const ArenaSlice& slice) const {
  std::vector<StatePiece> found;
  for (const StatePiece& piece : optimizer_.pieces()) {
    const std::int64_t begin = std::max(piece.arena_begin, slice.begin);
    const std::int64_t end = std::min(piece.arena_begin + piece.size, slice.begin + slice.size);
    if (begin < end) {
      found.push_back({begin, end - begin, piece.state_begin + begin - piece.arena_begin});
    }
  }
  return found;
}

void TrainLoop::cut(const std::vector<topology::plan::Bucket>& buckets) {
  base::check(!config_.sharding.optimizer, "parts of the state belong to no bucket");
  reducer_.cut(buckets);
}

void TrainLoop::skip(std::int64_t steps) {
  prefetcher_.forget();
  skipped_steps_ = steps;
}

void TrainLoop::snapshot(Snapshot* to) {
  gatherer_.finish_all();
  if (to == nullptr) return;
  if (to->parameters() != nullptr) {
    device_.copy_to_host(kCompute, to->parameters(), model_.parameters());
  }
  if (to->first_moment() != nullptr) {
    device_.copy_to_host(kCompute, to->first_moment(), optimizer_.first_moment());
    device_.copy_to_host(kCompute, to->second_moment(), optimizer_.second_moment());
  }
  if (loss_scaler_.is_dynamic()) {
    to->set_loss_scale(loss_scaler_.factor(), loss_scaler_.good_steps());
  }
  to->set_noise({noise_scale_.state(), raw_noise_scale_.state()});
  device_.synchronize();
}

}  // namespace regatta::trainer::step
