// How long a collective takes, as a function of its bytes: what the cost model predicts or what was
// measured. The bucket programme knows nothing else of the machines.
#pragma once

#include <functional>
#include <vector>

namespace regatta::topology::nccl {

class CommunicationCurve {
 public:
  struct Point {
    double bytes = 0;
    double seconds = 0;
  };

  // Straight between points; below the first one flat, since what is left there is latency; beyond
  // the last one as steep as before it (flat, if it falls there). Throws Code::User naming the
  // point if there is none, bytes do not grow, or a figure is negative or not finite.
  explicit CommunicationCurve(std::vector<Point> points);

  // latency + bytes / bandwidth.
  [[nodiscard]] static CommunicationCurve of_line(double latency_seconds, double gb_per_s);

  // Takes `seconds` at four sizes an octave from 256 bytes to at least `most_bytes`, so that a
  // model is asked a hundred times and not for every pair of tensors.
  [[nodiscard]] static CommunicationCurve sampled(const std::function<double(double)>& seconds,
                                                  double most_bytes);

  // From measurements, any number of a size, in any order: the median of each size. Where a larger
  // size took no longer than a smaller one, which only disturbances do, a point in their midst
  // stands for them (weighted by measurements), so that time grows with bytes. Throws Code::User
  // naming the measurement if there is none, one is of less than no bytes or took no time.
  [[nodiscard]] static CommunicationCurve measured(std::vector<Point> samples);

  // The same with `latency_factor` as much latency (the first point's time) and `rest_factor` as
  // much of all time beyond it: how it may be where the curve is wrong. Factors are above 0.
  [[nodiscard]] CommunicationCurve scaled(double latency_factor, double rest_factor) const;

  [[nodiscard]] double seconds(double bytes) const;
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;  // at least one
};

}  // namespace regatta::topology::nccl
