// Commands that change how far a run goes, or continue it as another: extend, change, fork.
#include <chrono>
#include <cmath>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/run_command.h"
#include "orchestrator/control/request_key.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr NumberRange kCounts = {0, 1e9};
constexpr int kAnswerLooks = 100;  // for what Slurm says of a time limit
constexpr std::chrono::milliseconds kLook(100);
constexpr double kForkSeconds = 3600;  // its checkpoint is copied before the answer

// key: empty where none is given.
std::map<std::string, std::string> key_headers(const std::string& key) {
  if (key.empty()) return {};
  control::check_key(key);
  return {{"Idempotency-Key", key}};
}

// A command that changes a run's file.
class ChangingCommand : public RunCommand {
 public:
  using RunCommand::RunCommand;

 protected:
  void add_steps_and_target(OptionList& options) {
    options.add("--steps", &steps_, "train to this step").range = kCounts;
    options.add("--target", &target_, "the target, in the run's metric");
    options.add("--past-target", &past_target_, "train on when the target is met");
  }
  void add_key(OptionList& options) {
    options.add("--idempotency-key", &key_,
                "with the same key again, nothing is done a second time");
  }
  // What was given of these.
  [[nodiscard]] Json steps_and_target(Json changes = Json::object()) const {
    if (steps_) changes["steps"] = *steps_;
    if (target_ && !std::isfinite(*target_)) {  // JSON has no such number
      throw base::Error(base::Code::User, "--target is no number; give one such as 0.65");
    }
    if (target_) changes["target"]["value"] = *target_;
    if (past_target_) changes["target"]["stop"] = false;
    return changes;
  }
  [[nodiscard]] std::map<std::string, std::string> headers() const { return key_headers(key_); }

 private:
  std::optional<std::uint64_t> steps_;
  std::optional<double> target_;
  bool past_target_ = false;
  std::string key_;
};

class Extend : public ChangingCommand {
 public:
  explicit Extend(const Program& program)
      : ChangingCommand({"extend",
                         Group::Runs,
                         "have a run that is over train further, from its newest checkpoint",
                         {"extend demo --steps 20000", "extend demo --target 0.6 --steps 20000"}},
                        program) {}

  void add_options(OptionList& options) override {
    RunCommand::add_options(options);
    add_steps_and_target(options);
    add_key(options);
  }

  int run() override {
    const Json run =
        client().connect().post(path() + "/extend", body_of(steps_and_target()), headers());
    if (printed(run)) return 0;
    std::cout << base::printable(run.value("id", "") + " " + run.value("state", "")) << "\n";
    return 0;
  }
};

class Change : public ChangingCommand {
 public:
  explicit Change(const Program& program)
      : ChangingCommand(
            {"change",
             Group::Runs,
             "change time limit, steps, target or retention of a run",
             {"change demo --time-limit 8:00:00", "change demo --steps 20000",
              "change demo --keep-last 5 --keep-best 1", "change demo --set evaluate.every=50"}},
            program) {}

  void add_options(OptionList& options) override {
    RunCommand::add_options(options);
    options.add("--time-limit", &time_limit_, "minutes, H:MM:SS or D-HH:MM:SS of a Slurm job");
    add_steps_and_target(options);
    options.add("--keep-last", &keep_last_, "keep so many of the newest checkpoints").range = {1,
                                                                                               1e6};
    options.add("--keep-best", &keep_best_, "keep so many of the best ones").range = kCounts;
    options.add("--keep-every", &keep_every_, "keep those of steps that this divides").range =
        kCounts;
    options
        .add("--set", &set_,
             "change another key that may change, such as evaluate.every=50; repeatable")
        .type = "KEY=VALUE";
    add_key(options);
  }

  int run() override {
    const Client client = this->client().connect();
    const std::string events = "/events?run=" + path_part(name());
    std::int64_t since = 0;
    if (!time_limit_.empty()) since = client.get(events + "&limit=1").value("next", since);
    const Json asked = changes();
    const Json before = asked.contains("steps") ? client.get(path()) : Json::object();
    const Json run = client.post(path() + "/change", body_of(asked), headers());
    if (!printed(run)) tell(run, before, asked.contains("steps") || asked.contains("target"));
    const std::string state = run.value("state", "");
    const bool has_job = run.value("scheduler", Json()) == "slurm" &&
                         (state == "queued" || state == "starting" || state == "running");
    if (!time_limit_.empty() && run.value("scheduler", Json()) == "local") {
      std::cerr << "the time limit has no effect here: it is that of a Slurm job, and this run's "
                   "scheduler is local\n";
    }
    if (time_limit_.empty() || !has_job) return 0;
    return tell_limit(client, events + "&kind=launch&since=" + std::to_string(since));
  }

