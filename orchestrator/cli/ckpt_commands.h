// `regatta ckpt …`: a run's checkpoints, through the controller or straight on the files.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/cli/commands.h"

namespace regatta::orchestrator::cli {

enum class CkptAction { List, Show, Verify, Pin, Unpin, Gc, Diff, Export };

struct CkptOptions {
  std::string directory;           // of a run; empty: the run is named and the controller asked
  std::vector<std::string> words;  // [RUN] [CHECKPOINT…]
  std::string reason;              // of a pin
  bool dry_run = false;            // of gc
  bool optimizer = false;          // of diff: the optimizer's tensors too
  // Of export: where to, and what `regatta-train export` is to be given besides.
  std::string output;
  std::string trainer;  // empty: looked for
  std::vector<std::string> export_options;
};

// 1 when verify found damage; of an export the exit code of regatta-train, or 128 + the signal that
// ended it. Code::User for words that are missing or too many.
int ckpt(CkptAction action, const ClientOptions& client, const CkptOptions& options,
         const site::ProgramEnvironment& environment);

}  // namespace regatta::orchestrator::cli
