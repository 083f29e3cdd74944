// `regatta-train debug`: the program beside runs that train, on one and two ranks.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/trainer/run/run_process.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using nlohmann::json;

class DebugProcess : public RunProcess {
 protected:
  static base::Output debug(const std::vector<std::string>& arguments) {
    base::Command command;
    command.arguments = {kTrainer, "debug"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    return base::run(command, kDeadline);
  }
  static json probe(const base::Path& run, int step, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"probe", run.string(), "--step", std::to_string(step)});
    const base::Output output = debug(more);
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    return json::parse(output.text, nullptr, false);
  }
};

TEST_F(DebugProcess, ProbesARunWhileItTrains) {
  const base::Path run = make_run("a", run_file(*dataset_, 100000));
  const pid_t process = start(run);
  ASSERT_TRUE(wait_for_step(run, process, 10)) << log_of(run);
  const json found = probe(run, 9);
  ::kill(process, SIGTERM);
  EXPECT_EQ(finish(process), static_cast<int>(contract::ExitCode::Stopped)) << log_of(run);
  EXPECT_EQ(found.at("loss"), found.at("journal_loss"));
  EXPECT_EQ(records_of<contract::WarningRecord>(run).size(), 0U);
  EXPECT_EQ(base::posix_file_system().list(run / "attempts").size(), 1U);
}

TEST_F(DebugProcess, WritesAFileInTheDocumentedOrder) {
  const base::Path run = make_run("a", run_file(*dataset_, 8));
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  const base::Path out = directory_.path() / "probe.json";
  const base::Output output =
      debug({"probe", run.string(), "--step", "8", "--set", "seed=2", "--set", "model.dropout=0",
             "--threads", "2", "--out", out.string()});
  ASSERT_EQ(output.exit.code, 0) << output.errors;
  EXPECT_EQ(output.text, "");
  const auto found = nlohmann::ordered_json::parse(base::posix_file_system().read(out, 1U << 26U));
  EXPECT_EQ(found.at("changed").dump(), R"({"model.dropout":0.0,"seed":2})");
  EXPECT_EQ(found.at("from").at("step"), 7);
  std::vector<std::string> parts;
  for (const auto& part : found.at("parts")) parts.push_back(part.at("part"));
  EXPECT_EQ(base::join(parts, " "),
            "weights samples tokens masks dropout activations loss gradients update");
}

TEST_F(DebugProcess, OtherInstructionsAreAnotherProbe) {
  const base::Path run = make_run("a", run_file(*dataset_, 8));
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  base::Command command;
  command.arguments = {kTrainer, "debug", "probe", run.string(), "--step", "3"};
  command.environment = {{"REGATTA_ISA", "baseline"}};
  const base::Output plain = base::run(command, kDeadline);
  ASSERT_EQ(plain.exit.code, 0) << plain.errors;
  const json other = json::parse(plain.text), own = probe(run, 3);
  EXPECT_NEAR(other.at("loss").get<double>(), own.at("loss").get<double>(), 1e-4);
  EXPECT_NE(other.at("device").get<std::string>().find("baseline"), std::string::npos);
  EXPECT_EQ(other.at("parts").at(1), own.at("parts").at(1)) << "the same samples";
}

TEST_F(DebugProcess, NumericsAreToldOfAStepAndBeforeARun) {
  const base::Path run = make_run("a", run_file(*dataset_, 8));
  ASSERT_EQ(finish(start(run, {"--debug-numerics"})), 0) << log_of(run);
  const std::string nothing = "Nothing is more than 10 times what is usual.";
  EXPECT_NE(log_of(run).find("step 1, the first 8 of its 8 samples"), std::string::npos);
  EXPECT_NE(log_of(run).find(nothing), std::string::npos) << log_of(run);
  EXPECT_EQ(records_of<contract::StepRecord>(run).size(), 8U) << "and then it trains";
  const base::Output output = debug({"numerics", run.string(), "--step", "8", "--all"});
  EXPECT_EQ(output.exit.code, 0) << output.errors;
  EXPECT_NE(output.text.find("gradient of bert.embeddings.word_embeddings.weight\n"),
            std::string::npos);
  EXPECT_NE(output.text.find(nothing), std::string::npos);
  // The same run once more, which has no step left.
  ASSERT_EQ(finish(start_with(run, {"--debug-numerics"})), 0) << log_of(run);
  EXPECT_NE(log_of(run).find("has no step left"), std::string::npos) << log_of(run);
  for (const std::vector<std::string>& bad :
       {std::vector<std::string>{"--tokens", "0"}, {"--tokens", "x"}, {"--step", "0"}}) {
    std::vector<std::string> arguments{"numerics", run.string()};
    arguments.insert(arguments.end(), bad.begin(), bad.end());
    EXPECT_EQ(debug(arguments).exit.code, 2) << base::join(bad, " ");
  }
}

