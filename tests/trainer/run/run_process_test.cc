// The real regatta-train as a process: killed, stopped, fenced, and given bad input.
#include "tests/trainer/run/run_process.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>

#include "base/clock.h"
#include "trainer/step/divergence.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

TEST(TrainerCommandLine, TellsItsVersionAndRefusesUnknownCommands) {
  const auto trainer = [](const std::vector<std::string>& arguments) {
    base::Command command;
    command.arguments = {kTrainer};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    return base::run(command, kDeadline);
  };
  const base::Output version = trainer({"version"});
  EXPECT_EQ(version.exit.code, 0) << version.errors;
  EXPECT_EQ(version.text.rfind("regatta-train " REGATTA_VERSION, 0), 0U) << version.text;
  EXPECT_EQ(trainer({"--version"}).text, version.text);
  EXPECT_EQ(trainer({"--help"}).exit.code, 0);
  EXPECT_EQ(trainer({"run", "--help"}).exit.code, 0);
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"bogus"}, {"bogus", "--help"}, {"--help", "bogus"}}) {
    const base::Output output = trainer(arguments);
    EXPECT_EQ(output.exit.code, 2);
    EXPECT_EQ(output.text, "");
    EXPECT_EQ(output.errors, "regatta-train: 'bogus' is not a command; --help lists them\n");
  }
  EXPECT_NE(trainer({"prepair", "--help"}).errors.find("did you mean 'prepare'?"),
            std::string::npos);
}

// Installed, and started from anywhere: a benchmark's length table is under the program's prefix.
// A full disk, and a stream that was closed: who reads the exit code knows.
TEST(TrainerCommandLine, TellsThatItsOutputIsLost) {
  for (const std::string to : {">/dev/full", ">&-"}) {
    const base::Output output =
        base::run({{"/bin/sh", "-c", kTrainer + " version " + to}, {}, {}, {}, false}, kDeadline);
    EXPECT_EQ(output.exit.code, base::meaning(base::Code::Operator).exit_code) << to;
    EXPECT_NE(output.errors.find("did not all get to standard output"), std::string::npos)
        << output.errors;
  }
}

TEST(TrainerCommandLine, ABenchmarkFindsItsLengthTableUnderItsPrefix) {
  const TemporaryDirectory prefix;
  const base::Path table = prefix.path() / "share" / "regatta" / "lengths";
  std::filesystem::create_directories(prefix.path() / "bin");
  std::filesystem::create_directories(prefix.path() / "elsewhere");
  const std::string trainer = (prefix.path() / "bin" / "regatta-train").string();
  std::filesystem::copy(kTrainer, trainer);
  const auto bench = [&](const std::string& more) {
    return base::run(
        {{"/bin/sh", "-c",
          "cd '" + (prefix.path() / "elsewhere").string() + "' && '" + trainer +
              "' bench balance --ranks 2 --ranks-per-node 2 --batch 8 --steps 2 " + more},
         {},
         {},
         {},
         false},
        kDeadline);
  };
  const base::Output without = bench("");
  EXPECT_NE(without.exit.code, 0);
  EXPECT_NE(without.errors.find("lengths_wikipedia_512.csv is not in " + table.string()),
            std::string::npos)
      << without.errors;
  std::filesystem::create_directories(table);
  const base::Path source = base::Path(REGATTA_SOURCE_DIR) / "tests" / "data";
  std::filesystem::copy(source / "lengths_wikipedia_512.csv", table);
  const base::Output with_table = bench("");
  EXPECT_EQ(with_table.exit.code, 0) << with_table.errors;
  EXPECT_NE(with_table.text.find("lengths_wikipedia_512.csv"), std::string::npos);
  EXPECT_NE(bench("--lengths nowhere.csv").errors.find("nowhere.csv"), std::string::npos);
}

