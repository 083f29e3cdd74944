// Models of every form, opened and started from.
#include "trainer/interchange/any_model.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/trainer/interchange/task_run.h"
#include "tests/trainer/interchange/trained_run.h"
#include "trainer/model/initial_weights.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Task;
using interchange::AnyModel;
using interchange::HuggingFaceClass;
using nlohmann::json;

constexpr std::uint64_t kSeed = 11;

// Runs of every task, made once; what a test writes is below path().
class AnyModelOf : public testing::Test {
 protected:
  static void SetUpTestSuite() { suite_ = new TemporaryDirectory; }
  static void TearDownTestSuite() {
    runs_.clear();
    delete suite_;
  }
  static const TaskRun& run_of(Task task) {
    auto it = runs_.find(task);
    if (it == runs_.end()) {
      it = runs_.emplace(task, make_task_run(suite_->path() / contract::name_of(task), task)).first;
    }
    return it->second;
  }
  [[nodiscard]] const base::Path& path() const { return directory_.path(); }
  [[nodiscard]] base::Path exported(Task task, std::optional<HuggingFaceClass> model = {},
                                    bool moments = false) const {
    interchange::ExportOptions options;
    options.checkpoint = run_of(task).run;
    options.output = path() / "model";
    options.model = model;
    options.with_optimizer = moments;
    options.force = true;
    (void)interchange::export_model(base::posix_file_system(), options);
    return options.output;
  }
  static AnyModel open(const base::Path& path, std::optional<Task> task = {}) {
    return interchange::open_any_model(base::posix_file_system(), base::system_clock(),
                                       {path, {}, task});
  }
  static interchange::StartingState start(const base::Path& from, const TaskRun& run,
                                          bool optimizer = false, int threads = 1) {
    return start(from, run.config.model, vocabulary_of(run), optimizer, threads);
  }
  static interchange::StartingState start(const base::Path& from, const contract::ModelShape& shape,
                                          const data::Vocabulary& vocabulary,
                                          bool optimizer = false, int threads = 1,
                                          const std::vector<std::string>& labels = {}) {
    return interchange::starting_state(base::posix_file_system(), base::system_clock(),
                                       {from.string(), optimizer}, shape,
                                       {vocabulary, true, labels}, kSeed, threads);
  }

 private:
  TemporaryDirectory directory_;
  static inline TemporaryDirectory* suite_ = nullptr;
  static inline std::map<Task, TaskRun> runs_;
};

std::string joined_notes(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += note + "\n";
  return text;
}

// --- opening ---

void drop_tensors(const base::Path& model, const std::vector<std::string>& beginnings) {
  std::vector<StoredTensor> kept;
  for (StoredTensor& tensor : read_tensors(model / "model.safetensors")) {
    const bool dropped = std::any_of(
        beginnings.begin(), beginnings.end(),
        [&](const std::string& beginning) { return tensor.name.rfind(beginning, 0) == 0; });
    if (!dropped) kept.push_back(std::move(tensor));
  }
  write_tensors(model / "model.safetensors", kept);
}

void set_architecture(const base::Path& model, const char* name) {
  change_config(model, [&](json& config) {
    config.erase("architectures");
    if (name != nullptr) config["architectures"] = {name};
  });
}

TEST_F(AnyModelOf, WithoutArchitecturesTheTensorsTellTheTask) {
  for (const Task task :
       {Task::Pretraining, Task::QuestionAnswering, Task::Classification, Task::Regression}) {
    SCOPED_TRACE(contract::name_of(task));
    const base::Path model = exported(task);
    set_architecture(model, nullptr);
    const AnyModel opened = open(model, task);
    EXPECT_EQ(opened.shape.task, task);
    EXPECT_TRUE(same_tensors(run_of(task).table, opened.parameters, run_of(task).state.parameters));
  }
}

TEST_F(AnyModelOf, AMaskedLanguageModelHasTheHeadForMaskedWords) {
  const base::Path model = exported(Task::Pretraining);
  set_architecture(model, "BertForMaskedLM");
  drop_tensors(model, {"bert.pooler.", "cls.seq_relationship."});
  const AnyModel opened = open(model, Task::Pretraining);
  EXPECT_EQ(joined_notes(opened.notes),
            "no bert.pooler.*: initialised as for a new run\n"
            "no cls.seq_relationship.*: initialised as for a new run\n");
  const TaskRun& run = run_of(Task::Pretraining);
  EXPECT_EQ(other_tensors(run.table, opened.parameters, run.table, run.state.parameters),
            (std::vector<std::string>{"cls.seq_relationship.bias", "cls.seq_relationship.weight",
                                      "bert.pooler.dense.bias", "bert.pooler.dense.weight"}));
}

