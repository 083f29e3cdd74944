#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/following.h"
#include "orchestrator/cli/interrupt.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/text/run_columns.h"
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
  throw UsageError(name + " is '" + base::printable(text) +
                   "'; use an age such as 90m, 24h or 7d, or a moment in "
                   "UTC such as 2026-11-27 or 2026-11-27T10:30:00Z");
}

// What is watched, on stdout: drawn again in its place on a terminal, and elsewhere printed anew
// when it has changed.
class Watched {
 public:
  // trouble: why it may be old; empty: it is not.
  void show(const std::string& text, const std::string& trouble) {
    const int height = text::terminal_height(STDOUT_FILENO);
    if (height > 0) {
      draw(text, trouble, static_cast<std::size_t>(height));
    } else {
      if (!trouble.empty() && trouble_.empty())
        std::cerr << "regatta: " << trouble << "; tries again\n";
      if (text != text_) std::cout << (text_.empty() ? "" : "\n") << text << std::flush;
    }
    text_ = text;
    trouble_ = trouble;
  }

 private:
  // From the upper left corner on; each line's rest is cleared, and what is below.
  static void draw(const std::string& text, const std::string& trouble, std::size_t height) {
    const auto width = static_cast<std::size_t>(text::terminal_width(STDOUT_FILENO));
    std::vector<std::string> lines = base::split(text, '\n');
    if (!lines.empty() && lines.back().empty()) lines.pop_back();
    const std::size_t room = std::max<std::size_t>(height, 4) - (trouble.empty() ? 1 : 2);
    if (lines.size() > room) {
      const std::size_t hidden = lines.size() - room + 1;
      lines.resize(room - 1);
      lines.push_back("and " + std::to_string(hidden) + " more");
    }
    if (!trouble.empty()) lines.push_back("regatta tries again: " + base::printable(trouble));
    std::string drawn = "\x1b[H";
    for (const std::string& line : lines) drawn += text::cut(line, width) + "\x1b[K\n";
    std::cout << drawn << "\x1b[J" << std::flush;
  }

  std::string text_, trouble_;
};

// "id,state" as columns that a run has.
std::vector<std::string> columns_of(const std::string& text) {
  const std::vector<std::string> names = columns_in_api("RunRow");
  const std::vector<std::string> columns = base::split(text, ',');
  for (const std::string& column : columns) {
    const std::string what = "--columns has '" + base::printable(column) + "'";
    if (std::find(names.begin(), names.end(), column) == names.end()) {
      const auto nearest = base::closest(column, names);
      throw UsageError(what + (nearest ? "; did you mean '" + *nearest + "'? Use " : "; use ") +
                       base::join(names, ", "));
    }
    if (std::count(columns.begin(), columns.end(), column) > 1) {
      throw UsageError(what + " more than once; name each column once");
    }
  }
  return columns;
}

