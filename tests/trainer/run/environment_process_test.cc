// environment.json of the real regatta-train: equal attempts are told to be equal, and another
// setting shows in the sections that it belongs to and in no other.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/trainer/run/run_process.h"
#include "trainer/contract/environment_file.h"
#include "trainer/cpu/cpu_device.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using testing::HasSubstr, testing::Not;
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

constexpr const char* kPlanted = "hunter2-planted";

class EnvironmentProcess : public RunProcess {
 protected:
  EnvironmentProcess() { std::filesystem::create_directories(directory_.path()); }

  // A whole run of two steps; the text of its file.
  std::string text_of_run(const std::string& text, const Words& options = {},
                          const Variables& variables = {}) {
    const base::Path run = make_run("run-" + std::to_string(++runs_), text);
    base::Command command;
    command.arguments = {kTrainer, "run", "--directory", run.string(), run.string() + ".yaml"};
    command.arguments.insert(command.arguments.end(), options.begin(), options.end());
    command.environment = variables;
    command.output_path = run.string() + ".log";
    EXPECT_EQ(finish(base::spawn(command)), 0) << log_of(run);
    const contract::RunDirectory made =
        contract::RunDirectory::open(base::posix_file_system(), run);
    return base::posix_file_system().read(
        made.attempt_path(made.attempts().back()) / contract::kEnvironmentFile,
        contract::kMostEnvironmentBytes);
  }
  Json run(const std::string& text, const Words& options = {}, const Variables& variables = {}) {
    return contract::parse_environment(text_of_run(text, options, variables), "environment.json");
  }
  // Sections whose digests differ.
  static Words differences(const Json& one, const Json& other) {
    Words found;
    for (const std::string_view name : contract::kEnvironmentSections) {
      if (one[std::string(name)]["digest"] != other[std::string(name)]["digest"]) {
        found.emplace_back(name);
      }
    }
    return found;
  }
  static std::string small(const std::string& more = "") { return run_file(*dataset_, 2, more); }

  int runs_ = 0;
};

TEST_F(EnvironmentProcess, EachSettingIsInItsSections) {
  const Json before = run(small());
  const Json again = run(small());
  EXPECT_EQ(differences(before, again), Words());
  EXPECT_EQ(before["fingerprint"], again["fingerprint"]);
  EXPECT_NE(before["attempt"]["execution"], again["attempt"]["execution"]);
  EXPECT_TRUE(before["training"].contains("ended"));
  EXPECT_EQ(before["numerics"]["instruction_set"], cpu::cpu_instruction_sets().back());
  EXPECT_EQ(before["numerics"]["threads"], 1);
  EXPECT_EQ(before["machine"]["threads"].is_number(), true);
  EXPECT_EQ(before["randomness"]["seed"], 1);

  struct Row {
    const char* what;
    std::string text;
    Words options;
    Variables variables;
    Words expected;
  };
  std::vector<Row> rows{
      {"seed", small("seed: 2\n"), {}, {}, {"randomness", "configuration"}},
      {"threads", small(), {"--threads", "2"}, {}, {"devices", "numerics", "configuration"}},
      {"variable", small(), {}, {{"OMP_NUM_THREADS", "3"}}, {"variables"}},
      {"rate", with(small(), "0.003", "0.004"), {}, {}, {"configuration"}},
      {"gelu",
       with(small(), "{preset: tiny", "{preset: tiny, gelu: tanh"),
       {},
       {},
       {"numerics", "model", "configuration"}},
  };
  if (cpu::cpu_instruction_sets().size() > 1) {
    rows.push_back({"instructions",
                    small(),
                    {},
                    {{"REGATTA_ISA", "baseline"}},
                    {"devices", "variables", "numerics"}});
  }
  for (const Row& row : rows) {
    EXPECT_EQ(differences(before, run(row.text, row.options, row.variables)), row.expected)
        << row.what;
  }
}

