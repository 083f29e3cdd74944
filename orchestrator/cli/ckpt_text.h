// Checkpoints for people, on stdout: of the answers of the API.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace regatta::orchestrator::cli {

void print_checkpoints(const nlohmann::ordered_json& answer);
void print_checkpoint(const nlohmann::ordered_json& row);
// Why it stays, or that the next collection removes it.
void print_retention(const nlohmann::ordered_json& row);
// Of `ckpt gc`.
void print_removals(const nlohmann::ordered_json& answer);
// Of `ckpt diff`.
void print_differences(const nlohmann::ordered_json& answer);

}  // namespace regatta::orchestrator::cli
