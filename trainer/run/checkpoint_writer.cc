#include "trainer/run/checkpoint_writer.h"

#include <chrono>
#include <exception>
#include <utility>

#include "trainer/ranks/rank_agreement.h"

namespace regatta::trainer::run {
namespace {

// An error of any kind as one that can be told.
base::Error as_error(const std::exception& error) {
  const auto* known = dynamic_cast<const base::Error*>(&error);
  return known != nullptr ? *known : base::Error(base::Code::Developer, error.what());
}

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointKeeper& keeper, ranks::HostCollectives& host,
                                   const base::Clock& clock, int writers, std::int64_t saved_step)
    : keeper_(keeper), host_(host), clock_(clock), writers_(writers), saved_step_(saved_step) {}

CheckpointWriter::~CheckpointWriter() {
  if (job_.valid()) job_.wait();
}

bool CheckpointWriter::Outcome::failed() const {
  return failure.has_value() || (!records.empty() && records.front().status == "failed");
}

void CheckpointWriter::start(const std::function<std::vector<contract::CheckpointRecord>()>& work) {
  outcome_ = {};
  job_ = std::async(std::launch::async, [this, work] {
    Outcome outcome;
    try {
      outcome.records = work();
    } catch (const std::exception& error) {
      outcome.failure = as_error(error);
    }
    outcome.end = clock_.monotonic_seconds();
    return outcome;
  });
}

void CheckpointWriter::begin(std::int64_t step, const step::StateShard* shard,
                             const std::optional<double>& metric, double since) {
  base::check(stage_ == Stage::Idle, "one checkpoint is written at a time");
  stage_ = Stage::Shards;
  step_ = step;
  metric_ = metric;
  since_ = since;
  stall_seconds_ = copy_seconds_ = clock_.monotonic_seconds() - since;
  abandoned_ = false;
  outcome_ = {};
  if (shard == nullptr) return;
  start([this, shard, step, metric, alone = writers_ == 1] {
    if (alone) return keeper_.write(step, *shard, metric);
    keeper_.write_shard(step, *shard);
    return std::vector<contract::CheckpointRecord>();
  });
}

void CheckpointWriter::go_back() {
  base::check(stage_ == Stage::Idle, "nothing is being written");
  saved_step_ = -1;
}

CheckpointWriter::Progress CheckpointWriter::progress() {
  if (job_.valid() && job_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    outcome_ = job_.get();
  }
  return {job_.valid(), outcome_.failed()};
}

std::vector<contract::CheckpointRecord> CheckpointWriter::follow(const Progress& any) {
  if (stage_ == Stage::Idle || any.writing) return {};
  if (stage_ == Stage::Commit || writers_ == 1) return end(!any.failed && !abandoned_);
  stage_ = Stage::Commit;
  abandoned_ = any.failed;
  if (abandoned_) {
    const base::Error failure = agreed_failure();
    outcome_ = {};
    if (host_.rank() == 0) start([this, failure] { return keeper_.abandon(step_, failure); });
  } else if (host_.rank() == 0) {
    start([this] { return keeper_.commit(step_, writers_, metric_); });
  }
  return {};
}

// Collective: that of the lowest rank that failed.
base::Error CheckpointWriter::agreed_failure() {
  try {
    ranks::run_on_all_ranks(host_, [this] {
      if (outcome_.failure) throw base::Error(*outcome_.failure);
    });
  } catch (const ranks::AgreedError& error) {
    return {error.code(), error.what()};
  }
  return {base::Code::Developer, "no rank says why its shard could not be written"};
}

std::vector<contract::CheckpointRecord> CheckpointWriter::end(bool good) {
  stage_ = Stage::Idle;
  if (good) saved_step_ = step_;
  if (host_.rank() != 0) return {};
  if (outcome_.failure) outcome_.records = keeper_.abandon(step_, *outcome_.failure);
  std::vector<contract::CheckpointRecord> records = std::move(outcome_.records);
  const double end = outcome_.end;
  outcome_ = {};
  if (records.empty()) return records;
  contract::CheckpointRecord& record = records.front();
  record.seconds = end - since_;
  record.stall_seconds = stall_seconds_;
  record.copy_seconds = copy_seconds_;
  return records;
}

std::vector<contract::CheckpointRecord> CheckpointWriter::settle() {
  std::vector<contract::CheckpointRecord> records;
  while (stage_ != Stage::Idle) {
    const double start = clock_.monotonic_seconds();
    if (job_.valid()) job_.wait();
    const Progress mine = progress();
    double sums[2] = {mine.writing ? 1.0 : 0.0, mine.failed ? 1.0 : 0.0};
    host_.all_reduce_sum(sums, 2);
    stall_seconds_ += clock_.monotonic_seconds() - start;
    for (contract::CheckpointRecord& record : follow({sums[0] > 0, sums[1] > 0})) {
      records.push_back(std::move(record));
    }
  }
  return records;
}

}  // namespace regatta::trainer::run
