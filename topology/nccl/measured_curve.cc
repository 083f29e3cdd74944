#include "topology/nccl/measured_curve.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/statistics.h"
#include "base/text.h"

namespace regatta::topology::nccl {
namespace {

// The intervals' half widths, as natural logarithms: chosen so that nine of ten held-out calls of
// the public logs lie within (measured_curve_test prints the shares).
constexpr double kLeastError = 0.03;        // two runs of one machine
constexpr double kErrorOfOneSample = 0.25;  // where no neighbour tells how smooth the curve is
constexpr double kErrorADoubling = 0.08;    // beyond the sizes that were measured
// A step (another protocol, congestion) may hide between any two sizes of a curve that has steps,
// also where their neighbours are smooth: so many times the median of what its neighbours' lines
// miss. The median, because a known step in one place says little of the others.
constexpr double kRoughnessTimes = 2;
constexpr double kErrorOfOtherMachine = 0.2;
constexpr double kModelLow = 0.7, kModelHigh = 3;

std::optional<double> modelled_us(const CostModel& model, const CurveKey& key,
                                  std::uint64_t bytes) {
  const Call call = {key.collective, bytes, key.op};
  if (key.way) return model.time_us(call, *key.way);
  const double us = model.choice(call).us;
  return us > 0 ? std::optional(us) : std::nullopt;
}

double modelled_or_throw(const CostModel& model, const CurveKey& key, std::uint64_t bytes) {
  if (const auto us = modelled_us(model, key, bytes)) return *us;
  std::string way = "no way";
  if (key.way) {
    way = "no " + std::string(name_of(key.way->algorithm)) + " with " + name_of(key.way->protocol);
  }
  throw base::Error(base::Code::User, "NCCL has " + way + " for " + name_of(key.collective) +
                                          " over " + std::to_string(model.ranks()) +
                                          " ranks of this machine");
}

bool same_way(const CurveKey& a, const CurveKey& b) {
  if (a.collective != b.collective || a.op != b.op || a.way.has_value() != b.way.has_value())
    return false;
  return !a.way || (a.way->algorithm == b.way->algorithm && a.way->protocol == b.way->protocol &&
                    a.way->channels == b.way->channels);
}

Prediction around(double us, double error, Basis basis) {
  return {us, us * std::exp(-error), us * std::exp(error), basis};
}

}  // namespace

MeasuredCurve MeasuredCurve::fit(const CostModel& model, const CurveKey& key,
                                 const std::vector<Sample>& samples) {
  std::vector<Sample> sorted;
  for (const Sample& sample : samples) {
    if (sample.bytes > 0 && sample.us > 0 && std::isfinite(sample.us)) sorted.push_back(sample);
  }
  if (sorted.empty()) {
    throw base::Error(base::Code::User, std::string("there is no measurement of ") +
                                            name_of(key.collective) + " to calibrate with");
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Sample& a, const Sample& b) { return a.bytes < b.bytes; });
  MeasuredCurve curve;
  curve.key_ = key;
  for (std::size_t i = 0; i < sorted.size();) {
    const std::uint64_t bytes = sorted[i].bytes;
    std::vector<double> times;
    for (; i < sorted.size() && sorted[i].bytes == bytes; ++i) times.push_back(sorted[i].us);
    curve.knots_.push_back({std::log2(static_cast<double>(bytes)),
                            std::log(base::median(times) / modelled_or_throw(model, key, bytes)),
                            0});
  }
  auto& knots = curve.knots_;
  if (knots.size() < 3) {
    for (Knot& knot : knots) knot.error = kErrorOfOneSample;
    return curve;
  }
  std::vector<double> errors;
  for (std::size_t i = 1; i + 1 < knots.size(); ++i) {
    const Knot &before = knots[i - 1], &after = knots[i + 1];
    const double share =
        (knots[i].log2_bytes - before.log2_bytes) / (after.log2_bytes - before.log2_bytes);
    const double line = before.correction + share * (after.correction - before.correction);
    knots[i].error = std::abs(knots[i].correction - line);
    errors.push_back(knots[i].error);
  }
  curve.roughness_ = kRoughnessTimes * base::median(std::move(errors));
  knots.front().error = knots[1].error;
  knots.back().error = knots[knots.size() - 2].error;
  return curve;
}

std::uint64_t MeasuredCurve::least_bytes() const {
  return static_cast<std::uint64_t>(std::llround(std::exp2(knots_.front().log2_bytes)));
}

std::uint64_t MeasuredCurve::most_bytes() const {
  return static_cast<std::uint64_t>(std::llround(std::exp2(knots_.back().log2_bytes)));
}

