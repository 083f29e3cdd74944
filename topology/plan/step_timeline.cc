#include "topology/plan/step_timeline.h"

#include <algorithm>

#include "base/error.h"

namespace regatta::topology::plan {
namespace {

// When computing gets how far, if collectives slow it down.
class ComputeClock {
 public:
  explicit ComputeClock(double slowdown) : slowdown_(slowdown) {}

  // `work`: seconds that it takes undisturbed.
  [[nodiscard]] double time_of(double work) const {
    const auto after =
        std::upper_bound(knots_.begin(), knots_.end(), work,
                         [](double value, const Knot& knot) { return value < knot.work; });
    const Knot& knot = *(after - 1);
    return knot.time + (work - knot.work) * knot.pace;
  }

  // A collective runs; they come in order and do not overlap.
  void busy(double start, double end) {
    const Knot last = knots_.back();
    const double begun = last.work + (start - last.time) / last.pace;
    const double pace = 1 + slowdown_;
    knots_.push_back({start, begun, pace});
    knots_.push_back({end, begun + (end - start) / pace, 1});
  }

 private:
  struct Knot {
    double time, work, pace;  // seconds of time for one of work, from here on
  };
  std::vector<Knot> knots_{{0, 0, 1}};
  double slowdown_;
};

void check_inputs(const StepInputs& inputs) {
  base::check(!inputs.tensors.empty(), "a step has gradients");
  base::check(inputs.slowdown >= 0, "collectives do not make computing faster");
  double ready = 0;
  std::int64_t end = 0;
  for (const StepTensor& tensor : inputs.tensors) {
    base::check(tensor.ready_seconds >= ready, "gradients get ready in the order of the arena");
    base::check(tensor.begin_byte >= end && tensor.end_byte >= tensor.begin_byte,
                "gradients lie in the arena one after another");
    ready = tensor.ready_seconds;
    end = tensor.end_byte;
  }
  base::check(inputs.compute_seconds >= ready, "backward ends after its last gradient");
}

}  // namespace

StepTimeline run_step(const StepInputs& inputs, const std::vector<Bucket>& buckets,
                      const nccl::CommunicationCurve& curve) {
  check_inputs(inputs);
  StepTimeline timeline;
  timeline.forward_seconds = inputs.forward_seconds;
  timeline.tail_seconds = inputs.tail_seconds;
  ComputeClock clock(inputs.slowdown);
  double free = 0;
  int begin = 0;
  for (const Bucket& bucket : buckets) {
    base::check(bucket.begin_tensor == begin && bucket.end_tensor > begin &&
                    bucket.end_tensor <= static_cast<int>(inputs.tensors.size()),
                "buckets cover the tensors in order");
    begin = bucket.end_tensor;
    const StepTensor& first = inputs.tensors[static_cast<std::size_t>(bucket.begin_tensor)];
    const StepTensor& last = inputs.tensors[static_cast<std::size_t>(bucket.end_tensor) - 1];
    BucketSpan span;
    span.bytes = last.end_byte - first.begin_byte;
    span.ready_seconds = clock.time_of(last.ready_seconds);
    span.start_seconds = std::max(free, span.ready_seconds);
    const double seconds = curve.seconds(static_cast<double>(span.bytes));
    span.end_seconds = span.start_seconds + seconds;
    free = span.end_seconds;
    clock.busy(span.start_seconds, span.end_seconds);
    timeline.communication_seconds += seconds;
    timeline.buckets.push_back(span);
  }
  base::check(begin == static_cast<int>(inputs.tensors.size()), "buckets cover all tensors");
  timeline.compute_seconds = clock.time_of(inputs.compute_seconds);
  timeline.exposed_seconds = std::max(0.0, free - timeline.compute_seconds);
  timeline.step_seconds =
      timeline.compute_seconds + timeline.exposed_seconds + timeline.tail_seconds;
  return timeline;
}

StepInputs slowed_by(const StepInputs& inputs, const StepTimeline& timeline) {
  StepInputs slowed = inputs;
  ComputeClock clock(inputs.slowdown);
  for (const BucketSpan& span : timeline.buckets) clock.busy(span.start_seconds, span.end_seconds);
  double latest = 0;  // rounding must not put one before another
  for (StepTensor& tensor : slowed.tensors) {
    latest = std::max(latest, clock.time_of(tensor.ready_seconds));
    tensor.ready_seconds = latest;
  }
  slowed.compute_seconds = std::max(latest, clock.time_of(inputs.compute_seconds));
  slowed.slowdown = 0;
  return slowed;
}

}  // namespace regatta::topology::plan
