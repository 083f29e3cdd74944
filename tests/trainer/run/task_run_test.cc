// Runs of tasks, in this process: their journals, targets, resumption, and what they begin with.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/run/task_fixture.h"
#include "trainer/contract/exit_code.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"
#include "trainer/interchange/any_model.h"
#include "trainer/model/initial_weights.h"
#include "trainer/run/training_run.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Task;

constexpr std::uint64_t kWhole = std::uint64_t{1} << 30U;
constexpr int kTaskSteps = 30;

class TaskRunTest : public testing::Test {
 protected:
  static base::FileSystem& disk() { return base::posix_file_system(); }
  static void SetUpTestSuite() {
    directory_ = new TemporaryDirectory;
    for (const Task task : {Task::QuestionAnswering, Task::Classification}) {
      (void)make_task_fixture(directory_->path() / contract::name_of(task), task);
    }
  }
  static void TearDownTestSuite() { delete directory_; }
  static base::Path dataset_of(Task task) {
    return directory_->path() / contract::name_of(task) / "dataset";
  }
  static contract::RunConfig config_for(Task task, int steps = kTaskSteps) {
    return contract::parse_run_config(task_run_file(task, dataset_of(task), steps), "run");
  }
  contract::RunDirectory make(const std::string& name, const contract::RunConfig& config) {
    return contract::RunDirectory::create(disk(), folder_.path() / name, contract::to_json(config));
  }
  static contract::ExitCode train(const contract::RunDirectory& run) {
    run::TrainingRunOptions options;
    options.variables = [](const char*) -> const char* { return nullptr; };
    options.first_state = [](const contract::RunConfig& config, const run::RunData& data) {
      interchange::StartingState state = interchange::starting_state(
          disk(), base::system_clock(), *config.from, config.model,
          {data.vocabulary(), data.lower_case(), data.labels()}, config.seed, config.threads);
      return run::FirstState{std::move(state.parameters), std::move(state.first_moment),
                             std::move(state.second_moment), state.step, std::move(state.notes)};
    };
    return run::train(disk(), base::system_clock(), run, options).code;
  }
  // Of the last attempt.
  template <typename Record>
  static std::vector<Record> of(const contract::RunDirectory& run) {
    std::vector<Record> found;
    const std::string journal = disk().read(run.journal_path(run.attempts().back()), kWhole);
    for (const contract::JournalRecord& record : contract::parse_journal(journal).records) {
      if (const auto* body = std::get_if<Record>(&record.body)) found.push_back(*body);
    }
    return found;
  }
  static std::map<std::int64_t, base::Path> saved(const contract::RunDirectory& run) {
    std::map<std::int64_t, base::Path> found;
    for (const std::string& name : disk().list(run.checkpoints_path())) {
      const auto parsed = checkpoint::parse_checkpoint_name(name);
      if (parsed) found[parsed->step] = run.checkpoints_path() / name;
    }
    return found;
  }
  static std::string bytes_of(const base::Path& checkpoint) {
    return disk().read(checkpoint / "model.safetensors", kWhole) +
           disk().read(checkpoint / "optimizer.safetensors", kWhole);
  }
  static std::map<std::string, std::vector<float>> tensors_of(const base::Path& checkpoint) {
    const auto reader =
        checkpoint::SafetensorsReader::open(disk(), checkpoint / "model.safetensors");
    std::map<std::string, std::vector<float>> tensors;
    for (const checkpoint::TensorInfo& info : reader.tensors()) {
      std::vector<float>& values = tensors[info.name];
      values.resize((info.end - info.begin) / sizeof(float));
      reader.read(info.name, info.dtype, info.shape, std::as_writable_bytes(std::span(values)));
    }
    return tensors;
  }

  TemporaryDirectory folder_;
  static inline TemporaryDirectory* directory_ = nullptr;
};

struct TaskFigures {
  Task task;
  std::vector<std::string> metrics;
  const char* metric;
  double baseline;
  std::int64_t samples;
};
const std::vector<TaskFigures>& figures() {
  // No answer is right for the impossible ones; good is the commonest.
  static const std::vector<TaskFigures> all{
      {Task::QuestionAnswering, {"exact", "f1", "loss"}, "f1", 2.0 / 8, kEvaluatedQuestions},
      {Task::Classification,
       {"accuracy", "f1", "matthews", "loss"},
       "accuracy",
       8.0 / 12,
       kEvaluatedSentences}};
  return all;
}

