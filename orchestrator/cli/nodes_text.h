// GET /nodes for people, as a pure function of its JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace regatta::orchestrator::cli {

// Nodes that are equal in one line, a total, then each node that somebody should look at with its
// reason and what to do. names: only these nodes, hostlists allowed; empty: all. Code::NotFound for
// a name that is none, with a suggestion. Everything passes through base::printable.
[[nodiscard]] std::string nodes_text(const nlohmann::ordered_json& answer,
                                     const std::vector<std::string>& names);
// The answer with these nodes only; as above.
[[nodiscard]] nlohmann::ordered_json only_nodes(nlohmann::ordered_json answer,
                                                const std::vector<std::string>& names);

}  // namespace regatta::orchestrator::cli
