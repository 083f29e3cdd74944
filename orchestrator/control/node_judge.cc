#include "orchestrator/control/node_judge.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "topology/graph/hostlist.h"
#include "trainer/contract/exit_code.h"

namespace regatta::orchestrator {
namespace {

using trainer::ExitCode;

constexpr std::uint64_t kMostHangBytes = 65536;
// Two early ends in a row make the only node of a run a suspect, one does not.
constexpr double kMostShared = 0.5;

std::string first_label(const std::string& host) { return host.substr(0, host.find('.')); }

std::vector<std::string> expanded(const std::string& nodes) {
  try {
    return topology::expand_hostlist(nodes);
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
    const Json json = Json::parse(files.read(path, kMostHangBytes), nullptr, false);
    if (!json.is_object()) return std::nullopt;
    return Hang{json.value("host", ""), json.value("why", "")};
  } catch (const base::Error&) {
    return std::nullopt;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::vector<std::string> nodes_of(const Attempt& attempt, const Launch& launch) {
  const std::vector<std::string> nodes = expanded(launch.nodes);
  if (attempt.hosts.empty()) return nodes;
  std::vector<std::string> found;
  for (const std::string& host : attempt.hosts) {
    if (const std::string* node = node_of(host, nodes)) found.push_back(*node);
  }
  return found.empty() ? nodes : found;
}

std::vector<NodeEvent> judge_attempt(const std::string& run, const Attempt& attempt,
                                     const Launch& launch, const std::optional<Hang>& hang) {
  const std::vector<std::string> nodes = nodes_of(attempt, launch);
  const double utc = attempt.start_utc + attempt.last_seconds;
  std::vector<NodeEvent> events;
  if (hang) {
    if (const std::string* node = node_of(hang->host, nodes)) {
      events.push_back({*node, utc, Blame::Hung, run, hang->why, 1});
    }
    return events;
  }
  const auto is = [&](ExitCode code) { return attempt.exit_code == static_cast<int>(code); };
  const bool well = is(ExitCode::Finished) || is(ExitCode::Continue) || is(ExitCode::Stopped);
  if (well && attempt.last_seconds < kWorkedSeconds) return events;
  if (!well && attempt.exit_code && !is(ExitCode::Retry)) return events;
  // What ended without a word was perhaps preempted, or stopped at its limit.
  const Cause cause = parse_cause(launch.cause);
  if (!attempt.exit_code && cause != Cause::None && cause != Cause::NodeFailure) return events;
  const double share = std::min(kMostShared, 1.0 / static_cast<double>(nodes.size()));
  for (const std::string& node : nodes) {
    events.push_back(
        {node, utc, well ? Blame::Worked : Blame::Shared, run, attempt.message, well ? 1 : share});
  }
  return events;
}

std::vector<NodeEvent> judge_report(const std::string& run, const ProcessReport& report,
                                    double utc) {
  std::vector<NodeEvent> events;
  const Blame blame = report.cause == Cause::NodeFailure ? Blame::NodeFailed
                      : report.cause == Cause::Stuck     ? Blame::Prolog
                                                         : Blame::LaunchFailed;
  for (const std::string& node : report.suspects) {
    events.push_back({node, utc, blame, run, report.words, 1});
  }
  return events;
}

}  // namespace regatta::orchestrator
