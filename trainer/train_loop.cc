#include "trainer/train_loop.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "trainer/balancer.h"
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
                     const RunConfig& config, const topology::Plan& plan,
                     const SampleSource& samples)
    : device_(device),
      communicator_(communicator),
      clock_(clock),
      config_(config),
      plan_(plan),
      samples_(samples),
      model_(device, config.model, bert_options(config, device)),
      optimizer_(device, model_.table(), config.optimizer,
                 config.clip == ClipMode::Global ? config.clip_norm : 0.0),
      loss_scaler_(config.dtype),
      results_(device, 4 * (kSumCount + 1)),
      prefetcher_([this](std::int64_t step) { return collect_micro_batches(step); }, config.steps) {
  base::check(!plan.buckets.empty() &&
                  plan.buckets.back().end_tensor == static_cast<int>(model_.table().tensors.size()),
              "the plan's buckets cover the tensor table");
}

TrainLoop::~TrainLoop() {
  if (!reductions_.empty()) communicator_.abandon();
}

// sampler → balancer → collator: this rank's share of the step, packed.
std::vector<PackedBatch> TrainLoop::collect_micro_batches(std::int64_t step) const {
  std::vector<PackedBatch> batches;
  const std::int64_t first = (step - 1) * config_.batch_size;
  for (const MicroBatch& ordinals : balance(config_.batch_size, communicator_.ranks(),
                                            communicator_.rank(), config_.micro_batch_size)) {
    std::vector<Sample> samples;
    for (const std::int32_t ordinal : ordinals) samples.push_back(samples_.at(first + ordinal));
    batches.push_back(collate(samples, ordinals));
  }
  return batches;
}

// buckets ⇄ communicator: slices of the gradient arena, never copies. A bucket's reduction begins
// as soon as the gradients of its tensors, which are the first `tensors` of the table, are
// enqueued.
void TrainLoop::launch_buckets(int tensors) {
  const std::vector<TensorEntry>& table = model_.table().tensors;
  while (reductions_.size() < plan_.buckets.size() &&
         plan_.buckets[reductions_.size()].end_tensor <= tensors) {
    const topology::Bucket& bucket = plan_.buckets[reductions_.size()];
    const std::int64_t begin = table[static_cast<std::size_t>(bucket.begin_tensor)].offset;
    const TensorEntry& last = table[static_cast<std::size_t>(bucket.end_tensor - 1)];
    reductions_.push_back(communicator_.all_reduce_sum(
        kCompute, model_.gradients().slice(begin, last.offset + last.size - begin)));
  }
}

void TrainLoop::finish_buckets() {
  base::check(reductions_.size() == plan_.buckets.size(), "every bucket was ready in backward");
  for (const Pending reduction : reductions_) communicator_.finish(kCompute, reduction);
  reductions_.clear();
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

  const BatchPrefetcher::Taken taken = prefetcher_.take(step);
  record.input_stalled = taken.stalled;
  const BatchSizes sizes = sizes_of(taken.batches);
  double masked = static_cast<double>(sizes.masked);
  communicator_.host().all_reduce_sum(&masked, 1);
  const LossScale scale{std::max<std::int64_t>(1, static_cast<std::int64_t>(masked)),
                        config_.batch_size, loss_scaler_.factor()};
  lap(&record.data_seconds);

  model_.zero_gradients();
  model_.reset_statistics();
  const bool alone = communicator_.ranks() == 1;
  for (const PackedBatch& batch : taken.batches) {
    model_.upload(batch, static_cast<std::int32_t>(step), scale);
    model_.forward(Mode::Training);
    lap(&record.forward_seconds);
    const bool last = &batch == &taken.batches.back();
    model_.backward(last && !alone ? [this](int tensors) { launch_buckets(tensors); }
                                   : Bert::Ready(nullptr));
    lap(&record.backward_seconds);
  }
  launch_buckets(static_cast<int>(model_.table().tensors.size()));  // where backward had no share
  finish_buckets();
  lap(&record.reduce_seconds);
  record.learning_rate = learning_rate(config_.optimizer, config_.steps, step);
  optimizer_.update(model_, {step, record.learning_rate, scale.factor});

  float* results = results_.floats();
  model_.read_statistics(results);
  optimizer_.read_squared_norm(results + kSumCount);
  device_.wait_host(device_.record(kCompute));  // the one point where the host reads results
  lap(&record.optimizer_seconds);

  const Statistics statistics = Bert::statistics_of(results);
  double totals[6] = {statistics.mlm_loss,
                      statistics.nsp_loss,
                      static_cast<double>(sizes.samples),
                      static_cast<double>(sizes.tokens),
                      static_cast<double>(sizes.masked),
                      training_flops(model_.shape(), sizes)};
  communicator_.host().all_reduce_sum(totals, 6);
  record.mlm_loss = totals[0] / static_cast<double>(scale.masked);
  record.nsp_loss = totals[1] / static_cast<double>(scale.samples);
  record.loss = record.mlm_loss + record.nsp_loss;
  record.gradient_norm = std::sqrt(static_cast<double>(results[kSumCount])) / scale.factor;
  record.loss_scale = scale.factor;
  record.skipped = !std::isfinite(record.gradient_norm);
  record.samples = static_cast<std::int64_t>(totals[2]);
  record.tokens = static_cast<std::int64_t>(totals[3]);
  record.masked = static_cast<std::int64_t>(totals[4]);
  record.flops = totals[5];
  record.seconds = clock_.monotonic_seconds() - start;
  if (!std::isfinite(record.loss) || !loss_scaler_.observe(!record.skipped)) {
    throw base::Error(base::Code::User, "the loss is not finite at step " + std::to_string(step) +
                                            "; lower optimizer.learning_rate or clip the gradient");
  }
  return record;
}

EvalRecord TrainLoop::evaluate(const std::vector<Sample>& samples, std::int64_t step) {
  const double start = clock_.monotonic_seconds();
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

void TrainLoop::load(const TrainingState& state) {
  const auto put = [&](View to, const std::vector<float>& from) {
    base::check(to.size == static_cast<std::int64_t>(from.size()),
                "the state has the arena's size");
    device_.copy_to_device(kCompute, to, from.data());
  };
  put(model_.parameters(), state.parameters);
  model_.renew_compute_copy();
  loss_scaler_ = LossScaler(config_.dtype, state.loss_scale, state.good_steps);
  if (!state.first_moment.empty()) {
    put(optimizer_.first_moment(), state.first_moment);
    put(optimizer_.second_moment(), state.second_moment);
  }
  device_.synchronize();
}

TrainingState TrainLoop::save() {
  TrainingState state;
  const auto get = [&](std::vector<float>* to, View from) {
    to->resize(static_cast<std::size_t>(from.size));
    device_.copy_to_host(kCompute, to->data(), from);
  };
  get(&state.parameters, model_.parameters());
  get(&state.first_moment, optimizer_.first_moment());
  get(&state.second_moment, optimizer_.second_moment());
  if (loss_scaler_.is_dynamic()) {
    state.loss_scale = loss_scaler_.factor();
    state.good_steps = loss_scaler_.good_steps();
  }
  device_.synchronize();
  return state;
}

}  // namespace regatta::trainer