TEST_F(AnyModelOf, AnEncoderIsOneForPretrainingWithNewHeads) {
  const AnyModel opened = open(exported(Task::Pretraining, HuggingFaceClass::Encoder));
  EXPECT_EQ(opened.shape.task, Task::Pretraining);
  EXPECT_EQ(opened.name, "model");
  EXPECT_EQ(opened.notes.size(), 2U) << joined_notes(opened.notes);
}

// A head for each token has tensors of the same names, but no pooler.
TEST_F(AnyModelOf, AHeadForTokensIsNotTakenForOneOfTexts) {
  const base::Path model = exported(Task::Classification);
  for (const char* kind : {"BertForTokenClassification", static_cast<const char*>(nullptr)}) {
    set_architecture(model, kind);
    if (kind == nullptr) drop_tensors(model, {"bert.pooler."});
    const AnyModel opened = open(model);
    EXPECT_EQ(opened.shape.task, Task::Pretraining);
    EXPECT_TRUE(opened.labels.empty());
    const base::Error error = error_of([&] { (void)open(model, Task::Classification); });
    EXPECT_NE(std::string(error.what()).find("has no head for classification"), std::string::npos)
        << error.what();
  }
}

// A random one would give random answers; a run that starts there trains it.
TEST_F(AnyModelOf, AClassifierWithoutItsPoolerIsNotTried) {
  for (const Task task : {Task::Classification, Task::Regression}) {
    const base::Path model = exported(task);
    drop_tensors(model, {"bert.pooler."});
    for (const std::optional<Task>& asked : {std::optional<Task>(), std::optional<Task>(task)}) {
      const base::Error error = error_of([&] { (void)open(model, asked); });
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_NE(std::string(error.what()).find("model: has no bert.pooler.*, without which"),
                std::string::npos)
          << error.what();
    }
    const auto notes = start(model, run_of(task)).notes;
    EXPECT_EQ(notes.front(), "no bert.pooler.*: initialised as for a new run");
  }
}

TEST_F(AnyModelOf, LabelsWithoutNamesAreNumbered) {
  const TaskRun& run = run_of(Task::Classification);
  const base::Path model = exported(Task::Classification);
  change_config(model, [](json& config) {
    for (const char* key : {"id2label", "label2id", "problem_type"}) config.erase(key);
    config["num_labels"] = 3;
  });
  const AnyModel opened = open(model);
  EXPECT_EQ(opened.labels, (std::vector<std::string>{"LABEL_0", "LABEL_1", "LABEL_2"}));
  EXPECT_EQ(opened.parameters, run.state.parameters);
}

TEST_F(AnyModelOf, WithoutATokenizerTheVocabularyTellsItsCase) {
  const base::Path model = exported(Task::QuestionAnswering);
  base::posix_file_system().remove_file(model / "tokenizer_config.json");
  EXPECT_TRUE(open(model).lower_case);
  std::string pieces = contents_of(model).at("vocab.txt");
  pieces.replace(pieces.find("boat"), 4, "Boat");
  write_text(model / "vocab.txt", pieces);
  EXPECT_FALSE(open(model).lower_case);
}

// --- starting ---

TEST_F(AnyModelOf, ARunOfTheSameTaskIsTakenWhole) {
  for (const Task task :
       {Task::Pretraining, Task::QuestionAnswering, Task::Classification, Task::Regression}) {
    SCOPED_TRACE(contract::name_of(task));
    const TaskRun& run = run_of(task);
    for (const base::Path& from : {run.run, run.checkpoint, exported(task, {}, true)}) {
      const interchange::StartingState weights = start(from, run);
      EXPECT_EQ(weights.parameters, run.state.parameters);
      EXPECT_TRUE(weights.first_moment.empty() && weights.second_moment.empty());
      EXPECT_EQ(weights.step, 0);
      const interchange::StartingState all = start(from, run, true);
      EXPECT_EQ(all.parameters, run.state.parameters);
      EXPECT_EQ(all.first_moment, run.state.first_moment);
      EXPECT_EQ(all.second_moment, run.state.second_moment);
      EXPECT_EQ(all.step, kTaskRunStep);
      EXPECT_EQ(joined_notes(all.notes),
                task == Task::Classification
                    ? "the classifier's labels are, in their order: no, so so, yes\n"
                    : "");
    }
  }
}

