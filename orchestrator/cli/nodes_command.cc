#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/nodes_text.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kFreshSeconds = 60;
// The controller asks Slurm when somebody looks, 10 s after its last question at the latest.
constexpr auto kLongestWait = std::chrono::seconds(15);
constexpr auto kPause = std::chrono::milliseconds(500);

bool is_fresh(const Json& answer) {
  const auto age = answer.find("age_seconds");
  return age != answer.end() && age->is_number() && age->get<double>() <= kFreshSeconds;
}

// The answer, waiting a little for one that is not old; an old one is better than none.
Json fetch(const Client& client) {
  const auto deadline = std::chrono::steady_clock::now() + kLongestWait;
  for (;;) {
    Json answer = client.get("/nodes");
    if (is_fresh(answer) || std::chrono::steady_clock::now() >= deadline) return answer;
    std::this_thread::sleep_for(kPause);
  }
}

// This machine is looked at whenever somebody asks.
std::string age_text(const Json& answer) {
  if (!is_fresh(answer) || answer.value("scheduler", "") == "local") return "";
  return "\nas of " + base::human_seconds(answer["age_seconds"].get<double>()) + " ago\n";
}

void print_trouble(const Json& answer) {
  const std::string trouble = answer.contains("trouble") && answer["trouble"].is_string()
                                  ? base::printable(answer["trouble"].get<std::string>())
                                  : "";
  if (!answer.contains("age_seconds") || !answer["age_seconds"].is_number()) {
    std::cerr << "regatta: the controller has no answer of Slurm about nodes yet"
              << (trouble.empty() ? "; try again in some seconds" : ": " + trouble) << "\n";
    return;
  }
  const double age = answer["age_seconds"].get<double>();
  if (!is_fresh(answer) && !trouble.empty()) {
    std::cerr << "regatta: " << text::silence_text(answer["taken_at"], age, trouble) << "\n";
  } else if (!is_fresh(answer) || !trouble.empty()) {
    std::cerr << "regatta: as of " << base::human_seconds(age) << " ago"
              << (trouble.empty() ? "" : ": " + trouble) << "\n";
  }
}

class Nodes : public Command {
 public:
  explicit Nodes(const Program& program)
      : Command({"nodes",
                 Group::Machines,
                 "show the machines: what is free, what is wrong, what to do",
                 {"nodes", "nodes node[01-04]"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options.add("nodes", &names_, "only these, such as node[01-04]").type = "NAME";
    add_client_options(options, &client_);
  }

  int run() override {
    const Json answer = fetch(client_.connect());
    const bool known = answer.contains("taken_at") && !answer["taken_at"].is_null();
    if (client_.format == Format::Json) {
      print_json(known ? only_nodes(answer, names_) : answer);
    } else {
      if (known) std::cout << nodes_text(answer, names_) << age_text(answer) << std::flush;
      print_trouble(answer);
    }
    return known ? 0 : base::meaning(base::Code::Retry).exit_code;
  }

 private:
  ClientOptions client_;
  std::vector<std::string> names_;  // hostlists; empty: all
};

}  // namespace

std::unique_ptr<Command> nodes_command(const Program& program) {
  return std::make_unique<Nodes>(program);
}

}  // namespace regatta::orchestrator::cli
