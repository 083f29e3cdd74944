#include "orchestrator/control/preview.h"

#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/plan/run_plan.h"
#include "trainer/contract/model_shape.h"

namespace regatta::orchestrator::control {
namespace {

constexpr double kStateBytes = 12;  // a parameter: weight and two moments, float32
constexpr const char* kHidden = "(hidden)";

PreviewCheck check_nodes(runs::Scheduler& scheduler, const trainer::contract::RunConfig& config) {
  if (scheduler.name() == "local") return {"nodes", true, "this machine"};
  const auto wanted = trainer::contract::slurm_resources_of(config);
  const auto usable = scheduler.usable_nodes(wanted);
  if (!usable) return {"nodes", std::nullopt, "Slurm has not been asked for its nodes lately"};
  const std::string found = std::to_string(usable->size()) + " nodes can be given what it asks for";
  const bool enough = usable->size() >= static_cast<std::size_t>(wanted.min_nodes);
  if (enough) return {"nodes", true, found};
  return {"nodes", false,
          found + ", and it needs " + std::to_string(wanted.min_nodes) +
              "; `regatta nodes` shows them"};
}

// missing: the first directory without a dataset.
PreviewCheck check_data(const std::optional<plan::DatasetFacts>& dataset,
                        const std::string& missing, const std::optional<base::Error>& fault,
                        const std::string& unknown) {
  if (fault) return {"dataset", false, fault->what()};
  if (!unknown.empty()) return {"dataset", std::nullopt, unknown};
  if (dataset) return {"dataset", true, plan::to_text(*dataset)};
  return {"dataset", false, text_of_no_dataset(missing)};
}

PreviewCheck check_model(const trainer::contract::StartConfig& from,
                         const std::optional<base::Error>& fault, const std::string& unknown) {
  if (fault) return {"from", false, fault->what()};
  if (!unknown.empty()) return {"from", std::nullopt, unknown};
  return {"from", true,
          base::printable(from.path) + (from.optimizer ? ", with the optimizer's moments" : "")};
}

}  // namespace

trainer::contract::RunConfig without_secrets(trainer::contract::RunConfig config) {
  if (!config.slurm) return config;
  for (auto& [name, value] : config.slurm->environment) value = kHidden;
  return config;
}

std::string text_of_no_dataset(const std::string& directory) {
  return "no dataset in " + base::printable(directory) +
         " that this machine can see; `regatta-train prepare` makes one";
}

PreviewCheck check_memory(const trainer::contract::RunConfig& config,
                          const std::optional<plan::DatasetFacts>& dataset) {
  trainer::contract::ModelShape shape = config.model;
  plan::complete_shape(dataset, &shape);
  if (shape.vocabulary <= 0) {
    return {"memory", std::nullopt, "not known without the dataset's vocabulary"};
  }
  const auto parameters =
      static_cast<double>(trainer::contract::make_tensor_table(shape).parameter_count);
  return {"memory", true,
          (parameters < 1e6 ? base::formatted("%.0f parameters", parameters)
                            : base::formatted("%.1f million parameters", parameters / 1e6)) +
              "; weights and optimizer take " +
              base::human_bytes(static_cast<std::uint64_t>(parameters * kStateBytes)) +
              (config.sharding.optimizer ? " over all ranks" : " on each rank") +
              ", beside gradients and activations"};
}

Preview Controller::preview(const std::string& body, const std::vector<std::string>& after) {
  plan::SubmittedRun asked = plan::parse_submitted(body);
  Preview preview;
  preview.after = resolve(after);
  (void)resolve_start(&asked.config);
  preview.defaults = take_defaults(&asked.config);
  if (preview.defaults.rfind(", with ", 0) == 0) preview.defaults.erase(0, 7);
  if (!asked.plan && options_.plan) asked.plan = options_.plan(asked.config);
  preview.config = asked.config;
  preview.plan = asked.plan;
  preview.directory = (options_.runs_directory / (asked.config.name + "-xxxxxx")).string();
  const auto plan_json =
      asked.plan ? std::optional(topology::plan::to_json(*asked.plan)) : std::nullopt;
  preview.start = scheduler_.preview(preview.directory, without_secrets(asked.config), plan_json);
  const Inputs inputs = look_at_inputs(asked.config);
  preview.checks = {
      check_data(inputs.dataset, inputs.no_dataset, inputs.dataset_fault, inputs.dataset_unknown)};
  if (asked.config.from) {
    preview.checks.push_back(
        check_model(*asked.config.from, inputs.start_fault, inputs.start_unknown));
  }
  preview.checks.push_back(check_memory(asked.config, inputs.dataset));
  preview.checks.push_back(check_nodes(scheduler_, asked.config));
  return preview;
}

}  // namespace regatta::orchestrator::control
