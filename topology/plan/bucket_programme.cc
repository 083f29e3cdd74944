#include "topology/plan/bucket_programme.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"

namespace regatta::topology::plan {
namespace {

constexpr int kContentionRounds = 4;

std::int64_t bytes_of(const StepTensor& tensor) { return tensor.end_byte - tensor.begin_byte; }

// Numbers of tensors after which a bucket may end, the last one all of them.
std::vector<std::size_t> places_to_cut(const StepInputs& inputs) {
  const std::size_t count = inputs.tensors.size();
  std::vector<std::size_t> ends;
  for (std::size_t end = 1; end <= count; ++end) {
    const bool is_apart =
        end == count || inputs.tensors[end].ready_seconds > inputs.tensors[end - 1].ready_seconds;
    if (count <= kMostCuts || is_apart) ends.push_back(end);
  }
  const std::size_t stride = (ends.size() + kMostCuts - 1) / kMostCuts;
  std::vector<std::size_t> thinned;
  for (std::size_t i = stride - 1; i < ends.size(); i += stride) thinned.push_back(ends[i]);
  if (thinned.back() != count) thinned.back() = count;
  return thinned;
}

// The programme over the places where a bucket may end.
class Programme {
 public:
  Programme(const StepInputs& inputs, const nccl::CommunicationCurve& curve) {
    ends_ = places_to_cut(inputs);
    places_ = ends_.size();
    seconds_.resize(places_ * places_);
    for (std::size_t i = 0; i < places_; ++i) {
      const StepTensor& last = inputs.tensors[ends_[i] - 1];
      ready_.push_back(last.ready_seconds);
      for (std::size_t j = 0; j <= i; ++j) {
        const StepTensor& first = inputs.tensors[j == 0 ? 0 : ends_[j - 1]];
        seconds_[i * places_ + j] =
            curve.seconds(static_cast<double>(last.end_byte - first.begin_byte));
      }
    }
  }

  // With any number of buckets.
  [[nodiscard]] double earliest_end() const {
    std::vector<double> ends(places_ + 1, 0);
    for (std::size_t i = 0; i < places_; ++i) {
      ends[i + 1] = std::numeric_limits<double>::infinity();
      for (std::size_t j = 0; j <= i; ++j) {
        ends[i + 1] = std::min(ends[i + 1], std::max(ends[j], ready_[i]) + cost(j, i));
      }
    }
    return ends[places_];
  }

  // The fewest buckets that end by `deadline`, as late as earliest_end() at least.
  [[nodiscard]] std::vector<Bucket> fewest(double deadline) const {
    const double never = std::numeric_limits<double>::infinity();
    std::vector<double> before(places_ + 1, never), after(places_ + 1, never);
    before[0] = 0;
    std::vector<std::vector<std::uint16_t>> begins;  // of the last of k buckets up to place i
    do {
      begins.emplace_back(places_ + 1);
      after[0] = never;
      for (std::size_t i = begins.size() - 1; i < places_; ++i) {
        double best = never;
        for (std::size_t j = begins.size() - 1; j <= i; ++j) {
          const double end = std::max(before[j], ready_[i]) + cost(j, i);
          if (end >= best) continue;
          best = end;
          begins.back()[i + 1] = static_cast<std::uint16_t>(j);
        }
        after[i + 1] = best;
      }
      for (std::size_t i = 0; i + 1 < begins.size(); ++i) after[i + 1] = never;
      std::swap(before, after);
    } while (before[places_] > deadline && begins.size() < places_);
    return buckets_from(begins);
  }

 private:
  // Of a bucket that begins behind place j (0: at the first tensor) and ends at place i + 1.
  [[nodiscard]] double cost(std::size_t j, std::size_t i) const {
    return seconds_[i * places_ + j];
  }

