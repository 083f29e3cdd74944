// `regatta serve` with a fake trainer, as a process, and its commands.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "tests/orchestrator/support.h"

namespace regatta::tests {

inline const std::string kRegatta = REGATTA_BINARY_DIR "/orchestrator/regatta";
inline const std::string kTrainer = REGATTA_BINARY_DIR "/tests/orchestrator/fake_trainer";
inline constexpr double kDeadline = 120;

// A controller of its own, whose attempts do what a script says; commands ask it.
class RegattaProcess : public testing::Test {
 protected:
  RegattaProcess() { std::filesystem::create_directories(data()); }
  ~RegattaProcess() override {
    // Attempts outlive the controller on purpose, so a test ends them itself.
    script("exit 0 end");
    write_file(data() / "go", "");
    for (const pid_t process : attempts_) ::kill(process, SIGKILL);
    stop_serving(SIGKILL);
  }

  base::Path data() const { return folder_.path() / "data"; }
  void script(const std::string& text) { write_file(data() / "script", text); }

  // Starts `regatta serve` on a free port and waits until it listens.
  void serve(const std::vector<std::string>& more = {}) {
    base::Command command;
    command.arguments = {kRegatta,    "serve",  "--port",
                         "0",         "--data", state(),
                         "--trainer", kTrainer, "--allow-privileged"};
    command.arguments.insert(command.arguments.end(), more.begin(), more.end());
    command.output_path = folder_.path() / ("serve-" + std::to_string(++served_) + ".log");
    server_ = base::spawn(command);
    ASSERT_TRUE(eventually([&] {
      for (const std::string& line : base::split(read(command.output_path), '\n')) {
        if (line.rfind("http://", 0) == 0) url_ = line;
      }
      return !url_.empty();
    })) << read(command.output_path);
  }
  void stop_serving(int signal) {
    if (server_ == 0) return;
    ::kill(server_, signal);
    server_exit_ = base::wait_exit(server_);
    server_ = 0;
    url_.clear();
  }
  static std::string read(const base::Path& path) {
    try {
      return base::posix_file_system().read(path, 1 << 24);
    } catch (const base::Error&) {
      return "";
    }
  }
  std::string state() const { return (folder_.path() / "state").string(); }
  std::string socket() const { return "unix:" + state() + "/controller.sock"; }

  base::Output regatta(const std::vector<std::string>& arguments) {
    base::Command command;
    command.arguments = {kRegatta};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.environment["REGATTA_SERVER"] = socket();
    command.directory = folder_.path();
    return base::run(command, kDeadline);
  }
  base::Path run_yaml(const std::string& more = "") {
    const base::Path path = folder_.path() / "run.yaml";
    write_file(path,
               "name: demo\nsteps: 60\ndata: {path: data}\nbatch: {size: 8}\n"
               "evaluate: {every: 5}\ncheckpoint: {every: 10}\ntarget: {value: 0.5}\n" +
                   more);
    return path;
  }
  std::string submit(const std::string& more = "") {
    const base::Output output = regatta({"submit", run_yaml(more).string()});
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    return output.text.substr(0, output.text.find('\n'));
  }
  nlohmann::ordered_json show(const std::string& id);
  bool reaches(const std::string& id, const std::string& state);
  bool reaches_step(const std::string& id, std::int64_t step);
  std::vector<std::int64_t> steps(const std::string& id);

  TemporaryDirectory folder_;
  std::string url_;
  pid_t server_ = 0;
  base::Exit server_exit_;
  int served_ = 0;
  std::vector<pid_t> attempts_;
};

}  // namespace regatta::tests
