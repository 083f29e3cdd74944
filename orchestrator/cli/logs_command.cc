#include <chrono>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kLogPause = std::chrono::milliseconds(500);

// Line by line, so that line breaks stay and everything else is escaped.
void print_log(const std::string& text) {
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = text.find('\n', start);
    std::cout << base::printable(text.substr(start, end - start));
    if (end == std::string::npos) break;
    std::cout << "\n";
    start = end + 1;
  }
  std::cout << std::flush;
}

class Logs : public Command {
 public:
  explicit Logs(const Program& program)
      : Command({"logs",
                 Group::Runs,
                 "print the log of the newest attempt",
                 {"logs demo", "logs demo -f"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    add_run(options, &run_);
    options.add("-f,--follow", &follow_, "follow until the run ends");
    add_client_options(options, &client_);
  }

  int run() override {
    const Client client = client_.connect();
    const std::string path = "/runs/" + path_part(run_);
    std::int64_t offset = 0;
    std::int64_t launch = 0;
    for (;;) {
      const bool over =
          text::is_over(client.get(path));  // before the log, so that its end is not missed
      const Json part = client.get(path + "/logs?offset=" + std::to_string(offset));
      const std::int64_t newest = part.value("launch", std::int64_t{0});
      if (launch != 0 && newest != launch && offset > 0) {  // another attempt, another file
        launch = newest;
        offset = 0;
        continue;
      }
      launch = newest;
      const std::string text = part.value("text", "");
      if (client_.format == Format::Text) {
        print_log(text);
      } else if (!text.empty() || !follow_) {
        print_json_line(part);
      }
      offset = part.value("next", offset);
      if (!text.empty()) continue;
      if (!follow_ || over) return 0;
      std::this_thread::sleep_for(kLogPause);
    }
  }

 private:
  ClientOptions client_;
  std::string run_;
  bool follow_ = false;
};

}  // namespace

std::unique_ptr<Command> logs_command(const Program& program) {
  return std::make_unique<Logs>(program);
}

}  // namespace regatta::orchestrator::cli