// Rows of a classifier and its moments go where the labels of their names are.
TEST_F(AnyModelOf, LabelsAreMatchedByTheirNames) {
  const TaskRun& run = run_of(Task::Classification);
  const std::size_t rows[] = {2, 0, 1};  // of "yes", "no" and "so so" there
  for (const base::Path& from : {run.run, exported(Task::Classification, {}, true)}) {
    const auto state =
        start(from, run.config.model, vocabulary_of(run), true, 1, {"yes", "no", "so so"});
    EXPECT_EQ(joined_notes(state.notes),
              "the classifier's labels, there in the order no, so so, yes, were put in the "
              "dataset's: yes, no, so so\n");
    for (const auto& [ours, theirs] : {std::pair(&state.parameters, &run.state.parameters),
                                       {&state.first_moment, &run.state.first_moment},
                                       {&state.second_moment, &run.state.second_moment}}) {
      EXPECT_EQ(other_tensors(run.table, *theirs, run.table, *ours),
                (std::vector<std::string>{"classifier.bias", "classifier.weight"}));
      for (const auto& [name, width] :
           {std::pair("classifier.bias", 1), {"classifier.weight", 32}}) {
        const std::int64_t offset = run.table.at(name).offset;
        for (std::size_t i = 0; i < 3; ++i) {
          const auto there = theirs->begin() + offset + static_cast<int>(rows[i]) * width;
          EXPECT_TRUE(std::equal(there, there + width,
                                 ours->begin() + offset + static_cast<int>(i) * width))
              << name << " " << i;
        }
      }
    }
  }
}

TEST_F(AnyModelOf, LabelsWithoutNamesAreMatchedByTheirOrder) {
  const TaskRun& run = run_of(Task::Classification);
  const base::Path model = exported(Task::Classification);
  EXPECT_EQ(
      start(model, run.config.model, vocabulary_of(run), false, 1, {"0", "1", "2"}).parameters,
      run.state.parameters);
  change_config(model, [](json& config) { config.erase("id2label"), config["num_labels"] = 3; });
  const auto state =
      start(model, run.config.model, vocabulary_of(run), false, 1, {"yes", "no", "so so"});
  EXPECT_EQ(state.parameters, run.state.parameters);
  EXPECT_EQ(joined_notes(state.notes),
            "the classifier's labels have no names on one side and are taken in their order: "
            "LABEL_0, LABEL_1, LABEL_2 for yes, no, so so\n");
}

TEST_F(AnyModelOf, OfOtherLabelsTheHeadIsNew) {
  const TaskRun& run = run_of(Task::Classification);
  const std::vector<std::string> labels{"maybe", "no", "yes"};
  const auto state = start(run.run, run.config.model, vocabulary_of(run), false, 1, labels);
  EXPECT_EQ(joined_notes(state.notes),
            "classifier.*: initialised as for a new run (the labels differ: only the model has so "
            "so, only the dataset has maybe)\n"
            "2 tensors were not used, the first is 'classifier.bias'\n");
  EXPECT_EQ(other_tensors(run.table, state.parameters, run.table, run.state.parameters),
            (std::vector<std::string>{"classifier.bias", "classifier.weight"}));
  const std::vector<float> fresh = model::initial_weights(run.table, kSeed);
  EXPECT_EQ(other_tensors(run.table, state.parameters, run.table, fresh).size(),
            run.table.tensors.size() - 2);
  const base::Error error = error_of(
      [&] { (void)start(run.run, run.config.model, vocabulary_of(run), true, 1, labels); });
  EXPECT_EQ(error.code(), base::Code::User);
  EXPECT_NE(std::string(error.what()).find("only the model has so so"), std::string::npos)
      << error.what();
}

struct OtherTask {
  const char* name;
  Task from;
  Task to;
  int labels;
  std::vector<std::string> drawn;  // tensors as for a new run
  const char* notes;
};

