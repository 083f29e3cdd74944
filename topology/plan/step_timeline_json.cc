#include "topology/plan/step_timeline_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace regatta::topology::plan {
namespace {

void read_seconds(base::Table& table, const std::string& key, double* value) {
  table.read(key, value);
  if (!std::isfinite(*value) || *value < 0) table.fail(key, "use seconds of at least 0");
}

}  // namespace

nlohmann::ordered_json json_of(const StepTimeline& timeline) {
  nlohmann::ordered_json json;
  json["step_seconds"] = timeline.step_seconds;
  json["forward_seconds"] = timeline.forward_seconds;
  json["compute_seconds"] = timeline.compute_seconds;
  json["communication_seconds"] = timeline.communication_seconds;
  json["exposed_seconds"] = timeline.exposed_seconds;
  json["tail_seconds"] = timeline.tail_seconds;
  json["buckets"] = nlohmann::ordered_json::array();
  for (const BucketSpan& span : timeline.buckets) {
    json["buckets"].push_back({{"bytes", span.bytes},
                               {"ready_seconds", span.ready_seconds},
                               {"start_seconds", span.start_seconds},
                               {"end_seconds", span.end_seconds}});
  }
  return json;
}

StepTimeline read_timeline(base::Table& table) {
  StepTimeline timeline;
  read_seconds(table, "step_seconds", &timeline.step_seconds);
  read_seconds(table, "forward_seconds", &timeline.forward_seconds);
  read_seconds(table, "compute_seconds", &timeline.compute_seconds);
  read_seconds(table, "communication_seconds", &timeline.communication_seconds);
  read_seconds(table, "exposed_seconds", &timeline.exposed_seconds);
  read_seconds(table, "tail_seconds", &timeline.tail_seconds);
  for (base::Table& row : table.tables("buckets")) {
    BucketSpan span;
    row.read("bytes", &span.bytes);
    if (span.bytes < 0) row.fail("bytes", "use at least 0");
    read_seconds(row, "ready_seconds", &span.ready_seconds);
    read_seconds(row, "start_seconds", &span.start_seconds);
    read_seconds(row, "end_seconds", &span.end_seconds);
    row.finish();
    timeline.buckets.push_back(span);
  }
  table.finish();
  return timeline;
}

}  // namespace regatta::topology::plan
