#include "orchestrator/compare/speed_account.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/error.h"

namespace regatta::orchestrator::compare {
namespace {

namespace contract = trainer::contract;
using Records = std::vector<contract::JournalRecord>;

constexpr std::size_t kLeastPassedOver = 3, kMostPassedOver = 20;
constexpr std::size_t kBlocks = 10;  // whose means tell how far steps differ by chance
constexpr double kErrors = 3;
constexpr double kLeastNoise = 0.02;  // of the slower one

// Where the steps begin that count: the place in `records` of the first of them.
std::size_t first_that_counts(const Records& records) {
  std::size_t steps = 0, begin = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    steps += std::holds_alternative<contract::StepRecord>(records[i].body) ? 1 : 0;
    if (std::holds_alternative<contract::TrialRecord>(records[i].body)) begin = i + 1;
  }
  const std::size_t passed = std::clamp(steps / 5, kLeastPassedOver, kMostPassedOver);
  for (std::size_t i = 0, seen = 0; i < records.size(); ++i) {
    if (!std::holds_alternative<contract::StepRecord>(records[i].body)) continue;
    if (++seen > passed) return std::max(i, begin);
  }
  return records.size();
}

// Seconds of a step in which a bucket was being summed.
double sum_seconds_of(const contract::StepRecord& step) {
  const std::size_t buckets = std::min(step.bucket_launched.size(), step.bucket_finished.size());
  std::vector<std::pair<double, double>> sums;
  for (std::size_t i = 0; i < buckets; ++i) {
    sums.emplace_back(step.bucket_launched[i], step.bucket_finished[i]);
  }
  std::sort(sums.begin(), sums.end());
  double seconds = 0, until = 0;
  for (const auto& [from, to] : sums) {
    seconds += std::max(0.0, to - std::max(from, until));
    until = std::max(until, to);
  }
  return seconds;
}

// Of the mean rank and of the one with most to do, beside rank 0; 1 where no record tells.
struct Others {
  double mean = 1, most = 1;
};
Others others_of(const Records& records, std::size_t begin) {
  double own = 0, mean = 0, most = 0;
  for (std::size_t i = begin; i < records.size(); ++i) {
    const auto* ranks = std::get_if<contract::RanksRecord>(&records[i].body);
    if (ranks == nullptr || ranks->compute_seconds.empty()) continue;
    const std::vector<double>& each = ranks->compute_seconds;
    double sum = 0;
    for (const double seconds : each) sum += seconds;
    own += each.front();
    mean += sum / static_cast<double>(each.size());
    most += *std::max_element(each.begin(), each.end());
  }
  if (!(own > 0)) return {};
  return {mean / own, most / own};
}

class Sums {
 public:
  Sums(const AttemptLayout& layout, const Others& others) : layout_(layout), others_(others) {
    account_.ranks = layout.ranks;
  }

  void add(const contract::StepRecord& step) {
    if (account_.steps++ == 0) account_.first_step = step.step;
    account_.last_step = step.step;
    account_.samples += step.samples;
    account_.tokens += step.tokens;
    account_.flops += step.flops;
    account_.stalled += step.input_stalled ? 1 : 0;
    account_.making_seconds += step.making_seconds;
    account_.sum_seconds += sum_seconds_of(step);
    account_.summed_steps += step.bucket_finished.empty() ? 0 : 1;
    if (step.samples > 0) each_.push_back(step.seconds / static_cast<double>(step.samples));
    in_steps_ += step.seconds;
    part(Part::Input) += step.data_seconds;
    part(Part::Statistics) += step.statistics_seconds;
    const double told = step.data_seconds + step.statistics_seconds;
    if (!layout_.on_host) {
      part(Part::Compute) += std::max(0.0, step.seconds - told);
      return;
    }
    part(Part::Optimizer) += step.optimizer_seconds;
    // What was waited for within forward: gathers of sharded weights.
    const double gathering = std::clamp(step.exposed_seconds - step.reduce_seconds, 0.0,
                                        step.forward_seconds + step.backward_seconds);
    const double compute = step.forward_seconds + step.backward_seconds - gathering;
    const double waiting = std::max(0.0, step.seconds - told - step.optimizer_seconds - compute);
    share(compute, waiting, step.bubble.value_or(0));
  }
  void add_evaluation(double seconds) {
    ++account_.evaluations;
    part(Part::Evaluation) += seconds;
  }
  void add_checkpoint(const contract::CheckpointRecord& saved) {
    ++account_.checkpoints;
    part(Part::Checkpoints) += saved.stall_seconds;
    if (saved.status != "written") return;
    account_.checkpoint_bytes += static_cast<double>(saved.bytes);
    account_.checkpoint_writing_seconds += saved.write_seconds + saved.sync_seconds;
  }

