// Options of every command that talks to a controller.
#pragma once

#include "orchestrator/cli/client.h"
#include "orchestrator/cli/command.h"
#include "orchestrator/cli/output.h"

namespace regatta::orchestrator::cli {

// The controller that REGATTA_SERVER names, or the one in the default data directory.
[[nodiscard]] ControllerAddress controller_address(const site::ProgramEnvironment& environment);

struct ClientOptions {
  ControllerAddress server;
  double timeout_seconds = 10;
  Output output{};

  [[nodiscard]] static ClientOptions of(const Program& program) {
    return {controller_address(program.environment)};
  }
  [[nodiscard]] Client connect() const { return {server, timeout_seconds}; }
};

// --server, --token-file, --timeout.
void add_server_options(OptionList& options, ClientOptions* client);
// The same and --output.
void add_client_options(OptionList& options, ClientOptions* client, const Shape& shape = {});
// The word `run`.
void add_run(OptionList& options, std::string* run);

}  // namespace regatta::orchestrator::cli
