// A place where the batch script runs under a real bash, with srun, squeue, scontrol and sbatch
// that write down what they were given and do as the test says.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/batch/batch_script.h"

namespace regatta::tests {

using orchestrator::batch::SlurmJob;

constexpr double kTimeoutSeconds = 120;

inline std::string read_file(const base::Path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

inline void write_file(const base::Path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

inline std::vector<std::string> items_of(const std::string& text) {
  std::vector<std::string> items = base::split(text, '\0');
  if (!items.empty() && items.back().empty()) items.pop_back();
  return items;
}

// Every command writes its arguments to <name>.<n>, NUL-separated, and its environment beside them.
constexpr const char* kRecorder = R"bash(
n=0
while ! mkdir "$dir/$me.$n" 2> /dev/null; do n=$((n + 1)); done
for word in "$@"; do printf '%s\0' "$word"; done > "$dir/$me.$n/arguments"
env -0 > "$dir/$me.$n/environment"
)bash";

// Proofs run once per node of SLURM_JOB_NUM_NODES, as node1, node2, …; `other` names one that sees
// another trainer, `blind` one that does not see the run directory. Anything else is the trainer.
constexpr const char* kSrun = R"bash(
case " $* " in
  *" --mpi=list "*) cat "$dir/mpi" >&2; exit 0 ;;
  *" regatta-proof "*)
    while [[ $1 == --* ]]; do shift; done
    for ((i = 1; i <= SLURM_JOB_NUM_NODES; ++i)); do
      [[ $(cat "$dir/silent" 2> /dev/null) != "node$i" ]] || continue
      words=("$@")
      [[ $(cat "$dir/other" 2> /dev/null) != "node$i" ]] || words[${#words[@]}-1]=$dir/other-trainer
      [[ $(cat "$dir/blind" 2> /dev/null) != "node$i" ]] || words[${#words[@]}-2]=$dir/mpi
      [[ $(cat "$dir/without" 2> /dev/null) != "node$i" ]] || words[${#words[@]}-1]=/nowhere/trainer
      SLURMD_NODENAME=node$i "${words[@]}"
    done
    exit 0
    ;;
  *" true ") exit 0 ;;
  *" stacks "*)
    echo "stacks of all ranks"
    exit "$(cat "$dir/stacks_code" 2> /dev/null || echo 0)"
    ;;
esac
[[ ! -e $dir/hangs ]] || {
  : > "$REGATTA_DUMP_REQUEST"
  while [[ -e $REGATTA_DUMP_REQUEST ]]; do /bin/sleep 0.05; done
}
[[ ! -e $dir/wait ]] || {
  trap 'echo USR1 >> "$dir/signals"; echo 24 > "$REGATTA_EXIT_FILE"; exit 0' USR1
  trap 'exit 137' TERM
  trap 'echo USR2 >> "$dir/signals"' USR2
  : > "$dir/running"
  for ((i = 0; i < 2000; ++i)); do /bin/sleep 0.05; done
}
echo "output of the ranks"
code=$(cat "$dir/code")
[[ ! -e $dir/deaf ]] || trap '' TERM
[[ ! -e $dir/lingers ]] || { echo "$code" > "$REGATTA_EXIT_FILE"; exec /bin/sleep 100; }
[[ ! -e $dir/last_word ]] || cat "$dir/last_word" > "$REGATTA_EXIT_FILE"
case $code in 0 | 24 | 25)
  # An orderly end, as the trainer's ranks agree on it.
  [[ -e $dir/last_word || -e $dir/mute ]] || echo "$code" > "$REGATTA_EXIT_FILE"
  exit 0 ;;
esac
exit "$code"
)bash";

constexpr const char* kTrainer = "cat \"$dir/code\" > /dev/null; exit \"$(cat \"$dir/code\")\"\n";
constexpr const char* kAnswer =
    "cat \"$dir/$me.answer\" 2> /dev/null; exit \"$(cat \"$dir/$me.code\" 2> /dev/null || echo "
    "0)\"\n";

struct Call {
  std::vector<std::string> arguments, environment;
};

class Bench {
 public:
  explicit Bench(const std::string& run_name = "run") {
    std::string pattern = testing::TempDir() + "regatta-batch-XXXXXX";
    root_ = mkdtemp(pattern.data());
    tools_ = root_ / "tools";
    std::filesystem::create_directories(tools_);
    for (const char* name : {"squeue", "scontrol", "sbatch"}) add_tool(name, kAnswer);
    add_tool("srun", kSrun);
    write_file(tools_ / "code", "0");
    write_file(tools_ / "mpi", "MPI plugin types are...\n\tnone\n\tpmix\n");
    write_file(tools_ / "squeue.answer", "1:30:00\n");
    write_file(tools_ / "other-trainer", "#!/bin/sh\n");
    std::filesystem::permissions(tools_ / "other-trainer", std::filesystem::perms::owner_all);
    job.token = "0123456789abcdef";
    job.run_name = "demo";
    set_run(run_name);
    job.pause_seconds = 0;
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  void set_run(const std::string& name) {
    job.run_directory = root_ / name;
    std::filesystem::create_directories(job.run_directory / "submit");
    job.trainer = root_ / ("bin " + name) / "regatta-train";
    std::filesystem::create_directories(job.trainer.parent_path());
    write_tool(job.trainer, "trainer", kTrainer);
  }
  void add_tool(const std::string& name, const std::string& text) {
    write_tool(tools_ / name, name, text);
  }
  void set(const std::string& name, const std::string& value) { variables[name] = value; }

  [[nodiscard]] base::Command command() {
    const base::Path script = orchestrator::batch::script_path(job);
    write_file(script, orchestrator::batch::batch_script(job));
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    base::Command command;
    command.arguments = {script.string()};
    command.output_path = root_ / "job.out";
    command.environment = variables;
    command.environment["PATH"] = tools_.string() + ":/usr/local/bin:/usr/bin:/bin";
    return command;
  }
  // The script's exit code.
  int run() {
    base::Command start = command();
    start.output_path.clear();
    const base::Output output = base::run(start, kTimeoutSeconds);
    said = output.text + output.errors;
    EXPECT_FALSE(output.timed_out) << said;
    return output.exit.code.value_or(-1);
  }
  [[nodiscard]] std::vector<Call> calls(const std::string& name) const {
    std::vector<Call> found;
    for (int n = 0;; ++n) {
      const base::Path place = tools_ / (name + "." + std::to_string(n));
      if (!std::filesystem::exists(place)) return found;
      found.push_back(
          {items_of(read_file(place / "arguments")), items_of(read_file(place / "environment"))});
    }
  }
  // The srun that started the ranks.
  [[nodiscard]] std::optional<Call> trainer_step() const {
    for (Call& call : calls("srun")) {
      if (testing::Value(call.arguments, testing::Contains("--kill-on-bad-exit=1")))
        return std::move(call);
    }
    return std::nullopt;
  }
  [[nodiscard]] base::Path tool(const std::string& name) const { return tools_ / name; }
  [[nodiscard]] base::Path log(const std::string& restart = "0") const {
    return job.run_directory / "submit" / ("0123456789abcdef-77-" + restart + ".log");
  }

  SlurmJob job;
  std::map<std::string, std::string> variables = {{"SLURM_JOB_ID", "77"},
                                                  {"SLURM_JOB_NUM_NODES", "1"}};
  std::string said;

 private:
  void write_tool(const base::Path& path, const std::string& name, const std::string& text) {
    write_file(path, "#!/bin/bash\ndir=" + base::shell_word(tools_.string()) + "\nme=" + name +
                         kRecorder + text);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  base::Path root_, tools_;
};

inline std::string value_of(const Call& call, const std::string& name) {
  for (const std::string& item : call.environment) {
    if (item.substr(0, name.size() + 1) == name + "=") return item.substr(name.size() + 1);
  }
  return "(absent)";
}

}  // namespace regatta::tests
