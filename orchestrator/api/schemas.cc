#include "orchestrator/api/schemas.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "orchestrator/api/experiment_schemas.h"
#include "orchestrator/api/machine_schemas.h"
#include "orchestrator/api/run_list.h"
#include "orchestrator/api/schema_forms.h"
#include "orchestrator/api/sweep_schemas.h"
#include "orchestrator/checkpoints/checkpoint_exports.h"
#include "orchestrator/control/run_logs.h"
#include "orchestrator/runs/metrics.h"
#include "orchestrator/runs/record_fields.h"
#include "orchestrator/runs/reference.h"
#include "orchestrator/store/row_fields.h"
#include "trainer/contract/run_schema.h"

namespace regatta::orchestrator::api {
namespace forms {
namespace {

template <typename Record>
Json record(Json schema = object({})) {
  add_record<Record>(&schema);
  return schema;
}

std::vector<std::string> kinds_of_events() {
  std::vector<std::string> kinds;
  for (const store::EventKind& kind : store::event_kinds()) kinds.emplace_back(kind.name);
  return kinds;
}

// A run in a list that is asked for all; run_json.cc.
Json full_row() {
  Json schema = record<runs::RunSummary>(record<runs::Run>());
  return with(
      std::move(schema),
      {{"state_text", text()},
       {"silent_seconds", or_null(any_number())},
       {"attempts", integer()},
       {"attempt", or_null(object({{"number", integer()},
                                   {"execution", or_null(text())},
                                   {"state", one_of({"starting", "running", "ended"})},
                                   {"exit_code", or_null(integer())},
                                   {"process", or_null(integer())},
                                   {"reason", or_null(text())}}))},
       {"target_reached", flag()},
       {"since_submission_seconds", or_null(any_number())},
       {"predicted_seconds_to_target", or_null(any_number())},
       {"ranks", or_null(integer())},
       {"ranks_per_node", or_null(integer())},
       {"device", or_null(text())},
       {"peak_flops", or_null(any_number())},
       {"slowest",
        or_null(with(record<runs::SlowestRank>(), {{"age_seconds", or_null(any_number())}}))},
       {"checkpoint", or_null(object({{"step", integer()}, {"name", text()}, {"path", text()}}))}});
}

Json slim_of(const Json& full) {
  Json schema = object({});
  const Json row = slim_row(full["properties"]);
  for (const auto& [key, value] : row.items()) add(&schema, key, value);
  return schema;
}

void add_runs(Json* all) {
  Json& json = *all;
  json["RunState"] = one_of(runs::run_state_names());
  json["RunRow"] = full_row();
  json["SlimRun"] = slim_of(json["RunRow"]);
  json["RunList"] = optionally(
      object({{"runs", list_of({{"anyOf", {reference("SlimRun"), reference("RunRow")}}})},
              {"next", or_null(text())}}),
      {{"total", integer()}});
  json["Slurm"] = object({{"answered_at", or_null(any_moment())},
                          {"age_seconds", or_null(any_number())},
                          {"trouble", or_null(text())},
                          {"cancel_waits_since", or_null(any_moment())}});
  // Of a run that was just submitted, nobody has asked yet.
  json["Run"] =
      optionally(with(full_row(), {{"warnings", list_of(text())},
                                   {"task", text()},
                                   {"from", or_null(object({{"path", or_null(text())},
                                                            {"run", or_null(text())},
                                                            {"checkpoint", or_null(text())},
                                                            {"optimizer", flag()}}))},
                                   {"config", or_null(any_object())}}),
                 {{"slurm", or_null(reference("Slurm"))}});
  json["RunPreview"] = object(
      {{"dry_run", flag()},
       {"name", text()},
       {"scheduler", text()},
       {"directory", text()},
       {"after", list_of(text())},
       {"config", or_null(any_object())},
       {"defaults", text()},
       {"plan", or_null(reference("Plan"))},
       {"command", list_of(text())},
       {"script", or_null(text())},
       {"checks",
        list_of(object({{"name", text()}, {"good", or_null(flag())}, {"detail", text()}}))}});
  json["RunOrPreview"] = {{"anyOf", {reference("Run"), reference("RunPreview")}}};
  json["RunFile"] = base::parse_json<Json>(trainer::contract::run_file_schema());
  json["RunFile"]["properties"]["plan"] = any_object();  // of a plan.json, with a submission only
  json["RunFileSchema"] = any_object();
  const Json checkpoints = list_of(object(
      {{"name", text()}, {"step", integer()}, {"bytes", integer()}, {"reasons", list_of(text())}}));
  json["Removal"] = object({{"id", text()},
                            {"dry_run", flag()},
                            {"directory", text()},
                            {"had_directory", flag()},
                            {"bytes", integer()},
                            {"freed", object({{"checkpoints", integer()},
                                              {"exports", integer()},
                                              {"logs", integer()},
                                              {"journal", integer()},
                                              {"other", integer()}})},
                            {"files", integer()},
                            {"pinned", list_of(text())},
                            {"left", or_null(text())}});
  json["Archival"] = object({{"id", text()},
                             {"dry_run", flag()},
                             {"archived", flag()},
                             {"bytes", integer()},
                             {"exports", integer()},
                             {"removed", checkpoints},
                             {"kept", checkpoints}});
}

// What may be asked of a run that exists.
void add_changes(Json* all) {
  Json& json = *all;
  json["Resumption"] = optionally(object({}), {{"slurm", any_object()}});
  const Json target = {
      {"anyOf",
       {any_number(), optionally(object({}), {{"metric", one_of(runs::metric_names())},
                                              {"value", any_number()},
                                              {"times_baseline", any_number()},
                                              {"stop", flag()}})}}};
  json["Extension"] = optionally(object({}), {{"steps", integer()}, {"target", target}});
  const Json minutes = {{"anyOf", {integer(), text()}}};
  json["RunChange"] =
      optionally(object({}), {{"steps", integer()},
                              {"target", target},
                              {"evaluate", optionally(object({}), {{"every", integer()}})},
                              {"checkpoint", optionally(object({}), {{"every", integer()},
                                                                     {"keep_last", integer()},
                                                                     {"keep_best", integer()},
                                                                     {"keep_every", integer()}})},
                              {"slurm", optionally(object({}), {{"time_limit", minutes}})}});
  json["Fork"] =
      optionally(object({}), {{"checkpoint", text()}, {"name", text()}, {"changes", any_object()}});
}

// charts.h, run_parts.h
void add_charts(Json* all) {
  const Json chart = object(
      {{"rows", integer()},
       {"buckets", list_of(object({{"attempt", integer()},
                                   {"abandoned", flag()},
                                   {"rows", integer()},
                                   {"from_step", integer()},
                                   {"to_step", integer()},
                                   {"from", any_number()},
                                   {"to", any_number()}}))},
       {"series",
        {{"type", "object"},
         {"additionalProperties", list_of(tuple_of({or_null(any_number()), or_null(any_number()),
                                                    or_null(any_number()), integer()}))}}}});
  (*all)["Charts"] = object({{"x", text()},
                             {"runs", list_of(object({{"id", text()},
                                                      {"resolution_seconds", integer()},
                                                      {"steps", chart},
                                                      {"evaluations", chart}}))}});
  const Json launch = with(record<runs::Launch>(), {{"over", flag()}, {"what", or_null(text())}});
  const Json attempt = with(record<runs::Attempt>(), {{"launch", or_null(integer())},
                                                      {"ranks", integer()},
                                                      {"ranks_per_node", integer()},
                                                      {"device", or_null(text())},
                                                      {"hosts", list_of(text())},
                                                      {"training_seconds", any_number()},
                                                      {"reason", or_null(text())},
                                                      {"message", or_null(text())}});
  (*all)["Attempts"] = object({{"launches", list_of(launch)}, {"attempts", list_of(attempt)}});
  (*all)["Evaluations"] = object(
      {{"evaluations", list_of(with(record<store::EvaluationRow>(), {{"attempt", integer()},
                                                                     {"at_seconds", any_number()},
                                                                     {"abandoned", flag()}}))},
       {"cursor", integer()},
       {"more", flag()}});
}

void add_rank_shares(Json* all) {
  const Json values = list_of(or_null(any_number()));
  (*all)["RankShares"] =
      object({{"step", integer()}, {"tokens", values}, {"compute_seconds", values}});
}

void add_series(Json* all) {
  const Json value = or_null(any_number());
  Json timeline = record<store::Timeline>();
  timeline =
      with(std::move(timeline), {{"bucket_count", integer()},
                                 {"buckets", list_of(tuple_of({integer(), value, value, value}))}});
  (*all)["Metrics"] = object(
      {{"cursor", integer()},
       {"most_steps", integer()},
       {"resolution_seconds", integer()},
       {"steps", list_of(tuple_of({integer(), any_number(), value, value, value, value, value,
                                   value, value, flag()}))},
       {"evaluations",
        list_of(tuple_of({integer(), any_number(), value, value, flag(), value, by_name(value)}))},
       {"checkpoints", list_of(tuple_of({integer(), any_number(), text(), text()}))},
       {"timeline", or_null(std::move(timeline))},
       {"rank_shares", or_null(reference("RankShares"))},
       {"prediction", or_null(reference("Prediction"))}});
  (*all)["Prediction"] = object({{"seconds", any_number()},
                                 {"low", any_number()},
                                 {"high", any_number()},
                                 {"confidence", any_number()},
                                 {"model", or_null(text())}});
  (*all)["TimeToAccuracy"] =
      object({{"id", text()},
              {"metric", text()},
              {"target", value},
              {"time_to_accuracy_seconds", value},
              {"time", object({{"whole_seconds", value},
                               {"waiting_seconds", value},
                               {"starting_seconds", value},
                               {"training_seconds", value},
                               {"other_seconds", value}})},
              {"reached",
               list_of(object(
                   {{"value", any_number()}, {"seconds", value}, {"step", or_null(integer())}}))},
              {"prediction", or_null(reference("Prediction"))},
              {"earlier_predictions", list_of(object({{"made_at_seconds", value},
                                                      {"seconds", value},
                                                      {"low", value},
                                                      {"high", value},
                                                      {"model", text()},
                                                      {"held", or_null(flag())}}))}});
  const auto row_of = [](const char* type, const Json& fields) {
    Json schema =
        object({{"type", one_of({type})}, {"attempt", integer()}, {"at_seconds", any_number()}});
    if (std::string_view(type) != "checkpoint") add(&schema, "abandoned", flag());
    for (const auto& [key, property] : fields["properties"].items()) add(&schema, key, property);
    return schema;
  };
  (*all)["StepRow"] = row_of("step", record<store::StepRow>());
  (*all)["EvaluationRow"] = row_of("evaluation", record<store::EvaluationRow>());
  (*all)["CheckpointRow"] = row_of("checkpoint", record<store::CheckpointRow>());
  (*all)["History"] = object({{"rows", list_of({{"anyOf",
                                                 {reference("StepRow"), reference("EvaluationRow"),
                                                  reference("CheckpointRow")}}})},
                              {"cursor", integer()},
                              {"more", flag()},
                              {"resolution_seconds", integer()}});
  (*all)["Event"] = record<store::Event>();
  (*all)["Event"]["properties"]["kind"] = one_of(kinds_of_events());
  (*all)["Events"] = object({{"events", list_of(reference("Event"))},
                             {"next", integer()},
                             {"more", flag()},
                             {"oldest", or_null(integer())}});
  (*all)["EventStream"] = text();
  (*all)["FileBytes"] = {{"type", "string"}, {"format", "binary"}};
  (*all)["RemovedExport"] = object({{"name", text()}, {"bytes", integer()}});
}

void add_logs(Json* all) {
  Json& json = *all;
  json["Log"] = object({{"text", text()},
                        {"next", integer()},
                        {"launch", integer()},
                        {"file", or_null(text())},
                        {"offset", integer()},
                        {"size", integer()},
                        {"begins_in_line", flag()},
                        {"ends_in_line", flag()}});
  json["LogFiles"] = object({{"files", list_of(object({{"name", text()},
                                                       {"kind", one_of(control::log_kind_names())},
                                                       {"launch", or_null(integer())},
                                                       {"attempt", or_null(integer())},
                                                       {"job", or_null(text())},
                                                       {"restart", or_null(integer())},
                                                       {"rank", or_null(integer())},
                                                       {"bytes", integer()},
                                                       {"modified_at", or_null(any_moment())}}))},
                             {"more", flag()}});
  json["LogSearch"] = object(
      {{"file", or_null(text())},
       {"lines",
        list_of(object(
            {{"line", integer()}, {"offset", integer()}, {"match", flag()}, {"text", text()}}))},
       {"scanned_bytes", integer()},
       {"next", or_null(text())}});
}

void add_explanation(Json* all) {
  Json waiting = record<runs::Wait>();
  waiting = with(std::move(waiting), {{"sentence", text()}});
  (*all)["Explanation"] = object(
      {{"id", text()},
       {"state", reference("RunState")},
       {"summary", text()},
       {"next", text()},
       {"slurm", or_null(reference("Slurm"))},
       {"waiting", or_null(std::move(waiting))},
       {"failures_in_a_row", integer()},
       {"launches",
        list_of(with(record<runs::Launch>(), {{"job", or_null(text())}, {"what", text()}}))},
       {"attempts",
        list_of(with(record<runs::Attempt>(), {{"launch", or_null(integer())}, {"what", text()}}))},
       {"avoided_nodes",
        list_of(object({{"node", text()}, {"score", any_number()}, {"why", text()}}))}});
}

void add_checkpoints(Json* all) {
  Json& json = *all;
  const Json pinned = or_null(object({{"reason", text()}, {"at", any_moment()}}));
  const Json stored = object({{"step", integer()},
                              {"name", text()},
                              {"path", text()},
                              {"condition", text()},
                              {"reason", text()},
                              {"bytes", or_null(integer())},
                              {"shards", or_null(integer())},
                              {"metric", text()},
                              {"value", or_null(any_number())},
                              {"at", or_null(any_moment())},
                              {"age_seconds", or_null(any_number())},
                              {"pinned", pinned},
                              {"goes", flag()},
                              {"kept_because", list_of(text())}});
  json["StoredCheckpoint"] = stored;
  // What the journal says, what the directory says, or both.
  Json listed = object({{"step", integer()},
                        {"name", text()},
                        {"path", text()},
                        {"bytes", or_null(integer())},
                        {"seconds", or_null(any_number())},
                        {"status", text()},
                        {"at", or_null(any_moment())}});
  const Json recorded = record<store::CheckpointRow>();
  for (const auto& [key, value] : recorded["properties"].items()) {
    if (!listed["properties"].contains(key)) listed["properties"][key] = value;
  }
  for (const auto& [key, value] : stored["properties"].items()) {
    if (!listed["properties"].contains(key)) listed["properties"][key] = value;
  }
  json["Checkpoint"] = listed;
  json["CheckpointList"] = optionally(object({{"checkpoints", list_of(reference("Checkpoint"))}}),
                                      {{"trouble", text()}});
  json["CheckpointDetails"] =
      with(stored, {{"manifest", or_null(any_object())},
                    {"files", {{"type", "object"}, {"additionalProperties", any_object()}}}});
  json["Verification"] = object({{"name", text()},
                                 {"step", integer()},
                                 {"good", flag()},
                                 {"bytes", integer()},
                                 {"seconds", any_number()},
                                 {"message", text()}});
  const Json decisions =
      list_of(object({{"name", text()}, {"step", integer()}, {"reasons", list_of(text())}}));
  json["Collection"] = object({{"dry_run", flag()},
                               {"policy", object({{"keep_last", integer()},
                                                  {"keep_best", integer()},
                                                  {"keep_every", integer()},
                                                  {"metric", text()},
                                                  {"better", one_of({"highest", "lowest"})}})},
                               {"removed", decisions},
                               {"kept", decisions}});
  const Json tags = list_of({{"type", "string"}, {"minLength", 1}, {"maxLength", 64}});
  json["Labels"] = optionally(
      object({}),
      {{"tags", tags}, {"add_tags", tags}, {"remove_tags", tags}, {"note", or_null(text())}});
  json["Pin"] = optionally(object({}), {{"reason", {{"type", "string"}, {"maxLength", 500}}}});
}

void add_exports(Json* all) {
  Json& json = *all;
  json["ExportRequest"] = optionally(
      object({}),
      {{"for", one_of({checkpoints::kExportModels.begin(), checkpoints::kExportModels.end()})},
       {"with_optimizer", flag()}});
  json["Export"] = object(
      {{"name", text()},
       {"state", one_of({"running", "done", "failed"})},
       {"path", text()},
       {"files",
        list_of(object({{"name", text()}, {"bytes", integer()}, {"digest", or_null(text())}}))},
       {"message", text()}});
}

void add_references(Json* all) {
  const Json row = record<runs::Reference>();
  const Json points = list_of(tuple_of({any_number(), or_null(integer()), any_number()}));
  (*all)["ReferenceRow"] = row;
  (*all)["Reference"] = with(row, {{"evaluations", points}});
  (*all)["ReferenceList"] =
      object({{"references", list_of(reference("ReferenceRow"))}, {"next", or_null(text())}});
  (*all)["NewReference"] =
      optionally(object({{"name", text()}, {"threshold", any_number()}, {"evaluations", points}}),
                 {{"submitter", or_null(text())},
                  {"system", or_null(text())},
                  {"round", or_null(text())},
                  {"division", or_null(text())},
                  {"status", or_null(text())},
                  {"chips", or_null(integer())},
                  {"global_batch", or_null(integer())},
                  {"run_seconds", or_null(any_number())}});
  (*all)["ReferenceRemoval"] = object({{"name", text()}});
}

void add_controller(Json* all) {
  Json& json = *all;
  json["Problem"] = optionally(object({{"type", text()},
                                       {"title", text()},
                                       {"status", integer()},
                                       {"detail", text()},
                                       {"code", text()},
                                       {"request_id", text()}}),
                               {{"parameter", text()}, {"key", text()}});
  json["Version"] =
      object({{"version", text()},
              {"commit", or_null(text())},
              {"scheduler", or_null(text())},
              {"runs_directory", text()},
              {"adoption", object({{"done", flag()}, {"found", integer()}, {"read", integer()}})}});
  json["Health"] =
      object({{"status", one_of({"ok", "degraded"})},
              {"checks", list_of(object({{"name", text()}, {"good", flag()}, {"detail", text()}}))},
              {"polling", or_null(object({{"calls", integer()},
                                          {"most_calls", any_number()},
                                          {"call_seconds", any_number()},
                                          {"paused_seconds", any_number()}}))}});
  json["OpenApi"] = any_object();
  json["Ticket"] = object({{"ticket", text()}, {"url", text()}, {"seconds", any_number()}});
  json["TicketUse"] = object({{"ticket", text()}});
  json["Session"] =
      object({{"token", text()}, {"idle_seconds", any_number()}, {"seconds", any_number()}});
  json["Webhook"] = object({{"name", text()},
                            {"url", text()},
                            {"kinds", list_of(text())},
                            {"state", one_of({"idle", "delivering", "retrying", "dead"})},
                            {"delivered", or_null(integer())},
                            {"delivered_at", or_null(any_moment())},
                            {"waiting", integer()},
                            {"failures", integer()},
                            {"failing_since", or_null(any_moment())},
                            {"next_try_at", or_null(any_moment())},
                            {"error", or_null(text())}});
  json["WebhookList"] = object({{"webhooks", list_of(reference("Webhook"))}});
}

void add_all(Json* all) {
  add_controller(all);
  add_machines(all);
  add_runs(all);
  add_sweeps(all);
  add_experiments(all);
  add_changes(all);
  add_rank_shares(all);
  add_series(all);
  add_logs(all);
  add_charts(all);
  add_explanation(all);
  add_checkpoints(all);
  add_exports(all);
  add_references(all);
}

}  // namespace
}  // namespace forms

nlohmann::ordered_json schemas() {
  auto all = nlohmann::ordered_json::object();
  forms::add_all(&all);
  return all;
}

}  // namespace regatta::orchestrator::api
