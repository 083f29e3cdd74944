#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/text/comparison.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostCompared = 10;

class Compare : public Command {
 public:
  explicit Compare(const Program& program)
      : Command({"compare",
                 Group::Runs,
                 "show figures of runs beside each other, and how their configurations differ",
                 {"compare adam lamb", "compare adam lamb @last -o json"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    Option& runs =
        options.add("runs", ValueKind::Run, &runs_, "ids, or names if only one run has them");
    runs.is_required = true;
    runs.type = "RUN";
    add_client_options(options, &client_);
  }

  int run() override {
    if (runs_.size() < 2 || runs_.size() > kMostCompared) {
      throw base::Error(base::Code::User, std::to_string(runs_.size()) +
                                              " runs cannot be compared; name 2 to " +
                                              std::to_string(kMostCompared));
    }
    const Client client = client_.connect();
    Json answers = Json::array();
    for (const std::string& run : runs_) answers.push_back(client.get("/runs/" + path_part(run)));
    const Json comparison = text::comparison_of(answers);
    if (client_.format == Format::Json) {
      print_json(comparison);
    } else {
      std::cout << text::comparison_text(comparison);
    }
    return 0;
  }

 private:
  ClientOptions client_;
  std::vector<std::string> runs_;
};

}  // namespace

std::unique_ptr<Command> compare_command(const Program& program) {
  return std::make_unique<Compare>(program);
}

}  // namespace regatta::orchestrator::cli
