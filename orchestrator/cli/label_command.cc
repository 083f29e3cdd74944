#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

class Label : public Command {
 public:
  explicit Label(const Program& program)
      : Command({"label",
                 Group::Runs,
                 "put tags and a note on a run, by which it is found again",
                 {"label demo --tag baseline --tag lamb", "label demo --untag baseline",
                  "label demo --note halved"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    add_run(options, &run_);
    options.add("--tag", &tags_, "add this tag; repeatable").type = "TAG";
    options.add("--untag", &without_, "take this tag away; repeatable").type = "TAG";
    const auto set_note = [this](const std::string& note) { note_ = note; };
    options.add("--note", std::function<void(const std::string&)>(set_note),
                "the run's note; '' removes it");
    add_client_options(options, &client_, {nullptr, "id"});
  }

  // Without a change it says what there is.
  int run() override {
    const Client client = client_.connect();
    const std::string path = "/runs/" + path_part(run_);
    Json body = Json::object();
    if (!tags_.empty()) body["add_tags"] = tags_;
    if (!without_.empty()) body["remove_tags"] = without_;
    if (note_) body["note"] = *note_;
    const Json run =
        body.empty() ? client.get(path) : client.post(path + "/labels", base::json_text(body), {});
    const Json shown{{"id", run.value("id", "")},
                     {"tags", run.value("tags", Json::array())},
                     {"note", run.value("note", Json())}};
    if (client_.output.print(shown)) return 0;
    for (const Json& tag : shown["tags"]) {
      std::cout << base::printable(tag.is_string() ? tag.get<std::string>() : "") << "\n";
    }
    if (shown["note"].is_string()) {
      for (const std::string& line : base::split(shown["note"].get<std::string>(), '\n')) {
        std::cout << "note: " << base::printable(line) << "\n";
      }
    }
    return 0;
  }

 private:
  ClientOptions client_;
  std::string run_;
  std::vector<std::string> tags_, without_;
  std::optional<std::string> note_;
};

}  // namespace

std::unique_ptr<Command> label_command(const Program& program) {
  return std::make_unique<Label>(program);
}

}  // namespace regatta::orchestrator::cli