TEST_F(DebugProcess, BadArgumentsAreOneLineAndAnExitCode) {
  const base::Path run = make_run("a", run_file(*dataset_, 4));
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  const std::string at = run.string();
  const struct {
    std::vector<std::string> arguments;
    int code;
    std::string says;
  } kCases[] = {
      {{}, 2, "subcommand"},
      {{"prob", at}, 2, "subcommand"},
      {{"probe"}, 2, "directory"},
      {{"probe", at}, 2, "--step"},
      {{"probe", at, "--step", "0"}, 2, "--step"},
      {{"probe", at, "--step", "-1"}, 2, "--step"},
      {{"probe", at, "--step", "x"}, 2, "--step"},
      {{"probe", at, "--step", "99999999999999999999"}, 2, "--step"},
      {{"probe", at, "--step", "5"}, 7, "step 5: the run has 4 steps"},
      {{"probe", at + "/nowhere", "--step", "1"}, 3, "run.json is missing"},
      {{"probe", "", "--step", "1"}, 2, "directory"},
      {{"probe", at, "--step", "1", "--set", "seed"}, 7, "has no ="},
      {{"probe", at, "--step", "1", "--set", "sede=1"}, 7, "sede"},
      {{"probe", at, "--step", "1", "--set", "model.layers=\x1b[31m"}, 7, "layers"},
      {{"probe", at, "--step", "1", "--data", at}, 3, "--data"},
      {{"probe", at, "--step", "1", "--threads", "0"}, 2, "--threads"},
      {{"probe", at, "--step", "1", "--out", at + "/nowhere/probe.json"}, 3, "nowhere"},
      {{"probe", at, "--step", "1", "--out", ""}, 2, "--out"},
  };
  for (const auto& each : kCases) {
    const base::Output output = debug(each.arguments);
    const std::string shown = base::join(each.arguments, " ");
    EXPECT_EQ(output.exit.code, each.code) << shown << ": " << output.errors;
    EXPECT_NE(output.errors.find(each.says), std::string::npos) << shown << ": " << output.errors;
    EXPECT_EQ(output.errors.find('\x1b'), std::string::npos) << shown;
    EXPECT_EQ(output.text, "") << shown;
  }
}

#ifdef REGATTA_TEST_MPI
TEST_F(DebugProcess, RunsOfSeveralRanksHaveTheirLossUpToRounding) {
  const struct {
    std::string name, more;
  } kCases[] = {{"plain", ""},
                {"sharded", "sharding: {optimizer: true}\n"},
                {"stages", "parallel: {data: 1, pipeline: 2}\n"}};
  for (const auto& each : kCases) {
    const base::Path run =
        make_run(each.name, with(on_ranks(2, 10, each.more), "{size: 8}", "{size: 8, micro: 2}"));
    ASSERT_EQ(run_to_end(run), 0) << log_of(run);
    for (const int step : {1, 6, 9}) {
      const json found = probe(run, step);
      const auto journal = found.at("journal_loss").get<double>();
      EXPECT_NEAR(found.at("loss").get<double>(), journal, 1e-5 * journal)
          << each.name << ", step " << step;
      EXPECT_GT(journal, 1) << "beside a loss that is far from 0";
      EXPECT_EQ(found.at("parts").at(1).at("count"), 8);
    }
  }
}
#endif

}  // namespace
}  // namespace regatta::tests
