#include <cstdint>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/following.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/text/log_lines.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLogPauseSeconds = 0.5;
constexpr double kProgressSeconds = 5;

std::string files_table(const Json& files) {
  std::vector<std::vector<std::string>> rows{
      {"LAUNCH", "ATTEMPT", "RANK", "KIND", "SIZE", "MODIFIED", "FILE"}};
  const auto number = [](const Json& value) {
    return value.is_null() ? "-" : base::json_text(value);
  };
  for (const Json& file : files) {
    rows.push_back({number(file["launch"]), number(file["attempt"]), number(file["rank"]),
                    file.value("kind", ""), base::human_bytes(file["bytes"].get<std::uint64_t>()),
                    text::local_date(file.value("modified_at", Json())), file.value("name", "")});
  }
  return text::table(rows);
}

// What training does, told between the lines of a log.
class Training {
 public:
  Training(PatientClient& client, std::string path, double every_seconds)
      : client_(client), path_(std::move(path)), every_seconds_(every_seconds) {}

  void show(const Json& run) {
    const double now = base::system_clock().monotonic_seconds();
    const bool over = text::is_over(run);
    const Json state = {run["step"], run["value"], run["checkpoint"], over};
    if (state == told_) return;
    told_ = state;
    const Json metrics = client_.get(path_ + "/metrics?since=" + std::to_string(cursor_));
    cursor_ = metrics.value("cursor", cursor_);
    print(text::event_lines(metrics));
    if (!over && last_ && now - *last_ < every_seconds_) return;
    const std::string line = text::step_line(run);
    if (line.empty() || line == line_) return;
    print(line);
    line_ = line;
    last_ = now;
  }

 private:
  PatientClient& client_;
  std::string path_;
  double every_seconds_;
  std::int64_t cursor_ = 0;
  Json told_;
  std::optional<double> last_;
  std::string line_;
};

// Which log is read. That which was the newest at first stays the one, until it is read to its end.
struct Reading {
  std::string choice;  // "&file=…" and the like
  std::string file{};
  Json launches{};  // how many there were; null: not known
  bool in_line = false;

  void pin(const Json& part) {
    if (!file.empty()) return;
    file = part["file"].get<std::string>();
    choice = "&file=" + encoded(file);
    launches = part["launch"];
  }
  // The log of a job's ranks takes the place of its script's, and their number stays the same.
  [[nodiscard]] bool may_have_next(const Json& part) const {
    if (file.empty()) return false;
    return part["launch"] != launches || base::Path(file).extension() == ".out";
  }
};

