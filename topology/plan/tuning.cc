#include "topology/plan/tuning.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace regatta::topology::plan {
namespace {

constexpr std::uint64_t kLeastBytes = 256;
constexpr int kStepsADoubling = 2;
constexpr int kMostChannels = 64;

// A way that beats NCCL's own at some size.
struct Win {
  nccl::Way way;
  double us = 0, default_us = 0;
  bool measured = false;
};

auto key_of(const nccl::Way& way) { return std::tie(way.algorithm, way.protocol, way.channels); }

std::vector<std::uint64_t> sizes_up_to(std::uint64_t most_bytes) {
  std::vector<std::uint64_t> sizes;
  for (int i = 0;; ++i) {
    const double size = static_cast<double>(kLeastBytes) *
                        std::exp2(static_cast<double>(i) / static_cast<double>(kStepsADoubling));
    if (size >= static_cast<double>(most_bytes)) break;
    sizes.push_back(static_cast<std::uint64_t>(std::llround(size)));
  }
  if (most_bytes >= kLeastBytes) sizes.push_back(most_bytes);
  return sizes;
}

nccl::Way without_channels(nccl::Way way) {
  way.channels = 0;
  return way;
}

// What NCCL's own choice takes.
nccl::Prediction own_prediction(const nccl::CalibratedModel& model, const nccl::Call& call,
                                const nccl::Way& own) {
  const nccl::Prediction chosen =
      model.predict({call.collective, std::nullopt, call.op}, call.bytes);
  if (chosen.basis == nccl::Basis::Measured) return chosen;
  const nccl::Prediction by_way = model.predict({call.collective, own, call.op}, call.bytes);
  return by_way.basis == nccl::Basis::Measured ? by_way : chosen;
}

std::vector<Win> wins_at(const nccl::CalibratedModel& model, const nccl::Call& call) {
  const nccl::Way own = without_channels(model.model().choice(call).way);
  const nccl::Prediction today = own_prediction(model, call, own);
  std::vector<Win> wins;
  for (int i = 0; i < nccl::kAlgorithms * nccl::kProtocols; ++i) {
    nccl::Way way = {static_cast<nccl::Algorithm>(i / nccl::kProtocols),
                     static_cast<nccl::Protocol>(i % nccl::kProtocols)};
    if (!model.model().is_offered(call, way)) continue;
    const bool any_channels =
        way.algorithm == nccl::Algorithm::Ring || way.algorithm == nccl::Algorithm::Tree;
    for (way.channels = 0; way.channels <= (any_channels ? kMostChannels : 0); ++way.channels) {
      const nccl::Prediction found = model.predict({call.collective, way, call.op}, call.bytes);
      const bool is_measured = found.basis == nccl::Basis::Measured;
      if (!is_measured && (way.channels > 0 || key_of(way) == key_of(own))) continue;
      if (found.high_us >= today.low_us) continue;
      wins.push_back(
          {way, found.us, today.us, is_measured && today.basis == nccl::Basis::Measured});
    }
  }
  return wins;
}

// The way that wins at both ends of a step, the fastest over both; null: none does.
const Win* winner(const std::vector<Win>& at_begin, const std::vector<Win>& at_end,
                  bool* measured) {
  const Win* best = nullptr;
  double best_us = 0;
  for (const Win& begin : at_begin) {
    const auto end = std::find_if(at_end.begin(), at_end.end(), [&](const Win& win) {
      return key_of(win.way) == key_of(begin.way);
    });
    if (end == at_end.end() || (best != nullptr && begin.us + end->us >= best_us)) continue;
    best = &begin;
    best_us = begin.us + end->us;
    *measured = begin.measured && end->measured;
  }
  return best;
}

void tune_collective(const nccl::CalibratedModel& model, nccl::Collective collective,
                     std::uint64_t most_bytes, std::vector<TunedRange>* ranges) {
  const std::vector<std::uint64_t> sizes = sizes_up_to(most_bytes);
  std::vector<std::vector<Win>> wins;
  for (const std::uint64_t bytes : sizes) wins.push_back(wins_at(model, {collective, bytes}));
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    bool measured = false;
    const Win* const win = winner(wins[i], wins[i + 1], &measured);
    if (win == nullptr) continue;
    const bool last = i + 2 == sizes.size() && most_bytes < TunedRange::kNoEnd - 1;
    const std::uint64_t to_bytes = sizes[i + 1] + (last ? 1 : 0);
    if (!ranges->empty()) {
      TunedRange& before = ranges->back();
      if (before.collective == collective && before.to_bytes == sizes[i] &&
          key_of(before.way) == key_of(win->way) && before.measured == measured) {
        before.to_bytes = to_bytes;
        continue;
      }
    }
    ranges->push_back(
        {collective, sizes[i], to_bytes, win->way, win->us, win->default_us, measured});
  }
}

// Appends NCCL's own choices for [from, to), a range for each run of sizes with one way.
void add_own(const nccl::CostModel& model, nccl::Collective collective, std::uint64_t from,
             std::uint64_t to, std::vector<TunedRange>* ranges) {
  while (from < to) {
    const std::uint64_t doubled = from < kLeastBytes ? kLeastBytes : 2 * from;
    const std::uint64_t end = doubled < from || doubled > to ? to : doubled;
    const nccl::Way way =
        without_channels(model.choice({collective, std::max<std::uint64_t>(from, 1)}).way);
    TunedRange* const before = ranges->empty() ? nullptr : &ranges->back();
    if (before != nullptr && before->collective == collective && before->to_bytes == from &&
        before->us == 0 && key_of(before->way) == key_of(way)) {
      before->to_bytes = end;
    } else {
      ranges->push_back({collective, from, end, way});
    }
    from = end;
  }
}

}  // namespace

TunerTable tune(const nccl::CalibratedModel& model, const TuneOptions& options) {
  TunerTable table;
  table.ranks = model.model().ranks();
  table.nodes = model.model().allocation().nodes;
  table.nccl_version = options.nccl_version;
  if (table.ranks < 2) return table;
  std::vector<nccl::Collective> collectives = options.collectives;
  std::sort(collectives.begin(), collectives.end());
  for (const nccl::Collective collective : collectives) {
    tune_collective(model, collective, options.most_bytes, &table.ranges);
  }
  return table;
}

TunerTable with_own_choices(const TunerTable& table, const nccl::CostModel& model) {
  TunerTable full = table;
  full.ranges.clear();
  for (int i = 0; i < nccl::kCollectives && model.ranks() > 1; ++i) {
    const auto collective = static_cast<nccl::Collective>(i);
    std::uint64_t covered = 0;
    for (const TunedRange& range : table.ranges) {
      if (range.collective != collective) continue;
      add_own(model, collective, covered, range.from_bytes, &full.ranges);
      full.ranges.push_back(range);
      covered = range.to_bytes;
    }
    add_own(model, collective, covered, TunedRange::kNoEnd, &full.ranges);
  }
  return full;
}

}  // namespace regatta::topology::plan
