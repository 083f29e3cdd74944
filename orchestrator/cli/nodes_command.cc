#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/node_pages.h"
#include "orchestrator/cli/nodes_text.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

// This machine is looked at whenever somebody asks.
std::string as_of_text(const Json& answer) {
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
                 {"nodes", "nodes node[01-04]", "nodes --state drained,down --partition main"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options.add("nodes", &names_, "only these, such as node[01-04]").type = "NAME";
    options.add("--state", &state_, "only in one of these states, such as drained,down").type =
        "STATES";
    options.add("--name", &name_, "only those whose name begins so");
    options.add("--partition", &partition_, "only those of this partition");
    options.add("--text", &text_, "only those with this in their name or reason");
    add_client_options(options, &client_, {"nodes", "name", "Node"});
  }

  int run() override {
    const NodeFilters filters = this->filters();
    const Json answer = fetch_nodes(client_.connect(), filters);
    const bool known = answer.contains("taken_at") && !answer["taken_at"].is_null();
    // Without a filter all are there, and a name that is none is told.
    const std::vector<std::string> names = filters.empty() ? names_ : std::vector<std::string>();
    if (!client_.output.print(known ? only_nodes(answer, names) : answer)) {
      const std::string text = known ? nodes_text(answer, names) : "";
      if (known)
        std::cout << (text.empty() ? "no node is like that\n" : text) << as_of_text(answer);
      std::cout << std::flush;
      print_trouble(answer);
    }
    return known ? 0 : base::meaning(base::Code::Retry).exit_code;
  }

 private:
  [[nodiscard]] NodeFilters filters() const {
    NodeFilters filters;
    const auto add = [&filters](const char* name, const std::string& value) {
      if (!value.empty()) filters.emplace_back(name, value);
    };
    add("state", state_);
    add("name", name_);
    add("partition", partition_);
    add("text", text_);
    if (!filters.empty()) add("nodes", base::join(names_, ","));
    return filters;
  }

  ClientOptions client_;
  std::vector<std::string> names_;  // hostlists; empty: all
  std::string state_, name_, partition_, text_;
};

}  // namespace

std::unique_ptr<Command> nodes_command(const Program& program) {
  return std::make_unique<Nodes>(program);
}

}  // namespace regatta::orchestrator::cli
