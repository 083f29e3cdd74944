// The levels of determinism, on the real regatta-train: the same weights where a level promises
// them.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/process.h"
#include "tests/trainer/run/run_process.h"
#include "trainer/cpu/cpu_device.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

class DeterminismProcess : public RunProcess {
 protected:
  static std::string elastic(int ranks, int steps, const std::string& more) {
    return with(on_ranks(ranks, steps, "determinism: {level: elastic, shards: 4}\n" + more),
                "batch: {size: 8}", "batch: {size: 12}");
  }
  // The newest checkpoint's tensors by name; a sharded one's moments lie in several files.
  static std::string weights_of(const base::Path& run) {
    base::FileSystem& files = base::posix_file_system();
    const base::Path last = run / "checkpoints" / files.list(run / "checkpoints").back();
    return files.read(last / "model.safetensors", 1U << 30U);
  }
  static std::string manifest_of(const base::Path& run) {
    base::FileSystem& files = base::posix_file_system();
    const base::Path last = run / "checkpoints" / files.list(run / "checkpoints").back();
    return files.read(last / "manifest.json", 1U << 20U);
  }
  static std::vector<double> losses_of(const base::Path& run) {
    std::vector<double> losses;
    for (const contract::StepRecord& record : records_of<contract::StepRecord>(run)) {
      if (record.step > static_cast<std::int64_t>(losses.size())) losses.push_back(record.loss);
    }
    return losses;
  }
  static std::vector<double> evaluations_of(const base::Path& run) {
    std::vector<double> values;
    std::int64_t last = 0;
    for (const contract::EvalRecord& record : records_of<contract::EvalRecord>(run)) {
      if (record.step <= last) continue;  // repeated by an attempt that resumed
      last = record.step;
      values.push_back(record.mlm_loss);
    }
    return values;
  }
};

TEST_F(DeterminismProcess, ElasticTrainsTheSameOnAnyRanksAndThroughAChangeOfThem) {
  constexpr int kSteps = 200;
  for (const std::string& more :
       {std::string(), std::string("sharding: {optimizer: true}\noptimizer: {name: lamb}\n")}) {
    const std::string which = more.empty() ? "whole" : "sharded";
    const auto text = [&](int ranks) {
      std::string file = elastic(ranks, kSteps, more);
      if (!more.empty()) file = with(file, "optimizer: {learning_rate: 0.003}\n", "");
      return file;
    };
    const base::Path one = make_run(which + "1", text(1));
    ASSERT_EQ(run_to_end(one), 0) << log_of(one);
    EXPECT_NE(manifest_of(one).find("\"determinism\": \"elastic, 4 shards\""), std::string::npos)
        << manifest_of(one);
    for (const int ranks : {2, 4}) {
      const base::Path run = make_run(which + std::to_string(ranks), text(ranks));
      ASSERT_EQ(run_to_end(run), 0) << log_of(run);
      EXPECT_TRUE(weights_of(run) == weights_of(one)) << which << " on " << ranks;
      EXPECT_EQ(losses_of(run), losses_of(one)) << which << " on " << ranks;
      EXPECT_EQ(evaluations_of(run), evaluations_of(one)) << which << " on " << ranks;
    }
    const base::Path changed = make_run(which + "changed", text(4));
    const pid_t process = start(changed);
    ASSERT_TRUE(wait_for_step(changed, process, 10)) << log_of(changed);
    ::kill(process, SIGTERM);
    ASSERT_EQ(finish(process), static_cast<int>(contract::ExitCode::Stopped)) << log_of(changed);
    const std::int64_t stopped = records_of<contract::EndRecord>(changed).back().step;
    ASSERT_LT(stopped, kSteps) << "the change is in mid-run";
    ASSERT_EQ(run_to_end(changed, {"--ranks", "2"}), 0) << log_of(changed);
    EXPECT_EQ(records_of<contract::StartRecord>(changed).back().ranks, 2);
    EXPECT_TRUE(weights_of(changed) == weights_of(one)) << which;
    EXPECT_EQ(evaluations_of(changed), evaluations_of(one)) << which;
  }
}

