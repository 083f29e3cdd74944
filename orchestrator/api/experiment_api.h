// The routes below /experiments (docs/api.md), which are made of runs and their tags.
#pragma once

#include "orchestrator/api/experiment_reader.h"
#include "orchestrator/api/routes.h"
#include "orchestrator/store/store.h"

namespace regatta::orchestrator::api {

// Without what runs came to.
[[nodiscard]] Response list_experiments(store::Store& store, const Call& call);
// experiments::layout_table() of its runs.
[[nodiscard]] Response show_experiment(ExperimentReader& reader, store::Store& store,
                                       const std::string& id);
// The same as experiments::table_markdown() has it.
[[nodiscard]] Response experiment_markdown(ExperimentReader& reader, store::Store& store,
                                           const std::string& id);

}  // namespace regatta::orchestrator::api