TEST_F(RunProcess, KilledAtRandomStepsEndsWithTheSameBits) {
  constexpr int kSteps = 120;
  const std::string text = run_file(*dataset_, kSteps, "statistics: {every: 3}\n");
  const base::Path undisturbed = make_run("undisturbed", text);
  ASSERT_EQ(run_to_end(undisturbed), 0) << log_of(undisturbed);
  const std::string expected = final_weights(undisturbed);
  std::mt19937 random(20);
  const int kills = repetitions(20);
  const base::Path killed = make_run("killed", text);
  int done = 0;
  for (int kill = 0; kill < kills; ++kill) {
    const pid_t process = start(killed);
    // Anywhere in the run, also within a step or a checkpoint.
    const int step = 1 + kSteps * kill / kills + static_cast<int>(random() % 5U);
    const bool reached = wait_for_step(killed, process, step);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000U));
    ::kill(process, SIGKILL);
    const base::Exit exit = base::wait_exit(process);
    if (exit.signal == SIGKILL && reached) ++done;
  }
  EXPECT_GE(done, std::max(1, kills / 2)) << "too few processes were killed while training";
  ASSERT_EQ(run_to_end(killed), 0) << log_of(killed);
  EXPECT_TRUE(final_weights(killed) == expected) << "weights differ after " << done << " kills";
  const contract::StepRecord mine = records_of<contract::StepRecord>(killed).back();
  const contract::StepRecord theirs = records_of<contract::StepRecord>(undisturbed).back();
  EXPECT_EQ(mine.step, theirs.step);
  ASSERT_TRUE(theirs.noise_scale && theirs.raw_noise_scale);
  EXPECT_EQ(mine.noise_scale, theirs.noise_scale) << "after " << done << " kills";
  EXPECT_EQ(mine.noise_scale_low, theirs.noise_scale_low);
  EXPECT_EQ(mine.raw_noise_scale, theirs.raw_noise_scale);
}

TEST_F(RunProcess, TermWritesACheckpointAndResumingLosesNothing) {
  std::string text = run_file(*dataset_, 1500);
  text = with(text, "every: 7", "every: 400");
  const base::Path whole = make_run("whole", text);
  ASSERT_EQ(run_to_end(whole), 0) << log_of(whole);
  const base::Path stopped = make_run("stopped", text);
  const pid_t process = start(stopped);
  ASSERT_TRUE(wait_for_step(stopped, process, 10));
  ::kill(process, SIGTERM);
  ASSERT_EQ(finish(process), static_cast<int>(contract::ExitCode::Stopped)) << log_of(stopped);
  const auto ends = records_of<contract::EndRecord>(stopped);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].reason, "stopped");
  const auto written = records_of<contract::CheckpointRecord>(stopped);
  ASSERT_FALSE(written.empty());
  EXPECT_GE(written.back().step, ends[0].step);
  ASSERT_EQ(run_to_end(stopped), 0) << log_of(stopped);
  EXPECT_EQ(records_of<contract::StartRecord>(stopped).back().first_step, ends[0].step);
  EXPECT_TRUE(final_weights(stopped) == final_weights(whole));
}

// Attempts of two seconds each, one after the other, until the run is done.
TEST_F(RunProcess, ADeadlineEndsTheAttemptSavedAndTheRunGoesOn) {
  std::string text = run_file(*dataset_, 6000);
  text = with(text, "every: 7", "every: 1000");
  const base::Path whole = make_run("whole", text);
  ASSERT_EQ(run_to_end(whole), 0) << log_of(whole);
  const base::Path run = make_run("limited", text);
  int attempts = 0;
  double least = 100;  // a slow disk may lengthen one attempt, a late end all of them
  int code = static_cast<int>(contract::ExitCode::Continue);
  while (code == static_cast<int>(contract::ExitCode::Continue) && attempts < 100) {
    ++attempts;
    const auto mark = std::chrono::steady_clock::now();
    const double later = base::system_clock().utc_seconds() + 2;
    code = run_to_end(run, attempts % 2 == 0
                               ? std::vector<std::string>{"--deadline-utc", std::to_string(later)}
                               : std::vector<std::string>{"--deadline-seconds", "2"});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - mark;
    const contract::EndRecord end = records_of<contract::EndRecord>(run).back();
    if (code != static_cast<int>(contract::ExitCode::Continue)) break;
    EXPECT_EQ(end.reason, "deadline");
    EXPECT_EQ(records_of<contract::CheckpointRecord>(run).back().step, end.step);
    least = std::min(least, took.count());
  }
  EXPECT_LT(least, 3.0) << "2, and what starting and ending take";
  EXPECT_EQ(code, 0) << log_of(run);
  EXPECT_GE(attempts, 2) << "the run was faster than its time";
  EXPECT_TRUE(final_weights(run) == final_weights(whole));
}

