// The table of commands: what is parsed, what help lists, and what tests walk through.
#pragma once

#include <memory>

#include "orchestrator/cli/command.h"

namespace regatta::orchestrator::cli {

// By group, and by name within it. A new command is a file that defines NAME_command(), and a line
// here.
// clang-format off
#define REGATTA_COMMANDS(COMMAND) \
  COMMAND(archive)  \
  COMMAND(cancel)   \
  COMMAND(change)   \
  COMMAND(ckpt)     \
  COMMAND(compare)  \
  COMMAND(diff)     \
  COMMAND(events)   \
  COMMAND(experiment) \
  COMMAND(explain)  \
  COMMAND(export)   \
  COMMAND(extend)   \
  COMMAND(fork)     \
  COMMAND(import)   \
  COMMAND(init)     \
  COMMAND(label)    \
  COMMAND(logs)     \
  COMMAND(ls)       \
  COMMAND(references) \
  COMMAND(requeue)  \
  COMMAND(resume)   \
  COMMAND(rm)       \
  COMMAND(sbatch)   \
  COMMAND(schema)   \
  COMMAND(show)     \
  COMMAND(submit)   \
  COMMAND(sweep)    \
  COMMAND(watch)    \
  COMMAND(doctor)   \
  COMMAND(nodes)    \
  COMMAND(platform) \
  COMMAND(probe)    \
  COMMAND(topo)     \
  COMMAND(advise)   \
  COMMAND(plan)     \
  COMMAND(simulate) \
  COMMAND(backup)   \
  COMMAND(completion) \
  COMMAND(config)   \
  COMMAND(help)     \
  COMMAND(man)      \
  COMMAND(open)     \
  COMMAND(restore)  \
  COMMAND(serve)    \
  COMMAND(version) \
  COMMAND(webhooks)
// clang-format on

#define REGATTA_DECLARE(name) \
  [[nodiscard]] std::unique_ptr<Command> name##_command(const Program& program);
REGATTA_COMMANDS(REGATTA_DECLARE)
#undef REGATTA_DECLARE

// One object of each, in the order of the table. They keep no reference to `program`.
[[nodiscard]] Commands all_commands(const Program& program);

}  // namespace regatta::orchestrator::cli
