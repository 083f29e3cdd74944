#include "orchestrator/api/sweep_schemas.h"

#include <nlohmann/json.hpp>

#include "orchestrator/api/schema_forms.h"
#include "orchestrator/control/sweep_record.h"
#include "orchestrator/runs/run.h"

namespace regatta::orchestrator::api::forms {
namespace {

Json any_value() { return {{"type", {"boolean", "integer", "number", "string"}}}; }

Json run_state() {
  std::vector<std::string> states = runs::run_state_names();
  states.emplace_back(control::kRemovedRun);
  return or_null(one_of(states));
}

Json summary() {
  const Json best = object({{"trial", integer()},
                            {"run", text()},
                            {"run_state", run_state()},
                            {"objective", any_number()},
                            {"budget", or_null(integer())},
                            {"values", by_name(any_value())}});
  return object({{"id", or_null(text())},
                 {"name", text()},
                 {"state", one_of({"running", "done", "stopped"})},
                 {"stops", flag()},
                 {"reason", or_null(text())},
                 {"created", any_moment()},
                 {"ended", or_null(any_moment())},
                 {"owner", or_null(text())},
                 {"method", one_of({"grid", "random", "asha", "tpe"})},
                 {"objective", object({{"kind", one_of({"metric", "time_to_accuracy", "goodput"})},
                                       {"direction", one_of({"minimize", "maximize"})},
                                       {"metric", text()}})},
                 {"budget", object({{"unit", one_of({"steps", "samples"})},
                                    {"min", or_null(integer())},
                                    {"max", or_null(integer())},
                                    {"factor", or_null(integer())}})},
                 {"concurrency", integer()},
                 {"seed", integer()},
                 {"counts", object({{"planned", integer()},
                                    {"tried", integer()},
                                    {"running", integer()},
                                    {"paused", integer()},
                                    {"finished", integer()},
                                    {"failed", integer()},
                                    {"stopped", integer()}})},
                 {"best", or_null(best)}});
}

Json trial() {
  const Json report = object({{"budget", integer()}, {"objective", or_null(any_number())}});
  return object({{"number", integer()},
                 {"run", or_null(text())},
                 {"run_state", run_state()},
                 {"state", one_of({"running", "paused", "finished", "failed", "stopped"})},
                 {"reason", or_null(text())},
                 {"values", by_name(any_value())},
                 {"goal", or_null(integer())},
                 {"rank", or_null(integer())},
                 {"objective", or_null(any_number())},
                 {"budget", or_null(integer())},
                 {"reports", list_of(report)},
                 {"started", or_null(any_moment())},
                 {"ended", or_null(any_moment())}});
}

Json parameter() {
  return object({{"key", text()},
                 {"kind", one_of({"uniform", "log_uniform", "integer", "choice"})},
                 {"low", or_null(any_number())},
                 {"high", or_null(any_number())},
                 {"log", flag()},
                 {"choices", or_null(list_of(any_value()))},
                 {"when", by_name(list_of(any_value()))}});
}

}  // namespace

void add_sweeps(Json* all) {
  Json& json = *all;
  json["SweepSummary"] = summary();
  json["SweepTrial"] = trial();
  json["SweepList"] = object({{"sweeps", list_of({{"$ref", "#/components/schemas/SweepSummary"}})},
                              {"total", integer()},
                              {"next", or_null(text())},
                              {"left_out", list_of(text())}});
  const Json check = object({{"name", text()}, {"good", or_null(flag())}, {"detail", text()}});
  json["Sweep"] = optionally(
      with(summary(), {{"parameters", list_of(parameter())},
                       {"rungs", list_of(integer())},
                       {"config", or_null(any_object())},
                       {"trials", list_of({{"$ref", "#/components/schemas/SweepTrial"}})}}),
      {{"warnings", list_of(text())}, {"checks", list_of(check)}});
  json["SweepTable"] = text();
  json["SweepRemoval"] = object({{"id", text()}});
  json["SweepFile"] = json["RunFile"];
  json["SweepFile"]["properties"].erase("plan");
  json["SweepFile"]["properties"]["sweep"] = any_object();
}

}  // namespace regatta::orchestrator::api::forms
