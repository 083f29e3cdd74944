// All pages of GET /nodes as one answer.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/cli/client.h"

namespace regatta::orchestrator::cli {

using NodeFilters = std::vector<std::pair<std::string, std::string>>;  // parameters and values

struct Patience {
  double age_seconds = 60;   // of an answer that is not waited for
  double wait_seconds = 15;  // the controller asks Slurm 10 s after its last question at the latest
};

// All that is known of each node, waiting a little for what is not old; what is old is better than
// nothing.
[[nodiscard]] nlohmann::ordered_json fetch_nodes(const Client& client, const NodeFilters& filters,
                                                 const Patience& patience = {});

[[nodiscard]] bool is_fresh(const nlohmann::ordered_json& answer, const Patience& patience = {});

}  // namespace regatta::orchestrator::cli
