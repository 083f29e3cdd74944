// What a run of a fine-tuning task leaves as: its own class, with its own trained head.
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "tests/trainer/interchange/task_run.h"
#include "tests/trainer/interchange/trained_run.h"
#include "trainer/interchange/any_model.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Task;
using interchange::HuggingFaceClass;
using nlohmann::json;

base::FileSystem& export_disk() { return base::posix_file_system(); }

class TaskExport : public testing::TestWithParam<Task> {
 protected:
  [[nodiscard]] const base::Path& path() const { return directory_.path(); }
  [[nodiscard]] TaskRun made() const { return make_task_run(path() / "task", GetParam()); }
  [[nodiscard]] interchange::ExportOptions options(const TaskRun& run) const {
    interchange::ExportOptions options;
    options.checkpoint = run.run;
    options.output = path() / "model";
    return options;
  }

 private:
  TemporaryDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(All, TaskExport,
                         testing::Values(Task::Pretraining, Task::QuestionAnswering,
                                         Task::Classification, Task::Regression),
                         [](const auto& each) {
                           std::string name = contract::name_of(each.param);
                           std::erase(name, '-');
                           return name;
                         });

json read_by_python(const base::Path& exported, const base::Path& checkpoint) {
  base::Command command;
  command.arguments = {
      "python3", "-B",
      std::string(REGATTA_SOURCE_DIR) + "/tests/trainer/interchange/exported_run.py",
      exported.string(), checkpoint.string()};
  const base::Output output = base::run(command, 200);
  EXPECT_EQ(output.exit.code.value_or(-1), 0) << output.errors;
  return json::parse(output.text, nullptr, false);
}

const char* expected_class(Task task) {
  if (task == Task::Pretraining) return "BertForPreTraining";
  return task == Task::QuestionAnswering ? "BertForQuestionAnswering"
                                         : "BertForSequenceClassification";
}

TEST_P(TaskExport, AnotherReaderFindsTheTrainedHeadUnderItsNames) {
  const TaskRun run = made();
  const interchange::ExportReport report = interchange::export_model(export_disk(), options(run));
  EXPECT_TRUE(report.notes.empty()) << report.notes.front();
  EXPECT_EQ(report.step, kTaskRunStep);
  EXPECT_EQ(report.tensors, static_cast<std::int64_t>(run.table.tensors.size()));
  const json read = read_by_python(path() / "model", run.checkpoint);
  const json& config = read.at("config");
  EXPECT_EQ(config.at("architectures"), json({expected_class(GetParam())}));
  EXPECT_EQ(read.at("tokenizer").at("do_lower_case"), true);
  if (GetParam() == Task::Classification) {
    EXPECT_EQ(config.at("id2label"), json({{"0", "no"}, {"1", "so so"}, {"2", "yes"}}));
    EXPECT_EQ(config.at("label2id"), json({{"no", 0}, {"so so", 1}, {"yes", 2}}));
    EXPECT_EQ(config.at("problem_type"), "single_label_classification");
  } else if (GetParam() == Task::Regression) {
    EXPECT_EQ(config.at("id2label"), json({{"0", "LABEL_0"}}));
    EXPECT_EQ(config.at("label2id"), json({{"LABEL_0", 0}}));
    EXPECT_EQ(config.at("problem_type"), "regression");
  } else {
    EXPECT_EQ(config.count("id2label") + config.count("problem_type"), 0U);
  }
}

TEST_P(TaskExport, OpensAgainWithTheSameBits) {
  const TaskRun run = made();
  (void)interchange::export_model(export_disk(), options(run));
  for (const base::Path& from : {path() / "model", run.run, run.checkpoint}) {
    SCOPED_TRACE(from);
    const interchange::AnyModel model =
        interchange::open_any_model(export_disk(), base::system_clock(), {from, {}, GetParam()});
    EXPECT_EQ(model.shape.task, GetParam());
    EXPECT_EQ(contract::model_fingerprint(model.shape),
              contract::model_fingerprint(run.config.model));
    EXPECT_TRUE(same_tensors(run.table, model.parameters, run.state.parameters));
    EXPECT_EQ(model.parameters, run.state.parameters) << "gaps are zero";
    EXPECT_EQ(model.vocabulary.text(), vocabulary_of(run).text());
    EXPECT_TRUE(model.lower_case);
    EXPECT_TRUE(model.notes.empty()) << model.notes.front();
    const bool classes = GetParam() == Task::Classification;
    EXPECT_EQ(model.labels, classes ? (std::vector<std::string>{"no", "so so", "yes"})
                                    : std::vector<std::string>{});
    EXPECT_EQ(model.max_length, from == path() / "model" ? 48 : 40);
  }
}

// With its moments, a fine-tuned model comes back as a run at the same step, and leaves it as it
// came.
TEST_P(TaskExport, ComesBackAsARun) {
  const TaskRun run = made();
  interchange::ExportOptions out = options(run);
  out.with_optimizer = true;
  (void)interchange::export_model(export_disk(), out);
  write_text(path() / "run.yaml", task_run_text(GetParam(), run.dataset));
  interchange::ImportOptions in;
  in.from = out.output;
  in.run_file = path() / "run.yaml";
  in.run_directory = path() / "imported";
  in.with_optimizer = true;
  const interchange::ImportReport report =
      interchange::import_model(export_disk(), base::system_clock(), in);
  EXPECT_EQ(report.step, kTaskRunStep);
  EXPECT_EQ(newest_state(in.run_directory), newest_state(run.run));
  out.checkpoint = in.run_directory;
  out.output = path() / "again";
  (void)interchange::export_model(export_disk(), out);
  EXPECT_EQ(contents_of(path() / "again"), contents_of(path() / "model"));
}

TEST_P(TaskExport, AnEncoderLeavesTheHeadBehind) {
  const TaskRun run = made();
  interchange::ExportOptions out = options(run);
  out.model = HuggingFaceClass::Encoder;
  const interchange::ExportReport report = interchange::export_model(export_disk(), out);
  const bool pooler = GetParam() != Task::QuestionAnswering;
  EXPECT_EQ(report.notes.size(), pooler ? 0U : 1U);
  std::set<std::string> names;
  for (const StoredTensor& tensor : read_tensors(out.output / "model.safetensors")) {
    names.insert(tensor.name);
  }
  EXPECT_EQ(names.size(), 37U + (pooler ? 2U : 0U));  // 5 of embeddings, 16 of a layer
  EXPECT_EQ(names.count("pooler.dense.weight"), pooler ? 1U : 0U);
  EXPECT_EQ(names.count("encoder.layer.1.output.dense.bias"), 1U);
}

// The dataset is gone: the number of labels is the checkpoint's, their names are lost.
TEST_P(TaskExport, WithoutTheDatasetAVocabularyIsEnough) {
  const TaskRun run = made();
  write_text(path() / "vocab.txt", vocabulary_of(run).text());
  export_disk().remove_tree(run.dataset);
  interchange::ExportOptions out = options(run);
  const base::Error error = error_of([&] { (void)interchange::export_model(export_disk(), out); });
  EXPECT_NE(std::string(error.what()).find("--vocab"), std::string::npos) << error.what();
  out.vocabulary = path() / "vocab.txt";
  const interchange::ExportReport report = interchange::export_model(export_disk(), out);
  const bool classes = GetParam() == Task::Classification;
  EXPECT_EQ(report.notes.size(), classes ? 1U : 0U);
  const json config = read_by_python(out.output, run.checkpoint).at("config");
  if (classes) {
    EXPECT_EQ(config.at("id2label"), json({{"0", "LABEL_0"}, {"1", "LABEL_1"}, {"2", "LABEL_2"}}));
  }
}

struct BadTaskExport {
  const char* name;
  std::function<void(interchange::ExportOptions*)> spoil;
  std::vector<Task> tasks;  // that it is wrong for
  const char* says;
};

TEST_P(TaskExport, RefusesAHeadThatTheRunDoesNotTrain) {
  const TaskRun run = made();
  const auto as = [](HuggingFaceClass model) {
    return [model](interchange::ExportOptions* out) { out->model = model; };
  };
  const std::vector<BadTaskExport> cases = {
      {"as pre-training",
       as(HuggingFaceClass::ForPreTraining),
       {Task::QuestionAnswering, Task::Classification, Task::Regression},
       "no head of a BertForPreTraining"},
      {"as questions",
       as(HuggingFaceClass::ForQuestionAnswering),
       {Task::Classification, Task::Regression},
       "no head of a BertForQuestionAnswering"},
      {"as classes",
       as(HuggingFaceClass::ForSequenceClassification),
       {Task::Pretraining, Task::QuestionAnswering},
       "no head of a BertForSequenceClassification"},
      {"a head from elsewhere",
       [](interchange::ExportOptions* out) { out->question_head = "head.safetensors"; },
       {Task::Pretraining, Task::QuestionAnswering, Task::Classification, Task::Regression},
       "--qa-head goes with"},
      {"moments of an encoder",
       [](interchange::ExportOptions* out) {
         out->model = HuggingFaceClass::Encoder;
         out->with_optimizer = true;
       },
       {Task::Pretraining, Task::QuestionAnswering, Task::Classification, Task::Regression},
       "--with-optimizer"},
  };
  for (const BadTaskExport& c : cases) {
    SCOPED_TRACE(c.name);
    interchange::ExportOptions out = options(run);
    c.spoil(&out);
    const bool wrong = std::find(c.tasks.begin(), c.tasks.end(), GetParam()) != c.tasks.end();
    if (!wrong) continue;
    const base::Error error =
        error_of([&] { (void)interchange::export_model(export_disk(), out); });
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
    EXPECT_FALSE(export_disk().exists(path() / "model"));
  }
}

}  // namespace
}  // namespace regatta::tests
