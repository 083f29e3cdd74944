#include "topology/communication_curve.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"

namespace regatta::topology {

CommunicationCurve::CommunicationCurve(std::vector<Point> points) : points_(std::move(points)) {
  const auto fail = [](const std::string& what) {
    throw base::Error(base::Code::User, "a communication curve " + what);
  };
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

}  // namespace regatta::topology
