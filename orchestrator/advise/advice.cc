#include "orchestrator/advise/advice.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/error.h"

namespace regatta::orchestrator::advise {
namespace {

using NoiseScale = std::optional<double>;  // nothing: endless

constexpr double kSecondsOfHour = 3600;

[[noreturn]] void refuse(const std::string& what) { throw base::Error(base::Code::User, what); }

double efficiency_of(double batch, double base_batch, const NoiseScale& noise) {
  return noise ? (*noise + base_batch) / (*noise + batch) : 1;
}

double seconds_of(const Candidate& candidate, double samples, double step_seconds) {
  const double steps = std::ceil(samples / candidate.batch);
  const double evaluations =
      candidate.evaluate_every > 0 ? steps / static_cast<double>(candidate.evaluate_every) : 0;
  return steps * step_seconds + evaluations * candidate.evaluation_seconds;
}

// What `figure` is with the expected noise scale and step, and its ends over those of both.
Range range_of(const Noise& noise, const Range& step,
               const std::function<double(const NoiseScale&, double)>& figure) {
  Range range;
  range.value = range.low = range.high = figure(noise.scale, step.value);
  for (const NoiseScale& scale : {NoiseScale(noise.low), noise.high}) {
    for (const double seconds : {step.low, step.high}) {
      const double value = figure(scale, seconds);
      range.low = std::min(range.low, value);
      range.high = std::max(range.high, value);
    }
  }
  return range;
}

Row row_of(const Candidate& candidate, const Noise& noise, const Target& target, int base_batch) {
  Row row;
  row.of = candidate;
  const auto samples = [&](const NoiseScale& scale) {
    return samples_to_target(target, candidate.batch, scale);
  };
  row.samples = range_of(noise, candidate.step_seconds,
                         [&](const NoiseScale& scale, double) { return samples(scale); });
  row.steps = static_cast<std::int64_t>(std::ceil(row.samples.value / candidate.batch));
  row.efficiency = efficiency_of(candidate.batch, base_batch, noise.scale);
  row.samples_per_second = candidate.batch / candidate.step_seconds.value;
  row.goodput = range_of(noise, candidate.step_seconds, [&](const NoiseScale& scale, double step) {
    return candidate.batch / step * efficiency_of(candidate.batch, base_batch, scale);
  });
  row.seconds = range_of(noise, candidate.step_seconds, [&](const NoiseScale& scale, double step) {
    return seconds_of(candidate, samples(scale), step);
  });
  const double hours = candidate.ranks / kSecondsOfHour;
  row.gpu_hours = {row.seconds.value * hours, row.seconds.low * hours, row.seconds.high * hours};
  return row;
}

// How bad a candidate is for the objective with this noise scale.
double cost_of(Objective objective, const Candidate& candidate, const Target& target,
               const NoiseScale& noise) {
  if (objective == Objective::Goodput) {
    return -candidate.batch / candidate.step_seconds.value *
           efficiency_of(candidate.batch, target.batch, noise);
  }
  const double seconds = seconds_of(candidate, samples_to_target(target, candidate.batch, noise),
                                    candidate.step_seconds.value);
  return objective == Objective::GpuHours ? seconds * candidate.ranks : seconds;
}

std::size_t best_of(Objective objective, const std::vector<Row>& rows, const Target& target,
                    const NoiseScale& noise) {
  std::vector<double> costs;
  costs.reserve(rows.size());
  for (const Row& row : rows) costs.push_back(cost_of(objective, row.of, target, noise));
  return static_cast<std::size_t>(std::min_element(costs.begin(), costs.end()) - costs.begin());
}

// The fastest first; of two that are as fast, the one with fewer GPU-hours.
std::vector<std::size_t> front_of(const std::vector<Row>& rows) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const Row &first = rows[a], &second = rows[b];
    return first.seconds.value != second.seconds.value
               ? first.seconds.value < second.seconds.value
               : first.gpu_hours.value < second.gpu_hours.value;
  });
  std::vector<std::size_t> front;
  for (const std::size_t index : order) {
    if (front.empty() || rows[index].gpu_hours.value < rows[front.back()].gpu_hours.value) {
      front.push_back(index);
    }
  }
  return front;
}

void check(const std::vector<Candidate>& candidates, const Noise& noise, const Target& target) {
  if (candidates.empty())
    refuse("there is nothing to choose from: every batch has fewer samples than ranks");
  const bool is_noise = std::isfinite(noise.scale) && noise.scale > 0 && noise.low >= 0 &&
                        noise.low <= noise.scale && (!noise.high || *noise.high >= noise.scale);
  if (!is_noise) refuse("a noise scale is above 0 samples and between its ends");
  if (!(target.samples > 0) || target.batch < 1) refuse("a target takes samples, above 0");
  for (const Candidate& each : candidates) {
    const Range& step = each.step_seconds;
    const bool is_step = step.low > 0 && step.low <= step.value && step.value <= step.high &&
                         std::isfinite(step.high);
    if (each.batch < each.ranks || each.ranks < 1 || !is_step) {
      refuse("a step of " + std::to_string(each.batch) + " samples on " +
             std::to_string(each.ranks) + " ranks has no known time");
    }
  }
}

}  // namespace

const std::vector<std::string>& objective_names() {
  static const std::vector<std::string> names{"tta", "gpu-hours", "goodput"};
  return names;
}

double samples_to_target(const Target& target, double batch, const NoiseScale& noise_scale) {
  if (!noise_scale) return target.samples;
  return target.samples * (*noise_scale + batch) / (*noise_scale + target.batch);
}

Advice advise(const std::vector<Candidate>& candidates, const Noise& noise, const Target& target,
              int base_batch) {
  check(candidates, noise, target);
  Advice advice{noise, target, base_batch, {}, {}, {}};
  for (const Candidate& each : candidates) {
    advice.rows.push_back(row_of(each, noise, target, base_batch));
  }
  for (std::size_t i = 0; i < advice.best.size(); ++i) {
    const auto objective = static_cast<Objective>(i);
    advice.best.at(i) = {best_of(objective, advice.rows, target, noise.scale),
                         best_of(objective, advice.rows, target, noise.low),
                         best_of(objective, advice.rows, target, noise.high)};
  }
  advice.front = front_of(advice.rows);
  for (const std::size_t index : advice.front) advice.rows[index].on_front = true;
  return advice;
}

}  // namespace regatta::orchestrator::advise
