// Why a run is where it is, for people: what holds it up, how each of its jobs and attempts ended,
// what happens next. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "orchestrator/api/run_json.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/slurm/node_suspicion.h"

namespace regatta::orchestrator::api {

// docs/api.md has its shape. `avoided`: the nodes that the next launch would leave out.
// `contact`: of the newest launch's scheduler.
[[nodiscard]] nlohmann::ordered_json explain_json(const runs::Run& run, const RunParts& parts,
                                                  const std::vector<slurm::Avoided>& avoided,
                                                  const std::optional<runs::Contact>& contact,
                                                  double now_utc);

// Of a run that waits for a free slot: "2nd in line for a free slot; in use by demo-4f2a91 …".
// open: all runs that are not over, oldest first, this one among them.
[[nodiscard]] std::string place_in_line(const runs::Run& run, const std::vector<runs::Run>& open);

// What explain_json() made, as lines for a terminal.
[[nodiscard]] std::string explain_text(const nlohmann::ordered_json& explanation);

}  // namespace regatta::orchestrator::api
