#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

// null while the controller starts.
std::string scheduler_of(const Json& version) {
  const Json scheduler = version.value("scheduler", Json());
  return scheduler.is_string() ? base::printable(scheduler.get<std::string>()) : "not chosen yet";
}

class Version : public Command {
 public:
  explicit Version(const Program& program)
      : Command({"version",
                 Group::Controller,
                 "print the versions of this program and of the controller",
                 {"version", "version -o json"}}),
        client_(ClientOptions::of(program)),
        version_(program.version),
        commit_(program.commit) {}

  void add_options(OptionList& options) override { add_client_options(options, &client_); }

  int run() override {
    Json json{{"version", REGATTA_VERSION}, {"commit", nullptr}, {"controller", nullptr}};
    if (!commit_.empty()) json["commit"] = commit_;
    try {
      const Client client(client_.server, std::min(client_.timeout_seconds, 2.0));
      json["controller"] = client.get("/version");
      json["controller"]["url"] = client.name();
    } catch (const base::Error&) {  // none runs: the program's own version is still an answer
    }
    if (client_.output.print(json)) return 0;
    std::cout << version_ << "\n";
    const Json& controller = json["controller"];
    if (controller.is_object()) {
      std::cout << "controller " << base::printable(controller.value("version", "")) << " at "
                << base::printable(controller.value("url", "")) << ", scheduler "
                << scheduler_of(controller) << ", runs in "
                << base::printable(controller.value("runs_directory", "")) << "\n";
    }
    return 0;
  }

 private:
  ClientOptions client_;
  std::string version_, commit_;
};

}  // namespace

std::unique_ptr<Command> version_command(const Program& program) {
  return std::make_unique<Version>(program);
}

}  // namespace regatta::orchestrator::cli
