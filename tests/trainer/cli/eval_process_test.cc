// `regatta-train eval`: a checkpoint's figures are those that its run journalled, bit for bit.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/trainer/run/run_process.h"
#include "trainer/samples/sampler.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using nlohmann::json;

constexpr int kSteps = 40;

class EvalProcess : public RunProcess {
 protected:
  static void SetUpTestSuite() {
    suite_directory_ = new TemporaryDirectory;
    // Of so many documents the evaluation set is more than one rank packs at a time.
    dataset_ = new base::Path(make_small_dataset(suite_directory_->path(), 1500));
  }
  static std::string text(const std::string& more) {
    return with(with(run_file(*dataset_, kSteps), "evaluate: {every: 20, samples: 16}",
                     "evaluate: {every: 20, samples: 2000}"),
                "every: 7", "every: 20") +
           more;
  }
  static base::Output eval(const std::vector<std::string>& arguments) {
    base::Command command;
    command.arguments = {kTrainer, "eval"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    return base::run(command, kDeadline);
  }
  static json figures(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const base::Output output = eval(arguments);
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    return json::parse(output.text, nullptr, false);
  }
  static std::vector<std::string> checkpoints(const base::Path& run) {
    std::vector<std::string> found;
    for (const std::string& name : base::posix_file_system().list(run / "checkpoints")) {
      if (name.rfind("step-", 0) == 0) found.push_back((run / "checkpoints" / name).string());
    }
    return found;
  }
  static void expect_as_journalled(const base::Path& run, const json& figures) {
    int found = 0;
    for (const contract::EvalRecord& record : records_of<contract::EvalRecord>(run)) {
      if (record.step != figures["step"]) continue;
      ++found;
      EXPECT_EQ(figures["mlm_loss"].get<double>(), record.mlm_loss);
      EXPECT_EQ(figures["mlm_accuracy"].get<double>(), record.mlm_accuracy);
      EXPECT_EQ(figures["nsp_accuracy"].get<double>(), record.nsp_accuracy);
      EXPECT_EQ(figures["samples"].get<std::int64_t>(), record.samples);
      EXPECT_GT(record.samples, 100);
      EXPECT_GT(record.mlm_loss, 0);
    }
    EXPECT_EQ(found, 1) << figures;
  }
};

TEST_F(EvalProcess, GivesTheFiguresOfTheRun) {
  std::vector<double> losses;
  for (const std::string more :
       {"ranks: 1\n", "ranks: 3\n", "ranks: 2\nsharding: {optimizer: true}\n"}) {
    const base::Path run = make_run("run-" + std::to_string(losses.size()), text(more));
    ASSERT_EQ(run_to_end(run), 0) << log_of(run);
    const std::vector<std::string> there = checkpoints(run);
    ASSERT_EQ(there.size(), 2U);
    for (const std::string& checkpoint : there) {
      const json one = figures({checkpoint});
      EXPECT_EQ(one["checkpoint"], base::Path(checkpoint).filename().string());
      expect_as_journalled(run, one);
      json two = figures({checkpoint, "--threads", "2"});
      for (const char* figure : {"mlm_loss", "mlm_accuracy", "nsp_accuracy"}) {
        EXPECT_EQ(two[figure], one[figure]) << figure << " on two threads";
      }
    }
    const json newest = figures({run.string()});
    EXPECT_EQ(newest["step"], kSteps);
    EXPECT_EQ(newest["dataset"], dataset_->string());
    expect_as_journalled(run, newest);
    losses.push_back(newest["mlm_loss"].get<double>());
  }
  EXPECT_GT(std::set<double>(losses.begin(), losses.end()).size(), 1U)
      << "sums of other shares have other bits";
}

TEST_F(EvalProcess, ScoresAnotherDatasetOfTheSameVocabulary) {
  const base::Path run = make_run("run", text(""));
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  const json own = figures({run.string()});
  TemporaryDirectory elsewhere;
  std::filesystem::copy(*dataset_, elsewhere.path() / "copy");
  const json copied = figures({run.string(), "--dataset", (elsewhere.path() / "copy").string()});
  EXPECT_EQ(copied["mlm_loss"], own["mlm_loss"]) << "the same samples";

  std::ofstream(elsewhere.path() / "text.txt") << [] {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      text += "The mast and the rope.\nThe storm is number " + std::to_string(i) + ".\n\n";
    }
    return text;
  }();
  data::PrepareOptions options;
  options.inputs = {elsewhere.path() / "text.txt"};
  options.output = elsewhere.path() / "other";
  options.vocabulary = *dataset_ / "vocab.txt";
  options.threads = 1;
  options.held_out = 0.5;
  (void)data::prepare(options, base::posix_file_system(), {});
  const json other = figures({run.string(), "--dataset", options.output.string()});
  const data::Dataset dataset = data::Dataset::open(options.output);
  contract::DataConfig data;
  data.max_length = 48;
  EXPECT_EQ(other["samples"], samples::evaluation_samples(dataset, data, 2000).size());
  EXPECT_EQ(other["dataset"], options.output.string());
  EXPECT_NE(other["mlm_loss"], own["mlm_loss"]);

  options.output = elsewhere.path() / "foreign";
  options.vocabulary.clear();
  options.train_vocabulary = 256;
  (void)data::prepare(options, base::posix_file_system(), {});
  const base::Output refused = eval({run.string(), "--dataset", options.output.string()});
  EXPECT_NE(refused.exit.code, 0);
  EXPECT_NE(refused.errors.find("has another vocabulary than the run's"), std::string::npos)
      << refused.errors;
}

TEST_F(EvalProcess, SaysWhatItScoredAndRefusesWhatIsNoCheckpoint) {
  const base::Path run = make_run("run", text(""));
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  const std::vector<std::string> there = checkpoints(run);
  const std::string table = eval({run.string()}).text;
  const contract::EvalRecord last = records_of<contract::EvalRecord>(run).back();
  char loss[64];
  std::snprintf(loss, sizeof loss, "MLM loss                %.6f\n", last.mlm_loss);
  EXPECT_NE(table.find(loss), std::string::npos) << table;
  EXPECT_NE(table.find("held-out samples        " + std::to_string(last.samples) + "\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find(base::Path(there.back()).filename().string() + " of run small"),
            std::string::npos)
      << table;

  const auto refusal = [&](const std::vector<std::string>& arguments) {
    const base::Output output = eval(arguments);
    EXPECT_NE(output.exit.code, 0);
    EXPECT_EQ(output.text, "");
    return output.errors;
  };
  EXPECT_NE(refusal({(run / "nowhere").string()}).find("no checkpoint at"), std::string::npos);
  EXPECT_NE(refusal({(run / "attempts").string()}).find("neither a run directory nor a checkpoint"),
            std::string::npos);
  {
    std::fstream file(base::Path(there.back()) / "model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-5, std::ios::end);
    file.put('\x55');
  }
  EXPECT_NE(refusal({there.back()}).find("is damaged"), std::string::npos);
  expect_as_journalled(run, figures({run.string()}));
  const json older = figures({run.string()});
  EXPECT_EQ(older["step"], 20) << "the newest that is whole";
  const std::string note = older["notes"].at(0);
  EXPECT_EQ(note.rfind("skipped: " + base::Path(there.back()).filename().string(), 0), 0U) << note;
  EXPECT_EQ(eval({""}).exit.code, 2) << "a variable of a shell that is not set";
  EXPECT_EQ(eval({run.string(), "--dataset", ""}).exit.code, 2);
}

}  // namespace
}  // namespace regatta::tests
