// The routes below /nodes/{node}/benches (docs/api.md).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/api/answer_fields.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/api.h"
#include "orchestrator/api/event_api.h"
#include "orchestrator/runs/node_bench.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostSecondsAhead = 600;  // of a node's clock before the controller's

Json bench_json(const runs::NodeBench& bench) {
  Json json = Json::object();
  add_fields(bench, &json);
  json["bench"] = base::parse_json<Json>(bench.text);
  return json;
}

}  // namespace

Response Api::node_benches(const Call& call) {
  const std::string& node = call.names.at(0);
  store::Snapshot store = controller_.store().snapshot();
  Json rows = Json::array();
  for (const runs::NodeBench& bench : store.node_benches(node)) rows.push_back(bench_json(bench));
  return json_response(200, {{"node", node}, {"benches", std::move(rows)}});
}

Response Api::add_node_bench(const Call& call) {
  const auto read =
      trainer::contract::parse_platform_bench(std::string_view(call.request.body), "the body");
  runs::NodeBench bench = runs::node_bench_of(call.names.at(0), read);
  bench.added_utc = clock_.utc_seconds();
  if (bench.utc > bench.added_utc + kMostSecondsAhead) {
    throw base::Error(base::Code::User,
                      "the bench is of " + base::iso8601(bench.utc) + ", and it is " +
                          base::iso8601(bench.added_utc) + " here; set the clock of " +
                          base::printable(bench.node) + " and measure anew",
                      "utc");
  }
  const bool added = controller_.store().add_node_bench(bench, asker_of(call.request.peer));
  if (!added) {
    store::Snapshot store = controller_.store().snapshot();
    for (const runs::NodeBench& each : store.node_benches(bench.node)) {
      if (each.id == bench.id) return json_response(200, bench_json(each));
    }
  }
  judge_bench(bench);
  return json_response(201, bench_json(bench));
}

// A suspicion where the node is slow; an end of it where a newer bench says that it no longer is.
void Api::judge_bench(const runs::NodeBench& bench) {
  const BenchReports reports = benches_.reports(controller_.store());
  const auto report = reports.find(bench.node);
  if (report == reports.end() || report->second.id != bench.id || report->second.is_disturbed) {
    return;
  }
  const bool slow = compare::is_slow(report->second);
  if (!slow) {
    store::Snapshot store = controller_.store().snapshot();
    const auto events = store.node_events();
    const auto last =
        std::find_if(events.rbegin(), events.rend(), [&](const slurm::NodeEvent& event) {
          return event.node == bench.node && event.blame == slurm::Blame::Slow;
        });
    const bool was_slow = last != events.rend() && last->weight > 0;
    if (!was_slow) return;
  }
  const slurm::NodeEvent event{bench.node,
                               bench.added_utc,
                               slurm::Blame::Slow,
                               "",
                               compare::slow_text(report->second),
                               slow ? slurm::kSlowWeight : 0};
  controller_.store().judge(std::nullopt, {event});
}

Response Api::remove_node_bench(const Call& call) {
  const std::string& node = call.names.at(0);
  const std::string& id = call.names.at(1);
  if (!controller_.store().remove_node_bench(node, id, asker_of(call.request.peer))) {
    return error_response(404, "not_found",
                          "node '" + base::printable(node.substr(0, 100)) + "' has no bench '" +
                              base::printable(id.substr(0, 100)) + "'");
  }
  return json_response(200, {{"node", node}, {"id", id}});
}

}  // namespace regatta::orchestrator::api