class List : public Command {
 public:
  explicit List(const Program& program)
      : Command({"ls",
                 Group::Runs,
                 "list the runs, newest first",
                 {"ls", "ls --state running,queued --watch", "ls --text full --since 7d",
                  "ls --sort time_to_accuracy --reverse --limit 10",
                  "ls --columns id,state,value,tags,note", "ls --all -o csv"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options.add("--limit", &limit_, "show at most this many").range = {1, 1'000'000};
    add_filter(options, "state", "only runs in this state; several with commas between them")
        .offered = runs::run_state_names();
    add_filter(options, "name", "only runs whose name begins so");
    add_filter(options, "text", "only runs with this in their id, name or error");
    options.add("--tag", &tags_, "only runs with this tag; repeatable: with all of them").type =
        "TAG";
    add_filter(options, "owner", "only runs that this one submitted: 'uid 1000', token");
    add_filter(options, "node", "only runs that had this node");
    add_filter(options, "since", "only runs made since then: 24h, 7d, 2026-11-27");
    add_filter(options, "until", "only runs made before then");
    options.add("--archived", &archived_, "only archived runs");
    options.add("--all", &all_, "archived runs as well");
    options.choose("--sort", &sort_,
                   {{"created", std::string("created")},
                    {"ended", std::string("ended")},
                    {"time_to_accuracy", std::string("time_to_accuracy")},
                    {"name", std::string("name")}},
                   "by what; largest first");
    options.add("--reverse", &reverse_, "smallest first");
    const auto set_columns = [this](const std::string& text) { column_text_ = text; };
    Option& columns = options.add("--columns", std::function<void(const std::string&)>(set_columns),
                                  "with text and csv: these columns, named as in the API");
    columns.type = "NAME,...";
    columns.offered = {"id",    "name", "state", "step",  "value",  "target", "created_at",
                       "owner", "tags", "note",  "error", "device", "ranks"};
    options.add("-w,--watch", &watch_, "go on, with what has changed, until Ctrl-C");
    options.add("--every", &every_seconds_, "with --watch: seconds between two looks (default: 2)")
        .range = {0.1, 86400};
    add_client_options(options, &client_, {"runs", "id", "RunList"});
  }

  int run() override {
    refuse_what_has_no_effect();
    if (column_text_) columns_ = columns_of(*column_text_);
    client_.output.set_columns(columns_);
    const Client client = client_.connect();
    if (watch_) return watch(client);
    const Json answer = pages(client);
    if (client_.output.print(as_asked(answer))) return 0;
    if (answer.at("runs").empty()) {
      std::cerr << nothing_found(client, answer) << "\n";
    } else {
      std::cout << table_of(answer);
    }
    return 0;
  }

 private:
  Option& add_filter(OptionList& options, const std::string& name, const std::string& help) {
    const auto set = [this, name](const std::string& value) { filters_[name] = value; };
    return options.add("--" + name, std::function<void(const std::string&)>(set), help);
  }
  // What is empty would let all runs pass.
  void refuse_what_has_no_effect() const {
    std::string empty;
    for (const auto& [name, value] : filters_) empty = value.empty() ? name : empty;
    if (std::count(tags_.begin(), tags_.end(), "") > 0) empty = "tag";
    if (!empty.empty()) throw UsageError("--" + empty + " is ''; give a value, or leave it out");
    refuse_unknown_states();
    const Format format = client_.output.format();
    if (every_seconds_ && !watch_) {
      throw UsageError("--every has no effect without --watch; add it, or leave --every out");
    }
    if (watch_ && (format == Format::Csv || format == Format::Name)) {
      throw UsageError("--watch prints text, json or yaml; choose one of them with -o");
    }
    if (column_text_ && format != Format::Text && format != Format::Csv) {
      throw UsageError("--columns is for -o text and csv; leave it out");
    }
  }

  void refuse_unknown_states() const {
    const auto given = filters_.find("state");
    if (given == filters_.end()) return;
    for (const std::string& state : base::split(given->second, ',')) {
      if (runs::parse_run_state(state)) continue;
      throw UsageError("--state has '" + base::printable(state) + "'; use " +
                       base::join(runs::run_state_names(), ", "));
    }
  }

  [[nodiscard]] std::string nothing_found(const Client& client, const Json& answer) const {
    if (filters_.empty() && tags_.empty()) return none_of("", answer.at("runs"));
    const auto state = filters_.find("state");
    return none_of(state == filters_.end() ? "" : state->second, counted(client));
  }
  static Json counted(const Client& client) {
    return client.get("/runs?limit=" + std::to_string(kMostCounted)).value("runs", Json::array());
  }

  // With chosen columns the answer has only these.
  [[nodiscard]] Json as_asked(Json answer) const {
    if (!columns_.empty()) answer["runs"] = text::chosen_columns(answer["runs"], columns_);
    return answer;
  }
  [[nodiscard]] std::string table_of(const Json& answer) const {
    const int width = text::terminal_width(STDOUT_FILENO);
    return columns_.empty() ? text::run_table(answer.at("runs"), width)
                            : text::column_table(answer.at("runs"), columns_, width);
  }

  // The first look ends it where there is no controller; later one may restart.
  int watch(const Client& client) {
    const Interrupt interrupt;
    Watched watched;
    Json answer = pages(client), printed;
    std::string trouble;
    if (text::terminal_height(STDOUT_FILENO) > 0 && client_.output.is_text()) {
      std::cout << "\x1b[2J";
    }
    for (;;) {
      if (client_.output.is_text()) {
        watched.show(
            answer.at("runs").empty() ? nothing_found(client, answer) + "\n" : table_of(answer),
            trouble);
      } else if (answer != printed) {
        (void)client_.output.print_next(answer);
        printed = answer;
      }
      if (interrupt.wait(every_seconds_.value_or(kEverySeconds))) return kInterrupted;
      pause_for_reader(0);
      try {
        answer = pages(client);
        trouble.clear();
      } catch (const base::Error& error) {
        if (error.code() != base::Code::Retry) throw;
        trouble = error.what();
      }
    }
  }

  [[nodiscard]] std::string query() const {
    std::string query = "sort=" + sort_;
    if (all_ || archived_) query += std::string("&archived=") + (all_ ? "all" : "true");
    const Format format = client_.output.format();
    const bool whole = format == Format::Json || format == Format::Yaml || !columns_.empty();
    if (whole) query += "&full=true";
    if (reverse_) query += "&order=ascending";
    for (const auto& [name, value] : filters_) {
      const bool is_moment = name == "since" || name == "until";
      query += "&" + name + "=" + encoded(is_moment ? moment_of("--" + name, value) : value);
    }
    if (!tags_.empty()) query += "&tag=" + encoded(base::join(tags_, ","));
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
                             (before.empty() ? "" : "&before=" + encoded(before)));
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
  static constexpr double kEverySeconds = 2;
  ClientOptions client_;
  int limit_ = 100;
  std::map<std::string, std::string> filters_;  // by their name in the API
  std::vector<std::string> tags_, columns_;
  std::optional<std::string> column_text_;
  std::string sort_ = "created";
  std::optional<double> every_seconds_;
  bool reverse_ = false;
  bool archived_ = false;
  bool all_ = false;
  bool watch_ = false;
};

}  // namespace

std::unique_ptr<Command> ls_command(const Program& program) {
  return std::make_unique<List>(program);
}

}  // namespace regatta::orchestrator::cli