  [[nodiscard]] std::vector<Bucket> buckets_from(
      const std::vector<std::vector<std::uint16_t>>& begins) const {
    std::vector<Bucket> buckets(begins.size());
    std::size_t end = places_;
    for (std::size_t k = begins.size(); k-- > 0;) {
      const std::size_t begin = begins[k][end];
      buckets[k].end_tensor = static_cast<int>(ends_[end - 1]);
      buckets[k].begin_tensor = begin == 0 ? 0 : static_cast<int>(ends_[begin - 1]);
      end = begin;
    }
    return buckets;
  }

  std::size_t places_ = 0;
  std::vector<std::size_t> ends_;  // in tensors, of each place
  std::vector<double> ready_;
  std::vector<double> seconds_;  // a row for each place where a bucket ends
};

bool is_same(const std::vector<Bucket>& a, const std::vector<Bucket>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Bucket& x, const Bucket& y) { return x.end_tensor == y.end_tensor; });
}

}  // namespace

std::vector<Bucket> one_bucket(const StepInputs& inputs) {
  return {{0, static_cast<int>(inputs.tensors.size())}};
}

std::vector<Bucket> buckets_of_at_most(const StepInputs& inputs, std::int64_t bytes) {
  std::vector<Bucket> buckets;
  std::int64_t size = 0;
  for (int i = 0; i < static_cast<int>(inputs.tensors.size()); ++i) {
    const std::int64_t more = bytes_of(inputs.tensors[static_cast<std::size_t>(i)]);
    if (buckets.empty() || size + more > bytes) {
      buckets.push_back({i, i});
      size = 0;
    }
    buckets.back().end_tensor = i + 1;
    size += more;
  }
  return buckets;
}

std::vector<Bucket> megatron_buckets(const StepInputs& inputs, int ranks) {
  const std::int64_t least =
      4 * std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * ranks);
  std::vector<Bucket> buckets;
  std::int64_t size = least;  // so that the first tensor opens a bucket
  for (int i = 0; i < static_cast<int>(inputs.tensors.size()); ++i) {
    if (size >= least) {
      buckets.push_back({i, i});
      size = 0;
    }
    buckets.back().end_tensor = i + 1;
    size += bytes_of(inputs.tensors[static_cast<std::size_t>(i)]);
  }
  return buckets;
}

std::vector<Bucket> buckets_as_ready(const StepInputs& inputs) {
  std::vector<Bucket> buckets;
  double ready = -1;
  for (int i = 0; i < static_cast<int>(inputs.tensors.size()); ++i) {
    const double now = inputs.tensors[static_cast<std::size_t>(i)].ready_seconds;
    if (now > ready) buckets.push_back({i, i});
    ready = now;
    buckets.back().end_tensor = i + 1;
  }
  return buckets;
}

std::vector<Bucket> best_buckets(const StepInputs& inputs, const nccl::CommunicationCurve& curve,
                                 double tolerance_seconds) {
  base::check(!inputs.tensors.empty(), "a step has gradients");
  const Programme programme(inputs, curve);
  return programme.fewest(std::max(programme.earliest_end(), inputs.compute_seconds) +
                          tolerance_seconds);
}

std::vector<Bucket> best_buckets_under_contention(const StepInputs& inputs,
                                                  const nccl::CommunicationCurve& curve,
                                                  double tolerance_seconds) {
  std::vector<Bucket> best = best_buckets(inputs, curve, tolerance_seconds);
  if (inputs.slowdown <= 0) return best;
  StepTimeline timeline = run_step(inputs, best, curve);
  double best_seconds = timeline.step_seconds;
  std::vector<Bucket> last = best;
  for (int round = 0; round < kContentionRounds; ++round) {
    std::vector<Bucket> next = best_buckets(slowed_by(inputs, timeline), curve, tolerance_seconds);
    if (is_same(next, last)) break;
    timeline = run_step(inputs, next, curve);
    if (timeline.step_seconds < best_seconds) {
      best_seconds = timeline.step_seconds;
      best = next;
    }
    last = std::move(next);
  }
  return best;
}

}  // namespace regatta::topology::plan