TEST_F(TaskRunTest, JournalTellsItsTaskAndAllFigures) {
  for (const TaskFigures& figure : figures()) {
    SCOPED_TRACE(contract::name_of(figure.task));
    const contract::RunDirectory run =
        make(contract::name_of(figure.task), config_for(figure.task));
    ASSERT_EQ(train(run), contract::ExitCode::Finished);
    const auto start = of<contract::StartRecord>(run).at(0);
    EXPECT_EQ(start.task, contract::name_of(figure.task));
    EXPECT_EQ(start.metric, figure.metric);
    ASSERT_TRUE(start.baseline.has_value());
    EXPECT_DOUBLE_EQ(*start.baseline, figure.baseline);
    EXPECT_FALSE(start.target.has_value());
    const auto steps = of<contract::StepRecord>(run);
    ASSERT_EQ(std::ssize(steps), kTaskSteps);
    for (const contract::StepRecord& step : steps) {
      EXPECT_TRUE(std::isfinite(step.loss));
      EXPECT_TRUE(std::isnan(step.mlm_loss) && std::isnan(step.nsp_loss));
      EXPECT_EQ(step.masked, 0);
      EXPECT_EQ(step.samples, 8);
    }
    const auto evaluations = of<contract::EvalRecord>(run);
    ASSERT_EQ(evaluations.size(), 1U + kTaskSteps / 5);
    for (const contract::EvalRecord& record : evaluations) {
      std::vector<std::string> names;
      for (const contract::Metric& metric : record.metrics) {
        names.push_back(metric.name);
        EXPECT_TRUE(std::isfinite(metric.value)) << metric.name;
      }
      std::sort(names.begin(), names.end());
      std::vector<std::string> expected = figure.metrics;
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(names, expected);
      EXPECT_TRUE(std::isnan(record.mlm_accuracy) && std::isnan(record.mlm_loss));
      EXPECT_EQ(record.samples, figure.samples);
      EXPECT_FALSE(record.target_met);
    }
    EXPECT_LT(contract::value_of(evaluations.back(), "loss"),
              contract::value_of(evaluations.front(), "loss"))
        << "it learns";
    // What is kept as the best is judged by the metric, too.
    for (const auto& [step, path] : saved(run)) {
      const checkpoint::Manifest manifest = checkpoint::parse_manifest(
          disk().read(path / checkpoint::kManifestFile, kWhole), path.string());
      EXPECT_EQ(manifest.metric, figure.metric);
      const auto at = std::find_if(evaluations.begin(), evaluations.end(),
                                   [s = step](const auto& record) { return record.step == s; });
      ASSERT_NE(at, evaluations.end());
      EXPECT_EQ(manifest.value, contract::value_of(*at, figure.metric));
    }
  }
}

// Ends with the first evaluation that is as good as the best of a run without a target, to the last
// bit; the metric is the task's or another one.
TEST_F(TaskRunTest, EndsWhereItsTargetIsMet) {
  for (const TaskFigures& figure : figures()) {
    const contract::RunConfig plain = config_for(figure.task);
    const contract::RunDirectory without = make(contract::name_of(figure.task) + "-without", plain);
    ASSERT_EQ(train(without), contract::ExitCode::Finished);
    const auto curve = of<contract::EvalRecord>(without);
    for (const contract::TargetMetric metric :
         {contract::standard_metric(figure.task), contract::TargetMetric::Loss}) {
      const std::string name = contract::name_of(metric);
      SCOPED_TRACE(contract::name_of(figure.task) + " by " + name);
      const bool loss = contract::is_loss(metric);
      double best = contract::value_of(curve.front(), name);
      for (const contract::EvalRecord& record : curve) {
        const double value = contract::value_of(record, name);
        best = loss ? std::min(best, value) : std::max(best, value);
      }
      const auto first = std::find_if(curve.begin(), curve.end(), [&](const auto& record) {
        return contract::value_of(record, name) == best;
      });
      ASSERT_GT(best, 0) << "a target is more than 0";
      contract::RunConfig config = plain;
      config.target = contract::TargetConfig{metric, best, std::nullopt};
      const contract::RunDirectory run = make(contract::name_of(figure.task) + name, config);
      ASSERT_EQ(train(run), contract::ExitCode::Finished);
      const auto start = of<contract::StartRecord>(run).at(0);
      EXPECT_EQ(start.metric, name);
      EXPECT_EQ(start.target, best);
      EXPECT_EQ(start.baseline.has_value(), !loss);
      const auto end = of<contract::EndRecord>(run).at(0);
      EXPECT_EQ(end.reason, "target");
      EXPECT_EQ(end.step, first->step);
      const auto evaluations = of<contract::EvalRecord>(run);
      EXPECT_EQ(std::ssize(evaluations), first - curve.begin() + 1);
      EXPECT_TRUE(evaluations.back().target_met);
      EXPECT_EQ(contract::value_of(evaluations.back(), name), best);
    }
  }
}

