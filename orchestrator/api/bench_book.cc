#include "orchestrator/api/bench_book.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

Json changes_json(const std::vector<compare::PartChange>& changes) {
  Json list = Json::array();
  for (const compare::PartChange& change : changes) {
    list.push_back({{"part", change.part},
                    {"change", change.change},
                    {"noise", change.noise},
                    {"figures", change.figures},
                    {"slower", change.is_slower}});
  }
  return list;
}

}  // namespace

BenchReports BenchBook::reports(store::Store& store) {
  const std::lock_guard lock(mutex_);
  const std::int64_t changes = store.bench_changes();
  if (changes == changes_) return reports_;
  store::Snapshot snapshot = store.snapshot();
  std::map<std::string, Known> known;
  for (const store::BenchedNode& node : snapshot.benched_nodes()) {
    const auto before = known_.find(node.node);
    if (before != known_.end() && before->second.ids == node.ids) {
      known[node.node] = std::move(before->second);
      continue;
    }
    Known fresh{node.ids, "", {}};
    for (const runs::NodeBench& row : snapshot.node_benches(node.node)) {
      try {
        fresh.benches.push_back(
            trainer::contract::parse_platform_bench(std::string_view(row.text), node.node));
      } catch (const base::Error& error) {  // of another version of the format
        base::log(base::LogLevel::Warning, error.what());
        continue;
      }
      if (fresh.newest.empty()) fresh.newest = row.id;
    }
    known[node.node] = std::move(fresh);
  }
  known_ = std::move(known);
  std::vector<const trainer::contract::PlatformBench*> fleet;
  for (const auto& [node, of_node] : known_) {
    if (!of_node.benches.empty()) fleet.push_back(&of_node.benches.front());
  }
  reports_.clear();
  for (const auto& [node, of_node] : known_) {
    if (of_node.benches.empty()) continue;
    compare::BenchReport report = compare::report_of(of_node.benches, fleet);
    report.id = of_node.newest;
    reports_[node] = std::move(report);
  }
  changes_ = changes;
  return reports_;
}

Json report_json(const compare::BenchReport& report) {
  return {{"id", report.id},
          {"at", base::iso8601(report.utc)},
          {"machine_kind", report.kind},
          {"load_average", report.load_average},
          {"disturbed", report.is_disturbed},
          {"fleet_nodes", report.fleet},
          {"against_fleet", changes_json(report.against_fleet)},
          {"earlier", report.earlier},
          {"drift", changes_json(report.drift)},
          {"slow", compare::slow_text(report)}};
}

}  // namespace regatta::orchestrator::api
