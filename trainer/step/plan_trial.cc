#include "trainer/step/plan_trial.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/statistics.h"
#include "base/wording.h"

namespace regatta::trainer::step {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// What a correction by work may leave of a step's time at least.
constexpr double kLeastShare = 0.1;

// The median of a distribution lies between the k-th smallest and the k-th largest of `count` draws
// but for a probability of at most kDoubt; the largest such k, 0 for too few draws.
std::size_t interval_rank(std::size_t count) {
  double probability = std::ldexp(1.0, -static_cast<int>(count));  // of exactly k draws below
  double below = 0;
  std::size_t k = 0;
  while (k < count / 2) {
    below += probability;
    if (2 * below > PlanTrial::kDoubt) break;
    probability *= static_cast<double>(count - k) / static_cast<double>(k + 1);
    ++k;
  }
  return k;
}

std::int64_t elements_of(const contract::TensorTable& table, const topology::plan::Bucket& bucket) {
  std::int64_t elements = 0;
  for (int i = bucket.begin_tensor; i < bucket.end_tensor; ++i) {
    elements += table.tensors[static_cast<std::size_t>(i)].size;
  }
  return elements;
}

// The border within the bucket that leaves its halves most alike.
int middle_of(const contract::TensorTable& table, const topology::plan::Bucket& bucket) {
  const std::int64_t all = elements_of(table, bucket);
  std::int64_t before = 0, least = std::numeric_limits<std::int64_t>::max();
  int border = bucket.begin_tensor + 1;
  for (int i = bucket.begin_tensor + 1; i < bucket.end_tensor; ++i) {
    before += table.tensors[static_cast<std::size_t>(i - 1)].size;
    const std::int64_t off = std::abs(all - 2 * before);
    if (off >= least) continue;
    least = off;
    border = i;
  }
  return border;
}

// The share of the other's time that one saves.
double saved(double ratio) { return 1 - ratio; }

}  // namespace

std::vector<topology::plan::Bucket> pairs_joined(
    const std::vector<topology::plan::Bucket>& buckets) {
  std::vector<topology::plan::Bucket> joined;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (i % 2 == 0) {
      joined.push_back(buckets[i]);
    } else {
      joined.back().end_tensor = buckets[i].end_tensor;
    }
  }
  return joined;
}

std::vector<topology::plan::Bucket> large_halved(
    const contract::TensorTable& table, const std::vector<topology::plan::Bucket>& buckets) {
  std::int64_t all = 0;
  for (const topology::plan::Bucket& bucket : buckets) all += elements_of(table, bucket);
  const auto count = static_cast<std::int64_t>(buckets.size());
  std::vector<topology::plan::Bucket> halved;
  for (const topology::plan::Bucket& bucket : buckets) {
    const bool large = elements_of(table, bucket) * count >= all;
    if (!large || bucket.end_tensor - bucket.begin_tensor < 2) {
      halved.push_back(bucket);
      continue;
    }
    const int border = middle_of(table, bucket);
    halved.push_back({bucket.begin_tensor, border});
    halved.push_back({border, bucket.end_tensor});
  }
  return halved;
}

std::vector<Cut> cuts_to_try(const contract::TensorTable& table, const KnownCuts& known) {
  std::vector<Cut> cuts;
  const auto add = [&](const char* name, std::vector<topology::plan::Bucket> buckets) {
    const bool known_already = std::any_of(cuts.begin(), cuts.end(),
                                           [&](const Cut& cut) { return cut.buckets == buckets; });
    if (!buckets.empty() && !known_already) cuts.push_back({name, std::move(buckets)});
  };
  add("remembered", known.remembered);
  add("default", known.standard);
  add("plan", known.planned);
  const auto& best = !known.remembered.empty() ? known.remembered
                     : !known.planned.empty()  ? known.planned
                                               : known.standard;
  add("coarser", pairs_joined(best));
  add("finer", large_halved(table, best));
  return cuts;
}

PlanTrial::PlanTrial(std::vector<std::string> names) : names_(std::move(names)) {
  base::check(!names_.empty(), "there is a cut to start with");
  for (std::size_t cut = 0; cut < names_.size(); ++cut) alive_.push_back(cut);
  order_.assign(kWarmupSteps, 0);
  order_.insert(order_.end(), alive_.begin() + 1, alive_.end());
  over_ = names_.size() == 1;
}

std::size_t PlanTrial::current() const { return over_ ? winner_ : order_[turn_]; }

void PlanTrial::observe(const StepPace& pace) {
  base::check(!over_, "a trial that is over is told no more");
  ++steps_;
  const bool counts = !pace.disturbed && std::isfinite(pace.seconds) && pace.seconds > 0;
  if (!warm_) {
    if (++turn_ == order_.size()) {
      warm_ = true;
      start_round();
    }
  } else if (counts) {
    round_[order_[turn_]] = pace;
    if (++turn_ == order_.size()) finish_round();
  }
  if (steps_ == kMostSteps) over_ = true;
}

