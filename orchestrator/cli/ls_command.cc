#include <unistd.h>

#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostCounted = 1000;

// "no run is running; there are others: 2 failed, 10 succeeded".
std::string none_of(const std::string& state, const Json& runs) {
  std::map<std::string, int> counts;
  for (const Json& run : runs) ++counts[run.value("state", "")];
  std::string others;
  for (const auto& [name, count] : counts) {
    others += (others.empty() ? "" : ", ") + std::to_string(count) + " " + base::printable(name);
  }
  if (others.empty()) return "no runs; 'regatta submit FILE' makes one";
  return "no run is " + base::printable(state) + "; " +
         (runs.size() < kMostCounted ? "others" : "of the newest " + std::to_string(runs.size())) +
         ": " + others;
}

class List : public Command {
 public:
  explicit List(const Program& program)
      : Command({"ls",
                 Group::Runs,
                 "list the runs, newest first",
                 {"ls", "ls --state running --limit 10", "ls --all -o json"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options.add("--limit", &limit_, "show at most this many").range = {1, 1000};
    options.add("--state", &state_, "only runs in this state");
    options.add("--archived", &archived_, "only archived runs");
    options.add("--all", &all_, "archived runs as well");
    add_client_options(options, &client_);
  }

  int run() override {
    const Client client = client_.connect();
    std::string path = "/runs?limit=" + std::to_string(limit_);
    if (all_ || archived_) path += std::string("&archived=") + (all_ ? "all" : "true");
    if (client_.format == Format::Json) path += "&full=true";
    if (!state_.empty()) path += "&state=" + path_part(state_);
    const Json answer = client.get(path);
    if (client_.format == Format::Json) {
      print_json(answer);
    } else if (!answer.contains("runs") || answer["runs"].empty()) {
      const Json all =
          state_.empty() ? answer : client.get("/runs?limit=" + std::to_string(kMostCounted));
      std::cerr << none_of(state_, all.value("runs", Json::array())) << "\n";
    } else {
      std::cout << text::run_table(answer["runs"], text::terminal_width(STDOUT_FILENO));
    }
    return 0;
  }

 private:
  ClientOptions client_;
  int limit_ = 100;
  std::string state_;
  bool archived_ = false;
  bool all_ = false;
};

}  // namespace

std::unique_ptr<Command> ls_command(const Program& program) {
  return std::make_unique<List>(program);
}

}  // namespace regatta::orchestrator::cli
