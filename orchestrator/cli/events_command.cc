#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/following.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kEventsPauseSeconds = 1;
constexpr int kMostAtOnce = 1000;

// "demo-4f2a91 attempt 2 step 1200", and what else an event is about.
std::string subject_of(const Json& event) {
  std::string text = event.value("run", Json()).is_string() ? event["run"].get<std::string>() : "";
  const auto add = [&](const char* key, const char* before) {
    const Json value = event.value(key, Json());
    if (value.is_null()) return;
    text += (text.empty() ? "" : " ") + std::string(before) +
            (value.is_string() ? value.get<std::string>() : base::json_text(value));
  };
  add("launch", "launch ");
  add("attempt", "attempt ");
  add("checkpoint", "");
  if (event.value("checkpoint", Json()).is_null()) add("step", "step ");
  add("node", "on ");
  return text;
}

std::vector<std::string> cells_of(const Json& event) {
  const Json words = event.value("words", Json());
  const Json by = event.value("by", Json());
  std::string said = words.is_string() ? words.get<std::string>() : "";
  if (by.is_string()) said += (said.empty() ? "by " : ", by ") + by.get<std::string>();
  return {text::local_date(event.value("at", Json())), event.value("kind", ""), subject_of(event),
          said};
}

// One line, in columns that are wide enough for most.
std::string line_of(const Json& event) {
  constexpr std::size_t kKind = 18, kSubject = 24;
  const std::vector<std::string> cells = cells_of(event);
  const auto padded = [](const std::string& cell, std::size_t width) {
    const std::string shown = base::printable(cell);
    return shown + std::string(shown.size() < width ? width - shown.size() : 0, ' ');
  };
  std::string line = cells[0] + "  " + padded(cells[1], kKind) + "  " + padded(cells[2], kSubject) +
                     "  " + base::printable(cells[3]);
  while (line.back() == ' ') line.pop_back();
  return line;
}

class Events : public Command {
 public:
  explicit Events(const Program& program)
      : Command({"events",
                 Group::Runs,
                 "what happened, and who asked for it",
                 {"events", "events demo", "events -f --kind run.failed,node",
                  "events --by token --limit 500 -o json"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options.add("run", ValueKind::Run, &run_, "only of this run");
    options.add("-f,--follow", &follow_, "go on, with what happens from now on, too");
    options.add("--kind", &kind_,
                "only of these kinds, with commas between them: run.failed, or all that begin so: "
                "run, launch, attempt, checkpoint, node");
    options.add("--node", &node_, "only of this node");
    options.add("--by", &by_, "only what this one asked for: 'uid 1000', token");
    options.add("--limit", &limit_, "the newest so many").range = {1, kMostAtOnce};
    options.add("--since", &since_, "the first so many after the event of this number instead");
    add_client_options(options, &client_, {"events", "number", "Events"});
  }

  int run() override {
    const Client client = client_.connect();
    Json answer = client.get(query(since_, limit_));
    if (!follow_ && client_.output.print(answer)) return 0;
    PatientClient patient(client, true);
    for (;;) {
      print(answer);
      if (!follow_) return 0;
      if (!answer.value("more", false) || !since_) pause_for_reader(kEventsPauseSeconds);
      since_ = answer.value("next", since_.value_or(0));
      answer = patient.get(query(since_, kMostAtOnce));
    }
  }

 private:
  [[nodiscard]] std::string query(const std::optional<std::uint64_t>& since, int limit) const {
    std::string query = "/events?limit=" + std::to_string(limit);
    const auto add = [&query](const char* name, const std::string& value) {
      if (!value.empty()) query += std::string("&") + name + "=" + encoded(value);
    };
    if (since) add("since", std::to_string(*since));
    add("run", run_);
    add("kind", kind_);
    add("node", node_);
    add("by", by_);
    return query;
  }
  void print(const Json& answer) {
    for (const Json& event : answer.value("events", Json::array())) {
      if (!client_.output.print_next(event)) std::cout << line_of(event) << "\n";
    }
    std::cout << std::flush;
  }

  ClientOptions client_;
  std::string run_, kind_, node_, by_;
  std::optional<std::uint64_t> since_;
  int limit_ = 50;
  bool follow_ = false;
};

}  // namespace

std::unique_ptr<Command> events_command(const Program& program) {
  return std::make_unique<Events>(program);
}

}  // namespace regatta::orchestrator::cli
