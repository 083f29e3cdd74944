// Behaves like `regatta-train run --directory DIR` as seen from outside, without training: journal,
// checkpoints, exit codes and signals. The folder that the run file's data.path names holds a file
// `script` with lines "key value", so that tests decide what happens and when:
//   pause_ms N      per step (1)
//   hold_at N       wait after step N until the file `go` is there
//   die_at N        kill -9 itself after step N; once per run, if the folder has no file `died`
//   exit CODE TEXT  end at once with this code and message
//   silent CODE     return CODE without any attempt directory, after one line of log
//   ignore_term 1   do not stop when asked
//   ranks N         journal what N ranks would, with two buckets
//   tree N          start N processes, each with one of its own, all in process groups of their
//   own;
//                   a line of the file `tree` for each process; they ignore TERM
//   leave 1         with tree: end by KILL after the first step and leave them behind
// Accuracy after step s is s / steps.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "base/text.h"
#include "trainer/contract/exit_code.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // NOLINT: a test program about nothing else

volatile sig_atomic_t stop_requested = 0;
void on_stop(int) { stop_requested = 1; }

class FakeTrainer {
 public:
  explicit FakeTrainer(const base::Path& path)
      : directory_(contract::RunDirectory::open(base::posix_file_system(), path)),
        config_(contract::parse_run_config(directory_.run_json(), "run.json")) {
    std::istringstream lines(files_.read(base::Path(config_.data.path) / "script", 65536));
    for (std::string line; std::getline(lines, line);) {
      const std::size_t space = line.find(' ');
      script_[line.substr(0, space)] = space == std::string::npos ? "" : line.substr(space + 1);
    }
  }

  int run() {
    std::fprintf(stderr, "fake trainer starts\n");
    if (script_.count("silent") > 0) {
      std::fprintf(stderr, "the last words of the log\n\n");
      return static_cast<int>(number("silent", 1));
    }
    if (script_.count("ignore_term") > 0) ::signal(SIGTERM, SIG_IGN);
    for (std::int64_t i = number("tree", 0); i > 0; --i) grow(2);
    const contract::AttemptName name = directory_.create_attempt();
    const contract::Fence fence(directory_, directory_.take_epoch());
    journal_ = files_.open(directory_.journal_path(name), base::FileSystem::Open::CreateNew);
    write(contract::PhaseRecord{"loading"});
    if (script_.count("exit") > 0) {
      const std::string& text = script_["exit"];
      const auto code = static_cast<int>(*base::parse_integer(text.substr(0, text.find(' '))));
      return end("failed", 0, code, text.substr(text.find(' ') + 1));
    }
    const std::int64_t first = resume();
    announce(name, fence, first);
    return train(first, fence);
  }

 private:
  std::int64_t number(const std::string& key, std::int64_t absent) {
    const auto it = script_.find(key);
    return it == script_.end() ? absent : base::parse_integer(it->second).value_or(absent);
  }
  bool is_there(const char* name) { return files_.exists(base::Path(config_.data.path) / name); }

  template <typename Body>
  void write(const Body& body) {
    contract::JournalRecord record;
    record.sequence = sequence_++;
    record.utc_seconds = clock_.utc_seconds();
    record.seconds = clock_.monotonic_seconds() - start_;
    record.body = body;
    journal_->append(contract::to_line(record));
  }

  int end(const std::string& reason, std::int64_t step, int code, const std::string& message) {
    contract::EndRecord record;
    record.reason = reason;
    record.step = step;
    record.exit_code = code;
    record.message = message;
    write(record);
    return code;
  }

  // A process that waits for ever, with `depth` - 1 below it.
  void grow(int depth) {
    const pid_t child = ::fork();
    if (child < 0) std::abort();
    if (child > 0) return;
    ::signal(SIGTERM, SIG_IGN);
    ::setpgid(0, 0);
    if (depth > 1) grow(depth - 1);
    const std::string path = config_.data.path + "/tree";
    std::FILE* const file = std::fopen(path.c_str(), "a");
    std::fprintf(file, "%d\n", static_cast<int>(::getpid()));
    std::fclose(file);
    for (;;) ::pause();
  }

  std::int64_t resume() {
    std::int64_t newest = 0;
    for (const std::string& name : files_.list(directory_.checkpoints_path())) {
      newest = std::max(newest, base::parse_integer(name.substr(5)).value_or(0));
    }
    return newest;
  }

