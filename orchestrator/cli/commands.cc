#include "orchestrator/cli/commands.h"

#include "base/error.h"

namespace regatta::orchestrator::cli {

const char* heading_of(Group group) {
  switch (group) {
    case Group::Runs:
      return "Runs";
    case Group::Machines:
      return "Machines";
    case Group::Plans:
      return "Plans";
    case Group::Controller:
      return "Controller";
  }
  return "";
}

int CommandFamily::run() {
  base::check(false, "the parser asks for one of a family's commands");
  return 0;
}

Commands all_commands(const Program& program) {
  Commands commands;
#define REGATTA_MAKE(name) commands.push_back(name##_command(program));
  REGATTA_COMMANDS(REGATTA_MAKE)
#undef REGATTA_MAKE
  return commands;
}

}  // namespace regatta::orchestrator::cli
