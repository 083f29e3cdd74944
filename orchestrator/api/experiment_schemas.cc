#include "orchestrator/api/experiment_schemas.h"

#include <nlohmann/json.hpp>

#include "orchestrator/api/schema_forms.h"
#include "orchestrator/experiments/run_figures.h"
#include "orchestrator/runs/run.h"

namespace regatta::orchestrator::api::forms {
namespace {

// A key for each figure.
Json of_each_figure(const Json& value) {
  Json json = object({});
  for (const experiments::FigureText& figure : experiments::figure_texts()) {
    add(&json, figure.key, value);
  }
  return json;
}

Json summary_of_experiment() {
  Json states = object({});
  for (const std::string& state : runs::run_state_names()) {
    states = optionally(std::move(states), {{state.c_str(), integer()}});
  }
  return object({{"id", text()},
                 {"name", or_null(text())},
                 {"planned", or_null(integer())},
                 {"runs", integer()},
                 {"finished", integer()},
                 {"states", std::move(states)},
                 {"layouts", list_of(text())},
                 {"begun", any_moment()},
                 {"changed", any_moment()}});
}

Json layout() {
  const Json mean =
      object({{"mean", any_number()}, {"deviation", or_null(any_number())}, {"runs", integer()}});
  return object({{"name", text()},
                 {"ranks", integer()},
                 {"data", integer()},
                 {"pipeline", integer()},
                 {"schedule", or_null(text())},
                 {"succeeded", integer()},
                 {"failed", list_of(text())},
                 {"figures", of_each_figure(or_null(mean))}});
}

Json run_of_experiment() {
  return object({{"id", text()},
                 {"state", one_of(runs::run_state_names())},
                 {"layout", text()},
                 {"seed", integer()},
                 {"place", or_null(integer())},
                 {"noise_scale_low", or_null(any_number())},
                 {"noise_scale_high", or_null(any_number())},
                 {"error", or_null(text())},
                 {"figures", of_each_figure(or_null(any_number()))}});
}

Json published() {
  Json figures = object({});
  for (const experiments::FigureText& figure : experiments::figure_texts()) {
    figures = optionally(std::move(figures), {{figure.key, any_number()}});
  }
  return object({{"what", text()},
                 {"hardware", text()},
                 {"layouts", list_of(object({{"name", text()}, {"figures", std::move(figures)}}))},
                 {"note", text()},
                 {"link", text()}});
}

}  // namespace

void add_experiments(Json* all) {
  Json& json = *all;
  json["ExperimentSummary"] = summary_of_experiment();
  json["ExperimentList"] =
      object({{"experiments", list_of({{"$ref", "#/components/schemas/ExperimentSummary"}})},
              {"total", integer()},
              {"next", or_null(text())}});
  json["Experiment"] = object({{"experiment", text()},
                               {"runs_planned", or_null(integer())},
                               {"batch_size", or_null(integer())},
                               {"device", or_null(text())},
                               {"hosts", list_of(text())},
                               {"loss_samples", or_null(integer())},
                               {"layouts", list_of(layout())},
                               {"runs", list_of(run_of_experiment())},
                               {"agreement", object({{"noise_scale", or_null(flag())},
                                                     {"loss_difference", or_null(any_number())},
                                                     {"sentences", list_of(text())}})},
                               {"notes", list_of(text())},
                               {"published", published()}});
  json["ExperimentTable"] = text();
}

}  // namespace regatta::orchestrator::api::forms
