#include <chrono>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/input.h"
#include "orchestrator/cli/run_file_paths.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/cli/watch_command.h"
#include "orchestrator/plan/run_plan.h"
#include "orchestrator/text/preview_text.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;
using Timer = std::chrono::steady_clock;

constexpr auto kAnswerPause = std::chrono::milliseconds(200);
// Slurm refuses most of what it refuses at once.
constexpr double kAnswerSeconds = 5;

// Waits until Slurm has taken the run, or has said that it does not; says what came of it.
int report_answer(const Client& client, const std::string& id) {
  const auto deadline = Timer::now() + std::chrono::duration<double>(kAnswerSeconds);
  const std::string path = "/runs/" + path_part(id);
  for (;;) {
    const Json explanation = client.get(path + "/explain");
    const std::string state = explanation.value("state", "");
    const Json launches = explanation.value("launches", Json::array());
    const Json job = launches.empty() ? Json() : launches.back().value("job", Json());
    if (state == "failed") {
      const Json error = client.get(path).value("error", Json());
      std::cerr << "regatta: " << base::printable(id)
                << " failed: " << base::printable(error.is_string() ? error.get<std::string>() : "")
                << "\n";
      return base::meaning(base::Code::User).exit_code;
    }
    if (job.is_string()) {
      std::cerr << "submitted as job " << base::printable(job.get<std::string>());
    } else if (state == "queued" && explanation.value("waiting", Json()).is_object() &&
               !explanation["waiting"].value("sentence", "").empty()) {
      std::cerr << "queued: " << base::printable(explanation["waiting"].value("sentence", ""));
    } else if (state == "queued" || state == "starting") {
      if (Timer::now() < deadline) {
        std::this_thread::sleep_for(kAnswerPause);
        continue;
      }
      std::cerr << "submitted; Slurm has not answered yet";
    } else {
      std::cerr << "submitted";
    }
    std::cerr << "; `" << base::shown_command("regatta watch", id) << "` shows it\n";
    return 0;
  }
}

class Submit : public Command {
 public:
  explicit Submit(const Program& program)
      : Command({"submit",
                 Group::Runs,
                 "make a run from a run file",
                 {"submit run.yaml", "submit run.yaml --dry-run", "submit run.yaml --wait",
                  "submit fine.yaml --after base", "submit fine.yaml --from base@best"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options.add("file", ValueKind::RunFile, &file_, "the run file, YAML or JSON; - for stdin")
        .is_required = true;
    options.add("--plan", ValueKind::File, &plan_, "a plan.json of `regatta plan`");
    options.add("--dry-run", &dry_run_,
                "only show what would be submitted: checks, plan, command and script");
    options.add("--wait", &wait_,
                "watch the run and return its exit code (100: it failed without one)");
    options
        .add("--after", ValueKind::Run, &after_,
             "begin only when this run has succeeded; repeatable")
        .type = "RUN";
    options.add("--tag", &tags_, "a tag that it is to have; repeatable").type = "TAG";
    const auto set_from = [this](const std::string& model) {
      if (model.empty()) throw UsageError("--from is empty; name a model, or leave it out");
      from_ = model;
    };
    options
        .add("--from", std::function<void(const std::string&)>(set_from),
             "the model to begin with, instead of the run file's: a path, or RUN, RUN@STEP, "
             "RUN@best or RUN@newest")
        .type = "MODEL";
    const auto set_key = [this](const std::string& key) { idempotency_key_ = key; };
    options.add("--idempotency-key", std::function<void(const std::string&)>(set_key),
                "repeating a submission with the same key and file makes no second run");
    add_client_options(options, &client_, {nullptr, "id"});
  }

  int run() override {
    if (dry_run_ && wait_) {
      throw UsageError("--dry-run makes no run to wait for; leave out --wait");
    }
    const Json run = post();
    if (dry_run_) return show_preview(run);
    const std::string id = run.value("id", "");
    for (const Json& warning : run.value("warnings", Json::array())) {
      std::cerr << "regatta: warning: " << base::printable(warning.get<std::string>()) << "\n";
    }
    if (client_.output.is_text()) {
      std::cout << base::printable(id) << "\n" << std::flush;
    } else if (!wait_) {
      (void)client_.output.print(run);
    }
    if (wait_) {
      return watch_run(*controller_, client_.output, id,
                       {WatchResult::RunExitCode, WatchOutput::Once});
    }
    if (!client_.output.is_text()) return 0;
    if (run.value("scheduler", Json()) == "slurm") {
      try {
        return report_answer(*controller_, id);
      } catch (const base::Error&) {  // the controller went away: the run is submitted all the same
      }
    }
    std::cerr << "submitted; `" << base::shown_command("regatta watch", id) << "` shows it\n";
    return 0;
  }

 private:
  // 0 unless something is known that keeps the run from training.
  [[nodiscard]] int show_preview(const Json& preview) const {
    if (!client_.output.print(preview)) std::cout << text::preview_text(preview);
    return text::may_train(preview) ? 0 : base::meaning(base::Code::User).exit_code;
  }
  // What the controller answers.
  [[nodiscard]] Json post() {
    plan::SubmittedRun asked{config(), {}};
    std::map<std::string, std::string> headers;
    if (idempotency_key_) headers["Idempotency-Key"] = checked(*idempotency_key_);
    controller_.emplace(client_.connect());
    if (!plan_.empty()) {
      asked.plan = topology::plan::parse_plan(read_input(plan_, kMaxRunFile), plan_, std::nullopt);
    }
    std::vector<std::string> query;
    if (!after_.empty()) query.push_back("after=" + encoded(base::join(after_, ",")));
    if (!tags_.empty()) query.push_back("tags=" + encoded(base::join(tags_, ",")));
    if (dry_run_) query.emplace_back("dry_run=true");
    const std::string path = query.empty() ? "/runs" : "/runs?" + base::join(query, "&");
    return controller_->post(path, plan::submitted_body(asked), headers);
  }
  // A relative path is relative to the file; the controller is at no such place.
  [[nodiscard]] trainer::contract::RunConfig config() const {
    trainer::contract::RunConfig config =
        trainer::contract::parse_run_config(read_input(file_, kMaxRunFile), input_name(file_));
    const base::Path folder = file_ == "-" ? base::Path(".") : base::Path(file_).parent_path();
    make_data_absolute(folder, &config);
    base::Path beside = folder;
    if (!from_.empty()) {
      if (!config.from) config.from.emplace();
      config.from->path = from_;
      config.from->run.clear();
      config.from->is_short = true;
      beside = ".";  // as words of a command are
    }
    if (config.from) settle_start(beside, &*config.from);
    return config;
  }
  static std::string checked(const std::string& key) {
    if (!key.empty() && base::printable(key) == key) return key;
    throw UsageError("--idempotency-key is not usable; use 1 to 200 printable characters");
  }

  ClientOptions client_;
  std::optional<Client> controller_;  // one for all: it tells its troubles once
  std::string file_;                  // "-": stdin
  std::string plan_;                  // empty: none
  bool dry_run_ = false;
  bool wait_ = false;
  std::optional<std::string> idempotency_key_;
  std::vector<std::string> after_, tags_;
  std::string from_;  // empty: the run file's
};

}  // namespace

std::unique_ptr<Command> submit_command(const Program& program) {
  return std::make_unique<Submit>(program);
}

}  // namespace regatta::orchestrator::cli
