#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/text/run_csv.h"
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
  return (state.empty() ? "no run is like that" : "no run is " + base::printable(state)) + "; " +
         (runs.size() < kMostCounted ? "others" : "of the newest " + std::to_string(runs.size())) +
         ": " + others;
}

// "90m", "24h", "7d" ago, or a moment as it is.
std::string moment_of(const std::string& name, const std::string& text) {
  const std::map<char, double> units{{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  const auto unit = text.empty() ? units.end() : units.find(text.back());
  const auto count = unit == units.end()
                         ? std::nullopt
                         : base::parse_number(std::string_view(text).substr(0, text.size() - 1));
  if (count && *count >= 0 && *count < 1e6) {
    const double now = base::system_clock().utc_seconds();
    return base::iso8601(now - *count * unit->second).substr(0, 19) + "Z";
  }
  if (text.size() >= 10 && text[4] == '-') return text;  // the controller looks closer
  throw base::Error(base::Code::User, name + " is '" + base::printable(text) +
                                          "'; use an age such as 90m, 24h or 7d, or a moment in "
                                          "UTC such as 2026-11-27 or 2026-11-27T10:30:00Z");
}

class List : public Command {
 public:
  explicit List(const Program& program)
      : Command({"ls",
                 Group::Runs,
                 "list the runs, newest first",
                 {"ls", "ls --state running,queued", "ls --text full --since 7d",
                  "ls --sort time_to_accuracy --reverse --limit 10", "ls --all -o csv"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options.add("--limit", &limit_, "show at most this many").range = {1, 1'000'000};
    options.add("--state", &state_, "only runs in this state; several with commas between them")
        .offered = runs::run_state_names();
    options.add("--name", &name_, "only runs whose name begins so");
    options.add("--text", &text_, "only runs with this in their id, name or error");
    options.add("--tag", &tags_, "only runs with this tag; repeatable: with all of them").type =
        "TAG";
    options.add("--owner", &owner_, "only runs that this one submitted: 'uid 1000', token");
    options.add("--node", &node_, "only runs that had this node");
    options.add("--since", &since_, "only runs made since then: 24h, 7d, 2026-11-27");
    options.add("--until", &until_, "only runs made before then");
    options.add("--archived", &archived_, "only archived runs");
    options.add("--all", &all_, "archived runs as well");
    options.choose("--sort", &sort_,
                   {{"created", std::string("created")},
                    {"ended", std::string("ended")},
                    {"time_to_accuracy", std::string("time_to_accuracy")},
                    {"name", std::string("name")}},
                   "by what; largest first");
    options.add("--reverse", &reverse_, "smallest first");
    add_server_options(options, &client_);
    options.choose("-o,--output", &output_,
                   {{"text", As::People},
                    {"json", As::Objects},
                    {"csv", As::Table},
                    {"yaml", As::Yaml},
                    {"name", As::Ids}},
                   "for people, for programs, or ids alone");
  }

  int run() override {
    const Client client = client_.connect();
    const Json answer = pages(client);
    const Json& runs = answer.at("runs");
    if (output_ == As::Objects) {
      print_json(answer);
    } else if (output_ == As::Yaml) {
      std::cout << text::yaml_of(answer);
    } else if (output_ == As::Table) {
      std::cout << text::csv_of(runs);
    } else if (output_ == As::Ids) {
      for (const Json& run : runs) std::cout << base::printable(run.value("id", "")) << "\n";
    } else if (runs.empty()) {
      std::cerr << (is_filtered() ? none_of(state_, counted(client)) : none_of("", runs)) << "\n";
    } else {
      std::cout << text::run_table(runs, text::terminal_width(STDOUT_FILENO));
    }
    return 0;
  }

 private:
  enum class As { People, Objects, Table, Yaml, Ids };

  [[nodiscard]] bool is_filtered() const {
    return !state_.empty() || !name_.empty() || !text_.empty() || !since_.empty() ||
           !until_.empty() || !tags_.empty() || !owner_.empty() || !node_.empty();
  }
  static Json counted(const Client& client) {
    return client.get("/runs?limit=" + std::to_string(kMostCounted)).value("runs", Json::array());
  }
  [[nodiscard]] std::string query() const {
    std::string query = "sort=" + sort_;
    if (all_ || archived_) query += std::string("&archived=") + (all_ ? "all" : "true");
    if (output_ == As::Objects || output_ == As::Yaml) query += "&full=true";
    if (reverse_) query += "&order=ascending";
    const auto add = [&query](const char* name, const std::string& value) {
      if (!value.empty()) query += std::string("&") + name + "=" + path_part(value);
    };
    add("state", state_);
    add("name", name_);
    add("text", text_);
    add("tag", base::join(tags_, ","));
    add("owner", owner_);
    add("node", node_);
    add("since", since_.empty() ? "" : moment_of("--since", since_));
    add("until", until_.empty() ? "" : moment_of("--until", until_));
    return query;
  }
  // As many runs as were asked for, of however many pages; `next` of the last one.
  [[nodiscard]] Json pages(const Client& client) const {
    const std::string asked = query();
    Json whole;
    int left = limit_;
    std::string before;
    do {
      Json page = client.get("/runs?" + asked + "&limit=" + std::to_string(std::min(left, kPage)) +
                             (before.empty() ? "" : "&before=" + path_part(before)));
      if (!page.contains("runs") || !page["runs"].is_array()) page["runs"] = Json::array();
      left -= static_cast<int>(page["runs"].size());
      before = page.value("next", Json()).is_string() ? page["next"].get<std::string>() : "";
      if (whole.is_null()) {
        whole = std::move(page);
        continue;
      }
      for (Json& run : page["runs"]) whole["runs"].push_back(std::move(run));
      whole["next"] = page["next"];
    } while (left > 0 && !before.empty());
    return whole;
  }

  static constexpr int kPage = 1000;
  ClientOptions client_;
  As output_ = As::People;
  int limit_ = 100;
  std::string state_, name_, text_, since_, until_, owner_, node_;
  std::vector<std::string> tags_;
  std::string sort_ = "created";
  bool reverse_ = false;
  bool archived_ = false;
  bool all_ = false;
};

}  // namespace

std::unique_ptr<Command> ls_command(const Program& program) {
  return std::make_unique<List>(program);
}

}  // namespace regatta::orchestrator::cli