TEST_F(AnyModelOf, OfAnotherTaskTheEncoderIsTakenAndTheHeadIsNew) {
  const std::vector<std::string> classifier{"classifier.bias", "classifier.weight"};
  const std::vector<std::string> pooled{"classifier.bias", "classifier.weight",
                                        "bert.pooler.dense.bias", "bert.pooler.dense.weight"};
  const OtherTask kCases[] = {
      {"numbers to classes", Task::Regression, Task::Classification, 3, classifier,
       "no classifier.*: initialised as for a new run (the head there is for regression)\n"
       "2 tensors were not used, the first is 'classifier.bias'\n"},
      {"classes to numbers", Task::Classification, Task::Regression, 0, classifier,
       "no classifier.*: initialised as for a new run (the head there is for classification with 3 "
       "labels)\n2 tensors were not used, the first is 'classifier.bias'\n"},
      {"classes to other classes", Task::Classification, Task::Classification, 2, classifier,
       "no classifier.*: initialised as for a new run (the head there is for classification with 3 "
       "labels)\n2 tensors were not used, the first is 'classifier.bias'\n"},
      {"questions to classes", Task::QuestionAnswering, Task::Classification, 3, pooled,
       "no bert.pooler.*: initialised as for a new run\n"
       "no classifier.*: initialised as for a new run (the head there is for question-answering)\n"
       "2 tensors were not used, the first is 'qa_outputs.bias'\n"},
      {"classes to questions",
       Task::Classification,
       Task::QuestionAnswering,
       0,
       {"qa_outputs.bias", "qa_outputs.weight"},
       "no qa_outputs.*: initialised as for a new run\n"
       "4 tensors were not used, the first is 'classifier.bias'\n"},
  };
  for (const OtherTask& c : kCases) {
    SCOPED_TRACE(c.name);
    const TaskRun& run = run_of(c.from);
    contract::ModelShape shape = run.config.model;
    shape.task = c.to;
    shape.labels = c.labels;
    const contract::TensorTable table = contract::make_tensor_table(shape);
    const std::vector<float> fresh = model::initial_weights(table, kSeed);
    for (const int threads : {1, 3}) {
      const auto state = start(run.run, shape, vocabulary_of(run), false, threads);
      EXPECT_EQ(joined_notes(state.notes), c.notes);
      std::vector<std::string> drawn;
      for (const contract::TensorEntry& entry : table.tensors) {
        const auto part = [&](const std::vector<float>& arena) {
          const auto at = arena.begin() + entry.offset;
          return std::vector<float>(at, at + entry.size);
        };
        if (part(state.parameters) == part(fresh)) drawn.push_back(entry.name);
      }
      EXPECT_EQ(drawn, c.drawn);
      const auto others = other_tensors(run.table, run.state.parameters, table, state.parameters);
      for (const std::string& name : others) {
        EXPECT_NE(std::find(c.drawn.begin(), c.drawn.end(), name), c.drawn.end()) << name;
      }
    }
  }
}

// The usual way: a pre-trained model, and data prepared with its vocabulary.
TEST_F(AnyModelOf, APretrainedModelGetsTheHeadOfATask) {
  const TaskRun& run = run_of(Task::Pretraining);
  for (const base::Path& from : {run.run, exported(Task::Pretraining),
                                 exported(Task::Pretraining, HuggingFaceClass::Encoder)}) {
    contract::ModelShape shape = run.config.model;
    shape.task = Task::Classification;
    shape.labels = 2;
    const contract::TensorTable table = contract::make_tensor_table(shape);
    const auto state = start(from, shape, vocabulary_of(run));
    EXPECT_TRUE(other_tensors(run.table, run.state.parameters, table, state.parameters).empty())
        << "encoder and pooler";
    EXPECT_EQ(joined_notes(state.notes).find("no bert.pooler"), std::string::npos);
  }
}

TEST_F(AnyModelOf, PositionsOfALongerModelAreCut) {
  const TaskRun& run = run_of(Task::QuestionAnswering);
  contract::ModelShape shape = run.config.model;
  shape.max_positions = 40;
  const contract::TensorTable table = contract::make_tensor_table(shape);
  const std::string positions = "bert.embeddings.position_embeddings.weight";
  for (const base::Path& from : {run.run, exported(Task::QuestionAnswering, {}, true)}) {
    const auto state = start(from, shape, vocabulary_of(run), true);
    EXPECT_EQ(joined_notes(state.notes), "the model has 48 positions; those beyond 40 were cut\n");
    for (const auto& [ours, theirs] : {std::pair(&state.parameters, &run.state.parameters),
                                       {&state.first_moment, &run.state.first_moment},
                                       {&state.second_moment, &run.state.second_moment}}) {
      EXPECT_TRUE(other_tensors(run.table, *theirs, table, *ours).empty());
      const auto from_begin = theirs->begin() + run.table.at(positions).offset;
      EXPECT_TRUE(
          std::equal(from_begin, from_begin + 40 * 32, ours->begin() + table.at(positions).offset));
    }
  }
}

}  // namespace
}  // namespace regatta::tests
