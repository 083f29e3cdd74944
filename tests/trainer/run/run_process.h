// The real regatta-train as a process, on a small dataset: what tests of it share.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/contract/exit_code.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_directory.h"

namespace regatta::tests {

constexpr double kDeadline = 300;  // seconds for anything here, on any machine

inline const std::string kTrainer = std::string(REGATTA_BINARY_DIR) + "/trainer/regatta-train";

// Full count at REGATTA_REPETITIONS=100; at least one.
inline int repetitions(int full) {
  const char* const percent = std::getenv("REGATTA_REPETITIONS");
  return std::max(1, full * (percent != nullptr ? std::atoi(percent) : 10) / 100);
}

inline std::string run_file(const base::Path& dataset, int steps, const std::string& more = "") {
  return "name: small\nmodel: {preset: tiny, layers: 2, hidden: 32, heads: 2, feed_forward: 64, "
         "max_positions: 64}\ndata: {path: " +
         dataset.string() +
         ", max_length: 48}\nbatch: {size: 8}\noptimizer: {learning_rate: 0.003}\n"
         "evaluate: {every: 20, samples: 16}\ncheckpoint: {every: 7, keep_last: 3}\nthreads: 1\n"
         "steps: " +
         std::to_string(steps) + "\n" + more;
}

// `text` with other words in place of `from`, which it holds.
inline std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

class RunProcess : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    suite_directory_ = new TemporaryDirectory;
    dataset_ = new base::Path(make_small_dataset(suite_directory_->path(), 60));
  }
  static void TearDownTestSuite() {
    delete dataset_;
    delete suite_directory_;
  }

  base::Path make_run(const std::string& name, const std::string& text) {
    const base::Path path = directory_.path() / name;
    std::ofstream(directory_.path() / (name + ".yaml")) << text;
    return path;
  }
  pid_t start(const base::Path& run, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{run.string() + ".yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return start_with(run, arguments);
  }
  static pid_t start_with(const base::Path& run, const std::vector<std::string>& more) {
    base::Command command;
    command.arguments = {kTrainer, "run", "--directory", run.string()};
    command.arguments.insert(command.arguments.end(), more.begin(), more.end());
    command.output_path = run.string() + ".log";
    return base::spawn(command);
  }
  int finish(pid_t process) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(kDeadline);
    while (std::chrono::steady_clock::now() < deadline) {
      if (const auto exit = base::poll_exit(process)) return exit->code.value_or(-*exit->signal);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ::kill(process, SIGKILL);
    (void)base::wait_exit(process);
    return -1000;
  }
  int run_to_end(const base::Path& run, const std::vector<std::string>& more = {}) {
    return finish(start(run, more));
  }
  // A run whose run.json is no longer what it was made from.
  int resume_to_end(const base::Path& run) { return finish(start_with(run, {})); }
  static std::vector<trainer::contract::JournalRecord> journal(const base::Path& run) {
    std::vector<trainer::contract::JournalRecord> records;
    try {
      const trainer::contract::RunDirectory directory =
          trainer::contract::RunDirectory::open(base::posix_file_system(), run);
      for (const trainer::contract::AttemptName& attempt : directory.attempts()) {
        // One that was killed as it began has a directory only.
        if (!base::posix_file_system().exists(directory.journal_path(attempt))) continue;
        const trainer::contract::JournalChunk chunk = trainer::contract::parse_journal(
            base::posix_file_system().read(directory.journal_path(attempt), 1U << 30U));
        records.insert(records.end(), chunk.records.begin(), chunk.records.end());
      }
    } catch (const base::Error&) {  // not there yet
    }
    return records;
  }
  template <typename Record>
  static std::vector<Record> records_of(const base::Path& run) {
    std::vector<Record> found;
    for (const trainer::contract::JournalRecord& record : journal(run)) {
      if (const auto* body = std::get_if<Record>(&record.body)) found.push_back(*body);
    }
    return found;
  }
  // Waits until some attempt has journaled this step; false when the process ended before.
  bool wait_for_step(const base::Path& run, pid_t process, std::int64_t step) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(kDeadline);
    while (std::chrono::steady_clock::now() < deadline) {
      for (const trainer::contract::StepRecord& record :
           records_of<trainer::contract::StepRecord>(run)) {
        if (record.step >= step) return true;
      }
      if (!base::process_start_ticks(process)) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    return false;
  }
  // Of a run that was asked for a checkpoint: it is written, training goes on, and TERM ends it.
  void expect_one_checkpoint_then_stop(const base::Path& run, pid_t process) {
    const auto written = [&] {
      std::vector<std::int64_t> steps;
      for (const auto& record : records_of<trainer::contract::CheckpointRecord>(run)) {
        if (record.status == "written") steps.push_back(record.step);
      }
      return steps;
    };
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(kDeadline);
    while (written().empty()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << log_of(run);
      ASSERT_TRUE(base::process_start_ticks(process)) << log_of(run);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    ASSERT_TRUE(wait_for_step(run, process, written()[0] + 5)) << log_of(run);
    ::kill(process, SIGTERM);
    EXPECT_EQ(finish(process), static_cast<int>(trainer::contract::ExitCode::Stopped))
        << log_of(run);
    const std::vector<std::int64_t> steps = written();
    ASSERT_EQ(steps.size(), 2U) << "that one, and the last";
    EXPECT_EQ(steps[1], records_of<trainer::contract::EndRecord>(run).back().step);
  }
  // The bytes of the last checkpoint's tensors.
  static std::string final_weights(const base::Path& run) {
    base::FileSystem& files = base::posix_file_system();
    const auto names = files.list(run / "checkpoints");
    if (names.empty()) return "none";
    const base::Path last = run / "checkpoints" / names.back();
    std::string bytes;
    for (const std::string& file : files.list(last)) {
      if (base::Path(file).extension() == ".safetensors") {
        bytes += files.read(last / file, 1U << 30U);
      }
    }
    return bytes;
  }
  static std::string on_ranks(int ranks, int steps, const std::string& more = "") {
    return run_file(*dataset_, steps, "ranks: " + std::to_string(ranks) + "\n" + more);
  }
  // The processes of a run's ranks, by rank; 0 for one that is not there.
  static std::vector<pid_t> processes_of(const base::Path& run, int ranks) {
    std::vector<pid_t> found(static_cast<std::size_t>(ranks), 0);
    base::FileSystem& files = base::posix_file_system();
    for (const std::string& name : files.list("/proc")) {
      const auto process = base::parse_integer(name);
      if (!process) continue;
      try {
        const base::Path place = base::Path("/proc") / name;
        const auto arguments = base::split(files.read_at(place / "cmdline", 0, 65536), '\0');
        if (arguments.size() < 4 || arguments[0] != kTrainer || arguments[3] != run.string()) {
          continue;
        }
        for (const std::string& entry :
             base::split(files.read_at(place / "environ", 0, 1U << 20U), '\0')) {
          if (entry.rfind("OMPI_COMM_WORLD_RANK=", 0) != 0) continue;
          const auto rank = base::parse_integer(entry.substr(entry.find('=') + 1));
          if (rank && *rank < ranks) {
            found[static_cast<std::size_t>(*rank)] = static_cast<pid_t>(*process);
          }
        }
      } catch (const base::Error&) {  // gone, or another user's
      }
    }
    return found;
  }
  // Begins the run, and kills one of its ranks within some milliseconds after a step.
  struct KilledRank {
    bool while_training = false;  // the step was reached, and the run did not end by itself
    int code = 0;                 // of the command
    double seconds = 0;           // until it ended
  };
  KilledRank kill_a_rank(const base::Path& run, int ranks, int step, std::mt19937* random) {
    const pid_t process = start(run);
    const bool reached = wait_for_step(run, process, step);
    const std::vector<pid_t> processes = processes_of(run, ranks);
    std::this_thread::sleep_for(std::chrono::microseconds((*random)() % 4000U));
    const pid_t victim = processes[(*random)() % processes.size()];
    if (victim > 0) ::kill(victim, SIGKILL);
    const auto mark = std::chrono::steady_clock::now();
    const int code = finish(process);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - mark;
    return {victim > 0 && reached && code != 0, code, took.count()};
  }
  // mpirun is given a moment to reap those it has killed.
  static bool all_gone(const base::Path& run, int ranks) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(kDeadline);
    while (std::chrono::steady_clock::now() < deadline) {
      if (processes_of(run, ranks) == std::vector<pid_t>(static_cast<std::size_t>(ranks), 0)) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
  std::string log_of(const base::Path& run) {
    return base::posix_file_system().read(run.string() + ".log", 1U << 24U);
  }

  TemporaryDirectory directory_;
  static inline TemporaryDirectory* suite_directory_ = nullptr;
  static inline base::Path* dataset_ = nullptr;
};

}  // namespace regatta::tests