class Logs : public Command {
 public:
  explicit Logs(const Program& program)
      : Command({"logs",
                 Group::Runs,
                 "print a log of a run, follow it, or search in it",
                 {"logs demo", "logs demo -f", "logs demo --tail 20",
                  "logs demo --grep 'warn|error' -i -C 2", "logs demo --list"}}),
        client_options_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    add_run(options, &run_);
    options.add("-f,--follow", &follow_,
                "follow until the run ends, with evaluations, checkpoints and a line of progress");
    options
        .add("--every", &every_seconds_,
             "with -f: seconds between two lines of progress (default: 5)")
        .range = NumberRange{0, 86400};
    options.add("--tail", &tail_, "only the last so many lines");
    const auto set_grep = [this](const std::string& text) { grep_ = text; };
    options.add("--grep", std::function<void(const std::string&)>(set_grep),
                "only lines that match this regular expression (RE2)");
    options.add("-C,--context", &context_, "with --grep: so many lines before and after, too");
    options.add("-i,--ignore-case", &ignore_case_, "with --grep: whatever the case of letters");
    options.add("--attempt", &attempt_, "the log of this attempt (default: the newest)");
    options.add("--rank", &rank_, "the log of this rank, if it has one of its own");
    options.add("--file", &file_, "a log by its name in --list");
    options.add("--list", &list_, "list the logs that there are");
    add_client_options(options, &client_options_, {"files", "name", "LogFiles"});
  }

  int run() override {
    refuse_what_has_no_effect();
    const Client client = client_options_.connect();
    path_ = "/runs/" + path_part(run_);
    if (list_) return list(client);
    if (grep_) return search(client);
    return show(client);
  }

 private:
  void refuse_what_has_no_effect() const {
    if (grep_ && grep_->empty())
      throw UsageError("--grep is ''; give an expression, such as error");
    if (grep_ && (follow_ || tail_)) {
      throw UsageError("--grep searches a whole log; leave out -f and --tail");
    }
    if (!grep_ && (context_ || ignore_case_)) {
      throw UsageError(std::string(context_ ? "--context" : "--ignore-case") +
                       " has no effect without --grep; add --grep, or leave it out");
    }
    if (every_seconds_ && !follow_) {
      throw UsageError("--every has no effect without --follow; add -f, or leave it out");
    }
    if (list_ && (grep_ || follow_ || tail_)) {
      throw UsageError("--list lists logs and prints none; leave out --grep, -f and --tail");
    }
    const Format format = client_options_.output.format();
    if (!list_ && format != Format::Text && format != Format::Json) {
      throw UsageError("a log is text or json; other outputs are for --list");
    }
  }

  // "&file=…" and the like, of what was chosen.
  [[nodiscard]] std::string choice() const {
    std::string query;
    if (!file_.empty()) query += "&file=" + encoded(file_);
    if (attempt_) query += "&attempt=" + std::to_string(*attempt_);
    if (rank_) query += "&rank=" + std::to_string(*rank_);
    return query;
  }

  [[nodiscard]] int list(const Client& client) const {
    const Json found = client.get(path_ + "/logs/files");
    if (client_options_.output.print(found)) return 0;
    if (found["files"].empty()) {
      std::cerr << "the run has no log yet\n";
    } else {
      print(files_table(found["files"]));
    }
    return 0;
  }

  [[nodiscard]] int search(const Client& client) const {
    const std::string query = path_ + "/logs/search?limit=1000&grep=" + encoded(*grep_) +
                              "&context=" + std::to_string(context_.value_or(0)) +
                              "&ignore_case=" + (ignore_case_ ? "true" : "false") + choice();
    long long last_line = 0;
    bool found = false;
    for (std::string from;;) {
      const Json page = client.get(query + (from.empty() ? "" : "&from=" + from));
      if (!client_options_.output.is_text()) {
        print_json_line(page);
      } else {
        print(text::found_lines(page["lines"], context_.value_or(0) > 0, &last_line));
      }
      found = found || !page["lines"].empty();
      if (page["next"].is_null()) break;
      from = page["next"].get<std::string>();
    }
    if (!found) std::cerr << "no line matches\n";
    return 0;
  }

  // The log after `file` among those of processes, ranks, and scripts whose ranks have none yet, so
  // that no start is left out.
  [[nodiscard]] std::string after(PatientClient& client, const std::string& file) const {
    const Json found = client.get(path_ + "/logs/files");
    bool passed = false;
    std::string script;
    Json job;
    for (const Json& each : found["files"]) {
      const std::string kind = each.value("kind", "");
      if (!script.empty() && (kind != "ranks" || each["job"] != job)) return script;
      if (passed && (kind == "process" || kind == "ranks")) return each.value("name", "");
      if (passed && kind == "script") {
        script = each.value("name", "");
        job = each["job"];
      }
      passed = passed || each.value("name", "") == file;
    }
    return script;
  }

  // With -f over restarts of the controller, too; but a slip in its address is told at once.
  int show(const Client& once) {
    PatientClient client(once, follow_);
    if (follow_) (void)once.get(path_);
    Training training(client, path_, every_seconds_.value_or(kProgressSeconds));
    const bool as_text = client_options_.output.is_text();
    Reading reading{choice()};
    const bool newest = reading.choice.empty();
    std::string where = tail_ ? "tail=" + std::to_string(*tail_) : "offset=0";
    for (;;) {
      const Json run = client.get(path_);  // before the log, so that its end is not missed
      const Json part = client.get(path_ + "/logs?" + where + reading.choice);
      const std::string text = part.value("text", "");
      if (part.value("size", std::int64_t{0}) < part.value("offset", std::int64_t{0})) {
        std::cerr << "the log has become shorter; it is read from its begin again\n";
        where = "offset=0";
        continue;
      }
      if (where.front() == 't' && part.value("begins_in_line", false)) {
        std::cerr << "these lines are longer than an answer may be; here are their last bytes\n";
      }
      if (as_text) {
        print(text::log_text(text));
      } else if (!text.empty() || !follow_) {
        print_json_line(part);
      }
      where = "offset=" + base::json_text(part["next"]);
      if (!text.empty()) reading.in_line = part.value("ends_in_line", false);
      if (newest && part["file"].is_string()) reading.pin(part);
      const bool ended = text.empty();
      if (ended && follow_ && newest && reading.may_have_next(part)) {
        const std::string next = after(client, reading.file);
        if (!next.empty()) {
          if (as_text) print((reading.in_line ? "\n-- " : "-- ") + base::printable(next) + "\n");
          reading = {"&file=" + encoded(next), next, part["launch"]};
          where = "offset=0";
          continue;
        }
      }
      const bool over = ended && text::is_over(run);
      if (follow_ && as_text && (over || !reading.in_line)) {
        if (reading.in_line) print("\n");
        reading.in_line = false;
        training.show(run);
      }
      if (ended && (!follow_ || over)) return 0;
      if (ended) pause_for_reader(kLogPauseSeconds);
    }
  }

  ClientOptions client_options_;
  std::string run_, path_, file_;
  std::optional<std::string> grep_;
  std::optional<std::uint64_t> tail_, context_, attempt_, rank_;
  std::optional<double> every_seconds_;
  bool follow_ = false, ignore_case_ = false, list_ = false;
};

}  // namespace

std::unique_ptr<Command> logs_command(const Program& program) {
  return std::make_unique<Logs>(program);
}

}  // namespace regatta::orchestrator::cli
