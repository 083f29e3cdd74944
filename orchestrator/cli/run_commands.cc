// Commands on one run: show, explain, cancel, requeue, resume.
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/api/explain.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/run_command.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/text/environment_text.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

class Show : public RunCommand {
 public:
  explicit Show(const Program& program)
      : RunCommand({"show",
                    Group::Runs,
                    "show a run",
                    {"show demo", "show demo -o json", "show demo --environment --attempt 2"}},
                   program) {}

  void add_options(OptionList& options) override {
    RunCommand::add_options(options);
    options.add("--secrets", &secrets_,
                "also show the values of slurm.environment; only on the controller's machine");
    options.add("--environment", &environment_,
                "show instead what the newest attempt was built of and ran on");
    options.add("--attempt", &attempt_, "with --environment: of this attempt (default: the newest)")
        .range = NumberRange{1, 1e6};
  }

  int run() override {
    if (attempt_ && !environment_) {
      throw UsageError("--attempt is for --environment; add that, or leave --attempt out");
    }
    if (environment_) return show_environment();
    const Json run = client().connect().get(path() + (secrets_ ? "?secrets=true" : ""));
    if (printed(run)) return 0;
    std::cout << text::run_details(run);
    const Json::json_pointer environment("/config/slurm/environment");
    if (secrets_ && run.contains(environment) && run.at(environment).is_object()) {
      std::vector<std::vector<std::string>> rows;
      for (const auto& [variable, value] : run.at(environment).items()) {
        rows.push_back({variable, value.is_string() ? value.get<std::string>() : ""});
      }
      std::cout << text::table(rows);
    }
    return 0;
  }

 private:
  int show_environment() {
    if (client().output.format() == Format::Name || secrets_) {
      throw UsageError(std::string(secrets_ ? "--secrets" : "-o name") +
                       " is for a run, not for --environment; leave one of them out");
    }
    const std::string query = attempt_ ? "?attempt=" + std::to_string(*attempt_) : "";
    const Json environment = client().connect().get(path() + "/environment" + query);
    if (!printed(environment)) std::cout << text::environment_text(environment);
    return 0;
  }

  bool secrets_ = false;
  bool environment_ = false;
  std::optional<std::uint64_t> attempt_;
};

class Explain : public RunCommand {
 public:
  explicit Explain(const Program& program)
      : RunCommand({"explain",
                    Group::Runs,
                    "say why a run waits, how its attempts ended, and what happens next",
                    {"explain demo"}},
                   program) {}

  int run() override {
    const Json explanation = client().connect().get(path() + "/explain");
    if (!printed(explanation)) std::cout << api::explain_text(explanation);
    return 0;
  }
};

class Cancel : public RunCommand {
 public:
  explicit Cancel(const Program& program)
      : RunCommand({"cancel",
                    Group::Runs,
                    "stop a run after it has written a checkpoint",
                    {"cancel demo"}},
                   program) {}

  int run() override {
    const Json run = client().connect().post(path() + "/cancel", "", {});
    if (printed(run)) return 0;
    const std::string state = text::is_over(run) ? run.value("state", "") : "stopping";
    std::cout << base::printable(run.value("id", "") + " " + state) << "\n";
    return 0;
  }
};

// {"slurm": {…}} of "slurm.KEY=VALUE"; empty without any.
std::string slurm_changes(const std::vector<std::string>& words) {
  constexpr std::string_view kSection = "slurm.";
  for (const std::string& word : words) {
    if (word.rfind(kSection, 0) == 0) continue;
    throw UsageError("--set '" + base::printable(word) +
                     "' is not slurm.KEY=VALUE, and nothing else of a run can change when it "
                     "is started again");
  }
  return words.empty() ? "" : body_of(changes_of(words));
}

// Starts a run again, which may ask Slurm for something else.
class StartAgain : public RunCommand {
 public:
  using RunCommand::RunCommand;

  void add_options(OptionList& options) override {
    RunCommand::add_options(options);
    options
        .add("--set", &changes_,
             "change what the run asks of Slurm from now on, such as "
             "slurm.memory_per_node=64G; repeatable")
        .type = "slurm.KEY=VALUE";
  }

 protected:
  // stops: what it does now ends first, of which the controller may not have taken note.
  int ask(const char* verb, bool stops) {
    const Json run = client().connect().post(path() + verb, slurm_changes(changes_), {});
    if (printed(run)) return 0;
    const std::string state = run.value("state", "");
    std::cout << base::printable(run.value("id", "") + " " +
                                 (stops && state != "queued" ? "stopping" : state))
              << "\n";
    return 0;
  }

 private:
  std::vector<std::string> changes_;
};

class Requeue : public StartAgain {
 public:
  explicit Requeue(const Program& program)
      : StartAgain({"requeue",
                    Group::Runs,
                    "end a run's attempt after a checkpoint, and start another in its turn",
                    {"requeue demo", "requeue demo --set slurm.partition=other"}},
                   program) {}
  int run() override { return ask("/requeue", true); }
};

class Resume : public StartAgain {
 public:
  explicit Resume(const Program& program)
      : StartAgain({"resume",
                    Group::Runs,
                    "continue a stopped, cancelled or failed run from its newest checkpoint",
                    {"resume demo", "resume demo --set slurm.memory_per_node=64G"}},
                   program) {}
  int run() override { return ask("/resume", false); }
};

}  // namespace

std::unique_ptr<Command> show_command(const Program& program) {
  return std::make_unique<Show>(program);
}
std::unique_ptr<Command> explain_command(const Program& program) {
  return std::make_unique<Explain>(program);
}
std::unique_ptr<Command> cancel_command(const Program& program) {
  return std::make_unique<Cancel>(program);
}
std::unique_ptr<Command> requeue_command(const Program& program) {
  return std::make_unique<Requeue>(program);
}
std::unique_ptr<Command> resume_command(const Program& program) {
  return std::make_unique<Resume>(program);
}

}  // namespace regatta::orchestrator::cli
