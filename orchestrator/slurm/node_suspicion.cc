#include "orchestrator/slurm/node_suspicion.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"

namespace regatta::orchestrator::slurm {
namespace {

constexpr double kForgottenHalfLives = 10;

struct BlameWord {
  Blame blame;
  std::string_view stored;
  std::string_view told;  // "… under RUN 12 min ago"
};
constexpr BlameWord kBlameWords[] = {
    {Blame::NodeFailed, "node failed", "node failed"},
    {Blame::LaunchFailed, "launch failed", "launch failed"},
    {Blame::Prolog, "prolog", "prolog failed"},
    {Blame::Hung, "hung", "a rank hung"},
    {Blame::Corrupted, "corrupted", "a rank computed wrong numbers"},
    {Blame::Slow, "slow", "slow in its bench"},
    {Blame::Shared, "shared", "early end with no node named"},
    {Blame::Worked, "worked", "good work"},
};

const BlameWord& word(Blame blame) {
  const auto* found = std::find_if(std::begin(kBlameWords), std::end(kBlameWords),
                                   [&](const BlameWord& row) { return row.blame == blame; });
  base::check(found != std::end(kBlameWords), "every blame has a word");
  return *found;
}

double age(const NodeEvent& event, double now_utc) { return std::max(0.0, now_utc - event.utc); }

// Without what is forgotten, the oldest first, and what is one incident once.
std::vector<NodeEvent> incidents(std::vector<NodeEvent> events, double now_utc,
                                 const SuspicionPolicy& policy) {
  std::erase_if(events, [&](const NodeEvent& event) {
    return !std::isfinite(event.utc) || is_forgotten(event, now_utc, policy);
  });
  // Good work first where times are equal, so that the order of the events does not matter.
  std::stable_sort(events.begin(), events.end(), [](const NodeEvent& a, const NodeEvent& b) {
    const bool a_failed = a.blame != Blame::Worked;
    const bool b_failed = b.blame != Blame::Worked;
    return std::pair(a.utc, a_failed) < std::pair(b.utc, b_failed);
  });
  // Of benches the newest says how fast the node is; what earlier ones said is no longer so.
  bool seen = false;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->blame != Blame::Slow) continue;
    if (seen) event->weight = 0;
    seen = true;
  }
  std::erase_if(events, [](const NodeEvent& event) {
    return event.blame == Blame::Slow && event.weight <= 0;
  });
  std::vector<NodeEvent> out;
  std::map<std::string, std::pair<std::size_t, double>> last;  // by run: where in out, since when
  for (NodeEvent& event : events) {
    if (event.blame == Blame::Worked || event.blame == Blame::Slow) {
      out.push_back(std::move(event));
      continue;
    }
    event.weight = std::clamp(event.weight, 0.0, 1.0);
    const auto known = last.find(event.run);
    if (known != last.end() && event.utc - known->second.second <= policy.same_seconds) {
      NodeEvent& kept = out[known->second.first];
      if (event.weight <= kept.weight) continue;
      event.utc = kept.utc;
      kept = std::move(event);
      continue;
    }
    last[event.run] = {out.size(), event.utc};
    out.push_back(std::move(event));
  }
  return out;
}

double score_of(const std::vector<NodeEvent>& incidents, double now_utc,
                const SuspicionPolicy& policy) {
  double sum = 0;
  for (const NodeEvent& event : incidents) {
    const double weight = event.blame == Blame::Worked ? -policy.worked_credit : event.weight;
    const double faded = weight * std::exp2(-age(event, now_utc) / policy.half_life_seconds);
    sum = std::max(0.0, sum + faded);
  }
  return sum;
}

