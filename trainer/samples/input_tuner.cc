#include "trainer/samples/input_tuner.h"

#include <algorithm>

#include "base/error.h"
#include "base/statistics.h"
#include "base/wording.h"

namespace regatta::trainer::samples {
namespace {

constexpr double kFirstStalled = 1.0 / 8;  // of a short window

// From the least to the most.
std::vector<InputChoice> ways_of(const contract::InputConfig& config, int most_workers,
                                 bool may_be_ahead) {
  std::vector<InputChoice> ways;
  const auto add = [&](int workers, int prefetch) {
    InputChoice way{workers, prefetch};
    if (config.workers > 0) way.workers = config.workers;
    if (config.prefetch > 0) way.prefetch = config.prefetch;
    if (!may_be_ahead) way.prefetch = 1;
    if (std::find(ways.begin(), ways.end(), way) == ways.end()) ways.push_back(way);
  };
  const int most = std::clamp(most_workers, 1, InputTuner::kMostWorkers);
  // Several workers need as many steps to make.
  const int least_ahead =
      config.workers > 0 ? std::min(config.workers, contract::kMostPrefetch) : 1;
  add(1, least_ahead);
  if (!may_be_ahead) return ways;
  add(1, std::max(4, least_ahead));
  for (int workers = 2; workers <= most; workers *= 2) add(workers, std::max(2 * workers, 4));
  if (config.workers > 0) add(1, std::max(InputTuner::kMostAhead, least_ahead));
  return ways;
}

std::string rate_text(double rate) {
  return rate < 100 ? base::short_number(rate, 3) : base::formatted("%.0f", rate);
}

std::string workers_text(int workers) { return base::plural(workers, "worker"); }

}  // namespace

InputTuner::InputTuner(const contract::InputConfig& config, int most_workers, bool may_be_ahead)
    : config_(config), ways_(ways_of(config, most_workers, may_be_ahead)) {}

InputTuner::Seen InputTuner::seen() const {
  std::vector<double> making, computing;
  double samples = 0, stalled = 0, seconds = 0;
  for (const InputLook& look : window_) {
    seconds += look.step_seconds;
    making.push_back(look.making_seconds);
    computing.push_back(std::max(0.0, look.step_seconds - look.waited_seconds));
    samples += static_cast<double>(look.samples);
    stalled += look.waited_seconds > kGain * look.step_seconds ? 1 : 0;
  }
  const auto count = static_cast<double>(window_.size());
  const auto rate = [&](double of_step) { return of_step > 0 ? samples / count / of_step : 0; };
  Seen seen;
  seen.step_seconds = seconds / count;
  seen.samples_per_second = choice().workers * rate(base::median(making));
  seen.demand_per_second = rate(base::median(computing));
  seen.is_enough = stalled <= count * (settled_ ? kMostStalled : kFirstStalled);
  return seen;
}

void InputTuner::go_to(std::size_t way) {
  way_ = way;
  // Steps that were made before are behind the change.
  pass_over_ = kPassedOver + ways_[way].prefetch;
}

std::optional<contract::InputRecord> InputTuner::observe(std::int64_t step, const InputLook& look) {
  if (pass_over_ > 0) {
    --pass_over_;
    return std::nullopt;
  }
  window_.push_back(look);
  if (std::ssize(window_) < (settled_ ? kLongWindow : kWindow)) return std::nullopt;
  const Seen now = seen();
  const std::int64_t bytes = std::max_element(window_.begin(), window_.end(), [](auto& a, auto& b) {
                               return a.bytes < b.bytes;
                             })->bytes;
  window_.clear();
  if (now.is_enough && settled_) return std::nullopt;
  tried_[way_] = now;
  if (now.is_enough) return settle(step, way_);
  if (is_best_) return std::nullopt;
  std::size_t next = way_ + 1;
  while (next < ways_.size() && ways_[next].prefetch > 1 &&
         ways_[next].prefetch * bytes > kMostBytes) {
    ++next;
  }
  if (next < ways_.size()) {
    settled_ = false;
    go_to(next);
    return std::nullopt;
  }
  is_best_ = true;
  // The least of those that are as fast as the fastest.
  double least = now.step_seconds;
  for (const auto& [way, seen] : tried_) least = std::min(least, seen.step_seconds);
  const auto best = std::find_if(tried_.begin(), tried_.end(), [&](const auto& each) {
    return each.second.step_seconds <= (1 + kGain) * least;
  });
  return settle(step, best->first);
}

std::optional<contract::InputRecord> InputTuner::settle(std::int64_t step, std::size_t way) {
  settled_ = true;
  if (way != way_) go_to(way);
  return record(step);
}

contract::InputRecord InputTuner::record(std::int64_t step) const {
  const Seen& now = tried_.at(way_);
  contract::InputRecord record;
  record.step = step;
  record.workers = choice().workers;
  record.prefetch = choice().prefetch;
  record.samples_per_second = now.samples_per_second;
  record.demand_per_second = now.demand_per_second;
  record.starved = !now.is_enough;
  for (const auto& [way, seen] : tried_) {
    record.tried_workers.push_back(ways_[way].workers);
    record.tried_prefetch.push_back(ways_[way].prefetch);
    record.tried_seconds.push_back(seen.step_seconds);
  }
  const std::string made = workers_text(record.workers) +
                           (record.workers == 1 ? " makes " : " make ") +
                           rate_text(record.samples_per_second) + " samples/s";
  const std::string demand = rate_text(record.demand_per_second);
  if (!record.starved) {
    record.why = made + " up to " + base::plural(record.prefetch, "step") +
                 " ahead, and steps take " + demand;
    return record;
  }
  record.why = "steps wait for their samples: " + made + ", and steps would take " + demand;
  const double each = record.samples_per_second / record.workers;
  const auto needed = static_cast<int>(record.demand_per_second / std::max(each, 1e-9)) + 1;
  if (config_.workers > 0 && needed > config_.workers) {
    record.why += "; about " + workers_text(needed) + " would end that (input.workers)";
  } else if (config_.prefetch > 0 && record.samples_per_second >= record.demand_per_second) {
    record.why += ", so that more steps ahead would end that (input.prefetch)";
  } else if (ways_.size() > 1) {
    record.why += "; of " + base::plural(ways_.size(), "way") + " with up to " +
                  workers_text(ways_.back().workers) +
                  " none was faster: storage or the processors are the limit";
  } else {
    record.why += "; ranks that exchange samples, and batches that grow, have one step made ahead";
  }
  return record;
}

}  // namespace regatta::trainer::samples
