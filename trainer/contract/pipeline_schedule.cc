#include "trainer/contract/pipeline_schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace regatta::trainer::contract {
namespace {

using Way = PipelineWork::Way;

std::size_t element(int i) { return static_cast<std::size_t>(i); }

constexpr double kNotYet = std::numeric_limits<double>::infinity();

// When each micro-batch left each stage, in one direction.
using StageEnds = std::vector<std::vector<double>>;

}  // namespace

std::vector<PipelineWork> pipeline_work(PipelineOrder order, const PipelinePlace& place) {
  base::check(place.stage >= 0 && place.stage < place.stages && place.micro_batches >= 0,
              "the stage is one of the pipeline's");
  const int all = place.micro_batches;
  const int ahead =
      order == PipelineOrder::GPipe ? all : std::min(all, place.stages - 1 - place.stage);
  std::vector<PipelineWork> work;
  for (int i = 0; i < ahead; ++i) work.push_back({Way::Forward, i});
  for (int i = ahead; i < all; ++i) {
    work.push_back({Way::Forward, i});
    work.push_back({Way::Backward, i - ahead});
  }
  for (int i = all - ahead; i < all; ++i) work.push_back({Way::Backward, i});
  return work;
}

int most_in_flight(PipelineOrder order, const PipelinePlace& place) {
  return order == PipelineOrder::GPipe ? place.micro_batches
                                       : std::min(place.micro_batches, place.stages - place.stage);
}

double PipelineTimes::bubble() const {
  const double all_busy = std::accumulate(busy.begin(), busy.end(), 0.0);
  return all_busy > 0 ? static_cast<double>(busy.size()) * end / all_busy - 1 : 0;
}

PipelineTimes pipeline_times(PipelineOrder order, const PipelineCosts& costs) {
  const auto stages = static_cast<int>(costs.forward.size());
  base::check(stages >= 1 && costs.backward.size() == costs.forward.size(),
              "every stage has its costs");
  base::check(costs.link.empty() || std::ssize(costs.link) == stages - 1,
              "every pair of neighbours has its link");
  const auto micro_batches = static_cast<int>(costs.forward[0].size());
  std::vector<std::vector<PipelineWork>> work;
  for (int s = 0; s < stages; ++s) {
    base::check(std::ssize(costs.forward[element(s)]) == micro_batches &&
                    std::ssize(costs.backward[element(s)]) == micro_batches,
                "every micro-batch has its costs");
    work.push_back(pipeline_work(order, {s, stages, micro_batches}));
  }
  StageEnds forward(element(stages), std::vector<double>(element(micro_batches), kNotYet));
  StageEnds backward = forward;
  PipelineTimes times;
  times.busy.assign(element(stages), 0);
  times.stage_end.assign(element(stages), 0);
  times.at.resize(element(stages));
  const auto link = [&](int s, std::size_t i) {
    return costs.link.empty() ? 0.0 : costs.link[element(s)].at(i);
  };
  // When what a piece of work needs from a neighbour is there.
  const auto arrival = [&](int s, const PipelineWork& piece) {
    const std::size_t i = element(piece.micro_batch);
    if (piece.way == Way::Forward) {
      return s == 0 ? 0.0 : forward[element(s) - 1][i] + link(s - 1, i);
    }
    return s == stages - 1 ? 0.0 : backward[element(s) + 1][i] + link(s, i);
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < stages; ++s) {
      std::vector<double>& done = times.at[element(s)];
      while (done.size() < work[element(s)].size()) {
        const PipelineWork& piece = work[element(s)][done.size()];
        const double there = arrival(s, piece);
        if (there == kNotYet) break;
        const std::size_t i = element(piece.micro_batch);
        const bool is_forward = piece.way == Way::Forward;
        const double cost = (is_forward ? costs.forward : costs.backward)[element(s)][i];
        times.stage_end[element(s)] = std::max(times.stage_end[element(s)], there) + cost;
        times.busy[element(s)] += cost;
        (is_forward ? forward : backward)[element(s)][i] = times.stage_end[element(s)];
        done.push_back(times.stage_end[element(s)]);
        moved = true;
      }
    }
  }
  for (int s = 0; s < stages; ++s) {
    base::check(times.at[element(s)].size() == work[element(s)].size(), "no stage waits for ever");
    times.end = std::max(times.end, times.stage_end[element(s)]);
  }
  return times;
}

}  // namespace regatta::trainer::contract
