#include "orchestrator/cli/client_options.h"

#include "orchestrator/site/data_directory.h"

namespace regatta::orchestrator::cli {

ControllerAddress controller_address(const site::ProgramEnvironment& environment) {
  return {environment.server.value_or(""), environment.token_file.value_or(""),
          site::default_data_directory(environment)};
}

void add_server_options(OptionList& options, ClientOptions* client) {
  // What the environment says is not shown as their default: help is the same everywhere.
  const auto set = [](std::string* value) {
    return std::function<void(const std::string&)>(
        [value](const std::string& word) { *value = word; });
  };
  options.add("--server", set(&client->server.name),
              "the controller: unix:PATH of its socket, or http://… (default: REGATTA_SERVER, or "
              "DATA/controller.sock)");
  options.add("--token-file", ValueKind::File, set(&client->server.token_file),
              "with http://: file with the controller's token (default: REGATTA_TOKEN_FILE, or "
              "DATA/token)");
  options.add("--timeout", &client->timeout_seconds, "seconds to wait for each answer").range = {
      0.1, 3600};
}

void add_client_options(OptionList& options, ClientOptions* client, const Shape& shape) {
  add_server_options(options, client);
  client->output.add_option(options, shape);
}

void add_run(OptionList& options, std::string* run) {
  options.add("run", ValueKind::Run, run, "the run's id, or its name if only one run has it")
      .is_required = true;
}

}  // namespace regatta::orchestrator::cli