Prediction MeasuredCurve::predict(const CostModel& model, std::uint64_t bytes, Basis basis) const {
  const double modelled = modelled_or_throw(model, key_, bytes);
  const double at = std::log2(static_cast<double>(std::max<std::uint64_t>(bytes, 1)));
  const auto after = std::lower_bound(knots_.begin(), knots_.end(), at,
                                      [](const Knot& k, double x) { return k.log2_bytes < x; });
  double correction, error;
  if (after == knots_.begin() || after == knots_.end()) {
    const Knot& end = after == knots_.begin() ? knots_.front() : knots_.back();
    correction = end.correction;
    error = std::max(end.error, kLeastError) + kErrorADoubling * std::abs(at - end.log2_bytes);
  } else {
    const Knot &left = *(after - 1), &right = *after;
    const double share = (at - left.log2_bytes) / (right.log2_bytes - left.log2_bytes);
    correction = left.correction + share * (right.correction - left.correction);
    // At a knot it was measured; between two, what their neighbours' lines miss tells how far off
    // this line may be.
    const double far = 2 * std::min(share, 1 - share);
    // If it goes from one to the other in a step, that may be anywhere between.
    const double step = std::abs(right.correction - left.correction) / 2;
    error = std::max(kLeastError, far * std::max({left.error, right.error, roughness_, step}));
  }
  if (basis == Basis::OtherMachine) error += kErrorOfOtherMachine;
  return around(modelled * std::exp(correction), error, basis);
}

Prediction predict_by_model(const CostModel& model, const CurveKey& key, std::uint64_t bytes) {
  const double us = modelled_or_throw(model, key, bytes);
  return {us, us * kModelLow, us * kModelHigh, Basis::Model};
}

void CalibratedModel::add(MeasuredCurve curve) {
  for (MeasuredCurve& known : curves_) {
    if (same_way(known.key(), curve.key())) {
      known = std::move(curve);
      return;
    }
  }
  curves_.push_back(std::move(curve));
}

Prediction CalibratedModel::predict(const CurveKey& key, std::uint64_t bytes) const {
  for (const MeasuredCurve& curve : curves_) {
    if (same_way(curve.key(), key)) return curve.predict(model_, bytes);
  }
  return predict_by_model(model_, key, bytes);
}

std::vector<Sample> samples_of(const NcclTestLog& log) {
  std::vector<Sample> samples;
  for (const NcclTestRow& row : log.rows) {
    if (!row.disturbed) samples.push_back({row.bytes, row.us()});
  }
  return samples;
}

namespace {

// Where to look when a log is far slower than the model. Only what the log itself says is stated.
std::string advice_for_slow(const CostModel& model, const NcclTestLog& log) {
  if (model.allocation().nodes <= 1) {
    return "look for GPUs that do not reach each other, and for variables that switch NVLink off";
  }
  if (log.network == "Socket") {
    return "its log says that NCCL used sockets (TCP): look for its network plugin, and for "
           "NCCL_IB_DISABLE and NCCL_NET";
  }
  if (log.network.empty()) {
    return "NCCL may have gone over TCP (its network plugin missing), without GPUDirect, or the "
           "network is slower than described; a run with NCCL_DEBUG=INFO says which";
  }
  if (log.gpu_direct) {
    return "its log says that NCCL used " + log.network +
           " with GPUDirect, so this network is slower than described: compare number and speed "
           "of its NICs with the description";
  }
  return "its log says that NCCL used " + log.network +
         ": look for GPUDirect, and compare number and speed of its NICs with the description";
}

}  // namespace

std::optional<std::string> misfit(const CostModel& model, const NcclTestLog& log) {
  if (!log.collective) return "it measured no collective that NCCL tunes";
  if (log.ranks != 0 && log.ranks != model.ranks()) {
    return "it is of " + std::to_string(log.ranks) + " ranks, the machine has " +
           std::to_string(model.ranks());
  }
  constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;
  std::vector<double> ratios;
  for (const Sample& sample : samples_of(log)) {
    if (sample.bytes < kLarge) continue;
    const auto us = modelled_us(model, {*log.collective, std::nullopt}, sample.bytes);
    if (us) ratios.push_back(sample.us / *us);
  }
  if (ratios.empty()) return std::nullopt;
  constexpr double kFar = 4;
  const double ratio = base::median(ratios);
  if (ratio <= kFar && ratio >= 1 / kFar) return std::nullopt;
  const int tenths = static_cast<int>(std::min(std::max(ratio, 1 / ratio), 1e6) * 10);
  const std::string times = std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
  if (ratio < 1) {
    return "its calls took a " + times +
           "th of what NCCL reckons: it is of another machine, or the description is too slow";
  }
  return "its calls took " + times + " times as long as NCCL reckons; " +
         advice_for_slow(model, log);
}

}  // namespace regatta::topology::nccl