// Every other round backwards, and each time from another cut on.
void PlanTrial::start_round() {
  const std::size_t round = rounds_.size();
  order_ = alive_;
  std::rotate(order_.begin(),
              order_.begin() + static_cast<std::ptrdiff_t>(round / 2 % order_.size()),
              order_.end());
  if (round % 2 == 1) std::reverse(order_.begin(), order_.end());
  turn_ = 0;
  round_.assign(names_.size(), {});
}

void PlanTrial::finish_round() {
  rounds_.push_back(round_);
  measure_work();
  judge();
  if (rounds_.size() == kMostRounds || alive_.size() == 1 || (alive_.size() == 2 && winner_ != 0)) {
    over_ = true;
  }
  if (!over_) start_round();
}

void PlanTrial::measure_work() {
  std::vector<double> slopes, flops;
  for (std::size_t cut = 0; cut < names_.size(); ++cut) {
    for (std::size_t i = 0; i < rounds_.size(); ++i) {
      const StepPace& one = rounds_[i][cut];
      if (one.seconds == 0) continue;
      flops.push_back(one.flops);
      for (std::size_t j = 0; j < i; ++j) {
        const StepPace& other = rounds_[j][cut];
        const double more = one.flops - other.flops;
        if (more != 0) slopes.push_back((one.seconds - other.seconds) / more);
      }
    }
  }
  usual_flops_ = base::median_or(flops, 0);
  seconds_per_flop_ = std::max(0.0, base::median_or(slopes, 0));
}

// Of its steps in complete rounds, as if each had had the usual work.
std::vector<double> PlanTrial::times_of(std::size_t cut) const {
  std::vector<double> times;
  for (const std::vector<StepPace>& round : rounds_) {
    const StepPace& pace = round[cut];
    if (pace.seconds == 0) break;  // those that left do not come back
    times.push_back(std::max(kLeastShare * pace.seconds,
                             pace.seconds - seconds_per_flop_ * (pace.flops - usual_flops_)));
  }
  return times;
}

PlanTrial::Ratio PlanTrial::ratio(std::size_t one, std::size_t other) const {
  const std::vector<double> mine = times_of(one), others = times_of(other);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(mine.size(), others.size()); ++i) {
    ratios.push_back(mine[i] / others[i]);
  }
  std::sort(ratios.begin(), ratios.end());
  const std::size_t rank = interval_rank(ratios.size());
  const double median = base::median_or(ratios, 0);
  if (rank == 0) return {median, 0, kInfinity};
  return {median, ratios[rank - 1], ratios[ratios.size() - rank]};
}

bool PlanTrial::beats_first(const Ratio& ratio) const {
  return ratio.high < 1 && saved(ratio.median) >= kLeastGain;
}

// Who cannot gain enough any more leaves, then who is slower than the best of the others.
void PlanTrial::judge() {
  winner_ = 0;
  double best = 1;
  std::vector<std::size_t> left{0};
  for (const std::size_t cut : alive_) {
    if (cut == 0) continue;
    const Ratio to_first = ratio(cut, 0);
    if (saved(to_first.low) < kLeastGain) continue;
    left.push_back(cut);
    if (beats_first(to_first) && to_first.median < best) {
      best = to_first.median;
      winner_ = cut;
    }
  }
  alive_ = left;
  if (winner_ == 0) return;
  alive_.erase(std::remove_if(alive_.begin(), alive_.end(),
                              [&](std::size_t cut) {
                                return cut != 0 && cut != winner_ && ratio(cut, winner_).low > 1;
                              }),
               alive_.end());
}

TrialResult PlanTrial::result() const {
  TrialResult result;
  result.winner = winner_;
  result.rounds = static_cast<int>(rounds_.size());
  result.steps = steps_;
  for (std::size_t cut = 0; cut < names_.size(); ++cut) {
    result.seconds.push_back(base::median_or(times_of(cut), 0));
  }
  // What came nearest to winning, where nothing did.
  std::optional<Ratio> nearest;
  for (std::size_t cut = 1; cut < names_.size(); ++cut) {
    const Ratio to_first = ratio(cut, 0);
    if (winner_ != 0 && cut != winner_) continue;
    if (!nearest || to_first.median < nearest->median) nearest = to_first;
  }
  const std::string after = " after " + std::to_string(rounds_.size()) + " rounds";
  const std::string& first = names_[0];
  if (!nearest || !std::isfinite(nearest->high)) {
    result.why = names_.size() == 1 ? first + " is the only cut"
                                    : first + " stays: too few steps were undisturbed" + after;
    return result;
  }
  result.noise = (nearest->high - nearest->low) / 2;
  if (winner_ == 0) {
    result.why = first + " stays: no other cut was faster by " + base::percent(kLeastGain) +
                 " and beyond the noise of " + base::percent(result.noise) + after;
  } else {
    result.gain = saved(nearest->median);
    result.why = names_[winner_] + " takes " + base::percent(result.gain) + " less time than " +
                 first + " (" + base::percent(saved(nearest->high)) + " to " +
                 base::percent(saved(nearest->low)) + ")" + after;
  }
  return result;
}

}  // namespace regatta::trainer::step