TEST_F(RunProcess, ADivergenceIsToldAsOne) {
  for (const std::string ranks : {"1", "2"}) {
    const std::string text =
        with(run_file(*dataset_, 50), "learning_rate: 0.003", "learning_rate: 1000");
    const base::Path run = make_run("diverges-" + ranks, text + "ranks: " + ranks + "\n");
    EXPECT_EQ(run_to_end(run), static_cast<int>(contract::ExitCode::User));
    const contract::EndRecord end = records_of<contract::EndRecord>(run).back();
    EXPECT_EQ(end.reason, "diverged");
    ASSERT_FALSE(records_of<contract::StepRecord>(run).empty());
    EXPECT_EQ(end.step, records_of<contract::StepRecord>(run).back().step + 1)
        << "the last with a loss";
    const auto told = records_of<contract::DivergenceRecord>(run);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].step, end.step);
    EXPECT_EQ(told[0].message, end.message);
    EXPECT_FALSE(told[0].tensor.empty());
    const step::NotFinite first{told[0].tensor, told[0].quantity, told[0].rank};
    EXPECT_EQ(end.message,
              std::string(first.quantity == "gradient" ? "the gradient" : "the loss") +
                  " is not finite at step " + std::to_string(end.step) +
                  " (first: " + step::to_text(first, std::stoi(ranks)) + "): training diverged; " +
                  (told[0].checkpoint.empty() ? "there is no checkpoint before it"
                                              : "last good checkpoint: " + told[0].checkpoint) +
                  "; lower optimizer.learning_rate");
    const std::string log = log_of(run);
    EXPECT_NE(log.find("ended: diverged at step " + std::to_string(end.step)), std::string::npos)
        << log;
  }
}

// What is being written when it ends is a checkpoint like any other.
TEST_F(RunProcess, ADivergenceLeavesNoCheckpointUntold) {
  std::string text = with(run_file(*dataset_, 50), "learning_rate: 0.003", "learning_rate: 1000");
  text = with(text, "every: 7, keep_last: 3", "every: 1, keep_last: 100");
  const base::Path run = make_run("untold", text);
  EXPECT_EQ(run_to_end(run), static_cast<int>(contract::ExitCode::User));
  std::set<std::string> told;
  for (const contract::CheckpointRecord& record : records_of<contract::CheckpointRecord>(run)) {
    if (record.status == "written") told.insert(record.name);
  }
  const auto there = base::posix_file_system().list(run / "checkpoints");
  ASSERT_FALSE(told.empty());
  const contract::DivergenceRecord divergence = records_of<contract::DivergenceRecord>(run).back();
  EXPECT_EQ(divergence.checkpoint, *told.rbegin());
  EXPECT_EQ(divergence.checkpoint_step, divergence.step - 1);
  for (const std::string& name : there) {
    if (name.rfind("step-", 0) == 0) {
      EXPECT_EQ(told.count(name), 1U) << name;
    }
  }
}

TEST_F(RunProcess, APeakThatTheDeviceExceedsIsWarnedOfOnce) {
  const base::Path run =
      make_run("peak", run_file(*dataset_, 5) + "statistics: {peak_tflops: 0.000001}\n");
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  const auto warnings = records_of<contract::WarningRecord>(run);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].message.find("statistics.peak_tflops is 1e-06"), std::string::npos)
      << warnings[0].message;
  const base::Path measured = make_run("measured", run_file(*dataset_, 5));
  ASSERT_EQ(run_to_end(measured), 0) << log_of(measured);
  EXPECT_TRUE(records_of<contract::WarningRecord>(measured).empty());
}

TEST_F(RunProcess, Usr2WritesACheckpointAndGoesOn) {
  std::string text = run_file(*dataset_, 100000);
  text = with(text, "every: 7", "every: 100000");
  const base::Path run = make_run("usr2", text);
  const pid_t process = start(run);
  ASSERT_TRUE(wait_for_step(run, process, 5));
  ::kill(process, SIGUSR2);
  expect_one_checkpoint_then_stop(run, process);
}