TEST_F(TaskRunTest, TargetsCanBeTimesTheBaseline) {
  contract::RunConfig config = config_for(Task::Classification, 5);
  config.target = contract::TargetConfig{contract::TargetMetric::Accuracy, std::nullopt, 1.2};
  config.stop_at_target = false;
  const contract::RunDirectory run = make("times", config);
  ASSERT_EQ(train(run), contract::ExitCode::Finished);
  EXPECT_DOUBLE_EQ(of<contract::StartRecord>(run).at(0).target.value_or(-1), 1.2 * 8 / 12);
}

TEST_F(TaskRunTest, EvaluatesAsManyAsTheFileSays) {
  const contract::RunDirectory run = make("all", config_for(Task::Classification, 5));
  contract::RunConfig config = config_for(Task::Classification, 5);
  config.evaluate_samples = 3;  // bad, good, good
  const contract::RunDirectory three = make("three", config);
  ASSERT_EQ(train(run), contract::ExitCode::Finished);
  ASSERT_EQ(train(three), contract::ExitCode::Finished);
  EXPECT_EQ(of<contract::EvalRecord>(run).back().samples, kEvaluatedSentences);
  EXPECT_EQ(of<contract::EvalRecord>(three).back().samples, 3);
  EXPECT_DOUBLE_EQ(of<contract::StartRecord>(three).at(0).baseline.value_or(-1), 2.0 / 3);
}

// When it begins, and not again when it goes on.
TEST_F(TaskRunTest, TellsOnceWhatItDoesNotTrainOn) {
  const std::string one =
      R"("paragraphs": [{"context": "\u0301 boat", "qas": [{"id": "mark", "question": "row.", )"
      R"("is_impossible": false, "answers": [{"text": "\u0301", "answer_start": 0}]}]}, )";
  std::string training = questions(20);
  const std::string first = R"("paragraphs": [)";
  training.replace(training.find(first), first.size(), one);
  tasks::TaskPrepareOptions options;
  options.task = Task::QuestionAnswering;
  options.training = folder_.path() / "training.json";
  options.evaluation = directory_->path() / "question-answering" / "evaluation.json";
  options.vocabulary = dataset_of(Task::QuestionAnswering) / "vocab.txt";
  options.output = folder_.path() / "dataset";
  write_file(options.training, training);
  (void)tasks::prepare_task(options, disk());
  contract::RunConfig config = config_for(Task::QuestionAnswering, 20);
  config.data.path = options.output.string();
  const contract::RunDirectory run = make("left-out", config);
  ASSERT_EQ(train(run), contract::ExitCode::Finished);
  const auto warnings = of<contract::WarningRecord>(run);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].message.rfind("1 question of 21 left out of training: ", 0), 0U)
      << warnings[0].message;
  disk().remove_tree(saved(run).at(20));
  ASSERT_EQ(train(run), contract::ExitCode::Finished);
  EXPECT_EQ(of<contract::StartRecord>(run).at(0).first_step, 10);
  EXPECT_TRUE(of<contract::WarningRecord>(run).empty());
}

// An attempt that has only an earlier checkpoint makes the same weights, figures and moments.
TEST_F(TaskRunTest, ResumesWithTheSameBits) {
  for (const TaskFigures& figure : figures()) {
    contract::RunConfig config = config_for(figure.task);
    config.fine_tuning = {0.9, 1, 0.1};
    const contract::RunDirectory run = make(contract::name_of(figure.task), config);
    ASSERT_EQ(train(run), contract::ExitCode::Finished);
    const std::string last = bytes_of(saved(run).at(kTaskSteps));
    const auto evaluated = of<contract::EvalRecord>(run).back();
    for (const std::int64_t from : {20, 10, 0}) {
      SCOPED_TRACE(contract::name_of(figure.task) + " from " + std::to_string(from));
      for (const auto& [step, path] : saved(run)) {
        if (step > from) disk().remove_tree(path);
      }
      ASSERT_EQ(train(run), contract::ExitCode::Finished);
      EXPECT_EQ(of<contract::StartRecord>(run).at(0).first_step, from);
      EXPECT_TRUE(bytes_of(saved(run).at(kTaskSteps)) == last);
      const auto again = of<contract::EvalRecord>(run).back();
      ASSERT_EQ(again.metrics.size(), evaluated.metrics.size());
      for (std::size_t i = 0; i < again.metrics.size(); ++i) {
        EXPECT_EQ(again.metrics[i].value, evaluated.metrics[i].value) << again.metrics[i].name;
      }
    }
  }
}

