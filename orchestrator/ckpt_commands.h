// `regatta ckpt …`: a run's checkpoints, through the controller or straight on the files.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/commands.h"

namespace regatta::orchestrator {

enum class CkptAction { List, Show, Verify, Pin, Unpin, Gc, Diff };

struct CkptOptions {
  std::string directory;           // of a run; empty: the run is named and the controller asked
  std::vector<std::string> words;  // [RUN] [CHECKPOINT…]
  std::string reason;              // of a pin
  bool dry_run = false;            // of gc
  bool optimizer = false;          // of diff: the optimizer's tensors too
};

// 1 when verify found damage. Code::User for words that are missing or too many.
int ckpt(CkptAction action, const ClientOptions& client, const CkptOptions& options);

}  // namespace regatta::orchestrator