TEST_F(RunProcess, ANewerAttemptFencesTheOlder) {
  const base::Path run = make_run("fenced", run_file(*dataset_, 100000));
  const pid_t older = start(run);
  ASSERT_TRUE(wait_for_step(run, older, 3));
  const pid_t newer = start(run);
  EXPECT_EQ(finish(older), static_cast<int>(contract::ExitCode::Fenced));
  ::kill(newer, SIGTERM);
  EXPECT_EQ(finish(newer), static_cast<int>(contract::ExitCode::Stopped));
  EXPECT_EQ(records_of<contract::EndRecord>(run).front().reason, "fenced");
}

TEST_F(RunProcess, ADeadlineIsANumber) {
  const base::Path run = make_run("deadline", run_file(*dataset_, 100000));
  for (const char* option : {"--deadline-seconds", "--deadline-utc"}) {
    for (const char* wrong : {"nan", "inf", "-1", "", "soon"}) {
      EXPECT_EQ(run_to_end(run, {option, wrong}), 2) << option << ' ' << wrong;
    }
    EXPECT_EQ(run_to_end(run, {option, "0"}), static_cast<int>(contract::ExitCode::Continue))
        << option;
  }
}

// The file that a run was made from, however it is spelled, goes on with it; another one is refused
// with what differs, and what is no run file as it would be without the directory.
TEST_F(RunProcess, ARunFileBesideADirectoryMustBeTheRuns) {
  const std::string text = run_file(*dataset_, 5);
  const base::Path run = make_run("mine", text);
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  const auto told = [&](const base::Path& directory, const std::string& file) {
    return base::run(
        {{kTrainer, "run", "--directory", directory.string(), file}, {}, {}, {}, false}, kDeadline);
  };
  const auto attempts = [&] { return records_of<contract::StartRecord>(run).size(); };
  EXPECT_EQ(run_to_end(run), 0) << "the same file: there is nothing left to do";
  std::ofstream(directory_.path() / "spelled.yaml")
      << "seed: 1\n" + with(text, dataset_->string(), (*dataset_ / "." / "").string());
  EXPECT_EQ(told(run, (directory_.path() / "spelled.yaml").string()).exit.code, 0);
  EXPECT_EQ(attempts(), 3U);

  std::ofstream(directory_.path() / "other.yaml")
      << with(text, "learning_rate: 0.003", "learning_rate: 0.004") + "target: {value: 0.5}\n";
  const std::string other = (directory_.path() / "other.yaml").string();
  const base::Output refused = told(run, other);
  EXPECT_EQ(refused.exit.code, static_cast<int>(contract::ExitCode::User));
  EXPECT_EQ(
      refused.errors,
      "regatta-train: " + other + " is not the run file of " + run.string() +
          ": optimizer.learning_rate is 0.003 there and 0.004 here; leave the file out to go on "
          "with the run as it is, or name another directory\n")
      << "the target might change";

  std::ofstream(directory_.path() / "garbage.yaml") << "steps: [\n";
  for (const char* name : {"garbage.yaml", "missing.yaml"}) {
    const std::string file = (directory_.path() / name).string();
    const base::Output there = told(run, file);
    const base::Output fresh = told(directory_.path() / "fresh", file);
    EXPECT_NE(there.exit.code, 0) << name;
    EXPECT_EQ(there.exit.code, fresh.exit.code) << name;
    EXPECT_EQ(there.errors, fresh.errors);
    EXPECT_NE(there.errors.find(name), std::string::npos) << there.errors;
  }
  EXPECT_EQ(attempts(), 3U) << "nothing was begun";
}

// A machine without the plug-in: who asks for a GPU is told in one line, who does not mind gets the
// CPU.
class WithoutPlugIn : public RunProcess {
 protected:
  WithoutPlugIn() { ::setenv("REGATTA_PLUGIN_DIR", directory_.path().c_str(), 1); }
  ~WithoutPlugIn() override { ::unsetenv("REGATTA_PLUGIN_DIR"); }
};

TEST_F(WithoutPlugIn, CudaIsRefusedInOneLine) {
  const base::Path run =
      make_run("cuda", run_file(*dataset_, 5, "device: cuda\ndtype: bfloat16\n"));
  EXPECT_EQ(run_to_end(run), static_cast<int>(contract::ExitCode::Operator));
  const contract::EndRecord end = records_of<contract::EndRecord>(run).back();
  EXPECT_EQ(end.reason, "failed");
  EXPECT_NE(end.message.find("libregatta-cuda.so is not in"), std::string::npos) << end.message;
  EXPECT_NE(end.message.find("REGATTA_PLUGIN_DIR"), std::string::npos) << end.message;
  EXPECT_EQ(end.message.find('\n'), std::string::npos);
  EXPECT_TRUE(base::posix_file_system().list(run / "checkpoints").empty());
}