TEST_F(TaskRunTest, RefusesADatasetOfAnotherTask) {
  contract::RunConfig regression = config_for(Task::Classification);
  regression.model.task = Task::Regression;
  contract::RunConfig answers = config_for(Task::Classification);
  answers.model.task = Task::QuestionAnswering;
  answers.questions.max_question = 8;
  contract::RunConfig classes = config_for(Task::QuestionAnswering);
  classes.model.task = Task::Classification;
  classes.questions = {};
  contract::RunConfig none = config_for(Task::QuestionAnswering);
  none.model.task = Task::Pretraining;
  contract::RunConfig nowhere = config_for(Task::Classification);
  nowhere.data.path = (folder_.path() / "nothing").string();
  const std::pair<contract::RunConfig, const char*> rows[] = {
      {regression,
       " is a dataset for task classification, and the run's task is regression; set task to it, "
       "or name another dataset"},
      {answers,
       " is a dataset for task classification, and the run's task is question-answering; set"},
      {classes,
       " is a dataset for task question-answering, and the run's task is classification; set"},
      {none,
       " is a dataset of a task, and the run file names none; set task to question-answering"},
      {nowhere, "nothing"}};
  int number = 0;
  for (const auto& [config, message] : rows) {
    SCOPED_TRACE(message);
    const contract::RunDirectory run = make("bad" + std::to_string(number++), config);
    EXPECT_NE(train(run), contract::ExitCode::Finished);
    const auto end = of<contract::EndRecord>(run).at(0);
    EXPECT_EQ(end.reason, "failed");
    EXPECT_NE(end.message.find(message), std::string::npos) << end.message;
    EXPECT_EQ(end.message.find('\n'), std::string::npos) << end.message;
    EXPECT_TRUE(of<contract::StepRecord>(run).empty());
  }
}

// A run whose only step is too small to be seen has the weights that it began with.
TEST_F(TaskRunTest, BeginsWithTheEncoderOfAnotherRun) {
  const contract::RunDirectory parent = make("parent", config_for(Task::Classification));
  ASSERT_EQ(train(parent), contract::ExitCode::Finished);
  const base::Path newest = saved(parent).at(kTaskSteps);
  for (const auto& [name, from, of_step] :
       {std::tuple<std::string, base::Path, std::int64_t>{"run", parent.path(), kTaskSteps},
        {"step", saved(parent).at(10), 10}}) {
    SCOPED_TRACE(name);
    contract::RunConfig config = config_for(Task::QuestionAnswering, 1);
    config.optimizer.learning_rate = 1e-30;
    config.from = contract::StartConfig{from.string(), false};
    const contract::RunDirectory child = make("of-" + name, config);
    ASSERT_EQ(train(child), contract::ExitCode::Finished);
    EXPECT_EQ(of<contract::StartRecord>(child).at(0).first_step, 0);
    const auto theirs = tensors_of(saved(parent).at(of_step));
    int same = 0;
    for (const auto& [tensor, mine] : tensors_of(saved(child).at(1))) {
      const bool encoder =
          tensor.rfind("bert.encoder.", 0) == 0 || tensor.rfind("bert.embeddings.", 0) == 0;
      if (!encoder) {
        EXPECT_TRUE(tensor == "qa_outputs.weight" || tensor == "qa_outputs.bias") << tensor;
        continue;
      }
      const std::vector<float>& expected = theirs.at(tensor);
      ASSERT_EQ(mine.size(), expected.size()) << tensor;
      double most = 0;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        most = std::max(most, static_cast<double>(std::abs(mine[i] - expected[i])));
      }
      EXPECT_LT(most, 1e-20) << tensor;
      ++same;
    }
    EXPECT_EQ(same, 5 + 2 * 16);
  }
  // And another one has not.
  contract::RunConfig config = config_for(Task::QuestionAnswering, 1);
  config.optimizer.learning_rate = 1e-30;
  const contract::RunDirectory stranger = make("stranger", config);
  ASSERT_EQ(train(stranger), contract::ExitCode::Finished);
  const std::string tensor = "bert.encoder.layer.0.intermediate.dense.weight";
  EXPECT_NE(tensors_of(saved(stranger).at(1)).at(tensor), tensors_of(newest).at(tensor));
}

}  // namespace
}  // namespace regatta::tests