TEST_F(EnvironmentProcess, AnotherCorpusAndAnotherVocabularyAreToldApart) {
  TemporaryDirectory folder;
  const base::Path path = make_small_dataset(folder.path(), 60);
  const std::string text = run_file(path, 2);
  const Json before = run(text);

  data::PrepareOptions options;
  options.inputs = {folder.path() / "corpus.txt"};
  options.output = path;
  options.threads = 1;
  options.held_out = 0.2;
  options.force = true;
  const auto prepare = [&] { (void)data::prepare(options, base::posix_file_system(), {}); };
  // One more document, in the same pieces.
  const base::Path vocabulary = folder.path() / "vocabulary.txt";
  std::filesystem::copy_file(path / "vocab.txt", vocabulary);
  std::ofstream(folder.path() / "corpus.txt", std::ios::app) << "The boat river wind.\n\n";
  options.vocabulary = vocabulary;
  prepare();
  const Json corpus = run(text);
  EXPECT_EQ(differences(before, corpus), Words({"data"}));
  const auto vocabulary_of = [](const Json& environment) {
    return environment["data"]["datasets"][0]["vocabulary"].dump();
  };
  EXPECT_EQ(vocabulary_of(corpus), vocabulary_of(before));

  std::ofstream(vocabulary, std::ios::app) << "zzzz\n";
  prepare();
  const Json other = run(text);
  EXPECT_EQ(differences(corpus, other), Words({"data", "model", "configuration"}))
      << "one more piece is a row of parameters";
  EXPECT_NE(vocabulary_of(other), vocabulary_of(corpus));
  EXPECT_EQ(other["data"]["datasets"][0]["corpus_xxh3_128"],
            corpus["data"]["datasets"][0]["corpus_xxh3_128"]);
}

TEST_F(EnvironmentProcess, HasNoSecret) {
  const std::string value = kPlanted;
  const std::string text =
      text_of_run(small("slurm: {environment: {WANDB_API_KEY: " + value + "}}\n"), {},
                  {{"OMP_TOKEN", value},
                   {"NCCL_API_KEY", value},
                   {"UCX_PASSWORD", value},
                   {"REGATTA_TOKEN", value},
                   {"CUDA_CREDENTIAL", value},
                   {"DNNL_ADDRESS", "https://user:" + value + "@host"},
                   {"SOME_OTHER", value}});
  EXPECT_THAT(text, Not(HasSubstr(value)));
  const Json environment = contract::parse_environment(text, "environment.json");
  for (const char* const name : {"OMP_TOKEN", "NCCL_API_KEY", "UCX_PASSWORD", "REGATTA_TOKEN",
                                 "CUDA_CREDENTIAL", "DNNL_ADDRESS"}) {
    ASSERT_TRUE(environment["variables"].contains(name)) << name;
    EXPECT_TRUE(environment["variables"][name].is_null()) << name;
  }
  EXPECT_TRUE(environment["configuration"]["slurm"]["environment"]["WANDB_API_KEY"].is_null());
}

TEST_F(EnvironmentProcess, AnInstructionSetThatIsNotThereIsRefused) {
  const base::Path run = make_run("wrong", small());
  base::Command command;
  command.arguments = {kTrainer, "run", "--directory", run.string(), run.string() + ".yaml"};
  command.environment = {{"REGATTA_ISA", "avx1024"}};
  command.output_path = run.string() + ".log";
  EXPECT_EQ(finish(base::spawn(command)), static_cast<int>(contract::ExitCode::User));
  EXPECT_THAT(log_of(run), HasSubstr("'avx1024'"));
}

#ifdef REGATTA_TEST_MPI
// What mpirun sets anew for each start is in no section.
TEST_F(EnvironmentProcess, EqualStartsUnderMpiAreEqual) {
  const Json first = run(on_ranks(2, 2));
  const Json second = run(on_ranks(2, 2));
  EXPECT_EQ(differences(first, second), Words())
      << first["variables"].dump(2) << second["variables"].dump(2);
  EXPECT_EQ(first["fabric"]["ranks"], 2);
  EXPECT_EQ(first["fabric"]["hosts"], 1);
  EXPECT_EQ(first["fabric"]["transport"], "MPI");
  EXPECT_TRUE(first["build"]["libraries"].contains("Open MPI"));
}
#endif

}  // namespace
}  // namespace regatta::tests