TEST_F(WithoutPlugIn, AutoTrainsOnTheCpuAsCpuDoes) {
  const base::Path any = make_run("auto", run_file(*dataset_, 5, "device: auto\n"));
  const base::Path cpu = make_run("cpu", run_file(*dataset_, 5, "device: cpu\n"));
  ASSERT_EQ(run_to_end(any), 0) << log_of(any);
  ASSERT_EQ(run_to_end(cpu), 0);
  EXPECT_NE(log_of(any).find("training on the CPU: "), std::string::npos) << log_of(any);
  EXPECT_EQ(final_weights(any), final_weights(cpu));
}

TEST_F(WithoutPlugIn, AutoInATypeOfGpusIsRefused) {
  const base::Path run =
      make_run("half", run_file(*dataset_, 5, "device: auto\ndtype: bfloat16\n"));
  EXPECT_EQ(run_to_end(run), static_cast<int>(contract::ExitCode::User));
  const contract::EndRecord end = records_of<contract::EndRecord>(run).back();
  EXPECT_NE(end.message.find("dtype is bfloat16"), std::string::npos) << end.message;
}

// Even a run for a GPU can be reckoned on a machine without one.
TEST_F(WithoutPlugIn, DryRunPrintsTheWholeRunFileTellsTheMemoryAndDoesNothing) {
  const base::Path run = make_run("dry", run_file(*dataset_, 5, "device: cuda\ndtype: bfloat16\n"));
  const base::Output output = base::run(
      {{kTrainer, "run", "--dry-run", run.string() + ".yaml"}, {}, {}, {}, false}, kDeadline);
  EXPECT_EQ(output.exit.code.value_or(-1), 0) << output.errors;
  for (const char* part : {"parameters", "gradients", "moments", "activations", "at most"}) {
    EXPECT_NE(output.errors.find(part), std::string::npos) << output.errors;
  }
  EXPECT_FALSE(base::posix_file_system().exists(run));
  const contract::RunConfig asked = contract::parse_run_config(
      run_file(*dataset_, 5, "device: cuda\ndtype: bfloat16\n"), "as it was written");
  contract::RunConfig filled = contract::parse_run_config(output.text, "as it was printed");
  EXPECT_EQ(filled.model.vocabulary,
            static_cast<int>(data::Dataset::open(*dataset_).vocabulary().size()));
  filled.model.vocabulary = 0;
  EXPECT_EQ(contract::to_json(filled), contract::to_json(asked));
  const base::Output both = base::run(
      {{kTrainer, "run", "--dry-run", "--directory", run.string(), run.string() + ".yaml"},
       {},
       {},
       {},
       false},
      kDeadline);
  EXPECT_EQ(both.exit.code.value_or(-1), 2) << "a directory is not needed";
}

// What it prints is a run file: printed again it is the same, and it trains the same weights.
TEST_F(RunProcess, WhatADryRunPrintsIsTheSameRun) {
  const auto print = [&](const base::Path& file, const std::vector<std::string>& more = {}) {
    base::Command command;
    command.arguments = {kTrainer, "run", "--dry-run", file.string()};
    command.arguments.insert(command.arguments.end(), more.begin(), more.end());
    const base::Output output = base::run(command, kDeadline);
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    return output.text;
  };
  // Its data beside it, by a relative path.
  std::filesystem::create_directories(directory_.path() / "a" / "b");
  std::filesystem::create_directory_symlink(*dataset_, directory_.path() / "a" / "data");
  const std::string text = with(run_file(*dataset_, 5), dataset_->string(), "data");
  std::ofstream(directory_.path() / "a" / "short.yaml") << text;
  const std::string printed = print(directory_.path() / "a" / "short.yaml");
  const base::Path whole = make_run("whole", printed);
  EXPECT_EQ(print(directory_.path() / "whole.yaml"), printed);
  for (const char* key : {"beta2", "keep_every", "on_divergence", "overlap_gather", "watchdog"}) {
    EXPECT_NE(printed.find(key), std::string::npos) << key << " has a default, too";
  }
  ASSERT_EQ(run_to_end(whole), 0) << log_of(whole);
  const base::Path plain = make_run("plain", run_file(*dataset_, 5));
  ASSERT_EQ(run_to_end(plain), 0) << log_of(plain);
  std::ofstream(directory_.path() / "plain.yaml") << printed;
  EXPECT_EQ(run_to_end(plain), 0) << "what was printed is the run file of that run, too";
  EXPECT_EQ(final_weights(whole), final_weights(plain));
  const std::string on_four = print(directory_.path() / "whole.yaml", {"--ranks", "4"});
  EXPECT_EQ(contract::parse_run_config(on_four, "printed").ranks, 4);
}