 private:
  [[nodiscard]] Json changes() const {
    Json changes = steps_and_target(changes_of(set_));
    if (!time_limit_.empty()) {
      const auto minutes = base::parse_integer(time_limit_);
      changes["slurm"]["time_limit"] = minutes ? Json(*minutes) : Json(time_limit_);
    }
    const auto keep = [&](const char* key, const std::optional<std::uint64_t>& count) {
      if (count) changes["checkpoint"][key] = *count;
    };
    keep("keep_last", keep_last_);
    keep("keep_best", keep_best_);
    keep("keep_every", keep_every_);
    return changes;
  }
  // before: the run as it was, where its steps change.
  static void tell(const Json& run, const Json& before, bool other_end) {
    const std::string state = run.value("state", "");
    std::cout << base::printable(run.value("id", "") + " " + state) << "\n";
    if (!other_end) return;
    if (state == "starting" || state == "running" || state == "stopping") {
      const auto steps = run.value("steps", std::int64_t{0});
      const auto old_steps = before.value("steps", steps);
      if (steps < old_steps) {
        // What was changed before may have begun with yet other steps.
        const bool known = before.value("changed_at", Json()).is_null();
        std::cerr << "the attempt that trains now "
                  << (known
                          ? "began with " + std::to_string(old_steps) + " steps and goes on to them"
                          : std::string("goes on to the steps that it began with"))
                  << "; `" << base::shown_command("regatta requeue", run.value("id", ""))
                  << "` makes it end at " << steps << "\n";
        return;
      }
      std::cerr
          << "an attempt that is under way goes on as it began, and another follows where the "
             "run is to go further\n";
    }
  }
  // A job that has none yet gets it when it is submitted.
  static int tell_limit(const Client& client, const std::string& events) {
    for (int look = 0; look < kAnswerLooks; ++look) {
      for (const Json& event : client.get(events).value("events", Json::array())) {
        const std::string words = base::printable(event.value("words", ""));
        if (event.value("kind", "") == "launch.limited") {
          std::cerr << "Slurm gave its job " << words << "\n";
          return 0;
        }
        if (event.value("kind", "") != "launch.limit_refused") continue;
        std::cerr << "Slurm refused to give its job " << words
                  << "; the next one gets this time limit\n";
        return base::meaning(base::Code::Conflict).exit_code;
      }
      std::this_thread::sleep_for(kLook);
    }
    std::cerr << "Slurm has said nothing of the time limit so far; `regatta events` will tell\n";
    return 0;
  }

  std::string time_limit_;
  std::optional<std::uint64_t> keep_last_, keep_best_, keep_every_;
  std::vector<std::string> set_;
};

class Fork : public Command {
 public:
  explicit Fork(const Program& program)
      : Command({"fork",
                 Group::Runs,
                 "submit a run that continues a checkpoint of another one",
                 {"fork demo --set optimizer.learning_rate=0.0005",
                  "fork demo@4000 --name demo-lamb", "fork demo --steps 20000 -o json"}}),
        client_(ClientOptions::of(program)) {
    client_.timeout_seconds = kForkSeconds;
  }

  void add_options(OptionList& options) override {
    options
        .add("run", ValueKind::Run, &run_,
             "the run, and behind an @ a step or a checkpoint's name (default: its newest)")
        .is_required = true;
    options.add("--name", &name_, "name of the new run (default: the same)");
    options.add("--steps", &steps_, "train to this step").range = kCounts;
    options
        .add("--set", &set_,
             "change a key of the run file, such as optimizer.learning_rate=0.0005; repeatable")
        .type = "KEY=VALUE";
    options.add("--idempotency-key", &key_, "with the same key again, the same run is answered");
    add_client_options(options, &client_, {nullptr, "id"});
  }

  int run() override {
    std::string parent = run_;
    Json body = Json::object();
    const std::size_t at = run_.rfind('@');
    if (at != std::string::npos && at > 0) {
      parent = run_.substr(0, at);
      body["checkpoint"] = run_.substr(at + 1);
    }
    if (!name_.empty()) body["name"] = name_;
    Json changes = changes_of(set_);
    if (steps_) changes["steps"] = *steps_;
    if (!changes.empty()) body["changes"] = std::move(changes);
    const Json run = client_.connect().post("/runs/" + path_part(parent) + "/fork", body_of(body),
                                            key_headers(key_));
    if (client_.output.print(run)) return 0;
    const std::string id = run.value("id", "");
    std::cout << base::printable(id) << "\n";
    std::cerr << "submitted; `" << base::shown_command("regatta watch", id) << "` shows it\n";
    return 0;
  }

 private:
  ClientOptions client_;
  std::string run_, name_, key_;
  std::optional<std::uint64_t> steps_;
  std::vector<std::string> set_;
};

}  // namespace

std::unique_ptr<Command> extend_command(const Program& program) {
  return std::make_unique<Extend>(program);
}
std::unique_ptr<Command> change_command(const Program& program) {
  return std::make_unique<Change>(program);
}
std::unique_ptr<Command> fork_command(const Program& program) {
  return std::make_unique<Fork>(program);
}

}  // namespace regatta::orchestrator::cli