TEST_F(DeterminismProcess, StepsOfSeveralRanksAreProbedWithTheirBitsOnOne) {
  const base::Path run = make_run("probed", elastic(2, 30, "sharding: {optimizer: true}\n"));
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  for (const int step : {1, 7, 26}) {
    base::Command command;
    command.arguments = {kTrainer, "debug", "probe", run.string(), "--step", std::to_string(step)};
    command.most_text = std::size_t{64} << 20U;
    const base::Output output = base::run(command, 120);
    ASSERT_EQ(output.exit.code, 0) << output.errors;
    const auto probe = nlohmann::json::parse(output.text);
    EXPECT_EQ(probe.at("loss").get<double>(), losses_of(run).at(static_cast<std::size_t>(step) - 1))
        << step;
    EXPECT_EQ(probe.at("journal_loss"), probe.at("loss"));
  }
}

TEST_F(DeterminismProcess, RanksThatDoNotDivideTheShardsAreRefused) {
  const base::Path run = make_run("refused", elastic(4, 20, ""));
  EXPECT_EQ(run_to_end(run, {"--ranks", "3"}), static_cast<int>(contract::ExitCode::User));
  EXPECT_NE(log_of(run).find("with 3 ranks determinism has 4 shards, which 3 ranks do not divide; "
                             "use 1, 2, 4 ranks"),
            std::string::npos)
      << log_of(run);
}

TEST_F(DeterminismProcess, ARunKeepsItsLevelAndItsShards) {
  const base::Path run = make_run("kept", elastic(1, 10, ""));
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  for (const auto& [level, key] :
       {std::pair("determinism: run", "determinism.level"),
        std::pair("determinism: {level: elastic, shards: 3}", "determinism.shards")}) {
    make_run("kept", with(elastic(1, 20, ""), "determinism: {level: elastic, shards: 4}", level));
    EXPECT_EQ(run_to_end(run), static_cast<int>(contract::ExitCode::User)) << level;
    EXPECT_NE(log_of(run).find(key), std::string::npos) << log_of(run);
  }
}

TEST_F(DeterminismProcess, PortableTrainsTheSameOnAllInstructionSetsAndThreads) {
  std::string expected, fused;
  for (const std::string& isa : cpu::cpu_instruction_sets()) {
    for (const int threads : {1, 2}) {
      const std::string name = isa + std::to_string(threads);
      const base::Path run =
          make_run(name, with(run_file(*dataset_, 40, "determinism: portable\n"), "threads: 1",
                              "threads: " + std::to_string(threads)));
      base::Command command;
      command.arguments = {kTrainer, "run", "--directory", run.string(), run.string() + ".yaml"};
      command.output_path = run.string() + ".log";
      command.environment = {{"REGATTA_ISA", isa}};
      ASSERT_EQ(finish(base::spawn(command)), 0) << log_of(run);
      if (expected.empty()) expected = weights_of(run);
      EXPECT_TRUE(weights_of(run) == expected) << name;
      const auto directory = contract::RunDirectory::open(base::posix_file_system(), run);
      const std::string environment = base::posix_file_system().read(
          directory.attempt_path(directory.attempts().back()) / "environment.json", 1U << 20U);
      EXPECT_NE(environment.find("\"determinism\": \"portable\""), std::string::npos);
      EXPECT_NE(environment.find("\"instruction_set\": \"" + isa + "\""), std::string::npos);
    }
  }
  const base::Path plain = make_run("plain", run_file(*dataset_, 40));
  ASSERT_EQ(run_to_end(plain), 0) << log_of(plain);
  EXPECT_FALSE(weights_of(plain) == expected) << "this test would see a difference";
}

}  // namespace
}  // namespace regatta::tests