struct BadRun {
  const char* name;
  const char* from;
  const char* to;
  const char* message;
};

class BadRunFile : public RunProcess, public testing::WithParamInterface<BadRun> {};

TEST_P(BadRunFile, IsOneLineAndLeavesNothing) {
  std::string text = run_file(*dataset_, 5);
  const std::size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string(GetParam().from).size(), GetParam().to);
  const base::Path run = make_run("bad", text);
  EXPECT_EQ(run_to_end(run), static_cast<int>(contract::ExitCode::User));
  const std::string log = log_of(run);
  EXPECT_NE(log.find(GetParam().message), std::string::npos) << log;
  EXPECT_TRUE(base::posix_file_system().list(run / "checkpoints").empty());
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BadRunFile,
    testing::Values(BadRun{"unknown_key", "steps: 5", "stepz: 5", "did you mean 'steps'"},
                    BadRun{"heads", "heads: 2", "heads: 3", "does not divide hidden"},
                    BadRun{"no_dataset", "data: {path: ", "data: {path: /nowhere", "/nowhere"},
                    BadRun{"other_vocabulary", "model: {preset: tiny,",
                           "model: {preset: tiny, vocabulary: 30522,",
                           "prepare the data with the right vocabulary"},
                    BadRun{"ranks", "threads: 1", "threads: 1\nranks: 9",
                           "ranks: is 9; use 1 to 8"},
                    BadRun{"too_long", "max_length: 48", "max_length: 65", "max_length"},
                    BadRun{"not_yaml", "name: small", "name: [small", "not valid YAML"}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST_F(RunProcess, PrepareThatIsEndedLeavesNothingAndSaysSo) {
  const std::string folder = directory_.path().string();
  ASSERT_EQ(::mkfifo((folder + "/text").c_str(), 0600), 0);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    base::Command command;  // what it reads never ends
    command.arguments = {
        "sh", "-c", "exec \"$0\" prepare - --output \"$1/data\" --train-vocab 300 0<>\"$1/text\"",
        kTrainer, folder};
    command.output_path = folder + "/prepare.log";
    std::filesystem::remove(command.output_path);
    const pid_t process = base::spawn(command);
    const auto partial = [&] {
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().filename().string().rfind("data", 0) == 0) return true;
      }
      return false;
    };
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(kDeadline);
    while (!partial() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ASSERT_TRUE(partial());
    ::kill(process, number);
    EXPECT_EQ(finish(process), -number);
    EXPECT_FALSE(partial()) << number;
    std::ifstream log(command.output_path);
    const std::string text{std::istreambuf_iterator<char>(log), {}};
    EXPECT_EQ(text, "regatta-train: prepare was ended; nothing was made at " + folder + "/data\n");
  }
}

TEST_F(RunProcess, PrepareOnAFullDiskLeavesNothing) {
  // A file system of 16 KiB in a mount namespace of our own; not every machine allows that.
  const std::string small = (directory_.path() / "small").string();
  std::filesystem::create_directory(small);
  const std::string script =
      "mount -t tmpfs -o size=16k none \"$1\" 2>/dev/null || exit 77; \"$2\" prepare \"$3\" "
      "--output "
      "\"$1/out\" --train-vocab 256; code=$?; ls -A \"$1\"; exit $code";
  const base::Output output =
      base::run({{"unshare", "-rm", "sh", "-c", script, "sh", small, kTrainer,
                  (suite_directory_->path() / "corpus.txt").string()},
                 {},
                 {},
                 {},
                 false},
                kDeadline);
  const int code = output.exit.code.value_or(-1);
  if (code == 77 || output.errors.find("unshare") != std::string::npos) {
    GTEST_SKIP() << "needs mount namespaces: " << output.errors;
  }
  EXPECT_EQ(code, 1) << output.errors;
  EXPECT_NE(output.errors.find("disk is full"), std::string::npos) << output.errors;
  EXPECT_EQ(output.text, "") << "something was left on the disk";
}

