#include "topology/nccl/communication_curve.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/statistics.h"

namespace regatta::topology::nccl {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw base::Error(base::Code::User, "a communication curve " + what);
}

// Sizes that are told apart by nothing but noise.
struct Pool {
  CommunicationCurve::Point mean;
  double weight;  // measurements
};

Pool merged(const Pool& a, const Pool& b) {
  const double weight = a.weight + b.weight;
  return {{(a.mean.bytes * a.weight + b.mean.bytes * b.weight) / weight,
           (a.mean.seconds * a.weight + b.mean.seconds * b.weight) / weight},
          weight};
}

}  // namespace

CommunicationCurve::CommunicationCurve(std::vector<Point> points) : points_(std::move(points)) {
  if (points_.empty()) fail("has no point; give at least one");
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const Point& point = points_[i];
    const std::string place = "has (" + std::to_string(point.bytes) + " bytes, " +
                              std::to_string(point.seconds) + " s) as point " + std::to_string(i);
    const bool good = std::isfinite(point.bytes) && std::isfinite(point.seconds);
    if (!good || point.bytes < 0 || point.seconds < 0) fail(place + "; use figures of at least 0");
    if (i > 0 && point.bytes <= points_[i - 1].bytes) {
      fail(place + ", which has no more bytes than the one before; sort by bytes, once each");
    }
  }
}

CommunicationCurve CommunicationCurve::of_line(double latency_seconds, double gb_per_s) {
  if (!(gb_per_s > 0)) {
    throw base::Error(base::Code::User, "a communication curve of " + std::to_string(gb_per_s) +
                                            " GB/s; use more than 0");
  }
  constexpr double kGiga = 1e9;
  return CommunicationCurve({{0, latency_seconds}, {kGiga, latency_seconds + 1 / gb_per_s}});
}

CommunicationCurve CommunicationCurve::sampled(const std::function<double(double)>& seconds,
                                               double most_bytes) {
  constexpr double kLeastBytes = 256;
  constexpr double kOctaves = 40;  // 281 TB: no gradient is larger
  std::vector<Point> points;
  for (double quarter = 0; quarter <= 4 * kOctaves; ++quarter) {
    const double bytes = kLeastBytes * std::exp2(quarter / 4);
    points.push_back({bytes, seconds(bytes)});
    if (bytes >= most_bytes) break;
  }
  return CommunicationCurve(std::move(points));
}

CommunicationCurve CommunicationCurve::measured(std::vector<Point> samples) {
  if (samples.empty()) fail("has no measurement; measure at least one size");
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Point& sample = samples[i];
    const bool good = std::isfinite(sample.bytes) && std::isfinite(sample.seconds) &&
                      sample.bytes >= 0 && sample.seconds > 0;
    if (good) continue;
    fail("has (" + std::to_string(sample.bytes) + " bytes, " + std::to_string(sample.seconds) +
         " s) as measurement " + std::to_string(i) + "; measure that size again");
  }
  std::sort(samples.begin(), samples.end(),
            [](const Point& a, const Point& b) { return a.bytes < b.bytes; });
  std::vector<Pool> pools;
  for (std::size_t begin = 0; begin < samples.size();) {
    std::vector<double> seconds;
    std::size_t end = begin;
    for (; end < samples.size() && samples[end].bytes == samples[begin].bytes; ++end) {
      seconds.push_back(samples[end].seconds);
    }
    pools.push_back(
        {{samples[begin].bytes, base::median(seconds)}, static_cast<double>(seconds.size())});
    begin = end;
    while (pools.size() > 1 && pools[pools.size() - 2].mean.seconds >= pools.back().mean.seconds) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back() = merged(pools.back(), last);
    }
  }
  std::vector<Point> points;
  for (const Pool& pool : pools) points.push_back(pool.mean);
  return CommunicationCurve(std::move(points));
}

CommunicationCurve CommunicationCurve::scaled(double latency_factor, double rest_factor) const {
  std::vector<Point> points = points_;
  const double latency = points_.front().seconds;
  for (Point& point : points) {
    // A measured curve may dip below its first point.
    point.seconds =
        std::max(0.0, latency * latency_factor + (point.seconds - latency) * rest_factor);
  }
  return CommunicationCurve(std::move(points));
}

double CommunicationCurve::seconds(double bytes) const {
  if (bytes <= points_.front().bytes || points_.size() == 1) return points_.front().seconds;
  const auto found =
      std::lower_bound(points_.begin(), points_.end(), bytes,
                       [](const Point& point, double value) { return point.bytes < value; });
  const bool is_beyond = found == points_.end();
  const Point& high = is_beyond ? points_.back() : *found;
  const Point& low = *((is_beyond ? points_.end() - 1 : found) - 1);
  const double slope = (high.seconds - low.seconds) / (high.bytes - low.bytes);
  if (is_beyond) return high.seconds + std::max(0.0, slope) * (bytes - high.bytes);
  return low.seconds + slope * (bytes - low.bytes);
}

}  // namespace regatta::topology::nccl
