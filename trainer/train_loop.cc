#include "trainer/train_loop.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "base/error.h"
#include "trainer/schedule.h"

namespace regatta::trainer {
namespace {

constexpr Stream kCompute = 0;
constexpr int kSumCount = 6;

BatchSizes sizes_of(const std::vector<PackedBatch>& batches) {
  BatchSizes sizes;
  for (const PackedBatch& batch : batches) {
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
RunConfig on_nodes(RunConfig config) {
  config.ranks_per_node = std::max(1, config.ranks_per_node);
  return config;
}

[[noreturn]] void throw_diverged(std::int64_t step, ClipMode clip) {
  throw Diverged(base::Code::User, "the loss is not finite at step " + std::to_string(step) +
                                       ": training diverged; lower optimizer.learning_rate" +
                                       (clip == ClipMode::None ? ", or clip the gradient" : ""));
}

}  // namespace

Dtype compute_dtype(Precision precision) {
  if (precision == Precision::BFloat16) return Dtype::BFloat16;
  return precision == Precision::Float16 ? Dtype::Float16 : Dtype::Float32;
}

BertOptions bert_options(const RunConfig& config, std::int64_t token_bucket) {
  BertOptions options;
  options.dropout = {config.dropout, config.attention_dropout, config.seed};
  options.compute = compute_dtype(config.dtype);
  options.room.token_bucket = config.token_bucket > 0 ? config.token_bucket : token_bucket;
  options.room.mask_fraction = config.data.mask_fraction;
  if (options.room.token_bucket > 1) options.room.max_length = config.data.max_length;
  options.repeat = config.graphs;
  return options;
}

BertOptions bert_options(const RunConfig& config, const Device& device) {
  if (!device.computes_in(compute_dtype(config.dtype))) {
    throw base::Error(base::Code::User, "dtype is " + name_of(config.dtype) + ", but this is " +
                                            device.description() +
                                            "; set dtype: float32, or device: cuda");
  }
  return bert_options(config, device.token_bucket());
}

TrainLoop::TrainLoop(Device& device, Communicator& communicator, const base::Clock& clock,
                     const RunConfig& config, const topology::Plan& plan, SampleStream samples,
                     TrainLoopOptions options)
    : device_(device),
      communicator_(communicator),
      clock_(clock),
      config_(on_nodes(config)),
      options_(std::move(options)),
      model_(device, config.model, bert_options(config, device)),
      reducer_(device, communicator, clock, model_, plan.buckets, config),
      optimizer_(device, communicator, model_.table(),
                 config.sharding.optimizer
                     ? sharded_state(model_.table(), plan.buckets, communicator)
                     : whole_state(model_.table()),
                 config.optimizer, config.clip == ClipMode::Global ? config.clip_norm : 0.0),
      gatherer_(device, communicator, clock, model_, plan.buckets),
      slices_(slices_of(model_.table(), plan.buckets)),
      loss_scaler_(config.dtype),
      noise_scale_(config.batch_size,
                   config.base_batch > 0 ? config.base_batch : config.batch_size),
      results_(device, 4 * (kSumCount + 1)),
      channel_(communicator.open_channel()),
      samples_(config_, std::move(samples), *channel_),
      prefetcher_([this](std::int64_t step) { return collect_micro_batches(step); }, config.steps) {
  base::check(config.ranks == communicator.ranks(), "the run has as many ranks as its file says");
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

// sampler → balancer → collator: this rank's share of the step, packed.
StepBatches TrainLoop::collect_micro_batches(std::int64_t step) {
  const StepShare share = samples_.share(step);
  StepBatches batches;
  batches.moved_bytes = share.moved_bytes;
  const std::size_t all = share.samples.size();
  const auto most = config_.micro_batch_size > 0
                        ? static_cast<std::size_t>(config_.micro_batch_size)
                        : std::max<std::size_t>(1, all);
  for (std::size_t begin = 0; begin < all; begin += most) {
    const auto from = static_cast<std::ptrdiff_t>(begin);
    const auto to = static_cast<std::ptrdiff_t>(std::min(all, begin + most));
    batches.batches.push_back(
        collate({share.samples.begin() + from, share.samples.begin() + to},
                {share.ordinals.begin() + from, share.ordinals.begin() + to}));
  }
  return batches;
}

StepRecord TrainLoop::step(std::int64_t step) {
  StepRecord record;
  record.step = step;
  const double start = clock_.monotonic_seconds();
  double mark = start;
  const auto lap = [&](double* phase) {
    const double now = clock_.monotonic_seconds();
    *phase += now - mark;
    mark = now;
  };
  const auto enter = [&](Phase phase) {
    if (options_.beat) options_.beat(step, phase);
  };

  enter(Phase::Data);
  const BatchPrefetcher::Taken taken = prefetcher_.take(step);
  const std::vector<PackedBatch>& batches = taken.step.batches;
  record.input_stalled = taken.stalled;
  const BatchSizes sizes = sizes_of(batches);
  double masked = static_cast<double>(sizes.masked);
  communicator_.host().all_reduce_sum(&masked, 1);
  const LossScale scale{std::max<std::int64_t>(1, static_cast<std::int64_t>(masked)),
                        config_.batch_size, loss_scaler_.factor()};
  lap(&record.data_seconds);

  model_.zero_gradients();
  model_.reset_statistics();
  reducer_.begin(scale.factor, start);
  for (const PackedBatch& batch : batches) {
    enter(Phase::Forward);
    model_.upload(batch, static_cast<std::int32_t>(step), scale);
    model_.forward(Mode::Training,
                   gatherer_.is_busy()
                       ? [this](int begin, int end) { gatherer_.finish(begin, end); }
                       : Bert::Needed(nullptr));
    lap(&record.forward_seconds);
    enter(Phase::Backward);
    const bool overlap = &batch == &batches.back() && reducer_.overlaps();
    model_.backward(overlap ? [this](int tensors) { reducer_.ready(tensors); }
                            : Bert::Ready(nullptr));
    lap(&record.backward_seconds);
  }
  enter(Phase::Reduce);
  reducer_.finish();
  record.exposed_seconds = reducer_.exposed_seconds() + gatherer_.exposed_seconds();
  lap(&record.reduce_seconds);

  enter(Phase::Optimizer);
  record.learning_rate = learning_rate(config_.optimizer, config_.steps, step);
  update(step, record.learning_rate, scale.factor);
  float* results = results_.floats();
  model_.read_statistics(results);
  optimizer_.read_squared_norm(results + kSumCount);
  reducer_.read_local_norms();
  device_.wait_host(device_.record(kCompute));  // the one point where the host reads results
  lap(&record.optimizer_seconds);

  record.seconds = clock_.monotonic_seconds() - start;
  const std::vector<RankStep> ranks =
      tell(what_this_rank_did(sizes, Bert::statistics_of(results), taken.step.moved_bytes, record));
  record.gradient_norm = std::sqrt(static_cast<double>(results[kSumCount])) / scale.factor;
  record.seconds = clock_.monotonic_seconds() - start;
  describe(ranks, scale, &record);
  if (!std::isfinite(record.loss) || !loss_scaler_.observe(!record.skipped)) {
    throw_diverged(step, config_.clip);
  }
  return record;
}

TrainLoop::RankStep TrainLoop::what_this_rank_did(const BatchSizes& sizes,
                                                  const Statistics& statistics,
                                                  std::int64_t moved_bytes,
                                                  const StepRecord& record) const {
  RankStep mine;
  mine.mlm_loss = statistics.mlm_loss;
  mine.nsp_loss = statistics.nsp_loss;
  mine.samples = static_cast<double>(sizes.samples);
  mine.tokens = static_cast<double>(sizes.tokens);
  mine.masked = static_cast<double>(sizes.masked);
  mine.flops = training_flops(model_.shape(), sizes);
  mine.moved_bytes = static_cast<double>(moved_bytes);
  mine.squared_norm = reducer_.squared_local_norm();
  mine.seconds = record.seconds;
  mine.input_stalled = record.input_stalled ? 1 : 0;
  const StepFlags wishes = options_.wishes ? options_.wishes() : StepFlags{};
  mine.stop = wishes.stop ? 1 : 0;
  mine.checkpoint = wishes.checkpoint ? 1 : 0;
  mine.fenced = wishes.fenced ? 1 : 0;
  mine.out_of_time = wishes.out_of_time ? 1 : 0;
  mine.writing = wishes.writing ? 1 : 0;
  mine.write_failed = wishes.write_failed ? 1 : 0;
  return mine;
}

// optimizer; with sharded state, on its way to the next forward.
void TrainLoop::update(std::int64_t step, double learning_rate, double loss_scale) {
  gatherer_.finish_all();  // what no forward of this step has asked for
  optimizer_.update(model_, {step, learning_rate, loss_scale});
  if (!config_.sharding.optimizer) return;
  gatherer_.launch();
  if (!config_.sharding.overlap_gather) gatherer_.finish_all();
}

std::vector<TrainLoop::RankStep> TrainLoop::tell(const RankStep& mine) {
  std::vector<RankStep> ranks(static_cast<std::size_t>(communicator_.ranks()));
  communicator_.host().all_gather(&mine, sizeof mine, ranks.data());
  agreed_ = {};
  pace_ = {};
  for (const RankStep& rank : ranks) {
    pace_.seconds = std::max(pace_.seconds, rank.seconds);
    pace_.flops = std::max(pace_.flops, rank.flops);
    pace_.disturbed = pace_.disturbed || rank.input_stalled > 0 || rank.writing > 0;
    agreed_.stop = agreed_.stop || rank.stop > 0;
    agreed_.checkpoint = agreed_.checkpoint || rank.checkpoint > 0;
    agreed_.fenced = agreed_.fenced || rank.fenced > 0;
    agreed_.out_of_time = agreed_.out_of_time || rank.out_of_time > 0;
    agreed_.writing = agreed_.writing || rank.writing > 0;
    agreed_.write_failed = agreed_.write_failed || rank.write_failed > 0;
  }
  return ranks;
}

void TrainLoop::describe(const std::vector<RankStep>& ranks, const LossScale& scale,
                         StepRecord* record) {
  RankStep sum;
  double most_tokens = 0;
  GradientNorms norms;
  for (const RankStep& rank : ranks) {
    sum.mlm_loss += rank.mlm_loss;
    sum.nsp_loss += rank.nsp_loss;
    sum.samples += rank.samples;
    sum.tokens += rank.tokens;
    sum.masked += rank.masked;
    sum.flops += rank.flops;
    sum.moved_bytes += rank.moved_bytes;
    most_tokens = std::max(most_tokens, rank.tokens);
    norms.squared_local.push_back(rank.squared_norm / (scale.factor * scale.factor));
    norms.counts.push_back(rank.masked);
  }
  record->mlm_loss = sum.mlm_loss / static_cast<double>(scale.masked);
  record->nsp_loss = sum.nsp_loss / static_cast<double>(scale.samples);
  record->loss = record->mlm_loss + record->nsp_loss;
  record->loss_scale = scale.factor;
  record->skipped = !std::isfinite(record->gradient_norm);
  record->samples = static_cast<std::int64_t>(sum.samples);
  record->tokens = static_cast<std::int64_t>(sum.tokens);
  record->masked = static_cast<std::int64_t>(sum.masked);
  record->flops = sum.flops;
  record->moved_bytes = static_cast<std::int64_t>(sum.moved_bytes);
  record->imbalance = most_tokens * static_cast<double>(ranks.size()) / std::max(1.0, sum.tokens);
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
  // Clipped gradients tell nothing about the noise of the others.
  if (ranks.size() > 1 && config_.clip != ClipMode::Bucket && config_.clip != ClipMode::Rank) {
    norms.squared_global = record->gradient_norm * record->gradient_norm;
    noise_scale_.observe(norms);
  }
  record->noise_scale = noise_scale_.samples();
  record->efficiency = noise_scale_.efficiency();
  if (record->efficiency) {
    record->goodput = *record->efficiency * static_cast<double>(record->samples) / record->seconds;
  }
}

EvalRecord TrainLoop::evaluate(const std::vector<Sample>& samples, std::int64_t step) {
  const double start = clock_.monotonic_seconds();
  if (options_.beat) options_.beat(step, Phase::Evaluating);
  gatherer_.finish_all();
  model_.reset_statistics();
  double totals[kSumCount] = {};
  std::vector<Sample> chunk;
  std::vector<std::int32_t> ordinals;
  std::int64_t tokens = 0;
  const auto flush = [&] {
    if (chunk.empty()) return;
    const PackedBatch batch = collate(chunk, ordinals);
    model_.upload(batch, 0, {});
    model_.forward(Mode::Evaluation);
    float* sums = results_.floats();
    model_.read_statistics(sums);
    model_.reset_statistics();
    device_.wait_host(device_.record(kCompute));
    for (int i = 0; i < kSumCount; ++i) totals[i] += static_cast<double>(sums[i]);
    chunk.clear();
    ordinals.clear();
    tokens = 0;
  };
  for (std::size_t i = static_cast<std::size_t>(communicator_.rank()); i < samples.size();
       i += static_cast<std::size_t>(communicator_.ranks())) {
    chunk.push_back(samples[i]);
    ordinals.push_back(static_cast<std::int32_t>(i));
    tokens += static_cast<std::int64_t>(samples[i].ids.size());
    if (tokens >= kEvaluationTokens) flush();
  }
  flush();
  communicator_.host().all_reduce_sum(totals, kSumCount);
  EvalRecord record;
  record.step = step;
  record.mlm_loss = totals[0] / std::max(1.0, totals[2]);
  record.mlm_accuracy = totals[1] / std::max(1.0, totals[2]);
  record.nsp_accuracy = totals[4] / std::max(1.0, totals[5]);
  record.samples = static_cast<std::int64_t>(totals[5]);
  record.seconds = clock_.monotonic_seconds() - start;
  return record;
}

void TrainLoop::load(const StateShard& whole) {
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
  }
  device_.synchronize();
}

// Bucket by bucket the whole travels, and each rank keeps its pieces: a state fits any number of
// ranks, and no rank ever holds all of it.
void TrainLoop::load_moment(View moment, const float* from) {
  const bool source = communicator_.rank() == 0;
  if (!config_.sharding.optimizer) {
    if (source) device_.copy_to_device(kCompute, moment, from);
    return communicator_.finish(kCompute, communicator_.broadcast(kCompute, moment, 0));
  }
  for_each_bucket([&](const ArenaSlice& slice, View whole) {
    if (source) device_.copy_to_device(kCompute, whole, from + slice.begin);
    communicator_.finish(kCompute, communicator_.broadcast(kCompute, whole, 0));
    for (const StatePiece& piece : pieces_in(slice)) {
      device_.copy(kCompute, moment.slice(piece.state_begin, piece.size),
                   whole.slice(piece.arena_begin - slice.begin, piece.size));
    }
  });
}

void TrainLoop::for_each_bucket(const std::function<void(const ArenaSlice&, View)>& body) {
  std::int64_t largest = 0;
  for (const ArenaSlice& slice : slices_) largest = std::max(largest, slice.size);
  const DeviceMemory memory(device_, largest, Dtype::Float32);
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

void TrainLoop::cut(const std::vector<topology::Bucket>& buckets) {
  base::check(!config_.sharding.optimizer, "parts of the state belong to no bucket");
  reducer_.cut(buckets);
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
  device_.synchronize();
}

}  // namespace regatta::trainer
