#include "orchestrator/control/node_avoidance.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::control {
namespace {

constexpr double kAvoidedAgainSeconds = 60;  // at the nodes that a waiting job avoids
constexpr double kDeadSeconds = 5;           // between two looks for dead nodes

trainer::contract::SlurmResources resources_of(const runs::Run& run) {
  return trainer::contract::slurm_resources_of(
      trainer::contract::parse_run_config(run.config, "run.json"));
}

}  // namespace

void NodeAvoidance::judge_launch(const runs::Run& run, const runs::ProcessReport& report,
                                 double ended_utc) {
  std::vector<slurm::NodeEvent> events = judge_report(run.id, report, ended_utc);
  std::erase_if(events, [this](const slurm::NodeEvent& event) { return is_blamed(event); });
  judge(std::nullopt, events);
}

bool NodeAvoidance::is_blamed(const slurm::NodeEvent& event) {
  return std::any_of(events().begin(), events().end(), [&](const slurm::NodeEvent& known) {
    return known.blame == event.blame && known.node == event.node && known.run == event.run &&
           std::abs(known.utc - event.utc) < slurm::kNamedSeconds;
  });
}

void NodeAvoidance::begin_round() {
  may_tell_ = true;
  const double now = clock_.monotonic_seconds();
  if (early_ends_.empty() || now - dead_looked_ < kDeadSeconds) return;
  dead_looked_ = now;
  blame_dead_nodes();
}

void NodeAvoidance::blame_dead_nodes() {
  const std::vector<std::string> dead = scheduler_.lost_nodes();
  std::vector<slurm::NodeEvent> events;
  for (const EarlyEnd& end : early_ends_) {
    for (const std::string& node : end.nodes) {
      if (std::find(dead.begin(), dead.end(), node) == dead.end()) continue;
      events.push_back(
          {node, end.utc, slurm::Blame::NodeFailed, end.run, "the scheduler lost it", 1});
    }
  }
  std::erase_if(events, [this](const slurm::NodeEvent& event) { return is_blamed(event); });
  judge(std::nullopt, events);
  const double old = clock_.utc_seconds() - slurm::kNamedSeconds;
  std::erase_if(early_ends_, [&](const EarlyEnd& end) { return end.utc < old; });
}

void NodeAvoidance::judge(const std::optional<runs::AttemptNumber>& attempt,
                          const std::vector<slurm::NodeEvent>& events) {
  if (attempt || !events.empty()) store_.judge(attempt, events);
}

// Read once, and again after every judgement, also of a bench that somebody sent; what has faded is
// left out.
const std::vector<slurm::NodeEvent>& NodeAvoidance::events() {
  const std::int64_t judgements = store_.judgements();
  if (!events_ || judgements_ != judgements) {
    judgements_ = judgements;
    events_ = store_.node_events();
    std::erase_if(*events_, [this](const slurm::NodeEvent& event) {
      return slurm::is_forgotten(event, clock_.utc_seconds(), {});
    });
  }
  return *events_;
}

void NodeAvoidance::judge_corruption(const runs::Run& run,
                                     const std::vector<runs::Launch>& launches,
                                     const std::vector<FollowedCorruption>& corruption) {
  for (const FollowedCorruption& each : corruption) {
    const runs::Launch* launch = nullptr;
    for (const runs::Launch& one : launches) {
      if (one.attempts_before < each.attempt) launch = &one;
    }
    if (launch == nullptr) continue;
    const auto event = control::judge_corruption(run.id, each, *launch);
    if (event && !is_blamed(*event)) judge(std::nullopt, {*event});
  }
}

void NodeAvoidance::judge_attempts(const runs::Run& run, const runs::ProcessReport& report,
                                   std::vector<runs::Attempt>* attempts,
                                   const std::vector<runs::Launch>& launches,
                                   const std::vector<JournalPart>& parts) {
  const bool gone =
      report.state == runs::ProcessState::Ended || report.state == runs::ProcessState::Gone;
  for (runs::Attempt& attempt : *attempts) {
    const bool newest = &attempt == &attempts->back();
    if (attempt.judged || (newest && !attempt.exit_code && !gone)) continue;
    const auto part = std::find_if(parts.begin(), parts.end(), [&](const JournalPart& each) {
      return each.name.number == attempt.number && each.name.execution == attempt.execution;
    });
    if (part == parts.end()) continue;
    std::optional<runs::Launch> launch;
    for (const runs::Launch& each : launches) {
      if (each.attempts_before < attempt.number) launch = each;
    }
    std::vector<slurm::NodeEvent> events;
    if (launch) {
      launch->cause = gone && newest ? runs::name_of(report.cause) : launch->cause;
      events = judge_attempt(run.id, attempt, *launch, part->hang);
    }
    judge(attempt.row, events);
    attempt.judged = true;
    if (events.empty() || events.front().blame != slurm::Blame::Shared) continue;
    early_ends_.push_back({run.id, {}, events.front().utc});
    for (const slurm::NodeEvent& event : events) early_ends_.back().nodes.push_back(event.node);
  }
}

std::vector<std::string> NodeAvoidance::suspects(const runs::Run& run) {
  if (events().empty()) return {};
  const trainer::contract::SlurmResources wanted = resources_of(run);
  return suspects_among(scheduler_.usable_nodes(wanted), wanted.min_nodes);
}

std::vector<std::string> NodeAvoidance::suspects_among(
    const std::optional<std::vector<std::string>>& usable, int least_nodes) {
  if (usable && usable->empty()) return {};
  std::vector<std::string> nodes;
  for (const slurm::Avoided& avoided : slurm::nodes_to_avoid(
           events(), clock_.utc_seconds(), {}, usable.value_or(std::vector<std::string>()),
           static_cast<std::size_t>(least_nodes))) {
    nodes.push_back(avoided.node);
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

void NodeAvoidance::tell_waiting_job(const runs::Run& run, const std::string& handle,
                                     Avoidance* avoidance) {
  const double now = clock_.monotonic_seconds();
  const std::int64_t judgements = store_.judgements();
  if (!may_tell_ || (avoidance->judgements == judgements && now < avoidance->look_again)) return;
  const trainer::contract::SlurmResources wanted = resources_of(run);
  std::vector<std::string> nodes;
  if (!events().empty()) {
    // Where nobody knows the nodes, a job that waits cannot be helped: this is no wish.
    const auto usable = scheduler_.usable_nodes(wanted);
    if (usable) nodes = suspects_among(usable, wanted.min_nodes);
  }
  avoidance->judgements = judgements;
  avoidance->look_again = now + kAvoidedAgainSeconds;
  if (nodes == avoidance->avoided) return;
  may_tell_ = false;
  std::set<std::string> all(wanted.exclude.begin(), wanted.exclude.end());
  all.insert(nodes.begin(), nodes.end());
  scheduler_.avoid(handle, {all.begin(), all.end()});
  avoidance->avoided = std::move(nodes);
}

}  // namespace regatta::orchestrator::control