  // Of a window of so many seconds.
  [[nodiscard]] SpeedAccount over(double seconds) {
    const double between = part(Part::Evaluation) + part(Part::Checkpoints);
    part(Part::Other) += std::max(0.0, seconds - in_steps_ - between);
    for (const double each : account_.parts) account_.seconds += each;
    account_.error = error();
    return account_;
  }

 private:
  double& part(Part of) { return account_.parts[static_cast<std::size_t>(of)]; }

  // The mean rank computes mean · c, where rank 0 computes c and then waits; what the busiest rank
  // computes beyond that, all others wait for.
  void share(double compute, double waiting, double bubble) {
    if (layout_.ranks == 1) {
      part(Part::Compute) += compute;
      part(Part::Other) += waiting;
      return;
    }
    const double whole = compute + waiting;
    const double mean = std::min(whole, others_.mean * compute);
    const double imbalance = std::clamp((others_.most - others_.mean) * compute, 0.0, whole - mean);
    const double empty = std::clamp(bubble * mean, 0.0, whole - mean - imbalance);
    part(Part::Compute) += mean;
    part(Part::Imbalance) += imbalance;
    part(Part::Bubble) += empty;
    part(Part::Communication) += whole - mean - imbalance - empty;
  }

  // Steps that follow each other are alike, so it is that of means over blocks.
  [[nodiscard]] double error() const {
    const std::size_t size = each_.size() / kBlocks;
    if (size == 0) return 0;
    std::vector<double> means;
    for (std::size_t block = 0; block < kBlocks; ++block) {
      double sum = 0;
      for (std::size_t i = 0; i < size; ++i) sum += each_[block * size + i];
      means.push_back(sum / static_cast<double>(size));
    }
    double mean = 0, squares = 0;
    for (const double each : means) mean += each / kBlocks;
    for (const double each : means) squares += (each - mean) * (each - mean);
    return std::sqrt(squares / (kBlocks - 1) / kBlocks);
  }

  AttemptLayout layout_;
  Others others_;
  SpeedAccount account_;
  std::vector<double> each_;  // seconds of a sample in each step
  double in_steps_ = 0;
};

}  // namespace

SpeedAccount account_of(const Records& records, const AttemptLayout& layout) {
  const std::size_t begin = first_that_counts(records);
  Sums sums(layout, others_of(records, begin));
  std::int64_t steps = 0;
  std::size_t end = begin;
  double from = 0;
  for (std::size_t i = begin; i < records.size(); ++i) {
    const auto* step = std::get_if<contract::StepRecord>(&records[i].body);
    if (step == nullptr) continue;
    if (steps++ == 0) from = records[i].seconds - step->seconds;
    end = i + 1;
  }
  if (steps < kLeastSteps) {
    throw base::Error(base::Code::User,
                      "its journal has " + std::to_string(steps) +
                          " steps beyond the first ones; a comparison of speed takes at least " +
                          std::to_string(kLeastSteps));
  }
  bool begun = false;
  for (std::size_t i = begin; i < end; ++i) {
    if (const auto* step = std::get_if<contract::StepRecord>(&records[i].body)) {
      begun = true;
      sums.add(*step);
    } else if (!begun) {
      continue;
    } else if (const auto* evaluation = std::get_if<contract::EvalRecord>(&records[i].body)) {
      sums.add_evaluation(evaluation->seconds);
    } else if (const auto* saved = std::get_if<contract::CheckpointRecord>(&records[i].body)) {
      if (saved->status == "written" || saved->status == "failed") {
        sums.add_checkpoint(*saved);
      }
    }
  }
  return sums.over(records[end - 1].seconds - from);
}

bool SpeedDifference::is_noise() const { return std::abs(whole()) <= noise; }

SpeedDifference difference_of(const SpeedAccount& a, const SpeedAccount& b) {
  SpeedDifference difference;
  difference.a = a.per_sample(a.seconds);
  difference.b = b.per_sample(b.seconds);
  for (std::size_t i = 0; i < kParts; ++i) {
    difference.parts[i] = b.per_sample(b.parts[i]) - a.per_sample(a.parts[i]);
  }
  const double compute_a = a.per_sample(a.of(Part::Compute));
  const double compute_b = b.per_sample(b.of(Part::Compute));
  const double work_a = a.per_sample(a.flops), work_b = b.per_sample(b.flops);
  difference.slower = compute_b - compute_a;
  if (work_a > 0 && work_b > 0 && compute_a > 0 && compute_b > 0) {
    // Each share at the mean of the other, so that they add up whichever comes first.
    const double mean_cost = (compute_a / work_a + compute_b / work_b) / 2;
    difference.more_work = (work_b - work_a) * mean_cost;
    difference.slower -= difference.more_work;
  }
  difference.noise = std::max(kErrors * std::hypot(a.error, b.error),
                              kLeastNoise * std::max(difference.a, difference.b));
  return difference;
}

}  // namespace regatta::orchestrator::compare