// A disk that fills up: training goes on with the checkpoints there are and says so; with room
// made, the run finishes as an undisturbed one.
TEST_F(RunProcess, AFullDiskStopsNoTraining) {
  std::string text = run_file(*dataset_, 60);
  text = with(text, "keep_last: 3", "keep_last: 1000");
  const base::Path whole = make_run("whole", text);
  ASSERT_EQ(run_to_end(whole), 0) << log_of(whole);
  const base::Path run = make_run("full", text);
  const std::string small = (directory_.path() / "small").string();
  std::filesystem::create_directory(small);
  // 10 MiB: room for some checkpoints of 0.5 and the 8 that are to stay free.
  const std::string script =
      "mount -t tmpfs -o size=10m none \"$1\" 2>/dev/null || exit 77; "
      "\"$2\" run --directory \"$1/run\" \"$3.yaml\" > \"$3.log\" 2>&1; first=$?; "
      "cp -r \"$1/run\" \"$3.first\"; mount -o remount,size=64m \"$1\"; "
      "\"$2\" run --directory \"$1/run\" >> \"$3.log\" 2>&1; second=$?; "
      "cp -r \"$1/run\" \"$3\"; echo $first $second";
  base::Command command;
  command.arguments = {"unshare", "-rm", "sh", "-c", script, "sh", small, kTrainer, run.string()};
  const base::Output output = base::run(command, kDeadline);
  if (output.exit.code == 77 || output.errors.find("unshare") != std::string::npos) {
    GTEST_SKIP() << "needs mount namespaces: " << output.errors;
  }
  EXPECT_EQ(output.text, std::to_string(static_cast<int>(contract::ExitCode::Operator)) + " 0\n")
      << log_of(run);
  const base::Path first = run.string() + ".first";
  EXPECT_EQ(records_of<contract::StepRecord>(first).back().step, 60) << "training went on";
  int written = 0, failed = 0;
  for (const contract::CheckpointRecord& record : records_of<contract::CheckpointRecord>(first)) {
    written += record.status == "written" ? 1 : 0;
    if (record.status != "failed") continue;
    ++failed;
    EXPECT_NE(record.message.find("no room for checkpoint"), std::string::npos) << record.message;
    EXPECT_NE(log_of(run).find(record.message), std::string::npos) << "a warning, too";
  }
  EXPECT_GE(written, 1);
  EXPECT_GE(failed, 1);
  EXPECT_NE(records_of<contract::EndRecord>(first).back().message.find("make room"),
            std::string::npos);
  EXPECT_GT(records_of<contract::StartRecord>(run).back().first_step, 0)
      << "the old ones are still good";
  EXPECT_TRUE(final_weights(run) == final_weights(whole));
}

// checkpoint.async: false: nothing is under way while training goes on.
TEST_F(RunProcess, SavingCanKeepTrainingWaiting) {
  for (const bool async : {true, false}) {
    std::string text = run_file(*dataset_, 30);
    text = with(text, "every: 7", std::string("every: 7, async: ") + (async ? "true" : "false"));
    const base::Path run = make_run(async ? "beside" : "waiting", text);
    ASSERT_EQ(run_to_end(run), 0) << log_of(run);
    int written = 0;
    double stall = 0, work = 0;
    for (const contract::CheckpointRecord& record : records_of<contract::CheckpointRecord>(run)) {
      if (record.status != "written") continue;
      ++written;
      EXPECT_GE(record.stall_seconds, record.copy_seconds);
      EXPECT_GT(record.sync_seconds, 0);
      stall += record.stall_seconds;
      work += record.write_seconds + record.sync_seconds;
    }
    EXPECT_EQ(written, 5);
    // The writer's thread may begin before the wait for it is timed.
    if (!async) {
      EXPECT_GT(stall, work / 2);
    }
  }
  EXPECT_TRUE(final_weights(directory_.path() / "beside") ==
              final_weights(directory_.path() / "waiting"));
}

}  // namespace
}  // namespace regatta::tests
