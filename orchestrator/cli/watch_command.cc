#include "orchestrator/cli/watch_command.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/interrupt.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kPollSeconds = 0.5;
constexpr double kQuietLineSeconds = 5;
constexpr double kPatienceSeconds = 30;  // a controller may restart meanwhile
constexpr int kFailedWithoutCode = 100;

int exit_code_of(const Json& run) {
  const std::string state = run.value("state", "");
  if (state == "succeeded") return 0;
  const Json attempt = run.value("attempt", Json(nullptr));
  if (attempt.is_object() && attempt["exit_code"].is_number_integer()) {
    const int code = attempt["exit_code"].get<int>();
    if (code != 0) return code;
  }
  return kFailedWithoutCode;
}

// The progress line: rewritten in place on a terminal, a line now and then elsewhere.
class Progress {
 public:
  Progress() : terminal_(::isatty(STDERR_FILENO) == 1) {}

  void show(const Json& run, double now) {
    if (terminal_) {
      std::cerr << "\r\x1b[K" << text::progress_line(run, text::terminal_width(STDERR_FILENO) - 1)
                << std::flush;
      dirty_ = true;
      return;
    }
    const std::string line = text::progress_line(run, 200);
    if (last_ && (now - *last_ < kQuietLineSeconds || line == text_)) return;
    std::cerr << line << "\n";
    last_ = now;
    text_ = line;
  }
  void clear() {
    if (dirty_) std::cerr << "\r\x1b[K" << std::flush;
    dirty_ = false;
  }

 private:
  bool terminal_;
  bool dirty_ = false;
  std::optional<double> last_;
  std::string text_;
};

class Watch : public Command {
 public:
  explicit Watch(const Program& program)
      : Command({"watch",
                 Group::Runs,
                 "show a run's progress until it ends; Ctrl-C detaches",
                 {"watch demo", "watch demo --exit-status"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    add_run(options, &run_);
    options.add("--exit-status", &exit_status_,
                "return the run's own exit code (100: it failed without one)");
    add_client_options(options, &client_, {nullptr, "id"});
  }

  int run() override {
    return watch_run(
        client_.connect(), client_.output, run_,
        {exit_status_ ? WatchResult::RunExitCode : WatchResult::Zero, WatchOutput::EveryChange});
  }

 private:
  ClientOptions client_;
  std::string run_;
  bool exit_status_ = false;
};

}  // namespace

int watch_run(const Client& client, Output output, const std::string& name,
              const WatchOptions& options) {
  const bool once = options.output == WatchOutput::Once;
  const std::string path = "/runs/" + path_part(name);
  const Interrupt interrupt;
  Progress progress;
  Json run = client.get(path);  // an unknown run, or no controller, ends it here
  double reached = base::system_clock().monotonic_seconds();
  Json printed;
  for (;;) {
    const double now = base::system_clock().monotonic_seconds();
    if (!output.is_text()) {
      if (!once && run != printed) (void)output.print_next(run);
      printed = run;
    } else if (!text::is_over(run)) {
      progress.show(run, now);
    }
    if (text::is_over(run)) break;
    if (interrupt.wait(kPollSeconds)) {
      progress.clear();
      if (once) (void)output.print(run);
      std::cerr << "detached; the run goes on (`"
                << base::shown_command("regatta cancel", run.value("id", "")) << "` stops it)\n";
      return kInterrupted;
    }
    try {
      run = client.get(path);
      reached = base::system_clock().monotonic_seconds();
    } catch (const base::Error& error) {
      if (error.code() == base::Code::Retry && now - reached <= kPatienceSeconds) continue;
      if (once) (void)output.print(run);  // whoever waits has its id nowhere else
      throw;
    }
  }
  progress.clear();
  if (output.is_text()) std::cout << text::run_summary(run) << std::flush;
  if (once) (void)output.print(run);
  return options.result == WatchResult::RunExitCode ? exit_code_of(run) : 0;
}

std::unique_ptr<Command> watch_command(const Program& program) {
  return std::make_unique<Watch>(program);
}

}  // namespace regatta::orchestrator::cli