  void announce(const contract::AttemptName& name, const contract::Fence& fence,
                std::int64_t first) {
    contract::StartRecord record;
    record.attempt = name.number;
    record.execution = name.execution;
    record.epoch = fence.epoch();
    record.process = ::getpid();
    record.host = base::host_name();
    record.steps = config_.steps;
    record.batch_size = config_.batch_size;
    record.first_step = first;
    if (number("ranks", 1) > 1) {
      record.ranks = static_cast<int>(number("ranks", 1));
      record.ranks_per_node = record.ranks;
      record.device = "fake";
      record.peak_flops = 1e12;
      record.bucket_bytes = {4096, 8192};
    }
    record.metric = "mlm_accuracy";
    if (config_.target) record.target = config_.target->value;
    record.baseline = 0.01;
    write(record);
    write(contract::PhaseRecord{"training"});
  }

  void checkpoint(std::int64_t step) {
    const std::string name = "step-" + std::to_string(step);
    if (!files_.create_directory(directory_.checkpoints_path() / name)) return;
    contract::CheckpointRecord record;
    record.step = step;
    record.name = name;
    record.status = "written";
    record.bytes = 1000;
    write(record);
  }

  void several_ranks(contract::StepRecord* record) {
    record->forward_seconds = 0.003;
    record->backward_seconds = 0.005;
    record->bucket_launched = {0.005, 0.008};
    record->bucket_finished = {0.007, 0.009};
    record->exposed_seconds = 0.001;
    record->imbalance = 1.05;
    record->noise_scale = 640;
    record->noise_scale_low = 520;
    record->noise_scale_high = 810;
    record->efficiency = 0.8;
    record->goodput = 0.8 * static_cast<double>(record->samples) / record->seconds;
    record->mfu = 0.4;
    record->utilisation = 0.9;
    write(contract::HeartbeatRecord{record->step, 1, "backward", 0.004});
  }

  int train(std::int64_t step, const contract::Fence& fence) {
    while (step < config_.steps) {
      if (!fence.holds()) return static_cast<int>(contract::ExitCode::Fenced);
      ++step;
      contract::StepRecord record;
      record.step = step;
      record.loss = 10.0 / static_cast<double>(step);
      record.mlm_loss = record.loss;
      record.samples = config_.batch_size;
      record.tokens = 100L * config_.batch_size;
      record.seconds = 0.01;
      if (number("ranks", 1) > 1) several_ranks(&record);
      write(record);
      if (step % config_.evaluate_every == 0 || step == config_.steps) {
        contract::EvalRecord evaluation;
        evaluation.step = step;
        evaluation.mlm_accuracy = static_cast<double>(step) / static_cast<double>(config_.steps);
        evaluation.mlm_loss = record.loss;
        evaluation.target_met =
            config_.target && evaluation.mlm_accuracy >= config_.target->value.value_or(2);
        write(evaluation);
        if (evaluation.target_met) {
          checkpoint(step);
          return end("target", step, 0, "");
        }
      }
      if (step % config_.checkpoint_every == 0) checkpoint(step);
      if (number("leave", 0) == 1 && step == 1) ::kill(::getpid(), SIGKILL);
      if (step == number("die_at", 0) && !is_there("died")) {
        (void)files_.open(base::Path(config_.data.path) / "died",
                          base::FileSystem::Open::CreateNew);
        ::kill(::getpid(), SIGKILL);
      }
      while (step == number("hold_at", 0) && !is_there("go") && stop_requested == 0) pause(2);
      if (stop_requested != 0) {
        checkpoint(step);
        return end("stopped", step, static_cast<int>(contract::ExitCode::Stopped), "");
      }
      pause(number("pause_ms", 1));
    }
    checkpoint(step);
    return end("steps", step, 0, "");
  }

  static void pause(std::int64_t milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  }

  base::FileSystem& files_ = base::posix_file_system();
  base::Clock& clock_ = base::system_clock();
  double start_ = clock_.monotonic_seconds();
  contract::RunDirectory directory_;
  contract::RunConfig config_;
  std::map<std::string, std::string> script_;
  std::unique_ptr<base::WritableFile> journal_;
  std::int64_t sequence_ = 0;
};

}  // namespace
}  // namespace regatta::tests

int main(int count, char** arguments) {
  if (count != 4) return 2;
  ::signal(SIGTERM, regatta::tests::on_stop);
  try {
    return regatta::tests::FakeTrainer(arguments[3]).run();
  } catch (const regatta::base::Error& error) {
    std::fprintf(stderr, "fake trainer: %s\n", error.what());
    return 21;
  }
}
