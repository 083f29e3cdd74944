#include "trainer/watch/rank_progress.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace regatta::trainer::watch {
namespace {

constexpr std::array<const char*, 8> kNames = {
    "loading", "data", "forward", "backward", "reduce", "optimizer", "evaluating", "checkpointing"};
constexpr std::size_t kListed = 8;

bool is_behind(const RankProgress& a, const RankProgress& b) {
  return std::tuple(a.step, a.phase, -a.seconds, a.rank) <
         std::tuple(b.step, b.phase, -b.seconds, b.rank);
}

std::string place(const RankProgress& one) {
  return std::string(name_of(one.phase)) + " of step " + std::to_string(one.step);
}

std::string brief(const RankProgress& one) {
  std::string text = std::to_string(one.rank) + " (" + std::to_string(one.step) + " " +
                     name_of(one.phase) + " " + base::human_seconds(one.seconds);
  if (one.presence == Presence::Left) text += ", ended";
  if (one.presence == Presence::Closed || one.presence == Presence::Failed) text += ", gone";
  return text + ")";
}

// The first that `is_so`, and how many more.
template <typename IsSo>
std::pair<const RankProgress*, int> first_of(const std::vector<RankProgress>& ranks, IsSo is_so) {
  const RankProgress* first = nullptr;
  int more = -1;
  for (const RankProgress& one : ranks) {
    if (!is_so(one)) continue;
    if (first == nullptr) first = &one;
    ++more;
  }
  return {first, more};
}

std::string blamed(const RankProgress& one, int more) {
  std::string text = "rank " + std::to_string(one.rank);
  if (more > 0) text += " (and " + std::to_string(more) + " more)";
  return text;
}

Trip trip(const RankProgress& one, double seconds, bool hangs, std::string why) {
  return {std::move(why), one.rank, one.phase, seconds, hangs};
}

}  // namespace

const char* name_of(Phase phase) { return kNames.at(static_cast<std::size_t>(phase)); }

PhaseLimits::PhaseLimits(double least_seconds)
    : least_seconds_(least_seconds), seen_(kNames.size()) {}

void PhaseLimits::observe(Phase phase, double seconds) {
  Seen& seen = seen_.at(static_cast<std::size_t>(phase));
  ++seen.times;
  seen.longest = std::max(seen.longest, seconds);
}

double PhaseLimits::limit(Phase phase) const {
  const Seen& seen = seen_.at(static_cast<std::size_t>(phase));
  if (phase == Phase::Loading || seen.times < 2) return std::max(least_seconds_, kUnknownSeconds);
  return std::max(least_seconds_, kLearned * seen.longest);
}

const RankProgress* furthest_behind(const std::vector<RankProgress>& ranks) {
  const RankProgress* last = nullptr;
  for (const RankProgress& one : ranks) {
    if (one.presence != Presence::Here) continue;
    if (last == nullptr || is_behind(one, *last)) last = &one;
  }
  return last;
}

std::string listing(std::vector<RankProgress> ranks) {
  std::sort(ranks.begin(), ranks.end(), is_behind);
  std::vector<std::string> parts;
  for (const RankProgress& one : ranks) {
    if (parts.size() == kListed) {
      parts.push_back(std::to_string(ranks.size() - kListed) + " more");
      break;
    }
    parts.push_back(brief(one));
  }
  return base::join(parts, ", ");
}

std::optional<Trip> verdict(const std::vector<RankProgress>& ranks, double silence_seconds,
                            double grace_seconds) {
  const auto rest = [&] {
    return "; ranks: " + listing(ranks) + "; start again from the last checkpoint";
  };
  const auto gone = [&](Presence how) {
    return first_of(ranks, [=](const RankProgress& one) {
      return one.presence == how && one.absent_seconds >= grace_seconds;
    });
  };
  if (const auto [one, more] = gone(Presence::Failed); one != nullptr) {
    return trip(*one, one->absent_seconds, false,
                blamed(*one, more) + " ended with an error in " + place(*one) + rest());
  }
  if (const auto [one, more] = gone(Presence::Closed); one != nullptr) {
    return trip(*one, one->absent_seconds, false,
                blamed(*one, more) + " is gone: its connection closed without a goodbye in " +
                    place(*one) + rest());
  }
  const auto [silent, more] = first_of(ranks, [=](const RankProgress& one) {
    return one.presence == Presence::Here && one.silent_seconds > silence_seconds;
  });
  if (silent != nullptr) {
    return trip(*silent, silent->silent_seconds, true,
                blamed(*silent, more) + " has not been heard of for " +
                    base::human_seconds(silent->silent_seconds) + ", since " + place(*silent) +
                    rest());
  }
  const RankProgress* last = furthest_behind(ranks);
  if (last == nullptr || last->seconds <= last->limit) return std::nullopt;
  return trip(*last, last->seconds, true,
              blamed(*last, 0) + " stands still in " + place(*last) + " for " +
                  base::human_seconds(last->seconds) + " (limit " +
                  base::human_seconds(last->limit) + ")" + rest());
}

}  // namespace regatta::trainer::watch
