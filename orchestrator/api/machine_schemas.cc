#include "orchestrator/api/machine_schemas.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "orchestrator/api/node_json.h"
#include "orchestrator/api/schema_forms.h"
#include "orchestrator/api/schemas.h"
#include "orchestrator/runs/node_bench.h"
#include "trainer/contract/environment_file.h"

namespace regatta::orchestrator::api::forms {
namespace {

void add_nodes(Json* all) {
  Json& json = *all;
  Json node = object({});
  add_record<ShownNode>(&node);
  node = with(std::move(node), {{"suspicion", any_number()},
                                {"suspicion_why", text()},
                                {"bench", or_null(reference("BenchReport"))},
                                {"bench_slow", text()}});
  const Json changes = list_of(object({{"part", text()},
                                       {"change", any_number()},
                                       {"noise", any_number()},
                                       {"figures", integer()},
                                       {"slower", flag()}}));
  json["BenchReport"] = object({{"id", text()},
                                {"at", any_moment()},
                                {"machine_kind", text()},
                                {"load_average", any_number()},
                                {"disturbed", flag()},
                                {"fleet_nodes", integer()},
                                {"against_fleet", changes},
                                {"earlier", integer()},
                                {"drift", changes},
                                {"slow", text()}});
  json["Node"] = node;
  json["SlimNode"] = object({});
  const Json slim = slim_node(node["properties"]);
  for (const auto& [key, schema] : slim.items()) {
    add(&json["SlimNode"], key, schema);
  }
  json["Nodes"] =
      object({{"scheduler", text()},
              {"taken_at", or_null(any_moment())},
              {"age_seconds", or_null(any_number())},
              {"trouble", or_null(text())},
              {"reservations", list_of(object({{"name", text()},
                                               {"starts_at", any_moment()},
                                               {"ends_at", any_moment()},
                                               {"seconds", any_number()},
                                               {"nodes", text()},
                                               {"maintenance", flag()}}))},
              {"total", integer()},
              {"next", or_null(text())},
              {"nodes", list_of({{"anyOf", {reference("SlimNode"), reference("Node")}}})}});
}

// docs/formats/platform_bench.md
void add_benches(Json* all) {
  const Json machine = optionally(
      object({{"threads", integer()}, {"memory_bytes", integer()}, {"load_average", any_number()}}),
      {{"processor", text()},
       {"gpu", text()},
       {"instruction_set", text()},
       {"products", text()},
       {"file_system", text()}});
  const Json figure = object({{"name", text()},
                              {"unit", one_of({"FLOP/s", "B/s", "samples/s", "s", "1"})},
                              {"value", any_number()},
                              {"spread", any_number()},
                              {"repeats", integer()},
                              {"better", one_of({"higher", "lower"})},
                              {"work", text()}});
  (*all)["PlatformBench"] =
      optionally(object({{"format", integer()},
                         {"workload", integer()},
                         {"host", text()},
                         {"at", any_moment()},
                         {"utc", any_number()},
                         {"seconds", any_number()},
                         {"version", text()},
                         {"machine", machine},
                         {"figures", list_of(figure)},
                         {"absent", list_of(object({{"name", text()}, {"why", text()}}))}}),
                 {{"commit", text()}});
  Json row = object({});
  add_record<runs::NodeBench>(&row);
  (*all)["NodeBench"] = with(std::move(row), {{"bench", reference("PlatformBench")}});
  (*all)["NodeBenches"] = object({{"node", text()}, {"benches", list_of(reference("NodeBench"))}});
  (*all)["NodeBenchRemoval"] = object({{"node", text()}, {"id", text()}});
}

// topology_json.h
void add_topology(Json* all) {
  const Json nic = object(
      {{"count", integer()}, {"model", or_null(text())}, {"gbit_per_s", or_null(any_number())}});
  const Json kind = object({{"nodes", integer()},
                            {"names", text()},
                            {"model", or_null(text())},
                            {"gpus", integer()},
                            {"gpu_models", list_of(text())},
                            {"gpu_links", or_null(one_of({"nvlink", "xgmi", "pcie"}))},
                            {"nics", list_of(nic)}});
  const Json tier = object({{"level", or_null(integer())}, {"switches", integer()}});
  const Json fabric = object({{"name", text()}, {"switches", integer()}, {"tiers", list_of(tier)}});
  (*all)["Topology"] =
      optionally(object({{"fingerprint", text()},
                         {"nodes", integer()},
                         {"kinds", list_of(kind)},
                         {"fabrics", list_of(fabric)},
                         {"sources", list_of(object({{"source", text()}, {"place", text()}}))},
                         {"measured", list_of(text())}}),
                 {{"graph", any_object()}});
  const Json finding = object({{"id", text()},
                               {"severity", one_of({"note", "warning", "error"})},
                               {"subject", text()},
                               {"words", text()},
                               {"evidence", list_of(object({{"path", text()}, {"value", text()}}))},
                               {"cost_gb_per_s", or_null(any_number())},
                               {"cost_milliseconds", or_null(any_number())},
                               {"remedy", text()},
                               {"node", or_null(text())}});
  (*all)["Findings"] = object({{"total", integer()}, {"findings", list_of(finding)}});
}

// topology/plan/plan.h; what a plan does not have is absent.
void add_plan(Json* all) {
  const Json timeline = object({{"step_seconds", any_number()},
                                {"forward_seconds", any_number()},
                                {"compute_seconds", any_number()},
                                {"communication_seconds", any_number()},
                                {"exposed_seconds", any_number()},
                                {"tail_seconds", any_number()},
                                {"buckets", list_of(object({{"bytes", integer()},
                                                            {"ready_seconds", any_number()},
                                                            {"start_seconds", any_number()},
                                                            {"end_seconds", any_number()}}))}});
  const Json alternative = object({{"name", text()},
                                   {"buckets", integer()},
                                   {"step_seconds", any_number()},
                                   {"mean_step_seconds", any_number()}});
  const Json option = object({{"value", text()}, {"step_seconds", any_number()}});
  const Json decision = object({{"key", text()},
                                {"choice", text()},
                                {"run_file", text()},
                                {"why", text()},
                                {"options", list_of(option)}});
  const Json range = optionally(object({{"collective", text()},
                                        {"from_bytes", integer()},
                                        {"algorithm", text()},
                                        {"protocol", text()},
                                        {"channels", integer()},
                                        {"us", any_number()},
                                        {"default_us", any_number()},
                                        {"measured", flag()}}),
                                {{"to_bytes", integer()}});
  const Json nccl = object({{"ranks", integer()},
                            {"nodes", integer()},
                            {"version", integer()},
                            {"ranges", list_of(range)}});
  const Json seats =
      object({{"node", text()}, {"gpus", list_of(integer())}, {"nics", list_of(text())}});
  (*all)["Plan"] =
      optionally(object({{"ranks", integer()},
                         {"bucket_ends", list_of(integer())},
                         {"why", text()},
                         {"measured", flag()}}),
                 {{"topology", text()},
                  {"cut", text()},
                  {"environment", {{"type", "object"}, {"additionalProperties", text()}}},
                  {"switches", text()},
                  {"segment", integer()},
                  {"exclude", list_of(text())},
                  {"alternatives", list_of(alternative)},
                  {"timeline", timeline},
                  {"decisions", list_of(decision)},
                  {"nccl", nccl},
                  {"seats", list_of(seats)}});
}

// docs/formats/environment.md
void add_environment(Json* all) {
  const Json section = {{"type", "object"},
                        {"properties", {{"digest", text()}}},
                        {"required", Json::array({"digest"})},
                        {"additionalProperties", true}};
  Json environment = object({{"format", integer()}, {"fingerprint", text()}});
  for (const std::string_view name : trainer::contract::kEnvironmentSections) {
    add(&environment, std::string(name), section);
  }
  environment["additionalProperties"] = true;
  (*all)["Environment"] =
      optionally(std::move(environment), {{"attempt", any_object()}, {"training", any_object()}});
}

// orchestrator/compare
Json differing_fact() {
  return object({{"key", text()}, {"values", tuple_of({Json(true), Json(true)})}});
}

void add_speed(Json* all) {
  const Json attempt = object({{"run", text()},
                               {"attempt", integer()},
                               {"first_step", integer()},
                               {"last_step", integer()},
                               {"steps", integer()},
                               {"samples", integer()},
                               {"seconds", any_number()},
                               {"samples_per_second", any_number()}});
  const Json pair = tuple_of({any_number(), any_number()});
  const Json part =
      object({{"part", text()}, {"seconds_per_sample", pair}, {"difference", any_number()}});
  const Json cause = object({{"part", text()},
                             {"seconds_per_sample", any_number()},
                             {"what", text()},
                             {"evidence", list_of(differing_fact())}});
  (*all)["SpeedDifference"] = object({{"attempts", tuple_of({attempt, attempt})},
                                      {"seconds_per_sample", pair},
                                      {"difference", any_number()},
                                      {"noise", any_number()},
                                      {"equally_fast", flag()},
                                      {"parts", list_of(part)},
                                      {"more_work", any_number()},
                                      {"slower", any_number()},
                                      {"causes", list_of(cause)}});
}

void add_learning(Json* all) {
  const Json run = object({{"run", text()},
                           {"steps", integer()},
                           {"last_step", integer()},
                           {"cut", flag()},
                           {"damaged", integer()},
                           {"environment_fault", or_null(text())}});
  const Json number = or_null(any_number());
  const Json step = or_null(object({{"step", integer()},
                                    {"loss", tuple_of({number, number})},
                                    {"gradient_norm", tuple_of({number, number})},
                                    {"relative", number}}));
  const Json cause =
      object({{"kind", text()}, {"what", text()}, {"evidence", list_of(differing_fact())}});
  (*all)["LearningDifference"] = object({{"runs", tuple_of({run, run})},
                                         {"common", integer()},
                                         {"only", tuple_of({integer(), integer()})},
                                         {"equal", flag()},
                                         {"first", step},
                                         {"other_bits", step},
                                         {"beyond_rounding", step},
                                         {"last", step},
                                         {"rounding", any_number()},
                                         {"unit", any_number()},
                                         {"known", flag()},
                                         {"causes", list_of(cause)}});
}

}  // namespace

void add_machines(Json* all) {
  add_nodes(all);
  add_benches(all);
  add_topology(all);
  add_plan(all);
  add_environment(all);
  add_speed(all);
  add_learning(all);
}

}  // namespace regatta::orchestrator::api::forms
