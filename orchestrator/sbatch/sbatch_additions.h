// What Regatta adds to a user's sbatch command: pure. Only what the user has said nothing about, on
// the command line, in the script or by a variable of sbatch's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/sbatch/sbatch_options.h"

namespace regatta::orchestrator::sbatch {

// A node that the controller knows.
struct KnownNode {
  std::string name;
  bool usable = false;   // Slurm would start jobs on it
  double suspicion = 0;  // node_suspicion.h
  std::string why;       // it is suspected
  std::vector<std::string> partitions;
};

struct SbatchAdditions {
  std::vector<std::string> arguments;  // to stand before the user's
  std::vector<std::string> notes;      // for people, a line each
  std::string comment;                 // by which the job is found again; empty: it has another
  bool avoids = false;                 // --exclude is among the arguments
};

// options: those that count. token: 16 hexadecimal digits that no other job has.
//
// --comment, by which a job is found whose submission nobody answered; --open-mode=append, so that
// a requeued job keeps its log, where each job has a file of its own; --exclude of nodes that are
// suspected, where so many are left that the job can start.
[[nodiscard]] SbatchAdditions sbatch_additions(const std::vector<GivenOption>& options,
                                               std::string_view token,
                                               const std::vector<KnownNode>& nodes);

}  // namespace regatta::orchestrator::sbatch
