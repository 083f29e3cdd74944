// What of the controller's environment its trainers on this machine get: an allow-list, since an
// environment may hold anybody's secrets and a run's owner need not be who started the controller.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace regatta::orchestrator::site {

// What a batch job gets (batch/batch_script.h) but for Slurm's own, and what tunes the libraries
// that a trainer loads: NCCL, Open MPI, CUDA, oneDNN and the like. Never a name that says TOKEN,
// SECRET, PASSWORD or the like, whatever it begins with.
[[nodiscard]] bool may_reach_trainer(std::string_view variable);
[[nodiscard]] std::map<std::string, std::string> trainer_environment(
    const std::map<std::string, std::string>& whole);

}  // namespace regatta::orchestrator::site