// Whether it is a share of an early end for which a node of the same run was named.
bool is_explained(const NodeEvent& event, const std::vector<NodeEvent>& events,
                  const SuspicionPolicy& policy) {
  if (event.blame != Blame::Shared) return false;
  return std::any_of(events.begin(), events.end(), [&](const NodeEvent& other) {
    const double later = other.utc - event.utc;
    const bool names =
        other.blame != Blame::Shared && other.blame != Blame::Worked && other.blame != Blame::Slow;
    return names && other.run == event.run && later >= -policy.same_seconds &&
           later < kNamedSeconds;
  });
}

// "12 min", rounded to what people say; a span is rounded up, so that all of it is within.
enum class Rounding { Nearest, Up };
std::string roughly(double seconds, Rounding rounding) {
  const auto whole = [&](double unit) {
    const double count = seconds / unit;
    return std::max(1LL, std::llround(rounding == Rounding::Up ? std::ceil(count) : count));
  };
  if (seconds < 60) return std::to_string(whole(1)) + " s";
  if (seconds < 3600) return std::to_string(whole(60)) + " min";
  return std::to_string(whole(3600)) + " h";
}

std::string why(const std::vector<NodeEvent>& incidents, double now_utc) {
  const NodeEvent* newest = nullptr;
  const NodeEvent* oldest = nullptr;
  std::size_t count = 0;
  for (const NodeEvent& event : incidents) {
    if (event.blame == Blame::Worked) continue;
    if (oldest == nullptr) oldest = &event;
    newest = &event;
    ++count;
  }
  if (newest == nullptr) return "";
  std::string last(word(newest->blame).told);
  if (!newest->run.empty()) last += " under " + newest->run;
  last += " " + roughly(age(*newest, now_utc), Rounding::Nearest) + " ago";
  if (count == 1) return last;
  return std::to_string(count) + " failures in the last " +
         roughly(age(*oldest, now_utc), Rounding::Up) + ", the last: " + last;
}

}  // namespace

std::string_view to_string(Blame blame) { return word(blame).stored; }

std::optional<Blame> parse_blame(std::string_view text) {
  for (const BlameWord& row : kBlameWords) {
    if (row.stored == text) return row.blame;
  }
  return std::nullopt;
}

bool is_forgotten(const NodeEvent& event, double now_utc, const SuspicionPolicy& policy) {
  return age(event, now_utc) > kForgottenHalfLives * policy.half_life_seconds;
}

double score(const std::vector<NodeEvent>& events, double now_utc, const SuspicionPolicy& policy) {
  return score_of(incidents(events, now_utc, policy), now_utc, policy);
}

std::vector<Avoided> suspicions(const std::vector<NodeEvent>& events, double now_utc,
                                const SuspicionPolicy& policy) {
  std::map<std::string, std::vector<NodeEvent>> by_node;
  for (const NodeEvent& event : events) {
    if (!is_explained(event, events, policy)) by_node[event.node].push_back(event);
  }
  std::vector<Avoided> out;
  for (auto& [node, of_node] : by_node) {
    const std::vector<NodeEvent> counted = incidents(std::move(of_node), now_utc, policy);
    const double points = score_of(counted, now_utc, policy);
    if (points > 0) out.push_back({node, points, why(counted, now_utc)});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Avoided& a, const Avoided& b) { return a.score > b.score; });
  return out;
}

std::vector<Avoided> nodes_to_avoid(const std::vector<NodeEvent>& events, double now_utc,
                                    const SuspicionPolicy& policy,
                                    const std::vector<std::string>& usable, std::size_t needed) {
  const std::set<std::string> there(usable.begin(), usable.end());
  if (!there.empty() && there.size() < needed) return {};
  std::size_t left = there.empty() ? policy.most_unknown : there.size() - needed;
  std::vector<Avoided> out;
  for (Avoided& suspect : suspicions(events, now_utc, policy)) {
    if (suspect.score < policy.threshold) break;
    if (there.empty() || there.contains(suspect.node)) {
      if (left == 0) continue;
      --left;
    }
    out.push_back(std::move(suspect));
  }
  return out;
}

}  // namespace regatta::orchestrator::slurm
