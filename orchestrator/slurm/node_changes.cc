#include "orchestrator/slurm/node_changes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "topology/graph/hostlist.h"

namespace regatta::orchestrator::slurm {
namespace {

// In the order in which they are told.
constexpr std::string_view kDown = "node.down", kSilent = "node.not_responding",
                           kDrained = "node.drained", kResumed = "node.resumed",
                           kAppeared = "node.appeared", kDisappeared = "node.disappeared",
                           kFlapping = "node.flapping";
constexpr std::size_t kMostReason = 200;  // bytes of it in an event of several nodes

// Slurm prints a line break as many blanks, and an event's words are one line.
std::string one_line(const std::optional<std::string>& reason) {
  std::string line = reason.value_or("");
  std::replace(line.begin(), line.end(), '\n', ' ');
  const auto both_blank = [](char a, char b) { return a == ' ' && b == ' '; };
  line.erase(std::unique(line.begin(), line.end(), both_blank), line.end());
  return line;
}

// A node that is being started or stopped need not answer.
bool is_powering(const NodeState& state) {
  return state.has(NodeFlag::PoweringUp) || state.has(NodeFlag::PoweringDown) ||
         state.has(NodeFlag::PoweredDown) || state.has(NodeFlag::RebootRequested);
}

NodeStanding standing_of(const NodeRow& row) {
  const NodeState& state = row.state;
  NodeStanding standing;
  standing.node = row.name;
  standing.down = state.base == NodeBase::Down || state.base == NodeBase::Error;
  standing.silent = !standing.down && state.has(NodeFlag::NotResponding) && !is_powering(state);
  standing.drained =
      state.has(NodeFlag::Drain) || state.has(NodeFlag::Fail) || state.has(NodeFlag::Invalid);
  if (standing.down || standing.drained) standing.reason = one_line(row.reason);
  return standing;
}

bool is_well(const NodeStanding& standing) {
  return standing.present && !standing.down && !standing.silent && !standing.drained;
}

// What is wrong with it, the worst first: its kind and its name.
std::pair<std::string_view, const char*> trouble_of(const NodeStanding& standing) {
  if (standing.down) return {kDown, "down"};
  if (standing.silent) return {kSilent, "not responding"};
  if (standing.drained) return {kDrained, "drained"};
  return {kResumed, "up"};
}

std::string with_reason(const std::string& words, const std::string& reason) {
  return reason.empty() ? words : words + (words.empty() ? "" : ": ") + reason;
}

// What is told of a node that was so and is so now; no kind: nothing.
NodeChange change_of(const NodeStanding& was, const NodeStanding& now, double utc) {
  NodeChange change{{}, now.node, {}};
  if (!now.present) {
    if (was.present) change.kind = kDisappeared;
    return change;
  }
  const auto [kind, name] = trouble_of(now);
  if (!was.present) {
    change.kind = kAppeared;
    if (!is_well(now)) change.words = with_reason(name, now.reason);
  } else if (now.down && !was.down) {
    change = {kDown, now.node, now.reason};
  } else if (now.silent && !was.silent && !now.down) {
    change.kind = kSilent;
  } else if (now.drained && (!was.drained || now.reason != was.reason)) {
    change = {kDrained, now.node, now.reason};
  } else if (was.down != now.down || was.silent != now.silent || was.drained != now.drained) {
    const std::string before = trouble_of(was).second;
    const std::string lasted = base::human_seconds(std::max(0.0, utc - was.since_utc));
    change = is_well(now)
                 ? NodeChange{kResumed, now.node, "after " + lasted + " " + before}
                 : NodeChange{kind, now.node,
                              with_reason("no longer " + before + ", still " + name, now.reason)};
  }
  return change;
}

// Names that Slurm's short form does not take are listed as they are.
std::string folded(const std::vector<std::string>& names) {
  try {
    return topology::graph::compress_hosts(names);
  } catch (const base::Error&) {
    return base::join(names, ", ");
  }
}

NodeChange together(std::string_view kind, const std::vector<NodeChange>& all) {
  std::vector<std::string> names;
  std::set<std::string> words;
  for (const NodeChange& each : all) {
    names.push_back(each.node);
    words.insert(each.words);
  }
  std::string text = std::to_string(all.size()) + " nodes";
  if (words.size() == 1 && !words.begin()->empty()) {
    text += " (" + words.begin()->substr(0, kMostReason) + ")";
  }
  return {kind, "", text + ": " + folded(names)};
}

class News {
 public:
  News(const NodeStandings& known, double utc, const NodeNewsLimits& limits)
      : known_(known), utc_(utc), limits_(limits) {}

