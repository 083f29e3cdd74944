// `regatta rm` and `regatta archive`: runs that are over.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/cli/commands.h"

namespace regatta::orchestrator::cli {

struct RemoveCommandOptions {
  std::vector<std::string> runs;
  bool dry_run = false;
  bool yes = false;  // asks nothing
  bool pinned_too = false;
};
// Says what each would free, asks once where there is a terminal, and removes them in turn. 1 when
// files of one are still there. Code::User without a terminal and without `yes`.
int remove_runs(const ClientOptions& client, const RemoveCommandOptions& options);
int archive_runs(const ClientOptions& client, const RemoveCommandOptions& options);

}  // namespace regatta::orchestrator::cli
