// `regatta sweep …`: many runs of one file, and which of them is best.
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/following.h"
#include "orchestrator/cli/input.h"
#include "orchestrator/cli/interrupt.h"
#include "orchestrator/cli/run_file_paths.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/sweeps/sweep_file.h"
#include "orchestrator/text/preview_text.h"
#include "orchestrator/text/run_csv.h"
#include "orchestrator/text/sweep_text.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLookSeconds = 1;  // between two looks at a sweep that is waited for

std::string address_of(const std::string& sweep) { return "/sweeps/" + path_part(sweep); }

// Of a sweep that is named on the command line.
class SweepCommand : public Command {
 public:
  SweepCommand(CommandText text, const Shape& answer, const Program& program)
      : Command(std::move(text)), client_(ClientOptions::of(program)), answer_(answer) {}

  void add_options(OptionList& options) override {
    options.add("sweep", ValueKind::Sweep, &sweep_, "its id or name").is_required = true;
    add_client_options(options, &client_, answer_);
  }

 protected:
  [[nodiscard]] const ClientOptions& client() const { return client_; }
  [[nodiscard]] std::string address() const { return address_of(sweep_); }

 private:
  ClientOptions client_;
  Shape answer_;
  std::string sweep_;
};

class SweepSubmit : public Command {
 public:
  explicit SweepSubmit(const Program& program)
      : Command({"submit",
                 Group::Runs,
                 "try many values of a run file's keys",
                 {"sweep submit sweep.yaml", "sweep submit sweep.yaml --dry-run",
                  "sweep submit sweep.yaml --wait"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options.add("file", ValueKind::RunFile, &file_, "a run file with `sweep:`; - for stdin")
        .is_required = true;
    options.add("--dry-run", &dry_run_, "only check it, and show the trials that would begin");
    options.add("--wait", &wait_, "wait until it is over; Ctrl-C ends only the waiting");
    const auto set_key = [this](const std::string& key) { idempotency_key_ = key; };
    options.add("--idempotency-key", std::function<void(const std::string&)>(set_key),
                "repeating a submission with the same key and file makes no second sweep");
    add_client_options(options, &client_, {nullptr, "id"});
  }

  int run() override {
    if (dry_run_ && wait_) {
      throw UsageError("--dry-run makes no sweep to wait for; leave out --wait");
    }
    sweeps::SweepFile file =
        sweeps::parse_sweep_file(read_input(file_, kMaxRunFile), input_name(file_));
    const base::Path folder = file_ == "-" ? base::Path(".") : base::Path(file_).parent_path();
    make_data_absolute(folder, &file.run);
    if (file.run.from) settle_start(folder, &*file.run.from);
    make_paths_absolute(folder, &file.sweep);
    std::map<std::string, std::string> headers;
    if (idempotency_key_) headers["Idempotency-Key"] = *idempotency_key_;
    const Client client = client_.connect();
    const Json sweep =
        client.post(dry_run_ ? "/sweeps?dry_run=true" : "/sweeps", sweeps::to_json(file), headers);
    if (dry_run_) {
      if (!client_.output.print(sweep)) std::cout << text::sweep_details(sweep);
      return text::may_train(sweep) ? 0 : base::meaning(base::Code::User).exit_code;
    }
    for (const Json& warning : sweep.value("warnings", Json::array())) {
      std::cerr << "regatta: warning: " << base::printable(warning.get<std::string>()) << "\n";
    }
    const std::string id = sweep.value("id", "");
    if (client_.output.is_text()) {
      std::cout << base::printable(id) << "\n" << std::flush;
      std::cerr << "submitted; `" << base::shown_command("regatta sweep show", id)
                << "` shows it\n";
    } else if (!wait_) {
      (void)client_.output.print(sweep);
    }
    return wait_ ? wait_for(client, id) : 0;
  }

 private:
  // 0 where all was tried and something was reached.
  [[nodiscard]] int wait_for(const Client& client, const std::string& id) const {
    const Interrupt interrupt;
    PatientClient patient(client, true);
    for (;;) {
      const Json sweep = patient.get(address_of(id));
      if (sweep.value("state", "") != "running") {
        if (!client_.output.print(sweep)) std::cout << text::sweep_details(sweep);
        const bool good =
            sweep.value("state", "") == "done" && sweep.value("best", Json()) != Json();
        return good ? 0 : 1;
      }
      if (interrupt.wait(kLookSeconds)) return kInterrupted;
    }
  }

  ClientOptions client_;
  std::string file_;
  bool dry_run_ = false, wait_ = false;
  std::optional<std::string> idempotency_key_;
};

class SweepList : public Command {
 public:
  explicit SweepList(const Program& program)
      : Command({"ls",
                 Group::Runs,
                 "list the sweeps, newest first",
                 {"sweep ls", "sweep ls --state running", "sweep ls -o name"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options.add("--limit", &limit_, "show at most this many").range = {1, 1000};
    options.choose("--state", &state_,
                   {{"running", std::string("running")},
                    {"done", std::string("done")},
                    {"stopped", std::string("stopped")}},
                   "only sweeps in this state");
    add_client_options(options, &client_, {"sweeps", "id", "SweepList"});
  }

  int run() override {
    const Json answer = client_.connect().get("/sweeps?limit=" + std::to_string(limit_) +
                                              (state_.empty() ? "" : "&state=" + encoded(state_)));
    if (client_.output.format() == Format::Csv) {
      print(text::csv_of(text::sweep_rows(answer.at("sweeps")), text::reader_of_stdout(),
                         text::sweep_columns()));
      return 0;
    }
    if (client_.output.print(answer)) return 0;
    for (const Json& fault : answer.value("left_out", Json::array())) {
      std::cerr << "regatta: " << base::printable(fault.get<std::string>()) << "\n";
    }
    if (answer.at("sweeps").empty()) {
      std::cerr << "no sweeps; 'regatta sweep submit FILE' makes one\n";
    } else {
      std::cout << text::sweep_table(answer.at("sweeps"));
    }
    return 0;
  }

 private:
  ClientOptions client_;
  int limit_ = 100;
  std::string state_;
};

class SweepShow : public SweepCommand {
 public:
  explicit SweepShow(const Program& program)
      : SweepCommand({"show",
                      Group::Runs,
                      "what a sweep has tried, best first",
                      {"sweep show rates", "sweep show rates -o csv"}},
                     {"trials", "run", "SweepTrial"}, program) {}

  int run() override {
    Json sweep = client().connect().get(address());
    const Format format = client().output.format();
    if (format == Format::Csv || format == Format::Name) {
      sweep["trials"] = text::best_first(sweep.at("trials"));
    }
    if (format == Format::Csv) {
      print(text::csv_of(text::trial_rows(sweep), text::reader_of_stdout(),
                         text::trial_columns(sweep)));
    } else if (!client().output.print(sweep)) {
      std::cout << text::sweep_details(sweep);
    }
    return 0;
  }
};

class SweepBest : public SweepCommand {
 public:
  explicit SweepBest(const Program& program)
      : SweepCommand({"best",
                      Group::Runs,
                      "the best trial of a sweep",
                      {"sweep best rates", "sweep best rates -o name"}},
                     {nullptr, "run"}, program) {}

  int run() override {
    const Json sweep = client().connect().get(address());
    const Json best = sweep.value("best", Json());
    if (!best.is_object()) {
      throw base::Error(base::Code::NotFound,
                        "no trial of " + base::printable(sweep.value("id", "")) +
                            " has an objective so far; `regatta sweep show` tells of each");
    }
    if (client().output.print(best)) {
      if (best.value("run_state", Json()) == "removed") {
        std::cerr << "regatta: warning: run " << base::printable(best.value("run", ""))
                  << " was removed\n";
      }
    } else {
      std::cout << text::best_text(sweep);
    }
    return 0;
  }
};

class SweepStop : public SweepCommand {
 public:
  explicit SweepStop(const Program& program)
      : SweepCommand({"stop",
                      Group::Runs,
                      "begin no more trials of a sweep, and cancel those that train",
                      {"sweep stop rates"}},
                     {nullptr, "id"}, program) {}

  int run() override {
    const Json sweep = client().connect().post(address() + "/stop", "", {});
    if (client().output.print(sweep)) return 0;
    const bool over = sweep.value("state", "") != "running";
    std::cout << base::printable(sweep.value("id", ""))
              << (over ? " is over" : " stops; its runs write a checkpoint and end") << "\n";
    return 0;
  }
};

class SweepRemove : public SweepCommand {
 public:
  explicit SweepRemove(const Program& program)
      : SweepCommand(
            {"rm", Group::Runs, "forget a sweep that is over; its runs stay", {"sweep rm rates"}},
            {nullptr, "id"}, program) {}

  int run() override {
    const Json removed = client().connect().remove(address());
    if (client().output.print(removed)) return 0;
    std::cout << base::printable(removed.value("id", "")) << " is forgotten; its runs stay\n";
    return 0;
  }
};

}  // namespace

std::unique_ptr<Command> sweep_command(const Program& program) {
  Commands parts;
  parts.push_back(std::make_unique<SweepBest>(program));
  parts.push_back(std::make_unique<SweepList>(program));
  parts.push_back(std::make_unique<SweepRemove>(program));
  parts.push_back(std::make_unique<SweepShow>(program));
  parts.push_back(std::make_unique<SweepStop>(program));
  parts.push_back(std::make_unique<SweepSubmit>(program));
  return std::make_unique<CommandFamily>(
      CommandText{"sweep", Group::Runs, "many runs of one file, and which of them is best", {}},
      std::move(parts));
}

}  // namespace regatta::orchestrator::cli
