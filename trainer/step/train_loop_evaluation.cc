// How a training loop's model does: evaluations, shared out among ranks or shards.
#include <utility>

#include "trainer/step/train_loop.h"

namespace regatta::trainer::step {

StagedForward TrainLoop::staged_forward() {
  if (!pipeline_) return {};
  return {[this](const samples::PackedBatch& batch) { pipeline_->evaluate(batch); },
          model_.stage().has_head()};
}

EvaluationSums TrainLoop::sums_of_ranks(const std::vector<samples::Sample>& samples) {
  EvaluationSums sums = evaluate_share(device_, model_, samples, stage_ranks_.replica(),
                                       stage_ranks_.grid().data, staged_forward());
  if (pipeline_) pipeline_->finish_sends();
  communicator_.host().all_reduce_sum(sums.data(), static_cast<int>(sums.size()));
  return sums;
}

// Each shard scores what a rank would, were there as many, and all are added in their order.
EvaluationSums TrainLoop::sums_of_shards(const std::vector<samples::Sample>& samples) {
  std::vector<EvaluationSums> own;
  for (int i = 0; i < shard_sums_->count(); ++i) {
    own.push_back(
        evaluate_share(device_, model_, samples, shard_sums_->first() + i, shard_sums_->shards()));
  }
  std::vector<EvaluationSums> all(static_cast<std::size_t>(shard_sums_->shards()));
  communicator_.host().all_gather(
      own.data(), static_cast<std::int64_t>(sizeof(EvaluationSums) * own.size()), all.data());
  EvaluationSums sums{};
  for (const EvaluationSums& one : all) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += one[i];
  }
  return sums;
}

contract::EvalRecord TrainLoop::evaluate(const std::vector<samples::Sample>& samples,
                                         std::int64_t step) {
  const double start = clock_.monotonic_seconds();
  if (options_.beat) options_.beat(step, watch::Phase::Evaluating);
  gatherer_.finish_all();
  contract::EvalRecord record =
      evaluation_of(shard_sums_ ? sums_of_shards(samples) : sums_of_ranks(samples), step);
  record.seconds = clock_.monotonic_seconds() - start;
  return record;
}

tasks::JudgedSet::Logits TrainLoop::own_logits(const std::vector<samples::Sample>& samples) {
  tasks::JudgedSet::Logits logits;
  if (!shard_sums_) {
    logits = logits_share(device_, model_, samples, stage_ranks_.replica(),
                          stage_ranks_.grid().data, staged_forward());
    if (pipeline_) pipeline_->finish_sends();
    return logits;
  }
  for (int i = 0; i < shard_sums_->count(); ++i) {
    for (std::vector<float>& one :
         logits_share(device_, model_, samples, shard_sums_->first() + i, shard_sums_->shards())) {
      logits.push_back(std::move(one));
    }
  }
  return logits;
}

SharedBy TrainLoop::logits_are_shared_by() const {
  const contract::RankGrid& grid = stage_ranks_.grid();
  return {grid.rank_of(grid.stages - 1, 0), shard_sums_ ? shard_sums_->count() : 1};
}

contract::EvalRecord TrainLoop::evaluate(const tasks::JudgedSet& set, std::int64_t step) {
  const double start = clock_.monotonic_seconds();
  if (options_.beat) options_.beat(step, watch::Phase::Evaluating);
  gatherer_.finish_all();
  contract::EvalRecord record =
      judge(communicator_.host(), set, own_logits(set.samples()), step, logits_are_shared_by());
  record.seconds = clock_.monotonic_seconds() - start;
  return record;
}

}  // namespace regatta::trainer::step
