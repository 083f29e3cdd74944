#include "orchestrator/control/node_judge.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "topology/graph/hostlist.h"
#include "trainer/contract/exit_code.h"

namespace regatta::orchestrator::control {
namespace {

using trainer::contract::ExitCode;

constexpr std::uint64_t kMostHangBytes = 65536;
// Two early ends in a row make the only node of a run a suspect, one does not.
constexpr double kMostShared = 0.5;

std::string first_label(const std::string& host) { return host.substr(0, host.find('.')); }

std::vector<std::string> expanded(const std::string& nodes) {
  try {
    return topology::graph::expand_hostlist(nodes);
  } catch (const base::Error&) {  // a form that is not known names nobody
    return {};
  }
}

const std::string* node_of(const std::string& host, const std::vector<std::string>& nodes) {
  for (const std::string& node : nodes) {
    if (node == host || node == first_label(host) || first_label(node) == host) return &node;
  }
  return nullptr;
}

}  // namespace

std::optional<Hang> read_hang(base::FileSystem& files, const base::Path& attempt_directory) {
  using Json = nlohmann::json;
  try {
    const base::Path path = attempt_directory / "hang.json";
    if (!files.exists(path)) return std::nullopt;
    const Json json = base::parse_json<Json>(files.read(path, kMostHangBytes));
    if (!json.is_object()) return std::nullopt;
    return Hang{json.value("host", ""), json.value("why", "")};
  } catch (const base::Error&) {
    return std::nullopt;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::vector<std::string> nodes_of(const runs::Attempt& attempt, const runs::Launch& launch) {
  const std::vector<std::string> nodes = expanded(launch.nodes);
  if (attempt.hosts.empty()) return nodes;
  std::vector<std::string> found;
  for (const std::string& host : attempt.hosts) {
    if (const std::string* node = node_of(host, nodes)) found.push_back(*node);
  }
  return found.empty() ? nodes : found;
}

std::vector<slurm::NodeEvent> judge_attempt(const std::string& run, const runs::Attempt& attempt,
                                            const runs::Launch& launch,
                                            const std::optional<Hang>& hang) {
  const std::vector<std::string> nodes = nodes_of(attempt, launch);
  const double utc = attempt.start_utc + attempt.last_seconds;
  std::vector<slurm::NodeEvent> events;
  if (hang) {
    if (const std::string* node = node_of(hang->host, nodes)) {
      events.push_back({*node, utc, slurm::Blame::Hung, run, hang->why, 1});
    }
    return events;
  }
  const auto is = [&](ExitCode code) { return attempt.exit_code == static_cast<int>(code); };
  const bool well = is(ExitCode::Finished) || is(ExitCode::Continue) || is(ExitCode::Stopped);
  if (well && attempt.last_seconds < slurm::kWorkedSeconds) return events;
  if (!well && attempt.exit_code && !is(ExitCode::Retry)) return events;
  // What ended without a word was perhaps preempted, or stopped at its limit.
  const runs::Cause cause = runs::parse_cause(launch.cause);
  if (!attempt.exit_code && cause != runs::Cause::None && cause != runs::Cause::NodeFailure)
    return events;
  const double share = std::min(kMostShared, 1.0 / static_cast<double>(nodes.size()));
  for (const std::string& node : nodes) {
    events.push_back({node, utc, well ? slurm::Blame::Worked : slurm::Blame::Shared, run,
                      attempt.message, well ? 1 : share});
  }
  return events;
}

std::optional<slurm::NodeEvent> judge_corruption(const std::string& run,
                                                 const FollowedCorruption& corruption,
                                                 const runs::Launch& launch) {
  const std::vector<std::string> nodes = expanded(launch.nodes);
  const std::string* const node = node_of(corruption.host, nodes);
  if (node == nullptr) return std::nullopt;
  return slurm::NodeEvent{*node, corruption.utc,     slurm::Blame::Corrupted,
                          run,   corruption.message, 1};
}

std::vector<slurm::NodeEvent> judge_report(const std::string& run,
                                           const runs::ProcessReport& report, double utc) {
  std::vector<slurm::NodeEvent> events;
  const slurm::Blame blame = report.cause == runs::Cause::NodeFailure ? slurm::Blame::NodeFailed
                             : report.cause == runs::Cause::Stuck     ? slurm::Blame::Prolog
                                                                      : slurm::Blame::LaunchFailed;
  for (const std::string& node : report.suspects) {
    events.push_back({node, utc, blame, run, report.words, 1});
  }
  return events;
}

}  // namespace regatta::orchestrator::control