  void take(NodeStanding now) {
    seen_.insert(now.node);
    const auto found = known_.find(now.node);
    NodeStanding was;
    if (found != known_.end()) {
      was = found->second;
    } else {
      was.node = now.node;
      was.present = known_.empty();
      was.since_utc = was.counted_utc = utc_;
    }
    take(was, std::move(now), found == known_.end());
  }
  void keep(const std::string& node) { seen_.insert(node); }
  void take_missing() {
    for (const auto& [name, was] : known_) {
      if (seen_.count(name) > 0) continue;
      if (!was.present && utc_ - was.counted_utc >= limits_.window_seconds) {
        news_.forgotten.push_back(name);
        continue;
      }
      NodeStanding now;
      now.node = name;
      now.present = false;
      take(was, std::move(now), false);
    }
  }
  NodeNews finish() {
    for (const std::string_view kind :
         {kDown, kSilent, kDrained, kResumed, kAppeared, kDisappeared, kFlapping}) {
      const auto of_kind = told_.find(kind);
      if (of_kind == told_.end()) continue;
      std::vector<NodeChange>& all = of_kind->second;
      if (all.size() > limits_.most_single) {
        news_.told.push_back(together(kind, all));
      } else {
        news_.told.insert(news_.told.end(), all.begin(), all.end());
      }
    }
    return std::move(news_);
  }

 private:
  void take(const NodeStanding& was, NodeStanding now, bool is_new) {
    NodeChange change = change_of(was, now, utc_);
    if (change.kind.empty()) {
      if (!is_new) return;
      now.since_utc = now.counted_utc = utc_;
      news_.changed.push_back(std::move(now));
      return;
    }
    const bool window_over = utc_ - was.counted_utc >= limits_.window_seconds;
    now.counted_utc = window_over ? utc_ : was.counted_utc;
    now.changes = window_over ? 0 : was.changes;
    if (now.changes >= limits_.most_changes) return;
    const bool same_trouble = trouble_of(was).first == trouble_of(now).first && was.present;
    now.since_utc = same_trouble ? was.since_utc : utc_;
    if (++now.changes == limits_.most_changes) {
      const double rest = now.counted_utc + limits_.window_seconds - utc_;
      change.words = with_reason(std::string(change.kind.substr(5)), change.words) + "; " +
                     std::to_string(now.changes) + " changes in " +
                     base::human_seconds(utc_ - now.counted_utc) + ", the next are told in " +
                     base::human_seconds(rest);
      change.kind = kFlapping;
    }
    told_[change.kind].push_back(std::move(change));
    news_.changed.push_back(std::move(now));
  }

  const NodeStandings& known_;
  const double utc_;
  const NodeNewsLimits limits_;
  std::set<std::string> seen_;
  std::map<std::string_view, std::vector<NodeChange>> told_;
  NodeNews news_;
};

}  // namespace

NodeNews news_of_nodes(const NodeStandings& known, const NodeRows& rows, bool whole, double utc,
                       const NodeNewsLimits& limits) {
  News news(known, utc, limits);
  for (const NodeRow& row : rows) {
    if (row.state.base == NodeBase::Future) continue;
    // A slurmctld that has just started does not know yet.
    if (row.state.base == NodeBase::Unknown) {
      news.keep(row.name);
    } else {
      news.take(standing_of(row));
    }
  }
  if (whole && !rows.empty()) news.take_missing();
  return news.finish();
}

}  // namespace regatta::orchestrator::slurm
